/*
 * A shard of a dense variable as it was at one moment, the cut, read while updates go
 * on (ps/dense.h).
 *
 * It is read as two strips, one after the other, each in parts under one lock: the
 * elements with the state that each of them has, and the states of rows. A part is
 * handed out once: as it is if no update has come to it yet, otherwise as the copy that
 * the first update made.
 *
 * Threads: updates, under the locks of their parts, and one reader. Memory: a pointer
 * for each part, and the copies until they are handed out.
 */
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "ps/dense_internal.h"

/* Arrays of the same length, side by side: a part has the same bytes of each. */
struct strip {
    size_t first; /* first array: 0: the elements, 1 + i: the i-th state */
    size_t n;
    size_t bytes;    /* of each array */
    uint8_t **parts; /* NULL: no copy yet; `handed_out`; or a copy */
    size_t next;     /* the part to be read next */
};

struct coxi_dense_cut {
    struct coxi_dense *dense;
    uint64_t step;
    struct strip elements; /* each part is guarded by its lock */
    struct strip rows;     /* guarded by the shard's lock `rows` */
    atomic_uint_least64_t saved_bytes;
    atomic_bool failed; /* there was no memory for a copy */
};

static uint8_t handed_out[1];

/* ---- its life */

static int strip_init(struct strip *strip, size_t first, size_t n, size_t bytes)
{
    *strip = (struct strip){.first = first, .n = n, .bytes = n > 0 ? bytes : 0};
    strip->parts = calloc(strip->bytes / COXI_DENSE_PART + 1, sizeof(*strip->parts));
    return strip->parts == NULL ? coxi_error_memory("a snapshot") : 0;
}

static void strip_fini(struct strip *strip)
{
    for (size_t p = 0; strip->parts != NULL && p * COXI_DENSE_PART < strip->bytes;
         p++) {
        if (strip->parts[p] != handed_out) {
            free(strip->parts[p]);
        }
    }
    free(strip->parts);
}

int coxi_dense_cut_new(struct coxi_dense *dense, struct coxi_dense_cut **ret)
{
    struct coxi_dense_cut *cut = calloc(1, sizeof(*cut));
    if (cut == NULL) {
        return coxi_error_memory("a snapshot");
    }
    const struct coxi_state_layout *layout = &dense->layout;
    cut->dense = dense;
    int r = strip_init(&cut->elements, 0, 1 + layout->n_slots, dense->bytes);
    if (r == 0) {
        r = strip_init(&cut->rows, 1 + layout->n_slots, layout->n_row,
                       coxi_dense_state_bytes(dense, layout->n_slots));
    }
    if (r != 0) {
        coxi_dense_cut_free(cut);
        return r;
    }
    *ret = cut;
    return 0;
}

void coxi_dense_cut_free(struct coxi_dense_cut *cut)
{
    if (cut != NULL) {
        strip_fini(&cut->elements);
        strip_fini(&cut->rows);
        free(cut);
    }
}

void coxi_dense_cut_begin(struct coxi_dense_cut *cut)
{
    cut->step = coxi_dense_step(cut->dense);
    cut->dense->cut = cut;
}

void coxi_dense_cut_end(struct coxi_dense_cut *cut)
{
    cut->dense->cut = NULL;
}

uint64_t coxi_dense_cut_step(const struct coxi_dense_cut *cut)
{
    return cut->step;
}

uint64_t coxi_dense_cut_saved(const struct coxi_dense_cut *cut)
{
    return atomic_load(&cut->saved_bytes);
}

/* ---- tracking */

void coxi_dense_track_cut(struct coxi_dense *dense, bool drop_before)
{
    if (drop_before) {
        dense->version_before = dense->version_since;
    }
    dense->version_since = coxi_dense_version(dense) + atomic_load(&dense->passes);
}

bool coxi_dense_track_changed(const struct coxi_dense *dense)
{
    return dense->version_since != dense->version_before;
}

/* ---- parts, locked */

static size_t part_bytes(const struct strip *strip, size_t part)
{
    size_t left = strip->bytes - part * COXI_DENSE_PART;
    return left < COXI_DENSE_PART ? left : COXI_DENSE_PART;
}

static void copy_part(const struct coxi_dense *dense, const struct strip *strip,
                      size_t part, uint8_t *to)
{
    size_t bytes = part_bytes(strip, part);
    for (size_t i = strip->first; i < strip->first + strip->n; i++) {
        const uint8_t *array =
            i == 0 ? dense->data : (const uint8_t *)dense->states[i - 1];
        memcpy(to, array + part * COXI_DENSE_PART, bytes);
        to += bytes;
    }
}

static void save(struct coxi_dense_cut *cut, struct strip *strip, size_t part)
{
    size_t bytes = strip->n * part_bytes(strip, part);
    if (strip->parts[part] != NULL) {
        return;
    }
    uint8_t *copy = malloc(bytes);
    if (copy == NULL) {
        atomic_store(&cut->failed, true);
        return;
    }
    copy_part(cut->dense, strip, part, copy);
    strip->parts[part] = copy;
    atomic_fetch_add(&cut->saved_bytes, bytes);
}

void coxi_dense_cut_save(struct coxi_dense_cut *cut, size_t at)
{
    save(cut, &cut->elements, at / COXI_DENSE_PART);
}

void coxi_dense_cut_save_row(struct coxi_dense_cut *cut, size_t row)
{
    save(cut, &cut->rows, row * sizeof(float) / COXI_DENSE_PART);
}

/* ---- reading */

/* Reads the next part of a strip. */
static struct coxi_dense_piece read_part(struct coxi_dense_cut *cut,
                                         struct strip *strip, struct coxi_mutex *lock,
                                         uint8_t *to)
{
    size_t part = strip->next++;
    size_t bytes = part_bytes(strip, part);
    coxi_lock(lock);
    uint8_t *copy = strip->parts[part];
    if (copy == NULL) {
        copy_part(cut->dense, strip, part, to);
    }
    strip->parts[part] = handed_out;
    coxi_unlock(lock);
    if (copy != NULL) {
        memcpy(to, copy, strip->n * bytes);
        free(copy);
    }
    return (struct coxi_dense_piece){strip->first, strip->n, bytes};
}

int coxi_dense_cut_next(struct coxi_dense_cut *cut, void *room,
                        struct coxi_dense_piece *ret)
{
    struct coxi_dense_piece piece = {0};
    size_t at = cut->elements.next * COXI_DENSE_PART;
    if (at < cut->elements.bytes) {
        piece = read_part(cut, &cut->elements, coxi_dense_lock(cut->dense, at), room);
    } else if (cut->rows.next * COXI_DENSE_PART < cut->rows.bytes) {
        piece = read_part(cut, &cut->rows, &cut->dense->rows, room);
    }
    if (atomic_load(&cut->failed)) {
        return coxi_error(COX_ENOMEM,
                          "out of memory for what changes while a snapshot is written");
    }
    *ret = piece;
    return 0;
}
