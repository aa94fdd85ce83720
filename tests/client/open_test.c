/* Opening: options, daemons started by hand on tcp, and all that can be wrong there. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/message.h"
#include "common/server.h"
#include "tests/client/crew.h"
#include "tests/program.h"
#include "tests/test.h"

static void assert_refused(const struct cox_cluster *cluster,
                           const struct cox_options *options, int code,
                           const char *named)
{
    struct cox_coordinator *c = NULL;
    assert_code(code, cox_open(cluster, options, &c));
    assert_error_names(named);
    assert_null(c);
}

TEST(open_checks_its_options)
{
    struct cox_cluster *cluster;
    struct {
        struct cox_options options;
        uint64_t newer;
    } future = {.options = COX_OPTIONS_INIT, .newer = 1};
    assert_code(0, cox_cluster_local(1, 1, &cluster));
    struct cox_options options = COX_OPTIONS_INIT;
    options.size = 0;
    assert_refused(cluster, &options, COX_EINVAL, "_INIT");
    future.options.size = sizeof(future);
    assert_refused(cluster, &future.options, COX_EINVAL, "does not know");
    options = (struct cox_options)COX_OPTIONS_INIT;
    options.min_workers = 2;
    assert_refused(cluster, &options, COX_EINVAL, "min_workers is 2");
    options = (struct cox_options)COX_OPTIONS_INIT;
    options.peer_timeout_ms = 5;
    assert_refused(cluster, &options, COX_EINVAL, "peer_timeout_ms");
    options = (struct cox_options)COX_OPTIONS_INIT;
    options.bin_dir = "/nonexistent";
    assert_refused(cluster, &options, COX_EIO, "/nonexistent/coxswain");
    assert_refused(NULL, NULL, COX_EINVAL, "cluster");
    cox_cluster_free(cluster);
}

TEST(several_coordinators_live_in_one_process)
{
    struct crew a;
    struct crew b;
    crew_open(&a, 1, 1, "counter", NULL);
    crew_open(&b, 1, 1, "counter", NULL);
    struct cox_variable *in_a = crew_counter(&a, "c0");
    struct cox_variable *in_b = crew_counter(&b, "c0");
    crew_schedule(&a, crew_function(&a, "count"), 100, 1);
    crew_schedule(&b, crew_function(&b, "count"), 50, 1);
    assert_code(0, cox_join(b.c, -1));
    assert_code(0, cox_join(a.c, -1));
    assert_int_equal(100, crew_read(&a, in_a));
    assert_int_equal(50, crew_read(&b, in_b));
    assert_true(cox_run_id(a.c) != cox_run_id(b.c));
    crew_close(&a);
    crew_close(&b);
}

/* ---- daemons started by hand */

struct cluster {
    struct program ps[2];
    struct program workers[2];
    char addresses[4][256];
    struct cox_cluster *cluster;
};

static void start_cluster(struct cluster *by_hand)
{
    char json[1200];
    for (int i = 0; i < 2; i++) {
        daemon_start(&by_hand->ps[i], "coxswain-ps", i, "tcp://127.0.0.1:0",
                     by_hand->addresses[i]);
        daemon_start(&by_hand->workers[i], "coxswain-worker", i, "tcp://127.0.0.1:0",
                     by_hand->addresses[2 + i]);
    }
    /* As a user writes it: host:port. */
    (void)snprintf(
        json, sizeof(json),
        "{\"cluster\": {\"ps\": [\"%s\", \"%s\"], \"worker\": [\"%s\", \"%s\"]}}",
        by_hand->addresses[0] + 6, by_hand->addresses[1] + 6, by_hand->addresses[2] + 6,
        by_hand->addresses[3] + 6);
    assert_int_equal(0, setenv("COX_CLUSTER", json, 1));
    assert_code(0, cox_cluster_from_env(&by_hand->cluster));
}

static void end_cluster(struct cluster *by_hand)
{
    for (int i = 0; i < 2; i++) {
        program_kill(&by_hand->ps[i], SIGTERM);
        program_kill(&by_hand->workers[i], SIGTERM);
        assert_int_equal(128 + SIGTERM, program_wait(&by_hand->ps[i]));
        assert_int_equal(128 + SIGTERM, program_wait(&by_hand->workers[i]));
    }
    cox_cluster_free(by_hand->cluster);
}

static void count_on(const struct cox_cluster *cluster, int n)
{
    struct crew crew = {0};
    assert_code(0, cox_open(cluster, NULL, &crew.c));
    assert_code(0, cox_module_load(crew.c, coxi_test_module("counter"), &crew.module));
    struct cox_variable *c0 = crew_counter(&crew, "c0");
    struct cox_variable *c1 = crew_counter(&crew, "c1");
    crew_schedule(&crew, crew_function(&crew, "count"), n, 2);
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(n, crew_read(&crew, c0));
    assert_int_equal(n, crew_read(&crew, c1));
    assert_code(0, cox_close(crew.c, 1000));
}

TEST(daemons_started_by_hand_serve_one_run_after_the_other)
{
    struct cluster by_hand;
    start_cluster(&by_hand);
    count_on(by_hand.cluster, 1000);
    count_on(by_hand.cluster, 500);
    end_cluster(&by_hand);
}

TEST(ps_that_serves_another_run_is_busy_until_that_has_ended)
{
    struct cluster by_hand;
    struct cox_coordinator *first;
    struct cox_options options = COX_OPTIONS_INIT;
    start_cluster(&by_hand);
    assert_code(0, cox_open(by_hand.cluster, NULL, &first));
    options.open_timeout_ms = 2000;
    assert_refused(by_hand.cluster, &options, COX_EBUSY, by_hand.addresses[0]);
    assert_code(0, cox_close(first, 1000));
    count_on(by_hand.cluster, 100);
    end_cluster(&by_hand);
}

TEST(daemons_given_in_the_wrong_place_are_named)
{
    struct cluster by_hand;
    struct cox_cluster *wrong;
    char json[1200];
    struct cox_options options = COX_OPTIONS_INIT;
    options.open_timeout_ms = 1000;
    start_cluster(&by_hand);
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"], \"worker\": [\"%s\"]}",
                   by_hand.addresses[1], by_hand.addresses[2]);
    assert_code(0, cox_cluster_parse(json, &wrong));
    assert_refused(wrong, &options, COX_ECONFLICT, by_hand.addresses[1]);
    cox_cluster_free(wrong);
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"], \"worker\": [\"%s\"]}",
                   by_hand.addresses[0], by_hand.addresses[1]);
    assert_code(0, cox_cluster_parse(json, &wrong));
    assert_refused(wrong, &options, COX_ECONFLICT, by_hand.addresses[1]);
    cox_cluster_free(wrong);
    count_on(by_hand.cluster, 100);
    end_cluster(&by_hand);
}

TEST(daemon_that_is_not_there_is_named_after_the_deadline)
{
    struct cox_cluster *cluster;
    struct cox_options options = COX_OPTIONS_INIT;
    options.open_timeout_ms = 200;
    assert_code(
        0, cox_cluster_parse(
               "{\"ps\": [\"127.0.0.1:1\"], \"worker\": [\"127.0.0.1:1\"]}", &cluster));
    assert_refused(cluster, &options, COX_ETIMEDOUT, "127.0.0.1:1");
    cox_cluster_free(cluster);
}

TEST(port_in_use_ends_a_daemon_with_exit_code_2_and_its_address)
{
    struct cluster by_hand;
    struct program second;
    start_cluster(&by_hand);
    static const char *const names[] = {"coxswain-ps", "coxswain-worker"};
    for (int i = 0; i < 2; i++) {
        const char *argv[] = {names[i], "--listen", by_hand.addresses[2 * i], NULL};
        assert_int_equal(2, program_run(&second, argv));
        char *output = program_output(&second);
        assert_non_null(strstr(output, by_hand.addresses[2 * i]));
        assert_non_null(strstr(output, "in use"));
        free(output);
    }
    count_on(by_hand.cluster, 100);
    end_cluster(&by_hand);
}

/* ---- a peer of another protocol version */

static void on_other_link(void *arg, struct coxi_link *link);

static int on_other_frame(void *arg, struct coxi_link *link,
                          const struct coxi_frame *frame)
{
    struct coxi_message message;
    bool *told = arg;
    if (coxi_message_read(frame, &message) == 0 && message.kind == COXI_REFUSE &&
        message.refuse.code == COX_EVERSION) {
        *told = true;
    }
    if (message.kind == COXI_HELLO) {
        message.hello.role = COXI_ROLE_PS;
        message.hello.version = COXI_WIRE_VERSION + 6;
        (void)coxi_message_send(link, &message, NULL, false);
    }
    return 0;
}

static void on_other_close(void *arg, struct coxi_link *link, int code,
                           const char *text)
{
    (void)arg;
    (void)code;
    (void)text;
    coxi_link_unref(link);
}

static const struct coxi_link_events other_events = {.on_frame = on_other_frame,
                                                     .on_close = on_other_close};

static void on_other_link(void *arg, struct coxi_link *link)
{
    coxi_link_listen_to(link, &other_events, arg);
    coxi_link_start(link);
}

TEST(ps_of_another_protocol_version_is_refused_at_once_with_both_numbers)
{
    struct cox_cluster *cluster;
    struct coxi_listener *listener;
    static bool told;
    char json[300];
    assert_code(
        0, coxi_listener_open("tcp://127.0.0.1:0", on_other_link, &told, &listener));
    coxi_listener_start(listener);
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"], \"worker\": [\"a:1\"]}",
                   coxi_listener_url(listener));
    assert_code(0, cox_cluster_parse(json, &cluster));
    assert_refused(cluster, NULL, COX_EVERSION, "version 7 meets version 1");
    cox_cluster_free(cluster);
    coxi_listener_close(listener);
}
