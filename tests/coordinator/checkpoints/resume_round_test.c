/*
 * Rounds that were under way when a checkpoint was written: the client that resumes from
 * it applies each of them once, as a whole or not at all. Calls of coxi_backlog_collect
 * and coxi_call_on_loop, and what the client sends to ps, go through this file (ld
 * --wrap).
 */
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/backlog.h"
#include "coordinator/base/call.h"
#include "coordinator/checkpoints/backlog.h"
#include "coordinator/closures/attempts.h"
#include "coordinator/closures/closure.h"
#include "net/ps_client.h"
#include "tests/coordinator/rounding.h"
#include "tests/test.h"

/* ---- between the moments of a checkpoint */

__typeof__(coxi_backlog_collect) __real_coxi_backlog_collect,
    __wrap_coxi_backlog_collect;
__typeof__(coxi_call_on_loop) __real_coxi_call_on_loop, __wrap_coxi_call_on_loop;
__typeof__(coxi_psc_submit_now) __real_coxi_psc_submit_now, __wrap_coxi_psc_submit_now;
__typeof__(coxi_attempts_done) __real_coxi_attempts_done, __wrap_coxi_attempts_done;

static struct rounding *scene; /* of the test */
/* called when all ps have written their shards */
static void (*before_collection)(void);
/* cancelled in the turn of the loop that collects the backlog, just before that */
static struct cox_future *cancelled;
static _Thread_local bool collects;
static atomic_bool refuses; /* ps refuse the ends of rounds */
static atomic_bool deaf;    /* the client gets no reports */
static atomic_bool holds;   /* the end of a round does not reach ps 1 */
static _Atomic(struct coxi_psc_request *) held; /* that end */

int __wrap_coxi_backlog_collect(struct cox_coordinator *c, const char *path,
                                const struct coxi_recovery_mark *mark,
                                struct coxi_manifest *manifest)
{
    if (before_collection != NULL) {
        before_collection();
    }
    collects = true;
    int r = __real_coxi_backlog_collect(c, path, mark, manifest);
    collects = false;
    return r;
}

struct turn {
    int (*run)(struct cox_coordinator *c, void *arg);
    void *arg;
};

static int cancel_and_run(struct cox_coordinator *c, void *arg)
{
    const struct turn *turn = arg;
    coxi_attempts_cancel(coxi_closure_of(cancelled));
    return turn->run(c, turn->arg);
}

int __wrap_coxi_call_on_loop(struct cox_coordinator *c,
                             int (*run)(struct cox_coordinator *c, void *arg),
                             void *arg)
{
    struct turn turn = {run, arg};
    return collects && cancelled != NULL
               ? __real_coxi_call_on_loop(c, cancel_and_run, &turn)
               : __real_coxi_call_on_loop(c, run, arg);
}

int __wrap_coxi_psc_submit_now(struct coxi_psc *psc, const struct coxi_message *message,
                               struct coxi_psc_request *request, bool later)
{
    static const struct coxi_message no = {
        .kind = COXI_COMMITTED, .status = {.code = COX_ELIMIT, .message = "no"}};
    bool is_end =
        message->kind == COXI_COMMIT && message->commit.updates[0].op == COXI_OP_ROUND;
    if (is_end && atomic_load(&refuses)) {
        request->done(request, 0, &no, NULL, 0);
    } else if (is_end && atomic_load(&holds) && psc == scene->crew.c->ps.clients[1]) {
        atomic_store(&held, request);
    } else {
        return __real_coxi_psc_submit_now(psc, message, request, later);
    }
    return 0;
}

int __wrap_coxi_attempts_done(struct coxi_worker *worker, const struct coxi_done *done,
                              const uint8_t *payload, size_t len)
{
    return atomic_load(&deaf) ? 0
                              : __real_coxi_attempts_done(worker, done, payload, len);
}

/* ---- clients */

/* Opens the next client in the directory of the test; it goes on with what is left when
 * it schedules. */
static void open_with(struct rounding *s, uint32_t backups)
{
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    struct cox_options options = COX_OPTIONS_INIT;
    spec.staleness = 1;
    spec.backups = backups;
    spec.reduce = COX_REDUCE_SUM;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    rounding_open(s, 2, &spec, &options);
    scene = s;
}

static void open_next(struct rounding *s)
{
    open_with(s, 0);
}

static uint64_t rerun_by(struct rounding *s)
{
    struct cox_progress progress = COX_PROGRESS_INIT;
    assert_code(0, cox_progress(s->crew.c, &progress));
    return progress.rerun;
}

/* Does a closure that is in no round, so that the checkpoint has what came before it. */
static void do_one(struct rounding *s)
{
    struct cox_future *future;
    assert_code(0, cox_schedule(s->crew.c, s->advance, NULL, &future));
    assert_code(0, cox_future_wait(future, 10000));
    cox_future_free(future);
}

/* Opens a gate again, for the client that resumes. */
static void close_gate(const char *gate)
{
    assert_int_equal(0, unlink(gate));
    assert_int_equal(0, mkfifo(gate, 0600));
}

static void save(struct rounding *s)
{
    assert_code(0, cox_checkpoint_save(s->crew.c, NULL, NULL));
}

/* ---- what the next client does with a round */

TEST(a_round_that_was_not_complete_is_done_by_the_next_client_before_its_own)
{
    struct rounding s;
    struct rounding_members members;
    const char *gate = rounding_gate();
    open_next(&s);
    rounding_start(&s, &(struct rounding_asked){.path = {gate}}, NULL);
    int fd = rounding_meet(gate);
    do_one(&s);
    save(&s);
    close_gate(gate);
    (void)close(fd);
    crew_close(&s.crew);

    open_next(&s);
    assert_int_equal(ROUNDING_MEMBERS, rerun_by(&s));
    rounding_plain(&s, &members);
    fd = rounding_meet(gate);
    rounding_assert(&s, 1);
    assert_code(COX_ETIMEDOUT, cox_future_wait(members.futures[0], 50));
    (void)close(fd);
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, 1 + 2 * ROUNDING_MEMBERS);
    assert_true(rounding_seen(members.futures[1], "w0") == 1 + ROUNDING_MEMBERS);
    rounding_free(&members);
    crew_close(&s.crew);
}

TEST(of_two_rounds_that_overlap_only_the_one_that_is_left_is_done_again)
{
    struct rounding s;
    struct rounding_members members;
    const char *gate = rounding_gate();
    open_next(&s);
    rounding_start(&s, &(struct rounding_asked){.path = {gate}}, NULL);
    int fd = rounding_meet(gate);
    rounding_plain(&s, &members);
    assert_code(0, cox_future_wait(members.end, -1));
    rounding_free(&members);
    rounding_plain(&s, NULL); /* waits for the first one */
    save(&s);
    close_gate(gate);
    (void)close(fd);
    crew_close(&s.crew);

    open_next(&s);
    assert_int_equal(ROUNDING_MEMBERS, rerun_by(&s));
    rounding_plain(&s, NULL);
    (void)close(rounding_meet(gate));
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, 3 * ROUNDING_MEMBERS);
    crew_close(&s.crew);
}

static bool is_held(void *arg)
{
    (void)arg;
    return atomic_load(&held) != NULL;
}

/* Starts a round whose end ps 0 has, and ps 1 has not. */
static void start_half_applied(struct rounding *s, const struct rounding_asked *asked)
{
    atomic_store(&holds, true);
    rounding_start(s, asked, NULL);
    coxi_test_until(is_held, NULL, "the end of the round");
    while (rounding_value(s, 0) == 0) {
    }
}

/* Now ps 1 gets it, too. */
static void send_again(void)
{
    atomic_store(&holds, false);
    struct coxi_psc_request *request = atomic_load(&held);
    request->done(request, COX_EPSLOST, NULL, NULL, 0);
}

TEST(a_round_that_one_ps_has_applied_is_applied_by_the_others_after_a_restart)
{
    struct rounding s;
    open_next(&s);
    start_half_applied(&s, &(struct rounding_asked){.weights = {1, 2, 3, 4}});
    save(&s);
    send_again();
    crew_close(&s.crew);

    open_next(&s);
    assert_int_equal(ROUNDING_MEMBERS, rerun_by(&s));
    assert_true(rounding_value(&s, 0) == 10);
    assert_true(rounding_value(&s, 1) == 0);
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, 10);
    crew_close(&s.crew);
}

TEST(a_closure_that_runs_again_for_what_it_kept_does_so_in_its_round)
{
    struct rounding s;
    struct rounding_members members;
    const char *gate = rounding_gate();
    open_next(&s);
    rounding_start(&s, &(struct rounding_asked){.keep = {true}}, &members);
    assert_code(0, cox_future_wait(members.end, -1));
    const struct cox_value path = COX_VECTOR("path", COX_U8, strlen(gate) + 1, gate);
    const struct cox_input input = {"w0", members.futures[0], "w0"};
    struct cox_call call = COX_CALL_INIT;
    call.args = &path;
    call.n_args = 1;
    call.inputs = &input;
    call.n_inputs = 1;
    assert_code(0,
                cox_schedule(s.crew.c, crew_function(&s.crew, "follow"), &call, NULL));
    int fd = rounding_meet(gate);
    do_one(&s);
    save(&s);
    close_gate(gate);
    (void)close(fd);
    rounding_free(&members);
    crew_close(&s.crew);

    open_next(&s);
    assert_int_equal(1, rerun_by(&s));
    rounding_plain(&s, NULL);
    (void)close(rounding_meet(gate));
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, 1 + 2 * ROUNDING_MEMBERS);
    crew_close(&s.crew);
}

static void end_it(void)
{
    send_again();
    while (rounding_stats(scene).rounds == 0) {
    }
}

TEST(a_run_ends_if_a_round_that_one_ps_has_applied_is_refused_after_a_restart)
{
    struct rounding s;
    open_next(&s);
    start_half_applied(&s,
                       &(struct rounding_asked){.half = {true, true},
                                                .other = {false, false, true, true}});
    before_collection = end_it;
    save(&s);
    before_collection = NULL;
    crew_close(&s.crew);

    open_next(&s);
    assert_int_equal(2, rerun_by(&s));
    atomic_store(&refuses, true);
    assert_code(COX_ELIMIT, cox_join(s.crew.c, 8000));
    assert_code(COX_ELIMIT, cox_join(s.crew.c, 8000)); /* it is over */
    (void)cox_close(s.crew.c, 5000);
}

/* A checkpoint has a round that a ps has ended, and of which the client does not know it
 * yet. In the next client a closure of it fails. */
TEST(a_run_ends_if_a_round_that_its_ps_has_ended_cannot_be_done_after_a_restart)
{
    struct rounding s;
    const char *gate = rounding_gate();
    open_next(&s);
    rounding_start(
        &s, &(struct rounding_asked){.path = {gate}, .half = {true, true, true, true}},
        NULL);
    int fd = rounding_meet(gate);
    atomic_store(&deaf, true); /* the report of the last closure is on its way */
    (void)close(fd);
    while (rounding_value(&s, 0) == 0) {
    }
    assert_true(rounding_value(&s, 0) == ROUNDING_MEMBERS);
    save(&s);
    atomic_store(&deaf, false);
    assert_int_equal(0, unlink(gate)); /* its step fails in the next client */
    (void)cox_close(s.crew.c, 3000);

    open_next(&s);
    assert_int_equal(ROUNDING_MEMBERS, rerun_by(&s));
    rounding_plain(&s, NULL);
    assert_code(COX_EREPLAY, cox_join(s.crew.c, 8000));
    assert_true(rounding_stats(&s).rounds == 0);
    (void)cox_close(s.crew.c, 5000);
}

/* ---- rounds of which nothing may be left */

/* Cancels a round in the turn that collects the backlog; returns how many of its calls the
 * next client, which is opened, has to do. */
static uint64_t cancel_meanwhile(struct rounding *s, uint32_t backups, const char *gate)
{
    struct rounding_members members;
    open_with(s, backups);
    rounding_start(s, &(struct rounding_asked){.path = {gate}}, &members);
    int fd = rounding_meet(gate);
    do_one(s);
    cancelled = members.end;
    save(s);
    cancelled = NULL;
    assert_code(COX_ECANCELLED, cox_future_wait(members.futures[0], 10000));
    close_gate(gate);
    (void)close(fd);
    rounding_free(&members);
    crew_close(&s->crew);
    open_next(s);
    return rerun_by(s);
}

TEST(a_round_that_is_cancelled_while_the_backlog_is_collected_is_not_done_again)
{
    struct rounding s;
    assert_int_equal(0, cancel_meanwhile(&s, 1, rounding_gate()));
    rounding_plain(&s, NULL);
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, 1 + ROUNDING_MEMBERS);
    crew_close(&s.crew);
}

/* Without backups, a cancelled round is not over before the ps have agreed. */
TEST(a_round_whose_cancelling_is_under_way_is_done_again_as_a_whole)
{
    struct rounding s;
    const char *gate = rounding_gate();
    assert_int_equal(ROUNDING_MEMBERS, cancel_meanwhile(&s, 0, gate));
    rounding_plain(&s, NULL);
    (void)close(rounding_meet(gate));
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, 1 + 2 * ROUNDING_MEMBERS);
    crew_close(&s.crew);
}

static void have_a_round_refused(void)
{
    struct rounding_members members;
    before_collection = NULL;
    atomic_store(&refuses, true);
    rounding_plain(scene, &members);
    assert_code(COX_ELIMIT, cox_future_wait(members.end, 10000));
    rounding_assert_ended(&members, COX_ELIMIT);
    atomic_store(&refuses, false);
    rounding_free(&members);
}

TEST(a_round_that_was_refused_is_not_done_again)
{
    struct rounding s;
    open_next(&s);
    before_collection = have_a_round_refused;
    save(&s);
    crew_close(&s.crew);

    open_next(&s);
    assert_int_equal(0, rerun_by(&s));
    assert_code(0, cox_join(s.crew.c, -1));
    rounding_assert(&s, 0);
    crew_close(&s.crew);
}

TEST(a_cursor_does_not_pass_closures_that_ended_with_their_round)
{
    struct rounding s;
    struct rounding_members members[2];
    const char *gate = rounding_gate();
    open_next(&s);
    rounding_start(
        &s, &(struct rounding_asked){.path = {gate}, .fail = {true}, .cursors = {0, 5}},
        &members[0]);
    int fd = rounding_meet(gate);
    /* before the failure, which scheduling would report */
    rounding_start(&s, &(struct rounding_asked){.cursors = {10}}, &members[1]);
    (void)close(fd);
    assert_code(COX_ESTEP, cox_future_wait(members[0].end, 10000));
    assert_code(0, cox_future_wait(members[1].end, 10000));
    assert_code(COX_ECANCELLED, cox_checkpoint_save(s.crew.c, NULL, NULL));
    assert_code(COX_ESTEP, cox_join(s.crew.c, -1));
    rounding_free(&members[0]);
    rounding_free(&members[1]);
    crew_close(&s.crew);
}

/* ---- rounds that wait for a write of the older client */

struct behind {
    struct rounding s;
    struct rounding_members members;
    int fd; /* holds the closure of the older client */
};

/* Leaves a round that waits for a reset, which waits for a closure of an older client. */
static void behind_open(struct behind *behind)
{
    struct cox_metric_spec spec = COX_METRIC_SPEC_INIT;
    struct cox_metric *metric;
    const char *gate = rounding_gate();
    open_next(&behind->s);
    rounding_start(&behind->s, &(struct rounding_asked){.path = {gate}}, NULL);
    int fd = rounding_meet(gate);
    do_one(&behind->s);
    save(&behind->s);
    close_gate(gate);
    (void)close(fd);
    crew_close(&behind->s.crew);

    open_next(&behind->s);
    spec.name = "m";
    spec.kind = COX_METRIC_COUNT;
    assert_code(0, cox_metric_create(behind->s.crew.c, &spec, &metric));
    assert_code(0, cox_metric_reset(behind->s.crew.c, metric));
    rounding_plain(&behind->s, &behind->members);
    behind->fd = rounding_meet(gate);
}

static void behind_close(struct behind *behind)
{
    rounding_free(&behind->members);
    (void)close(behind->fd);
    rounding_plain(&behind->s, NULL);
    assert_code(0, cox_join(behind->s.crew.c, 8000));
    rounding_assert(&behind->s, 1 + 2 * ROUNDING_MEMBERS);
    crew_close(&behind->s.crew);
}

TEST(a_round_behind_a_write_of_an_older_client_can_be_cancelled)
{
    struct behind behind;
    behind_open(&behind);
    assert_code(0, cox_future_cancel(behind.members.end));
    rounding_assert_ended(&behind.members, COX_ECANCELLED);
    behind_close(&behind);
}

TEST(a_closure_of_a_round_behind_a_write_of_an_older_client_can_be_cancelled)
{
    struct behind behind;
    behind_open(&behind);
    assert_code(0, cox_future_cancel(behind.members.futures[2]));
    rounding_assert_ended(&behind.members, COX_ECANCELLED);
    assert_code(COX_ECANCELLED, cox_future_wait(behind.members.end, 8000));
    behind_close(&behind);
}

TEST(a_client_can_be_closed_while_a_round_is_behind_a_write_of_an_older_one)
{
    struct behind behind;
    behind_open(&behind);
    rounding_free(&behind.members);
    crew_close(&behind.s.crew);
    (void)close(behind.fd);
}
