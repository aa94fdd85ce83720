/* The steps of a storm in rounds (--mode). The client's thread. */
#ifndef COXI_BENCH_CHAOS_ROUNDS_H
#define COXI_BENCH_CHAOS_ROUNDS_H

#include <stddef.h>
#include <stdint.h>

struct chaos_client;
struct chaos_rounds;
struct cox_call;
struct cox_dataset;
struct cox_function;
struct cox_future;

/* How many steps are scheduled together: those of a round, or 1. */
uint64_t chaos_rounds_size(const struct chaos_client *client);

/* Creates a sequence of rounds, and a variable on each ps to which each step of a round
 * adds 1, as a gradient; *ret is NULL without --mode. Notes errors; returns 0 or -1. */
int chaos_rounds_open(struct chaos_client *client, struct chaos_rounds **ret);
void chaos_rounds_free(struct chaos_rounds *rounds); /* takes NULL */

/* Adds to the plan of step `number` in which round it is, and what it must see. Without
 * rounds: that it is in none. */
void chaos_rounds_plan(const struct chaos_client *client, uint64_t number,
                       int64_t *plan);

/* Schedules a round, or without --mode a step. `futures`: NULL, or receives them. */
int chaos_rounds_schedule(struct chaos_client *client, struct cox_call *const *calls,
                          size_t n, struct cox_future **futures);

/* Schedules a round, or without --mode a step, with the next tasks. Returns the library's
 * code. */
int chaos_rounds_schedule_next(struct chaos_client *client,
                               struct cox_function *function,
                               struct cox_dataset *records,
                               const struct cox_call *call);

/* Notes it if the variables are not what the steps add up to. */
void chaos_rounds_check(struct chaos_client *client);

#endif
