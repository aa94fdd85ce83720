/*
 * Pulls of a step: one request to each ps that has some of the rows, and the answers
 * put where they belong.
 *
 * A pull is a fetch. It is put together for all ps (begin), under way, and over (wait);
 * then the fetch can be used again. pull_listed.c puts lists of rows together.
 *
 * A pull that begins and is waited for in one call is received in the step's own memory
 * where that is possible (one ps, one variable, in its own type). Otherwise the threads
 * that receive the answers put the values there, several at the same time. If the step
 * goes on before it waits, the values stay in memory of the fetch, because the step may
 * have returned by the time they come.
 *
 * A dense variable that an earlier step of the same synchronous round has pulled is taken
 * from the worker's copy (copies.h), without asking the ps.
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
#include "common/floats.h"
#include "worker/pull_internal.h"

enum {
    NO_VALUES = 1, /* in place of a version: of values that are not here */
    /* most bytes of a variable that is copied only because its round is synchronous: to
     * copy more costs more than it saves if the worker has one step of a round */
    COPIED_MAX = 64 * 1024,
};

/* ---- putting a request together */

int coxi_pull_add_piece(struct coxi_part *part, uint64_t begin,
                        const struct coxi_piece *piece)
{
    const struct coxi_pull_item item = {piece->variable->id, begin, piece->count,
                                        piece->version};
    int r = coxi_buffer_append_raw(&part->items, &item, sizeof(item));
    if (r == 0) {
        r = coxi_buffer_append_raw(&part->pieces, piece, sizeof(*piece));
    }
    part->answer_len += piece->count * piece->wire_bytes;
    return r;
}

int coxi_pull_ask_version(struct coxi_fetch *fetch, const struct cox_variable *variable,
                          size_t i, struct coxi_piece *piece)
{
    if (i >= variable->n_versions) {
        return 0;
    }
    piece->is_noted = true;
    piece->place = variable->versions + i;
    piece->version = piece->version != 0 ? piece->version : NO_VALUES;
    return coxi_versions_reserve(&fetch->attempt->scratch->versions, piece->place);
}

static struct coxi_sight sight_of(const struct coxi_fetch *fetch)
{
    const struct coxi_round_head *round = &fetch->attempt->call.round;
    return (struct coxi_sight){round->after, round->view};
}

/* The worker's copy of what is pulled, if that is to be kept. */
static struct coxi_copy *copy_for(const struct coxi_fetch *fetch,
                                  const struct cox_pull *pull)
{
    bool shared = fetch->attempt->call.round.view != 0 &&
                  pull->rows.form == COX_ROWS_ALL &&
                  coxi_variable_bytes(pull->variable->description) <= COPIED_MAX;
    return shared || (pull->flags & COX_PULL_CACHED) != 0
               ? coxi_run_copy(fetch->attempt->run, pull->variable)
               : NULL;
}

/* Takes a piece from the copy, if that shows what the step must see. */
static bool take_copy(struct coxi_fetch *fetch, const struct coxi_part *part,
                      const struct coxi_piece *piece)
{
    const struct coxi_sight sight = sight_of(fetch);
    uint64_t version =
        coxi_copy_take(piece->copy, piece->shard, part->incarnation, &sight, piece->to);
    if (version != 0 && piece->is_noted) {
        coxi_versions_note(&fetch->attempt->scratch->versions, piece->place, version);
    }
    return version != 0;
}

static int pull_range(struct coxi_fetch *fetch, const struct cox_pull *pull)
{
    const struct coxi_variable *v = pull->variable->description;
    uint64_t begin = pull->rows.form == COX_ROWS_ALL ? 0 : pull->rows.begin;
    struct coxi_piece piece = {.variable = v,
                               .row_bytes = pull->variable->row_bytes,
                               .wire_bytes = pull->variable->wire_bytes,
                               .copy = copy_for(fetch, pull)};
    int r = 0;
    for (size_t i = 0; r == 0 && i < v->n_shards; i++) {
        const struct coxi_shard *shard = &v->shards[i];
        struct coxi_range range = coxi_rows_part(&pull->rows, shard);
        struct coxi_part *part = &fetch->parts[shard->ps];
        if (range.count == 0) {
            continue;
        }
        piece.to = (uint8_t *)pull->values + (range.begin - begin) * piece.row_bytes;
        piece.count = range.count;
        piece.shard = i;
        piece.version = piece.copy == NULL
                            ? 0
                            : coxi_copy_version(piece.copy, i, part->incarnation);
        r = coxi_pull_ask_version(fetch, pull->variable, i, &piece);
        if (r == 0 && (piece.copy == NULL || !take_copy(fetch, part, &piece))) {
            r = coxi_pull_add_piece(part, range.begin, &piece);
        }
    }
    return r;
}

int coxi_pull_check(const struct cox_pull *pull)
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
    return 0;
}

static int add_pull(struct coxi_fetch *fetch, const struct cox_pull *pull)
{
    const struct coxi_variable *v = pull->variable->description;
    int r = coxi_pull_check(pull);
    if (r == 0 && v->staleness.compensation > 0) {
        r = coxi_base_pulls_add(&fetch->bases, pull, v);
    }
    if (r != 0) {
        return r;
    }
    return pull->rows.form == COX_ROWS_LISTED ? coxi_pull_listed(fetch, pull)
                                              : pull_range(fetch, pull);
}

/* ---- values */

/* COX_ENONFINITE if a value became infinite in the narrow wire type, unless that is
 * allowed. */
static int check_finite(const struct coxi_piece *piece, const uint8_t *from)
{
    const struct coxi_variable *v = piece->variable;
    size_t n = piece->count * piece->row_bytes / sizeof(float);
    if (v->wire_dtype == 0 || v->nonfinite != COXI_NONFINITE_REJECT ||
        coxi_floats_infinite(v->wire_dtype, from, n) == 0) {
        return 0;
    }
    return coxi_error(COX_ENONFINITE,
                      "a value of '%s' is infinite in the type in which it is sent",
                      v->name);
}

/* Converts values to the variable's type and puts them into place. */
static void put_values(const struct coxi_piece *piece, const uint8_t *from,
                       size_t bytes, uint8_t *to)
{
    const struct coxi_variable *v = piece->variable;
    if (v->wire_dtype != 0) {
        coxi_floats_widen(v->wire_dtype, from, bytes / sizeof(float), to);
    } else if (from != to) {
        memcpy(to, from, bytes);
    }
}

static void put_rows(const struct coxi_part *part, const struct coxi_piece *piece,
                     const uint8_t *from)
{
    const uint32_t *places =
        (const uint32_t *)(const void *)part->places.data + piece->places;
    for (size_t i = 0; i < piece->count; i++) {
        put_values(piece, from + i * piece->wire_bytes, piece->row_bytes,
                   piece->to + places[i] * piece->row_bytes);
    }
}

/* Puts the kept copy into place: the ps sent no values because the copy is as new as
 * its own. */
static int put_copy(const struct coxi_part *part, const struct coxi_piece *piece)
{
    const struct coxi_sight sight = sight_of(part->fetch);
    return coxi_copy_read(piece->copy, piece->shard, part->incarnation, &sight,
                          piece->to)
               ? 0
               : coxi_error(COX_EPSLOST, "a ps was restarted while '%s' was pulled",
                            piece->variable->name);
}

static bool is_unchanged(const struct coxi_piece *piece, const uint64_t *versions,
                         size_t i)
{
    return piece->copy != NULL && piece->version != 0 && versions[i] == piece->version;
}

/* COX_EPROTO unless an answer of `len` bytes is as long as its versions say. */
static int check_answer(const struct coxi_part *part, size_t len,
                        const uint64_t *versions, size_t n_versions)
{
    const struct coxi_piece *pieces =
        (const struct coxi_piece *)(void *)part->pieces.data;
    size_t n = part->pieces.len / sizeof(*pieces);
    size_t expected = part->answer_len;
    for (size_t i = 0; i < n; i++) {
        if (pieces[i].version != 0 && n_versions != n) {
            return coxi_error(COX_EPROTO, "the ps answered a pull without versions");
        }
        if (is_unchanged(&pieces[i], versions, i)) {
            expected -= pieces[i].count * pieces[i].wire_bytes;
        }
    }
    return len == expected
               ? 0
               : coxi_error(COX_EPROTO,
                            "the ps answered a pull with another number of bytes");
}

/* Moves the values of a checked answer to the memory of its pieces. COX_ENONFINITE.
 * COX_EPSLOST: the kept copy is of another incarnation by now. */
static int deliver(const struct coxi_part *part, const uint8_t *from,
                   const uint64_t *versions)
{
    const struct coxi_piece *pieces =
        (const struct coxi_piece *)(void *)part->pieces.data;
    int r = 0;
    for (size_t i = 0; r == 0 && i < part->pieces.len / sizeof(*pieces); i++) {
        const struct coxi_piece *piece = &pieces[i];
        if (is_unchanged(piece, versions, i)) {
            r = put_copy(part, piece);
            continue;
        }
        r = check_finite(piece, from);
        if (r != 0) {
            break;
        }
        if (piece->scattered) {
            put_rows(part, piece, from);
        } else {
            put_values(piece, from, piece->count * piece->row_bytes, piece->to);
        }
        if (piece->copy != NULL) {
            const struct coxi_sight sight = sight_of(part->fetch);
            coxi_copy_write(piece->copy, piece->shard, part->incarnation, versions[i],
                            &sight, piece->to);
        }
        from += piece->count * piece->wire_bytes;
    }
    return r;
}

/* The same for all answers that a fetch has kept until the step waits for them. */
static int deliver_kept(const struct coxi_fetch *fetch)
{
    int r = 0;
    for (uint32_t p = 0; r == 0 && p < fetch->attempt->n_targets; p++) {
        const struct coxi_part *part = &fetch->parts[p];
        if (part->items.len > 0) {
            r = deliver(part, part->values.data,
                        (const uint64_t *)(void *)part->versions.data);
        }
    }
    return r;
}

/* Notes the versions of all values that have come. */
static void note_versions(const struct coxi_fetch *fetch)
{
    struct coxi_versions *noted = &fetch->attempt->scratch->versions;
    for (uint32_t p = 0; p < fetch->attempt->n_targets; p++) {
        const struct coxi_part *part = &fetch->parts[p];
        const struct coxi_piece *pieces =
            (const struct coxi_piece *)(void *)part->pieces.data;
        const uint64_t *versions = (const uint64_t *)(void *)part->versions.data;
        for (size_t i = 0; i < part->pieces.len / sizeof(*pieces); i++) {
            if (pieces[i].is_noted) { /* check_answer has seen a version for each */
                coxi_versions_note(noted, pieces[i].place, versions[i]);
            }
        }
    }
}

/* ---- answers */

/* Takes a checked answer. Its versions are kept until the step waits for it, and so are
 * its values, if the step has gone on. */
static int take(struct coxi_part *part, const uint8_t *from, size_t len,
                const uint64_t *versions, size_t n_versions)
{
    int r = coxi_buffer_append_raw(&part->versions, versions,
                                   n_versions * sizeof(*versions));
    if (r != 0) {
        return r;
    }
    if (part->fetch->at_once) {
        return deliver(part, from, versions);
    }
    if (from != part->values.data) {
        memcpy(part->values.data, from, len); /* reserved for answer_len */
    }
    return 0;
}

static void answered(struct coxi_psc_request *request, int code,
                     const struct coxi_message *answer, void *payload, size_t len)
{
    struct coxi_part *part = (struct coxi_part *)request;
    struct coxi_fetch *fetch = part->fetch;
    const char *text = code != 0 ? coxi_error_text() : "";
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
        code = check_answer(part, len, versions, n_versions);
        code = code == 0 ? take(part, from, len, versions, n_versions) : code;
        text = code != 0 ? coxi_error_text() : "";
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
        only->variable->wire_dtype == 0) {
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
    uint64_t begun_ns = coxi_trace_begin();
    struct coxi_message message = {.kind = COXI_PULL};
    message.pull = (struct coxi_pull){
        .session = run->session,
        .incarnation = part->incarnation,
        .items = (const struct coxi_pull_item *)(void *)part->items.data,
        .n_items = part->items.len / sizeof(struct coxi_pull_item),
        .narrow = true,
        .after = fetch->attempt->call.round.after,
        .flow = coxi_trace_flow(begun_ns),
    };
    r = r == 0 ? coxi_psc_submit(run->ps[ps], &message, &part->request, false) : r;
    coxi_attempt_trace_ask(fetch->attempt, begun_ns, COXI_TRACE_PULL_ASK, ps,
                           message.pull.flow);
    return r;
}

/* True if a ps must be asked: not all of it came from copies. */
static bool asks(const struct coxi_fetch *fetch)
{
    bool any = false;
    for (uint32_t p = 0; p < fetch->attempt->n_targets; p++) {
        any = any || fetch->parts[p].items.len > 0;
    }
    return any;
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
    coxi_base_pulls_reset(&fetch->bases);
    for (uint32_t p = 0; p < attempt->n_targets; p++) {
        struct coxi_part *part = &fetch->parts[p];
        part->items.len = part->list.len = 0;
        part->places.len = part->pieces.len = part->versions.len = 0;
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
    if (asks(fetch)) {
        coxi_run_flush_reports(attempt->run); /* the pull may take a while */
    }
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
    uint32_t before_us = attempt->times.pull_us;
    bool awaits_end = attempt->call.round.after != 0 && !attempt->has_awaited;
    int r = (awaits_end ? coxi_attempt_await_end : coxi_attempt_wait)(
        attempt, &fetch->answers, &attempt->times.pull_us);
    attempt->times.n_pulls++;
    if (coxi_attempt_is_watched(attempt)) {
        coxi_latency_add(&attempt->run->figures->pulls,
                         attempt->times.pull_us - before_us);
    }
    fetch->under_way = false;
    if (r == 0 && !fetch->at_once) {
        r = deliver_kept(fetch);
    }
    if (r == 0) {
        note_versions(fetch);
    }
    if (r == COX_EPSLOST || r == COX_EFENCED) {
        attempt->lost = r;
    } else if (r == COX_ECANCELLED) { /* what coxi_pull.after names has not come */
        attempt->lost = coxi_attempt_break(attempt, r);
    }
    if (r == 0) {
        if (fetch->doubled.len > 0) {
            coxi_pull_move_apart(fetch);
        }
        r = coxi_bases_take(&attempt->scratch->bases, &fetch->bases);
    }
    if (r == 0) {
        r = coxi_attempt_check(attempt);
    }
    return r;
}

void coxi_pulls_end(struct coxi_attempt *attempt)
{
    for (size_t i = 0; i < COXI_FETCHES_MAX; i++) {
        struct coxi_fetch *fetch = attempt->scratch->fetches[i];
        if (fetch != NULL && fetch->under_way) {
            (void)coxi_attempt_wait(attempt, &fetch->answers, &attempt->times.pull_us);
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
            coxi_base_pulls_fini(&fetch->bases);
        }
        free(fetch);
    }
}
