/*
 * coxswain-chaos: runs steps that count, on a local cluster, through the public API,
 * while a storm (chaos_storm.c) kills and stops its processes and cuts connections. At
 * the end it compares what the steps have added up to on each ps with what they must
 * add up to: exactly once, no matter which process died.
 *
 * The client (chaos_client.c) is this process. If the client is to be killed, too, or
 * its disk is to fail, it is a child of this process, which is started again until it
 * ends by itself.
 *
 * All random numbers come from --seed, but the order in which the kernel runs threads
 * does not: a seed gives the same steps and the same blows, not the same course.
 *
 * Threads: main; the storm's, which ends the program if main is stuck.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/chaos_apart.h"
#include "bench/chaos_dataset.h"
#include "cluster/local.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/log.h"
#include "common/option.h"
#include "common/sync.h"
#include "net/daemon.h"

enum {
    GRACE_MS = 15000, /* for the client to end by itself after it was asked to */
};

/* ---- the end */

/* Counts the crashes that supervisors have logged; a supervisor that is killed with its
 * step process logs nothing. */
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

/* The result of the steps; under the client's lock. */
static json_t *result_json(const struct chaos_result *result, int64_t n_ps)
{
    const struct cox_stats *stats = &result->stats;
    return json_pack(
        "{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:I,s:b}", "steps",
        (json_int_t)result->n_scheduled, "done", (json_int_t)stats->done, "retries",
        (json_int_t)stats->put_back, "speculated", (json_int_t)stats->speculated,
        "speculation_won", (json_int_t)stats->speculation_won, "duplicates_refused",
        (json_int_t)stats->commits_duplicate, "ps_recovered",
        (json_int_t)stats->ps_recovered, "checkpoints",
        (json_int_t)result->n_checkpoints, "generation",
        (json_int_t)result->progress.generation, "expected",
        numbers(result->expected, n_ps), "found", numbers(result->found, n_ps),
        "wrong_rows", (json_int_t)result->wrong_rows, "again", (int)result->again);
}

static void add_checksum(const struct chaos_result *result, json_t *to)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%016llx", (unsigned long long)result->checksum);
    (void)json_object_set_new(to, "checksum", json_string(text));
}

static void add_records(const struct chaos_result *result, json_t *to)
{
    (void)json_object_set_new(to, "records",
                              json_integer((json_int_t)result->n_records));
    (void)json_object_set_new(to, "tasks", json_integer((json_int_t)result->n_tasks));
    (void)json_object_set_new(to, "task_retries",
                              json_integer((json_int_t)result->n_task_retries));
}

/* What the storm did; most of it is in the journal. */
static json_t *storm_json(const struct chaos *chaos, uint64_t crashes)
{
    const struct chaos_storm_counts *counts = &chaos->counts;
    json_t *object = json_pack(
        "{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "kills_worker", (json_int_t)counts->kills,
        "stops", (json_int_t)counts->stops, "resets", (json_int_t)counts->resets,
        "kills_ps", (json_int_t)counts->kills_ps, "kills_client",
        (json_int_t)counts->kills_client, "crashes", (json_int_t)crashes, "full_disks",
        (json_int_t)counts->full_disks, "partitions", (json_int_t)counts->partitions);
    for (int i = 0; i < CHAOS_N_COUNTS; i++) {
        (void)json_object_set_new(object, chaos_count_name((enum chaos_count)i),
                                  json_integer((json_int_t)chaos_count_of(
                                      chaos->client.journal, (enum chaos_count)i)));
    }
    return object;
}

/* Prints the JSON object; returns the exit code. */
static int report(struct chaos *chaos)
{
    const struct chaos_config *config = &chaos->config;
    struct chaos_client *client = &chaos->client;
    double seconds = 1e-9 * (double)coxi_now_ns() - chaos->started;
    uint64_t crashes = count_crashes(chaos);
    if (!config->client && chaos_count_of(client->journal, CHAOS_LATE) > 0) {
        (void)chaos_client_wrong(client, "%s", client->journal->late);
    }
    coxi_lock(&client->lock);
    bool ok = client->result.error[0] == '\0';
    json_t *object = result_json(&client->result, config->ps);
    json_t *storm = storm_json(chaos, crashes);
    if (config->dataset) {
        add_records(&client->result, storm);
    }
    if (config->deterministic) {
        add_checksum(&client->result, storm);
    }
    (void)json_object_set_new(storm, "seconds", json_real(seconds));
    (void)json_object_set_new(storm, "seed", json_integer((json_int_t)config->seed));
    (void)json_object_set_new(storm, "ok", json_boolean(ok));
    coxi_unlock(&client->lock);
    (void)json_object_update(object, storm);
    json_decref(storm);
    if (!ok) {
        (void)json_object_set_new(object, "error", json_string(client->result.error));
    }
    if (!config->client) {
        (void)json_object_del(object, "again");
    }
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(4));
    if (!config->json) {
        (void)printf(
            "%s (seed %lld) after %.1f s: %llu steps; kills of %llu workers, %llu ps, "
            "%llu "
            "clients; %llu stops, %llu resets, %llu crashes\n",
            ok ? "all counted exactly once" : "NOT ok", (long long)config->seed,
            seconds, (unsigned long long)client->result.n_scheduled,
            (unsigned long long)chaos->counts.kills,
            (unsigned long long)chaos->counts.kills_ps,
            (unsigned long long)chaos->counts.kills_client,
            (unsigned long long)chaos->counts.stops,
            (unsigned long long)chaos->counts.resets, (unsigned long long)crashes);
    }
    (void)printf("%s\n", text != NULL ? text : "{\"ok\":false}");
    (void)fflush(stdout);
    json_decref(object);
    free(text);
    return ok                     ? EXIT_SUCCESS
           : client->result.again ? COXI_EXIT_AGAIN
                                  : COXI_EXIT_FAILED;
}

/* ---- the storm */

/* On the storm's thread: main does not return, so this ends the program without it. */
static void on_stuck(void *arg, const char *why,
                     const struct chaos_storm_counts *counts)
{
    struct chaos *chaos = arg;
    static struct chaos_pins pins;
    coxi_lock(&chaos->client.lock);
    chaos->counts = *counts;
    coxi_unlock(&chaos->client.lock);
    chaos_pins_take(&pins);
    (void)chaos_pins_end(&pins, 0);
    (void)chaos_client_wrong(
        &chaos->client, "%s, and it hangs while %s (%llu steps scheduled)", why,
        chaos->client.doing, (unsigned long long)chaos->client.result.n_scheduled);
    (void)report(chaos);
    coxi_directory_remove(chaos->dir);
    _exit(COXI_EXIT_FAILED);
}

static int start_storm(struct chaos *chaos)
{
    const struct chaos_config *config = &chaos->config;
    struct chaos_storm_options o = {
        .seed = ~(uint64_t)config->seed, /* other numbers than the plans have */
        .n_workers = (uint32_t)config->workers,
        .n_ps = (uint32_t)config->ps,
        .kill_every_ms = (int)config->kill_workers_every,
        .kill_ps_every_ms = (int)config->kill_ps_every,
        .kill_client_every_ms = (int)config->kill_client_every,
        .stop_every_ms = (int)config->stop_every,
        .reset_every_ms = (int)config->reset_every,
        .full_disk_every_ms = (int)config->full_disk_every,
        .partition_every_ms = (int)config->partition_every,
        .peer_timeout_ms = (int)config->peer_timeout_ms,
        .deadline_s = (int)config->deadline_s,
        .grace_ms = GRACE_MS,
        .journal = chaos->client.journal,
        .on_stuck = on_stuck,
        .arg = chaos,
    };
    return chaos_storm_start(&o, &chaos->storm);
}

/* ---- all of it */

static int run(struct chaos *chaos)
{
    const struct chaos_config *config = &chaos->config;
    int r = config->client ? 0 : start_storm(chaos);
    if (r != 0) {
        return coxi_exit_config(chaos_program.name);
    }
    chaos->client.storm = chaos->storm;
    if (!config->client && (chaos_config_is_apart(config) || chaos->program != NULL)) {
        chaos_apart_run(chaos);
    } else {
        chaos_client_run(&chaos->client);
    }
    chaos_storm_stop(chaos->storm, &chaos->counts);
    return report(chaos);
}

/* The files of records belong to the first process; each client gets their
 * directory. */
static int prepare_records(struct chaos *chaos)
{
    const struct chaos_config *config = &chaos->config;
    chaos->client.data_dir = chaos->data_dir;
    if (config->data_dir != NULL) {
        return coxi_path(chaos->data_dir, "%s", config->data_dir);
    }
    int r = coxi_path(chaos->data_dir, "%s/data", chaos->dir);
    return r != 0 ? r : chaos_dataset_write(config, chaos->data_dir);
}

/* Makes a directory for everything that is written, also by the library; disables core
 * files. */
static int prepare(struct chaos *chaos)
{
    const struct chaos_config *config = &chaos->config;
    const struct rlimit none = {0};
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)signal(SIGPIPE, SIG_IGN);
    coxi_log_init("chaos", 0, COXI_LOG_ERROR);
    chaos->started = 1e-9 * (double)coxi_now_ns();
    chaos->client.config = config;
    chaos->client.log_dir = chaos->log_dir;
    int r = chaos_client_init(&chaos->client);
    if (r == 0) {
        r = coxi_directory_temporary(chaos->dir);
    }
    if (r == 0 && setenv("TMPDIR", chaos->dir, 1) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot set TMPDIR");
    }
    if (r == 0) {
        r = config->log_dir != NULL ? coxi_path(chaos->log_dir, "%s", config->log_dir)
                                    : coxi_path(chaos->log_dir, "%s/logs", chaos->dir);
    }
    if (r == 0) {
        r = config->checkpoint_dir != NULL
                ? coxi_path(chaos->checkpoint_dir, "%s", config->checkpoint_dir)
                : coxi_path(chaos->checkpoint_dir, "%s/checkpoints", chaos->dir);
    }
    if (config->client || config->kill_ps_every > 0 ||
        config->checkpoint_every_ms > 0) {
        chaos->client.checkpoint_dir = chaos->checkpoint_dir;
    }
    if (r == 0 && config->dataset) {
        r = prepare_records(chaos);
    }
    if (r == 0) {
        r = config->journal != NULL
                ? coxi_path(chaos->journal, "%s", config->journal)
                : coxi_path(chaos->journal, "%s/journal", chaos->dir);
    }
    if (r == 0) {
        r = chaos_journal_open(chaos->journal, config->journal == NULL,
                               &chaos->client.journal);
    }
    return r;
}

int main(int argc, char **argv)
{
    static struct chaos chaos;
    int rest = argc;
    int r = coxi_options_parse(&chaos_program, argc, argv, &chaos.config, &rest);
    if (r == COXI_OPTIONS_EXIT) {
        return EXIT_SUCCESS;
    }
    r = r != 0 ? r : chaos_config_complete(&chaos.config, rest < argc);
    chaos.argv = argv;
    chaos.program = rest < argc ? argv + rest : NULL;
    if (r == 0) {
        r = prepare(&chaos);
    }
    int code = r != 0 ? coxi_exit_config(chaos_program.name) : run(&chaos);
    chaos_journal_close(chaos.client.journal);
    if (chaos.dir[0] != '\0') {
        coxi_directory_remove(chaos.dir);
    }
    return code;
}
