/* Shared by case `fanout` and its step. */
#ifndef COXI_BENCH_FAN_H
#define COXI_BENCH_FAN_H

enum { FAN_PS_MAX = 64 }; /* most elements of "fanned" */

#endif
