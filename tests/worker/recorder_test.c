/* The record of running steps is right about a process that has died, at any moment. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"
#include "tests/test.h"
#include "worker/recorder.h"

enum { ROUNDS = 60 };

static const struct coxi_session run1 = {1, 1, 1};

static struct coxi_recorder *recorder_open(int *ret_fd)
{
    struct coxi_recorder *recorder = NULL;
    assert_code(0, coxi_recorder_new(ret_fd, &recorder));
    return recorder;
}

static void recorder_close(struct coxi_recorder *recorder, int fd)
{
    coxi_recorder_free(recorder);
    assert_int_equal(0, close(fd));
}

static void begin(struct coxi_recorder *recorder, uint32_t slot, uint64_t closure)
{
    const struct coxi_closure_head head = {.closure = closure, .attempt = 1};
    coxi_recorder_begin(coxi_recorder_slot(recorder, slot), &run1, &head);
}

TEST(recorder_tells_what_runs_and_not_what_has_returned)
{
    int fd;
    const struct coxi_crashed_head *crashed;
    struct coxi_crashed_head taken[COXI_RECORDER_MAX];
    struct coxi_recorder *recorder = recorder_open(&fd);
    begin(recorder, 0, 10);
    begin(recorder, 1, 11);
    coxi_recorder_end(coxi_recorder_slot(recorder, 0));
    assert_int_equal(1, coxi_recorder_collect(recorder, SIGSEGV, &crashed));
    assert_int_equal(11, crashed->closure);
    assert_int_equal(SIGSEGV, crashed->cause);
    assert_int_equal(0, coxi_recorder_collect(recorder, SIGSEGV, &crashed));
    assert_int_equal(1, coxi_recorder_take(recorder, &run1, taken));
    assert_int_equal(11, taken[0].closure);
    assert_int_equal(0, coxi_recorder_take(recorder, &run1, taken));
    recorder_close(recorder, fd);
}

TEST(recorder_tells_of_a_process_that_ended_itself_only_what_it_blamed)
{
    int fd;
    const struct coxi_crashed_head *crashed;
    struct coxi_recorder *recorder = recorder_open(&fd);
    for (uint32_t i = 0; i < 4; i++) {
        begin(recorder, i, 10 + i);
    }
    coxi_recorder_blame(coxi_recorder_slot(recorder, 1), COXI_CAUSE_OVERRUN);
    coxi_recorder_blame(coxi_recorder_slot(recorder, 3), COXI_CAUSE_MEMORY);
    coxi_recorder_excuse(recorder);
    assert_int_equal(2, coxi_recorder_collect(recorder, SIGKILL, &crashed));
    assert_int_equal(11, crashed[0].closure);
    assert_int_equal(COXI_CAUSE_OVERRUN, crashed[0].cause);
    assert_int_equal(13, crashed[1].closure);
    assert_int_equal(COXI_CAUSE_MEMORY, crashed[1].cause);
    begin(recorder, 1, 21); /* the next process finds no trace of the first one */
    begin(recorder, 2, 22);
    assert_int_equal(2, coxi_recorder_collect(recorder, SIGSEGV, &crashed));
    assert_int_equal(SIGSEGV, crashed[0].cause);
    assert_int_equal(SIGSEGV, crashed[1].cause);
    recorder_close(recorder, fd);
}

TEST(recorder_tells_which_module_ended_its_process_twice)
{
    int fd;
    int signum = -1;
    const struct coxi_crashed_head *crashed;
    const struct coxi_digest bad = {{1, 2}};
    const struct coxi_digest good = {{1, 3}};
    struct coxi_recorder *recorder = recorder_open(&fd);
    coxi_recorder_load(recorder, &good);
    coxi_recorder_loaded(recorder);
    for (int i = 0; i < 2; i++) {
        assert_false(coxi_recorder_kills(recorder, &bad, &signum));
        coxi_recorder_load(recorder, &bad);
        (void)coxi_recorder_collect(recorder, SIGABRT, &crashed);
    }
    assert_true(coxi_recorder_kills(recorder, &bad, &signum));
    assert_int_equal(SIGABRT, signum);
    assert_false(coxi_recorder_kills(recorder, &good, &signum));
    assert_false(coxi_recorder_kills(NULL, &bad, &signum));
    recorder_close(recorder, fd);
}

TEST(recorder_blames_no_module_for_a_kill_from_outside)
{
    int fd;
    int signum;
    const struct coxi_crashed_head *crashed;
    struct coxi_recorder *recorder = recorder_open(&fd);
    for (uint32_t i = 0; i < 3 * COXI_KILLERS_MAX; i++) {
        const struct coxi_digest module = {{7, 0, 0, i}};
        coxi_recorder_load(recorder, &module);
        (void)coxi_recorder_collect(recorder, SIGKILL, &crashed);
        coxi_recorder_load(recorder, &module);
        coxi_recorder_excuse(recorder);
        (void)coxi_recorder_collect(recorder, SIGABRT, &crashed);
        coxi_recorder_load(recorder, &module);
        (void)coxi_recorder_collect(recorder, 0, &crashed);
        assert_false(coxi_recorder_kills(recorder, &module, &signum));
    }
    recorder_close(recorder, fd);
}

TEST(recorder_of_a_new_step_process_does_not_serve)
{
    int fd;
    const struct coxi_crashed_head *crashed;
    struct coxi_recorder *recorder = recorder_open(&fd);
    assert_false(coxi_recorder_serves(recorder));
    coxi_recorder_serve(recorder);
    assert_true(coxi_recorder_serves(recorder));
    assert_int_equal(0, coxi_recorder_collect(recorder, 0, &crashed));
    assert_false(coxi_recorder_serves(recorder));
    recorder_close(recorder, fd);
}

TEST(recorder_drops_the_crashes_for_which_it_has_no_room)
{
    int fd;
    const struct coxi_crashed_head *crashed;
    struct coxi_crashed_head taken[COXI_RECORDER_MAX];
    struct coxi_recorder *recorder = recorder_open(&fd);
    for (uint32_t i = 0; i < COXI_RECORDER_MAX; i++) {
        begin(recorder, i, i + 1);
    }
    assert_int_equal(COXI_RECORDER_MAX, coxi_recorder_collect(recorder, 9, &crashed));
    begin(recorder, 0, 5000);
    assert_int_equal(0, coxi_recorder_collect(recorder, 9, &crashed));
    assert_int_equal(COXI_RECORDER_MAX, coxi_recorder_take(recorder, &run1, taken));
    assert_int_equal(COXI_RECORDER_MAX, taken[COXI_RECORDER_MAX - 1].closure);
    recorder_close(recorder, fd);
}

/* If the memory shrank, the supervisor's access to its mapping would kill it. */
TEST(recorder_cannot_be_shrunk_by_a_step)
{
    int fd;
    struct coxi_recorder *recorder = recorder_open(&fd);
    assert_int_equal(-1, ftruncate(fd, 0));
    recorder_close(recorder, fd);
}

/* Notes one closure after the other; all numbers of a closure are equal. */
static void run_until_killed(struct coxi_recorder *recorder, int ready)
{
    struct coxi_recorder_slot *slot = coxi_recorder_slot(recorder, 0);
    for (uint32_t i = 1;; i++) {
        const struct coxi_session session = {i, i, i};
        const struct coxi_closure_head head = {.closure = i, .attempt = i};
        coxi_recorder_begin(slot, &session, &head);
        coxi_recorder_end(slot);
        if (i == 1 && write(ready, "", 1) != 1) {
            _exit(1);
        }
    }
}

TEST(recorder_never_tells_a_torn_closure_wherever_the_process_is_killed)
{
    int fd;
    struct coxi_recorder *recorder = recorder_open(&fd);
    for (int round = 0; round < ROUNDS; round++) {
        char byte;
        int ready[2];
        const struct coxi_crashed_head *crashed;
        struct coxi_crashed_head taken;
        assert_int_equal(0, pipe(ready));
        pid_t pid = fork();
        if (pid == 0) {
            run_until_killed(recorder, ready[1]);
        }
        assert_true(pid > 0);
        assert_int_equal(1, read(ready[0], &byte, 1));
        assert_int_equal(0, kill(pid, SIGKILL));
        assert_int_equal(pid, waitpid(pid, NULL, 0));
        (void)close(ready[0]);
        (void)close(ready[1]);
        if (coxi_recorder_collect(recorder, SIGKILL, &crashed) > 0) {
            const uint64_t i = crashed->closure;
            assert_int_equal(i, crashed->attempt);
            assert_int_equal(1, coxi_recorder_take(
                                    recorder, &(struct coxi_session){i, i, i}, &taken));
        }
    }
    recorder_close(recorder, fd);
}
