/* Rounds: closures whose gradients are applied together, once. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/coordinator/crew.h"
#include "tests/test.h"

enum { N_PS = 2, MEMBERS = 4, ARGS = 4 };

struct scene {
    struct crew crew;
    struct cox_variable *w[N_PS]; /* w[i] is on ps i */
    struct cox_function *advance;
    struct cox_rounds *rounds;
};

static void scene_open(struct scene *s, int n_workers,
                       const struct cox_rounds_spec *spec, struct cox_options *options)
{
    crew_open(&s->crew, N_PS, n_workers, "rounds", options);
    for (int i = 0; i < N_PS; i++) {
        char name[16];
        struct cox_variable_spec variable = COX_VARIABLE_SPEC_INIT;
        (void)snprintf(name, sizeof(name), "w%d", i);
        variable.name = name;
        variable.dtype = COX_F32;
        variable.rank = 1;
        variable.shape[0] = 1;
        variable.optimizer.kind = COX_SGD;
        variable.optimizer.learning_rate = 1;
        assert_code(0, cox_variable_create(s->crew.c, &variable, &s->w[i]));
    }
    s->advance = crew_function(&s->crew, "advance");
    assert_code(0, cox_rounds_create(s->crew.c, spec, &s->rounds));
}

static float value_of(struct scene *s, int i)
{
    float value;
    assert_code(0, cox_variable_read(s->crew.c, s->w[i], &value, sizeof(value)));
    return value;
}

static void assert_values(struct scene *s, float expected)
{
    for (int i = 0; i < N_PS; i++) {
        if (value_of(s, i) != expected) {
            fail_msg("w%d is %g, not %g", i, (double)value_of(s, i), (double)expected);
        }
    }
}

/* The arguments of a round's members. */
struct asked {
    double weights[MEMBERS]; /* 0: without */
    const char *path[MEMBERS];
    bool flush[MEMBERS];
    bool fail[MEMBERS];
    uint32_t only[MEMBERS]; /* 1 + index of the worker; 0: any */
};

struct members {
    struct cox_future *futures[MEMBERS];
    struct cox_future *end;
};

static void start(struct scene *s, const struct asked *asked, struct members *ret)
{
    static const uint8_t yes = 1;
    struct cox_value args[MEMBERS][ARGS];
    struct cox_call calls[MEMBERS];
    struct cox_round_call members[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) {
        size_t n = 0;
        if (asked->weights[i] != 0) {
            args[i][n++] =
                (struct cox_value)COX_SCALAR("weight", COX_F64, &asked->weights[i]);
        }
        if (asked->path[i] != NULL) {
            args[i][n++] = (struct cox_value)COX_VECTOR(
                "path", COX_U8, strlen(asked->path[i]) + 1, asked->path[i]);
        }
        if (asked->flush[i]) {
            args[i][n++] = (struct cox_value)COX_SCALAR("flush", COX_U8, &yes);
        }
        if (asked->fail[i]) {
            args[i][n++] = (struct cox_value)COX_SCALAR("fail", COX_U8, &yes);
        }
        calls[i] = (struct cox_call)COX_CALL_INIT;
        calls[i].args = args[i];
        calls[i].n_args = n;
        calls[i].only_worker = asked->only[i];
        members[i] = (struct cox_round_call){s->advance, &calls[i]};
    }
    assert_code(0, cox_round_schedule(s->rounds, members, MEMBERS,
                                      ret != NULL ? ret->futures : NULL,
                                      ret != NULL ? &ret->end : NULL));
}

static void start_plain(struct scene *s, struct members *ret)
{
    start(s, &(struct asked){.weights = {0}}, ret);
}

static void members_free(struct members *members)
{
    for (int i = 0; i < MEMBERS; i++) {
        cox_future_free(members->futures[i]);
    }
    cox_future_free(members->end);
}

static float seen(struct cox_future *future, const char *name)
{
    struct cox_value value;
    assert_code(0, cox_future_result(future, name, &value));
    return *(const float *)value.data;
}

static struct cox_stats stats_of(struct scene *s)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(s->crew.c, &stats));
    return stats;
}

/* A FIFO at which a member waits. */
static const char *gate_new(void)
{
    static int n;
    char name[32];
    (void)snprintf(name, sizeof(name), "gate-%d", n++);
    const char *path = coxi_test_path(name);
    assert_int_equal(0, mkfifo(path, 0600));
    return path;
}

/* Waits until a member is at the gate. */
static int gate_meet(const char *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* ---- what a round is */

TEST(round_is_one_step_with_the_mean_and_its_closures_see_all_rounds_before)
{
    enum { ROUNDS = 30 };
    struct scene s;
    struct members members[ROUNDS];
    scene_open(&s, 2, &(struct cox_rounds_spec)COX_ROUNDS_SPEC_INIT, NULL);
    for (int r = 0; r < ROUNDS; r++) {
        start_plain(&s, &members[r]);
    }
    assert_code(0, cox_join(s.crew.c, -1));
    assert_values(&s, ROUNDS);
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < MEMBERS; i++) {
            assert_code(0, cox_future_wait(members[r].futures[i], 0));
            assert_true(seen(members[r].futures[i], "w0") == (float)r);
            assert_true(seen(members[r].futures[i], "w1") == (float)r);
        }
        assert_code(0, cox_future_wait(members[r].end, 0));
        members_free(&members[r]);
    }
    assert_int_equal(ROUNDS, stats_of(&s).rounds);
    assert_int_equal(ROUNDS * MEMBERS, stats_of(&s).done);
    crew_close(&s.crew);
}

TEST(round_adds_its_gradients_up_each_times_its_weight)
{
    struct scene s;
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    spec.reduce = COX_REDUCE_SUM;
    scene_open(&s, 1, &spec, NULL);
    start(&s, &(struct asked){.weights = {0.5, 2, 3, 0}}, NULL);
    assert_code(0, cox_join(s.crew.c, -1));
    assert_values(&s, 6.5F);
    crew_close(&s.crew);
}

TEST(round_with_a_bound_sees_all_rounds_but_that_many)
{
    enum { ROUNDS = 60, BOUND = 2 };
    struct scene s;
    struct members members[ROUNDS];
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    spec.staleness = BOUND;
    scene_open(&s, 2, &spec, NULL);
    for (int r = 0; r < ROUNDS; r++) {
        start_plain(&s, &members[r]);
    }
    assert_code(0, cox_join(s.crew.c, -1));
    assert_values(&s, ROUNDS);
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < MEMBERS; i++) {
            assert_true(seen(members[r].futures[i], "w0") >= (float)(r - BOUND));
            assert_true(seen(members[r].futures[i], "w1") >= (float)(r - BOUND));
        }
        members_free(&members[r]);
    }
    crew_close(&s.crew);
}

TEST(round_overlaps_with_as_many_others_as_its_bound_says_and_no_more)
{
    struct scene s;
    struct members members[3];
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    const char *gate = gate_new();
    spec.staleness = 1;
    scene_open(&s, 2, &spec, NULL);
    start(&s, &(struct asked){.path = {gate}}, &members[0]);
    int fd = gate_meet(gate);
    start_plain(&s, &members[1]);
    start_plain(&s, &members[2]);
    assert_code(0, cox_future_wait(members[1].end, -1));
    assert_code(COX_ETIMEDOUT, cox_future_wait(members[2].futures[0], 50));
    (void)close(fd);
    assert_code(0, cox_join(s.crew.c, -1));
    assert_values(&s, 3);
    assert_true(seen(members[2].futures[3], "w0") == 2);
    for (int r = 0; r < 3; r++) {
        members_free(&members[r]);
    }
    crew_close(&s.crew);
}

/* ---- without some of its closures */

TEST(round_is_complete_without_its_backups_which_are_told_that_they_are_late)
{
    struct scene s;
    struct members members;
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    const char *gate = gate_new();
    spec.backups = 1;
    spec.reduce = COX_REDUCE_SUM;
    scene_open(&s, 2, &spec, NULL);
    start(&s, &(struct asked){.path = {NULL, gate}}, &members);
    int fd = gate_meet(gate);
    assert_code(0, cox_future_wait(members.end, -1));
    assert_code(COX_ELATE, cox_future_wait(members.futures[1], -1));
    assert_values(&s, 3);
    (void)close(fd);
    start_plain(&s, NULL); /* goes on where the late one has run */
    assert_code(0, cox_join(s.crew.c, -1));
    assert_true(value_of(&s, 0) == value_of(&s, 1));
    assert_true(value_of(&s, 0) >= 6 && value_of(&s, 0) <= 7);
    assert_int_equal(2, stats_of(&s).rounds);
    members_free(&members);
    crew_close(&s.crew);
}

TEST(round_that_fails_leaves_no_trace_and_the_next_one_goes_on)
{
    struct scene s;
    struct members members;
    struct cox_options options = COX_OPTIONS_INIT;
    options.keep_going = 1;
    scene_open(&s, 2, &(struct cox_rounds_spec)COX_ROUNDS_SPEC_INIT, &options);
    start(&s, &(struct asked){.fail = {[2] = true}}, &members);
    assert_code(COX_ESTEP, cox_future_wait(members.end, -1));
    assert_code(COX_ESTEP, cox_future_wait(members.futures[2], -1));
    assert_code(COX_ECANCELLED, cox_future_wait(members.futures[0], -1));
    assert_values(&s, 0);
    start_plain(&s, NULL);
    assert_code(0, cox_join(s.crew.c, -1));
    assert_values(&s, 1);
    assert_int_equal(1, stats_of(&s).rounds_failed);
    members_free(&members);
    crew_close(&s.crew);
}

TEST(round_with_a_failed_closure_is_reported_once_and_cancels_what_follows)
{
    struct scene s;
    scene_open(&s, 2, &(struct cox_rounds_spec)COX_ROUNDS_SPEC_INIT, NULL);
    start(&s, &(struct asked){.fail = {true}}, NULL);
    assert_code(COX_ESTEP, cox_join(s.crew.c, -1));
    assert_code(0, cox_join(s.crew.c, -1));
    start_plain(&s, NULL);
    assert_code(0, cox_join(s.crew.c, -1));
    assert_values(&s, 1);
    crew_close(&s.crew);
}

TEST(round_that_is_cancelled_leaves_no_trace)
{
    struct scene s;
    struct members members;
    const char *gate = gate_new();
    scene_open(&s, 2, &(struct cox_rounds_spec)COX_ROUNDS_SPEC_INIT, NULL);
    start(&s, &(struct asked){.path = {gate}}, &members);
    int fd = gate_meet(gate);
    assert_code(0, cox_future_cancel(members.end));
    for (int i = 0; i < MEMBERS; i++) {
        assert_code(COX_ECANCELLED, cox_future_wait(members.futures[i], -1));
    }
    assert_code(COX_ECANCELLED, cox_future_wait(members.end, -1));
    (void)close(fd);
    start_plain(&s, NULL);
    assert_code(0, cox_join(s.crew.c, -1));
    assert_values(&s, 1);
    members_free(&members);
    crew_close(&s.crew);
}

TEST(round_with_a_cancelled_closure_is_complete_if_it_has_backups)
{
    struct scene s;
    struct members members;
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    const char *gate[2] = {gate_new(), gate_new()};
    int fd[2];
    spec.backups = 1;
    scene_open(&s, 2, &spec, NULL);
    start(&s, &(struct asked){.path = {gate[0], gate[1]}, .only = {1, 2}}, &members);
    fd[0] = gate_meet(gate[0]);
    fd[1] = gate_meet(gate[1]);
    assert_code(0, cox_future_cancel(members.futures[0]));
    (void)close(fd[1]);
    assert_code(0, cox_future_wait(members.end, -1));
    assert_code(COX_ECANCELLED, cox_future_wait(members.futures[0], -1));
    (void)close(fd[0]);
    assert_code(0, cox_join(s.crew.c, -1));
    assert_values(&s, 1);
    members_free(&members);
    crew_close(&s.crew);
}

/* ---- when something dies */

TEST(round_counts_each_closure_once_though_its_workers_die)
{
    struct scene s;
    struct members members;
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    const char *gate = gate_new();
    spec.reduce = COX_REDUCE_SUM;
    scene_open(&s, 2, &spec, NULL);
    start(&s, &(struct asked){.path = {gate}, .flush = {true}}, &members);
    int fd = gate_meet(gate); /* a part of it waits on ps 0 */
    crew_kill(crew_step_process(&s.crew, 0));
    crew_kill(crew_step_process(&s.crew, 1));
    assert_code(0, cox_future_wait(members.end, -1));
    assert_values(&s, MEMBERS);
    (void)close(fd);
    members_free(&members);
    crew_close(&s.crew);
}

static void check_ps_lost(int ps)
{
    struct scene s;
    struct members members;
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    struct cox_options options = COX_OPTIONS_INIT;
    const char *gate = gate_new();
    spec.reduce = COX_REDUCE_SUM;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    scene_open(&s, 2, &spec, &options);
    start_plain(&s, NULL); /* is replayed */
    assert_code(0, cox_join(s.crew.c, -1));
    start(&s, &(struct asked){.path = {gate}, .flush = {true}}, &members);
    int fd = gate_meet(gate);
    crew_kill(crew_ps_process(&s.crew, ps));
    (void)close(fd);
    assert_code(0, cox_future_wait(members.end, -1));
    assert_values(&s, 2 * MEMBERS);
    start_plain(&s, NULL);
    assert_code(0, cox_join(s.crew.c, -1));
    assert_values(&s, 3 * MEMBERS);
    members_free(&members);
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
    struct scene s;
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    struct cox_options options = COX_OPTIONS_INIT;
    spec.reduce = COX_REDUCE_SUM;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    scene_open(&s, 2, &spec, &options);
    for (int r = 0; r < ROUNDS; r++) {
        if (r == ROUNDS / 2) {
            assert_code(0, cox_checkpoint_save(s.crew.c, NULL, NULL));
        }
        start(&s, &(struct asked){.weights = {1, 2, 0.25, 0.75}}, NULL);
    }
    assert_code(0, cox_join(s.crew.c, -1));
    for (int i = 0; i < N_PS; i++) {
        crew_kill(crew_ps_process(&s.crew, i));
        start(&s, &(struct asked){.weights = {1, 2, 0.25, 0.75}}, NULL);
        assert_code(0, cox_join(s.crew.c, -1));
        assert_values(&s, (float)(ROUNDS + 1 + i) * 4);
    }
    crew_close(&s.crew);
}

/* ---- mistakes */

TEST(rounds_refuse_what_is_no_round)
{
    struct scene s;
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    struct cox_rounds *other;
    struct cox_round_call call;
    spec.backups = 1;
    scene_open(&s, 1, &spec, NULL);
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
