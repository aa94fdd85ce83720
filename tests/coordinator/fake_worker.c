/* See fake_worker.h. */
#include "tests/coordinator/fake_worker.h"

#include "tests/test.h"

struct coxi_hello fake_worker_hello(const char *name, uint64_t incarnation)
{
    return (struct coxi_hello){
        .role = COXI_ROLE_WORKER, .name = name, .incarnation = incarnation, .slots = 1};
}

struct caller *fake_worker(struct yard *yard, const char *name, uint64_t incarnation,
                           uint32_t index)
{
    struct coxi_hello hello = fake_worker_hello(name, incarnation);
    struct caller *caller = caller_open(cox_listen_address(yard->crew.c), &hello);
    const struct coxi_message *message = caller_expect(caller, COXI_HELLO);
    assert_int_equal(COXI_ROLE_CLIENT, message->hello.role);
    assert_int_equal(cox_run_id(yard->crew.c), message->hello.session.run);
    message = caller_expect(caller, COXI_LAYOUT);
    assert_true(coxi_maybe_is(message->layout.worker, index));
    (void)caller_expect(caller, COXI_MODULE);
    return caller;
}

void fake_worker_accept(struct caller *caller, uint32_t module)
{
    struct coxi_message message = {.kind = COXI_MODULE_LOADED,
                                   .status = {.message = "", .id = module}};
    caller_send(caller, &message, NULL, 0);
}

size_t fake_worker_expect(struct caller *caller, struct coxi_closure_head *ret)
{
    const struct coxi_message *message = caller_expect(caller, COXI_DISPATCH);
    for (size_t i = 0; i < message->dispatch.n_closures; i++) {
        ret[i] = message->dispatch.closures[i];
    }
    return message->dispatch.n_closures;
}

void fake_worker_answer(struct caller *caller, const struct coxi_closure_head *head,
                        int code)
{
    fake_worker_answers(caller, head, 1, code);
}

void fake_worker_answers(struct caller *caller, const struct coxi_closure_head *heads,
                         size_t n, int code)
{
    struct coxi_done_head done[16];
    assert_true(n <= 16);
    for (size_t i = 0; i < n; i++) {
        done[i] = (struct coxi_done_head){
            .closure = heads[i].closure, .attempt = heads[i].attempt, .code = code};
    }
    struct coxi_message message = {.kind = COXI_DONE, .done = {done, n}};
    caller_send(caller, &message, NULL, 0);
}
