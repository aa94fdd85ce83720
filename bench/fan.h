/* What case `fanout` and its step agree on. */
#ifndef COXI_BENCH_FAN_H
#define COXI_BENCH_FAN_H

enum { FAN_PS_MAX = 64 }; /* elements of "fanned", at most */

#endif
