/* See process.h. */
#include "tests/worker/process.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buffer.h"
#include "common/dtype.h"
#include "common/hash.h"
#include "common/module.h"
#include "tests/worker/gate.h"

const struct coxi_session worker_client = {.run = 1, .generation = 5, .token = 11};

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

void worker_await(struct worker *worker)
{
    coxi_test_until(another_listens, worker, "a step process that listens");
    worker->n_listening++;
}

void worker_open(struct worker *worker, const char *first, const char *second)
{
    char listen[400];
    (void)snprintf(worker->address, sizeof(worker->address), "ipc://%s",
                   coxi_test_path("worker"));
    (void)snprintf(listen, sizeof(listen), "--listen=%s", worker->address);
    (void)mkdir(coxi_test_path("tmp"), 0700);
    assert_int_equal(0, setenv("TMPDIR", coxi_test_path("tmp"), 1));
    coxi_test_expect_crashes();
    const char *const argv[] = {"coxswain-worker", listen, first, second, NULL};
    program_start(&worker->program, argv);
    worker->n_listening = 0;
    worker_await(worker);
}

void worker_close(struct worker *worker)
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
    message.layout = (struct coxi_layout){.session = worker_client,
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

struct caller *worker_join(struct worker *worker, const struct coxi_session *session)
{
    struct coxi_hello hello = {.role = COXI_ROLE_CLIENT, .session = *session};
    return caller_join(worker->address, &hello);
}

void worker_send_module(struct caller *caller)
{
    size_t len = 0;
    char *bytes = coxi_test_read(coxi_test_module("crash"), &len);
    struct coxi_digest digest = coxi_digest_of(bytes, len);
    struct coxi_message message = {.request = 3, .kind = COXI_MODULE};
    message.module = (struct coxi_module){.name = "crash", .digest = digest};
    caller_send(caller, &message, bytes, len);
    free(bytes);
    assert_int_equal(0, caller_expect(caller, COXI_MODULE_LOADED)->status.code);
}

struct caller *worker_join_ready(struct worker *worker)
{
    struct caller *caller = worker_join(worker, &worker_client);
    send_layout(caller);
    worker_send_module(caller);
    return caller;
}

void worker_dispatch(struct caller *caller, const struct worker_call *call)
{
    struct coxi_buffer args = {0};
    if (call->arg != NULL) {
        assert_code(0, coxi_values_add(&args, call->arg));
    }
    const struct coxi_closure_head head = {.closure = call->closure,
                                           .attempt = call->attempt,
                                           .function = function_of(call->step),
                                           .args_len = (uint32_t)args.len,
                                           .timeout_ms = call->timeout_ms};
    const struct coxi_message message = {.kind = COXI_DISPATCH,
                                         .dispatch = {&head, 1, call->grace_ms}};
    caller_send(caller, &message, args.data, args.len);
    coxi_buffer_fini(&args);
}

int worker_dispatch_to_gate(struct caller *caller, const struct worker_call *call,
                            const char *path)
{
    const struct cox_value arg = COX_VECTOR("path", COX_U8, strlen(path) + 1, path);
    struct worker_call waiting = *call;
    waiting.arg = &arg;
    worker_dispatch(caller, &waiting);
    return gate_pass(path);
}

/* ---- what a client hears */

void worker_expect_done(struct caller *caller, uint64_t closure, int code)
{
    const struct coxi_message *message = caller_expect(caller, COXI_DONE);
    assert_int_equal(1, message->done.n_closures);
    assert_int_equal(closure, message->done.closures[0].closure);
    assert_int_equal(code, message->done.closures[0].code);
}

void worker_expect_crash(struct worker *worker, struct caller *caller)
{
    caller_expect_end(caller);
    caller_close(caller);
    worker_await(worker);
}

void worker_assert_crashed(const struct coxi_crashed_head *head, uint64_t closure,
                           uint32_t attempt, int cause)
{
    assert_int_equal(closure, head->closure);
    assert_int_equal(attempt, head->attempt);
    assert_int_equal(cause, head->cause);
}

void worker_expect_report(struct worker *worker, uint64_t closure, uint32_t attempt,
                          int cause)
{
    char text[64];
    struct caller *caller = worker_join(worker, &worker_client);
    const struct coxi_message *message = caller_expect(caller, COXI_CRASHED);
    assert_int_equal(1, message->crashed.n_closures);
    worker_assert_crashed(message->crashed.closures, closure, attempt, cause);
    caller_close(caller);
    (void)snprintf(text, sizeof(text), "closures=%d/%u\n", (int)closure, attempt);
    program_assert_printed(&worker->program, text);
}

static bool is_taken(void *arg)
{
    struct worker *worker = arg;
    struct coxi_hello hello = {.role = COXI_ROLE_CLIENT, .session = worker_client};
    struct caller *caller = caller_open(worker->address, &hello);
    bool taken = caller_next(caller)->kind == COXI_HELLO;
    caller_close(caller);
    return taken;
}

void worker_expect_no_report(struct worker *worker)
{
    coxi_test_until(is_taken, worker, "the client's turn");
    /* the client joins and runs a step */
    struct caller *caller = worker_join_ready(worker);
    const struct worker_call call = {.closure = 900, .attempt = 1, .step = "nothing"};
    worker_dispatch(caller, &call);
    worker_expect_done(caller, 900, 0);
    caller_close(caller);
}
