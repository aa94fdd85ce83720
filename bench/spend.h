/* The elements of "spent", the result of step `spend`, I64. */
#ifndef COXI_BENCH_SPEND_H
#define COXI_BENCH_SPEND_H

enum { SPEND_STARTED_NS, SPEND_ATTEMPT, SPEND_WORKER, SPEND_RESULT };

#endif
