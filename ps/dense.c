/* See dense.h. A block's lock is one of a few, chosen by its number. */
#include "ps/dense.h"

#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/initializer.h"
#include "common/sync.h"
#include "ps/optimizer.h"

enum { STRIPES = 64 };

struct coxi_dense {
    const struct coxi_variable *variable;
    size_t row_bytes;
    size_t bytes;
    uint8_t *data; /* 64-aligned */
    float *slot;
    pthread_mutex_t
        locks[STRIPES]; /* block b: locks[b % STRIPES]; guard contents; leaf */
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

int coxi_dense_new(const struct coxi_variable *variable, const struct coxi_shard *shard,
                   struct coxi_dense **ret)
{
    struct coxi_dense *dense = calloc(1, sizeof(*dense));
    if (dense == NULL) {
        return coxi_error_memory("a variable");
    }
    dense->variable = variable;
    dense->row_bytes = coxi_variable_row_bytes(variable);
    dense->bytes = dense->row_bytes * shard->count;
    size_t slots = coxi_optimizer_slots(&variable->optimizer);
    dense->data = aligned_alloc(64, coxi_align(dense->bytes, 64));
    if (slots > 0) {
        dense->slot = aligned_alloc(64, coxi_align(dense->bytes, 64));
    }
    if (dense->data == NULL || (slots > 0 && dense->slot == NULL)) {
        free(dense->data);
        free(dense->slot);
        free(dense);
        return coxi_error(COX_ENOMEM, "out of memory for variable '%s'",
                          variable->name);
    }
    fill(dense, shard);
    for (size_t i = 0; slots > 0 && i < dense->bytes / sizeof(float); i++) {
        dense->slot[i] = coxi_optimizer_slot_start(&variable->optimizer);
    }
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
        free(dense->data);
        free(dense->slot);
        free(dense);
    }
}

bool coxi_dense_takes(const struct coxi_variable *variable, enum coxi_op op)
{
    switch (op) {
    case COXI_OP_GRADIENT:
        return variable->optimizer.kind != COXI_OPTIMIZER_NONE;
    case COXI_OP_ADD:
        return variable->dtype != COX_BF16 && variable->dtype != COX_F16;
    case COXI_OP_ASSIGN:
        return true;
    }
    return false;
}

/* The part of [at, end) that lies in the block of `at`. */
static size_t part_of(size_t at, size_t end)
{
    size_t block_end = (at / COXI_DENSE_BLOCK + 1) * COXI_DENSE_BLOCK;
    return (end < block_end ? end : block_end) - at;
}

static pthread_mutex_t *lock_of(struct coxi_dense *dense, size_t at)
{
    return &dense->locks[at / COXI_DENSE_BLOCK % STRIPES];
}

void coxi_dense_pull(struct coxi_dense *dense, uint64_t begin, uint64_t count,
                     void *ret)
{
    size_t start = begin * dense->row_bytes;
    size_t end = start + count * dense->row_bytes;
    for (size_t at = start; at < end;) {
        size_t n = part_of(at, end);
        coxi_lock(lock_of(dense, at));
        memcpy((uint8_t *)ret + (at - start), dense->data + at, n);
        coxi_unlock(lock_of(dense, at));
        at += n;
    }
}

#define ADD_LOOP(type)                                                                 \
    for (size_t i = 0; i < n / sizeof(type); i++) {                                    \
        ((type *)to)[i] = (type)(((type *)to)[i] + ((const type *)from)[i]);           \
    }                                                                                  \
    break

/* Integers wrap around: they are added as unsigned ones. */
static void add(uint32_t dtype, void *to, const void *from, size_t n)
{
    switch ((enum cox_dtype)dtype) {
    case COX_F32:
        ADD_LOOP(float);
    case COX_F64:
        ADD_LOOP(double);
    case COX_I32:
        ADD_LOOP(uint32_t);
    case COX_I64:
        ADD_LOOP(uint64_t);
    case COX_U8:
        ADD_LOOP(uint8_t);
    case COX_BF16:
    case COX_F16:
        break; /* refused by coxi_dense_takes */
    }
}

void coxi_dense_update(struct coxi_dense *dense, uint64_t begin, uint64_t count,
                       enum coxi_op op, const void *values)
{
    size_t start = begin * dense->row_bytes;
    size_t end = start + count * dense->row_bytes;
    for (size_t at = start; at < end;) {
        size_t n = part_of(at, end);
        uint8_t *to = dense->data + at;
        const uint8_t *from = (const uint8_t *)values + (at - start);
        coxi_lock(lock_of(dense, at));
        switch (op) {
        case COXI_OP_GRADIENT:
            coxi_optimizer_apply(&dense->variable->optimizer, (float *)(void *)to,
                                 dense->slot != NULL ? dense->slot + at / sizeof(float)
                                                     : NULL,
                                 (const float *)(const void *)from, n / sizeof(float));
            break;
        case COXI_OP_ADD:
            add(dense->variable->dtype, to, from, n);
            break;
        case COXI_OP_ASSIGN:
            memcpy(to, from, n);
            break;
        }
        coxi_unlock(lock_of(dense, at));
        at += n;
    }
}

const void *coxi_dense_data(const struct coxi_dense *dense, size_t *ret_bytes)
{
    *ret_bytes = dense->bytes;
    return dense->data;
}

const float *coxi_dense_slot(const struct coxi_dense *dense)
{
    return dense->slot;
}
