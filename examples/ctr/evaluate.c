/* See evaluate.h. It needs the checkpoint directory, and neither the client nor
 * daemons. */
#include "evaluate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <coxswain/coxswain.h>

#include "model.h"
#include "rows.h"

/* Memory for one pass over the rows, allocated once. */
struct scorer {
    struct rows rows;
    struct model model;
    float *scores;
};

/* Loads the parameters that the rows need, and scores them all. 0 or a COX_E... code. */
static int score(struct scorer *s, struct cox_evaluator *evaluator, double *ret_logloss)
{
    const struct cox_batch *batch = &s->rows.batch;
    struct model *model = &s->model;
    size_t n = s->rows.n_features;
    double loss = 0;
    int r = cox_evaluator_read(evaluator, "bias", &model->bias, sizeof(model->bias));
    if (r == 0) {
        r = cox_evaluator_lookup(evaluator, "weights", batch->keys, n, 1,
                                 model->weights);
    }
    if (r == 0 && model->factors != NULL) {
        r = cox_evaluator_lookup(evaluator, "factors", batch->keys, n, MODEL_FACTORS,
                                 model->factors);
    }
    for (size_t i = 0; r == 0 && i < batch->n; i++) {
        s->scores[i] = model_score(model, batch, i);
        loss += model_loss(s->scores[i], batch->labels[i]);
    }
    *ret_logloss = loss / (double)batch->n;
    return r;
}

static int evaluate_one(struct scorer *s, struct cox_evaluator *evaluator,
                        const struct cox_checkpoint_info *info)
{
    double logloss = 0;
    double auc = 0;
    uint64_t table_rows = 0;
    int r = score(s, evaluator, &logloss);
    if (r == 0) {
        r = cox_auc(s->rows.labels, s->scores, s->rows.batch.n, &auc);
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
        {"rows", (double)s->rows.batch.n},
        {"table_rows", (double)table_rows},
        {"bias", (double)s->model.bias},
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

/* Prepares memory for the rows of a file. 0 or the program's exit code. */
static int open_scorer(struct scorer *s, const struct options *options)
{
    if (rows_read(options->valid, &s->rows) != 0) {
        return 2;
    }
    s->scores = malloc((s->rows.batch.n + 1) * sizeof(*s->scores));
    int is_fm = strcmp(options->model, "fm") == 0;
    if (!model_init(&s->model, s->rows.n_features, is_fm) || s->scores == NULL) {
        (void)fputs("ctr: evaluator: out of memory\n", stderr);
        return 1;
    }
    return 0;
}

int evaluate(const struct options *options)
{
    struct scorer s = {0};
    struct cox_evaluator *evaluator;
    struct cox_evaluator_options patience = COX_EVALUATOR_OPTIONS_INIT;
    patience.first_timeout_ms = patience.idle_timeout_ms = 1000;
    int code = open_scorer(&s, options);
    if (code == 0) {
        code = 1;
        if (cox_evaluator_open(options->checkpoint_dir, &patience, &evaluator) == 0) {
            code = follow(&s, evaluator);
            cox_evaluator_close(evaluator);
        }
    }
    model_fini(&s.model);
    free(s.scores);
    rows_free(&s.rows);
    return code;
}

/* A score of an evaluation; 0: it has none of that name. */
static double score_of(const struct cox_eval *eval, const char *name)
{
    double value = 0;
    return cox_eval_score(eval, name, &value) == 0 ? value : 0;
}

void evaluate_verdict(const struct options *options, struct verdict *ret)
{
    struct cox_evals *evals = NULL;
    struct cox_eval eval = COX_EVAL_INIT;
    (void)printf("\n%10s  %8s  %8s  %10s\n", "checkpoint", "auc", "logloss",
                 "table rows");
    if (cox_evals_read(options->checkpoint_dir, &evals) != 0) {
        return;
    }
    for (size_t i = 0; cox_evals_at(evals, i, &eval) == 0; i++) {
        ret->n_evaluations++;
        ret->auc = score_of(&eval, "auc");
        ret->logloss = score_of(&eval, "logloss");
        (void)printf("%10llu  %8.4f  %8.4f  %10.0f\n",
                     (unsigned long long)eval.checkpoint, ret->auc, ret->logloss,
                     score_of(&eval, "table_rows"));
    }
    cox_evals_free(evals);
}
