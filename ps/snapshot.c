/*
 * Writes a snapshot of the store (coxi_store_snapshot): one safetensors file (its
 * tensors: ps/snapshot_plan.h). Its __metadata__ names the run and the ps, and holds
 * the applied set of the same moment.
 *
 * Commits wait only while the cut is made. After that, pulls and commits go on; before
 * a thread changes a row or block of the cut, it makes a copy (ps/table_cut.c,
 * ps/dense_cut.c). The writer copies a block at a time with the registry read, and
 * writes to the file without any lock. If the run is forgotten meanwhile, the cuts are
 * freed with its tables, and the snapshot ends.
 *
 * Threads: any, one snapshot at a time. Memory: a block, the buffers of the file's
 * writer, and the copies.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "checkpoint/safetensors.h"
#include "common/error.h"
#include "common/sync.h"
#include "net/message.h"
#include "ps/snapshot_plan.h"

/* A snapshot under way. */
struct coxi_taking {
    struct coxi_store *store;
    const struct coxi_snapshot *request;
    const struct coxi_file_sink *sink; /* NULL: the file of the request */
    struct coxi_plan plan;
    struct coxi_st_writer *file;
    uint8_t *room; /* for a block of rows or a piece of a dense variable */
    struct coxi_snapshot_file done;
};

/* ---- how long others may have to wait for a lock */

/* CPU time of this thread, which excludes preemption. */
static uint64_t cpu_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void note_hold(struct coxi_taking *taking, uint64_t since_us)
{
    uint64_t us = cpu_us() - since_us;
    if (us > taking->done.held_us_max) {
        taking->done.held_us_max = us;
    }
}

/* Takes the registry (read) if the cuts still exist. COX_EFENCED: the run was
 * forgotten. */
static int enter(struct coxi_taking *taking)
    COXI_ACQUIRES_SHARED_IF_0(taking->store->registry)
{
    coxi_read_lock(&taking->store->registry);
    if (taking->store->taking == taking) {
        return 0;
    }
    int r = coxi_store_fenced(taking->store, &taking->request->session);
    coxi_rw_unlock(&taking->store->registry);
    return coxi_error(r == 0 ? COX_EPSLOST : r,
                      "ps %" PRIu32 " was claimed anew during a snapshot",
                      taking->store->ps_index);
}

static void leave(struct coxi_taking *taking) COXI_RELEASES_ANY(taking->store->registry)
{
    coxi_rw_unlock(&taking->store->registry);
}

/* ---- the moment */

/* Begins to note changes, so that later snapshots can hold only these. */
static int begin_tracking(const struct coxi_plan *plan)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < plan->n_parts; i++) {
        struct coxi_table *table = plan->parts[i].part.table;
        if (table != NULL && coxi_table_tracked(table) == NULL) {
            r = coxi_table_track(table);
        }
    }
    return r;
}

/*
 * Finds the changes since the base, the snapshot on which this one builds. If the
 * request names the last snapshot, that one is durable, and is the base; otherwise the
 * base is the one on which the last snapshot was built. Returns the base's number, or 0
 * if this snapshot must hold everything.
 */
static uint64_t cut_tracks(struct coxi_tracking *tracking, const struct coxi_plan *plan,
                           const struct coxi_snapshot *request)
{
    bool last_counts = request->base != 0 && request->base == tracking->last;
    bool whole = true;
    for (size_t i = 0; i < plan->n_parts; i++) {
        const struct coxi_part *part = &plan->parts[i].part;
        if (part->table != NULL) {
            struct coxi_table_track *track = coxi_table_tracked(part->table);
            coxi_table_track_cut(track, last_counts);
            whole = whole && coxi_table_track_whole(track);
        } else {
            coxi_dense_track_cut(part->dense, last_counts);
        }
    }
    tracking->base = last_counts ? tracking->last : tracking->base;
    tracking->last = request->number;
    return whole && request->base == tracking->base ? request->base : 0;
}

static void begin_cuts(const struct coxi_plan *plan, bool changed)
{
    for (size_t i = 0; i < plan->n_parts; i++) {
        struct coxi_planned *planned = &plan->parts[i];
        if (planned->table != NULL) {
            coxi_table_cut_begin(planned->table, changed);
        } else if (!changed || coxi_dense_track_changed(planned->part.dense)) {
            coxi_dense_cut_begin(planned->dense);
        } else {
            coxi_dense_cut_free(planned->dense);
            planned->dense = NULL;
        }
    }
}

static void end_cuts(const struct coxi_plan *plan)
{
    for (size_t i = 0; i < plan->n_parts; i++) {
        const struct coxi_planned *planned = &plan->parts[i];
        if (planned->table != NULL) {
            coxi_table_cut_end(planned->table);
        } else if (planned->dense != NULL) {
            coxi_dense_cut_end(planned->dense);
        }
    }
}

static void free_cuts(const struct coxi_plan *plan)
{
    for (size_t i = 0; i < plan->n_parts; i++) {
        coxi_table_cut_free(plan->parts[i].table);
        coxi_dense_cut_free(plan->parts[i].dense);
    }
}

/* Makes the cut: waits until no commit is under way. Registry read. */
static int cut(struct coxi_taking *taking)
{
    struct coxi_store *store = taking->store;
    coxi_write_lock(&store->moment);
    uint64_t since = cpu_us();
    int r = coxi_applied_list(store->applied, &taking->done.applied);
    if (r == 0 && taking->request->track) {
        r = begin_tracking(&taking->plan);
    }
    if (r == 0) {
        if (taking->request->track) {
            taking->done.base =
                cut_tracks(&store->tracking, &taking->plan, taking->request);
        }
        begin_cuts(&taking->plan, taking->done.base != 0);
        store->taking = taking;
    }
    note_hold(taking, since);
    coxi_rw_unlock(&store->moment);
    return r;
}

/* Cuts everything, and makes the list of tensors. */
static int begin(struct coxi_taking *taking)
{
    struct coxi_store *store = taking->store;
    coxi_read_lock(&store->registry);
    int r = coxi_store_ready(store, &taking->request->session);
    if (r == 0) {
        r = coxi_plan_cut(store, &taking->plan);
    }
    if (r == 0) {
        r = cut(taking);
    }
    if (r != 0) {
        free_cuts(&taking->plan);
    } else {
        r = coxi_plan_tensors(&taking->plan, taking->done.base != 0);
    }
    coxi_rw_unlock(&store->registry);
    return r;
}

/* The bytes that changes have copied for the cuts so far. Registry read. */
static uint64_t saved_bytes(const struct coxi_plan *plan)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < plan->n_parts; i++) {
        const struct coxi_planned *planned = &plan->parts[i];
        bytes += planned->table != NULL ? coxi_table_cut_saved(planned->table) : 0;
        bytes += planned->dense != NULL ? coxi_dense_cut_saved(planned->dense) : 0;
    }
    return bytes;
}

/* Ends the cuts: changes copy nothing for them any more. */
static void end(struct coxi_taking *taking)
{
    struct coxi_store *store = taking->store;
    coxi_read_lock(&store->registry);
    bool ours = store->taking == taking;
    if (ours) {
        coxi_write_lock(&store->moment);
        uint64_t since = cpu_us();
        end_cuts(&taking->plan);
        store->taking = NULL;
        note_hold(taking, since);
        coxi_rw_unlock(&store->moment);
        taking->done.saved_bytes = saved_bytes(&taking->plan);
    }
    coxi_rw_unlock(&store->registry);
    if (ours) {
        free_cuts(&taking->plan);
    }
}

/* ---- the file */

/* Writes the set as text: "first-last:segment:ps,ps ...". A '.' after the segment's
 * number says that it is the last segment of these closures. */
static int applied_text(const struct coxi_applied_list *list, struct coxi_buffer *ret)
{
    int r = coxi_buffer_append_raw(ret, NULL, 0);
    for (size_t i = 0; r == 0 && i < list->n_intervals; i++) {
        const struct coxi_interval *in = &list->intervals[i];
        r = coxi_buffer_printf(ret, "%s%" PRIu64 "-%" PRIu64 ":%" PRIu32 "%s",
                               i > 0 ? " " : "", in->first, in->last, in->segment,
                               in->ends != 0 ? "." : "");
        for (uint32_t k = 0; r == 0 && k < in->touched_n; k++) {
            r = coxi_buffer_printf(ret, "%c%" PRIu32, k == 0 ? ':' : ',',
                                   list->touched[in->touched_at + k]);
        }
    }
    return r == 0 ? coxi_buffer_append_raw(ret, "", 1) : r;
}

static int create_with(struct coxi_taking *taking,
                       const struct coxi_st_metadata *metadata, size_t n)
{
    const struct coxi_plan *plan = &taking->plan;
    const char *path = taking->request->path;
    return taking->sink != NULL
               ? coxi_st_create_in(taking->sink, path, plan->tensors, plan->n_tensors,
                                   metadata, n, &taking->file)
               : coxi_st_create_beneath(taking->store->root, path, plan->tensors,
                                        plan->n_tensors, metadata, n, &taking->file);
}

/* Creates the file with its header. */
static int create_file(struct coxi_taking *taking)
{
    const struct coxi_session *session = &taking->request->session;
    const struct coxi_applied_list *list = &taking->done.applied;
    uint32_t ps_index = taking->store->ps_index;
    struct coxi_buffer applied = {0};
    char run[32];
    char generation[32];
    char number[32];
    char ps[32];
    char watermark[32];
    char base[32];
    (void)snprintf(run, sizeof(run), "%016" PRIx64, session->run);
    (void)snprintf(generation, sizeof(generation), "%" PRIu64, session->generation);
    (void)snprintf(number, sizeof(number), "%" PRIu64, taking->request->number);
    (void)snprintf(ps, sizeof(ps), "%" PRIu32, ps_index);
    (void)snprintf(watermark, sizeof(watermark), "%" PRIu64, list->watermark);
    (void)snprintf(base, sizeof(base), "%" PRIu64, taking->done.base);
    int r = applied_text(list, &applied);
    if (r == 0) {
        const struct coxi_st_metadata metadata[] = {
            {"format", "coxswain-1"},
            {"run", run},
            {"generation", generation},
            {"checkpoint", number},
            {"ps", ps},
            {"watermark", watermark},
            {"applied", (const char *)applied.data},
            {"base", base},
        };
        r = create_with(taking, metadata,
                        sizeof(metadata) / sizeof(*metadata) -
                            (taking->done.base == 0 ? 1 : 0));
    }
    if (r == COX_EIO && taking->sink == NULL) {
        r = coxi_error(r,
                       "ps %" PRIu32 ": %s (client and ps must see the same directory)",
                       ps_index, coxi_error_text());
    }
    coxi_buffer_fini(&applied);
    return r;
}

/* Appends a row's bytes to the tensor that has this content. */
static int put(struct coxi_taking *taking, const struct coxi_planned *planned,
               size_t content, const void *data, size_t bytes)
{
    return coxi_st_put(taking->file, planned->tensors[content], data, bytes);
}

static int put_life(struct coxi_taking *taking, const struct coxi_planned *planned,
                    const struct coxi_row_life *life)
{
    uint64_t updates = life->updates;
    int r = put(taking, planned, COXI_CONTENT_LAST, &life->last, sizeof(life->last));
    if (r == 0) {
        r = put(taking, planned, COXI_CONTENT_MADE, &life->made, sizeof(life->made));
    }
    return r == 0
               ? put(taking, planned, COXI_CONTENT_UPDATES, &updates, sizeof(updates))
               : r;
}

static int put_row(struct coxi_taking *taking, const struct coxi_planned *planned,
                   const struct coxi_cut_layout *layout, const uint8_t *row)
{
    size_t bytes = planned->dim * sizeof(float);
    const uint8_t *state = row + layout->state;
    int r = put(taking, planned, COXI_CONTENT_KEYS, row, sizeof(uint64_t));
    if (r == 0) {
        r = put(taking, planned, COXI_CONTENT_VALUES, row + layout->values, bytes);
    }
    for (size_t i = 0; r == 0 && i < planned->n_states; i++) {
        size_t n = i < planned->n_slots ? bytes : sizeof(float);
        r = put(taking, planned, COXI_CONTENT_STATE + i, state, n);
        state += n;
    }
    if (r == 0 && layout->life > 0) {
        r = put_life(taking, planned, (const void *)(row + layout->life));
    }
    return r;
}

/* ---- parts */

static int write_table(struct coxi_taking *taking, const struct coxi_planned *planned)
{
    struct coxi_cut_layout layout;
    bool more = true;
    int r = 0;
    while (r == 0 && more) {
        size_t n = 0;
        r = enter(taking);
        if (r != 0) {
            return r;
        }
        uint64_t since = cpu_us();
        layout = coxi_table_cut_layout(planned->table);
        r = coxi_table_cut_next(planned->table, taking->room, &n);
        note_hold(taking, since);
        leave(taking);
        more = r > 0;
        r = r < 0 ? r : 0;
        for (size_t i = 0; r == 0 && i < n; i++) {
            r = put_row(taking, planned, &layout, taking->room + i * layout.stride);
        }
    }
    return r;
}

static int write_dense(struct coxi_taking *taking, const struct coxi_planned *planned)
{
    struct coxi_dense_piece piece = {.n = 1};
    int r = 0;
    while (r == 0 && piece.n > 0) {
        r = enter(taking);
        if (r != 0) {
            return r;
        }
        uint64_t since = cpu_us();
        r = coxi_dense_cut_next(planned->dense, taking->room, &piece);
        note_hold(taking, since);
        leave(taking);
        for (size_t i = 0; r == 0 && i < piece.n; i++) {
            size_t array = piece.first + i;
            r = put(taking, planned,
                    array == 0 ? COXI_CONTENT_VALUES : COXI_CONTENT_STATE + array - 1,
                    taking->room + i * piece.bytes, piece.bytes);
        }
    }
    return r;
}

static int write_part(struct coxi_taking *taking, const struct coxi_planned *planned)
{
    int r = 0;
    if (planned->has_step) {
        r = put(taking, planned, COXI_CONTENT_STEP, &planned->step,
                sizeof(planned->step));
    }
    if (r == 0 && planned->has_rate) {
        r = put(taking, planned, COXI_CONTENT_RATE, &planned->rate,
                sizeof(planned->rate));
    }
    if (r == 0 && planned->n_removed > 0) {
        r = put(taking, planned, COXI_CONTENT_REMOVED, planned->removed,
                planned->n_removed * sizeof(*planned->removed));
    }
    if (r == 0 && planned->table != NULL) {
        r = write_table(taking, planned);
    } else if (r == 0 && planned->dense != NULL) {
        r = write_dense(taking, planned);
    }
    return r;
}

static int write_file(struct coxi_taking *taking)
{
    taking->room = malloc(taking->plan.room_bytes);
    if (taking->room == NULL) {
        return coxi_error_memory("a snapshot");
    }
    int r = create_file(taking);
    for (size_t i = 0; r == 0 && i < taking->plan.n_parts; i++) {
        r = write_part(taking, &taking->plan.parts[i]);
    }
    free(taking->room);
    return r;
}

/* Takes one snapshot. */
static int take_snapshot(struct coxi_store *store, const struct coxi_snapshot *request,
                         const struct coxi_file_sink *sink,
                         struct coxi_snapshot_file *ret)
{
    struct coxi_taking taking = {.store = store, .request = request, .sink = sink};
    int r = begin(&taking);
    if (r == 0) {
        r = write_file(&taking);
    }
    end(&taking);
    if (r == 0) {
        r = coxi_st_finish(taking.file, &taking.done.bytes, &taking.done.crc32);
    } else {
        coxi_st_abandon(taking.file);
    }
    coxi_plan_fini(&taking.plan);
    if (r != 0) {
        coxi_applied_list_fini(&taking.done.applied);
        return r;
    }
    *ret = taking.done;
    return 0;
}

/* Answers with the snapshot that was written last, with a copy of its applied set. */
static int answer_again(const struct coxi_snapshot_file *last,
                        struct coxi_snapshot_file *ret)
{
    const struct coxi_applied_list *list = &last->applied;
    struct coxi_snapshot_file file = *last;
    int r = coxi_applied_list_copy(list->watermark, list->intervals, list->n_intervals,
                                   list->touched, list->n_touched, &file.applied);
    if (r == 0) {
        *ret = file;
    }
    return r;
}

int coxi_store_snapshot(struct coxi_store *store, const struct coxi_snapshot *snapshot,
                        struct coxi_snapshot_file *ret)
{
    return coxi_store_snapshot_to(store, snapshot, NULL, ret);
}

int coxi_store_snapshot_to(struct coxi_store *store,
                           const struct coxi_snapshot *snapshot,
                           const struct coxi_file_sink *sink,
                           struct coxi_snapshot_file *ret)
{
    struct coxi_snapshot_file file = {0};
    struct coxi_last_snapshot *last = &store->last;
    int r = 0;
    coxi_lock(&store->snapshots);
    bool same_client = coxi_session_equal(&last->session, &snapshot->session);
    if (same_client && snapshot->number < last->number) {
        r = coxi_error(COX_EEXIST, "ps %u has written snapshot %llu since",
                       store->ps_index, (unsigned long long)last->number);
    } else if (!same_client || snapshot->number > last->number) {
        r = take_snapshot(store, snapshot, sink, &file);
        if (r == 0) {
            coxi_applied_list_fini(&last->file.applied);
            *last =
                (struct coxi_last_snapshot){snapshot->session, snapshot->number, file};
        }
    }
    if (r == 0) {
        r = answer_again(&last->file, ret);
    }
    coxi_unlock(&store->snapshots);
    return r;
}
