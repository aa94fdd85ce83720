/*
 * See overlay.h. Cost: a bit for each row. While a file is opened: a set of at most 64
 * MiB, and one pass through all keys for each SET_KEYS keys of the files that build on
 * the first one. The tables themselves, if they must lie in memory. Threads: any.
 */
#include "checkpoint/overlay.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/safetensors_internal.h"
#include "common/error.h"
#include "common/hash.h"
#include "schema/wire.h"

enum {
    NAME_MAX_BYTES = COXI_WIRE_NAME_MAX + 64,
    SET_KEYS = 3 << 20, /* keys in the set at a time: 64 MiB */
    STRETCH = 1 << 14,  /* keys that are read at a time */
};

/* ---- tensors by name */

static bool ends_with(const char *name, const char *end)
{
    size_t len = strlen(name);
    size_t end_len = strlen(end);
    return len >= end_len && strcmp(name + len - end_len, end) == 0;
}

/* True for the list of removed keys of a table: no variable has that type. */
static bool is_removed(const struct coxi_st_tensor *tensor)
{
    return ends_with(tensor->name, "/removed") && strcmp(tensor->dtype, "U64") == 0;
}

/* Finds the tensor of one part of a table in a file. */
static const struct coxi_st_tensor *part_of(const struct coxi_st_file *file,
                                            const char *table, const char *part)
{
    char name[NAME_MAX_BYTES];
    (void)snprintf(name, sizeof(name), "%s/%s", table, part);
    return coxi_st_find(file, name);
}

static int bad(const char *name)
{
    return coxi_error(COX_EFORMAT,
                      "'%s' is not the same in all shards as in the newest", name);
}

/* ---- choosing the rows of a table */

/*
 * Goes through the keys of all files, the newest file first, and marks each row whose
 * key no newer file contains or lists as removed. A set holds the keys of the newer
 * files, at most SET_KEYS at a time: the hashes of keys divide them into passes, and
 * each pass has its own set. The oldest file's keys are only looked up.
 */
struct picking {
    uint64_t n_passes;
    uint64_t pass;
    uint64_t n_keys; /* how many the set may still take in this pass */
    bool changed;    /* more were read than had been counted */
    uint64_t *keys;  /* the set: 0 is a free place ... */
    bool has_zero;   /* ... so the key 0 has a place of its own */
    size_t capacity;
    uint64_t *some; /* STRETCH keys that were read */
    struct coxi_st_merged *merged;
    uint64_t *kept; /* of the current file */
};

typedef void take_key(struct picking *picking, uint64_t key, uint64_t row);

/* The place where the set has the key, or would have it. */
static uint64_t *place_of(struct picking *picking, uint64_t key)
{
    size_t i = coxi_hash_key(key) & (picking->capacity - 1);
    while (picking->keys[i] != 0 && picking->keys[i] != key) {
        i = (i + 1) & (picking->capacity - 1);
    }
    return &picking->keys[i];
}

static bool has_seen(struct picking *picking, uint64_t key)
{
    return key == 0 ? picking->has_zero : *place_of(picking, key) == key;
}

static void count_key(struct picking *picking, uint64_t key, uint64_t row)
{
    (void)key;
    (void)row;
    picking->n_keys++;
}

static void see(struct picking *picking, uint64_t key, uint64_t row)
{
    (void)row;
    if (picking->n_keys == 0) {
        picking->changed = true;
        return;
    }
    picking->n_keys--;
    if (key == 0) {
        picking->has_zero = true;
    } else {
        *place_of(picking, key) = key;
    }
}

static void keep_unseen(struct picking *picking, uint64_t key, uint64_t row)
{
    if (!has_seen(picking, key)) {
        picking->kept[row / 64] |= (uint64_t)1 << (row % 64);
        picking->merged->n_rows++;
    }
}

static void keep_and_see(struct picking *picking, uint64_t key, uint64_t row)
{
    keep_unseen(picking, key, row);
    see(picking, key, row);
}

/* Calls `take` for those keys of the list that belong to this pass. NULL: the list is
 * empty. */
static int for_keys(struct picking *picking, const struct coxi_st_tensor *list,
                    take_key *take)
{
    const uint64_t *keys = picking->some;
    uint64_t all = list != NULL ? list->shape[0] : 0;
    int r = 0;
    for (uint64_t first = 0, n; r == 0 && first < all; first += n) {
        n = all - first < STRETCH ? all - first : STRETCH;
        r = coxi_st_read(list, first * sizeof(*keys), picking->some, n * sizeof(*keys));
        for (uint64_t i = 0; r == 0 && i < n; i++) {
            uint64_t high = coxi_hash_key(keys[i]) >> 32;
            if (high * picking->n_passes >> 32 == picking->pass) {
                take(picking, keys[i], first + i);
            }
        }
    }
    return r;
}

/* Makes the set for this pass; it has room for the keys of all files but the oldest. */
static int make_set(struct picking *picking, const struct coxi_st_file *file,
                    const char *table)
{
    int r = 0;
    picking->n_keys = 0;
    for (size_t i = 1; r == 0 && i < file->n_under; i++) {
        const struct coxi_st_file *its = file->under[i];
        r = for_keys(picking, part_of(its, table, "keys"), count_key);
        r = r == 0 ? for_keys(picking, part_of(its, table, "removed"), count_key) : r;
    }
    if (r != 0) {
        return r;
    }
    picking->has_zero = false;
    picking->capacity = 16;
    while (picking->capacity < 2 * picking->n_keys) {
        picking->capacity *= 2;
    }
    free(picking->keys);
    picking->keys = calloc(picking->capacity, sizeof(*picking->keys));
    return picking->keys != NULL ? 0 : coxi_error_memory("a table of a checkpoint");
}

static int pick_pass(struct picking *picking, const struct coxi_st_file *file,
                     const char *table)
{
    int r = make_set(picking, file, table);
    for (size_t i = file->n_under; r == 0 && i-- > 0;) {
        const struct coxi_st_file *its = file->under[i];
        picking->kept = picking->merged->kept[i];
        r = for_keys(picking, part_of(its, table, "keys"),
                     i > 0 ? keep_and_see : keep_unseen);
        if (r == 0 && i > 0) {
            r = for_keys(picking, part_of(its, table, "removed"), see);
        }
    }
    if (r == 0 && picking->changed) {
        r = coxi_error(COX_EFORMAT, "the keys of '%s' changed while they were read",
                       table);
    }
    return r;
}

static bool is_list(const struct coxi_st_tensor *tensor)
{
    return tensor == NULL || (tensor->rank == 1 && strcmp(tensor->dtype, "U64") == 0);
}

/* Counts a table's keys, and its removed keys, in all files but the oldest. */
static int count_newer(const struct coxi_st_file *file, const char *table,
                       uint64_t *ret_n)
{
    for (size_t i = 0; i < file->n_under; i++) {
        const struct coxi_st_tensor *keys = part_of(file->under[i], table, "keys");
        const struct coxi_st_tensor *removed =
            part_of(file->under[i], table, "removed");
        if (!is_list(keys) || !is_list(removed)) {
            return bad(table);
        }
        *ret_n += i > 0 && keys != NULL ? keys->shape[0] : 0;
        *ret_n += i > 0 && removed != NULL ? removed->shape[0] : 0;
    }
    return 0;
}

/* Allocates memory that is freed when the file is closed. */
static void *own(struct coxi_st_file *file, size_t n, size_t bytes)
{
    void *memory = calloc(n, bytes);
    if (memory != NULL) {
        file->memory[file->n_memory++] = memory;
    }
    return memory;
}

/* Allocates a bit for each row of each file. */
static int make_merged(struct coxi_st_file *file, const char *table,
                       struct coxi_st_merged **ret)
{
    uint64_t words = 0;
    struct coxi_st_merged *merged = own(file, 1, sizeof(*merged));
    uint64_t **kept = own(file, file->n_under, sizeof(*kept));
    for (size_t i = 0; i < file->n_under; i++) {
        const struct coxi_st_tensor *keys = part_of(file->under[i], table, "keys");
        words += keys != NULL ? keys->shape[0] / 64 + 1 : 0;
    }
    uint64_t *bits = own(file, words + 1, sizeof(*bits));
    if (merged == NULL || kept == NULL || bits == NULL) {
        return coxi_error_memory("a table of a checkpoint");
    }
    for (size_t i = 0; i < file->n_under; i++) {
        const struct coxi_st_tensor *keys = part_of(file->under[i], table, "keys");
        kept[i] = bits;
        bits += keys != NULL ? keys->shape[0] / 64 + 1 : 0;
    }
    merged->kept = kept;
    *ret = merged;
    return 0;
}

static int pick(struct coxi_st_file *file, const char *table,
                struct coxi_st_merged **ret)
{
    struct picking picking = {.merged = NULL};
    uint64_t n = 0;
    int r = count_newer(file, table, &n);
    if (r == 0) {
        r = make_merged(file, table, &picking.merged);
    }
    if (r == 0) {
        picking.some = malloc(STRETCH * sizeof(*picking.some));
        r = picking.some != NULL ? 0 : coxi_error_memory("a table of a checkpoint");
    }
    picking.n_passes = n / SET_KEYS + 1;
    for (; r == 0 && picking.pass < picking.n_passes; picking.pass++) {
        r = pick_pass(&picking, file, table);
    }
    free(picking.keys);
    free(picking.some);
    *ret = picking.merged;
    return r;
}

/* ---- the contents */

/* Checks that each file that has the table has the tensor, with the same type and shape
 * as the newest. */
static int check_all(const struct coxi_st_file *file,
                     const struct coxi_st_tensor *newest, const char *table)
{
    for (size_t i = 0; i < file->n_under; i++) {
        const struct coxi_st_tensor *t = coxi_st_find(file->under[i], newest->name);
        const struct coxi_st_tensor *keys = part_of(file->under[i], table, "keys");
        if ((t == NULL) != (keys == NULL) ||
            (t != NULL && (t->rank == 0 || t->rank != newest->rank ||
                           strcmp(t->dtype, newest->dtype) != 0 ||
                           t->shape[0] != keys->shape[0] || coxi_st_row_bytes(t) == 0 ||
                           coxi_st_row_bytes(t) != coxi_st_row_bytes(newest)))) {
            return bad(newest->name);
        }
    }
    return 0;
}

static int copy_rows(void *arg, const void *data, size_t len)
{
    uint8_t **at = arg;
    memcpy(*at, data, len);
    *at += len;
    return 0;
}

/* Copies the marked rows of all files into memory, one after the other. */
static int gather(struct coxi_st_file *file, struct coxi_st_tensor *tensor)
{
    uint8_t *memory = own(file, tensor->bytes + 1, 1);
    uint8_t *at = memory;
    if (memory == NULL) {
        return coxi_error_memory("a table of a checkpoint");
    }
    int r = coxi_st_stream(file, tensor, copy_rows, &at);
    if (r == 0) {
        tensor->data = memory;
        file->merged[tensor - file->tensors] = NULL;
    }
    return r;
}

static int merge_tensor(struct coxi_st_file *file, struct coxi_st_tensor *tensor,
                        const char *table, const struct coxi_st_merged *merged,
                        enum coxi_overlay_rows rows)
{
    int r = check_all(file, tensor, table);
    if (r != 0) {
        return r;
    }
    tensor->data = NULL;
    tensor->file = NULL;
    file->merged[tensor - file->tensors] = merged;
    tensor->shape[0] = merged->n_rows;
    tensor->bytes = merged->n_rows * coxi_st_row_bytes(tensor);
    return rows == COXI_OVERLAY_IN_MEMORY ? gather(file, tensor) : 0;
}

/* Merges all tensors of a table that have a row for each key. */
static int merge_table(struct coxi_st_file *file, const char *table,
                       enum coxi_overlay_rows rows)
{
    struct coxi_st_merged *merged;
    size_t len = strlen(table);
    int r = pick(file, table, &merged);
    for (size_t i = 0; r == 0 && i < file->n_tensors; i++) {
        struct coxi_st_tensor *tensor = &file->tensors[i];
        if (strncmp(tensor->name, table, len) == 0 && tensor->name[len] == '/' &&
            strchr(tensor->name + len + 1, '/') == NULL &&
            !ends_with(tensor->name, "/step") && !ends_with(tensor->name, "/rate")) {
            r = merge_tensor(file, tensor, table, merged, rows);
        }
    }
    return r;
}

static int merge_tables(struct coxi_st_file *file, enum coxi_overlay_rows rows)
{
    const struct coxi_st_file *newest = file->under[file->n_under - 1];
    int r = 0;
    for (size_t i = 0; r == 0 && i < newest->n_tensors; i++) {
        char table[NAME_MAX_BYTES];
        const char *name = newest->tensors[i].name;
        if (is_removed(&newest->tensors[i]) &&
            (size_t)snprintf(table, sizeof(table), "%.*s",
                             (int)(strlen(name) - strlen("/removed")),
                             name) < sizeof(table)) {
            r = merge_table(file, table, rows);
        }
    }
    return r;
}

/* ---- */

/* Takes each tensor from the newest file that has it. */
static void take_newest(struct coxi_st_file *file)
{
    for (size_t i = file->n_under; i-- > 0;) {
        const struct coxi_st_file *from = file->under[i];
        for (size_t t = 0; t < from->n_tensors; t++) {
            if (!is_removed(&from->tensors[t]) &&
                coxi_st_find(file, from->tensors[t].name) == NULL) {
                file->tensors[file->n_tensors++] = from->tensors[t];
            }
        }
    }
}

int coxi_overlay_open(struct coxi_st_file *const *files, size_t n,
                      enum coxi_overlay_rows rows, struct coxi_st_file **ret)
{
    size_t n_tensors = 0;
    struct coxi_st_file *file = coxi_st_file_new();
    if (file == NULL) {
        return coxi_error_memory("a checkpoint");
    }
    for (size_t i = 0; i < n; i++) {
        n_tensors += files[i]->n_tensors;
    }
    file->under = calloc(n + 1, sizeof(struct coxi_st_file *));
    file->tensors = calloc(n_tensors + 1, sizeof(*file->tensors));
    /* One entry for each tensor that is gathered, three for each table. */
    file->memory = calloc(4 * n_tensors + 1, sizeof(*file->memory));
    file->merged = calloc(n_tensors + 1, sizeof(struct coxi_st_merged *));
    if (file->under == NULL || file->tensors == NULL || file->memory == NULL ||
        file->merged == NULL) {
        coxi_st_close(file);
        return coxi_error_memory("a checkpoint");
    }
    memcpy(file->under, files, n * sizeof(struct coxi_st_file *));
    file->n_under = n;
    file->header = json_incref(files[n - 1]->header);
    take_newest(file);
    int r = rows != COXI_OVERLAY_NEWEST ? merge_tables(file, rows) : 0;
    if (r != 0) {
        file->n_under = 0; /* so that coxi_st_close leaves the files to the caller */
        coxi_st_close(file);
        return r;
    }
    *ret = file;
    return 0;
}
