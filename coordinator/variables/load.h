/*
 * Warm start: parts of a checkpoint of any run go into variables of this one.
 *
 *   load.c         cox_checkpoint_load: what is loaded from where
 *   load_send.c    from the checkpoint to the ps, piece by piece
 *
 * A loading is numbered like a closure. It is kept in the replay log, so that a ps that is
 * lost later gets it again.
 */
#ifndef COXI_COORDINATOR_VARIABLES_LOAD_H
#define COXI_COORDINATOR_VARIABLES_LOAD_H

#include <stdatomic.h>

#include "checkpoint/checkpoint.h"
#include "common/layout.h"
#include "coordinator/coordinator.h"

struct coxi_load_item {
    const struct coxi_variable *to; /* lives until close */
    char *from;                     /* its name in the checkpoint */
    bool state;                     /* optimizer and all */
};

struct coxi_loading {
    atomic_int refs; /* the call's, the log's, and a replay's while the log forgets */
    char *path;      /* ".../ckpt-3", absolute */
    int lock;        /* a descriptor: until it is closed nobody deletes that */
    struct coxi_load_item *items;
    size_t n_items;
};

void coxi_loading_ref(struct coxi_loading *loading);
void coxi_loading_unref(struct coxi_loading *loading); /* takes NULL */

/* What the replay log counts for it. */
uint64_t coxi_loading_bytes(const struct coxi_loading *loading);

/* True where ps `ps` holds a part of what is loaded. */
bool coxi_loading_is_part(const struct coxi_loading *loading, uint32_t ps);

/* Loads it again into ps `ps` alone. Any thread; blocks. COX_EPSLOST, and what keeps the
 * checkpoint from being read. */
int coxi_loading_repeat(struct cox_coordinator *c, const struct coxi_loading *loading,
                        uint64_t closure, uint32_t ps);

/* ---- load_send.c */

/* An array of what the checkpoint has of each row of a variable. */
struct coxi_load_array {
    const struct coxi_whole *whole;
    size_t row_bytes;
    bool counts; /* updates, as each ps of the checkpoint has counted them */
};

enum { COXI_LOAD_ARRAYS_MAX = 8 };

/* All that is loaded of a variable, in the order of the message. */
struct coxi_load_source {
    struct coxi_load_array arrays[COXI_LOAD_ARRAYS_MAX];
    size_t n_arrays;
    const struct coxi_whole *step; /* NULL: without state */
    uint64_t step_max;
    uint64_t rows;
    uint64_t bytes;
    bool life;
};

/* Finds it; false: the state that is asked for is not all there. */
bool coxi_load_source_find(const struct coxi_checkpoint *checkpoint,
                           const struct coxi_variable *from, bool state,
                           struct coxi_load_source *ret);

/* Where the pieces go. A ps that is another by then refuses them. */
struct coxi_load_target {
    struct cox_coordinator *c;
    uint64_t closure;
    uint32_t only_ps;             /* COXI_LOAD_ALL_PS: to all that hold a part */
    const uint64_t *incarnations; /* of the ps, borrowed */
    bool *took;                   /* by ps: set for those that take a piece; or NULL */
    void (*on_progress)(void *arg, uint64_t bytes, uint64_t bytes_all); /* or NULL */
    void *arg;
};

#define COXI_LOAD_ALL_PS UINT32_MAX

/* Sends all of it, and then that this was all. Blocks. COX_EPSLOST, COX_ENOMEM. */
int coxi_loading_send(const struct coxi_loading *loading,
                      const struct coxi_checkpoint *checkpoint,
                      const struct coxi_load_target *target);

#endif
