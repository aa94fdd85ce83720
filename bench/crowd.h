/*
 * A crowd: thousands of workers, played by one process (`coxswain-bench --serve
 * crowd=N`). They greet, load every module at once, and answer every closure as done
 * the moment it arrives, or hold it if they are told to (until everything is recalled).
 *
 * Commands, one a line on its standard input; each is answered by one line:
 *   url I         the address of listener I, which has CROWD_PER_LISTENER workers
 *   ready N       waits until N workers have loaded their module
 *   hold N        from now on N workers answer nothing; the counts start again
 *   await N       waits until N closures are answered or held; answer: how many held
 *   touch N       from now on closures of rounds commit to ps 0 to N - 1, without updates
 *   lose N        closes N connections, those that hold first; answer: how many held
 *   ids FIRST N   for these closures: how many were never done, how many repeatedly
 */
#ifndef COXI_BENCH_CROWD_H
#define COXI_BENCH_CROWD_H

#include <stdint.h>

/* A listener's backlog in nng is 128, and a client may dial all workers at once. */
enum { CROWD_PER_LISTENER = 100, CROWD_IDS = 1 << 20 };

/* Plays n workers until standard input ends. */
void bench_serve_crowd(uint32_t n);

/* Runs parameter server `index` until standard input ends. Prints its address. */
void bench_serve_ps(uint32_t index);

#endif
