/*
 * Questions about a coordinator, above all statistics. The ps are asked for their
 * counts. A ps that does not answer soon, because it is away or busy, contributes its
 * last answer, and the user is told how old that is. So cox_stats waits for no recovery,
 * and returns something in every state.
 *
 * Invariant: a ps has one question at a time. A call counts an answer as fresh only if
 * the question was asked after the call began, so a fresh answer includes everything
 * that the caller has seen.
 *
 * Threads: any; answers come on the ps clients' threads. The answers are guarded by
 * c->lock.
 */
#include "coordinator/monitor/stats.h"

#include <stdlib.h>

#include "cluster/cluster.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/structs.h"
#include "common/sync.h"
#include "coordinator/workers/door.h"
#include "coordinator/workers/workers.h"
#include "net/ps_client.h"

/* The last answer of a ps. */
struct coxi_said {
    struct coxi_psc_request request; /* must be the first member */
    struct cox_coordinator *c;
    bool is_asked;
    uint64_t asked_ms; /* when the ps was asked */
    uint64_t number;   /* the last call that has asked the ps */
    uint64_t ended;    /* the last call whose question was answered or has failed */
    uint64_t answered; /* the last call that the ps has answered */
    uint64_t said_ms;  /* when it answered */
    struct coxi_counters counters;
    /* What the ps had counted whenever it was started again, because it begins at 0 then. Else
     * the sums over all ps would fall, and Prometheus takes a counter that falls for one that
     * began at 0: all that the other ps had counted would seem to have happened just now. */
    uint64_t before_commits;
    uint64_t before_duplicates;
    uint64_t before_infinite;
    uint64_t infinite;  /* see struct coxi_counts */
    uint64_t gradients; /* whose staleness was counted, and the sum of it */
    uint64_t stale_sum;
};

int coxi_stats_new(struct cox_coordinator *c)
{
    coxi_unshared(&c->lock);
    c->counts.said = calloc(c->site.cluster->n_ps, sizeof(*c->counts.said));
    if (c->counts.said == NULL) {
        return coxi_error_memory("statistics");
    }
    for (uint32_t p = 0; p < c->site.cluster->n_ps; p++) {
        c->counts.said[p].c = c;
        c->counts.said[p].said_ms = coxi_now_ms();
    }
    return 0;
}

void coxi_stats_free(struct cox_coordinator *c)
{
    coxi_unshared(&c->lock);
    free(c->counts.said);
    c->counts.said = NULL;
}

/* ---- asking */

/* The question was answered, or has failed. */
static void ended(struct coxi_said *said) COXI_REQUIRES(said->c->lock)
{
    said->is_asked = false;
    said->ended = said->number;
    (void)pthread_cond_broadcast(&said->c->life.changed);
}

/* A number that falls has begun anew. */
static void keep(uint64_t *before, uint64_t last, uint64_t now)
{
    *before += now < last ? last : 0;
}

/* Takes the counts of an answer. */
static void take(struct coxi_said *said, const struct coxi_counts *counts)
    COXI_REQUIRES(said->c->lock)
{
    keep(&said->before_commits, said->counters.commits, counts->all.commits);
    keep(&said->before_duplicates, said->counters.duplicates, counts->all.duplicates);
    keep(&said->before_infinite, said->infinite, counts->infinite);
    said->counters = counts->all;
    said->infinite = counts->infinite;
    said->gradients = 0;
    for (size_t i = 0; i < COXI_STALE_BUCKETS; i++) {
        said->gradients += counts->stale.counts[i];
    }
    said->stale_sum = counts->stale.sum;
}

/* On a ps client's thread. */
static void on_answer(struct coxi_psc_request *request, int code,
                      const struct coxi_message *answer, void *payload, size_t len)
{
    struct coxi_said *said = (struct coxi_said *)request;
    struct cox_coordinator *c = said->c;
    (void)payload;
    (void)len;
    coxi_lock(&c->lock);
    if (code == 0 && answer->kind == COXI_COUNTS) {
        take(said, &answer->counts);
        said->answered = said->number;
        said->said_ms = coxi_now_ms();
    }
    ended(said);
    coxi_unlock(&c->lock);
}

/* Asks a ps. Unlocks while it asks. */
static void ask(struct cox_coordinator *c, uint32_t p, uint64_t number)
    COXI_REQUIRES(c->lock)
{
    struct coxi_said *said = &c->counts.said[p];
    struct coxi_message message = {.kind = COXI_COUNT};
    message.count.stale_of = COXI_STALE_ALL;
    said->is_asked = true;
    said->asked_ms = coxi_now_ms();
    said->number = number;
    said->request = (struct coxi_psc_request){.done = on_answer};
    coxi_unlock(&c->lock);
    int r = coxi_psc_submit_now(c->ps.clients[p], &message, &said->request, false);
    coxi_lock(&c->lock);
    if (r != 0) {
        ended(said);
    }
}

/*
 * For call `number` of cox_stats: asks every ps of which the call knows no outcome yet,
 * unless an earlier question to that ps is still open. True if waiting for an answer
 * makes sense. It unlocks while it asks, and answers may come meanwhile. So it looks at
 * all ps again until it has asked none, and returns the result of that look.
 */
static bool ask_all(struct cox_coordinator *c, uint64_t number) COXI_REQUIRES(c->lock)
{
    bool waits;
    bool asked;
    do {
        waits = false;
        asked = false;
        for (uint32_t p = 0; p < c->ps.n; p++) {
            const struct coxi_said *said = &c->counts.said[p];
            if (!said->is_asked && said->ended < number) {
                ask(c, p, number);
                asked = true;
            }
            waits = waits || (said->is_asked && said->ended < number &&
                              coxi_now_ms() - said->asked_ms < COXI_ANSWER_MS);
        }
    } while (asked);
    return waits;
}

/* ---- the result */

static void add_said(struct cox_stats *stats, const struct coxi_said *said,
                     uint64_t number)
{
    uint64_t age_ms = said->answered < number ? coxi_now_ms() - said->said_ms : 0;
    stats->ps_age_ms = age_ms > stats->ps_age_ms ? age_ms : stats->ps_age_ms;
    stats->commits += said->before_commits + said->counters.commits;
    stats->commits_duplicate += said->before_duplicates + said->counters.duplicates;
    stats->pulled_infinite += said->before_infinite + said->infinite;
    stats->table_rows += said->counters.rows;
    stats->ps_bytes += said->counters.bytes;
}

static struct coxi_ps_said said_of(const struct coxi_said *said, uint64_t number)
{
    bool is_fresh = said->answered >= number;
    uint64_t now_ms = coxi_now_ms();
    return (struct coxi_ps_said){
        .counters = said->counters,
        .gradients = said->gradients,
        .stale_sum = said->stale_sum,
        .is_fresh = is_fresh,
        .is_late = said->is_asked && now_ms - said->asked_ms >= COXI_ANSWER_MS,
        .lag_ms = is_fresh ? said->said_ms - said->asked_ms : now_ms - said->said_ms};
}

/* `ends_early`: does not wait once the client is being closed. */
static void look(struct cox_coordinator *c, const struct timespec *until,
                 bool ends_early, struct cox_stats *ret, struct coxi_ps_said *ret_ps)
{
    coxi_lock(&c->lock);
    uint64_t number = ++c->counts.n_asked;
    while (ask_all(c, number) && !(ends_early && c->life.closing) &&
           coxi_wait_until(&c->life.changed, &c->lock, until)) {
    }
    *ret = c->counts.stats;
    ret->queued = c->life.n_waiting;
    ret->in_flight = c->life.n_unsettled - c->life.n_waiting;
    ret->workers = c->workers->n;
    ret->workers_ready = c->workers->n_ready;
    for (uint32_t p = 0; p < c->ps.n; p++) {
        add_said(ret, &c->counts.said[p], number);
        if (ret_ps != NULL) {
            ret_ps[p] = said_of(&c->counts.said[p], number);
        }
    }
    coxi_unlock(&c->lock);
}

void coxi_stats_look(struct cox_coordinator *c, struct cox_stats *ret,
                     struct coxi_ps_said *ret_ps)
{
    struct timespec until = coxi_deadline(COXI_ANSWER_MS);
    look(c, &until, true, ret, ret_ps);
}

void coxi_stats_last(struct cox_coordinator *c, const struct timespec *until,
                     struct cox_stats *ret, struct coxi_ps_said *ret_ps)
{
    struct timespec soon = coxi_deadline(COXI_ANSWER_MS);
    look(c, coxi_before(until, &soon) ? until : &soon, false, ret, ret_ps);
}

int cox_stats(struct cox_coordinator *c, struct cox_stats *ret)
{
    struct cox_stats stats;
    if (c == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_stats needs a coordinator");
    }
    COXI_CALL(c);
    struct timespec until = coxi_deadline(COXI_ANSWER_MS);
    look(c, &until, false, &stats, NULL);
    return coxi_struct_return(ret, COXI_STRUCT_STATS, &stats);
}

/* ---- other questions */

uint64_t cox_run_id(const struct cox_coordinator *c)
{
    return c->session.run;
}

const char *cox_listen_address(const struct cox_coordinator *c)
{
    return c != NULL && c->workers->door != NULL ? coxi_door_url(c->workers->door)
                                                 : NULL;
}
