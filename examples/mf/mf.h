/* What the client and the steps of the example agree on. */
#ifndef MF_H
#define MF_H

enum {
    MF_RANK = 4,
    /* a row of a table: a bias, then the factors; user keys are even, item keys odd, so
     * one table serves both */
    MF_DIM = 1 + MF_RANK,
};

#endif
