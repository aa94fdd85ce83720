/* See late.h. A connection keeps the order of its messages, so a message is late for a
 * receiver that has heard of its sender since then only if the sender has given up that
 * connection. */
#include "tests/sim/late.h"

#include <signal.h>

#include "net/message.h"
#include "tests/sim/messages.h"
#include "tests/sim/net.h"
#include "tests/sim/nodes.h"
#include "tests/sim/program.h"
#include "tests/sim/sched.h"
#include "tests/sim/trace.h"
#include "tests/sim/traps.h"

static struct {
    enum coxi_message_kind kind;
    uint64_t n; /* the n-th such message is late */
    uint32_t from;
    uint32_t to; /* the hosts between which it is late */
} late;

static void kill_proc(void *proc)
{
    sim_proc_kill(proc, SIGKILL);
}

static void kill_client(void *arg)
{
    (void)arg;
    if (sim_program_proc() != NULL) {
        sim_proc_kill(sim_program_proc(), SIGKILL);
    }
}

static void hang_up(void *arg)
{
    (void)arg;
    sim_net_hang_up(late.from, late.to);
}

static void cancel_all(void *arg)
{
    (void)arg;
    sim_program_cancel_all();
}

/* The client dies behind its next checkpoint. */
static void await_checkpoint(void *arg)
{
    (void)arg;
    sim_trap_checkpoint(sim_program_proc());
}

static uint64_t soon(uint64_t within)
{
    return sim_now() + sim_below(within);
}

/* ---- what is late */

/* The client repeats the request on a new connection, and goes on; then the first one
 * arrives, at any moment before or behind the next checkpoint, which another client may
 * have to start from. */
static void delay_snapshot(const struct sim_sending *sending)
{
    *sending->delay = sim_between(SIM_MS, sim_chance(2) ? 60 * SIM_MS : 600 * SIM_MS);
    sim_at(soon(300 * SIM_US), hang_up, NULL);
    if (!sim_chance(3)) {
        sim_at(sim_now() + *sending->delay, await_checkpoint, NULL);
    }
}

/*
 * The client loses sight of a worker whose commit is under way, and all its calls are
 * cancelled: the ps void them, and they settle. Then the ps is lost without having had
 * the commit, and the worker, which has not noticed anything of the client, repeats it
 * to the next process at that address.
 */
static void delay_commit(const struct sim_sending *sending)
{
    *sending->delay = 2 * SIM_S;
    sim_net_part(late.from, late.to, soon(2 * SIM_S));
    sim_at(soon(300 * SIM_US), hang_up, NULL);
    sim_at(soon(300 * SIM_US), cancel_all, NULL);
    sim_at(sim_now() + sim_between(SIM_MS, 20 * SIM_MS), kill_proc, sending->to);
}

/* Before the creation arrives, the ps belongs to another client, or is another process.
 */
static void delay_creation(const struct sim_sending *sending)
{
    *sending->delay = sim_between(SIM_MS, sim_chance(2) ? 200 * SIM_MS : 2 * SIM_S);
    if (sim_chance(3)) {
        sim_at(soon(5 * SIM_MS), kill_proc, sending->to);
        return;
    }
    sim_at(soon(300 * SIM_US), hang_up, NULL);
    sim_at(soon(2 * SIM_MS), kill_client, NULL);
}

static void look(const struct sim_sending *sending)
{
    if (sending->message->kind != late.kind || --late.n > 0) {
        return;
    }
    sim_net_watch(NULL);
    sim_trace("the trap for a late %s springs", sim_message_name(late.kind));
    late.from = SIM_NODE_CLIENT;
    late.to = late.kind == COXI_COMMIT ? sending->from->node : sending->to->node;
    if (late.kind == COXI_SNAPSHOT) {
        delay_snapshot(sending);
    } else if (late.kind == COXI_COMMIT) {
        delay_commit(sending);
    } else {
        delay_creation(sending);
    }
}

void sim_late_set(const struct sim_plan *plan)
{
    static const enum coxi_message_kind kinds[] = {COXI_SNAPSHOT, COXI_COMMIT,
                                                   COXI_CREATE};
    late.kind = kinds[sim_below(3)];
    late.n = 1 + sim_below(late.kind == COXI_COMMIT ? 20 : (uint64_t)2 * plan->n_ps);
    sim_net_watch(look);
}
