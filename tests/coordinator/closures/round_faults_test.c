/*
 * Rounds that end while a ps is away, or whose end cannot be sent, or is refused. What the
 * client sends to ps, and coxi_round_send, go through this file (ld --wrap).
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "common/error.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/round.h"
#include "net/ps_client.h"
#include "tests/coordinator/inside.h"
#include "tests/coordinator/rounding.h"
#include "tests/test.h"

__typeof__(coxi_round_send) __real_coxi_round_send, __wrap_coxi_round_send;
__typeof__(coxi_psc_submit_now) __real_coxi_psc_submit_now, __wrap_coxi_psc_submit_now;

static atomic_bool memory_is_full;
static atomic_int refused_with; /* what ps answer to the end of a round */
static atomic_int lost_with;    /* how its request ends, without an answer */

int __wrap_coxi_round_send(struct coxi_round *round)
{
    return atomic_load(&memory_is_full) ? coxi_error_memory("the end of a round")
                                        : __real_coxi_round_send(round);
}

int __wrap_coxi_psc_submit_now(struct coxi_psc *psc, const struct coxi_message *message,
                               struct coxi_psc_request *request, bool later)
{
    int refused = atomic_load(&refused_with);
    int lost = atomic_load(&lost_with);
    if ((refused == 0 && lost == 0) || message->kind != COXI_COMMIT ||
        message->commit.updates[0].op != COXI_OP_ROUND) {
        return __real_coxi_psc_submit_now(psc, message, request, later);
    }
    const struct coxi_message answer = {.kind = COXI_COMMITTED,
                                        .status = {.code = refused, .message = "no"}};
    if (lost != 0) {
        (void)coxi_error(lost, "no answer");
    }
    request->done(request, lost, lost == 0 ? &answer : NULL, NULL, 0);
    return 0;
}

/* ---- while a ps is away */

struct away {
    struct rounding s;
    struct rounding_members members;
    pid_t launcher;
    /* as the loop has seen them */
    uint32_t n_staged;
    bool is_blocked;
    bool is_sent;
};

static void look(void *arg)
{
    struct away *away = arg;
    const struct coxi_rounds_state *state = &away->s.crew.c->closures->rounds;
    const struct coxi_round *round = away->s.rounds->first;
    away->n_staged = round != NULL ? round->n_staged : 0;
    away->is_blocked = state->blocked != NULL;
}

static bool are_two_staged(void *arg)
{
    struct away *away = arg;
    inside_run(away->s.crew.c, look, away);
    return away->n_staged == 2;
}

/* True if the round waits for the ps to come back. */
static bool is_blocked(void *arg)
{
    struct away *away = arg;
    inside_run(away->s.crew.c, look, away);
    return away->is_blocked;
}

static bool is_recovering(void *c)
{
    return coxi_ps_recovering(c);
}

/* Leaves a round that is complete while ps 1 has gone. `halves`: how many of the closures,
 * the last ones, push for the other ps only. */
static void away_open_with(struct away *away, uint32_t backups, int halves)
{
    struct rounding_asked asked = {.only = {1, 2, 1, 2}};
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    struct cox_options options = COX_OPTIONS_INIT;
    const char *gate[2] = {rounding_gate(), rounding_gate()};
    spec.backups = backups;
    spec.reduce = COX_REDUCE_SUM;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    options.speculate = -1;
    rounding_open(&away->s, 2, &spec, &options);
    for (int i = 0; i < ROUNDING_MEMBERS; i++) {
        asked.path[i] = i < 2 ? NULL : gate[i - 2];
        asked.half[i] = i >= ROUNDING_MEMBERS - halves;
    }
    rounding_start(&away->s, &asked, &away->members);
    int fd[2] = {rounding_meet(gate[0]), rounding_meet(gate[1])};
    coxi_test_until(are_two_staged, away, "the others are staged");
    away->launcher = crew_launcher(&away->s.crew);
    crew_stop(away->launcher);
    crew_kill(crew_ps_process(&away->s.crew, 1));
    coxi_test_until(is_recovering, away->s.crew.c, "the ps is lost");
    (void)close(fd[0]);
    (void)close(fd[1]);
    coxi_test_until(is_blocked, away, "the round is complete");
}

/* Of two of its closures, the ps that has gone has a part. */
static void away_open(struct away *away)
{
    away_open_with(away, 1, 2);
}

static void *wait_for(void *future)
{
    (void)cox_future_wait(future, -1);
    return NULL;
}

TEST(closing_settles_a_round_that_its_ps_has_ended_while_another_is_away)
{
    struct away away;
    pthread_t waits;
    away_open_with(&away, 0, ROUNDING_MEMBERS);
    assert_true(away.s.rounds->first->ended);
    assert_int_equal(0, pthread_create(&waits, NULL, wait_for, away.members.end));
    assert_code(COX_ETIMEDOUT, cox_close(away.s.crew.c, 200));
    assert_int_equal(0, pthread_join(waits, NULL));
    (void)kill(away.launcher, SIGCONT);
    rounding_free(&away.members);
}

/* The ps comes back. */
static void away_close(struct away *away)
{
    rounding_free(&away->members);
    assert_int_equal(0, kill(away->launcher, SIGCONT));
    assert_code(0, cox_join(away->s.crew.c, -1));
    rounding_assert(&away->s, 0);
    rounding_plain(&away->s, NULL);
    assert_code(0, cox_join(away->s.crew.c, -1));
    assert_true(rounding_value(&away->s, 0) >= ROUNDING_MEMBERS - 1);
    crew_close(&away->s.crew);
}

TEST(round_can_be_cancelled_while_a_ps_is_away)
{
    struct away away;
    away_open(&away);
    assert_code(0, cox_future_cancel(away.members.end));
    assert_code(COX_ECANCELLED, cox_future_wait(away.members.end, 8000));
    rounding_assert_ended(&away.members, COX_ECANCELLED);
    away_close(&away);
}

TEST(round_can_be_cancelled_closure_by_closure_while_a_ps_is_away)
{
    struct away away;
    away_open(&away);
    for (int i = 0; i < ROUNDING_MEMBERS; i++) {
        assert_code(0, cox_future_cancel(away.members.futures[i]));
    }
    assert_code(0, cox_future_cancel(away.members.end));
    rounding_assert_ended(&away.members, COX_ECANCELLED);
    assert_code(COX_ECANCELLED, cox_future_wait(away.members.end, 8000));
    away_close(&away);
}

/* ---- its end */

static void look_at_sent(void *arg)
{
    struct away *away = arg;
    const struct coxi_round *round = away->s.rounds->first;
    away->is_sent = round != NULL && round->sent;
}

static bool is_sent(void *arg)
{
    struct away *away = arg;
    inside_run(away->s.crew.c, look_at_sent, away);
    return away->is_sent;
}

TEST(run_ends_if_there_is_no_memory_to_end_a_round)
{
    struct rounding s;
    struct rounding_members members;
    rounding_open_sum(&s, 0);
    atomic_store(&memory_is_full, true);
    rounding_plain(&s, &members);
    assert_code(COX_ENOMEM, cox_join(s.crew.c, 8000));
    for (int i = 0; i < ROUNDING_MEMBERS; i++) {
        assert_true(cox_future_wait(members.futures[i], 8000) != COX_ETIMEDOUT);
    }
    rounding_free(&members);
    (void)cox_close(s.crew.c, 5000);
}

TEST(round_that_every_ps_refuses_leaves_no_trace)
{
    struct rounding s;
    struct rounding_members members;
    rounding_open_sum(&s, 0);
    atomic_store(&refused_with, COX_ELIMIT);
    rounding_plain(&s, &members);
    assert_code(COX_ELIMIT, cox_join(s.crew.c, -1));
    assert_code(COX_ELIMIT, cox_future_wait(members.end, 0));
    atomic_store(&refused_with, 0);
    rounding_plain(&s, NULL);
    assert_code(0, cox_join(s.crew.c, -1));
    for (int i = 0; i < ROUNDING_PS; i++) {
        crew_kill(crew_ps_process(&s.crew, i));
        rounding_assert(&s, ROUNDING_MEMBERS);
    }
    rounding_free(&members);
    crew_close(&s.crew);
}

TEST(closures_of_a_round_say_that_a_ps_is_lost_for_good)
{
    struct rounding s;
    struct rounding_members members;
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    const char *gate = rounding_gate();
    rounding_open(&s, 2, &spec, NULL); /* without checkpoints */
    rounding_start(&s, &(struct rounding_asked){.path = {NULL, NULL, NULL, gate}},
                   &members);
    int fd = rounding_meet(gate);
    crew_kill(crew_ps_process(&s.crew, 0));
    assert_code(COX_EPSLOST, cox_join(s.crew.c, 8000));
    (void)close(fd);
    for (int i = 0; i < ROUNDING_MEMBERS; i++) {
        assert_code(COX_EPSLOST, cox_future_wait(members.futures[i], 8000));
    }
    assert_code(COX_EPSLOST, cox_future_wait(members.end, 8000));
    rounding_free(&members);
    (void)cox_close(s.crew.c, 5000);
}

TEST(run_ends_if_a_step_of_a_round_touches_other_ps_when_it_is_replayed)
{
    struct rounding s;
    rounding_open_sum(&s, 0);
    rounding_start(&s, &(struct rounding_asked){.stray = {false, true}}, NULL);
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, ROUNDING_MEMBERS);
    crew_kill(crew_ps_process(&s.crew, 1));
    float value;
    assert_code(COX_EREPLAY,
                cox_variable_read(s.crew.c, s.w[1], &value, sizeof(value)));
    assert_error_names(
        "4 closures of round 7 have touched ps 1, and commits of 3 wait");
    (void)cox_close(s.crew.c, 5000);
}

TEST(run_ends_if_nobody_knows_whether_a_round_is_applied)
{
    struct rounding s;
    rounding_open_sum(&s, 0);
    atomic_store(&lost_with, COX_ETIMEDOUT);
    rounding_plain(&s, NULL);
    assert_code(COX_ETIMEDOUT, cox_join(s.crew.c, 8000));
    assert_code(COX_ETIMEDOUT, cox_join(s.crew.c, 8000)); /* it is over */
    atomic_store(&lost_with, 0);
    (void)cox_close(s.crew.c, 5000);
}

/* Leaves a round whose end is on its way to a ps that has died, and comes back now. */
static void away_send(struct away *away)
{
    rounding_open_sum(&away->s, 0);
    atomic_store(&lost_with, COX_EPSLOST); /* as if the ps had gone, until it has */
    rounding_plain(&away->s, &away->members);
    coxi_test_until(is_sent, away, "the end of the round is sent");
    away->launcher = crew_launcher(&away->s.crew);
    crew_stop(away->launcher);
    crew_kill(crew_ps_process(&away->s.crew, 1));
    coxi_test_until(is_recovering, away->s.crew.c, "the ps is lost");
    coxi_test_until(is_blocked, away, "the end of the round waits for the ps");
    atomic_store(&lost_with, 0);
    assert_int_equal(0, kill(away->launcher, SIGCONT));
}

TEST(round_is_applied_once_if_a_ps_dies_while_the_end_is_on_its_way)
{
    struct away away;
    away_send(&away);
    assert_code(0, cox_join(away.s.crew.c, -1));
    assert_code(0, cox_future_wait(away.members.end, 0));
    rounding_assert(&away.s, ROUNDING_MEMBERS);
    rounding_free(&away.members);
    crew_close(&away.s.crew);
}

TEST(client_can_be_closed_while_a_ps_that_lacks_a_round_is_away)
{
    struct away away;
    away_send(&away);
    int r = cox_close(away.s.crew.c, 5000);
    assert_true(r == 0 || r == COX_ECLOSED);
    for (int i = 0; i < ROUNDING_MEMBERS; i++) {
        assert_true(cox_future_wait(away.members.futures[i], 0) != COX_ETIMEDOUT);
    }
    rounding_free(&away.members);
}
