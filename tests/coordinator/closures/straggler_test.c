/* Closures that take far longer than others: second attempts, and closures that are
 * queued after them. */
#include <stdbool.h>

#include "tests/coordinator/crew.h"
#include "tests/test.h"

enum { SAMPLES = 40 };

static void open_crew(struct crew *crew, int n_workers,
                      const struct cox_options *options)
{
    crew_open(crew, 2, n_workers, "hold", options);
}

/* Runs "straggle" often enough that its average time is known. */
static void take_samples(struct crew *crew)
{
    crew_schedule(crew, crew_function(crew, "straggle"), SAMPLES, 0);
    assert_code(0, cox_join(crew->c, -1));
}

static int attempt_of(struct cox_future *future)
{
    struct cox_value value;
    assert_code(0, cox_future_result(future, "attempt", &value));
    return *(const int32_t *)value.data;
}

TEST(straggler_is_raced_by_an_idle_worker_and_counts_once)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_stats stats = COX_STATS_INIT;
    struct cox_options options = COX_OPTIONS_INIT;
    options.cancel_grace_ms = 600000; /* so that the losing attempt ends by itself */
    open_crew(&crew, 2, &options);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    take_samples(&crew);
    crew_hold(&hold, &crew, "straggle", true);
    crew_hold_wait(&hold);
    /* although the first attempt is held */
    assert_code(0, cox_future_wait(hold.future, -1));
    assert_int_equal(2, attempt_of(hold.future));
    crew_hold_end(&hold);
    /* The first attempt ends, too, and closures that come after it run: */
    crew_schedule(&crew, crew_function(&crew, "nothing"), 100, 0);
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(SAMPLES + 1, crew_read(&crew, counter));
    assert_code(0, cox_stats(crew.c, &stats));
    assert_int_equal(1, stats.speculated);
    assert_int_equal(1, stats.speculation_won);
    assert_int_equal(0, stats.workers_lost);
    cox_future_free(hold.future);
    crew_close(&crew);
}

TEST(straggler_is_left_alone_where_that_is_asked_for_or_only_one_worker_may_run_it)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_stats stats = COX_STATS_INIT;
    struct cox_options options = COX_OPTIONS_INIT;
    options.speculate = -1;
    open_crew(&crew, 2, &options);
    (void)crew_counter(&crew, "c0");
    take_samples(&crew);
    crew_hold(&hold, &crew, "straggle", true);
    crew_hold_wait(&hold);
    assert_code(COX_ETIMEDOUT, cox_future_wait(hold.future, 400));
    crew_hold_release(&hold);
    assert_code(0, cox_future_wait(hold.future, -1));
    assert_int_equal(1, attempt_of(hold.future));
    assert_code(0, cox_stats(crew.c, &stats));
    assert_int_equal(0, stats.speculated);
    cox_future_free(hold.future);
    crew_close(&crew);
}

/* Runs one held step to its end. */
static void hold_once(struct crew *crew)
{
    struct crew_hold hold;
    crew_hold(&hold, crew, "hold_and_count", true);
    crew_hold_wait(&hold);
    crew_hold_release(&hold);
    assert_code(0, cox_future_wait(hold.future, -1));
    cox_future_free(hold.future);
}

static bool is_raced(void *arg)
{
    struct crew *crew = arg;
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(crew->c, &stats));
    return stats.speculated > 0;
}

/* While two attempts of a closure run, worker `victim` dies, which runs one. */
static void check_race_with_a_loss(int victim)
{
    struct crew crew;
    struct crew_hold hold;
    open_crew(&crew, 2, NULL);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    for (int i = 0; i < SAMPLES; i++) {
        hold_once(&crew);
    }
    crew_hold(&hold, &crew, "hold_and_count", true);
    crew_hold_wait(&hold);
    coxi_test_until(is_raced, &crew, "a second attempt");
    pid_t pid = crew_step_process(&crew, victim);
    crew_kill(pid);
    crew_wait_gone(pid);
    crew_hold_end(&hold); /* for running and later attempts */
    assert_code(0, cox_future_wait(hold.future, -1));
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(SAMPLES + 1, crew_read(&crew, counter));
    cox_future_free(hold.future);
    crew_close(&crew);
}

TEST(straggler_goes_on_with_the_attempt_whose_worker_is_left)
{
    check_race_with_a_loss(0);
    check_race_with_a_loss(1);
}

TEST(closures_behind_a_long_one_run_on_idle_workers)
{
    enum { BEHIND = 64 };
    struct crew crew;
    struct crew_hold hold;
    struct cox_options options = COX_OPTIONS_INIT;
    options.prefetch = 64;
    open_crew(&crew, 2, &options);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    crew_hold(&hold, &crew, "hold", true);
    crew_hold_wait(&hold);
    struct cox_future *behind[BEHIND];
    for (int i = 0; i < BEHIND; i++) {
        assert_code(0, cox_schedule(crew.c, crew_function(&crew, "straggle"), NULL,
                                    &behind[i]));
    }
    for (int i = 0; i < BEHIND; i++) {
        assert_code(0, cox_future_wait(behind[i], -1));
        /* Its attempt number may be 1 or 2, because a closure that was handed back had
         * not run. */
        cox_future_free(behind[i]);
    }
    assert_int_equal(BEHIND, crew_read(&crew, counter));
    crew_hold_release(&hold);
    assert_code(0, cox_join(crew.c, -1));
    cox_future_free(hold.future);
    crew_close(&crew);
}
