/* See actor.h. */
#include "tests/coordinator/actor.h"

#include "common/layout.h"
#include "tests/test.h"

void actor_enter(struct actor *actor, struct yard *yard, uint64_t incarnation)
{
    const struct coxi_hello hello = fake_worker_hello("anna", incarnation);
    struct coxi_ps_address address;
    actor->client = caller_open(cox_listen_address(yard->crew.c), &hello);
    actor->session = caller_expect(actor->client, COXI_HELLO)->hello.session;
    coxi_layout_ps(&caller_expect(actor->client, COXI_LAYOUT)->layout, 0, &address);
    actor->incarnation = address.incarnation;
    (void)caller_expect(actor->client, COXI_MODULE);
    const struct coxi_hello greeting = {.role = COXI_ROLE_WORKER,
                                        .session = actor->session};
    actor->ps = caller_join(yard->ps_address, &greeting);
    fake_worker_accept(actor->client, 0);
}

void actor_follow(struct actor *actor, const struct yard *yard)
{
    const struct coxi_hello greeting = {.role = COXI_ROLE_WORKER,
                                        .session = actor->session};
    struct coxi_ps_address address = {.incarnation = actor->incarnation};
    while (address.incarnation == actor->incarnation) {
        coxi_layout_ps(&caller_expect(actor->client, COXI_LAYOUT)->layout, 0, &address);
    }
    actor->incarnation = address.incarnation;
    caller_close(actor->ps);
    actor->ps = caller_join(yard->ps_address, &greeting);
}

void actor_leave(struct actor *actor)
{
    caller_close(actor->client);
    caller_close(actor->ps);
}

void actor_commit(struct actor *actor, const struct coxi_closure_head *head,
                  size_t n_touched)
{
    static const int64_t one = 1;
    static const uint32_t touched[] = {0, 1};
    const struct coxi_update update = {0, COXI_OP_ADD, 0, 1};
    struct coxi_message message = {.kind = COXI_COMMIT};
    message.commit = (struct coxi_commit){.session = actor->session,
                                          .incarnation = actor->incarnation,
                                          .closure = head->closure,
                                          .attempt = head->attempt,
                                          .last = true,
                                          .touched = touched,
                                          .n_touched = n_touched,
                                          .updates = &update,
                                          .n_updates = 1};
    caller_send(actor->ps, &message, &one, sizeof(one));
    assert_int_equal(0, caller_expect(actor->ps, COXI_COMMITTED)->status.code);
}

void actor_finish(struct actor *actor, const struct coxi_closure_head *head)
{
    static const uint32_t touched[2] = {0}; /* the second element pads it to 8 bytes */
    struct coxi_done_head done = {
        .closure = head->closure, .attempt = head->attempt, .touched_n = 1};
    const struct coxi_message message = {.kind = COXI_DONE, .done = {&done, 1}};
    actor_commit(actor, head, 1);
    caller_send(actor->client, &message, touched, sizeof(touched));
}

void actor_keep(struct actor *actor, const struct coxi_closure_head *head)
{
    static const uint32_t nth = 0; /* index of the closure in the message */
    static const struct {
        uint32_t touched[2];
        uint64_t bytes;
    } payload = {{0}, 8};
    struct coxi_done_head done = {.closure = head->closure,
                                  .attempt = head->attempt,
                                  .touched_n = 1,
                                  .result_len = sizeof(payload.bytes)};
    struct coxi_message message = {.kind = COXI_DONE, .done = {&done, 1}};
    message.done.kept = &nth;
    message.done.n_kept = 1;
    caller_send(actor->client, &message, &payload, sizeof(payload));
}

struct coxi_closure_head actor_take(struct actor *actor)
{
    struct coxi_closure_head head;
    assert_int_equal(1, fake_worker_expect(actor->client, &head));
    return head;
}
