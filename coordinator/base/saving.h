/* The state of the checkpoints that this client writes
 * (coordinator/checkpoints/save.h). */
#ifndef COXI_COORDINATOR_BASE_SAVING_H
#define COXI_COORDINATOR_BASE_SAVING_H

#include <stdatomic.h>
#include <stdint.h>

#include "checkpoint/checkpoints.h"
#include "common/sync.h"
#include "coxswain/coxswain.h"

struct coxi_resumed; /* checkpoints/resume_internal.h */
struct coxi_trigger; /* checkpoints/trigger.h */

enum { COXI_SAVING_TEXT_MAX = 512 };

struct coxi_saving {
    char *dir;                    /* the checkpoint directory; NULL: none */
    struct coxi_trigger *trigger; /* from open to close */
    struct cox_progress started;  /* where this client has continued the run */
    struct coxi_resumed *resumed; /* work that an older client has left; NULL: none */

    /*
     * Held while a checkpoint is written, or while another run's checkpoint is loaded.
     * So a checkpoint has everything that was loaded, or nothing of it. Comes before
     * c->lock. Guards the next five fields.
     */
    struct coxi_mutex lock;
    /* the failures since a checkpoint was last saved; zeroed: none has failed */
    struct coxi_patience fails;
    uint64_t number; /* the highest number in use */
    /* The last complete checkpoint of this client, on which the next one may build; 0:
     * none. Ps may be restored from an older one: see coxi_recovery_base. */
    uint64_t last;
    uint32_t n_built; /* checkpoints since a whole one; each builds on the one before */
    struct coxi_known_base bases[COXI_KNOWN_BASES];

    /* Shards go through the client (checkpoint_via); set before ps are claimed. */
    bool via_client;
    atomic_uint_least64_t n_carries; /* so many carries were begun */

    /* set: the threads that read or write checkpoints must not wait for the disk, or the
     * store, any longer */
    atomic_bool leaves_disk;

    int code; /* of the last triggered checkpoint; guarded by c->lock, as is `text` */
    char text[COXI_SAVING_TEXT_MAX];
};

#endif
