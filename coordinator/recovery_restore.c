/* Bringing back a ps that is lost: reach it, restore it, have everybody use it. */
#include "coordinator/recovery_internal.h"

#include <stdlib.h>

#include "common/chain.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/sync.h"

static uint64_t count_moves(struct coxi_recovery *rec)
{
    coxi_lock(&rec->lock);
    uint64_t n = rec->n_moves;
    coxi_unlock(&rec->lock);
    return n;
}

/* A client of ps p that has reached it, and claimed it. COX_ETIMEDOUT also where a ps has got
 * another address meanwhile. */
static int reach(struct coxi_recovery *rec, uint32_t p, uint64_t end_ms,
                 struct coxi_psc **ret)
{
    struct cox_coordinator *c = rec->c;
    struct coxi_psc *psc = NULL;
    uint64_t n_moves = count_moves(rec);
    int r = coxi_ps_connect(c, p, &psc);
    if (r != 0) {
        return r;
    }
    while ((r = coxi_psc_wait(psc, COXI_RECOVERY_SLICE_MS)) == COX_ETIMEDOUT &&
           n_moves == count_moves(rec) && coxi_now_ms() < end_ms &&
           !coxi_recovery_stopping(rec)) {
        coxi_psc_tick(psc);
    }
    if (r == 0) {
        struct coxi_message claim = {.kind = COXI_CLAIM, .claim = c->session};
        struct coxi_psc_request request = {0};
        r = coxi_psc_call(psc, &claim, &request, COXI_STATUS, NULL, NULL);
    }
    if (r != 0) {
        coxi_psc_close(psc);
        return r;
    }
    *ret = psc;
    return 0;
}

/* True where ps p holds a part of it. */
bool coxi_recovery_is_part(const struct coxi_variable *variable, uint32_t p)
{
    return variable->kind == COXI_KIND_TABLE ||
           coxi_variable_shard(variable, p) != NULL;
}

int coxi_recovery_create(struct coxi_recovery *rec, struct coxi_psc *psc,
                         const struct coxi_variable *variable, uint64_t id)
{
    struct coxi_message message = {.kind = COXI_CREATE};
    struct coxi_psc_request request = {0};
    message.create.session = rec->c->session;
    message.create.closure = id;
    message.create.variable = *variable;
    return coxi_psc_call(psc, &message, &request, COXI_STATUS, NULL, NULL);
}

/* The variables that are in the checkpoint; their descriptions live until close. */
static int create_covered(struct coxi_recovery *rec, uint32_t p, struct coxi_psc *psc,
                          const struct coxi_applied_list *list)
{
    struct cox_coordinator *c = rec->c;
    int r = 0;
    for (uint32_t i = 0; r == 0; i++) {
        coxi_lock(&c->lock);
        const struct coxi_entry *entry = i < c->n_entries ? c->entries[i] : NULL;
        bool wanted =
            entry != NULL && entry->made &&
            coxi_recovery_is_part(entry->description, p) &&
            (entry->created == 0 || coxi_applied_list_has(list, entry->created, 0));
        coxi_unlock(&c->lock);
        if (entry == NULL) {
            break;
        }
        if (wanted) {
            /* Any id will do: the applied set that is restored takes its place. */
            r = coxi_recovery_create(rec, psc, entry->description, 1 + i);
        }
    }
    return r;
}

/* Number `at` of what it is restored from. */
static int restore_file(struct coxi_recovery *rec, struct coxi_psc *psc,
                        const struct coxi_link_of_chain *link, uint32_t p, uint64_t at)
{
    char file[PATH_MAX];
    const struct coxi_manifest_shard *shard = &link->manifest->shards[p];
    const struct coxi_applied_list *list = &shard->applied;
    struct coxi_message message = {.kind = COXI_RESTORE};
    struct coxi_psc_request request = {0};
    int r = coxi_path(file, "%s/%s", link->path, shard->file);
    if (r != 0) {
        return r;
    }
    message.restore = (struct coxi_restore){
        .session = rec->c->session,
        .round = 1 + rec->n_losses,
        .path = file,
        .bytes = shard->bytes,
        .crc32 = shard->crc32,
        .watermark = list->watermark,
        .applied = list->intervals,
        .n_applied = list->n_intervals,
        .touched = list->touched,
        .n_touched = list->n_touched,
        .at = at,
    };
    return coxi_psc_call(psc, &message, &request, COXI_STATUS, NULL, NULL);
}

/* From its whole shard, and then those that build on it. */
static int restore(struct coxi_recovery *rec, struct coxi_psc *psc, const char *path,
                   uint32_t p)
{
    struct coxi_chain chain = {0};
    int r = coxi_chain_read(path, &chain);
    size_t n = r == 0 ? coxi_chain_length(&chain, p) : 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = restore_file(rec, psc, &chain.links[n - 1 - i], p, i);
    }
    coxi_chain_fini(&chain);
    return r;
}

struct bars {
    uint64_t *ids;
    size_t n;
    size_t capacity;
    uint64_t watermark;
};

static int note_bar(void *arg, const struct coxi_log_entry *entry)
{
    struct bars *bars = arg;
    if (entry->kind != COXI_LOG_BARRED || entry->id <= bars->watermark) {
        return 0;
    }
    if (bars->n == bars->capacity) {
        size_t capacity = bars->capacity == 0 ? 64 : bars->capacity * 2;
        uint64_t *ids = realloc(bars->ids, capacity * sizeof(*ids));
        if (ids == NULL) {
            return coxi_error_memory("closures that must not apply");
        }
        bars->ids = ids;
        bars->capacity = capacity;
    }
    bars->ids[bars->n++] = entry->id;
    return 0;
}

/* Tells it what must never apply: it has forgotten that, too. */
static int bar(struct coxi_recovery *rec, struct coxi_psc *psc, uint64_t watermark)
{
    struct bars bars = {.watermark = watermark};
    struct coxi_round round;
    int r = coxi_log_each(rec->log, note_bar, &bars);
    struct coxi_round_call *calls = calloc(bars.n + 1, sizeof(*calls));
    if (r == 0 && calls == NULL) {
        r = coxi_error_memory("closures that must not apply");
    }
    if (r == 0) {
        coxi_round_begin(&round);
        for (size_t i = 0; i < bars.n; i++) {
            struct coxi_message message = {.kind = COXI_VOID};
            message.void_ =
                (struct coxi_void){rec->c->session, bars.ids[i], UINT32_MAX};
            calls[i].expect = COXI_VOIDED;
            coxi_round_add(&round, psc, &message, &calls[i]);
        }
        r = coxi_round_end(&round);
    }
    free(calls);
    free(bars.ids);
    return r;
}

int coxi_recovery_fill(struct coxi_recovery *rec, uint32_t p, struct coxi_psc *psc)
{
    const struct coxi_recovery_base *base =
        &rec->base; /* changed by checkpoints, which wait for us */
    int r = create_covered(rec, p, psc, &base->shards[p].applied);
    return r == 0 ? restore(rec, psc, base->path, p) : r;
}

/* Gives a ps that has nothing what the checkpoint has of it, and tells it the rest. */
static int refill(struct coxi_recovery *rec, uint32_t p, struct coxi_psc *psc)
{
    struct coxi_applied_list list = {0};
    int r = 0;
    if (rec->base.path != NULL) {
        const struct coxi_applied_list *had = &rec->base.shards[p].applied;
        r = coxi_recovery_fill(rec, p, psc);
        if (r == 0) {
            r = coxi_applied_list_copy(had->watermark, had->intervals, had->n_intervals,
                                       had->touched, had->n_touched, &list);
        }
    }
    if (r == 0) {
        r = bar(rec, psc, list.watermark);
    }
    if (r != 0) {
        coxi_applied_list_fini(&list);
        return r;
    }
    coxi_lock(&rec->lock);
    coxi_applied_list_fini(&rec->servers[p].restored);
    rec->servers[p].restored = list;
    rec->servers[p].watermark = list.watermark;
    rec->servers[p].owed = true;
    coxi_unlock(&rec->lock);
    return 0;
}

struct change {
    uint32_t ps;
    struct coxi_psc *psc;
};

/* On the loop: from here on it is the ps. */
static void exchange(struct coxi_recovery *rec, void *arg)
{
    struct change *change = arg;
    struct cox_coordinator *c = rec->c;
    rec->servers[change->ps].epoch = ++rec->epoch;
    coxi_lock(&c->lock);
    coxi_lock(&rec->lock);
    c->ps[change->ps] = change->psc;
    rec->servers[change->ps].lost = false;
    coxi_unlock(&rec->lock);
    c->layout_changed = true;
    c->stats.ps_recovered++;
    coxi_unlock(&c->lock);
}

int coxi_recovery_bring_back(struct coxi_recovery *rec, uint32_t p, uint64_t end_ms)
{
    struct cox_coordinator *c = rec->c;
    struct coxi_psc *old = c->ps[p];
    struct coxi_psc *psc = NULL;
    struct coxi_psc **past = realloc(rec->past, (rec->n_past + 1) * sizeof(*past));
    if (past == NULL) {
        return coxi_error_memory("another connection to a ps");
    }
    rec->past = past;
    int r = reach(rec, p, end_ms, &psc);
    if (r == 0 && coxi_psc_incarnation(psc) != coxi_psc_incarnation(old)) {
        r = refill(rec, p, psc);
    }
    if (r != 0) {
        coxi_psc_close(psc);
        return r;
    }
    rec->past[rec->n_past++] = old;
    coxi_recovery_on_loop(rec, exchange, &(struct change){p, psc});
    if (coxi_psc_wait(psc, 0) != 0) { /* it went while it was not ours to be told */
        (void)coxi_recovery_lost(c, psc);
    }
    return 0;
}
