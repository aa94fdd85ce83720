/* What the modes came to: charts and a table. */
#ifndef MODES_CURVES_H
#define MODES_CURVES_H

#include "train.h"

/* Writes DIR/examples.svg and DIR/seconds.svg, with the curves that were trained; `name`
 * is that of the rows. 0, or the exit code after it has printed what is wrong. */
int curves_draw(const struct curve curves[KINDS], const char *dir, const char *name);

void curves_print(const struct curve curves[KINDS]);

#endif
