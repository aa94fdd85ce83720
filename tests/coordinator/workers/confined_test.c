/* Workers with --confine: what steps try is denied, and the run goes on. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/coordinator/crew.h"
#include "tests/program.h"
#include "tests/test.h"

/* A cluster with one worker of this profile. */
static void confined_open(struct crew *crew, const char *profile)
{
    assert_int_equal(0, setenv("COX_WORKER_CONFINE", profile, 1));
    coxi_test_expect_crashes(); /* LeakSanitizer needs ptrace */
    crew_open(crew, 1, 1, "confined", NULL);
}

static void needs_landlock(void)
{
    enum { CREATE_RULESET = 444, GET_VERSION = 1 };
    if (syscall(CREATE_RULESET, NULL, 0, GET_VERSION) < 3) {
        skip(); /* older versions let steps truncate files */
    }
}

/* Runs a step with the argument `path` (NULL: none); it says whether it was denied. */
static void attempt(struct crew *crew, const char *step, const char *path)
{
    const struct cox_value arg =
        COX_VECTOR("path", COX_U8, path != NULL ? strlen(path) + 1 : 0, path);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = path != NULL ? 1 : 0;
    assert_code(0, cox_schedule(crew->c, crew_function(crew, step), &call, NULL));
    assert_code(0, cox_join(crew->c, 8000));
}

static void train_and_close(struct crew *crew)
{
    struct cox_variable *counter = crew_counter(crew, "c0");
    assert_code(0,
                cox_module_load(crew->c, coxi_test_module("counter"), &crew->module));
    crew_schedule(crew, crew_function(crew, "count"), 20, 1);
    assert_code(0, cox_join(crew->c, 8000));
    assert_int_equal(20, crew_read(crew, counter));
    crew_close(crew);
}

TEST(every_worker_s_steps_gain_no_rights_and_leave_no_core_files)
{
    struct crew crew = {0};
    confined_open(&crew, "off");
    attempt(&crew, "look_around", NULL);
    train_and_close(&crew);
}

TEST(a_step_opens_no_more_files_than_its_limit)
{
    struct crew crew = {0};
    assert_int_equal(0, setenv("COX_WORKER_STEP_FILES_MAX", "100", 1));
    confined_open(&crew, "off");
    attempt(&crew, "open_files", NULL);
    train_and_close(&crew);
}

TEST(a_confined_step_does_what_it_may)
{
    struct crew crew = {0};
    const char *dir = coxi_test_path("results");
    needs_landlock();
    assert_int_equal(0, mkdir(dir, 0700));
    assert_int_equal(0, setenv("COX_WORKER_CONFINE_WRITE", dir, 1));
    confined_open(&crew, "all");
    attempt(&crew, "look_around", NULL);
    attempt(&crew, "write_allowed", coxi_test_path("results/file"));
    attempt(&crew, "write_allowed", "/dev/null");
    train_and_close(&crew);
}

/* ---- attacks */

TEST(a_step_that_writes_files_of_others_is_denied)
{
    struct crew crew = {0};
    size_t len = 0;
    const char *victim = coxi_test_path("victim");
    needs_landlock();
    coxi_test_write(victim, "mine", 4);
    confined_open(&crew, "landlock");
    attempt(&crew, "write_file", victim);
    attempt(&crew, "open_to_write", "/etc/shadow");
    attempt(&crew, "write_by_program", victim);
    char *content = coxi_test_read(victim, &len);
    assert_string_equal("mine", content);
    free(content);
    train_and_close(&crew);
}

/* The worker has the address file written by a process that is not confined, so its
 * steps need no rights there. */
TEST(a_step_that_writes_beside_the_address_file_is_denied)
{
    struct crew crew = {0};
    struct program ps;
    struct program worker;
    struct cox_cluster *cluster;
    char ps_address[256];
    char worker_address[256];
    char json[600];
    size_t len = 0;
    const char *victim = coxi_test_path("victim");
    needs_landlock();
    coxi_test_write(victim, "mine", 4);
    coxi_test_expect_crashes(); /* LeakSanitizer needs ptrace */
    assert_int_equal(0, setenv("COX_WORKER_CONFINE", "landlock", 1));
    daemon_start(&ps, "coxswain-ps", 0, "tcp://127.0.0.1:0", ps_address);
    daemon_start(&worker, "coxswain-worker", 0, "tcp://127.0.0.1:0", worker_address);
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"], \"worker\": [\"%s\"]}",
                   ps_address, worker_address);
    assert_code(0, cox_cluster_parse(json, &cluster));
    assert_code(0, cox_open(cluster, NULL, &crew.c));
    assert_code(0, cox_module_load(crew.c, coxi_test_module("confined"), &crew.module));
    attempt(&crew, "write_file", victim);
    assert_code(0, cox_close(crew.c, 0));
    char *content = coxi_test_read(victim, &len);
    assert_string_equal("mine", content);
    free(content);
    program_kill(&worker, SIGTERM);
    program_kill(&ps, SIGTERM);
    (void)program_wait(&worker);
    (void)program_wait(&ps);
    cox_cluster_free(cluster);
}

TEST(a_step_that_reads_outside_its_paths_is_denied)
{
    struct crew crew = {0};
    char paths[600];
    const char *victim = coxi_test_path("victim");
    needs_landlock();
    coxi_test_write(victim, "secret", 6);
    (void)snprintf(paths, sizeof(paths), "/usr:/lib:/etc:/proc:/dev:/sys:%s",
                   coxi_test_bin());
    assert_int_equal(0, setenv("COX_WORKER_CONFINE_READ", paths, 1));
    confined_open(&crew, "landlock");
    attempt(&crew, "read_file", victim);
    train_and_close(&crew);
}

TEST(a_step_that_signals_other_processes_is_denied)
{
    enum { CREATE_RULESET = 444, GET_VERSION = 1, SCOPES_FROM = 6 };
    struct crew crew = {0};
    if (syscall(CREATE_RULESET, NULL, 0, GET_VERSION) < SCOPES_FROM) {
        skip();
    }
    confined_open(&crew, "landlock");
    attempt(&crew, "signal_parent", NULL);
    train_and_close(&crew);
}

TEST(a_step_that_makes_forbidden_calls_is_denied)
{
    static const char *const steps[] = {"ptrace", "mount", "make_namespace",
                                        "call_kernel"};
    struct crew crew = {0};
    confined_open(&crew, "seccomp");
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        attempt(&crew, steps[i], NULL);
    }
    train_and_close(&crew);
}

TEST(a_confinement_that_cannot_be_had_is_refused)
{
    program_assert_refuses("coxswain-worker", "--confine=jail",
                           "--confine takes one of off|landlock|seccomp|all");
    needs_landlock();
    assert_int_equal(0, setenv("COX_WORKER_CONFINE", "landlock", 1));
    program_assert_refuses("coxswain-worker", "--confine-write=/no/such/directory",
                           "/no/such/directory");
}
