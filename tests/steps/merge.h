/* What the step `batches` does with its batches. */
#ifndef COXI_TESTS_STEPS_MERGE_H
#define COXI_TESTS_STEPS_MERGE_H

enum merge_mode { MERGE_PUSH = 0, MERGE_ACCUMULATE = 1, MERGE_LOCAL = 2 };

#endif
