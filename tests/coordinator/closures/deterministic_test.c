/*
 * Deterministic rounds, whose processes are killed: at the end every bit of the model, of
 * its optimizers' state and of its tables is as in a run that nobody has disturbed. What
 * the client sends to ps goes through this file (ld --wrap).
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coordinator/base/ps_set.h"
#include "coordinator/closures/closure.h"
#include "net/ps_client.h"
#include "tests/coordinator/crew.h"
#include "tests/coordinator/digest.h"
#include "tests/coordinator/inside.h"
#include "tests/test.h"

enum {
    MEMBERS = 4,
    WEIGHTS = 96, /* as in tests/steps/exact.c */
    DIM = 4,
    SAVED = 4,   /* rounds before the checkpoint */
    HELD = 9,    /* a closure of this round waits between its pushes */
    ROUNDS = 14, /* in all */
};

__typeof__(coxi_psc_submit_now) __real_coxi_psc_submit_now, __wrap_coxi_psc_submit_now;

/* the end of a round does not reach this ps; and that end */
static _Atomic(struct coxi_psc *) delays;
static _Atomic(struct coxi_psc_request *) delayed;

int __wrap_coxi_psc_submit_now(struct coxi_psc *psc, const struct coxi_message *message,
                               struct coxi_psc_request *request, bool later)
{
    bool is_end =
        message->kind == COXI_COMMIT && message->commit.updates[0].op == COXI_OP_ROUND;
    if (is_end && psc == atomic_load(&delays)) {
        atomic_store(&delayed, request);
        return 0;
    }
    return __real_coxi_psc_submit_now(psc, message, request, later);
}

struct scene {
    struct crew crew;
    struct cox_rounds *rounds;
    const char *dir;
    const char *gate; /* NULL: no closure waits */
    uint64_t next;    /* round */
};

static void create(struct scene *s, int n_ps)
{
    struct cox_variable *w;
    struct cox_table *t;
    struct cox_rounds_spec rounds = COX_ROUNDS_SPEC_INIT;
    struct cox_variable_spec dense = COX_VARIABLE_SPEC_INIT;
    struct cox_table_spec table = COX_TABLE_SPEC_INIT;
    dense.name = "w";
    dense.dtype = COX_F32;
    dense.rank = 1;
    dense.shape[0] = WEIGHTS;
    dense.shards = (uint32_t)n_ps;
    dense.initializer.kind = COX_UNIFORM;
    dense.initializer.a = -1;
    dense.initializer.b = 1;
    dense.optimizer.kind = COX_MOMENTUM;
    dense.optimizer.learning_rate = 0.05F;
    dense.optimizer.momentum = 0.9F;
    table.name = "t";
    table.dim = DIM;
    table.initializer = dense.initializer;
    table.optimizer.kind = COX_ADAGRAD;
    table.optimizer.learning_rate = 0.05F;
    table.optimizer.initial_accumulator = 0.1F;
    assert_code(0, cox_variable_create(s->crew.c, &dense, &w));
    assert_code(0, cox_table_create(s->crew.c, &table, &t));
    rounds.deterministic = 1;
    assert_code(0, cox_rounds_create(s->crew.c, &rounds, &s->rounds));
}

/* Opens a client in directory `dir`; it goes on from the checkpoint there. */
static void scene_open(struct scene *s, const char *dir, int n_ps, int n_workers)
{
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_progress progress = COX_PROGRESS_INIT;
    *s = (struct scene){.dir = dir};
    options.checkpoint_dir = dir;
    options.seed = 7;
    crew_open(&s->crew, n_ps, n_workers, "exact", &options);
    create(s, n_ps);
    assert_code(0, cox_progress(s->crew.c, &progress));
    s->next = progress.cursor;
}

/* Schedules rounds until `end`. */
static void train(struct scene *s, uint64_t end)
{
    struct cox_function *learn = crew_function(&s->crew, "learn");
    for (; s->next < end; s->next++) {
        struct cox_value path;
        struct cox_call calls[MEMBERS];
        struct cox_round_call members[MEMBERS];
        for (int i = 0; i < MEMBERS; i++) {
            calls[i] = (struct cox_call)COX_CALL_INIT;
            calls[i].cursor = s->next + 1;
            members[i] = (struct cox_round_call){learn, &calls[i]};
        }
        if (s->gate != NULL && s->next == HELD) {
            path = (struct cox_value)COX_VECTOR("path", COX_U8, strlen(s->gate) + 1,
                                                s->gate);
            calls[1].args = &path;
            calls[1].n_args = 1;
        }
        assert_code(0, cox_round_schedule(s->rounds, members, MEMBERS, NULL, NULL));
    }
}

/* Trains until a closure of round HELD is between its pushes; returns what holds it. */
static int train_to_gate(struct scene *s)
{
    train(s, SAVED);
    assert_code(0, cox_join(s->crew.c, -1));
    assert_code(0, cox_checkpoint_save(s->crew.c, NULL, NULL));
    train(s, ROUNDS);
    int fd = open(s->gate, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static const char *make_gate(const char *name)
{
    const char *path = coxi_test_path(name);
    assert_int_equal(0, mkfifo(path, 0600));
    return path;
}

/* Trains to the end, and returns the digest. */
static uint64_t scene_end(struct scene *s)
{
    train(s, ROUNDS);
    assert_code(0, cox_join(s->crew.c, -1));
    uint64_t digest = digest_of(s->crew.c, s->dir);
    crew_close(&s->crew);
    return digest;
}

static uint64_t train_undisturbed(const char *name, int n_ps, int n_workers)
{
    struct scene s;
    scene_open(&s, coxi_test_path(name), n_ps, n_workers);
    return scene_end(&s);
}

/* Asserts that a run with 3 ps, in which `disturb` happens between two pushes of a
 * round, ends like an undisturbed one. */
static void assert_same(void (*disturb)(struct scene *s, int fd))
{
    struct scene s;
    uint64_t expected = train_undisturbed("undisturbed", 3, 2);
    scene_open(&s, coxi_test_path("disturbed"), 3, 2);
    s.gate = make_gate("gate");
    int fd = train_to_gate(&s);
    disturb(&s, fd);
    assert_true(scene_end(&s) == expected);
}

TEST(deterministic_rounds_leave_the_same_bits_on_every_cluster)
{
    uint64_t expected = train_undisturbed("one", 1, 1);
    assert_true(train_undisturbed("two", 1, 2) == expected);
    assert_true(train_undisturbed("three", 3, 4) == expected);
}

/* ---- kill -9 */

static void kill_worker(struct scene *s, int fd)
{
    for (int i = 0; i < 2; i++) {
        crew_kill(crew_step_process(&s->crew, i));
    }
    (void)close(fd);
}

TEST(deterministic_rounds_leave_the_same_bits_if_workers_are_killed)
{
    assert_same(kill_worker);
}

struct recovered {
    struct cox_coordinator *c;
    uint64_t n;
};

static bool have_recovered(void *arg)
{
    const struct recovered *recovered = arg;
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(recovered->c, &stats));
    return stats.ps_recovered == recovered->n;
}

/* Kills ps p, the n-th in all; returns when it is back. */
static void lose_ps(struct scene *s, int p, uint64_t n)
{
    struct recovered recovered = {s->crew.c, n};
    crew_kill(crew_ps_process(&s->crew, p));
    coxi_test_until(have_recovered, &recovered, "the ps is back");
}

static void kill_ps(struct scene *s, int fd)
{
    lose_ps(s, 1, 1);
    (void)close(fd);
}

TEST(deterministic_rounds_leave_the_same_bits_if_a_ps_is_killed)
{
    assert_same(kill_ps);
}

static bool is_recovering(void *c)
{
    return coxi_ps_recovering(c);
}

/* Kills a ps while the others are set back. */
static void kill_two_ps(struct scene *s, int fd)
{
    crew_kill(crew_ps_process(&s->crew, 2));
    coxi_test_until(is_recovering, s->crew.c, "the ps is lost");
    crew_kill(crew_ps_process(&s->crew, 0));
    (void)close(fd);
}

TEST(
    deterministic_rounds_leave_the_same_bits_if_a_ps_is_killed_while_others_are_set_back)
{
    assert_same(kill_two_ps);
}

static void cut_off_ps(struct scene *s, int fd)
{
    inside_cut_off(s->crew.c, 1);
    (void)close(fd);
}

TEST(deterministic_rounds_leave_the_same_bits_if_a_ps_was_out_of_reach)
{
    assert_same(cut_off_ps);
}

static void kill_each_ps(struct scene *s, int fd)
{
    (void)close(fd);
    for (int i = 0; i < 3; i++) {
        lose_ps(s, i, (uint64_t)i + 1);
        assert_code(0, cox_join(s->crew.c, -1)); /* everything was done again */
    }
}

TEST(deterministic_rounds_leave_the_same_bits_if_each_ps_is_killed)
{
    assert_same(kill_each_ps);
}

/* ---- the client */

static void kill_client(struct scene *s)
{
    (void)s;
    crew_kill(getpid());
}

/* Kills the client while the ps are set back. */
static void kill_ps_and_client(struct scene *s)
{
    crew_kill(crew_ps_process(&s->crew, 1));
    coxi_test_until(is_recovering, s->crew.c, "the ps is lost");
    crew_kill(getpid());
}

/* Asserts that a client whose process ends by `end` between two pushes of a round, and
 * the next one, together end like an undisturbed one. */
static void assert_same_with_next(void (*end)(struct scene *s))
{
    struct scene s;
    int status = 0;
    const char *dir = coxi_test_path("killed");
    const char *gate = make_gate("gate");
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        scene_open(&s, dir, 3, 2);
        s.gate = gate;
        (void)train_to_gate(&s);
        end(&s);
        _exit(1);
    }
    assert_int_equal(pid, waitpid(pid, &status, 0));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    uint64_t expected = train_undisturbed("undisturbed", 3, 2);
    scene_open(&s, dir, 3, 2);
    assert_int_equal(SAVED, s.next);
    assert_true(scene_end(&s) == expected);
}

TEST(deterministic_rounds_leave_the_same_bits_if_the_client_is_killed)
{
    assert_same_with_next(kill_client);
}

TEST(
    deterministic_rounds_leave_the_same_bits_if_the_client_is_killed_while_ps_are_set_back)
{
    assert_same_with_next(kill_ps_and_client);
}

/* ---- checkpoints */

struct saving {
    struct scene s;
    pthread_t thread;
    int code;
    bool waits; /* for the end of a round */
};

static void *save(void *arg)
{
    struct saving *saving = arg;
    saving->code = cox_checkpoint_save(saving->s.crew.c, NULL, NULL);
    return NULL;
}

static void look(void *arg)
{
    struct saving *saving = arg;
    saving->waits = saving->s.crew.c->closures->rounds.is_paused;
}

static bool is_waiting(void *arg)
{
    struct saving *saving = arg;
    inside_run(saving->s.crew.c, look, saving);
    return saving->waits;
}

static bool is_delayed(void *arg)
{
    (void)arg;
    return atomic_load(&delayed) != NULL;
}

/* One ps has a round, and another has it not, when a checkpoint begins. */
TEST(a_checkpoint_lies_between_deterministic_rounds)
{
    struct saving saving = {.code = -1};
    struct scene *s = &saving.s;
    uint64_t expected = train_undisturbed("undisturbed", 3, 2);
    scene_open(s, coxi_test_path("checkpoints"), 3, 2);
    train(s, SAVED);
    assert_code(0, cox_join(s->crew.c, -1));
    atomic_store(&delays, s->crew.c->ps.clients[1]);
    train(s, HELD);
    coxi_test_until(is_delayed, NULL, "the end of a round");
    assert_int_equal(0, pthread_create(&saving.thread, NULL, save, &saving));
    coxi_test_until(is_waiting, &saving, "a checkpoint that waits");
    atomic_store(&delays, NULL);
    struct coxi_psc_request *request = atomic_load(&delayed);
    request->done(request, COX_EPSLOST, NULL, NULL, 0); /* it is sent again */
    assert_int_equal(0, pthread_join(saving.thread, NULL));
    assert_code(0, saving.code);
    train(s, ROUNDS);
    crew_kill(crew_ps_process(&s->crew, 2));
    assert_true(scene_end(s) == expected);
}

/* ---- what cannot be deterministic */

static void assert_refused(struct cox_coordinator *c,
                           const struct cox_rounds_spec *spec, const char *why)
{
    struct cox_rounds *rounds;
    assert_code(COX_EINVAL, cox_rounds_create(c, spec, &rounds));
    assert_error_names(why);
}

TEST(what_cannot_be_deterministic_is_refused)
{
    struct scene s;
    scene_open(&s, coxi_test_path("checkpoints"), 1, 1);
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    struct cox_call call = COX_CALL_INIT;
    const struct cox_round_call member = {crew_function(&s.crew, "learn"), &call};
    spec.deterministic = 2;
    assert_refused(s.crew.c, &spec, "deterministic is 0 or 1");
    spec.deterministic = 1;
    spec.staleness = 1;
    assert_refused(s.crew.c, &spec, "staleness 0");
    spec.staleness = 0;
    spec.backups = 1;
    assert_refused(s.crew.c, &spec, "no backups");
    call.keep = 1;
    assert_code(COX_EINVAL, cox_round_schedule(s.rounds, &member, 1, NULL, NULL));
    assert_error_names("cannot keep its results");
    crew_close(&s.crew);
}
