/* What the daemons of a cluster serve over HTTP, beside cox_stats; while a step process
 * dies, too. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/coordinator/crew.h"
#include "tests/http/visitor.h"
#include "tests/test.h"

enum { N = 50 };

static void set(const char *name, const char *value)
{
    assert_int_equal(0, setenv(name, value, 1)); // NOLINT(concurrency-mt-unsafe)
}

static bool is_there(void *path)
{
    return access(path, F_OK) == 0;
}

/* The URL in a file that a daemon writes. Daemons listen before they serve over HTTP. */
static void read_url(const char *file, char ret[64])
{
    char *path = coxi_test_path(file);
    coxi_test_until(is_there, path, "a daemon that serves over HTTP");
    char *text = coxi_test_read(path, NULL);
    (void)snprintf(ret, 64, "%.*s", (int)strcspn(text, "\n"), text);
    free(text);
}

struct watched {
    struct crew crew;
    char ps[64];
    char worker[64];
};

/* A cluster of one ps and one worker; both serve, and so does the client. */
static void watched_open(struct watched *watched)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.http = "127.0.0.1:0";
    set("COX_PS_HTTP", "127.0.0.1:0");
    set("COX_PS_HTTP_FILE", coxi_test_path("ps.url"));
    set("COX_WORKER_HTTP", "127.0.0.1:0");
    set("COX_WORKER_HTTP_FILE", coxi_test_path("worker.url"));
    crew_open(&watched->crew, 1, 1, "counter", &options);
    read_url("ps.url", watched->ps);
    read_url("worker.url", watched->worker);
}

static double sample_of(const char *url, const char *sample)
{
    char *all = visitor_get(url, "/metrics");
    double value = visitor_sample(all, sample);
    free(all);
    return value;
}

static void assert_sample(const char *url, const char *sample, double expected)
{
    double value = sample_of(url, sample);
    if (value != expected) {
        fail_msg("%s is %f, not %f", sample, value, expected);
    }
}

TEST(metrics_of_daemons_are_what_cox_stats_says)
{
    struct watched watched;
    struct cox_stats stats = COX_STATS_INIT;
    watched_open(&watched);
    struct cox_variable *counter = crew_counter(&watched.crew, "c0");
    crew_schedule(&watched.crew, crew_function(&watched.crew, "count"), N, 1);
    assert_code(0, cox_join(watched.crew.c, -1));
    assert_int_equal(N, crew_read(&watched.crew, counter));
    assert_code(0, cox_stats(watched.crew.c, &stats));
    assert_int_equal(N, stats.done);
    assert_sample(watched.ps, "coxswain_ps_commits_total", (double)stats.commits);
    assert_sample(watched.ps, "coxswain_ps_values_bytes", (double)stats.ps_bytes);
    assert_sample(watched.ps, "coxswain_ps_table_rows", (double)stats.table_rows);
    assert_sample(watched.ps, "coxswain_ps_pulls_total", 1);
    assert_sample(watched.worker, "coxswain_worker_attempts_total{outcome=\"done\"}",
                  N);
    assert_sample(watched.worker, "coxswain_worker_attempts_total{outcome=\"failed\"}",
                  0);
    assert_sample(watched.worker, "coxswain_worker_step_seconds_count", N);
    assert_sample(watched.worker, "coxswain_worker_commit_seconds_count", N);
    assert_sample(watched.worker, "coxswain_worker_slots", 1);
    assert_sample(watched.worker, "coxswain_worker_step_process_up", 1);
    const char *client = cox_http_address(watched.crew.c);
    assert_sample(client, "coxswain_client_closures_done_total", N);
    assert_sample(client, "coxswain_client_closures_queued", 0);
    assert_sample(client, "coxswain_client_closures_in_flight", 0);
    assert_sample(client, "coxswain_client_workers_ready", 1);
    assert_sample(client, "coxswain_client_commits_total", (double)stats.commits);
    assert_sample(client, "coxswain_client_ps_values_bytes", (double)stats.ps_bytes);
    assert_sample(client, "coxswain_client_ps_answers{ps=\"0\"}", 1);
    /* of the N closures; another id was the variable's, another the module's */
    double timed = sample_of(client, "coxswain_client_dispatch_seconds_count");
    assert_true(timed >= N / 16 && timed <= N / 16 + 1);
    assert_sample(client, "coxswain_client_closure_seconds_count", timed);
    assert_sample(client, "coxswain_client_step_seconds_count{function=\"count\"}", N);
    assert_sample(client,
                  "coxswain_client_step_commit_seconds_count{function=\"count\"}", N);
    assert_true(
        sample_of(client, "coxswain_client_slots_seconds_total{doing=\"compute\"}") >=
        0);
    assert_true(sample_of(watched.worker,
                          "coxswain_worker_step_process_resident_memory_bytes") > 1e5);
    crew_close(&watched.crew);
}

TEST(a_step_that_fails_counts_as_failed)
{
    struct watched watched;
    watched_open(&watched);
    (void)crew_counter(&watched.crew, "c0");
    crew_schedule(&watched.crew, crew_function(&watched.crew, "count_and_fail"), 1, 1);
    assert_code(COX_ESTEP, cox_join(watched.crew.c, -1));
    assert_sample(watched.worker, "coxswain_worker_attempts_total{outcome=\"failed\"}",
                  1);
    crew_close(&watched.crew);
}

/* Another step process serves; the worker tells of it all the time. */
static bool is_back(void *arg)
{
    const struct watched *watched = arg;
    char *health = visitor_get(watched->worker, "/healthz");
    char *ready = visitor_ask(watched->worker, "/readyz", "");
    bool is =
        visitor_status(ready) == 200 &&
        sample_of(watched->worker, "coxswain_worker_step_processes_died_total") == 1;
    free(ready);
    free(health);
    return is;
}

TEST(a_worker_is_watched_on_while_its_step_process_is_started_again)
{
    struct watched watched;
    watched_open(&watched);
    (void)crew_counter(&watched.crew, "c0");
    struct cox_function *count = crew_function(&watched.crew, "count");
    crew_schedule(&watched.crew, count, N, 1);
    assert_code(0, cox_join(watched.crew.c, -1));
    crew_kill(crew_step_process(&watched.crew, 0));
    coxi_test_until(is_back, &watched, "another step process");
    crew_schedule(&watched.crew, count, N, 1);
    assert_code(0, cox_join(watched.crew.c, -1));
    assert_sample(watched.worker, "coxswain_worker_step_processes_started_total", 2);
    assert_sample(watched.worker, "coxswain_worker_attempts_total{outcome=\"done\"}",
                  2 * N);
    crew_close(&watched.crew);
}
