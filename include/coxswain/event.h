/*
 * Events: what happens to a run beside the errors that calls return. A ps or a worker
 * is lost and comes back, a checkpoint fails, a call blocks for a long time.
 * docs/failures.md lists them all with an example of each. Include
 * <coxswain/coxswain.h> instead of this file.
 *
 * Without cox_options.on_event the library writes each event to standard error as one
 * line:
 *
 *   ts=2026-01-31T12:00:00.123Z level=warn role=client index=0 event=ps_lost ps=1 text="..."
 *
 * It writes at most 10 lines of one code at once, then one a second. The next line of
 * that code says with more=<n> how many were left out. COX_LOG in the environment
 * chooses what is written:
 *   quiet   nothing
 *   error   the events of level COX_EVENT_ERROR
 *   warn    those of COX_EVENT_WARNING, too
 *   info    all but those of COX_EVENT_DEBUG; the default
 *   debug   all
 * With any other value cox_open fails (COX_EINVAL). COX_LOG_FORMAT=json makes each line a
 * JSON object of the same fields, and of "run" (docs/watching.md); "text" is the default.
 *
 * With on_event the library writes nothing. It calls on_event(event_arg, event) for
 * each event of every level. Contract:
 *   - The calls come from one thread of the coordinator, one after the other, in the
 *     order of the events, and without any lock held. They begin within cox_open (which
 *     may still fail) and end before cox_close returns, or before a cox_open that fails
 *     returns.
 *   - `event` and its strings are valid only during the call.
 *   - on_event may call any function of the library except cox_close of its coordinator
 *     (COX_EDEADLK). It should not wait: later events wait for it. Beyond 1024 waiting
 *     events the oldest are dropped (cox_event.dropped).
 */
#ifndef COXSWAIN_EVENT_H
#define COXSWAIN_EVENT_H

#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum cox_event_level {
    COX_EVENT_DEBUG,   /* how the library works */
    COX_EVENT_INFO,    /* something got better, or the program asked for it */
    COX_EVENT_WARNING, /* something is lost or waits; the library mends it if it can */
    COX_EVENT_ERROR,   /* somebody has to do something */
};

/*
 * The numbers of codes never change; later versions add codes. Above each code: its
 * level, and the ids that the event has.
 */
enum cox_event_code {
    /* warning: ps. With checkpoint_dir it may come back */
    COX_EVENT_PS_LOST = 1,
    /* info: ps. It was restored from the last checkpoint, or still has all its
     * values. Also of a ps that was set back with a lost one */
    COX_EVENT_PS_BACK,
    /* warning: ps. The process at its address cannot serve as that ps, at least not
     * yet */
    COX_EVENT_PS_NOT_TAKEN,
    /* info: seconds. The recovery of all lost ps is complete */
    COX_EVENT_RECOVERED,
    /* warning: ps, worker. The worker does not reach the ps */
    COX_EVENT_PS_OUT_OF_REACH,
    /* info: ps, worker. The worker reaches the ps again */
    COX_EVENT_PS_IN_REACH,
    /* info (debug within cox_open): worker */
    COX_EVENT_WORKER_JOINED,
    /* warning: worker. Its closures run elsewhere */
    COX_EVENT_WORKER_LOST,
    /* info: worker */
    COX_EVENT_WORKER_BACK,
    /* info: worker. It was told to end */
    COX_EVENT_WORKER_LEFT,
    /* warning. The client refuses a worker that dials it */
    COX_EVENT_WORKER_REFUSED,
    /* error. A worker refuses a module, so cox_module_load fails */
    COX_EVENT_MODULE_REFUSED,
    /* debug (info after a failure): checkpoint; seconds since the first failure */
    COX_EVENT_CHECKPOINT_SAVED,
    /* error: checkpoint; seconds since the first failure. While checkpoints go on
     * failing: an error after 10, 20, 40 ... s, else debug. A warning where cox_close
     * writes no checkpoint because of an error. */
    COX_EVENT_CHECKPOINT_FAILED,
    /* warning: checkpoint. It is complete, but ps are restored from an older one */
    COX_EVENT_CHECKPOINT_NOT_USED,
    /* info: checkpoint. The run goes on from it */
    COX_EVENT_RESUMED,
    /* warning: seconds, so far; ps, if a call waits for one. A call waits, or no
     * closure ends */
    COX_EVENT_BLOCKED,
    /* info: seconds, in all; ps, as above. The wait is over */
    COX_EVENT_UNBLOCKED,
    /* error. Another client has taken over */
    COX_EVENT_FENCED,
    /* error. Only cox_close still works */
    COX_EVENT_RUN_OVER,
    /* debug: closure; worker, of a second attempt. The closure runs once more: for its
     * results, for what it had kept, or beside an attempt that takes far too long. An
     * attempt that is lost with its worker has no event of its own: the text of
     * COX_EVENT_WORKER_LOST says how many there are. */
    COX_EVENT_CLOSURE_AGAIN,
    /* warning: closure, the first that failed. cox_close found failed closures whose
     * errors no call had returned and whose futures nobody held */
    COX_EVENT_CLOSURES_FAILED,
    /* warning: worker, closure. The worker's process crashed while it ran this step.
     * The text names the step and the signal. COX_EVENT_WORKER_LOST came before. If
     * several steps ran, each has an event, and one of them is to blame. If the step
     * makes a resource, there is no closure. */
    COX_EVENT_STEP_CRASHED,
    /* warning: worker, closure. The step ran for longer than its timeout, and this
     * attempt was cancelled. The text names the step. If it makes a resource, there is
     * no closure. */
    COX_EVENT_STEP_OVERRUN,
    /*
     * warning. The program has begun to schedule or to wait, but calls that the
     * previous client left need a module that is not loaded. The text names the module
     * and a function
     */
    COX_EVENT_MODULE_MISSING,
    /* warning. Somebody without the run's key, or of another user, has dialled the client
     * (cox_options.listen). The text says from where, why it was denied, and how many
     * were since the last such event, of which there is at most one in ten seconds */
    COX_EVENT_CONNECTION_DENIED,
    /* warning: closure. A task of a data set has failed too often, or is skipped: its
     * records are not trained on in this epoch. The text names file, offset and
     * reason */
    COX_EVENT_TASK_FAILED,
    /* debug: closure. A task of a data set has failed, and another closure gets it */
    COX_EVENT_TASK_RETRIED,
    /* info. Every task of an epoch of a data set is over */
    COX_EVENT_EPOCH_DONE,
    /* info. The client serves over HTTP (cox_options.http), at the address in the text */
    COX_EVENT_SERVES,
    /* warning. metrics.jsonl or a file for TensorBoard cannot be written: a full disk, for
     * instance. Training goes on. Also: there are too many names of scalars */
    COX_EVENT_METRICS_FAILED,
    /* info. These files can be written again. The text says how many records are missing
     * in them */
    COX_EVENT_METRICS_BACK,
    /* warning. The trace that cox_close has ended could not be written (trace.h) */
    COX_EVENT_TRACE_FAILED,
    /* info: ps. It has registered in etcd at another address */
    COX_EVENT_PS_MOVED,
    /* warning. The etcd of the cluster (cox_cluster_parse) cannot be reached, or refuses
     * the client. Training goes on with the addresses that are known */
    COX_EVENT_ETCD_LOST,
    /* info. It answers again */
    COX_EVENT_ETCD_BACK,
};

struct cox_event {
    size_t size;
    int code;            /* enum cox_event_code */
    int level;           /* enum cox_event_level */
    const char *name;    /* the code's name in lines: "ps_lost" */
    const char *text;    /* a sentence: what happened, where, why */
    double time_s;       /* since 1970 */
    int error;           /* the reason, COX_E...; 0: no error */
    int64_t ps;          /* index; -1: none */
    int64_t worker;      /* index; -1: none */
    uint64_t closure;    /* id; 0: none */
    uint64_t checkpoint; /* number; 0: none */
    uint64_t seconds;    /* how long it has lasted; 0: not told */
    uint64_t dropped;    /* events that were dropped since the last call of on_event */
    uint64_t run;        /* cox_run_id; 0: not known yet */
};

/* Writes an event as the library does without on_event, regardless of COX_LOG. Any
 * thread. */
COX_API void cox_event_write(const struct cox_event *event);

#ifdef __cplusplus
}
#endif
#endif
