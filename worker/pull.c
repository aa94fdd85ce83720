/*
 * Pulls of a step: one request to each ps that has some of the rows, and the answers
 * put where they belong.
 *
 * A pull is a fetch. It is put together for all ps (begin), under way, and over (wait);
 * then the fetch can be used again. Each distinct row of a list goes over the wire
 * once. The i-th of them lands in the i-th place of the step's memory. When all are
 * there, they are moved apart, from the last on, so that none is overwritten before it
 * is read.
 *
 * A pull that begins and is waited for in one call is received in the step's own memory
 * where that is possible (one ps, one variable, in its own type). Otherwise the threads
 * that receive the answers put the values there, several at the same time. If the step
 * goes on before it waits, the values stay in memory of the fetch, because the step may
 * have returned by the time they come.
 *
 * Threads: a slot; answers come on a ps client's thread, one for each part at a time.
 *
 * Cost: no allocation once an attempt's buffers have grown.
 */
#include "worker/pull.h"

#include <stdlib.h>
#include <string.h>

#include "common/dtype.h"
#include "common/error.h"
#include "worker/fetch.h"

/* ---- putting a request together */

static int add_piece(struct coxi_part *part, uint64_t begin,
                     const struct coxi_piece *piece)
{
    const struct coxi_pull_item item = {piece->variable->id, begin, piece->count,
                                        piece->version};
    int r = coxi_buffer_append_raw(&part->items, &item, sizeof(item));
    if (r == 0) {
        r = coxi_buffer_append_raw(&part->pieces, piece, sizeof(*piece));
    }
    part->answer_len +=
        coxi_pull_bytes(piece->variable, piece->count, piece->row_bytes);
    return r;
}

static int pull_range(struct coxi_fetch *fetch, const struct cox_pull *pull)
{
    const struct coxi_variable *v = pull->variable->description;
    bool all = pull->rows.form == COX_ROWS_ALL;
    uint64_t begin = all ? 0 : pull->rows.begin;
    uint64_t count = all ? coxi_variable_rows(v) : pull->rows.n;
    struct coxi_piece piece = {.variable = v, .row_bytes = coxi_variable_row_bytes(v)};
    if ((pull->flags & COX_PULL_CACHED) != 0) {
        piece.copy = coxi_run_copy(fetch->attempt->run, pull->variable);
    }
    int r = 0;
    for (size_t i = 0; r == 0 && i < v->n_shards; i++) {
        struct coxi_range range = coxi_shard_part(&v->shards[i], begin, count);
        struct coxi_part *part = &fetch->parts[v->shards[i].ps];
        if (range.count == 0) {
            continue;
        }
        piece.to = (uint8_t *)pull->values + (range.begin - begin) * piece.row_bytes;
        piece.count = range.count;
        piece.shard = i;
        piece.version = piece.copy == NULL
                            ? 0
                            : coxi_copy_version(piece.copy, i, part->incarnation);
        r = add_piece(part, range.begin, &piece);
    }
    return r;
}

/* Makes room for those of the listed rows that one ps has, and adds their piece. */
static int open_list(struct coxi_part *part, const struct coxi_piece *all, size_t count)
{
    struct coxi_piece piece = *all;
    piece.count = count;
    piece.places = part->places.len / sizeof(uint32_t);
    bool is_table = piece.variable->kind == COXI_KIND_TABLE;
    int r = coxi_buffer_reserve(&part->list, count * sizeof(uint64_t));
    if (r == 0 && piece.scattered) {
        r = coxi_buffer_reserve(&part->places, count * sizeof(uint32_t));
    }
    return r == 0 ? add_piece(part, is_table ? 0 : COXI_ROWS_LISTED, &piece) : r;
}

/* Puts each row into the list for its ps, with its place. */
static void put_lists(struct coxi_fetch *fetch, const struct coxi_spread *spread)
{
    const uint64_t *distinct = coxi_spread_distinct(spread);
    if (spread->one) {
        struct coxi_buffer *list = &fetch->parts[spread->ps].list;
        size_t len = spread->n_distinct * sizeof(*distinct);
        memcpy(list->data + list->len, distinct, len);
        list->len += len;
        return;
    }
    for (size_t i = 0; i < spread->n_distinct; i++) {
        struct coxi_part *part = &fetch->parts[coxi_spread_home(spread, i).ps];
        uint32_t place = (uint32_t)i;
        memcpy(part->list.data + part->list.len, &distinct[i], sizeof(*distinct));
        memcpy(part->places.data + part->places.len, &place, sizeof(place));
        part->list.len += sizeof(*distinct);
        part->places.len += sizeof(place);
    }
}

static int pull_listed(struct coxi_fetch *fetch, const struct cox_pull *pull)
{
    struct coxi_attempt *attempt = fetch->attempt;
    const struct coxi_variable *v = pull->variable->description;
    struct coxi_spread *spread = &attempt->scratch->spread;
    struct coxi_doubled doubled = {
        .to = pull->values,
        .row_bytes = coxi_variable_row_bytes(v),
        .n = pull->rows.n,
        .places = fetch->places.len / sizeof(uint32_t),
    };
    if (pull->rows.n == 0) {
        return 0;
    }
    int r = coxi_spread_rows(spread, v, attempt->n_targets, pull->rows.keys,
                             pull->rows.n, &fetch->places);
    const struct coxi_piece piece = {.variable = v,
                                     .to = pull->values,
                                     .row_bytes = doubled.row_bytes,
                                     .scattered = !spread->one};
    for (uint32_t p = 0; r == 0 && p < attempt->n_targets; p++) {
        size_t count = coxi_spread_count(spread, p);
        if (count > 0) {
            r = open_list(&fetch->parts[p], &piece, count);
        }
    }
    if (r == 0) {
        put_lists(fetch, spread);
        if (spread->n_distinct < pull->rows.n) {
            r = coxi_buffer_append_raw(&fetch->doubled, &doubled, sizeof(doubled));
        }
    }
    return r;
}

static int add_pull(struct coxi_fetch *fetch, const struct cox_pull *pull)
{
    const struct coxi_variable *v = pull->variable->description;
    bool all = pull->rows.form == COX_ROWS_ALL;
    int r = coxi_rows_check(v, &pull->rows);
    if (r != 0) {
        return r;
    }
    if (pull->values == NULL && (all || pull->rows.n > 0)) {
        return coxi_error(COX_EINVAL, "a pull of '%s' has no place for its values",
                          v->name);
    }
    if (pull->flags > COX_PULL_CACHED || (pull->flags != 0 && !all)) {
        return coxi_error(COX_EINVAL,
                          "a pull of '%s': flags %#x, which only a dense variable "
                          "that is pulled whole can have",
                          v->name, pull->flags);
    }
    return pull->rows.form == COX_ROWS_LISTED ? pull_listed(fetch, pull)
                                              : pull_range(fetch, pull);
}

/* ---- answers */

/* Keeps an answer until the step waits for it. */
static int keep(struct coxi_part *part, const uint8_t *from, size_t len,
                const uint64_t *versions, size_t n_versions)
{
    part->versions.len = 0;
    int r = coxi_buffer_append_raw(&part->versions, versions,
                                   n_versions * sizeof(*versions));
    if (r == 0 && from != part->values.data) {
        memcpy(part->values.data, from, len); /* reserved for answer_len */
    }
    return r;
}

static void answered(struct coxi_psc_request *request, int code,
                     const struct coxi_message *answer, void *payload, size_t len)
{
    struct coxi_part *part = (struct coxi_part *)request;
    struct coxi_fetch *fetch = part->fetch;
    const char *text = coxi_error_text();
    if (code == 0 && answer->kind != COXI_PULLED) {
        code = COX_EPROTO;
        text = "the ps answered a pull with something else";
    } else if (code == 0 && answer->status.code != 0) {
        code = answer->status.code;
        text = answer->status.message;
    } else if (code == 0) {
        const uint64_t *versions = answer->status.versions;
        size_t n_versions = answer->status.n_versions;
        /* If the answer was received into `into`, use that memory. */
        bool received = request->into != NULL && len == request->into_len;
        const uint8_t *from = received ? request->into : payload;
        code = coxi_fetch_check(part, len, versions, n_versions);
        if (code == 0) {
            code = fetch->at_once ? coxi_fetch_deliver(part, from, versions)
                                  : keep(part, from, len, versions, n_versions);
        }
        text = coxi_error_text();
    }
    (void)coxi_attempt_answered(fetch->attempt, &fetch->answers, code, text);
}

/* ---- a fetch's life */

/*
 * Chooses where to receive an answer: in the step's memory, if the values come in their
 * final form; in memory of the fetch, if they must wait for the step; else where the
 * connection puts it.
 */
static int choose_place(struct coxi_part *part, bool at_once)
{
    const struct coxi_piece *only =
        (const struct coxi_piece *)(void *)part->pieces.data;
    part->request.into = NULL;
    part->request.into_len = part->answer_len;
    if (!at_once) {
        part->values.len = 0;
        int r = coxi_buffer_reserve(&part->values, part->answer_len);
        part->request.into = part->values.data;
        return r;
    }
    if (part->pieces.len == sizeof(*only) && !only->scattered &&
        coxi_pull_dtype(only->variable) == only->variable->dtype) {
        part->request.into = only->to;
    }
    return 0;
}

static int submit(struct coxi_fetch *fetch, uint32_t ps)
{
    struct coxi_run *run = fetch->attempt->run;
    struct coxi_part *part = &fetch->parts[ps];
    part->segment = (struct iovec){part->list.data, part->list.len};
    part->request = (struct coxi_psc_request){
        .payload = &part->segment,
        .n_payload = part->list.len > 0 ? 1 : 0,
        .answer_len = part->answer_len,
        .done = answered,
    };
    int r = choose_place(part, fetch->at_once);
    struct coxi_message message = {.kind = COXI_PULL};
    message.pull = (struct coxi_pull){
        .session = run->session,
        .incarnation = part->incarnation,
        .items = (const struct coxi_pull_item *)(void *)part->items.data,
        .n_items = part->items.len / sizeof(struct coxi_pull_item),
        .narrow = true,
    };
    return r == 0 ? coxi_psc_submit(run->ps[ps], &message, &part->request, false) : r;
}

static void submit_all(struct coxi_fetch *fetch)
{
    struct coxi_attempt *attempt = fetch->attempt;
    for (uint32_t p = 0; p < attempt->n_targets; p++) {
        if (fetch->parts[p].items.len == 0) {
            continue;
        }
        coxi_attempt_expect(attempt, &fetch->answers);
        int r = submit(fetch, p);
        if (r != 0) {
            (void)coxi_attempt_answered(attempt, &fetch->answers, r, coxi_error_text());
        }
    }
}

static void fetch_reset(struct coxi_fetch *fetch, bool at_once)
{
    struct coxi_attempt *attempt = fetch->attempt;
    fetch->at_once = at_once;
    fetch->places.len = fetch->doubled.len = 0;
    for (uint32_t p = 0; p < attempt->n_targets; p++) {
        struct coxi_part *part = &fetch->parts[p];
        part->items.len = part->list.len = 0;
        part->places.len = part->pieces.len = 0;
        part->answer_len = 0;
        part->incarnation = coxi_run_incarnation(attempt->run, p, attempt->layouts);
    }
}

static int fetch_new(uint32_t n_parts, struct coxi_fetch **ret)
{
    struct coxi_fetch *fetch =
        calloc(1, sizeof(*fetch) + n_parts * sizeof(*fetch->parts));
    if (fetch == NULL) {
        return coxi_error_memory("a pull");
    }
    fetch->n_parts = n_parts;
    for (uint32_t p = 0; p < n_parts; p++) {
        fetch->parts[p].fetch = fetch;
    }
    *ret = fetch;
    return 0;
}

/*
 * A fetch that is not under way. The last one is for pulls that are waited for at once.
 */
static int fetch_take(struct coxi_attempt *attempt, bool at_once,
                      struct coxi_fetch **ret)
{
    size_t first = at_once ? COXI_PULLS_MAX : 0;
    size_t end = at_once ? COXI_FETCHES_MAX : COXI_PULLS_MAX;
    for (size_t i = first; i < end; i++) {
        struct coxi_fetch **fetch = &attempt->scratch->fetches[i];
        if (*fetch != NULL && (*fetch)->under_way) {
            continue;
        }
        int r = *fetch == NULL ? fetch_new(attempt->n_targets, fetch) : 0;
        if (r == 0) {
            (*fetch)->attempt = attempt;
            *ret = *fetch;
        }
        return r;
    }
    return coxi_error(COX_ELIMIT,
                      "%d pulls of this step are under way: wait for one of them",
                      COXI_PULLS_MAX);
}

int coxi_pull_begin(struct coxi_attempt *attempt, const struct cox_pull *pulls,
                    size_t n_pulls, bool at_once, struct coxi_fetch **ret)
{
    struct coxi_fetch *fetch = NULL;
    int r = coxi_attempt_check(attempt);
    if (r == 0) {
        r = fetch_take(attempt, at_once, &fetch);
    }
    if (r != 0) {
        return r;
    }
    fetch_reset(fetch, at_once);
    for (size_t i = 0; r == 0 && i < n_pulls; i++) {
        r = add_pull(fetch, &pulls[i]);
    }
    if (r != 0) {
        return r;
    }
    coxi_run_flush_reports(attempt->run); /* the pull may take a while */
    fetch->under_way = true;
    submit_all(fetch);
    *ret = fetch;
    return 0;
}

static bool is_under_way(const struct coxi_attempt *attempt,
                         const struct coxi_fetch *fetch)
{
    bool is = false;
    for (size_t i = 0; i < COXI_FETCHES_MAX; i++) {
        is = is || (fetch != NULL && attempt->scratch->fetches[i] == fetch &&
                    fetch->under_way);
    }
    return is;
}

/*
 * Waits for a pull even if its step is cancelled, because the answer may be on its way
 * into the step's memory. A ps that is alive answers soon; if it is not, the step's
 * grace is the limit.
 */
int coxi_pull_wait(struct coxi_attempt *attempt, struct coxi_fetch *fetch)
{
    if (!is_under_way(attempt, fetch)) {
        return coxi_error(COX_EINVAL, "this pull is not under way");
    }
    int r = coxi_attempt_wait(attempt, &fetch->answers);
    fetch->under_way = false;
    if (r == 0 && !fetch->at_once) {
        r = coxi_fetch_deliver_kept(fetch);
    }
    if (r == COX_EPSLOST || r == COX_EFENCED) {
        attempt->lost = r;
    }
    if (r == 0) {
        coxi_fetch_move_apart(fetch);
        r = coxi_attempt_check(attempt);
    }
    return r;
}

void coxi_pulls_end(struct coxi_attempt *attempt)
{
    for (size_t i = 0; i < COXI_FETCHES_MAX; i++) {
        struct coxi_fetch *fetch = attempt->scratch->fetches[i];
        if (fetch != NULL && fetch->under_way) {
            (void)coxi_attempt_wait(attempt, &fetch->answers);
            fetch->under_way = false;
        }
    }
}

void coxi_pulls_free(struct coxi_scratch *scratch)
{
    for (size_t i = 0; i < COXI_FETCHES_MAX; i++) {
        struct coxi_fetch *fetch = scratch->fetches[i];
        for (uint32_t p = 0; fetch != NULL && p < fetch->n_parts; p++) {
            struct coxi_part *part = &fetch->parts[p];
            coxi_buffer_fini(&part->items);
            coxi_buffer_fini(&part->list);
            coxi_buffer_fini(&part->places);
            coxi_buffer_fini(&part->pieces);
            coxi_buffer_fini(&part->values);
            coxi_buffer_fini(&part->versions);
        }
        if (fetch != NULL) {
            coxi_buffer_fini(&fetch->places);
            coxi_buffer_fini(&fetch->doubled);
        }
        free(fetch);
    }
}
