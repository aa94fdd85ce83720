/* How far the data sets of a run are, for those who watch it. */
#ifndef COXI_COORDINATOR_MONITOR_PROGRESS_H
#define COXI_COORDINATOR_MONITOR_PROGRESS_H

#include "common/buffer.h"

struct cox_coordinator;

/*
 * Appends ,"data":{"done":N,"total":N,"records":N,"records_rate":X,"eta_s":X,"epoch":N,
 * "epochs":N} of all data sets together, in tasks of all epochs; nothing if there is no
 * data set. What is not known is left out: `total` and `eta_s` of endless data, `epoch` and
 * `epochs` of several data sets. Any thread, without a lock. COX_ENOMEM.
 */
int coxi_progress_json(struct cox_coordinator *c, struct coxi_buffer *out);

#endif
