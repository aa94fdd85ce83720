/*
 * Criteo's click logs: a record is a line of 40 columns with tabs between,
 *
 *     LABEL 13 INTEGERS 26 CATEGORIES
 *
 * Integer x becomes the dense number log(x + 1); a missing or negative one becomes 0.
 * Category k (from 0) becomes a key of its text in field k (data/key.h); a missing one is
 * the empty text. So each record has 13 dense numbers and 26 keys. Empty lines are left
 * out. Lines may end in CR LF.
 */
#ifndef COXI_DATA_FORMAT_CRITEO_H
#define COXI_DATA_FORMAT_CRITEO_H

#include "data/format.h"

extern const struct coxi_format coxi_format_criteo;

#endif
