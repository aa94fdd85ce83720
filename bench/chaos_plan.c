/* See chaos_plan.h. */
#include "bench/chaos_plan.h"

#include "bench/chaos_resources.h"
#include "bench/chaos_rounds.h"
#include "common/rand.h"

enum {
    /* steps; with --speculate they are joined before the next burst */
    BURST = 250,
    STRAGGLE_US = 150000, /* up to twice that */
    KEEP_EVERY = 8,       /* every KEEP_EVERY-th step has its result kept: ... */
    TAKE_AFTER = 4,       /* ... and the step this much later takes it */
};

bool chaos_plan_ends_burst(const struct chaos_client *client, uint64_t number)
{
    return client->config->speculate && number % BURST == BURST - 1;
}

bool chaos_plan_keeps(const struct chaos_client *client, uint64_t number)
{
    return client->config->keep && number % KEEP_EVERY == CHAOS_KEEP_AT;
}

/* True if the step takes the result of an earlier one, which is in no later round. */
static bool takes(const struct chaos_client *client, uint64_t number)
{
    uint64_t size = chaos_rounds_size(client);
    return number >= TAKE_AFTER && chaos_plan_keeps(client, number - TAKE_AFTER) &&
           (number - TAKE_AFTER) / size < number / size;
}

void chaos_plan(const struct chaos_client *client, uint64_t number,
                int64_t plan[CHAOS_PLAN])
{
    const struct chaos_config *config = client->config;
    uint64_t n_subsets = (UINT64_C(1) << config->ps) - 1;
    uint64_t state = (uint64_t)config->seed + number * UINT64_C(0xd1342543de82ef95);
    uint64_t *random = &state;
    plan[CHAOS_NUMBER] = (int64_t)number;
    plan[CHAOS_MASK] = (int64_t)(1 + coxi_rand(random) % n_subsets);
    plan[CHAOS_US] = (int64_t)(2 * coxi_rand_unit(random) * (double)config->step_us);
    plan[CHAOS_BUSY] = coxi_rand(random) % 4 == 0;
    bool crashes = coxi_rand_unit(random) < config->crash_rate;
    int64_t how = coxi_rand(random) % 2 == 0 ? CHAOS_CRASH_ABORT : CHAOS_CRASH_NULL;
    plan[CHAOS_CRASH] = crashes ? how : 0;
    plan[CHAOS_STRAGGLE_US] = 0;
    if (chaos_plan_ends_burst(client, number)) {
        plan[CHAOS_STRAGGLE_US] =
            STRAGGLE_US + (int64_t)(coxi_rand(random) % STRAGGLE_US);
    }
    plan[CHAOS_FLUSH] = coxi_rand_unit(random) < config->flush_rate;
    plan[CHAOS_AFTER] =
        plan[CHAOS_FLUSH] != 0 ? (int64_t)(coxi_rand(random) % (n_subsets + 1)) : 0;
    plan[CHAOS_RESOURCE] = chaos_resources_version(client, number);
    plan[CHAOS_FADES] = config->evict;
    plan[CHAOS_TAKES] = takes(client, number) ? (int64_t)(number - TAKE_AFTER) : 0;
    chaos_rounds_plan(client, number, plan);
}

void chaos_plan_call(const struct chaos_client *client, uint64_t number,
                     struct chaos_planned *ret)
{
    chaos_plan(client, number, ret->plan);
    ret->arg = (struct cox_value)COX_VECTOR("plan", COX_I64, CHAOS_PLAN, ret->plan);
    ret->call = (struct cox_call)COX_CALL_INIT;
    ret->call.args = &ret->arg;
    ret->call.n_args = 1;
    ret->call.cursor = number + 1;
    ret->call.keep = chaos_plan_keeps(client, number);
}
