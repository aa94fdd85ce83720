/* Traces of real runs: their form, which viewers rely on, and what is in them. */
#include "coxswain/trace.h"

#include <stdio.h>
#include <unistd.h>

#include "common/trace.h"
#include "coordinator/monitor/trace_write.h"
#include "tests/coordinator/crew.h"
#include "tests/coordinator/monitor/read_trace.h"
#include "tests/test.h"

enum { N = 30, PS = 2, WORKERS = 2 };

/* Every arrow that begins has one end, on a ps, not before it; those of commits join
 * spans of the same closure. Returns how many there are. */
static size_t check_arrows(json_t *all, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *from = json_array_get(all, i);
        if (!trace_is(from, "s", name, COXI_TRACE_WORKER)) {
            continue;
        }
        size_t ends = 0;
        for (size_t k = 0; k < json_array_size(all); k++) {
            json_t *to = json_array_get(all, k);
            if (trace_is(to, "f", name, COXI_TRACE_PS) &&
                strcmp(trace_text(to, "id"), trace_text(from, "id")) == 0) {
                json_t *asks = trace_span_at(all, from);
                json_t *does = trace_span_at(all, to);
                assert_true(asks != NULL && does != NULL);
                assert_true(trace_number(to, "ts") >= trace_number(from, "ts"));
                assert_true(trace_closure(asks) != 0);
                assert_true(trace_closure(does) == 0 ||
                            trace_closure(does) == trace_closure(asks));
                ends++;
            }
        }
        assert_int_equal(1, ends);
        n++;
    }
    return n;
}

static void open_counting(struct crew *crew, const char *path)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.trace = path;
    crew_open(crew, PS, WORKERS, "hold", &options);
    (void)crew_counter(crew, "c0");
    (void)crew_counter(crew, "c1");
}

TEST(a_trace_ties_pulls_and_commits_to_their_closures)
{
    struct crew crew;
    const char *path = coxi_test_path("trace.json");
    open_counting(&crew, path);
    crew_schedule(&crew, crew_function(&crew, "carry"), N, 0);
    assert_code(0, cox_join(crew.c, -1));
    assert_code(0, cox_trace_stop(crew.c)); /* it waits for longer than cox_close */
    crew_close(&crew);
    assert_false(coxi_trace_is_on());
    json_t *all = read_trace(path, true);
    assert_int_equal(0, trace_lost(all));
    assert_true(trace_names(all, "process_name", "client"));
    assert_true(trace_names(all, "process_name", "ps 1"));
    assert_true(trace_names(all, "process_name", "worker 0") ||
                trace_names(all, "process_name", "worker 1"));
    assert_true(trace_names(all, "thread_name", "cox:slot"));
    assert_true(trace_names(all, "thread_name", "cox:loop"));
    assert_int_equal(N, trace_count(all, "carry", COXI_TRACE_WORKER));
    assert_true(trace_count(all, "dispatch", COXI_TRACE_CLIENT) > 0);
    assert_true(trace_count(all, "reports", COXI_TRACE_CLIENT) > 0);
    assert_true(trace_count(all, "turn", COXI_TRACE_CLIENT) > 0);
    assert_int_equal(N, trace_count(all, "ask for values", COXI_TRACE_WORKER));
    assert_int_equal(N, trace_count(all, "send commit", COXI_TRACE_WORKER));
    assert_true(trace_count(all, "pull", COXI_TRACE_PS) >= N);
    assert_int_equal(N, trace_count(all, "commit", COXI_TRACE_PS));
    assert_int_equal(N, check_arrows(all, "pull"));
    assert_int_equal(N, check_arrows(all, "commit"));
    json_decref(all);
}

TEST(a_user_can_have_any_program_traced)
{
    struct crew crew;
    struct crew second;
    const char *path = coxi_test_path("user.json");
    assert_int_equal(0, setenv("COX_TRACE", path, 1));
    open_counting(&crew, NULL);
    crew_open(&second, 1, 1, NULL, NULL); /* a second client is not traced */
    assert_int_equal(0, unsetenv("COX_TRACE"));
    crew_schedule(&crew, crew_function(&crew, "carry"), N, 0);
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&second);
    crew_close(&crew);
    json_t *all = read_trace(path, true);
    assert_true(trace_count(all, "carry", COXI_TRACE_WORKER) > 0);
    json_decref(all);
}

TEST(traces_begin_and_end_while_a_run_goes_on)
{
    struct crew crew;
    const char *path = coxi_test_path("later.json");
    open_counting(&crew, NULL);
    assert_code(COX_ENOENT, cox_trace_stop(crew.c));
    assert_code(COX_EIO, cox_trace_start(crew.c, coxi_test_path("no/such/trace.json")));
    assert_error_names("no/such/trace.json");
    assert_false(coxi_trace_is_on());
    for (int i = 0; i < 2; i++) {
        crew_schedule(&crew, crew_function(&crew, "nothing"), N, 0);
        assert_code(0, cox_join(crew.c, -1));
        assert_code(0, cox_trace_start(crew.c, path));
        assert_code(COX_EBUSY, cox_trace_start(crew.c, path));
        crew_schedule(&crew, crew_function(&crew, "carry"), N, 0);
        assert_code(0, cox_join(crew.c, -1));
        assert_code(0, cox_trace_stop(crew.c));
        json_t *all = read_trace(path, true);
        assert_int_equal(0, trace_count(all, "nothing", COXI_TRACE_WORKER));
        assert_int_equal(N, trace_count(all, "carry", COXI_TRACE_WORKER));
        assert_true(trace_count(all, "dispatch", COXI_TRACE_CLIENT) > 0);
        json_decref(all);
    }
    crew_close(&crew);
}

TEST(what_a_lost_worker_did_is_missing_and_the_trace_goes_on)
{
    struct crew crew;
    const char *path = coxi_test_path("lost.json");
    coxi_test_expect_crashes();
    open_counting(&crew, path);
    crew_schedule(&crew, crew_function(&crew, "carry"), N, 0);
    crew_kill(crew_step_process(&crew, 1));
    crew_schedule(&crew, crew_function(&crew, "carry"), N, 0);
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
    json_t *all = read_trace(path, true);
    assert_true(trace_count(all, "carry", COXI_TRACE_WORKER) > 0);
    json_decref(all);
}

TEST(a_trace_that_cannot_be_written_is_told)
{
    struct cox_options options = COX_OPTIONS_INIT;
    struct crew crew;
    crew_open(&crew, 1, 1, "hold", &options);
    assert_code(0, cox_trace_start(crew.c, "/dev/full"));
    crew_schedule(&crew, crew_function(&crew, "nothing"), N, 0);
    assert_code(0, cox_join(crew.c, -1));
    assert_code(COX_EIO, cox_trace_stop(crew.c));
    assert_error_names("No space left on device");
    crew_close(&crew);
}
