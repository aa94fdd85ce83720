/*
 * See exposed.h. A scrape asks each run's store what it has counted, as cox_stats does,
 * so it holds the registry of variables (read) and no other lock. No token, key or file
 * is told.
 *
 * Threads: that of the HTTP server; start: main.
 */
#include "ps/exposed.h"

#include <stdio.h>
#include <stdlib.h>

#include "http/openmetrics.h"
#include "ps/service.h"
#include "ps/tenants.h"

/* A run, and what it has counted. */
struct run {
    struct coxi_tenant *tenant;
    struct coxi_counts counts;
};

struct runs {
    struct run *all;
    uint32_t n;
};

static struct runs take_runs(struct coxi_tenants *tenants)
{
    const struct coxi_count count = {.stale_of = COXI_STALE_ALL};
    uint32_t n_keys = coxi_tenants_count(tenants);
    struct runs runs = {.all = calloc((size_t)n_keys + 1, sizeof(*runs.all))};
    for (uint32_t i = 0; runs.all != NULL && i < n_keys; i++) {
        struct coxi_tenant *tenant = coxi_tenants_made(tenants, i);
        if (tenant != NULL && !coxi_tenant_is_removed(tenant)) {
            struct run *run = &runs.all[runs.n++];
            run->tenant = tenant;
            coxi_store_counts(tenant->store, &count, &run->counts);
        }
    }
    return runs;
}

/* ---- one family, with a sample for each run */

#define OF_RUN(run) COXI_LABELS({"run", (run)->tenant->name})

#define COUNTS(m, runs, type, name, unit, help, value)                                 \
    do {                                                                               \
        coxi_openmetrics_family(m, type, name, unit, help);                            \
        for (uint32_t i_ = 0; i_ < (runs)->n; i_++) {                                  \
            const struct run *run = &(runs)->all[i_];                                  \
            coxi_openmetrics_count(m, OF_RUN(run), value);                             \
        }                                                                              \
    } while (0)

/* How long pulls, or commits, of each run took. */
static void put_times(struct coxi_openmetrics *m, const struct runs *runs, bool pulls)
{
    for (uint32_t i = 0; i < runs->n; i++) {
        const struct coxi_times_of *times = runs->all[i].tenant->times;
        struct coxi_latency all = {0};
        for (size_t k = 0; k < COXI_TIMES_OF; k++) {
            coxi_latency_sum(&all,
                             pulls ? &times[k].pulls.took : &times[k].commits.took);
        }
        coxi_openmetrics_latency(m, OF_RUN(&runs->all[i]), &all);
    }
}

static void put_work(struct coxi_openmetrics *m, const struct runs *runs)
{
    COUNTS(m, runs, COXI_COUNTER, "coxswain_ps_pulls", "", "Pulls that were answered.",
           run->counts.all.pulls);
    COUNTS(m, runs, COXI_COUNTER, "coxswain_ps_commits", "",
           "Commits that were applied.", run->counts.all.commits);
    COUNTS(m, runs, COXI_COUNTER, "coxswain_ps_commits_duplicate", "",
           "Commits that were applied before, and not again.",
           run->counts.all.duplicates);
    COUNTS(m, runs, COXI_COUNTER, "coxswain_ps_pulled_infinite", "",
           "Numbers that were sent to pulls as infinite.", run->counts.infinite);
    coxi_openmetrics_family(m, COXI_LATENCIES, "coxswain_ps_pull_seconds", "seconds",
                            "From the arrival of a pull until it is answered.");
    put_times(m, runs, true);
    coxi_openmetrics_family(m, COXI_LATENCIES, "coxswain_ps_commit_seconds", "seconds",
                            "From the arrival of a commit until it is answered.");
    put_times(m, runs, false);
    coxi_openmetrics_family(m, COXI_LATENCIES, "coxswain_ps_gradient_staleness", "",
                            "Updates that the values missed from which a gradient was "
                            "computed.");
    for (uint32_t i = 0; i < runs->n; i++) {
        coxi_openmetrics_histogram(m, OF_RUN(&runs->all[i]),
                                   &runs->all[i].counts.stale);
    }
}

static void put_state(struct coxi_openmetrics *m, const struct runs *runs)
{
    COUNTS(m, runs, COXI_GAUGE, "coxswain_ps_table_rows", "", "Rows of tables.",
           run->counts.all.rows);
    COUNTS(m, runs, COXI_GAUGE, "coxswain_ps_values_bytes", "bytes",
           "Memory of values and optimizer state.", run->counts.all.bytes);
    COUNTS(m, runs, COXI_GAUGE, "coxswain_ps_payloads_bytes", "bytes",
           "Memory for what is received, waits or is worked on.",
           atomic_load(&run->tenant->payloads.memory.used_bytes));
    COUNTS(m, runs, COXI_GAUGE, "coxswain_ps_connections", "",
           "Connections of the run's client, workers and readers.",
           atomic_load(&run->tenant->n_connections));
}

/* Which runs have the ps, so that series can be joined with logs and checkpoints. */
static void put_owners(struct coxi_openmetrics *m, const struct runs *runs)
{
    coxi_openmetrics_family(m, COXI_GAUGE, "coxswain_ps_run_info", "",
                            "The run that has the ps, by its id: always 1.");
    for (uint32_t i = 0; i < runs->n; i++) {
        struct coxi_session owner;
        char id[32];
        char generation[32];
        if (coxi_store_owner(runs->all[i].tenant->store, &owner)) {
            (void)snprintf(id, sizeof(id), "%016llx", (unsigned long long)owner.run);
            (void)snprintf(generation, sizeof(generation), "%llu",
                           (unsigned long long)owner.generation);
            coxi_openmetrics_count(m,
                                   COXI_LABELS({"run", runs->all[i].tenant->name},
                                               {"run_id", id},
                                               {"generation", generation}),
                                   1);
        }
    }
}

static void put_metrics(void *arg, struct coxi_openmetrics *m)
{
    struct coxi_ps *ps = arg;
    struct runs runs = take_runs(coxi_ps_tenants(ps));
    put_work(m, &runs);
    put_state(m, &runs);
    put_owners(m, &runs);
    free(runs.all);
}

/* It listens before it serves. */
static bool is_ready(void *arg)
{
    (void)arg;
    return true;
}

int coxi_ps_expose(const struct coxi_serve_options *options, struct coxi_ps *ps,
                   struct coxi_served **ret)
{
    static const struct coxi_serve_calls calls = {is_ready, put_metrics};
    return coxi_serve(options, "ps", &calls, ps, ret);
}
