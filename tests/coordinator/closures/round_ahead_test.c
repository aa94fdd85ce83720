/* Rounds that begin before the one before them is complete. Here rounds count as quick,
 * however slow the machine is. */
#include <stdatomic.h>
#include <unistd.h>

#include "coordinator/closures/dispatch.h"
#include "coordinator/closures/round.h"
#include "tests/coordinator/rounding.h"
#include "tests/test.h"

enum { WARM = 3 };

static atomic_uint n_ahead;       /* closures given to workers before they may end */
static atomic_uint n_back;        /* closures that came back, and waited */
static atomic_uint n_called_back; /* closures that workers were asked for */

void __real_coxi_round_note_pace(const struct coxi_round *round);
void __wrap_coxi_round_note_pace(const struct coxi_round *round);
void __real_coxi_round_given(struct coxi_closure *closure,
                             const struct coxi_seat *seat);
void __wrap_coxi_round_given(struct coxi_closure *closure,
                             const struct coxi_seat *seat);
bool __real_coxi_round_takes_back(struct coxi_closure *closure);
bool __wrap_coxi_round_takes_back(struct coxi_closure *closure);

void __real_coxi_send_recall(struct coxi_seat *seat, struct coxi_closure_id id,
                             uint32_t attempt, bool running);
void __wrap_coxi_send_recall(struct coxi_seat *seat, struct coxi_closure_id id,
                             uint32_t attempt, bool running);

void __wrap_coxi_send_recall(struct coxi_seat *seat, struct coxi_closure_id id,
                             uint32_t attempt, bool running)
{
    atomic_fetch_add(&n_called_back, !running);
    __real_coxi_send_recall(seat, id, attempt, running);
}

void __wrap_coxi_round_note_pace(const struct coxi_round *round)
{
    __real_coxi_round_note_pace(round);
    round->rounds->pace.is_quick = true;
}

void __wrap_coxi_round_given(struct coxi_closure *closure, const struct coxi_seat *seat)
{
    const struct coxi_round *first = closure->round->rounds->first;
    bool is_ahead = coxi_round_must_see(closure->round) && !first->sent;
    atomic_fetch_add(&n_ahead, is_ahead);
    __real_coxi_round_given(closure, seat);
}

bool __wrap_coxi_round_takes_back(struct coxi_closure *closure)
{
    bool held = __real_coxi_round_takes_back(closure);
    atomic_fetch_add(&n_back, held);
    return held;
}

/* Opens a crew with rounds that add up, and runs WARM of them. */
static void open_warm(struct rounding *s, struct cox_options *options)
{
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    spec.reduce = COX_REDUCE_SUM;
    rounding_open(s, 2, &spec, options);
    for (int r = 0; r < WARM; r++) {
        rounding_plain(s, NULL);
    }
    assert_code(0, cox_join(s->crew.c, -1));
    atomic_store(&n_ahead, 0);
    atomic_store(&n_back, 0);
    atomic_store(&n_called_back, 0);
}

/* Asserts that all of a round have seen `expected`. */
static void assert_all_saw(const struct rounding_members *members, float expected)
{
    for (int i = 0; i < ROUNDING_MEMBERS; i++) {
        assert_code(0, cox_future_wait(members->futures[i], -1));
        assert_true(rounding_seen(members->futures[i], "w0") == expected);
        assert_true(rounding_seen(members->futures[i], "w1") == expected);
    }
}

/* True if `*n` closures or more were given away before they may end. */
static bool are_ahead(void *n)
{
    return atomic_load(&n_ahead) >= *(const unsigned *)n;
}

/* Starts a round of which one closure waits at a gate, and another behind it, of which a
 * worker has a closure when this returns. */
static int start_stuck(struct rounding *s, struct rounding_asked *asked,
                       struct rounding_members members[2])
{
    unsigned one = 1;
    asked->path[0] = rounding_gate();
    rounding_start(s, asked, &members[0]);
    rounding_plain(s, &members[1]);
    int fd = rounding_meet(asked->path[0]);
    coxi_test_until(are_ahead, &one, "a closure that begins ahead");
    return fd;
}

TEST(rounds_that_begin_ahead_see_all_before)
{
    enum { ROUNDS = 50 };
    struct rounding s;
    struct rounding_members members[ROUNDS];
    open_warm(&s, NULL);
    for (int r = 0; r < ROUNDS; r++) {
        rounding_plain(&s, &members[r]);
    }
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, (WARM + ROUNDS) * ROUNDING_MEMBERS);
    for (int r = 0; r < ROUNDS; r++) {
        assert_all_saw(&members[r], (float)((WARM + r) * ROUNDING_MEMBERS));
        rounding_free(&members[r]);
    }
    assert_true(atomic_load(&n_ahead) > 0);
    crew_close(&s.crew);
}

TEST(rounds_do_not_begin_ahead_on_workers_with_several_slots)
{
    struct rounding s;
    struct cox_options options = COX_OPTIONS_INIT;
    options.worker_slots = 2;
    open_warm(&s, &options);
    for (int r = 0; r < 20; r++) {
        rounding_plain(&s, NULL);
    }
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, (WARM + 20) * ROUNDING_MEMBERS);
    assert_int_equal(0, atomic_load(&n_ahead));
    crew_close(&s.crew);
}

static bool came_back(void *arg)
{
    (void)arg;
    return atomic_load(&n_back) > 0;
}

/* One round is stuck on the first worker, and the closures of the next one are on the
 * second. Their pulls do not wait for long: then the worker does what else there is. They
 * take `input`, unless that is NULL. */
static void check_room(struct rounding *s, struct cox_future *input)
{
    struct rounding_members members[2];
    struct cox_future *other;
    struct cox_call call = COX_CALL_INIT;
    const struct rounding_asked next = {.only = {2, 2, 2, 2}, .input = input};
    struct rounding_asked stuck = {.only = {1, 2, 2, 2}, .path = {rounding_gate()}};
    unsigned two = 2;
    rounding_start(s, &stuck, &members[0]);
    rounding_start(s, &next, &members[1]);
    int fd = rounding_meet(stuck.path[0]);
    coxi_test_until(are_ahead, &two, "closures that begin ahead, one of them in line");
    call.only_worker = 2;
    assert_code(0, cox_schedule(s->crew.c, s->advance, &call, &other));
    assert_code(0, cox_future_wait(other, -1));
    coxi_test_until(came_back, NULL, "closures that come back");
    assert_code(COX_ETIMEDOUT, cox_future_wait(members[0].end, 0));
    assert_true(atomic_load(&n_called_back) > 0); /* the others of the round */
    float seen = rounding_seen(other, "w0");
    (void)close(fd);
    assert_all_saw(&members[1], seen + ROUNDING_MEMBERS + 1);
    assert_code(0, cox_join(s->crew.c, -1));
    rounding_assert(s, seen + 2 * ROUNDING_MEMBERS + 1);
    assert_true(atomic_load(&n_ahead) > 0);
    cox_future_free(other);
    rounding_free(&members[0]);
    rounding_free(&members[1]);
}

TEST(round_that_has_begun_ahead_makes_room_if_the_one_before_takes_long)
{
    struct rounding s;
    open_warm(&s, NULL);
    check_room(&s, NULL);
    crew_close(&s.crew);
}

TEST(round_that_has_begun_ahead_makes_room_though_its_closures_take_results)
{
    for (int keep = 0; keep < 2; keep++) {
        struct rounding s;
        struct cox_future *source;
        struct cox_call call = COX_CALL_INIT;
        call.keep = keep;
        open_warm(&s, NULL);
        assert_code(0, cox_schedule(s.crew.c, s.advance, &call, &source));
        assert_code(0, cox_join(s.crew.c, -1));
        check_room(&s, source);
        cox_future_free(source);
        crew_close(&s.crew);
    }
}

static bool is_called_back(void *arg)
{
    (void)arg;
    return atomic_load(&n_called_back) > 0;
}

TEST(round_that_has_begun_ahead_is_called_back_if_one_of_the_one_before_runs_again)
{
    struct rounding s;
    struct rounding_members members[2];
    const struct rounding_asked next = {.only = {2, 2, 2, 2}};
    struct rounding_asked stuck = {.only = {1, 2, 2, 2}, .path = {rounding_gate()}};
    unsigned two = 2;
    open_warm(&s, NULL);
    rounding_start(&s, &stuck, &members[0]);
    rounding_start(&s, &next, &members[1]);
    int fd = rounding_meet(stuck.path[0]);
    coxi_test_until(are_ahead, &two, "closures that begin ahead, one of them in line");
    crew_kill(crew_step_process(&s.crew, 0));
    coxi_test_until(is_called_back, NULL, "a recall of closures");
    (void)close(fd);
    assert_all_saw(&members[1], (WARM + 1) * ROUNDING_MEMBERS);
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, (WARM + 2) * ROUNDING_MEMBERS);
    rounding_free(&members[0]);
    rounding_free(&members[1]);
    crew_close(&s.crew);
}

/* One round is stuck and does not count in the end; the next one has begun. */
static void check_without(struct rounding_asked *asked, bool cancel, int code)
{
    struct rounding s;
    struct rounding_members members[2];
    struct cox_options options = COX_OPTIONS_INIT;
    options.keep_going = 1;
    open_warm(&s, &options);
    int fd = start_stuck(&s, asked, members);
    if (cancel) {
        assert_code(0, cox_future_cancel(members[0].end));
        assert_code(code, cox_future_wait(members[0].end, -1));
    }
    (void)close(fd);
    assert_code(code, cox_future_wait(members[0].end, -1));
    assert_all_saw(&members[1], WARM * ROUNDING_MEMBERS);
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, (WARM + 1) * ROUNDING_MEMBERS);
    assert_true(atomic_load(&n_ahead) > 0);
    rounding_free(&members[0]);
    rounding_free(&members[1]);
    crew_close(&s.crew);
}

TEST(round_that_has_begun_ahead_goes_on_if_the_one_before_fails)
{
    check_without(&(struct rounding_asked){.fail = {true}}, false, COX_ESTEP);
}

TEST(round_that_has_begun_ahead_goes_on_if_the_one_before_is_cancelled)
{
    check_without(&(struct rounding_asked){.weights = {0}}, true, COX_ECANCELLED);
}

/* The crash is reported by the next process, when the closure is held already. */
TEST(
    round_that_has_begun_ahead_fails_if_its_step_crashes_though_the_one_before_is_stuck)
{
    struct rounding s;
    struct rounding_members members;
    struct cox_future *dies;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_call call = COX_CALL_INIT;
    struct rounding_asked asked = {.only = {1, 2, 2, 2}, .path = {rounding_gate()}};
    options.keep_going = 1;
    options.max_crashes = 1;
    coxi_test_expect_crashes();
    open_warm(&s, &options);
    rounding_start(&s, &asked, &members);
    call.only_worker = 2;
    const struct cox_round_call next = {crew_function(&s.crew, "die"), &call};
    assert_code(0, cox_round_schedule(s.rounds, &next, 1, &dies, NULL));
    int fd = rounding_meet(asked.path[0]);
    assert_code(COX_ECRASHED, cox_future_wait(dies, -1));
    assert_code(COX_ETIMEDOUT, cox_future_wait(members.end, 0));
    (void)close(fd);
    assert_code(0, cox_future_wait(members.end, -1));
    (void)cox_join(s.crew.c, -1);
    rounding_assert(&s, (WARM + 1) * ROUNDING_MEMBERS);
    cox_future_free(dies);
    rounding_free(&members);
    crew_close(&s.crew);
}

/* Kills something while one round is stuck and the next one has begun. */
static void check_killed(void (*kill_one)(struct rounding *s))
{
    struct rounding s;
    struct rounding_members members[2];
    struct cox_options options = COX_OPTIONS_INIT;
    struct rounding_asked asked = {.flush = {true}, .only = {1}};
    options.checkpoint_dir = coxi_test_path("checkpoints");
    open_warm(&s, &options);
    int fd = start_stuck(&s, &asked, members);
    kill_one(&s);
    (void)close(fd);
    assert_all_saw(&members[1], (WARM + 1) * ROUNDING_MEMBERS);
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, (WARM + 2) * ROUNDING_MEMBERS);
    rounding_free(&members[0]);
    rounding_free(&members[1]);
    crew_close(&s.crew);
}

static void kill_stuck_worker(struct rounding *s)
{
    crew_kill(crew_step_process(&s->crew, 0));
}

static void kill_other_worker(struct rounding *s)
{
    crew_kill(crew_step_process(&s->crew, 1));
}

static void kill_first_ps(struct rounding *s)
{
    crew_kill(crew_ps_process(&s->crew, 0));
}

static void kill_all_ps(struct rounding *s)
{
    crew_kill(crew_ps_process(&s->crew, 0));
    crew_kill(crew_ps_process(&s->crew, 1));
}

TEST(round_that_has_begun_ahead_counts_once_though_a_worker_of_the_one_before_dies)
{
    check_killed(kill_stuck_worker);
}

TEST(round_that_has_begun_ahead_counts_once_though_its_worker_dies)
{
    check_killed(kill_other_worker);
}

TEST(round_that_has_begun_ahead_counts_once_though_a_ps_dies)
{
    check_killed(kill_first_ps);
}

TEST(round_that_has_begun_ahead_counts_once_though_all_ps_die)
{
    check_killed(kill_all_ps);
}
