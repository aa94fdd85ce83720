/*
 * Events: what befalls a run that no call's error tells of: a ps or worker is lost and comes
 * back, a checkpoint fails, a call blocks for long. Include <coxswain/coxswain.h> instead of
 * this file.
 *
 * Without cox_options.on_event the library writes each event to standard error, as one line:
 *
 *   ts=2026-01-31T12:00:00.123Z level=warn role=client index=0 event=ps_lost ps=1 text="..."
 *
 * and of one code at most 10 at once and then one a second: the next line says with more=<n>
 * how many were left out. COX_LOG in the environment chooses: `quiet` writes nothing, `error` the
 * events of that level, `warn` those of COX_EVENT_WARNING, too, `info` (the default) all but those
 * of COX_EVENT_DEBUG, `debug` all. With another value cox_open fails (COX_EINVAL).
 *
 * With on_event the library writes nothing: it calls on_event(event_arg, event) for each event,
 * of every level. Contract:
 *   - Calls come from one thread of the coordinator's own, one after the other, in the order of
 *     the events, without any lock. They begin within cox_open, which may fail after that, and
 *     end before cox_close returns (before cox_open does, if it fails).
 *   - `event` and its strings are valid during the call alone.
 *   - It may call any function of the library but cox_close of its coordinator (COX_EDEADLK).
 *     It should not wait: later events wait for it, and beyond 1024 of them the oldest are
 *     dropped (cox_event.dropped).
 */
#ifndef COXSWAIN_EVENT_H
#define COXSWAIN_EVENT_H

#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum cox_event_level {
    COX_EVENT_DEBUG,   /* how the library works */
    COX_EVENT_INFO,    /* a change for the better, or as it was asked for */
    COX_EVENT_WARNING, /* something is lost or waits: the library mends it if it can */
    COX_EVENT_ERROR,   /* somebody has to do something */
};

/* Codes are stable; later versions have more. Behind each: its level, and the ids that it has. */
enum cox_event_code {
    COX_EVENT_PS_LOST = 1, /* warning: ps. It may come back, with checkpoint_dir */
    COX_EVENT_PS_BACK,     /* info: ps. It has what the last checkpoint has of it */
    COX_EVENT_PS_NOT_TAKEN, /* warning: ps. Something is at its address, and is no use yet */
    COX_EVENT_RECOVERED,        /* info: every ps has all of its own again */
    COX_EVENT_PS_OUT_OF_REACH,  /* warning: worker, ps. The worker does not reach it */
    COX_EVENT_PS_IN_REACH,      /* info: worker, ps */
    COX_EVENT_WORKER_JOINED,    /* info (within cox_open debug): worker */
    COX_EVENT_WORKER_LOST,      /* warning: worker. Its closures run elsewhere */
    COX_EVENT_WORKER_BACK,      /* info: worker */
    COX_EVENT_WORKER_LEFT,      /* info: worker. It was told to end */
    COX_EVENT_WORKER_REFUSED,   /* warning: one that dials is sent away */
    COX_EVENT_MODULE_REFUSED,   /* error: workers refuse it: cox_module_load fails */
    COX_EVENT_CHECKPOINT_SAVED, /* debug; info after a failure: checkpoint */
    /* error: checkpoint. While checkpoints go on failing, after 10, 20, 40 ... s, else debug.
     * A warning where cox_close writes none because of an error. */
    COX_EVENT_CHECKPOINT_FAILED,
    COX_EVENT_CHECKPOINT_NOT_USED, /* warning: checkpoint. Ps are restored from an older one */
    COX_EVENT_RESUMED,             /* info: checkpoint. The run goes on from it */
    COX_EVENT_BLOCKED,   /* warning: a call, or the run, waits: `seconds` so far */
    COX_EVENT_UNBLOCKED, /* info: it waits no longer */
    COX_EVENT_FENCED,    /* error: another client has taken over */
    COX_EVENT_RUN_OVER,  /* error: nothing works any more but cox_close */
    /* debug: closure. It runs once more for its results, or for what it kept, or beside an
     * attempt that takes far too long. No event tells of one whose attempt was lost with its
     * worker: that is WORKER_LOST. */
    COX_EVENT_CLOSURE_AGAIN,
    /* warning: closure, the first. cox_close: closures failed, nobody held their futures, and no
     * call has reported it */
    COX_EVENT_CLOSURES_FAILED,
    /* warning: worker, closure. The worker's process crashed while it ran this step (text: its
     * name, the signal), and WORKER_LOST came before this event. Where several steps ran, there
     * is an event for each: one of them is to blame. Of a resource: without closure. */
    COX_EVENT_STEP_CRASHED,
    /* warning: worker, closure. The step (text: its name) ran for longer than its timeout, and
     * this attempt was cancelled. Of a resource: without closure. */
    COX_EVENT_STEP_OVERRUN,
    /* warning. The program has begun to schedule or wait, and what the client before it has left
     * to be run again waits for a module (text: its name, a function) that is not loaded */
    COX_EVENT_MODULE_MISSING,
};

struct cox_event {
    size_t size;
    int code;            /* enum cox_event_code */
    int level;           /* enum cox_event_level */
    const char *name;    /* the code in lines: "ps_lost" */
    const char *text;    /* a sentence: what, where, why */
    double time_s;       /* since 1970 */
    int error;           /* COX_E..., why; 0: no error */
    int64_t ps;          /* its index; -1: the event is of none */
    int64_t worker;      /* its index; -1 */
    uint64_t closure;    /* its id; 0: of none */
    uint64_t checkpoint; /* its number; 0 */
    uint64_t seconds;    /* that it has lasted; 0 */
    uint64_t dropped; /* events before this one that were lost, since the last call */
};

/* Writes an event as the library would without on_event, whatever COX_LOG says. Any thread. */
COX_API void cox_event_write(const struct cox_event *event);

#ifdef __cplusplus
}
#endif
#endif
