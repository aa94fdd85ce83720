/* A step takes its process down: who hears of it from the next one, and who does not. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buffer.h"
#include "common/dtype.h"
#include "common/hash.h"
#include "common/module.h"
#include "tests/program.h"
#include "tests/ps/caller.h"
#include "tests/test.h"
#include "tests/worker/gate.h"

static const struct coxi_session run1 = {.run = 1, .generation = 5, .token = 11};

struct worker {
    struct program program; /* the supervisor */
    int n_listening;        /* step processes that have come so far */
    pid_t step_process;
    char address[300];
};

/* ---- the worker */

static bool another_listens(void *arg)
{
    struct worker *worker = arg;
    char *all = program_output(&worker->program);
    int n = 0;
    for (const char *at = all; (at = strstr(at, "event=listening")) != NULL; at++) {
        const char *pid = strstr(at, " pid=");
        worker->step_process = pid != NULL ? (pid_t)strtol(pid + 5, NULL, 10) : 0;
        n++;
    }
    free(all);
    return n > worker->n_listening && worker->step_process > 0;
}

static void await_step_process(struct worker *worker)
{
    coxi_test_until(another_listens, worker, "a step process that listens");
    worker->n_listening++;
}

static void worker_open(struct worker *worker, const char *slots)
{
    char listen[400];
    (void)snprintf(worker->address, sizeof(worker->address), "ipc://%s",
                   coxi_test_path("worker"));
    (void)snprintf(listen, sizeof(listen), "--listen=%s", worker->address);
    (void)mkdir(coxi_test_path("tmp"), 0700);
    assert_int_equal(0, setenv("TMPDIR", coxi_test_path("tmp"), 1));
    coxi_test_expect_crashes();
    const char *const argv[] = {"coxswain-worker", listen, slots, NULL};
    program_start(&worker->program, argv);
    worker->n_listening = 0;
    await_step_process(worker);
}

/* It has survived; and nothing is left of it. */
static void worker_close(struct worker *worker)
{
    program_kill(&worker->program, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&worker->program));
    DIR *dir = opendir(coxi_test_path("tmp"));
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        assert_true(entry->d_name[0] == '.');
    }
    (void)closedir(dir);
    assert_int_equal(-1, kill(worker->step_process, 0));
}

/* ---- what a client says */

/* A ps that does not answer: commits to it stay under way. */
static void send_layout(struct caller *caller)
{
    static const struct coxi_ps_address nobody = {"ipc:///no/such/ps", 1, false};
    static const struct coxi_shard shard = {0, 0, 1};
    const struct coxi_variable counter = {.name = "counter",
                                          .dtype = COX_I64,
                                          .rank = 1,
                                          .shape = {1},
                                          .shards = &shard,
                                          .n_shards = 1};
    struct coxi_message message = {.kind = COXI_LAYOUT};
    message.layout = (struct coxi_layout){.session = run1,
                                          .servers = &nobody,
                                          .n_servers = 1,
                                          .variables = &counter,
                                          .n_variables = 1};
    caller_send(caller, &message, NULL, 0);
}

static uint16_t function_of(const char *step)
{
    static struct coxi_module_info info;
    uint16_t i = 0;
    if (info.n_steps == 0) {
        size_t len = 0;
        char *bytes = coxi_test_read(coxi_test_module("crash"), &len);
        assert_code(0, coxi_module_inspect(bytes, len, "crash", &info));
        free(bytes);
    }
    while (i < info.n_steps && strcmp(info.names[i], step) != 0) {
        i++;
    }
    assert_true(i < info.n_steps);
    return i;
}

/* A client that has greeted, and has not asked what came then. */
static struct caller *join(struct worker *worker, const struct coxi_session *session)
{
    struct coxi_hello hello = {.role = COXI_ROLE_CLIENT, .session = *session};
    return caller_join(worker->address, &hello);
}

static void send_module(struct caller *caller)
{
    size_t len = 0;
    char *bytes = coxi_test_read(coxi_test_module("crash"), &len);
    struct coxi_hash128 hash = coxi_hash_bytes(bytes, len);
    struct coxi_message message = {.request = 3, .kind = COXI_MODULE};
    message.module = (struct coxi_module){0, "crash", hash.high, hash.low};
    caller_send(caller, &message, bytes, len);
    free(bytes);
    assert_int_equal(0, caller_expect(caller, COXI_MODULE_LOADED)->status.code);
}

static struct caller *join_ready(struct worker *worker)
{
    struct caller *caller = join(worker, &run1);
    send_layout(caller);
    send_module(caller);
    return caller;
}

static void dispatch(struct caller *caller, uint64_t closure, uint32_t attempt,
                     const char *step, const struct cox_value *arg)
{
    struct coxi_buffer args = {0};
    if (arg != NULL) {
        assert_code(0, coxi_values_add(&args, arg));
    }
    const struct coxi_closure_head head = {.closure = closure,
                                           .attempt = attempt,
                                           .function = function_of(step),
                                           .args_len = (uint32_t)args.len};
    const struct coxi_message message = {.kind = COXI_DISPATCH, .dispatch = {&head, 1}};
    caller_send(caller, &message, args.data, args.len);
    coxi_buffer_fini(&args);
}

/* Runs `wait_at`: what to release once it may go on. */
static int dispatch_to_gate(struct caller *caller, uint64_t closure, uint32_t attempt,
                            const char *path)
{
    const struct cox_value arg = COX_VECTOR("path", COX_U8, strlen(path) + 1, path);
    dispatch(caller, closure, attempt, "wait_at", &arg);
    return gate_pass(path);
}

/* ---- what a client hears */

/* The process that the client spoke to is gone, and another has come. */
static void await_crash(struct worker *worker, struct caller *caller)
{
    caller_expect_end(caller);
    caller_close(caller);
    await_step_process(worker);
}

static void assert_crashed(const struct coxi_crashed_head *head, uint64_t closure,
                           uint32_t attempt, int signum)
{
    assert_int_equal(closure, head->closure);
    assert_int_equal(attempt, head->attempt);
    assert_int_equal(signum, head->cause);
}

/* A client that is there again hears of one closure, first of all. */
static void expect_crash(struct worker *worker, uint64_t closure, uint32_t attempt,
                         int signum)
{
    char text[64];
    struct caller *caller = join(worker, &run1);
    const struct coxi_message *message = caller_expect(caller, COXI_CRASHED);
    assert_int_equal(1, message->crashed.n_closures);
    assert_crashed(message->crashed.closures, closure, attempt, signum);
    caller_close(caller);
    (void)snprintf(text, sizeof(text), "closures=%d/%u\n", (int)closure, attempt);
    program_assert_printed(&worker->program, text);
}

static bool is_taken(void *arg)
{
    struct worker *worker = arg;
    struct coxi_hello hello = {.role = COXI_ROLE_CLIENT, .session = run1};
    struct caller *caller = caller_open(worker->address, &hello);
    bool taken = caller_next(caller)->kind == COXI_HELLO;
    caller_close(caller);
    return taken;
}

/* The client of run 1 hears nothing but the answers to what it asks; it is served. */
static void expect_nothing(struct worker *worker)
{
    coxi_test_until(is_taken, worker, "the client's turn");
    struct caller *caller = join_ready(worker); /* the next message is the module's */
    dispatch(caller, 900, 1, "nothing", NULL);
    const struct coxi_message *message = caller_expect(caller, COXI_DONE);
    assert_int_equal(900, message->done.closures[0].closure);
    assert_int_equal(0, message->done.closures[0].code);
    caller_close(caller);
}

/* ---- what is reported */

static void crash_with(const char *step, const struct cox_value *arg, int signum)
{
    struct worker w;
    worker_open(&w, NULL);
    for (uint32_t i = 1; i <= 2; i++) {
        struct caller *caller = join_ready(&w);
        dispatch(caller, 40 + i, i, step, arg);
        await_crash(&w, caller);
        expect_crash(&w, 40 + i, i, signum);
    }
    expect_nothing(&w);
    worker_close(&w);
}

TEST(a_step_that_writes_through_a_null_pointer_is_reported)
{
    crash_with("null_write", NULL, SIGSEGV);
}

TEST(a_step_that_aborts_is_reported)
{
    crash_with("do_abort", NULL, SIGABRT);
}

TEST(a_step_that_exits_is_reported_and_the_worker_goes_on)
{
    const int64_t code = 3;
    const struct cox_value arg = COX_SCALAR("code", COX_I64, &code);
    crash_with("do_exit", &arg, 0);
}

TEST(a_step_that_exits_with_success_is_reported_too)
{
    const int64_t code = 0;
    const struct cox_value arg = COX_SCALAR("code", COX_I64, &code);
    crash_with("do_exit", &arg, 0);
}

static void kill_step_process(const struct worker *worker)
{
    assert_int_equal(0, kill(worker->step_process, SIGKILL));
}

TEST(a_step_that_is_killed_is_reported)
{
    struct worker w;
    worker_open(&w, NULL);
    struct caller *caller = join_ready(&w);
    int gate = dispatch_to_gate(caller, 7, 3, gate_make("gate"));
    kill_step_process(&w);
    await_crash(&w, caller);
    gate_release(gate);
    expect_crash(&w, 7, 3, SIGKILL);
    expect_nothing(&w);
    worker_close(&w);
}

TEST(all_steps_that_ran_in_several_slots_are_reported)
{
    struct worker w;
    worker_open(&w, "--slots=2");
    struct caller *caller = join_ready(&w);
    int gate = dispatch_to_gate(caller, 1, 1, gate_make("gate"));
    dispatch(caller, 2, 4, "do_abort", NULL);
    await_crash(&w, caller);
    gate_release(gate);
    caller = join(&w, &run1);
    const struct coxi_crashed *crashed = &caller_expect(caller, COXI_CRASHED)->crashed;
    assert_int_equal(2, crashed->n_closures);
    size_t first =
        crashed->closures[0].closure == 1 ? 0 : 1; /* any slot may have any */
    assert_crashed(&crashed->closures[first], 1, 1, SIGABRT);
    assert_crashed(&crashed->closures[1 - first], 2, 4, SIGABRT);
    caller_close(caller);
    expect_nothing(&w);
    worker_close(&w);
}

TEST(a_crash_is_kept_until_a_client_comes)
{
    struct worker w;
    worker_open(&w, NULL);
    struct caller *caller = join_ready(&w);
    dispatch(caller, 8, 2, "do_abort", NULL);
    await_crash(&w, caller);
    kill_step_process(&w); /* idle: no client has come */
    await_step_process(&w);
    program_assert_printed(&w.program, "closures=none\n");
    expect_crash(&w, 8, 2, SIGABRT);
    expect_nothing(&w);
    worker_close(&w);
}

/* ---- what is not */

TEST(a_step_that_has_returned_is_not_reported_though_its_commit_is_under_way)
{
    struct worker w;
    worker_open(&w, "--slots=2");
    struct caller *caller = join_ready(&w);
    int gate = dispatch_to_gate(caller, 1, 1, gate_make("gate"));
    dispatch(caller, 2, 1, "count", NULL);
    dispatch(caller, 3, 1, "nothing", NULL); /* after it, in the same slot */
    const struct coxi_done *done = &caller_expect(caller, COXI_DONE)->done;
    assert_int_equal(1, done->n_closures);
    assert_int_equal(3, done->closures[0].closure);
    kill_step_process(&w);
    await_crash(&w, caller);
    gate_release(gate);
    expect_crash(&w, 1, 1, SIGKILL);
    worker_close(&w);
}

TEST(an_idle_process_that_is_killed_leaves_nothing_to_report)
{
    struct worker w;
    worker_open(&w, NULL);
    struct caller *caller = join_ready(&w);
    dispatch(caller, 1, 1, "nothing", NULL);
    (void)caller_expect(caller, COXI_DONE);
    kill_step_process(&w);
    await_crash(&w, caller);
    program_assert_printed(&w.program, "closures=none\n");
    expect_nothing(&w);
    worker_close(&w);
}

/* Another run, another generation, another client that calls itself the same. */
static void other_client(const struct coxi_session *other)
{
    struct worker w;
    worker_open(&w, NULL);
    struct caller *caller = join_ready(&w);
    dispatch(caller, 1, 1, "do_abort", NULL);
    await_crash(&w, caller);
    caller = join(&w, other);
    send_module(caller); /* its answer is the next message */
    caller_close(caller);
    if (other->generation <= run1.generation) {
        expect_nothing(&w); /* what was not for the other one is dropped */
    }
    worker_close(&w);
}

TEST(a_client_of_another_run_hears_nothing)
{
    other_client(&(struct coxi_session){.run = 2, .generation = 5, .token = 11});
}

TEST(a_client_of_a_newer_generation_hears_nothing)
{
    other_client(&(struct coxi_session){.run = 1, .generation = 6, .token = 11});
}

TEST(a_client_with_another_token_hears_nothing)
{
    other_client(&(struct coxi_session){.run = 1, .generation = 5, .token = 12});
}

TEST(a_data_connection_hears_nothing)
{
    struct worker w;
    struct coxi_hello hello = {
        .role = COXI_ROLE_CLIENT, .channel = COXI_CHANNEL_DATA, .session = run1};
    worker_open(&w, NULL);
    struct caller *caller = join_ready(&w);
    dispatch(caller, 5, 1, "do_abort", NULL);
    await_crash(&w, caller);
    struct caller *data = caller_open(w.address, &hello);
    caller_expect_refusal(data, COX_EREFUSED, "not here");
    caller_close(data);
    expect_crash(&w, 5, 1, SIGABRT);
    worker_close(&w);
}

/* ---- the program */

TEST(a_step_process_without_a_supervisor_says_so)
{
    program_assert_refuses("coxswain-worker", "--step-process", "--step-process");
}
