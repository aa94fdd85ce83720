/*
 * See chaos_client.h. A call's cursor is the number of the next step.
 *
 * Threads: the client's; one that takes checkpoints. Memory: --in-flight closures.
 */
#include "bench/chaos_client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/chaos_check.h"
#include "bench/chaos_dataset.h"
#include "bench/chaos_plan.h"
#include "bench/chaos_resources.h"
#include "bench/chaos_rounds.h"
#include "bench/chaos_writes.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/sync.h"

enum {
    SLICE_MS = 100,     /* time between two checks whether to end early */
    CLOSE_MS = 5000,    /* for steps that still run at the end */
    PATIENCE_MS = 3000, /* for processes to end after the cluster was closed */
    KEEP = 4,           /* checkpoints */
    OPEN_MS = 30000,
    HELD_MAX = 512,   /* most futures that are held if results are kept */
    FETCH_EVERY = 64, /* the client fetches the result of every FETCH_EVERY-th step */
};

/* ---- errors */

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

int chaos_client_check(struct chaos_client *client, int code)
{
    return code == 0
               ? 0
               : chaos_client_wrong(client, "%s: %s", client->doing, cox_error_last());
}

void chaos_client_doing(struct chaos_client *client, const char *what)
{
    coxi_lock(&client->lock);
    client->doing = what;
    coxi_unlock(&client->lock);
}

/* The reason why the client must end early, or NULL. */
static const char *why(struct chaos_client *client)
{
    return client->storm != NULL ? chaos_storm_why(client->storm) : NULL;
}

int chaos_client_storm(struct chaos_client *client)
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
    chaos_client_doing(client, "opening the cluster");
    o.log_dir = client->log_dir;
    o.seed = (uint64_t)config->seed;
    o.queue_max = (uint32_t)config->in_flight;
    o.worker_slots = (uint32_t)config->slots;
    o.min_workers = config->client ? 1 : (uint32_t)config->workers;
    o.peer_timeout_ms = (int)config->peer_timeout_ms;
    o.open_timeout_ms = OPEN_MS;
    o.speculate = config->speculate ? 1 : -1;
    o.keep_going = 1; /* failures are counted: see is_done */
    o.checkpoint_dir = client->checkpoint_dir;
    o.checkpoint_incremental =
        client->checkpoint_dir != NULL ? (uint32_t)config->incremental : 0;
    o.checkpoint_keep = client->checkpoint_dir != NULL ? KEEP : 0;
    o.checkpoint_via = config->via;
    int r = config->client
                ? cox_cluster_from_env(&cluster)
                : cox_cluster_local((int)config->ps, (int)config->workers, &cluster);
    if (r == 0) {
        struct chaos_timed *call =
            chaos_call_begin(client->journal, "cox_open", OPEN_MS);
        r = cox_open(cluster, &o, &client->c);
        chaos_call_end(client->journal, call);
    }
    cox_cluster_free(cluster);
    if (r == 0) {
        r = cox_progress(client->c, &client->result.progress);
    }
    client->result.again = r != 0;
    return chaos_client_check(client, r);
}

/* Checks that the client continues from a checkpoint at least as new as the newest that
 * an earlier client was told of. */
static int check_progress(struct chaos_client *client)
{
    uint64_t last = atomic_load(&client->journal->last_saved);
    uint64_t number = client->result.progress.checkpoint;
    return number >= last
               ? 0
               : chaos_client_wrong(client,
                                    "it goes on from checkpoint %llu, though %llu was "
                                    "durable",
                                    (unsigned long long)number,
                                    (unsigned long long)last);
}

static int create_fading(struct chaos_client *client)
{
    struct cox_table_spec spec = COX_TABLE_SPEC_INIT;
    spec.name = CHAOS_FADING;
    spec.dim = 1;
    spec.optimizer.kind = COX_SGD;
    spec.optimizer.learning_rate = 1;
    spec.lifecycle.evict_age = CHAOS_FADING_AGE;
    spec.lifecycle.evict_count = 2;
    spec.lifecycle.evict_count_age = CHAOS_FADING_AGE;
    return client->config->evict ? cox_table_create(client->c, &spec, &client->fading)
                                 : 0;
}

/* Creates a counter on each ps, placed so that all ps have the same bytes; and the
 * tables. */
static int create_counters(struct chaos_client *client)
{
    struct cox_table_spec rows = COX_TABLE_SPEC_INIT;
    int r = 0;
    chaos_client_doing(client, "creating the counters");
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
    r = r != 0 ? r : create_fading(client);
    return chaos_client_check(client, r);
}

/* Loads the steps, and creates the resources that steps before this client's first one
 * may still ask for. */
static int load_steps(struct chaos_client *client)
{
    char dir[PATH_MAX];
    char path[PATH_MAX];
    struct cox_module *module = NULL;
    chaos_client_doing(client, "loading chaos_steps.so");
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
    if (r != 0) {
        return chaos_client_check(client, r);
    }
    r = chaos_resources_open(client, module, client->result.progress.cursor,
                             &client->resources);
    return r != 0 ? r : chaos_dataset_open(client, module, &client->dataset);
}

/* ---- the steps */

/* Adds a step to the expected sums. */
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

/* Counts the steps that earlier clients have done. */
static void skip(struct chaos_client *client)
{
    while (client->result.n_scheduled < client->result.progress.cursor) {
        int64_t plan[CHAOS_PLAN];
        chaos_plan(client, client->result.n_scheduled, plan);
        expect(client, plan);
    }
    client->first = client->n_resolved = client->result.n_scheduled;
}

static uint64_t held_max(const struct chaos_client *client)
{
    uint64_t most = (uint64_t)client->config->in_flight;
    return client->config->keep && most > HELD_MAX ? HELD_MAX : most;
}

/* The place of a step's future; NULL: futures are not held. */
static struct cox_future **future_of(struct chaos_client *client, uint64_t number)
{
    return client->config->results ? &client->futures[number % held_max(client)] : NULL;
}

/* Plans a step, with its call. */
static void plan_call(struct chaos_client *client, uint64_t number,
                      struct chaos_planned *ret)
{
    chaos_plan_call(client, number, ret);
    uint64_t taken = (uint64_t)ret->plan[CHAOS_TAKES];
    if (taken != 0 && taken >= client->n_resolved) {
        ret->input = (struct cox_input){"taken", *future_of(client, taken), "number"};
        ret->call.inputs = &ret->input;
        ret->call.n_inputs = 1;
        chaos_count_add(client->journal, CHAOS_TAKEN, 1);
    }
}

/* Schedules the steps of a round, or one. */
static int schedule_some(struct chaos_client *client)
{
    static struct chaos_planned
        planned[CHAOS_ROUND_MAX]; /* only this thread schedules */
    struct cox_call *calls[CHAOS_ROUND_MAX];
    struct cox_future *futures[CHAOS_ROUND_MAX];
    uint64_t first = client->result.n_scheduled;
    uint64_t n = chaos_rounds_size(client);
    bool held = client->config->results;
    int r = 0;
    for (uint64_t i = 0; r == 0 && i < n; i++) {
        plan_call(client, first + i, &planned[i]);
        calls[i] = &planned[i].call;
        r = chaos_resources_prepare(client->resources, first + i);
    }
    if (r == 0 && chaos_rounds_schedule(client, calls, n, held ? futures : NULL) != 0) {
        r = chaos_client_check(client, -1);
    }
    for (uint64_t i = 0; r == 0 && i < n; i++) {
        if (held) {
            *future_of(client, first + i) = futures[i];
        }
        expect(client, planned[i].plan);
    }
    return r;
}

/* Checks the future's result, twice, because it must not change once it is resolved. */
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

static int wait_slice(struct chaos_client *client, struct cox_future *future,
                      bool fetch)
{
    struct chaos_timed *call = chaos_call_begin(
        client->journal, fetch ? "cox_future_fetch" : "cox_future_wait", SLICE_MS);
    int r =
        fetch ? cox_future_fetch(future, SLICE_MS) : cox_future_wait(future, SLICE_MS);
    chaos_call_end(client->journal, call);
    return r;
}

/* Fetches a kept result now and then; other kept results are never looked at. */
static int settle_one(struct chaos_client *client, struct cox_future *future)
{
    uint64_t number = client->n_resolved;
    bool kept = chaos_plan_keeps(client, number);
    bool fetch = kept && number % FETCH_EVERY == CHAOS_KEEP_AT;
    int r;
    while ((r = wait_slice(client, future, fetch)) == COX_ETIMEDOUT) {
        const char *reason = why(client);
        if (reason != NULL) {
            return chaos_client_wrong(client,
                                      "%s, and the future of step %llu is not resolved",
                                      reason, (unsigned long long)number);
        }
    }
    if (r == COX_EREPLAY) {
        client->result.n_unreturned++;
        return 0;
    }
    if (r != 0) {
        return chaos_client_wrong(client, "the future of step %llu: %s",
                                  (unsigned long long)number, cox_error_last());
    }
    chaos_count_add(client->journal, CHAOS_FETCHED, fetch);
    return kept && !fetch ? 0 : check_result(client, future);
}

/* Waits for the oldest future, checks it and frees it. */
static int resolve_one(struct chaos_client *client)
{
    struct cox_future **at = future_of(client, client->n_resolved);
    int r = settle_one(client, *at);
    cox_future_free(*at);
    *at = NULL;
    coxi_lock(&client->lock);
    client->n_resolved++;
    coxi_unlock(&client->lock);
    return r;
}

static int join_slice(struct chaos_client *client)
{
    struct chaos_timed *call = chaos_call_begin(client->journal, "cox_join", SLICE_MS);
    int r = cox_join(client->c, SLICE_MS);
    chaos_call_end(client->journal, call);
    return r;
}

/* Waits until all scheduled steps are settled. */
static int join(struct chaos_client *client)
{
    int r;
    while ((r = join_slice(client)) != 0) {
        r = r == COX_ETIMEDOUT ? chaos_client_storm(client)
                               : chaos_client_check(client, r);
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
    int r = 0;
    chaos_client_doing(client, "scheduling steps");
    while (r == 0 && client->result.n_scheduled < n) {
        while (r == 0 && config->results &&
               client->result.n_scheduled + chaos_rounds_size(client) >
                   client->n_resolved + held_max(client)) {
            r = resolve_one(client);
        }
        r = r != 0 ? r : chaos_client_storm(client);
        r = r != 0 ? r : schedule_some(client);
        if (r == 0 && chaos_plan_ends_burst(client, client->result.n_scheduled - 1)) {
            r = join(client);
        }
    }
    chaos_client_doing(client, "waiting for the futures");
    while (r == 0 && config->results && client->n_resolved < n) {
        r = resolve_one(client);
    }
    chaos_client_doing(client, "joining");
    return r != 0 ? r : join(client);
}

/* ---- checkpoints */

/* Takes a checkpoint. It may fail if a ps is lost meanwhile or the disk fails; then the
 * next one may succeed. */
static void save_one(struct chaos_client *client)
{
    struct chaos_saved begun;
    uint64_t number = 0;
    chaos_save_begin(client->journal, &begun);
    int r = cox_checkpoint_save(client->c, NULL, &number);
    if (r == 0) {
        chaos_save_end(client->journal, &begun, number);
    }
    chaos_count_add(client->journal, r == 0 ? CHAOS_SAVED : CHAOS_UNSAVED, 1);
    coxi_lock(&client->lock);
    client->result.n_checkpoints += r == 0;
    coxi_unlock(&client->lock);
    chaos_count_stats(client);
}

static void *save_for_ever(void *arg)
{
    struct chaos_client *client = arg;
    int every_ms = (int)client->config->checkpoint_every_ms;
    coxi_lock(&client->lock);
    while (!client->ended) {
        struct timespec until = coxi_deadline(every_ms);
        if (coxi_wait_until(&client->changed, &client->lock, &until)) {
            continue;
        }
        coxi_unlock(&client->lock);
        save_one(client);
        coxi_lock(&client->lock);
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
    (void)pthread_cond_broadcast(&client->changed);
    coxi_unlock(&client->lock);
    if (client->saves) {
        (void)pthread_join(client->saver, NULL);
    }
}

/* ---- all of it */

int chaos_client_init(struct chaos_client *client)
{
    coxi_mutex_init(&client->lock);
    coxi_mutex_init(&client->counting);
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
    chaos_client_doing(client, "closing the cluster");
    for (int64_t i = 0; client->futures != NULL && i < client->config->in_flight; i++) {
        cox_future_free(client->futures[i]);
    }
    free(client->futures);
    struct chaos_timed *call = chaos_call_begin(client->journal, "cox_close", CLOSE_MS);
    int r = cox_close(client->c, CLOSE_MS);
    if (r != COX_EIO || !chaos_config_has_disk(client->config)) {
        (void)chaos_client_check(client,
                                 /* the checkpoint at close may hit a failing disk */
                                 r);
    }
    chaos_call_end(client->journal, call);
    size_t n = chaos_pins_end(&pins, PATIENCE_MS);
    if (n > 0) {
        (void)chaos_client_wrong(client, "%zu processes were left after cox_close", n);
    }
}

/* Prepares everything that the first step needs; checks what earlier clients have
 * left. */
static int prepare(struct chaos_client *client)
{
    int r = open_cluster(client);
    r = r != 0 ? r : check_progress(client);
    if (r == 0) {
        chaos_saves_restore(client->journal, client->result.progress.checkpoint);
    }
    r = r != 0 ? r : create_counters(client);
    r = r != 0 ? r : chaos_rounds_open(client, &client->rounds);
    r = r != 0 ? r : load_steps(client);
    /* start the storm now, because reading waits for the closures that run again */
    r = r != 0 ? r : start_saving(client);
    if (r == 0) {
        chaos_client_doing(client, "looking at what was assigned before");
        r = chaos_writes_open(client, &client->writes);
    }
    r = r != 0 ? r : chaos_resources_prepare(client->resources, 0);
    return r != 0 ? r : chaos_writes_start(client->writes);
}

void chaos_client_run(struct chaos_client *client)
{
    int r = prepare(client);
    if (r == 0) {
        rage(client, true);
        skip(client);
        r = client->dataset != NULL ? chaos_dataset_run(client->dataset)
                                    : run_steps(client);
        rage(client, false);
    }
    if (client->c != NULL) {
        chaos_client_doing(client, "ending what the client writes itself");
        chaos_writes_stop(client->writes);
        chaos_check_end(client, r == 0);
    }
    stop_saving(client);
    close_cluster(client);
    chaos_writes_free(client->writes);
    chaos_resources_free(client->resources);
    chaos_dataset_free(client->dataset);
    chaos_rounds_free(client->rounds);
}
