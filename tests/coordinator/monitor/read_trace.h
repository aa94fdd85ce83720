/*
 * Reads traces, and asserts that they have the form that viewers rely on. See the docs of
 * Chrome's trace events, and what Perfetto's importer drops.
 */
#ifndef COXI_TESTS_COORDINATOR_MONITOR_READ_TRACE_H
#define COXI_TESTS_COORDINATOR_MONITOR_READ_TRACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The entries of the file; for json_decref. Asserts: it is JSON; each entry has what its kind
 * demands; every process and thread has one name; the spans of a thread lie within one
 * another or beside one another; each end of an arrow lies at the beginning of a span, and
 * no arrow points back in time. `is_whole`: the last entry has the numbers of entries.
 */
json_t *read_trace(const char *path, bool is_whole);

const char *trace_text(json_t *entry, const char *key); /* "": it has none */
double trace_number(json_t *entry, const char *key);    /* asserts that it has it */
uint64_t trace_closure(json_t *entry);                  /* 0: none */

/* True if the entry is of kind `ph`, has the name, and is of the client, a ps or a worker
 * (COXI_TRACE_CLIENT, ...). */
bool trace_is(json_t *entry, const char *ph, const char *name, int process);

/* How many spans have that name, in processes of that kind. */
size_t trace_count(json_t *all, const char *name, int process);

/* True if a process or thread has a name that begins so. */
bool trace_names(json_t *all, const char *what, const char *name);

/* The span that begins where the end of an arrow is; NULL: none. */
json_t *trace_span_at(json_t *all, json_t *end);

/* What the last entry says. */
size_t trace_lost(json_t *all);

#endif
