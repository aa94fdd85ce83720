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

/* How the run's client is. */
enum coxi_client {
    COXI_CLIENT_UNTOLD,  /* there is no record of one */
    COXI_CLIENT_OPENING, /* it serves already, and cox_open has not connected it yet */
    COXI_CLIENT_RUNNING, /* it records */
    COXI_CLIENT_SILENT, /* it has recorded nothing for 10 s (of old runs: for longer) */
    COXI_CLIENT_GONE,   /* its process has ended, and the run was not closed */
    COXI_CLIENT_CLOSED,
};

/* Looks for its process, if that was on this host; otherwise only the age of its records tells. */
enum coxi_client coxi_state_client(const struct coxi_state *state);

/*
 * {"seq": N, "client": "running", "run_over": false, "run": {...}, "config": {...}, "sample": {...}, "workers": [...], "ps": [...],
 * "checkpoint": {...}, "scalars": {name: {source: {"step": N, "value": X}}}, "event": {...}};
 * null for what has not been told. `client` is as coxi_state_client says; what is told of ps and
 * workers is as it was last seen if that is not "running". `run_over`: the client has told that the run
 * cannot go on. Workers and ps are in the order of their indices.
 * Returns a new reference; NULL: no memory.
 */
json_t *coxi_state_json(const struct coxi_state *state);

#endif
