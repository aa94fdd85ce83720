/* A fake worker of a yard's client that also commits. */
#ifndef COXI_TESTS_COORDINATOR_ACTOR_H
#define COXI_TESTS_COORDINATOR_ACTOR_H

#include "tests/coordinator/fake_worker.h"

struct actor {
    struct caller *client;
    struct caller *ps;
    struct coxi_session session;
    uint64_t incarnation; /* of the ps */
};

/* _enter: dials as process `incarnation` of worker anna and becomes ready. _leave:
 * closes the connection, so that the client loses it. */
void actor_enter(struct actor *actor, struct yard *yard, uint64_t incarnation);
void actor_leave(struct actor *actor);

/* Follows the yard's ps, which was started again and which the client has restored. */
void actor_follow(struct actor *actor, const struct yard *yard);

/* Takes the only closure that the client has for it. */
struct coxi_closure_head actor_take(struct actor *actor);

/*
 * Commits the closure's last segment, which adds 1 to c0, on the yard's ps. The segment
 * claims to have touched `n_touched` ps: at most 2, although there is only one.
 */
void actor_commit(struct actor *actor, const struct coxi_closure_head *head,
                  size_t n_touched);

/* Commits, and reports that the closure is done and returned nothing. */
void actor_finish(struct actor *actor, const struct coxi_closure_head *head);

/* Reports that the closure is done and has touched the yard's ps, even if it has not,
 * and that the worker keeps the closure's result. */
void actor_keep(struct actor *actor, const struct coxi_closure_head *head);

#endif
