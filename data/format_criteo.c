/* See format_criteo.h. Cost: 1 to 2 ns a byte, half of it for 26 hashes. */
#include "data/format_criteo.h"

#include <pthread.h>

#include "data/key.h"
#include "data/line.h"
#include "data/logarithm.h"
#include "data/number.h"

enum { INTEGERS = 13, CATEGORIES = 26, USUAL = 8, SMALL = 4096 };

/* ---- integers */

static float logarithms[SMALL];

static void make_logarithms(void)
{
    for (int i = 0; i < SMALL; i++) {
        logarithms[i] = coxi_log_of(i);
    }
}

/* Takes an integer and the tab behind it. False: there is none. */
static inline bool take_integer(const uint8_t **at, float *ret)
{
    const uint8_t *p = *at;
    uint64_t n = 0;
    bool minus = *p == '-';
    p += minus;
    bool missing = *p == '\t' && !minus;
    if ((!missing && !coxi_number_u64(&p, &n)) || *p != '\t') {
        return false;
    }
    n = minus ? 0 : n;
    *ret = n < SMALL ? logarithms[n] : coxi_log_of((double)n);
    *at = p + 1;
    return true;
}

/* ---- categories */

/* True if one of the eight bytes is a tab. */
static inline bool has_tab(const uint8_t *p)
{
    uint64_t ones = 0x0101010101010101u;
    uint64_t word;
    memcpy(&word, p, sizeof(word));
    word ^= '\t' * ones;
    return ((word - ones) & ~word & 0x80 * ones) != 0;
}

/* The tab behind a text, or NULL. Most texts have 8 bytes; 8 bytes may be read behind a
 * line in any case. */
static inline const uint8_t *find_tab(const uint8_t *p, const uint8_t *end)
{
    if (*p == '\t') {
        return p;
    }
    if (p + USUAL < end && p[USUAL] == '\t' && !has_tab(p)) {
        return p + USUAL;
    }
    return p < end ? memchr(p, '\t', (size_t)(end - p)) : NULL;
}

static inline const char *take_categories(const uint8_t **at, const uint8_t *end,
                                          uint64_t buckets, uint64_t *keys)
{
    const uint8_t *p = *at;
    for (uint32_t k = 0; k < CATEGORIES - 1; k++) {
        const uint8_t *tab = find_tab(p, end);
        if (tab == NULL) {
            *at = end;
            return "fewer than 40 columns";
        }
        keys[k] = coxi_key_of(p, (size_t)(tab - p), k, buckets);
        p = tab + 1;
    }
    const uint8_t *tab = find_tab(p, end);
    if (tab != NULL) {
        *at = tab;
        return "more than 40 columns";
    }
    keys[CATEGORIES - 1] = coxi_key_of(p, (size_t)(end - p), CATEGORIES - 1, buckets);
    return NULL;
}

/* ---- records */

/* Takes a line, for which there is room. NULL, or the reason why it is malformed, and
 * where (*at). */
static inline const char *take_record(const uint8_t **at, const uint8_t *end,
                                      struct coxi_rows *rows, uint64_t buckets)
{
    float *dense = rows->dense + rows->n * INTEGERS;
    if (!coxi_number_float(at, &rows->labels[rows->n]) || **at != '\t') {
        return "no label";
    }
    ++*at;
    for (size_t i = 0; i < INTEGERS; i++) {
        if (!take_integer(at, &dense[i])) {
            return "no integer with a tab behind it";
        }
    }
    return take_categories(at, end, buckets, rows->keys + rows->n_features);
}

static void set_fields(struct coxi_rows *rows)
{
    uint32_t *fields = rows->fields + rows->n_features;
    for (uint32_t k = 0; k < CATEGORIES; k++) {
        fields[k] = k;
    }
}

static int parse(struct coxi_parser *parser, struct coxi_rows *rows, size_t n)
{
    uint64_t buckets = parser->decoding->buckets;
    int r = 0;
    while (r == 0 && rows->n < n) {
        struct coxi_line line;
        r = coxi_line_next(parser, &line);
        r = r == 0 ? coxi_rows_reserve(rows, 1, CATEGORIES) : r;
        if (r != 0) {
            return r;
        }
        const uint8_t *at = line.at;
        const uint8_t *end = at + line.len;
        end -= end > at && end[-1] == '\r';
        if (at == end) {
            continue;
        }
        const char *reason = take_record(&at, end, rows, buckets);
        if (reason == NULL) {
            set_fields(rows);
            coxi_rows_commit(rows, line.offset, CATEGORIES);
        } else {
            r = coxi_bad_record(parser->bad, COX_EFORMAT, line.offset,
                                "byte %zu of the line: %s", (size_t)(at - line.at) + 1,
                                reason);
        }
    }
    return r;
}

static int open_file(struct coxi_parser *parser)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct coxi_line header;
    (void)pthread_once(&once, make_logarithms);
    return parser->begin == 0 && parser->decoding->header != 0
               ? coxi_line_next(parser, &header)
               : 0;
}

static struct coxi_rows_shape shape(const struct coxi_decoding *decoding)
{
    (void)decoding;
    return (struct coxi_rows_shape){.has = COXI_HAS_LABELS | COXI_HAS_FEATURES |
                                           COXI_HAS_FIELDS,
                                    .n_dense = INTEGERS};
}

const struct coxi_format coxi_format_criteo = {.splits = true,
                                               .before = COXI_LINE_BEFORE,
                                               .shape = shape,
                                               .open = open_file,
                                               .sync = coxi_line_sync,
                                               .parse = parse};
