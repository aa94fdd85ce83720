/* What the client serves over HTTP. */
#include <stdio.h>
#include <string.h>

#include "common/sync.h"
#include "tests/coordinator/crew.h"
#include "tests/http/visitor.h"
#include "tests/test.h"

static struct cox_options serving(void)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.http = "127.0.0.1:0";
    return options;
}

static void assert_status(const char *url, const char *path, int status,
                          const char *body)
{
    char *answer = visitor_ask(url, path, "");
    assert_int_equal(status, visitor_status(answer));
    assert_string_equal(body, visitor_body(answer));
    free(answer);
}

TEST(a_client_that_is_open_is_healthy_and_ready)
{
    struct crew crew;
    struct cox_options options = serving();
    crew_open(&crew, 1, 1, "counter", &options);
    const char *url = cox_http_address(crew.c);
    assert_non_null(url);
    assert_status(url, "/healthz", 200, "ok\n");
    assert_status(url, "/readyz", 200, "ok\n");
    crew_close(&crew);
}

TEST(a_client_without_the_option_serves_nothing)
{
    struct crew crew;
    crew_open(&crew, 1, 1, "counter", NULL);
    assert_null(cox_http_address(crew.c));
    assert_null(cox_http_address(NULL));
    crew_close(&crew);
}

TEST(the_environment_says_where_a_client_serves)
{
    struct crew crew;
    // NOLINTNEXTLINE(concurrency-mt-unsafe)
    assert_int_equal(0, setenv("COX_HTTP", "127.0.0.1:0", 1));
    crew_open(&crew, 1, 1, "counter", NULL);
    assert_status(cox_http_address(crew.c), "/healthz", 200, "ok\n");
    crew_close(&crew);
}

TEST(an_address_that_others_reach_needs_the_word_for_it)
{
    struct cox_cluster *cluster;
    struct cox_options options = COX_OPTIONS_INIT;
    struct crew crew;
    options.http = "0.0.0.0:0";
    assert_code(0, cox_cluster_local(1, 1, &cluster));
    crew_refused(cluster, &options, COX_EADDRESS, "cox_options.http");
    cox_cluster_free(cluster);
    options.http_open = 1;
    crew_open(&crew, 1, 1, "counter", &options);
    assert_non_null(strstr(cox_http_address(crew.c), "http://0.0.0.0:"));
    crew_close(&crew);
}

/* A lost ps ends the run, because there is no directory for checkpoints. */
static bool is_over(void *arg)
{
    struct cox_stats stats = COX_STATS_INIT;
    struct crew *crew = arg;
    assert_code(0, cox_stats(crew->c, &stats));
    return cox_done(crew->c) == COX_EPSLOST;
}

TEST(a_run_that_is_over_is_healthy_and_not_ready)
{
    struct crew crew;
    struct cox_options options = serving();
    crew_open(&crew, 1, 1, "counter", &options);
    char url[64];
    (void)snprintf(url, sizeof(url), "%s", cox_http_address(crew.c));
    crew_kill(crew_ps_process(&crew, 0));
    coxi_test_until(is_over, &crew, "the end of the run");
    char *answer = visitor_ask(url, "/readyz", "");
    assert_int_equal(503, visitor_status(answer));
    assert_non_null(strstr(visitor_body(answer), "ps 0"));
    free(answer);
    assert_status(url, "/healthz", 200, "ok\n");
    crew_close(&crew);
}

static bool is_ready(void *arg)
{
    char *answer = visitor_ask(arg, "/readyz", "");
    bool is = visitor_status(answer) == 200;
    free(answer);
    return is;
}

/* Asks while cox_open waits. */
static void look_at_serves(void *arg, const struct cox_event *event)
{
    char url[128] = "";
    if (event->code == COX_EVENT_SERVES) {
        const char *at = strstr(event->text, "http://");
        assert_non_null(at);
        (void)snprintf(url, sizeof(url), "%.*s", (int)strcspn(at + 7, "/") + 7, at);
        assert_status(url, "/healthz", 200, "ok\n");
        free(visitor_get(url, "/metrics"));
        coxi_test_until(is_ready, url, "a client that is ready without peers");
        *(bool *)arg = true;
    }
}

TEST(a_client_that_waits_for_its_cluster_is_healthy_and_ready)
{
    struct cox_cluster *cluster;
    struct cox_options options = serving();
    char json[512];
    bool looked = false;
    options.open_timeout_ms = 4000; /* nobody is there */
    options.on_event = look_at_serves;
    options.event_arg = &looked;
    (void)snprintf(json, sizeof(json),
                   "{\"ps\": [\"ipc://%s\"], \"worker\": [\"ipc://%s\"]}",
                   coxi_test_path("ps"), coxi_test_path("worker"));
    assert_code(0, cox_cluster_parse(json, &cluster));
    crew_refused(cluster, &options, COX_ETIMEDOUT, "ps");
    cox_cluster_free(cluster);
    assert_true(looked);
}

static bool tells_both(void *arg)
{
    char *state = visitor_get(arg, "/api/state");
    bool does = strstr(state, "\"count\":{") != NULL &&
                strstr(state, "\"count (2)\":{") != NULL;
    free(state);
    return does;
}

/* Two of one name would make the text invalid, and so a record that nobody can read. */
TEST(functions_of_equal_names_in_two_modules_are_told_apart)
{
    struct crew crew;
    struct cox_module *again;
    struct cox_function *count;
    struct cox_options options = serving();
    crew_open(&crew, 1, 1, "counter", &options);
    char *url = (char *)(uintptr_t)cox_http_address(crew.c);
    (void)crew_counter(&crew, "c0");
    assert_code(0, cox_module_load(crew.c, coxi_test_module("counter"), &again));
    assert_code(0, cox_function_get(again, "count", &count));
    crew_schedule(&crew, crew_function(&crew, "count"), 10, 1);
    crew_schedule(&crew, count, 10, 1);
    assert_code(0, cox_join(crew.c, -1));
    char *metrics = visitor_get(url, "/metrics");
    assert_true(visitor_sample(metrics, "coxswain_client_step_seconds_count{"
                                        "function=\"count\"}") == 10);
    assert_true(visitor_sample(metrics, "coxswain_client_step_seconds_count{"
                                        "function=\"count (2)\"}") == 10);
    free(metrics);
    coxi_test_until(tells_both, url, "a state that tells of both");
    crew_close(&crew);
}

/* The strings of options, each in memory of its own, so that a use after free is seen. */
static void open_with_own_strings(struct crew *crew)
{
    struct cox_cluster *cluster;
    struct cox_options options = COX_OPTIONS_INIT;
    char *texts[] = {
        strdup(coxi_test_path("checkpoints")),
        strdup(coxi_test_path("logs")),
        strdup(coxi_test_bin()),
        strdup("127.0.0.1:0"),
        strdup("127.0.0.1:0"),
        strdup(coxi_test_path("board")),
        strdup(coxi_test_path("trace.json")),
        strdup("ps"),
        strdup("off"),
    };
    const char **fields[] = {
        &options.checkpoint_dir, &options.log_dir,        &options.bin_dir,
        &options.listen,         &options.http,           &options.tensorboard_dir,
        &options.trace,          &options.checkpoint_via, &options.seal};
    _Static_assert(sizeof(texts) == sizeof(fields), "a text for each field");
    (void)snprintf(crew->log_dir, sizeof(crew->log_dir), "%s", coxi_test_path("logs"));
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
        assert_non_null(texts[i]);
        *fields[i] = texts[i];
    }
    assert_code(0, cox_cluster_local(1, 1, &cluster));
    assert_code(0, cox_open(cluster, &options, &crew->c));
    cox_cluster_free(cluster);
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        free(texts[i]);
    }
}

TEST(a_client_keeps_its_own_copies_of_the_strings_of_options)
{
    struct crew crew;
    open_with_own_strings(&crew);
    const char *url = cox_http_address(crew.c);
    struct cox_variable *counter = crew_counter(&crew, "total");
    char *logs = visitor_get(url, "/api/logs");
    assert_non_null(strstr(logs, "ps-0"));
    free(logs);
    free(visitor_get(url, "/api/state"));
    free(visitor_get(url, "/metrics"));
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    assert_int_equal(0, crew_read(&crew, counter));
    crew_close(&crew);
    size_t len;
    free(coxi_test_read(coxi_test_path("trace.json"), &len));
    assert_true(len > 0);
}
