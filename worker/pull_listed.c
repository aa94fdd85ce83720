/*
 * Pulls of listed rows. Each distinct row of a list goes over the wire once. The i-th
 * distinct row lands in the i-th place of the step's memory. When all rows are there,
 * they are moved to their final places, the last row first, so that no row is
 * overwritten before it is read.
 *
 * Threads: a slot.
 */
#include <string.h>

#include "worker/pull_internal.h"

/* Makes room for the listed rows that one ps has, and adds their piece. */
static int open_list(struct coxi_fetch *fetch, const struct cox_variable *variable,
                     uint32_t ps, const struct coxi_piece *all, size_t count)
{
    struct coxi_part *part = &fetch->parts[ps];
    struct coxi_piece piece = *all;
    piece.count = count;
    piece.places = part->places.len / sizeof(uint32_t);
    bool is_table = piece.variable->kind == COXI_KIND_TABLE;
    int r = coxi_buffer_reserve(&part->list, count * sizeof(uint64_t));
    if (r == 0 && variable->n_versions > 0) {
        const struct coxi_variable *v = piece.variable;
        size_t i = is_table ? ps : (size_t)(coxi_variable_shard(v, ps) - v->shards);
        r = coxi_pull_ask_version(fetch, variable, i, &piece);
    }
    if (r == 0 && piece.scattered) {
        r = coxi_buffer_reserve(&part->places, count * sizeof(uint32_t));
    }
    return r == 0 ? coxi_pull_add_piece(part, is_table ? 0 : COXI_ROWS_LISTED, &piece)
                  : r;
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

int coxi_pull_listed(struct coxi_fetch *fetch, const struct cox_pull *pull)
{
    struct coxi_attempt *attempt = fetch->attempt;
    const struct coxi_variable *v = pull->variable->description;
    struct coxi_spread *spread = &attempt->scratch->spread;
    struct coxi_doubled doubled = {
        .to = pull->values,
        .row_bytes = pull->variable->row_bytes,
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
                                     .wire_bytes = pull->variable->wire_bytes,
                                     .scattered = !spread->one};
    for (uint32_t p = 0; r == 0 && p < attempt->n_targets; p++) {
        size_t count = coxi_spread_count(spread, p);
        if (count > 0) {
            r = open_list(fetch, pull->variable, p, &piece, count);
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

void coxi_pull_move_apart(const struct coxi_fetch *fetch)
{
    const struct coxi_doubled *all =
        (const struct coxi_doubled *)(void *)fetch->doubled.data;
    for (size_t d = 0; d < fetch->doubled.len / sizeof(*all); d++) {
        const uint32_t *places =
            (const uint32_t *)(void *)fetch->places.data + all[d].places;
        for (size_t i = all[d].n; i-- > 0;) {
            if (places[i] != i) {
                memcpy(all[d].to + i * all[d].row_bytes,
                       all[d].to + places[i] * all[d].row_bytes, all[d].row_bytes);
            }
        }
    }
}
