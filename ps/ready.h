/*
 * Updates that are ready: everything that can fail is done, so a list of them is
 * applied either as a whole or not at all. What commit.c and round.c share. Not for
 * others.
 *
 * Threads: any, with the registry and the moment held for reading. Cost: no allocation
 * once `scratch` has grown. Each row of a table takes 8 bytes of scratch, and its
 * gradient in F32 if it came narrow.
 */
#ifndef COXI_PS_READY_H
#define COXI_PS_READY_H

#include "ps/store_internal.h"

/* An update, which refers to scratch by offset, because scratch moves. */
struct coxi_ready {
    struct coxi_place place;
    enum coxi_op op;
    uint32_t dtype; /* of its values */
    /* offset in scratch of the values converted to F32; 0: they are not converted */
    size_t widened_at;
    const void *values;
    const float *bases; /* of a gradient: the values it was computed from, or NULL */
    bool resolved;      /* a table's update: its rows are known ... */
    size_t rows_at;     /* ... and listed at this offset in scratch */
    uint64_t draw;
    uint64_t step;
    float loss_scale; /* of gradients; 0: none */
    /* a gradient from values of a known version: how many updates they missed */
    bool is_aged;
    bool is_dropped; /* it missed too many and is not applied */
    uint64_t staleness;
    struct coxi_stale *of_worker; /* counts it, too */
};

/*
 * Takes an update of a commit, with its keys and values, off the *len bytes (8-aligned)
 * at *at, which stay borrowed. Changes nothing. COX_ENOENT, COX_EINVAL, COX_ELIMIT.
 */
int coxi_ready_take(const struct coxi_store *store, const struct coxi_commit *commit,
                    const struct coxi_update *update, const uint8_t **at, size_t *len,
                    struct coxi_ready *ret);

/* COX_EINVAL unless a commit's loss scale is one. */
int coxi_ready_check_scale(const struct coxi_commit *commit);

/* The bytes that coxi_ready_resolve appends to scratch. */
size_t coxi_ready_room(const struct coxi_ready *update);

/* Finds or makes the rows of a table, and converts narrow gradients to F32. After it,
 * call one of the next two. COX_ENOMEM, COX_ELIMIT. */
int coxi_ready_resolve(const struct coxi_store *store, struct coxi_ready *update,
                       struct coxi_buffer *scratch);

/* Counts the staleness of a gradient, once its commit is applied. */
void coxi_ready_count(const struct coxi_ready *update);

/* Applies the update, or releases what it holds. Neither can fail. */
void coxi_ready_apply(const struct coxi_ready *update,
                      const struct coxi_buffer *scratch);
void coxi_ready_release(const struct coxi_ready *update,
                        const struct coxi_buffer *scratch);

/* ---- rounds (round.c) */

/* Lets a commit wait for its round. *ret_whole: now all of the round is here. Errors of
 * coxi_store_commit; COX_EEXIST: it waits already, or its round has ended. */
int coxi_store_round_wait(struct coxi_store *store, const struct coxi_commit *commit,
                          const void *payload, size_t len, bool *ret_whole);

/* How each of the n closures counts in a round of which all is here. COX_ECANCELLED: it
 * is not, any more. */
int coxi_store_round_parts(struct coxi_store *store, uint64_t round, uint32_t n,
                           struct coxi_round_part *ret);

/* Applies what counts in the round that the commit ends. Nothing was applied after an
 * error. What waited stays. */
int coxi_store_round_end(struct coxi_store *store, const struct coxi_commit *commit,
                         const void *payload, size_t len, struct coxi_buffer *scratch);

#endif
