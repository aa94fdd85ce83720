/* The rounds that are not over (round.h). */
#ifndef COXI_COORDINATOR_CLOSURES_ROUND_STATE_H
#define COXI_COORDINATOR_CLOSURES_ROUND_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cox_rounds;
struct coxi_round;

/* c->closures->rounds. The loop's own, except where noted. */
struct coxi_rounds_state {
    struct coxi_round *due;     /* rounds to look at in this turn */
    struct coxi_round *blocked; /* to look at when all ps are up */
    struct cox_rounds *given; /* sequences to look at: all of a round was given away */
    uint64_t epoch;           /* of the ps, when members were last looked at */
    size_t n_inherited;       /* open rounds that an older client has left */
    size_t n_open;
    bool is_paused; /* no end of a deterministic round is sent (round_pause.c) */
    /* ends of deterministic rounds on their way; any thread may read it */
    atomic_size_t n_sent;
    uint64_t listed_place; /* after those of the deterministic rounds that it knows */
    /* guarded by c->lock */
    uint64_t next_place; /* of the next deterministic round */
    struct cox_rounds *sequences;
    uint32_t n_sequences; /* the next id */
};

#endif
