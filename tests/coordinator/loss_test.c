/* Daemons that are lost: the client reports it in bounded time. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/coordinator/crew.h"
#include "tests/test.h"

TEST(join_ends_with_epslost_when_a_ps_is_killed_and_names_it)
{
    struct crew crew;
    struct cox_future *future = NULL;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    struct cox_variable *other = NULL;
    crew_open(&crew, 2, 2, "counter", NULL);
    struct cox_variable *c0 = crew_counter(&crew, "c0");
    (void)crew_counter(&crew, "c1");
    struct cox_function *count = crew_function(&crew, "count");
    crew_schedule(&crew, count, 20000, 2);
    crew_kill(crew_ps_process(&crew, 1));
    assert_code(COX_EPSLOST, cox_join(crew.c, -1));
    assert_error_names("ps 1");
    assert_error_names(
        "with a checkpoint_dir the run could go on from its newest checkpoint");

    /* The ps is lost for good, because there is no checkpoint to restore it from. */
    int64_t value;
    assert_code(COX_EPSLOST, cox_join(crew.c, -1));
    assert_code(COX_EPSLOST, cox_done(crew.c));
    assert_code(COX_EPSLOST, cox_schedule(crew.c, count, NULL, &future));
    assert_code(COX_EPSLOST, cox_variable_read(crew.c, c0, &value, sizeof(value)));
    spec.name = "late";
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = 1;
    assert_code(COX_EPSLOST, cox_variable_create(crew.c, &spec, &other));
    assert_null(future);
    assert_null(other);
    crew_close(&crew);
}

TEST(idle_client_learns_of_a_lost_ps)
{
    struct crew crew;
    crew_open(&crew, 1, 1, "counter", NULL);
    crew_kill(crew_ps_process(&crew, 0));
    int64_t value = 5;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    struct cox_variable *v = NULL;
    spec.name = "v";
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = 1;
    assert_code(COX_EPSLOST, cox_variable_create(crew.c, &spec, &v));
    assert_null(v);
    assert_int_equal(5, value);
    crew_close(&crew);
}

static bool is_away(void *arg)
{
    struct crew *crew = arg;
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(crew->c, &stats));
    return stats.workers_ready == 0;
}

TEST(join_ends_with_enoworker_when_the_last_worker_stays_away)
{
    struct crew crew;
    struct cox_future *future;
    struct cox_options options = COX_OPTIONS_INIT;
    options.worker_wait_ms = 300;
    crew_open(&crew, 1, 1, "counter", &options);
    /* The stopped supervisor keeps its address, so no other worker can take its
     * place. */
    pid_t supervisor = crew_supervisor(&crew, 0);
    pid_t steps = crew_step_process(&crew, 0);
    assert_int_equal(0, kill(supervisor, SIGSTOP));
    crew_kill(steps);
    coxi_test_until(is_away, &crew, "the loss of the worker");
    assert_code(0,
                cox_schedule(crew.c, crew_function(&crew, "nothing"), NULL, &future));
    assert_code(COX_ENOWORKER, cox_join(crew.c, -1));
    assert_code(COX_ENOWORKER, cox_future_wait(future, 0));
    cox_future_free(future);

    /* The worker comes back, and the coordinator is usable. */
    assert_int_equal(0, kill(supervisor, SIGCONT));
    struct cox_stats stats = COX_STATS_INIT;
    int r;
    do {
        assert_code(0,
                    cox_schedule(crew.c, crew_function(&crew, "nothing"), NULL, NULL));
        r = cox_join(crew.c, -1);
    } while (r == COX_ENOWORKER);
    assert_code(0, r);
    assert_code(0, cox_stats(crew.c, &stats));
    assert_int_equal(1, stats.workers_lost);
    crew_close(&crew);
}

/* Releases every held step, also in later attempts; true when both closures are
 * settled. */
static bool are_settled(void *arg)
{
    struct crew_hold *holds = arg;
    bool settled = true;
    for (int i = 0; i < 2; i++) {
        if (cox_future_wait(holds[i].future, 0) == COX_ETIMEDOUT) {
            int fd = open(holds[i].path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
            settled = false;
            if (fd >= 0) {
                (void)close(fd);
            }
        }
    }
    return settled;
}

TEST(closures_of_a_lost_worker_run_again_and_count_once)
{
    struct crew crew;
    struct crew_hold holds[2];
    struct cox_stats stats = COX_STATS_INIT;
    crew_open(&crew, 1, 2, "hold", NULL);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    for (int i = 0; i < 2; i++) {
        crew_hold(&holds[i], &crew, "hold_and_count", true);
    }
    for (int i = 0; i < 2; i++) {
        crew_hold_wait(&holds[i]); /* one step on each worker */
    }
    crew_kill(crew_step_process(&crew, 0));
    for (int i = 0; i < 2; i++) {
        crew_hold_release(&holds[i]);
    }
    coxi_test_until(are_settled, holds, "the end of both steps");
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(2, crew_read(&crew, counter));
    assert_code(0, cox_stats(crew.c, &stats));
    assert_int_equal(1, stats.workers_lost);
    assert_int_equal(1, stats.put_back);
    for (int i = 0; i < 2; i++) {
        assert_code(0, cox_future_wait(holds[i].future, 0));
        cox_future_free(holds[i].future);
    }
    crew_close(&crew);
}

struct applied {
    struct crew *crew;
    struct cox_variable *counter;
};

static bool is_applied(void *arg)
{
    struct applied *applied = arg;
    return crew_read(applied->crew, applied->counter) == 1;
}

/*
 * The first attempt is applied on one ps while the other is stopped, and its worker
 * dies before it can report. The second attempt fails. The stopped ps may then get the
 * first attempt's commit or the client's void first. In either case the reported error
 * must say what is applied.
 */
TEST(closure_that_fails_after_a_lost_attempt_tells_what_stays_applied)
{
    struct crew crew;
    struct cox_future *future;
    struct cox_options options = COX_OPTIONS_INIT;
    options.peer_timeout_ms = 60000;
    crew_open(&crew, 2, 1, "hold", &options);
    struct cox_variable *c0 = crew_counter(&crew, "c0");
    struct cox_variable *c1 = crew_counter(&crew, "c1");
    struct applied applied = {&crew, c0};
    pid_t stopped = crew_ps_process(&crew, 1);
    assert_int_equal(0, kill(stopped, SIGSTOP));
    assert_code(
        0, cox_schedule(crew.c, crew_function(&crew, "count_or_fail"), NULL, &future));
    coxi_test_until(is_applied, &applied, "the commit on the other ps");
    crew_kill(crew_step_process(&crew, 0));
    assert_int_equal(0, kill(stopped, SIGCONT));
    int r = cox_future_wait(future, -1);
    int64_t on_ps1 = crew_read(&crew, c1);
    if (r == 0) { /* the ps had applied the commit before it stopped */
        assert_int_equal(1, on_ps1);
    } else if (on_ps1 == 1) {
        /* attempt 3, which was to return the results, has failed as well */
        assert_code(COX_EREPLAY, r);
        assert_error_names("all its updates are applied");
    } else {
        assert_code(COX_EPARTIAL, r);
        assert_error_names("attempt 2; as of now it is applied on ps 0");
        assert_int_equal(0, on_ps1);
    }
    assert_int_equal(1, crew_read(&crew, c0));
    assert_int_equal(r, cox_join(crew.c, -1));
    cox_future_free(future);

    /* The coordinator is usable afterwards. */
    assert_code(0,
                cox_schedule(crew.c, crew_function(&crew, "nothing"), NULL, &future));
    assert_code(0, cox_future_wait(future, -1));
    cox_future_free(future);
    crew_close(&crew);
}

static bool has_all(void *arg)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(arg, &stats));
    return stats.queued == 0;
}

/*
 * A worker is lost with more closures than a ps may be asked about at a time, while
 * that ps is stopped. The loop asks about all of them without waiting for the ps,
 * because it is the loop that must declare the ps lost.
 */
TEST(
    close_returns_although_more_is_to_be_asked_of_a_stopped_ps_than_it_may_have_unanswered)
{
    enum { N = 6000, CLOSE_MS = 300, MOST_MS = 6000 };
    struct crew crew;
    struct crew_hold hold;
    struct cox_options options = COX_OPTIONS_INIT;
    options.prefetch = N + 1;
    options.peer_timeout_ms = 500;
    crew_open(&crew, 1, 1, "hold", &options);
    crew_hold(&hold, &crew, "hold_and_count", false);
    crew_hold_wait(&hold);
    for (int i = 0; i < N; i++) {
        assert_code(0,
                    cox_schedule(crew.c, crew_function(&crew, "nothing"), NULL, NULL));
    }
    coxi_test_until(has_all, crew.c, "all closures being with the worker");
    assert_int_equal(0, kill(crew_ps_process(&crew, 0), SIGSTOP));
    crew_kill(crew_step_process(&crew, 0));
    uint64_t since_ms = coxi_now_ms();
    (void)cox_close(crew.c, CLOSE_MS);
    assert_true(coxi_now_ms() - since_ms < MOST_MS);
    (void)close(hold.fd);
}

static bool all_gone(void *arg)
{
    const pid_t *pids = arg;
    for (int i = 0; pids[i] != 0; i++) {
        if (kill(pids[i], 0) == 0) {
            return false;
        }
    }
    return true;
}

static bool is_missing(void *arg)
{
    return access(arg, F_OK) != 0;
}

TEST(client_killed_leaves_no_process_and_no_file)
{
    struct crew crew = {0};
    char ready[2];
    int fds[2];
    assert_int_equal(0, pipe(fds));
    (void)snprintf(crew.log_dir, sizeof(crew.log_dir), "%s/logs-0", coxi_test_dir());
    pid_t client = fork();
    if (client == 0) {
        struct crew mine;
        crew_open(&mine, 2, 2, "counter", NULL);
        (void)crew_counter(&mine, "c0");
        crew_schedule(&mine, crew_function(&mine, "count"), 1000, 1);
        (void)!write(fds[1], "r", 1);
        for (;;) {
            (void)pause();
        }
    }
    assert_int_equal(1, read(fds[0], ready, 1));
    pid_t pids[7] = {
        crew_ps_process(&crew, 0),   crew_ps_process(&crew, 1),
        crew_step_process(&crew, 0), crew_step_process(&crew, 1),
        crew_supervisor(&crew, 0),   crew_supervisor(&crew, 1),
    };
    char socket[256];
    crew_socket(&crew, "ps", 0, socket);
    assert_int_equal(0, access(socket, F_OK));
    crew_kill(client);
    assert_int_equal(client, waitpid(client, NULL, 0));
    coxi_test_until(all_gone, pids, "the end of every daemon");
    coxi_test_until(is_missing, socket, "the end of the sockets");
    (void)close(fds[0]);
    (void)close(fds[1]);
}
