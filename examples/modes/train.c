/*
 * See train.h. The examples of a run are in one order, which is the same in every mode,
 * and are cut into batches. A leg is the batches between two points of the curve: all of
 * them are applied, once, before the model is scored; the clock stands still meanwhile.
 *
 *     train -> open_crew    cluster, variables, steps, rows on the workers
 *           -> run_legs     run_leg -> run_closures or run_rounds, then add_point
 *
 * Gradients are sums over the examples, and rounds add them up (COX_REDUCE_SUM). So an
 * example moves the model by the same learning rate in all modes, whether a step of the
 * optimizer has one batch or several: the rate of a mean gradient grows with the batch.
 */
#include "train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <coxswain/coxswain.h>

#include "model.h"

/* Batches of a leg that are still to do, and what becomes of them. */
struct leg {
    size_t *batches;
    struct cox_future **futures;
    size_t n;
};

struct client {
    const struct work *work;
    const struct kind *kind;
    struct curve *curve;
    struct cox_coordinator *c;
    struct cox_variable *bias;
    struct cox_table *weights;
    struct cox_module *module;
    struct cox_function *train;
    struct cox_rounds *rounds; /* NULL: the mode has none */
    struct cox_rounds *whole;  /* without backups, for closures that are left over */
    struct model model;        /* parameters of the test rows' features */
    float *scores;
    struct leg leg;
    size_t n_batches; /* in the run */
    double seconds;
    double shown_s;
};

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- opening */

static int open_cluster(struct client *client)
{
    const struct options *o = client->work->options;
    struct cox_cluster *cluster;
    struct cox_options options = COX_OPTIONS_INIT;
    int r = cox_cluster_from_env(&cluster); /* running daemons, if there are any */
    if (r == COX_ENOENT) {
        options.min_workers = (uint32_t)o->workers;
        r = cox_cluster_local((int)o->ps, (int)o->workers, &cluster);
    }
    if (r == 0) {
        r = cox_open(cluster, &options, &client->c);
        cox_cluster_free(cluster);
    }
    return r;
}

/* SGD: its step is proportional to the gradient, so batches of any size compare. */
static struct cox_optimizer sgd(const struct client *client)
{
    double rate = client->work->options->rate;
    return (struct cox_optimizer){
        .kind = COX_SGD,
        .learning_rate = (float)rate,
        .schedule = {.kind = COX_SCHEDULE_LINEAR,
                     .end_rate = (float)(rate / 5),
                     .steps = client->n_batches},
    };
}

static int create_variables(struct client *client)
{
    const struct options *o = client->work->options;
    const struct kind *kind = client->kind;
    struct cox_variable_spec bias = COX_VARIABLE_SPEC_INIT;
    struct cox_table_spec weights = COX_TABLE_SPEC_INIT;
    weights.name = "weights";
    weights.dim = 1;
    weights.optimizer = sgd(client);
    weights.staleness_action = kind->action;
    weights.staleness_max =
        kind->action != COX_STALENESS_APPLY ? (uint64_t)o->staleness_max : 0;
    weights.delay_compensation = kind->compensates ? (float)o->lambda : 0;
    bias.name = "bias";
    bias.dtype = COX_F32;
    bias.rank = 1;
    bias.shape[0] = 1;
    bias.optimizer = weights.optimizer;
    bias.staleness_action = weights.staleness_action;
    bias.staleness_max = weights.staleness_max;
    bias.delay_compensation = weights.delay_compensation;
    int r = cox_variable_create(client->c, &bias, &client->bias);
    return r != 0 ? r : cox_table_create(client->c, &weights, &client->weights);
}

static int create_rounds(struct client *client)
{
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    if (!client->kind->rounds) {
        return 0;
    }
    spec.reduce = COX_REDUCE_SUM;
    int r = cox_rounds_create(client->c, &spec, &client->whole);
    spec.staleness = client->kind->staleness;
    spec.backups = client->kind->backups;
    return r != 0 ? r : cox_rounds_create(client->c, &spec, &client->rounds);
}

/* The module is in this program's directory. */
static int load_steps(struct client *client)
{
    char path[1024];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/');
    (void)strcpy(slash != NULL ? slash + 1 : path, "modes_steps.so");
    int r = cox_module_load(client->c, path, &client->module);
    return r != 0
               ? r
               : cox_function_get(client->module, client->kind->step, &client->train);
}

/* Has each worker read the training file, and waits for that: it is no training time. */
static int load_rows(struct client *client)
{
    const char *path = client->work->train;
    const struct cox_value args[] = {COX_VECTOR("path", COX_U8, strlen(path), path)};
    struct cox_function *load;
    struct cox_function *ready;
    struct cox_stats stats = COX_STATS_INIT;
    struct cox_call call = COX_CALL_INIT;
    call.args = args;
    call.n_args = 1;
    int r = cox_function_get(client->module, "load", &load);
    r = r != 0 ? r : cox_function_get(client->module, "ready", &ready);
    r = r != 0 ? r : cox_resource_create(client->c, "rows", load, &call, NULL);
    r = r != 0 ? r : cox_stats(client->c, &stats);
    for (uint32_t i = 1; r == 0 && i <= stats.workers; i++) {
        struct cox_call only = COX_CALL_INIT;
        only.only_worker = i;
        r = cox_schedule(client->c, ready, &only, NULL);
    }
    return r != 0 ? r : cox_join(client->c, -1);
}

static int open_crew(struct client *client)
{
    int r = open_cluster(client);
    r = r != 0 ? r : create_variables(client);
    r = r != 0 ? r : create_rounds(client);
    r = r != 0 ? r : load_steps(client);
    return r != 0 ? r : load_rows(client);
}

/* ---- closures */

/* A closure trains on the batches from `first` on: these arguments. */
struct closure {
    int64_t batch;
    int64_t place;
    int64_t pause_ms;
    struct cox_value args[5];
    struct cox_call call;
};

/* One batch in ten, the same ones in every mode; `again`: it is another host's turn. */
static bool is_slow(size_t batch, size_t again)
{
    return ((batch + 7919 * again) * 0x9e3779b97f4a7c15U >> 32) % 10 == 0;
}

static size_t batches_of(const struct client *client)
{
    return client->kind->merges ? (size_t)client->work->options->merged : 1;
}

static void closure_init(struct closure *closure, const struct client *client,
                         size_t first, size_t end, size_t again)
{
    const struct work *work = client->work;
    const struct options *o = work->options;
    size_t begin = first * (size_t)o->batch;
    size_t n = (end - first) * (size_t)o->batch;
    *closure = (struct closure){.batch = o->batch, .place = (int64_t)first};
    n = n < work->n_order - begin ? n : work->n_order - begin;
    for (size_t i = first; i < end; i++) {
        closure->pause_ms += is_slow(i, again) ? o->slow_ms : 0;
    }
    const struct cox_value args[] = {
        COX_VECTOR("rows", COX_I32, n, work->order + begin),
        COX_SCALAR("batch", COX_I64, &closure->batch),
        COX_SCALAR("place", COX_I64, &closure->place),
        COX_SCALAR("pause", COX_I64, &closure->pause_ms),
        COX_SCALAR("l2", COX_F64, &o->l2),
    };
    memcpy(closure->args, args, sizeof(args));
    closure->call = (struct cox_call)COX_CALL_INIT;
    closure->call.args = closure->args;
    closure->call.n_args = sizeof(args) / sizeof(*args);
}

/* ---- a leg */

static int run_closures(struct client *client, size_t begin, size_t end)
{
    struct closure closure;
    size_t n = batches_of(client);
    int r = 0;
    for (size_t i = begin; r == 0 && i < end; i += n) {
        closure_init(&closure, client, i, i + n < end ? i + n : end, 0);
        r = cox_schedule(client->c, client->train, &closure.call, NULL);
    }
    return r != 0 ? r : cox_join(client->c, -1);
}

static void free_futures(struct leg *leg)
{
    for (size_t i = 0; i < leg->n; i++) {
        cox_future_free(leg->futures[i]);
    }
}

/* Schedules the n batches of a leg as rounds of one closure for each worker. */
static int schedule_rounds(struct client *client, struct leg *leg, size_t again)
{
    struct closure closures[64];
    struct cox_round_call calls[64];
    size_t most = (size_t)client->work->options->workers;
    int r = 0;
    for (size_t i = 0; r == 0 && i < leg->n; i += most) {
        size_t n = leg->n - i < most ? leg->n - i : most;
        for (size_t j = 0; j < n; j++) {
            size_t batch = leg->batches[i + j];
            closure_init(&closures[j], client, batch, batch + 1, again);
            calls[j] = (struct cox_round_call){client->train, &closures[j].call};
        }
        r = cox_round_schedule(n > client->kind->backups ? client->rounds
                                                         : client->whole,
                               calls, n, &leg->futures[i], NULL);
        if (r != 0) {
            leg->n = i; /* the others have no future */
        }
    }
    return r;
}

/* Keeps the batches that were too late for their round. */
static void keep_late(struct leg *leg)
{
    size_t n = 0;
    for (size_t i = 0; i < leg->n; i++) {
        if (cox_future_wait(leg->futures[i], 0) == COX_ELATE) {
            leg->batches[n++] = leg->batches[i];
        }
    }
    free_futures(leg);
    leg->n = n;
}

/* Runs all batches in rounds. What was too late for its round goes into a later one, so
 * that every example counts once. */
static int run_rounds(struct client *client, size_t begin, size_t end)
{
    struct leg *leg = &client->leg;
    leg->n = end - begin;
    for (size_t i = 0; i < leg->n; i++) {
        leg->batches[i] = begin + i;
    }
    for (size_t again = 0; leg->n > 0; again++) {
        int r = schedule_rounds(client, leg, again);
        r = r != 0 ? r : cox_join(client->c, -1);
        if (r != 0) {
            free_futures(leg);
            return r;
        }
        keep_late(leg);
        client->curve->left_out += leg->n;
    }
    return 0;
}

/* ---- scores */

static int add_point(struct client *client, size_t n_batches)
{
    const struct work *work = client->work;
    const struct cox_batch *test = &work->test->batch;
    struct point *point = &client->curve->points[client->curve->n];
    size_t examples = n_batches * (size_t)work->options->batch;
    int r = cox_variable_read(client->c, client->bias, &client->model.bias,
                              sizeof(client->model.bias));
    r = r != 0 ? r
               : cox_table_read(client->c, client->weights, test->keys,
                                work->test->n_features, client->model.weights);
    if (r != 0) {
        return r;
    }
    *point = (struct point){
        .examples = (double)(examples < work->n_order ? examples : work->n_order),
        .seconds = client->seconds,
    };
    for (size_t i = 0; i < test->n; i++) {
        client->scores[i] = model_score(&client->model, test, i);
        point->loss += model_loss(client->scores[i], test->labels[i]) / (double)test->n;
    }
    client->curve->n++;
    /* A diverged model may have scores that are no numbers. */
    return isfinite(point->loss)
               ? cox_auc(test->labels, client->scores, test->n, &point->auc)
               : 0;
}

static void show_progress(struct client *client)
{
    bool terminal = isatty(STDOUT_FILENO) != 0;
    const struct curve *curve = client->curve;
    const struct point *last = &curve->points[curve->n - 1];
    double now = now_s();
    if (now - client->shown_s < (terminal ? 0.1 : 2.0)) {
        return;
    }
    client->shown_s = now;
    /* the cursor stays at the beginning of the line: what else is printed begins there */
    (void)printf("%s%s: %.0f %%  loss %.4f  %.0f examples/s%s",
                 terminal ? "\r\033[K" : "", client->kind->label,
                 100 * last->examples / (double)client->work->n_order, last->loss,
                 last->examples / last->seconds, terminal ? "\r" : "\n");
    (void)fflush(stdout);
}

/* Legs are as long as each other, but for the last one, and have whole rounds. */
static size_t leg_of(const struct client *client)
{
    const struct options *o = client->work->options;
    size_t whole = (size_t)(o->workers * o->merged);
    size_t least = client->n_batches / (size_t)o->points + 1;
    return (least + whole - 1) / whole * whole;
}

/* For those who watch the run. */
static int tell_total(struct client *client)
{
    size_t n = batches_of(client);
    struct cox_stats stats = COX_STATS_INIT;
    int r = cox_stats(client->c, &stats); /* the workers were made ready by closures */
    return r != 0
               ? r
               : cox_log_total(client->c, stats.done + (client->n_batches + n - 1) / n);
}

static int run_legs(struct client *client)
{
    size_t leg = leg_of(client);
    int r = tell_total(client);
    for (size_t begin = 0; r == 0 && begin < client->n_batches; begin += leg) {
        size_t end = begin + leg < client->n_batches ? begin + leg : client->n_batches;
        double start = now_s();
        r = client->rounds != NULL ? run_rounds(client, begin, end)
                                   : run_closures(client, begin, end);
        client->seconds += now_s() - start;
        r = r != 0 ? r : add_point(client, end);
        if (r == 0) {
            show_progress(client);
        }
    }
    return r;
}

static int count_stale(struct client *client)
{
    struct cox_staleness_counts seen = COX_STALENESS_COUNTS_INIT;
    int r = cox_staleness(client->c, "weights", 0, &seen);
    client->curve->staleness =
        seen.gradients > 0 ? (double)seen.sum / (double)seen.gradients : NAN;
    client->curve->left_out += seen.dropped;
    return r;
}

static int run_mode(struct client *client)
{
    int r = open_crew(client);
    r = r != 0 ? r : run_legs(client);
    r = r != 0 ? r : count_stale(client);
    if (r != 0) {
        (void)fprintf(stderr, "modes: %s: %s\n", client->kind->label, cox_error_last());
    }
    (void)cox_close(client->c, 5000); /* ends the local cluster, too */
    return r != 0;
}

int train(const struct work *work, const struct kind *kind, struct curve *ret)
{
    size_t batch = (size_t)work->options->batch;
    struct client client = {
        .work = work,
        .kind = kind,
        .curve = ret,
        .n_batches = (work->n_order + batch - 1) / batch,
        .shown_s = now_s(),
    };
    size_t leg = leg_of(&client);
    int code = 1;
    ret->kind = kind;
    ret->points = calloc((size_t)work->options->points, sizeof(*ret->points));
    client.scores = malloc(work->test->batch.n * sizeof(float));
    client.leg.batches = malloc(leg * sizeof(*client.leg.batches));
    client.leg.futures =
        (struct cox_future **)malloc(leg * sizeof(struct cox_future *));
    if (!model_init(&client.model, work->test->n_features, 0) || ret->points == NULL ||
        client.scores == NULL || client.leg.batches == NULL ||
        client.leg.futures == NULL) {
        (void)fputs("modes: out of memory\n", stderr);
    } else {
        code = run_mode(&client);
    }
    model_fini(&client.model);
    free(client.scores);
    free(client.leg.batches);
    free((void *)client.leg.futures);
    return code;
}

void curve_fini(struct curve *curve)
{
    free(curve->points);
    *curve = (struct curve){0};
}
