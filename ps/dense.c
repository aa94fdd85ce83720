/*
 * See dense.h. The data are divided into parts of a few blocks each; a part uses one of
 * a few locks, chosen by its number.
 *
 * A rule for whole rows (row-wise Adagrad) goes over a row's blocks twice, and changes
 * its accumulator in between. Meanwhile the lock `rows` keeps other gradients out. Any
 * other operation that changes values may come between two of its blocks.
 */
#include "ps/dense_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/elements.h"
#include "common/error.h"
#include "common/floats.h"
#include "common/initializer.h"
#include "common/optimizer.h"
#include "ps/memory.h"
#include "ps/staleness.h"

/* Fills every element as the initializer says: element i is column 0 of "row" i. */
static void fill(struct coxi_dense *dense, const struct coxi_shard *shard)
{
    const struct coxi_initializer *initializer = &dense->variable->initializer;
    memset(dense->data, 0, dense->bytes);
    if (dense->variable->dtype != COX_F32 || initializer->kind == COXI_INIT_ZEROS) {
        return;
    }
    uint64_t first = shard->begin * (dense->row_bytes / sizeof(float));
    float *values = (float *)(void *)dense->data;
    for (size_t i = 0; i < dense->bytes / sizeof(float); i++) {
        coxi_initializer_row(initializer, first + i, &values[i], 1);
    }
}

static size_t n_states(const struct coxi_dense *dense)
{
    return dense->layout.n_slots + dense->layout.n_row;
}

/* Allocates the elements and the state, and sets each kind of state to its start. */
static int allocate(struct coxi_dense *dense)
{
    dense->data = coxi_aligned_new(dense->bytes);
    bool whole = dense->data != NULL;
    for (size_t s = 0; s < n_states(dense); s++) {
        size_t bytes = coxi_dense_state_bytes(dense, s);
        float *state = coxi_aligned_new(bytes);
        dense->states[s] = state;
        whole = whole && state != NULL;
        for (size_t i = 0; state != NULL && i < bytes / sizeof(float); i++) {
            state[i] = dense->layout.states[s].start;
        }
    }
    return whole ? 0
                 : coxi_error(COX_ENOMEM, "out of memory for variable '%s'",
                              dense->variable->name);
}

static void release(struct coxi_dense *dense)
{
    if (dense->memory != NULL) {
        coxi_memory_give(dense->memory, coxi_dense_bytes(dense));
    }
    for (size_t s = 0; s < n_states(dense); s++) {
        free(dense->states[s]);
    }
    free(dense->data);
    coxi_dense_cut_free(dense->cut);
    free(dense);
}

/* Counts the shard's memory as part of the memory that the ps holds. */
static int take_memory(struct coxi_dense *dense, struct coxi_memory *memory)
{
    char whom[COXI_WIRE_NAME_MAX + 16];
    if (memory == NULL) {
        return 0;
    }
    (void)snprintf(whom, sizeof(whom), "variable '%s'", dense->variable->name);
    int r = coxi_memory_take(memory, coxi_dense_bytes(dense), whom);
    if (r == 0) {
        dense->memory = memory;
    }
    return r;
}

int coxi_dense_new(const struct coxi_variable *variable, const struct coxi_shard *shard,
                   struct coxi_memory *memory, struct coxi_dense **ret)
{
    struct coxi_dense *dense = calloc(1, sizeof(*dense));
    if (dense == NULL) {
        return coxi_error_memory("a variable");
    }
    dense->variable = variable;
    dense->shard = shard;
    atomic_init(&dense->version, COXI_VERSION_FIRST);
    dense->row_bytes = coxi_variable_row_bytes(variable);
    dense->bytes = dense->row_bytes * shard->count;
    dense->layout = coxi_optimizer_layout(variable);
    int r = take_memory(dense, memory);
    if (r == 0) {
        r = allocate(dense);
    }
    if (r != 0) {
        release(dense);
        return r;
    }
    fill(dense, shard);
    coxi_mutex_init(&dense->rows);
    for (size_t i = 0; i < COXI_DENSE_STRIPES; i++) {
        coxi_mutex_init(&dense->locks[i]);
    }
    *ret = dense;
    return 0;
}

void coxi_dense_free(struct coxi_dense *dense)
{
    if (dense != NULL) {
        for (size_t i = 0; i < COXI_DENSE_STRIPES; i++) {
            coxi_mutex_fini(&dense->locks[i]);
        }
        coxi_mutex_fini(&dense->rows);
        release(dense);
    }
}

bool coxi_dense_takes(const struct coxi_variable *variable, enum coxi_op op)
{
    return op == COXI_OP_GRADIENT ? variable->optimizer.kind != COXI_OPTIMIZER_NONE
                                  : coxi_elements_take(variable->dtype, op);
}

/* How many bytes of [at, end) lie in the same part as `at`. */
static size_t part_of(size_t at, size_t end)
{
    size_t part_end = (at / COXI_DENSE_PART + 1) * COXI_DENSE_PART;
    return (end < part_end ? end : part_end) - at;
}

/* ---- rows: spans of bytes, each a range or one of the rows listed */

static size_t n_spans(const struct coxi_dense_rows *rows)
{
    return rows->listed != NULL ? rows->count : 1;
}

struct span {
    size_t start;
    size_t end;
};

static struct span span_of(const struct coxi_dense *dense,
                           const struct coxi_dense_rows *rows, size_t i)
{
    uint64_t first =
        (rows->listed != NULL ? rows->listed[i] : rows->begin) - dense->shard->begin;
    uint64_t count = rows->listed != NULL ? 1 : rows->count;
    return (struct span){first * dense->row_bytes, (first + count) * dense->row_bytes};
}

static bool holds(const struct coxi_shard *shard, uint64_t begin, uint64_t count)
{
    return begin >= shard->begin && begin - shard->begin <= shard->count &&
           count <= shard->count - (begin - shard->begin);
}

bool coxi_dense_holds(const struct coxi_dense *dense,
                      const struct coxi_dense_rows *rows)
{
    if (rows->listed == NULL) {
        return holds(dense->shard, rows->begin, rows->count);
    }
    bool all = true;
    for (uint64_t i = 0; i < rows->count; i++) {
        all &= holds(dense->shard, rows->listed[i], 1);
    }
    return all;
}

/* ---- reading */

/* Reads a span to `to`; returns where the next span goes. */
static uint8_t *read_span(struct coxi_dense *dense, struct span span, uint32_t narrow,
                          uint8_t *to)
{
    for (size_t at = span.start; at < span.end;) {
        size_t n = part_of(at, span.end);
        coxi_lock(coxi_dense_lock(dense, at));
        if (narrow != 0) {
            coxi_floats_narrow(narrow, dense->data + at, n / sizeof(float), to);
        } else {
            memcpy(to, dense->data + at, n);
        }
        coxi_unlock(coxi_dense_lock(dense, at));
        to += narrow != 0 ? n / 2 : n;
        at += n;
    }
    return to;
}

/* Bytes of each span. */
static size_t span_bytes(const struct coxi_dense *dense,
                         const struct coxi_dense_rows *rows)
{
    return rows->listed != NULL ? dense->row_bytes : rows->count * dense->row_bytes;
}

size_t coxi_dense_whole(const struct coxi_dense *dense,
                        const struct coxi_dense_rows *rows, size_t at, size_t room)
{
    size_t bytes = span_bytes(dense, rows);
    size_t end = at + room;
    size_t in_span = end % bytes;
    if (in_span == 0) {
        return room;
    }
    size_t in_block =
        (span_of(dense, rows, end / bytes).start + in_span) % COXI_DENSE_BLOCK;
    return room - (in_block < in_span ? in_block : in_span);
}

void coxi_dense_read(struct coxi_dense *dense, const struct coxi_dense_rows *rows,
                     size_t at, size_t len, uint32_t narrow, void *ret)
{
    uint8_t *to = ret;
    if (len == 0) {
        return;
    }
    size_t bytes = span_bytes(dense, rows);
    size_t skip = at % bytes;
    for (size_t i = at / bytes; len > 0; i++, skip = 0) {
        struct span span = span_of(dense, rows, i);
        span.start += skip;
        if (span.end - span.start > len) {
            span.end = span.start + len;
        }
        len -= span.end - span.start;
        to = read_span(dense, span, narrow, to);
    }
}

/* ---- changing */

static void lock_to_change(struct coxi_dense *dense, size_t at)
    COXI_ACQUIRES(coxi_dense_lock(dense, at))
{
    coxi_lock(coxi_dense_lock(dense, at));
    if (dense->cut != NULL) {
        coxi_dense_cut_save(dense->cut, at);
    }
}

/* ---- gradients */

/* A gradient: consecutive values, in F32 or a narrow type, multiplied by a loss scale
 * (0: by none). */
struct gradient {
    const uint8_t *values;
    uint32_t dtype;
    float loss_scale;
    const float *base; /* the values from which it was computed; NULL: unknown */
};

enum { PART_FLOATS = COXI_DENSE_PART / sizeof(float) };

static struct gradient gradient_from(const struct gradient *g, size_t i)
{
    size_t size = g->dtype == COX_F32 ? sizeof(float) : sizeof(uint16_t);
    return (struct gradient){g->values + i * size, g->dtype, g->loss_scale,
                             g->base != NULL ? g->base + i : NULL};
}

/* n numbers from the i-th on, in place or converted to `room`. */
static const float *floats(const struct gradient *g, size_t i, size_t n,
                           float room[PART_FLOATS])
{
    struct gradient from = gradient_from(g, i);
    if (g->dtype == COX_F32) {
        return (const float *)(const void *)from.values;
    }
    coxi_floats_widen(g->dtype, from.values, n, room);
    return room;
}

/* Applies the gradient for a span of the data. */
static void apply(struct coxi_dense *dense, const struct coxi_optimizer_step *step,
                  struct span span, const struct gradient *g)
{
    float *w = (float *)(void *)dense->data;
    for (size_t at = span.start; at < span.end;) {
        float room[PART_FLOATS];
        float compensated[PART_FLOATS];
        size_t n = part_of(at, span.end) / sizeof(float);
        size_t first = at / sizeof(float);
        float *slots[COXI_SLOTS_MAX] = {NULL};
        for (size_t s = 0; s < dense->layout.n_slots; s++) {
            slots[s] = dense->states[s] + first;
        }
        size_t i = (at - span.start) / sizeof(float);
        const float *from = floats(g, i, n, room);
        lock_to_change(dense, at);
        if (g->base != NULL) {
            coxi_optimizer_compensate(step, dense->variable->staleness.compensation,
                                      w + first, g->base + i, from, n, compensated);
            from = compensated;
        }
        coxi_optimizer_apply(step, w + first, slots, from, n);
        coxi_unlock(coxi_dense_lock(dense, at));
        at += n * sizeof(float);
    }
}

/* The sum of squares of the row whose data are `span`. */
static double squares(struct coxi_dense *dense, const struct coxi_optimizer_step *step,
                      struct span span, const struct gradient *g)
{
    const float *w = (const float *)(const void *)dense->data;
    double sum = 0;
    for (size_t at = span.start; at < span.end;) {
        float room[PART_FLOATS];
        size_t n = part_of(at, span.end) / sizeof(float);
        const float *from = floats(g, (at - span.start) / sizeof(float), n, room);
        coxi_lock(coxi_dense_lock(dense, at));
        sum += coxi_optimizer_squares(step, w + at / sizeof(float), from, n);
        coxi_unlock(coxi_dense_lock(dense, at));
        at += n * sizeof(float);
    }
    return sum;
}

/* Applies a gradient row by row, for rules that keep a number for each row. */
static void apply_rows(struct coxi_dense *dense, const struct coxi_optimizer_step *step,
                       const struct coxi_dense_rows *rows, const struct gradient *g)
{
    size_t n = dense->row_bytes / sizeof(float);
    coxi_lock(&dense->rows);
    for (uint64_t i = 0; i < rows->count; i++) {
        struct coxi_dense_rows one = {
            NULL, rows->listed != NULL ? rows->listed[i] : rows->begin + i, 1};
        uint64_t row = one.begin - dense->shard->begin;
        struct span span = span_of(dense, &one, 0);
        struct gradient its = gradient_from(g, i * n);
        if (dense->cut != NULL) {
            coxi_dense_cut_save_row(dense->cut, row);
        }
        struct coxi_optimizer_step row_step = coxi_optimizer_row_step(
            step, squares(dense, step, span, &its), n, &dense->states[0][row]);
        apply(dense, &row_step, span, &its);
    }
    coxi_unlock(&dense->rows);
}

/* The sum of squares of all n numbers, as it counts for clipping. */
static double norm(const struct coxi_optimizer_step *step, const struct gradient *g,
                   size_t n)
{
    float room[PART_FLOATS];
    double sum = 0;
    for (size_t at = 0; at < n; at += PART_FLOATS) {
        size_t count = n - at < PART_FLOATS ? n - at : PART_FLOATS;
        sum += coxi_optimizer_norm(step, floats(g, at, count, room), count);
    }
    return sum;
}

static void update_gradient(struct coxi_dense *dense,
                            const struct coxi_dense_rows *rows, uint64_t at,
                            const struct gradient *g)
{
    struct coxi_optimizer_step step;
    size_t n = dense->row_bytes / sizeof(float);
    coxi_optimizer_begin(&dense->variable->optimizer, at,
                         atomic_fetch_add(&dense->step, 1), &step);
    coxi_optimizer_unscale(&step, g->loss_scale);
    if (dense->variable->optimizer.clip_norm > 0) {
        coxi_optimizer_clip(&step, norm(&step, g, rows->count * n));
    }
    if (dense->layout.n_row > 0) {
        apply_rows(dense, &step, rows, g);
        return;
    }
    for (size_t i = 0; i < n_spans(rows); i++) {
        struct gradient its = gradient_from(g, i * n);
        apply(dense, &step, span_of(dense, rows, i), &its);
    }
}

/* ---- any update */

static const uint8_t *combine_span(struct coxi_dense *dense, struct span span,
                                   enum coxi_op op, const uint8_t *from)
{
    for (size_t at = span.start; at < span.end;) {
        size_t n = part_of(at, span.end);
        lock_to_change(dense, at);
        coxi_elements_combine(dense->variable->dtype, op, dense->data + at, from, n);
        coxi_unlock(coxi_dense_lock(dense, at));
        from += n;
        at += n;
    }
    return from;
}

/* Raise the version only after the update, because a reader that sees this version must
 * find the whole update. */
static void raise_version(struct coxi_dense *dense)
{
    atomic_fetch_add_explicit(&dense->version, 1, memory_order_release);
}

static void combine(struct coxi_dense *dense, const struct coxi_dense_rows *rows,
                    enum coxi_op op, const uint8_t *from)
{
    for (size_t i = 0; rows->count > 0 && i < n_spans(rows); i++) {
        from = combine_span(dense, span_of(dense, rows, i), op, from);
    }
    if (rows->count > 0) {
        raise_version(dense);
    }
}

void coxi_dense_push(struct coxi_dense *dense, const struct coxi_dense_rows *rows,
                     const struct coxi_dense_gradient *gradient)
{
    update_gradient(dense, rows, gradient->step,
                    &(struct gradient){gradient->values, gradient->dtype,
                                       gradient->loss_scale, gradient->base});
    raise_version(dense);
}

void coxi_dense_update(struct coxi_dense *dense, const struct coxi_dense_rows *rows,
                       enum coxi_op op, uint64_t step, uint32_t dtype,
                       const void *values)
{
    const struct coxi_dense_gradient gradient = {step, dtype, values, 0, NULL};
    if (op == COXI_OP_GRADIENT) {
        coxi_dense_push(dense, rows, &gradient);
    } else {
        combine(dense, rows, op, values);
    }
}

void coxi_dense_pass(struct coxi_dense *dense)
{
    atomic_fetch_add(&dense->step, 1);
    atomic_fetch_add_explicit(&dense->passes, 1, memory_order_relaxed);
}

void coxi_dense_touch(struct coxi_dense *dense)
{
    atomic_fetch_add_explicit(&dense->version, 1, memory_order_release);
}

uint64_t coxi_dense_version(const struct coxi_dense *dense)
{
    return atomic_load_explicit(&dense->version, memory_order_acquire);
}

uint64_t coxi_dense_step(const struct coxi_dense *dense)
{
    return atomic_load(&dense->step);
}

size_t coxi_dense_bytes(const struct coxi_dense *dense)
{
    size_t bytes = dense->bytes;
    for (size_t i = 0; i < n_states(dense); i++) {
        bytes += coxi_dense_state_bytes(dense, i);
    }
    return bytes;
}

/* ---- loading */

/* Loads the values of a span, and the state of each value. */
static void load_span(struct coxi_dense *dense, struct span span, const uint8_t *data,
                      const float *const *states)
{
    for (size_t at = span.start; at < span.end;) {
        size_t n = part_of(at, span.end);
        size_t from = at - span.start;
        lock_to_change(dense, at);
        memcpy(dense->data + at, data + from, n);
        for (size_t s = 0; states != NULL && s < dense->layout.n_slots; s++) {
            memcpy((uint8_t *)dense->states[s] + at, (const uint8_t *)states[s] + from,
                   n);
        }
        coxi_unlock(coxi_dense_lock(dense, at));
        at += n;
    }
}

/* Loads the states of rows, with `rows` locked. */
static void load_rows(struct coxi_dense *dense, uint64_t begin, uint64_t count,
                      const float *const *states)
{
    uint64_t first = begin - dense->shard->begin;
    for (uint64_t i = 0; dense->cut != NULL && i < count; i++) {
        coxi_dense_cut_save_row(dense->cut, first + i);
    }
    for (size_t s = dense->layout.n_slots; s < n_states(dense); s++) {
        memcpy(dense->states[s] + first, states[s], count * sizeof(float));
    }
}

void coxi_dense_load(struct coxi_dense *dense, uint64_t begin, uint64_t count,
                     const void *data, const float *const *states, uint64_t step)
{
    const struct coxi_dense_rows rows = {NULL, begin, count};
    coxi_lock(&dense->rows);
    load_span(dense, span_of(dense, &rows, 0), data, states);
    if (states != NULL && dense->layout.n_row > 0) {
        load_rows(dense, begin, count, states);
    }
    coxi_unlock(&dense->rows);
    if (states != NULL) {
        atomic_store(&dense->step, step);
    }
    atomic_fetch_add_explicit(&dense->version, 1, memory_order_release);
}
