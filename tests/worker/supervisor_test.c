/* A worker's two processes: which outlives the other, and what is left behind. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/program.h"
#include "tests/ps/caller.h"
#include "tests/test.h"

enum { KILLED = 256 + SIGKILL };

struct worker {
    struct program program; /* the supervisor */
    char address_file[64];
    pid_t step_process;
};

/* ---- what can only be looked at */

/* The number of temporary directories of workers. */
static int count_temporary(void)
{
    int n = 0;
    DIR *dir = opendir(coxi_test_path("tmp"));
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        n += strncmp(entry->d_name, "coxswain-", 9) == 0 ? 1 : 0;
    }
    (void)closedir(dir);
    return n;
}

struct wanted {
    const struct worker *worker;
    pid_t found;
};

/* True when the log names another listening process than before. */
static bool find_step_process(void *arg)
{
    struct wanted *wanted = arg;
    char *all = program_output(&wanted->worker->program);
    for (const char *at = all; (at = strstr(at, "event=listening")) != NULL; at++) {
        const char *pid = strstr(at, " pid=");
        wanted->found = pid != NULL ? (pid_t)strtol(pid + 5, NULL, 10) : 0;
    }
    free(all);
    return wanted->found > 0 && wanted->found != wanted->worker->step_process;
}

static void await_step_process(struct worker *worker)
{
    struct wanted wanted = {.worker = worker};
    coxi_test_until(find_step_process, &wanted, "a step process that listens");
    worker->step_process = wanted.found;
}

/* A zombie counts as gone, too. */
static bool is_gone(void *arg)
{
    char path[64];
    char state = 'Z';
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)*(pid_t *)arg);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        (void)!fscanf(file, "%*d (%*[^)]) %c", &state);
        (void)fclose(file);
    }
    return state == 'Z' || state == 'X';
}

/* ---- starting and dialling */

static void worker_start(struct worker *worker, const char *listen, const char *dir)
{
    static int n_started;
    char file_option[300];
    char listen_option[300];
    (void)snprintf(worker->address_file, sizeof(worker->address_file), "worker-%d",
                   n_started++);
    (void)snprintf(file_option, sizeof(file_option), "--address-file=%s",
                   coxi_test_path(worker->address_file));
    (void)snprintf(listen_option, sizeof(listen_option), "--listen=%s", listen);
    const char *const argv[] = {"coxswain-worker", listen_option, file_option, dir,
                                NULL};
    (void)mkdir(coxi_test_path("tmp"), 0700);
    assert_int_equal(0, setenv("TMPDIR", coxi_test_path("tmp"), 1));
    program_start(&worker->program, argv);
    worker->step_process = 0;
    await_step_process(worker);
}

/* Connects as a client at the worker's address; returns the incarnation of the process
 * that greets. */
static uint64_t dial(const struct worker *worker)
{
    static const struct coxi_hello hello = {.role = COXI_ROLE_CLIENT,
                                            .session = {1, 1, 1}};
    char *address = coxi_test_read(coxi_test_path(worker->address_file), NULL);
    address[strcspn(address, "\n")] = '\0';
    struct caller *caller = caller_open(address, &hello);
    uint64_t incarnation = caller_expect(caller, COXI_HELLO)->hello.incarnation;
    caller_close(caller);
    free(address);
    return incarnation;
}

static const char *ipc(void)
{
    static char listen[300];
    (void)snprintf(listen, sizeof(listen), "ipc://%s", coxi_test_path("worker"));
    return listen;
}

/* ---- a step process dies */

static void kill_step_process(const char *listen)
{
    struct worker worker;
    worker_start(&worker, listen, NULL);
    for (int i = 0; i < 2; i++) {
        uint64_t before = dial(&worker);
        assert_int_equal(0, kill(worker.step_process, SIGKILL));
        await_step_process(&worker);
        assert_true(dial(&worker) != before);
    }
    program_assert_printed(&worker.program, "event=step_process_died signal=9");
    assert_int_equal(1, count_temporary());
    program_kill(&worker.program, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&worker.program));
    assert_int_equal(0, count_temporary());
}

TEST(supervisor_starts_another_step_process_which_tells_its_new_port)
{
    (void)rig_key();
    kill_step_process("tcp://127.0.0.1:0");
}

TEST(supervisor_starts_another_step_process_at_the_same_socket)
{
    kill_step_process(ipc());
}

/* The pause doubles after each process that ends before it serves. A process that has
 * served was ended by something else, so the pause begins small again. */
TEST(supervisor_does_not_rest_for_long_after_a_process_that_had_come_up)
{
    enum { KILLS = 8 };
    struct worker worker;
    int n_short = 0;
    int n_all = 0;
    worker_start(&worker, ipc(), NULL);
    for (int i = 0; i < KILLS; i++) {
        assert_int_equal(0, kill(worker.step_process, SIGKILL));
        await_step_process(&worker);
    }
    char *printed = program_output(&worker.program);
    for (const char *at = printed; (at = strstr(at, " rest_ms=")) != NULL; at++) {
        n_all++;
        n_short += strncmp(at, " rest_ms=10 ", 12) == 0;
    }
    free(printed);
    assert_int_equal(KILLS, n_all);
    assert_int_equal(KILLS, n_short);
    program_kill(&worker.program, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&worker.program));
}

/* If the first process cannot listen, the worker ends, because its configuration is
 * wrong. */
TEST(supervisor_goes_on_when_a_later_step_process_cannot_listen)
{
    struct worker worker;
    worker_start(&worker, ipc(), NULL);
    program_pause(&worker.program);
    assert_int_equal(0, kill(worker.step_process, SIGKILL));
    coxi_test_until(is_gone, &worker.step_process, "the end of the step process");
    int fd = program_occupy(coxi_test_path("worker"));
    program_kill(&worker.program, SIGCONT);
    program_wait_printed(&worker.program, "signal=0 name=\"none\" status=2");
    assert_int_equal(0, close(fd));
    await_step_process(&worker);
    program_kill(&worker.program, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&worker.program));
}

TEST(supervisor_ends_while_its_step_process_is_being_started_again)
{
    struct worker worker;
    worker_start(&worker, ipc(), NULL);
    assert_int_equal(0, kill(worker.step_process, SIGKILL));
    program_kill(&worker.program, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&worker.program));
    assert_int_equal(0, count_temporary());
}

/* ---- the end */

static void end_with(int signum)
{
    struct worker worker;
    worker_start(&worker, ipc(), NULL);
    assert_int_equal(1, count_temporary());
    program_kill(&worker.program, signum);
    assert_int_equal(128 + signum, program_wait(&worker.program));
    assert_true(is_gone(&worker.step_process));
    assert_int_equal(0, count_temporary());
    program_assert_printed(&worker.program, "event=ending");
}

TEST(supervisor_ends_its_step_process_on_sigterm_and_leaves_nothing)
{
    end_with(SIGTERM);
}

TEST(supervisor_ends_its_step_process_on_sigint_and_leaves_nothing)
{
    end_with(SIGINT);
}

TEST(supervisor_that_is_killed_takes_its_step_process_along)
{
    struct worker worker;
    worker_start(&worker, ipc(), NULL);
    program_kill(&worker.program, SIGKILL);
    assert_int_equal(KILLED, program_wait(&worker.program));
    coxi_test_until(is_gone, &worker.step_process, "the end of the step process");
}

TEST(supervisor_removes_what_one_that_was_killed_has_left)
{
    struct worker killed;
    struct worker lives;
    struct worker next;
    char listen[2][300];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(listen[i], sizeof(listen[i]), "ipc://%s-%d",
                       coxi_test_path("socket"), i);
    }
    worker_start(&killed, ipc(), NULL);
    worker_start(&lives, listen[0], NULL);
    program_kill(&killed.program, SIGKILL);
    assert_int_equal(KILLED, program_wait(&killed.program));
    coxi_test_until(is_gone, &killed.step_process, "the end of the step process");
    assert_int_equal(2, count_temporary());
    worker_start(&next, listen[1], NULL);
    assert_int_equal(2,
                     /* its own, and that of the worker that still runs */
                     count_temporary());
    program_kill(&next.program, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&next.program));
    assert_int_equal(1, count_temporary());
    program_kill(&lives.program, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&lives.program));
    assert_int_equal(0, count_temporary());
}

TEST(supervisor_keeps_a_directory_that_it_was_given)
{
    struct worker worker;
    char option[300];
    (void)snprintf(option, sizeof(option), "--dir=%s", coxi_test_path("new/modules"));
    worker_start(&worker, ipc(), option);
    assert_int_equal(0, count_temporary());
    program_kill(&worker.program, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&worker.program));
    assert_int_equal(0, access(coxi_test_path("new/modules"), W_OK));
}
