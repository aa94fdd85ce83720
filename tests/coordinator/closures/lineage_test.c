/* Kept results whose worker is lost: the closures that made them run again, and count
 * once. */
#include <string.h>

#include "coordinator/closures/inputs.h"
#include "tests/coordinator/inside.h"
#include "tests/coordinator/keep.h"
#include "tests/test.h"
#include "tests/worker/gate.h"

/* A chain of n kept results, each one more than the one before: 1, 2, ... n. */
static void start_line(struct keep *keep, size_t n, uint32_t only,
                       struct cox_future *ret[])
{
    for (size_t i = 0; i < n; i++) {
        struct keep_call call = {.own = 1, .only_worker = only, .keep = true};
        call.takes[0] = i > 0 ? ret[i - 1] : NULL;
        ret[i] = keep_start(keep, &call);
    }
    assert_code(0, cox_join(keep->crew.c, -1));
}

static void free_all(struct cox_future *futures[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        cox_future_free(futures[i]);
    }
}

/* Starts such a chain on one of `n_workers` workers, and kills that worker. */
static void lose_line(struct keep *keep, int n_workers, size_t n, uint32_t only,
                      struct cox_future *ret[])
{
    keep_open(keep, n_workers, NULL);
    start_line(keep, n, only, ret);
    keep_kill(keep, 0);
}

TEST(line_of_three_is_made_again_when_its_worker_is_killed)
{
    struct keep keep;
    struct cox_future *line[3];
    lose_line(&keep, 2, 3, 1, line);
    assert_int_equal(
        13, keep_run(&keep, "x", &(struct keep_call){.own = 10, .takes = {line[2]}}));
    assert_int_equal(3, keep_made_again(&keep));
    assert_int_equal(4, keep_count(&keep));        /* each closure counted once */
    assert_int_equal(1, keep_fetch(line[0], "x")); /* remade, too */
    assert_int_equal(3, keep_made_again(&keep));
    free_all(line + 1, 2);
    keep_close(&keep);
}

TEST(line_is_made_again_though_its_first_futures_were_freed)
{
    struct keep keep;
    struct cox_future *line[5];
    keep_open(&keep, 2, NULL);
    start_line(&keep, 5, 1, line);
    free_all(line, 4);
    keep_kill(&keep, 0);
    assert_int_equal(5, keep_fetch(line[4], "x"));
    assert_int_equal(5, keep_made_again(&keep));
    assert_int_equal(5, keep_count(&keep));
    keep_close(&keep);
}

TEST(what_nobody_needs_is_not_made_again)
{
    struct keep keep;
    struct cox_future *line[3];
    lose_line(&keep, 1, 3, 0, line);
    assert_int_equal(1, keep_run(&keep, "x", &(struct keep_call){.own = 1}));
    assert_int_equal(0, keep_made_again(&keep));
    free_all(line, 3);
    keep_close(&keep);
}

TEST(inputs_of_two_workers_of_which_one_is_killed)
{
    struct keep keep;
    keep_open(&keep, 2, NULL);
    struct cox_future *a = keep_start(
        &keep, &(struct keep_call){.own = 1, .only_worker = 1, .keep = true});
    struct cox_future *b = keep_start(
        &keep, &(struct keep_call){.own = 2, .only_worker = 2, .keep = true});
    assert_code(0, cox_join(keep.crew.c, -1));
    keep_kill(&keep, 0);
    struct cox_future *sum =
        keep_start(&keep, &(struct keep_call){.own = 4, .takes = {a, b}, .keep = true});
    assert_int_equal(7, keep_fetch(sum, "x"));
    assert_int_equal(1, keep_made_again(&keep));
    assert_int_equal(3, keep_count(&keep));
    cox_future_free(a);
    cox_future_free(b);
    keep_close(&keep);
}

TEST(long_line_is_made_again_from_the_last_result_that_was_brought_here)
{
    enum { N = 350 };
    struct keep keep;
    struct cox_future *line[N];
    keep_open(&keep, 2, NULL);
    start_line(&keep, N, 1, line);
    free_all(line, N - 1);
    keep_kill(&keep, 0);
    assert_int_equal(N, keep_fetch(line[N - 1], "x"));
    assert_in_range(keep_made_again(&keep), 1, 100);
    assert_int_equal(N, keep_count(&keep));
    keep_close(&keep);
}

TEST(calls_in_line_for_a_worker_that_is_killed_have_their_inputs_made_again)
{
    enum { N = 40 };
    struct keep keep;
    const char *gate = gate_make("gate");
    struct cox_future *calls[N];
    struct cox_options options = COX_OPTIONS_INIT;
    options.prefetch = 1; /* so that most closures are not sent yet */
    keep_open(&keep, 2, &options);
    struct cox_future *a = keep_start(
        &keep, &(struct keep_call){.own = 1, .only_worker = 1, .keep = true});
    assert_code(0, cox_join(keep.crew.c, -1));
    struct cox_future *held = keep_start(
        &keep, &(struct keep_call){.step = "add", .fifo = gate, .only_worker = 1});
    int fd = gate_pass(gate);
    for (int i = 0; i < N; i++) {
        calls[i] = keep_start(&keep, &(struct keep_call){.own = i, .takes = {a}});
    }
    crew_kill(crew_step_process(&keep.crew, 0));
    gate_release(fd);
    for (int i = 0; i < N; i++) {
        assert_code(0, cox_future_wait(calls[i], -1));
        assert_int_equal(1 + i, keep_value(calls[i], "x"));
    }
    free_all(calls, N);
    cox_future_free(a);
    cox_future_free(held);
    assert_int_equal(1 + N, keep_count(&keep));
    keep_close(&keep);
}

TEST(result_that_cannot_be_made_again_fails_what_needs_it_by_name)
{
    struct keep keep;
    struct cox_options options = COX_OPTIONS_INIT;
    options.keep_going = 1;
    keep_open(&keep, 2, &options);
    struct cox_future *a = keep_start(
        &keep, &(struct keep_call){.step = "sum_once", .only_worker = 1, .keep = true});
    struct cox_future *b = keep_start(
        &keep, &(struct keep_call){.takes = {a}, .only_worker = 1, .keep = true});
    assert_code(0, cox_join(keep.crew.c, -1));
    keep_kill(&keep, 0);
    struct cox_future *c = keep_start(&keep, &(struct keep_call){.takes = {b}});
    assert_code(COX_ESTEP, cox_future_wait(c, -1));
    assert_error_names("its input 'a'");
    assert_error_names("closure 3 (sum)");
    assert_error_names("closure 2 (sum_once)");
    assert_error_names("one too many");
    assert_code(COX_ESTEP, cox_future_fetch(b, -1));
    assert_error_names("could not be made again");
    assert_code(0, cox_future_wait(b, 0)); /* `b` itself is done */
    cox_future_free(a);
    cox_future_free(b);
    cox_future_free(c);
    assert_int_equal(2, keep_count(&keep));
    keep_close(&keep);
}

TEST(close_while_results_are_made_again)
{
    struct keep keep;
    struct cox_future *line[20];
    lose_line(&keep, 1, 20, 0, line);
    struct cox_future *next =
        keep_start(&keep, &(struct keep_call){.takes = {line[19]}});
    keep_close(&keep);
    int code = cox_future_wait(next, 0);
    assert_true(code == 0 || code == COX_ECANCELLED);
    cox_future_free(next);
    free_all(line, 20);
}

TEST(fetch_that_is_given_up_may_be_repeated)
{
    struct keep keep;
    struct cox_future *line[3];
    lose_line(&keep, 1, 3, 0, line);
    int code = cox_future_fetch(line[2], 0);
    assert_true(code == 0 || code == COX_ETIMEDOUT);
    assert_int_equal(3, keep_fetch(line[2], "x"));
    free_all(line, 2);
    assert_int_equal(3, keep_count(&keep));
    keep_close(&keep);
}

TEST(kept_results_survive_many_kills_and_every_step_counts_once)
{
    enum { ROUNDS = 6, LINES = 8, LEN = 6 };
    struct keep keep;
    struct cox_future *lines[LINES];
    keep_open(&keep, 2, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < LINES; i++) {
            lines[i] = keep_start(&keep, &(struct keep_call){.own = i, .keep = true});
            for (int k = 1; k < LEN; k++) {
                struct cox_future *next = keep_start(
                    &keep,
                    &(struct keep_call){.own = 1, .takes = {lines[i]}, .keep = true});
                cox_future_free(lines[i]);
                lines[i] = next;
            }
            if (i == LINES / 2) {
                crew_kill(crew_step_process(&keep.crew, round % 2));
            }
        }
        crew_kill(crew_step_process(&keep.crew, (round + 1) % 2));
        for (int i = 0; i < LINES; i++) {
            assert_int_equal(i + LEN - 1, keep_fetch(lines[i], "x"));
        }
        assert_int_equal((round + 1) * LINES * LEN, keep_count(&keep));
    }
    keep_close(&keep);
}

/* ---- with replays for a lost ps, and with backlogs */

static struct cox_options with_checkpoints(void)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    return options;
}

/* Kills the ps, and returns when it is back. */
static void lose_ps(struct keep *keep)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(keep->crew.c, &stats));
    uint64_t before = stats.ps_recovered;
    crew_kill(crew_ps_process(&keep->crew, 0));
    while (stats.ps_recovered == before) {
        (void)crew_read(&keep->crew, keep->counter); /* waits for the ps */
        assert_code(0, cox_stats(keep->crew.c, &stats));
    }
}

TEST(call_that_is_done_again_for_a_ps_has_its_inputs)
{
    struct keep keep;
    struct cox_options options = with_checkpoints();
    keep_open(&keep, 2, &options);
    for (int kept = 0; kept < 2; kept++) {
        struct cox_future *a =
            keep_start(&keep, &(struct keep_call){.own = 5, .keep = kept == 1});
        struct cox_future *b = keep_start(
            &keep, &(struct keep_call){
                       .step = "add", .own = 1, .takes = {a}, .keep = kept == 1});
        cox_future_free(a);
        cox_future_free(b);
        assert_int_equal((kept + 1) * 7, keep_count(&keep));
        lose_ps(&keep);
        assert_int_equal((kept + 1) * 7, keep_count(&keep));
    }
    keep_close(&keep);
}

TEST(ps_and_the_worker_that_keeps_the_inputs_are_lost_together)
{
    struct keep keep;
    struct cox_future *line[3];
    struct cox_options options = with_checkpoints();
    keep_open(&keep, 2, &options);
    start_line(&keep, 3, 1, line);
    /* The checkpoint has these closures, but not the one that takes their results. */
    assert_code(0, cox_checkpoint_save(keep.crew.c, NULL, NULL));
    struct cox_future *last = keep_start(
        &keep, &(struct keep_call){
                   .step = "add", .own = 10, .takes = {line[2]}, .keep = true});
    assert_int_equal(3 + 13, keep_count(&keep));
    keep_kill(&keep, 0);
    lose_ps(&keep);
    assert_int_equal(3 + 13, keep_count(&keep));
    assert_int_equal(13, keep_fetch(last, "x"));
    assert_int_equal(3 + 13, keep_count(&keep));
    free_all(line, 3);
    keep_close(&keep);
}

struct taken {
    struct keep *keep;
    struct cox_future *future;
    size_t n;
};

static void count_taken(void *arg)
{
    struct taken *taken = arg;
    taken->n = coxi_inputs_count(coxi_closure_of(taken->future));
}

/* How many futures of its inputs a closure still holds. */
static size_t inputs_of(struct keep *keep, struct cox_future *future)
{
    struct taken taken = {keep, future, 0};
    inside_run(keep->crew.c, count_taken, &taken);
    return taken.n;
}

static bool holds_nothing(void *arg)
{
    const struct taken *taken = arg;
    return inputs_of(taken->keep, taken->future) == 0;
}

TEST(what_is_here_and_in_a_checkpoint_holds_on_to_nothing_before_it)
{
    enum { N = 120, HERE = 99 };
    struct keep keep;
    struct cox_future *line[N];
    struct cox_options options = with_checkpoints();
    keep_open(&keep, 1, &options);
    start_line(&keep, N, 0, line);
    assert_code(0, cox_future_fetch(line[HERE], -1));
    assert_int_equal(1, inputs_of(&keep, line[HERE]));
    assert_code(0, cox_checkpoint_save(keep.crew.c, NULL, NULL));
    struct taken taken = {&keep, line[HERE], 0};
    coxi_test_until(holds_nothing, &taken, "the end of a line");
    assert_int_equal(1, inputs_of(&keep, line[HERE + 1]));
    free_all(line, N);
    keep_close(&keep);
}

TEST(fetching_does_not_change_where_the_next_client_goes_on)
{
    struct keep keep;
    struct cox_progress progress = COX_PROGRESS_INIT;
    struct cox_options options = with_checkpoints();
    keep_open(&keep, 1, &options);
    struct cox_call call = COX_CALL_INIT;
    struct cox_future *a;
    call.keep = 1;
    call.cursor = 42;
    assert_code(0,
                cox_schedule(keep.crew.c, crew_function(&keep.crew, "sum"), &call, &a));
    assert_int_equal(0, keep_fetch(a, "x"));
    assert_code(0, cox_checkpoint_save(keep.crew.c, NULL, NULL));
    keep_close(&keep);
    keep_open(&keep, 1, &options);
    assert_code(0, cox_progress(keep.crew.c, &progress));
    assert_int_equal(42, progress.cursor);
    keep_close(&keep);
}

TEST(workers_and_the_ps_are_lost_while_lines_are_made)
{
    enum { ROUNDS = 4, LINES = 8, LEN = 5 };
    struct keep keep;
    struct cox_future *lines[LINES];
    struct cox_options options = with_checkpoints();
    keep_open(&keep, 2, &options);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < LINES; i++) {
            lines[i] = keep_start(&keep, &(struct keep_call){.own = i, .keep = true});
            for (int k = 1; k < LEN; k++) {
                struct cox_future *next = keep_start(
                    &keep,
                    &(struct keep_call){.own = 1, .takes = {lines[i]}, .keep = true});
                cox_future_free(lines[i]);
                lines[i] = next;
            }
            if (i == round) {
                crew_kill(crew_ps_process(&keep.crew, 0));
            } else if (i == LINES / 2) {
                crew_kill(crew_step_process(&keep.crew, round % 2));
            }
        }
        for (int i = 0; i < LINES; i++) {
            assert_int_equal(i + LEN - 1, keep_fetch(lines[i], "x"));
        }
        assert_int_equal((round + 1) * LINES * LEN, keep_count(&keep));
    }
    keep_close(&keep);
}

/* A chain of two calls whose results are kept, and a third call, held at a gate, that
 * takes the second result. */
struct held_line {
    struct cox_future *line[2];
    struct cox_future *held;
    const char *gate;
    int fd;
};

/* Opens, starts the chain, and saves a checkpoint while its last call is held. */
static void save_held_line(struct keep *keep, const struct cox_options *options,
                           struct held_line *ret)
{
    ret->gate = gate_make("gate");
    keep_open(keep, 2, options);
    start_line(keep, 2, 0, ret->line);
    ret->held = keep_start(
        keep,
        &(struct keep_call){.step = "add", .fifo = ret->gate, .takes = {ret->line[1]}});
    ret->fd = gate_pass(ret->gate);
    /* Another call, on the other worker, so that a ps has a higher id than the held
     * call's. */
    assert_int_equal(1, keep_run(keep, "x", &(struct keep_call){.own = 1}));
    assert_code(0, cox_checkpoint_save(keep->crew.c, NULL, NULL));
}

static void held_line_free(struct held_line *line)
{
    free_all(line->line, 2);
    cox_future_free(line->held);
}

TEST(client_that_goes_on_makes_again_what_the_one_before_had_kept)
{
    struct keep keep;
    struct held_line line;
    struct cox_progress progress = COX_PROGRESS_INIT;
    struct cox_options options = with_checkpoints();
    save_held_line(&keep, &options, &line);
    keep_open_gate(line.gate);
    gate_release(line.fd);
    assert_int_equal(3 + 2, keep_count(&keep));
    held_line_free(&line);
    keep_close(&keep);

    keep_open(&keep, 2, &options);
    assert_code(0, cox_progress(keep.crew.c, &progress));
    assert_int_equal(1, progress.rerun);
    assert_int_equal(3 + 2, keep_count(&keep));
    assert_int_equal(2, keep_made_again(&keep));
    assert_code(0, cox_checkpoint_save(keep.crew.c, NULL, NULL));
    keep_close(&keep);

    keep_open(&keep, 2, &options); /* with daemons of its own */
    assert_code(0, cox_progress(keep.crew.c, &progress));
    assert_int_equal(0, progress.rerun);
    assert_int_equal(3 + 2, keep_count(&keep));
    keep_close(&keep);
}

/* A call takes a result that the client has fetched, and cannot start while a held step
 * occupies its worker. The backlog must contain that result among the call's
 * arguments. */
TEST(client_that_goes_on_has_all_arguments_of_calls_that_take_what_was_fetched)
{
    struct keep keep;
    struct cox_progress progress = COX_PROGRESS_INIT;
    const char *gate = gate_make("gate");
    struct cox_options options = with_checkpoints();
    keep_open(&keep, 2, &options);
    struct cox_future *fetched =
        keep_start(&keep, &(struct keep_call){.step = "add", .own = 5, .keep = true});
    assert_code(0, cox_future_fetch(fetched, 8000));
    struct cox_future *held = keep_start(
        &keep,
        &(struct keep_call){.step = "add", .own = 10, .fifo = gate, .only_worker = 1});
    int fd = gate_pass(gate);
    struct cox_future *takes = keep_start(
        &keep, &(struct keep_call){
                   .step = "add", .own = 100, .only_worker = 1, .takes = {fetched}});
    assert_int_equal(1000, keep_run(&keep, "x",
                                    &(struct keep_call){
                                        .step = "add", .own = 1000, .only_worker = 2}));
    assert_code(0, cox_checkpoint_save(keep.crew.c, NULL, NULL));
    keep_open_gate(gate);
    gate_release(fd);
    assert_int_equal(5 + 10 + 105 + 1000, keep_count(&keep));
    cox_future_free(fetched);
    cox_future_free(held);
    cox_future_free(takes);
    keep_close(&keep);

    keep_open(&keep, 2, &options);
    assert_code(0, cox_progress(keep.crew.c, &progress));
    assert_int_equal(2, progress.rerun);
    assert_int_equal(5 + 10 + 105 + 1000, keep_count(&keep));
    keep_close(&keep);
}

TEST(client_that_goes_on_may_be_closed_before_it_has)
{
    struct keep keep;
    struct held_line line;
    struct cox_options options = with_checkpoints();
    save_held_line(&keep, &options, &line);
    gate_release(line.fd);
    held_line_free(&line);
    keep_close(&keep);
    crew_open(&keep.crew, 1, 2, NULL, &options); /* without the module */
    assert_code(COX_ENOENT, cox_join(keep.crew.c, -1));
    crew_close(&keep.crew);
}
