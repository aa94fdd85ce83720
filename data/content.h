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

/* As below, for other content than raw bytes. */
int coxi_content_decode(struct coxi_parser *parser, struct coxi_rows *rows,
                        uint64_t offset, const struct cox_bytes *record,
                        struct coxi_block *block);

/* Appends a record that begins at `offset`; or notes a bad one. Its bytes stay in the
 * block, which the rows hold if they need it. */
static inline int coxi_content_add(struct coxi_parser *parser, struct coxi_rows *rows,
                                   uint64_t offset, const struct cox_bytes *record,
                                   struct coxi_block *block)
{
    if (parser->content != NULL) {
        return coxi_content_decode(parser, rows, offset, record, block);
    }
    int r = coxi_rows_reserve(rows, 1, 0);
    if (r == 0 && (rows->n_blocks == 0 || rows->blocks[rows->n_blocks - 1] != block)) {
        r = coxi_rows_hold(rows, block);
    }
    if (r == 0) {
        rows->bytes[rows->n] = *record;
        coxi_rows_commit(rows, offset, 0);
    }
    return r;
}

#endif
