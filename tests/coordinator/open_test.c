/*
 * Opening: options, daemons started by hand on tcp, and errors in both. Calls of
 * coxi_replay_log_new, coxi_resources_tick, coxi_loop_start and coxi_opening_ps go
 * through this file (ld --wrap).
 */
#include <arpa/inet.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"
#include "net/message.h"
#include "net/server.h"
#include "tests/coordinator/crew.h"
#include "tests/program.h"
#include "tests/test.h"

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
    crew_refused(cluster, &options, COX_EINVAL, "_INIT");
    future.options.size = sizeof(future);
    crew_refused(cluster, &future.options, COX_EINVAL, "does not know");
    options = (struct cox_options)COX_OPTIONS_INIT;
    options.min_workers = 2;
    crew_refused(cluster, &options, COX_EINVAL, "min_workers is 2");
    options = (struct cox_options)COX_OPTIONS_INIT;
    options.peer_timeout_ms = 5;
    crew_refused(cluster, &options, COX_EINVAL, "peer_timeout_ms");
    options = (struct cox_options)COX_OPTIONS_INIT;
    options.checkpoint_incremental = 2;
    crew_refused(cluster, &options, COX_EINVAL,
                 "checkpoint_incremental is set, but checkpoint_dir");
    options = (struct cox_options)COX_OPTIONS_INIT;
    options.resume_from = 2;
    crew_refused(cluster, &options, COX_EINVAL,
                 "resume_from is set, but checkpoint_dir");
    options = (struct cox_options)COX_OPTIONS_INIT;
    options.bin_dir = "/nonexistent";
    crew_refused(cluster, &options, COX_EIO,
                 "/nonexistent/coxswain, and cox_options.bin_dir");
    options = (struct cox_options)COX_OPTIONS_INIT;
    options.log_dir = "/dev/null/logs";
    crew_refused(cluster, &options, COX_EIO, "cox_options.log_dir: ");
    assert_error_names("/dev/null/logs");
    crew_refused(NULL, NULL, COX_EINVAL, "cluster");
    cox_cluster_free(cluster);
}

/* ---- the loop runs while cox_open is still making the client's parts */

enum { TICKS = 3 };

struct coxi_loop;
struct coxi_replay_log;
struct coxi_replay_refs;

static atomic_int n_ticks;
static atomic_bool opens;

void __real_coxi_resources_tick(struct cox_coordinator *c);
void __wrap_coxi_resources_tick(struct cox_coordinator *c);
int __real_coxi_loop_start(struct coxi_loop *loop, const char *name);
int __wrap_coxi_loop_start(struct coxi_loop *loop, const char *name);
int __real_coxi_opening_ps(struct cox_coordinator *c, uint64_t end_ms);
int __wrap_coxi_opening_ps(struct cox_coordinator *c, uint64_t end_ms);
int __real_coxi_replay_log_new(uint32_t n_ps, uint64_t bytes_max,
                               const struct coxi_replay_refs *refs,
                               struct coxi_replay_log **ret);
int __wrap_coxi_replay_log_new(uint32_t n_ps, uint64_t bytes_max,
                               const struct coxi_replay_refs *refs,
                               struct coxi_replay_log **ret);

void __wrap_coxi_resources_tick(struct cox_coordinator *c)
{
    __real_coxi_resources_tick(c);
    n_ticks++;
    while (!atomic_load_explicit(&opens, memory_order_relaxed)) {
        (void)sched_yield();
    }
}

/* Returns while the first tick runs. */
int __wrap_coxi_loop_start(struct coxi_loop *loop, const char *name)
{
    int r = __real_coxi_loop_start(loop, name);
    while (r == 0 && atomic_load_explicit(&n_ticks, memory_order_relaxed) == 0) {
        (void)sched_yield();
    }
    return r;
}

int __wrap_coxi_opening_ps(struct cox_coordinator *c, uint64_t end_ms)
{
    atomic_store_explicit(&opens, true, memory_order_relaxed);
    return __real_coxi_opening_ps(c, end_ms);
}

int __wrap_coxi_replay_log_new(uint32_t n_ps, uint64_t bytes_max,
                               const struct coxi_replay_refs *refs,
                               struct coxi_replay_log **ret)
{
    int end = n_ticks + TICKS;
    while (n_ticks < end) {
        (void)sched_yield();
    }
    return __real_coxi_replay_log_new(n_ps, bytes_max, refs, ret);
}

/*
 * The first tick lasts until the opening thread has gone on. The two threads wait for
 * each other by relaxed reads only, which order nothing, so ThreadSanitizer reports any
 * field that both use without a lock.
 */
TEST(the_first_tick_shares_nothing_with_the_opening)
{
    struct crew crew;
    crew_open(&crew, 1, 1, "counter", NULL);
    assert_true(n_ticks >= 1);
    crew_close(&crew);
}

TEST(the_loop_ticks_while_the_replay_log_is_made)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    crew_open(&crew, 1, 1, "counter", &options);
    assert_true(n_ticks >= TICKS);
    crew_schedule(&crew, crew_function(&crew, "count"), 1, 1);
    crew_close(&crew);
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
    /* In the form host:port, as users write it. */
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
    crew_refused(by_hand.cluster, &options, COX_EBUSY, by_hand.addresses[0]);
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
    crew_refused(wrong, &options, COX_ECONFLICT, by_hand.addresses[1]);
    cox_cluster_free(wrong);
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"], \"worker\": [\"%s\"]}",
                   by_hand.addresses[0], by_hand.addresses[1]);
    assert_code(0, cox_cluster_parse(json, &wrong));
    crew_refused(wrong, &options, COX_ECONFLICT, by_hand.addresses[1]);
    cox_cluster_free(wrong);
    count_on(by_hand.cluster, 100);
    end_cluster(&by_hand);
}

TEST(a_worker_whose_index_contradicts_its_place_in_the_list_is_named)
{
    struct cluster by_hand;
    struct cox_cluster *wrong;
    char json[1400];
    start_cluster(&by_hand);
    (void)snprintf(json, sizeof(json),
                   "{\"ps\": [\"%s\", \"%s\"], \"worker\": [\"%s\", \"%s\"]}",
                   by_hand.addresses[0], by_hand.addresses[1], by_hand.addresses[3],
                   by_hand.addresses[2]);
    assert_code(0, cox_cluster_parse(json, &wrong));
    crew_refused(wrong, NULL, COX_ECONFLICT, "--index");
    cox_cluster_free(wrong);
    /* Opening fails even if one worker is enough and that worker is right. */
    (void)snprintf(json, sizeof(json),
                   "{\"ps\": [\"%s\", \"%s\"], \"worker\": [\"%s\", \"%s\"]}",
                   by_hand.addresses[0], by_hand.addresses[1], by_hand.addresses[2],
                   by_hand.addresses[0]);
    assert_code(0, cox_cluster_parse(json, &wrong));
    crew_refused(wrong, NULL, COX_ECONFLICT, "it is no worker");
    cox_cluster_free(wrong);
    end_cluster(&by_hand);
}

TEST(an_address_that_is_listed_twice_is_named_with_both_places)
{
    struct cox_cluster *cluster;
    assert_code(0, cox_cluster_parse("{\"ps\": [\"a:1\"], \"worker\": [\"b:1\", "
                                     "\"b:2\", \"tcp://b:1\"]}",
                                     &cluster));
    crew_refused(cluster, NULL, COX_EINVAL,
                 "tcp://b:1 twice: as worker 0 and as worker 2");
    cox_cluster_free(cluster);
    assert_code(0,
                cox_cluster_parse("{\"ps\": [\"a:1\", \"a:1\"], \"worker\": [\"a:1\"]}",
                                  &cluster));
    crew_refused(cluster, NULL, COX_EINVAL, "tcp://a:1 twice: as ps 0 and as ps 1");
    cox_cluster_free(cluster);
}

TEST(a_host_that_has_no_address_is_named_and_not_waited_for)
{
    struct cluster by_hand;
    struct cox_cluster *cluster;
    char json[1200];
    assert_code(0, cox_cluster_parse("{\"ps\": [\"no-such-host.invalid:1\"], "
                                     "\"worker\": [\"b:1\"]}",
                                     &cluster));
    crew_refused(cluster, NULL, COX_EADDRESS, "no-such-host.invalid:1");
    cox_cluster_free(cluster);
    start_cluster(&by_hand);
    (void)snprintf(json, sizeof(json),
                   "{\"ps\": [\"%s\", \"%s\"], "
                   "\"worker\": [\"%s\", \"no-such-host.invalid:1\"]}",
                   by_hand.addresses[0], by_hand.addresses[1], by_hand.addresses[2]);
    assert_code(0, cox_cluster_parse(json, &cluster));
    crew_refused(cluster, NULL, COX_EADDRESS,
                 "worker 1 at tcp://no-such-host.invalid:1");
    cox_cluster_free(cluster);
    end_cluster(&by_hand);
}

/* ---- the checkpoint directory */

struct start {
    const struct program *ps;
    bool listens;
};

static bool is_decided(void *arg)
{
    struct start *start = arg;
    char *output = program_output(start->ps);
    start->listens = strstr(output, "event=listening") != NULL &&
                     strstr(output, "unmounted") == NULL;
    bool decided = start->listens || strstr(output, "unmounted") != NULL ||
                   strstr(output, "unshare") != NULL;
    free(output);
    return decided;
}

static bool has_started(const struct program *ps)
{
    struct start start = {.ps = ps};
    coxi_test_until(is_decided, &start, "the ps or why there is none");
    return start.listens;
}

static void assert_nothing_left(const char *dir)
{
    char command[400];
    (void)snprintf(command, sizeof(command),
                   "test -z \"$(ls -A %s | grep -Ev '^(generation-|metrics.jsonl)')\"",
                   dir);
    assert_int_equal(0, system(command)); /* NOLINT */
}

TEST(a_ps_that_does_not_see_the_checkpoint_directory_is_named_at_once)
{
    struct program ps;
    struct cox_cluster *cluster;
    struct cox_options options = COX_OPTIONS_INIT;
    char listen[300];
    char address[300];
    char command[2400];
    const char *dir = coxi_test_path("checkpoints");
    (void)snprintf(address, sizeof(address), "ipc://%s", coxi_test_path("ps"));
    (void)snprintf(listen, sizeof(listen), "ipc://%s", coxi_test_path("client"));
    assert_int_equal(0, mkdir(dir, 0700));
    (void)snprintf(
        command, sizeof(command),
        "mount -t tmpfs none %s || echo unmounted; exec %s/coxswain-ps --listen %s",
        dir, coxi_test_bin(), address);
    const char *argv[] = {"/usr/bin/unshare", "-m", "/bin/sh", "-c", command, NULL};
    program_start(&ps, argv);
    if (!has_started(&ps)) {
        skip(); /* this host allows no other mount namespace */
    }
    (void)snprintf(command, sizeof(command), "{\"ps\": [\"%s\"]}", address);
    assert_code(0, cox_cluster_parse(command, &cluster));
    options.listen = listen;
    options.checkpoint_dir = dir;
    crew_refused(cluster, &options, COX_EIO, "does not share the checkpoint directory");
    assert_error_names(address);
    assert_error_names(dir);
    assert_error_names("No such file or directory");
    assert_nothing_left(dir);
    cox_cluster_free(cluster);
    program_kill(&ps, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&ps));
}

/* The directory belongs to the ps's user, but what the client makes in it does not. */
TEST(a_ps_whose_user_could_write_no_checkpoint_is_named_at_once)
{
    enum { NOBODY = 65534 };
    struct program ps;
    struct cox_cluster *cluster;
    struct cox_options options = COX_OPTIONS_INIT;
    char address[300];
    char json[400];
    char listen[300];
    char dir[] = "/tmp/coxswain-open-XXXXXX"; /* both users reach it */
    if (geteuid() != 0) {
        skip(); /* only root can start a ps as another user */
    }
    const char *const argv[] = {"coxswain-ps", "--user=nobody", "--listen=127.0.0.1:0",
                                "--insecure", NULL};
    program_start(&ps, argv);
    program_wait_address(&ps, address);
    assert_non_null(mkdtemp(dir));
    assert_int_equal(0, chown(dir, NOBODY, NOBODY));
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"]}", address);
    assert_code(0, cox_cluster_parse(json, &cluster));
    (void)snprintf(listen, sizeof(listen), "ipc://%s", coxi_test_path("client"));
    options.listen = listen;
    options.checkpoint_dir = dir;
    crew_refused(cluster, &options, COX_EIO, "its user may not write");
    assert_error_names("Permission denied");
    assert_nothing_left(dir);
    cox_cluster_free(cluster);
    program_kill(&ps, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&ps));
    coxi_directory_remove(dir);
}

TEST(the_look_at_the_checkpoint_directory_leaves_nothing)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    crew_open(&crew, 2, 1, NULL, &options);
    assert_nothing_left(options.checkpoint_dir);
    crew_close(&crew);
}

TEST(daemon_that_is_not_there_is_named_after_the_deadline)
{
    struct cox_cluster *cluster;
    struct cox_options options = COX_OPTIONS_INIT;
    options.open_timeout_ms = 200;
    assert_code(
        0, cox_cluster_parse(
               "{\"ps\": [\"127.0.0.1:1\"], \"worker\": [\"127.0.0.1:1\"]}", &cluster));
    crew_refused(cluster, &options, COX_ETIMEDOUT, "127.0.0.1:1");
    cox_cluster_free(cluster);
}

TEST(the_environment_may_say_how_long_an_open_takes)
{
    struct cox_cluster *cluster;
    struct cox_options options = COX_OPTIONS_INIT;
    assert_code(
        0, cox_cluster_parse(
               "{\"ps\": [\"127.0.0.1:1\"], \"worker\": [\"127.0.0.1:1\"]}", &cluster));
    assert_int_equal(0, setenv("COX_OPEN_TIMEOUT_MS", "250", 1));
    crew_refused(cluster, &options, COX_ETIMEDOUT, "waited for 250 ms");
    options.open_timeout_ms = 200; /* the program's word counts */
    crew_refused(cluster, &options, COX_ETIMEDOUT, "waited for 200 ms");
    assert_int_equal(0, setenv("COX_PS_RECOVERY_MS", "2 min", 1));
    crew_refused(cluster, &options, COX_EINVAL, "COX_PS_RECOVERY_MS is '2 min'");
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

/*
 * Opens with `wrong` as ps 1, and with an address for ps 0 where nobody listens.
 * Asserts that cox_open fails with `code` long before the deadline, and names `named`.
 */
static void assert_wrong_beside_absent(const char *wrong, int code, const char *named)
{
    struct cox_cluster *cluster;
    struct cox_options options = COX_OPTIONS_INIT;
    char json[600];
    options.open_timeout_ms = 20000;
    (void)snprintf(json, sizeof(json),
                   "{\"ps\": [\"ipc://%s\", \"%s\"], \"worker\": [\"a:1\"]}",
                   coxi_test_path("absent"), wrong);
    assert_code(0, cox_cluster_parse(json, &cluster));
    crew_refused(cluster, &options, code, named);
    assert_error_names(wrong);
    cox_cluster_free(cluster);
}

TEST(a_wrong_ps_is_named_though_another_is_absent)
{
    struct cluster by_hand;
    struct coxi_listener *listener;
    static bool told;
    start_cluster(&by_hand);
    assert_wrong_beside_absent(by_hand.addresses[0], COX_ECONFLICT, "--index");
    assert_wrong_beside_absent(by_hand.addresses[3], COX_ECONFLICT, "it is no ps");
    assert_wrong_beside_absent("tcp://no-such-host.invalid:1", COX_EADDRESS, "ps 1");
    assert_int_equal(0, unsetenv("COX_KEY_FILE")); /* as the listener below */
    assert_code(0, coxi_listener_open("tcp://127.0.0.1:0", NULL, on_other_link, &told,
                                      &listener));
    coxi_listener_start(listener);
    assert_wrong_beside_absent(coxi_listener_url(listener), COX_EVERSION, "version");
    coxi_listener_close(listener);
    end_cluster(&by_hand);
}

TEST(ps_of_another_protocol_version_is_refused_at_once_with_both_numbers)
{
    struct cox_cluster *cluster;
    struct coxi_listener *listener;
    static bool told;
    char json[300];
    char text[64];
    assert_code(0, coxi_listener_open("tcp://127.0.0.1:0", NULL, on_other_link, &told,
                                      &listener));
    coxi_listener_start(listener);
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"], \"worker\": [\"a:1\"]}",
                   coxi_listener_url(listener));
    assert_code(0, cox_cluster_parse(json, &cluster));
    (void)snprintf(text, sizeof(text), "version %d meets version %d",
                   COXI_WIRE_VERSION + 6, COXI_WIRE_VERSION);
    crew_refused(cluster, NULL, COX_EVERSION, text);
    cox_cluster_free(cluster);
    coxi_listener_close(listener);
}
