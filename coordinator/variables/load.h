/*
 * Warm start: loads parts of a checkpoint of any run into variables of this one.
 *
 *   load.c         cox_checkpoint_load: what is loaded from where
 *   load_send.c    sends it from the checkpoint to the ps, piece by piece
 *
 * A loading is numbered like a closure. It is kept in the replay log, so that a ps that
 * is lost later gets it again.
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
    bool state;                     /* also optimizer state and lives of rows */
};

struct coxi_loading {
    /* one each for the call, the log, and a replay, which may outlive the log's */
    atomic_int refs;
    char *path;             /* ".../ckpt-3", absolute */
    struct coxi_hold *hold; /* nobody deletes the checkpoint meanwhile */
    struct coxi_load_item *items;
    size_t n_items;
};

void coxi_loading_ref(struct coxi_loading *loading);
void coxi_loading_unref(struct coxi_loading *loading); /* takes NULL */

/* Bytes for which it counts in the replay log. */
uint64_t coxi_loading_bytes(const struct coxi_loading *loading);

/* True if ps `ps` holds a part of what is loaded. */
bool coxi_loading_is_part(const struct coxi_loading *loading, uint32_t ps);

/* Loads it again into ps `ps` alone. Any thread; blocks. COX_EPSLOST, and errors that
 * keep the checkpoint from being read. */
int coxi_loading_repeat(struct cox_coordinator *c, const struct coxi_loading *loading,
                        struct coxi_closure_id closure, uint32_t ps);

/* ---- load_send.c */

/* An array in the checkpoint that has an item for each row of a variable. */
struct coxi_load_array {
    const struct coxi_whole *whole;
    size_t row_bytes;
    bool counts; /* counts of updates by the checkpoint's ps, which may differ */
};

enum { COXI_LOAD_ARRAYS_MAX = 8 };

/* Everything that is loaded of a variable, in the order of the message. */
struct coxi_load_source {
    struct coxi_load_array arrays[COXI_LOAD_ARRAYS_MAX];
    size_t n_arrays;
    const struct coxi_whole *step; /* NULL: without state */
    uint64_t step_max;
    uint64_t rows;
    uint64_t bytes;
    bool life;
};

/* Finds the source of a variable; false: the requested state is not complete. */
bool coxi_load_source_find(const struct coxi_checkpoint *checkpoint,
                           const struct coxi_variable *from, bool state,
                           struct coxi_load_source *ret);

/* The destination of pieces. A ps that is of another incarnation by then refuses
 * them. */
struct coxi_load_target {
    struct cox_coordinator *c;
    struct coxi_closure_id closure;
    uint32_t only_ps;             /* COXI_LOAD_ALL_PS: all that hold a part */
    const uint64_t *incarnations; /* of the ps, borrowed */
    bool *took;                   /* by ps: set if it takes a piece; or NULL */
    void (*on_progress)(void *arg, uint64_t bytes, uint64_t bytes_all); /* or NULL */
    void *arg;
};

#define COXI_LOAD_ALL_PS UINT32_MAX

/* Sends every piece, then an end marker. Blocks. COX_EPSLOST, COX_ENOMEM. */
int coxi_loading_send(const struct coxi_loading *loading,
                      const struct coxi_checkpoint *checkpoint,
                      const struct coxi_load_target *target);

#endif
