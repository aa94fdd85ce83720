/* A worker with a key: only those who have proved that they are its client bring
 * modules. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/hash.h"
#include "net/key.h"
#include "tests/program.h"
#include "tests/ps/caller.h"
#include "tests/test.h"

static const struct coxi_session session = {.run = 1, .generation = 5, .token = 11};

struct worker {
    struct program program;
    char address[256];
    struct coxi_key key;
};

static void worker_open(struct worker *worker)
{
    const char *key = coxi_test_path("run.key");
    char listen[300];
    assert_code(0, coxi_key_new(key));
    assert_code(0, coxi_key_read(key, &worker->key));
    assert_int_equal(0, setenv("COX_KEY_FILE", key, 1));
    (void)snprintf(listen, sizeof(listen), "ipc://%s", coxi_test_path("worker"));
    daemon_start(&worker->program, "coxswain-worker", 0, listen, worker->address);
}

static struct caller *open_as(const struct worker *worker, enum coxi_role proven,
                              enum coxi_role greets)
{
    const struct coxi_guard guard = {.key = worker->key,
                                     .self = {proven, 0, session.run}};
    const struct coxi_hello hello = {.role = greets, .session = session};
    return caller_open_as(worker->address, &guard, &hello);
}

static void send_module(struct caller *caller)
{
    size_t len = 0;
    char *bytes = coxi_test_read(coxi_test_module("probe"), &len);
    struct coxi_message message = {.request = 3, .kind = COXI_MODULE};
    message.module =
        (struct coxi_module){.name = "probe", .digest = coxi_digest_of(bytes, len)};
    caller_send(caller, &message, bytes, len);
    free(bytes);
}

/* The client of the run loads the module, and the worker did not load it before. */
static void close_served(struct worker *worker)
{
    char *output = program_output(&worker->program);
    assert_null(strstr(output, "event=module "));
    free(output);
    struct caller *client = open_as(worker, COXI_ROLE_CLIENT, COXI_ROLE_CLIENT);
    (void)caller_expect(client, COXI_HELLO);
    send_module(client);
    assert_int_equal(0, caller_expect(client, COXI_MODULE_LOADED)->status.code);
    program_wait_printed(&worker->program, "event=module ");
    caller_close(client);
    program_kill(&worker->program, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&worker->program));
}

TEST(a_worker_of_the_run_ships_no_module)
{
    struct worker worker;
    worker_open(&worker);
    struct caller *caller = open_as(&worker, COXI_ROLE_WORKER, COXI_ROLE_WORKER);
    caller_expect_refusal(caller, COX_EREFUSED, "accepts only clients");
    caller_close(caller);
    close_served(&worker);
}

TEST(a_worker_of_the_run_that_greets_as_the_client_ships_no_module)
{
    static const enum coxi_role roles[] = {COXI_ROLE_WORKER, COXI_ROLE_PS};
    struct worker worker;
    worker_open(&worker);
    for (size_t i = 0; i < sizeof(roles) / sizeof(*roles); i++) {
        struct caller *caller = open_as(&worker, roles[i], COXI_ROLE_CLIENT);
        caller_expect_end(caller); /* before anything can be shipped over it */
        caller_close(caller);
    }
    close_served(&worker);
}

/* The message has no payload, so a long one gets no memory. */
TEST(a_long_payload_of_a_message_that_has_none_is_dropped)
{
    static const char bytes[1 << 20];
    struct worker worker;
    worker_open(&worker);
    struct caller *caller = open_as(&worker, COXI_ROLE_CLIENT, COXI_ROLE_CLIENT);
    const struct coxi_message message = {.kind = COXI_RECALL, .recall = {.all = true}};
    (void)caller_expect(caller, COXI_HELLO);
    caller_send(caller, &message, bytes, sizeof(bytes));
    caller_expect_end(caller);
    program_wait_printed(&worker.program, "no room");
    caller_close(caller);
    close_served(&worker);
}

TEST(a_reader_that_greets_as_the_client_ships_no_module)
{
    struct worker worker;
    const char *path = coxi_test_path("reader.key");
    worker_open(&worker);
    const struct coxi_key run_key = worker.key;
    assert_code(0, coxi_key_new_reader(path, &run_key));
    assert_code(0, coxi_key_read(path, &worker.key));
    struct caller *caller = open_as(&worker, COXI_ROLE_TOOL, COXI_ROLE_CLIENT);
    caller_expect_end(caller); /* before anything can be shipped over it */
    caller_close(caller);
    worker.key = run_key;
    close_served(&worker);
}
