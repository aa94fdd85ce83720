/* How far a run is, for those who watch it. */
#ifndef COXI_COORDINATOR_MONITOR_PROGRESS_H
#define COXI_COORDINATOR_MONITOR_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"

struct cox_coordinator;

enum { COXI_PROGRESS_SECONDS = 30 };

/* How many closures were settled at the last looks, one a second. Zeroed: no look. */
struct coxi_progress_pace {
    uint64_t ms[COXI_PROGRESS_SECONDS];
    uint64_t settled[COXI_PROGRESS_SECONDS];
    size_t n; /* looks, also those that are forgotten */
};

/*
 * Notes a look. Returns how many seconds the remaining closures will take at the pace of
 * the last looks; -1: not known.
 */
double coxi_progress_eta_s(struct coxi_progress_pace *pace, uint64_t now_ms,
                           uint64_t settled, uint64_t total);

/*
 * Appends ,"total":N,"eta_s":X if the program has said how many closures there will be
 * (cox_log_total), of which `settled` are. Then appends ,"data":{"done":N,"total":N,
 * "records":N,"records_rate":X,"eta_s":X,"epoch":N,"epochs":N} of all data sets together,
 * in tasks of all epochs; nothing if there is no data set. What is not known is left out:
 * `eta_s`, `total` of endless data, `epoch` and `epochs` of several data sets. Once a
 * second, on one thread, without a lock. COX_ENOMEM.
 */
int coxi_progress_json(struct cox_coordinator *c, struct coxi_progress_pace *pace,
                       uint64_t settled, struct coxi_buffer *out);

#endif
