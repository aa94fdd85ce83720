/* A ps is lost and comes back: what it had is restored and replayed, and counts once. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/client/yard.h"
#include "tests/test.h"

enum { N_PS = 2 };

struct counted {
    struct crew crew;
    struct cox_variable *counters[N_PS]; /* counters[i] is on ps i */
    struct cox_function *count;
};

static void counted_open(struct counted *s, int n_workers)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    crew_open(&s->crew, N_PS, n_workers, "counter", &options);
    s->counters[0] = crew_counter(&s->crew, "c0");
    s->counters[1] = crew_counter(&s->crew, "c1");
    s->count = crew_function(&s->crew, "count");
}

static uint64_t recovered(struct crew *crew)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(crew->c, &stats));
    return stats.ps_recovered;
}

/* Kills ps `index`, and returns when it is there again: reads wait for that. */
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

TEST(ps_are_lost_while_steps_run_and_each_counts_once)
{
    enum { ROUNDS = 4, STEPS = 3000 };
    struct counted s;
    counted_open(&s, 2);
    for (int i = 0; i < ROUNDS; i++) {
        crew_schedule(&s.crew, s.count, STEPS, N_PS);
        crew_kill(crew_ps_process(&s.crew, i % N_PS));
        if (i == 1) {
            (void)cox_checkpoint_save(s.crew.c, NULL, NULL); /* or not: one is away */
        }
        assert_code(0, cox_join(s.crew.c, -1));
        assert_counters(&s, (i + 1) * STEPS, (i + 1) * STEPS);
    }
    crew_close(&s.crew);
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
