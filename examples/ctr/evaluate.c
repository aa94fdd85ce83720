/* See evaluate.h. It needs the checkpoint directory, and neither the client nor
 * daemons. */
#include "evaluate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <coxswain/coxswain.h>

#include "model.h"

/* Memory for one pass over the rows, allocated once. */
struct scorer {
    struct rows rows;
    uint32_t dim;
    float *weights; /* a row for each key */
    float *scores;
};

/* Loads the weights that the rows need, and scores them all. 0 or a COX_E... code. */
static int score(struct scorer *s, struct cox_evaluator *evaluator, double *ret_logloss,
                 float *ret_bias)
{
    float bias = 0;
    double loss = 0;
    int r = cox_evaluator_read(evaluator, "bias", &bias, sizeof(bias));
    if (r == 0) {
        r = cox_evaluator_lookup(evaluator, "weights", s->rows.keys, s->rows.n_keys,
                                 s->dim, s->weights);
    }
    for (size_t i = 0; r == 0 && i < s->rows.n_rows; i++) {
        s->scores[i] = model_score(&s->rows, i, s->weights, s->dim, bias);
        loss += model_loss(s->scores[i], s->rows.labels[i]);
    }
    *ret_logloss = loss / (double)s->rows.n_rows;
    *ret_bias = bias;
    return r;
}

static int evaluate_one(struct scorer *s, struct cox_evaluator *evaluator,
                        const struct cox_checkpoint_info *info)
{
    double logloss = 0;
    float bias = 0;
    double auc = 0;
    uint64_t table_rows = 0;
    int r = score(s, evaluator, &logloss, &bias);
    if (r == 0) {
        r = cox_auc(s->rows.labels, s->scores, s->rows.n_rows, &auc);
    }
    if (r == 0) {
        r = cox_evaluator_rows(evaluator, "weights", &table_rows);
    }
    if (r != 0) {
        return r;
    }
    const struct cox_score metrics[] = {
        {"auc", auc},
        {"logloss", logloss},
        {"rows", (double)s->rows.n_rows},
        {"table_rows", (double)table_rows},
        {"bias", (double)bias},
        {"final", info->final},
    };
    return cox_evaluator_report(evaluator, metrics, sizeof(metrics) / sizeof(*metrics));
}

/* Scores each checkpoint as it comes. If one cannot be loaded, prints the reason and
 * tries again. Waits for the next one as long as the client lives. */
static int follow(struct scorer *s, struct cox_evaluator *evaluator)
{
    enum { TRIES = 10 };
    pid_t client = getppid();
    int failures = 0;
    while (getppid() == client) {
        struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
        int r = cox_evaluator_next(evaluator, &info);
        if (r == 0) {
            r = evaluate_one(s, evaluator, &info);
        }
        if (r == COX_EEOF) {
            return 0;
        }
        if (r == COX_ETIMEDOUT) {
            continue;
        }
        failures = r == 0 ? 0 : failures + 1;
        if (r != 0) {
            (void)fprintf(stderr, "ctr: evaluator: %s\n", cox_error_last());
        }
        if (failures == TRIES) {
            return 1;
        }
    }
    return 1;
}

int evaluate(const struct options *options)
{
    struct scorer s = {.dim = strcmp(options->model, "fm") == 0 ? MODEL_FM_DIM
                                                                : MODEL_LR_DIM};
    struct cox_evaluator *evaluator;
    struct cox_evaluator_options patience = COX_EVALUATOR_OPTIONS_INIT;
    struct data_error error;
    char dir[1024];
    patience.first_timeout_ms = patience.idle_timeout_ms = 1000;
    (void)snprintf(dir, sizeof(dir), "%s/checkpoints", options->out);
    if (rows_read(options->valid, 0, 0, 1, &s.rows, &error) != 0) {
        (void)fprintf(stderr, "ctr: %s\n", error.text);
        return 2;
    }
    s.weights = malloc((s.rows.n_keys + 1) * s.dim * sizeof(*s.weights));
    s.scores = malloc((s.rows.n_rows + 1) * sizeof(*s.scores));
    int code = 1;
    if (s.rows.n_rows == 0) {
        (void)fprintf(stderr, "ctr: %s: has no rows\n", options->valid);
        code = 2;
    } else if (s.weights != NULL && s.scores != NULL &&
               cox_evaluator_open(dir, &patience, &evaluator) == 0) {
        code = follow(&s, evaluator);
        cox_evaluator_close(evaluator);
    }
    free(s.weights);
    free(s.scores);
    rows_free(&s.rows);
    return code;
}
