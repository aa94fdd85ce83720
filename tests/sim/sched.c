/* See sched.h. Invariants: a fiber is in `ready` or waits; a timer belongs to one wait
 * of its fiber (`waits`). If that wait has ended when the timer is due, the timer is
 * dropped. */
#include "tests/sim/sched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/memory.h"
#include "tests/sim/trace.h"

enum {
    FIBERS_MAX = 4096,
    TURNS_MAX = 20 * 1000 * 1000, /* turns of a run; more mean an endless loop */
    /* on average, a thread is interrupted at one of this many possible places */
    PREEMPT_EVERY = 24,
    LONG_PAUSE_ONE_IN = 512, /* one of this many interruptions is a long pause */
};

struct timer {
    uint64_t at;
    uint64_t number; /* timers for the same time run in the order of these numbers */
    struct sim_fiber *fiber; /* or NULL: a call */
    uint64_t waits;
    void (*run)(void *arg);
    void *arg;
};

static struct {
    uint64_t now;
    uint64_t random;
    uint64_t turns;
    uint64_t n_fibers;
    bool stop;
    uint32_t preempt_in;
    struct sim_context scheduler;
    bool has_scheduler;
    struct sim_fiber *self;
    struct sim_fiber *ready[FIBERS_MAX];
    int n_ready;
    struct timer *timers; /* a heap; kept from run to run */
    size_t n_timers;
    size_t timers_room;
    uint64_t timer_number;
    struct sim_proc *procs;
} world;

/* ---- chance */

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t sim_rand(void)
{
    world.random += UINT64_C(0x9e3779b97f4a7c15);
    return mix(world.random);
}

uint64_t sim_below(uint64_t n)
{
    return sim_rand() % n;
}

bool sim_chance(uint64_t one_in)
{
    return one_in != 0 && sim_below(one_in) == 0;
}

uint64_t sim_between(uint64_t a, uint64_t b)
{
    return a + sim_below(b - a + 1);
}

uint64_t sim_hash(uint64_t seed, uint64_t number)
{
    return mix(mix(seed + UINT64_C(0x632be59bd9b4e019)) + number);
}

/* ---- the heap of timers */

static bool before(const struct timer *a, const struct timer *b)
{
    return a->at != b->at ? a->at < b->at : a->number < b->number;
}

static void add_timer(struct timer timer)
{
    if (world.n_timers == world.timers_room) {
        world.timers_room = world.timers_room * 2 + 1024;
        world.timers =
            sim_real_realloc(world.timers, world.timers_room * sizeof(*world.timers));
    }
    timer.number = world.timer_number++;
    size_t at = world.n_timers++;
    while (at > 0 && before(&timer, &world.timers[(at - 1) / 2])) {
        world.timers[at] = world.timers[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    world.timers[at] = timer;
}

static struct timer take_timer(void)
{
    struct timer first = world.timers[0];
    struct timer last = world.timers[--world.n_timers];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= world.n_timers) {
            break;
        }
        if (child + 1 < world.n_timers &&
            before(&world.timers[child + 1], &world.timers[child])) {
            child++;
        }
        if (!before(&world.timers[child], &last)) {
            break;
        }
        world.timers[at] = world.timers[child];
        at = child;
    }
    world.timers[at] = last;
    return first;
}

void sim_at(uint64_t at, void (*run)(void *arg), void *arg)
{
    add_timer((struct timer){.at = at, .run = run, .arg = arg});
}

void sim_wake_at(struct sim_fiber *fiber, uint64_t at)
{
    add_timer((struct timer){.at = at, .fiber = fiber, .waits = fiber->waits});
}

/* ---- who can go on */

static void make_ready(struct sim_fiber *fiber)
{
    if (fiber->place < 0 && !fiber->ended && fiber->proc->alive) {
        if (world.n_ready == FIBERS_MAX) {
            (void)fprintf(stderr, "too many fibers\n");
            abort();
        }
        fiber->place = world.n_ready;
        world.ready[world.n_ready++] = fiber;
    }
}

static void make_wait(struct sim_fiber *fiber)
{
    if (fiber->place >= 0) {
        struct sim_fiber *last = world.ready[--world.n_ready];
        world.ready[fiber->place] = last;
        last->place = fiber->place;
        fiber->place = -1;
    }
}

static void enqueue(struct sim_queue *queue, struct sim_fiber *fiber)
{
    fiber->queue = queue;
    fiber->prev = queue->last;
    fiber->next = NULL;
    if (queue->last != NULL) {
        queue->last->next = fiber;
    } else {
        queue->first = fiber;
    }
    queue->last = fiber;
}

static void dequeue(struct sim_fiber *fiber)
{
    struct sim_queue *queue = fiber->queue;
    if (queue == NULL) {
        return;
    }
    if (fiber->prev != NULL) {
        fiber->prev->next = fiber->next;
    } else {
        queue->first = fiber->next;
    }
    if (fiber->next != NULL) {
        fiber->next->prev = fiber->prev;
    } else {
        queue->last = fiber->prev;
    }
    fiber->queue = NULL;
    fiber->prev = fiber->next = NULL;
}

static void go_on(struct sim_fiber *fiber, bool woken)
{
    dequeue(fiber);
    fiber->waits++;
    fiber->woken = woken;
    fiber->was_woken = false;
    make_ready(fiber);
}

bool sim_wake(struct sim_fiber *fiber)
{
    if (fiber == NULL || fiber->place >= 0 || fiber->ended || fiber == world.self) {
        return false;
    }
    go_on(fiber, true);
    return true;
}

bool sim_wake_one(struct sim_queue *queue)
{
    /* Mostly wakes the fiber that has waited longest, because threads keep no order. */
    struct sim_fiber *fiber = queue->first;
    while (fiber != NULL && fiber->next != NULL && sim_chance(4)) {
        fiber = fiber->next;
    }
    return sim_wake(fiber);
}

void sim_wake_all(struct sim_queue *queue)
{
    while (queue->first != NULL) {
        (void)sim_wake(queue->first);
    }
}

/* ---- waiting */

static void leave(struct sim_fiber *self, int ends)
{
    world.self = NULL;
    sim_context_switch(&self->context, &world.scheduler, ends);
}

bool sim_wait(struct sim_queue *queue, uint64_t until, const char *what)
{
    struct sim_fiber *self = world.self;
    make_wait(self);
    self->what = what;
    if (queue != NULL) {
        enqueue(queue, self);
    }
    if (until != SIM_NEVER) {
        sim_wake_at(self, until);
    }
    leave(self, 0);
    self->what = "";
    return self->woken;
}

void sim_yield(void)
{
    struct sim_fiber *self = world.self;
    if (self != NULL) {
        leave(self, 0);
    }
}

void sim_sleep(uint64_t ns)
{
    (void)sim_wait(NULL, world.now + ns, "time");
}

void sim_hold(struct sim_proc *proc, const char *name, uint64_t until)
{
    for (struct sim_fiber *fiber = proc->fibers; fiber != NULL;
         fiber = fiber->next_of_proc) {
        if (strcmp(fiber->name, name) == 0) {
            fiber->held_until = until;
        }
    }
}

void sim_maybe_preempt(void)
{
    if (world.self != NULL && world.self->held_until > world.now) {
        sim_sleep(world.self->held_until - world.now);
    }
    if (--world.preempt_in > 0 || world.self == NULL) {
        return;
    }
    world.preempt_in = 1 + (uint32_t)sim_below(2 * PREEMPT_EVERY);
    if (sim_chance(LONG_PAUSE_ONE_IN)) {
        sim_sleep(sim_below(sim_chance(8) ? 200 * SIM_MS : 5 * SIM_MS));
    } else if (sim_chance(8)) {
        sim_sleep(sim_below(500 * SIM_US));
    } else {
        sim_yield();
    }
}

/* ---- fibers */

static void forget(struct sim_fiber *fiber)
{
    struct sim_fiber **at = &fiber->proc->fibers;
    while (*at != fiber) {
        at = &(*at)->next_of_proc;
    }
    *at = fiber->next_of_proc;
}

static void begin(void *arg)
{
    struct sim_fiber *self = arg;
    self->result = self->run(self->arg);
    self->ended = true;
    sim_wake_all(&self->joiners);
    make_wait(self);
    leave(self, 1);
}

struct sim_fiber *sim_spawn(struct sim_proc *proc, const char *name,
                            void *(*run)(void *arg), void *arg)
{
    struct sim_fiber *fiber = calloc(1, sizeof(*fiber));
    (void)snprintf(fiber->name, sizeof(fiber->name), "%s", name);
    fiber->proc = proc;
    fiber->run = run;
    fiber->arg = arg;
    fiber->id = ++world.n_fibers;
    fiber->place = -1;
    fiber->what = "";
    fiber->next_of_proc = proc->fibers;
    proc->fibers = fiber;
    sim_context_init(&fiber->context, begin, fiber);
    make_ready(fiber);
    return fiber;
}

struct sim_fiber *sim_self(void)
{
    return world.self;
}

struct sim_proc *sim_self_proc(void)
{
    return world.self != NULL ? world.self->proc : NULL;
}

/* ---- processes */

struct sim_proc *sim_proc_new(const char *name, uint32_t node)
{
    struct sim_proc *proc = calloc(1, sizeof(*proc));
    (void)snprintf(proc->name, sizeof(proc->name), "%s", name);
    proc->node = node;
    proc->alive = true;
    proc->next = world.procs;
    world.procs = proc;
    return proc;
}

struct sim_proc *sim_procs(void)
{
    return world.procs;
}

void sim_proc_kill(struct sim_proc *proc, int signal)
{
    if (!proc->alive) {
        return;
    }
    struct sim_fiber *self = world.self;
    bool own = self != NULL && self->proc == proc;
    for (struct sim_fiber *f = proc->fibers; f != NULL; f = f->next_of_proc) {
        dequeue(f);
        make_wait(f);
        f->waits++;
        if (!f->ended && f != self) {
            f->ended = true;
            sim_context_fini(&f->context);
        }
    }
    proc->alive = false;
    sim_trace("%s dies of signal %d", proc->name, signal);
    if (proc->on_death != NULL) {
        proc->on_death(proc, signal);
    }
    if (own) {
        self->ended = true;
        leave(self, 1);
    }
}

void sim_proc_pause(struct sim_proc *proc, bool paused)
{
    proc->paused = paused;
}

/* ---- a run */

uint64_t sim_now(void)
{
    return world.now;
}

uint64_t sim_turns(void)
{
    return world.turns;
}

void sim_begin(uint64_t seed)
{
    if (!world.has_scheduler) {
        sim_context_start(&world.scheduler);
        world.has_scheduler = true;
    }
    sim_context_load(&world.scheduler);
    world.now = SIM_S;
    world.random = mix(seed + 1);
    world.turns = world.n_fibers = world.timer_number = 0;
    world.n_ready = 0;
    world.n_timers = 0;
    world.procs = NULL;
    world.stop = false;
    world.self = NULL;
    world.preempt_in = 1;
}

void sim_stop(void)
{
    world.stop = true;
}

static void run_timer(void)
{
    struct timer timer = take_timer();
    world.now = timer.at > world.now ? timer.at : world.now;
    if (timer.fiber == NULL) {
        sim_context_load(&world.scheduler);
        timer.run(timer.arg);
    } else if (timer.fiber->waits == timer.waits && timer.fiber->place < 0) {
        go_on(timer.fiber, timer.fiber->was_woken);
    }
}

static void run_fiber(struct sim_fiber *fiber)
{
    world.self = fiber;
    world.turns++;
    world.now += sim_below(2 * SIM_US);
    sim_context_load(&fiber->context);
    sim_context_switch(&world.scheduler, &fiber->context, 0);
    if (fiber->ended) {
        sim_context_fini(&fiber->context);
        if (fiber->proc->alive && fiber->detached) {
            forget(fiber);
        }
    }
}

enum sim_end sim_run(uint64_t until)
{
    while (!world.stop) {
        if (world.now >= until) {
            return SIM_END_LATE;
        }
        if (world.turns > TURNS_MAX) {
            return SIM_END_STEPS;
        }
        bool due = world.n_timers > 0 && world.timers[0].at <= world.now;
        if (due || world.n_ready == 0) {
            if (world.n_timers == 0) {
                return SIM_END_LATE;
            }
            run_timer();
            continue;
        }
        struct sim_fiber *fiber = world.ready[sim_below((uint64_t)world.n_ready)];
        if (fiber->proc->paused) {
            make_wait(fiber);
            fiber->was_woken = fiber->woken;
            sim_wake_at(fiber, world.now + SIM_MS);
            continue;
        }
        run_fiber(fiber);
    }
    return SIM_END_DONE;
}

void sim_end(void)
{
    for (struct sim_proc *p = world.procs; p != NULL; p = p->next) {
        for (struct sim_fiber *f = p->fibers; f != NULL; f = f->next_of_proc) {
            if (!f->ended) {
                f->ended = true;
                sim_context_fini(&f->context);
            }
        }
    }
    world.procs = NULL;
}

void sim_dump(void)
{
    for (struct sim_proc *p = world.procs; p != NULL; p = p->next) {
        for (struct sim_fiber *f = p->fibers; p->alive && f != NULL;
             f = f->next_of_proc) {
            (void)fprintf(stderr, "  %s %s: %s\n", p->name, f->name,
                          f->ended        ? "ended"
                          : f->place >= 0 ? "can go on"
                                          : f->what);
        }
    }
}
