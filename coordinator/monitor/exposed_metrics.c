/*
 * The client's metrics. Every field of struct cox_stats is one. They are taken as cox_stats
 * takes them, which asks the ps: that takes a round trip, and once a second if a ps is
 * silent.
 *
 * Threads: that of the HTTP server.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/sync.h"
#include "coordinator/base/profile.h"
#include "coordinator/monitor/exposed.h"
#include "coordinator/monitor/stats.h"
#include "coordinator/workers/module.h"

struct of_stats {
    size_t offset; /* of the field */
    enum coxi_family_type type;
    const char *name;
    const char *unit;
    const char *help;
    double scale; /* to the unit of the metric; 0: 1 */
};

#define OF(field) offsetof(struct cox_stats, field)

/* In the order of the fields. */
static const struct of_stats all_stats[] = {
    {OF(queued), COXI_GAUGE, "coxswain_client_closures_queued", "",
     "Closures that were not sent to a worker yet.", 0},
    {OF(in_flight), COXI_GAUGE, "coxswain_client_closures_in_flight", "",
     "Closures that were sent and are not settled.", 0},
    {OF(done), COXI_COUNTER, "coxswain_client_closures_done", "",
     "Closures that are done.", 0},
    {OF(failed), COXI_COUNTER, "coxswain_client_closures_failed", "",
     "Closures that have failed or were cancelled.", 0},
    {OF(put_back), COXI_COUNTER, "coxswain_client_attempts_put_back", "",
     "Attempts that were lost with a worker.", 0},
    {OF(workers), COXI_GAUGE, "coxswain_client_workers", "",
     "Workers that ever connected or are listed.", 0},
    {OF(workers_ready), COXI_GAUGE, "coxswain_client_workers_ready", "",
     "Workers that take closures.", 0},
    {OF(workers_lost), COXI_COUNTER, "coxswain_client_workers_lost", "",
     "Losses of workers.", 0},
    {OF(commits), COXI_COUNTER, "coxswain_client_commits", "",
     "Commits that were applied, on all ps.", 0},
    {OF(commits_duplicate), COXI_COUNTER, "coxswain_client_commits_duplicate", "",
     "Commits that were applied before, and not again.", 0},
    {OF(table_rows), COXI_GAUGE, "coxswain_client_table_rows", "", "Rows of tables.",
     0},
    {OF(ps_bytes), COXI_GAUGE, "coxswain_client_ps_values_bytes", "bytes",
     "Memory of values and optimizer state, on all ps.", 0},
    {OF(speculated), COXI_COUNTER, "coxswain_client_second_attempts", "",
     "Second attempts of closures that took too long.", 0},
    {OF(speculation_won), COXI_COUNTER, "coxswain_client_second_attempts_won", "",
     "Second attempts that ended their closure.", 0},
    {OF(checkpoints), COXI_COUNTER, "coxswain_client_checkpoints", "",
     "Checkpoints that were written.", 0},
    {OF(checkpoints_failed), COXI_COUNTER, "coxswain_client_checkpoints_failed", "",
     "Checkpoints that triggers asked for, and that have failed.", 0},
    {OF(ps_recovered), COXI_COUNTER, "coxswain_client_ps_recovered", "",
     "How often a lost ps has come back.", 0},
    {OF(made_again), COXI_COUNTER, "coxswain_client_closures_made_again", "",
     "Closures that ran again for lost kept results.", 0},
    {OF(ps_age_ms), COXI_GAUGE, "coxswain_client_ps_age_seconds", "seconds",
     "How old the numbers of the ps are; 0: all have just answered.", 1e-3},
    {OF(workers_cut_off), COXI_GAUGE, "coxswain_client_workers_cut_off", "",
     "Workers that are not ready because they cannot reach a ps.", 0},
    {OF(pulled_infinite), COXI_COUNTER, "coxswain_client_pulled_infinite", "",
     "Numbers that were sent to pulls as infinite.", 0},
    {OF(rounds), COXI_COUNTER, "coxswain_client_rounds", "",
     "Rounds that were applied.", 0},
    {OF(rounds_failed), COXI_COUNTER, "coxswain_client_rounds_failed", "",
     "Rounds that have failed or were cancelled.", 0},
    {OF(late), COXI_COUNTER, "coxswain_client_closures_late", "",
     "Closures without which their round was complete.", 0},
};

/* `size`, and then only numbers. */
_Static_assert(sizeof(struct cox_stats) ==
                   (sizeof(all_stats) / sizeof(*all_stats) + 1) * sizeof(uint64_t),
               "every field of cox_stats is a metric");

static void put_stats(struct coxi_openmetrics *m, const struct cox_stats *stats)
{
    for (size_t i = 0; i < sizeof(all_stats) / sizeof(*all_stats); i++) {
        const struct of_stats *of = &all_stats[i];
        const uint64_t *value =
            (const uint64_t *)(const void *)((const char *)stats + of->offset);
        coxi_openmetrics_family(m, of->type, of->name, of->unit, of->help);
        if (of->scale != 0) {
            coxi_openmetrics_real(m, COXI_NO_LABELS, (double)*value * of->scale);
        } else {
            coxi_openmetrics_count(m, COXI_NO_LABELS, *value);
        }
    }
}

static void put_times(struct coxi_openmetrics *m, const struct coxi_run_times *times)
{
    coxi_openmetrics_family(
        m, COXI_LATENCIES, "coxswain_client_dispatch_seconds", "seconds",
        "From cox_schedule until a closure is given to a worker, of "
        "every 16th closure.");
    coxi_openmetrics_latency(m, COXI_NO_LABELS, &times->dispatch);
    coxi_openmetrics_family(m, COXI_LATENCIES, "coxswain_client_closure_seconds",
                            "seconds",
                            "From cox_schedule until a closure is settled, of every "
                            "16th closure.");
    coxi_openmetrics_latency(m, COXI_NO_LABELS, &times->closures);
}

/* ---- where the time of steps goes */

enum { FUNCTIONS_MAX = 32 };

struct timed_function {
    const char *name;
    struct coxi_profile *profile;
};

struct functions {
    struct timed_function all[FUNCTIONS_MAX];
    size_t n;
};

/* The first functions that have run; they live until cox_close. */
static void take_functions(struct cox_coordinator *c, struct functions *ret)
{
    coxi_lock(&c->lock);
    for (uint32_t m = 0; m < c->modules->n; m++) {
        const struct cox_module *module = c->modules->all[m];
        for (uint32_t i = 0; i < module->info.n_steps && ret->n < FUNCTIONS_MAX; i++) {
            struct cox_function *function = &module->functions[i];
            struct coxi_profile *profile =
                atomic_load_explicit(&function->profile, memory_order_acquire);
            if (profile != NULL) {
                ret->all[ret->n++] = (struct timed_function){function->title, profile};
            }
        }
    }
    coxi_unlock(&c->lock);
}

static void put_parts(struct coxi_openmetrics *m, const struct functions *functions)
{
    static const struct {
        enum coxi_part part;
        const char *name;
        const char *help;
    } all[] = {
        {COXI_PART_STEP, "coxswain_client_step_seconds", "Run time of steps."},
        {COXI_PART_DATA, "coxswain_client_step_data_seconds",
         "How long a step read records."},
        {COXI_PART_PULL, "coxswain_client_step_pull_seconds",
         "How long a step waited for pulls."},
        {COXI_PART_COMPUTE, "coxswain_client_step_compute_seconds",
         "The rest of a step's run time."},
        {COXI_PART_COMMIT, "coxswain_client_step_commit_seconds",
         "From a step's last commit until it was acknowledged."},
    };
    for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++) {
        coxi_openmetrics_family(m, COXI_LATENCIES, all[k].name, "seconds", all[k].help);
        for (size_t i = 0; i < functions->n; i++) {
            const struct timed_function *function = &functions->all[i];
            struct coxi_latency latency = {0};
            coxi_durations_by_power(&function->profile->parts[all[k].part], &latency);
            coxi_openmetrics_latency(m, COXI_LABELS({"function", function->name}),
                                     &latency);
        }
    }
}

/* What slots did; the parts are all of their time. */
static void put_slots(struct coxi_openmetrics *m, const struct functions *functions)
{
    uint64_t us[5] = {0};
    static const char *const doing[] = {"compute", "pull", "data", "commit", "nothing"};
    for (size_t i = 0; i < functions->n; i++) {
        const struct coxi_part_sums sums = coxi_profile_sums(functions->all[i].profile);
        us[0] += sums.part_us[COXI_PART_COMPUTE];
        us[1] += sums.part_us[COXI_PART_PULL];
        us[2] += sums.part_us[COXI_PART_DATA];
        us[3] += sums.blocked_us;
        us[4] += sums.idle_us;
    }
    coxi_openmetrics_family(
        m, COXI_COUNTER, "coxswain_client_slots_seconds", "seconds",
        "What the slots of workers spent their time with: "
        "computing, waiting for pulls, reading records, waiting for "
        "commits, or nothing, because they had no closure.");
    for (size_t i = 0; i < sizeof(us) / sizeof(*us); i++) {
        coxi_openmetrics_real(m, COXI_LABELS({"doing", doing[i]}), (double)us[i] / 1e6);
    }
}

static void put_ps(struct coxi_openmetrics *m, const struct coxi_ps_said *said,
                   uint32_t n_ps)
{
    char index[16];
    coxi_openmetrics_family(m, COXI_GAUGE, "coxswain_client_ps_answers", "",
                            "1 if the ps has just answered.");
    for (uint32_t p = 0; p < n_ps; p++) {
        (void)snprintf(index, sizeof(index), "%u", p);
        coxi_openmetrics_count(m, COXI_LABELS({"ps", index}), said[p].is_fresh);
    }
    coxi_openmetrics_family(m, COXI_GAUGE, "coxswain_client_ps_lag_seconds", "seconds",
                            "How long the ps took to answer, or since when it has been "
                            "silent.");
    for (uint32_t p = 0; p < n_ps; p++) {
        (void)snprintf(index, sizeof(index), "%u", p);
        coxi_openmetrics_real(m, COXI_LABELS({"ps", index}),
                              (double)said[p].lag_ms / 1e3);
    }
}

static void put_run(struct coxi_openmetrics *m, const struct coxi_session *session)
{
    char id[32];
    char generation[32];
    (void)snprintf(id, sizeof(id), "%016llx", (unsigned long long)session->run);
    (void)snprintf(generation, sizeof(generation), "%llu",
                   (unsigned long long)session->generation);
    coxi_openmetrics_family(m, COXI_GAUGE, "coxswain_client_run_info", "",
                            "The run, by its id: always 1.");
    coxi_openmetrics_count(m, COXI_LABELS({"run_id", id}, {"generation", generation}),
                           1);
}

void coxi_exposed_metrics(struct cox_coordinator *c, struct coxi_openmetrics *m)
{
    struct cox_stats stats;
    struct functions functions = {.n = 0};
    coxi_lock(&c->lock);
    bool opened = c->life.opened;
    coxi_unlock(&c->lock);
    struct coxi_ps_said *said = opened ? calloc(c->ps.n + 1, sizeof(*said)) : NULL;
    if (said == NULL) {
        return;
    }
    coxi_stats_look(c, &stats, said);
    put_run(m, &c->session);
    put_stats(m, &stats);
    put_times(m, &c->times);
    put_ps(m, said, c->ps.n);
    take_functions(c, &functions);
    put_parts(m, &functions);
    put_slots(m, &functions);
    free(said);
}
