/* Requests at a steady pace: each is sent when it is due, even if others are
 * unanswered, and its answer is timed from then. One series at a time. */
#ifndef COXI_BENCH_PACED_H
#define COXI_BENCH_PACED_H

#include "bench/bench.h"
#include "bench/raw.h"

enum { PACED_PER_SECOND = 2000 };

/* Begins a series of `seconds` seconds. */
void paced_begin(double seconds);

/* Sends all requests. paced_end: once all are answered, their p99 (`value`) and
 * median. */
void paced_ask(void (*ask)(void *arg), void *arg);
struct bench_sample paced_end(void);

/* Notes that the next request was answered; `arg` is not used. paced_awaits: true while
 * answers are missing. */
void paced_answered(void *arg);
bool paced_awaits(void);

/* Sends all requests over raw sockets, while another thread receives the answers. */
void paced_ask_raw(struct raw *raw);

#endif
