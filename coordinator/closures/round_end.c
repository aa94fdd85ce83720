/*
 * See round.h: the end of a round on its way to the ps. It is sent to every ps, until all
 * have it. A ps that has it already says that it is a duplicate. If a ps is lost
 * meanwhile, recovery gives it the end, with the members before it; after that it is sent
 * again to all that have not answered.
 *
 * A ps may refuse the end, because it has no memory for the sums, say. If all refuse it
 * that counted members have touched, the round fails, and leaves no trace. If only some
 * do, the round would be applied in part: the run ends, and the next client begins at a
 * checkpoint. So it does if a ps that is not lost has not answered, because it may have
 * the round.
 *
 * Threads: loop; answers come on threads of the ps clients.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/closures/round.h"
#include "net/ps_client.h"

struct answer {
    struct coxi_psc_request request; /* must be the first member */
    struct coxi_round_sending *sending;
    struct iovec payload;
    bool sent;
    bool refused; /* the ps has said so */
    int code;
    char text[COXI_TEXT_MAX];
};

struct coxi_round_sending {
    struct coxi_mail mail; /* must be the first member */
    struct coxi_round *round;
    atomic_uint n_pending;
    uint32_t n_ps;
    struct answer answers[];
};

static bool has(const uint64_t *words, uint32_t p)
{
    return (words[p / 64] >> (p % 64) & 1) != 0;
}

bool coxi_round_is_sending(const struct coxi_round *round)
{
    return round->sending != NULL;
}

bool coxi_round_is_acked(const struct coxi_round *round)
{
    uint32_t p = 0;
    while (p < round->rounds->c->ps.n && has(round->acked, p)) {
        p++;
    }
    return p == round->rounds->c->ps.n;
}

/* ---- the answers */

/* Ends the run: some ps have applied the round, or may have. `answer` refuses it, or
 * does not say. */
static void be_partial(struct coxi_round *round, uint32_t p,
                       const struct answer *answer)
{
    char text[COXI_TEXT_MAX];
    (void)snprintf(text, sizeof(text),
                   answer->refused
                       ? "round %llu is applied on some ps, and refused by ps %u: "
                         "%.300s; start again from a checkpoint"
                       : "it is not known whether round %llu is applied on ps %u: "
                         "%.300s; start again from a checkpoint",
                   (unsigned long long)round->end->future.id.n, p, answer->text);
    coxi_fatal(round->rounds->c, answer->code, text);
}

/* True if a closure that counts is not in this client, because the ps that it touched
 * had the round in an older client's checkpoint. */
static bool was_applied(const struct coxi_round *round)
{
    uint32_t i = 0;
    while (i < round->n && round->parts[i].attempt != COXI_ATTEMPT_LATEST) {
        i++;
    }
    return i < round->n;
}

/* Every ps that was asked has refused the round. */
static void be_refused(struct coxi_round *round, const struct answer *answer)
{
    struct cox_future *future = &round->end->future;
    round->refused = true;
    future->code = answer->code;
    free(future->text);
    future->text = strdup(answer->text);
}

/* On the loop: all have answered. */
static void finish(struct coxi_mail *mail)
{
    struct coxi_round_sending *sending = (struct coxi_round_sending *)mail;
    struct coxi_round *round = sending->round;
    struct cox_coordinator *c = round->rounds->c;
    bool acked = false;
    const struct answer *refusal = NULL;
    const struct answer *silence = NULL;
    for (uint32_t p = 0; p < sending->n_ps; p++) {
        const struct answer *answer = &sending->answers[p];
        bool has_nothing = answer->refused && round->n_waiting[p] == 0;
        if ((answer->sent && answer->code == 0) || has_nothing) {
            round->acked[p / 64] |= UINT64_C(1) << (p % 64);
        } else if (answer->refused) {
            refusal = answer;
        } else if (answer->sent && answer->code != COX_EPSLOST) {
            silence = answer;
        }
        acked = acked || (has(round->acked, p) && round->n_waiting[p] > 0);
    }
    const struct answer *failed = silence != NULL ? silence : refusal;
    if (silence != NULL ||
        (refusal != NULL && (acked || coxi_ps_recovering(c) || was_applied(round)))) {
        be_partial(round, (uint32_t)(failed - sending->answers), failed);
    } else if (refusal != NULL) {
        be_refused(round, refusal);
    }
    round->sending = NULL;
    coxi_round_be_due(round);
    free(sending);
    coxi_loop_wake_after_mail(c->loop);
}

static void answered(struct coxi_round_sending *sending)
{
    if (atomic_fetch_sub(&sending->n_pending, 1) == 1) {
        sending->mail.run = finish;
        coxi_loop_post(sending->round->rounds->c->loop, &sending->mail);
    }
}

static void note(struct answer *answer, int code, const char *text)
{
    answer->code = code;
    (void)snprintf(answer->text, sizeof(answer->text), "%s", text);
}

/* On a thread of the ps client. */
static void on_answer(struct coxi_psc_request *request, int code,
                      const struct coxi_message *message, void *payload, size_t len)
{
    struct answer *answer = (struct answer *)request;
    (void)payload;
    (void)len;
    if (code != 0) {
        note(answer, code, coxi_error_text());
    } else if (message->kind != COXI_COMMITTED) {
        note(answer, COX_EPROTO,
             "a ps answered the end of a round with something else");
    } else if (message->status.code != 0) {
        note(answer, message->status.code, message->status.message);
        answer->refused = answer->code != COX_EPSLOST && answer->code != COX_EFENCED;
    }
    answered(answer->sending);
}

/* ---- the request */

/* The end of the round as a commit for one ps. Of closures that an older client had
 * settled nothing waits: the ps that they touched have the round. */
static struct coxi_commit commit_of(const struct coxi_round *round,
                                    const struct coxi_update *update, const uint32_t *p)
{
    const struct cox_coordinator *c = round->rounds->c;
    return (struct coxi_commit){
        .session = c->session,
        .incarnation = coxi_psc_incarnation(c->ps.clients[*p]),
        .closure = round->end->future.id.n,
        .attempt = round->sealed ? 2 : 1, /* sealing has voided the first */
        .last = true,
        .touched = p, /* each ps has an end of its own */
        .n_touched = 1,
        .updates = update,
        .n_updates = 1,
        .n_waiting = round->n_waiting[*p],
    };
}

static struct coxi_update update_of(const struct coxi_round *round)
{
    return (struct coxi_update){
        .op = COXI_OP_ROUND, .begin = round->first, .count = round->n};
}

int coxi_round_send(struct coxi_round *round)
{
    struct cox_coordinator *c = round->rounds->c;
    struct coxi_round_sending *sending =
        calloc(1, sizeof(*sending) + c->ps.n * sizeof(*sending->answers));
    if (sending == NULL) {
        return coxi_error_memory("the end of a round");
    }
    const struct coxi_update update = update_of(round);
    struct coxi_message message = {.kind = COXI_COMMIT};
    sending->round = round;
    sending->n_ps = c->ps.n;
    atomic_init(&sending->n_pending, 1);
    round->sending = sending;
    c->closures->voids_held = true;
    for (uint32_t p = 0; p < c->ps.n; p++) {
        struct answer *answer = &sending->answers[p];
        if (has(round->acked, p)) {
            continue;
        }
        atomic_fetch_add(&sending->n_pending, 1);
        answer->sending = sending;
        answer->sent = true;
        answer->payload =
            (struct iovec){round->parts, round->n * sizeof(*round->parts)};
        answer->request.payload = &answer->payload;
        answer->request.n_payload = 1;
        answer->request.done = on_answer;
        message.commit = commit_of(round, &update, &p);
        int r = coxi_psc_submit_now(c->ps.clients[p], &message, &answer->request, true);
        if (r != 0) {
            note(answer, r, coxi_error_text());
            answered(sending);
        }
    }
    answered(sending);
    return 0;
}

/* ---- in a replay. The recovery's thread, while no other replay is under way */

void coxi_round_replayed(const struct coxi_closure *closure, uint32_t attempt)
{
    struct coxi_round *round = closure->round;
    round->members[closure->future.id.n - round->first].replayed = attempt;
}

int coxi_round_repeat(struct cox_coordinator *c, const struct coxi_closure *end,
                      uint32_t p)
{
    const struct coxi_round *round = end->round;
    struct coxi_round_part *parts = calloc(round->n, sizeof(*parts));
    if (parts == NULL) {
        return coxi_error_memory("the end of a round");
    }
    for (uint32_t i = 0; i < round->n; i++) {
        uint32_t replayed = round->members[i].replayed;
        parts[i] = round->parts[i];
        parts[i].attempt =
            parts[i].attempt != 0 && replayed != 0 ? replayed : parts[i].attempt;
    }
    const struct coxi_update update = update_of(round);
    struct coxi_message message = {.kind = COXI_COMMIT};
    message.commit = commit_of(round, &update, &p);
    struct iovec payload = {parts, round->n * sizeof(*parts)};
    struct coxi_psc_request request = {.payload = &payload, .n_payload = 1};
    int r =
        coxi_psc_call(c->ps.clients[p], &message, &request, COXI_COMMITTED, NULL, NULL);
    free(parts);
    return r == COX_EDIVERGED
               ? coxi_error(COX_EREPLAY,
                            "round %llu was applied, had to be applied again because "
                            "ps %u was lost, and was refused: %.300s",
                            (unsigned long long)end->future.id.n, p, coxi_error_text())
               : r;
}
