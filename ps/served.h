/*
 * The clients that a ps has served: the newest one of each run, even after it has
 * released the ps or another run's client has taken it. So when an older client comes
 * back, the ps refuses it; when the same one comes back, it learns that it must restore
 * the ps (docs/exactly-once.md, rule 24).
 *
 * A zeroed struct with an initialized lock has served nobody. Threads: any. Cost: each
 * call looks at all runs, a few dozen at most. If there are too many, the run that was
 * served longest ago is forgotten; after that only its checkpoint directory knows its
 * generation.
 */
#ifndef COXI_PS_SERVED_H
#define COXI_PS_SERVED_H

#include <stddef.h>

#include "common/sync.h"
#include "schema/wire.h"

enum { COXI_SERVED_MAX = 64 };

struct coxi_served {
    struct coxi_mutex lock; /* leaf */
    /* the one served longest ago first */
    struct coxi_session clients[COXI_SERVED_MAX] COXI_GUARDED_BY(lock);
    size_t n COXI_GUARDED_BY(lock);
};

void coxi_served_init(struct coxi_served *served);
void coxi_served_fini(struct coxi_served *served);

/* COX_EFENCED: the ps has served a newer client of the session's run, or another client
 * with the same generation. */
int coxi_served_check(struct coxi_served *served, const struct coxi_session *session,
                      uint32_t ps_index);

/* Notes the session's client as the newest one of its run. False: the ps had served
 * nobody before. */
bool coxi_served_note(struct coxi_served *served, const struct coxi_session *session);

#endif
