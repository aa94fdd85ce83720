/* See program.h. */
#include "tests/sim/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "coxswain/coxswain.h"
#include "tests/sim/files.h"
#include "tests/sim/ledger.h"
#include "tests/sim/nodes.h"
#include "tests/sim/opening.h"
#include "tests/sim/rounds.h"
#include "tests/sim/sched.h"
#include "tests/sim/steps.h"
#include "tests/sim/storm.h"
#include "tests/sim/stranger.h"
#include "tests/sim/tasks.h"
#include "tests/sim/trace.h"

enum { LIVES_MAX = 40, CLOSE_MS = 10000, CANCEL_BACK = 6 };

/* One start of the program. All in the memory of the run. */
struct program {
    struct program *before; /* the one that was started before it */
    uint32_t life;
    uint64_t generation; /* once it is open */
    bool rival;          /* another client ran beside it at some time */
    struct sim_proc *proc;
    struct cox_coordinator *c;
    struct cox_function *count;
    struct cox_variable *counted[SIM_PS_MAX];
    struct cox_variable *assigned[SIM_PS_MAX];
    struct cox_variable *marks[SIM_PS_MAX]; /* the call before which they were set */
    int64_t marked;
    struct cox_table *rows;
    struct sim_tasks tasks;
    struct sim_rounds rounds;
    struct cox_future *futures[SIM_CALLS_MAX];
    uint32_t oldest; /* the first call whose future is held */
    uint32_t next;   /* call to be scheduled */
    struct sim_fiber *saver;
    struct sim_fiber *mover;
    struct sim_fiber *canceller;
    uint32_t hosts[SIM_PS_MAX]; /* of the ps, when it was opened */
    bool closes;
    struct sim_found found;
};

static const struct sim_plan *plan;
static struct program *programs; /* the last one that was started is first */
static struct program *owner;    /* the one with the highest generation */
static uint32_t n_lives;
static bool is_verified;

/* ---- lives */

/* The last program that was started and still lives; or NULL. */
static struct program *living(void)
{
    struct program *p = programs;
    while (p != NULL && !p->proc->alive) {
        p = p->before;
    }
    return p;
}

struct sim_proc *sim_program_proc(void)
{
    const struct program *p = living();
    return p != NULL ? p->proc : NULL;
}

uint32_t sim_program_lives(void)
{
    return n_lives;
}

static void start_later(void *arg)
{
    (void)arg;
    if (sim_program_proc() == NULL) {
        sim_program_start();
    }
}

/* Waits for a thread of the program; NULL: there is none. */
static void await_end(struct sim_fiber **fiber, const char *what)
{
    while (*fiber != NULL && !(*fiber)->ended) {
        (void)sim_wait(&(*fiber)->joiners, SIM_NEVER, what);
    }
    *fiber = NULL;
}

static void on_death(struct sim_proc *proc, int signal)
{
    (void)signal;
    sim_nodes_bury(proc);
    if (sim_program_proc() == NULL) {
        uint64_t rest = sim_chance(4) ? 2 * SIM_S : 100 * SIM_MS;
        sim_at(sim_now() + sim_below(rest), start_later, NULL);
    }
}

/* Ends the program; another one is started. */
static void give_up(struct program *p, const char *what, int code)
{
    sim_trace("%s: %s: %s: %s", p->proc->name, what, coxi_error_name(code),
              cox_error_last());
    sim_proc_kill(p->proc, 0);
}

static bool is_replaced(const struct program *p)
{
    return p != owner;
}

/* True if another client of this run, or another run, may have taken its ps. */
static bool may_be_fenced(const struct program *p)
{
    return p->rival || sim_stranger_is_near();
}

/* Ends the program for codes that may occur although it did nothing wrong; other codes
 * are violations. */
static void check(struct program *p, const char *what, int code)
{
    if (code == 0) {
        return;
    }
    if (may_be_fenced(p) && (code == COX_EFENCED || code == COX_EPSLOST)) {
        give_up(p, what, code); /* it may have been replaced */
    }
    if ((code == COX_EREPLAY || code == COX_EPSLOST) && plan->brittle) {
        give_up(p, what, code); /* a replay has failed, which must be reported */
    }
    if (code == COX_EFENCED) {
        sim_violation("%s: %s: fenced off, and nobody has taken over: %s",
                      p->proc->name, what, cox_error_last());
    } else if (code != COX_EPSLOST) {
        sim_violation("%s: %s: %s: %s", p->proc->name, what, coxi_error_name(code),
                      cox_error_last());
    } else if (code == COX_EPSLOST && plan->checkpoints) {
        sim_violation("%s: %s: a ps is given up: %s", p->proc->name, what,
                      cox_error_last());
    }
    give_up(p, what, code);
}

/* ---- beginning */

static void on_event(void *arg, const struct cox_event *event)
{
    const struct program *p = arg;
    sim_trace("%s: event %s: %s", p->proc->name, event->name, event->text);
}

static void create_variables(struct program *p)
{
    static const char letters[] = "cmk";
    struct cox_table_spec rows = COX_TABLE_SPEC_INIT;
    struct cox_variable **const kinds[] = {p->counted, p->assigned, p->marks};
    for (uint32_t kind = 0; kind < 3; kind++) {
        for (uint32_t i = 0; i < plan->n_ps; i++) {
            char name[16];
            struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
            (void)snprintf(name, sizeof(name), "%c%u", letters[kind], i);
            spec.name = name;
            spec.dtype = COX_I64;
            spec.rank = 1;
            spec.shape[0] = kind == 2 ? 1 : (uint64_t)plan->n_calls * SIM_SEGMENTS;
            check(p, "cox_variable_create",
                  cox_variable_create(p->c, &spec, &kinds[kind][i]));
        }
    }
    rows.name = SIM_TABLE;
    rows.dim = 1;
    rows.optimizer.kind = COX_SGD;
    rows.optimizer.learning_rate = 1;
    rows.lifecycle.evict_age = 100000; /* so old that no row is evicted */
    check(p, "cox_table_create", cox_table_create(p->c, &rows, &p->rows));
}

static void load_steps(struct program *p)
{
    struct cox_module *module = NULL;
    check(p, "cox_module_load", cox_module_load(p->c, SIM_MODULE_PATH, &module));
    check(p, "cox_function_get", cox_function_get(module, "count", &p->count));
    check(p, "a data set", sim_tasks_create(&p->tasks, p->c, module));
    check(p, "rounds", sim_rounds_create(&p->rounds, p->c));
}

static void go_on(struct program *p)
{
    struct cox_progress progress = COX_PROGRESS_INIT;
    (void)cox_progress(p->c, &progress);
    p->generation = progress.generation;
    if (owner != NULL && p->generation < owner->generation) {
        return;
    }
    owner = p;
    sim_trace("%s goes on behind call %llu, from checkpoint %llu; %llu run again",
              p->proc->name, (unsigned long long)progress.cursor,
              (unsigned long long)progress.checkpoint,
              (unsigned long long)progress.rerun);
    sim_ledger_go_on((uint32_t)progress.cursor, p->generation);
    p->next = p->oldest = (uint32_t)progress.cursor;
    for (uint32_t i = 1; i < p->next; i++) {
        bool assigns = (sim_plan_actions(plan, i) & SIM_ASSIGN) != 0;
        p->marked = assigns ? (int64_t)i : p->marked;
    }
}

/* Tells the library of ps that have moved, like the user who starts them elsewhere. */
static void *tell_moves(void *arg)
{
    struct program *p = arg;
    uint32_t told[SIM_PS_MAX];
    for (uint32_t i = 0; i < plan->n_ps; i++) {
        told[i] = p->hosts[i];
    }
    while (!p->closes) {
        for (uint32_t i = 0; i < plan->n_ps; i++) {
            if (told[i] != sim_nodes_ps_host(i)) {
                char address[32];
                told[i] = sim_nodes_ps_host(i);
                (void)snprintf(address, sizeof(address), "tcp://h%u:1", told[i]);
                (void)cox_ps_address(p->c, i, address);
            }
        }
        sim_sleep(40 * SIM_MS);
    }
    return NULL;
}

/* ---- what it reads */

static void read_all(struct program *p)
{
    uint64_t keys[SIM_CALLS_MAX];
    uint32_t n = plan->n_calls;
    size_t bytes = (size_t)n * SIM_SEGMENTS * sizeof(int64_t);
    for (uint32_t i = 0; i < plan->n_ps; i++) {
        check(p, "cox_variable_read",
              cox_variable_read(p->c, p->counted[i], p->found.counted[i], bytes));
        check(p, "cox_variable_read",
              cox_variable_read(p->c, p->assigned[i], p->found.assigned[i], bytes));
    }
    for (uint32_t i = 0; i < n; i++) {
        keys[i] = i;
    }
    check(p, "cox_table_read", cox_table_read(p->c, p->rows, keys, n, p->found.rows));
    check(p, "a read of sums", sim_rounds_read(&p->rounds, &p->found));
}

static void compare(struct program *p, bool joined, const char *when)
{
    read_all(p);
    if (!is_replaced(p)) {
        sim_ledger_check(&p->found, p->next, joined, when);
        check(p, "a look at the tasks", sim_tasks_check(&p->tasks, when));
    }
}

/* ---- futures */

static void check_result(struct program *p, uint32_t number)
{
    struct cox_value value;
    int64_t result = -1;
    int r = cox_future_result(p->futures[number], "number", &value);
    if (r == 0) {
        memcpy(&result, value.data, sizeof(result));
    }
    if (result != (int64_t)number) {
        sim_violation("call %u is done, and its result is %lld (%s)", number,
                      (long long)result, coxi_error_name(r));
    }
}

static void settle(struct program *p, uint32_t number, int timeout_ms)
{
    int code = cox_future_wait(p->futures[number], timeout_ms);
    if (is_replaced(p)) {
        return;
    }
    if (code == COX_ETIMEDOUT) {
        sim_violation("call %u is not settled behind cox_join", number);
    } else if ((code == COX_EREPLAY || code == COX_EPSLOST) && plan->brittle) {
        check(p, "cox_future_wait", code);
    } else if (code == COX_EPSLOST || code == COX_EFENCED || code == COX_ECLOSED) {
        check(p, "cox_future_wait", code == COX_ECLOSED ? COX_EFENCED : code);
    } else {
        sim_trace("call %u: %s", number, coxi_error_name(code));
        sim_ledger_settle(number, code, cox_error_last());
        if (code == 0) {
            check_result(p, number);
        }
        await_end(&p->canceller, "the thread that cancels");
        check(p, "the end of a round",
              sim_rounds_settle(&p->rounds, number, p->futures[number]));
    }
}

/* Waits for the futures of calls before `end`; with timeout 0 these must be settled
 * already. */
static void settle_until(struct program *p, uint32_t end, int timeout_ms)
{
    while (p->oldest < end) {
        settle(p, p->oldest, timeout_ms);
        struct cox_future *future = p->futures[p->oldest];
        p->futures[p->oldest++] = NULL;
        await_end(&p->canceller, "the thread that cancels");
        cox_future_free(future);
    }
}

static void join(struct program *p)
{
    check(p, "cox_join", cox_join(p->c, -1));
    settle_until(p, p->next, 0);
}

/* ---- what it does beside scheduling */

static void save(struct program *p)
{
    uint64_t number = 0;
    int r = cox_checkpoint_save(p->c, NULL, &number);
    sim_trace("%s: checkpoint %llu: %s", p->proc->name, (unsigned long long)number,
              r == 0 ? "saved" : cox_error_last());
    if (r != 0 && r != COX_EIO && r != COX_EPSLOST) { /* none, this time */
        check(p, "cox_checkpoint_save", r);
    }
}

static void *save_beside(void *arg)
{
    save(arg);
    return NULL;
}

static void assign(struct program *p)
{
    static const int64_t zeros[SIM_CALLS_MAX * SIM_SEGMENTS];
    const int64_t mark = (int64_t)p->next;
    for (uint32_t i = 0; i < plan->n_ps; i++) {
        check(p, "cox_variable_assign",
              cox_variable_assign(p->c, p->assigned[i], zeros,
                                  (size_t)plan->n_calls * SIM_SEGMENTS *
                                      sizeof(int64_t)));
        check(p, "cox_variable_assign",
              cox_variable_assign(p->c, p->marks[i], &mark, sizeof(mark)));
    }
    p->marked = mark;
}

static void create_one(struct program *p, char kind, uint32_t number)
{
    char name[16];
    struct cox_variable *variable;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    (void)snprintf(name, sizeof(name), "%c%u", kind, number);
    spec.name = name;
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = 4;
    check(p, "cox_variable_create", cox_variable_create(p->c, &spec, &variable));
}

/* So that calls get other ids than before, also those of other rounds. */
static void create_more(struct program *p)
{
    uint64_t n = plan->n_sequences > 0 ? 1 + sim_below(SIM_ROUND_MAX + 1) : 1;
    for (uint32_t i = 0; i < n; i++) {
        create_one(p, 'l', p->life * 100 + i);
    }
}

static void cancel_one(struct program *p)
{
    uint32_t back = 1 + (uint32_t)(sim_hash(plan->seed, p->next) % CANCEL_BACK);
    if (p->next >= p->oldest + back) {
        uint32_t number = p->next - back;
        sim_trace("%s cancels call %u", p->proc->name, number);
        if (sim_hash(plan->seed ^ 3002, p->next) % 2 == 0 ||
            !sim_rounds_cancel(&p->rounds, number)) {
            sim_ledger_cancel(number);
            (void)cox_future_cancel(p->futures[number]);
        }
    }
}

static void *cancel_all(void *arg)
{
    struct program *p = arg;
    uint32_t end = p->next;
    for (uint32_t i = p->oldest; i < end; i++) {
        if (!sim_rounds_cancel(&p->rounds, i)) {
            sim_ledger_cancel(i);
            (void)cox_future_cancel(p->futures[i]);
        }
    }
    return NULL;
}

void sim_program_cancel_all(void)
{
    struct program *p = living();
    if (p != NULL && (p->canceller == NULL || p->canceller->ended)) {
        sim_trace("%s cancels all calls", p->proc->name);
        p->canceller = sim_spawn(p->proc, "canceller", cancel_all, p);
    }
}

void sim_program_save(void)
{
    struct program *p = living();
    bool can = p != NULL && p == owner && !p->closes;
    if (can && (p->saver == NULL || p->saver->ended)) {
        p->saver = sim_spawn(p->proc, "saver", save_beside, p);
    }
}

/* Joins and reads while a ps is lost, if the storm has a fault left for that. The ps is
 * lost either when all calls are settled, or while only a straggling call is not. */
static void linger(struct program *p)
{
    int64_t of[SIM_ARGUMENTS];
    sim_plan_call(plan, p->next - 1, of);
    if (of[SIM_STRAGGLE_US] > 0) {
        sim_sleep(sim_below((uint64_t)of[SIM_STRAGGLE_US] * SIM_US));
    } else {
        join(p);
    }
    uint64_t n = sim_storm_strike() ? 2 + sim_below(6) : 0;
    for (uint64_t i = 0; i < n; i++) {
        sim_sleep(sim_below(sim_chance(4) ? 60 * SIM_MS : 6 * SIM_MS));
        join(p);
        compare(p, true, "behind a join, again");
    }
}

static void act(struct program *p, unsigned actions)
{
    if ((actions & SIM_CANCEL) != 0) {
        cancel_one(p);
    }
    if ((actions & SIM_JOIN) != 0) {
        join(p);
    }
    if ((actions & SIM_READ) != 0) {
        bool joined = (actions & SIM_JOIN) != 0;
        compare(p, joined, joined ? "behind a join" : "while calls run");
    }
    if ((actions & SIM_LINGER) != 0) {
        linger(p);
    }
    if ((actions & SIM_SAVE_BESIDE) != 0) {
        await_end(&p->saver, "a checkpoint");
        p->saver = sim_spawn(p->proc, "saver", save_beside, p);
    }
    if ((actions & SIM_CREATE) != 0) {
        create_one(p, 'x', p->next);
    }
    if ((actions & SIM_ASSIGN) != 0) {
        assign(p);
    }
    if ((actions & SIM_SAVE) != 0) {
        save(p);
    }
}

/* ---- the calls */

/* Schedules the next call, or round. All calls of a round have the same cursor: a
 * program goes on with a whole round. */
static void schedule(struct program *p)
{
    int64_t of[SIM_ROUND_MAX][SIM_ARGUMENTS];
    struct cox_value arguments[SIM_ROUND_MAX];
    struct cox_call calls[SIM_ROUND_MAX];
    uint32_t in_round = plan->places[p->next].n;
    uint32_t n = in_round > 0 ? in_round : 1;
    for (uint32_t i = 0; i < n; i++) {
        sim_plan_call(plan, p->next + i, of[i]);
        of[i][SIM_MARKED] = p->marked;
        arguments[i] =
            (struct cox_value)COX_VECTOR("plan", COX_I64, SIM_ARGUMENTS, of[i]);
        calls[i] = (struct cox_call)COX_CALL_INIT;
        calls[i].args = &arguments[i];
        calls[i].n_args = 1;
        calls[i].cursor = (uint64_t)p->next + n;
        sim_ledger_schedule(p->next + i, is_replaced(p));
    }
    struct cox_future **futures = &p->futures[p->next];
    check(p, "cox_schedule",
          in_round > 0
              ? sim_rounds_schedule(&p->rounds, p->next, p->count, calls, futures)
              : cox_schedule(p->c, p->count, calls, futures));
    p->next += n;
}

static void run_calls(struct program *p)
{
    while (p->next < plan->n_calls) {
        act(p, p->next > 0 ? sim_plan_actions(plan, p->next) : 0);
        while (p->next - p->oldest >= plan->in_flight) {
            settle_until(p, p->oldest + 1, -1);
        }
        schedule(p);
        check(p, "cox_schedule_next", sim_tasks_give(&p->tasks, p->next));
    }
    check(p, "cox_schedule_next", sim_tasks_finish(&p->tasks));
    settle_until(p, p->next, -1);
    join(p);
}

static void close_cluster(struct program *p)
{
    p->closes = true;
    await_end(&p->saver, "a checkpoint");
    await_end(&p->mover, "the thread that tells of moves");
    int r = cox_close(p->c, CLOSE_MS);
    if (r != 0 && r != COX_EIO && r != COX_EPSLOST && r != COX_ETIMEDOUT &&
        !(r == COX_EREPLAY && plan->brittle) &&
        !(r == COX_EFENCED && may_be_fenced(p))) {
        sim_violation("cox_close: %s: %s", coxi_error_name(r), cox_error_last());
    }
}

static void *run(void *arg)
{
    struct program *p = arg;
    for (uint32_t i = 0; i < plan->n_ps; i++) {
        p->hosts[i] = sim_nodes_ps_host(i);
    }
    int r = sim_open(plan, on_event, p, &p->c);
    if (r != 0) {
        give_up(p, "cox_open", r);
    }
    if (plan->checkpoints) {
        p->mover = sim_spawn(p->proc, "mover", tell_moves, p);
    }
    go_on(p);
    create_variables(p);
    load_steps(p);
    if (p->life > 1 && sim_chance(2)) {
        create_more(p);
    }
    if (p->life > 1 && sim_chance(2)) {
        check(p, "cox_join", cox_join(p->c, -1));
        compare(p, true, "going on");
    }
    run_calls(p);
    compare(p, true, "at the end");
    close_cluster(p);
    if (!is_replaced(p)) {
        if (!plan->checkpoints || is_verified || !sim_chance(4)) {
            sim_stop();
        }
        is_verified = true; /* a last client compares what the checkpoint has */
    }
    sim_proc_kill(p->proc, 0);
    return NULL;
}

void sim_program_start(void)
{
    char name[24];
    struct program *p = calloc(1, sizeof(*p));
    if (++n_lives > LIVES_MAX) {
        sim_violation("the program has been started %u times", n_lives);
        return;
    }
    (void)snprintf(name, sizeof(name), "client#%u", n_lives);
    p->life = n_lives;
    p->proc = sim_proc_new(name, SIM_NODE_CLIENT);
    p->proc->on_death = on_death;
    for (struct program *other = programs; other != NULL; other = other->before) {
        p->rival = p->rival || other->proc->alive;
        other->rival = other->rival || other->proc->alive;
    }
    p->before = programs;
    programs = p;
    sim_trace("%s begins", name);
    (void)sim_spawn(p->proc, "main", run, p);
}

void sim_program_begin(const struct sim_plan *with)
{
    plan = with;
    n_lives = 0;
    programs = owner = NULL;
    is_verified = false;
    sim_program_start();
}
