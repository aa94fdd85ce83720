/* The life of a run: from open to close, and the errors between. Guarded by c->lock, but where it
 * says "loop". */
#ifndef COXI_COORDINATOR_BASE_LIFE_H
#define COXI_COORDINATOR_BASE_LIFE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COXI_TEXT_MAX = 512 };

struct coxi_call; /* base/call.h */

/* Closures that have failed, or were cancelled, without a future. */
struct coxi_untold {
    uint64_t failed;
    uint64_t cancelled;
    uint64_t first; /* the id of the first that failed */
    int code;
    char text[COXI_TEXT_MAX];
};

struct coxi_life {
    bool loop_runs; /* who opens and who closes */
    bool opened;    /* cox_open has done what it does */
    bool closing;
    bool shutdown;      /* the loop is to let go of every connection */
    bool shutting_down; /* loop: it does */
    bool fatal_handled; /* loop: closures have been told of `fatal` */

    int error; /* the first since it was last reported */
    char error_text[COXI_TEXT_MAX];
    struct coxi_untold untold; /* since then */
    bool reporting; /* a thread reports it: all is cancelled and nothing taken in */
    bool failed;    /* an error has cancelled closures; nothing was scheduled since */
    int fatal;      /* COX_EPSLOST or COX_EFENCED: nothing works any more */
    char fatal_text[COXI_TEXT_MAX];

    size_t n_waiting;   /* closures: in the intake, WAITING or QUEUED */
    size_t n_unsettled; /* calls only */
    size_t n_inherited; /* those of them that an older client left */

    pthread_cond_t room;    /* the queue is shorter, or the state has changed */
    pthread_cond_t idle;    /* n_unsettled is 0, or the state has changed */
    pthread_cond_t changed; /* a worker is ready or has failed, a module is loaded */

    size_t n_calls;          /* of users' threads that are under way */
    struct coxi_call *calls; /* those of them, and other waits, that may last */
};

#endif
