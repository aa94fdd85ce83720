/*
 * What the records of RecordIO and TFRecord files are (enum cox_content): how the bytes
 * of one become a row.
 *
 * To add a kind: write content_NAME.[ch], and call it in content.c.
 */
#ifndef COXI_DATA_CONTENT_H
#define COXI_DATA_CONTENT_H

#include "data/format.h"

/* Sets parser->content. COX_ENOMEM. */
int coxi_content_open(struct coxi_parser *parser);

/* Also after coxi_content_open has failed, or was not called. */
void coxi_content_close(struct coxi_parser *parser);

struct coxi_rows_shape coxi_content_shape(const struct coxi_decoding *decoding);

/* Appends a record that begins at `offset`; or notes a bad one. Its bytes stay in the
 * block, which the rows hold if they need it. */
int coxi_content_add(struct coxi_parser *parser, struct coxi_rows *rows,
                     uint64_t offset, const struct cox_bytes *record,
                     struct coxi_block *block);

#endif
