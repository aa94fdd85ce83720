/* Runs with a key: members accept each other, and refuse everybody without the key. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/key.h"
#include "net/link.h"
#include "tests/coordinator/crew.h"
#include "tests/program.h"
#include "tests/test.h"

enum { OPEN_MS = 2000 };

/* A ps and a worker with a key, at addresses that anybody on this host can dial. */
struct guarded {
    const char *key;
    const char *reader_key;
    char ps_url[256];
    struct program ps;
    struct program worker;
    char json[1024];
    struct cox_cluster *cluster;
};

static void guarded_open(struct guarded *guarded)
{
    char worker[256];
    struct coxi_key key;
    guarded->key = coxi_test_path("run.key");
    guarded->reader_key = coxi_test_path("reader.key");
    assert_code(0, coxi_key_new(guarded->key));
    assert_code(0, coxi_key_read(guarded->key, &key));
    assert_code(0, coxi_key_new_reader(guarded->reader_key, &key));
    assert_int_equal(0, setenv("COX_KEY_FILE", guarded->key, 1));
    daemon_start(&guarded->ps, "coxswain-ps", 0, "tcp://127.0.0.1:0", guarded->ps_url);
    daemon_start(&guarded->worker, "coxswain-worker", 0, "tcp://127.0.0.1:0", worker);
    assert_int_equal(0, unsetenv("COX_KEY_FILE"));
    (void)snprintf(guarded->json, sizeof(guarded->json),
                   "{\"ps\": [\"%s\"], \"worker\": [\"%s\"]}", guarded->ps_url, worker);
    assert_code(0, cox_cluster_parse(guarded->json, &guarded->cluster));
}

static void guarded_close(struct guarded *guarded)
{
    program_kill(&guarded->ps, SIGTERM);
    program_kill(&guarded->worker, SIGTERM);
    (void)program_wait(&guarded->ps);
    (void)program_wait(&guarded->worker);
    cox_cluster_free(guarded->cluster);
}

/* Trains a little, so that a run with these options works from end to end. */
static void train(const struct cox_cluster *cluster, const struct cox_options *options)
{
    struct crew crew = {0};
    assert_code(0, cox_open(cluster, options, &crew.c));
    assert_code(0, cox_module_load(crew.c, coxi_test_module("counter"), &crew.module));
    struct cox_variable *counter = crew_counter(&crew, "c0");
    crew_schedule(&crew, crew_function(&crew, "count"), 20, 1);
    assert_code(0, cox_join(crew.c, 8000));
    assert_int_equal(20, crew_read(&crew, counter));
    assert_code(0, cox_close(crew.c, 8000));
}

static struct cox_options with_key(const char *key)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.key_file = key;
    options.open_timeout_ms = OPEN_MS;
    return options;
}

TEST(a_run_with_a_key_trains)
{
    struct guarded guarded;
    guarded_open(&guarded);
    struct cox_options options = with_key(guarded.key);
    options.open_timeout_ms = 30000;
    train(guarded.cluster, &options);
    guarded_close(&guarded);
}

/* At exit the crypto library would otherwise free what threads of ours still use. */
TEST(a_program_may_exit_while_it_trains)
{
    struct guarded guarded;
    /* so that every message is sealed */
    assert_int_equal(0, setenv("COX_PS_LOCAL_PATH", "off", 1));
    assert_int_equal(0, setenv("COX_WORKER_LOCAL_PATH", "off", 1));
    guarded_open(&guarded);
    const char *const argv[] = {"client_exits", guarded.json, guarded.key,
                                coxi_test_module("counter"), NULL};
    for (int i = 0; i < 10; i++) {
        struct program program;
        assert_int_equal(0, program_run(&program, argv));
    }
    guarded_close(&guarded);
}

TEST(a_local_cluster_with_a_key_trains)
{
    struct cox_cluster *cluster;
    const char *key = coxi_test_path("run.key");
    assert_code(0, coxi_key_new(key));
    struct cox_options options = with_key(key);
    options.open_timeout_ms = 30000;
    options.bin_dir = coxi_test_bin();
    assert_code(0, cox_cluster_local(1, 1, &cluster));
    train(cluster, &options);
    cox_cluster_free(cluster);
}

TEST(a_reader_with_the_key_of_readers_reads)
{
    struct guarded guarded;
    struct crew crew = {0};
    struct cox_reader *reader;
    int64_t value = 0;
    guarded_open(&guarded);
    const struct cox_options options = with_key(guarded.key);
    assert_code(0, cox_open(guarded.cluster, &options, &crew.c));
    (void)crew_counter(&crew, "c0");
    struct cox_reader_options reading = COX_READER_OPTIONS_INIT;
    reading.key_file = guarded.reader_key;
    assert_code(0, cox_reader_open(guarded.cluster, &reading, &reader));
    assert_code(0, cox_reader_read(reader, "c0", &value, sizeof(value)));
    assert_int_equal(0, value);
    cox_reader_close(reader);
    assert_code(0, cox_close(crew.c, 8000));
    guarded_close(&guarded);
}

/* ---- attacks */

TEST(a_client_without_the_key_opens_nothing)
{
    struct guarded guarded;
    guarded_open(&guarded);
    const struct cox_options options = with_key(NULL);
    crew_refused(guarded.cluster, &options, COX_ETIMEDOUT, "it has a key");
    guarded_close(&guarded);
}

/* The worker's log says why it was refused; the ps's log says who tried to connect. */
TEST(a_worker_without_the_key_is_told_why)
{
    struct guarded guarded;
    struct program stranger;
    char dial[300];
    guarded_open(&guarded);
    (void)snprintf(dial, sizeof(dial), "--client=%s", guarded.ps_url);
    const char *const argv[] = {"coxswain-worker", dial, "--insecure", NULL};
    program_start(&stranger, argv);
    program_wait_printed(&stranger, "event=not_reached");
    program_wait_printed(&stranger, "it has a key");
    program_wait_printed(&guarded.ps, " peer=127.0.0.1:");
    program_kill(&stranger, SIGTERM);
    (void)program_wait(&stranger);
    guarded_close(&guarded);
}

/* Its log says so: the operator sees the daemon that lacks the key. */
TEST(a_daemon_that_has_no_key_says_that_its_peer_has_one)
{
    struct program ps;
    struct cox_cluster *cluster;
    char address[256];
    char json[600];
    const char *key = coxi_test_path("run.key");
    assert_code(0, coxi_key_new(key));
    const struct cox_options options = with_key(key);
    const char *const argv[] = {"coxswain-ps", "--listen=127.0.0.1:0", "--insecure",
                                NULL};
    program_start(&ps, argv);
    program_wait_address(&ps, address);
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"], \"worker\": [\"%s\"]}",
                   address, address);
    assert_code(0, cox_cluster_parse(json, &cluster));
    crew_refused(cluster, &options, COX_EDENIED, "another key, or none");
    program_wait_printed(&ps, "the peer has a key, and we have none");
    cox_cluster_free(cluster);
    program_kill(&ps, SIGTERM);
    (void)program_wait(&ps);
}

TEST(a_client_with_another_key_opens_nothing)
{
    struct guarded guarded;
    const char *other = coxi_test_path("other.key");
    guarded_open(&guarded);
    assert_code(0, coxi_key_new(other));
    struct cox_options options = with_key(other);
    crew_refused(guarded.cluster, &options, COX_EDENIED, "has another key");
    guarded_close(&guarded);
}

/* After some seconds there is no doubt, and more time would change nothing. */
TEST(a_client_with_another_key_does_not_wait_for_all_its_time)
{
    struct guarded guarded;
    const char *other = coxi_test_path("other.key");
    guarded_open(&guarded);
    assert_code(0, coxi_key_new(other));
    struct cox_options options = with_key(other);
    options.open_timeout_ms = 3600000;
    crew_refused(guarded.cluster, &options, COX_EDENIED, "has another key");
    guarded_close(&guarded);
}

/* The ps has the client's key, but the worker has another. */
TEST(a_worker_with_another_key_is_named)
{
    struct guarded guarded;
    struct program stranger;
    struct cox_cluster *cluster;
    char worker[256];
    char json[1024];
    const char *other = coxi_test_path("other.key");
    guarded_open(&guarded);
    assert_code(0, coxi_key_new(other));
    assert_int_equal(0, setenv("COX_KEY_FILE", other, 1));
    daemon_start(&stranger, "coxswain-worker", 0, "tcp://127.0.0.1:0", worker);
    assert_int_equal(0, unsetenv("COX_KEY_FILE"));
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"], \"worker\": [\"%s\"]}",
                   guarded.ps_url, worker);
    assert_code(0, cox_cluster_parse(json, &cluster));
    struct cox_options options = with_key(guarded.key);
    options.open_timeout_ms = 3600000;
    crew_refused(cluster, &options, COX_EDENIED, worker);
    cox_cluster_free(cluster);
    program_kill(&stranger, SIGTERM);
    (void)program_wait(&stranger);
    guarded_close(&guarded);
}

TEST(a_reader_with_another_key_does_not_wait_for_all_its_time)
{
    struct guarded guarded;
    struct cox_reader *reader;
    struct cox_reader_options reading = COX_READER_OPTIONS_INIT;
    guarded_open(&guarded);
    reading.key_file = coxi_test_path("other.key");
    reading.timeout_ms = 3600000;
    assert_code(0, coxi_key_new(reading.key_file));
    assert_code(COX_EDENIED, cox_reader_open(guarded.cluster, &reading, &reader));
    guarded_close(&guarded);
}

static void keep_event(void *arg, const struct cox_event *event)
{
    if (event->code == COX_EVENT_CONNECTION_DENIED) {
        (void)snprintf(arg, 512, "%s: %s", event->name, event->text);
    }
}

/* One event says who was denied; standard error gets nothing from the library. */
TEST(a_stranger_at_the_client_s_door_is_an_event)
{
    struct guarded guarded;
    struct crew crew = {0};
    struct coxi_link *link;
    char text[512] = "";
    const struct coxi_guard stranger = {.key = {.kind = COXI_KEY_RUN, .secret = {7}},
                                        .self = {.role = COXI_ROLE_WORKER}};
    guarded_open(&guarded);
    struct cox_options options = with_key(guarded.key);
    options.open_timeout_ms = 30000;
    options.listen = "tcp://127.0.0.1:0";
    options.on_event = keep_event;
    options.event_arg = text;
    assert_code(0, cox_open(guarded.cluster, &options, &crew.c));
    for (int i = 0; i < 5; i++) {
        assert_code(COX_EDENIED, coxi_link_connect(cox_listen_address(crew.c),
                                                   &stranger, 8000, &link));
    }
    assert_code(0, cox_close(crew.c, 8000)); /* after all events */
    assert_non_null(
        strstr(text, "connection_denied: a connection to tcp://127.0.0.1:"));
    assert_non_null(strstr(text, "from 127.0.0.1:"));
    assert_non_null(strstr(text, "another key"));
    guarded_close(&guarded);
}

TEST(a_reader_s_key_makes_no_client)
{
    struct guarded guarded;
    guarded_open(&guarded);
    const struct cox_options options = with_key(guarded.reader_key);
    crew_refused(guarded.cluster, &options, COX_EINVAL, "key of readers");
    guarded_close(&guarded);
}

TEST(a_reader_without_the_key_reads_nothing)
{
    struct guarded guarded;
    struct cox_reader *reader;
    struct cox_reader_options reading = COX_READER_OPTIONS_INIT;
    reading.timeout_ms = OPEN_MS;
    guarded_open(&guarded);
    assert_code(COX_ETIMEDOUT, cox_reader_open(guarded.cluster, &reading, &reader));
    guarded_close(&guarded);
}

TEST(a_key_that_others_may_read_opens_nothing)
{
    struct guarded guarded;
    guarded_open(&guarded);
    assert_int_equal(0, chmod(guarded.key, 0644));
    const struct cox_options options = with_key(guarded.key);
    crew_refused(guarded.cluster, &options, COX_EINVAL, "chmod 600");
    guarded_close(&guarded);
}
