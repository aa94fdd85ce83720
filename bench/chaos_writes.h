/* With --assigns: the client of a storm writes variables itself, while its steps
 * run. */
#ifndef COXI_BENCH_CHAOS_WRITES_H
#define COXI_BENCH_CHAOS_WRITES_H

struct chaos_client;
struct chaos_writes;

/* Attaches to the variables, or creates them; checks what they hold now. NULL: no
 * --assigns. */
int chaos_writes_open(struct chaos_client *client, struct chaos_writes **ret);

/* Starts writing. NULL: does nothing. */
int chaos_writes_start(struct chaos_writes *writes);

/* Stops writing, and checks everything once more. NULL: does nothing. */
void chaos_writes_stop(struct chaos_writes *writes);

void chaos_writes_free(struct chaos_writes *writes); /* takes NULL */

#endif
