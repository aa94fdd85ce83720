/* The programs find their places in the environment: real processes, ipc addresses. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "coxswain/coxswain.h"
#include "tests/program.h"
#include "tests/test.h"

enum { ENDED_BY_TERM = 128 + SIGTERM };

/* Describes a cluster of 2 ps and 1 worker in the test's directory. */
static void describe_cluster(void)
{
    char json[1024];
    (void)snprintf(json, sizeof(json),
                   "{\"ps\": [\"ipc://%s/ps-0\", \"ipc://%s/ps-1\"], "
                   "\"worker\": [\"ipc://%s/worker-0\"]}",
                   coxi_test_dir(), coxi_test_dir(), coxi_test_dir());
    assert_int_equal(0, setenv("COX_CLUSTER", json, 1));
    if (geteuid() == 0) {
        assert_int_equal(0, setenv("COX_PS_USER", "root", 1));
        assert_int_equal(0, setenv("COX_WORKER_USER", "root", 1));
    }
}

static void become(const char *task)
{
    assert_int_equal(0, setenv("COX_TASK", task, 1));
}

/* Starts `coxswain role`, which becomes a daemon, and waits until it listens. */
static void start_role(struct program *program, const char *task)
{
    static const char *const argv[] = {"coxswain", "role", "--", "/bin/true", NULL};
    become(task);
    program_start(program, argv);
    program_wait_printed(program, "event=listening");
}

static void assert_exit(int code, const char *const *argv, const char *printed)
{
    struct program program;
    assert_int_equal(code, program_run(&program, argv));
    program_assert_printed(&program, printed);
}

TEST(role_becomes_the_program_of_the_task)
{
    static const char *const client[] = {"coxswain",  "role",       "--",
                                         "/bin/echo", "the client", NULL};
    static const char *const evaluator[] = {
        "coxswain", "role",      "--evaluator", "echo scored; exit 7",
        "--",       "/bin/true", NULL};
    struct program ps;
    describe_cluster();
    become("client");
    assert_exit(0, client, "the client");
    become("evaluator");
    assert_exit(7, evaluator, "scored");
    assert_exit(2, client, "--evaluator");
    start_role(&ps, "ps:1");
    program_assert_printed(&ps, "index=1");
    program_assert_printed(&ps, "/ps-1 pid=");
    program_kill(&ps, SIGTERM);
    assert_int_equal(ENDED_BY_TERM, program_wait(&ps));
    assert_int_equal(0, unsetenv("COX_TASK"));
    assert_exit(2, client, "set COX_TASK");
    assert_int_equal(0, unsetenv("COX_CLUSTER"));
    assert_exit(2, client, "set COX_CLUSTER");
}

TEST(role_of_another_program_is_refused)
{
    static const char *const ps[] = {"coxswain-ps", NULL};
    static const char *const other_index[] = {"coxswain-ps", "--index=1", NULL};
    describe_cluster();
    become("worker:0");
    assert_exit(2, ps, "this process is worker 0, but this is coxswain-ps");
    become("ps:0");
    assert_exit(2, other_index, "this is ps 0");
    assert_int_equal(0, unsetenv("COX_TASK"));
    assert_exit(2, ps, "COX_TASK=ps:INDEX");
}

/* An option of the command line takes precedence over the environment. */
TEST(role_does_not_matter_to_a_daemon_with_an_address)
{
    struct program ps;
    char listen[128];
    const char *const argv[] = {"coxswain-ps", listen, NULL};
    (void)snprintf(listen, sizeof(listen), "--listen=ipc://%s/own", coxi_test_dir());
    describe_cluster();
    become("worker:0");
    program_start(&ps, argv);
    program_wait_printed(&ps, "/own pid=");
    program_kill(&ps, SIGTERM);
    assert_int_equal(ENDED_BY_TERM, program_wait(&ps));
}

TEST(explain_prints_what_the_environment_says)
{
    static const char *const argv[] = {"coxswain", "cluster", "explain", NULL};
    static const char *const json[] = {"coxswain", "cluster", "explain", "--json",
                                       NULL};
    describe_cluster();
    become("worker:0");
    assert_exit(0, argv, "role        worker");
    assert_exit(0, json, "\"role\": \"worker\"");
    become("worker:1");
    assert_exit(2, argv, "set COX_TASK");
}

struct crew {
    struct program ps[2];
    struct program worker;
    struct cox_coordinator *c;
};

static void open_crew(struct crew *crew)
{
    struct cox_cluster *cluster;
    describe_cluster();
    start_role(&crew->ps[0], "ps:0");
    start_role(&crew->ps[1], "ps:1");
    start_role(&crew->worker, "worker:0");
    become("chief:0");
    assert_code(0, cox_cluster_from_env(&cluster));
    assert_code(0, cox_open(cluster, NULL, &crew->c));
    cox_cluster_free(cluster);
}

static void create(struct crew *crew, const char *name)
{
    struct cox_variable *ignored;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    spec.name = name;
    spec.dtype = COX_F32;
    spec.rank = 1;
    spec.shape[0] = 8;
    assert_code(0, cox_variable_create(crew->c, &spec, &ignored));
}

/* mpirun and srun wait for all processes of a job. */
TEST(daemons_end_with_0_once_the_client_has_gone)
{
    struct crew crew;
    assert_int_equal(0, setenv("COX_PS_END_WITHOUT_CLIENT", "1", 1));
    assert_int_equal(0, setenv("COX_WORKER_END_WITHOUT_CLIENT", "1", 1));
    assert_int_equal(0, setenv("COX_PS_FIRST_CLIENT_WITHIN", "3", 1));
    assert_int_equal(0, setenv("COX_WORKER_FIRST_CLIENT_WITHIN", "3", 1));
    open_crew(&crew);
    create(&crew, "v");
    assert_code(0, cox_close(crew.c, 5000));
    assert_int_equal(0, program_wait(&crew.ps[0]));
    assert_int_equal(0, program_wait(&crew.ps[1]));
    assert_int_equal(0, program_wait(&crew.worker));
    program_assert_printed(&crew.worker, "no client is here");
}

/* The client has failed before it has opened the cluster. */
TEST(daemons_end_with_1_if_no_client_comes)
{
    struct program ps;
    struct program worker;
    describe_cluster();
    assert_int_equal(0, setenv("COX_PS_FIRST_CLIENT_WITHIN", "1", 1));
    assert_int_equal(0, setenv("COX_WORKER_FIRST_CLIENT_WITHIN", "1", 1));
    start_role(&ps, "ps:0");
    start_role(&worker, "worker:0");
    assert_int_equal(1, program_wait(&ps));
    assert_int_equal(1, program_wait(&worker));
    program_assert_printed(&ps, "no client has come");
    program_assert_printed(&worker, "no client has come");
}

/* A scheduler sends SIGTERM to all tasks at once. */
TEST(ps_with_a_grace_serves_its_client_after_sigterm)
{
    struct crew crew;
    assert_int_equal(0, setenv("COX_PS_TERM_GRACE", "3600", 1));
    open_crew(&crew);
    for (int i = 0; i < 2; i++) {
        program_kill(&crew.ps[i], SIGTERM);
        program_wait_printed(&crew.ps[i], "event=ending_soon");
    }
    create(&crew, "v");
    assert_code(0, cox_close(crew.c, 5000));
    assert_int_equal(ENDED_BY_TERM, program_wait(&crew.ps[0]));
    assert_int_equal(ENDED_BY_TERM, program_wait(&crew.ps[1]));
    program_kill(&crew.worker, SIGTERM);
    assert_int_equal(ENDED_BY_TERM, program_wait(&crew.worker));
}
