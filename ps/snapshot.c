/*
 * Writing a snapshot of the store (coxi_store_snapshot): one safetensors file with
 *   <name> or <name>/part_<i>     a dense variable, or its i-th shard
 *   <name>/keys, <name>/values    a table: U64 [rows], F32 [rows, dim]
 *   .../<state>                   optimizer state (ps/optimizer.h): F32, in the shape of
 *                                 the values, or [rows] where it is one for a row
 *   <name>/last, made, updates    of a table whose rows go again: U64 [rows] each, what
 *                                 struct coxi_row_life says (ps/table.h)
 *   .../step                      of what has an optimizer: U64 [1], updates by gradients
 * and, in __metadata__, what it belongs to and the applied set of the same moment.
 * Commits wait while it is written, pulls do not.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/dtype.h"
#include "common/error.h"
#include "common/message.h"
#include "common/safetensors.h"
#include "common/sync.h"
#include "ps/optimizer.h"
#include "ps/store_internal.h"

enum content {
    CONTENT_VALUES,
    CONTENT_KEYS,
    CONTENT_LAST,
    CONTENT_MADE,
    CONTENT_UPDATES,
    CONTENT_STEP,
    CONTENT_STATE,
};
enum { TENSORS_MAX = CONTENT_STATE + COXI_STATES_MAX }; /* of a part */

/* A tensor of the file and where its data come from. */
struct source {
    const struct coxi_part *part;
    enum content content;
    size_t state; /* which one */
    char name[COXI_TENSOR_NAME_MAX];
};

struct plan {
    struct coxi_st_tensor *tensors;
    struct source *sources;
    size_t n;
};

/* What follows the variable's name and part, or NULL. */
static const char *suffix_of(const struct source *source)
{
    switch (source->content) {
    case CONTENT_VALUES:
        return source->part->table != NULL ? "values" : NULL;
    case CONTENT_KEYS:
        return "keys";
    case CONTENT_LAST:
        return "last";
    case CONTENT_MADE:
        return "made";
    case CONTENT_UPDATES:
        return "updates";
    case CONTENT_STEP:
        return "step";
    case CONTENT_STATE:
        return source->part->layout.states[source->state].name;
    }
    return NULL;
}

void coxi_part_tensor_name(const struct coxi_part *part, const char *suffix,
                           char ret[COXI_TENSOR_NAME_MAX])
{
    const struct coxi_variable *v = part->variable;
    int used = snprintf(ret, COXI_TENSOR_NAME_MAX, "%s", v->name);
    if (part->table == NULL && v->n_shards > 1) {
        used += snprintf(ret + used, COXI_TENSOR_NAME_MAX - (size_t)used, "/part_%td",
                         part->shard - v->shards);
    }
    if (suffix != NULL) {
        (void)snprintf(ret + used, COXI_TENSOR_NAME_MAX - (size_t)used, "/%s", suffix);
    }
}

/* Its type, shape and size. */
static void describe(const struct source *source, struct coxi_st_tensor *tensor)
{
    const struct coxi_part *part = source->part;
    const struct coxi_variable *v = part->variable;
    bool wide = source->content != CONTENT_VALUES && source->content != CONTENT_STATE;
    bool per_row =
        source->content == CONTENT_STATE && source->state >= part->layout.n_slots;
    tensor->dtype = wide ? "U64" : coxi_dtype_name(v->dtype);
    tensor->bytes = wide ? sizeof(uint64_t) : coxi_dtype_size(v->dtype);
    if (part->table != NULL) {
        tensor->rank = 2;
        tensor->shape[0] = coxi_table_rows(part->table);
        tensor->shape[1] = coxi_table_dim(v);
    } else {
        tensor->rank = v->rank;
        memcpy(tensor->shape, v->shape, sizeof(tensor->shape));
        tensor->shape[0] = part->shard->count;
    }
    if (wide || per_row) {
        tensor->rank = 1;
    }
    if (source->content == CONTENT_STEP) {
        tensor->shape[0] = 1;
    }
    for (uint32_t i = 0; i < tensor->rank; i++) {
        tensor->bytes *= tensor->shape[i];
    }
}

static void add_tensor(struct plan *plan, const struct coxi_part *part,
                       enum content content, size_t state)
{
    struct source *source = &plan->sources[plan->n];
    struct coxi_st_tensor *tensor = &plan->tensors[plan->n];
    *source = (struct source){.part = part, .content = content, .state = state};
    coxi_part_tensor_name(part, suffix_of(source), source->name);
    *tensor = (struct coxi_st_tensor){.name = source->name};
    describe(source, tensor);
    plan->n++;
}

/* Of one part, those with elements of `size` bytes. */
static void plan_part(struct plan *plan, const struct coxi_part *part, size_t size)
{
    if (part->dense == NULL && part->table == NULL) {
        return;
    }
    if (size == sizeof(uint64_t) && part->table != NULL) {
        add_tensor(plan, part, CONTENT_KEYS, 0);
        if (coxi_table_ages(part->table)) {
            add_tensor(plan, part, CONTENT_LAST, 0);
            add_tensor(plan, part, CONTENT_MADE, 0);
            add_tensor(plan, part, CONTENT_UPDATES, 0);
        }
    }
    if (size == sizeof(uint64_t) &&
        part->variable->optimizer.kind != COXI_OPTIMIZER_NONE) {
        add_tensor(plan, part, CONTENT_STEP, 0);
    }
    if (size == coxi_dtype_size(part->variable->dtype)) {
        add_tensor(plan, part, CONTENT_VALUES, 0);
        for (size_t i = 0; i < part->layout.n_slots + part->layout.n_row; i++) {
            add_tensor(plan, part, CONTENT_STATE, i);
        }
    }
}

static int make_plan(const struct coxi_store *store, struct plan *plan)
{
    size_t n = store->n_parts * TENSORS_MAX + 1;
    *plan = (struct plan){0};
    plan->tensors = calloc(n, sizeof(*plan->tensors));
    plan->sources = calloc(n, sizeof(*plan->sources));
    if (plan->tensors == NULL || plan->sources == NULL) {
        return coxi_error_memory("a snapshot");
    }
    /* Large elements first keeps every tensor aligned to its own element size. */
    for (size_t size = 8; size > 0; size /= 2) {
        for (size_t i = 0; i < store->n_parts; i++) {
            plan_part(plan, &store->parts[i], size);
        }
    }
    return 0;
}

struct row_writer {
    struct coxi_st_writer *file;
    enum content content;
    size_t offset; /* in the row's state */
    size_t bytes;  /* of what is written of a row */
};

static int write_row(void *arg, uint64_t key, const float *values, const float *state,
                     const struct coxi_row_life *life)
{
    const struct row_writer *writer = arg;
    uint64_t updates = life != NULL ? life->updates : 0;
    switch (writer->content) {
    case CONTENT_KEYS:
        return coxi_st_write(writer->file, &key, sizeof(key));
    case CONTENT_VALUES:
        return coxi_st_write(writer->file, values, writer->bytes);
    case CONTENT_STATE:
        return coxi_st_write(writer->file, state + writer->offset, writer->bytes);
    case CONTENT_LAST:
        return coxi_st_write(writer->file, &life->last, sizeof(life->last));
    case CONTENT_MADE:
        return coxi_st_write(writer->file, &life->made, sizeof(life->made));
    case CONTENT_UPDATES:
        return coxi_st_write(writer->file, &updates, sizeof(updates));
    case CONTENT_STEP:
        break;
    }
    return COX_EINVAL;
}

static int write_table(struct coxi_st_writer *file, const struct source *source)
{
    const struct coxi_part *part = source->part;
    size_t n_slots = part->layout.n_slots;
    size_t dim = coxi_table_dim(part->variable);
    struct row_writer writer = {file, source->content, source->state * dim,
                                dim * sizeof(float)};
    if (source->content == CONTENT_STATE && source->state >= n_slots) {
        writer.offset = n_slots * dim + (source->state - n_slots);
        writer.bytes = sizeof(float);
    }
    return coxi_table_each(part->table, write_row, &writer);
}

static int write_tensor(struct coxi_st_writer *file, const struct source *source)
{
    const struct coxi_part *part = source->part;
    if (source->content == CONTENT_STEP) {
        uint64_t step = part->table != NULL ? coxi_table_step(part->table)
                                            : coxi_dense_step(part->dense);
        return coxi_st_write(file, &step, sizeof(step));
    }
    if (part->table != NULL) {
        return write_table(file, source);
    }
    size_t bytes = 0;
    const void *data = source->content == CONTENT_STATE
                           ? coxi_dense_state(part->dense, source->state, &bytes)
                           : coxi_dense_data(part->dense, &bytes);
    return coxi_st_write(file, data, bytes);
}

/* "first-last:segment:ps,ps ...": a segment that is its closure's last has a '.' after its
 * number. */
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

static int write_file(const struct coxi_store *store,
                      const struct coxi_snapshot *snapshot, const struct plan *plan,
                      struct coxi_snapshot_file *ret)
{
    struct coxi_buffer applied = {0};
    struct coxi_st_writer *file;
    char run[32];
    char generation[32];
    char number[32];
    char ps[32];
    char watermark[32];
    (void)snprintf(run, sizeof(run), "%016" PRIx64, store->session.run);
    (void)snprintf(generation, sizeof(generation), "%" PRIu64,
                   store->session.generation);
    (void)snprintf(number, sizeof(number), "%" PRIu64, snapshot->number);
    (void)snprintf(ps, sizeof(ps), "%" PRIu32, store->ps_index);
    (void)snprintf(watermark, sizeof(watermark), "%" PRIu64, ret->applied.watermark);
    int r = applied_text(&ret->applied, &applied);
    if (r == 0) {
        const struct coxi_st_metadata metadata[] = {
            {"format", "coxswain-1"},
            {"run", run},
            {"generation", generation},
            {"checkpoint", number},
            {"ps", ps},
            {"watermark", watermark},
            {"applied", (const char *)applied.data},
        };
        r = coxi_st_create(snapshot->path, plan->tensors, plan->n, metadata,
                           sizeof(metadata) / sizeof(*metadata), &file);
    }
    if (r == COX_EIO) {
        r = coxi_error(r,
                       "ps %" PRIu32 ": %s (client and ps must see the same directory)",
                       store->ps_index, coxi_error_text());
    }
    coxi_buffer_fini(&applied);
    if (r != 0) {
        return r;
    }
    for (size_t i = 0; r == 0 && i < plan->n; i++) {
        r = write_tensor(file, &plan->sources[i]);
    }
    if (r != 0) {
        coxi_st_abandon(file);
        return r;
    }
    return coxi_st_finish(file, &ret->bytes, &ret->crc32);
}

/* Writes it: commits wait meanwhile. */
static int take_snapshot(struct coxi_store *store, const struct coxi_snapshot *snapshot,
                         struct coxi_snapshot_file *ret)
{
    struct plan plan = {0};
    (void)pthread_rwlock_rdlock(&store->registry);
    (void)pthread_rwlock_wrlock(&store->moment);
    int r = coxi_store_fenced(store, &snapshot->session);
    if (r == 0) {
        r = coxi_applied_list(store->applied, &ret->applied);
    }
    if (r == 0) {
        r = make_plan(store, &plan);
    }
    if (r == 0) {
        r = write_file(store, snapshot, &plan, ret);
    }
    (void)pthread_rwlock_unlock(&store->moment);
    (void)pthread_rwlock_unlock(&store->registry);
    free(plan.tensors);
    free(plan.sources);
    if (r != 0) {
        coxi_applied_list_fini(&ret->applied);
    }
    return r;
}

/* What was written last, with an applied set of the caller's own. */
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
    struct coxi_snapshot_file file = {0};
    struct coxi_last_snapshot *last = &store->last;
    int r = 0;
    coxi_lock(&store->snapshots);
    bool same_client = coxi_session_equal(&last->session, &snapshot->session);
    if (same_client && snapshot->number < last->number) {
        r = coxi_error(COX_EEXIST, "ps %u has written snapshot %llu since",
                       store->ps_index, (unsigned long long)last->number);
    } else if (!same_client || snapshot->number > last->number) {
        r = take_snapshot(store, snapshot, &file);
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
