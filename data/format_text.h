/*
 * Texts: a record is a line. Each of its words, with white space between (space, tab, CR,
 * vertical tab, form feed), becomes a key (data/key.h, field 0); its bytes are the line
 * without CR and LF at its end. Lines without words are left out.
 */
#ifndef COXI_DATA_FORMAT_TEXT_H
#define COXI_DATA_FORMAT_TEXT_H

#include "data/format.h"

extern const struct coxi_format coxi_format_text;

#endif
