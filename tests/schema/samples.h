/* A message of every kind with every field set, and the comparison of two messages. */
#ifndef COXI_TESTS_SCHEMA_SAMPLES_H
#define COXI_TESTS_SCHEMA_SAMPLES_H

#include "schema/wire.h"

enum { SAMPLE_KINDS = COXI_EXCHANGED }; /* the kinds are 1 to SAMPLE_KINDS */

/* A sample message; its pointers are to static memory. */
struct coxi_message sample(enum coxi_message_kind kind);

/* Fails unless the decoded message equals `expected`, which was not decoded. */
void assert_same_message(const struct coxi_message *expected,
                         const struct coxi_message *decoded);

/*
 * Reads everything that a decoded message refers to, checks the codec's guarantees, and
 * makes `ret` the same message for encoding; false if a variable of a layout is not
 * valid. For layouts, `ret` refers to static memory. *ret_sum depends on every byte
 * read, so that no read is optimized away.
 */
bool walk_message(const struct coxi_message *decoded, struct coxi_message *ret,
                  uint64_t *ret_sum);

#endif
