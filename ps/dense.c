/*
 * See dense.h. The data are parts of a few blocks each; a part's lock is one of a few,
 * chosen by its number.
 *
 * A rule for whole rows (row-wise Adagrad) goes over a row's blocks twice, and over its
 * accumulator in between. The lock `rows` keeps the gradients of others off meanwhile;
 * what else changes values takes turns with it block by block.
 */
#include "ps/dense.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/initializer.h"
#include "common/sync.h"
#include "ps/elements.h"
#include "ps/memory.h"
#include "ps/optimizer.h"

enum {
    STRIPES = 64,
    PART =
        4 *
        COXI_DENSE_BLOCK, /* of the data, under one lock: fewer cost too many calls */
};

struct coxi_dense {
    const struct coxi_variable *variable;
    struct coxi_memory *memory;
    size_t row_bytes;
    size_t bytes;
    uint8_t *data; /* 64-aligned */
    struct coxi_state_layout layout;
    float *states[COXI_STATES_MAX];
    atomic_uint_least64_t step;
    pthread_mutex_t rows; /* guards the states of rows; before locks */
    pthread_mutex_t
        locks[STRIPES]; /* part p: locks[p % STRIPES]; guard contents; leaf */
};

/* Starts every element as the initializer says: element i is column 0 of "row" i. */
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

static size_t state_bytes(const struct coxi_dense *dense, size_t i)
{
    return i < dense->layout.n_slots ? dense->bytes
                                     : dense->bytes / dense->row_bytes * sizeof(float);
}

static size_t n_states(const struct coxi_dense *dense)
{
    return dense->layout.n_slots + dense->layout.n_row;
}

/* Memory for all, and each kind of state as it starts. */
static int allocate(struct coxi_dense *dense)
{
    dense->data = aligned_alloc(64, coxi_align(dense->bytes, 64));
    bool whole = dense->data != NULL;
    for (size_t s = 0; s < n_states(dense); s++) {
        size_t bytes = state_bytes(dense, s);
        float *state = aligned_alloc(64, coxi_align(bytes, 64));
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
    free(dense);
}

/* Room for it among all that a ps holds. */
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
    (void)pthread_mutex_init(&dense->rows, NULL);
    for (size_t i = 0; i < STRIPES; i++) {
        (void)pthread_mutex_init(&dense->locks[i], NULL);
    }
    *ret = dense;
    return 0;
}

void coxi_dense_free(struct coxi_dense *dense)
{
    if (dense != NULL) {
        for (size_t i = 0; i < STRIPES; i++) {
            (void)pthread_mutex_destroy(&dense->locks[i]);
        }
        (void)pthread_mutex_destroy(&dense->rows);
        release(dense);
    }
}

bool coxi_dense_takes(const struct coxi_variable *variable, enum coxi_op op)
{
    return op == COXI_OP_GRADIENT ? variable->optimizer.kind != COXI_OPTIMIZER_NONE
                                  : coxi_elements_take(variable->dtype, op);
}

/* What of [at, end) lies in the part of `at`. */
static size_t part_of(size_t at, size_t end)
{
    size_t part_end = (at / PART + 1) * PART;
    return (end < part_end ? end : part_end) - at;
}

static pthread_mutex_t *lock_of(struct coxi_dense *dense, size_t at)
{
    return &dense->locks[at / PART % STRIPES];
}

void coxi_dense_read(struct coxi_dense *dense, size_t at, size_t len, void *ret)
{
    uint8_t *to = ret;
    for (size_t end = at + len; at < end;) {
        size_t n = part_of(at, end);
        coxi_lock(lock_of(dense, at));
        memcpy(to, dense->data + at, n);
        coxi_unlock(lock_of(dense, at));
        to += n;
        at += n;
    }
}

void coxi_dense_pull(struct coxi_dense *dense, uint64_t begin, uint64_t count,
                     void *ret)
{
    coxi_dense_read(dense, begin * dense->row_bytes, count * dense->row_bytes, ret);
}

/* ---- gradients */

/* Those for [start, end) of the data. */
static void apply(struct coxi_dense *dense, const struct coxi_optimizer_step *step,
                  size_t start, size_t end, const float *g)
{
    float *w = (float *)(void *)dense->data;
    for (size_t at = start; at < end;) {
        size_t n = part_of(at, end);
        size_t first = at / sizeof(float);
        float *slots[COXI_SLOTS_MAX] = {NULL};
        for (size_t s = 0; s < dense->layout.n_slots; s++) {
            slots[s] = dense->states[s] + first;
        }
        coxi_lock(lock_of(dense, at));
        coxi_optimizer_apply(step, w + first, slots, g + (at - start) / sizeof(float),
                             n / sizeof(float));
        coxi_unlock(lock_of(dense, at));
        at += n;
    }
}

/* The sum of squares of the row at [start, end) of the data. */
static double squares(struct coxi_dense *dense, const struct coxi_optimizer_step *step,
                      size_t start, size_t end, const float *g)
{
    const float *w = (const float *)(const void *)dense->data;
    double sum = 0;
    for (size_t at = start; at < end;) {
        size_t n = part_of(at, end);
        coxi_lock(lock_of(dense, at));
        sum +=
            coxi_optimizer_squares(step, w + at / sizeof(float),
                                   g + (at - start) / sizeof(float), n / sizeof(float));
        coxi_unlock(lock_of(dense, at));
        at += n;
    }
    return sum;
}

static void apply_rows(struct coxi_dense *dense, const struct coxi_optimizer_step *step,
                       uint64_t begin, uint64_t count, const float *g)
{
    size_t n = dense->row_bytes / sizeof(float);
    coxi_lock(&dense->rows);
    for (uint64_t row = begin; row < begin + count; row++, g += n) {
        size_t start = row * dense->row_bytes;
        size_t end = start + dense->row_bytes;
        struct coxi_optimizer_step row_step = coxi_optimizer_row_step(
            step, squares(dense, step, start, end, g), n, &dense->states[0][row]);
        apply(dense, &row_step, start, end, g);
    }
    coxi_unlock(&dense->rows);
}

static void update_gradient(struct coxi_dense *dense, uint64_t begin, uint64_t count,
                            const float *g)
{
    struct coxi_optimizer_step step;
    size_t start = begin * dense->row_bytes;
    size_t bytes = count * dense->row_bytes;
    coxi_optimizer_begin(&dense->variable->optimizer, atomic_fetch_add(&dense->step, 1),
                         &step);
    coxi_optimizer_clip(&step, g, bytes / sizeof(float));
    if (dense->layout.n_row > 0) {
        apply_rows(dense, &step, begin, count, g);
    } else {
        apply(dense, &step, start, start + bytes, g);
    }
}

/* ---- any update */

void coxi_dense_update(struct coxi_dense *dense, uint64_t begin, uint64_t count,
                       enum coxi_op op, const void *values)
{
    if (op == COXI_OP_GRADIENT) {
        if (count > 0) {
            update_gradient(dense, begin, count, values);
        }
        return;
    }
    size_t start = begin * dense->row_bytes;
    size_t end = start + count * dense->row_bytes;
    for (size_t at = start; at < end;) {
        size_t n = part_of(at, end);
        coxi_lock(lock_of(dense, at));
        coxi_elements_combine(dense->variable->dtype, op, dense->data + at,
                              (const uint8_t *)values + (at - start), n);
        coxi_unlock(lock_of(dense, at));
        at += n;
    }
}

const void *coxi_dense_data(const struct coxi_dense *dense, size_t *ret_bytes)
{
    *ret_bytes = dense->bytes;
    return dense->data;
}

const float *coxi_dense_state(const struct coxi_dense *dense, size_t i,
                              size_t *ret_bytes)
{
    *ret_bytes = state_bytes(dense, i);
    return dense->states[i];
}

uint64_t coxi_dense_step(const struct coxi_dense *dense)
{
    return atomic_load(&dense->step);
}

size_t coxi_dense_bytes(const struct coxi_dense *dense)
{
    size_t bytes = dense->bytes;
    for (size_t i = 0; i < n_states(dense); i++) {
        bytes += state_bytes(dense, i);
    }
    return bytes;
}
