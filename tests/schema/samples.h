/* One message of every kind with every field set, and what "equal" means for two. */
#ifndef COXI_TESTS_SCHEMA_SAMPLES_H
#define COXI_TESTS_SCHEMA_SAMPLES_H

#include "schema/wire.h"

enum { SAMPLE_KINDS = COXI_PROBE }; /* the kinds are 1 to this */

/* What it points to is static. */
struct coxi_message sample(enum coxi_message_kind kind);

/* Fails unless the decoded message says what `expected`, not decoded, says. */
void assert_same_message(const struct coxi_message *expected,
                         const struct coxi_message *decoded);

/*
 * Reads all that a decoded message refers to, checks what the codec promises of it, and
 * makes `ret` its like for encoding: false where a variable of a layout is no good. For
 * layouts, `ret` refers to static memory. Sets *ret_sum to something that depends on
 * every byte read, so that no read is left out.
 */
bool walk_message(const struct coxi_message *decoded, struct coxi_message *ret,
                  uint64_t *ret_sum);

#endif
