/* Shared by `train`'s measurements of data sets (train_data.c) and their steps
 * (batch_steps.c). */
#ifndef COXI_BENCH_BATCH_STEPS_H
#define COXI_BENCH_BATCH_STEPS_H

enum { BATCH_ROWS = 64 };

/* The resource: the rows of the file of argument "path" (U8 vector), as batches. */
#define BATCH_KEPT "kept"

#endif
