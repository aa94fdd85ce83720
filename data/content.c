/* See content.h. */
#include "data/content.h"

#include "data/columns.h"
#include "data/content_example.h"

int coxi_content_open(struct coxi_parser *parser)
{
    struct coxi_example *example = NULL;
    int r = parser->decoding->content == COX_EXAMPLE
                ? coxi_example_new(parser->decoding, &example)
                : 0;
    parser->content = example;
    return r;
}

void coxi_content_close(struct coxi_parser *parser)
{
    coxi_example_free(parser->content);
    parser->content = NULL;
}

struct coxi_rows_shape coxi_content_shape(const struct coxi_decoding *decoding)
{
    return decoding->content == COX_EXAMPLE
               ? coxi_columns_shape(decoding)
               : (struct coxi_rows_shape){.has = COXI_HAS_BYTES};
}

int coxi_content_decode(struct coxi_parser *parser, struct coxi_rows *rows,
                        uint64_t offset, const struct cox_bytes *record,
                        struct coxi_block *block)
{
    return coxi_example_add(parser->content, parser, rows, offset, record, block);
}
