/*
 * A click model trained with Coxswain: the page to read first.
 *
 * One program in two roles. The client below creates a table of weights on the
 * parameter servers, ships the step module (steps.c) to the workers, makes a data set of
 * the training file, schedules a step for each of its tasks until every row has been
 * trained on in every epoch, and writes checkpoints. The evaluator (evaluate.c) is the
 * same program started a second time; it scores each checkpoint while training goes on.
 *
 *     main -> train -> open_crew       cluster, coordinator, data set, variables, module
 *                   -> train_all       schedule, progress, checkpoints
 *                   -> finish          join, last checkpoint, the evaluator's verdict
 *
 * What the model computes is in model.c.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <coxswain/coxswain.h>

#include "evaluate.h"
#include "files.h"
#include "model.h"

enum {
    WINDOW = 256,  /* steps that are under way at a time */
    WAIT_MS = 200, /* the longest wait for one of them before progress is shown again */
    AWAY_MS = 2000 /* a parameter server that is silent for this long is away */
};

struct client {
    const struct options *options;
    struct cox_coordinator *c;
    struct cox_function *train;
    struct cox_dataset *rows;
    struct cox_metric *loss; /* the mean of all rows of the run */
    pid_t evaluator;         /* 0: it has ended */
    int evaluator_code;

    /* a ring: the oldest is futures[n_done % WINDOW] */
    struct cox_future *futures[WINDOW];
    size_t n_scheduled;
    size_t n_done;

    uint64_t rows_before; /* that an earlier client has trained on */
    double loss_shown;    /* the loss's sum and weight at the last progress line */
    double weight_shown;
    double shown_loss;         /* what that line said */
    uint64_t checkpoint;       /* number of the last one */
    size_t steps_checkpointed; /* n_done when it was taken */
    double start_s;
    double shown_s;
};

extern char **environ;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signum)
{
    (void)signum;
    interrupted = 1;
}

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* On a terminal a line of progress replaces the one before. The cursor stays at its
 * beginning, so that what else is printed there, such as an event, begins a line. */
static void clear_progress(void)
{
    if (isatty(STDOUT_FILENO) != 0) {
        (void)printf("\r\033[K");
        (void)fflush(stdout);
    }
}

/* Prints the error of the last Coxswain call; returns the exit code for it. */
static int complain(const char *what)
{
    clear_progress();
    (void)fprintf(stderr, "ctr: %s: %s\n", what, cox_error_last());
    return 1;
}

/* ---- the evaluator, a second process of this program */

static int start_evaluator(struct client *client, const char *self)
{
    const struct options *o = client->options;
    const char *argv[] = {self,     "--role",           "evaluator",       "--train",
                          o->train, "--valid",          o->valid,          "--model",
                          o->model, "--checkpoint-dir", o->checkpoint_dir, NULL};
    errno = posix_spawn(&client->evaluator, "/proc/self/exe", NULL, NULL,
                        (char **)(uintptr_t)argv, environ);
    if (errno != 0) {
        (void)fprintf(stderr, "ctr: cannot start the evaluator: %s\n", strerror(errno));
        client->evaluator = 0;
        return 1;
    }
    return 0;
}

/* True if the evaluator has ended (`wait`: waits until it has). Keeps its exit code. */
static bool evaluator_ended(struct client *client, bool wait)
{
    int status = 0;
    if (client->evaluator != 0 &&
        waitpid(client->evaluator, &status, wait ? 0 : WNOHANG) == client->evaluator) {
        client->evaluator = 0;
        client->evaluator_code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    return client->evaluator == 0;
}

static void stop_evaluator(struct client *client)
{
    if (client->evaluator != 0) {
        (void)kill(client->evaluator, SIGTERM);
        (void)evaluator_ended(client, true);
    }
}

/* ---- opening: a cluster, variables, the module */

static int open_cluster(struct client *client)
{
    const struct options *o = client->options;
    struct cox_cluster *cluster;
    struct cox_options options = COX_OPTIONS_INIT;
    char logs[1024];
    char curves[1024];
    (void)snprintf(logs, sizeof(logs), "%s/logs", o->out);
    (void)snprintf(curves, sizeof(curves), "%s/tensorboard", o->out);
    options.checkpoint_dir = o->checkpoint_dir;
    options.resume = o->resume ? 0 : -1;
    options.log_dir = logs;
    options.tensorboard_dir = curves;

    /* a cluster of running daemons, if there is one, or ... */
    int r = cox_cluster_from_env(&cluster);
    if (r == COX_ENOENT) {
        r = cox_cluster_local(o->ps, o->workers, &cluster); /* ... ours */
    }
    if (r == 0) {
        r = cox_open(cluster, &options, &client->c);
        cox_cluster_free(cluster);
    }
    if (r == COX_EEXIST && !o->resume) {
        (void)fprintf(stderr, "ctr: --resume goes on with the run in %s\n",
                      o->checkpoint_dir);
    }
    return r;
}

/* Each task of the data set is a piece of the file. A small one has a few batches: the
 * parameters that a step pulls do not have the gradients that it has pushed itself. */
static int open_rows(struct client *client)
{
    const struct options *o = client->options;
    struct cox_dataset_spec rows = COX_DATASET_SPEC_INIT;
    rows.name = "rows";
    rows.files = &o->train;
    rows.n_files = 1;
    rows.format = COX_LIBSVM;
    rows.epochs = (uint64_t)o->epochs;
    rows.batch_size = (uint32_t)o->batch;
    rows.task_bytes = 16384;
    rows.shuffle = 1;
    rows.seed = o->seed;
    rows.source =
        strcmp(o->source, "client") == 0 ? COX_SOURCE_CLIENT : COX_SOURCE_WORKER;
    return cox_dataset_create(client->c, &rows, &client->rows);
}

static struct cox_dataset_progress progress_of(const struct client *client)
{
    struct cox_dataset_progress rows = COX_DATASET_PROGRESS_INIT;
    (void)cox_dataset_progress(client->c, client->rows, &rows);
    return rows;
}

/* The rate falls to a fifth from the first step to the last: the last steps would
 * otherwise leave their noise in the model. */
static struct cox_optimizer adagrad(const struct client *client, double rate)
{
    struct cox_dataset_progress rows = progress_of(client);
    return (struct cox_optimizer){
        .kind = COX_ADAGRAD,
        .learning_rate = (float)rate,
        .initial_accumulator = (float)client->options->accumulator,
        .schedule = {.kind = COX_SCHEDULE_LINEAR,
                     .end_rate = (float)(rate / 5),
                     .steps = rows.tasks * rows.epochs},
    };
}

/* A table of `dim` numbers for each feature. */
static int create_table(struct client *client, const char *name, uint32_t dim,
                        double rate, double deviation)
{
    struct cox_table *ignored;
    struct cox_table_spec table = COX_TABLE_SPEC_INIT;
    table.name = name;
    table.dim = dim;
    table.optimizer = adagrad(client, rate);
    table.initializer.kind = deviation > 0 ? COX_NORMAL : COX_ZEROS;
    table.initializer.b = (float)deviation;
    table.initializer.seed = deviation > 0 ? client->options->seed : 0;
    return cox_table_create(client->c, &table, &ignored);
}

static int create_variables(struct client *client)
{
    const struct options *o = client->options;
    struct cox_variable *ignored;
    struct cox_variable_spec bias = COX_VARIABLE_SPEC_INIT;
    struct cox_metric_spec loss = COX_METRIC_SPEC_INIT;
    bias.name = "bias";
    bias.dtype = COX_F32;
    bias.rank = 1;
    bias.shape[0] = 1;
    bias.optimizer = adagrad(client, o->learning_rate);
    loss.name = "loss";
    loss.kind = COX_METRIC_MEAN;
    int r = create_table(client, "weights", 1, o->learning_rate, 0);
    if (r == 0 && strcmp(o->model, "fm") == 0) {
        /* factors must not start equal, or they stay so */
        r = create_table(client, "factors", MODEL_FACTORS, o->factors_rate, 0.03);
    }
    if (r == 0) {
        r = cox_variable_create(client->c, &bias, &ignored);
    }
    return r == 0 ? cox_metric_create(client->c, &loss, &client->loss) : r;
}

/* The module is in this program's directory. */
static int load_steps(struct client *client)
{
    char path[1024];
    struct cox_module *module;
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/');
    (void)strcpy(slash != NULL ? slash + 1 : path, "ctr_steps.so");
    int r = cox_module_load(client->c, path, &module);
    return r == 0 ? cox_function_get(module, "train", &client->train) : r;
}

/* Tells where this program goes on, if an earlier one has begun the run. The data set
 * knows by itself which of its tasks are left. */
static int find_place(struct client *client)
{
    struct cox_progress run = COX_PROGRESS_INIT;
    struct cox_dataset_progress rows = COX_DATASET_PROGRESS_INIT;
    if (cox_progress(client->c, &run) != 0 ||
        cox_dataset_progress(client->c, client->rows, &rows) != 0) {
        return complain("cannot start");
    }
    client->rows_before = rows.records;
    if (run.checkpoint != 0) {
        (void)printf("going on from checkpoint %llu, with %llu examples done\n",
                     (unsigned long long)run.checkpoint,
                     (unsigned long long)rows.records);
    }
    return 0;
}

static int log_config(struct client *client)
{
    const struct options *o = client->options;
    char config[512];
    (void)snprintf(config, sizeof(config),
                   "{\"model\": \"%s\", \"epochs\": %d, \"batch\": %d, "
                   "\"learning_rate\": %g, \"l2\": %g}",
                   o->model, o->epochs, o->batch, o->learning_rate, o->l2);
    return cox_log_config(client->c, config);
}

static int open_crew(struct client *client)
{
    int r = open_cluster(client);
    if (r == 0) {
        r = log_config(client);
    }
    if (r == 0) {
        r = open_rows(client);
    }
    if (r == 0) {
        r = create_variables(client);
    }
    if (r == 0) {
        r = load_steps(client);
    }
    return r == 0 ? find_place(client) : complain("cannot start");
}

/* ---- progress */

/* The mean loss of the rows since the last call; if there are none, the last one. */
static double recent_loss(struct client *client)
{
    double mean;
    double weight;
    if (cox_metric_read(client->c, client->loss, &mean, &weight) == 0 &&
        weight > client->weight_shown) {
        double sum = mean * weight;
        client->shown_loss =
            (sum - client->loss_shown) / (weight - client->weight_shown);
        client->loss_shown = sum;
        client->weight_shown = weight;
    }
    return client->shown_loss;
}

static void show_progress(struct client *client)
{
    bool terminal = isatty(STDOUT_FILENO) != 0;
    double now = now_s();
    if (now - client->shown_s < (terminal ? 0.2 : 2.0)) {
        return;
    }
    client->shown_s = now;
    struct cox_stats stats = COX_STATS_INIT;
    (void)cox_stats(client->c, &stats);
    if (stats.ps_age_ms > AWAY_MS) { /* what follows would wait for it */
        (void)printf("%sa parameter server is away%s", terminal ? "\r\033[K" : "",
                     terminal ? "\r" : "\n");
        (void)fflush(stdout);
        return;
    }
    struct cox_dataset_progress rows = progress_of(client);
    uint64_t epoch = rows.epoch + (rows.epoch < rows.epochs);
    (void)printf("%sepoch %llu/%llu  examples %llu  %.0f/s  loss %.4f  %.0f s left  "
                 "workers %llu/%llu%s",
                 terminal ? "\r\033[K" : "", (unsigned long long)epoch,
                 (unsigned long long)rows.epochs, (unsigned long long)rows.records,
                 rows.records_per_s, recent_loss(client),
                 rows.eta_s > 0 ? rows.eta_s : 0,
                 (unsigned long long)stats.workers_ready,
                 (unsigned long long)stats.workers, terminal ? "\r" : "\n");
    (void)fflush(stdout);
}

/* ---- scheduling */

static int save_checkpoint(struct client *client, bool final)
{
    struct cox_checkpoint_options options = COX_CHECKPOINT_OPTIONS_INIT;
    options.final = final;
    client->steps_checkpointed = client->n_done;
    return cox_checkpoint_save(client->c, &options, &client->checkpoint) == 0
               ? 0
               : complain("cannot write a checkpoint");
}

/* Waits for the oldest step. Shows progress meanwhile, and ends at Ctrl-C. Returns 0 or
 * the program's exit code. If the step fails, that is the data set's affair: it has the
 * rows trained on by another step, or reports them at the end. */
static int await_step(struct client *client)
{
    struct cox_future *future = client->futures[client->n_done % WINDOW];
    int r;
    while ((r = cox_future_wait(future, WAIT_MS)) == COX_ETIMEDOUT) {
        show_progress(client);
        if (interrupted) {
            return 128 + SIGINT;
        }
    }
    cox_future_free(future);
    client->n_done++;
    return r == COX_ECLOSED ? complain("a step failed") : 0;
}

/* Waits until at most `most` steps are under way; writes checkpoints when they are
 * due. */
static int drain(struct client *client, size_t most)
{
    size_t per_checkpoint =
        progress_of(client).tasks / (size_t)client->options->checkpoints + 1;
    int code = 0;
    while (code == 0 && client->n_scheduled - client->n_done > most) {
        code = await_step(client);
        show_progress(client);
        if (code == 0 &&
            client->n_done - client->steps_checkpointed >= per_checkpoint) {
            code = save_checkpoint(client, false); /* steps go on meanwhile */
        }
        if (code == 0 && interrupted) {
            code = 128 + SIGINT;
        }
    }
    return code;
}

/* Schedules a step with the next task of the data set; at the end *ret_all is true. */
static int schedule(struct client *client, bool *ret_all)
{
    const struct options *o = client->options;
    const struct cox_value args[] = {
        COX_SCALAR("l2", COX_F64, &o->l2),
        COX_SCALAR("factors_l2", COX_F64, &o->factors_l2),
    };
    struct cox_call call = COX_CALL_INIT;
    call.args = args;
    call.n_args = sizeof(args) / sizeof(*args);
    struct cox_future **future = &client->futures[client->n_scheduled % WINDOW];
    int r = cox_schedule_next(client->c, client->train, client->rows, &call, future);
    if (r == 0) {
        client->n_scheduled++;
        return 0;
    }
    if (r == COX_EEOF) {
        *ret_all = true;
        return 0;
    }
    (void)complain("training failed");
    return 2;
}

/* Schedules all tasks of all epochs. */
static int train_all(struct client *client)
{
    bool all = false;
    int code = 0;
    while (code == 0 && !all) {
        /* When all tasks are given out, cox_schedule_next waits for the last ones: let
         * drain wait instead, which shows progress. */
        struct cox_dataset_progress rows = progress_of(client);
        uint64_t given = rows.pending + rows.done + rows.failed + rows.skipped;
        bool last = given >= rows.tasks * rows.epochs;
        if (rows.failed > 0) { /* a malformed row, say, or a step that crashes */
            (void)fprintf(stderr, "ctr: training failed: %s\n", rows.first_failure);
            return 2;
        }
        code = drain(client, last ? 0 : WINDOW - 1);
        if (code == 0) {
            code = schedule(client, &all);
        }
        if (code == 0 && evaluator_ended(client, false)) {
            code = client->evaluator_code != 0 ? client->evaluator_code : 1;
        }
    }
    return code;
}

/* ---- the end */

static void print_profile(const struct cox_profile *p)
{
    static const char *const names[] = {"data", "pull", "compute", "step", "commit"};
    const struct cox_durations of[] = {p->data, p->pull, p->compute, p->step,
                                       p->commit};
    (void)printf("%llu steps, in ms    p50     p99\n", (unsigned long long)p->steps);
    for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
        (void)printf("  %-10s %9.2f %7.2f\n", names[i], 1e-3 * (double)of[i].p50_us,
                     1e-3 * (double)of[i].p99_us);
    }
    (void)printf("%s\n\n", p->advice);
}

static int finish(struct client *client)
{
    const struct options *o = client->options;
    int code = 0;
    if (cox_join(client->c, -1) != 0) { /* no step is under way any more */
        code = complain("training failed");
    }
    double seconds = now_s() - client->start_s;
    uint64_t all_rows = progress_of(client).records;
    uint64_t rows = all_rows - client->rows_before;
    if (code == 0 && all_rows == 0) {
        (void)fprintf(stderr, "ctr: %s: has no rows\n", o->train);
        code = 2;
    }
    if (code == 0) {
        code = save_checkpoint(client, true);
    }
    if (code != 0) {
        return code;
    }
    (void)evaluator_ended(client, true);
    if (client->evaluator_code != 0) {
        return client->evaluator_code;
    }
    struct verdict verdict = {0};
    struct cox_profile profile = COX_PROFILE_INIT;
    (void)cox_profile(client->c, client->train, &profile);
    clear_progress();
    evaluate_verdict(o, &verdict);
    (void)printf("\n%llu examples in %.1f s (%.0f/s) on %d epochs of %s; checkpoints "
                 "and eval.jsonl are in %s, logs in %s/logs\n\n",
                 (unsigned long long)rows, seconds, (double)rows / seconds, o->epochs,
                 o->train, o->checkpoint_dir, o->out);
    print_profile(&profile);
    (void)printf(
        "{\"examples\": %llu, \"examples_per_s\": %.0f, \"steps\": %zu, "
        "\"epochs\": %d, \"checkpoints\": %llu, \"evaluations\": %d, "
        "\"auc\": %.6f, \"logloss\": %.6f, \"seconds\": %.3f, \"model\": \"%s\"}\n",
        (unsigned long long)rows, (double)rows / seconds, client->n_done, o->epochs,
        (unsigned long long)client->checkpoint, verdict.n_evaluations, verdict.auc,
        verdict.logloss, seconds, o->model);
    return 0;
}

/* Before the crew is open there is nothing to end in order, so signals end the program at
 * once. */
static void handle_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_interrupt,
                               .sa_flags = (int)SA_RESETHAND};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

static int train(struct client *client, const char *self)
{
    int code = open_crew(client);
    handle_interrupts();
    if (code == 0) {
        code = start_evaluator(client, self);
    }
    client->start_s = client->shown_s = now_s();
    if (code == 0) {
        code = train_all(client);
    }
    if (code == 0) {
        code = finish(client);
    }
    if (code == 128 + SIGINT) {
        (void)fprintf(stderr, "\nctr: interrupted\n");
    }
    while (client->n_done < client->n_scheduled) {
        cox_future_free(client->futures[client->n_done++ % WINDOW]);
    }
    stop_evaluator(client);
    (void)cox_close(client->c, 5000); /* ends the local cluster, too */
    return code;
}

int main(int argc, char **argv)
{
    struct options options;
    struct client client = {.options = &options};
    int r = options_parse(argc, argv, &options);
    if (r != 0) {
        return r == 1 ? 0 : r;
    }
    if (strcmp(options.role, "evaluator") == 0) {
        return evaluate(&options);
    }
    r = files_prepare(&options);
    return r == 0 ? train(&client, argv[0]) : r;
}
