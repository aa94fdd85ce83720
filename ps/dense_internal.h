/* What dense.c and dense_cut.c share. Not for others. */
#ifndef COXI_PS_DENSE_INTERNAL_H
#define COXI_PS_DENSE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/sync.h"
#include "ps/dense.h"

enum {
    COXI_DENSE_STRIPES = 64,
    /* bytes of data under one lock; smaller parts would cost too many calls */
    COXI_DENSE_PART = 4 * COXI_DENSE_BLOCK,
};
_Static_assert(COXI_METRIC_MAX * sizeof(double) <= COXI_DENSE_PART,
               "a metric is read and added to under one lock");

struct coxi_dense {
    const struct coxi_variable *variable;
    struct coxi_memory *memory;
    const struct coxi_shard *shard;
    size_t row_bytes;
    size_t bytes;
    uint8_t *data; /* 64-aligned */
    struct coxi_state_layout layout;
    float *states[COXI_STATES_MAX];
    atomic_uint_least64_t step;
    atomic_uint_least64_t version;
    atomic_uint_least64_t passes; /* changes of `step` alone (coxi_dense_pass) */
    /* version + passes at the last coxi_dense_track_cut */
    uint64_t version_since;
    /* the same at the cut of the snapshot on which the last one builds */
    uint64_t version_before;
    /* the cut that is being read, or NULL; changed while no update is under way */
    struct coxi_dense_cut *cut;
    struct coxi_mutex rows; /* guards the states of rows; comes before `locks` */
    /* locks[p % COXI_DENSE_STRIPES] guards the content of part p; leaf */
    struct coxi_mutex locks[COXI_DENSE_STRIPES];
};

/* Bytes of state number i. */
static inline size_t coxi_dense_state_bytes(const struct coxi_dense *dense, size_t i)
{
    return i < dense->layout.n_slots ? dense->bytes
                                     : dense->bytes / dense->row_bytes * sizeof(float);
}

static inline struct coxi_mutex *coxi_dense_lock(struct coxi_dense *dense, size_t at)
{
    return &dense->locks[at / COXI_DENSE_PART % COXI_DENSE_STRIPES];
}

/*
 * Both functions copy, for the cut, the bytes that are about to change; call them only
 * while the cut is being read. Call coxi_dense_cut_save before the data or slots change
 * in the part that has byte `at`, with that part locked. Call coxi_dense_cut_save_row
 * before the state of a row changes, with `rows` locked.
 */
void coxi_dense_cut_save(struct coxi_dense_cut *cut, size_t at);
void coxi_dense_cut_save_row(struct coxi_dense_cut *cut, size_t row);

#endif
