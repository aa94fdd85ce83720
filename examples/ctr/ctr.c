/*
 * A click model trained with Coxswain: the page to read first.
 *
 * One program in two roles. The client below creates a table of weights on the
 * parameter servers, ships the step module (steps.c) to the workers, schedules one step
 * for each range of the training file, and writes checkpoints. The evaluator
 * (evaluate.c) is the same program started a second time; it scores each checkpoint
 * while training goes on.
 *
 *     main -> train -> open_crew       cluster, coordinator, variables, module
 *                   -> train_epoch     schedule, futures, checkpoints
 *                   -> finish          join, last checkpoint, the evaluator's verdict
 *
 * What the model computes is in model.c, how rows are read in data.c; neither knows of
 * Coxswain.
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
#include "model.h"

enum {
    WINDOW = 1024, /* steps whose results are awaited at a time */
    WAIT_MS = 200, /* the longest wait for one of them before progress is shown again */
    AWAY_MS = 2000 /* a parameter server that is silent for this long is away */
};

struct client {
    const struct options *options;
    struct cox_coordinator *c;
    struct cox_function *train;
    struct range *ranges;
    size_t n_ranges;
    pid_t evaluator; /* 0: it has ended */
    int evaluator_code;

    /* a ring: the oldest is futures[n_done % WINDOW] */
    struct cox_future *futures[WINDOW];
    uint64_t next;    /* range to be scheduled, counted over all epochs */
    uint64_t resumed; /* the first range of this client; earlier ones count already */
    size_t n_scheduled;
    size_t n_done;
    int64_t rows;
    double loss; /* summed over rows_of_loss rows, since the last progress line */
    int64_t rows_of_loss;
    double shown_loss;
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

/* Prints the error of the last Coxswain call; returns the exit code for it. */
static int complain(const char *what)
{
    (void)fprintf(stderr, "ctr: %s: %s\n", what, cox_error_last());
    return 1;
}

/* ---- the evaluator, a second process of this program */

static int start_evaluator(struct client *client, const char *self)
{
    const struct options *o = client->options;
    const char *argv[] = {self,     "--role",  "evaluator", "--train",
                          o->train, "--valid", o->valid,    "--model",
                          o->model, "--out",   o->out,      NULL};
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
    char checkpoints[1024];
    char logs[1024];
    (void)snprintf(checkpoints, sizeof(checkpoints), "%s/checkpoints", o->out);
    (void)snprintf(logs, sizeof(logs), "%s/logs", o->out);
    options.checkpoint_dir = checkpoints;
    options.log_dir = logs;

    /* a cluster of running daemons, if there is one, or ... */
    int r = cox_cluster_from_env(&cluster);
    if (r == COX_ENOENT) {
        r = cox_cluster_local(o->ps, o->workers, &cluster); /* ... ours */
    }
    if (r == 0) {
        r = cox_open(cluster, &options, &client->c);
        cox_cluster_free(cluster);
    }
    return r;
}

static int create_variables(struct client *client)
{
    const struct options *o = client->options;
    bool is_fm = strcmp(o->model, "fm") == 0;
    struct cox_optimizer adagrad = {.kind = COX_ADAGRAD,
                                    .learning_rate = (float)o->learning_rate,
                                    .epsilon = 1e-7F,
                                    .initial_accumulator = (float)o->accumulator};

    struct cox_table *weights;
    struct cox_table_spec table = COX_TABLE_SPEC_INIT;
    table.name = "weights";
    table.dim = is_fm ? MODEL_FM_DIM : MODEL_LR_DIM;
    table.optimizer = adagrad;
    if (is_fm) { /* factors must not start equal, or they stay so */
        table.initializer = (struct cox_initializer){COX_NORMAL, 0, 0.01F, o->seed};
    }
    int r = cox_table_create(client->c, &table, &weights);
    if (r != 0) {
        return r;
    }

    struct cox_variable *bias;
    struct cox_variable_spec variable = COX_VARIABLE_SPEC_INIT;
    variable.name = "bias";
    variable.dtype = COX_F32;
    variable.rank = 1;
    variable.shape[0] = 1;
    variable.optimizer = adagrad;
    return cox_variable_create(client->c, &variable, &bias);
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

/* If this program continues an earlier run, finds the range to go on with: each call's
 * cursor is the number of the range after it. */
static int find_place(struct client *client)
{
    struct cox_progress progress = COX_PROGRESS_INIT;
    if (cox_progress(client->c, &progress) != 0) {
        return complain("cannot start");
    }
    client->resumed = progress.cursor;
    if (progress.checkpoint != 0) {
        (void)printf("going on from checkpoint %llu, at step %llu\n",
                     (unsigned long long)progress.checkpoint,
                     (unsigned long long)progress.cursor);
    }
    return 0;
}

static int open_crew(struct client *client)
{
    int r = open_cluster(client);
    if (r == 0) {
        r = create_variables(client);
    }
    if (r == 0) {
        r = load_steps(client);
    }
    return r == 0 ? find_place(client) : complain("cannot start");
}

/* ---- progress */

static void show_progress(struct client *client, int epoch)
{
    bool terminal = isatty(STDOUT_FILENO) != 0;
    double now = now_s();
    if (now - client->shown_s < (terminal ? 0.2 : 2.0)) {
        return;
    }
    struct cox_stats stats = COX_STATS_INIT;
    (void)cox_stats(client->c, &stats);
    if (client->rows_of_loss > 0) {
        client->shown_loss = client->loss / (double)client->rows_of_loss;
    }
    (void)printf(
        "%sepoch %d/%d  steps %zu  %.0f examples/s  loss %.4f  workers %llu/%llu%s%s",
        terminal ? "\r\033[K" : "", epoch, client->options->epochs, client->n_done,
        (double)client->rows / (now - client->start_s), client->shown_loss,
        (unsigned long long)stats.workers_ready, (unsigned long long)stats.workers,
        stats.ps_age_ms > AWAY_MS ? "  a parameter server is away" : "",
        terminal ? "" : "\n");
    (void)fflush(stdout);
    client->shown_s = now;
    client->loss = 0;
    client->rows_of_loss = 0;
}

/* ---- scheduling, and taking results */

/* Waits for the oldest step, and takes its results. Shows progress meanwhile, and ends
 * at Ctrl-C. Returns 0 or the program's exit code. */
static int take_result(struct client *client, int epoch)
{
    struct cox_future *future = client->futures[client->n_done % WINDOW];
    struct cox_value rows;
    struct cox_value loss;
    int r;
    while ((r = cox_future_wait(future, WAIT_MS)) == COX_ETIMEDOUT) {
        show_progress(client, epoch);
        if (interrupted) {
            return 128 + SIGINT;
        }
    }
    if (r == 0) {
        r = cox_future_result(future, "rows", &rows);
    }
    if (r == 0) {
        r = cox_future_result(future, "loss", &loss);
    }
    if (r == 0) {
        client->rows += *(const int64_t *)rows.data;
        client->rows_of_loss += *(const int64_t *)rows.data;
        client->loss += *(const double *)loss.data;
    }
    int code = 0;
    if (r == COX_ESTEP) {
        /* The step's message: for a bad row it names file, line and reason. */
        struct cox_error error = COX_ERROR_INIT;
        (void)cox_future_error(future, &error);
        (void)fprintf(stderr, "ctr: %s\n", error.message);
        code = error.step_code == 2 ? 2 : 1;
    } else if (r != 0) {
        code = complain("a step failed");
    }
    cox_future_free(future);
    client->n_done++;
    return code;
}

static int schedule(struct client *client, const struct range *range, int epoch)
{
    const struct options *o = client->options;
    const struct cox_value args[] = {
        COX_VECTOR("path", COX_U8, strlen(o->train), o->train),
        COX_SCALAR("offset", COX_I64, &range->offset),
        COX_SCALAR("len", COX_I64, &range->len),
        COX_SCALAR("line", COX_I64, &range->line),
        COX_SCALAR("l2", COX_F64, &o->l2),
    };
    struct cox_call call = COX_CALL_INIT;
    call.args = args;
    call.n_args = sizeof(args) / sizeof(*args);
    call.cursor = client->next + 1;
    struct cox_future **future = &client->futures[client->n_scheduled % WINDOW];
    int r = cox_schedule(client->c, client->train, &call, future); /* returns at once */
    if (r == 0) {
        client->n_scheduled++;
        return 0;
    }
    /* An earlier step has failed: its future has the details. */
    while (client->n_done < client->n_scheduled) {
        int code = take_result(client, epoch);
        if (code != 0) {
            return code;
        }
    }
    return complain("cannot schedule");
}

static int save_checkpoint(struct client *client, bool final)
{
    struct cox_checkpoint_options options = COX_CHECKPOINT_OPTIONS_INIT;
    options.final = final;
    client->steps_checkpointed = client->n_done;
    return cox_checkpoint_save(client->c, &options, &client->checkpoint) == 0
               ? 0
               : complain("cannot write a checkpoint");
}

/* Takes results until at most `most` are awaited; writes checkpoints when they are
 * due. */
static int drain(struct client *client, size_t most, int epoch)
{
    size_t per_checkpoint = client->n_ranges / (size_t)client->options->checkpoints + 1;
    int code = 0;
    while (code == 0 && client->n_scheduled - client->n_done > most) {
        code = take_result(client, epoch);
        show_progress(client, epoch);
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

static void shuffle(struct range *ranges, size_t n, uint64_t *state)
{
    for (size_t i = n; i > 1; i--) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        size_t j = (size_t)(*state >> 33) % i;
        struct range swap = ranges[i - 1];
        ranges[i - 1] = ranges[j];
        ranges[j] = swap;
    }
}

static int train_epoch(struct client *client, int epoch)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < client->n_ranges; i++, client->next++) {
        if (client->next < client->resumed) {
            continue; /* an earlier client has trained on this range */
        }
        code = drain(client, WINDOW - 1, epoch);
        if (code == 0) {
            code = schedule(client, &client->ranges[i], epoch);
        }
        if (code == 0 && evaluator_ended(client, false)) {
            code = client->evaluator_code != 0 ? client->evaluator_code : 1;
        }
    }
    return code;
}

/* ---- the end */

/* The number that follows "key": in a line of eval.jsonl. */
static double number_in(const char *line, const char *key)
{
    char quoted[64];
    (void)snprintf(quoted, sizeof(quoted), "\"%s\":", key);
    const char *at = strstr(line, quoted);
    return at != NULL ? strtod(at + strlen(quoted), NULL) : 0;
}

/* Prints the evaluator's reports as a table; `line`: the last one. Returns how many
 * there are. */
static int read_verdict(const struct client *client, char *line, size_t len)
{
    char path[1024];
    char next[1024];
    int n = 0;
    (void)snprintf(path, sizeof(path), "%s/checkpoints/eval.jsonl",
                   client->options->out);
    FILE *file = fopen(path, "re");
    (void)printf("\n%10s  %8s  %8s  %10s\n", "checkpoint", "auc", "logloss",
                 "table rows");
    while (file != NULL && fgets(next, sizeof(next), file) != NULL) {
        (void)snprintf(line, len, "%s", next);
        (void)printf("%10.0f  %8.4f  %8.4f  %10.0f\n", number_in(line, "checkpoint"),
                     number_in(line, "auc"), number_in(line, "logloss"),
                     number_in(line, "table_rows"));
        n++;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return n;
}

static int finish(struct client *client)
{
    const struct options *o = client->options;
    int code = drain(client, 0, o->epochs);
    if (code == 0 && cox_join(client->c, -1) != 0) { /* no step is under way any more */
        code = complain("training failed");
    }
    double seconds = now_s() - client->start_s;
    if (code == 0 && client->rows == 0 && client->resumed == 0) {
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
    char line[1024] = "";
    if (isatty(STDOUT_FILENO) != 0) {
        (void)printf("\r\033[K");
    }
    int n_evaluations = read_verdict(client, line, sizeof(line));
    (void)printf("\n%lld examples in %.1f s (%.0f/s) on %d epochs of %s; checkpoints, "
                 "eval.jsonl and logs are in %s\n\n",
                 (long long)client->rows, seconds, (double)client->rows / seconds,
                 o->epochs, o->train, o->out);
    (void)printf(
        "{\"examples\": %lld, \"examples_per_s\": %.0f, \"steps\": %zu, "
        "\"epochs\": %d, \"checkpoints\": %llu, \"evaluations\": %d, "
        "\"auc\": %.6f, \"logloss\": %.6f, \"seconds\": %.3f, \"model\": \"%s\"}\n",
        (long long)client->rows, (double)client->rows / seconds, client->n_done,
        o->epochs, (unsigned long long)client->checkpoint, n_evaluations,
        number_in(line, "auc"), number_in(line, "logloss"), seconds, o->model);
    return 0;
}

static int train(struct client *client, const char *self)
{
    uint64_t order = client->options->seed;
    int code = open_crew(client);
    if (code == 0) {
        code = start_evaluator(client, self);
    }
    client->start_s = client->shown_s = now_s();
    for (int epoch = 1; code == 0 && epoch <= client->options->epochs; epoch++) {
        shuffle(client->ranges, client->n_ranges, &order);
        code = train_epoch(client, epoch);
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

/* ---- the data: the user's files, or a generated log */

static int make_directory(const char *path)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        (void)fprintf(stderr, "ctr: cannot make %s: %s\n", path, strerror(errno));
        return 2;
    }
    return 0;
}

/* Refuses to write over checkpoints of an earlier run. */
static int check_unused(const char *out)
{
    char path[1024];
    (void)snprintf(path, sizeof(path), "%s/checkpoints/LATEST", out);
    if (access(path, F_OK) != 0) {
        return 0;
    }
    (void)fprintf(
        stderr,
        "ctr: %s holds the checkpoints of an earlier run: go on with it (--resume), "
        "remove it, or choose another --out\n",
        out);
    return 2;
}

static int prepare_data(struct options *o)
{
    static char train_path[PATH_MAX];
    static char valid_path[PATH_MAX];
    static char full_path[PATH_MAX];
    struct data_error error;
    if (o->train == NULL) {
        (void)snprintf(train_path, sizeof(train_path), "%s/train.libsvm", o->out);
        (void)snprintf(valid_path, sizeof(valid_path), "%s/valid.libsvm", o->out);
        (void)printf(
            "no files given: generating a click log of %lld rows with seed %llu in "
            "%s\n",
            (long long)o->rows, (unsigned long long)o->seed, o->out);
        (void)fflush(stdout);
        if (clicks_generate(train_path, (size_t)o->rows, o->seed, 0, &error) != 0 ||
            clicks_generate(valid_path, (size_t)o->rows / 10 + 1, o->seed, 1, &error) !=
                0) {
            (void)fprintf(stderr, "ctr: %s\n", error.text);
            return 2;
        }
        o->train = train_path;
        o->valid = valid_path;
    }
    /* Workers may run in another directory: they get the absolute path. */
    if (realpath(o->train, full_path) != NULL) {
        o->train = full_path;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct options options;
    struct client client = {.options = &options};
    struct data_error error;
    int r = options_parse(argc, argv, &options);
    if (r != 0) {
        return r == 1 ? 0 : r;
    }
    if (strcmp(options.role, "evaluator") == 0) {
        return evaluate(&options);
    }
    struct sigaction action = {.sa_handler = on_interrupt,
                               .sa_flags = (int)SA_RESETHAND};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    r = make_directory(options.out);
    if (r == 0 && !options.resume) {
        r = check_unused(options.out);
    }
    if (r == 0) {
        r = prepare_data(&options);
    }
    if (r == 0 && (access(options.valid, R_OK) != 0)) {
        (void)fprintf(stderr, "ctr: %s: %s\n", options.valid, strerror(errno));
        r = 2;
    }
    if (r == 0 && ranges_of(options.train, options.rows_per_step, &client.ranges,
                            &client.n_ranges, &error) != 0) {
        (void)fprintf(stderr, "ctr: %s\n", error.text);
        r = 2;
    }
    if (r == 0) {
        r = train(&client, argv[0]);
    }
    free(client.ranges);
    return r;
}
