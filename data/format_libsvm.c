/* See format_libsvm.h. Cost: about 1 ns a byte, nearly all of it for digits. */
#include "data/format_libsvm.h"

#include "common/error.h"
#include "data/line.h"
#include "data/number.h"

static inline bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static inline bool is_end(uint8_t c)
{
    return c == '\n' || c == '#';
}

static inline const uint8_t *skip_spaces(const uint8_t *p)
{
    while (is_space(*p)) {
        p++;
    }
    return p;
}

/* Passes "qid:7". */
static bool skip_query(const uint8_t **at)
{
    const uint8_t *p = *at;
    uint64_t id;
    if (p[0] != 'q' || p[1] != 'i' || p[2] != 'd' || p[3] != ':') {
        return false;
    }
    p += 4;
    if (!coxi_number_u64(&p, &id)) {
        return false;
    }
    *at = p;
    return true;
}

/* Takes KEY:VALUE, or FIELD:KEY:VALUE. NULL, or the reason why it is none. */
static inline const char *take_feature(const uint8_t **at, struct coxi_rows *rows,
                                       size_t i, bool fields)
{
    const uint8_t *p = *at;
    uint64_t field;
    if (fields) {
        if (!coxi_number_u64(&p, &field) || field > UINT32_MAX || *p != ':') {
            return "a feature is not FIELD:KEY:VALUE";
        }
        p++;
        rows->fields[i] = (uint32_t)field;
    }
    if (!coxi_number_u64(&p, &rows->keys[i])) {
        return "a feature has no key, or one of more than 64 bits";
    }
    bool colon = *p == ':';
    p += colon;
    if (!colon || !coxi_number_float(&p, &rows->values[i])) {
        return "a feature has no value, or none that is finite";
    }
    *at = p;
    return NULL;
}

/* Takes a line that has a record; there is room for it. NULL, or the reason why it is
 * malformed, and where (*at). */
static inline const char *take_record(const uint8_t **at, struct coxi_rows *rows,
                                      bool fields, size_t *ret_features)
{
    size_t i = rows->n_features;
    if (!coxi_number_float(at, &rows->labels[rows->n])) {
        return "no label, or none that is finite";
    }
    for (;;) {
        bool apart = is_space(**at);
        *at = skip_spaces(*at);
        if (is_end(**at)) {
            *ret_features = i - rows->n_features;
            return NULL;
        }
        if (!apart) {
            return "a number ends with a byte that is not of a number";
        }
        if (**at == 'q' && skip_query(at)) {
            continue;
        }
        const char *reason = take_feature(at, rows, i, fields);
        if (reason != NULL) {
            return reason;
        }
        i++;
    }
}

static inline int parse(struct coxi_parser *parser, struct coxi_rows *rows, size_t n,
                        bool fields)
{
    int r = 0;
    while (r == 0 && rows->n < n) {
        struct coxi_line line;
        size_t features = 0;
        r = coxi_line_next(parser, &line);
        if (r != 0) {
            return r;
        }
        const uint8_t *at = skip_spaces(line.at);
        if (is_end(*at)) {
            continue;
        }
        r = coxi_rows_reserve(rows, 1, line.len / 4 + 1); /* " 1:1" */
        if (r != 0) {
            return r;
        }
        const char *reason = take_record(&at, rows, fields, &features);
        if (reason == NULL) {
            coxi_rows_commit(rows, line.offset, features);
        } else {
            r = coxi_bad_record(parser->bad, COX_EFORMAT, line.offset,
                                "byte %zu of the line: %s", (size_t)(at - line.at) + 1,
                                reason);
        }
    }
    return r;
}

static int parse_libsvm(struct coxi_parser *parser, struct coxi_rows *rows, size_t n)
{
    return parse(parser, rows, n, false);
}

static int parse_libffm(struct coxi_parser *parser, struct coxi_rows *rows, size_t n)
{
    return parse(parser, rows, n, true);
}

static struct coxi_rows_shape shape_libsvm(const struct coxi_decoding *decoding)
{
    (void)decoding;
    return (struct coxi_rows_shape){.has = COXI_HAS_LABELS | COXI_HAS_FEATURES |
                                           COXI_HAS_VALUES};
}

static struct coxi_rows_shape shape_libffm(const struct coxi_decoding *decoding)
{
    struct coxi_rows_shape shape = shape_libsvm(decoding);
    shape.has |= COXI_HAS_FIELDS;
    return shape;
}

const struct coxi_format coxi_format_libsvm = {.splits = true,
                                               .before = COXI_LINE_BEFORE,
                                               .shape = shape_libsvm,
                                               .sync = coxi_line_sync,
                                               .parse = parse_libsvm};

const struct coxi_format coxi_format_libffm = {.splits = true,
                                               .before = COXI_LINE_BEFORE,
                                               .shape = shape_libffm,
                                               .sync = coxi_line_sync,
                                               .parse = parse_libffm};
