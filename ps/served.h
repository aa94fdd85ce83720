/*
 * Whom a ps has served: of each run the newest client, also when that has let go of the ps, or
 * another run's has had it since. So an older client that comes back is told that it is one,
 * and the same one that it has to give the ps everything anew (docs/exactly-once.md, rule 24).
 *
 * A zeroed struct with its lock has served nobody. Threads: any. Cost: a look at each of the
 * runs, a few dozen at most: the one that was served longest ago is forgotten first, and known
 * by its checkpoint directory alone then.
 */
#ifndef COXI_PS_SERVED_H
#define COXI_PS_SERVED_H

#include <pthread.h>
#include <stddef.h>

#include "schema/wire.h"

enum { COXI_SERVED_MAX = 64 };

struct coxi_served {
    pthread_mutex_t lock;                         /* guards the rest; leaf */
    struct coxi_session clients[COXI_SERVED_MAX]; /* longest ago first */
    size_t n;
};

void coxi_served_init(struct coxi_served *served);
void coxi_served_fini(struct coxi_served *served);

/* COX_EFENCED: a newer client of its run has been here, or another of its generation. */
int coxi_served_check(struct coxi_served *served, const struct coxi_session *session,
                      uint32_t ps_index);

/* From now on it is the newest client of its run. False: nobody has been served before. */
bool coxi_served_note(struct coxi_served *served, const struct coxi_session *session);

#endif
