/* See traps.h. Processes are killed between two turns: a trap that springs only notes
 * the fault, which happens a little later, when the message is on its way. */
#include "tests/sim/traps.h"

#include <signal.h>
#include <string.h>

#include "net/message.h"
#include "tests/sim/files.h"
#include "tests/sim/late.h"
#include "tests/sim/messages.h"
#include "tests/sim/net.h"
#include "tests/sim/nodes.h"
#include "tests/sim/program.h"
#include "tests/sim/sched.h"
#include "tests/sim/trace.h"

/* What a trap for a message does. */
enum effect {
    KILL_SENDER,
    KILL_RECEIVER,
    KILL_PS,
    KILL_CLIENT,
    CUT,
    PART,
    DELAY,
    EFFECTS, /* for all messages; these are for rounds: */
    LATE_SNAPSHOT,
    CANCEL,
    LOSE_REPORT,
};

/* Which messages of a kind it waits for. */
enum which {
    ANY,
    END,    /* the end of a round, from the client */
    ENDING, /* the answer or the report that a ps has ended a round itself */
};

static struct {
    const struct sim_plan *plan;
    enum coxi_message_kind kind;
    enum which which;
    uint64_t n; /* springs at the n-th such message */
    enum effect effect;
} at_message;

static struct {
    const char *operation;
    const struct sim_proc *client; /* dies after its checkpoint; NULL: a ps dies */
} at_disk;

/* ---- what happens */

static void kill_proc(void *proc)
{
    if (proc != NULL) {
        sim_proc_kill(proc, SIGKILL);
    }
}

static void kill_ps(void *arg)
{
    (void)arg;
    kill_proc(sim_nodes_ps((uint32_t)sim_below(at_message.plan->n_ps)));
}

static void kill_client(void *arg)
{
    (void)arg;
    kill_proc(sim_program_proc());
}

/* The client dies behind its next checkpoint. */
static void await_checkpoint(void *arg)
{
    (void)arg;
    sim_trap_checkpoint(sim_program_proc());
}

static void cancel_all(void *arg)
{
    (void)arg;
    sim_program_cancel_all();
}

static void save(void *arg)
{
    (void)arg;
    sim_program_save();
}

/* The ps takes its snapshot later than others, and goes on meanwhile. */
static void be_late(struct sim_proc *ps)
{
    sim_hold(ps, "cox:snapshots", sim_now() + sim_below(10 * SIM_MS));
    sim_at(sim_now(), await_checkpoint, NULL);
}

/* All calls and rounds are cancelled before the client's loop collects the backlog of
 * its checkpoint, in the same turn. */
static void cancel_amidst(struct sim_proc *client)
{
    sim_hold(client, "cox:loop", sim_now() + sim_below(2 * SIM_MS));
    sim_at(sim_now() + sim_below(400 * SIM_US), cancel_all, NULL);
    sim_at(sim_now(), await_checkpoint, NULL);
}

/* The client does not learn for a while, or never, that a ps has ended a round. Meanwhile
 * it loses the worker, or everything is cancelled. */
static void lose_report(const struct sim_sending *sending)
{
    struct sim_proc *worker =
        sending->message->kind == COXI_DONE ? sending->from : sending->to;
    uint64_t late = sim_between(5 * SIM_MS, sim_chance(2) ? 50 * SIM_MS : 2 * SIM_S);
    *sending->delay = late;
    if (!sim_chance(4)) {
        sim_at(sim_now() + sim_below(late), cancel_all, NULL);
    }
    if (sim_chance(2)) {
        sim_at(sim_now() + sim_below(late), kill_proc, worker);
    } else {
        sim_net_part(SIM_NODE_CLIENT, worker->node, sim_now() + sim_below(3 * SIM_S));
    }
}

static struct {
    uint32_t a;
    uint32_t b;
} to_cut; /* connections of these hosts */

static void cut(void *arg)
{
    (void)arg;
    (void)sim_net_cut(to_cut.a, to_cut.b);
}

/* Does the effect soon after this moment. */
static void spring(enum effect effect, const struct sim_sending *sending)
{
    struct sim_proc *from = sending->from;
    struct sim_proc *to = sending->to;
    uint64_t at = sim_now() + sim_below(sim_chance(2) ? 300 * SIM_US : 10 * SIM_MS);
    switch (effect) {
    case KILL_SENDER:
        sim_at(at, kill_proc, from);
        return;
    case KILL_RECEIVER:
        sim_at(at, kill_proc, to);
        return;
    case KILL_PS:
        sim_at(at, kill_ps, NULL);
        return;
    case KILL_CLIENT:
        sim_at(at, kill_client, NULL);
        return;
    case CUT:
        to_cut.a = from->node;
        to_cut.b = to->node;
        sim_at(at, cut, NULL);
        return;
    case PART:
        sim_net_part(from->node, to->node, sim_now() + sim_below(3 * SIM_S));
        return;
    case LATE_SNAPSHOT:
        be_late(to);
        return;
    case CANCEL:
        cancel_amidst(to);
        return;
    case LOSE_REPORT:
        lose_report(sending);
        return;
    case DELAY:
        *sending->delay = sim_below(sim_chance(2) ? 900 * SIM_MS : 30 * SIM_MS);
        return;
    case EFFECTS:
        return;
    }
}

/* ---- messages */

static bool is_awaited(const struct coxi_message *message)
{
    if (message->kind != at_message.kind) {
        return false;
    }
    switch (at_message.which) {
    case ANY:
        return true;
    case END:
        return message->commit.n_updates > 0 &&
               message->commit.updates[0].op == COXI_OP_ROUND;
    case ENDING:
        return message->kind == COXI_DONE ? message->done.n_ended > 0
                                          : message->status.ended;
    }
    return false;
}

static void look_at_message(const struct sim_sending *sending)
{
    if (!is_awaited(sending->message) || --at_message.n > 0) {
        return;
    }
    sim_net_watch(NULL);
    sim_trace("the trap for %s springs", sim_message_name(at_message.kind));
    spring(at_message.effect, sending);
}

/* Without checkpoints ps and clients must live. */
static void keep_alive(void)
{
    if (at_message.effect < CUT && !at_message.plan->checkpoints) {
        at_message.effect = CUT;
    }
}

/* Moments of rounds: their ends; and those at which a checkpoint has a round on some ps
 * only, or collects its backlog while rounds are cancelled. */
static void set_for_round(void)
{
    bool saves = at_message.plan->checkpoints && !sim_chance(3);
    at_message.which = saves ? ANY : END;
    at_message.kind = COXI_COMMIT;
    at_message.n = 1 + sim_below(7);
    at_message.effect = sim_chance(2) ? DELAY : (enum effect)sim_below(EFFECTS);
    keep_alive();
    if (saves) {
        bool is_late = sim_chance(2);
        at_message.kind = is_late ? COXI_SNAPSHOT : COXI_SNAPSHOT_DONE;
        at_message.effect = is_late ? LATE_SNAPSHOT : CANCEL;
        sim_at(sim_now() + sim_below(5 * SIM_MS), save, NULL);
        if (!is_late) { /* the last one of a checkpoint, if nothing is lost */
            at_message.n = at_message.plan->n_ps * sim_between(1, 2);
        }
    }
    sim_net_watch(look_at_message);
}

/* A ps has ended a round itself, and the client does not know it yet. */
static void set_for_ending(void)
{
    at_message.which = ENDING;
    at_message.kind = sim_chance(2) ? COXI_DONE : COXI_COMMITTED;
    at_message.n = 1 + sim_below(4);
    at_message.effect = sim_chance(3) ? (enum effect)sim_below(EFFECTS) : LOSE_REPORT;
    if (sim_chance(3)) { /* the ps is lost before other closures have reported */
        at_message.kind = COXI_COMMITTED;
        at_message.effect = KILL_SENDER;
        sim_net_slow(SIM_NODE_WORKER + (uint32_t)sim_below(at_message.plan->n_workers),
                     SIM_NODE_CLIENT, sim_between(10 * SIM_MS, 300 * SIM_MS));
    }
    keep_alive();
    sim_net_watch(look_at_message);
}

static void set_for_message(void)
{
    static const enum coxi_message_kind kinds[] = {
        COXI_SNAPSHOT,  COXI_SNAPSHOT_DONE, COXI_RESTORE,   COXI_CLAIM,  COXI_CREATE,
        COXI_WATERMARK, COXI_COMMIT,        COXI_COMMITTED, COXI_DONE,   COXI_VOID,
        COXI_VOIDED,    COXI_DISPATCH,      COXI_RECALL,    COXI_LAYOUT, COXI_STATUS,
        COXI_CRASHED,   COXI_SNAPSHOT,      COXI_RESTORE};
    at_message.kind = kinds[sim_below(sizeof(kinds) / sizeof(*kinds))];
    at_message.n = 1 + sim_below(4);
    at_message.which = ANY;
    at_message.effect = (enum effect)sim_below(EFFECTS);
    keep_alive();
    sim_net_watch(look_at_message);
}

/* ---- the disk */

static uint64_t look_at_disk(struct sim_proc *proc, const char *what, const char *path)
{
    const char *name = strrchr(path, '/');
    bool is_it = at_disk.client == NULL
                     ? strcmp(what, at_disk.operation) == 0
                     : at_disk.client == proc && strcmp(what, "rename") == 0 &&
                           name != NULL && strcmp(name, "/LATEST") == 0;
    if (!is_it) {
        return 0;
    }
    sim_files_watch(NULL);
    sim_trace("the trap for %s of %s springs", what, path);
    if (at_disk.client != NULL) {
        uint64_t within = sim_chance(2) ? SIM_MS : 10 * SIM_MS;
        sim_at(sim_now() + 20 * SIM_US + sim_below(within), kill_proc, proc);
        return 0;
    }
    sim_at(sim_now(), kill_ps, NULL);
    return sim_below(sim_chance(2) ? 20 * SIM_MS : 120 * SIM_MS);
}

/* A ps is lost while a process waits for the disk. */
static void set_for_disk(void)
{
    static const char *const operations[] = {"mkdir", "mkdir", "fsync", "rename",
                                             "open"};
    at_disk.operation = operations[sim_below(sizeof(operations) / sizeof(*operations))];
    at_disk.client = NULL;
    sim_files_watch(look_at_disk);
}

void sim_trap_set(const struct sim_plan *plan)
{
    at_message.plan = plan;
    if (plan->n_sequences > 0 && !sim_chance(3)) {
        (sim_chance(3) ? set_for_ending : set_for_round)();
    } else if (plan->checkpoints && sim_chance(4)) {
        sim_late_set(plan);
    } else if (plan->checkpoints && sim_chance(3)) {
        set_for_disk();
    } else {
        set_for_message();
    }
}

void sim_trap_checkpoint(struct sim_proc *client)
{
    if (client != NULL) {
        at_disk.client = client;
        sim_files_watch(look_at_disk);
    }
}
