/* A worker process as its clients see it: which messages it takes from which client. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/buffer.h"
#include "common/dtype.h"
#include "common/hash.h"
#include "common/module.h"
#include "tests/program.h"
#include "tests/ps/caller.h"
#include "tests/test.h"
#include "tests/worker/gate.h"

enum { GRACE_MS = 60000 }; /* longer than any test */

static const struct coxi_session run1 = {.run = 1, .generation = 5, .token = 11};
static const struct coxi_session run2 = {.run = 2, .generation = 1, .token = 22};

struct worker {
    struct program program;
    char address[256];
};

static void worker_open(struct worker *worker)
{
    char listen[300];
    (void)snprintf(listen, sizeof(listen), "ipc://%s", coxi_test_path("worker"));
    daemon_start(&worker->program, "coxswain-worker", 6, listen, worker->address);
}

static void worker_close(struct worker *worker)
{
    program_kill(&worker->program, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&worker->program));
}

/* ---- what a client says */

static struct coxi_hello hello_of(const struct coxi_session *session)
{
    return (struct coxi_hello){.role = COXI_ROLE_CLIENT, .session = *session};
}

static struct caller *join(struct worker *worker, const struct coxi_session *session)
{
    struct coxi_hello hello = hello_of(session);
    return caller_join(worker->address, &hello);
}

static void send_layout(struct caller *caller, const struct coxi_session *session)
{
    static const struct coxi_ps_address nobody = {"ipc:///no/such/ps", 1, false};
    struct coxi_message message = {.kind = COXI_LAYOUT};
    message.layout =
        (struct coxi_layout){.session = *session, .servers = &nobody, .n_servers = 1};
    caller_send(caller, &message, NULL, 0);
}

static void send_module(struct caller *caller, const char *name)
{
    size_t len = 0;
    char *bytes = coxi_test_read(coxi_test_module(name), &len);
    struct coxi_digest digest = coxi_digest_of(bytes, len);
    struct coxi_message message = {.request = 3, .kind = COXI_MODULE};
    message.module = (struct coxi_module){.name = name, .digest = digest};
    caller_send(caller, &message, bytes, len);
    free(bytes);
    assert_int_equal(0, caller_expect(caller, COXI_MODULE_LOADED)->status.code);
}

static uint16_t function_of(const char *step)
{
    static struct coxi_module_info info;
    uint16_t i = 0;
    if (info.n_steps == 0) {
        size_t len = 0;
        char *bytes = coxi_test_read(coxi_test_module("probe"), &len);
        assert_code(0, coxi_module_inspect(bytes, len, "probe", &info));
        free(bytes);
    }
    while (i < info.n_steps && strcmp(info.names[i], step) != 0) {
        i++;
    }
    assert_true(i < info.n_steps);
    return i;
}

/* Dispatches `n` closures from `first` on, with the argument `path` if that is not
 * NULL. */
static void dispatch(struct caller *caller, uint64_t first, size_t n, const char *step,
                     const char *path)
{
    struct coxi_closure_head heads[8];
    struct coxi_buffer args = {0};
    if (path != NULL) {
        const struct cox_value arg = COX_VECTOR("path", COX_U8, strlen(path) + 1, path);
        assert_code(0, coxi_values_add(&args, &arg));
    }
    for (size_t i = 0; i < n; i++) {
        heads[i] = (struct coxi_closure_head){.closure = first + i,
                                              .attempt = 1,
                                              .function = function_of(step),
                                              .args_len = (uint32_t)args.len};
    }
    assert_true(n == 1 || path == NULL);
    struct coxi_message message = {.kind = COXI_DISPATCH,
                                   .dispatch = {heads, n, GRACE_MS}};
    caller_send(caller, &message, args.data, args.len);
    coxi_buffer_fini(&args);
}

/* Asserts that the next results are those of `n` closures from `first` on, all with
 * `code`. */
static void expect_done(struct caller *caller, uint64_t first, size_t n, int code)
{
    size_t seen = 0;
    while (seen < n) {
        const struct coxi_message *message = caller_expect(caller, COXI_DONE);
        for (size_t i = 0; i < message->done.n_closures; i++) {
            assert_int_equal(first + seen, message->done.closures[i].closure);
            assert_int_equal(code, message->done.closures[i].code);
            seen++;
        }
    }
    assert_int_equal(n, seen);
}

/* A client that can dispatch at once. */
static struct caller *join_ready(struct worker *worker,
                                 const struct coxi_session *session)
{
    struct caller *caller = join(worker, session);
    send_layout(caller, session);
    send_module(caller, "probe");
    return caller;
}

static void assert_serves(struct worker *worker, const struct coxi_session *session)
{
    struct caller *caller = join_ready(worker, session);
    dispatch(caller, 1, 3, "identify", NULL);
    expect_done(caller, 1, 3, 0);
    caller_close(caller);
}

/* ---- whom it serves */

TEST(worker_greets_a_client_with_its_place_and_slots)
{
    struct worker w;
    struct coxi_hello hello = hello_of(&run1);
    worker_open(&w);
    struct caller *caller = caller_open(w.address, &hello);
    const struct coxi_message *message = caller_expect(caller, COXI_HELLO);
    assert_int_equal(COXI_ROLE_WORKER, message->hello.role);
    assert_int_equal(6, message->hello.index);
    assert_int_equal(1, message->hello.slots);
    assert_true(message->hello.incarnation != 0);
    caller_close(caller);
    worker_close(&w);
}

TEST(worker_serves_clients_only)
{
    static const enum coxi_role roles[] = {COXI_ROLE_WORKER, COXI_ROLE_PS};
    struct worker w;
    worker_open(&w);
    for (size_t i = 0; i < 2; i++) {
        struct coxi_hello hello = hello_of(&run1);
        hello.role = roles[i];
        struct caller *caller = caller_open(w.address, &hello);
        caller_expect_refusal(caller, COX_EREFUSED, "only clients");
        caller_close(caller);
    }
    assert_serves(&w, &run1);
    worker_close(&w);
}

struct taker {
    struct worker *worker;
    const struct coxi_session *session;
    struct caller *caller;
    int code;
};

/* True if the worker serves the client, or refuses it for another reason than being
 * busy. */
static bool is_not_busy(void *arg)
{
    struct taker *taker = arg;
    struct coxi_hello hello = hello_of(taker->session);
    taker->caller = caller_open(taker->worker->address, &hello);
    const struct coxi_message *message = caller_next(taker->caller);
    taker->code = message->kind == COXI_REFUSE ? message->refuse.code : 0;
    if (taker->code == COX_EBUSY) {
        caller_close(taker->caller);
    }
    return taker->code != COX_EBUSY;
}

TEST(worker_is_busy_for_another_run_until_its_client_is_gone)
{
    struct worker w;
    worker_open(&w);
    struct taker owner = {.worker = &w, .caller = join(&w, &run1)};
    struct coxi_hello hello = hello_of(&run2);
    struct caller *other = caller_open(w.address, &hello);
    caller_expect_refusal(other, COX_EBUSY, "0000000000000001");
    caller_close(other);
    /* By turns: a run that has ended does not keep others out, even with a higher
     * generation. */
    for (int i = 0; i < 30; i++) {
        caller_close(owner.caller);
        owner.session = i % 2 == 0 ? &run2 : &run1;
        coxi_test_until(is_not_busy, &owner, "the next client's turn");
        assert_int_equal(0, owner.code);
    }
    caller_close(owner.caller);
    worker_close(&w);
}

TEST(worker_leaves_an_older_generation_for_a_newer_one)
{
    struct coxi_session newer = run1;
    struct coxi_hello hello = hello_of(&run1);
    struct worker w;
    newer.generation++;
    newer.token++;
    worker_open(&w);
    struct caller *old = join_ready(&w, &run1);
    struct caller *client = join_ready(&w, &newer);
    caller_expect_end(old); /* its connection ends without a message */
    caller_close(old);
    old = caller_open(w.address, &hello);
    caller_expect_refusal(old, COX_EFENCED, "generation 6");
    caller_close(old);
    dispatch(client, 1, 3, "identify", NULL);
    expect_done(client, 1, 3, 0);
    caller_close(client);
    worker_close(&w);
}

/* Somebody who has learnt run and generation is not the client that has the worker. */
TEST(worker_lets_in_no_twin_of_its_client)
{
    const struct coxi_session twin = {run1.run, run1.generation, run1.token + 1};
    const struct coxi_hello hello = hello_of(&twin);
    struct worker worker;
    worker_open(&worker);
    struct caller *client = join(&worker, &run1);
    send_layout(client, &run1);
    struct caller *stranger = caller_open(worker.address, &hello);
    caller_expect_refusal(stranger, COX_EFENCED, "another client of generation 5");
    caller_close(stranger);
    send_module(client, "probe"); /* it still has the worker */
    caller_close(client);
    worker_close(&worker);
}

TEST(a_connection_in_place_of_another_of_the_same_client_ends_that)
{
    struct worker w;
    worker_open(&w);
    struct caller *first = join_ready(&w, &run1);
    struct caller *second = join_ready(&w, &run1);
    caller_expect_end(first);
    caller_close(first);
    dispatch(second, 1, 3, "identify", NULL);
    expect_done(second, 1, 3, 0);
    caller_close(second);
    worker_close(&w);
}

/* Greets on a connection that was opened without a greeting. */
static void greet_late(struct caller *caller, enum coxi_channel channel)
{
    struct coxi_message message = {.kind = COXI_HELLO, .hello = hello_of(&run1)};
    message.hello.version = COXI_WIRE_VERSION;
    message.hello.channel = channel;
    caller_send(caller, &message, NULL, 0);
}

TEST(a_late_greeting_on_an_older_connection_does_not_end_the_newer_one)
{
    struct worker w;
    worker_open(&w);
    struct caller *older = caller_open(w.address, NULL);
    struct caller *older_data = caller_open(w.address, NULL);
    struct caller *newer = join_ready(&w, &run1);
    greet_late(older, COXI_CHANNEL_CONTROL);
    caller_expect_refusal(older, COX_ECLOSED, "newer connection");
    greet_late(older_data, COXI_CHANNEL_DATA);
    caller_expect_refusal(older_data, COX_ECLOSED, "newer connection");
    dispatch(newer, 1, 3, "identify", NULL);
    expect_done(newer, 1, 3, 0);
    caller_close(older);
    caller_close(older_data);
    caller_close(newer);
    worker_close(&w);
}

TEST(worker_takes_nothing_from_a_connection_of_the_run_before)
{
    struct worker w;
    struct coxi_hello hello = hello_of(&run1);
    const struct coxi_message unknown = {
        .request = 3, .kind = COXI_MODULE, .module = {1, "probe", {{1, 2}}}};
    worker_open(&w);
    hello.channel = COXI_CHANNEL_DATA;
    struct caller *first = join_ready(&w, &run1);
    struct caller *data = caller_join(w.address, &hello);
    struct caller *second = join_ready(&w, &run1);
    caller_send(data, &unknown, NULL, 0);
    caller_expect_end(data);
    dispatch(second, 1, 3, "identify", NULL);
    expect_done(second, 1, 3, 0);
    caller_close(first);
    caller_close(data);
    caller_close(second);
    worker_close(&w);
}

TEST(worker_takes_a_data_connection_only_of_the_client_that_is_there)
{
    struct worker w;
    struct coxi_hello hello = hello_of(&run1);
    worker_open(&w);
    hello.channel = COXI_CHANNEL_DATA;
    struct caller *data = caller_open(w.address, &hello);
    caller_expect_refusal(data, COX_EREFUSED, "not here");
    caller_close(data);
    struct caller *client = join(&w, &run1);
    data = caller_join(w.address, &hello);
    caller_close(data);
    hello.session.token++;
    data = caller_open(w.address, &hello);
    caller_expect_refusal(data, COX_EREFUSED, "not here");
    caller_close(data);
    caller_close(client);
    worker_close(&w);
}

/* ---- what it does not take */

TEST(worker_closes_a_connection_with_a_malformed_dispatch_and_serves_the_next)
{
    static const uint64_t payload[4];
    const struct coxi_closure_head head = {.closure = 1, .attempt = 1, .args_len = 8};
    const struct coxi_message message = {.kind = COXI_DISPATCH, .dispatch = {&head, 1}};
    static const size_t lengths[] = {0, 4, 16, 32};
    struct worker w;
    worker_open(&w);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        struct caller *caller = join_ready(&w, &run1);
        caller_send(caller, &message, payload, lengths[i]);
        caller_expect_end(caller);
        caller_close(caller);
    }
    program_assert_printed(&w.program, "code=COX_EPROTO");
    assert_serves(&w, &run1);
    worker_close(&w);
}

TEST(worker_closes_a_connection_with_closures_before_a_layout)
{
    struct worker w;
    worker_open(&w);
    struct caller *caller = join(&w, &run1);
    dispatch(caller, 1, 1, "identify", NULL);
    caller_expect_end(caller);
    caller_close(caller);
    assert_serves(&w, &run1);
    worker_close(&w);
}

TEST(worker_closes_a_connection_with_a_resource_before_a_layout_or_without_an_id)
{
    struct worker w;
    struct coxi_message message = {.kind = COXI_RESOURCE};
    worker_open(&w);
    for (uint32_t id = 0; id < 2; id++) {
        struct caller *caller = join(&w, &run1);
        if (id == 0) {
            send_layout(caller, &run1);
        }
        message.resource = (struct coxi_resource){.id = id, .name = "n"};
        caller_send(caller, &message, NULL, 0);
        caller_expect_end(caller);
        caller_close(caller);
    }
    assert_serves(&w, &run1);
    worker_close(&w);
}

TEST(worker_closes_a_connection_with_an_unexpected_message_or_garbage)
{
    static const enum coxi_message_kind kinds[] = {COXI_HELLO, COXI_STATUS, COXI_COUNT,
                                                   COXI_DONE,  COXI_PULLED, COXI_CLAIM};
    static const uint64_t garbage[4] = {1, 2, 3, 4};
    struct worker w;
    worker_open(&w);
    for (size_t i = 0; i <= sizeof(kinds) / sizeof(*kinds); i++) {
        struct caller *caller = join_ready(&w, &run1);
        if (i == sizeof(kinds) / sizeof(*kinds)) {
            caller_send_bytes(caller, garbage, sizeof(garbage));
        } else {
            struct coxi_message message = {.kind = kinds[i]};
            if (kinds[i] == COXI_HELLO) {
                message.hello = hello_of(&run1);
            }
            caller_send(caller, &message, NULL, 0);
        }
        caller_expect_end(caller);
        caller_close(caller);
    }
    assert_serves(&w, &run1);
    worker_close(&w);
}

/* ---- what it does with closures */

TEST(worker_hands_back_what_is_recalled_and_finishes_what_runs)
{
    struct worker w;
    const char *path = gate_make("gate");
    worker_open(&w);
    struct caller *caller = join_ready(&w, &run1);
    const struct coxi_message recall = {.kind = COXI_RECALL, .recall.all = true};
    dispatch(caller, 1, 1, "wait_at", path);
    dispatch(caller, 2, 5, "identify", NULL);
    int gate = gate_pass(path);
    caller_send(caller, &recall, NULL, 0);
    expect_done(caller, 2, 5, COX_ECANCELLED);
    gate_release(gate);
    expect_done(caller, 1, 1, 0);
    caller_close(caller);
    worker_close(&w);
}

TEST(worker_forgets_the_closures_of_a_client_that_is_gone)
{
    struct worker w;
    const char *path = gate_make("gate");
    const char *never = gate_make("never");
    worker_open(&w);
    struct taker next = {.worker = &w, .session = &run2};
    struct caller *caller = join_ready(&w, &run1);
    dispatch(caller, 1, 1, "wait_at", path);
    dispatch(caller, 2, 1, "wait_at", never);
    int gate = gate_pass(path);
    caller_close(caller);
    coxi_test_until(is_not_busy, &next, "the next client's turn");
    assert_int_equal(0, next.code);
    send_layout(next.caller, &run2);
    send_module(next.caller, "probe");
    dispatch(next.caller, 7, 2, "identify", NULL);
    gate_release(gate);
    /* the second closure of the first client did not take the slot */
    expect_done(next.caller, 7, 2, 0);
    caller_close(next.caller);
    worker_close(&w);
}

/* The process that runs the steps. */
static pid_t listening_pid(const struct program *program)
{
    char *all = program_output(program);
    const char *at = strstr(all, "event=listening");
    assert_non_null(at);
    at = strstr(at, " pid=");
    assert_non_null(at);
    pid_t pid = (pid_t)strtol(at + 5, NULL, 10);
    free(all);
    return pid;
}

/* True when the step process knows that it must end. */
static bool is_ending(void *arg)
{
    char *all = program_output(arg);
    bool ending = strstr(all, "event=ending") != NULL;
    free(all);
    return ending;
}

/* Tells the worker to end while a step waits at its gate, which it returns. */
static int end_while_one_runs(struct worker *worker, struct caller *caller)
{
    const char *path = gate_make("gate");
    dispatch(caller, 1, 1, "wait_at", path);
    int gate = gate_pass(path);
    program_kill(&worker->program, SIGTERM);
    (void)caller_expect(caller, COXI_LEAVING);
    return gate;
}

TEST(ctrl_c_in_a_terminal_is_one_request_to_end)
{
    struct worker w;
    const char *path = gate_make("gate");
    worker_open(&w);
    struct caller *caller = join_ready(&w, &run1);
    dispatch(caller, 1, 1, "wait_at", path);
    int gate = gate_pass(path);
    /* The terminal signals both processes, and the supervisor forwards its signal as
     * well. */
    pid_t steps = listening_pid(&w.program);
    program_kill(&w.program, SIGINT);
    assert_int_equal(0, kill(steps, SIGINT));
    coxi_test_until(is_ending, &w.program, "the worker's end");
    (void)caller_expect(caller, COXI_LEAVING);
    gate_release(gate);
    expect_done(caller, 1, 1, 0);
    assert_int_equal(128 + SIGINT, program_wait(&w.program));
    caller_close(caller);
}

TEST(worker_that_is_told_to_end_finishes_the_step_in_hand_and_reports_it)
{
    struct worker w;
    worker_open(&w);
    struct caller *caller = join_ready(&w, &run1);
    int gate = end_while_one_runs(&w, caller);
    gate_release(gate);
    expect_done(caller, 1, 1, 0);
    caller_expect_end(caller);
    assert_int_equal(128 + SIGTERM, program_wait(&w.program));
    caller_close(caller);
}

TEST(worker_that_is_told_to_end_hands_back_what_it_has_and_what_still_comes)
{
    struct worker w;
    const char *path = gate_make("gate");
    worker_open(&w);
    struct caller *caller = join_ready(&w, &run1);
    dispatch(caller, 1, 1, "wait_at", path);
    dispatch(caller, 2, 5, "identify", NULL);
    int gate = gate_pass(path);
    program_kill(&w.program, SIGTERM);
    (void)caller_expect(caller, COXI_LEAVING);
    expect_done(caller, 2, 5, COX_ECANCELLED);
    dispatch(caller, 7, 3, "identify", NULL);
    expect_done(caller, 7, 3, COX_ECANCELLED);
    gate_release(gate);
    expect_done(caller, 1, 1, 0);
    caller_expect_end(caller);
    assert_int_equal(128 + SIGTERM, program_wait(&w.program));
    caller_close(caller);
}

/* Dispatches that the client sent before it knew of the leaving may still be on their
 * way. */
TEST(worker_that_has_nothing_left_to_do_waits_for_its_client_to_close)
{
    struct worker w;
    worker_open(&w);
    struct caller *caller = join_ready(&w, &run1);
    program_kill(&w.program, SIGTERM);
    (void)caller_expect(caller, COXI_LEAVING);
    dispatch(caller, 1, 3, "identify", NULL);
    expect_done(caller, 1, 3, COX_ECANCELLED);
    dispatch(caller, 4, 3, "identify", NULL);
    expect_done(caller, 4, 3, COX_ECANCELLED);
    caller_close(caller);
    assert_int_equal(128 + SIGTERM, program_wait(&w.program));
}

TEST(worker_that_is_about_to_go_says_so_to_a_client_that_comes_late)
{
    struct coxi_session newer = run1;
    struct worker w;
    newer.generation++;
    worker_open(&w);
    struct caller *caller = join_ready(&w, &run1);
    int gate = end_while_one_runs(&w, caller);
    struct caller *late = join(&w, &newer);
    (void)caller_expect(late, COXI_LEAVING);
    caller_close(caller);
    gate_release(gate);
    caller_expect_end(late);
    assert_int_equal(128 + SIGTERM, program_wait(&w.program));
    caller_close(late);
}

TEST(worker_that_is_told_to_end_twice_does_not_wait)
{
    struct worker w;
    worker_open(&w);
    struct caller *caller = join_ready(&w, &run1);
    int gate = end_while_one_runs(&w, caller);
    program_kill(&w.program, SIGTERM);
    caller_expect_end(caller);
    assert_int_equal(128 + SIGTERM, program_wait(&w.program));
    gate_release(gate);
    caller_close(caller);
}
