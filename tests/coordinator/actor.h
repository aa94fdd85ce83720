/* A fake worker of a yard's client that commits, too. */
#ifndef COXI_TESTS_COORDINATOR_ACTOR_H
#define COXI_TESTS_COORDINATOR_ACTOR_H

#include "tests/coordinator/fake_worker.h"

struct actor {
    struct caller *client;
    struct caller *ps;
    struct coxi_session session;
    uint64_t incarnation; /* of the ps */
};

/* Dials as process `incarnation` of worker anna, and is ready; and is lost. */
void actor_enter(struct actor *actor, struct yard *yard, uint64_t incarnation);
void actor_leave(struct actor *actor);

/* The yard's ps has been started again, and the client has brought it back. */
void actor_follow(struct actor *actor, const struct yard *yard);

/* The one closure that the client has for it. */
struct coxi_closure_head actor_take(struct actor *actor);

/* Commits what the closure has for the yard's ps, 1 for c0, as its last segment, which says
 * that it touched `n_touched` ps: at most 2, of which there is one. */
void actor_commit(struct actor *actor, const struct coxi_closure_head *head,
                  size_t n_touched);

/* Commits, and reports that the closure is done and returned nothing. */
void actor_finish(struct actor *actor, const struct coxi_closure_head *head);

/* Reports that the closure is done, on the yard's ps, whatever that has of it; what it
 * returned stays here. */
void actor_keep(struct actor *actor, const struct coxi_closure_head *head);

#endif
