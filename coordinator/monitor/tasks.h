/* The task stream for those who watch a run (base/task_stream.h). Any thread. */
#ifndef COXI_COORDINATOR_MONITOR_TASKS_H
#define COXI_COORDINATOR_MONITOR_TASKS_H

#include "common/buffer.h"
#include "coordinator/coordinator.h"

/*
 * Appends what slots have run, since the call that returned `since` as "next" (0: all that
 * is kept), as a JSON object on one line:
 *
 *   {"at":1769860770123456,"tasks":[[3,0,0,30000000,1545,0]],
 *    "functions":["train"],"skipped":0,"next":812}
 *
 * "at": Unix time, us. A task: worker, slot, index in "functions", when it began (us after
 * "at"), how long it ran (us), and its outcome: 0 or COX_E.... Oldest report first; at most
 * 2000 a second and the last 30 s. "skipped": how many more there were, since the first
 * call. Nothing is recorded unless this was called in the 10 s before. A call tells at most
 * 20000: call again if "next" is less than it could be. COX_ENOMEM.
 */
int coxi_trace_tasks_json(struct cox_coordinator *c, uint64_t since,
                          struct coxi_buffer *out);

#endif
