/* Traces on a disk that does not answer: nobody waits for it for long. */
#include <stdatomic.h>
#include <stdio.h>

#include "common/trace.h"
#include "coordinator/monitor/trace.h"
#include "coordinator/monitor/trace_write.h"
#include "tests/coordinator/crew.h"
#include "tests/coordinator/monitor/dead_disk.h"
#include "tests/coordinator/monitor/read_trace.h"
#include "tests/test.h"

enum { N = 30, FOREVER_MS = 3600000, SOON_MS = 100 };

static char thread[] = "cox:trace-file";
static atomic_int n_silent;

static void on_event(void *arg, const struct cox_event *event)
{
    (void)arg;
    n_silent += event->code == COX_EVENT_TRACE_FAILED && event->error == COX_ETIMEDOUT;
}

/* Opens a run whose trace cannot be written, and counts. */
static void open_dead(struct crew *crew, const char *path)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.trace = path;
    options.on_event = on_event;
    dead_disk_begin("/trace.json");
    crew_open(crew, 1, 1, "counter", &options);
    (void)crew_counter(crew, "c0");
    coxi_test_until(dead_disk_is_waiting, NULL, "a write that does not end");
    crew_schedule(crew, crew_function(crew, "count"), N, 1);
    assert_code(0, cox_join(crew->c, -1));
}

static void assert_left(struct crew *crew)
{
    crew_close(crew);
    assert_int_equal(1, n_silent);
    assert_true(dead_disk_is_waiting(NULL)); /* still */
    dead_disk_end();
    coxi_test_until(dead_disk_has_left, thread, "the end of the thread left behind");
}

TEST(cox_close_keeps_its_deadline)
{
    struct crew crew;
    atomic_store(&coxi_tracing_silent_ms, FOREVER_MS);
    open_dead(&crew, coxi_test_path("trace.json"));
    assert_code(0, cox_close(crew.c, SOON_MS));
    crew.c = NULL;
    assert_left(&crew);
}

TEST(cox_close_does_not_wait_long_for_a_disk_that_takes_nothing)
{
    struct crew crew;
    atomic_store(&coxi_tracing_silent_ms, SOON_MS);
    open_dead(&crew, coxi_test_path("trace.json"));
    assert_code(0, cox_close(crew.c, FOREVER_MS));
    crew.c = NULL;
    assert_left(&crew);
}

TEST(a_trace_that_was_left_behind_keeps_no_other_from_being_taken)
{
    struct crew crew;
    const char *path = coxi_test_path("other.json");
    atomic_store(&coxi_tracing_silent_ms, SOON_MS);
    open_dead(&crew, coxi_test_path("trace.json"));
    assert_code(COX_ETIMEDOUT, cox_trace_stop(crew.c));
    assert_error_names("does not answer");
    assert_false(coxi_trace_is_on());
    assert_code(0, cox_trace_start(crew.c, path));
    crew_schedule(&crew, crew_function(&crew, "count"), N, 1);
    assert_code(0, cox_join(crew.c, -1));
    assert_code(0, cox_trace_stop(crew.c));
    json_t *all = read_trace(path, true);
    assert_int_equal(N, trace_count(all, "count", COXI_TRACE_WORKER));
    json_decref(all);
    dead_disk_end();
    crew_close(&crew);
    coxi_test_until(dead_disk_has_left, thread, "the end of the thread left behind");
}

TEST(what_was_done_while_the_disk_did_not_answer_is_written_later)
{
    struct crew crew;
    const char *path = coxi_test_path("trace.json");
    open_dead(&crew, path);
    dead_disk_end();
    assert_code(0, cox_trace_stop(crew.c));
    crew_close(&crew);
    json_t *all = read_trace(path, true);
    assert_int_equal(0, trace_lost(all));
    assert_int_equal(N, trace_count(all, "count", COXI_TRACE_WORKER));
    json_decref(all);
    assert_int_equal(0, n_silent);
}
