/*
 * Training that lowers its learning rate when it gets no better, and stops when that does
 * not help. Read examples/ctr first: this page shows two ways of evaluating, and what a
 * client does with the results.
 *
 *   inline     evaluate_inline: the workers score the test rows, range by range, into
 *              metrics; with everything joined before, at one moment of the model
 *   beside     follow, a thread here and otherwise a program of its own: scores checkpoints
 *              while training goes on, and reports to eval.jsonl; heed reads that
 *
 *     early_stop DIRECTORY      (--help says more)
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <coxswain/coxswain.h>

#include "early_stop.h"

enum { ROUNDS_MAX = 1000, PATIENCE = 2, LOWERED_MAX = 3 };

/* A smaller decrease of the loss does not count. */
static const double least_gain = 1e-3;

struct client {
    struct cox_coordinator *c;
    struct cox_function *train;
    struct cox_function *evaluate;
    struct cox_metric *loss;
    struct cox_metric *auc;
    const char *dir; /* the directory of checkpoints and eval.jsonl */
    double rate;
    int lowered;  /* how often the rate was lowered */
    size_t since; /* the first report with the present rate */
};

static int complain(const char *what)
{
    (void)fprintf(stderr, "early_stop: %s: %s\n", what, cox_error_last());
    return 1;
}

/* ---- beside: each checkpoint, as it comes */

static void *follow(void *arg)
{
    struct cox_evaluator *evaluator;
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    float w[DIM];
    if (cox_evaluator_open(arg, NULL, &evaluator) != 0) {
        (void)complain("evaluator");
        return NULL;
    }
    while (cox_evaluator_next(evaluator, &info) == 0 &&
           cox_evaluator_read(evaluator, "w", w, sizeof(w)) == 0) {
        struct cox_score loss = {"loss", 0};
        for (int64_t row = TRAIN_ROWS; row < TRAIN_ROWS + TEST_ROWS; row++) {
            float features[DIM];
            float label = example_row(row, features);
            loss.value += example_loss(example_score(features, w), label) / TEST_ROWS;
        }
        if (cox_evaluator_report(evaluator, &loss, 1) != 0) {
            (void)complain("report");
        }
    }
    cox_evaluator_close(evaluator);
    return NULL;
}

/* How many of the last reports, from report `since` on, are without an improvement. */
static size_t fruitless(const struct cox_evals *evals, size_t since)
{
    double best = HUGE_VAL;
    size_t n = 0;
    for (size_t i = 0; i < cox_evals_count(evals); i++) {
        struct cox_eval eval = COX_EVAL_INIT;
        double loss = HUGE_VAL;
        if (cox_evals_at(evals, i, &eval) != 0 ||
            cox_eval_score(&eval, "loss", &loss) != 0) {
            continue;
        }
        n = i < since || loss < best - least_gain ? 0 : n + 1;
        best = loss < best ? loss : best;
    }
    return n;
}

/* Reads the reports; lowers the rate, or returns 1: stop. */
static int heed(struct client *client)
{
    struct cox_evals *evals;
    if (cox_evals_read(client->dir, &evals) != 0) {
        return 0; /* there is no report yet */
    }
    size_t count = cox_evals_count(evals);
    size_t n = fruitless(evals, client->since);
    cox_evals_free(evals);
    if (n < PATIENCE) {
        return 0;
    }
    client->rate /= 4;
    client->since = count;
    client->lowered++;
    (void)printf("no better for %zu checkpoints: rate %g\n", n, client->rate);
    return client->lowered > LOWERED_MAX;
}

/* ---- steps */

/* Schedules a step for each range of the rows [begin, end). */
static int schedule(struct client *client, struct cox_function *function, int64_t begin,
                    int64_t end)
{
    int r = 0;
    for (; r == 0 && begin < end; begin += RANGE) {
        int64_t range_end = begin + RANGE < end ? begin + RANGE : end;
        const struct cox_value args[] = {COX_SCALAR("begin", COX_I64, &begin),
                                         COX_SCALAR("end", COX_I64, &range_end),
                                         COX_SCALAR("rate", COX_F64, &client->rate)};
        struct cox_call call = COX_CALL_INIT;
        call.args = args;
        call.n_args = 3;
        r = cox_schedule(client->c, function, &call, NULL);
    }
    return r;
}

static int evaluate_inline(struct client *client)
{
    double loss = 0;
    double auc = 0;
    double rows = 0;
    int r = cox_join(client->c, -1); /* all training steps are in the model */
    if (r == 0) {
        r = cox_metric_reset(client->c, client->loss);
    }
    if (r == 0) {
        r = cox_metric_reset(client->c, client->auc);
    }
    if (r == 0) {
        r = schedule(client, client->evaluate, TRAIN_ROWS, TRAIN_ROWS + TEST_ROWS);
    }
    if (r == 0) {
        r = cox_join(client->c, -1);
    }
    if (r == 0) {
        r = cox_metric_read(client->c, client->loss, &loss, &rows);
    }
    if (r == 0) {
        r = cox_metric_read(client->c, client->auc, &auc, NULL);
    }
    if (r == 0) {
        (void)printf("loss %.4f, AUC %.4f of %.0f rows\n", loss, auc, rows);
    }
    return r;
}

static int train(struct client *client)
{
    struct cox_checkpoint_options last = COX_CHECKPOINT_OPTIONS_INIT;
    int rounds = 0;
    int stop = 0;
    int r = 0;
    while (r == 0 && !stop && rounds < ROUNDS_MAX) {
        r = schedule(client, client->train, 0, TRAIN_ROWS);
        if (r == 0) {
            r = cox_join(client->c, -1);
        }
        if (r == 0) {
            r = cox_checkpoint_save(client->c, NULL, NULL);
        }
        if (r == 0 && rounds % 20 == 0) {
            r = evaluate_inline(client);
        }
        stop = heed(client);
        rounds++;
    }
    last.final = 1;
    if (r == 0) {
        r = cox_checkpoint_save(client->c, &last, NULL);
    }
    if (r == 0) {
        r = evaluate_inline(client);
    }
    (void)printf("%s after %d rounds\n", stop ? "stopped early" : "ended", rounds);
    return r;
}

/* ---- opening */

/* The step module lies beside this program. */
static void module_path(char *ret, size_t len)
{
    char self[1024] = "";
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    const char *slash = n > 0 ? strrchr(self, '/') : NULL;
    (void)snprintf(ret, len, "%.*searly_stop_steps.so",
                   slash != NULL ? (int)(slash + 1 - self) : 0, self);
}

static int create(struct client *client)
{
    struct cox_variable *variable;
    struct cox_variable_spec w = COX_VARIABLE_SPEC_INIT;
    struct cox_metric_spec loss = COX_METRIC_SPEC_INIT;
    struct cox_metric_spec auc = COX_METRIC_SPEC_INIT;
    w.name = "w";
    w.dtype = COX_F32;
    w.rank = 1;
    w.shape[0] = DIM;
    w.optimizer.kind = COX_SGD;
    w.optimizer.learning_rate = 1; /* steps multiply gradients by the rate themselves */
    loss.name = "loss";
    loss.kind = COX_METRIC_MEAN;
    auc.name = "auc";
    auc.kind = COX_METRIC_AUC;
    int r = cox_variable_create(client->c, &w, &variable);
    if (r == 0) {
        r = cox_metric_create(client->c, &loss, &client->loss);
    }
    return r == 0 ? cox_metric_create(client->c, &auc, &client->auc) : r;
}

static int open_client(struct client *client)
{
    char path[1100];
    struct cox_cluster *cluster;
    struct cox_module *module;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = client->dir;
    options.checkpoint_keep = 3;
    int r = cox_cluster_local(2, 2, &cluster);
    if (r == 0) {
        r = cox_open(cluster, &options, &client->c);
        cox_cluster_free(cluster);
    }
    if (r == 0) {
        r = create(client);
    }
    if (r == 0) {
        module_path(path, sizeof(path));
        r = cox_module_load(client->c, path, &module);
    }
    if (r == 0) {
        r = cox_function_get(module, "train", &client->train);
    }
    return r == 0 ? cox_function_get(module, "evaluate", &client->evaluate) : r;
}

static const char help[] =
    "Usage: early_stop DIRECTORY\n"
    "\n"
    "Trains a small classifier on a local cluster, scores every checkpoint, lowers "
    "the\n"
    "learning rate when that gets no better, and stops when lowering it does not "
    "help.\n"
    "Checkpoints and eval.jsonl go to DIRECTORY, which is made if it is missing.\n";

int main(int argc, char **argv)
{
    struct client client = {.dir = argv[1], .rate = 16};
    pthread_t evaluator;
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        (void)fputs(help, stdout);
        return 0;
    }
    if (argc != 2 || argv[1][0] == '-') {
        (void)fputs(help, stderr);
        return 2;
    }
    int code = open_client(&client) == 0 ? 0 : complain("opening");
    if (code == 0 && pthread_create(&evaluator, NULL, follow, argv[1]) == 0) {
        code = train(&client) == 0 ? 0 : complain("training");
        if (code == 0) { /* it ends with the final checkpoint */
            (void)pthread_join(evaluator, NULL);
        }
    }
    return cox_close(client.c, 10000) == 0 ? code : complain("closing");
}
