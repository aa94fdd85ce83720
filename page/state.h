/*
 * What a run is like now: the newest of each kind of record, put together. `coxswain top`
 * and `coxswain status` show it, and /api/state serves it.
 *
 * Not thread-safe. Its size is bounded by the number of workers, ps and names of scalars
 * in the records that it is given.
 */
#ifndef COXI_PAGE_STATE_H
#define COXI_PAGE_STATE_H

#include <jansson.h>
#include <stdint.h>

#include "common/buffer.h"

struct coxi_state;

int coxi_state_new(struct coxi_state **ret);    /* COX_ENOMEM */
void coxi_state_free(struct coxi_state *state); /* takes NULL */

/* Takes records in lines of JSON (`lines`, `len` bytes), oldest first. Lines that are none are
 * skipped, and so are records that it has seen. A record of a new run, or of a new
 * client, replaces what was said of workers and ps before. */
void coxi_state_take(struct coxi_state *state, const char *lines, size_t len);

/* The number of the newest record that it has taken. */
uint64_t coxi_state_seq(const struct coxi_state *state);

/*
 * {"seq": N, "run": {...}, "config": {...}, "sample": {...}, "workers": [...], "ps": [...],
 * "checkpoint": {...}, "scalars": {name: {source: {"step": N, "value": X}}}, "event": {...}};
 * null for what has not been told. Workers and ps are in the order of their indices.
 * Returns a new reference; NULL: no memory.
 */
json_t *coxi_state_json(const struct coxi_state *state);

#endif
