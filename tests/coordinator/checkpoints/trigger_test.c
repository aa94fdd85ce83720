/* Checkpoints by triggers, and which old checkpoints are deleted. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/checkpoints.h"
#include "checkpoint/latest.h"
#include "common/clock.h"
#include "tests/coordinator/crew.h"
#include "tests/test.h"

static const char *dir; /* of the test's checkpoints */

static struct cox_options options_for(const char *name)
{
    struct cox_options options = COX_OPTIONS_INIT;
    dir = coxi_test_path(name);
    options.checkpoint_dir = dir;
    return options;
}

static bool is_there(void *arg)
{
    uint64_t latest = 0;
    return coxi_latest_read(dir, &latest) == 0 && latest >= *(const uint64_t *)arg;
}

static void wait_for(uint64_t number)
{
    coxi_test_until(is_there, &number, "a checkpoint");
}

static struct cox_stats stats_of(struct crew *crew)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(crew->c, &stats));
    return stats;
}

/* ---- when checkpoints are written */

TEST(checkpoints_are_written_every_so_many_closures)
{
    struct crew crew;
    struct cox_options options = options_for("ckpt");
    options.checkpoint_every_closures = 50;
    crew_open(&crew, 1, 1, "counter", &options);
    (void)crew_counter(&crew, "c0");
    crew_schedule(&crew, crew_function(&crew, "count"), 49, 1);
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(0, stats_of(&crew).checkpoints);
    crew_schedule(&crew, crew_function(&crew, "count"), 1, 1);
    wait_for(1);
    assert_code(0, cox_join(crew.c, -1));
    crew_schedule(&crew, crew_function(&crew, "count"), 50, 1);
    wait_for(2);
    assert_code(0, cox_checkpoint_error(crew.c));
    crew_close(&crew);
}

TEST(each_one_counts_for_the_next_whoever_called_for_it)
{
    enum { SAVES = 50 }; /* enough that the loop checks the triggers meanwhile */
    struct crew crew;
    struct cox_options options = options_for("ckpt");
    options.checkpoint_every_closures = 10;
    crew_open(&crew, 1, 1, "counter", &options);
    (void)crew_counter(&crew, "c0");
    crew_schedule(&crew, crew_function(&crew, "count"), 10, 1);
    wait_for(1);
    assert_code(0, cox_join(crew.c, -1));
    for (uint64_t i = 0; i < SAVES; i++) {
        uint64_t number = 0;
        crew_schedule(&crew, crew_function(&crew, "count"), 5, 1);
        assert_code(0, cox_join(crew.c, -1));
        assert_code(0, cox_checkpoint_save(crew.c, NULL, &number));
        assert_int_equal(i + 2, number);
    }
    crew_close(&crew);
}

TEST(checkpoints_are_written_every_so_many_seconds)
{
    struct crew crew;
    struct cox_options options = options_for("ckpt");
    options.checkpoint_every_s = 1;
    crew_open(&crew, 1, 1, NULL, &options);
    (void)crew_counter(&crew, "c0"); /* something has happened */
    wait_for(1);
    (void)crew_counter(&crew, "c1");
    wait_for(2);
    crew_close(&crew);
}

TEST(a_small_replay_log_asks_for_four_checkpoints_a_second)
{
    enum { SAVES = 8, PAUSE_MS = 250 };
    struct crew crew;
    struct cox_options options = options_for("ckpt");
    options.replay_log_bytes = 4096;
    crew_open(&crew, 1, 1, "counter", &options);
    (void)crew_counter(&crew, "c0");
    uint64_t since_ms = coxi_now_ms();
    while (stats_of(&crew).checkpoints < SAVES) {
        crew_schedule(&crew, crew_function(&crew, "count"), 10, 1);
    }
    assert_true(coxi_now_ms() - since_ms >= (SAVES - 1) * PAUSE_MS);
    crew_close(&crew);
}

static bool has_failed(void *arg)
{
    return stats_of(arg).checkpoints_failed > 0;
}

TEST(one_that_fails_is_told_and_the_next_is_tried)
{
    struct crew crew;
    struct cox_options options = options_for("ckpt");
    options.checkpoint_every_closures = 5;
    crew_open(&crew, 1, 1, "counter", &options);
    (void)crew_counter(&crew, "c0");
    assert_int_equal(0, mkdir(coxi_test_path("ckpt/ckpt-1"), 0700));
    coxi_test_write(coxi_test_path("ckpt/ckpt-1/x"), "x", 1);
    crew_schedule(&crew, crew_function(&crew, "count"), 5, 1);
    coxi_test_until(has_failed, &crew, "a failure");
    assert_code(COX_EIO, cox_checkpoint_error(crew.c));
    assert_error_names("ckpt-1");
    crew_schedule(&crew, crew_function(&crew, "count"), 5, 1);
    wait_for(2);
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
}

TEST(one_that_is_due_when_a_ps_is_lost_is_written_when_it_is_back)
{
    struct crew crew;
    struct cox_options options = options_for("ckpt");
    options.checkpoint_every_s = 1;
    crew_open(&crew, 1, 1, NULL, &options);
    (void)crew_counter(&crew, "c0");
    wait_for(1);
    (void)crew_counter(&crew, "c1");
    crew_kill(crew_ps_process(&crew, 0));
    (void)crew_counter(&crew, "c2");
    wait_for(2);
    crew_close(&crew);
}

static void assert_refused(const struct cox_options *options, const char *named)
{
    struct cox_cluster *cluster;
    struct cox_coordinator *c = NULL;
    assert_code(0, cox_cluster_local(1, 1, &cluster));
    assert_code(COX_EINVAL, cox_open(cluster, options, &c));
    assert_error_names(named);
    assert_null(c);
    cox_cluster_free(cluster);
}

TEST(triggers_without_a_directory_are_refused)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_every_closures = 1;
    assert_refused(&options, "checkpoint_every_closures");
    options = (struct cox_options)COX_OPTIONS_INIT;
    options.checkpoint_on_sigterm = 1;
    assert_refused(&options, "checkpoint_on_sigterm");
    options = (struct cox_options)COX_OPTIONS_INIT;
    options.checkpoint_keep = 1;
    assert_refused(&options, "checkpoint_keep");
    options = (struct cox_options)COX_OPTIONS_INIT;
    options.checkpoint_at_close = 1;
    assert_refused(&options, "checkpoint_at_close");
    options = options_for("ckpt");
    options.checkpoint_every_s = -1;
    assert_refused(&options, "checkpoint_every_s");
    options = options_for("ckpt");
    options.checkpoint_at_close = 2;
    assert_refused(&options, "checkpoint_at_close is 2");
}

TEST(closing_waits_for_the_one_that_is_being_written)
{
    struct crew crew;
    struct coxi_listed *all = NULL;
    size_t n = 0;
    struct cox_options options = options_for("ckpt");
    options.checkpoint_every_closures = 1;
    crew_open(&crew, 2, 1, "counter", &options);
    (void)crew_counter(&crew, "c0");
    crew_schedule(&crew, crew_function(&crew, "count"), 200, 1);
    wait_for(1);
    crew_close(&crew);
    assert_code(0, coxi_checkpoints_list(dir, &all, &n));
    assert_true(n > 0 && !all[n - 1].unfinished);
    free(all);
}

/* ---- which checkpoints are kept */

static void save(struct crew *crew, int n)
{
    for (int i = 0; i < n; i++) {
        assert_code(0, cox_checkpoint_save(crew->c, NULL, NULL));
    }
}

static void assert_kept(const char *expected)
{
    char text[128] = "";
    size_t used = 0;
    struct coxi_listed *all = NULL;
    size_t n = 0;
    assert_code(0, coxi_checkpoints_list(dir, &all, &n));
    for (size_t i = 0; i < n; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%llu ",
                                 (unsigned long long)all[i].number);
    }
    free(all);
    assert_string_equal(expected, text);
}

TEST(the_newest_checkpoints_and_every_nth_are_kept)
{
    struct crew crew;
    struct cox_options options = options_for("ckpt");
    options.checkpoint_keep = 2;
    options.checkpoint_keep_every = 3;
    crew_open(&crew, 1, 1, NULL, &options);
    save(&crew, 8);
    assert_kept("3 6 7 8 ");
    crew_close(&crew);
}

TEST(keeping_every_nth_needs_a_number_of_newest_ones)
{
    struct cox_cluster *cluster;
    struct cox_coordinator *c;
    struct cox_options options = options_for("ckpt");
    options.checkpoint_keep_every = 3;
    assert_code(0, cox_cluster_local(1, 1, &cluster));
    assert_code(COX_EINVAL, cox_open(cluster, &options, &c));
    assert_error_names("checkpoint_keep_every is 3, and checkpoint_keep 0");
    cox_cluster_free(cluster);
}

TEST(a_checkpoint_that_an_evaluator_has_open_is_kept_until_it_goes_on)
{
    struct crew crew;
    struct cox_evaluator *evaluator;
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    struct cox_options options = options_for("ckpt");
    options.checkpoint_keep = 1;
    crew_open(&crew, 1, 1, NULL, &options);
    struct cox_variable *c0 = crew_counter(&crew, "c0");
    int64_t value = 5;
    assert_code(0, cox_variable_assign(crew.c, c0, &value, sizeof(value)));
    save(&crew, 1);
    assert_code(0, cox_evaluator_open(dir, NULL, &evaluator));
    assert_code(0, cox_evaluator_next(evaluator, &info));
    save(&crew, 2);
    assert_kept("1 3 ");
    value = 0;
    assert_code(0, cox_evaluator_read(evaluator, "c0", &value, sizeof(value)));
    assert_int_equal(5, value);
    assert_code(0, cox_evaluator_next(evaluator, &info));
    assert_int_equal(3, info.number);
    save(&crew, 1);
    assert_kept("3 4 ");
    cox_evaluator_close(evaluator);
    save(&crew, 1);
    assert_kept("5 ");
    crew_close(&crew);
}

/* ---- when the client closes */

static struct cox_options options_at_close(const char *name)
{
    struct cox_options options = options_for(name);
    options.checkpoint_at_close = 1; /* by default crew_open turns it off */
    return options;
}

static uint64_t latest(void)
{
    uint64_t number = 0;
    (void)coxi_latest_read(dir, &number);
    return number;
}

static int64_t counted(const struct cox_options *options, uint64_t cursor)
{
    struct crew crew;
    struct cox_progress progress = COX_PROGRESS_INIT;
    crew_open(&crew, 1, 1, "counter", options);
    assert_code(0, cox_progress(crew.c, &progress));
    assert_int_equal(cursor, progress.cursor);
    int64_t n = crew_read(&crew, crew_counter(&crew, "c0"));
    crew_close(&crew);
    return n;
}

static void count_to(struct crew *crew, uint64_t n)
{
    int64_t one = 1;
    struct cox_value arg = COX_SCALAR("n", COX_I64, &one);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    for (call.cursor = 1; call.cursor <= n; call.cursor++) {
        assert_code(0,
                    cox_schedule(crew->c, crew_function(crew, "count"), &call, NULL));
    }
}

TEST(closing_saves_what_has_happened_since_the_last_one)
{
    struct crew crew;
    struct cox_options options = options_at_close("ckpt");
    crew_open(&crew, 1, 1, "counter", &options);
    (void)crew_counter(&crew, "c0");
    count_to(&crew, 20);
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
    assert_int_equal(1, latest());
    assert_int_equal(20, counted(&options, 20));
    assert_int_equal(1, latest()); /* nothing has happened */
}

TEST(closing_saves_what_ran_when_the_last_one_was_written)
{
    struct crew crew;
    struct crew_hold gate;
    struct cox_options options = options_at_close("ckpt");
    crew_open(&crew, 1, 1, "hold", &options);
    (void)crew_counter(&crew, "c0");
    crew_hold(&gate, &crew, "hold_and_count", false);
    crew_hold_wait(&gate);
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    crew_hold_release(&gate);
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
    assert_int_equal(2, latest());
}

TEST(closing_saves_by_default_with_triggers_or_without)
{
    struct cox_cluster *cluster;
    struct crew crew;
    struct cox_options options = options_for("ckpt");
    options.bin_dir = coxi_test_bin();
    for (int i = 0; i < 2; i++) {
        assert_code(0, cox_cluster_local(1, 1, &cluster));
        assert_code(0, cox_open(cluster, &options, &crew.c));
        (void)crew_counter(&crew, i == 0 ? "c0" : "c1");
        assert_code(0, cox_close(crew.c, 5000));
        cox_cluster_free(cluster);
        assert_int_equal(1 + i, latest());
        options.checkpoint_every_s = 3600;
        options.checkpoint_every_closures = 1000000;
    }
}

TEST(closing_early_saves_what_is_not_done_as_not_done)
{
    struct crew crew;
    struct cox_options options = options_at_close("ckpt");
    crew_open(&crew, 1, 1, "counter", &options);
    (void)crew_counter(&crew, "c0");
    count_to(&crew, 2000);
    crew_close(&crew);
    crew_open(&crew, 1, 1, "counter", &options);
    struct cox_progress progress = COX_PROGRESS_INIT;
    assert_code(0, cox_progress(crew.c, &progress));
    /* joins the closures that the previous client had begun */
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(progress.cursor, crew_read(&crew, crew_counter(&crew, "c0")));
    crew_close(&crew);
}

TEST(closing_after_an_error_or_a_final_checkpoint_saves_nothing)
{
    struct crew crew;
    struct cox_options options = options_at_close("ckpt");
    struct cox_checkpoint_options final = COX_CHECKPOINT_OPTIONS_INIT;
    final.final = 1;
    crew_open(&crew, 1, 1, "counter", &options);
    (void)crew_counter(&crew, "c0");
    crew_schedule(&crew, crew_function(&crew, "count_and_fail"), 1, 1);
    assert_code(COX_ESTEP, cox_join(crew.c, -1));
    crew_close(&crew);
    assert_int_equal(0, latest());
    crew_open(&crew, 1, 1, "counter", &options);
    (void)crew_counter(&crew, "c0");
    assert_code(0, cox_checkpoint_save(crew.c, &final, NULL));
    count_to(&crew, 1);
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
    assert_int_equal(1, latest());
}

TEST(closing_says_that_it_could_not_save)
{
    struct crew crew;
    struct cox_options options = options_at_close("ckpt");
    crew_open(&crew, 1, 1, "counter", &options);
    (void)crew_counter(&crew, "c0");
    assert_int_equal(0, mkdir(coxi_test_path("ckpt/ckpt-1"), 0700));
    assert_int_equal(0, mkdir(coxi_test_path("ckpt/ckpt-1/x"), 0700));
    assert_code(COX_EIO, cox_close(crew.c, 5000));
    assert_error_names("no checkpoint was written at close");
    assert_error_names("ckpt-1");
}

TEST(closing_says_that_it_had_no_time_to_save)
{
    struct crew crew;
    struct cox_options options = options_at_close("ckpt");
    crew_open(&crew, 1, 1, "counter", &options);
    (void)crew_counter(&crew, "c0");
    crew_stop(crew_ps_process(&crew, 0));
    assert_code(COX_ETIMEDOUT, cox_close(crew.c, 300));
    assert_error_names("no checkpoint was written at close: cox_close had no time");
    assert_int_equal(0, latest());
}

/* ---- after an error that cancels calls */

static void call_on(struct crew *crew, const char *name, uint32_t worker,
                    uint64_t cursor)
{
    struct cox_call call = COX_CALL_INIT;
    call.only_worker = worker;
    call.cursor = cursor;
    assert_code(0, cox_schedule(crew->c, crew_function(crew, name), &call, NULL));
}

/* Opens a crew in which the call with cursor 1 runs. The call with cursor 3 has failed,
 * and that has cancelled the one with cursor 2, so no checkpoint can be saved. */
static void cancel_by_an_error(struct crew *crew, struct crew_hold *hold,
                               const struct cox_options *options)
{
    struct cox_call call = COX_CALL_INIT;
    crew_open(crew, 1, 2, "hold", options);
    (void)crew_counter(crew, "c0");
    call.only_worker = 1;
    call.cursor = 1;
    crew_hold_call(hold, crew, "watch_and_count", &call, false);
    crew_hold_wait(hold);
    call_on(crew, "nothing", 1, 2); /* queued after the running call */
    call_on(crew, "fail", 2, 3);
    assert_code(COX_ESTEP, cox_join(crew->c, -1));
    assert_code(COX_ECANCELLED, cox_checkpoint_save(crew->c, NULL, NULL));
}

TEST(no_cursor_passes_over_calls_that_an_error_has_cancelled)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_options options = options_for("ckpt");
    cancel_by_an_error(&crew, &hold, &options);
    assert_error_names("cancelled closure 2,");
    assert_error_names("before cursor 3");
    assert_int_equal(0, latest());
    call_on(&crew, "nothing", 1, 2);
    assert_code(0, cox_join(crew.c, -1));
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    crew_hold_release(&hold);
    crew_close(&crew);
}

TEST(no_cursor_passes_over_a_call_that_outlives_its_join)
{
    struct crew crew;
    struct crew_hold deaf;
    struct crew_hold looking;
    struct cox_future *failing;
    struct cox_options options = options_for("ckpt");
    struct cox_call call = COX_CALL_INIT;
    options.cancel_grace_ms = 600000;
    crew_open(&crew, 1, 3, "hold", &options);
    (void)crew_counter(&crew, "c0");
    call.only_worker = 1;
    call.cursor = 1;
    crew_hold_call(&deaf, &crew, "hold_and_count", &call, true);
    crew_hold_wait(&deaf);
    crew_hold_on(&looking, &crew, "watch_and_count", 2, true);
    crew_hold_wait(&looking);
    call.only_worker = 3;
    call.cursor = 2;
    assert_code(0, cox_schedule(crew.c, crew_function(&crew, "fail"), &call, &failing));
    assert_code(COX_ESTEP, cox_future_wait(failing, -1));
    do {
        assert_code(COX_ETIMEDOUT, cox_join(crew.c, 20));
    } while (cox_future_wait(looking.future, 0) == COX_ETIMEDOUT);
    crew_kill(crew_step_process(&crew, 0)); /* no thread is in cox_join */
    assert_code(COX_ECANCELLED, cox_future_wait(deaf.future, -1));
    assert_code(COX_ECANCELLED, cox_checkpoint_save(crew.c, NULL, NULL));
    assert_error_names("cancelled closure 2,");
    assert_error_names("before cursor 2");
    assert_code(COX_ESTEP, cox_join(crew.c, -1));
    call_on(&crew, "nothing", 1, 1);
    assert_code(0, cox_join(crew.c, -1));
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    crew_hold_release(&deaf);
    crew_hold_release(&looking);
    cox_future_free(deaf.future);
    cox_future_free(looking.future);
    cox_future_free(failing);
    crew_close(&crew);
}

/* The replay log is full, and no checkpoint can make room in it before the program
 * schedules a call with a cursor again. */
TEST(cancelled_calls_and_a_full_replay_log_do_not_block_each_other)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_options options = options_for("ckpt");
    options.replay_log_bytes = 1;
    cancel_by_an_error(&crew, &hold, &options);
    call_on(&crew, "nothing", 1, 2);
    assert_code(0, cox_join(crew.c, -1));
    crew_hold_release(&hold);
    crew_close(&crew);
}
