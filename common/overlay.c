/* See overlay.h. Cost: a hash set of all keys, 16 to 32 bytes each, while it is put together;
 * the memory of the tables. Threads: any. */
#include "common/overlay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/hash.h"
#include "common/safetensors_internal.h"
#include "schema/wire.h"

enum { NAME_MAX_BYTES = COXI_WIRE_NAME_MAX + 64 };

/* ---- tensors by name */

static bool ends_with(const char *name, const char *end)
{
    size_t len = strlen(name);
    size_t end_len = strlen(end);
    return len >= end_len && strcmp(name + len - end_len, end) == 0;
}

/* The keys that went of a table: no variable is of that type. */
static bool is_removed(const struct coxi_st_tensor *tensor)
{
    return ends_with(tensor->name, "/removed") && strcmp(tensor->dtype, "U64") == 0;
}

/* What the file has of a table. */
static const struct coxi_st_tensor *part_of(const struct coxi_st_file *file,
                                            const char *table, const char *part)
{
    char name[NAME_MAX_BYTES];
    (void)snprintf(name, sizeof(name), "%s/%s", table, part);
    return coxi_st_find(file, name);
}

static int bad(const char *name)
{
    return coxi_error(COX_EFORMAT, "'%s' is not in all shards what it is in the newest",
                      name);
}

/* ---- which rows of a table there are */

/* Where a row is: in which file, at which place. */
struct place {
    uint32_t file;
    uint64_t row;
};

struct picking {
    uint64_t *keys; /* a hash set of what has been seen ... */
    bool *used;
    size_t capacity;
    struct place *places; /* ... and the rows that count */
    size_t n;
};

/* False: it was there. */
static bool see(struct picking *picking, uint64_t key)
{
    size_t i = coxi_hash_key(key) & (picking->capacity - 1);
    while (picking->used[i]) {
        if (picking->keys[i] == key) {
            return false;
        }
        i = (i + 1) & (picking->capacity - 1);
    }
    picking->used[i] = true;
    picking->keys[i] = key;
    return true;
}

static bool is_list(const struct coxi_st_tensor *tensor)
{
    return tensor != NULL && tensor->rank == 1 && strcmp(tensor->dtype, "U64") == 0;
}

/* Keys that a file has of a table, those that went among them. */
static int count_keys(const struct coxi_st_file *file, const char *table, size_t *ret_n)
{
    const struct coxi_st_tensor *keys = part_of(file, table, "keys");
    const struct coxi_st_tensor *removed = part_of(file, table, "removed");
    if ((keys != NULL && !is_list(keys)) || (removed != NULL && !is_list(removed))) {
        return bad(table);
    }
    *ret_n += keys != NULL ? keys->shape[0] : 0;
    *ret_n += removed != NULL ? removed->shape[0] : 0;
    return 0;
}

/* The rows of one file that no newer one has or has removed. */
static void pick_from(struct picking *picking, const struct coxi_st_file *file,
                      uint32_t number, const char *table)
{
    const struct coxi_st_tensor *keys = part_of(file, table, "keys");
    const struct coxi_st_tensor *removed = part_of(file, table, "removed");
    for (uint64_t i = 0; keys != NULL && i < keys->shape[0]; i++) {
        if (see(picking, ((const uint64_t *)keys->data)[i])) {
            picking->places[picking->n++] = (struct place){number, i};
        }
    }
    for (uint64_t i = 0; removed != NULL && i < removed->shape[0]; i++) {
        (void)see(picking, ((const uint64_t *)removed->data)[i]);
    }
}

static void picking_fini(struct picking *picking)
{
    free(picking->keys);
    free(picking->used);
    free(picking->places);
}

static int pick(const struct coxi_st_file *file, const char *table,
                struct picking *picking)
{
    size_t n = 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i < file->n_under; i++) {
        r = count_keys(file->under[i], table, &n);
    }
    if (r != 0) {
        return r;
    }
    picking->capacity = 16;
    while (picking->capacity < 2 * n) {
        picking->capacity *= 2;
    }
    picking->keys = malloc(picking->capacity * sizeof(*picking->keys));
    picking->used = calloc(picking->capacity, sizeof(*picking->used));
    picking->places = malloc((n + 1) * sizeof(*picking->places));
    if (picking->keys == NULL || picking->used == NULL || picking->places == NULL) {
        return coxi_error_memory("a table of a checkpoint");
    }
    for (size_t i = file->n_under; i-- > 0;) {
        pick_from(picking, file->under[i], (uint32_t)i, table);
    }
    return 0;
}

/* ---- their contents */

/* Bytes of a row, or 0: of a type that we do not know. */
static size_t row_bytes(const struct coxi_st_tensor *tensor)
{
    size_t bytes = coxi_st_dtype_size(tensor->dtype);
    for (uint32_t i = 1; i < tensor->rank; i++) {
        bytes *= tensor->shape[i];
    }
    return bytes;
}

/* The tensor in each of the files that have the table, as it is in the newest. */
static int find_all(const struct coxi_st_file *file,
                    const struct coxi_st_tensor *newest, const char *table,
                    const uint8_t **ret_data)
{
    for (size_t i = 0; i < file->n_under; i++) {
        const struct coxi_st_tensor *t = coxi_st_find(file->under[i], newest->name);
        const struct coxi_st_tensor *keys = part_of(file->under[i], table, "keys");
        ret_data[i] = t != NULL ? t->data : NULL;
        if ((t == NULL) != (keys == NULL) ||
            (t != NULL &&
             (t->rank == 0 || t->rank != newest->rank ||
              strcmp(t->dtype, newest->dtype) != 0 || t->shape[0] != keys->shape[0] ||
              row_bytes(t) == 0 || row_bytes(t) != row_bytes(newest)))) {
            return bad(newest->name);
        }
    }
    return 0;
}

/* Puts the rows together in memory of their own. */
static int gather(struct coxi_st_file *file, struct coxi_st_tensor *tensor,
                  const char *table, const struct picking *picking)
{
    const uint8_t **data = calloc(file->n_under, sizeof(*data));
    size_t bytes = row_bytes(tensor);
    uint8_t *memory = malloc(picking->n * bytes + 1);
    int r = data == NULL || memory == NULL
                ? coxi_error_memory("a table of a checkpoint")
                : find_all(file, tensor, table, data);
    if (r != 0) {
        free(memory);
        free(data);
        return r;
    }
    for (size_t i = 0; i < picking->n; i++) {
        const struct place *place = &picking->places[i];
        memcpy(memory + i * bytes, data[place->file] + place->row * bytes, bytes);
    }
    tensor->data = memory;
    tensor->shape[0] = picking->n;
    tensor->bytes = picking->n * bytes;
    file->memory[file->n_memory++] = memory;
    free(data);
    return 0;
}

/* All tensors of a table that have a row for each key. */
static int merge_table(struct coxi_st_file *file, const char *table)
{
    struct picking picking = {0};
    size_t len = strlen(table);
    int r = pick(file, table, &picking);
    for (size_t i = 0; r == 0 && i < file->n_tensors; i++) {
        struct coxi_st_tensor *tensor = &file->tensors[i];
        if (strncmp(tensor->name, table, len) == 0 && tensor->name[len] == '/' &&
            strchr(tensor->name + len + 1, '/') == NULL &&
            !ends_with(tensor->name, "/step") && !ends_with(tensor->name, "/rate")) {
            r = gather(file, tensor, table, &picking);
        }
    }
    picking_fini(&picking);
    return r;
}

static int merge_tables(struct coxi_st_file *file)
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
            r = merge_table(file, table);
        }
    }
    return r;
}

/* ---- */

/* Each tensor as the newest file has it that does. */
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

int coxi_overlay_open(struct coxi_st_file *const *files, size_t n, bool rows,
                      struct coxi_st_file **ret)
{
    size_t n_tensors = 0;
    struct coxi_st_file *file = calloc(1, sizeof(*file));
    if (file == NULL) {
        return coxi_error_memory("a checkpoint");
    }
    for (size_t i = 0; i < n; i++) {
        n_tensors += files[i]->n_tensors;
    }
    file->under = calloc(n + 1, sizeof(struct coxi_st_file *));
    file->tensors = calloc(n_tensors + 1, sizeof(*file->tensors));
    file->memory = calloc(n_tensors + 1, sizeof(*file->memory));
    if (file->under == NULL || file->tensors == NULL || file->memory == NULL) {
        coxi_st_close(file);
        return coxi_error_memory("a checkpoint");
    }
    memcpy(file->under, files, n * sizeof(struct coxi_st_file *));
    file->n_under = n;
    file->header = json_incref(files[n - 1]->header);
    take_newest(file);
    int r = rows ? merge_tables(file) : 0;
    if (r != 0) {
        file->n_under = 0; /* they stay the caller's */
        coxi_st_close(file);
        return r;
    }
    *ret = file;
    return 0;
}
