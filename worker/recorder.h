/*
 * The recorder: what runs in the step process at this moment, in memory that outlives
 * it. The supervisor makes it and hands it to one step process after the other. A slot
 * notes its closure before it calls the step and strikes it out after the step has
 * returned; when the process dies, the supervisor turns what is noted into crashes, and
 * the next step process takes them out for the client whose closures they were.
 *
 * Supervisor: coxi_recorder_new, _serves, _collect. Step process: all others.
 */
#ifndef COXI_WORKER_RECORDER_H
#define COXI_WORKER_RECORDER_H

#include "common/hash.h"
#include "schema/wire.h"

enum {
    COXI_RECORDER_MAX = 1024, /* slots; and crashes, beyond which they are dropped */
    COXI_RECORDER_FD = 3,     /* where the step process finds it */
    COXI_KILLERS_MAX = 64,    /* modules, of which the oldest is forgotten */
};

struct coxi_recorder;
struct coxi_recorder_slot;

/* An empty one; *ret_fd, for the step process, is closed when this one executes
 * another. COX_ENOMEM. */
int coxi_recorder_new(int *ret_fd, struct coxi_recorder **ret);

/* The one that is open as COXI_RECORDER_FD, which is closed. COX_EINVAL: it is none. */
int coxi_recorder_attach(struct coxi_recorder **ret);

void coxi_recorder_free(struct coxi_recorder *recorder); /* takes NULL */

/* Says, and asks, whether the step process has got as far as serving clients. */
void coxi_recorder_serve(struct coxi_recorder *recorder);
bool coxi_recorder_serves(const struct coxi_recorder *recorder);

/* The entry of slot `i` (below COXI_RECORDER_MAX); of recorder NULL: NULL. */
struct coxi_recorder_slot *coxi_recorder_slot(struct coxi_recorder *recorder,
                                              uint32_t i);

/* A step begins, and has returned. The slot's own thread; `slot` NULL: nothing. */
void coxi_recorder_begin(struct coxi_recorder_slot *slot,
                         const struct coxi_session *session,
                         const struct coxi_closure_head *head);
void coxi_recorder_end(struct coxi_recorder_slot *slot);

/*
 * Before the process ends: whom it blames, and for what (COXI_CAUSE_... or a signal); then,
 * that nothing else that runs is to blame. Each takes NULL, and is for handlers of signals,
 * too.
 */
void coxi_recorder_blame(struct coxi_recorder_slot *slot, int cause);
void coxi_recorder_excuse(struct coxi_recorder *recorder);

/* Whether the slot's step runs. Its own thread, a signal handler too. */
bool coxi_recorder_runs(const struct coxi_recorder_slot *slot);

/* The loading of a module begins, and has returned. One at a time. NULL: nothing. */
void coxi_recorder_load(struct coxi_recorder *recorder, struct coxi_hash128 module);
void coxi_recorder_loaded(struct coxi_recorder *recorder);

/*
 * True if step processes died while they loaded this module, twice: the first time a step
 * may have been to blame, but the next process loads before it runs any. *ret_signal: of
 * what (0: it exited). A kill from outside, or an end of its own, does not count. Of
 * recorder NULL: false.
 */
bool coxi_recorder_kills(const struct coxi_recorder *recorder,
                         struct coxi_hash128 module, int *ret_signal);

/*
 * The step process has died of `signal` (0: it exited): what ran becomes crashes, behind
 * those that no client has asked for, and the recorder is ready for the next one. Where
 * the process has blamed some, they are those. The number of new ones,
 * and where they are (until the next call of anything).
 */
size_t coxi_recorder_collect(struct coxi_recorder *recorder, int signal,
                             const struct coxi_crashed_head **ret);

/*
 * A client is here: takes out all crashes, and copies those of its session to `ret`
 * (COXI_RECORDER_MAX of them); how many. One thread at a time.
 */
size_t coxi_recorder_take(struct coxi_recorder *recorder,
                          const struct coxi_session *session,
                          struct coxi_crashed_head *ret);

/* A client is here: true if the one before it was the same, and a step process has died since
 * then, whatever ran in it. One thread at a time. */
bool coxi_recorder_meet(struct coxi_recorder *recorder,
                        const struct coxi_session *session);

#endif
