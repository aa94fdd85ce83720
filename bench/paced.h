/*
 * Requests at a steady pace, each when it is due whatever has become of the others, and how
 * long after that each was answered. One of these at a time.
 */
#ifndef COXI_BENCH_PACED_H
#define COXI_BENCH_PACED_H

#include "bench/bench.h"
#include "bench/raw.h"

enum { PACED_PER_SECOND = 2000 };

/* Begins a stretch of so many seconds. */
void paced_begin(double seconds);

/* Asks for all of them; then the p99 (`value`) and the median, once all are answered. */
void paced_ask(void (*ask)(void *arg), void *arg);
struct bench_sample paced_end(void);

/* The next one is answered; `arg` is not used. True of the second while there are more. */
void paced_answered(void *arg);
bool paced_awaits(void);

/* Asks raw sockets for all of them, while another thread takes the answers. */
void paced_ask_raw(struct raw *raw);

#endif
