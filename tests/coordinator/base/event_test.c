/* Events of the library, and the lines that it prints instead when there is no
 * on_event. */
#include "coxswain/event.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/sync.h"
#include "coordinator/base/event.h"
#include "coordinator/coordinator.h"
#include "tests/coordinator/crew.h"
#include "tests/coordinator/diary.h"
#include "tests/test.h"

static struct cox_options options_with_checkpoints(void)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    return options;
}

/* ---- losses, refusals and clients that go on */

TEST(a_ps_that_is_lost_and_comes_back_is_told_from_end_to_end)
{
    struct crew crew;
    struct cox_options options = options_with_checkpoints();
    struct diary *diary = diary_open(&crew, "counter", &options);
    (void)crew_counter(&crew, "c0");
    (void)crew_counter(&crew, "c1");
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    const struct cox_event *event =
        diary_await(diary, COX_EVENT_CHECKPOINT_SAVED, "checkpoint 1 is saved");
    assert_int_equal(COX_EVENT_DEBUG, event->level);
    assert_int_equal(1, event->checkpoint);
    crew_schedule(&crew, crew_function(&crew, "count"), 10, 2);
    assert_code(0, cox_join(crew.c, -1));
    crew_kill(crew_ps_process(&crew, 1));
    event = diary_await(diary, COX_EVENT_PS_LOST, "it has 120000 ms to come back");
    assert_int_equal(1, event->ps);
    assert_int_equal(-1, event->worker);
    assert_int_equal(COX_EVENT_WARNING, event->level);
    assert_int_equal(COX_EPSLOST, event->error);
    assert_string_equal("ps_lost", event->name);
    event = diary_await(diary, COX_EVENT_PS_BACK, "restored from ckpt-1");
    assert_int_equal(1, event->ps);
    (void)diary_await(diary, COX_EVENT_RECOVERED, "10 closures were replayed");
    diary_close(&crew, diary);
}

TEST(a_worker_that_is_lost_and_comes_back_is_told)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    coxi_test_expect_crashes();
    struct diary *diary = diary_open(&crew, "counter", &options);
    const struct cox_event *event =
        diary_await(diary, COX_EVENT_WORKER_JOINED, "has joined");
    /* DEBUG, because users need not see it */
    assert_int_equal(COX_EVENT_DEBUG, event->level);
    crew_kill(crew_step_process(&crew, 1));
    event = diary_await(diary, COX_EVENT_WORKER_LOST, "is lost");
    assert_int_equal(1, event->worker);
    event = diary_await(diary, COX_EVENT_WORKER_BACK, "is back");
    assert_int_equal(1, event->worker);
    assert_int_equal(COX_EVENT_INFO, event->level);
    diary_close(&crew, diary);
}

TEST(a_module_that_workers_refuse_is_told)
{
    struct crew crew;
    struct cox_module *module;
    struct cox_options options = COX_OPTIONS_INIT;
    struct diary *diary = diary_open(&crew, NULL, &options);
    assert_code(COX_EMODULE,
                cox_module_load(crew.c, coxi_test_module("undefined"), &module));
    (void)diary_await(diary, COX_EVENT_MODULE_REFUSED, "undefined");
    diary_close(&crew, diary);
}

TEST(a_client_that_goes_on_and_one_that_is_fenced_off_are_told)
{
    struct crew crews[2];
    struct diary *diaries[2];
    struct cox_options options = options_with_checkpoints();
    diaries[0] = diary_open(&crews[0], "counter", &options);
    (void)crew_counter(&crews[0], "c0");
    assert_code(0, cox_checkpoint_save(crews[0].c, NULL, NULL));
    diaries[1] = diary_open(&crews[1], "counter", &options);
    const struct cox_event *event =
        diary_await(diaries[1], COX_EVENT_RESUMED, "goes on from checkpoint 1");
    assert_int_equal(1, event->checkpoint);
    event = diary_await(diaries[0], COX_EVENT_FENCED, "generation 2");
    assert_int_equal(COX_EFENCED, event->error);
    assert_code(COX_EFENCED, cox_close(crews[0].c, 5000));
    free(diaries[0]);
    diary_close(&crews[1], diaries[1]);
}

/* ---- checkpoints that fail */

/* Makes checkpoints fail until mend_directory. */
static void break_directory(void)
{
    const char *dir = coxi_test_path("checkpoints");
    assert_int_equal(0, rename(dir, coxi_test_path("aside")));
    coxi_test_write(dir, "", 0);
}

static void mend_directory(void)
{
    const char *dir = coxi_test_path("checkpoints");
    assert_int_equal(0, unlink(dir));
    assert_int_equal(0, rename(coxi_test_path("aside"), dir));
}

TEST(a_checkpoint_that_fails_is_told_once_and_so_is_the_next_that_does_not)
{
    struct crew crew;
    struct cox_options options = options_with_checkpoints();
    struct diary *diary = diary_open(&crew, "counter", &options);
    break_directory();
    for (int i = 0; i < 2; i++) {
        assert_code(COX_EIO, cox_checkpoint_save(crew.c, NULL, NULL));
        const struct cox_event *event =
            diary_await(diary, COX_EVENT_CHECKPOINT_FAILED, "there is a file");
        assert_int_equal(i == 0 ? COX_EVENT_ERROR : COX_EVENT_DEBUG, event->level);
        assert_int_equal(COX_EIO, event->error);
    }
    mend_directory();
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    const struct cox_event *event = diary_await(diary, COX_EVENT_CHECKPOINT_SAVED,
                                                "the first since some have failed");
    assert_int_equal(COX_EVENT_INFO, event->level);
    diary_close(&crew, diary);
}

struct scheduling {
    struct crew *crew;
    atomic_bool end;
};

static void *schedule_on(void *arg)
{
    struct scheduling *scheduling = arg;
    while (!atomic_load(&scheduling->end)) {
        crew_schedule(scheduling->crew, crew_function(scheduling->crew, "count"), 1, 2);
    }
    return NULL;
}

TEST(schedule_that_waits_for_a_checkpoint_which_fails_says_so)
{
    struct crew crew;
    struct scheduling scheduling = {.crew = &crew};
    pthread_t thread;
    struct cox_options options = options_with_checkpoints();
    options.replay_log_bytes = 4096;
    struct diary *diary = diary_open(&crew, "counter", &options);
    (void)crew_counter(&crew, "c0");
    (void)crew_counter(&crew, "c1");
    atomic_store(&coxi_patience_ms, 300);
    break_directory();
    assert_int_equal(0, pthread_create(&thread, NULL, schedule_on, &scheduling));
    const struct cox_event *event;
    do {
        event = diary_await(diary, COX_EVENT_BLOCKED, "cox_schedule waits for");
    } while (strstr(diary->texts[diary->found], "there is a file") == NULL);
    assert_non_null(strstr(diary->texts[diary->found], "the replay log is full"));
    assert_int_equal(COX_EVENT_WARNING, event->level);
    mend_directory();
    (void)diary_await(diary, COX_EVENT_UNBLOCKED, "cox_schedule waits no longer");
    atomic_store(&scheduling.end, true);
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_code(0, cox_join(crew.c, -1));
    atomic_store(&coxi_patience_ms, COXI_PATIENCE_MS);
    diary_close(&crew, diary);
}

/* ---- calls that wait */

TEST(closures_that_do_not_end_are_told_with_the_reason)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_options options = COX_OPTIONS_INIT;
    struct diary *diary = diary_open(&crew, "hold", &options);
    atomic_store(&coxi_patience_ms, 100);
    crew_hold(&hold, &crew, "hold", false);
    crew_hold_wait(&hold);
    (void)diary_await(diary, COX_EVENT_BLOCKED, "closure 1 (hold) runs on worker");
    crew_hold_release(&hold);
    (void)diary_await(diary, COX_EVENT_UNBLOCKED, "closures end again");
    atomic_store(&coxi_patience_ms, COXI_PATIENCE_MS);
    diary_close(&crew, diary);
}

struct reading {
    struct crew *crew;
    struct cox_variable *counter;
    atomic_bool end;
};

static void *read_on(void *arg)
{
    struct reading *reading = arg;
    while (!atomic_load(&reading->end)) { /* the process may take a moment to stop */
        (void)crew_read(reading->crew, reading->counter);
    }
    return NULL;
}

TEST(a_read_that_waits_for_a_ps_is_told_and_so_is_its_end)
{
    struct crew crew;
    struct cox_options options = options_with_checkpoints();
    struct diary *diary = diary_open(&crew, "counter", &options);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    atomic_store(&coxi_patience_ms, 200);
    pid_t ps = crew_ps_process(&crew, 0);
    assert_int_equal(0, kill(ps, SIGSTOP));
    pthread_t thread;
    struct reading reading = {.crew = &crew, .counter = counter};
    assert_int_equal(0, pthread_create(&thread, NULL, read_on, &reading));
    (void)diary_await(diary, COX_EVENT_BLOCKED, "the read of a variable");
    assert_int_equal(0, kill(ps, SIGCONT));
    (void)diary_await(diary, COX_EVENT_UNBLOCKED, "the read of a variable");
    atomic_store(&reading.end, true);
    assert_int_equal(0, pthread_join(thread, NULL));
    atomic_store(&coxi_patience_ms, COXI_PATIENCE_MS);
    diary_close(&crew, diary);
}

/* ---- the callback */

static bool has_tried_to_close(void *arg)
{
    return atomic_load(&((struct diary *)arg)->close_code) != 0;
}

TEST(on_event_may_call_functions_but_not_cox_close)
{
    struct crew crew;
    struct cox_options options = options_with_checkpoints();
    struct diary *diary = diary_open(&crew, "counter", &options);
    atomic_store(&diary->c, crew.c);
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    coxi_test_until(has_tried_to_close, diary, "an event");
    assert_int_equal(COX_EDEADLK, atomic_load(&diary->close_code));
    assert_int_equal(0, atomic_load(&diary->stats_code));
    diary_close(&crew, diary);
}

static void wait_for_gate(void *arg, const struct cox_event *event)
{
    struct diary *diary = arg;
    (void)pthread_mutex_lock(&diary->lock); /* the test holds it */
    (void)pthread_mutex_unlock(&diary->lock);
    diary_note(arg, event);
}

/* Emits `n` warnings of one code. */
static void tell(struct cox_coordinator *c, int n)
{
    for (int i = 0; i < n; i++) {
        coxi_event(c, COX_EVENT_WORKER_REFUSED, COXI_OF(.worker = coxi_maybe_of(7)),
                   "the \"%s\" of %d", i == 0 ? "first" : "next", n);
    }
}

/* Emits an error, an info event and a debug event. */
static void tell_levels(struct cox_coordinator *c)
{
    coxi_event(c, COX_EVENT_RUN_OVER, COXI_OF(.error = COX_EPSLOST), "an error");
    coxi_event(c, COX_EVENT_WORKER_BACK, COXI_OF(.worker = coxi_maybe_of(7)),
               "an information");
    coxi_event(c, COX_EVENT_CHECKPOINT_SAVED, COXI_OF(.error = 0), "for debugging");
}

TEST(events_beyond_the_queue_are_dropped_and_counted)
{
    enum { N = 3000 };
    struct crew crew;
    struct diary *diary = diary_new();
    struct cox_options options = COX_OPTIONS_INIT;
    options.on_event = wait_for_gate;
    options.event_arg = diary;
    (void)pthread_mutex_lock(&diary->lock);
    crew_open(&crew, 1, 1, "counter", &options);
    tell(crew.c, N);
    (void)pthread_mutex_unlock(&diary->lock);
    crew_close(&crew);
    uint64_t dropped = 0;
    for (size_t i = 0; i < diary->n; i++) {
        dropped += diary->events[i].dropped;
    }
    assert_true(dropped >= N - 1024 && dropped <= N);
    free(diary);
}

/* ---- lines */

/* Opens a cluster with COX_LOG, emits events, closes. Returns the lines that were
 * written, for free(). */
static char *lines_of(const char *cox_log, int n)
{
    struct crew crew;
    const char *path = coxi_test_path("stderr");
    int saved = dup(STDERR_FILENO);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(saved >= 0 && fd >= 0);
    assert_int_equal(0, cox_log != NULL ? setenv("COX_LOG", cox_log, 1)
                                        : unsetenv("COX_LOG"));
    crew_open(&crew, 1, 1, "counter", NULL);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    tell(crew.c, n);
    tell_levels(crew.c);
    int r = cox_close(crew.c, 5000);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    assert_code(0, r);
    assert_int_equal(0, close(fd));
    assert_int_equal(0, close(saved));
    assert_int_equal(0, unsetenv("COX_LOG"));
    return coxi_test_read(path, NULL);
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) {
        n++;
    }
    return n;
}

TEST(without_on_event_there_is_a_line_for_each_and_not_too_many)
{
    char *lines = lines_of(NULL, 1);
    assert_int_equal(1, count(lines, "level=warn role=client index=0 "
                                     "event=worker_refused worker=7 "
                                     "text=\"the 'first'"));
    free(lines);
    lines = lines_of("info", 500);
    int n = count(lines, "event=worker_refused");
    assert_true(n >= 10 && n <= 30);
    assert_true(count(lines, " more=") >= 1);
    free(lines);
}

TEST(cox_log_chooses_what_is_written)
{
    static const char *const words[] = {"quiet", "error", "warn", "info", "debug"};
    static const char *const told[] = {"event=run_over", "event=worker_refused",
                                       "event=worker_back", "event=checkpoint_saved"};
    for (int word = 0; word < 5; word++) {
        char *lines = lines_of(words[word], 1);
        for (int level = 0; level < 4; level++) {
            assert_int_equal(level < word, count(lines, told[level]));
        }
        assert_true(word > 0 || count(lines, "role=client") == 0);
        free(lines);
    }
    struct cox_cluster *cluster;
    struct cox_coordinator *c;
    assert_code(0, cox_cluster_local(1, 1, &cluster));
    assert_int_equal(0, setenv("COX_LOG", "loud", 1));
    assert_code(COX_EINVAL, cox_open(cluster, NULL, &c));
    assert_error_names("COX_LOG is 'loud': quiet, error, warn, info or debug");
    assert_int_equal(0, unsetenv("COX_LOG"));
    cox_cluster_free(cluster);
}

/* ---- failures that no call has reported */

static void check_untold(uint32_t keep_going, bool join)
{
    struct crew crew;
    static struct diary diary;
    struct cox_options options = COX_OPTIONS_INIT;
    diary = (struct diary){.lock = PTHREAD_MUTEX_INITIALIZER};
    options.on_event = diary_note;
    options.event_arg = &diary;
    options.keep_going = keep_going;
    crew_open(&crew, 1, 1, "hold", &options);
    crew_schedule(&crew, crew_function(&crew, "fail"), 1, 0);
    struct cox_stats stats = COX_STATS_INIT;
    if (join) {
        assert_code(COX_ESTEP, cox_join(crew.c, -1));
    } else if (keep_going == 1) {
        assert_code(0, cox_join(crew.c, -1));
    }
    while (stats.failed == 0) {
        assert_code(0, cox_stats(crew.c, &stats));
    }
    crew_close(&crew);
    diary.code = COX_EVENT_CLOSURES_FAILED;
    assert_int_equal(!join, diary_find(&diary));
    if (!join) {
        (void)diary_await(&diary, COX_EVENT_CLOSURES_FAILED,
                          "1 closure failed and 0 were cancelled");
    }
}

TEST(close_tells_failures_that_no_call_reported)
{
    check_untold(0, false);
    check_untold(1, false);
    check_untold(0, true);
}
