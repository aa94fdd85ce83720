/*
 * The commits that wait for the end of their round. Until then they are no part of what
 * the ps holds: no pull reads them, no snapshot contains them, and the applied set does
 * not know their closures. The end of the round (ps/round.c) applies those that count,
 * as one update; the others are dropped.
 *
 * If one ps has all of a round, it need not wait for the client to end it: see
 * coxi_share. That is so if each closure's first attempt has put one commit here, which is
 * all of the closure. If any other commit of the round has come, the client decides.
 *
 * A round has the number of the closure that ends it. Commits are told apart by
 * closure, attempt and segment, so that several attempts of a closure may wait side by
 * side: the end of the round names the attempt that counts.
 *
 * Any thread. Waiting commits count for the memory of the store.
 */
#ifndef COXI_PS_ROUNDS_H
#define COXI_PS_ROUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/wire.h"

struct coxi_applied;
struct coxi_memory;
struct coxi_rounds;

/* A commit that waits, with everything that it refers to. */
struct coxi_waiting {
    struct coxi_waiting *next; /* by rising closure, then segment, then attempt */
    struct coxi_waiting *prev;
    uint64_t bytes; /* for which it counts */
    struct coxi_commit commit;
    const uint8_t *payload;
    size_t len;
    uint64_t content[]; /* of the payload and the commit's arrays */
};

/* `memory` is borrowed. COX_ENOMEM. */
int coxi_rounds_new(struct coxi_memory *memory, struct coxi_rounds **ret);
void coxi_rounds_free(struct coxi_rounds *rounds); /* takes NULL; all are dropped */

/*
 * Lets a commit wait, copied. *ret_whole: it was the last that its round lacked, so the ps
 * may end the round. COX_EEXIST: it waits already, or `applied` has the end of its round.
 * COX_EINVAL: a round ends at most COX_ROUND_MAX after its closures, and a weight is a
 * finite number that is not negative; COX_ELIMIT; COX_ENOMEM.
 */
int coxi_rounds_put(struct coxi_rounds *rounds, struct coxi_applied *applied,
                    const struct coxi_commit *commit, const void *payload, size_t len,
                    bool *ret_whole);

/* The commits of a round that is held, in order. Others may come meanwhile, which the
 * list has or has not. */
const struct coxi_waiting *coxi_rounds_first(struct coxi_rounds *rounds,
                                             uint64_t round);
const struct coxi_waiting *coxi_rounds_next(struct coxi_rounds *rounds,
                                            const struct coxi_waiting *waiting);

/* While a round is held, what waits for it stays, also if it is dropped. False: nothing
 * waits for it, and it is not held. */
bool coxi_rounds_hold(struct coxi_rounds *rounds, uint64_t round);
void coxi_rounds_let_go(struct coxi_rounds *rounds, uint64_t round);

/* Drops what waits for a round, after `applied` got its end. */
void coxi_rounds_drop(struct coxi_rounds *rounds, uint64_t round);

/* Drops what waits for rounds up to the watermark: they are over, and have failed. */
void coxi_rounds_drop_below(struct coxi_rounds *rounds, uint64_t watermark);

#endif
