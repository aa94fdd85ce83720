/*
 * Loads rows of another checkpoint into the store (coxi_store_load), piece by piece, as
 * a client sends them. Others may pull and commit meanwhile: they see a row of a table,
 * or a block of a dense variable, either as it was or as it is loaded.
 *
 * A piece may come twice, or late. A repeated piece is loaded again until the closure's
 * last piece has come; after that the applied set refuses it.
 *
 * Threads: any. Holds the registry and the moment (read), as a commit does. Cost: one
 * copy.
 */
#include "common/error.h"
#include "net/message.h"
#include "ps/store_internal.h"

enum { ROWS_MAX = 4096 }; /* rows of a table in a piece */

/* The part of a payload that was not read yet. */
struct payload {
    const uint8_t *at;
    size_t len;
};

/* The next array, padded to 8 bytes; NULL: the payload is too short. */
static const void *take(struct payload *payload, size_t bytes)
{
    const uint8_t *at = payload->at;
    size_t padded = coxi_align(bytes, 8);
    if (padded > payload->len) {
        return NULL;
    }
    payload->at += padded;
    payload->len -= padded;
    return at;
}

static int missing(const struct coxi_place *place)
{
    return coxi_error(COX_EINVAL, "a piece of variable '%s' is not as long as its rows",
                      place->part->variable->name);
}

/* Takes each kind of state of the rows off the payload. */
static int take_states(const struct coxi_place *place, struct payload *payload,
                       const float *ret[COXI_STATES_MAX])
{
    const struct coxi_state_layout *layout = &place->part->layout;
    uint64_t count = place->rows.count;
    for (size_t s = 0; s < layout->n_slots + layout->n_row; s++) {
        size_t row_bytes = s < layout->n_slots ? place->row_bytes : sizeof(float);
        ret[s] = take(payload, count * row_bytes);
        if (ret[s] == NULL) {
            return missing(place);
        }
    }
    return 0;
}

static int load_dense(const struct coxi_place *place, const struct coxi_load *load,
                      struct payload *payload)
{
    const float *states[COXI_STATES_MAX] = {NULL};
    const void *values = take(payload, place->rows.count * place->row_bytes);
    int r = values == NULL ? missing(place) : 0;
    if (r == 0 && load->state) {
        r = take_states(place, payload, states);
    }
    if (r == 0 && (load->life || payload->len > 0)) {
        r = missing(place);
    }
    if (r == 0) {
        coxi_dense_load(place->part->dense, place->rows.begin, place->rows.count,
                        values, load->state ? states : NULL, load->step);
    }
    return r;
}

static int take_rows(const struct coxi_place *place, const struct coxi_load *load,
                     struct payload *payload, struct coxi_table_rows *ret)
{
    size_t bytes = place->rows.count * sizeof(uint64_t);
    ret->keys = place->rows.listed;
    ret->n = place->rows.count;
    ret->values = take(payload, place->rows.count * place->row_bytes);
    int r = ret->values == NULL ? missing(place) : 0;
    if (r == 0 && load->state) {
        r = take_states(place, payload, ret->states);
    }
    if (r == 0 && load->life) {
        ret->last = take(payload, bytes);
        ret->made = take(payload, bytes);
        ret->updates = take(payload, bytes);
        r = ret->updates == NULL ? missing(place) : 0;
    }
    return r == 0 && payload->len > 0 ? missing(place) : r;
}

static int load_table(const struct coxi_place *place, const struct coxi_load *load,
                      struct payload *payload)
{
    struct coxi_table *table = place->part->table;
    struct coxi_table_rows rows = {0};
    if (place->rows.count > ROWS_MAX) {
        return coxi_error(COX_ELIMIT, "more than %d rows of table '%s' in a piece",
                          ROWS_MAX, place->part->variable->name);
    }
    int r = take_rows(place, load, payload, &rows);
    if (r == 0 && load->state) {
        coxi_table_raise_step(table, load->step);
        rows.later = coxi_table_step(table) - load->step;
    }
    if (r == 0) {
        r = coxi_table_load(table, &rows);
        coxi_table_tidy(table, rows.n);
    }
    return r;
}

static int load_piece(const struct coxi_store *store, const struct coxi_load *load,
                      const void *bytes, size_t len)
{
    struct payload payload = {bytes, len};
    struct coxi_place place;
    int r = coxi_store_find(store, load->variable, load->begin, load->count,
                            &payload.at, &payload.len, &place);
    if (r == 0) {
        r = coxi_store_holds(store, &place);
    }
    if (r == 0 && place.part->table == NULL && place.rows.listed != NULL) {
        r = missing(&place);
    }
    if (r != 0 || load->count == 0) {
        return r;
    }
    return place.part->table != NULL ? load_table(&place, load, &payload)
                                     : load_dense(&place, load, &payload);
}

int coxi_store_load(struct coxi_store *store, const struct coxi_load *load,
                    const void *payload, size_t len)
{
    const struct coxi_commit commit = {
        .closure = load->closure, .attempt = 1, .last = true};
    coxi_read_lock(&store->registry);
    coxi_read_lock(&store->moment);
    int r = coxi_store_check(store, &load->session, load->incarnation);
    if (r == 0) {
        r = coxi_applied_begin(store->applied, &commit);
        if (r == 0) {
            r = load->last ? 0 : load_piece(store, load, payload, len);
            /* The applied set records the closure only with its last piece. */
            coxi_applied_end(store->applied, load->closure, !load->last || r != 0);
        }
        r = r == COX_EEXIST ? 0 : r;
    }
    coxi_rw_unlock(&store->moment);
    coxi_rw_unlock(&store->registry);
    return r;
}
