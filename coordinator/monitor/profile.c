/*
 * See profile.h, coxswain/profile.h. Workers report for each step what its slot did from
 * the end of the step before to its own end. So the reported times of a slot have no
 * gap, and nobody has to know how many slots there are, or since when.
 *
 * Threads: any. c->lock guards the list of modules and the marks.
 */
#include "coordinator/monitor/profile.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/json_text.h"
#include "common/structs.h"
#include "common/sync.h"
#include "coordinator/workers/module.h"

enum {
    MARK_MS = 10000,
    SHORT_US = 1000 /* of a slot's time for a step: less goes mostly to messages */
};

/* ---- the rule */

static const char *advice(enum cox_bound bound, bool starved, bool is_short)
{
    switch (bound) {
    case COX_BOUND_COMPUTE:
        return "add workers, or slots while their hosts have idle cores";
    case COX_BOUND_PS:
        return is_short
                   ? "steps are short, so give each more work, or begin pulls "
                     "before their values are needed; if that is not enough, add ps"
                   : "add ps, pull fewer rows or a narrower type, or begin pulls "
                     "before their values are needed";
    case COX_BOUND_DATA:
        return "add slots or workers, or store the files on a faster disk or less "
               "compressed";
    case COX_BOUND_LATENCY:
        return starved ? "schedule more closures before waiting for their results"
                       : "give each closure more work, or raise prefetch";
    case COX_BOUND_UNKNOWN:
        break;
    }
    return "";
}

static unsigned percent(uint64_t part, uint64_t whole)
{
    return (unsigned)(100.0 * (double)part / (double)whole + 0.5);
}

enum cox_bound coxi_profile_bound(const struct coxi_part_sums *sums, char *text,
                                  size_t size)
{
    static const char *const what[] = {
        [COX_BOUND_COMPUTE] = "compute-bound: slots computed for",
        [COX_BOUND_PS] = "ps-bound: slots waited for the ps for",
        [COX_BOUND_DATA] = "data-bound: slots read records for",
        [COX_BOUND_LATENCY] = "latency-bound: slots had no closure for",
    };
    const uint64_t us[] = {
        [COX_BOUND_COMPUTE] = sums->part_us[COXI_PART_COMPUTE],
        [COX_BOUND_PS] = sums->part_us[COXI_PART_PULL] + sums->blocked_us,
        [COX_BOUND_DATA] = sums->part_us[COXI_PART_DATA],
        [COX_BOUND_LATENCY] = sums->idle_us,
    };
    enum cox_bound most = COX_BOUND_UNKNOWN;
    uint64_t all = 0;
    for (unsigned i = COX_BOUND_COMPUTE; i <= COX_BOUND_LATENCY; i++) {
        all += us[i];
        most = us[i] > us[most] ? (enum cox_bound)i : most;
    }
    text[0] = '\0';
    if (most != COX_BOUND_UNKNOWN) {
        (void)snprintf(text, size,
                       "%s %u %% of their time (compute %u %%, ps %u %%, data %u %%, "
                       "idle %u %%): %s",
                       what[most], percent(us[most], all),
                       percent(us[COX_BOUND_COMPUTE], all),
                       percent(us[COX_BOUND_PS], all), percent(us[COX_BOUND_DATA], all),
                       percent(us[COX_BOUND_LATENCY], all),
                       advice(most, sums->starved_us * 2 > sums->idle_us,
                              all < SHORT_US * sums->n));
    }
    return most;
}

/* ---- all functions */

static void add_sums(struct coxi_part_sums *to, const struct coxi_part_sums *more)
{
    to->n += more->n;
    for (size_t i = 0; i < COXI_PARTS; i++) {
        to->part_us[i] += more->part_us[i];
    }
    to->idle_us += more->idle_us;
    to->starved_us += more->starved_us;
    to->blocked_us += more->blocked_us;
}

/* Calls for_each for each function that has run, until one of these calls fails. */
static int for_all(struct cox_coordinator *c,
                   int (*for_each)(void *arg, const struct cox_function *function,
                                   struct coxi_profile *profile),
                   void *arg) COXI_REQUIRES(c->lock)
{
    int r = 0;
    for (uint32_t m = 0; m < c->modules->n; m++) {
        const struct cox_module *module = c->modules->all[m];
        for (uint32_t i = 0; r == 0 && i < module->info.n_steps; i++) {
            struct coxi_profile *profile = atomic_load_explicit(
                &module->functions[i].profile, memory_order_acquire);
            if (profile != NULL) {
                r = for_each(arg, &module->functions[i], profile);
            }
        }
    }
    return r;
}

/* ---- cox_profile */

struct collected {
    const struct cox_function *only; /* NULL: all */
    struct coxi_durations parts[COXI_PARTS];
    struct coxi_part_sums sums;
};

static int collect(void *arg, const struct cox_function *function,
                   struct coxi_profile *profile)
{
    struct collected *all = arg;
    if (all->only == NULL || all->only == function) {
        const struct coxi_part_sums sums = coxi_profile_sums(profile);
        add_sums(&all->sums, &sums);
        for (size_t i = 0; i < COXI_PARTS; i++) {
            coxi_durations_add(&all->parts[i], &profile->parts[i]);
        }
    }
    return 0;
}

static struct cox_durations durations_of(const struct collected *all,
                                         enum coxi_part part)
{
    const struct coxi_durations *of = &all->parts[part];
    return (struct cox_durations){all->sums.part_us[part],
                                  coxi_durations_quantile(of, 0.5),
                                  coxi_durations_quantile(of, 0.99)};
}

int cox_profile(struct cox_coordinator *c, const struct cox_function *function,
                struct cox_profile *ret)
{
    struct collected all = {.only = function};
    if (c == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_profile needs a coordinator and a place");
    }
    COXI_CALL(c);
    coxi_lock(&c->lock);
    (void)for_all(c, collect, &all);
    coxi_unlock(&c->lock);
    struct cox_profile profile = {
        .steps = all.sums.n,
        .step = durations_of(&all, COXI_PART_STEP),
        .data = durations_of(&all, COXI_PART_DATA),
        .pull = durations_of(&all, COXI_PART_PULL),
        .compute = durations_of(&all, COXI_PART_COMPUTE),
        .commit = durations_of(&all, COXI_PART_COMMIT),
        .blocked_us = all.sums.blocked_us,
        .idle_us = all.sums.idle_us,
    };
    profile.bound =
        (int)coxi_profile_bound(&all.sums, profile.advice, sizeof(profile.advice));
    return coxi_struct_return(ret, COXI_STRUCT_PROFILE, &profile);
}

/* ---- JSON */

struct written {
    struct coxi_buffer *out;
    struct coxi_part_sums sums; /* of the steps of the last 10 to 20 s */
    uint64_t now_ms;
    bool any;
};

/* What has come since the older mark; sets a mark if it is time. */
static struct coxi_part_sums take_recent(struct coxi_profile *profile, uint64_t now_ms)
{
    const struct coxi_part_sums now = coxi_profile_sums(profile);
    const struct coxi_part_sums *mark = &profile->marks[0];
    struct coxi_part_sums recent = {.n = now.n - mark->n,
                                    .idle_us = now.idle_us - mark->idle_us,
                                    .starved_us = now.starved_us - mark->starved_us,
                                    .blocked_us = now.blocked_us - mark->blocked_us};
    for (size_t i = 0; i < COXI_PARTS; i++) {
        recent.part_us[i] = now.part_us[i] - mark->part_us[i];
    }
    if (now_ms - profile->marked_ms >= MARK_MS) {
        profile->marks[0] = profile->marks[1];
        profile->marks[1] = now;
        profile->marked_ms = now_ms;
    }
    return recent;
}

static unsigned long long mean(const struct coxi_part_sums *sums, enum coxi_part part)
{
    return sums->n > 0 ? sums->part_us[part] / sums->n : 0;
}

static int write_function(void *arg, const struct cox_function *function,
                          struct coxi_profile *profile)
{
    struct written *w = arg;
    const struct coxi_part_sums recent = take_recent(profile, w->now_ms);
    const struct coxi_durations *step = &profile->parts[COXI_PART_STEP];
    int r = w->any ? coxi_buffer_append_raw(w->out, ",", 1) : 0;
    w->any = true;
    add_sums(&w->sums, &recent);
    r = r == 0 ? coxi_json_text(w->out, function->title) : r;
    return r != 0
               ? r
               : coxi_buffer_printf(
                     w->out,
                     ":{\"n\":%llu,\"step_us\":%llu,\"data_us\":%llu,\"pull_us\":%llu,"
                     "\"compute_us\":%llu,\"commit_us\":%llu,\"p50_us\":%u,"
                     "\"p99_us\":%u}",
                     (unsigned long long)step->n, mean(&recent, COXI_PART_STEP),
                     mean(&recent, COXI_PART_DATA), mean(&recent, COXI_PART_PULL),
                     mean(&recent, COXI_PART_COMPUTE), mean(&recent, COXI_PART_COMMIT),
                     coxi_durations_quantile(step, 0.5),
                     coxi_durations_quantile(step, 0.99));
}

int coxi_profile_json(struct cox_coordinator *c, struct coxi_buffer *out)
{
    char text[sizeof(((struct cox_profile *)NULL)->advice)];
    struct written written = {.out = out, .now_ms = coxi_now_ms()};
    int r = coxi_buffer_printf(out, "\"profile\":{");
    coxi_lock(&c->lock);
    r = r == 0 ? for_all(c, write_function, &written) : r;
    coxi_unlock(&c->lock);
    (void)coxi_profile_bound(&written.sums, text, sizeof(text));
    return r == 0 ? coxi_buffer_printf(out, "},\"bound\":\"%s\"", text) : r;
}
