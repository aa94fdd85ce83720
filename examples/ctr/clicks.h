/* A click log with a planted model, so that its best score is known. Plain C, no
 * Coxswain in here. */
#ifndef CTR_CLICKS_H
#define CTR_CLICKS_H

#include <stddef.h>
#include <stdint.h>

struct clicks {
    size_t n_rows;
    uint64_t seed; /* of the model, and of the rows */
    uint64_t
        ids; /* of each of the 20 fields; they follow a power law, as in real logs */
    double pairs; /* above 0: pairs of ids in neighbouring fields count about so much */
};

/*
 * Writes a log in libsvm form. The labels follow a model that `seed` draws: a weight for
 * each id, and a number for each pair, which only models with interactions can learn.
 * `part` varies the rows and not the model: 0 to train on, 1 to test on. 0, or -1 with
 * errno set.
 */
int clicks_generate(const char *path, const struct clicks *log, int part);

#endif
