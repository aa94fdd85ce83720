/* The options of coxswain-chaos, and the values that --everything gives them. */
#include "bench/chaos_config.h"

#include <stdio.h>
#include <string.h>

#include "bench/chaos.h"
#include "common/error.h"
#include "coxswain/coxswain.h"

enum { IN_FLIGHT_MAX = 65536 };

#define NUMBER(name_, field, min_, max_, fallback_, help_)                             \
    {.name = (name_),                                                                  \
     .type = COXI_OPTION_INT,                                                          \
     .offset = offsetof(struct chaos_config, field),                                   \
     .min = (min_),                                                                    \
     .max = (max_),                                                                    \
     .fallback = (fallback_),                                                          \
     .help = (help_)}

/* Milliseconds between two blows of a kind. -1: as --everything says. */
#define EVERY(name_, field, help_) NUMBER(name_, field, -1, 3600000, "-1", help_)

#define SHARE(name_, field, min_, fallback_, help_)                                    \
    {.name = (name_),                                                                  \
     .type = COXI_OPTION_REAL,                                                         \
     .offset = offsetof(struct chaos_config, field),                                   \
     .min = (min_),                                                                    \
     .max = 1,                                                                         \
     .fallback = (fallback_),                                                          \
     .help = (help_)}

#define SWITCH(name_, field, help_)                                                    \
    {.name = (name_),                                                                  \
     .type = COXI_OPTION_FLAG,                                                         \
     .offset = offsetof(struct chaos_config, field),                                   \
     .help = (help_)}

#define TEXT(name_, field, help_)                                                      \
    {.name = (name_),                                                                  \
     .type = COXI_OPTION_STRING,                                                       \
     .offset = offsetof(struct chaos_config, field),                                   \
     .help = (help_)}

static const struct coxi_option options[] = {
    NUMBER("seed", seed, 0, 1e15, "1", "seed of all random numbers"),
    NUMBER("steps", steps, 1, 1e9, "5000", "steps to schedule"),
    NUMBER("step-us", step_us, 0, 1e6, "2000",
           "average duration of a step in microseconds"),
    NUMBER("ps", ps, 1, CHAOS_PS_MAX, "2", "parameter servers"),
    NUMBER("workers", workers, 1, 64, "3", "workers"),
    NUMBER("slots", slots, 1, 64, "1", "steps at a time on each worker"),
    SWITCH("everything", everything,
           "all kinds of failures and all that clients do, at the same time: what is "
           "given beside it counts, and 0 is none"),
    EVERY("kill-workers-every", kill_workers_every,
          "ms between two kill -9 of a worker's supervisor, step process or both; 0: "
          "none, as -1 without --everything (also below)"),
    EVERY("kill-ps-every", kill_ps_every, "ms between two kill -9 of a ps"),
    EVERY(
        "kill-client-every", kill_client_every,
        "ms between two kill -9 of the client, which is a process of its own then and "
        "is started again"),
    EVERY("checkpoint-every-ms", checkpoint_every_ms,
          "ms between two checkpoints; 0: only those that the log asks for"),
    NUMBER("incremental", incremental, 0, 1000, "3",
           "checkpoints between two full ones, each of which builds on the one before"),
    TEXT("via", via,
         "ps: each ps writes and reads its shards (default); client: they go through "
         "the "
         "client (cox_options.checkpoint_via)"),
    SHARE("fail-disk", fail_disk, -1, "-1",
          "share of failing system calls among those that write checkpoints; 0: none"),
    EVERY("full-disk-every", full_disk_every,
          "ms between two times that the checkpoints' disk is full, each a quarter as "
          "long"),
    NUMBER("slow-fsync-ms", slow_fsync_ms, -1, 60000, "-1",
           "ms by which each fsync of a checkpoint's file is delayed"),
    EVERY("stop-every", stop_every,
          "ms between two SIGSTOP of a step process; one in eight lasts longer than "
          "--peer-timeout-ms"),
    EVERY("reset-every", reset_every,
          "ms between two connections that are cut; -1: twice --kill-workers-every"),
    EVERY(
        "partition-every", partition_every,
        "ms between two cuts of all traffic between client and a ps, workers and a ps, "
        "or client and a worker; one in four lasts longer than --peer-timeout-ms"),
    SHARE("crash-rate", crash_rate, -1, "-1",
          "share of the steps whose first attempt crashes"),
    SHARE(
        "flush-rate", flush_rate, 0, "0.25",
        "share of the steps that flush in the middle, and then update any ps or none"),
    SWITCH("results", results,
           "steps return a value; every future is held and checked"),
    SWITCH(
        "keep", keep,
        "with --results: some results stay on workers, are taken by later steps, and "
        "some of them fetched"),
    SWITCH("speculate", speculate,
           "some first attempts take so long that second ones race them"),
    SWITCH(
        "assigns", assigns,
        "the client writes variables of its own meanwhile; what it has written holds"),
    SWITCH("resources", resources,
           "some steps use a resource that is made of a variable which the client has "
           "written: never of an older value"),
    SWITCH("evict", evict,
           "steps update a table that drops old rows, of which none grows old"),
    TEXT("mode", mode,
         "async: each step counts for itself (default); sync: steps count in rounds, "
         "one "
         "after the other; ssp:K: rounds run up to K rounds ahead; any: as far as they "
         "like"),
    SWITCH("deterministic", deterministic,
           "with --mode sync: deterministic rounds; the checksum of what they train is "
           "the same in each run with this --seed, --steps and --round-size"),
    NUMBER("round-size", round_size, 1, CHAOS_ROUND_MAX, "4", "steps of a round"),
    NUMBER(
        "backups", backups, 0, CHAOS_ROUND_MAX - 1, "0",
        "with --dataset: steps without which a round is complete; their records come "
        "again"),
    SWITCH("dataset", dataset,
           "steps take the records of a data set, each of which adds 1 to a row of its "
           "own"),
    NUMBER("records", records, 1, 1e9, "1000000", "with --dataset: records"),
    NUMBER("epochs", epochs, 1, 1000, "2", "with --dataset: how often each is taken"),
    NUMBER("batch-size", batch_size, 1, 1e6, "256",
           "with --dataset: records of a batch, which takes --step-us"),
    NUMBER("task-bytes", task_bytes, 1, 1e9, "16384",
           "with --dataset: bytes of a file that are a task"),
    SWITCH("shuffle", shuffle, "with --dataset: tasks and records in random order"),
    SWITCH("segments", segments,
           "with --dataset: each batch is flushed; otherwise a task is one commit"),
    SWITCH("client-files", client_files,
           "with --dataset: the client reads the files for the workers"),
    NUMBER("peer-timeout-ms", peer_timeout_ms, 100, 3600000, "1500",
           "a peer silent for this long is lost"),
    NUMBER("in-flight", in_flight, 1, IN_FLIGHT_MAX, "4096",
           "most closures in the queue, and most futures held"),
    NUMBER("deadline-s", deadline_s, 1, 86400, "600", "most seconds for everything"),
    SWITCH("netns", netns,
           "the client and each daemon in a network namespace of its own, where "
           "--partition-every drops packets; needs root and ip(8)"),
    TEXT("log-dir", log_dir, "keep the daemons' logs in this directory"),
    SWITCH(
        "client", client,
        "be the client alone, of the cluster in COX_CLUSTER, with --checkpoint-dir and "
        "--journal: what --kill-client-every starts"),
    TEXT(
        "checkpoint-dir", checkpoint_dir,
        "with --client, or a PROGRAM whose disk is to fail: where its checkpoints are"),
    TEXT("data-dir", data_dir, "with --client and --dataset: where the records are"),
    TEXT("journal", journal, "with --client: the file that outlives it"),
    SWITCH("json", json, "print nothing but the JSON object"),
};

const struct coxi_program chaos_program = {
    .name = "coxswain-chaos",
    .usage = "[options] [-- PROGRAM [ARGUMENT ...]]",
    .summary =
        "Runs counting steps on a local cluster under a storm of failures, and "
        "checks that\neach counted exactly once on every ps, and that no call of the "
        "library took more\nthan 2 s beyond its deadline. Its last line is a "
        "JSON object, which also tells how\noften each kind of failure has really "
        "happened; exit 0 only if that says \"ok\": true.\nWith a PROGRAM that "
        "is the client instead, started again until it ends by itself;\nthe cluster "
        "is in COX_CLUSTER.",
    .prefix = "COX_CHAOS",
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

/* Sets an option that was not given. */
static void fill(int64_t *value, bool everything, int64_t otherwise)
{
    if (*value < 0) {
        *value = everything ? otherwise : 0;
    }
}

static void fill_share(double *value, bool everything, double otherwise)
{
    if (*value < 0) {
        *value = everything ? otherwise : 0;
    }
}

/* What only steps with numbers do. */
static bool has_numbers(const struct chaos_config *config)
{
    return config->results || config->keep || config->resources || config->evict;
}

/* Sets what --mode says. */
static int take_mode(struct chaos_config *config)
{
    const char *mode = config->mode != NULL ? config->mode : "async";
    unsigned long long bound = 0;
    char end;
    config->rounds = strcmp(mode, "async") != 0;
    config->staleness = 0;
    if (strcmp(mode, "any") == 0) {
        config->staleness = COX_STALENESS_ANY;
    } else if (sscanf(mode, "ssp:%llu%c", &bound, &end) == 1 &&
               bound <= COX_STALENESS_MAX) {
        config->staleness = (uint32_t)bound;
    } else if (config->rounds && strcmp(mode, "sync") != 0) {
        return coxi_error(COX_EINVAL,
                          "--mode %s: it is async, sync, ssp:K with K up to %d, or any",
                          mode, COX_STALENESS_MAX);
    }
    if (config->rounds) { /* whole rounds */
        config->steps += config->round_size - 1;
        config->steps -= config->steps % config->round_size;
    }
    if (config->deterministic &&
        (strcmp(mode, "sync") != 0 || config->keep || config->dataset)) {
        return coxi_error(COX_EINVAL, "--deterministic needs --mode sync, and goes "
                                      "without --keep and --dataset");
    }
    return config->backups == 0 ||
                   (config->dataset && config->backups < config->round_size)
               ? 0
               : coxi_error(COX_EINVAL, "--backups needs --dataset, and a larger "
                                        "--round-size");
}

static int check(const struct chaos_config *config, bool has_program)
{
    if (config->client && (config->checkpoint_dir == NULL || config->journal == NULL ||
                           (config->dataset && config->data_dir == NULL))) {
        return coxi_error(COX_EINVAL, "--client needs --checkpoint-dir and --journal, "
                                      "and with --dataset also --data-dir");
    }
    if (config->netns && has_program) {
        return coxi_error(COX_EINVAL, "--netns is for this program's own client");
    }
    return config->dataset && has_numbers(config)
               ? coxi_error(COX_EINVAL, "--dataset goes without --results, --keep, "
                                        "--resources and --evict")
               : 0;
}

int chaos_config_complete(struct chaos_config *config, bool has_program)
{
    bool all = config->everything;
    int r = check(config, has_program);
    r = r != 0 ? r : take_mode(config);
    fill(&config->kill_workers_every, all, 700);
    fill(&config->kill_ps_every, all, 2300);
    fill(&config->kill_client_every, all, 5100);
    fill(&config->checkpoint_every_ms, all, 250);
    fill(&config->full_disk_every, all, 1900);
    fill(&config->slow_fsync_ms, all, 10);
    fill(&config->stop_every, all, 900);
    fill(&config->partition_every, all, 1700);
    fill_share(&config->fail_disk, all, 0.005);
    fill_share(&config->crash_rate, all, 0.002);
    if (config->reset_every < 0) {
        config->reset_every = 2 * config->kill_workers_every;
    }
    config->assigns = config->assigns || all;
    config->speculate = config->speculate || all;
    config->resources = config->resources || (all && !config->dataset);
    config->evict = config->evict || (all && !config->dataset);
    config->keep = config->keep || (all && !config->dataset && !config->deterministic);
    config->results = config->results || config->keep;
    return r;
}

bool chaos_config_has_disk(const struct chaos_config *config)
{
    return config->fail_disk > 0 || config->full_disk_every > 0 ||
           config->slow_fsync_ms > 0;
}

bool chaos_config_is_apart(const struct chaos_config *config)
{
    return config->kill_client_every > 0 || config->partition_every > 0 ||
           config->netns || chaos_config_has_disk(config);
}
