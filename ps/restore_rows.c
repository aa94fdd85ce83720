/*
 * See restore_internal.h. Each loader takes the next block of rows, and goes through it
 * in pieces that stay in its core's caches: first for the checksum, then for the table.
 * A snapshot lists a table's buckets in order,
 * and a block has rows of several buckets, so two loaders seldom work on the same
 * bucket.
 *
 * Threads: the caller's and LOADERS - 1 more, or fewer if they cannot be started. Cost:
 * each row is read once from the file; most of the time goes into making rows.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/disk.h"
#include "common/error.h"
#include "common/sync.h"
#include "common/trace.h"
#include "ps/restore_internal.h"

enum {
    LOADERS = 2,
    BLOCK = 64 << 10,       /* rows taken at a time */
    PIECE = 2 << 10,        /* rows checksummed and loaded at a time */
    REMOTE_BYTES = 4 << 20, /* of an array, instead, from a store */
};

struct crew {
    struct coxi_restoring *restoring;
    size_t part;
    const struct coxi_restore_arrays *arrays;
    uint64_t piece; /* rows that are read at a time */
    size_t n_states;
    bool ages;
    uint64_t run;               /* for which the rows are loaded, for traces */
    atomic_uint_least64_t next; /* the first row that no loader has taken */
    atomic_bool failed;
    const atomic_bool *gives_up; /* of the restore's thread: common/disk.h */
};

struct loader {
    struct crew *crew;
    pthread_t thread;
    int r;
    char text[COXI_ERROR_TEXT_MAX];
};

/* The rows at these places, for the table. */
static struct coxi_table_rows rows_at(const struct crew *crew, size_t n,
                                      const void *const at[COXI_RESTORE_ARRAYS_MAX])
{
    struct coxi_table_rows rows = {.n = n, .keys = at[0], .values = at[1]};
    for (size_t s = 0; s < crew->n_states; s++) {
        rows.states[s] = at[2 + s];
    }
    if (crew->ages) {
        rows.last = at[2 + crew->n_states];
        rows.made = at[3 + crew->n_states];
        rows.updates = at[4 + crew->n_states];
    }
    return rows;
}

static int load_piece(const struct crew *crew, size_t n,
                      const void *const at[COXI_RESTORE_ARRAYS_MAX])
{
    const struct coxi_table_rows rows = rows_at(crew, n, at);
    int r = coxi_restore_enter(crew->restoring);
    if (r == 0) {
        r = coxi_table_load(crew->restoring->store->parts[crew->part].table, &rows);
        coxi_restore_leave(crew->restoring);
    }
    return r;
}

/* Loads the rows [first, end), piece by piece, through `room`. */
static int load_block(const struct crew *crew, uint64_t first, uint64_t end, void *room)
{
    const void *at[COXI_RESTORE_ARRAYS_MAX] = {NULL};
    int r = 0;
    for (uint64_t n; r == 0 && first < end; first += n) {
        n = end - first < crew->piece ? end - first : crew->piece;
        r = coxi_restore_read_rows(crew->restoring, crew->arrays, first, n, room, at);
        r = r == 0 ? load_piece(crew, n, at) : r;
    }
    return r;
}

static void *load_blocks(void *arg)
{
    struct loader *loader = arg;
    struct crew *crew = loader->crew;
    uint64_t n = crew->arrays->rows;
    uint64_t first = 0;
    uint64_t begun_ns = coxi_trace_begin();
    coxi_trace_work_for(crew->run);
    coxi_disk_give_up_when(crew->gives_up);
    void *room = coxi_restore_room(crew->arrays, crew->piece);
    loader->r = room != NULL ? 0 : COX_ENOMEM;
    while (loader->r == 0 && !atomic_load(&crew->failed) &&
           (first = atomic_fetch_add(&crew->next, BLOCK)) < n) {
        loader->r =
            load_block(crew, first, n - first < BLOCK ? n : first + BLOCK, room);
    }
    if (loader->r != 0) {
        (void)snprintf(loader->text, sizeof(loader->text), "%s", coxi_error_text());
        atomic_store(&crew->failed, true);
    }
    free(room);
    coxi_trace_end_part(begun_ns, COXI_TRACE_LOADER, 0);
    return NULL;
}

/* Makes the table's index large enough for all rows. */
static int begin(struct crew *crew)
{
    int r = coxi_restore_enter(crew->restoring);
    if (r == 0) {
        const struct coxi_part *part = &crew->restoring->store->parts[crew->part];
        crew->n_states = part->layout.n_slots + part->layout.n_row;
        coxi_table_expect(part->table, crew->arrays->rows);
        coxi_restore_leave(crew->restoring);
    }
    return r;
}

/* From a store, so many rows that the longest array of a piece has REMOTE_BYTES. */
static uint64_t choose_piece(const struct coxi_restoring *restoring,
                             const struct coxi_restore_arrays *arrays)
{
    size_t longest = 1;
    for (size_t i = 0; i < arrays->n; i++) {
        size_t bytes = arrays->all[i].item_bytes;
        longest = bytes > longest ? bytes : longest;
    }
    uint64_t rows = REMOTE_BYTES / longest;
    rows = rows < BLOCK ? rows : BLOCK;
    rows = rows < arrays->rows ? rows : arrays->rows;
    return coxi_st_is_remote(restoring->file) && rows > PIECE ? rows : PIECE;
}

int coxi_restore_rows(struct coxi_restoring *restoring, size_t part,
                      const struct coxi_restore_arrays *arrays, bool ages)
{
    struct crew crew = {.restoring = restoring,
                        .part = part,
                        .arrays = arrays,
                        .piece = choose_piece(restoring, arrays),
                        .ages = ages,
                        .run = coxi_trace_works_for(),
                        .gives_up = coxi_disk_flag()};
    struct loader loaders[LOADERS] = {{0}};
    size_t n_started = 0; /* loaders[0] is the caller */
    int r = begin(&crew);
    if (r != 0) {
        return r;
    }
    for (size_t i = 0; i < LOADERS; i++) {
        loaders[i].crew = &crew;
    }
    while (1 + n_started < LOADERS && arrays->rows > (1 + n_started) * BLOCK &&
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
