/*
 * See chaos_rounds.h. The steps of a round pull the variables CHAOS_ROUNDS<ps> first,
 * and check that these have every gradient of all rounds that the bound does not allow
 * to be missing.
 */
#include "bench/chaos_rounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/chaos_client.h"
#include "bench/chaos_exact.h"

struct chaos_rounds {
    struct cox_rounds *rounds;
    struct cox_variable *sums[CHAOS_PS_MAX];
};

uint64_t chaos_rounds_size(const struct chaos_client *client)
{
    return client->config->rounds ? (uint64_t)client->config->round_size : 1;
}

static int create(struct chaos_client *client, struct chaos_rounds *rounds)
{
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    int r = 0;
    spec.staleness = client->config->staleness;
    spec.backups = (uint32_t)client->config->backups;
    spec.reduce = COX_REDUCE_SUM;
    spec.deterministic = client->config->deterministic;
    for (int64_t i = 0; r == 0 && i < client->config->ps; i++) {
        char name[32];
        struct cox_variable_spec sum = COX_VARIABLE_SPEC_INIT;
        (void)snprintf(name, sizeof(name), CHAOS_ROUNDS "%d", (int)i);
        sum.name = name;
        sum.dtype = COX_F32;
        sum.rank = 1;
        sum.shape[0] = 2; /* as many bytes as a counter, so that each ps has one */
        sum.optimizer.kind = COX_SGD;
        sum.optimizer.learning_rate = 1;
        r = cox_variable_create(client->c, &sum, &rounds->sums[i]);
    }
    r = r != 0 ? r : chaos_exact_create(client);
    return r != 0 ? r : cox_rounds_create(client->c, &spec, &rounds->rounds);
}

int chaos_rounds_open(struct chaos_client *client, struct chaos_rounds **ret)
{
    *ret = NULL;
    if (!client->config->rounds) {
        return 0;
    }
    chaos_client_doing(client, "creating a sequence of rounds");
    *ret = calloc(1, sizeof(**ret));
    return *ret == NULL ? chaos_client_wrong(client, "no memory for rounds")
                        : chaos_client_check(client, create(client, *ret));
}

void chaos_rounds_free(struct chaos_rounds *rounds)
{
    free(rounds);
}

void chaos_rounds_plan(const struct chaos_client *client, uint64_t number,
                       int64_t *plan)
{
    const struct chaos_config *config = client->config;
    uint64_t round = number / chaos_rounds_size(client);
    bool bound = config->staleness != COX_STALENESS_ANY && round > config->staleness;
    plan[CHAOS_ROUND_PS] = config->rounds ? config->ps : 0;
    plan[CHAOS_LEARNS] = config->deterministic;
    plan[CHAOS_ROUND_LEAST] =
        bound ? (int64_t)((round - config->staleness) * chaos_rounds_size(client)) : 0;
}

int chaos_rounds_schedule(struct chaos_client *client, struct cox_call *const *calls,
                          size_t n, struct cox_future **futures)
{
    struct cox_round_call members[CHAOS_ROUND_MAX];
    if (client->rounds == NULL) {
        return cox_schedule(client->c, client->function, calls[0], futures);
    }
    for (size_t i = 0; i < n; i++) {
        members[i] = (struct cox_round_call){client->function, calls[i]};
    }
    return cox_round_schedule(client->rounds->rounds, members, n, futures, NULL);
}

int chaos_rounds_schedule_next(struct chaos_client *client,
                               struct cox_function *function,
                               struct cox_dataset *records, const struct cox_call *call)
{
    return client->rounds == NULL
               ? cox_schedule_next(client->c, function, records, call, NULL)
               : cox_round_schedule_next(client->rounds->rounds, function, records,
                                         call, chaos_rounds_size(client), NULL, NULL);
}

void chaos_rounds_check(struct chaos_client *client)
{
    if (client->dataset != NULL) {
        return; /* its steps count records instead */
    }
    if (client->config->deterministic) {
        chaos_exact_sum(client);
    }
    for (int64_t i = 0; client->rounds != NULL && i < client->config->ps; i++) {
        float found[2] = {0};
        float expected = (float)client->result.n_scheduled;
        if (chaos_client_check(client,
                               cox_variable_read(client->c, client->rounds->sums[i],
                                                 found, sizeof(found))) == 0 &&
            (found[0] != expected || found[1] != expected)) {
            (void)chaos_client_wrong(
                client, "the rounds on ps %d add up to %g and %g, not %g", (int)i,
                (double)found[0], (double)found[1], (double)expected);
        }
    }
}
