/*
 * While a ps is being recovered, nothing but the current batch of the replay runs. A step of
 * the replay waits at a FIFO, so the recovery stays where it is for as long as a test wants.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "net/pulls.h"
#include "tests/coordinator/inside.h"
#include "tests/coordinator/keep.h"
#include "tests/coordinator/keeper.h"
#include "tests/test.h"

enum {
    SAMPLES = 40,        /* so that it is known how long "straggle" takes */
    NOT_WITHIN_MS = 400, /* of what must not happen: it would, in a few ticks */
    SOON_MS = 8000,      /* of what must */
};

struct scene {
    struct crew crew;  /* with module hold */
    struct crew other; /* the same, with another one */
    struct cox_variable *c0;
    struct cox_variable *c1; /* on ps 1, where there is one */
    struct crew_hold gate;
};

/* There is a checkpoint of nothing but zeros, so that the log starts here. */
static void scene_open(struct scene *s, int n_ps, int n_workers, const char *module,
                       const struct cox_options *options)
{
    struct cox_options o = COX_OPTIONS_INIT;
    o = options != NULL ? *options : o;
    o.checkpoint_dir = coxi_test_path("checkpoints");
    crew_open(&s->crew, n_ps, n_workers, "hold", &o);
    s->other = s->crew;
    if (module != NULL) {
        assert_code(
            0, cox_module_load(s->crew.c, coxi_test_module(module), &s->other.module));
    }
    s->c0 = crew_counter(&s->crew, "c0");
    s->c1 = n_ps > 1 ? crew_counter(&s->crew, "c1") : NULL;
    assert_code(0, cox_checkpoint_save(s->crew.c, NULL, NULL));
}

static void join(struct scene *s)
{
    assert_code(0, cox_join(s->crew.c, SOON_MS));
}

/* A step adds 1 to c0. When it is replayed, it waits: crew_hold_wait(&s->gate). */
static void pass_gate(struct scene *s)
{
    crew_hold(&s->gate, &s->crew, "hold_and_count", false);
    crew_hold_wait(&s->gate);
    crew_hold_release(&s->gate);
    join(s);
}

static void assign(struct scene *s, struct cox_variable *counter, int64_t value)
{
    assert_code(0, cox_variable_assign(s->crew.c, counter, &value, sizeof(value)));
}

static void run_many(struct scene *s, const char *step, int n)
{
    crew_schedule(&s->crew, crew_function(&s->crew, step), n, 0);
    join(s);
}

/* ---- what is waited for */

static struct cox_stats stats_of(struct scene *s)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(s->crew.c, &stats));
    return stats;
}

struct wanted {
    struct scene *s;
    uint64_t n;
};

static bool have_recovered(void *arg)
{
    const struct wanted *wanted = arg;
    return stats_of(wanted->s).ps_recovered >= wanted->n;
}

static bool have_been_lost(void *arg)
{
    const struct wanted *wanted = arg;
    return stats_of(wanted->s).workers_lost >= wanted->n;
}

static bool are_ready(void *arg)
{
    const struct wanted *wanted = arg;
    return stats_of(wanted->s).workers_ready == wanted->n;
}

/* Kills ps `index`; returns when `n` have come back in all. */
static void lose_ps(struct scene *s, int index, uint64_t n)
{
    struct wanted wanted = {s, n};
    crew_kill(crew_ps_process(&s->crew, index));
    coxi_test_until(have_recovered, &wanted, "a ps that has come back");
}

/* Kills worker `index`, the `n`th that is lost. */
static void lose_worker(struct scene *s, int index, uint64_t n)
{
    struct wanted wanted = {s, n};
    crew_kill(crew_step_process(&s->crew, index));
    coxi_test_until(have_been_lost, &wanted, "the loss of a worker");
}

/* ---- second attempts */

/* All workers have something to do until the ps is back, so it is not raced before. */
TEST(a_straggler_gets_no_second_attempt_while_a_ps_is_recovered)
{
    struct scene s;
    struct crew_hold busy[2];
    struct crew_hold slow;
    scene_open(&s, 1, 3, NULL, NULL);
    run_many(&s, "straggle", SAMPLES);
    assert_code(0,
                cox_checkpoint_save(s.crew.c, NULL, NULL)); /* they are not replayed */
    pass_gate(&s);
    assign(&s, s.c0, 1000);
    for (int i = 0; i < 2; i++) {
        crew_hold(&busy[i], &s.crew, "hold", false);
        crew_hold_wait(&busy[i]);
    }
    crew_hold(&slow, &s.crew, "straggle", true);
    crew_hold_wait(&slow);
    lose_ps(&s, 0, 1);
    for (int i = 0; i < 2; i++) {
        crew_hold_end(&busy[i]);
    }
    crew_hold_wait(&s.gate);
    assert_code(COX_ETIMEDOUT, cox_future_wait(slow.future, NOT_WITHIN_MS));
    assert_int_equal(0, stats_of(&s).speculated);
    crew_hold_end(&s.gate);
    crew_hold_end(&slow);
    join(&s);
    assert_int_equal(1001, crew_read(&s.crew, s.c0));
    cox_future_free(slow.future);
    crew_close(&s.crew);
}

/* ---- results that are made again */

/* A call of module kept, on worker 0. */
static struct cox_future *start_kept(struct scene *s, const char *step, bool keep,
                                     struct cox_future *takes)
{
    struct keep kept = {.crew = s->other, .counter = s->c0};
    struct cox_future *future = keep_start(
        &kept,
        &(struct keep_call){
            .step = step, .own = 1, .keep = keep, .only_worker = 1, .takes = {takes}});
    join(s);
    return future;
}

/* A call of echo that keeps "x" on worker 0, and touches no ps: 5, or what `takes` has. */
static struct cox_future *start_echo(struct scene *s, struct cox_future *takes)
{
    const int64_t five = 5;
    const struct cox_value arg = COX_SCALAR("x", COX_I64, &five);
    const struct cox_input input = {"x", takes, "x"};
    struct cox_future *future;
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = takes == NULL;
    call.inputs = &input;
    call.n_inputs = takes != NULL;
    call.keep = 1;
    call.only_worker = 1;
    assert_code(
        0, cox_schedule(s->crew.c, crew_function(&s->crew, "echo"), &call, &future));
    join(s);
    return future;
}

TEST(a_kept_result_is_not_made_again_while_a_ps_is_recovered)
{
    struct scene s;
    scene_open(&s, 1, 2, "kept", NULL);
    pass_gate(&s);
    assign(&s, s.c0, 1000);
    struct cox_future *kept = start_kept(&s, "add", true, NULL);
    lose_worker(&s, 0, 1);
    coxi_test_until(are_ready, &(struct wanted){&s, 2}, "the worker is back");
    lose_ps(&s, 0, 1);
    crew_hold_wait(&s.gate);
    assert_code(COX_ETIMEDOUT, cox_future_fetch(kept, NOT_WITHIN_MS));
    crew_hold_end(&s.gate);
    assert_code(0, cox_future_fetch(kept, SOON_MS));
    join(&s);
    assert_int_equal(1001, crew_read(&s.crew, s.c0));
    assert_int_equal(1, stats_of(&s).made_again);
    cox_future_free(kept);
    crew_close(&s.crew);
}

/* Those that made them have touched nothing, so they are not replayed. One is wanted before
 * it is the replay's turn to need it. */
TEST(kept_results_that_the_replay_needs_are_made_again_for_it)
{
    struct scene s;
    scene_open(&s, 1, 2, "kept", NULL);
    pass_gate(&s);
    assign(&s, s.c0, 1000);
    struct cox_future *first = start_echo(&s, NULL);
    struct cox_future *second = start_echo(&s, first);
    struct cox_future *taker = start_kept(&s, "add", false, second);
    lose_worker(&s, 0, 1);
    lose_ps(&s, 0, 1);
    crew_hold_wait(&s.gate);
    assert_code(COX_ETIMEDOUT, cox_future_fetch(first, 0));
    crew_hold_end(&s.gate);
    join(&s);
    assert_int_equal(1006, crew_read(&s.crew, s.c0));
    assert_int_equal(2, stats_of(&s).made_again);
    cox_future_free(first);
    cox_future_free(second);
    cox_future_free(taker);
    crew_close(&s.crew);
}

/* It stands still when it is asked for the result; something else runs there, so that the
 * gate is passed on the other worker. */
TEST(a_result_that_the_replay_waits_for_is_made_again_when_its_worker_dies)
{
    struct scene s;
    struct crew_hold busy;
    scene_open(&s, 1, 2, "kept", NULL);
    struct cox_future *kept = start_echo(&s, NULL);
    struct cox_future *taker = start_kept(&s, "add", false, kept);
    pass_gate(&s);
    crew_hold_on(&busy, &s.crew, "hold", 1, false);
    crew_hold_wait(&busy);
    assert_int_equal(0, kill(crew_step_process(&s.crew, 0), SIGSTOP));
    lose_ps(&s, 0, 1);
    crew_hold_wait(&s.gate); /* by then it has been asked */
    lose_worker(&s, 0, 1);
    crew_hold_end(&busy);
    crew_hold_end(&s.gate);
    join(&s);
    assert_int_equal(7, crew_read(&s.crew, s.c0));
    assert_int_equal(1, stats_of(&s).made_again);
    cox_future_free(kept);
    cox_future_free(taker);
    crew_close(&s.crew);
}

/* ---- resources */

static int64_t peek(struct scene *s)
{
    return keeper_peek(&s->other, "r", 0);
}

/* It is replayed with a step that came before, and one that came after and uses it. */
static void check_made_in_its_turn(struct scene *s)
{
    pass_gate(s);
    assign(s, s->c0, 42);
    (void)keeper_create(&s->other, "r", "make_from_c0", &(struct keeper_ask){0});
    assert_int_equal(
        43, keeper_run(&s->other, "bump", "count", &(struct keeper_ask){.name = "r"}));
    lose_worker(s, 0, 1);
    lose_ps(s, 0, 1);
    crew_hold_wait(&s->gate);
    crew_hold_end(&s->gate);
    assert_int_equal(43, crew_read(&s->crew, s->c0));
    assert_int_equal(43, peek(s)); /* 42, and the replay's step has counted on */
    crew_close(&s->crew);
}

TEST(a_resource_is_made_when_what_came_before_it_has_been_done_again)
{
    struct scene s;
    scene_open(&s, 1, 1, "resource", NULL);
    check_made_in_its_turn(&s);
}

/* What a client before was writing has been written while this one opened: nothing that was left
 * may still need the resource. */
TEST(a_resource_is_made_in_its_turn_where_a_client_before_has_left_only_a_write)
{
    const int64_t seven = 7;
    struct scene s;
    scene_open(&s, 1, 1, NULL, NULL);
    struct coxi_operation *write = inside_write_begin(s.crew.c, s.c0, &seven);
    assert_non_null(write);
    assign(&s, s.c0,
           8); /* the checkpoint has something later: so its backlog has both */
    assert_code(0, cox_checkpoint_save(s.crew.c, NULL, NULL));
    inside_write_end(write, true);
    crew_close(&s.crew);
    scene_open(&s, 1, 1, "resource", NULL);
    check_made_in_its_turn(&s);
}

TEST(a_resource_whose_making_met_a_lost_ps_is_made_again)
{
    struct scene s;
    scene_open(&s, 1, 1, "resource", NULL);
    assign(&s, s.c0, 42);
    struct crew_hold making = {.path = keeper_fifo()};
    (void)keeper_create(&s.other, "r", "make_from_c0",
                        &(struct keeper_ask){.path = making.path});
    crew_hold_wait(&making);
    lose_ps(&s, 0, 1);
    crew_hold_end(&making);
    assert_int_equal(42, peek(&s));
    crew_close(&s.crew);
}

/* ---- resources that are released */

static struct cox_resource *create_from(struct scene *s, int64_t start)
{
    return keeper_create(&s->other, "r", "make",
                         &(struct keeper_ask){.number = "start", .n = start});
}

/* A step adds to c0 what r has counted, which is what it began with. */
static void add_count(struct scene *s)
{
    cox_future_free(
        keeper_start(&s->other, "add_count", &(struct keeper_ask){.name = "r"}));
    join(s);
}

TEST(a_step_that_used_a_resource_is_replayed_when_that_has_been_released)
{
    struct scene s;
    scene_open(&s, 1, 1, "resource", NULL);
    struct cox_resource *r = keeper_create_plain(&s.other, "r");
    (void)keeper_run(&s.other, "bump", "count", &(struct keeper_ask){.name = "r"});
    cox_resource_release(r);
    lose_ps(&s, 0, 1);
    join(&s);
    assert_int_equal(1, crew_read(&s.crew, s.c0));
    crew_close(&s.crew);
}

/* There are two of one name: those of before find the one, those of after the other. */
static void check_reused_name(bool lose_the_worker)
{
    struct scene s;
    scene_open(&s, 1, 1, "resource", NULL);
    struct cox_resource *r = create_from(&s, 100);
    add_count(&s);
    cox_resource_release(r);
    (void)create_from(&s, 1);
    add_count(&s);
    if (lose_the_worker) {
        lose_worker(&s, 0, 1);
    }
    lose_ps(&s, 0, 1);
    join(&s);
    assert_int_equal(101, crew_read(&s.crew, s.c0));
    add_count(&s);
    assert_int_equal(102, crew_read(&s.crew, s.c0));
    crew_close(&s.crew);
}

TEST(replayed_steps_find_what_they_used_and_later_ones_the_next_of_its_name)
{
    check_reused_name(false);
}

TEST(a_worker_that_comes_back_in_a_recovery_makes_released_resources_too)
{
    check_reused_name(true);
}

static bool none_is_alive(void *arg)
{
    return keeper_count_alive(&((struct scene *)arg)->other, 0) == 0;
}

TEST(a_released_resource_goes_with_the_checkpoint_that_has_its_steps)
{
    struct scene s;
    scene_open(&s, 1, 1, "resource", NULL);
    struct cox_resource *r = keeper_create_plain(&s.other, "r");
    (void)keeper_run(&s.other, "bump", "count", &(struct keeper_ask){.name = "r"});
    cox_resource_release(r);
    assert_int_equal(COX_ENOENT, keeper_run(&s.other, "ask", "code",
                                            &(struct keeper_ask){.name = "r"}));
    assert_int_equal(1, keeper_count_alive(&s.other, 0));
    lose_worker(&s, 0, 1);
    assert_int_equal(COX_ENOENT, keeper_run(&s.other, "ask", "code",
                                            &(struct keeper_ask){.name = "r"}));
    assert_int_equal(1, keeper_count_alive(&s.other, 0));
    assert_code(0, cox_checkpoint_save(s.crew.c, NULL, NULL));
    coxi_test_until(none_is_alive, &s, "the end of what was released");
    crew_close(&s.crew);
}

/* The next one waits for a checkpoint, which comes by itself. */
TEST(released_resources_that_take_up_all_the_room_go_with_a_checkpoint)
{
    enum { N = 1024 };
    struct scene s;
    struct cox_resource *resources[N];
    char name[16];
    scene_open(&s, 1, 1, "resource", NULL);
    for (int i = 0; i < N; i++) {
        (void)snprintf(name, sizeof(name), "%d", i);
        resources[i] = keeper_create_plain(&s.other, name);
    }
    (void)keeper_run(&s.other, "bump", "count", &(struct keeper_ask){.name = name});
    for (int i = 0; i < N; i++) {
        cox_resource_release(resources[i]);
    }
    (void)keeper_create_plain(&s.other, "r");
    assert_int_equal(0, peek(&s));
    assert_int_equal(1, keeper_count_alive(&s.other, 0));
    crew_close(&s.crew);
}

/* ---- another ps is lost meanwhile */

TEST(a_replay_in_which_another_ps_is_lost_begins_anew)
{
    struct scene s;
    struct cox_options options = COX_OPTIONS_INIT;
    options.cancel_grace_ms = 600000; /* the gate opens when the test says so */
    scene_open(&s, 2, 1, NULL, &options);
    assign(&s, s.c1, 500);
    pass_gate(&s);
    run_many(&s, "carry", 4); /* c1 to c0 */
    lose_ps(&s, 0, 1);
    crew_hold_wait(&s.gate);
    lose_ps(&s, 1, 2);
    crew_hold_end(&s.gate);
    join(&s);
    assert_int_equal(2001, crew_read(&s.crew, s.c0));
    assert_int_equal(500, crew_read(&s.crew, s.c1));
    crew_close(&s.crew);
}

/* The recovery of the first has taken longer than that already. What starts ps again stands
 * still, so the second is away for a while: not for long, as it has to start and be restored in
 * what is left of its time. */
TEST(a_ps_has_its_time_to_come_back_from_its_own_loss)
{
    enum { RECOVERY_MS = 3000 };
    struct scene s;
    struct wanted wanted = {&s, 2};
    struct cox_options options = COX_OPTIONS_INIT;
    options.ps_recovery_ms = RECOVERY_MS;
    scene_open(&s, 2, 1, NULL, &options);
    pass_gate(&s);
    lose_ps(&s, 0, 1);
    crew_hold_wait(&s.gate);
    assert_code(COX_ETIMEDOUT, cox_join(s.crew.c, RECOVERY_MS + 200));
    pid_t launcher = crew_launcher(&s.crew);
    assert_int_equal(0, kill(launcher, SIGSTOP));
    crew_kill(crew_ps_process(&s.crew, 1));
    assert_code(COX_ETIMEDOUT, cox_join(s.crew.c, NOT_WITHIN_MS));
    assert_int_equal(0, kill(launcher, SIGCONT));
    coxi_test_until(have_recovered, &wanted, "the second ps");
    crew_hold_end(&s.gate);
    join(&s);
    assert_int_equal(1, crew_read(&s.crew, s.c0));
    crew_close(&s.crew);
}

static bool is_not_done(void *arg)
{
    return cox_done(((struct scene *)arg)->crew.c) != 1;
}

/* As if the replay killed it. */
TEST(a_ps_that_is_lost_again_and_again_before_it_is_whole_ends_the_run)
{
    struct scene s;
    struct cox_options options = COX_OPTIONS_INIT;
    int r = 0;
    options.ps_recovery_ms = 2000;
    scene_open(&s, 1, 1, NULL, &options);
    pass_gate(&s);
    for (int i = 0; i < 20 && r != COX_EPSLOST; i++) {
        crew_kill(crew_ps_process(&s.crew, 0));
        coxi_test_until(is_not_done, &s, "the loss of the ps");
        r = cox_join(s.crew.c, 300);
    }
    assert_code(COX_EPSLOST, r);
    crew_close(&s.crew);
}

TEST(a_replay_waits_for_a_resource_as_long_as_that_may_take)
{
    struct scene s;
    struct cox_options options = COX_OPTIONS_INIT;
    options.ps_recovery_ms = 3000;
    scene_open(&s, 1, 1, "resource", &options);
    struct crew_hold making = {.path = keeper_fifo()};
    (void)keeper_create(&s.other, "r", "make_from_c0",
                        &(struct keeper_ask){.path = making.path});
    crew_hold_wait(&making);
    crew_hold_release(&making);
    (void)keeper_run(&s.other, "bump", "count", &(struct keeper_ask){.name = "r"});
    lose_worker(&s, 0, 1);
    lose_ps(&s, 0, 1);
    crew_hold_wait(&making);
    assert_code(COX_ETIMEDOUT, cox_join(s.crew.c, 4500));
    crew_hold_end(&making);
    join(&s);
    assert_int_equal(1, crew_read(&s.crew, s.c0));
    crew_close(&s.crew);
}

/* ---- ids */

/* The first is not settled before the second, so their ids are as far apart as they may be;
 * the third is further from the first than a ps takes at once. */
TEST(a_replay_ends_over_more_ids_than_a_ps_takes_at_once)
{
    struct scene s;
    scene_open(&s, 1, 2, NULL, NULL);
    crew_hold(&s.gate, &s.crew, "hold_and_count", false);
    crew_hold_wait(&s.gate);
    inside_skip_ids(s.crew.c, 900000);
    struct cox_future *second;
    assert_code(
        0, cox_schedule(s.crew.c, crew_function(&s.crew, "straggle"), NULL, &second));
    assert_code(0, cox_future_wait(second, SOON_MS));
    crew_hold_end(&s.gate);
    join(&s);
    inside_skip_ids(s.crew.c, 160000);
    assert_int_equal(2, crew_read(&s.crew, s.c0)); /* behind the watermark */
    run_many(&s, "straggle", 1);
    lose_ps(&s, 0, 1);
    join(&s);
    assert_int_equal(3, crew_read(&s.crew, s.c0));
    cox_future_free(second);
    crew_close(&s.crew);
}

/* They are not in the log, so no checkpoint is due for them, and the replay has nothing to do. */
TEST(a_ps_takes_what_comes_behind_many_closures_that_touched_none)
{
    struct scene s;
    scene_open(&s, 1, 1, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        inside_skip_ids(s.crew.c, 900000);
        run_many(&s, "nothing", 1);
    }
    crew_kill(crew_ps_process(&s.crew, 0));
    run_many(&s, "number_off", 5); /* scheduled while it is away */
    assert_int_equal(5, crew_read(&s.crew, s.c0));
    crew_close(&s.crew);
}

static bool is_over(void *arg)
{
    struct scene *s = arg;
    return cox_join(s->crew.c, SOON_MS) == COX_EREPLAY;
}

/* Ps 0 is lost, and the replay fails for it. */
static void end_run(struct scene *s)
{
    (void)unlink(s->gate.path); /* without its FIFO the step fails */
    crew_kill(crew_ps_process(&s->crew, 0));
    coxi_test_until(is_over, s, "the end of the run");
}

TEST(a_replay_that_fails_ends_the_run_and_names_closure_and_ps)
{
    struct scene s;
    scene_open(&s, 2, 1, NULL, NULL);
    pass_gate(&s);
    end_run(&s);
    assert_error_names("hold_and_count");
    assert_error_names("because ps 0 had been lost");
    (void)cox_close(s.crew.c, SOON_MS);
}

int __real_coxi_pull_rows(const struct coxi_pull_from *from,
                          const struct coxi_variable *v, uint64_t begin, uint64_t count,
                          void *ret);
int __wrap_coxi_pull_rows(const struct coxi_pull_from *from,
                          const struct coxi_variable *v, uint64_t begin, uint64_t count,
                          void *ret);

static struct scene *ends; /* its run ends during the next read */
static int read_code;      /* of that */

int __wrap_coxi_pull_rows(const struct coxi_pull_from *from,
                          const struct coxi_variable *v, uint64_t begin, uint64_t count,
                          void *ret)
{
    struct scene *s = ends;
    ends = NULL;
    if (s == NULL) {
        return __real_coxi_pull_rows(from, v, begin, count, ret);
    }
    end_run(s);
    return read_code == 0 ? 0 : coxi_error(read_code, "ps 0 is lost");
}

static void check_read(int code)
{
    struct scene s;
    int64_t value;
    scene_open(&s, 2, 1, NULL, NULL);
    pass_gate(&s);
    read_code = code;
    ends = &s;
    assert_code(COX_EREPLAY, cox_variable_read(s.crew.c, s.c0, &value, sizeof(value)));
    assert_error_names("because ps 0 had been lost");
    (void)cox_close(s.crew.c, SOON_MS);
}

TEST(a_read_that_lost_its_ps_says_why_the_run_has_ended)
{
    check_read(COX_EPSLOST);
}

/* What it has read may be of a ps that had not been given all of its own. */
TEST(a_read_in_which_a_replay_failed_says_so)
{
    check_read(0);
}
