/* See format_text.h. Cost: about a nanosecond a byte. Lines are not copied. */
#include "data/format_text.h"

#include "data/key.h"
#include "data/line.h"

/* A tab to a carriage return, or a space; the newline behind a line, too. */
static inline bool is_space(uint8_t c)
{
    return c == ' ' || (uint8_t)(c - '\t') <= '\r' - '\t';
}

/* Takes the words in [at, end), for which there is room; returns their number. A space
 * or newline is at `end`. */
static size_t take_words(const uint8_t *at, const uint8_t *end, uint64_t buckets,
                         uint64_t *keys)
{
    size_t n = 0;
    for (;;) {
        while (at < end && is_space(*at)) {
            at++;
        }
        if (at >= end) {
            return n;
        }
        const uint8_t *word = at;
        while (!is_space(*at)) {
            at++;
        }
        keys[n++] = coxi_key_of(word, (size_t)(at - word), 0, buckets);
    }
}

static int add_line(struct coxi_parser *parser, struct coxi_rows *rows,
                    const struct coxi_line *line)
{
    size_t len = line->len - (line->len > 0 && line->at[line->len - 1] == '\r');
    int r = coxi_rows_reserve(rows, 1, len / 2 + 1);
    if (r != 0) {
        return r;
    }
    size_t words = take_words(line->at, line->at + len, parser->decoding->buckets,
                              rows->keys + rows->n_features);
    if (words == 0) {
        return 0;
    }
    rows->bytes[rows->n] = (struct cox_bytes){line->at, len};
    coxi_rows_commit(rows, line->offset, words);
    return coxi_rows_hold(rows, parser->stream->block);
}

static int parse(struct coxi_parser *parser, struct coxi_rows *rows, size_t n)
{
    int r = 0;
    while (r == 0 && rows->n < n) {
        struct coxi_line line;
        r = coxi_line_next(parser, &line);
        r = r == 0 ? add_line(parser, rows, &line) : r;
    }
    return r;
}

static struct coxi_rows_shape shape(const struct coxi_decoding *decoding)
{
    (void)decoding;
    return (struct coxi_rows_shape){.has = COXI_HAS_FEATURES | COXI_HAS_BYTES};
}

const struct coxi_format coxi_format_text = {.splits = true,
                                             .before = COXI_LINE_BEFORE,
                                             .shape = shape,
                                             .sync = coxi_line_sync,
                                             .parse = parse};
