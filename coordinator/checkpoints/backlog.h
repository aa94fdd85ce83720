/* What a checkpoint says for a client that is started again, which resume.h takes up. */
#ifndef COXI_COORDINATOR_CHECKPOINTS_BACKLOG_H
#define COXI_COORDINATOR_CHECKPOINTS_BACKLOG_H

struct cox_coordinator;
struct coxi_manifest;
struct coxi_recovery_mark; /* recovery.h */

/*
 * All ps have answered: says in the manifest where a client that is started again is to go on,
 * and writes what it has to see to before that to a file in directory `dir`. Any thread but
 * the loop. COX_EIO, COX_ENOMEM.
 */
int coxi_backlog_collect(struct cox_coordinator *c, const char *dir,
                         const struct coxi_recovery_mark *mark,
                         struct coxi_manifest *manifest);

#endif
