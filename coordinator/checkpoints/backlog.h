/* The part of a checkpoint that a restarted client needs: where to resume, and which
 * work to do first. resume.h reads it. */
#ifndef COXI_COORDINATOR_CHECKPOINTS_BACKLOG_H
#define COXI_COORDINATOR_CHECKPOINTS_BACKLOG_H

struct cox_coordinator;
struct coxi_manifest;
struct coxi_recovery_mark; /* recovery.h */

/*
 * Call it when all ps have answered: stores in the manifest where a restarted client
 * resumes, and writes the work it must do first to a file in directory `dir`. Any
 * thread but the loop. COX_EIO, COX_ENOMEM; the error of the run if it has ended.
 */
int coxi_backlog_collect(struct cox_coordinator *c, const char *dir,
                         const struct coxi_recovery_mark *mark,
                         struct coxi_manifest *manifest);

#endif
