/*
 * See sampler.h. The loop copies the state of the workers into an array, and this thread
 * makes text of it afterwards, so no lock is held and no turn lasts while text is made.
 * Without memory a sample is left out.
 */
#include "coordinator/monitor/sampler.h"

#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/json_text.h"
#include "coordinator/base/history.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/seat.h"
#include "coordinator/monitor/profile.h"
#include "coordinator/monitor/progress.h"
#include "coordinator/monitor/stats.h"
#include "coordinator/workers/worker.h"
#include "net/ps_client.h"

enum {
    ALL_MS = 60000,       /* how often all workers are described, on disk, too, ... */
    ALL_FIRST_MS = 10000, /* ... and how often few workers of a young run are */
    FEW_WORKERS = 64,     /* so many are described each second */
    FIRST_MS = 3600000,   /* for so long each sample is written to disk */
    SLACK_MS =
        500 /* a sample may be so late, or so early, and counts as a second later */
};

/* A worker as the loop last saw it. */
struct seen {
    const char *url; /* lives until close */
    const char *name;
    enum coxi_worker_state state;
    uint32_t slots;
    uint32_t running;
    uint32_t n_lost;
    uint32_t n_back;
    uint32_t n_unreached;
    uint64_t n_done;
    uint64_t resident;
    double step_us;
    double rate; /* that was told: closures done in a second */
};

/* What a sample has counted. */
struct counted {
    uint64_t at_ms; /* 0: there was no such sample */
    struct cox_stats stats;
    struct coxi_ps_said *ps;
};

/* Places of `counted`. */
enum { NOW, BEFORE, EARLIER, N_COUNTED };

struct coxi_sampler {
    struct cox_coordinator *c;
    uint64_t begun_ms;
    uint64_t lasting_ms; /* the last one that went to disk */
    uint64_t all_ms;     /* when all workers were described last */
    uint64_t counts_ms;  /* when those were whose counts have changed */
    struct counted counted[N_COUNTED];
    struct coxi_progress_pace pace;
    struct seen *seen; /* capacity entries; what the loop has seen */
    struct seen *told; /* what was described last, n_told entries */
    uint32_t capacity;
    uint32_t n_seen;
    uint32_t n_told;
    uint32_t n_wanted; /* there were more workers than room */
    uint64_t step;     /* the highest settled closure */
};

/* ---- looking */

static struct seen look_at(const struct coxi_worker *worker)
{
    const struct coxi_seat *seat = worker->seat;
    return (struct seen){.url = worker->url,
                         .name = worker->name,
                         .state = worker->state,
                         .slots = worker->slots,
                         .running = (uint32_t)coxi_seat_load(seat),
                         .n_lost = seat->n_lost,
                         .n_back = seat->n_back,
                         .n_unreached = worker->n_unreached,
                         .n_done = seat->n_done,
                         .resident = worker->resident,
                         .step_us = seat->average_us};
}

/* On the loop. */
static int look(struct cox_coordinator *c, void *arg)
{
    struct coxi_sampler *sampler = arg;
    sampler->step = c->closures->progress.closure;
    sampler->n_wanted = c->workers->n;
    sampler->n_seen =
        c->workers->n < sampler->capacity ? c->workers->n : sampler->capacity;
    for (uint32_t i = 0; i < sampler->n_seen; i++) {
        sampler->seen[i] = look_at(c->workers->all[i]);
    }
    return 0;
}

static int grow(struct seen **seen, uint32_t n)
{
    struct seen *more = realloc(*seen, n * sizeof(*more));
    if (more == NULL) {
        return coxi_error_memory("samples");
    }
    *seen = more;
    return 0;
}

static int look_at_all(struct coxi_sampler *sampler)
{
    int r = coxi_call_on_loop(sampler->c, look, sampler);
    if (r == 0 && sampler->n_wanted > sampler->capacity) {
        uint32_t n = sampler->n_wanted + sampler->n_wanted / 2;
        r = grow(&sampler->seen, n);
        r = r == 0 ? grow(&sampler->told, n) : r;
        if (r == 0) {
            sampler->capacity = n;
            r = coxi_call_on_loop(sampler->c, look, sampler);
        }
    }
    return r;
}

/* ---- the run */

/* How much a count has grown in a second, if `seconds` have passed; 0 at first, and when
 * a ps has come back with smaller counts. */
static double rate(uint64_t now, uint64_t before, double seconds)
{
    return seconds > 0 && now > before ? (double)(now - before) / seconds : 0;
}

/* What rates are told since: the sample before, or the one before that, if the last sample
 * comes so soon that it has too little to tell a rate of. */
static const struct counted *base_of(const struct coxi_sampler *sampler)
{
    const struct counted *counted = sampler->counted;
    bool is_soon = counted[NOW].at_ms - counted[BEFORE].at_ms < SLACK_MS;
    return &counted[is_soon && counted[EARLIER].at_ms != 0 ? EARLIER : BEFORE];
}

static double seconds_since(const struct coxi_sampler *sampler,
                            const struct counted *base)
{
    return base->at_ms != 0 ? 1e-3 * (double)(sampler->counted[NOW].at_ms - base->at_ms)
                            : 0;
}

/* Adds the text as the members of a record. */
static void tell(struct coxi_sampler *sampler, enum coxi_record_kind kind, int r,
                 struct coxi_buffer *fields, bool lasting)
{
    if (r == 0 && coxi_buffer_append_raw(fields, "", 1) == 0) {
        coxi_history_add(sampler->c, kind, (const char *)fields->data, lasting);
    }
    coxi_buffer_fini(fields);
}

#define U(x) ((unsigned long long)(x))

/* The first closure that has failed; and of the last sample that it is, and whether cox_open
 * had succeeded. */
static int add_end(struct cox_coordinator *c, bool last, struct coxi_buffer *to)
{
    char failure[COXI_TEXT_MAX];
    coxi_lock(&c->lock);
    (void)snprintf(failure, sizeof(failure), "%s", c->life.first_failure);
    bool opened = c->life.opened;
    coxi_unlock(&c->lock);
    int r = 0;
    if (failure[0] != '\0') {
        r = coxi_buffer_printf(to, ",\"failure\":");
        r = r == 0 ? coxi_json_text(to, failure) : r;
    }
    if (r == 0 && last) {
        r = coxi_buffer_printf(to, ",\"over\":true%s",
                               opened ? "" : ",\"opened\":false");
    }
    return r == 0 ? coxi_buffer_printf(to, ",") : r;
}

/* `last`: the client is being closed. */
static void tell_run(struct coxi_sampler *sampler, bool lasting, bool last)
{
    const struct cox_stats *s = &sampler->counted[NOW].stats;
    const struct counted *base = base_of(sampler);
    double seconds = seconds_since(sampler, base);
    struct coxi_buffer to = {0};
    int r = coxi_buffer_printf(
        &to,
        "\"queued\":%llu,\"in_flight\":%llu,\"done\":%llu,\"failed\":%llu,"
        "\"put_back\":%llu,\"workers\":%llu,\"workers_ready\":%llu,\"workers_lost\":%"
        "llu,"
        "\"workers_cut_off\":%llu,\"speculated\":%llu,\"commits\":%llu,"
        "\"commits_duplicate\":%llu",
        U(s->queued), U(s->in_flight), U(s->done), U(s->failed), U(s->put_back),
        U(s->workers), U(s->workers_ready), U(s->workers_lost), U(s->workers_cut_off),
        U(s->speculated), U(s->commits), U(s->commits_duplicate));
    r = r == 0
            ? coxi_buffer_printf(
                  &to,
                  ",\"table_rows\":%llu,\"ps_bytes\":%llu,\"ps_age_ms\":%llu,"
                  "\"ps_recovered\":%llu,\"checkpoints\":%llu,"
                  "\"checkpoints_failed\":%llu,\"rounds\":%llu,\"rounds_failed\":%llu,"
                  "\"late\":%llu,\"step\":%llu,\"rate\":%.3f,\"commits_rate\":%.3f",
                  U(s->table_rows), U(s->ps_bytes), U(s->ps_age_ms), U(s->ps_recovered),
                  U(s->checkpoints), U(s->checkpoints_failed), U(s->rounds),
                  U(s->rounds_failed), U(s->late), U(sampler->step),
                  rate(s->done, base->stats.done, seconds),
                  rate(s->commits, base->stats.commits, seconds))
            : r;
    r = r == 0
            ? coxi_progress_json(sampler->c, &sampler->pace, s->done + s->failed, &to)
            : r;
    r = r == 0 ? add_end(sampler->c, last, &to) : r;
    r = r == 0 ? coxi_profile_json(sampler->c, &to) : r;
    tell(sampler, COXI_RECORD_SAMPLE, r, &to, lasting);
}

/* ---- the ps */

/* One that was not waited for is not silent. */
static const char *state_of(struct coxi_psc *client, const struct coxi_ps_said *said)
{
    return !coxi_psc_is_up(client) ? "lost" : said->is_late ? "silent" : "up";
}

static int add_ps(struct coxi_sampler *sampler, uint32_t i, struct coxi_buffer *to)
{
    struct coxi_psc *client = sampler->c->ps.clients[i];
    const struct counted *base = base_of(sampler);
    double seconds = seconds_since(sampler, base);
    const struct coxi_ps_said *now = &sampler->counted[NOW].ps[i];
    const struct coxi_ps_said *before = &base->ps[i];
    int r = coxi_buffer_printf(to, "%s{\"index\":%u,\"state\":\"%s\",\"address\":",
                               i > 0 ? "," : "", i, state_of(client, now));
    r = r == 0 ? coxi_json_text(to, coxi_psc_address(client)) : r;
    return r == 0 ? coxi_buffer_printf(
                        to,
                        ",\"bytes\":%llu,\"rows\":%llu,\"pulls\":%llu,\"commits\":%llu,"
                        "\"pulls_rate\":%.3f,\"commits_rate\":%.3f,\"lag_ms\":%llu,"
                        "\"stale_mean\":%.3f}",
                        U(now->counters.bytes), U(now->counters.rows),
                        U(now->counters.pulls), U(now->counters.commits),
                        rate(now->counters.pulls, before->counters.pulls, seconds),
                        rate(now->counters.commits, before->counters.commits, seconds),
                        U(now->lag_ms),
                        now->gradients > 0
                            ? (double)now->stale_sum / (double)now->gradients
                            : 0.0)
                  : r;
}

static void tell_ps(struct coxi_sampler *sampler, bool lasting)
{
    struct coxi_buffer to = {0};
    int r = coxi_buffer_printf(&to, "\"ps\":[");
    for (uint32_t i = 0; r == 0 && i < sampler->c->ps.n; i++) {
        r = add_ps(sampler, i, &to);
    }
    r = r == 0 ? coxi_buffer_printf(&to, "]") : r;
    tell(sampler, COXI_RECORD_PS, r, &to, lasting);
}

/* ---- the workers */

static const char *name_of(enum coxi_worker_state state)
{
    switch (state) {
    case COXI_WORKER_AWAY:
        return "away";
    case COXI_WORKER_DIALLING:
        return "dialling";
    case COXI_WORKER_GREETING:
        return "greeting";
    case COXI_WORKER_SETUP:
        return "setup";
    case COXI_WORKER_READY:
        return "ready";
    case COXI_WORKER_DRAINING:
        return "draining";
    case COXI_WORKER_GONE:
        return "gone";
    }
    return "";
}

/* Dialling again and again is no news. */
static bool is_there(enum coxi_worker_state state)
{
    return state == COXI_WORKER_READY || state == COXI_WORKER_SETUP ||
           state == COXI_WORKER_DRAINING;
}

static bool state_differs(const struct seen *a, const struct seen *b)
{
    bool changed = a->state != b->state && (is_there(a->state) || is_there(b->state));
    return changed || a->n_lost != b->n_lost || a->n_back != b->n_back ||
           a->n_unreached != b->n_unreached || a->slots != b->slots;
}

static bool counts_differ(const struct seen *a, const struct seen *b)
{
    return a->n_done != b->n_done || a->running != b->running ||
           a->resident != b->resident || b->rate != 0;
}

static int add_worker(const struct seen *seen, uint32_t index, bool first,
                      struct coxi_buffer *to)
{
    int r = coxi_buffer_printf(to, "%s{\"index\":%u,\"state\":\"%s\",\"address\":",
                               first ? "" : ",", index, name_of(seen->state));
    r = r == 0 ? coxi_json_text(to, seen->url) : r;
    if (r == 0 && seen->name != NULL) {
        r = coxi_buffer_printf(to, ",\"name\":");
        r = r == 0 ? coxi_json_text(to, seen->name) : r;
    }
    return r == 0 ? coxi_buffer_printf(
                        to,
                        ",\"slots\":%u,\"running\":%u,\"done\":%llu,\"rate\":%.3f,"
                        "\"step_us\":%.0f,\"rss\":%llu,\"lost\":%u,\"back\":%u,"
                        "\"unreached\":%u}",
                        seen->slots, seen->running, U(seen->n_done), seen->rate,
                        seen->step_us, U(seen->resident), seen->n_lost, seen->n_back,
                        seen->n_unreached)
                  : r;
}

/* What is told of the workers this time. */
struct due {
    bool all;
    bool counts;
    bool lasting;   /* the record goes to disk */
    double seconds; /* since their counts were told last */
    bool is_soon;   /* that is too short a time to tell rates of */
};

static struct due choose(struct coxi_sampler *sampler, uint64_t now_ms, bool last)
{
    uint64_t many = 1 + sampler->n_seen / FEW_WORKERS;
    uint64_t all_ms =
        ALL_FIRST_MS * many * (1 + (now_ms - sampler->begun_ms) / FIRST_MS);
    all_ms = all_ms < ALL_MS ? all_ms : ALL_MS;
    struct due due = {.all = last || sampler->n_told == 0 ||
                             now_ms - sampler->all_ms + SLACK_MS >= all_ms};
    uint64_t every_ms = 1000 * many;
    due.counts = due.all || now_ms - sampler->counts_ms + SLACK_MS >= every_ms;
    due.lasting = due.all;
    due.is_soon = now_ms - sampler->counts_ms < SLACK_MS;
    due.seconds =
        sampler->counts_ms != 0 ? 1e-3 * (double)(now_ms - sampler->counts_ms) : 0;
    sampler->all_ms = due.all ? now_ms : sampler->all_ms;
    sampler->counts_ms = due.counts ? now_ms : sampler->counts_ms;
    return due;
}

static void tell_workers(struct coxi_sampler *sampler, uint64_t now_ms, bool last)
{
    static const struct seen nothing;
    struct due due = choose(sampler, now_ms, last);
    struct coxi_buffer to = {0};
    bool first = true;
    int r = coxi_buffer_printf(&to, "\"whole\":%s,\"workers\":[",
                               due.all ? "true" : "false");
    for (uint32_t i = 0; r == 0 && i < sampler->n_seen; i++) {
        const struct seen *now = &sampler->seen[i];
        const struct seen *told = i < sampler->n_told ? &sampler->told[i] : &nothing;
        bool news = state_differs(now, told);
        if (due.all || news || (due.counts && counts_differ(now, told))) {
            sampler->seen[i].rate =
                due.is_soon ? told->rate : rate(now->n_done, told->n_done, due.seconds);
            r = add_worker(now, i, first, &to);
            sampler->told[i] = *now;
            first = false;
        }
        due.lasting = due.lasting || news;
    }
    sampler->n_told = sampler->n_seen;
    r = r == 0 ? coxi_buffer_printf(&to, "]") : r;
    if (first) {
        coxi_buffer_fini(&to);
        return;
    }
    tell(sampler, COXI_RECORD_WORKERS, r, &to, due.lasting);
}

/* ---- all of it */

/* True if this sample goes to disk. */
static bool is_lasting(struct coxi_sampler *sampler, uint64_t now_ms)
{
    uint64_t age_ms = now_ms - sampler->begun_ms;
    uint64_t every_ms = 1000 * (1 + age_ms / FIRST_MS);
    bool lasting =
        sampler->lasting_ms == 0 || now_ms - sampler->lasting_ms + SLACK_MS >= every_ms;
    sampler->lasting_ms = lasting ? now_ms : sampler->lasting_ms;
    return lasting;
}

/* Counts; what was counted before is kept for rates. `until` NULL: it is not the last
 * sample. */
static void count(struct coxi_sampler *sampler, const struct timespec *until)
{
    struct counted *counted = sampler->counted;
    struct counted oldest = counted[EARLIER];
    counted[EARLIER] = counted[BEFORE];
    counted[BEFORE] = counted[NOW];
    counted[NOW] = oldest;
    if (until != NULL) {
        coxi_stats_last(sampler->c, until, &counted[NOW].stats, counted[NOW].ps);
    } else {
        coxi_stats_look(sampler->c, &counted[NOW].stats, counted[NOW].ps);
    }
    counted[NOW].at_ms = coxi_now_ms();
}

static void take(struct coxi_sampler *sampler, const struct timespec *until)
{
    bool last = until != NULL;
    count(sampler, until);
    if (look_at_all(sampler) != 0) {
        return;
    }
    uint64_t now_ms = coxi_now_ms();
    bool lasting = is_lasting(sampler, now_ms) || last;
    tell_run(sampler, lasting, last);
    tell_ps(sampler, lasting);
    tell_workers(sampler, now_ms, last);
}

void coxi_sampler_take(struct coxi_sampler *sampler)
{
    take(sampler, NULL);
}

void coxi_sampler_last(struct coxi_sampler *sampler, const struct timespec *until)
{
    take(sampler, until);
}

int coxi_sampler_new(struct cox_coordinator *c, struct coxi_sampler **ret)
{
    struct coxi_sampler *sampler = calloc(1, sizeof(*sampler));
    if (sampler == NULL) {
        return coxi_error_memory("samples");
    }
    sampler->c = c;
    sampler->begun_ms = coxi_now_ms();
    for (size_t i = 0; i < N_COUNTED; i++) {
        sampler->counted[i].ps = calloc(c->ps.n, sizeof(struct coxi_ps_said));
        if (sampler->counted[i].ps == NULL) {
            coxi_sampler_free(sampler);
            return coxi_error_memory("samples");
        }
    }
    *ret = sampler;
    return 0;
}

void coxi_sampler_free(struct coxi_sampler *sampler)
{
    if (sampler != NULL) {
        for (size_t i = 0; i < N_COUNTED; i++) {
            free(sampler->counted[i].ps);
        }
        free(sampler->seen);
        free(sampler->told);
        free(sampler);
    }
}
