/* What is known of the checkpoints that this client writes (coordinator/checkpoints/save.h). */
#ifndef COXI_COORDINATOR_BASE_SAVING_H
#define COXI_COORDINATOR_BASE_SAVING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "checkpoint/checkpoints.h"
#include "common/patience.h"
#include "coxswain/coxswain.h"

struct coxi_resumed; /* checkpoints/resume_internal.h */
struct coxi_trigger; /* checkpoints/trigger.h */

enum { COXI_SAVING_TEXT_MAX = 512 };

struct coxi_saving {
    char *dir;                    /* the checkpoint directory; NULL: none */
    struct coxi_trigger *trigger; /* from open to close */
    struct cox_progress started;  /* from where the client went on */
    struct coxi_resumed *resumed; /* what an older client has left; NULL: nothing */

    /* Held while one is written, or while another run's is loaded: each has all of a loading or
     * nothing. Comes before c->lock. Guards the next five. */
    pthread_mutex_t lock;
    struct coxi_patience fails; /* since the last that was saved; zeroed: none */
    uint64_t number;            /* the highest that is used */
    /* This client's last that is complete, on which the next may build; 0: none. What ps are
     * restored from may be an older one: see coxi_recovery_base. */
    uint64_t last;
    uint32_t n_built; /* since a whole one: each builds on the one before */
    struct coxi_known_base bases[COXI_KNOWN_BASES];

    atomic_bool leaves_disk; /* who writes one waits for the disk no longer */

    int code; /* of the last one that a trigger wrote; guarded by c->lock */
    char text[COXI_SAVING_TEXT_MAX];
};

#endif
