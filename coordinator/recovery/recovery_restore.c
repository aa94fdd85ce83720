/*
 * Brings back lost ps: reaches them, restores them, and makes them known to all. Each
 * ps has a thread for that, so that none waits for another: one may come back late, and
 * another may be lost while the first is being restored.
 */
#include "coordinator/recovery/recovery_internal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/disk.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/event.h"
#include "coordinator/base/ps_claim.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/variables/registry.h"
#include "coordinator/workers/workers.h"
#include "net/ps_client.h"

/* pause between two tries if a ps answers but cannot be used yet */
enum { RETRY_MS = 500 };

/* From now on the tick gives this client up when the ps's time is over, so that no
 * thread waits for its answer for ever. NULL: stop that. */
static void watch(struct coxi_recovery *rec, uint32_t p, struct coxi_psc *psc)
{
    coxi_lock(&rec->set->lock);
    rec->servers[p].returning = psc;
    coxi_unlock(&rec->set->lock);
}

/* This try has failed: closes its client. Takes NULL. */
static void let_go(struct coxi_recovery *rec, uint32_t p, struct coxi_psc *psc)
{
    watch(rec, p, NULL);
    coxi_psc_close(psc);
}

static uint64_t count_moves(struct coxi_recovery *rec)
{
    coxi_lock(&rec->set->lock);
    uint64_t n = rec->n_moves;
    coxi_unlock(&rec->set->lock);
    return n;
}

/* Makes a client of ps p that has reached it and claimed it; a ps with the incarnation
 * `leaves` begins another. COX_ETIMEDOUT also if a ps got another address meanwhile. */
static int reach(struct coxi_recovery *rec, uint32_t p, uint64_t leaves,
                 uint64_t end_ms, struct coxi_psc **ret)
{
    struct cox_coordinator *c = rec->c;
    struct coxi_psc *psc = NULL;
    uint64_t n_moves = count_moves(rec);
    int r = coxi_ps_connect(c, p, &psc);
    if (r != 0) {
        return r;
    }
    watch(rec, p, psc);
    while ((r = coxi_psc_wait(psc, COXI_RECOVERY_SLICE_MS)) == COX_ETIMEDOUT &&
           n_moves == count_moves(rec) && coxi_now_ms() < end_ms &&
           !coxi_recovery_stopping(rec)) {
        coxi_call_why(c, "%.380s", coxi_error_text());
    }
    if (r == 0) {
        r = coxi_ps_claim(c, psc, leaves, end_ms);
    }
    if (r != 0) {
        let_go(rec, p, psc);
        return r;
    }
    *ret = psc;
    return 0;
}

/* ---- closures that must never apply */

struct bars {
    uint64_t *ids;
    size_t n;
    size_t capacity;
    uint64_t watermark;
};

static int note_bar(void *arg, const struct coxi_replay_entry *entry)
{
    struct bars *bars = arg;
    if (entry->kind != COXI_REPLAY_BARRED || entry->id.n <= bars->watermark) {
        return 0;
    }
    if (bars->n == bars->capacity) {
        size_t capacity = bars->capacity == 0 ? 64 : bars->capacity * 2;
        uint64_t *ids = realloc(bars->ids, capacity * sizeof(*ids));
        if (ids == NULL) {
            return coxi_error_memory("closures that must not apply");
        }
        bars->ids = ids;
        bars->capacity = capacity;
    }
    bars->ids[bars->n++] = entry->id.n;
    return 0;
}

/* Tells a restored ps which closures it must never apply, because the old process took
 * that knowledge with it. */
static int bar(struct coxi_recovery *rec, struct coxi_psc *psc, uint64_t watermark)
{
    struct bars bars = {.watermark = watermark};
    struct coxi_ps_round round;
    int r = coxi_replay_log_each(rec->c->replay_log, note_bar, &bars);
    struct coxi_ps_round_call *calls = calloc(bars.n + 1, sizeof(*calls));
    if (r == 0 && calls == NULL) {
        r = coxi_error_memory("closures that must not apply");
    }
    if (r == 0) {
        coxi_ps_round_begin(&round);
        for (size_t i = 0; i < bars.n; i++) {
            struct coxi_message message = {.kind = COXI_VOID};
            message.void_ = (struct coxi_void){rec->c->session, bars.ids[i], UINT32_MAX,
                                               coxi_psc_incarnation(psc)};
            calls[i].expect = COXI_VOIDED;
            coxi_ps_round_add(&round, psc, &message, &calls[i]);
        }
        r = coxi_ps_round_end(&round);
    }
    free(calls);
    free(bars.ids);
    return r;
}

/* Restores an empty ps from the checkpoint, and tells it what it must never apply. */
static int refill(struct coxi_recovery *rec, uint32_t p, struct coxi_psc *psc)
{
    /* No lock: checkpoints replace the base only while all ps are UP. */
    const struct coxi_recovery_base *base = &rec->base;
    struct coxi_recovery_target target = {.ps = p, .psc = psc};
    struct coxi_applied_list list = {0};
    int r = coxi_ps_probe(rec->c, psc, false,
                          /* coxi_recovery_tick ends the wait in time */
                          UINT64_MAX);
    if (r == 0 && base->path != NULL) {
        const struct coxi_applied_list *had = &base->shards[p].applied;
        r = coxi_recovery_fill(rec, &target, 1);
        if (r == 0) {
            r = coxi_applied_list_copy(had->watermark, had->intervals, had->n_intervals,
                                       had->touched, had->n_touched, &list);
        }
    }
    if (r == 0) {
        r = bar(rec, psc, list.watermark);
    }
    if (r != 0) {
        coxi_applied_list_fini(&list);
        return r;
    }
    coxi_lock(&rec->set->lock);
    coxi_applied_list_fini(&rec->servers[p].restored);
    rec->servers[p].restored = list;
    rec->set->states[p].watermark = list.watermark;
    rec->set->states[p].owed = true;
    coxi_unlock(&rec->set->lock);
    return 0;
}

/* ---- bringing back */

struct change {
    uint32_t ps;
    struct coxi_psc *psc;
    bool refilled;    /* it has another incarnation, which was empty */
    bool is_set_back; /* the ps was not lost itself */
};

static void say_back(struct coxi_recovery *rec, const struct change *change)
{
    const char *path = rec->base.path; /* checkpoints change it, and they wait for us */
    const char *name =
        path != NULL && strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    coxi_event(rec->c, COX_EVENT_PS_BACK, COXI_OF(.ps = coxi_maybe_of(change->ps)),
               "ps %u at %.200s is %s, %s%.60s", change->ps,
               coxi_psc_address(change->psc),
               change->is_set_back ? "set back with another one" : "back",
               !change->refilled ? "with all that it had"
               : name == NULL    ? "empty: there is no checkpoint yet"
                                 : "restored from ",
               change->refilled && name != NULL ? name : "");
}

/* On the loop: from now on everybody uses the new client of the ps. */
static int exchange(struct coxi_recovery *rec, void *arg)
{
    struct change *change = arg;
    struct cox_coordinator *c = rec->c;
    rec->set->states[change->ps].epoch = ++rec->set->epoch;
    rec->set->batch_open = false; /* the ps lacks what came before the batch */
    coxi_lock(&c->lock);
    coxi_lock(&rec->set->lock);
    struct coxi_recovery_server *server = &rec->servers[change->ps];
    c->ps.clients[change->ps] = change->psc;
    /* Another was lost meanwhile, and this one has kept what it had: once more. */
    rec->set->states[change->ps].lost = server->renews && !change->refilled;
    server->renews = server->renews && !change->refilled;
    change->is_set_back = server->is_set_back;
    server->back_ms = coxi_now_ms();
    server->returning = NULL;
    atomic_store(&rec->set->any_lost, coxi_ps_any_lost(rec->c, false));
    coxi_unlock(&rec->set->lock);
    c->workers->layout_due = true;
    c->counts.stats.ps_recovered += !change->is_set_back;
    coxi_unlock(&c->lock);
    return 0;
}

/* Keeps the old client of a ps until the coordinator is closed, because a thread may be
 * about to use it. */
static int keep_past(struct coxi_recovery *rec, struct coxi_psc *psc)
{
    coxi_lock(&rec->set->lock);
    struct coxi_psc **past = realloc(rec->past, (rec->n_past + 1) * sizeof(*past));
    if (past != NULL) {
        rec->past = past;
        rec->past[rec->n_past++] = psc;
    }
    coxi_unlock(&rec->set->lock);
    return past != NULL ? 0 : coxi_error_memory("another connection to a ps");
}

/* The incarnation of which ps p must keep nothing; 0: none. */
static uint64_t leaves_of(struct coxi_recovery *rec, uint32_t p, struct coxi_psc *old)
{
    coxi_lock(&rec->set->lock);
    bool renews = rec->servers[p].renews;
    coxi_unlock(&rec->set->lock);
    return renews ? coxi_psc_incarnation(old) : 0;
}

static int bring_back(struct coxi_recovery *rec, uint32_t p, uint64_t end_ms)
{
    struct cox_coordinator *c = rec->c;
    struct coxi_psc *old = c->ps.clients[p];
    struct coxi_psc *psc = NULL;
    if (coxi_now_ms() >= end_ms) {
        return coxi_error(COX_EPSLOST,
                          "it came back, and was lost again before it was restored");
    }
    int r = reach(rec, p, leaves_of(rec, p, old), end_ms, &psc);
    bool refills = r == 0 && coxi_psc_incarnation(psc) != coxi_psc_incarnation(old);
    if (refills) {
        coxi_call_why(c, "it is being restored");
        r = refill(rec, p, psc);
    }
    if (r == 0) {
        r = keep_past(rec, old);
    }
    if (r != 0) {
        let_go(rec, p, psc);
        return r;
    }
    struct change change = {p, psc, refills, false};
    (void)coxi_recovery_on_loop(rec, exchange, &change);
    coxi_psc_retire(old, COX_EPSLOST, "another has taken its place");
    say_back(rec, &change);
    /* if it was lost before exchange(), nobody has noted that */
    if (coxi_psc_wait(psc, 0) != 0) {
        (void)coxi_recovery_lost(c, psc, coxi_error_text());
    }
    return 0;
}

/*
 * True if no other process at the address could help. After any other error the ps is
 * tried again until its time is over, because somebody may mend the reason meanwhile:
 * another daemon at that address, or a ps that serves another run, does not see the
 * directory, has too little memory or is of another release.
 */
static bool is_final(int code)
{
    return code == COX_EFENCED || code == COX_ECHECKSUM || code == COX_EFORMAT;
}

static void give_up(const struct coxi_recovery_return *returning, int code)
{
    struct cox_coordinator *c = returning->rec->c;
    char within[64] = "";
    char text[COXI_TEXT_MAX];
    if (!is_final(code)) {
        (void)snprintf(within, sizeof(within), " in %d ms", c->options.ps_recovery_ms);
    }
    (void)snprintf(text, sizeof(text),
                   "ps %u at %s is lost and could not be brought back%s: %.300s",
                   returning->ps, coxi_psc_address(c->ps.clients[returning->ps]),
                   within, coxi_error_text());
    coxi_fatal(c, code == COX_EFENCED ? code : COX_EPSLOST, text);
}

/* Pauses between two tries, after one that has found `code`; ends early if a ps got
 * another address. */
static void pause_after(struct coxi_recovery_return *returning, int code)
{
    struct coxi_recovery *rec = returning->rec;
    if (code == COX_EPSLOST || code == COX_ETIMEDOUT || code == COX_ECLOSED) {
        return; /* the next try waits itself */
    }
    if (!returning->told) {
        coxi_event(rec->c, COX_EVENT_PS_NOT_TAKEN,
                   COXI_OF(.ps = coxi_maybe_of(returning->ps), .error = code),
                   "the process at the address of ps %u cannot be used yet: %.400s",
                   returning->ps, coxi_error_text());
        returning->told = true;
    }
    coxi_call_why(rec->c, "%.380s", coxi_error_text());
    uint64_t until_ms = coxi_now_ms() + RETRY_MS;
    until_ms = until_ms < returning->end_ms ? until_ms : returning->end_ms;
    while (coxi_now_ms() < until_ms && count_moves(rec) == returning->n_moves &&
           !coxi_recovery_stopping(rec)) {
        coxi_recovery_wait_slice(rec);
    }
}

/* Tries once to bring the ps back; true: try again. */
static bool try_once(struct coxi_recovery_return *returning)
{
    struct coxi_recovery *rec = returning->rec;
    uint64_t n_moves = count_moves(rec);
    returning->told = returning->told && n_moves == returning->n_moves;
    returning->n_moves = n_moves;
    int r = bring_back(rec, returning->ps, returning->end_ms);
    if (r != 0 && !is_final(r)) {
        pause_after(returning, r);
    }
    if (r == 0 || coxi_recovery_stopping(rec)) {
        return false;
    }
    if (is_final(r) || coxi_now_ms() >= returning->end_ms) {
        give_up(returning, r);
        return false;
    }
    return true;
}

static void *returning_thread(void *arg)
{
    struct coxi_recovery_return *returning = arg;
    struct coxi_recovery *rec = returning->rec;
    struct coxi_call wait __attribute__((cleanup(coxi_call_end)));
    coxi_disk_give_up_when(&rec->c->saving.leaves_disk);
    coxi_disk_give_up_at(returning->end_ms); /* a store may be away for longer */
    coxi_wait_begin(rec->c, &wait, "the return of a ps", coxi_maybe_of(returning->ps));
    while (try_once(returning)) {
    }
    coxi_lock(&rec->set->lock);
    rec->servers[returning->ps].returns = false;
    (void)pthread_cond_broadcast(&rec->set->changed);
    coxi_unlock(&rec->set->lock);
    return NULL;
}

static void finish(struct coxi_recovery_return *returning)
{
    if (returning->started) {
        (void)pthread_join(returning->thread, NULL);
        returning->started = false;
    }
}

/* Starts a thread for each ps that is lost and has none. */
static int start_all(struct coxi_recovery *rec)
{
    int r = 0;
    for (uint32_t p = 0; r == 0 && p < rec->c->ps.n; p++) {
        coxi_lock(&rec->set->lock);
        struct coxi_recovery_server *server = &rec->servers[p];
        bool starts = rec->set->states[p].lost && !server->returns;
        server->returns = server->returns || starts;
        uint64_t end_ms = server->end_ms;
        coxi_unlock(&rec->set->lock);
        if (starts) {
            struct coxi_recovery_return *back = &server->back;
            finish(back); /* it was lost again */
            *back =
                (struct coxi_recovery_return){.rec = rec, .ps = p, .end_ms = end_ms};
            r = coxi_thread_start(&back->thread, "cox:ps-returns", returning_thread,
                                  back);
            back->started = r == 0;
            if (r != 0) { /* a thread that runs may have ended already */
                coxi_lock(&rec->set->lock);
                server->returns = false;
                coxi_unlock(&rec->set->lock);
            }
        }
    }
    return r;
}

/* Waits for a change if a ps is still lost; false: none is. */
static bool await_return(struct coxi_recovery *rec)
{
    coxi_lock(&rec->set->lock);
    bool lost = coxi_ps_any_lost(rec->c, false);
    if (lost) {
        struct timespec until = coxi_deadline(COXI_RECOVERY_SLICE_MS);
        (void)coxi_wait_until(&rec->set->changed, &rec->set->lock, &until);
    }
    coxi_unlock(&rec->set->lock);
    return lost;
}

int coxi_recovery_bring_back(struct coxi_recovery *rec)
{
    int r = start_all(rec);
    while (r == 0 && await_return(rec) && !coxi_recovery_stopping(rec)) {
        r = start_all(rec);
    }
    for (uint32_t p = 0; p < rec->c->ps.n; p++) {
        finish(&rec->servers[p].back);
    }
    return r;
}
