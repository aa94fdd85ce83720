/*
 * Whose a checkpoint directory is: the run, and how often its client has been started. Each
 * start claims the next generation by a file that only one process can make,
 *
 *   <dir>/generation-<n>    {"run": "<16 hex digits>", "token": "<16 hex digits>"}
 *
 * and the files of older ones go. Any thread; all functions block.
 */
#ifndef COXI_CHECKPOINT_GENERATION_H
#define COXI_CHECKPOINT_GENERATION_H

#include "schema/wire.h"

/*
 * Claims the directory: *session has the token, and gets the run and generation. A directory
 * that nobody has claimed gets the run of its newest checkpoint, or else the one that *session
 * has. COX_EFENCED: others claim it, too, again and again; COX_EFORMAT: a file says nothing of
 * the kind; COX_EIO.
 */
int coxi_generation_claim(const char *dir, struct coxi_session *session);

/* 0 while the claim is the newest. COX_EFENCED: another client has claimed the directory
 * since; COX_EIO. */
int coxi_generation_check(const char *dir, const struct coxi_session *session);

#endif
