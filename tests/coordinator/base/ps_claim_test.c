/*
 * A client claims its ps when it opens. The previous client may have vanished without
 * releasing them, a ps may be lost while it is claimed, and another daemon may be at
 * its address.
 */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/coordinator/crew.h"
#include "tests/program.h"
#include "tests/test.h"

/* Starts a process with a client of the ps at `address`, and stops it, as if its host
 * had vanished. */
static pid_t open_and_stop(const char *address)
{
    int status;
    char json[400];
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"]}", address);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct cox_cluster *cluster;
        struct cox_coordinator *c;
        struct cox_options options = COX_OPTIONS_INIT;
        char listen[300];
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)snprintf(listen, sizeof(listen), "ipc://%s", coxi_test_path("vanished"));
        options.listen = listen;
        if (cox_cluster_parse(json, &cluster) == 0 &&
            cox_open(cluster, &options, &c) == 0) {
            (void)raise(SIGSTOP);
        }
        _exit(1);
    }
    assert_int_equal(pid, waitpid(pid, &status, WUNTRACED));
    assert_true(WIFSTOPPED(status));
    return pid;
}

TEST(a_ps_whose_client_has_vanished_is_waited_for)
{
    struct program ps;
    struct cox_cluster *cluster;
    struct cox_coordinator *c;
    struct cox_options options = COX_OPTIONS_INIT;
    char listen[300];
    char address[300];
    char json[400];
    (void)snprintf(address, sizeof(address), "ipc://%s", coxi_test_path("ps"));
    (void)snprintf(listen, sizeof(listen), "ipc://%s", coxi_test_path("client"));
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"]}", address);
    const char *argv[] = {"coxswain-ps",       "--listen", address,
                          "--peer-timeout-ms", "4000",     NULL};
    program_start(&ps, argv);
    program_wait_printed(&ps, "event=listening");
    pid_t vanished = open_and_stop(address);
    options.listen = listen;
    options.open_timeout_ms = 1000;
    assert_code(0, cox_cluster_parse(json, &cluster));
    crew_refused(cluster, &options, COX_EBUSY, address);
    options.open_timeout_ms = 8000;
    assert_code(0, cox_open(cluster, &options, &c));
    assert_code(0, cox_close(c, 1000));
    cox_cluster_free(cluster);
    assert_int_equal(0, kill(vanished, SIGKILL));
    assert_int_equal(vanished, waitpid(vanished, NULL, 0));
    program_kill(&ps, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&ps));
}

static void *lose_claimed(void *arg)
{
    struct program *ps = arg;
    program_wait_printed(ps, "event=claim");
    program_kill(ps, SIGKILL);
    (void)program_wait(ps);
    return NULL;
}

/*
 * A ps dies after the client has claimed it, while cox_open waits for a daemon that
 * never comes. `format` is the cluster: it takes the ps's address and an address at
 * which nobody listens.
 */
static void assert_open_tells_of_a_lost_ps(const char *format)
{
    struct program ps;
    pthread_t thread;
    struct cox_cluster *cluster;
    char address[300];
    char nobody[300];
    char json[700];
    (void)snprintf(address, sizeof(address), "ipc://%s", coxi_test_path("ps"));
    (void)snprintf(nobody, sizeof(nobody), "ipc://%s", coxi_test_path("nobody"));
    (void)snprintf(json, sizeof(json), format, address, nobody);
    const char *argv[] = {"coxswain-ps", "--listen", address, NULL};
    program_start(&ps, argv);
    assert_int_equal(0, pthread_create(&thread, NULL, lose_claimed, &ps));
    assert_code(0, cox_cluster_parse(json, &cluster));
    crew_refused(cluster, NULL, COX_EPSLOST, address);
    assert_int_equal(0, pthread_join(thread, NULL));
    cox_cluster_free(cluster);
}

TEST(open_tells_of_a_ps_lost_while_it_waits_for_another)
{
    assert_open_tells_of_a_lost_ps(
        "{\"ps\": [\"%s\", \"%s\"], \"worker\": [\"127.0.0.1:1\"]}");
}

TEST(open_tells_of_a_ps_lost_while_it_waits_for_workers)
{
    assert_open_tells_of_a_lost_ps("{\"ps\": [\"%s\"], \"worker\": [\"%s\"]}");
}

struct late {
    const struct program *ps;
    struct program worker;
    char address[300];
    sem_t started;
    sem_t ended;
};

/* Starts a worker at an address when the ps has told a client to claim it again. The
 * worker dies with the thread that started it, so this thread waits for the worker's
 * end. */
static void *come_late(void *arg)
{
    struct late *late = arg;
    const char *argv[] = {"coxswain-worker", "--listen", late->address, NULL};
    program_wait_printed(late->ps, "result=COX_EAGAIN");
    program_start(&late->worker, argv);
    assert_int_equal(0, sem_post(&late->started));
    assert_int_equal(0, sem_wait(&late->ended));
    return NULL;
}

TEST(a_wrong_ps_ends_the_wait_for_another_ones_claim)
{
    struct program ps;
    struct late late = {.ps = &ps};
    pthread_t thread;
    struct cox_cluster *cluster;
    struct cox_options options = COX_OPTIONS_INIT;
    char listen[300];
    char address[300];
    char json[800];
    (void)snprintf(address, sizeof(address), "ipc://%s", coxi_test_path("ps"));
    (void)snprintf(late.address, 300, "ipc://%s", coxi_test_path("late"));
    (void)snprintf(listen, sizeof(listen), "ipc://%s", coxi_test_path("client"));
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\", \"%s\"]}", address,
                   late.address);
    const char *argv[] = {"coxswain-ps",       "--listen", address,
                          "--peer-timeout-ms", "30000",    NULL};
    program_start(&ps, argv);
    program_wait_printed(&ps, "event=listening");
    pid_t vanished = open_and_stop(address);
    assert_int_equal(0, sem_init(&late.started, 0, 0));
    assert_int_equal(0, sem_init(&late.ended, 0, 0));
    assert_int_equal(0, pthread_create(&thread, NULL, come_late, &late));
    options.listen = listen;
    options.open_timeout_ms = 20000;
    assert_code(0, cox_cluster_parse(json, &cluster));
    crew_refused(cluster, &options, COX_ECONFLICT, late.address);
    cox_cluster_free(cluster);
    assert_int_equal(0, sem_wait(&late.started));
    program_kill(&late.worker, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&late.worker));
    assert_int_equal(0, sem_post(&late.ended));
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_int_equal(0, kill(vanished, SIGKILL));
    assert_int_equal(vanished, waitpid(vanished, NULL, 0));
    program_kill(&ps, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&ps));
}
