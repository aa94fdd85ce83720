/* Describes the difference of two specifications of a variable. Pure; any thread. */
#ifndef COXI_COMMON_DIFFERENCE_H
#define COXI_COMMON_DIFFERENCE_H

#include <stddef.h>

#include "schema/wire.h"

/*
 * "optimizer.learning_rate is 0.1, not 0.01; shape is [7], not [8]": lists the fields
 * in which `a` differs from `b`, except the id and the places of shards, as many as fit
 * into len bytes. Empty: there is no difference. Both must have been checked.
 */
void coxi_variable_difference(const struct coxi_variable *a,
                              const struct coxi_variable *b, char *ret, size_t len);

#endif
