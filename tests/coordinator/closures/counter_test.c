/* The promise: every step counts exactly once on every ps that it touches. */
#include <signal.h>
#include <stdio.h>

#include "tests/coordinator/crew.h"
#include "tests/test.h"

enum { N_PS = 3, N_STEPS = 100000 };

static void open_with_counters(struct crew *crew, struct cox_variable **counters)
{
    crew_open(crew, N_PS, 2, "counter", NULL);
    for (int i = 0; i < N_PS; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "c%d", i);
        counters[i] = crew_counter(crew, name);
    }
}

static void assert_all(struct crew *crew, struct cox_variable **counters,
                       int64_t expected)
{
    for (int i = 0; i < N_PS; i++) {
        assert_int_equal(expected, crew_read(crew, counters[i]));
    }
}

TEST(steps_count_exactly_once_on_every_ps)
{
    struct crew crew;
    struct cox_variable *counters[N_PS];
    open_with_counters(&crew, counters);
    crew_schedule(&crew, crew_function(&crew, "count"), N_STEPS, N_PS);
    assert_code(0, cox_join(crew.c, -1));
    assert_all(&crew, counters, N_STEPS);
    crew_close(&crew);
}

static void count_while_killing(bool supervisor)
{
    struct crew crew;
    struct cox_variable *counters[N_PS];
    struct cox_stats stats = COX_STATS_INIT;
    open_with_counters(&crew, counters);
    struct cox_function *count = crew_function(&crew, "count");
    crew_schedule(&crew, count, N_STEPS / 2, N_PS);
    pid_t victim = supervisor ? crew_supervisor(&crew, 0) : crew_step_process(&crew, 0);
    assert_int_equal(0, kill(victim, SIGKILL));
    crew_schedule(&crew, count, N_STEPS / 2, N_PS);
    assert_code(0, cox_join(crew.c, -1));
    assert_all(&crew, counters, N_STEPS);
    assert_code(0, cox_stats(crew.c, &stats));
    assert_int_equal(1, stats.workers_lost);
    assert_int_equal(N_STEPS, stats.done);
    crew_close(&crew);
}

TEST(steps_count_once_when_a_worker_is_killed)
{
    count_while_killing(true);
}

TEST(steps_count_once_when_a_step_process_is_killed)
{
    count_while_killing(false);
}
