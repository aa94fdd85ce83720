/* Checks what a storm's steps have added up to. */
#ifndef COXI_BENCH_CHAOS_CHECK_H
#define COXI_BENCH_CHAOS_CHECK_H

#include <stdbool.h>

struct chaos_client;

/* Reads counters, tables and statistics into the result; compares them only if every
 * step was run (`complete`). */
void chaos_check_end(struct chaos_client *client, bool complete);

/* Adds to the journal the increase of this client's statistics since the last call. One
 * thread at a time. */
void chaos_count_stats(struct chaos_client *client);

#endif
