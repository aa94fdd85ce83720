/* Shared by the files of checkpoint/checkpoint. */
#ifndef COXI_CHECKPOINT_CHECKPOINT_INTERNAL_H
#define COXI_CHECKPOINT_CHECKPOINT_INTERNAL_H

#include "checkpoint/chain.h"
#include "checkpoint/checkpoint.h"

/* The state of opening a checkpoint. */
struct coxi_opening {
    struct coxi_checkpoint *checkpoint;
    struct coxi_chain chain; /* the first link's manifest is the checkpoint's */
    enum coxi_checkpoint_depth depth;
    /* NULL: the first fault ends the opening */
    void (*fault)(void *arg, const char *text);
    void *arg;
    int code; /* of the first fault */
};

/* Records a fault, whose text is the error text. 0: opening goes on. */
int coxi_opening_fault(struct coxi_opening *opening, int code);

/* Puts the tensors of each variable together from the shards, which must all be
 * open. */
int coxi_checkpoint_join(struct coxi_opening *opening);

#endif
