/*
 * See chaos_client.h. What a step is to do depends on its number and the seed alone, so that
 * every client of a run, whichever has been started when, knows what all of them add up to. A
 * call's cursor is the number of the step after it.
 *
 * Threads: the client's; one that takes checkpoints. Costs the memory of --in-flight closures.
 */
#include "bench/chaos_client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/rand.h"
#include "common/sync.h"

enum {
    SLICE_MS = 100,       /* between two looks at whether to end early */
    CLOSE_MS = 5000,      /* for steps that still run at the end */
    PATIENCE_MS = 3000,   /* for processes to end once the cluster is closed */
    BURST = 250,          /* steps; with --speculate they are joined before the next */
    STRAGGLE_US = 150000, /* to twice that */
    KEEP = 4,             /* checkpoints */
};

/* ---- what went wrong */

int chaos_client_wrong(struct chaos_client *client, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    coxi_lock(&client->lock);
    if (client->result.error[0] == '\0') {
        (void)vsnprintf(client->result.error, sizeof(client->result.error), format,
                        args);
    }
    coxi_unlock(&client->lock);
    va_end(args);
    return -1;
}

static int check(struct chaos_client *client, int code)
{
    return code == 0
               ? 0
               : chaos_client_wrong(client, "%s: %s", client->doing, cox_error_last());
}

static void doing(struct chaos_client *client, const char *what)
{
    coxi_lock(&client->lock);
    client->doing = what;
    coxi_unlock(&client->lock);
}

/* Why it is to end before its time, or NULL. */
static const char *why(struct chaos_client *client)
{
    return client->storm != NULL ? chaos_storm_why(client->storm) : NULL;
}

/* -1 if it is to end before its time. */
static int check_storm(struct chaos_client *client)
{
    const char *reason = why(client);
    return reason == NULL ? 0
                          : chaos_client_wrong(client, "%s: %s", client->doing, reason);
}

/* ---- the cluster */

static int open_cluster(struct chaos_client *client)
{
    const struct chaos_config *config = client->config;
    struct cox_options o = COX_OPTIONS_INIT;
    struct cox_cluster *cluster = NULL;
    doing(client, "opening the cluster");
    o.log_dir = client->log_dir;
    o.queue_max = (uint32_t)config->in_flight;
    o.worker_slots = (uint32_t)config->slots;
    o.min_workers = config->client ? 1 : (uint32_t)config->workers;
    o.peer_timeout_ms = (int)config->peer_timeout_ms;
    o.speculate = config->speculate ? 1 : -1;
    o.checkpoint_dir = client->checkpoint_dir;
    o.checkpoint_incremental =
        client->checkpoint_dir != NULL ? (uint32_t)config->incremental : 0;
    o.checkpoint_keep = client->checkpoint_dir != NULL ? KEEP : 0;
    int r = config->client
                ? cox_cluster_from_env(&cluster)
                : cox_cluster_local((int)config->ps, (int)config->workers, &cluster);
    if (r == 0) {
        r = cox_open(cluster, &o, &client->c);
    }
    cox_cluster_free(cluster);
    if (r == 0) {
        r = cox_progress(client->c, &client->result.progress);
    }
    client->result.again = r != 0;
    return check(client, r);
}

/* A counter on each ps: they are placed so that all have as many bytes. And the table. */
static int create_counters(struct chaos_client *client)
{
    struct cox_table_spec rows = COX_TABLE_SPEC_INIT;
    int r = 0;
    doing(client, "creating the counters");
    for (int64_t i = 0; r == 0 && i < client->config->ps; i++) {
        char name[16];
        struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
        (void)snprintf(name, sizeof(name), "c%d", (int)i);
        spec.name = name;
        spec.dtype = COX_I64;
        spec.rank = 1;
        spec.shape[0] = 1;
        r = cox_variable_create(client->c, &spec, &client->counters[i]);
    }
    rows.name = CHAOS_TABLE;
    rows.dim = 1;
    if (r == 0) {
        r = cox_table_create(client->c, &rows, &client->rows);
    }
    return check(client, r);
}

static int load_steps(struct chaos_client *client)
{
    char dir[PATH_MAX];
    char path[PATH_MAX];
    struct cox_module *module;
    doing(client, "loading chaos_steps.so");
    int r = coxi_program_directory(dir);
    if (r == 0) {
        r = coxi_path(path, "%s/chaos_steps.so", dir);
    }
    if (r == 0) {
        r = cox_module_load(client->c, path, &module);
    }
    if (r == 0) {
        r = cox_function_get(module,
                             client->config->results ? "count_and_return" : "count",
                             &client->function);
    }
    return check(client, r);
}

/* ---- the steps */

/* With --speculate steps come in bursts; the last of each straggles, while workers have
 * nothing else to do. */
static bool ends_burst(const struct chaos_client *client, uint64_t number)
{
    return client->config->speculate && number % BURST == BURST - 1;
}

static void make_plan(const struct chaos_client *client, uint64_t number,
                      int64_t plan[CHAOS_PLAN])
{
    const struct chaos_config *config = client->config;
    uint64_t n_subsets = (UINT64_C(1) << config->ps) - 1;
    uint64_t state = (uint64_t)config->seed + number * UINT64_C(0xd1342543de82ef95);
    uint64_t *random = &state;
    plan[CHAOS_NUMBER] = (int64_t)number;
    plan[CHAOS_MASK] = (int64_t)(1 + coxi_rand(random) % n_subsets);
    plan[CHAOS_US] = (int64_t)(2 * coxi_rand_unit(random) * (double)config->step_us);
    plan[CHAOS_BUSY] = coxi_rand(random) % 4 == 0;
    bool crashes = coxi_rand_unit(random) < config->crash_rate;
    int64_t how = coxi_rand(random) % 2 == 0 ? CHAOS_CRASH_ABORT : CHAOS_CRASH_NULL;
    plan[CHAOS_CRASH] = crashes ? how : 0;
    plan[CHAOS_STRAGGLE_US] = 0;
    if (ends_burst(client, number)) {
        plan[CHAOS_STRAGGLE_US] =
            STRAGGLE_US + (int64_t)(coxi_rand(random) % STRAGGLE_US);
    }
    plan[CHAOS_FLUSH] = coxi_rand_unit(random) < config->flush_rate;
    plan[CHAOS_AFTER] =
        plan[CHAOS_FLUSH] != 0 ? (int64_t)(coxi_rand(random) % (n_subsets + 1)) : 0;
}

/* What it adds up to. */
static void expect(struct chaos_client *client, const int64_t plan[CHAOS_PLAN])
{
    coxi_lock(&client->lock);
    client->result.n_scheduled++;
    for (int64_t i = 0; i < client->config->ps; i++) {
        client->result.expected[i] +=
            (plan[CHAOS_MASK] >> i & 1) + (plan[CHAOS_AFTER] >> i & 1);
    }
    coxi_unlock(&client->lock);
}

/* The steps that clients before this one have seen to. */
static void skip(struct chaos_client *client)
{
    while (client->result.n_scheduled < client->result.progress.cursor) {
        int64_t plan[CHAOS_PLAN];
        make_plan(client, client->result.n_scheduled, plan);
        expect(client, plan);
    }
    client->first = client->n_resolved = client->result.n_scheduled;
}

static int schedule_one(struct chaos_client *client, struct cox_future **ret)
{
    int64_t plan[CHAOS_PLAN];
    make_plan(client, client->result.n_scheduled, plan);
    struct cox_value arg = COX_VECTOR("plan", COX_I64, CHAOS_PLAN, plan);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    call.cursor = client->result.n_scheduled + 1;
    if (cox_schedule(client->c, client->function, &call, ret) != 0) {
        return check(client, -1);
    }
    expect(client, plan);
    return 0;
}

/* What the future says, twice: it stays as it is once it is resolved. */
static int check_result(struct chaos_client *client, struct cox_future *future)
{
    for (int i = 0; i < 2; i++) {
        struct cox_value value;
        int64_t number = -1;
        if (cox_future_wait(future, 0) != 0 ||
            cox_future_result(future, "number", &value) != 0) {
            return chaos_client_wrong(client, "the future of step %llu: %s",
                                      (unsigned long long)client->n_resolved,
                                      cox_error_last());
        }
        if (value.dtype == COX_I64 && value.rank == 0) {
            memcpy(&number, value.data, sizeof(number));
        }
        if (number != (int64_t)client->n_resolved) {
            return chaos_client_wrong(
                client, "the future of step %llu has the number %lld",
                (unsigned long long)client->n_resolved, (long long)number);
        }
    }
    return 0;
}

/* Waits for the oldest future, checks it and lets it go. */
static int resolve_one(struct chaos_client *client)
{
    struct cox_future **at =
        &client->futures[client->n_resolved % (uint64_t)client->config->in_flight];
    int r = 0;
    while (r == 0 && cox_future_wait(*at, SLICE_MS) == COX_ETIMEDOUT) {
        const char *reason = why(client);
        if (reason != NULL) {
            r = chaos_client_wrong(client,
                                   "%s, and the future of step %llu is not resolved",
                                   reason, (unsigned long long)client->n_resolved);
        }
    }
    if (r == 0) {
        r = check_result(client, *at);
    }
    cox_future_free(*at);
    *at = NULL;
    coxi_lock(&client->lock);
    client->n_resolved++;
    coxi_unlock(&client->lock);
    return r;
}

/* Until all that has been scheduled is settled. */
static int join(struct chaos_client *client)
{
    int r;
    while ((r = cox_join(client->c, SLICE_MS)) != 0) {
        r = r == COX_ETIMEDOUT ? check_storm(client) : check(client, r);
        if (r != 0) {
            break;
        }
    }
    return r;
}

static int run_steps(struct chaos_client *client)
{
    const struct chaos_config *config = client->config;
    uint64_t n = (uint64_t)config->steps;
    uint64_t held_max = (uint64_t)config->in_flight;
    int r = 0;
    doing(client, "scheduling steps");
    while (r == 0 && client->result.n_scheduled < n) {
        if (config->results &&
            client->result.n_scheduled - client->n_resolved == held_max) {
            r = resolve_one(client);
        }
        r = r != 0 ? r : check_storm(client);
        r = r != 0 ? r
                   : schedule_one(
                         client,
                         config->results
                             ? &client->futures[client->result.n_scheduled % held_max]
                             : NULL);
        if (r == 0 && ends_burst(client, client->result.n_scheduled - 1)) {
            r = join(client);
        }
    }
    doing(client, "waiting for the futures");
    while (r == 0 && config->results && client->n_resolved < n) {
        r = resolve_one(client);
    }
    doing(client, "joining");
    return r != 0 ? r : join(client);
}

/* How many rows of the table are not what the steps add up to. */
static int count_wrong_rows(struct chaos_client *client, int64_t *ret)
{
    uint64_t n_steps = client->result.n_scheduled;
    uint64_t keys[CHAOS_KEYS];
    float found[CHAOS_KEYS];
    for (uint64_t i = 0; i < CHAOS_KEYS; i++) {
        keys[i] = i;
    }
    int r = cox_table_read(client->c, client->rows, keys, CHAOS_KEYS, found);
    *ret = 0;
    for (uint64_t i = 0; r == 0 && i < CHAOS_KEYS; i++) {
        uint64_t expected = n_steps / CHAOS_KEYS + (i < n_steps % CHAOS_KEYS);
        *ret += found[i] != (float)expected;
    }
    return r;
}

/* Statistics and counters; what is found is compared only if every step was run. */
static void read_counters(struct chaos_client *client, bool complete)
{
    struct cox_stats stats = COX_STATS_INIT;
    int64_t found[CHAOS_PS_MAX] = {0};
    doing(client, "reading the counters");
    int r = cox_stats(client->c, &stats);
    for (int64_t i = 0; r == 0 && i < client->config->ps; i++) {
        r = cox_variable_read(client->c, client->counters[i], &found[i],
                              sizeof(found[i]));
    }
    int64_t wrong_rows = 0;
    if (r == 0) {
        r = count_wrong_rows(client, &wrong_rows);
    }
    (void)check(client, r);
    coxi_lock(&client->lock);
    client->result.wrong_rows = wrong_rows;
    client->result.stats = stats;
    memcpy(client->result.found, found, sizeof(found));
    coxi_unlock(&client->lock);
    if (r != 0 || !complete) {
        return;
    }
    if (memcmp(found, client->result.expected, sizeof(found)) != 0) {
        (void)chaos_client_wrong(client,
                                 "the counters are not what the steps add up to");
    }
    if (wrong_rows != 0) {
        (void)chaos_client_wrong(client, "%lld rows are not what the steps add up to",
                                 (long long)wrong_rows);
    }
    uint64_t own = client->result.n_scheduled - client->first;
    if (stats.done != own + client->result.progress.rerun || stats.failed != 0) {
        (void)chaos_client_wrong(client, "%llu steps are done and %llu have failed",
                                 (unsigned long long)stats.done,
                                 (unsigned long long)stats.failed);
    }
}

/* ---- checkpoints */

/* One that fails since a ps is lost in its middle, or the disk does, is none; the next one
 * may be. */
static void *save_for_ever(void *arg)
{
    struct chaos_client *client = arg;
    int every_ms = (int)client->config->checkpoint_every_ms;
    coxi_lock(&client->lock);
    while (!client->ended) {
        struct timespec until = coxi_deadline(every_ms);
        if (pthread_cond_timedwait(&client->changed, &client->lock, &until) == 0) {
            continue;
        }
        coxi_unlock(&client->lock);
        int r = cox_checkpoint_save(client->c, NULL, NULL);
        coxi_lock(&client->lock);
        client->result.n_checkpoints += r == 0;
    }
    coxi_unlock(&client->lock);
    return NULL;
}

static int start_saving(struct chaos_client *client)
{
    if (client->config->checkpoint_every_ms == 0) {
        return 0;
    }
    client->saves = pthread_create(&client->saver, NULL, save_for_ever, client) == 0;
    return client->saves ? 0 : chaos_client_wrong(client, "cannot start a thread");
}

static void stop_saving(struct chaos_client *client)
{
    coxi_lock(&client->lock);
    client->ended = true;
    (void)pthread_cond_signal(&client->changed);
    coxi_unlock(&client->lock);
    if (client->saves) {
        (void)pthread_join(client->saver, NULL);
    }
}

/* ---- all of it */

int chaos_client_init(struct chaos_client *client)
{
    (void)pthread_mutex_init(&client->lock, NULL);
    coxi_cond_init(&client->changed);
    client->result.progress = (struct cox_progress)COX_PROGRESS_INIT;
    client->result.stats = (struct cox_stats)COX_STATS_INIT;
    if (client->config->results) {
        client->futures =
            calloc((size_t)client->config->in_flight, sizeof(struct cox_future *));
    }
    return client->config->results && client->futures == NULL
               ? coxi_error_memory("futures")
               : 0;
}

static void rage(struct chaos_client *client, bool on)
{
    if (client->storm != NULL) {
        chaos_storm_rage(client->storm, on);
    }
}

static void close_cluster(struct chaos_client *client)
{
    struct chaos_pins pins = {.n = 0};
    if (!client->config->client) {
        chaos_pins_take(&pins);
    }
    doing(client, "closing the cluster");
    for (int64_t i = 0; client->futures != NULL && i < client->config->in_flight; i++) {
        cox_future_free(client->futures[i]);
    }
    free(client->futures);
    (void)check(client, cox_close(client->c, CLOSE_MS));
    size_t n = chaos_pins_end(&pins, PATIENCE_MS);
    if (n > 0) {
        (void)chaos_client_wrong(client, "%zu processes were left after cox_close", n);
    }
}

void chaos_client_run(struct chaos_client *client)
{
    int r = open_cluster(client);
    r = r != 0 ? r : create_counters(client);
    r = r != 0 ? r : load_steps(client);
    r = r != 0 ? r : start_saving(client);
    if (r == 0) {
        rage(client, true);
        skip(client);
        r = run_steps(client);
        rage(client, false);
        read_counters(client, r == 0);
    }
    stop_saving(client);
    close_cluster(client);
}
