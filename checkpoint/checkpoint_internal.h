/* What the files of checkpoint/checkpoint share. */
#ifndef COXI_CHECKPOINT_CHECKPOINT_INTERNAL_H
#define COXI_CHECKPOINT_CHECKPOINT_INTERNAL_H

#include "checkpoint/chain.h"
#include "checkpoint/checkpoint.h"

/* Opening, as far as it has come. */
struct coxi_opening {
    struct coxi_checkpoint *checkpoint;
    struct coxi_chain chain; /* the first link's manifest is the checkpoint's */
    enum coxi_checkpoint_depth depth;
    void (*fault)(void *arg, const char *text); /* NULL: it ends at the first one */
    void *arg;
    int code; /* of the first fault */
};

/* Takes down a fault, whose text is the error text: 0 where opening goes on. */
int coxi_opening_fault(struct coxi_opening *opening, int code);

/* Puts together what the shards, all of which are open, hold of each variable. */
int coxi_checkpoint_join(struct coxi_opening *opening);

#endif
