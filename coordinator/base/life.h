/* The life of a run: from open to close, and the errors between. Guarded by
 * c->lock. */
#ifndef COXI_COORDINATOR_BASE_LIFE_H
#define COXI_COORDINATOR_BASE_LIFE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/base/ids.h"

enum { COXI_TEXT_MAX = 512 };

struct coxi_call; /* base/call.h */

/* Closures without a future that have failed or were cancelled. */
struct coxi_untold {
    uint64_t failed;
    uint64_t cancelled;
    struct coxi_closure_id first; /* the first closure that failed */
    int code;
    char text[COXI_TEXT_MAX];
};

struct coxi_life {
    bool runs;   /* the loop runs: whoever dials the client is let in, now or soon */
    bool opened; /* cox_open has succeeded */
    bool closing;
    bool shutdown; /* the loop must close every connection */

    int error; /* the first error since the last report of an error */
    char error_text[COXI_TEXT_MAX];
    struct coxi_untold untold; /* since that report */
    char first_failure
        [COXI_TEXT_MAX]; /* of a closure of this client; "": none has failed */
    /* a thread is reporting `error`: closures are cancelled, and none are accepted */
    bool reporting;
    /* an error has cancelled closures, and nothing was scheduled since */
    bool failed;
    int fatal; /* COX_EPSLOST or COX_EFENCED: nothing works any more */
    char fatal_text[COXI_TEXT_MAX];

    size_t n_waiting;   /* closures: in the intake, WAITING or QUEUED */
    size_t n_unsettled; /* calls only */
    size_t n_inherited; /* closures that an older client has left */

    /* signalled when the queue is shorter, or the state has changed */
    pthread_cond_t room;
    /* signalled when n_unsettled is 0, or the state has changed */
    pthread_cond_t idle;
    /* signalled when a worker is ready or has failed, or a module is loaded */
    pthread_cond_t changed;

    size_t n_calls; /* calls of users' threads under way */
    /* calls that have to wake the loop; n_woken (closure.h) counts those that have */
    uint64_t n_waking;
    struct coxi_call *calls; /* list of calls and other waits that may last */
};

/* How far the loop is with the end of the run (loop). */
struct coxi_phase {
    bool closing;       /* cox_close has begun: life.closing, as a turn last saw it */
    bool shutting_down; /* every connection is being closed */
    bool fatal_handled; /* workers and closures were told of life.fatal */
};

#endif
