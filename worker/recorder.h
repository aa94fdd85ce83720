/*
 * The recorder notes what runs in the step process, in memory that outlives it. The
 * supervisor makes the recorder and hands it to each step process in turn. A slot notes
 * its closure before it calls the step, and strikes it out after the step has returned.
 * When the process dies, the supervisor turns the noted closures into crashes. The next
 * step process tells these to the client whose closures they were.
 *
 * Supervisor: coxi_recorder_new, _serves, _collect. Step process: all others.
 */
#ifndef COXI_WORKER_RECORDER_H
#define COXI_WORKER_RECORDER_H

#include "common/hash.h"
#include "schema/wire.h"

enum {
    /* slots; also the most crashes that are kept: later ones are dropped */
    COXI_RECORDER_MAX = 1024,
    COXI_RECORDER_FD = 3, /* the step process finds the recorder here */
    /* modules that ended processes; the oldest is forgotten */
    COXI_KILLERS_MAX = 64,
};

struct coxi_figures;
struct coxi_recorder;
struct coxi_recorder_slot;

/* Makes an empty recorder. *ret_fd is for the step process, and closed when this
 * process executes another program. COX_ENOMEM. */
int coxi_recorder_new(int *ret_fd, struct coxi_recorder **ret);

/* Opens the recorder that this process has inherited as COXI_RECORDER_FD, and closes
 * that descriptor. COX_EINVAL: it is no recorder. */
int coxi_recorder_attach(struct coxi_recorder **ret);

void coxi_recorder_free(struct coxi_recorder *recorder); /* takes NULL */

/* _serve notes that the step process serves clients; _serves returns whether it
 * does. */
void coxi_recorder_serve(struct coxi_recorder *recorder);
bool coxi_recorder_serves(const struct coxi_recorder *recorder);

/* The entry of slot `i` (below COXI_RECORDER_MAX); NULL if `recorder` is NULL. */
struct coxi_recorder_slot *coxi_recorder_slot(struct coxi_recorder *recorder,
                                              uint32_t i);

/* What is counted for those who watch the worker. NULL if `recorder` is NULL. Both
 * processes. */
struct coxi_figures *coxi_recorder_figures(struct coxi_recorder *recorder);

/* A client has come (`here`), or there is none. The step process. */
void coxi_recorder_note_client(struct coxi_recorder *recorder, bool here);

/* For how long no client has been here; 0: one is, or none has ever come. The
 * supervisor. */
uint64_t coxi_recorder_without_client_ms(const struct coxi_recorder *recorder);

/* The number of steps that run. The supervisor. */
uint32_t coxi_recorder_running(const struct coxi_recorder *recorder);

/* Note that the slot's step begins, and that it has returned. The slot's own thread.
 * `slot` NULL: do nothing. */
void coxi_recorder_begin(struct coxi_recorder_slot *slot,
                         const struct coxi_session *session,
                         const struct coxi_closure_head *head);
void coxi_recorder_end(struct coxi_recorder_slot *slot);

/*
 * For a process that is about to end. _blame blames the slot's step for `cause`
 * (COXI_CAUSE_... or a signal); _excuse excuses all steps that are not blamed. Both
 * take NULL, and may be called in a signal handler.
 */
void coxi_recorder_blame(struct coxi_recorder_slot *slot, int cause);
void coxi_recorder_excuse(struct coxi_recorder *recorder);

/* True if the slot's step runs. The slot's own thread, also in a signal handler. */
bool coxi_recorder_runs(const struct coxi_recorder_slot *slot);

/* Note that the loading of a module begins, and that it has ended. One at a time. NULL:
 * do nothing. */
void coxi_recorder_load(struct coxi_recorder *recorder,
                        const struct coxi_digest *module);
void coxi_recorder_loaded(struct coxi_recorder *recorder);

/*
 * True if two step processes have died while they loaded this module. (A step may have
 * been to blame for the first death, but the next process loads modules before it runs
 * a step.) *ret_signal: the signal of the last death; 0: it exited. A death by SIGKILL,
 * SIGTERM or SIGINT does not count, nor one for which a step was blamed. `recorder`
 * NULL: false.
 */
bool coxi_recorder_kills(const struct coxi_recorder *recorder,
                         const struct coxi_digest *module, int *ret_signal);

/*
 * After the step process has died of `signal` (0: it exited): adds the closures that
 * ran to the crashes that no client has taken yet, and makes the recorder ready for the
 * next process. If the process excused its steps, only those that it blamed become
 * crashes. Returns the number of new crashes; *ret: where they are, until the next call
 * of any function.
 */
size_t coxi_recorder_collect(struct coxi_recorder *recorder, int signal,
                             const struct coxi_crashed_head **ret);

/*
 * A client has come: takes out all crashes, and copies those of its session to `ret`,
 * which has room for COXI_RECORDER_MAX. Returns how many it copied. One thread at a
 * time.
 */
size_t coxi_recorder_take(struct coxi_recorder *recorder,
                          const struct coxi_session *session,
                          struct coxi_crashed_head *ret);

/* Notes which client has come. True if the previous client was the same one, and a step
 * process has died since it came, even if no step ran. One thread at a time. */
bool coxi_recorder_meet(struct coxi_recorder *recorder,
                        const struct coxi_session *session);

#endif
