/* See call.h. Cost: a call takes c->lock twice; a tick looks at all calls under way. */
#include "coordinator/base/call.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/event.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/coordinator.h"
#include "net/ps_client.h"

static _Thread_local struct coxi_call *innermost;

/* ---- begin and end */

void coxi_call_begin_locked(struct coxi_call *call) COXI_REQUIRES(call->c->lock)
{
    struct cox_coordinator *c = call->c;
    call->ps = coxi_maybe_none();
    call->patience = (struct coxi_patience){0};
    call->why[0] = '\0';
    call->outer = innermost;
    innermost = call;
    call->prev = NULL;
    call->next = c->life.calls;
    if (c->life.calls != NULL) {
        c->life.calls->prev = call;
    }
    c->life.calls = call;
    c->life.n_calls += call->counted;
}

static void say_end(const struct coxi_call *call, uint64_t now)
    COXI_REQUIRES(call->c->lock)
{
    uint64_t seconds = coxi_patience_seconds(&call->patience, now);
    if (coxi_patience_has_ended(&call->patience) && !call->c->life.closing) {
        coxi_event(call->c, COX_EVENT_UNBLOCKED,
                   COXI_OF(.seconds = seconds, .ps = call->ps),
                   "%s waits no longer, after %llu s", call->what,
                   (unsigned long long)seconds);
    }
}

static void leave(struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    if (c->life.n_calls == 0 && c->life.closing) {
        (void)pthread_cond_broadcast(&c->life.idle);
    }
}

void coxi_call_ended(struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    c->life.n_calls--;
    leave(c);
}

void coxi_call_end_locked(struct coxi_call *call) COXI_REQUIRES(call->c->lock)
{
    struct cox_coordinator *c = call->c;
    innermost = call->outer;
    if (call->prev != NULL) {
        call->prev->next = call->next;
    } else {
        c->life.calls = call->next;
    }
    if (call->next != NULL) {
        call->next->prev = call->prev;
    }
    if (coxi_patience_has_ended(&call->patience)) {
        say_end(call, coxi_now_ms());
    }
    c->life.n_calls -= call->counted;
    leave(c);
}

void coxi_call_begin(struct coxi_call *call)
{
    struct cox_coordinator *c = call->c;
    coxi_lock(&c->lock);
    coxi_call_begin_locked(call);
    coxi_unlock(&c->lock);
}

void coxi_call_end(struct coxi_call *call)
{
    struct cox_coordinator *c = call->c;
    coxi_lock(&c->lock);
    coxi_call_end_locked(call);
    coxi_unlock(&c->lock);
}

void coxi_wait_begin(struct cox_coordinator *c, struct coxi_call *wait,
                     const char *what, struct coxi_maybe ps)
{
    wait->c = c;
    wait->what = what;
    wait->counted = false;
    coxi_lock(&c->lock);
    coxi_call_begin_locked(wait);
    wait->ps = ps;
    coxi_unlock(&c->lock);
}

/* ---- the reason of a wait */

static void set_why(struct cox_coordinator *c, const char *format, va_list args)
{
    if (innermost != NULL && innermost->c == c) {
        (void)vsnprintf(innermost->why, sizeof(innermost->why), format, args);
    }
}

void coxi_call_why_locked(struct cox_coordinator *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set_why(c, format, args);
    va_end(args);
}

void coxi_call_why(struct cox_coordinator *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    coxi_lock(&c->lock);
    set_why(c, format, args);
    coxi_unlock(&c->lock);
    va_end(args);
}

/* ---- reports */

/* The first ps without a connection, or -1. */
static int64_t find_away(struct cox_coordinator *c)
{
    for (uint32_t p = 0; p < c->ps.n; p++) {
        if (!coxi_psc_is_up(c->ps.clients[p])) {
            return p;
        }
    }
    return -1;
}

/* Reports that a call still waits. */
static void say(struct cox_coordinator *c, const struct coxi_call *call, uint64_t now)
    COXI_REQUIRES(c->lock)
{
    unsigned long long seconds = coxi_patience_seconds(&call->patience, now);
    int64_t away = find_away(c);
    struct coxi_maybe ps = call->ps;
    char why[COXI_WHY_MAX + 64] = "the ps have not all answered";
    if (call->why[0] != '\0') {
        (void)snprintf(why, sizeof(why), "%s", call->why);
    } else if (away >= 0) {
        ps = coxi_maybe_of((uint32_t)away);
        (void)snprintf(why, sizeof(why), "ps %u at %.200s is away", (uint32_t)away,
                       coxi_psc_address(c->ps.clients[away]));
    } else if (coxi_ps_recovering(c)) {
        (void)snprintf(why, sizeof(why), "a ps that was lost is being restored");
    }
    coxi_event(c, COX_EVENT_BLOCKED, COXI_OF(.seconds = seconds, .ps = ps),
               "%s waits for %llu s: %s", call->what, seconds, why);
}

/* ---- running something on the loop */

struct errand {
    struct coxi_mail mail; /* must be the first member */
    struct cox_coordinator *c;
    int (*run)(struct cox_coordinator *c, void *arg);
    void *arg;
    int code;
    char text[COXI_ERROR_TEXT_MAX];
    bool done; /* guarded by c->lock */
};

static void run_errand(struct coxi_mail *mail)
{
    struct errand *errand = (struct errand *)mail;
    struct cox_coordinator *c = errand->c;
    errand->code = errand->run(c, errand->arg);
    (void)snprintf(errand->text, sizeof(errand->text), "%s",
                   errand->code != 0 ? coxi_error_text() : "");
    coxi_loop_wake_after_mail(c->loop);
    coxi_lock(&c->lock);
    errand->done = true;
    (void)pthread_cond_broadcast(&c->life.changed);
    coxi_unlock(&c->lock);
}

int coxi_call_on_loop(struct cox_coordinator *c,
                      int (*run)(struct cox_coordinator *c, void *arg), void *arg)
{
    struct errand errand = {.mail.run = run_errand, .c = c, .run = run, .arg = arg};
    coxi_loop_post(c->loop, &errand.mail);
    coxi_lock(&c->lock);
    /* No deadline: a turn of the loop never waits, so the errand runs soon. */
    while (!errand.done) {
        coxi_wait_for_end(&c->life.changed, &c->lock);
    }
    coxi_unlock(&c->lock);
    return errand.code == 0 ? 0 : coxi_error(errand.code, "%s", errand.text);
}

int coxi_left_ms(uint64_t end_ms, int most)
{
    uint64_t now = coxi_now_ms();
    if (now >= end_ms) {
        return 0;
    }
    return end_ms - now < (uint64_t)most ? (int)(end_ms - now) : most;
}

int coxi_call_check(const struct cox_coordinator *c,
                    const struct cox_coordinator *calls_for, const char *what,
                    const char *where)
{
    return calls_for != c
               ? 0
               : coxi_error(COX_EDEADLK,
                            "%s in %s would wait for that call; call it from "
                            "another thread",
                            what, where);
}

void coxi_calls_tick(struct cox_coordinator *c, uint64_t now)
{
    coxi_lock(&c->lock);
    for (struct coxi_call *call = c->life.calls; call != NULL && !c->life.closing;
         call = call->next) {
        if (coxi_patience_ends(&call->patience, now)) {
            say(c, call, now);
        }
    }
    coxi_unlock(&c->lock);
}
