/*
 * The owner of a checkpoint directory: a run, and the generation of its client, which
 * counts the client's starts. Each start claims the next generation by a file that only
 * one process can create,
 *
 *   <dir>/generation-<n>    {"run": "<16 hex digits>", "token": "<16 hex digits>"}
 *
 * and removes the files of older generations. Any thread; all functions block.
 */
#ifndef COXI_CHECKPOINT_GENERATION_H
#define COXI_CHECKPOINT_GENERATION_H

#include "schema/wire.h"

/*
 * Claims the directory. *session has the token, and gets the run and the generation. If
 * nobody has claimed the directory before, the run is that of its newest checkpoint; if
 * there is none, *session keeps its run. COX_EFENCED: other clients claim the directory
 * at the same time, again and again, or one has claimed it since; COX_EFORMAT: a generation file is malformed;
 * COX_EIO.
 */
int coxi_generation_claim(const char *dir, struct coxi_session *session);

/* 0 if the claim is still the newest. COX_EFENCED: another client has claimed the
 * directory since then; COX_EIO. */
int coxi_generation_check(const char *dir, const struct coxi_session *session);

#endif
