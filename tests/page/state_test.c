/* page/state: the newest of everything that records say. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "page/state.h"
#include "tests/test.h"

static json_t *state_of(const char *lines)
{
    struct coxi_state *state;
    assert_code(0, coxi_state_new(&state));
    coxi_state_take(state, lines, strlen(lines));
    json_t *whole = coxi_state_json(state);
    assert_non_null(whole);
    coxi_state_free(state);
    return whole;
}

static const char *text_at(json_t *list, size_t i, const char *name)
{
    return json_string_value(json_object_get(json_array_get(list, i), name));
}

TEST(a_state_without_records_says_nothing)
{
    json_t *whole = state_of("");
    assert_int_equal(0, json_integer_value(json_object_get(whole, "seq")));
    assert_true(json_is_null(json_object_get(whole, "run")));
    assert_true(json_is_null(json_object_get(whole, "config")));
    assert_int_equal(0, json_array_size(json_object_get(whole, "workers")));
    json_decref(whole);
}

TEST(the_newest_of_each_kind_counts)
{
    json_t *whole =
        state_of("{\"seq\":1,\"t\":1,\"kind\":\"sample\",\"done\":1}\n"
                 "{\"seq\":2,\"t\":2,\"kind\":\"sample\",\"done\":7}\n"
                 "{\"seq\":3,\"t\":2,\"kind\":\"config\",\"config\":{\"a\":1}}\n"
                 "{\"seq\":2,\"t\":9,\"kind\":\"sample\",\"done\":9}\n");
    json_t *sample = json_object_get(whole, "sample");
    json_t *config = json_object_get(whole, "config");
    assert_int_equal(7, json_integer_value(json_object_get(sample, "done")));
    assert_int_equal(1, json_integer_value(json_object_get(config, "a")));
    assert_int_equal(3, json_integer_value(json_object_get(whole, "seq")));
    json_decref(whole);
}

TEST(changes_of_workers_are_merged_and_in_order)
{
    json_t *whole = state_of("{\"seq\":1,\"kind\":\"workers\",\"workers\":[{\"index\":"
                             "10,\"state\":\"ready\"},"
                             "{\"index\":2,\"state\":\"ready\",\"address\":\"a\"}]}\n"
                             "{\"seq\":2,\"kind\":\"workers\",\"workers\":[{\"index\":"
                             "2,\"state\":\"away\"}]}\n");
    json_t *workers = json_object_get(whole, "workers");
    assert_int_equal(2, json_array_size(workers));
    assert_string_equal("away", text_at(workers, 0, "state"));
    assert_string_equal("a", text_at(workers, 0, "address"));
    assert_string_equal("ready", text_at(workers, 1, "state"));
    json_decref(whole);
}

TEST(the_workers_of_an_older_client_are_forgotten)
{
    json_t *whole =
        state_of("{\"seq\":1,\"kind\":\"workers\",\"workers\":[{\"index\":0}]}\n"
                 "{\"seq\":2,\"kind\":\"run\",\"run\":\"a\"}\n");
    assert_int_equal(0, json_array_size(json_object_get(whole, "workers")));
    json_decref(whole);
}

TEST(a_scalar_has_its_newest_value_for_each_source)
{
    json_t *whole = state_of(
        "{\"seq\":1,\"kind\":\"scalar\",\"name\":\"<b>\",\"source\":\"eval\",\"step\":"
        "1,"
        "\"value\":0.5}\n"
        "{\"seq\":2,\"kind\":\"scalar\",\"name\":\"<b>\",\"source\":\"f\",\"step\":1,"
        "\"value\":1}\n"
        "{\"seq\":3,\"kind\":\"scalar\",\"name\":\"<b>\",\"source\":\"f\",\"step\":2,"
        "\"value\":\"NaN\"}\n");
    json_t *sources = json_object_get(json_object_get(whole, "scalars"), "<b>");
    json_t *eval = json_object_get(sources, "eval");
    json_t *step = json_object_get(sources, "f");
    assert_true(json_real_value(json_object_get(eval, "value")) == 0.5);
    assert_string_equal("NaN", json_string_value(json_object_get(step, "value")));
    assert_int_equal(2, json_integer_value(json_object_get(step, "step")));
    json_decref(whole);
}

TEST(lines_that_are_no_records_are_skipped)
{
    json_t *whole = state_of("{\"seq\":1,\"kind\":\"sam\n\n[]\n7\n{}\n"
                             "{\"seq\":\"x\",\"kind\":1}\n"
                             "{\"seq\":2,\"kind\":\"workers\",\"workers\":7}\n"
                             "{\"seq\":3,\"kind\":\"workers\",\"workers\":[7,{}]}\n"
                             "{\"seq\":4,\"kind\":\"scalar\",\"name\":7}\n"
                             "{\"seq\":5,\"kind\":\"sample\",\"done\":1}");
    assert_int_equal(5, json_integer_value(json_object_get(whole, "seq")));
    assert_true(json_is_object(json_object_get(whole, "sample")));
    json_decref(whole);
}

/* What is told of a client that began and sampled so many seconds ago; `more`: members of its
 * sample. NULL: null. */
static void assert_client(const char *client, int began_s, int sampled_s,
                          const char *more)
{
    char lines[512];
    long now = (long)time(NULL);
    (void)snprintf(lines, sizeof(lines),
                   "{\"seq\":1,\"t\":%ld,\"kind\":\"run\",\"run\":\"a\",\"pid\":1}\n"
                   "{\"seq\":2,\"t\":%ld,\"kind\":\"sample\",\"done\":1%s}\n",
                   now - began_s, now - sampled_s, more);
    json_t *whole = state_of(lines);
    assert_string_equal(client, json_string_value(json_object_get(whole, "client")));
    json_decref(whole);
}

TEST(a_client_on_another_host_is_known_by_the_age_of_its_records)
{
    enum { DAY_S = 86400 };
    assert_client("running", 5, 1, "");
    assert_client("silent", 60, 12, "");
    assert_client("running", DAY_S, 25, ""); /* of an old run there are fewer */
    assert_client("silent", DAY_S, 60, "");
    assert_client("closed", DAY_S, 60, ",\"over\":true");
    json_t *whole = state_of("");
    assert_true(json_is_null(json_object_get(whole, "client")));
    json_decref(whole);
}

/* Its clock was set back by half a day since the client began. */
TEST(a_clock_that_is_set_back_makes_no_client_silent)
{
    assert_client("running", -43200, 1, "");
}

/* cox_open serves before it has connected anybody. */
TEST(a_client_that_serves_and_has_no_record_yet_is_being_opened)
{
    char lines[512];
    long now = (long)time(NULL);
    (void)snprintf(lines, sizeof(lines),
                   "{\"seq\":1,\"t\":1,\"kind\":\"run\",\"run\":\"a\",\"pid\":1}\n"
                   "{\"seq\":2,\"t\":1,\"kind\":\"sample\",\"over\":true}\n"
                   "{\"seq\":3,\"t\":%ld,\"kind\":\"event\",\"code\":\"serves\"}\n",
                   now);
    json_t *whole = state_of(lines);
    assert_string_equal("opening", json_string_value(json_object_get(whole, "client")));
    json_decref(whole);
}

TEST(a_client_that_could_not_be_opened_could_not_go_on)
{
    json_t *whole = state_of("{\"seq\":1,\"t\":1,\"kind\":\"run\",\"run\":\"a\"}\n"
                             "{\"seq\":2,\"t\":1,\"kind\":\"sample\",\"over\":true,"
                             "\"opened\":false}\n");
    assert_string_equal("closed", json_string_value(json_object_get(whole, "client")));
    assert_true(json_is_true(json_object_get(whole, "run_over")));
    json_decref(whole);
}

TEST(a_run_is_over_until_another_client_begins)
{
    static const char run[] = "{\"seq\":3,\"t\":1,\"kind\":\"run\",\"run\":\"a\"}\n";
    static const char events[] =
        "{\"seq\":1,\"t\":1,\"kind\":\"event\",\"code\":\"run_over\"}\n"
        "{\"seq\":2,\"t\":1,\"kind\":\"event\",\"code\":\"ps_lost\"}\n";
    char both[512];
    (void)snprintf(both, sizeof(both), "%s%s", events, run);
    json_t *whole = state_of(events);
    assert_true(json_is_true(json_object_get(whole, "run_over")));
    json_decref(whole);
    whole = state_of(both);
    assert_true(json_is_false(json_object_get(whole, "run_over")));
    json_decref(whole);
}
