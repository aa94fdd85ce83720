/* Steps that flush, on a local cluster: each segment counts exactly once. */
#include <stdio.h>
#include <string.h>

#include "tests/coordinator/crew.h"
#include "tests/steps/follow.h"
#include "tests/test.h"
#include "tests/worker/gate.h"

enum { N_PS = 3 };

static void open_with_counters(struct crew *crew, int n_workers,
                               struct cox_variable *counters[N_PS])
{
    crew_open(crew, N_PS, n_workers, "probe", NULL);
    for (int i = 0; i < N_PS; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "c%d", i);
        counters[i] = crew_counter(crew, name);
    }
}

/* The scripts that a step follows, in its first attempt and in later ones. */
struct scripts {
    const int64_t *first;
    size_t n_first;
    const int64_t *again; /* NULL: the same */
    size_t n_again;
    const char *path; /* of a gate; NULL: none */
};

static void schedule(struct crew *crew, const struct scripts *scripts,
                     struct cox_future **ret)
{
    const char *path = scripts->path != NULL ? scripts->path : "";
    const struct cox_value args[] = {
        COX_VECTOR("script", COX_I64, scripts->n_first, scripts->first),
        COX_VECTOR("path", COX_U8, strlen(path) + 1, path),
        COX_VECTOR("again", COX_I64, scripts->n_again, scripts->again),
    };
    struct cox_call call = COX_CALL_INIT;
    call.args = args;
    call.n_args = scripts->again != NULL ? 3 : 2;
    assert_code(0, cox_schedule(crew->c, crew_function(crew, "follow"), &call, ret));
}

/* Runs the first attempt up to its FOLLOW_WAIT, kills it there, and waits for the end
 * of the closure. */
static int kill_at_gate(struct crew *crew, struct scripts *scripts)
{
    struct cox_future *future;
    scripts->path = gate_make("gate");
    schedule(crew, scripts, &future);
    int fd = gate_pass(scripts->path);
    crew_kill(crew_step_process(crew, 0));
    gate_release(fd);
    int r = cox_future_wait(future, -1);
    cox_future_free(future);
    return r;
}

static void assert_counters(struct crew *crew, struct cox_variable *counters[N_PS],
                            int64_t c0, int64_t c1, int64_t c2)
{
    assert_int_equal(c0, crew_read(crew, counters[0]));
    assert_int_equal(c1, crew_read(crew, counters[1]));
    assert_int_equal(c2, crew_read(crew, counters[2]));
}

TEST(step_that_flushes_reads_its_own_write)
{
    static const int64_t script[] = {0, FOLLOW_FLUSH, FOLLOW_PULL, 0};
    const struct scripts scripts = {.first = script, .n_first = 4};
    struct crew crew;
    struct cox_variable *counters[N_PS];
    struct cox_future *future;
    struct cox_value seen;
    open_with_counters(&crew, 1, counters);
    for (int64_t i = 0; i < 10; i++) {
        schedule(&crew, &scripts, &future);
        assert_code(0, cox_future_wait(future, -1));
        assert_code(0, cox_future_result(future, "seen", &seen));
        assert_int_equal(2 * i + 1, *(const int64_t *)seen.data);
        cox_future_free(future);
    }
    assert_counters(&crew, counters, 20, 0, 0);
    crew_close(&crew);
}

TEST(segment_that_a_killed_attempt_has_flushed_counts_once)
{
    static const int64_t first[] = {0, 1, FOLLOW_FLUSH, FOLLOW_WAIT, 2};
    static const int64_t again[] = {0, 1, FOLLOW_FLUSH, 2};
    struct scripts scripts = {first, 5, again, 4, NULL};
    struct crew crew;
    struct cox_variable *counters[N_PS];
    struct cox_stats stats = COX_STATS_INIT;
    open_with_counters(&crew, 1, counters);
    assert_code(0, kill_at_gate(&crew, &scripts));
    assert_counters(&crew, counters, 1, 1, 1);
    assert_code(0, cox_stats(crew.c, &stats));
    assert_int_equal(2, stats.commits_duplicate);
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
}

TEST(step_killed_between_its_flush_and_an_end_that_touches_nothing_counts_once)
{
    static const int64_t first[] = {1, FOLLOW_FLUSH, FOLLOW_WAIT};
    static const int64_t again[] = {1, FOLLOW_FLUSH};
    struct scripts scripts = {first, 3, again, 2, NULL};
    struct crew crew;
    struct cox_variable *counters[N_PS];
    open_with_counters(&crew, 1, counters);
    assert_code(0, kill_at_gate(&crew, &scripts));
    assert_counters(&crew, counters, 0, 1, 0);
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
}

TEST(step_that_fails_after_its_flush_is_partial_and_names_the_ps)
{
    static const int64_t script[] = {0, 2, FOLLOW_FLUSH, 1, FOLLOW_FAIL};
    const struct scripts scripts = {.first = script, .n_first = 5};
    struct crew crew;
    struct cox_variable *counters[N_PS];
    struct cox_future *future;
    open_with_counters(&crew, 1, counters);
    schedule(&crew, &scripts, &future);
    assert_code(COX_EPARTIAL, cox_future_wait(future, -1));
    assert_error_names("line 7 is odd; as of now it is applied on ps 0, 2");
    cox_future_free(future);
    assert_counters(&crew, counters, 1, 0, 1);
    assert_code(COX_EPARTIAL, cox_join(crew.c, -1));
    crew_close(&crew);
}

/* Closures that failed in part are not replayed: the restored ps has only the parts
 * that the checkpoint has. */
TEST(part_of_a_closure_is_as_in_the_checkpoint_when_its_ps_comes_back)
{
    static const int64_t script[] = {0, FOLLOW_FLUSH, FOLLOW_FAIL};
    const struct scripts scripts = {.first = script, .n_first = 3};
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    options.keep_going = 1;
    crew_open(&crew, 1, 1, "probe", &options);
    struct cox_variable *c0 = crew_counter(&crew, "c0");
    schedule(&crew, &scripts, NULL);
    assert_code(0, cox_join(crew.c, -1));
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    schedule(&crew, &scripts, NULL);
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(2, crew_read(&crew, c0));
    crew_kill(crew_ps_process(&crew, 0));
    assert_int_equal(1, crew_read(&crew, c0));
    crew_close(&crew);
}

/* Runs a script up to its FOLLOW_RUN and cancels it there. */
static int cancel_while_it_runs(struct crew *crew, const int64_t *script, size_t n)
{
    struct scripts scripts = {script, n, NULL, 0, gate_make("gate")};
    struct cox_future *future;
    schedule(crew, &scripts, &future);
    int fd = gate_pass(scripts.path);
    assert_code(0, cox_future_cancel(future));
    int r = cox_future_wait(future, -1);
    gate_release(fd);
    cox_future_free(future);
    return r;
}

TEST(step_that_is_cancelled_after_its_flush_is_partial)
{
    static const int64_t script[] = {1, FOLLOW_FLUSH, FOLLOW_RUN, 2};
    struct crew crew;
    struct cox_variable *counters[N_PS];
    open_with_counters(&crew, 1, counters);
    assert_code(COX_EPARTIAL, cancel_while_it_runs(&crew, script, 4));
    assert_error_names("as of now it is applied on ps 1");
    assert_counters(&crew, counters, 0, 1, 0);
    assert_code(COX_EPARTIAL, cox_join(crew.c, -1));
    crew_close(&crew);
}

TEST(step_that_is_cancelled_before_its_flush_leaves_no_trace)
{
    static const int64_t script[] = {1, FOLLOW_RUN, FOLLOW_FLUSH, 2};
    struct crew crew;
    struct cox_variable *counters[N_PS];
    open_with_counters(&crew, 1, counters);
    assert_code(COX_ECANCELLED, cancel_while_it_runs(&crew, script, 4));
    assert_counters(&crew, counters, 0, 0, 0);
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
}

TEST(step_that_fails_before_its_flush_leaves_no_trace)
{
    static const int64_t script[] = {0, FOLLOW_FAIL, FOLLOW_FLUSH};
    const struct scripts scripts = {.first = script, .n_first = 3};
    struct crew crew;
    struct cox_variable *counters[N_PS];
    struct cox_future *future;
    open_with_counters(&crew, 1, counters);
    schedule(&crew, &scripts, &future);
    assert_code(COX_ESTEP, cox_future_wait(future, -1));
    cox_future_free(future);
    assert_counters(&crew, counters, 0, 0, 0);
    assert_code(COX_ESTEP, cox_join(crew.c, -1));
    crew_close(&crew);
}

TEST(attempt_that_fails_where_one_before_had_flushed_is_partial)
{
    static const int64_t first[] = {2, FOLLOW_FLUSH, FOLLOW_WAIT, 1};
    static const int64_t again[] = {FOLLOW_FAIL};
    struct scripts scripts = {first, 4, again, 1, NULL};
    struct crew crew;
    struct cox_variable *counters[N_PS];
    open_with_counters(&crew, 1, counters);
    assert_code(COX_EPARTIAL, kill_at_gate(&crew, &scripts));
    assert_error_names("as of now it is applied on ps 2");
    assert_counters(&crew, counters, 0, 0, 1);
    assert_code(COX_EPARTIAL, cox_join(crew.c, -1));
    crew_close(&crew);
}

/* Both attempts have touched ps 0 and 1, and each ps has accepted what it was sent.
 * Only the answers of both show that the segments were not the same. */
TEST(attempt_that_flushed_to_other_ps_than_one_before_has_diverged)
{
    static const int64_t first[] = {0, FOLLOW_FLUSH, 1, FOLLOW_FLUSH, FOLLOW_WAIT};
    static const int64_t again[] = {0, FOLLOW_FLUSH, 0, FOLLOW_FLUSH, 1};
    struct scripts scripts = {first, 5, again, 5, NULL};
    struct crew crew;
    struct cox_variable *counters[N_PS];
    open_with_counters(&crew, 1, counters);
    assert_code(COX_EDIVERGED, kill_at_gate(&crew, &scripts));
    assert_error_names("ps 0, 1");
    assert_code(COX_EDIVERGED, cox_join(crew.c, -1));
    crew_close(&crew);
}

TEST(steps_of_several_segments_count_exactly_once_while_step_processes_are_killed)
{
    enum { ROUNDS = 6, N = 1500 };
    struct crew crew;
    struct cox_variable *counters[N_PS];
    int64_t expected[N_PS] = {0};
    open_with_counters(&crew, 2, counters);
    for (int round = 0; round < ROUNDS; round++) {
        for (int64_t i = 0; i < N; i++) {
            const int64_t script[] = {i % 3, FOLLOW_FLUSH, (i / 3) % 3,
                                      i % 3, FOLLOW_FLUSH, (i / 9) % 3};
            const struct scripts scripts = {.first = script,
                                            .n_first = i % 4 == 0 ? 5 : 6};
            schedule(&crew, &scripts, NULL);
            for (size_t k = 0; k < scripts.n_first; k++) {
                if (script[k] >= 0) {
                    expected[script[k]]++;
                }
            }
        }
        if (round + 1 < ROUNDS) {
            crew_kill(crew_step_process(&crew, round % 2));
        }
    }
    assert_code(0, cox_join(crew.c, -1));
    assert_counters(&crew, counters, expected[0], expected[1], expected[2]);
    crew_close(&crew);
}
