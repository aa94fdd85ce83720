/*
 * Data with a planted model, so that the best quality that a model can reach on it is
 * known. All weights are functions of the seed and an id, so memory does not grow with
 * the number of records, users or words.
 *
 * Main thread.
 */
#ifndef COXI_CLI_PLANTED_H
#define COXI_CLI_PLANTED_H

#include <jansson.h>
#include <stdint.h>

#include "common/buffer.h"

struct coxi_planted_options {
    uint64_t seed; /* of the model */
    const char *format;
    double noise;        /* ratings: its standard deviation; texts: its share */
    double interactions; /* clicks: how much pairs of features weigh */
    uint64_t users;
    uint64_t items;
    uint64_t words; /* of each kind of texts */
};

struct coxi_planted_kind {
    const char *name;    /* "clicks" */
    const char *formats; /* "libsvm|criteo"; the first one is the default */
    /* A model; NULL: no memory. */
    void *(*new_model)(const struct coxi_planted_options *options);
    /* The line at the beginning of each file, or NULL. */
    const char *(*header)(const void *model);
    /* Appends a line, without its newline, and counts it. */
    int (*record)(void *model, uint64_t *rng, struct coxi_buffer *line);
    /* What a model can reach on the records so far. */
    json_t *(*quality)(const void *model);
};

extern const struct coxi_planted_kind coxi_planted_clicks;
extern const struct coxi_planted_kind coxi_planted_ratings;
extern const struct coxi_planted_kind coxi_planted_texts;

/* ---- draws */

/* A number in [0, 1) that depends on seed, id and k alone. */
double coxi_planted_unit(uint64_t seed, uint64_t id, uint64_t k);

/* Of the standard normal distribution, by seed, id and k. */
double coxi_planted_normal(uint64_t seed, uint64_t id, uint64_t k);

/* Of the standard normal distribution, by a sequence of random numbers. */
double coxi_planted_draw_normal(uint64_t *rng);

/* A number of 0 to n - 1, about as often as 1 / (number + 1). */
uint64_t coxi_planted_draw_zipf(uint64_t *rng, uint64_t n);

#endif
