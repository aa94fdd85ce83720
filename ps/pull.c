/*
 * Pulls: reads rows of tables and dense variables in the order of the pull's items, as
 * they are or converted to the variable's wire type.
 *
 * The version is read before any values. So values may be newer than their version
 * says, but never older; if they are newer, they may be sent once more than necessary.
 *
 * A pull may name the end of a round: it waits until that was applied.
 *
 * Threads: any. Holds the registry (read) while a piece is read. Cost: one copy, which
 * converts; a dense variable that still has the version named in the pull costs
 * nothing.
 */
#include <string.h>

#include "common/error.h"
#include "common/floats.h"
#include "common/trace.h"
#include "net/message.h"
#include "ps/store_internal.h"

enum { AWAIT_MS = 100 }; /* longer than a round needs that goes on */

/* The type in which an item's values are sent; 0: their own. */
static uint32_t narrow_of(const struct coxi_pull *pull, const struct coxi_place *place)
{
    return pull->narrow ? place->part->variable->wire_dtype : 0;
}

/* Bytes of an item in the answer. */
static size_t answer_bytes(const struct coxi_pull *pull, const struct coxi_place *place)
{
    size_t bytes = place->rows.count * place->row_bytes;
    return narrow_of(pull, place) != 0 ? bytes / 2 : bytes;
}

/* ---- beginning */

/* If any item has a version, reserves one (0) for each item. */
static int make_versions(const struct coxi_pull *pull, struct coxi_buffer *ret)
{
    bool any = false;
    for (size_t i = 0; i < pull->n_items; i++) {
        any = any || pull->items[i].version != 0;
    }
    ret->len = 0;
    return any ? coxi_buffer_append(ret, NULL, pull->n_items * sizeof(uint64_t)) : 0;
}

static uint64_t *version_of(const struct coxi_buffer *versions, size_t item)
{
    return (uint64_t *)(void *)versions->data + item;
}

/* True if the peer has the values already. A table's rows may change without an update
 * (ps/eviction.c). */
static bool is_unchanged(const struct coxi_pulling *p, size_t item,
                         const struct coxi_part *part)
{
    uint64_t version = p->pull->items[item].version;
    return version != 0 && part->table == NULL &&
           *version_of(p->versions, item) == version;
}

/* Takes an item's list off the payload, and counts the bytes of its answer. */
static int begin_item(const struct coxi_store *store, struct coxi_pulling *p, size_t i,
                      const uint8_t **at, size_t *len)
{
    const struct coxi_pull_item *item = &p->pull->items[i];
    struct coxi_place place;
    int r = coxi_store_find(store, item->variable, item->begin, item->count, at, len,
                            &place);
    if (r == 0) {
        r = coxi_store_holds(store, &place);
    }
    if (r != 0) {
        return r;
    }
    if (item->version != 0) {
        *version_of(p->versions, i) = coxi_part_version(place.part);
    }
    size_t bytes = is_unchanged(p, i, place.part) ? 0 : answer_bytes(p->pull, &place);
    if (bytes > COXI_PAYLOAD_MAX - p->left) {
        return coxi_error(COX_ELIMIT, "a pull of more than %zu bytes",
                          COXI_PAYLOAD_MAX);
    }
    p->left += bytes;
    return 0;
}

/* A pull that must see the end of a round. */
struct awaiting {
    struct coxi_store *store;
    const struct coxi_pull *pull;
};

/* COX_EEXIST: the round has ended here; 0: not yet. */
static int look_for_end(void *arg)
{
    const struct awaiting *awaiting = arg;
    struct coxi_store *store = awaiting->store;
    const struct coxi_pull *pull = awaiting->pull;
    coxi_read_lock(&store->registry);
    int r = coxi_store_check(store, &pull->session, pull->incarnation);
    r = r == 0 ? coxi_applied_ask(store->applied, pull->after) : r;
    coxi_rw_unlock(&store->registry);
    return r;
}

int coxi_store_pull_await(struct coxi_store *store, const struct coxi_pull *pull,
                          void (*on_wait)(void *arg), void *arg)
{
    struct awaiting awaiting = {store, pull};
    uint64_t n_changes = atomic_load(&store->ends.n_changes);
    int r = pull->after == 0 ? COX_EEXIST : look_for_end(&awaiting);
    if (r == 0) {
        if (on_wait != NULL) {
            on_wait(arg);
        }
        uint64_t begun_ns = coxi_trace_begin();
        r = coxi_ends_await(&store->ends, n_changes, AWAIT_MS, look_for_end, &awaiting);
        coxi_trace_end_part(begun_ns, COXI_TRACE_ROUND_WAIT, 0);
    }
    if (r == COX_EEXIST) {
        return 0;
    }
    return r != 0
               ? r
               : coxi_error(COX_ECANCELLED,
                            "round %llu, which the step must see, has not ended on "
                            "ps %u within %d ms",
                            (unsigned long long)pull->after, store->ps_index, AWAIT_MS);
}

int coxi_store_pull_begin(struct coxi_store *store, const struct coxi_pull *pull,
                          const void *list, size_t len,
                          struct coxi_buffer *ret_versions, struct coxi_pulling *ret)
{
    struct coxi_pulling p = {
        .pull = pull, .versions = ret_versions, .list = list, .list_len = len};
    const uint8_t *at = list;
    coxi_read_lock(&store->registry);
    int r = coxi_store_check(store, &pull->session, pull->incarnation);
    p.n_made = store->n_made;
    if (r == 0) {
        r = make_versions(pull, ret_versions);
    }
    for (size_t i = 0; r == 0 && i < pull->n_items; i++) {
        r = begin_item(store, &p, i, &at, &len);
    }
    coxi_rw_unlock(&store->registry);
    if (r == 0 && len > 0) {
        r = coxi_error(COX_EINVAL, "a pull has %zu bytes more than its keys", len);
    }
    if (r == 0) {
        atomic_fetch_add_explicit(&store->pulls, 1, memory_order_relaxed);
        *ret = p;
    }
    return r;
}

/* ---- reading */

/* Reads rows of a table and narrows them, a few at a time. */
static void read_narrow_rows(const struct coxi_place *place, uint64_t row, uint64_t n,
                             uint32_t narrow, uint8_t *to)
{
    float some[COXI_TABLE_DIM_MAX];
    size_t dim = place->row_bytes / sizeof(float);
    size_t at_once = COXI_TABLE_DIM_MAX / dim;
    while (n > 0) {
        size_t count = n < at_once ? n : at_once;
        coxi_table_pull(place->part->table, place->rows.listed + row, count, some);
        coxi_floats_narrow(narrow, some, count * dim, to);
        to += count * dim * sizeof(uint16_t);
        row += count;
        n -= count;
    }
}

/* Reads the next rows of a table that fit `room`. Returns their bytes in F32. */
static size_t read_rows(const struct coxi_place *place, size_t at, size_t room,
                        uint32_t narrow, uint8_t *to)
{
    uint64_t row = at / place->row_bytes;
    uint64_t left = place->rows.count - row;
    uint64_t n = room / place->row_bytes < left ? room / place->row_bytes : left;
    if (narrow != 0) {
        read_narrow_rows(place, row, n, narrow, to);
    } else {
        coxi_table_pull(place->part->table, place->rows.listed + row, n, to);
    }
    return n * place->row_bytes;
}

/* Reads the next blocks of a dense variable that fit `room`; returns their bytes in the
 * variable's own type. If blocks are left, the last block that it reads is whole,
 * because an update between two calls must not fall between two halves of a block. */
static size_t read_blocks(const struct coxi_place *place, size_t at, size_t room,
                          uint32_t narrow, uint8_t *to)
{
    size_t n = place->rows.count * place->row_bytes - at;
    if (n > room) {
        n = coxi_dense_whole(place->part->dense, &place->rows, at, room);
    }
    coxi_dense_read(place->part->dense, &place->rows, at, n, narrow, to);
    return n;
}

/* Finds the part of the next item again. It must be the same part that _begin checked,
 * because a part that was made since then may hold fewer rows. */
static int find_again(const struct coxi_store *store, const struct coxi_pulling *p,
                      const uint8_t **list, size_t *len, struct coxi_place *ret)
{
    const struct coxi_pull_item *item = &p->pull->items[p->item];
    int r = coxi_store_find(store, item->variable, item->begin, item->count, list, len,
                            ret);
    return r == 0 && ret->part->made > p->n_made
               ? coxi_error(COX_ENOENT,
                            "variable %llu was dropped while its values were sent",
                            (unsigned long long)item->variable)
               : r;
}

/* Reads as much of the next item as fits. */
static int read_piece(struct coxi_store *store, struct coxi_pulling *p, uint8_t *to,
                      size_t room, size_t *ret_len)
{
    const uint8_t *list = p->list;
    size_t list_len = p->list_len;
    struct coxi_place place;
    int r = find_again(store, p, &list, &list_len, &place);
    if (r != 0) {
        return r;
    }
    uint32_t narrow = narrow_of(p->pull, &place);
    size_t bytes =
        is_unchanged(p, p->item, place.part) ? 0 : place.rows.count * place.row_bytes;
    size_t n = 0;
    if (bytes > 0) {
        n = place.part->table != NULL
                ? read_rows(&place, p->at, narrow != 0 ? 2 * room : room, narrow, to)
                : read_blocks(&place, p->at, narrow != 0 ? 2 * room : room, narrow, to);
    }
    if (narrow != 0) {
        atomic_fetch_add_explicit(&store->infinite,
                                  coxi_floats_infinite(narrow, to, n / sizeof(float)),
                                  memory_order_relaxed);
    }
    p->at += n;
    *ret_len = narrow != 0 ? n / 2 : n;
    if (p->at == bytes) {
        p->item++;
        p->at = 0;
        p->list = list;
        p->list_len = list_len;
    }
    return 0;
}

int coxi_store_pull_some(struct coxi_store *store, struct coxi_pulling *pulling,
                         void *to, size_t room, size_t *ret_len)
{
    const struct coxi_pull *pull = pulling->pull;
    size_t len = 0;
    coxi_read_lock(&store->registry);
    int r = coxi_store_check(store, &pull->session, pull->incarnation);
    while (r == 0 && pulling->left > len && room - len >= COXI_PULL_ROOM / 2) {
        size_t n = 0;
        r = read_piece(store, pulling, (uint8_t *)to + len, room - len, &n);
        len += n;
    }
    coxi_rw_unlock(&store->registry);
    if (r == 0) {
        pulling->left -= len;
        *ret_len = len;
    }
    return r;
}

int coxi_store_pull(struct coxi_store *store, const struct coxi_pull *pull,
                    const void *list, size_t len, struct coxi_buffer *ret,
                    struct coxi_buffer *ret_versions)
{
    struct coxi_pulling pulling = {0};
    int r = coxi_store_pull_await(store, pull, NULL, NULL);
    if (r == 0) {
        r = coxi_store_pull_begin(store, pull, list, len, ret_versions, &pulling);
    }
    if (r == 0) {
        r = coxi_buffer_reserve(ret, pulling.left + COXI_PULL_ROOM);
    }
    while (r == 0 && pulling.left > 0) {
        size_t n = 0;
        r = coxi_store_pull_some(store, &pulling, ret->data + ret->len,
                                 pulling.left + COXI_PULL_ROOM, &n);
        ret->len += n;
    }
    return r;
}
