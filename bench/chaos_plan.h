/* What each step of a storm does. That depends only on its number and the seed, so every
 * client of a run, whenever it was started, knows what all steps add up to. Any
 * thread. */
#ifndef COXI_BENCH_CHAOS_PLAN_H
#define COXI_BENCH_CHAOS_PLAN_H

#include "bench/chaos_client.h"

/* Of the steps whose results are kept (chaos_plan_keeps): the remainder of their numbers by 8. */
enum { CHAOS_KEEP_AT = 3 };

/* With --speculate steps come in bursts; the last step of each straggles, while workers
 * have nothing else to do. */
bool chaos_plan_ends_burst(const struct chaos_client *client, uint64_t number);

/* True if the step's result stays on its worker. */
bool chaos_plan_keeps(const struct chaos_client *client, uint64_t number);

void chaos_plan(const struct chaos_client *client, uint64_t number,
                int64_t plan[CHAOS_PLAN]);

/* A step's call, with all that it refers to; without inputs. */
struct chaos_planned {
    int64_t plan[CHAOS_PLAN];
    struct cox_value arg;
    struct cox_input input;
    struct cox_call call;
};

void chaos_plan_call(const struct chaos_client *client, uint64_t number,
                     struct chaos_planned *ret);

#endif
