/*
 * coxswain-chaos: steps that count, on a local cluster, through the public API, while a
 * storm (chaos_storm.c) kills and stops its workers and cuts connections. What the steps have added up to on
 * each ps is then compared with what they were to: exactly once, whatever died.
 *
 * All that is random comes from --seed, but not when the kernel lets whom run: a seed
 * gives the same steps and the same blows, not the same course.
 *
 * Threads: main is the client; the storm's ends the program if main is stuck. Costs the
 * memory of --in-flight closures.
 */
#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/chaos.h"
#include "common/clock.h"
#include "common/daemon.h"
#include "common/error.h"
#include "common/file.h"
#include "common/log.h"
#include "common/option.h"
#include "common/rand.h"
#include "common/sync.h"
#include "coxswain/coxswain.h"

enum {
    SLICE_MS = 100,     /* between two looks at whether to end early */
    CLOSE_MS = 5000,    /* for steps that still run at the end */
    PATIENCE_MS = 3000, /* for processes to end once the cluster is closed */
    GRACE_MS = 15000,   /* to end by itself when asked to */
    FUTURES_MAX = 65536,
    BURST = 250,          /* steps; with --speculate they are joined before the next */
    STRAGGLE_US = 150000, /* to twice that */
};

struct config {
    int64_t seed;
    int64_t steps;
    int64_t step_us;
    int64_t ps;
    int64_t workers;
    int64_t slots;
    int64_t kill_workers_every;
    int64_t kill_ps_every;
    int64_t checkpoint_every_ms;
    int64_t stop_every;
    int64_t reset_every;
    int64_t peer_timeout_ms;
    int64_t in_flight;
    int64_t deadline_s;
    double crash_rate;
    double flush_rate;
    const char *log_dir;
    bool results;
    bool speculate;
    bool json;
};

struct chaos {
    struct config config;
    char dir[64];
    char log_dir[PATH_MAX];
    char checkpoint_dir[PATH_MAX];
    uint64_t checkpoint_ms; /* when the next one is due */
    uint64_t n_checkpoints;
    struct chaos_storm *storm;
    struct cox_coordinator *c;
    struct cox_function *function;
    struct cox_variable *counters[CHAOS_PS_MAX];
    struct cox_future **futures; /* a ring of config.in_flight, with --results */
    uint64_t random;             /* of the plans */
    double started;

    pthread_mutex_t lock; /* guards all below; leaf */
    const char *doing;
    uint64_t n_scheduled;
    uint64_t n_resolved;
    int64_t expected[CHAOS_PS_MAX];
    int64_t found[CHAOS_PS_MAX];
    struct cox_stats stats;
    struct chaos_storm_counts counts;
    char error[1024]; /* the first; "": all is well */
};

#define NUMBER(name_, field, min_, max_, fallback_, help_)                             \
    {.name = (name_),                                                                  \
     .type = COXI_OPTION_INT,                                                          \
     .offset = offsetof(struct config, field),                                         \
     .min = (min_),                                                                    \
     .max = (max_),                                                                    \
     .fallback = (fallback_),                                                          \
     .help = (help_)}

static const struct coxi_option options[] = {
    NUMBER("seed", seed, 0, 1e15, "1", "of all that is random here"),
    NUMBER("steps", steps, 1, 1e9, "5000", "to schedule"),
    NUMBER("step-us", step_us, 0, 1e6, "2000", "what a step takes, on average"),
    NUMBER("ps", ps, 1, CHAOS_PS_MAX, "2", "parameter servers"),
    NUMBER("workers", workers, 1, 64, "3", "workers"),
    NUMBER("slots", slots, 1, 64, "1", "steps at a time on each worker"),
    NUMBER("kill-workers-every", kill_workers_every, 0, 3600000, "0",
           "ms between two kill -9 of a worker's supervisor, step process or both; 0: "
           "none"),
    NUMBER("kill-ps-every", kill_ps_every, 0, 3600000, "0",
           "ms between two kill -9 of a ps; 0: none"),
    NUMBER("checkpoint-every-ms", checkpoint_every_ms, 0, 3600000, "0",
           "ms between two checkpoints; 0: none but those that the log asks for"),
    NUMBER("stop-every", stop_every, 0, 3600000, "0",
           "ms between two SIGSTOP of a step process; one in eight lasts longer than "
           "--peer-timeout-ms; 0: none"),
    NUMBER(
        "reset-every", reset_every, -1, 3600000, "-1",
        "ms between two connections that are cut; -1: twice --kill-workers-every; 0: "
        "none"),
    {.name = "crash-rate",
     .type = COXI_OPTION_REAL,
     .offset = offsetof(struct config, crash_rate),
     .max = 1,
     .fallback = "0",
     .help = "share of the steps whose first attempt crashes"},
    {.name = "flush-rate",
     .type = COXI_OPTION_REAL,
     .offset = offsetof(struct config, flush_rate),
     .max = 1,
     .fallback = "0.25",
     .help = "share of the steps that flush in the middle, and then go on to any ps or "
             "none"},
    {.name = "results",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct config, results),
     .help = "steps return a value; every future is held and checked"},
    {.name = "speculate",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct config, speculate),
     .help = "some first attempts take so long that second ones race them"},
    NUMBER("peer-timeout-ms", peer_timeout_ms, 100, 3600000, "1500",
           "a peer silent for this long is lost"),
    NUMBER("in-flight", in_flight, 1, FUTURES_MAX, "4096",
           "closures in the queue, and futures held, at most"),
    NUMBER("deadline-s", deadline_s, 1, 86400, "600", "seconds for all of it"),
    {.name = "log-dir",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct config, log_dir),
     .help = "keep the daemons' logs in this directory"},
    {.name = "json",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct config, json),
     .help = "print nothing but the JSON object"},
};

static const struct coxi_program program = {
    .name = "coxswain-chaos",
    .usage = "[options]",
    .summary = "Runs counting steps on a local cluster under a storm of failures, and "
               "checks that\neach counted exactly once on every ps. Its last line is a "
               "JSON object; exit 0 only\nif that says \"ok\": true.",
    .prefix = "COX_CHAOS",
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

/* ---- what went wrong */

/* Notes the first error; -1. */
__attribute__((format(printf, 2, 3))) static int wrong(struct chaos *chaos,
                                                       const char *format, ...)
{
    va_list args;
    va_start(args, format);
    coxi_lock(&chaos->lock);
    if (chaos->error[0] == '\0') {
        (void)vsnprintf(chaos->error, sizeof(chaos->error), format, args);
    }
    coxi_unlock(&chaos->lock);
    va_end(args);
    return -1;
}

static int check(struct chaos *chaos, int code)
{
    return code == 0 ? 0 : wrong(chaos, "%s: %s", chaos->doing, cox_error_last());
}

static void doing(struct chaos *chaos, const char *what)
{
    coxi_lock(&chaos->lock);
    chaos->doing = what;
    coxi_unlock(&chaos->lock);
}

/* -1 if it is to end before its time. */
static int check_storm(struct chaos *chaos)
{
    const char *why = chaos_storm_why(chaos->storm);
    return why == NULL ? 0 : wrong(chaos, "%s: %s", chaos->doing, why);
}

/* ---- the cluster */

static int open_cluster(struct chaos *chaos)
{
    const struct config *config = &chaos->config;
    struct cox_options o = COX_OPTIONS_INIT;
    struct cox_cluster *cluster = NULL;
    doing(chaos, "opening the cluster");
    o.log_dir = chaos->log_dir;
    o.queue_max = (uint32_t)config->in_flight;
    o.worker_slots = (uint32_t)config->slots;
    o.min_workers = (uint32_t)config->workers;
    o.peer_timeout_ms = (int)config->peer_timeout_ms;
    o.speculate = config->speculate ? 1 : -1;
    if (config->kill_ps_every > 0 || config->checkpoint_every_ms > 0) {
        o.checkpoint_dir = chaos->checkpoint_dir;
    }
    int r = cox_cluster_local((int)config->ps, (int)config->workers, &cluster);
    if (r == 0) {
        r = cox_open(cluster, &o, &chaos->c);
    }
    cox_cluster_free(cluster);
    return check(chaos, r);
}

/* A counter on each ps: they are placed so that all have as many bytes. */
static int create_counters(struct chaos *chaos)
{
    int r = 0;
    doing(chaos, "creating the counters");
    for (int64_t i = 0; r == 0 && i < chaos->config.ps; i++) {
        char name[16];
        struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
        (void)snprintf(name, sizeof(name), "c%d", (int)i);
        spec.name = name;
        spec.dtype = COX_I64;
        spec.rank = 1;
        spec.shape[0] = 1;
        r = cox_variable_create(chaos->c, &spec, &chaos->counters[i]);
    }
    return check(chaos, r);
}

static int load_steps(struct chaos *chaos)
{
    char dir[PATH_MAX];
    char path[PATH_MAX];
    struct cox_module *module;
    doing(chaos, "loading chaos_steps.so");
    int r = coxi_program_directory(dir);
    if (r == 0) {
        r = coxi_path(path, "%s/chaos_steps.so", dir);
    }
    if (r == 0) {
        r = cox_module_load(chaos->c, path, &module);
    }
    if (r == 0) {
        r = cox_function_get(module,
                             chaos->config.results ? "count_and_return" : "count",
                             &chaos->function);
    }
    return check(chaos, r);
}

/* ---- the steps */

/* With --speculate steps come in bursts; the last of each straggles, while workers have
 * nothing else to do. */
static bool ends_burst(const struct chaos *chaos, uint64_t number)
{
    return chaos->config.speculate && number % BURST == BURST - 1;
}

static void make_plan(struct chaos *chaos, int64_t plan[CHAOS_PLAN])
{
    const struct config *config = &chaos->config;
    uint64_t n_subsets = (UINT64_C(1) << config->ps) - 1;
    uint64_t *random = &chaos->random;
    plan[CHAOS_NUMBER] = (int64_t)chaos->n_scheduled;
    plan[CHAOS_MASK] = (int64_t)(1 + coxi_rand(random) % n_subsets);
    plan[CHAOS_US] = (int64_t)(2 * coxi_rand_unit(random) * (double)config->step_us);
    plan[CHAOS_BUSY] = coxi_rand(random) % 4 == 0;
    bool crashes = coxi_rand_unit(random) < config->crash_rate;
    int64_t how = coxi_rand(random) % 2 == 0 ? CHAOS_CRASH_ABORT : CHAOS_CRASH_NULL;
    plan[CHAOS_CRASH] = crashes ? how : 0;
    plan[CHAOS_STRAGGLE_US] = 0;
    if (ends_burst(chaos, chaos->n_scheduled)) {
        plan[CHAOS_STRAGGLE_US] =
            STRAGGLE_US + (int64_t)(coxi_rand(random) % STRAGGLE_US);
    }
    plan[CHAOS_FLUSH] = coxi_rand_unit(random) < config->flush_rate;
    plan[CHAOS_AFTER] =
        plan[CHAOS_FLUSH] != 0 ? (int64_t)(coxi_rand(random) % (n_subsets + 1)) : 0;
}

static int schedule_one(struct chaos *chaos, struct cox_future **ret)
{
    int64_t plan[CHAOS_PLAN];
    make_plan(chaos, plan);
    struct cox_value arg = COX_VECTOR("plan", COX_I64, CHAOS_PLAN, plan);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    if (cox_schedule(chaos->c, chaos->function, &call, ret) != 0) {
        return check(chaos, -1);
    }
    coxi_lock(&chaos->lock);
    chaos->n_scheduled++;
    for (int64_t i = 0; i < chaos->config.ps; i++) {
        chaos->expected[i] +=
            (plan[CHAOS_MASK] >> i & 1) + (plan[CHAOS_AFTER] >> i & 1);
    }
    coxi_unlock(&chaos->lock);
    return 0;
}

/* What the future says, twice: it stays as it is once it is resolved. */
static int check_result(struct chaos *chaos, struct cox_future *future)
{
    for (int i = 0; i < 2; i++) {
        struct cox_value value;
        int64_t number = -1;
        if (cox_future_wait(future, 0) != 0 ||
            cox_future_result(future, "number", &value) != 0) {
            return wrong(chaos, "the future of step %llu: %s",
                         (unsigned long long)chaos->n_resolved, cox_error_last());
        }
        if (value.dtype == COX_I64 && value.rank == 0) {
            memcpy(&number, value.data, sizeof(number));
        }
        if (number != (int64_t)chaos->n_resolved) {
            return wrong(chaos, "the future of step %llu has the number %lld",
                         (unsigned long long)chaos->n_resolved, (long long)number);
        }
    }
    return 0;
}

/* Waits for the oldest future, checks it and lets it go. */
static int resolve_one(struct chaos *chaos)
{
    struct cox_future **at =
        &chaos->futures[chaos->n_resolved % (uint64_t)chaos->config.in_flight];
    int r = 0;
    while (r == 0 && cox_future_wait(*at, SLICE_MS) == COX_ETIMEDOUT) {
        const char *why = chaos_storm_why(chaos->storm);
        if (why != NULL) {
            r = wrong(chaos, "%s, and the future of step %llu is not resolved", why,
                      (unsigned long long)chaos->n_resolved);
        }
    }
    if (r == 0) {
        r = check_result(chaos, *at);
    }
    cox_future_free(*at);
    *at = NULL;
    coxi_lock(&chaos->lock);
    chaos->n_resolved++;
    coxi_unlock(&chaos->lock);
    return r;
}

/* Until all that has been scheduled is settled. */
static int join(struct chaos *chaos)
{
    int r;
    while ((r = cox_join(chaos->c, SLICE_MS)) != 0) {
        r = r == COX_ETIMEDOUT ? check_storm(chaos) : check(chaos, r);
        if (r != 0) {
            break;
        }
    }
    return r;
}

/* One that fails since a ps is lost in its middle is none; the next one may be. */
static void checkpoint_if_due(struct chaos *chaos)
{
    uint64_t every_ms = (uint64_t)chaos->config.checkpoint_every_ms;
    if (every_ms > 0 && coxi_now_ms() >= chaos->checkpoint_ms) {
        doing(chaos, "taking a checkpoint");
        chaos->n_checkpoints += cox_checkpoint_save(chaos->c, NULL, NULL) == 0;
        chaos->checkpoint_ms = coxi_now_ms() + every_ms;
        doing(chaos, "scheduling steps");
    }
}

static int run_steps(struct chaos *chaos)
{
    const struct config *config = &chaos->config;
    uint64_t n = (uint64_t)config->steps;
    uint64_t held_max = (uint64_t)config->in_flight;
    int r = 0;
    doing(chaos, "scheduling steps");
    while (r == 0 && chaos->n_scheduled < n) {
        if (config->results && chaos->n_scheduled - chaos->n_resolved == held_max) {
            r = resolve_one(chaos);
        }
        checkpoint_if_due(chaos);
        r = r != 0 ? r : check_storm(chaos);
        r = r != 0 ? r
                   : schedule_one(chaos,
                                  config->results
                                      ? &chaos->futures[chaos->n_scheduled % held_max]
                                      : NULL);
        if (r == 0 && ends_burst(chaos, chaos->n_scheduled - 1)) {
            r = join(chaos);
        }
    }
    doing(chaos, "waiting for the futures");
    while (r == 0 && config->results && chaos->n_resolved < n) {
        r = resolve_one(chaos);
    }
    doing(chaos, "joining");
    return r != 0 ? r : join(chaos);
}

/* ---- the end */

/* Statistics and counters; what is found is compared only if every step was run. */
static void read_counters(struct chaos *chaos, bool complete)
{
    struct cox_stats stats = COX_STATS_INIT;
    int64_t found[CHAOS_PS_MAX] = {0};
    doing(chaos, "reading the counters");
    int r = cox_stats(chaos->c, &stats);
    for (int64_t i = 0; r == 0 && i < chaos->config.ps; i++) {
        r = cox_variable_read(chaos->c, chaos->counters[i], &found[i],
                              sizeof(found[i]));
    }
    (void)check(chaos, r);
    coxi_lock(&chaos->lock);
    chaos->stats = stats;
    memcpy(chaos->found, found, sizeof(found));
    coxi_unlock(&chaos->lock);
    if (r != 0 || !complete) {
        return;
    }
    if (memcmp(found, chaos->expected, sizeof(found)) != 0) {
        (void)wrong(chaos, "the counters are not what the steps add up to");
    }
    if (stats.done != chaos->n_scheduled || stats.failed != 0) {
        (void)wrong(chaos, "%llu steps are done and %llu have failed",
                    (unsigned long long)stats.done, (unsigned long long)stats.failed);
    }
}

static void close_cluster(struct chaos *chaos)
{
    struct chaos_pins pins;
    chaos_pins_take(&pins);
    doing(chaos, "closing the cluster");
    for (int64_t i = 0; chaos->futures != NULL && i < chaos->config.in_flight; i++) {
        cox_future_free(chaos->futures[i]);
    }
    free(chaos->futures);
    (void)check(chaos, cox_close(chaos->c, CLOSE_MS));
    size_t n = chaos_pins_end(&pins, PATIENCE_MS);
    if (n > 0) {
        (void)wrong(chaos, "%zu processes were left after cox_close", n);
    }
}

/* Crashes that supervisors saw: one that is killed with its step process tells
 * nothing. */
static uint64_t count_crashes(const struct chaos *chaos)
{
    static const char event[] = "event=step_process_died signal=";
    uint64_t n = 0;
    for (int64_t i = 0; i < chaos->config.workers; i++) {
        char path[PATH_MAX];
        char line[2048];
        FILE *file = NULL;
        if (coxi_path(path, "%s/worker-%d.log", chaos->log_dir, (int)i) == 0) {
            file = fopen(path, "re");
        }
        while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
            const char *at = strstr(line, event);
            long signum = at != NULL ? strtol(at + strlen(event), NULL, 10) : 0;
            n += signum == SIGABRT || signum == SIGSEGV;
        }
        if (file != NULL) {
            (void)fclose(file);
        }
    }
    return n;
}

static json_t *numbers(const int64_t *of, int64_t n)
{
    json_t *array = json_array();
    for (int64_t i = 0; i < n; i++) {
        (void)json_array_append_new(array, json_integer(of[i]));
    }
    return array;
}

/* The object, and the exit code. */
static int report(struct chaos *chaos)
{
    const struct config *config = &chaos->config;
    double seconds = 1e-9 * (double)coxi_now_ns() - chaos->started;
    uint64_t crashes = count_crashes(chaos);
    coxi_lock(&chaos->lock);
    bool ok = chaos->error[0] == '\0';
    json_t *object = json_pack(
        "{s:I,s:I,s:I,s:I,s:I,s:I,s:i,s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:f,s:b}", "steps",
        (json_int_t)chaos->n_scheduled, "done", (json_int_t)chaos->stats.done,
        "kills_worker", (json_int_t)chaos->counts.kills, "stops",
        (json_int_t)chaos->counts.stops, "resets", (json_int_t)chaos->counts.resets,
        "kills_ps", (json_int_t)chaos->counts.kills_ps, "kills_client", 0, "crashes",
        (json_int_t)crashes, "retries", (json_int_t)chaos->stats.put_back, "speculated",
        (json_int_t)chaos->stats.speculated, "speculation_won",
        (json_int_t)chaos->stats.speculation_won, "duplicates_refused",
        (json_int_t)chaos->stats.commits_duplicate, "expected",
        numbers(chaos->expected, config->ps), "found",
        numbers(chaos->found, config->ps), "seconds", seconds, "ok", (int)ok);
    (void)json_object_set_new(object, "seed", json_integer(config->seed));
    (void)json_object_set_new(object, "ps_recovered",
                              json_integer((json_int_t)chaos->stats.ps_recovered));
    (void)json_object_set_new(object, "checkpoints",
                              json_integer((json_int_t)chaos->n_checkpoints));
    if (!ok) {
        (void)json_object_set_new(object, "error", json_string(chaos->error));
    }
    coxi_unlock(&chaos->lock);
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(4));
    if (!config->json) {
        (void)printf(
            "%s after %.1f s: %llu steps, %llu kills, %llu of a ps, %llu stops, %llu "
            "resets, %llu crashes\n",
            ok ? "all counted exactly once" : "NOT ok", seconds,
            (unsigned long long)chaos->n_scheduled,
            (unsigned long long)chaos->counts.kills,
            (unsigned long long)chaos->counts.kills_ps,
            (unsigned long long)chaos->counts.stops,
            (unsigned long long)chaos->counts.resets, (unsigned long long)crashes);
    }
    (void)printf("%s\n", text != NULL ? text : "{\"ok\":false}");
    (void)fflush(stdout);
    json_decref(object);
    free(text);
    return ok ? EXIT_SUCCESS : COXI_EXIT_FAILED;
}

/* On the storm's thread: main does not come back, so this ends without it. */
static void on_stuck(void *arg, const char *why,
                     const struct chaos_storm_counts *counts)
{
    struct chaos *chaos = arg;
    static struct chaos_pins pins;
    coxi_lock(&chaos->lock);
    chaos->counts = *counts;
    coxi_unlock(&chaos->lock);
    chaos_pins_take(&pins);
    (void)chaos_pins_end(&pins, 0);
    (void)wrong(chaos, "%s, and it hangs while %s (%llu steps scheduled)", why,
                chaos->doing, (unsigned long long)chaos->n_scheduled);
    (void)report(chaos);
    coxi_directory_remove(chaos->dir);
    _exit(COXI_EXIT_FAILED);
}

static int start_storm(struct chaos *chaos)
{
    const struct config *config = &chaos->config;
    struct chaos_storm_options o = {
        .seed = ~(uint64_t)config->seed, /* not the plans' numbers again */
        .n_workers = (uint32_t)config->workers,
        .n_ps = (uint32_t)config->ps,
        .kill_every_ms = (int)config->kill_workers_every,
        .kill_ps_every_ms = (int)config->kill_ps_every,
        .stop_every_ms = (int)config->stop_every,
        .reset_every_ms =
            (int)(config->reset_every >= 0 ? config->reset_every
                                           : 2 * config->kill_workers_every),
        .peer_timeout_ms = (int)config->peer_timeout_ms,
        .deadline_s = (int)config->deadline_s,
        .grace_ms = GRACE_MS,
        .on_stuck = on_stuck,
        .arg = chaos,
    };
    return chaos_storm_start(&o, &chaos->storm);
}

static int run(struct chaos *chaos)
{
    int r = open_cluster(chaos);
    r = r != 0 ? r : create_counters(chaos);
    r = r != 0 ? r : load_steps(chaos);
    if (r == 0) {
        chaos_storm_rage(chaos->storm, true);
        r = run_steps(chaos);
        chaos_storm_rage(chaos->storm, false);
        read_counters(chaos, r == 0);
    }
    close_cluster(chaos);
    chaos_storm_stop(chaos->storm, &chaos->counts);
    return report(chaos);
}

/* A directory for all that is made, also by the library; and no core files. */
static int prepare(struct chaos *chaos)
{
    const struct config *config = &chaos->config;
    const struct rlimit none = {0};
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)signal(SIGPIPE, SIG_IGN);
    coxi_log_init("chaos", 0, COXI_LOG_ERROR);
    (void)pthread_mutex_init(&chaos->lock, NULL);
    chaos->random = (uint64_t)config->seed;
    chaos->started = 1e-9 * (double)coxi_now_ns();
    if (config->results) {
        chaos->futures = calloc((size_t)config->in_flight, sizeof(*chaos->futures));
        if (chaos->futures == NULL) {
            return coxi_error_memory("futures");
        }
    }
    int r = coxi_directory_temporary(chaos->dir);
    if (r == 0 && setenv("TMPDIR", chaos->dir, 1) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot set TMPDIR");
    }
    if (r == 0) {
        r = config->log_dir != NULL ? coxi_path(chaos->log_dir, "%s", config->log_dir)
                                    : coxi_path(chaos->log_dir, "%s/logs", chaos->dir);
    }
    if (r == 0) {
        r = coxi_path(chaos->checkpoint_dir, "%s/checkpoints", chaos->dir);
    }
    return r;
}

int main(int argc, char **argv)
{
    static struct chaos chaos;
    int r = coxi_options_parse(&program, argc, argv, &chaos.config, NULL);
    if (r == COXI_OPTIONS_EXIT) {
        return EXIT_SUCCESS;
    }
    if (r == 0) {
        r = prepare(&chaos);
    }
    if (r == 0) {
        r = start_storm(&chaos);
    }
    int code = r != 0 ? coxi_exit_config(program.name) : run(&chaos);
    if (chaos.dir[0] != '\0') {
        coxi_directory_remove(chaos.dir);
    }
    return code;
}
