/*
 * See chaos_check.h. Cost: a read of each counter and of the rows of both tables.
 *
 * Threads: the client's, and the thread that takes checkpoints (chaos_count_stats); the
 * two take turns under client->counting until the latter has ended.
 */
#include "bench/chaos_check.h"

#include <string.h>

#include "bench/chaos_client.h"
#include "bench/chaos_dataset.h"
#include "bench/chaos_resources.h"
#include "bench/chaos_rounds.h"
#include "common/sync.h"

/* ---- statistics */

static void count_more(struct chaos_client *client, enum chaos_count count,
                       uint64_t before, uint64_t now)
{
    chaos_count_add(client->journal, count, now > before ? now - before : 0);
}

/* True once each ps has had enough updates to make rows old; each gets its share of the
 * updates. */
static bool has_aged(const struct chaos_client *client, const struct cox_stats *stats)
{
    return client->config->evict &&
           stats->done > (uint64_t)CHAOS_FADING_AGE * (uint64_t)client->config->ps;
}

void chaos_count_stats(struct chaos_client *client)
{
    struct cox_stats now = COX_STATS_INIT;
    if (cox_stats(client->c, &now) != 0) {
        return;
    }
    coxi_lock(&client->counting);
    const struct cox_stats *before = &client->counted;
    count_more(client, CHAOS_MADE_AGAIN, before->made_again, now.made_again);
    count_more(client, CHAOS_SPECULATED, before->speculated, now.speculated);
    count_more(client, CHAOS_SPECULATION_WON, before->speculation_won,
               now.speculation_won);
    count_more(client, CHAOS_OUT_OF_ROUNDS, before->late, now.late);
    count_more(client, CHAOS_RECOVERED, before->ps_recovered, now.ps_recovered);
    if (has_aged(client, before)) {
        count_more(client, CHAOS_AGED, before->ps_recovered, now.ps_recovered);
    }
    client->counted = now;
    coxi_unlock(&client->counting);
}

/* ---- tables */

/* Counts the rows of `table` that differ from what the steps add up to; step i adds 1
 * to row i % n_keys. */
static int count_wrong(struct chaos_client *client, struct cox_table *table,
                       uint64_t n_keys, int64_t *ret)
{
    uint64_t n_steps = client->result.n_scheduled;
    uint64_t keys[CHAOS_KEYS] = {0};
    float found[CHAOS_KEYS] = {0};
    for (uint64_t i = 0; i < n_keys; i++) {
        keys[i] = i;
    }
    int r = cox_table_read(client->c, table, keys, n_keys, found);
    for (uint64_t i = 0; r == 0 && i < n_keys; i++) {
        uint64_t expected = n_steps / n_keys + (i < n_steps % n_keys);
        *ret += found[i] != (float)expected;
    }
    return r;
}

/* Counts the rows that steps have touched and that do not exist: nothing may have
 * evicted any. */
static int count_dropped(struct chaos_client *client, int64_t *ret)
{
    struct cox_table_stats stats = COX_TABLE_STATS_INIT;
    uint64_t n_steps = client->result.n_scheduled;
    uint64_t expected = n_steps < CHAOS_FADING_KEYS ? n_steps : CHAOS_FADING_KEYS;
    int r = cox_table_stats(client->c, client->fading, &stats);
    *ret += r == 0 && (stats.rows != expected || stats.evicted != 0);
    return r;
}

static int count_wrong_rows(struct chaos_client *client, int64_t *ret)
{
    if (client->dataset != NULL) {
        return chaos_dataset_count_wrong(client->dataset, ret);
    }
    int r = count_wrong(client, client->rows, CHAOS_KEYS, ret);
    if (r == 0 && client->fading != NULL) {
        r = count_wrong(client, client->fading, CHAOS_FADING_KEYS, ret);
    }
    return r != 0 || client->fading == NULL ? r : count_dropped(client, ret);
}

/* ---- all of it */

/* True if every step is done. A step whose results were lost after all of it was
 * applied counts as done. */
static bool is_done(const struct chaos_client *client, const struct cox_stats *stats)
{
    uint64_t own = client->result.n_scheduled - client->first;
    return stats->failed == client->result.n_unreturned &&
           stats->done + stats->failed == own + client->result.progress.rerun;
}

static void compare(struct chaos_client *client)
{
    const struct chaos_result *result = &client->result;
    if (memcmp(result->found, result->expected, sizeof(result->found)) != 0) {
        (void)chaos_client_wrong(client,
                                 "the counters are not what the steps add up to");
    }
    if (result->wrong_rows != 0) {
        (void)chaos_client_wrong(client, "%lld rows are not what the steps add up to",
                                 (long long)result->wrong_rows);
    }
    if (client->dataset != NULL) {
        chaos_dataset_check(client->dataset);
    } else if (!is_done(client, &result->stats)) {
        (void)chaos_client_wrong(
            client,
            "%llu steps are done and %llu have failed; it has scheduled %llu, "
            "and %llu were to run again",
            (unsigned long long)result->stats.done,
            (unsigned long long)result->stats.failed,
            (unsigned long long)(result->n_scheduled - client->first),
            (unsigned long long)result->progress.rerun);
    }
    (void)chaos_resources_check(client->resources, result->n_scheduled);
    chaos_rounds_check(client);
}

void chaos_check_end(struct chaos_client *client, bool complete)
{
    struct cox_stats stats = COX_STATS_INIT;
    int64_t found[CHAOS_PS_MAX] = {0};
    int64_t wrong_rows = 0;
    chaos_client_doing(client, "reading the counters");
    int r = cox_stats(client->c, &stats);
    for (int64_t i = 0; r == 0 && i < client->config->ps; i++) {
        r = cox_variable_read(client->c, client->counters[i], &found[i],
                              sizeof(found[i]));
    }
    r = r != 0 ? r : count_wrong_rows(client, &wrong_rows);
    (void)chaos_client_check(client, r);
    chaos_count_stats(client);
    coxi_lock(&client->lock);
    client->result.wrong_rows = wrong_rows;
    client->result.stats = stats;
    memcpy(client->result.found, found, sizeof(found));
    coxi_unlock(&client->lock);
    if (r == 0 && complete) {
        compare(client);
    }
}
