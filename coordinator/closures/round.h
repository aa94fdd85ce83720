/*
 * Rounds (coxswain/round.h). The members of a round are closures whose commits wait on
 * the ps. The end of a round is a closure, too: it has the id above theirs, and runs at
 * the client, which sends it to the ps. So the ids of a round follow one another, and in
 * a replay or a backlog a round is what lies between two ids.
 *
 *   members   QUEUED, ASSIGNED -> STAGED: all commits of an attempt wait on the ps
 *             STAGED -> QUEUED: a ps has lost what waited, before the round was decided
 *             STAGED -> DONE: the round is applied
 *   the end   WAITING, until enough members are staged: then the round is decided, that
 *             is, which attempts count. No other decision is ever made for it
 *             -> VOIDING: its end is sent to every ps, and again after a recovery, until
 *             all have it -> DONE
 *
 * Nothing of a round is applied before it is decided. So its members need no voiding: an
 * attempt that the end does not name has no effect, whenever it commits. The exception is
 * a round that a single ps has all of: that ps ends it, unless it has backups
 * (round_seal.c).
 *
 *   round.c         life; who is told of what
 *   round_order.c   which rounds wait for others
 *   round_ahead.c   which need not
 *   round_decide.c  which members are staged; deciding, failing
 *   round_seal.c    finding out whether a ps has ended a round itself
 *   round_end.c     the end on its way to the ps, and in a replay
 *   round_pause.c    checkpoints between deterministic rounds
 *   rounds.c        sequences of rounds, scheduling them
 *
 * Loop, unless noted otherwise.
 */
#ifndef COXI_COORDINATOR_CLOSURES_ROUND_H
#define COXI_COORDINATOR_CLOSURES_ROUND_H

#include "common/error.h"
#include "coordinator/closures/closure.h"
#include "coxswain/round.h"
#include "schema/wire.h"

struct coxi_postponed;
struct coxi_seat;
struct coxi_round_sending; /* round_end.c */
struct coxi_schedule_task; /* schedule.h */

enum coxi_member_state {
    COXI_MEMBER_OPEN,
    COXI_MEMBER_STAGED,
    COXI_MEMBER_OUT, /* it does not count, and never will */
};

struct coxi_member {
    /* NULL: it is settled; or an older client had settled it */
    struct coxi_closure *closure;
    uint32_t attempt;  /* STAGED: the attempt whose commits wait */
    uint32_t replayed; /* the last attempt that recovery has run again; 0: none */
    float weight;
    uint8_t state; /* enum coxi_member_state */
};

struct coxi_round {
    struct cox_rounds *rounds; /* its sequence */
    uint64_t number;           /* in the sequence, from 0 on */
    /* of its first member among all of deterministic rounds and their ends */
    uint64_t place;
    struct coxi_closure *end; /* owns the round; members have references to it */
    uint64_t first;           /* id of the first member; the end has first + n */
    uint32_t n;
    uint32_t needed; /* members with which it is complete */

    struct coxi_round *next; /* open rounds of the sequence, oldest first */
    struct coxi_round *prev;
    struct coxi_round *next_due; /* in c->closures->rounds.due, or .blocked */
    bool is_due;
    bool is_blocked; /* in c->closures->rounds.blocked */
    bool listed;     /* the loop knows it */
    bool waits;      /* its members wait for earlier rounds */
    bool decided;    /* `parts` says which members count */
    bool sent;       /* the end is on its way, or was */
    bool over;
    bool ended;   /* a ps has ended it */
    bool sealed;  /* no ps will end it any more without the client */
    bool sealing; /* the ps are being asked */
    struct coxi_postponed *postponed; /* endings that wait for the answers */
    uint32_t n_given;                 /* members that were given to a worker */
    /* a member came back, or has a worker with several slots (round_ahead.c) */
    bool disturbed;
    uint32_t n_staged;
    uint32_t n_out;
    struct coxi_round_sending *sending; /* requests to ps under way */
    bool refused;        /* every ps has refused the end; its future has the reason */
    uint64_t *touched;   /* the ps that each member has touched: n_words for each */
    uint64_t *acked;     /* the ps that have the end */
    uint32_t *n_waiting; /* once it is sent: members that count, on each ps */
    uint32_t n_words;
    struct coxi_round_part *parts; /* n */
    struct coxi_member members[];
};

/* How fast the rounds of a sequence follow one another (round_ahead.c). */
struct coxi_pace_of_rounds {
    uint64_t over_us; /* when the last one was over */
    bool is_quick;
    uint32_t rest;      /* so many rounds more begin one after the other */
    uint32_t next_rest; /* and so many half of the next time */
    uint64_t calm;      /* rounds since closures came back */
};

/* A sequence of rounds. */
struct cox_rounds {
    struct cox_coordinator *c;
    struct cox_rounds *next; /* in c->closures->rounds.sequences; guarded by c->lock */
    uint64_t id;    /* the generation of its client times 2^32, and its number */
    bool inherited; /* an older client has left its rounds */
    struct cox_rounds_spec spec;
    uint64_t n_scheduled; /* guarded by c->lock */

    /* ---- the loop's own: open rounds, oldest first */
    struct coxi_round *first;
    struct coxi_round *last;
    struct coxi_pace_of_rounds pace;
    bool is_given; /* in c->closures->rounds.given */
    struct cox_rounds *next_given;
};

/* ---- life */

/*
 * Makes a round of n members, with its end, which has no id yet and one reference.
 * COX_ENOMEM. Any thread.
 */
int coxi_round_new(struct cox_rounds *rounds, uint32_t n, uint32_t needed,
                   struct coxi_round **ret);

/* Makes a closure a member; it gets a reference to the end. Any thread, before both are
 * scheduled. */
void coxi_round_join(struct coxi_round *round, struct coxi_closure *closure);

/* A closure of the round is freed: a member (returns the end if that was the last
 * reference to it), or the end (frees the round). */
struct coxi_closure *coxi_round_leave(struct coxi_closure *closure);

static inline struct coxi_member *coxi_round_member(const struct coxi_closure *closure)
{
    struct coxi_round *round = closure->round;
    return &round->members[closure->future.id.n - round->first];
}

static inline bool coxi_round_is_end(const struct coxi_closure *closure)
{
    return closure->round != NULL && closure->round->end == closure;
}

/* True if its round was complete without it. A closure that takes its result fails with the
 * same code, but is not late. */
static inline bool coxi_round_is_late(const struct coxi_closure *closure)
{
    return closure->state == COXI_CANCELLED && closure->future.code == COX_ELATE;
}

/* The id of the round in which a closure counts; n 0: it is in none. */
static inline struct coxi_closure_id coxi_round_of(const struct coxi_closure *closure)
{
    bool is_member = closure->round != NULL && closure->round->end != closure;
    return is_member ? closure->round->end->future.id : coxi_closure_id(0);
}

/* How far the id of that round is above the closure's own; 0: it is in none. */
static inline uint32_t coxi_round_distance(const struct coxi_closure *closure)
{
    uint64_t round = coxi_round_of(closure).n;
    return round != 0 ? (uint32_t)(round - closure->future.id.n) : 0;
}

/* ---- the order of rounds (round_order.c) */

/* The loop learns of a closure of a round, from whatever list it will be in: from now on
 * the round can end. */
void coxi_round_take_in(struct coxi_closure *closure);

/*
 * A closure of a round that was taken in may run now. True: it stays WAITING, in
 * c->closures->waiting, because it is an end, or waits for earlier rounds.
 */
bool coxi_round_holds(struct coxi_closure *closure);

/* The end is on its way: others may begin. */
void coxi_round_let_follow(struct coxi_round *round);

/* Lets those rounds of a sequence begin that need not wait for others. */
void coxi_rounds_begin(struct cox_rounds *rounds);

/* True if its members must wait for earlier rounds of its sequence, or for those of an
 * earlier client. */
bool coxi_round_must_wait(const struct coxi_round *round);

/* True if some open round must be over before this one is decided. */
bool coxi_round_must_see(const struct coxi_round *round);

/* What a worker must know of the closure's round, if it is in one. */
struct coxi_round_head coxi_round_head(const struct coxi_closure *closure,
                                       uint32_t attempt);

/* The round is over: others may begin. */
void coxi_round_unlist(struct coxi_round *round);

/* ---- beginning ahead (round_ahead.c) */

/* True if the members of the next round may be given to workers: soon a ps will end this
 * one. */
bool coxi_round_is_nearly_over(const struct coxi_round *round);

/* A member was given to a worker for the first time. */
void coxi_round_given(struct coxi_closure *closure, const struct coxi_seat *seat);

/* Lets rounds begin whose predecessors were given to workers as a whole. True if closures
 * were queued. */
bool coxi_rounds_begin_ahead(struct cox_coordinator *c);

/* A member, in no list, comes back from a worker and has to run again. True: not before
 * earlier rounds are over; then it waits in c->closures->waiting. */
bool coxi_round_takes_back(struct coxi_closure *closure);

/* The round is over. */
void coxi_round_note_pace(const struct coxi_round *round);

/* ---- the members */

/* An attempt of a member is done: it is STAGED. `touched`: the ps that its commits wait
 * on. */
struct coxi_staged {
    uint32_t attempt;
    float weight;
    bool ended; /* a ps said that it has the end of the round */
    const uint32_t *touched;
    size_t n_touched;
};
void coxi_round_stage(struct coxi_closure *closure, const struct coxi_staged *staged);

/* A member or an end is settled. */
void coxi_round_settled(struct coxi_closure *closure);

/* Looks at the rounds for which something has changed: decides, ends and fails them. */
void coxi_rounds_turn(struct cox_coordinator *c);

/* Lists the round for the next coxi_rounds_turn. */
void coxi_round_be_due(struct coxi_round *round);

/* ---- rounds that a ps may end itself (round.c, round_seal.c) */

/* An ending that waits, in round->postponed. */
struct coxi_postponed {
    struct coxi_postponed *next;
    struct coxi_closure *closure;
    struct coxi_ending ending;
    bool was_staged;
    char text[COXI_TEXT_MAX];
};

/* The closure, which is in no list, waits for an answer of the ps. */
void coxi_round_be_voiding(struct coxi_closure *closure);

/* True if a ps may end the round, as far as the client knows. */
bool coxi_round_is_owned(const struct coxi_round *round);

/*
 * True if the round must be sealed before it is decided, or before endings that wait.
 * _seal does it: it makes the round due. _go_on: endings need not wait, because the round
 * is applied, or the run is over.
 */
bool coxi_round_must_be_sealed(const struct coxi_round *round);
void coxi_round_seal(struct coxi_round *round);
void coxi_round_go_on(struct coxi_round *round);

/* Takes the ending of a closure (a member or an end), if it cannot end yet, or not in this
 * way. */
bool coxi_round_postpones(struct coxi_closure *closure,
                          const struct coxi_ending *ending);

/* ---- its end (round_end.c) */

/* Sends the end to the ps that lack it. When all have answered, the round is due.
 * COX_ENOMEM. */
int coxi_round_send(struct coxi_round *round);

/* True if some request is under way; if every ps has the end. */
bool coxi_round_is_sending(const struct coxi_round *round);
bool coxi_round_is_acked(const struct coxi_round *round);

/*
 * For recovery: _replayed: a member was run again for ps that have come back (loop).
 * _repeat: ends the round on ps p, where the members that have touched it wait again (not
 * on the loop; COX_EPSLOST, and errors of the ps).
 */
void coxi_round_replayed(const struct coxi_closure *closure, uint32_t attempt);
int coxi_round_repeat(struct cox_coordinator *c, const struct coxi_closure *end,
                      uint32_t p);

/* ---- deterministic rounds (round_pause.c) */

/*
 * _pause waits until no end of a deterministic round is on its way, and lets none be sent
 * until _go_on: a checkpoint of that time has the same rounds on all ps. Returns the
 * error of a run that ends meanwhile; call _go_on in any case. One thread at a time, not
 * the loop's.
 */
int coxi_rounds_pause(struct cox_coordinator *c);
void coxi_rounds_go_on(struct cox_coordinator *c);

/* True if the end of the round must wait for _go_on. Loop. */
bool coxi_round_is_paused(const struct coxi_round *round);

/* ---- sequences, and scheduling rounds (rounds.c). Any thread, unless noted */

/* A round that is to be scheduled. */
struct coxi_round_plan {
    struct cox_rounds *rounds;
    size_t n; /* members; at most COX_ROUND_MAX */
    uint32_t needed;
    /* Makes member i (schedule.h); `held`: the user will hold its future. */
    int (*make)(const struct coxi_round_plan *plan, size_t i, bool held,
                struct coxi_closure **ret);
    const void *arg;                        /* for `make` */
    const struct coxi_schedule_task *tasks; /* of the members; NULL: they have none */
    struct cox_future **futures;            /* as for cox_round_schedule */
    struct cox_future **ret_end;
};

/* COX_EINVAL: the sequence cannot have rounds of n members. `what`: the user's call. */
int coxi_round_check(const struct cox_rounds *rounds, const char *what, size_t n);

/* Errors: those of cox_round_schedule; then no member has its task. */
int coxi_round_schedule(const struct coxi_round_plan *plan);

/* The sequence with that id, which an older client has left; made if it is new.
 * COX_ENOMEM. */
int coxi_rounds_inherit(struct cox_coordinator *c, uint64_t id,
                        const struct cox_rounds_spec *spec, struct cox_rounds **ret);

/* Frees all sequences, when no future is left. */
void coxi_rounds_free_all(struct coxi_rounds_state *state);

/* Raises an id to the end of the open round in which it lies: a backlog has whole
 * rounds. Loop. */
uint64_t coxi_rounds_whole(struct cox_coordinator *c, uint64_t id);

/* The place of the first deterministic round above an id that _whole has returned: where
 * a program goes on that resumes from there. Loop. */
uint64_t coxi_rounds_next_place(struct cox_coordinator *c, uint64_t id);

#endif
