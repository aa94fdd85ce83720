/* See content.h. */
#include "data/content.h"

#include "common/error.h"

int coxi_content_check(const struct coxi_decoding *decoding)
{
    return decoding->content == COX_RAW
               ? 0
               : coxi_error(COX_EINVAL, "this worker does not know content %u",
                            decoding->content);
}

struct coxi_rows_shape coxi_content_shape(const struct coxi_decoding *decoding)
{
    (void)decoding;
    return (struct coxi_rows_shape){.has = COXI_HAS_BYTES};
}

static int add_raw(struct coxi_rows *rows, uint64_t offset,
                   const struct cox_bytes *record, struct coxi_block *block)
{
    int r = coxi_rows_reserve(rows, 1, 0);
    r = r == 0 ? coxi_rows_hold(rows, block) : r;
    if (r == 0) {
        rows->bytes[rows->n] = *record;
        coxi_rows_commit(rows, offset, 0);
    }
    return r;
}

int coxi_content_add(struct coxi_parser *parser, struct coxi_rows *rows,
                     uint64_t offset, const struct cox_bytes *record,
                     struct coxi_block *block)
{
    (void)parser;
    return add_raw(rows, offset, record, block);
}
