/* Rounds: closures whose gradients are applied together, once. */
#include <string.h>
#include <unistd.h>

#include "tests/coordinator/rounding.h"
#include "tests/test.h"

/* ---- what a round is */

TEST(round_is_one_step_with_the_mean_and_its_closures_see_all_rounds_before)
{
    enum { ROUNDS = 30 };
    struct rounding s;
    struct rounding_members members[ROUNDS];
    rounding_open(&s, 2, &(struct cox_rounds_spec)COX_ROUNDS_SPEC_INIT, NULL);
    for (int r = 0; r < ROUNDS; r++) {
        rounding_plain(&s, &members[r]);
    }
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, ROUNDS);
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < ROUNDING_MEMBERS; i++) {
            assert_code(0, cox_future_wait(members[r].futures[i], 0));
            assert_true(rounding_seen(members[r].futures[i], "w0") == (float)r);
            assert_true(rounding_seen(members[r].futures[i], "w1") == (float)r);
        }
        assert_code(0, cox_future_wait(members[r].end, 0));
        rounding_free(&members[r]);
    }
    assert_int_equal(ROUNDS, rounding_stats(&s).rounds);
    assert_int_equal(ROUNDS * ROUNDING_MEMBERS, rounding_stats(&s).done);
    crew_close(&s.crew);
}

TEST(round_adds_its_gradients_up_each_times_its_weight)
{
    struct rounding s;
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    spec.reduce = COX_REDUCE_SUM;
    rounding_open(&s, 1, &spec, NULL);
    rounding_start(&s, &(struct rounding_asked){.weights = {0.5, 2, 3, 0}}, NULL);
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, 6.5F);
    crew_close(&s.crew);
}

TEST(round_with_a_bound_sees_all_rounds_but_that_many)
{
    enum { ROUNDS = 60, BOUND = 2 };
    struct rounding s;
    struct rounding_members members[ROUNDS];
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    spec.staleness = BOUND;
    rounding_open(&s, 2, &spec, NULL);
    for (int r = 0; r < ROUNDS; r++) {
        rounding_plain(&s, &members[r]);
    }
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, ROUNDS);
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < ROUNDING_MEMBERS; i++) {
            assert_true(rounding_seen(members[r].futures[i], "w0") >=
                        (float)(r - BOUND));
            assert_true(rounding_seen(members[r].futures[i], "w1") >=
                        (float)(r - BOUND));
        }
        rounding_free(&members[r]);
    }
    crew_close(&s.crew);
}

TEST(round_overlaps_with_as_many_others_as_its_bound_says_and_no_more)
{
    struct rounding s;
    struct rounding_members members[3];
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    const char *gate = rounding_gate();
    spec.staleness = 1;
    rounding_open(&s, 2, &spec, NULL);
    rounding_start(&s, &(struct rounding_asked){.path = {gate}}, &members[0]);
    int fd = rounding_meet(gate);
    rounding_plain(&s, &members[1]);
    rounding_plain(&s, &members[2]);
    assert_code(0, cox_future_wait(members[1].end, -1));
    assert_code(COX_ETIMEDOUT, cox_future_wait(members[2].futures[0], 50));
    (void)close(fd);
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, 3);
    assert_true(rounding_seen(members[2].futures[3], "w0") == 2);
    for (int r = 0; r < 3; r++) {
        rounding_free(&members[r]);
    }
    crew_close(&s.crew);
}

TEST(round_may_miss_as_many_rounds_before_and_after_it_as_its_bound_says)
{
    enum { ROUNDS = 3 };
    struct rounding s;
    struct rounding_members members[ROUNDS];
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    struct cox_staleness_counts seen = COX_STALENESS_COUNTS_INIT;
    int gates[2];
    spec.staleness = 1;
    rounding_open(&s, ROUNDS, &spec, NULL);
    for (uint32_t r = 0; r < 2; r++) { /* each hangs when it has pulled */
        struct rounding_asked asked = {.path = {rounding_gate()},
                                       .only = {r + 1, ROUNDS, ROUNDS, ROUNDS}};
        rounding_start(&s, &asked, &members[r]);
        gates[r] = rounding_meet(asked.path[0]);
    }
    rounding_start(&s,
                   &(struct rounding_asked){.only = {ROUNDS, ROUNDS, ROUNDS, ROUNDS}},
                   &members[2]);
    (void)close(gates[0]);
    assert_code(0, cox_future_wait(members[0].end, -1));
    assert_code(0, cox_future_wait(members[2].end, -1));
    (void)close(gates[1]);
    assert_code(0, cox_future_wait(members[1].end, -1));
    rounding_assert(&s, ROUNDS);
    assert_code(0, cox_staleness(s.crew.c, "w0", 0, &seen));
    assert_int_equal(2, seen.max);
    for (int r = 0; r < ROUNDS; r++) {
        rounding_free(&members[r]);
    }
    crew_close(&s.crew);
}

TEST(round_behind_one_that_fails_does_not_wait_for_its_end)
{
    struct rounding s;
    struct rounding_members members[2];
    struct cox_options options = COX_OPTIONS_INIT;
    const char *gate = rounding_gate();
    options.keep_going = 1;
    rounding_open(&s, 2, &(struct cox_rounds_spec)COX_ROUNDS_SPEC_INIT, &options);
    rounding_start(
        &s, &(struct rounding_asked){.path = {gate}, .only = {1}, .fail = {true}},
        &members[0]);
    int fd = rounding_meet(gate);
    rounding_plain(&s, &members[1]);
    (void)close(fd);
    assert_code(COX_ESTEP, cox_future_wait(members[0].end, -1));
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, 1);
    for (int i = 0; i < ROUNDING_MEMBERS; i++) {
        assert_true(rounding_seen(members[1].futures[i], "w0") == 0);
    }
    rounding_free(&members[0]);
    rounding_free(&members[1]);
    crew_close(&s.crew);
}

TEST(round_that_one_ps_has_all_of_is_the_same_as_any_other)
{
    enum { ROUNDS = 200 };
    struct rounding s;
    struct rounding_members members[ROUNDS];
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    spec.reduce = COX_REDUCE_SUM;
    rounding_open(&s, 2, &spec, NULL);
    for (int r = 0; r < ROUNDS; r++) {
        rounding_start(&s,
                       &(struct rounding_asked){.weights = {1, 2, 0.5, 0.5},
                                                .half = {true, true, true, true}},
                       &members[r]);
    }
    assert_code(0, cox_join(s.crew.c, -1));
    assert_true(rounding_value(&s, 0) == ROUNDS * 4);
    assert_true(rounding_value(&s, 1) == 0);
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < ROUNDING_MEMBERS; i++) {
            assert_true(rounding_seen(members[r].futures[i], "w0") == (float)(4 * r));
        }
        rounding_free(&members[r]);
    }
    assert_int_equal(ROUNDS, rounding_stats(&s).rounds);
    crew_close(&s.crew);
}

/* ---- without some of its closures */

/* Starts a round of which all but member 1 have ended, or will at once; returns the
 * descriptor at which member 1, which has begun, waits on worker 1. */
static int start_without_one(struct rounding *s, struct rounding_members *members)
{
    const char *gate[2] = {rounding_gate(), rounding_gate()};
    rounding_start(
        s, &(struct rounding_asked){.path = {gate[0], gate[1]}, .only = {1, 2, 1, 1}},
        members);
    int first = rounding_meet(gate[0]); /* the others are in line behind this one */
    int fd = rounding_meet(gate[1]);
    (void)close(first);
    return fd;
}

TEST(round_is_complete_without_its_backups_which_are_told_that_they_are_late)
{
    struct rounding s;
    struct rounding_members members;
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    spec.backups = 1;
    spec.reduce = COX_REDUCE_SUM;
    rounding_open(&s, 2, &spec, NULL);
    int fd = start_without_one(&s, &members);
    assert_code(0, cox_future_wait(members.end, -1));
    assert_code(COX_ELATE, cox_future_wait(members.futures[1], -1));
    rounding_assert(&s, 3);
    (void)close(fd);
    rounding_plain(&s, NULL); /* goes on where the late one has run */
    assert_code(0, cox_join(s.crew.c, -1));
    assert_true(rounding_value(&s, 0) == rounding_value(&s, 1));
    assert_true(rounding_value(&s, 0) >= 6 && rounding_value(&s, 0) <= 7);
    assert_int_equal(2, rounding_stats(&s).rounds);
    rounding_free(&members);
    crew_close(&s.crew);
}

TEST(a_call_that_takes_the_result_of_a_late_closure_fails_and_that_is_reported)
{
    struct rounding s;
    struct rounding_members members;
    struct cox_future *taker;
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    struct cox_call call = COX_CALL_INIT;
    spec.backups = 1;
    rounding_open(&s, 2, &spec, NULL);
    int fd = start_without_one(&s, &members);
    assert_code(COX_ELATE, cox_future_wait(members.futures[1], -1));
    const struct cox_input input = {"w0", members.futures[1], "w0"};
    call.inputs = &input;
    call.n_inputs = 1;
    assert_code(0, cox_schedule(s.crew.c, s.advance, &call, &taker));
    assert_code(COX_ELATE, cox_future_wait(taker, -1));
    (void)close(fd);
    assert_code(COX_ELATE, cox_join(s.crew.c, -1));
    assert_error_names("its input 'w0'");
    assert_int_equal(1, rounding_stats(&s).late);
    assert_int_equal(1, rounding_stats(&s).failed);
    cox_future_free(taker);
    rounding_free(&members);
    crew_close(&s.crew);
}

TEST(round_that_fails_leaves_no_trace_and_the_next_one_goes_on)
{
    struct rounding s;
    struct rounding_members members;
    struct cox_options options = COX_OPTIONS_INIT;
    options.keep_going = 1;
    rounding_open(&s, 2, &(struct cox_rounds_spec)COX_ROUNDS_SPEC_INIT, &options);
    rounding_start(&s, &(struct rounding_asked){.fail = {[2] = true}}, &members);
    assert_code(COX_ESTEP, cox_future_wait(members.end, -1));
    assert_code(COX_ESTEP, cox_future_wait(members.futures[2], -1));
    assert_code(COX_ECANCELLED, cox_future_wait(members.futures[0], -1));
    rounding_assert(&s, 0);
    rounding_plain(&s, NULL);
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, 1);
    assert_int_equal(1, rounding_stats(&s).rounds_failed);
    rounding_free(&members);
    crew_close(&s.crew);
}

TEST(round_with_a_failed_closure_is_reported_once_and_cancels_what_follows)
{
    struct rounding s;
    rounding_open(&s, 2, &(struct cox_rounds_spec)COX_ROUNDS_SPEC_INIT, NULL);
    rounding_start(&s, &(struct rounding_asked){.fail = {true}}, NULL);
    assert_code(COX_ESTEP, cox_join(s.crew.c, -1));
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_plain(&s, NULL);
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, 1);
    crew_close(&s.crew);
}

TEST(round_that_is_cancelled_leaves_no_trace)
{
    struct rounding s;
    struct rounding_members members;
    const char *gate = rounding_gate();
    rounding_open(&s, 2, &(struct cox_rounds_spec)COX_ROUNDS_SPEC_INIT, NULL);
    rounding_start(&s, &(struct rounding_asked){.path = {gate}}, &members);
    int fd = rounding_meet(gate);
    assert_code(0, cox_future_cancel(members.end));
    for (int i = 0; i < ROUNDING_MEMBERS; i++) {
        assert_code(COX_ECANCELLED, cox_future_wait(members.futures[i], -1));
    }
    assert_code(COX_ECANCELLED, cox_future_wait(members.end, -1));
    (void)close(fd);
    rounding_plain(&s, NULL);
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, 1);
    rounding_free(&members);
    crew_close(&s.crew);
}

TEST(round_with_a_cancelled_closure_is_complete_if_it_has_backups)
{
    struct rounding s;
    struct rounding_members members;
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    const char *gate[2] = {rounding_gate(), rounding_gate()};
    int fd[2];
    spec.backups = 1;
    rounding_open(&s, 2, &spec, NULL);
    rounding_start(&s,
                   &(struct rounding_asked){.path = {gate[0], gate[1]}, .only = {1, 2}},
                   &members);
    fd[0] = rounding_meet(gate[0]);
    fd[1] = rounding_meet(gate[1]);
    assert_code(0, cox_future_cancel(members.futures[0]));
    (void)close(fd[1]);
    assert_code(0, cox_future_wait(members.end, -1));
    assert_code(COX_ECANCELLED, cox_future_wait(members.futures[0], -1));
    (void)close(fd[0]);
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, 1);
    rounding_free(&members);
    crew_close(&s.crew);
}

/* ---- when something dies */

TEST(round_counts_each_closure_once_though_its_workers_die)
{
    struct rounding s;
    struct rounding_members members;
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    const char *gate = rounding_gate();
    spec.reduce = COX_REDUCE_SUM;
    rounding_open(&s, 2, &spec, NULL);
    rounding_start(&s, &(struct rounding_asked){.path = {gate}, .flush = {true}},
                   &members);
    int fd = rounding_meet(gate); /* a part of it waits on ps 0 */
    crew_kill(crew_step_process(&s.crew, 0));
    crew_kill(crew_step_process(&s.crew, 1));
    assert_code(0, cox_future_wait(members.end, -1));
    rounding_assert(&s, ROUNDING_MEMBERS);
    (void)close(fd);
    rounding_free(&members);
    crew_close(&s.crew);
}

static void check_ps_lost(int ps)
{
    struct rounding s;
    struct rounding_members members;
    const char *gate = rounding_gate();
    rounding_open_sum(&s, 0);
    rounding_plain(&s, NULL); /* is replayed */
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_start(&s, &(struct rounding_asked){.path = {gate}, .flush = {true}},
                   &members);
    int fd = rounding_meet(gate);
    crew_kill(crew_ps_process(&s.crew, ps));
    (void)close(fd);
    assert_code(0, cox_future_wait(members.end, -1));
    rounding_assert(&s, 2 * ROUNDING_MEMBERS);
    rounding_plain(&s, NULL);
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, 3 * ROUNDING_MEMBERS);
    rounding_free(&members);
    crew_close(&s.crew);
}

TEST(round_counts_each_closure_once_though_a_ps_dies_between_two_pushes)
{
    check_ps_lost(0);
}

TEST(round_counts_each_closure_once_though_the_ps_of_the_later_push_dies)
{
    check_ps_lost(1);
}

TEST(rounds_that_were_applied_since_a_checkpoint_are_applied_again_as_they_were)
{
    enum { ROUNDS = 20 };
    struct rounding s;
    rounding_open_sum(&s, 0);
    for (int r = 0; r < ROUNDS; r++) {
        if (r == ROUNDS / 2) {
            assert_code(0, cox_checkpoint_save(s.crew.c, NULL, NULL));
        }
        rounding_start(&s, &(struct rounding_asked){.weights = {1, 2, 0.25, 0.75}},
                       NULL);
    }
    assert_code(0, cox_join(s.crew.c, -1));
    for (int i = 0; i < ROUNDING_PS; i++) {
        crew_kill(crew_ps_process(&s.crew, i));
        rounding_start(&s, &(struct rounding_asked){.weights = {1, 2, 0.25, 0.75}},
                       NULL);
        assert_code(0, cox_join(s.crew.c, -1));
        rounding_assert(&s, (float)(ROUNDS + 1 + i) * 4);
    }
    crew_close(&s.crew);
}

/* The first call has seen w0 before a call that is in no round added to it. The last one
 * starts after that call, on the same worker. */
TEST(round_shares_no_values_with_a_closure_that_must_see_newer_ones)
{
    struct rounding s;
    struct cox_future *seen[2];
    struct cox_future *added;
    struct cox_call calls[2] = {COX_CALL_INIT, COX_CALL_INIT};
    struct cox_call call = COX_CALL_INIT;
    const char *gates[2] = {rounding_gate(), rounding_gate()};
    struct cox_value paths[2];
    for (int i = 0; i < 2; i++) {
        paths[i] = (struct cox_value)COX_VECTOR("path", COX_U8, strlen(gates[i]) + 1,
                                                gates[i]);
    }
    rounding_open(&s, 2, &(struct cox_rounds_spec)COX_ROUNDS_SPEC_INIT, NULL);
    call.args = &paths[0];
    call.n_args = 1;
    call.only_worker = 2;
    assert_code(0, cox_schedule(s.crew.c, s.advance, &call, &added));
    int adds = rounding_meet(gates[0]);
    const struct cox_input input = {"before", added, "w0"};
    calls[0].only_worker = calls[1].only_worker = 1;
    calls[0].args = &paths[1];
    calls[0].n_args = 1;
    calls[1].inputs = &input;
    calls[1].n_inputs = 1;
    const struct cox_round_call members[2] = {{s.advance, &calls[0]},
                                              {s.advance, &calls[1]}};
    assert_code(0, cox_round_schedule(s.rounds, members, 2, seen, NULL));
    int sees = rounding_meet(gates[1]);
    (void)close(adds);
    assert_code(0, cox_future_wait(added, -1));
    (void)close(sees);
    assert_code(0, cox_join(s.crew.c, -1));
    assert_true(rounding_seen(seen[0], "w0") == 0);
    assert_true(rounding_seen(seen[1], "w0") == 1);
    rounding_assert(&s, 2);
    cox_future_free(added);
    cox_future_free(seen[0]);
    cox_future_free(seen[1]);
    crew_close(&s.crew);
}

/* ---- mistakes */

TEST(rounds_refuse_what_is_no_round)
{
    struct rounding s;
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    struct cox_rounds *other;
    struct cox_round_call call;
    spec.backups = 1;
    rounding_open(&s, 1, &spec, NULL);
    call = (struct cox_round_call){s.advance, NULL};
    assert_code(COX_EINVAL, cox_round_schedule(s.rounds, &call, 0, NULL, NULL));
    assert_code(COX_EINVAL, cox_round_schedule(s.rounds, &call, 1, NULL, NULL));
    assert_code(COX_EINVAL,
                cox_round_schedule(s.rounds, &call, COX_ROUND_MAX + 1, NULL, NULL));
    spec.reduce = 2;
    assert_code(COX_EINVAL, cox_rounds_create(s.crew.c, &spec, &other));
    spec.reduce = COX_REDUCE_MEAN;
    spec.staleness = COX_STALENESS_MAX + 1;
    assert_code(COX_EINVAL, cox_rounds_create(s.crew.c, &spec, &other));
    struct cox_round_call calls[2] = {{s.advance, NULL}, {NULL, NULL}};
    struct cox_future *end = NULL;
    assert_code(COX_EINVAL, cox_round_schedule(s.rounds, calls, 2, NULL, &end));
    assert_null(end);
    assert_code(0, cox_join(s.crew.c, -1));
    crew_close(&s.crew);
}
