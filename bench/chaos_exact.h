/* A model that deterministic rounds of a storm train (--deterministic): at its end it must
 * have the same bits as in a calm run. The client's thread. */
#ifndef COXI_BENCH_CHAOS_EXACT_H
#define COXI_BENCH_CHAOS_EXACT_H

struct chaos_client;

/* Creates the model (chaos.h); does nothing without --deterministic. Returns the code of
 * the call that has failed, or 0. */
int chaos_exact_create(struct chaos_client *client);

/* Sets the result's checksum to that of the model. Notes errors. */
void chaos_exact_sum(struct chaos_client *client);

#endif
