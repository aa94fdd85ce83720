/* The options of coxswain-chaos. */
#ifndef COXI_BENCH_CHAOS_CONFIG_H
#define COXI_BENCH_CHAOS_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/option.h"

struct chaos_config {
    int64_t seed;
    int64_t steps;
    int64_t step_us;
    int64_t ps;
    int64_t workers;
    int64_t slots;
    int64_t kill_workers_every;
    int64_t kill_ps_every;
    int64_t kill_client_every;
    int64_t checkpoint_every_ms;
    int64_t incremental;
    int64_t full_disk_every;
    int64_t slow_fsync_ms;
    int64_t stop_every;
    int64_t reset_every;
    int64_t partition_every;
    int64_t peer_timeout_ms;
    int64_t in_flight;
    int64_t deadline_s;
    double crash_rate;
    double flush_rate;
    double fail_disk;
    const char *log_dir;
    const char *checkpoint_dir; /* for a client alone; others have one of their own */
    const char *journal;        /* for a client alone */
    bool results;
    bool keep;
    bool speculate;
    bool assigns;
    bool resources;
    bool evict;
    bool everything;
    const char *mode;
    const char *via; /* as cox_options.checkpoint_via */
    int64_t round_size;
    int64_t backups;
    bool rounds;        /* by `mode` */
    uint32_t staleness; /* the same */
    bool deterministic;
    bool dataset;
    bool shuffle;
    bool segments;
    bool client_files;
    int64_t records;
    int64_t epochs;
    int64_t batch_size;
    int64_t task_bytes;
    const char *data_dir; /* for a client alone */
    bool netns;
    bool json;
    bool client;
};

extern const struct coxi_program chaos_program;

/* Sets the options that --everything implies, and those that were not given.
 * COX_EINVAL: options that do not go together. */
int chaos_config_complete(struct chaos_config *config, bool has_program);

/* True if each client runs in a separate process. */
bool chaos_config_is_apart(const struct chaos_config *config);

/* True if disk errors are preloaded into all processes. */
bool chaos_config_has_disk(const struct chaos_config *config);

#endif
