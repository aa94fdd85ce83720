/* Traces of real runs: their form, which viewers rely on, and what is in them. */
#include "coxswain/trace.h"

#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "common/trace.h"
#include "coordinator/monitor/trace_write.h"
#include "tests/coordinator/crew.h"
#include "tests/test.h"

enum { N = 30, PS = 2, WORKERS = 2 };

/* A trace that was read. */
struct read {
    json_t *all;
    size_t n_spans[COXI_TRACE_KINDS]; /* by the names below */
};

static const char *text_of(json_t *entry, const char *key)
{
    const char *text = json_string_value(json_object_get(entry, key));
    return text != NULL ? text : "";
}

static double number_of(json_t *entry, const char *key)
{
    json_t *number = json_object_get(entry, key);
    assert_true(json_is_number(number));
    return json_number_value(number);
}

static uint64_t closure_of(json_t *entry)
{
    return (uint64_t)json_integer_value(
        json_object_get(json_object_get(entry, "args"), "closure"));
}

/* What the format demands of an entry: docs of Chrome's trace events. */
static void check_entry(json_t *entry)
{
    const char *ph = text_of(entry, "ph");
    assert_true(json_is_integer(json_object_get(entry, "pid")));
    assert_true(json_is_integer(json_object_get(entry, "tid")));
    assert_true(*text_of(entry, "name") != '\0');
    if (strcmp(ph, "M") == 0) {
        assert_true(json_is_object(json_object_get(entry, "args")));
        return;
    }
    assert_true(number_of(entry, "ts") >= 0);
    if (strcmp(ph, "X") == 0) {
        assert_true(number_of(entry, "dur") >= 0);
        return;
    }
    assert_true(strcmp(ph, "s") == 0 || strcmp(ph, "f") == 0);
    assert_true(*text_of(entry, "id") != '\0' && *text_of(entry, "cat") != '\0');
    assert_true(strcmp(ph, "s") == 0 || strcmp(text_of(entry, "bp"), "e") == 0);
}

static json_t *read_trace(const char *path)
{
    json_error_t error;
    json_t *all = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (all == NULL) {
        fail_msg("%s: %s at %d", path, error.text, error.position);
    }
    assert_true(json_is_array(all) && json_array_size(all) > 1);
    for (size_t i = 0; i < json_array_size(all); i++) {
        check_entry(json_array_get(all, i));
    }
    json_t *last = json_array_get(all, json_array_size(all) - 1);
    assert_string_equal("coxswain", text_of(last, "name"));
    assert_int_equal(json_array_size(all) - 1,
                     (size_t)number_of(json_object_get(last, "args"), "written"));
    return all;
}

static bool is_of(json_t *entry, const char *ph, const char *name, int process)
{
    return strcmp(text_of(entry, "ph"), ph) == 0 &&
           strcmp(text_of(entry, "name"), name) == 0 &&
           (int)number_of(entry, "pid") / process == 1;
}

/* How many spans have that name, in processes of that kind. */
static size_t count(json_t *all, const char *name, int process)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(all); i++) {
        n += is_of(json_array_get(all, i), "X", name, process);
    }
    return n;
}

/* True if a process or thread of that name is there. */
static bool is_named(json_t *all, const char *what, const char *name)
{
    bool is = false;
    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *entry = json_array_get(all, i);
        is = is || (strcmp(text_of(entry, "name"), what) == 0 &&
                    strncmp(text_of(json_object_get(entry, "args"), "name"), name,
                            strlen(name)) == 0);
    }
    return is;
}

/* The span of the thread of an arrow's end in which that end lies. */
static json_t *span_at(json_t *all, json_t *end)
{
    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *entry = json_array_get(all, i);
        if (strcmp(text_of(entry, "ph"), "X") == 0 &&
            number_of(entry, "pid") == number_of(end, "pid") &&
            number_of(entry, "tid") == number_of(end, "tid") &&
            number_of(entry, "ts") == number_of(end, "ts")) {
            return entry;
        }
    }
    return NULL;
}

/* Every arrow that begins has one end, on a ps, not before it; those of commits join
 * spans of the same closure. Returns how many there are. */
static size_t check_arrows(json_t *all, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *from = json_array_get(all, i);
        if (!is_of(from, "s", name, COXI_TRACE_WORKER)) {
            continue;
        }
        size_t ends = 0;
        for (size_t k = 0; k < json_array_size(all); k++) {
            json_t *to = json_array_get(all, k);
            if (is_of(to, "f", name, COXI_TRACE_PS) &&
                strcmp(text_of(to, "id"), text_of(from, "id")) == 0) {
                json_t *asks = span_at(all, from);
                json_t *does = span_at(all, to);
                assert_true(asks != NULL && does != NULL);
                assert_true(number_of(to, "ts") >= number_of(from, "ts"));
                assert_true(closure_of(asks) != 0);
                assert_true(closure_of(does) == 0 ||
                            closure_of(does) == closure_of(asks));
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
    json_t *all = read_trace(path);
    json_t *last = json_array_get(all, json_array_size(all) - 1);
    assert_int_equal(0, (int)number_of(json_object_get(last, "args"), "lost"));
    assert_true(is_named(all, "process_name", "client"));
    assert_true(is_named(all, "process_name", "ps 1"));
    assert_true(is_named(all, "process_name", "worker 0") ||
                is_named(all, "process_name", "worker 1"));
    assert_true(is_named(all, "thread_name", "cox:slot"));
    assert_true(is_named(all, "thread_name", "cox:loop"));
    assert_int_equal(N, count(all, "carry", COXI_TRACE_WORKER));
    assert_true(count(all, "dispatch", COXI_TRACE_CLIENT) > 0);
    assert_true(count(all, "reports", COXI_TRACE_CLIENT) > 0);
    assert_true(count(all, "turn", COXI_TRACE_CLIENT) > 0);
    assert_int_equal(N, count(all, "ask for values", COXI_TRACE_WORKER));
    assert_int_equal(N, count(all, "send commit", COXI_TRACE_WORKER));
    assert_true(count(all, "pull", COXI_TRACE_PS) >= N);
    assert_int_equal(N, count(all, "commit", COXI_TRACE_PS));
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
    json_t *all = read_trace(path);
    assert_true(count(all, "carry", COXI_TRACE_WORKER) > 0);
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
        json_t *all = read_trace(path);
        assert_int_equal(0, count(all, "nothing", COXI_TRACE_WORKER));
        assert_int_equal(N, count(all, "carry", COXI_TRACE_WORKER));
        assert_true(count(all, "dispatch", COXI_TRACE_CLIENT) > 0);
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
    json_t *all = read_trace(path);
    assert_true(count(all, "carry", COXI_TRACE_WORKER) > 0);
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
