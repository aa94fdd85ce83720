/*
 * Commits of rounds, and ends of rounds, at a ps. Messages of which every number is free
 * (maker.h) hardly ever make a round that is complete. These mostly do: there are a few
 * rounds, whose ids are the same in each input, and three variables.
 */
#ifndef COXI_TESTS_FUZZ_ROUNDS_H
#define COXI_TESTS_FUZZ_ROUNDS_H

#include "schema/wire.h"
#include "tests/fuzz/fuzz.h"

enum {
    ROUND_VARIABLES = 3,
    ROUNDS = 4, /* round r, from 0 on, has r + 1 closures */
    ROUND_UPDATES_MAX = 3,
    ROUND_PAYLOAD_MAX = 1024,
};

/* A commit, without session and incarnation, and what it refers to. */
struct fuzz_round {
    struct coxi_commit commit;
    struct coxi_update updates[ROUND_UPDATES_MAX];
    uint64_t pulled[ROUND_UPDATES_MAX];
    uint32_t touched[2];
    size_t len; /* of the payload */
    uint64_t payload[ROUND_PAYLOAD_MAX / sizeof(uint64_t)];
};

/* Variable i of those that are updated in rounds; ids and names are not those of the
 * variables of maker.h. */
const struct coxi_variable *fuzz_round_variable(size_t i);

/* The id of the end of round r. */
uint64_t fuzz_round_id(uint64_t r);

/* A commit of closure i of round r, and the end of that round. */
void fuzz_round_wait(struct fuzz_input *input, uint64_t r, uint64_t i,
                     struct fuzz_round *ret);
void fuzz_round_end(struct fuzz_input *input, uint64_t r, struct fuzz_round *ret);

#endif
