/* A worker's part in a run: its layout, its modules, and how results leave. */
#include "worker/run.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "common/sync.h"
#include "tests/test.h"
#include "tests/worker/rig.h"

/* ---- layouts */

/* The variable as a step finds it, or NULL. */
static struct cox_variable *find(const struct rig *rig, const char *name)
{
    return (struct cox_variable *)coxi_names_get(&rig->run->variables.names, name,
                                                 strlen(name));
}

TEST(run_keeps_a_variables_handle_when_the_layout_comes_again)
{
    struct rig rig;
    rig_open(&rig, 2, 1, 16);
    assert_null(find(&rig, "a"));
    (void)rig_counter(&rig, "a", 0);
    struct cox_variable *a = find(&rig, "a");
    assert_non_null(a);
    assert_int_equal(COX_I64, a->description->dtype);
    (void)rig_counter(&rig, "b", 1);
    assert_ptr_equal(a, find(&rig, "a"));
    assert_int_equal(1, find(&rig, "b")->description->id);
    assert_null(find(&rig, "c"));
    rig_close(&rig);
}

TEST(run_finds_a_variable_without_its_lock)
{
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    (void)rig_counter(&rig, "a", 0);
    coxi_lock(&rig.run->lock);
    assert_non_null(find(&rig, "a"));
    coxi_unlock(&rig.run->lock);
    rig_close(&rig);
}

TEST(run_refuses_a_layout_with_another_number_of_ps)
{
    struct rig rig;
    rig_open(&rig, 2, 1, 16);
    rig.n_ps = 1;
    assert_code(COX_EPROTO, rig_layout(&rig));
    rig.n_ps = 0;
    assert_code(COX_EPROTO, rig_layout(&rig));
    rig.n_ps = 2;
    assert_code(0, rig_layout(&rig));
    rig_close(&rig);
}

TEST(run_refuses_a_layout_with_a_malformed_variable)
{
    struct rig rig;
    rig_open(&rig, 2, 1, 16);
    uint32_t id = rig_counter(&rig, "a", 0);
    rig.variables[id].id = COXI_VARIABLES_MAX;
    assert_code(COX_EPROTO, rig_layout(&rig));
    rig.variables[id].id = 1;
    rig.variables[id].name = "b";
    rig.shards[id][0].ps = 2; /* there are ps 0 and 1 */
    assert_code(COX_EINVAL, rig_layout(&rig));
    assert_error_names("'b'");
    assert_null(find(&rig, "b"));
    assert_non_null(find(&rig, "a"));
    rig_close(&rig);
}

/* ---- who receives from the ps */

/* Threads of this process with that name. */
static int count_threads(const char *name)
{
    char path[64];
    char comm[32];
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks)) {
        (void)snprintf(path, sizeof(path), "/proc/self/task/%.20s/comm", task->d_name);
        FILE *file = fopen(path, "re");
        if (file != NULL) {
            n += fgets(comm, sizeof(comm), file) != NULL &&
                 strcspn(comm, "\n") == strlen(name) &&
                 strncmp(comm, name, strlen(name)) == 0;
            (void)fclose(file);
        }
    }
    (void)closedir(tasks);
    return n;
}

TEST(run_has_one_thread_that_receives_from_many_local_ps)
{
    struct rig rig;
    rig_open(&rig, 2, 1, 16);
    assert_int_equal(0, count_threads("cox:gather"));
    rig_close(&rig);
    rig_open(&rig, RIG_STREAMS_MAX + 2, 1, 16);
    assert_int_equal(1, count_threads("cox:gather"));
    rig_close(&rig);
}

/* ---- modules */

TEST(run_asks_for_the_bytes_of_a_module_that_is_not_cached)
{
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    assert_int_equal(COX_ENOENT, rig_load(&rig, 1, "counter", false));
    assert_int_equal(0, rig_load(&rig, 1, "counter", true));
    assert_int_equal(0, rig_load(&rig, 1, "counter", false)); /* under that id: known */
    assert_int_equal(0, rig_load(&rig, 2, "counter", false)); /* from the cache */
    struct coxi_closure_head head = {.module = 2, .function = 1};
    assert_string_equal("nothing", coxi_run_function(rig.run, &head)->name);
    rig_close(&rig);
}

/* One of several connections that ship the same module at the same time. */
struct shipping {
    struct rig *rig;
    pthread_barrier_t *start;
    const char *bytes;
    size_t len;
    struct coxi_message message;
};

static void *ship(void *arg)
{
    struct shipping *shipping = arg;
    const struct coxi_module_rules rules = {.dir = coxi_test_dir()};
    (void)pthread_barrier_wait(shipping->start);
    coxi_run_load(shipping->rig->run, &rules, &shipping->message, shipping->bytes,
                  shipping->len);
    return NULL;
}

/* The loser's module would be lost, which the leak checker tells. */
TEST(run_loads_a_module_once_that_comes_over_two_connections)
{
    enum { MODULES = 24 };
    struct rig rig;
    pthread_barrier_t start;
    size_t len = 0;
    rig_open(&rig, 1, 1, 16);
    char *bytes = coxi_test_read(coxi_test_module("counter"), &len);
    assert_int_equal(0, pthread_barrier_init(&start, NULL, 2));
    struct shipping shipping = {&rig, &start, bytes, len, {.kind = COXI_MODULE}};
    shipping.message.module.name = "counter";
    shipping.message.module.digest = coxi_digest_of(bytes, len);
    for (uint32_t id = 1; id <= MODULES; id++) {
        pthread_t other;
        shipping.message.module.id = id;
        assert_int_equal(0, pthread_create(&other, NULL, ship, &shipping));
        (void)ship(&shipping);
        assert_int_equal(0, pthread_join(other, NULL));
        for (int i = 0; i < 2; i++) {
            assert_code(0, caller_expect(rig.caller, COXI_MODULE_LOADED)->status.code);
        }
    }
    assert_int_equal(0, pthread_barrier_destroy(&start));
    free(bytes);
    rig_close(&rig);
}

TEST(run_refuses_a_module_beyond_the_last_and_one_that_cannot_be_loaded)
{
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    assert_int_equal(COX_ELIMIT, rig_load(&rig, COXI_MODULES_MAX, "counter", true));
    assert_int_equal(COX_EMODULE, rig_load(&rig, 1, "undefined", true));
    assert_int_equal(0, rig_load(&rig, COXI_MODULES_MAX - 1, "counter", true));
    rig_close(&rig);
}

TEST(run_reports_a_closure_of_a_function_that_is_not_there)
{
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    struct coxi_closure_head heads[] = {
        {.closure = 1, .attempt = 3, .module = 1},
        {.closure = 2, .attempt = 1, .function = 999},
        {.closure = 3, .attempt = 1, .module = UINT16_MAX, .function = 1}};
    struct coxi_dispatch dispatch = {.closures = heads, .n_closures = 3};
    assert_code(0, coxi_slots_push(rig.slots, rig.run, &dispatch, NULL, 0));
    struct rig_done done = rig_expect(&rig, 1, COX_EMODULE);
    assert_int_equal(3, done.head.attempt);
    assert_non_null(strstr(done.result, "worker 4 has no function 0 of module 1"));
    done = rig_expect(&rig, 2, COX_EMODULE);
    assert_non_null(strstr(done.result, "999"));
    (void)rig_expect(&rig, 3, COX_EMODULE);
    rig_close(&rig);
}

/* ---- results */

static void report(struct rig *rig, uint64_t closure, const void *result, size_t len)
{
    static const uint32_t touched[] = {0, 2, 5};
    struct coxi_report r = {.closure = closure,
                            .attempt = 2,
                            .step_code = 6,
                            .run_us = 7,
                            .touched = touched,
                            .n_touched = closure % 4,
                            .result = result,
                            .result_len = len};
    coxi_run_report(rig->run, &r);
}

/* Reports ten results by hand. A message from a ps, such as its greeting, also flushes
 * the outbox, so they may leave in two messages. */
static void report_ten(struct rig *rig, uint64_t first)
{
    for (uint64_t id = first; id < first + 10; id++) {
        report(rig, id, "0123456789", id - first + 1);
    }
    coxi_run_flush(rig->run);
}

/* Expects the reports of ten closures; true if all were in one message. */
static bool expect_ten(struct rig *rig, uint64_t first)
{
    bool in_one = true;
    for (uint64_t id = first; id < first + 10; id++) {
        size_t len = id - first + 1;
        struct rig_done done = rig_expect(rig, id, 0);
        in_one = in_one && (rig->done != NULL) == (len < 10);
        assert_int_equal(2, done.head.attempt);
        assert_int_equal(6, done.head.step_code);
        assert_int_equal(7, done.head.run_us);
        assert_int_equal(id % 4, done.head.touched_n);
        assert_true(id % 4 < 2 || done.touched[1] == 2);
        assert_int_equal(len, done.head.result_len);
        assert_memory_equal("0123456789", done.result, len);
    }
    return in_one;
}

TEST(run_sends_what_is_in_the_outbox_in_one_message)
{
    enum { TRIES = 10 };
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    assert_code(0, coxi_psc_wait(rig.run->ps[0], 5000));
    bool in_one = false;
    for (uint64_t i = 0; i < TRIES && !in_one; i++) {
        report_ten(&rig, 1 + 10 * i);
        in_one = expect_ten(&rig, 1 + 10 * i);
    }
    assert_true(in_one);
    rig_close(&rig);
}

/* A ps's greeting may flush the outbox while the test fills it. Even then, fewer than
 * COXI_REPORTS_MAX reports are left in it at the end. */
TEST(run_sends_a_full_outbox_on_its_own)
{
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    for (uint64_t id = 1; id <= 2 * COXI_REPORTS_MAX; id++) {
        report(&rig, id, NULL, 0);
    }
    for (uint64_t id = 1; id <= COXI_REPORTS_MAX; id++) {
        (void)rig_expect(&rig, id, 0);
    }
    coxi_run_flush(rig.run);
    for (uint64_t id = COXI_REPORTS_MAX + 1; id <= 2 * COXI_REPORTS_MAX; id++) {
        (void)rig_expect(&rig, id, 0);
    }
    assert_null(rig.done);
    rig_close(&rig);
}

TEST(run_sends_long_results_over_the_data_connection_while_there_is_one)
{
    enum { LONG = 100000 };
    static uint8_t bytes[LONG];
    struct rig rig;
    struct caller *control;
    struct caller *data;
    rig_open(&rig, 1, 1, 16);
    struct coxi_link *link = rig_connect(&data);
    memset(bytes, 0xab, sizeof(bytes));
    control = rig.caller;
    report(&rig, 1, bytes, LONG);
    struct rig_done done = rig_expect(&rig, 1, 0);
    assert_memory_equal(bytes, done.result, LONG);
    assert_code(0, coxi_run_set_data(rig.run, link, 1));
    report(&rig, 2, bytes, LONG);
    rig.caller = data;
    done = rig_expect(&rig, 2, 0);
    assert_int_equal(LONG, done.head.result_len);
    assert_memory_equal(bytes, done.result, LONG);
    rig.caller = control;
    report(&rig, 3, "short", 5);
    coxi_run_flush_reports(rig.run);
    (void)rig_expect(&rig, 3, 0);
    coxi_link_unref(link);
    caller_close(data);
    rig_close(&rig);
}

TEST(run_takes_no_data_connection_that_is_older_than_the_one_it_has)
{
    struct rig rig;
    struct caller *callers[2];
    rig_open(&rig, 1, 1, 16);
    struct coxi_link *older = rig_connect(&callers[0]);
    struct coxi_link *newer = rig_connect(&callers[1]);
    assert_code(0, coxi_run_set_data(rig.run, newer, 2));
    assert_code(COX_ECLOSED, coxi_run_set_data(rig.run, older, 1));
    assert_true(coxi_run_has_link(rig.run, newer));
    assert_false(coxi_run_has_link(rig.run, older));
    coxi_link_unref(older);
    coxi_link_unref(newer);
    caller_close(callers[0]);
    caller_close(callers[1]);
    rig_close(&rig);
}

TEST(run_ends_its_control_connection_with_the_data_connection_that_it_uses)
{
    struct rig rig;
    struct caller *data;
    rig_open(&rig, 1, 1, 16);
    struct coxi_link *link = rig_connect(&data);
    coxi_run_drop_data(rig.run, link); /* not the run's link: does nothing */
    assert_code(0, coxi_run_set_data(rig.run, link, 1));
    coxi_run_drop_data(rig.run, NULL);
    report(&rig, 1, "short", 5);
    coxi_run_flush_reports(rig.run);
    (void)rig_expect(&rig, 1, 0);
    coxi_run_drop_data(rig.run, link);
    caller_expect_end(rig.caller);
    coxi_link_unref(link);
    caller_close(data);
    rig_close(&rig);
}

TEST(run_reports_nothing_once_its_client_is_gone)
{
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    coxi_run_close(rig.run);
    report(&rig, 1, NULL, 0);
    coxi_run_flush(rig.run);
    /* A message that is sent now would come after it. */
    struct coxi_message marker = {.request = 5, .kind = COXI_COUNT};
    assert_code(0, coxi_message_send(rig.run->control, &marker, NULL, false));
    assert_int_equal(5, caller_expect(rig.caller, COXI_COUNT)->request);
    rig_close(&rig);
}

/* ---- parameter servers that are gone */

static void push_pull(struct rig *rig, uint64_t closure, const char *name)
{
    const struct cox_value arg = COX_VECTOR("variable", COX_U8, strlen(name) + 1, name);
    rig_push(rig, closure, 1, "pull", &arg, 1);
}

TEST(run_ends_what_waits_for_a_ps_that_the_client_declares_lost)
{
    struct rig rig;
    rig_open(&rig, 2, 1, 16);
    (void)rig_counter(&rig, "a", 0);
    (void)rig_counter(&rig, "b", 1);
    coxi_ps_close(rig.ps[0]);
    rig.ps[0] = NULL;
    push_pull(&rig, 1, "a");
    rig_push_add(&rig, 2, 1, "a", 1);
    rig_push_add(&rig, 3, 1, "b", 1);
    rig.lost[0] = true;
    assert_code(0, rig_layout(&rig));
    bool seen[4] = {false};
    for (int i = 0; i < 3; i++) {
        struct rig_done done = rig_next(&rig);
        assert_int_equal(done.head.closure == 3 ? 0 : COX_EPSLOST, done.head.code);
        seen[done.head.closure] = true;
    }
    assert_true(seen[1] && seen[2] && seen[3]);
    assert_int_equal(1, rig_read(&rig, 1));
    rig_close(&rig);
}

TEST(run_that_is_closed_wakes_a_step_that_waits_for_a_ps)
{
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    (void)rig_counter(&rig, "a", 0);
    coxi_ps_close(rig.ps[0]);
    rig.ps[0] = NULL;
    push_pull(&rig, 1, "a");
    rig_push_add(&rig, 2, 1, "a", 1);
    rig_close(&rig); /* closing waits for the slot */
    assert_true(atomic_load(&rig.run_freed));
}

TEST(run_meets_a_ps_again_that_was_restarted_and_reports_it_lost)
{
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    (void)rig_counter(&rig, "a", 0);
    rig_push_add(&rig, 1, 1, "a", 1);
    (void)rig_expect(&rig, 1, 0);
    coxi_ps_close(rig.ps[0]);
    struct coxi_ps_options options = {.listen = rig.addresses[0],
                                      .peer_timeout_ms = 60000};
    assert_code(0, coxi_ps_open(&options, &rig.ps[0]));
    rig_push_add(&rig, 2, 1, "a", 1);
    (void)rig_expect(&rig, 2, COX_EPSLOST);
    rig_close(&rig);
}
