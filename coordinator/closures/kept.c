/*
 * See kept.h. Each user of the values counts itself, on any thread; the last one to go
 * lists the future for the loop, which tells the worker to drop the values.
 *
 * Values are made again by a closure of its own, as in a replay (recovery_replay.c),
 * with the id of the settled one: the ps treat its commits as duplicates. If the
 * settled closure is being replayed, that replay serves as well. The new closure waits
 * for its own inputs as any call does, so a chain of closures is made again one after
 * the other.
 *
 * Bounds: one such closure for each future that is kept; a chain of COXI_LINEAGE_MAX.
 *
 * Threads: see kept.h. Cost: O(1) for each, plus the length of a bucket.
 */
#include "coordinator/closures/kept.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/event.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/futures.h"
#include "coordinator/closures/inputs.h"
#include "coordinator/closures/seat.h"
#include "coordinator/closures/settle.h"
#include "coordinator/workers/module.h"

enum { DROPPED_MAX = 1 << 16 }; /* results dropped by one message */

int coxi_kept_new(struct coxi_closure *closure)
{
    struct coxi_kept *kept = calloc(1, sizeof(*kept));
    if (kept == NULL) {
        return coxi_error_memory("a closure");
    }
    kept->closure = closure;
    atomic_init(&kept->wanted, 1);
    closure->kept = kept;
    return 0;
}

void coxi_kept_free(struct coxi_kept *kept)
{
    if (kept != NULL) {
        free(kept->text);
        free(kept);
    }
}

/* ---- counting users */

void coxi_kept_want(struct coxi_closure *closure)
{
    if (closure->kept != NULL) {
        atomic_fetch_add_explicit(&closure->kept->wanted, 1, memory_order_relaxed);
    }
}

/* Lists the closure for the loop, which looks at it in coxi_kept_sweep. */
static void list_for_loop(struct coxi_closure *closure)
{
    struct cox_coordinator *c = closure->future.c;
    struct coxi_kept *kept = closure->kept;
    coxi_lock(&c->lock);
    if (!kept->listed && !c->closures->kept_closed) {
        kept->listed = true;
        coxi_future_ref(&closure->future);
        kept->next_listed = c->closures->kept_listed;
        c->closures->kept_listed = closure;
        coxi_loop_wake(c->loop);
    }
    coxi_unlock(&c->lock);
}

void coxi_kept_unwant(struct coxi_closure *closure)
{
    struct coxi_kept *kept = closure->kept;
    if (kept != NULL &&
        atomic_fetch_sub_explicit(&kept->wanted, 1, memory_order_acq_rel) == 1) {
        list_for_loop(closure);
    }
}

void coxi_kept_unlogged(struct coxi_closure *closure)
{
    if (closure->kept != NULL) {
        list_for_loop(closure);
    }
}

static bool is_wanted(const struct coxi_kept *kept)
{
    return atomic_load_explicit(&kept->wanted, memory_order_acquire) > 0;
}

/* The next closure of the list, with the list's reference; or NULL. */
static struct coxi_closure *take_listed(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    struct coxi_closure *closure = c->closures->kept_listed;
    if (closure != NULL) {
        c->closures->kept_listed = closure->kept->next_listed;
        closure->kept->listed = false;
    }
    coxi_unlock(&c->lock);
    return closure;
}

void coxi_kept_close(struct cox_coordinator *c)
{
    struct coxi_closure *closure;
    coxi_lock(&c->lock);
    c->closures->kept_closed = true;
    coxi_unlock(&c->lock);
    while ((closure = take_listed(c)) != NULL) {
        coxi_future_unref(&closure->future);
    }
}

/* ---- where they are */

bool coxi_kept_is_here(const struct coxi_closure *closure)
{
    return closure->kept == NULL || closure->kept->here;
}

struct coxi_seat *coxi_kept_seat(const struct coxi_closure *closure)
{
    return closure->kept != NULL ? closure->kept->seat : NULL;
}

/* The worker no longer has the values, or will drop them. */
static void unlink_kept(struct coxi_kept *kept)
{
    *kept->link = kept->next;
    if (kept->next != NULL) {
        kept->next->link = kept->link;
    }
    kept->seat = NULL;
}

void coxi_kept_drop(struct coxi_seat *seat, struct coxi_closure_id id, uint32_t attempt)
{
    struct cox_coordinator *c = seat->c;
    const struct coxi_recall_head head = {id.n, attempt, 0};
    if (coxi_buffer_append_raw(&seat->dropped, &head, sizeof(head)) != 0) {
        return; /* they stay there until the worker or this client is gone */
    }
    if (!seat->is_dropper) {
        seat->is_dropper = true;
        seat->next_dropper = c->closures->droppers;
        c->closures->droppers = seat;
    }
}

/* The values are at the client from now on: nobody has to make them again. */
static void be_here(struct coxi_closure *closure, uint8_t *result, size_t len)
{
    struct cox_coordinator *c = closure->future.c;
    coxi_lock(&c->lock);
    closure->future.result = result;
    closure->future.result_len = len;
    closure->kept->here = true;
    coxi_unlock(&c->lock);
    closure->kept->lineage = 0;
    coxi_inputs_drop(closure);
}

int coxi_kept_take(struct coxi_closure *closure, const uint8_t *result, size_t len)
{
    uint8_t *copy = NULL;
    if (closure->kept == NULL || closure->kept->here || !is_wanted(closure->kept)) {
        return 0;
    }
    if (len > 0) {
        copy = malloc(len);
        if (copy == NULL) {
            return coxi_error_memory("the results of a closure");
        }
        memcpy(copy, result, len);
    }
    be_here(closure, copy, len);
    return 0;
}

void coxi_kept_done(struct coxi_closure *closure, struct coxi_seat *seat,
                    uint32_t attempt, uint64_t bytes)
{
    struct coxi_kept *kept = closure->kept;
    if (kept == NULL || !is_wanted(kept)) {
        return;
    }
    kept->seat = seat;
    kept->attempt = attempt;
    kept->bytes = bytes;
    kept->next = seat->kept;
    kept->link = &seat->kept;
    if (kept->next != NULL) {
        kept->next->link = &kept->next;
    }
    seat->kept = kept;
    kept->lineage = 1 + coxi_inputs_lineage(closure);
}

/* ---- bringing them here */

static struct coxi_kept **bucket_of(struct cox_coordinator *c,
                                    struct coxi_closure_id id)
{
    return &c->closures->coming[id.n % COXI_COMING_BUCKETS];
}

/* The pointer to the closure's entry, or to the end of its bucket. */
static struct coxi_kept **find_coming(struct cox_coordinator *c,
                                      struct coxi_closure_id id)
{
    struct coxi_kept **at = bucket_of(c, id);
    while (*at != NULL && (*at)->closure->future.id.n != id.n) {
        at = &(*at)->next_coming;
    }
    return at;
}

static void begin_coming(struct coxi_kept *kept)
{
    struct coxi_kept **bucket =
        bucket_of(kept->closure->future.c, kept->closure->future.id);
    kept->next_coming = *bucket;
    *bucket = kept;
    coxi_future_ref(&kept->closure->future);
}

/* The values have come, or will not (`code`): tells the closures that wait for them. If
 * the closure is not settled yet, they wait for that, too, and are told then. */
static void end_coming(struct coxi_kept *kept, int code, const char *text)
{
    struct coxi_closure *closure = kept->closure;
    *find_coming(closure->future.c, closure->future.id) = kept->next_coming;
    kept->asked = false;
    kept->remake = NULL;
    kept->code = code;
    free(kept->text);
    kept->text = code != 0 ? strdup(text) : NULL;
    if (coxi_closure_is_over(closure)) {
        coxi_inputs_tell(closure);
    }
    coxi_future_unref(&closure->future);
}

static int ask(struct coxi_kept *kept)
{
    struct coxi_message message = {.kind = COXI_RESULT_WANT};
    message.result.closure = kept->closure->future.id.n;
    message.result.attempt = kept->attempt;
    kept->asked = true;
    kept->seat->n_asked_results++;
    return coxi_worker_send(kept->seat->worker, &message, NULL);
}

static int make_again(struct coxi_kept *kept)
{
    struct coxi_closure *closure = kept->closure;
    struct cox_coordinator *c = closure->future.c;
    /* a replay of the closure serves, too */
    kept->remake = coxi_closure_find(c, closure->future.id);
    if (kept->remake != NULL) {
        return 0;
    }
    int r = c->phase.shutting_down
                ? coxi_error(COX_ECANCELLED, "the coordinator is being closed")
                : coxi_closure_again(closure, &kept->remake);
    if (r != 0) {
        return r;
    }
    coxi_event(c, COX_EVENT_CLOSURE_AGAIN, COXI_OF(.closure = closure->future.id),
               "closure %llu (%s) runs again: its kept results were lost",
               (unsigned long long)closure->future.id.n, closure->function->name);
    c->closures->waiting_change++;
    coxi_lock(&c->lock);
    c->life.n_unsettled++;
    c->life.n_inherited += kept->remake->older.inherited;
    c->counts.stats.made_again++;
    coxi_unlock(&c->lock);
    /* set directly, because it is in no queue yet */
    kept->remake->rerun->urgent = coxi_inputs_are_urgent(closure);
    coxi_closure_begin(kept->remake);
    return 0;
}

/* The closure that should make the values has ended without results. */
static void try_again(struct coxi_kept *kept)
{
    kept->remake = NULL;
    int r = make_again(kept);
    if (r != 0) {
        end_coming(kept, r, coxi_error_text());
    }
}

void coxi_kept_bring(struct coxi_closure *closure)
{
    struct coxi_kept *kept = closure->kept;
    if (kept->here || kept->asked || kept->remake != NULL) {
        return;
    }
    kept->code = 0;
    begin_coming(kept);
    int r = kept->seat != NULL ? ask(kept) : make_again(kept);
    if (r != 0 && kept->seat == NULL) { /* otherwise its connection will report it */
        end_coming(kept, r, coxi_error_text());
    }
}

int coxi_kept_sent(struct coxi_seat *seat, const struct coxi_result *result,
                   const void *values, size_t len)
{
    struct coxi_kept *kept = *find_coming(seat->c, coxi_closure_id(result->closure));
    if (seat->n_asked_results == 0) {
        return coxi_error(COX_EPROTO, "a result that was not asked for");
    }
    seat->n_asked_results--;
    if (kept == NULL || !kept->asked || kept->seat != seat ||
        kept->attempt != result->attempt) {
        return 0; /* nobody needs it any more */
    }
    if (result->code != 0) {
        return coxi_error(COX_EPROTO, "it has lost what it kept of closure %llu: %s",
                          (unsigned long long)result->closure, result->message);
    }
    int r = coxi_kept_take(kept->closure, values, len);
    end_coming(kept, r, r != 0 ? coxi_error_text() : "");
    return 0;
}

/* ---- the end of a closure, and of the need for its results */

/* Nobody needs the values any more: forgets those at the worker, and those on their
 * way. */
static void forget(struct coxi_kept *kept)
{
    if (kept->seat != NULL) {
        coxi_kept_drop(kept->seat, kept->closure->future.id, kept->attempt);
        unlink_kept(kept);
    }
    if (kept->asked) { /* nobody waits for them */
        end_coming(kept, 0, "");
    }
}

void coxi_kept_void(struct coxi_closure *closure)
{
    if (closure->kept == NULL) {
        return;
    }
    forget(closure->kept);
    closure->kept->code = 0;
    coxi_lock(&closure->future.c->lock);
    closure->kept->here = false;
    coxi_unlock(&closure->future.c->lock);
}

void coxi_kept_settled(struct coxi_closure *closure)
{
    if (closure->kept == NULL) {
        return;
    }
    if (closure->state != COXI_DONE_OK) {
        forget(closure->kept);
    } else if (closure->kept->lineage >= COXI_LINEAGE_MAX) {
        coxi_kept_bring(closure);
    }
}

/* ---- workers that leave, and lost workers */

void coxi_kept_rescue(struct coxi_seat *seat)
{
    for (struct coxi_kept *kept = seat->kept; kept != NULL; kept = kept->next) {
        coxi_kept_bring(kept->closure);
    }
}

void coxi_kept_lost(struct coxi_seat *seat)
{
    seat->n_asked_results = 0;
    seat->dropped.len = 0;
    while (seat->kept != NULL) {
        struct coxi_kept *kept = seat->kept;
        unlink_kept(kept);
        /* a closure that is not settled yet makes them again when they are needed */
        if (kept->asked && coxi_closure_is_over(kept->closure) &&
            kept->closure->dependents != NULL) {
            kept->asked = false;
            try_again(kept);
        } else if (kept->asked) {
            end_coming(kept, 0, "");
        }
    }
    coxi_closures_leave_home(seat);
}

/* ---- the closure that makes them again */

void coxi_kept_wait_for_recovery(struct cox_coordinator *c)
{
    for (size_t i = 0; i < COXI_COMING_BUCKETS; i++) {
        for (struct coxi_kept *kept = c->closures->coming[i]; kept != NULL;
             kept = kept->next_coming) {
            if (kept->remake != NULL && !kept->remake->rerun->abandoned) {
                coxi_closure_set_urgent(kept->remake, false);
            }
        }
    }
}

struct coxi_closure *coxi_kept_find_remake(struct cox_coordinator *c,
                                           struct coxi_closure_id id)
{
    const struct coxi_kept *kept = *find_coming(c, id);
    return kept != NULL ? kept->remake : NULL;
}

void coxi_kept_remade(struct coxi_closure *remake)
{
    struct coxi_closure *closure = remake->rerun->of;
    char text[COXI_TEXT_MAX];
    if (closure->kept == NULL || closure->kept->remake != remake) {
        return;
    }
    closure->attempts.last = remake->attempts.last;
    if (remake->rerun->abandoned && closure->dependents != NULL) {
        try_again(closure->kept);
        return;
    }
    (void)snprintf(text, sizeof(text),
                   "the results of closure %llu (%s) were lost with its worker and "
                   "could not be made again: %.300s",
                   (unsigned long long)closure->future.id.n, closure->function->name,
                   coxi_future_text(&remake->future));
    end_coming(closure->kept, remake->future.code, text);
}

/* ---- in a turn of the loop */

void coxi_kept_sweep(struct cox_coordinator *c)
{
    struct coxi_closure *closure;
    while ((closure = take_listed(c)) != NULL) {
        if (!is_wanted(closure->kept)) {
            forget(closure->kept);
        }
        if (closure->kept->here) {
            coxi_inputs_drop(closure); /* the replay log may have kept them until now */
        }
        coxi_future_unref(&closure->future);
    }
}

/* In messages of DROPPED_MAX, because a program may release any number of results at
 * once. */
static void send_dropped(struct coxi_seat *seat)
{
    const struct coxi_recall_head *heads =
        (const struct coxi_recall_head *)(void *)seat->dropped.data;
    size_t n = seat->dropped.len / sizeof(*heads);
    for (size_t at = 0; at < n; at += DROPPED_MAX) {
        struct coxi_message message = {.kind = COXI_RESULT_DROP};
        message.recall.closures = heads + at;
        message.recall.n_closures = n - at < DROPPED_MAX ? n - at : DROPPED_MAX;
        (void)coxi_worker_send(seat->worker, &message, NULL);
    }
}

void coxi_kept_flush(struct cox_coordinator *c)
{
    while (c->closures->droppers != NULL) {
        struct coxi_seat *seat = c->closures->droppers;
        c->closures->droppers = seat->next_dropper;
        seat->is_dropper = false;
        if (coxi_worker_is_there(seat->worker)) {
            send_dropped(seat);
        }
        seat->dropped.len = 0;
    }
}
