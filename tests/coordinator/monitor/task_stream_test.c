/* The task stream, from real workers and from the ring alone. */
#include "coordinator/monitor/tasks.h"

#include <jansson.h>
#include <stdio.h>
#include <time.h>

#include "common/clock.h"
#include "coordinator/base/task_stream.h"
#include "coordinator/workers/module.h"
#include "tests/coordinator/crew.h"
#include "tests/test.h"

enum { N = 40, WORKERS = 2, SLOTS = 2 };

/* What the stream tells after `since`; for json_decref. */
static json_t *tasks_of(struct cox_coordinator *c, uint64_t since)
{
    struct coxi_buffer out = {0};
    assert_code(0, coxi_trace_tasks_json(c, since, &out));
    assert_null(memchr(out.data, '\n', out.len));
    json_t *json =
        json_loadb((const char *)out.data, out.len, JSON_REJECT_DUPLICATES, NULL);
    coxi_buffer_fini(&out);
    assert_non_null(json);
    return json;
}

static uint64_t next_of(json_t *json)
{
    return (uint64_t)json_integer_value(json_object_get(json, "next"));
}

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A task's fields: worker, slot, function, begin, run time, outcome. */
static double field(json_t *task, size_t i)
{
    return json_number_value(json_array_get(task, i));
}

/* When a task began, and ended. */
static double begin_s(json_t *json, json_t *task)
{
    return 1e-6 * (json_number_value(json_object_get(json, "at")) + field(task, 3));
}

static double end_s(json_t *json, json_t *task)
{
    return begin_s(json, task) + 1e-6 * field(task, 4);
}

TEST(tasks_are_told_once_somebody_watches)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.worker_slots = SLOTS;
    crew_open(&crew, 1, WORKERS, "hold", &options);
    crew_schedule(&crew, crew_function(&crew, "nothing"), N, 0);
    assert_code(0, cox_join(crew.c, -1));
    json_t *json = tasks_of(crew.c, 0); /* nobody has watched */
    assert_int_equal(0, json_array_size(json_object_get(json, "tasks")));
    uint64_t next = next_of(json);
    json_decref(json);
    double begun = now_s();
    crew_schedule(&crew, crew_function(&crew, "nothing"), N, 0);
    assert_code(0, cox_join(crew.c, -1));
    double ended = now_s();
    json = tasks_of(crew.c, next);
    json_t *tasks = json_object_get(json, "tasks");
    json_t *functions = json_object_get(json, "functions");
    assert_int_equal(N, json_array_size(tasks));
    assert_int_equal(1, json_array_size(functions));
    assert_string_equal("nothing", json_string_value(json_array_get(functions, 0)));
    for (size_t i = 0; i < N; i++) {
        json_t *task = json_array_get(tasks, i);
        assert_int_equal(6, json_array_size(task));
        assert_true(field(task, 0) < WORKERS && field(task, 1) < SLOTS);
        assert_true(begin_s(json, task) >= begun - 0.001);
        assert_true(end_s(json, task) <= ended + 0.001);
        assert_int_equal(0, (int)field(task, 5));
    }
    uint64_t after = next_of(json);
    assert_int_equal(next + N, after);
    json_decref(json);
    json = tasks_of(crew.c, after);
    assert_int_equal(0, json_array_size(json_object_get(json, "tasks")));
    assert_int_equal(after, next_of(json));
    json_decref(json);
    crew_close(&crew);
}

TEST(a_step_that_fails_is_a_task_with_its_code)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.keep_going = 1;
    crew_open(&crew, 1, 1, "hold", &options);
    json_decref(tasks_of(crew.c, 0));
    crew_schedule(&crew, crew_function(&crew, "fail"), 1, 0);
    assert_code(0, cox_join(crew.c, -1));
    json_t *json = tasks_of(crew.c, 0);
    json_t *task = json_array_get(json_object_get(json, "tasks"), 0);
    assert_int_equal(COX_ESTEP, (int)field(task, 5));
    json_decref(json);
    crew_close(&crew);
}

/* ---- the bounds */

static void fill(struct cox_coordinator *c, const struct cox_function *function, int n,
                 uint64_t begin_us)
{
    const struct coxi_task_stream_span span = {.function = function,
                                               .begin_us = begin_us};
    for (int i = 0; i < n; i++) {
        coxi_task_stream_look(&c->task_stream);
        if (coxi_task_stream_takes(&c->task_stream)) {
            coxi_task_stream_add(&c->task_stream, &span);
        }
    }
}

TEST(a_second_has_a_most_and_old_tasks_are_not_told)
{
    enum { MORE = 3 * COXI_TASK_STREAM_SECOND };
    static const struct cox_function function = {.name = "\"quoted\""};
    struct cox_coordinator *c = calloc(1, sizeof(*c));
    assert_non_null(c);
    coxi_task_stream_init(&c->task_stream);
    json_decref(tasks_of(c, 0));
    uint64_t now_us = coxi_now_us();
    uint64_t old_us = now_us - (uint64_t)(COXI_TASK_STREAM_KEPT_MS + 1) * 1000;
    fill(c, &function, 1, now_us > old_us ? old_us : 0);
    fill(c, &function, MORE, now_us);
    json_t *json = tasks_of(c, 0);
    size_t told = json_array_size(json_object_get(json, "tasks"));
    json_int_t skipped = json_integer_value(json_object_get(json, "skipped"));
    assert_true(told >= COXI_TASK_STREAM_SECOND - 1); /* or more, in two seconds */
    assert_true(told <= 2 * COXI_TASK_STREAM_SECOND);
    assert_int_equal(MORE, told + (size_t)skipped);
    assert_string_equal("\"quoted\"", json_string_value(json_array_get(
                                          json_object_get(json, "functions"), 0)));
    json_decref(json);
    coxi_task_stream_fini(&c->task_stream);
    free(c);
}
