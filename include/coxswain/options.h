/* How a client runs: the options of cox_open. docs/options.md lists them in one table,
 * with the meaning of 0. Include <coxswain/coxswain.h> instead of this file. */
#ifndef COXSWAIN_OPTIONS_H
#define COXSWAIN_OPTIONS_H

#include "coxswain/event.h"
#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cox_options {
    size_t size;

    /* The directory for checkpoints, made if missing, or "s3://BUCKET/PREFIX": a place in a
     * store of objects (docs/checkpoints.md). Other names like "WORD:/..." are refused
     * (COX_EINVAL). NULL: no checkpoints. */
    const char *checkpoint_dir;

    /* Of a local cluster: the directory for logs and the output of steps (step.h).
     * NULL: no logs; output of steps and warnings of daemons go to standard error. */
    const char *log_dir;

    /* Of a local cluster: the directory with the programs. NULL: they are looked
     * for in COX_BIN_DIR, beside your program and near the library. */
    const char *bin_dir;

    /* Closures in the queue. When it is full, cox_schedule blocks. */
    uint32_t queue_max;

    /* Of a local cluster: steps that run at a time on each worker. */
    uint32_t worker_slots;

    /* cox_open waits for this many workers. 0: for one, or none if the cluster lists
     * none. */
    uint32_t min_workers;

    /* Closures sent ahead to each slot. 0: chosen from their run time and the
     * round-trip time. */
    uint32_t prefetch;

    /* How long cox_open may take. 0: what $COX_OPEN_TIMEOUT_MS says; without that, the
     * default. */
    int open_timeout_ms;

    /* A peer that is silent for this long is lost. */
    int peer_timeout_ms;

    /* How long closures may wait without a worker before they fail. While a ps is away,
     * as long as ps_recovery_ms if that is longer. 0: what $COX_WORKER_WAIT_MS says;
     * without that, the default. */
    int worker_wait_ms;

    /* A closure that has crashed its process this many times fails. */
    uint32_t max_crashes;

    /* 1: only a closure's future reports its failure; cox_schedule and cox_join do not,
     * and cancel nothing. */
    uint32_t keep_going;

    /* A step that runs for longer is cancelled. -1: none is. */
    int step_timeout_ms;

    /* How long a cancelled step may go on before its process is ended. */
    int cancel_grace_ms;

    /* A closure of which this many attempts have run for too long fails. */
    uint32_t max_attempts;

    /* Whether a step that takes far longer than others gets a second attempt. 0 or 1:
     * yes; -1: no. */
    int speculate;

    /*
     * Where workers may dial the client, as "host:port" (port 0: any) or a URL. NULL:
     * nowhere; but if the cluster comes from the environment, lists no worker and has the
     * client's address, there (cox_cluster_from_env), and if it is in etcd, at any port
     * of this host, which workers find there.
     */
    const char *listen;

    /* Of a local cluster: the limit of a step process's memory in bytes, beyond the
     * results that it keeps. 0: no limit. */
    uint64_t step_memory_max;

    /* Writes a checkpoint when this many closures were settled since the last one
     * began. 0: never. */
    uint64_t checkpoint_every_closures;

    /* Writes a checkpoint this many seconds after the last one began, if anything was
     * scheduled, settled, created or assigned since. 0: never. */
    int checkpoint_every_s;

    /* Keeps this many of the newest checkpoints. 0: all. */
    uint32_t checkpoint_keep;

    /* With checkpoint_keep: also keeps checkpoints whose number is a multiple of this.
     * 0: none of these. Without checkpoint_keep: COX_EINVAL. */
    uint32_t checkpoint_keep_every;

    /* 1: SIGTERM to this process writes a checkpoint before it ends the process. A
     * second SIGTERM ends it at once, and so does one within cox_open. */
    int checkpoint_on_sigterm;

    /* With checkpoint_dir: how long a ps that is lost may take to come back. After
     * that, and without checkpoint_dir: COX_EPSLOST. 0: what $COX_PS_RECOVERY_MS says;
     * without that, the default. */
    int ps_recovery_ms;

    /*
     * With checkpoint_dir: the bytes of the replay log, from which a lost ps is brought
     * up to date. When it is half full, the library writes a checkpoint. When it is
     * full, cox_schedule and the client's own writes wait for that checkpoint; a write
     * larger than the log passes alone. The library begins no such checkpoint within
     * 250 ms of the end of the last one; with a small log, calls wait for that, too.
     */
    uint64_t replay_log_bytes;

    /* If checkpoint_dir has checkpoints: 0: go on from the newest (see cox_progress);
     * -1: COX_EEXIST. */
    int resume;

    /* The number of the checkpoint to go on from. 0: the newest. */
    uint64_t resume_from;

    /* This many checkpoints (at most 1000) after a whole one hold only the changes
     * since the one before. 0: all are whole. */
    uint32_t checkpoint_incremental;

    /*
     * The seed of initial values, for variables whose initializer has no seed of its
     * own (cox_initializer), and of the steps of deterministic rounds. The variables of
     * a client that goes on from a checkpoint keep the first client's; for steps, give
     * the same one again.
     */
    uint64_t seed;

    /* Called with the events of the run (event.h) and `event_arg`. NULL: events go to
     * standard error. */
    void (*on_event)(void *arg, const struct cox_event *event);
    void *event_arg;

    /* 1: cox_close begins with a checkpoint, if anything has changed since the last
     * one; -1: it does not; 0: as 1 if checkpoint_dir is set. */
    int checkpoint_at_close;

    /*
     * The file with the run's key (coxswain key new): only daemons that have it are
     * used, and only workers that have it may dial the client. NULL: the file that
     * $COX_KEY_FILE names; without that, the run has no key. COX_EINVAL: others may
     * read the file.
     */
    const char *key_file;

    /*
     * "off": with a key, messages over tcp are not encrypted, but still protected
     * against changes. If either end of a connection says "on", it is on. NULL: what
     * $COX_SEAL says; without that, "on".
     */
    const char *seal;

    /*
     * Where the client serves its metrics and how it is over HTTP (docs/watching.md), as
     * "host:port", or as a port of 127.0.0.1. 0 as the port: any; cox_http_address and
     * an event tell which. NULL: where $COX_HTTP says; without that, nowhere.
     */
    const char *http;

    /* 1: `http` may be an address that other hosts reach. Whoever reaches it may read
     * everything that is served there. */
    uint32_t http_open;

    /*
     * 0: if there is a directory for it (checkpoint_dir, else or if that is in a store
     * log_dir), the run's history is written to metrics.jsonl there, and sampled each
     * second (docs/watching.md).
     * -1: it is not.
     */
    int history;

    /* The directory for files for TensorBoard, made if missing: scalars that were logged
     * in train/, the scores of evaluators in eval/. NULL: none are written. */
    const char *tensorboard_dir;

    /* The file that gets a trace of the whole run (trace.h). NULL: the file that $COX_TRACE
     * names; without that, none. */
    const char *trace;

    /*
     * Who writes and reads the shards in checkpoint_dir. "ps": each ps its own, so all ps
     * share the directory with the client, or reach the store. "client": this client, and the shards travel
     * between it and the ps, which need not see the directory or store (docs/checkpoints.md).
     * NULL: what $COX_CHECKPOINT_VIA says; without that, "ps".
     */
    const char *checkpoint_via;
};
#define COX_OPTIONS_INIT COX_INIT(cox_options)

#ifdef __cplusplus
}
#endif
#endif
