/*
 * See storm.h. Faults come while the program runs, some tens of ms apart: a storm has
 * few of them, so that each comes at a random moment, and many storms reach all
 * moments.
 */
#include "tests/sim/storm.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

#include "tests/sim/files.h"
#include "tests/sim/ledger.h"
#include "tests/sim/memory.h"
#include "tests/sim/net.h"
#include "tests/sim/nodes.h"
#include "tests/sim/program.h"
#include "tests/sim/rounds.h"
#include "tests/sim/sched.h"
#include "tests/sim/steps.h"
#include "tests/sim/stranger.h"
#include "tests/sim/tasks.h"
#include "tests/sim/trace.h"
#include "tests/sim/traps.h"
#include "tests/sim/uv.h"

static struct sim_plan plan;
static uint32_t n_left;
static uint32_t n_done;

static const uint64_t limit =
    1000 * SIM_S; /* virtual: a storm that lasts longer is stuck */

/* ---- the faults */

enum fault {
    KILL_WORKER,
    KILL_PS,
    KILL_CLIENT,
    ZOMBIE_CLIENT,
    CUT,
    PART,
    SLOW,
    END_WORKER,
    PAUSE,
    DISK_FAILS,
    DISK_SLOW,
    KILL_AT_DISK,
    MOVE_PS,
    KILL_BEHIND_CHECKPOINT,
    TRAP,
    STRANGER,
    FAULTS,
};

static const uint32_t weights[FAULTS] = {
    [KILL_WORKER] = 6, [KILL_PS] = 6,
    [KILL_CLIENT] = 3, [ZOMBIE_CLIENT] = 2,
    [CUT] = 5,         [PART] = 3,
    [SLOW] = 4,        [END_WORKER] = 1,
    [PAUSE] = 2,       [DISK_FAILS] = 1,
    [DISK_SLOW] = 1,   [KILL_AT_DISK] = 3,
    [MOVE_PS] = 1,     [KILL_BEHIND_CHECKPOINT] = 3,
    [TRAP] = 10,       [STRANGER] = 1,
};

static enum fault draw_fault(void)
{
    uint32_t sum = 0;
    for (int i = 0; i < FAULTS; i++) {
        sum += weights[i];
    }
    uint32_t at = (uint32_t)sim_below(sum);
    int i = 0;
    while (at >= weights[i]) {
        at -= weights[i++];
    }
    return (enum fault)i;
}

static uint32_t draw_ps(void)
{
    return (uint32_t)sim_below(plan.n_ps);
}

static uint32_t draw_worker(void)
{
    return (uint32_t)sim_below(plan.n_workers);
}

/* Draws two hosts that have a connection. */
static void draw_hosts(uint32_t *ret_a, uint32_t *ret_b)
{
    uint32_t ps = sim_nodes_ps_host(draw_ps());
    uint32_t worker = SIM_NODE_WORKER + draw_worker();
    uint64_t kind = sim_below(plan.checkpoints ? 3 : 1);
    *ret_a = kind == 2 ? worker : SIM_NODE_CLIENT;
    *ret_b = kind == 0 ? worker : ps;
    if (sim_chance(2)) {
        uint32_t a = *ret_a;
        *ret_a = *ret_b;
        *ret_b = a;
    }
}

/* Draws a client, a ps or a worker. */
static struct sim_proc *draw_proc(void)
{
    uint64_t kind = sim_below(plan.checkpoints ? 3 : 1);
    return kind == 0   ? sim_nodes_worker(draw_worker())
           : kind == 1 ? sim_nodes_ps(draw_ps())
                       : sim_program_proc();
}

static void kill_proc(struct sim_proc *proc)
{
    if (proc != NULL) {
        sim_proc_kill(proc, SIGKILL);
    }
}

static void go_on(void *arg)
{
    sim_proc_pause(arg, false);
}

static void pause_proc(struct sim_proc *proc)
{
    if (proc != NULL) {
        sim_trace("%s stops for a while", proc->name);
        sim_proc_pause(proc, true);
        sim_at(sim_now() + sim_below(sim_chance(2) ? 3 * SIM_S : 200 * SIM_MS), go_on,
               proc);
    }
}

static void part(void)
{
    uint32_t a;
    uint32_t b;
    draw_hosts(&a, &b);
    sim_net_part(a, b, sim_now() + sim_below(sim_chance(2) ? 4 * SIM_S : 300 * SIM_MS));
}

static void slow(void)
{
    uint32_t a;
    uint32_t b;
    draw_hosts(&a, &b);
    sim_net_slow(a, b, sim_below(sim_chance(3) ? 900 * SIM_MS : 30 * SIM_MS));
}

static void end_worker(void)
{
    struct sim_proc *proc = sim_nodes_worker(draw_worker());
    if (proc != NULL) {
        sim_trace("%s is told to end", proc->name);
        sim_uv_signal(proc, SIGTERM);
    }
}

/* Starts the ps on another host, and cuts its old host off from the client and some
 * workers. */
static void move_ps(uint32_t i)
{
    uint32_t old = sim_nodes_ps_host(i);
    sim_nodes_move_ps(i);
    if (old != sim_nodes_ps_host(i)) {
        uint64_t until = sim_now() + sim_between(2 * SIM_S, 10 * SIM_S);
        sim_net_part(SIM_NODE_CLIENT, old, until);
        for (uint32_t w = 0; w < plan.n_workers; w++) {
            if (sim_chance(3)) {
                sim_net_part(SIM_NODE_WORKER + w, old, until);
            }
        }
    }
}

static void kill_at_disk(void)
{
    struct sim_proc *proc =
        sim_chance(2) ? sim_program_proc() : sim_nodes_ps(draw_ps());
    if (proc != NULL) {
        uint64_t n = sim_between(1, 40);
        sim_trace("%s will die at the %llu-th change of the disk", proc->name,
                  (unsigned long long)n);
        sim_files_kill_at(proc, n);
    }
}

/* ---- which, and when */

/* True if the plan allows the fault: without checkpoints, the ps and the client must
 * not die. */
static bool is_allowed(enum fault fault)
{
    return plan.checkpoints || fault == KILL_WORKER || fault == PART || fault == SLOW ||
           fault == END_WORKER || fault == PAUSE || fault == CUT || fault == TRAP;
}

static void inflict(enum fault fault)
{
    switch (fault) {
    case KILL_WORKER:
        kill_proc(sim_nodes_worker(draw_worker()));
        return;
    case KILL_PS:
        kill_proc(sim_nodes_ps(draw_ps()));
        return;
    case KILL_CLIENT:
        kill_proc(sim_program_proc());
        return;
    case ZOMBIE_CLIENT:
        if (sim_chance(2)) {
            pause_proc(sim_program_proc());
        }
        sim_program_start();
        return;
    case CUT:
        (void)sim_net_cut(0, 0);
        return;
    case PART:
        part();
        return;
    case SLOW:
        slow();
        return;
    case END_WORKER:
        end_worker();
        return;
    case PAUSE:
        pause_proc(draw_proc());
        return;
    case DISK_FAILS:
        sim_files_fail(sim_chance(2) ? EIO : ENOSPC,
                       sim_now() + sim_below(100 * SIM_MS));
        return;
    case DISK_SLOW:
        sim_files_slow(sim_below(300 * SIM_MS), sim_now() + sim_below(SIM_S));
        return;
    case KILL_AT_DISK:
        kill_at_disk();
        return;
    case MOVE_PS:
        move_ps(draw_ps());
        return;
    case KILL_BEHIND_CHECKPOINT:
        sim_trap_checkpoint(sim_program_proc());
        return;
    case TRAP:
        sim_trap_set(&plan);
        return;
    case STRANGER:
        sim_stranger_come();
        return;
    case FAULTS:
        return;
    }
}

bool sim_storm_strike(void)
{
    struct sim_proc *proc = sim_nodes_ps(draw_ps());
    if (n_left == 0 || !plan.checkpoints || proc == NULL) {
        return false;
    }
    n_left--;
    n_done++;
    sim_proc_kill(proc, SIGKILL);
    return true;
}

static void next_fault(void *arg)
{
    (void)arg;
    bool traps = plan.n_sequences > 0 && sim_chance(4);
    enum fault fault = traps ? TRAP : draw_fault();
    if (n_left == 0) {
        return;
    }
    if (is_allowed(fault)) {
        n_left--;
        n_done++;
        inflict(fault);
    }
    uint64_t soon = sim_chance(3)   ? 5 * SIM_MS
                    : sim_chance(4) ? 2 * SIM_S
                                    : 60 * SIM_MS;
    sim_at(sim_now() + sim_below(soon), next_fault, NULL);
}

/* ---- the storm */

static void explain(enum sim_end end)
{
    if (end != SIM_END_DONE) {
        if (sim_traces) {
            sim_dump();
        }
        sim_violation(end == SIM_END_LATE ? "it is stuck" : "it turns for ever");
    }
}

void sim_storm_run(uint64_t seed, uint32_t n_calls, struct sim_storm_result *ret)
{
    sim_memory_begin();
    sim_begin(seed);
    sim_net_begin();
    sim_uv_begin();
    sim_files_begin();
    sim_steps_begin();
    sim_stranger_begin();
    sim_plan_make(seed, n_calls, &plan);
    sim_ledger_begin(&plan);
    sim_rounds_begin(&plan);
    sim_tasks_begin(&plan);
    n_left = plan.n_faults;
    n_done = 0;
    sim_nodes_begin(&plan);
    sim_program_begin(&plan);
    sim_at(sim_now() + sim_below(60 * SIM_MS), next_fault, NULL);
    explain(sim_run(sim_now() + limit));
    *ret = (struct sim_storm_result){.violation = sim_ledger_violation(),
                                     .turns = sim_turns(),
                                     .messages = sim_net_sent(),
                                     .virtual_ms = sim_now() / SIM_MS - 1000,
                                     .faults = n_done,
                                     .lives = sim_program_lives()};
    sim_end();
    sim_memory_end();
}
