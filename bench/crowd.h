/*
 * A crowd: thousands of workers that one process plays (`coxswain-bench --serve
 * crowd=N`). They greet, load every module at once, and answer every closure as done the
 * moment it arrives, or hold it when they are told to (until all is recalled).
 *
 * Commands, one a line on its standard input, each answered by one line:
 *   url I         where its I-th listener is; CROWD_PER_LISTENER workers belong to each
 *   ready N       waits until N workers have loaded their module
 *   hold N        from now on N of them answer nothing; counts begin anew
 *   await N       waits until N closures are answered or held: how many are held
 *   lose N        closes N connections, those that hold first: how many are held there
 *   ids FIRST N   of those closures, how many were never done, and how many repeatedly
 */
#ifndef COXI_BENCH_CROWD_H
#define COXI_BENCH_CROWD_H

#include <stdint.h>

/* A listener's backlog in nng is 128, and a client may dial all workers at once. */
enum { CROWD_PER_LISTENER = 100, CROWD_IDS = 1 << 20 };

/* Plays n workers until standard input ends. */
void bench_serve_crowd(uint32_t n);

/* Parameter server `index`, until standard input ends. Prints its address. */
void bench_serve_ps(uint32_t index);

#endif
