/*
 * The steps of the example: skip-gram with negative sampling (Mikolov et al., NIPS 2013).
 * A record is a line; each of its words is a key below BUCKETS.
 *
 *   count     adds each word to "counts"
 *   sampler   makes the resource "sampler": how often words are, to drop frequent ones and
 *             to draw negative ones, as often as count^0.75
 *   train     for each word of a line that is kept, and its neighbours: pushes gradients to
 *             rows of "words" and "contexts"
 *   vectors   returns the row of "words" of the first word of each line, as "vectors"
 */
#include <coxswain/step.h>

#include <math.h>
#include <stdlib.h>

#include "word2vec.h"

struct sampler {
    double n_words;
    size_t n;
    float keep[BUCKETS];   /* the probability that a word is not dropped */
    uint32_t key[BUCKETS]; /* the words that occur, n of them */
    double sums[BUCKETS];  /* of their count^0.75 */
};

static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

/* ---- counting */

static int count_batch(struct cox_step *step, const struct cox_batch *batch)
{
    struct cox_variable *counts = NULL;
    size_t n = batch->begin[batch->n];
    int64_t *ones = malloc(n * sizeof(*ones));
    for (size_t i = 0; ones != NULL && i < n; i++) {
        ones[i] = 1;
    }
    int r = ones != NULL ? cox_step_variable(step, "counts", &counts)
                         : cox_step_fail(step, 1, "out of memory");
    if (r == 0) {
        r = cox_step_update(step, counts, COX_UPDATE_ADD,
                            cox_rows_listed(batch->keys, n), ones);
    }
    free(ones);
    return r;
}

static void fill_sampler(struct sampler *sampler, const int64_t *counts)
{
    for (size_t key = 0; key < BUCKETS; key++) {
        sampler->n_words += (double)counts[key];
    }
    double sum = 0;
    for (size_t key = 0; key < BUCKETS; key++) {
        if (counts[key] > 0) {
            double share = (double)counts[key] / sampler->n_words;
            sampler->keep[key] = (float)fmin(1, sqrt(FREQUENT / share));
            sum += pow((double)counts[key], 0.75);
            sampler->key[sampler->n] = (uint32_t)key;
            sampler->sums[sampler->n++] = sum;
        }
    }
}

static int make_sampler(struct cox_step *step)
{
    struct cox_variable *variable = NULL;
    struct sampler *sampler = calloc(1, sizeof(*sampler));
    int64_t *counts = malloc(BUCKETS * sizeof(*counts));
    if (sampler == NULL || counts == NULL) {
        free(sampler);
        free(counts);
        return cox_step_fail(step, 1, "out of memory");
    }
    int r = cox_step_variable(step, "counts", &variable);
    if (r == 0) {
        const struct cox_pull pull = {variable, cox_rows_all(), counts, 0};
        r = cox_step_pull(step, &pull, 1);
    }
    if (r == 0) {
        fill_sampler(sampler, counts);
        r = cox_step_keep(step, sampler, free);
    }
    if (r != 0) {
        free(sampler);
    }
    free(counts);
    return r;
}

/* A word, as often as its count^0.75. */
static uint64_t draw(const struct sampler *sampler, uint64_t *state)
{
    double at = uniform(state) * sampler->sums[sampler->n - 1];
    size_t low = 0;
    size_t high = sampler->n - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (sampler->sums[middle] > at) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return sampler->key[low];
}

/* ---- training */

/* The words of a batch that are kept, line after line, each with NEGATIVES drawn words.
 * Rows and gradients of "words" are those of the kept words; those of "contexts" have the
 * kept words first, then the drawn ones. */
struct work {
    size_t n;
    uint64_t *keys; /* [n * (1 + NEGATIVES)] */
    size_t *line;   /* [n]: of each kept word */
    float *words;
    float *contexts;
    float *word_gradients;
    float *context_gradients;
};

static void work_fini(struct work *work)
{
    free(work->keys);
    free(work->line);
    free(work->words);
    free(work->contexts);
    free(work->word_gradients);
    free(work->context_gradients);
}

static int work_init(struct work *work, const struct cox_batch *batch,
                     const struct sampler *sampler, uint64_t *state)
{
    size_t most = batch->begin[batch->n] + 1;
    size_t all = most * (1 + NEGATIVES);
    *work = (struct work){.keys = calloc(all, sizeof(uint64_t)),
                          .line = calloc(most, sizeof(size_t)),
                          .words = calloc(most, DIM * sizeof(float)),
                          .contexts = calloc(all, DIM * sizeof(float)),
                          .word_gradients = calloc(most, DIM * sizeof(float)),
                          .context_gradients = calloc(all, DIM * sizeof(float))};
    if (work->keys == NULL || work->line == NULL || work->words == NULL ||
        work->contexts == NULL || work->word_gradients == NULL ||
        work->context_gradients == NULL) {
        return -1;
    }
    for (size_t line = 0; line < batch->n; line++) {
        for (size_t i = batch->begin[line]; i < batch->begin[line + 1]; i++) {
            if (uniform(state) < (double)sampler->keep[batch->keys[i]]) {
                work->line[work->n] = line;
                work->keys[work->n++] = batch->keys[i];
            }
        }
    }
    for (size_t i = work->n; i < work->n * (1 + NEGATIVES); i++) {
        work->keys[i] = draw(sampler, state);
    }
    return 0;
}

/* Adds the gradient of `weight` times the log loss of word i and context c. */
static void add_pair(struct work *work, size_t i, size_t c, float label, float weight)
{
    const float *word = work->words + i * DIM;
    const float *context = work->contexts + c * DIM;
    float score = 0;
    for (int d = 0; d < DIM; d++) {
        score += word[d] * context[d];
    }
    float error = weight * (1 / (1 + expf(-score)) - label);
    for (int d = 0; d < DIM; d++) {
        work->word_gradients[i * DIM + (size_t)d] += error * context[d];
        work->context_gradients[c * DIM + (size_t)d] += error * word[d];
    }
}

/* Each kept word, with its neighbours as contexts, and with its drawn words as often. */
static void add_pairs(struct work *work)
{
    for (size_t i = 0; i < work->n; i++) {
        size_t neighbours = 0;
        size_t first = i > WINDOW ? i - WINDOW : 0;
        for (size_t c = first; c <= i + WINDOW && c < work->n; c++) {
            if (c != i && work->line[c] == work->line[i]) {
                add_pair(work, i, c, 1, 1);
                neighbours++;
            }
        }
        for (size_t k = 0; k < NEGATIVES; k++) {
            add_pair(work, i, work->n + i * NEGATIVES + k, 0, (float)neighbours);
        }
    }
}

static int train_work(struct cox_step *step, struct work *work)
{
    struct cox_variable *words = NULL;
    struct cox_variable *contexts = NULL;
    size_t all = work->n * (1 + NEGATIVES);
    int r = cox_step_variable(step, "words", &words);
    r = r != 0 ? r : cox_step_variable(step, "contexts", &contexts);
    if (r != 0 || work->n == 0) {
        return r;
    }
    const struct cox_pull pulls[] = {
        {words, cox_rows_listed(work->keys, work->n), work->words, 0},
        {contexts, cox_rows_listed(work->keys, all), work->contexts, 0},
    };
    r = cox_step_pull(step, pulls, 2);
    if (r == 0) {
        add_pairs(work);
        r = cox_step_push_rows(step, words, work->keys, work->n, work->word_gradients);
    }
    return r != 0 ? r
                  : cox_step_push_rows(step, contexts, work->keys, all,
                                       work->context_gradients);
}

static int count(struct cox_step *step)
{
    struct cox_batch batch = COX_BATCH_INIT;
    int r;
    while ((r = cox_step_batch(step, &batch)) == 0 &&
           (r = count_batch(step, &batch)) == 0) {
    }
    return r == COX_EEOF ? 0 : r;
}

static int train(struct cox_step *step)
{
    struct cox_batch batch = COX_BATCH_INIT;
    uint64_t state = cox_step_seed(step);
    void *sampler = NULL;
    int r = cox_step_resource(step, "sampler", &sampler);
    while (r == 0 && (r = cox_step_batch(step, &batch)) == 0) {
        struct work work;
        r = work_init(&work, &batch, sampler, &state) == 0
                ? train_work(step, &work)
                : cox_step_fail(step, 1, "out of memory");
        work_fini(&work);
    }
    return r == COX_EEOF ? 0 : r;
}

static int vectors(struct cox_step *step)
{
    static const uint64_t most = 4096;
    struct cox_batch batch = COX_BATCH_INIT;
    struct cox_variable *words = NULL;
    float *rows = calloc(most, DIM * sizeof(*rows));
    uint64_t n = 0;
    int r = rows != NULL ? cox_step_variable(step, "words", &words)
                         : cox_step_fail(step, 1, "out of memory");
    while (r == 0 && (r = cox_step_batch(step, &batch)) == 0) {
        if (n + batch.n > most || batch.begin[batch.n] != batch.n) {
            r = cox_step_fail(step, 2, "one word a line, and at most 4096 lines");
            break;
        }
        const struct cox_pull pull = {words, cox_rows_listed(batch.keys, batch.n),
                                      rows + n * DIM, 0};
        r = cox_step_pull(step, &pull, 1);
        n += batch.n;
    }
    if (r == COX_EEOF) {
        const struct cox_value value = COX_VECTOR("vectors", COX_F32, n * DIM, rows);
        r = cox_step_return(step, &value);
    }
    free(rows);
    return r;
}

COX_STEPS(COX_STEP("count", count), COX_STEP("sampler", make_sampler),
          COX_STEP("train", train), COX_STEP("vectors", vectors));
