/*
 * Click logs. The probability of a click is the logistic function of a sum of weights,
 * one for each feature, and of products of factors for pairs of fields.
 *
 * The quality is that of the planted probabilities themselves: auc from a histogram, and
 * the log loss.
 */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/planted.h"
#include "common/rand.h"

enum { FIELDS = 20, INTEGERS = 13, CATEGORIES = 26, IDS = 5000, RANK = 4 };

/* Probabilities, in bins. */
enum { BINS = 1 << 14 };

struct histogram {
    uint64_t clicks[BINS];
    uint64_t others[BINS];
};

struct clicks {
    uint64_t seed;
    bool criteo;
    double interactions;
    uint64_t n;
    uint64_t n_clicks;
    double loss;
    struct histogram all;
    struct histogram linear; /* without the pairs */
};

static void *clicks_new(const struct coxi_planted_options *options)
{
    struct clicks *clicks = calloc(1, sizeof(*clicks));
    if (clicks != NULL) {
        clicks->seed = options->seed;
        clicks->criteo = strcmp(options->format, "criteo") == 0;
        clicks->interactions = options->interactions;
    }
    return clicks;
}

/* ---- records */

/* A record while it is drawn. */
struct record {
    double linear;
    double pairs;
    uint64_t before; /* the id of the field before */
};

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

/* Draws a field's id and adds its weights; every second field makes a pair with the one
 * before. */
static uint64_t draw_id(const struct clicks *clicks, uint64_t *rng, uint64_t field,
                        struct record *record)
{
    uint64_t id = field * IDS + coxi_planted_draw_zipf(rng, IDS);
    record->linear += 0.35 * coxi_planted_normal(clicks->seed, id, 0);
    if (field % 2 == 1 && clicks->interactions > 0) {
        double product = 0;
        for (uint64_t k = 1; k <= RANK; k++) {
            product += coxi_planted_normal(clicks->seed, id, k) *
                       coxi_planted_normal(clicks->seed, record->before, k);
        }
        record->pairs += clicks->interactions * product / 2; /* sqrt(RANK) */
    }
    record->before = id;
    return id;
}

static int append_libsvm(const struct clicks *clicks, uint64_t *rng,
                         struct record *record, struct coxi_buffer *line)
{
    int r = 0;
    record->linear = -1.2;
    for (uint64_t field = 0; r == 0 && field < FIELDS; field++) {
        r = coxi_buffer_printf(line, " %" PRIu64 ":1",
                               draw_id(clicks, rng, field, record));
    }
    return r;
}

/* An integer, whose logarithm has a weight; about one in eight is missing. */
static int append_integer(const struct clicks *clicks, uint64_t *rng, uint64_t field,
                          struct record *record, struct coxi_buffer *line)
{
    if (coxi_rand(rng) % 8 == 0) {
        return coxi_buffer_append_raw(line, "\t", 1);
    }
    uint64_t x = (uint64_t)exp(fabs(coxi_planted_draw_normal(rng)) * 2) - 1;
    record->linear +=
        0.15 * coxi_planted_normal(clicks->seed, field, RANK + 1) * log((double)x + 1);
    return coxi_buffer_printf(line, "\t%" PRIu64, x);
}

static int append_category(const struct clicks *clicks, uint64_t *rng, uint64_t field,
                           struct record *record, struct coxi_buffer *line)
{
    uint64_t id = draw_id(clicks, rng, field, record);
    uint32_t text = (uint32_t)(coxi_planted_unit(clicks->seed, id, RANK + 2) * 0x1p32);
    return coxi_buffer_printf(line, "\t%08" PRIx32, text);
}

static int append_criteo(const struct clicks *clicks, uint64_t *rng,
                         struct record *record, struct coxi_buffer *line)
{
    int r = 0;
    record->linear = -1.6;
    for (uint64_t field = 0; r == 0 && field < INTEGERS; field++) {
        r = append_integer(clicks, rng, field, record, line);
    }
    for (uint64_t field = 0; r == 0 && field < CATEGORIES; field++) {
        r = append_category(clicks, rng, field, record, line);
    }
    return r;
}

static void add(struct histogram *histogram, double probability, bool click)
{
    size_t bin = (size_t)(probability * BINS);
    bin = bin < BINS ? bin : BINS - 1;
    histogram->clicks[bin] += click;
    histogram->others[bin] += !click;
}

static int clicks_record(void *model, uint64_t *rng, struct coxi_buffer *line)
{
    struct clicks *clicks = model;
    struct record record = {0};
    size_t label = line->len;
    int r = coxi_buffer_append_raw(line, "0", 1);
    if (r == 0) {
        r = clicks->criteo ? append_criteo(clicks, rng, &record, line)
                           : append_libsvm(clicks, rng, &record, line);
    }
    if (r != 0) {
        return r;
    }
    double p = logistic(record.linear + record.pairs);
    bool click = coxi_rand_unit(rng) < p;
    line->data[label] = click ? '1' : '0';
    clicks->n++;
    clicks->n_clicks += click;
    clicks->loss -= click ? log(p) : log1p(-p);
    add(&clicks->all, p, click);
    add(&clicks->linear, logistic(record.linear), click);
    return 0;
}

/* ---- quality */

static double auc_of(const struct histogram *h)
{
    double below = 0; /* others in lower bins */
    double clicks = 0;
    double pairs = 0;
    for (size_t i = 0; i < BINS; i++) {
        pairs += (double)h->clicks[i] * (below + (double)h->others[i] / 2);
        below += (double)h->others[i];
        clicks += (double)h->clicks[i];
    }
    return clicks > 0 && below > 0 ? pairs / clicks / below : 0.5;
}

static json_t *clicks_quality(const void *model)
{
    const struct clicks *clicks = model;
    double n = clicks->n > 0 ? (double)clicks->n : 1;
    return json_pack("{s:f, s:f, s:f, s:f}", "positive", (double)clicks->n_clicks / n,
                     "planted_auc", auc_of(&clicks->all), "planted_auc_without_pairs",
                     auc_of(&clicks->linear), "planted_log_loss", clicks->loss / n);
}

const struct coxi_planted_kind coxi_planted_clicks = {.name = "clicks",
                                                      .formats = "libsvm|criteo",
                                                      .new_model = clicks_new,
                                                      .record = clicks_record,
                                                      .quality = clicks_quality};
