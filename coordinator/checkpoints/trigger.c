/*
 * Takes checkpoints without a call of the program: by number of closures, time, signal,
 * and when the replay log needs room. On each tick the loop checks whether one is due
 * and wakes a thread that writes it, so dispatch goes on meanwhile. All triggers that
 * fire while one is being written cause one checkpoint after it.
 *
 * A log that is too small is half full again at once. Therefore the log triggers no
 * checkpoint within PAUSE_MS of the end of the last one. Calls that need room in the
 * log wait until this pause is over, too. The pause does not grow with the duration of
 * a checkpoint: with a large model the log would fill up meanwhile, and closures wait.
 *
 * A triggered checkpoint that fails has no caller to tell: cox_stats counts it,
 * cox_checkpoint_error returns its error, and the next one is tried when it is due.
 *
 * cox_close may begin with a checkpoint (checkpoint_at_close), which is the last one. One
 * that is under way then does not count, unless nothing has happened since its cut.
 * Like any other, it lists queued and running closures in its backlog, because those
 * that the close cancels are not done.
 *
 * SIGTERM: libuv's handler wakes the loop, the thread writes a checkpoint, and then the
 * process ends as the signal would have ended it. As soon as the first SIGTERM arrives
 * the signal has its default effect again, so a second one ends the process at once. If
 * several coordinators of a process have asked for a checkpoint, the last one to finish
 * ends the process. Within cox_open there is nothing to save yet, so the process ends at
 * once, however long the ps would be awaited.
 *
 * The same thread regularly checks whether another client has claimed the directory,
 * which ends this client (COX_EFENCED) even if the two share no ps.
 *
 * Threads: the trigger's own; see trigger.h for the others.
 */
#include "coordinator/checkpoints/trigger.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/generation.h"
#include "checkpoint/place.h"
#include "common/clock.h"
#include "common/disk.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/event.h"
#include "coordinator/checkpoints/save.h"
#include "coordinator/recovery/recovery.h"

enum {
    PAUSE_MS = 250,  /* pause after a checkpoint before the log may trigger one */
    RETRY_MS = 1000, /* the same after a failure */
    LOOK_MS = 2000,  /* time between two checks that the directory is still ours */
    LOOK_STORE_MS = 10000, /* the same in a store, which may charge for each */
};

static const char no_time[] = "cox_close had no time for it";

/* The state of the triggers. */
struct coxi_trigger {
    pthread_t thread;
    /* this coordinator handles SIGTERM, and the process may not end before it has written
     * a checkpoint; guarded by term.lock */
    bool waits_for_term;
    /* Guarded by c->lock: */
    pthread_cond_t changed; /* a checkpoint is due, or no more will be */
    bool runs;              /* the thread must be joined */
    bool end;
    bool ended;        /* the thread has ended; c->life.idle is signalled */
    bool terminate;    /* SIGTERM has arrived */
    uint64_t settled;  /* settled closures when the last checkpoint began */
    uint64_t next_id;  /* next id when it began */
    uint64_t since_ms; /* when it began */
    uint64_t again_ms; /* the log triggers none before this time */
    bool close;        /* cox_close asks for a checkpoint */
    bool late;         /* it had no time for it */
    int close_code;    /* result of that checkpoint */
    char close_text[COXI_TEXT_MAX];
    struct coxi_saved saved;
};

int coxi_trigger_new(struct cox_coordinator *c)
{
    c->saving.trigger = calloc(1, sizeof(*c->saving.trigger));
    if (c->saving.trigger == NULL) {
        return coxi_error_memory("a coordinator");
    }
    coxi_cond_init(&c->saving.trigger->changed);
    return 0;
}

void coxi_trigger_free(struct cox_coordinator *c)
{
    if (c->saving.trigger == NULL) {
        return;
    }
    (void)pthread_cond_destroy(&c->saving.trigger->changed);
    free(c->saving.trigger);
    c->saving.trigger = NULL;
}

int coxi_trigger_close_code(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    int r = c->saving.trigger->close_code;
    r = r == 0 ? 0
               : coxi_error(r, "no checkpoint was written at close: %.450s",
                            c->saving.trigger->close_text);
    coxi_unlock(&c->lock);
    return r;
}

int coxi_trigger_check(const struct cox_options *o)
{
    const char *option = o->checkpoint_every_closures != 0 ? "every_closures"
                         : o->checkpoint_every_s != 0      ? "every_s"
                         : o->checkpoint_on_sigterm != 0   ? "on_sigterm"
                         : o->checkpoint_at_close > 0      ? "at_close"
                         : o->checkpoint_keep != 0         ? "keep"
                         : o->checkpoint_incremental != 0  ? "incremental"
                                                           : NULL;
    if (o->resume_from != 0 && o->checkpoint_dir == NULL) {
        return coxi_error(COX_EINVAL, "resume_from is set, but checkpoint_dir is not");
    }
    if (o->checkpoint_keep_every != 0 && o->checkpoint_keep == 0) {
        return coxi_error(COX_EINVAL,
                          "checkpoint_keep_every is %u, and checkpoint_keep 0, which "
                          "keeps all: set checkpoint_keep, too",
                          o->checkpoint_keep_every);
    }
    if (o->checkpoint_every_s < 0) {
        return coxi_error(COX_EINVAL, "checkpoint_every_s is %d: it must be at least 0",
                          o->checkpoint_every_s);
    }
    if (o->checkpoint_at_close < -1 || o->checkpoint_at_close > 1) {
        return coxi_error(COX_EINVAL,
                          "checkpoint_at_close is %d: it must be -1, 0 or 1",
                          o->checkpoint_at_close);
    }
    return option == NULL || o->checkpoint_dir != NULL
               ? 0
               : coxi_error(COX_EINVAL,
                            "checkpoint_%s is set, but checkpoint_dir is not", option);
}

/* ---- the signal */

/* Shared by all coordinators of the process that handle SIGTERM. */
static struct {
    struct coxi_mutex lock; /* leaf */
    size_t n_waiting;       /* coordinators that must write a checkpoint first */
    bool terminating;
} term = {COXI_MUTEX_INIT, 0, false};

/* This coordinator has written its checkpoint after SIGTERM, or failed to, or has nothing
 * to save, or is being closed. The last coordinator for which the process waits ends the
 * process. */
static void let_terminate(struct cox_coordinator *c)
{
    struct coxi_trigger *t = c->saving.trigger;
    coxi_lock(&term.lock);
    term.n_waiting -= t->waits_for_term;
    bool terminate = t->waits_for_term && term.terminating && term.n_waiting == 0;
    t->waits_for_term = false;
    coxi_unlock(&term.lock);
    if (terminate) {
        (void)kill(getpid(), SIGTERM);
    }
}

/* On the loop. */
static void on_term(void *arg, int signum)
{
    struct cox_coordinator *c = arg;
    (void)signal(signum, SIG_DFL);
    coxi_lock(&term.lock);
    term.terminating = true;
    coxi_unlock(&term.lock);
    coxi_lock(&c->lock);
    bool saves = c->saving.trigger->runs;
    c->saving.trigger->terminate = true;
    (void)pthread_cond_signal(&c->saving.trigger->changed);
    coxi_unlock(&c->lock);
    if (!saves) {
        let_terminate(c);
    }
}

int coxi_trigger_begin(struct cox_coordinator *c)
{
    if (!c->options.checkpoint_on_sigterm) {
        return 0;
    }
    int r = coxi_loop_on_signal(c->loop, SIGTERM, on_term);
    if (r == 0) {
        coxi_lock(&term.lock);
        c->saving.trigger->waits_for_term = true;
        term.n_waiting++;
        coxi_unlock(&term.lock);
    }
    return r;
}

/* ---- when one is due */

static uint64_t settled(const struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    return c->counts.stats.done + c->counts.stats.failed;
}

void coxi_trigger_count(struct cox_coordinator *c, struct coxi_saved *ret)
{
    coxi_lock(&c->lock);
    c->saving.trigger->settled = settled(c);
    c->saving.trigger->next_id = c->ids.next;
    c->saving.trigger->since_ms = coxi_now_ms();
    *ret = (struct coxi_saved){c->saving.trigger->settled, c->ids.next, false};
    coxi_unlock(&c->lock);
}

void coxi_trigger_saved(struct cox_coordinator *c, const struct coxi_saved *saved)
{
    coxi_lock(&c->lock);
    c->saving.trigger->saved = *saved;
    coxi_unlock(&c->lock);
}

/* By default true whenever there is a directory, even with other triggers: otherwise
 * closures after the last checkpoint would be in none. */
static bool is_wanted_at_close(const struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    const struct coxi_trigger *t = c->saving.trigger;
    return t->runs && !t->ended && c->options.checkpoint_at_close >= 0 &&
           c->life.fatal == 0 && !t->saved.final &&
           (t->saved.settled != settled(c) || t->saved.next_id != c->ids.next);
}

/* True if a checkpoint is due; by time only if anything has happened since the last
 * one. */
static bool is_due(const struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    const struct coxi_trigger *t = c->saving.trigger;
    uint64_t every_closures = c->options.checkpoint_every_closures;
    uint64_t every_ms = (uint64_t)c->options.checkpoint_every_s * 1000;
    uint64_t n_settled = settled(c) - t->settled;
    return t->terminate || t->close ||
           (every_closures > 0 && n_settled >= every_closures) ||
           (coxi_recovery_is_due(c) && coxi_now_ms() >= t->again_ms) ||
           (every_ms > 0 && coxi_now_ms() - t->since_ms >= every_ms &&
            (n_settled > 0 || c->ids.next != t->next_id));
}

void coxi_trigger_tick(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    if (c->saving.trigger->runs && is_due(c)) {
        (void)pthread_cond_signal(&c->saving.trigger->changed);
    }
    coxi_unlock(&c->lock);
}

/* ---- the thread */

/* Stores the result of the checkpoint that cox_close has asked for. */
static void end_close(struct cox_coordinator *c, int code, const char *text)
    COXI_REQUIRES(c->lock)
{
    struct coxi_trigger *t = c->saving.trigger;
    t->close = false;
    t->close_code = code;
    (void)snprintf(t->close_text, sizeof(t->close_text), "%s", text);
    (void)pthread_cond_broadcast(&c->life.idle);
}

/* True if the close writes no checkpoint, which it tells. */
static bool refuses_close(struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    if (c->life.fatal != 0 || !c->life.failed) {
        return false;
    }
    coxi_event(c, COX_EVENT_CHECKPOINT_FAILED, COXI_OF(.level = 1 + COX_EVENT_WARNING),
               "no checkpoint is written at close, because an error has cancelled "
               "closures: a client that resumed from it would skip them");
    return true;
}

/* Adds what cox_close has waited for in vain, now that it has ended. */
static void explain_late(struct cox_coordinator *c, const char *text)
    COXI_REQUIRES(c->lock)
{
    struct coxi_trigger *t = c->saving.trigger;
    if (t->late) {
        t->late = false;
        (void)snprintf(t->close_text, sizeof(t->close_text), "%s: %.440s", no_time,
                       text);
    }
}

/* `closes`: cox_close had asked for it when it began. One that was under way by then lacks
 * what has happened since its cut. */
static void write_one(struct cox_coordinator *c, bool closes)
{
    uint64_t number = 0;
    const struct cox_checkpoint_options options = COX_CHECKPOINT_OPTIONS_INIT;
    int r = coxi_save_checkpoint(c, &options, &number);
    coxi_lock(&c->lock);
    c->saving.code = r;
    (void)snprintf(c->saving.text, sizeof(c->saving.text), "%s",
                   r != 0 ? coxi_error_text() : "");
    if (closes && c->saving.trigger->close) { /* it still waits */
        end_close(c, r, c->saving.text);
    } else if (r != 0) {
        explain_late(c, c->saving.text);
    }
    c->counts.stats.checkpoints_failed += r != 0;
    c->saving.trigger->again_ms = coxi_now_ms() + (r != 0 ? RETRY_MS : PAUSE_MS);
    coxi_unlock(&c->lock);
}

/*
 * Checks the claim on the directory. An idle client that shares only the directory with
 * its successor learns of the successor only here. Returns true if it has unlocked
 * c->lock meanwhile.
 */
static bool look_at_claim(struct cox_coordinator *c, uint64_t *looked_ms)
    COXI_REQUIRES(c->lock)
{
    uint64_t look_ms = coxi_place_in_store(c->saving.dir) ? LOOK_STORE_MS : LOOK_MS;
    if (c->life.fatal != 0 || coxi_now_ms() - *looked_ms < look_ms) {
        return false;
    }
    coxi_unlock(&c->lock);
    int r = coxi_generation_check(c->saving.dir, &c->session);
    if (r == COX_EFENCED) {
        coxi_fatal(c, r, coxi_error_text());
    }
    *looked_ms = coxi_now_ms();
    coxi_lock(&c->lock);
    if (r != 0) {
        explain_late(c, coxi_error_text());
    }
    return true;
}

static void *trigger_thread(void *arg)
{
    struct cox_coordinator *c = arg;
    struct coxi_trigger *t = c->saving.trigger;
    bool terminate = false;
    uint64_t looked_ms = coxi_now_ms();
    coxi_disk_give_up_when(&c->saving.leaves_disk);
    coxi_lock(&c->lock);
    /* SIGTERM's checkpoint is the last one, but for a close that came after its cut. */
    while ((!terminate || t->close) && (t->terminate || !t->end) && !c->life.closing) {
        if (look_at_claim(c, &looked_ms)) {
            continue;
        }
        if (!is_due(c)) {
            struct timespec until = coxi_deadline(LOOK_MS);
            (void)coxi_wait_until(&t->changed, &c->lock, &until);
            continue;
        }
        bool closes = t->close;
        if (closes && refuses_close(c)) { /* the error came since it began */
            end_close(c, 0, "");
            continue;
        }
        terminate = t->terminate;
        if (closes && c->life.fatal == 0 && !is_wanted_at_close(c)) {
            end_close(c, 0, ""); /* the one that was under way has everything */
            continue;
        }
        coxi_unlock(&c->lock);
        write_one(c, closes);
        coxi_lock(&c->lock);
    }
    coxi_unlock(&c->lock);
    if (terminate) {
        let_terminate(c);
    }
    coxi_lock(&c->lock);
    t->ended = true;
    (void)pthread_cond_broadcast(&c->life.idle);
    coxi_unlock(&c->lock);
    coxi_disk_give_up_when(NULL);
    return NULL;
}

int coxi_trigger_start(struct cox_coordinator *c)
{
    if (c->saving.dir == NULL) {
        return 0;
    }
    coxi_trigger_count(c,
                       &c->saving.trigger->saved); /* nothing needs to be saved yet */
    int r = coxi_thread_start(&c->saving.trigger->thread, "cox:checkpoint",
                              trigger_thread, c);
    coxi_lock(&c->lock);
    c->saving.trigger->runs = r == 0;
    coxi_unlock(&c->lock);
    return r;
}

/* Waits until the thread has ended; `saves`: only as long as it has a checkpoint to
 * write for SIGTERM or a close. */
static void await_end(struct cox_coordinator *c, const struct timespec *until,
                      bool saves) COXI_REQUIRES(c->lock)
{
    struct coxi_trigger *t = c->saving.trigger;
    while (t->runs && !t->ended && (!saves || t->terminate || t->close) &&
           coxi_wait_until(&c->life.idle, &c->lock, until)) {
    }
}

void coxi_trigger_let_save(struct cox_coordinator *c, const struct timespec *until,
                           bool close)
{
    struct coxi_trigger *t = c->saving.trigger;
    struct coxi_call wait;
    coxi_wait_begin(c, &wait, "cox_close", coxi_maybe_none());
    coxi_call_why(c, "the checkpoint that it begins with is being written");
    coxi_lock(&c->lock);
    t->close = close && is_wanted_at_close(c) && !refuses_close(c);
    (void)pthread_cond_signal(&t->changed);
    await_end(c, until, true);
    if (t->close) {
        end_close(c, c->life.fatal != 0 ? 0 : COX_ETIMEDOUT, no_time);
        t->late = true;
    }
    coxi_unlock(&c->lock);
    coxi_call_end(&wait);
}

bool coxi_trigger_end(struct cox_coordinator *c, const struct timespec *until)
{
    coxi_lock(&c->lock);
    c->saving.trigger->end = true;
    (void)pthread_cond_signal(&c->saving.trigger->changed);
    await_end(c, until, false);
    bool ended = !c->saving.trigger->runs || c->saving.trigger->ended;
    coxi_unlock(&c->lock);
    return ended;
}

void coxi_trigger_stop(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    bool runs = c->saving.trigger->runs;
    c->saving.trigger->runs = false;
    c->saving.trigger->end = true;
    (void)pthread_cond_signal(&c->saving.trigger->changed);
    coxi_unlock(&c->lock);
    if (runs) {
        (void)pthread_join(c->saving.trigger->thread, NULL);
    }
    let_terminate(c);
}

int cox_checkpoint_error(struct cox_coordinator *c)
{
    if (c == NULL) {
        return coxi_error(COX_EINVAL, "cox_checkpoint_error needs a coordinator");
    }
    coxi_lock(&c->lock);
    int r = c->saving.code;
    if (r != 0) {
        (void)coxi_error(r, "%s", c->saving.text);
    }
    coxi_unlock(&c->lock);
    return r;
}
