/*
 * Holds: they keep the pruner from deleting a checkpoint that somebody reads.
 *
 * In a directory, a hold is a shared lock on the manifest (an open file description lock of
 * fcntl), which the pruner takes exclusively, without waiting, before it deletes.
 *
 * A store has no locks. There a hold is an object of its own, `readers/ckpt-<n>-<token>`, a
 * mark, which a thread writes again every COXI_HOLD_AGAIN_S, and which counts for
 * COXI_HOLD_S by the store's clock. The reader makes its mark and then looks whether the
 * checkpoint is there; the pruner takes the checkpoint back to a draft
 * (checkpoint/draft.h) and then looks for marks. So one of them sees the other. A process
 * that stands still for longer loses its hold: its reads then fail. A reader whose credentials
 * may not write makes no mark, and reads without a hold.
 *
 * Threads: any. All functions block.
 */
#ifndef COXI_CHECKPOINT_HOLD_H
#define COXI_CHECKPOINT_HOLD_H

#include <stdbool.h>
#include <stdint.h>

enum { COXI_HOLD_S = 90, COXI_HOLD_AGAIN_S = 20 };

struct coxi_hold;

/*
 * Keeps the pruner from deleting the checkpoint `path` (".../ckpt-3") until the hold is
 * released. COX_ENOENT: there is no such checkpoint, or it is being deleted; COX_EIO,
 * COX_ENOMEM.
 */
int coxi_hold_take(const char *path, struct coxi_hold **ret);

/* The same for those who only read: if their credentials may not write the mark, they get
 * a hold that holds nothing. coxi_hold_protects: false for such a hold. */
int coxi_hold_try(const char *path, struct coxi_hold **ret);
bool coxi_hold_protects(const struct coxi_hold *hold);

/* Takes NULL. In a store this takes up to a second if the store does not answer. */
void coxi_hold_release(struct coxi_hold *hold);

/* True while somebody holds the checkpoint `path`. */
bool coxi_hold_is_taken(const char *path);

/* In a store: removes the marks of processes that have died. */
void coxi_hold_forget_dead(const char *dir);

#endif
