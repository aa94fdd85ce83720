/*
 * Ratings of items by users: a mean, a bias of each user and item, the product of their
 * factors, and noise. The quality is the root of the mean squared error of the planted
 * model (the noise), of the biases alone, and of the mean alone.
 */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/planted.h"

enum { RANK = 4, USER_BIAS = RANK, ITEM_BIAS, USER = 0, ITEM = 16 };
#define MEAN 3.5

struct ratings {
    uint64_t seed;
    bool libsvm;
    double noise;
    uint64_t users;
    uint64_t items;
    double n;
    double noise_squares;
    double factor_squares; /* of all but the biases */
    double squares;        /* of all but the mean */
};

static void *ratings_new(const struct coxi_planted_options *options)
{
    struct ratings *ratings = calloc(1, sizeof(*ratings));
    if (ratings != NULL) {
        ratings->seed = options->seed;
        ratings->libsvm = strcmp(options->format, "libsvm") == 0;
        ratings->noise = options->noise;
        ratings->users = options->users;
        ratings->items = options->items;
    }
    return ratings;
}

static const char *ratings_header(const void *model)
{
    const struct ratings *ratings = model;
    return ratings->libsvm ? NULL : "user,item,rating";
}

static int ratings_record(void *model, uint64_t *rng, struct coxi_buffer *line)
{
    struct ratings *m = model;
    uint64_t user = coxi_planted_draw_zipf(rng, m->users);
    uint64_t item = coxi_planted_draw_zipf(rng, m->items);
    double biases = 0.4 * coxi_planted_normal(m->seed, user, USER + USER_BIAS) +
                    0.4 * coxi_planted_normal(m->seed, item, ITEM + ITEM_BIAS);
    double product = 0;
    for (uint64_t k = 0; k < RANK; k++) {
        product += coxi_planted_normal(m->seed, user, USER + k) *
                   coxi_planted_normal(m->seed, item, ITEM + k);
    }
    double factors = 0.4 * product;
    double noise = m->noise * coxi_planted_draw_normal(rng);
    m->n++;
    m->noise_squares += noise * noise;
    m->factor_squares += (factors + noise) * (factors + noise);
    m->squares += (biases + factors + noise) * (biases + factors + noise);
    double rating = MEAN + biases + factors + noise;
    return m->libsvm ? coxi_buffer_printf(line, "%.4f %" PRIu64 ":1 %" PRIu64 ":1",
                                          rating, user, m->users + item)
                     : coxi_buffer_printf(line, "%" PRIu64 ",%" PRIu64 ",%.4f", user,
                                          item, rating);
}

static double root(const struct ratings *ratings, double squares)
{
    return ratings->n > 0 ? sqrt(squares / ratings->n) : 0;
}

static json_t *ratings_quality(const void *model)
{
    const struct ratings *m = model;
    return json_pack("{s:f, s:f, s:f, s:f, s:i}", "mean", MEAN, "planted_rmse",
                     root(m, m->noise_squares), "rmse_of_biases",
                     root(m, m->factor_squares), "rmse_of_mean", root(m, m->squares),
                     "rank", (int)RANK);
}

const struct coxi_planted_kind coxi_planted_ratings = {.name = "ratings",
                                                       .formats = "csv|libsvm",
                                                       .new_model = ratings_new,
                                                       .header = ratings_header,
                                                       .record = ratings_record,
                                                       .quality = ratings_quality};
