/*
 * See restore_rows.h. Each loader takes the next block of rows, and goes through it in
 * pieces that stay in its core's caches: first for the checksum, then for the table.
 * Then it gives the piece's memory back. A snapshot lists a table's buckets in order,
 * and a block has rows of several buckets, so two loaders seldom work on the same
 * bucket.
 *
 * Threads: the caller's and LOADERS - 1 more, or fewer if they cannot be started. Cost:
 * each row is read once from the file; most of the time goes into making rows.
 */
#include "ps/restore_rows.h"

#include <stdio.h>

#include "common/error.h"
#include "common/sync.h"

enum {
    LOADERS = 2,
    BLOCK = 64 << 10, /* rows taken at a time */
    PIECE = 2 << 10,  /* rows checksummed and loaded at a time */
};

struct crew {
    struct coxi_restoring *restoring;
    size_t part;
    /* of the values; constant like `layout` while the restore is under way */
    size_t row_bytes;
    struct coxi_state_layout layout;
    const struct coxi_table_rows *rows;
    atomic_uint_least64_t next; /* the first row that no loader has taken */
    atomic_bool failed;
};

struct loader {
    struct crew *crew;
    pthread_t thread;
    int r;
    char text[COXI_ERROR_TEXT_MAX];
};

/* Uses the bytes of some items of an array. */
typedef void use_array(const struct coxi_restoring *restoring, const void *data,
                       size_t len);

static void sum_array(const struct coxi_restoring *restoring, const void *data,
                      size_t len)
{
    coxi_st_sum_piece(restoring->sum, data, len);
}

static void drop_array(const struct coxi_restoring *restoring, const void *data,
                       size_t len)
{
    coxi_st_drop(restoring->file, data, len);
}

static void for_array(const struct crew *crew, const void *array, uint64_t first,
                      size_t n, size_t item_bytes, use_array *use)
{
    if (array != NULL) {
        use(crew->restoring, (const uint8_t *)array + first * item_bytes,
            n * item_bytes);
    }
}

/* Calls `use` for each array's bytes of the rows [first, first + n). */
static void for_rows(const struct crew *crew, uint64_t first, size_t n, use_array *use)
{
    const struct coxi_table_rows *rows = crew->rows;
    const struct coxi_state_layout *layout = &crew->layout;
    for_array(crew, rows->keys, first, n, sizeof(*rows->keys), use);
    for_array(crew, rows->values, first, n, crew->row_bytes, use);
    for (size_t s = 0; s < layout->n_slots + layout->n_row; s++) {
        for_array(crew, rows->states[s], first, n,
                  s < layout->n_slots ? crew->row_bytes : sizeof(float), use);
    }
    for_array(crew, rows->last, first, n, sizeof(*rows->last), use);
    for_array(crew, rows->made, first, n, sizeof(*rows->made), use);
    for_array(crew, rows->updates, first, n, sizeof(*rows->updates), use);
}

/* Loads the rows [first, end). */
static int load_block(const struct crew *crew, uint64_t first, uint64_t end)
{
    struct coxi_table_rows piece = *crew->rows;
    int r = 0;
    for (; r == 0 && first < end; first += piece.n) {
        piece.first = first;
        piece.n = end - first < PIECE ? end - first : PIECE;
        for_rows(crew, first, piece.n, sum_array);
        r = coxi_restore_enter(crew->restoring);
        if (r == 0) {
            r = coxi_table_load(crew->restoring->store->parts[crew->part].table,
                                &piece);
            coxi_restore_leave(crew->restoring);
        }
        for_rows(crew, first, piece.n, drop_array);
    }
    return r;
}

static void *load_blocks(void *arg)
{
    struct loader *loader = arg;
    struct crew *crew = loader->crew;
    uint64_t n = crew->rows->n;
    uint64_t first = 0;
    while (!atomic_load(&crew->failed) &&
           (first = atomic_fetch_add(&crew->next, BLOCK)) < n) {
        loader->r = load_block(crew, first, n - first < BLOCK ? n : first + BLOCK);
        if (loader->r != 0) {
            (void)snprintf(loader->text, sizeof(loader->text), "%s", coxi_error_text());
            atomic_store(&crew->failed, true);
        }
    }
    return NULL;
}

/* Makes the table's index large enough for all rows. */
static int begin(struct crew *crew)
{
    int r = coxi_restore_enter(crew->restoring);
    if (r == 0) {
        const struct coxi_part *part = &crew->restoring->store->parts[crew->part];
        crew->row_bytes = coxi_table_dim(part->variable) * sizeof(float);
        crew->layout = part->layout;
        coxi_table_expect(part->table, crew->rows->n);
        coxi_restore_leave(crew->restoring);
    }
    return r;
}

int coxi_restore_rows(struct coxi_restoring *restoring, size_t part,
                      const struct coxi_table_rows *rows)
{
    struct crew crew = {.restoring = restoring, .part = part, .rows = rows};
    struct loader loaders[LOADERS] = {{0}};
    size_t n_started = 0; /* loaders[0] is the caller */
    int r = begin(&crew);
    if (r != 0) {
        return r;
    }
    for (size_t i = 0; i < LOADERS; i++) {
        loaders[i].crew = &crew;
    }
    while (1 + n_started < LOADERS && rows->n > (1 + n_started) * BLOCK &&
           coxi_thread_start(&loaders[1 + n_started].thread, "restore", load_blocks,
                             &loaders[1 + n_started]) == 0) {
        n_started++;
    }
    (void)load_blocks(&loaders[0]);
    for (size_t i = 0; i <= n_started; i++) {
        if (i > 0) {
            (void)pthread_join(loaders[i].thread, NULL);
        }
        if (r == 0 && loaders[i].r != 0) {
            r = coxi_error(loaders[i].r, "%s", loaders[i].text);
        }
    }
    return r;
}
