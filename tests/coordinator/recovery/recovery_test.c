/* A ps is lost and comes back: its values are restored and replayed, and each closure
 * counts once. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/coordinator/yard.h"
#include "tests/ps/caller.h"
#include "tests/test.h"

enum { N_PS = 2 };

/* Threads that this process has started and not joined, which is the number of
 * stacks. */
static atomic_int n_threads;

int __real_coxi_thread_start(pthread_t *ret, const char *name, void *(*run)(void *),
                             void *arg);
int __wrap_coxi_thread_start(pthread_t *ret, const char *name, void *(*run)(void *),
                             void *arg);
int __real_pthread_join(pthread_t thread, void **ret);
int __wrap_pthread_join(pthread_t thread, void **ret);

int __wrap_coxi_thread_start(pthread_t *ret, const char *name, void *(*run)(void *),
                             void *arg)
{
    int r = __real_coxi_thread_start(ret, name, run, arg);
    atomic_fetch_add(&n_threads, r == 0);
    return r;
}

int __wrap_pthread_join(pthread_t thread, void **ret)
{
    int r = __real_pthread_join(thread, ret);
    atomic_fetch_sub(&n_threads, r == 0);
    return r;
}

struct counted {
    struct crew crew;
    struct cox_variable *counters[N_PS]; /* counters[i] is on ps i */
    struct cox_function *count;
};

static void counted_open_with(struct counted *s, int n_workers,
                              struct cox_options *options)
{
    options->checkpoint_dir = coxi_test_path("checkpoints");
    crew_open(&s->crew, N_PS, n_workers, "counter", options);
    s->counters[0] = crew_counter(&s->crew, "c0");
    s->counters[1] = crew_counter(&s->crew, "c1");
    s->count = crew_function(&s->crew, "count");
}

static void counted_open(struct counted *s, int n_workers)
{
    struct cox_options options = COX_OPTIONS_INIT;
    counted_open_with(s, n_workers, &options);
}

static uint64_t recovered(struct crew *crew)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(crew->c, &stats));
    return stats.ps_recovered;
}

/* Kills ps `index`, and returns when it is restored, because reads wait for that. */
static void lose_ps(struct counted *s, int index)
{
    uint64_t before = recovered(&s->crew);
    crew_kill(crew_ps_process(&s->crew, index));
    while (recovered(&s->crew) == before) {
        (void)crew_read(&s->crew, s->counters[index]);
    }
}

static void assert_counters(struct counted *s, int64_t a, int64_t b)
{
    assert_int_equal(a, crew_read(&s->crew, s->counters[0]));
    assert_int_equal(b, crew_read(&s->crew, s->counters[1]));
}

TEST(a_ps_lost_before_any_checkpoint_has_everything_done_again)
{
    struct counted s;
    const int64_t seven = 7;
    const int64_t hundred = 100;
    counted_open(&s, 1);
    crew_schedule(&s.crew, s.count, 100, N_PS);
    assert_code(0, cox_join(s.crew.c, -1));
    assert_code(0, cox_variable_add(s.crew.c, s.counters[0], &seven, sizeof(seven)));
    crew_schedule(&s.crew, s.count, 50, N_PS);
    assert_code(0, cox_join(s.crew.c, -1));
    assert_code(
        0, cox_variable_assign(s.crew.c, s.counters[1], &hundred, sizeof(hundred)));
    crew_schedule(&s.crew, s.count, 10, N_PS);
    assert_code(0, cox_join(s.crew.c, -1));
    assert_counters(&s, 167, 110);
    for (int ps = 0; ps < N_PS; ps++) {
        lose_ps(&s, ps);
        assert_counters(&s, 167, 110);
    }
    crew_schedule(&s.crew, s.count, 5, N_PS);
    assert_code(0, cox_join(s.crew.c, -1));
    assert_counters(&s, 172, 115);
    crew_close(&s.crew);
}

static bool has_so_many_threads(void *arg)
{
    return atomic_load(&n_threads) <= *(int *)arg;
}

TEST(a_ps_that_comes_back_again_and_again_leaves_no_threads_behind)
{
    struct counted s;
    counted_open(&s, 1);
    crew_schedule(&s.crew, s.count, 10, N_PS);
    assert_code(0, cox_join(s.crew.c, -1));
    int before = atomic_load(&n_threads);
    for (int i = 0; i < 3; i++) {
        lose_ps(&s, 0);
    }
    assert_counters(&s, 10, 10);
    coxi_test_until(has_so_many_threads, &before, "the end of what recoveries began");
    crew_close(&s.crew);
}

TEST(a_ps_is_restored_from_the_checkpoint_and_replayed_from_there)
{
    struct counted s;
    const int64_t seven = 7;
    counted_open(&s, 2);
    crew_schedule(&s.crew, s.count, 100, N_PS);
    assert_code(0, cox_join(s.crew.c, -1));
    assert_code(0, cox_checkpoint_save(s.crew.c, NULL, NULL));
    lose_ps(&s, 0);
    assert_counters(&s, 100, 100);
    crew_schedule(&s.crew, s.count, 100, N_PS);
    assert_code(0, cox_join(s.crew.c, -1));
    struct cox_variable *late = crew_counter(&s.crew, "late");
    assert_code(0, cox_variable_add(s.crew.c, late, &seven, sizeof(seven)));
    for (int i = 0; i < 4; i++) {
        lose_ps(&s, i % N_PS);
        assert_counters(&s, 200, 200);
        assert_int_equal(7, crew_read(&s.crew, late));
    }
    assert_code(0, cox_checkpoint_save(s.crew.c, NULL, NULL));
    lose_ps(&s, 1);
    assert_counters(&s, 200, 200);
    crew_close(&s.crew);
}

/* ---- tables that are created while a ps is lost */

struct creation {
    struct crew *crew;
    struct cox_table *table;
    int code;
};

static void *create_table(void *arg)
{
    struct creation *creation = arg;
    struct cox_table_spec spec = COX_TABLE_SPEC_INIT;
    spec.name = "t";
    spec.dim = 1;
    spec.optimizer.kind = COX_SGD;
    spec.optimizer.learning_rate = 1;
    creation->code = cox_table_create(creation->crew->c, &spec, &creation->table);
    return NULL;
}

/* The test's own connection to a ps, to ask about its variables. */
struct witness {
    struct caller *caller;
    size_t n_variables;
};

static bool has_variables(void *arg)
{
    const struct witness *witness = arg;
    struct coxi_message message = {.kind = COXI_DESCRIBE};
    caller_send(witness->caller, &message, NULL, 0);
    return caller_expect(witness->caller, COXI_LAYOUT)->layout.n_variables ==
           witness->n_variables;
}

static void wait_for_variables(struct crew *crew, int index, size_t n)
{
    static const struct coxi_hello tool = {.role = COXI_ROLE_TOOL};
    char socket[256];
    char url[300];
    crew_socket(crew, "ps", index, socket);
    (void)snprintf(url, sizeof(url), "ipc://%s", socket);
    struct witness witness = {caller_join(url, &tool), n};
    coxi_test_until(has_variables, &witness, "a variable on a ps");
    caller_close(witness.caller);
}

/* The other ps is stopped, so that the creation is still under way when the first one
 * is lost and comes back without the table. */
TEST(a_table_is_created_on_every_ps_though_one_that_had_it_is_lost_meanwhile)
{
    struct counted s;
    struct creation creation = {.crew = &s.crew};
    pthread_t thread;
    uint64_t keys[64];
    float rows[64];
    (void)rig_key(); /* for the witness, too */
    counted_open(&s, 1);
    assert_code(0, cox_checkpoint_save(s.crew.c, NULL, NULL));
    pid_t stopped = crew_ps_process(&s.crew, 0);
    assert_int_equal(0, kill(stopped, SIGSTOP));
    assert_int_equal(0, pthread_create(&thread, NULL, create_table, &creation));
    wait_for_variables(&s.crew, 1, 2); /* its counter and the table */
    crew_kill(crew_ps_process(&s.crew, 1));
    (void)crew_read(&s.crew, s.counters[1]); /* returns when the ps is restored */
    assert_int_equal(0, kill(stopped, SIGCONT));
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_code(0, creation.code);
    for (size_t i = 0; i < 64; i++) {
        keys[i] = i;
    }
    assert_code(0, cox_table_read(s.crew.c, creation.table, keys, 64, rows));
    for (int ps = 0; ps < N_PS; ps++) {
        lose_ps(&s, ps);
        assert_code(0, cox_table_read(s.crew.c, creation.table, keys, 64, rows));
    }
    crew_close(&s.crew);
}

/* Kills both ps at once. */
static void kill_both(struct counted *s)
{
    const pid_t both[N_PS] = {crew_ps_process(&s->crew, 0),
                              crew_ps_process(&s->crew, 1)};
    crew_kill(both[0]);
    crew_kill(both[1]);
}

/* The checkpoint builds on another one, so each ps loads two files. */
TEST(ps_that_are_lost_together_come_back_together_with_all_that_they_had)
{
    struct counted s;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_incremental = 1;
    counted_open_with(&s, 2, &options);
    for (int i = 1; i <= 2; i++) {
        crew_schedule(&s.crew, s.count, 100, N_PS);
        assert_code(0, cox_join(s.crew.c, -1));
        assert_code(0, cox_checkpoint_save(s.crew.c, NULL, NULL));
    }
    crew_schedule(&s.crew, s.count, 50, N_PS);
    assert_code(0, cox_join(s.crew.c, -1));
    for (int i = 0; i < 3; i++) {
        uint64_t before = recovered(&s.crew);
        kill_both(&s);
        while (recovered(&s.crew) < before + N_PS) {
            assert_counters(&s, 250, 250);
        }
    }
    crew_schedule(&s.crew, s.count, 5, N_PS);
    assert_code(0, cox_join(s.crew.c, -1));
    assert_counters(&s, 255, 255);
    crew_close(&s.crew);
}

static bool has_restored_the_second(void *arg)
{
    char path[300];
    char line[2048];
    bool found = false;
    (void)snprintf(path, sizeof(path), "%s/ps-1.log", ((struct crew *)arg)->log_dir);
    FILE *log = fopen(path, "re");
    assert_non_null(log);
    while (!found && fgets(line, sizeof(line), log) != NULL) {
        found = strstr(line, " event=restore ") != NULL;
    }
    (void)fclose(log);
    return found;
}

/* The first ps cannot open its shard before the test releases the file. */
TEST(ps_that_are_lost_together_do_not_wait_for_each_other_to_be_restored)
{
    struct counted s;
    int64_t value;
    char *shard = coxi_test_path("checkpoints/ckpt-1/ps-0-of-2.safetensors");
    counted_open(&s, 1);
    assert_code(0, cox_checkpoint_save(s.crew.c, NULL, NULL));
    int held = coxi_test_hold_file(shard);
    kill_both(&s);
    coxi_test_until(coxi_test_is_wanted, &held, "the first one reading");
    coxi_test_until(has_restored_the_second, &s.crew, "the other one restored");
    assert_true(coxi_test_is_wanted(&held));
    assert_int_equal(0, ftruncate(held, 0));
    assert_int_equal(0, close(held));
    assert_code(COX_EPSLOST,
                cox_variable_read(s.crew.c, s.counters[0], &value, sizeof(value)));
    assert_error_names("ckpt-1/ps-0-of-2.safetensors");
    crew_close(&s.crew);
}

TEST(of_ps_that_are_lost_together_the_one_whose_shard_is_damaged_is_told_by_its_file)
{
    struct counted s;
    int64_t value;
    counted_open(&s, 1);
    crew_schedule(&s.crew, s.count, 10, N_PS);
    assert_code(0, cox_join(s.crew.c, -1));
    assert_code(0, cox_checkpoint_save(s.crew.c, NULL, NULL));
    FILE *shard =
        fopen(coxi_test_path("checkpoints/ckpt-1/ps-1-of-2.safetensors"), "r+");
    assert_non_null(shard);
    assert_int_equal(0, fseek(shard, -1, SEEK_END));
    assert_int_equal('!', fputc('!', shard));
    assert_int_equal(0, fclose(shard));
    const pid_t both[N_PS] = {crew_ps_process(&s.crew, 0), crew_ps_process(&s.crew, 1)};
    crew_kill(both[0]);
    crew_kill(both[1]);
    assert_code(COX_EPSLOST,
                cox_variable_read(s.crew.c, s.counters[1], &value, sizeof(value)));
    assert_error_names("ckpt-1/ps-1-of-2.safetensors: it is damaged");
    crew_close(&s.crew);
}

TEST(ps_are_lost_while_steps_run_and_each_counts_once)
{
    enum { ROUNDS = 4, STEPS = 3000 };
    struct counted s;
    counted_open(&s, 2);
    for (int i = 0; i < ROUNDS; i++) {
        crew_schedule(&s.crew, s.count, STEPS, N_PS);
        crew_kill(crew_ps_process(&s.crew, i % N_PS));
        if (i == 1) {
            /* may fail, because a ps is away */
            (void)cox_checkpoint_save(s.crew.c, NULL, NULL);
        }
        assert_code(0, cox_join(s.crew.c, -1));
        assert_counters(&s, (i + 1) * STEPS, (i + 1) * STEPS);
    }
    crew_close(&s.crew);
}

/* The closure's id is lower than those of closures that are done and are replayed. */
TEST(a_closure_that_was_under_way_when_a_ps_was_lost_counts_when_it_ends)
{
    enum { N = 20 };
    struct crew crew;
    struct crew_hold hold;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_future *futures[N];
    options.checkpoint_dir = coxi_test_path("checkpoints");
    crew_open(&crew, N_PS, 2, "hold", &options);
    struct cox_variable *c0 = crew_counter(&crew, "c0");
    crew_hold(&hold, &crew, "hold_and_count", false);
    crew_hold_wait(&hold);
    for (int i = 0; i < N; i++) {
        assert_code(0, cox_schedule(crew.c, crew_function(&crew, "straggle"), NULL,
                                    &futures[i]));
    }
    for (int i = 0; i < N; i++) {
        assert_code(0, cox_future_wait(futures[i], -1));
        cox_future_free(futures[i]);
    }
    uint64_t before = recovered(&crew);
    crew_kill(crew_ps_process(&crew, 0));
    while (recovered(&crew) == before) {
        assert_int_equal(N, crew_read(&crew, c0));
    }
    crew_hold_end(&hold);
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(N + 1, crew_read(&crew, c0));
    crew_close(&crew);
}

/* ---- a ps of the user's own, which nobody else starts again */

static void yard_open_recovering(struct yard *yard, int recovery_ms)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    options.ps_recovery_ms = recovery_ms;
    yard_open(yard, &options);
}

static void kill_ps(struct yard *yard)
{
    program_kill(&yard->ps, SIGKILL);
    assert_int_equal(256 + SIGKILL, program_wait(&yard->ps));
}

TEST(a_ps_that_its_user_starts_again_comes_back)
{
    struct yard yard;
    char address[256];
    const int64_t seven = 7;
    yard_open_recovering(&yard, 20000);
    assert_code(0, cox_variable_add(yard.crew.c, yard.counter, &seven, sizeof(seven)));
    (void)snprintf(address, sizeof(address), "%s", yard.ps_address);
    kill_ps(&yard);
    daemon_start(&yard.ps, "coxswain-ps", 0, address, yard.ps_address);
    assert_int_equal(7, crew_read(&yard.crew, yard.counter));
    yard_close(&yard);
}

TEST(a_ps_comes_back_at_another_address)
{
    struct yard yard;
    struct program worker;
    char address[256];
    const int64_t seven = 7;
    yard_open_recovering(&yard, 20000);
    yard_worker(&yard, &worker, NULL);
    yard_wait_ready(&yard, 1);
    assert_code(0, cox_variable_add(yard.crew.c, yard.counter, &seven, sizeof(seven)));
    kill_ps(&yard);
    daemon_start(&yard.ps, "coxswain-ps", 0, "tcp://127.0.0.1:0", address);
    assert_code(COX_EADDRESS, cox_ps_address(yard.crew.c, 0, "nowhere"));
    assert_code(COX_EINVAL, cox_ps_address(yard.crew.c, 1, address));
    assert_code(0, cox_ps_address(yard.crew.c, 0, address));
    assert_int_equal(7, crew_read(&yard.crew, yard.counter));
    yard_count(&yard, 5);
    assert_code(0, cox_join(yard.crew.c, -1));
    assert_int_equal(12, crew_read(&yard.crew, yard.counter));
    yard_kill(&worker);
    yard_close(&yard);
}

static uint64_t count_recovered(const struct yard *yard)
{
    struct cox_stats stats = COX_STATS_INIT;
    (void)cox_stats(yard->crew.c, &stats);
    return stats.ps_recovered;
}

static bool has_recovered(void *arg)
{
    return count_recovered(arg) == 1;
}

/* The old process is only stopped, so workers leave it only if the client tells them
 * to. */
TEST(workers_leave_a_ps_that_has_moved_although_the_old_process_is_there)
{
    struct yard yard;
    struct program worker;
    struct program old;
    char address[256];
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    options.peer_timeout_ms = 3000; /* the worker sends a heartbeat every 2500 ms */
    yard_open(&yard, &options);
    yard_worker(&yard, &worker, NULL);
    yard_wait_ready(&yard, 1);
    yard_count(&yard, 5);
    assert_code(0, cox_join(yard.crew.c, -1));
    old = yard.ps;
    program_pause(&old);
    daemon_start(&yard.ps, "coxswain-ps", 0, "tcp://127.0.0.1:0", address);
    assert_code(0, cox_ps_address(yard.crew.c, 0, address));
    coxi_test_until(has_recovered, &yard, "the recovery at the new address");
    yard_count(&yard, 5);
    assert_code(0, cox_join(yard.crew.c, 5000));
    assert_int_equal(10, crew_read(&yard.crew, yard.counter));
    yard_kill(&worker);
    program_kill(&old, SIGKILL);
    assert_int_equal(256 + SIGKILL, program_wait(&old));
    yard_close(&yard);
}

TEST(a_ps_that_does_not_come_back_in_time_ends_the_run)
{
    struct yard yard;
    int64_t value = 0;
    yard_open_recovering(&yard, 500);
    kill_ps(&yard);
    assert_code(COX_EPSLOST,
                cox_variable_read(yard.crew.c, yard.counter, &value, sizeof(value)));
    assert_error_names("could not be brought back in 500 ms");
    yard_close_client(&yard);
    cox_cluster_free(yard.cluster);
}

/* Another daemon at the address of a lost ps may go away in time: here it is a ps of
 * another run, and that run ends. */
TEST(a_lost_ps_is_looked_at_until_its_time_is_over)
{
    struct yard yard;
    struct yard other = {0};
    struct cox_options options = COX_OPTIONS_INIT;
    const int64_t seven = 7;
    yard_open_recovering(&yard, 60000);
    assert_code(0, cox_variable_add(yard.crew.c, yard.counter, &seven, sizeof(seven)));
    options.listen = "tcp://127.0.0.1:0";
    yard_open(&other, &options);
    kill_ps(&yard);
    assert_code(0, cox_ps_address(yard.crew.c, 0, other.ps_address));
    program_wait_printed(&other.ps, "COX_EBUSY");
    yard_close_client(&other);
    assert_int_equal(7, crew_read(&yard.crew, yard.counter));
    yard.ps = other.ps;
    cox_cluster_free(other.cluster);
    yard_close(&yard);
}

static bool is_not_done(void *arg)
{
    return cox_done(((struct yard *)arg)->crew.c) == 0;
}

TEST(join_waits_until_a_lost_ps_has_all_of_its_own_again)
{
    struct yard yard;
    struct program worker;
    char address[256];
    yard_open_recovering(&yard, 20000);
    yard_worker(&yard, &worker, NULL);
    yard_count(&yard, 5);
    assert_code(0, cox_join(yard.crew.c, -1));
    assert_int_equal(1, cox_done(yard.crew.c));
    kill_ps(&yard);
    coxi_test_until(is_not_done, &yard, "the loss of the ps");
    assert_code(COX_ETIMEDOUT, cox_join(yard.crew.c, 300));
    assert_error_names("a ps is lost");
    assert_int_equal(0, cox_done(yard.crew.c));
    (void)snprintf(address, sizeof(address), "%s", yard.ps_address);
    daemon_start(&yard.ps, "coxswain-ps", 0, address, yard.ps_address);
    assert_code(0, cox_join(yard.crew.c, 8000));
    assert_int_equal(1, cox_done(yard.crew.c));
    assert_int_equal(5, crew_read(&yard.crew, yard.counter));
    yard_kill(&worker);
    yard_close(&yard);
}

/* The closure's worker is lost as well, so only the ps could say whether the closure is
 * applied. */
TEST(a_closure_whose_end_waited_for_a_ps_that_stays_away_is_settled)
{
    struct yard yard;
    struct program worker;
    struct crew_hold hold;
    struct cox_error error = COX_ERROR_INIT;
    yard_open_recovering(&yard, 2000);
    yard_worker(&yard, &worker, NULL);
    yard_wait_ready(&yard, 1);
    crew_hold(&hold, &yard.crew, "hold_and_count", true);
    crew_hold_wait(&hold);
    kill_ps(&yard);
    yard_kill(&worker);
    assert_code(0, cox_future_cancel(hold.future));
    assert_code(COX_EPSLOST, cox_join(yard.crew.c, 8000));
    assert_code(COX_EPSLOST, cox_future_wait(hold.future, 0));
    assert_code(0, cox_future_error(hold.future, &error));
    cox_future_free(hold.future);
    crew_hold_release(&hold);
    yard_close_client(&yard);
    cox_cluster_free(yard.cluster);
}

static bool has_failed(void *arg)
{
    return cox_checkpoint_error(((struct yard *)arg)->crew.c) == COX_EPSLOST;
}

TEST(a_checkpoint_that_is_due_when_a_ps_stays_away_fails_and_closing_goes_on)
{
    struct yard yard;
    struct cox_options options = COX_OPTIONS_INIT;
    const int64_t seven = 7;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    options.checkpoint_every_s = 1;
    options.ps_recovery_ms = 1500;
    yard_open(&yard, &options);
    kill_ps(&yard);
    (void)cox_variable_add(yard.crew.c, yard.counter, &seven, sizeof(seven));
    coxi_test_until(has_failed, &yard, "a checkpoint that fails");
    yard_close_client(&yard);
    cox_cluster_free(yard.cluster);
}
