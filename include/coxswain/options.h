/* How a client runs: what cox_open is given. docs/options.md has all of it in one
 * table, with what 0 stands for. Include <coxswain/coxswain.h> instead of this file. */
#ifndef COXSWAIN_OPTIONS_H
#define COXSWAIN_OPTIONS_H

#include "coxswain/event.h"
#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cox_options {
    size_t size;

    /* The directory for checkpoints, made if missing. NULL: no checkpoints. */
    const char *checkpoint_dir;

    /*
     * Of a local cluster: the directory for logs and for what steps print (step.h).
     * NULL: no logs are kept; what steps print and daemons warn of goes to standard
     * error.
     */
    const char *log_dir;

    /* Of a local cluster: the directory with the programs. NULL: they are looked
     * for in COX_BIN_DIR, beside your program and near the library. */
    const char *bin_dir;

    /* Closures in the queue. When it is full, cox_schedule blocks. */
    uint32_t queue_max;

    /* Of a local cluster: steps that run at a time on each worker. */
    uint32_t worker_slots;

    /* cox_open waits for as many workers. 0: for one, or none if the cluster lists
     * none. */
    uint32_t min_workers;

    /* Closures sent ahead to each slot. 0: chosen from their run time and the
     * distance. */
    uint32_t prefetch;

    /* How long cox_open may take. */
    int open_timeout_ms;

    /* A peer that is silent for this long is lost. */
    int peer_timeout_ms;

    /* How long closures may wait without a worker before they fail. While a ps is away,
     * as long as ps_recovery_ms if that is longer. */
    int worker_wait_ms;

    /* How often one closure may crash its process. Then it fails. */
    uint32_t max_crashes;

    /* 1: a closure that fails concerns its future alone. */
    uint32_t keep_going;

    /* A step that runs for longer is cancelled. -1: none is. */
    int step_timeout_ms;

    /* How long a cancelled step may go on before its process is ended. */
    int cancel_grace_ms;

    /* How often a closure may run for too long. Then it fails. */
    uint32_t max_attempts;

    /* A second attempt of steps that take far longer than others. 0 or 1: yes; -1:
     * never. */
    int speculate;

    /*
     * Where workers may dial the client, as "host:port" (port 0: any) or a URL. NULL:
     * nowhere.
     */
    const char *listen;

    /* Of a local cluster: bytes of memory of a worker's step process, beyond the
     * results that it keeps. 0: no limit. */
    uint64_t step_memory_max;

    /* Writes a checkpoint whenever so many more closures are settled. 0: does not. */
    uint64_t checkpoint_every_closures;

    /* Writes a checkpoint after so many seconds in which something was scheduled or
     * settled. 0: does not. */
    int checkpoint_every_s;

    /* How many of the newest checkpoints are kept. 0: all. */
    uint32_t checkpoint_keep;

    /*
     * With checkpoint_keep: keeps also those whose number it divides. 0: none of these.
     * Without checkpoint_keep: COX_EINVAL.
     */
    uint32_t checkpoint_keep_every;

    /* 1: SIGTERM to this process writes a checkpoint before it ends the process. A
     * second SIGTERM ends it at once. */
    int checkpoint_on_sigterm;

    /* With checkpoint_dir: how long a ps that is lost may take to come back. After
     * that, and without checkpoint_dir: COX_EPSLOST. */
    int ps_recovery_ms;

    /*
     * With checkpoint_dir: bytes kept so that a ps that is lost can be brought up to
     * date. Half full, it asks for a checkpoint. Full, cox_schedule and the client's
     * own writes wait for that checkpoint; a write that is larger passes alone. It asks
     * for none within 250 ms of the end of the last one: with a small log, calls wait
     * for that, too.
     */
    uint64_t replay_log_bytes;

    /* If checkpoint_dir has checkpoints: 0: go on from the newest (see cox_progress);
     * -1: COX_EEXIST. */
    int resume;

    /* The number of the checkpoint to go on from. 0: the newest. */
    uint64_t resume_from;

    /* How many checkpoints (at most 1000) after a whole one hold only what has changed
     * since the one before. 0: all are whole. */
    uint32_t checkpoint_incremental;

    /*
     * The seed of initial values, for variables whose initializer has no seed of its
     * own (cox_initializer). A client that goes on from a checkpoint keeps the first
     * client's.
     */
    uint64_t seed;

    /* Is told the events of the run (event.h), with `event_arg`. NULL: they go to
     * standard error. */
    void (*on_event)(void *arg, const struct cox_event *event);
    void *event_arg;

    /* 1: cox_close begins with a checkpoint, if anything has changed since the last
     * one; -1: it does not; 0: as 1 if checkpoint_dir is set. */
    int checkpoint_at_close;
};
#define COX_OPTIONS_INIT COX_INIT(cox_options)

#ifdef __cplusplus
}
#endif
#endif
