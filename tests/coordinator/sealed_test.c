/* Runs whose messages to the ps go through somebody who reads every byte, and may change
 * one. */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/sync.h"
#include "tests/coordinator/crew.h"
#include "tests/program.h"
#include "tests/test.h"

enum { WAYS_MAX = 32, CHUNK = 64 * 1024, LONG = 60, STEPS = 20 };

/* Passes on what connections carry, both ways. */
struct relay {
    int listening;
    char url[64];
    struct sockaddr_in to;
    pthread_t thread;
    atomic_bool ends;
    atomic_bool changes;   /* one bit of the next long piece that a client sends */
    atomic_bool has_shown; /* the beginning of a frame */
    atomic_ulong n_bytes;
    /* used by its thread: fds[i] and fds[i ^ 1] are the two halves of a way */
    int fds[2 * WAYS_MAX];
    int n;
    uint8_t bytes[CHUNK];
};

static void relay_accept(struct relay *relay)
{
    int near = accept4(relay->listening, NULL, NULL, SOCK_CLOEXEC);
    int far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (near < 0 || relay->n == 2 * WAYS_MAX ||
        connect(far, (struct sockaddr *)&relay->to, sizeof(relay->to)) != 0) {
        abort();
    }
    relay->fds[relay->n++] = near;
    relay->fds[relay->n++] = far;
}

/* Passes a piece on; the end of a half ends its way. */
static void relay_pass(struct relay *relay, int i)
{
    ssize_t n = recv(relay->fds[i], relay->bytes, sizeof(relay->bytes), MSG_DONTWAIT);
    if (n <= 0) {
        (void)close(relay->fds[i]);
        (void)close(relay->fds[i ^ 1]);
        relay->fds[i] = relay->fds[i ^ 1] = -1;
        return;
    }
    if (memmem(relay->bytes, (size_t)n, "1COX", 4) != NULL) {
        atomic_store(&relay->has_shown, true);
    }
    if (i % 2 == 0 && n > LONG && n != 128 && atomic_exchange(&relay->changes, false)) {
        relay->bytes[n / 2] ^= 4;
    }
    atomic_fetch_add(&relay->n_bytes, (unsigned long)n);
    for (ssize_t at = 0; at < n;) {
        ssize_t sent =
            send(relay->fds[i ^ 1], relay->bytes + at, (size_t)(n - at), MSG_NOSIGNAL);
        if (sent <= 0) {
            return; /* the other half has ended, which is noticed next */
        }
        at += sent;
    }
}

static void *relay_run(void *arg)
{
    struct relay *relay = arg;
    while (!atomic_load(&relay->ends)) {
        struct pollfd polled[2 * WAYS_MAX + 1] = {{relay->listening, POLLIN, 0}};
        int n = relay->n;
        for (int i = 0; i < n; i++) {
            polled[i + 1] = (struct pollfd){relay->fds[i], POLLIN, 0};
        }
        (void)poll(polled, (nfds_t)n + 1, 50);
        if (polled[0].revents != 0) {
            relay_accept(relay);
        }
        for (int i = 0; i < n; i++) {
            if (polled[i + 1].revents != 0 && relay->fds[i] >= 0) {
                relay_pass(relay, i);
            }
        }
    }
    return NULL;
}

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return in;
}

static void relay_open(struct relay *relay, const char *to)
{
    struct sockaddr_in in = loopback(0);
    socklen_t len = sizeof(in);
    *relay =
        (struct relay){.to = loopback((int)strtol(strrchr(to, ':') + 1, NULL, 10))};
    relay->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(0, bind(relay->listening, (struct sockaddr *)&in, sizeof(in)));
    assert_int_equal(0, listen(relay->listening, 8));
    assert_int_equal(0, getsockname(relay->listening, (struct sockaddr *)&in, &len));
    (void)snprintf(relay->url, sizeof(relay->url), "tcp://127.0.0.1:%u",
                   ntohs(in.sin_port));
    assert_code(0, coxi_thread_start(&relay->thread, "test:relay", relay_run, relay));
}

static void relay_close(struct relay *relay)
{
    atomic_store(&relay->ends, true);
    assert_int_equal(0, pthread_join(relay->thread, NULL));
    for (int i = 0; i < relay->n; i++) {
        if (relay->fds[i] >= 0) {
            (void)close(relay->fds[i]);
        }
    }
    (void)close(relay->listening);
}

/* A ps behind a relay, a worker that reaches it through the relay, and a client. */
struct scene {
    struct relay relay;
    struct program ps;
    struct program worker;
    struct cox_cluster *cluster;
    struct crew crew;
    struct cox_variable *counter;
    int n_steps;
};

struct announced {
    const char *path;
    char url[256];
};

static bool is_announced(void *arg)
{
    struct announced *announced = arg;
    FILE *file = fopen(announced->path, "r");
    bool done = file != NULL &&
                fgets(announced->url, sizeof(announced->url), file) != NULL &&
                strchr(announced->url, '\n') != NULL;
    if (file != NULL) {
        (void)fclose(file);
    }
    announced->url[strcspn(announced->url, "\n")] = '\0';
    return done;
}

/* `seal`: as in cox_options, for the client; the daemons have COX_SEAL. */
static void scene_open(struct scene *scene, const char *seal)
{
    char json[1024];
    char worker[256];
    char option[300];
    struct announced announced = {.path = coxi_test_path("ps-address")};
    struct cox_options options = COX_OPTIONS_INIT;
    *scene = (struct scene){0};
    (void)snprintf(option, sizeof(option), "--address-file=%s", announced.path);
    options.key_file = rig_key();
    options.open_timeout_ms = 30000;
    options.seal = seal;
    /* Shared memory would lead past the relay. */
    const char *const argv[] = {"coxswain-ps", "--listen=tcp://127.0.0.1:0",
                                "--local-path=off", option, NULL};
    program_start(&scene->ps, argv);
    coxi_test_until(is_announced, &announced, "the address of the ps");
    relay_open(&scene->relay, announced.url);
    daemon_start(&scene->worker, "coxswain-worker", 0, "tcp://127.0.0.1:0", worker);
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"], \"worker\": [\"%s\"]}",
                   scene->relay.url, worker);
    assert_code(0, cox_cluster_parse(json, &scene->cluster));
    assert_code(0, cox_open(scene->cluster, &options, &scene->crew.c));
    assert_code(0, cox_module_load(scene->crew.c, coxi_test_module("counter"),
                                   &scene->crew.module));
    scene->counter = crew_counter(&scene->crew, "c0");
}

static void scene_close(struct scene *scene)
{
    assert_code(0, cox_close(scene->crew.c, 8000));
    program_kill(&scene->ps, SIGTERM);
    program_kill(&scene->worker, SIGTERM);
    (void)program_wait(&scene->ps);
    (void)program_wait(&scene->worker);
    relay_close(&scene->relay);
    cox_cluster_free(scene->cluster);
}

/* Trains a little; every step counts once. */
static void train(struct scene *scene)
{
    scene->n_steps += STEPS;
    crew_schedule(&scene->crew, crew_function(&scene->crew, "count"), STEPS, 1);
    assert_code(0, cox_join(scene->crew.c, 8000));
    assert_int_equal(scene->n_steps, crew_read(&scene->crew, scene->counter));
}

static int count(const struct program *program, const char *part)
{
    char *output = program_output(program);
    int n = 0;
    for (const char *at = output; (at = strstr(at, part)) != NULL; at++) {
        n++;
    }
    free(output);
    return n;
}

TEST(messages_over_tcp_are_encrypted)
{
    struct scene scene;
    scene_open(&scene, NULL);
    train(&scene);
    assert_true(atomic_load(&scene.relay.n_bytes) > 4096);
    assert_false(atomic_load(&scene.relay.has_shown));
    scene_close(&scene);
}

/* Everybody must have said so. */
TEST(messages_over_tcp_are_plain_where_all_say_so)
{
    struct scene scene;
    assert_int_equal(0, setenv("COX_SEAL", "off", 1));
    scene_open(&scene, NULL);
    train(&scene);
    assert_true(atomic_load(&scene.relay.has_shown));
    scene_close(&scene);
}

TEST(an_unknown_seal_opens_nothing)
{
    struct cox_cluster *cluster;
    struct cox_options options = COX_OPTIONS_INIT;
    options.key_file = rig_key();
    options.seal = "of";
    assert_code(0, cox_cluster_parse("{\"ps\": [\"tcp://127.0.0.1:1\"], \"worker\": "
                                     "[\"tcp://127.0.0.1:2\"]}",
                                     &cluster));
    crew_refused(cluster, &options, COX_EINVAL, "cox_options.seal is 'of'");
    cox_cluster_free(cluster);
    program_assert_refuses("coxswain-ps", "--seal=of", "seal");
}

/* ---- attacks */

static void attack(const char *seal)
{
    struct scene scene;
    if (seal != NULL) {
        assert_int_equal(0, setenv("COX_SEAL", seal, 1));
    }
    scene_open(&scene, NULL);
    train(&scene);
    atomic_store(&scene.relay.changes, true);
    train(&scene);
    assert_false(atomic_load(&scene.relay.changes));
    program_wait_printed(&scene.ps, "changed bytes on their way");
    assert_int_equal(1, count(&scene.ps, "changed bytes on their way"));
    train(&scene);
    scene_close(&scene);
}

/* The ps notices, tells once, and serves on: no step is lost, and none counts twice. */
TEST(a_run_goes_on_after_a_changed_byte)
{
    attack(NULL);
}

TEST(a_run_that_is_not_encrypted_notices_a_changed_byte)
{
    attack("off");
}
