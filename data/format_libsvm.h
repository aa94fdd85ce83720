/*
 * libsvm and libffm: a record is a line of a label and features.
 *
 *     LABEL KEY:VALUE ...              libsvm
 *     LABEL FIELD:KEY:VALUE ...        libffm
 *
 * Numbers are decimal and finite; keys have 64 bits, fields 32, and neither need be in
 * order. Spaces, tabs and carriage returns separate. A `#` begins a comment up to the
 * line's end. Lines without a record are left out. `qid:N` of ranking is left out.
 */
#ifndef COXI_DATA_FORMAT_LIBSVM_H
#define COXI_DATA_FORMAT_LIBSVM_H

#include "data/format.h"

extern const struct coxi_format coxi_format_libsvm;
extern const struct coxi_format coxi_format_libffm;

#endif
