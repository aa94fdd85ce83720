/* See fetch.h. */
#include "worker/fetch.h"

#include <string.h>

#include "common/dtype.h"
#include "common/error.h"
#include "common/floats.h"

/* COX_ENONFINITE if a value became infinite in the narrow wire type, unless that is
 * allowed. */
static int check_finite(const struct coxi_piece *piece, const uint8_t *from)
{
    const struct coxi_variable *v = piece->variable;
    size_t n = piece->count * piece->row_bytes / sizeof(float);
    if (coxi_pull_dtype(v) == v->dtype || v->nonfinite != COXI_NONFINITE_REJECT ||
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
    if (coxi_pull_dtype(v) != v->dtype) {
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
    size_t wire_row = coxi_pull_bytes(piece->variable, 1, piece->row_bytes);
    for (size_t i = 0; i < piece->count; i++) {
        put_values(piece, from + i * wire_row, piece->row_bytes,
                   piece->to + places[i] * piece->row_bytes);
    }
}

/* Puts the kept copy into place: the ps sent no values because the copy is as new as
 * its own. */
static int put_copy(const struct coxi_part *part, const struct coxi_piece *piece)
{
    return coxi_copy_read(piece->copy, piece->shard, part->incarnation, piece->to)
               ? 0
               : coxi_error(COX_EPSLOST, "a ps was restarted while '%s' was pulled",
                            piece->variable->name);
}

static bool is_unchanged(const struct coxi_piece *piece, const uint64_t *versions,
                         size_t i)
{
    return piece->version != 0 && versions[i] == piece->version;
}

int coxi_fetch_check(const struct coxi_part *part, size_t len, const uint64_t *versions,
                     size_t n_versions)
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
            expected -= coxi_pull_bytes(pieces[i].variable, pieces[i].count,
                                        pieces[i].row_bytes);
        }
    }
    return len == expected
               ? 0
               : coxi_error(COX_EPROTO,
                            "the ps answered a pull with another number of bytes");
}

int coxi_fetch_deliver(const struct coxi_part *part, const uint8_t *from,
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
            coxi_copy_write(piece->copy, piece->shard, part->incarnation, versions[i],
                            piece->to);
        }
        from += coxi_pull_bytes(piece->variable, piece->count, piece->row_bytes);
    }
    return r;
}

void coxi_fetch_move_apart(const struct coxi_fetch *fetch)
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

int coxi_fetch_deliver_kept(const struct coxi_fetch *fetch)
{
    int r = 0;
    for (uint32_t p = 0; r == 0 && p < fetch->attempt->n_targets; p++) {
        const struct coxi_part *part = &fetch->parts[p];
        if (part->items.len > 0) {
            r = coxi_fetch_deliver(part, part->values.data,
                                   (const uint64_t *)(void *)part->versions.data);
        }
    }
    return r;
}
