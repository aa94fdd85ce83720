/* What metrics.jsonl tells, for tests. */
#ifndef COXI_TESTS_COORDINATOR_MONITOR_TOLD_H
#define COXI_TESTS_COORDINATOR_MONITOR_TOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A record, as an object of JSON. */
struct told {
    struct json_t **all; /* by rising number */
    size_t n;
};

/* Reads every line of <dir>/metrics.jsonl, each of which must be a whole object, and their
 * numbers must rise. */
void told_read(const char *dir, struct told *ret);
void told_free(struct told *told);

/* How many records are of the kind; the last of them (NULL: there is none). */
size_t told_count(const struct told *told, const char *kind);
const struct json_t *told_last(const struct told *told, const char *kind);

/* The last event with this code; NULL: there is none. */
const struct json_t *told_event(const struct told *told, const char *code);

/* How many scalars have the name and step (`step` UINT64_MAX: any); the value of the last. */
size_t told_scalars(const struct told *told, const char *name, uint64_t step);
double told_value(const struct told *told, const char *name, uint64_t step);

/* A member that is a number, or a text; it must exist. */
double told_number(const struct json_t *record, const char *name);
const char *told_text(const struct json_t *record, const char *name);

#endif
