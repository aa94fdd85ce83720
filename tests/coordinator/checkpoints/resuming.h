/* Helpers of tests in which clients resume from a checkpoint. */
#ifndef COXI_TESTS_COORDINATOR_CHECKPOINTS_RESUMING_H
#define COXI_TESTS_COORDINATOR_CHECKPOINTS_RESUMING_H

#include <stdint.h>

#include "tests/coordinator/crew.h"

/* The number of ps of these clients: counter c0 is on ps 0, c1 on ps 1. */
enum { RESUMING_PS = 2 };

/* The options of a client whose checkpoints are in `dir`. */
struct cox_options resuming_options(const char *dir);

struct cox_progress resuming_progress(const struct crew *crew);

/* Schedules `count` calls of `function` with the argument n, and with the cursors from
 * `first` on. */
void resuming_schedule(struct crew *crew, const char *function, int64_t n,
                       uint64_t first, uint64_t count);

#endif
