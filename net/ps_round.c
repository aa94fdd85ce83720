/* See ps_round.h. Until coxi_ps_round_end a round itself counts as a pending call, so that
 * calls that are answered at once do not end the round. */
#include "net/ps_round.h"

#include <string.h>

#include "common/error.h"
#include "common/loop.h"
#include "common/sync.h"

static void ended(struct coxi_ps_round_call *call, int code, const char *text)
{
    struct coxi_ps_round *round = call->round;
    coxi_lock(&round->lock);
    call->code = code;
    if (code != 0 && round->code == 0) {
        round->code = code;
        strncpy(round->text, text, sizeof(round->text) - 1);
    }
    round->n_pending--;
    if (round->n_pending == 0) {
        (void)pthread_cond_signal(&round->ended);
    }
    coxi_unlock(&round->lock);
}

/* The status code and text in an answer; 0 if this kind of answer has none. */
static int answer_code(const struct coxi_message *answer, const char **ret_text)
{
    if (answer->kind == COXI_SNAPSHOT_DONE) {
        *ret_text = answer->snapshot_done.message;
        return answer->snapshot_done.code;
    }
    if (answer->kind == COXI_STATUS || answer->kind == COXI_PULLED ||
        answer->kind == COXI_COMMITTED) {
        *ret_text = answer->status.message;
        return answer->status.code;
    }
    *ret_text = "";
    return 0;
}

static void call_done(struct coxi_psc_request *request, int code,
                      const struct coxi_message *answer, void *payload, size_t len)
{
    struct coxi_ps_round_call *call = (struct coxi_ps_round_call *)request;
    struct coxi_ps_round *round = call->round;
    const char *text = coxi_error_text();
    (void)payload;
    if (code == 0) {
        code = answer_code(answer, &text);
    }
    if (code == 0 && answer->kind != call->expect) {
        code = COX_EPROTO;
        text = "the ps answered something else";
    } else if (code == 0 && request->into != NULL && len != request->into_len) {
        code = COX_EPROTO;
        text = "the ps answered with another number of bytes";
    }
    if (code == 0 && call->take != NULL) {
        coxi_lock(&round->lock);
        call->take(call->arg, answer);
        coxi_unlock(&round->lock);
    }
    ended(call, code, text);
}

void coxi_ps_round_begin(struct coxi_ps_round *round)
{
    *round = (struct coxi_ps_round){.n_pending = 1};
    coxi_mutex_init(&round->lock);
    coxi_cond_init(&round->ended);
}

static void add(struct coxi_ps_round *round, struct coxi_psc *psc,
                const struct coxi_message *message, struct coxi_ps_round_call *call,
                int (*submit)(struct coxi_psc *psc, const struct coxi_message *message,
                              struct coxi_psc_request *request, bool later))
{
    call->round = round;
    call->request.done = call_done;
    coxi_lock(&round->lock);
    round->n_pending++;
    coxi_unlock(&round->lock);
    int r = submit(psc, message, &call->request, false);
    if (r != 0) {
        ended(call, r, coxi_error_text());
    }
}

void coxi_ps_round_add(struct coxi_ps_round *round, struct coxi_psc *psc,
                       const struct coxi_message *message,
                       struct coxi_ps_round_call *call)
{
    add(round, psc, message, call, coxi_psc_submit);
}

void coxi_ps_round_add_now(struct coxi_ps_round *round, struct coxi_psc *psc,
                           const struct coxi_message *message,
                           struct coxi_ps_round_call *call)
{
    add(round, psc, message, call, coxi_psc_submit_now);
}

/* True if all calls have ended: only the round itself is pending. */
static bool has_ended(void *arg)
{
    struct coxi_ps_round *round = arg;
    return atomic_load_explicit(&round->n_pending, memory_order_acquire) == 1;
}

int coxi_ps_round_end(struct coxi_ps_round *round)
{
    static _Thread_local struct coxi_linger linger;
    static const struct coxi_linger_limits limits = {50000, 100000, true};
    coxi_loop_assert_may_wait();
    /* Polls first, because a ps on this host answers a small request before this thread
     * could fall asleep. */
    (void)coxi_linger(&linger, &limits, has_ended, round);
    coxi_lock(&round->lock);
    round->n_pending--;
    while (round->n_pending > 0) {
        /* Each request ends, at the latest by its deadline (coxi_psc_tick). */
        coxi_wait_for_end(&round->ended, &round->lock);
    }
    int r = round->code;
    coxi_unlock(&round->lock);
    if (r != 0) {
        (void)coxi_error(r, "%s", round->text);
    }
    (void)pthread_cond_destroy(&round->ended);
    coxi_mutex_fini(&round->lock);
    return r;
}

int coxi_psc_call(struct coxi_psc *psc, const struct coxi_message *message,
                  struct coxi_psc_request *request, enum coxi_message_kind expect,
                  void (*take)(void *arg, const struct coxi_message *answer), void *arg)
{
    struct coxi_ps_round round;
    struct coxi_ps_round_call call = {
        .request = *request, .expect = expect, .take = take, .arg = arg};
    coxi_ps_round_begin(&round);
    coxi_ps_round_add(&round, psc, message, &call);
    return coxi_ps_round_end(&round);
}
