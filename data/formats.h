/* The formats by their numbers. Any thread. */
#ifndef COXI_DATA_FORMATS_H
#define COXI_DATA_FORMATS_H

#include "data/format.h"

/* NULL: this build does not have the format (enum cox_format). */
const struct coxi_format *coxi_format_of(uint32_t format);

#endif
