/* Where two specifications of a variable differ, in words. Pure; any thread. */
#ifndef COXI_COMMON_DIFFERENCE_H
#define COXI_COMMON_DIFFERENCE_H

#include <stddef.h>

#include "schema/wire.h"

/*
 * "optimizer.learning_rate is 0.1, not 0.01; shape is [7], not [8]": every field that `a` has
 * otherwise than `b`, but for its id and where its shards lie; as many as fit into len bytes.
 * Empty: none. Both were checked.
 */
void coxi_variable_difference(const struct coxi_variable *a,
                              const struct coxi_variable *b, char *ret, size_t len);

#endif
