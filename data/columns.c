/* See columns.h. */
#include "data/columns.h"

#include <inttypes.h>
#include <stdio.h>

#include "data/key.h"
#include "data/logarithm.h"

static unsigned has_of(uint32_t kind)
{
    switch ((enum cox_column_kind)kind) {
    case COX_COLUMN_LABEL:
        return COXI_HAS_LABELS;
    case COX_COLUMN_WEIGHT:
        return COXI_HAS_WEIGHTS;
    case COX_COLUMN_KEY:
        return COXI_HAS_FEATURES | COXI_HAS_FIELDS;
    case COX_COLUMN_BYTES:
        return COXI_HAS_BYTES;
    case COX_COLUMN_DENSE:
        break;
    }
    return 0;
}

uint32_t coxi_column_width(const struct cox_column *column)
{
    return column->width > 0 ? column->width : 1;
}

struct coxi_rows_shape coxi_columns_shape(const struct coxi_decoding *decoding)
{
    struct coxi_rows_shape shape = {0};
    for (uint32_t i = 0; i < decoding->n_columns; i++) {
        const struct cox_column *column = &decoding->columns[i];
        shape.has |= has_of(column->kind);
        shape.n_dense +=
            column->kind == COX_COLUMN_DENSE ? coxi_column_width(column) : 0;
    }
    return shape;
}

/* ---- filling */

int coxi_filling_begin(struct coxi_filling *filling, struct coxi_rows *rows,
                       size_t features)
{
    int r = coxi_rows_reserve(rows, 1, features);
    if (r != 0) {
        return r;
    }
    *filling = (struct coxi_filling){.rows = rows};
    if (rows->dense != NULL) {
        filling->dense = rows->dense + rows->n * rows->shape.n_dense;
    }
    if (rows->keys != NULL) {
        filling->keys = rows->keys + rows->n_features;
        filling->fields = rows->fields + rows->n_features;
    }
    return 0;
}

float *coxi_filling_numbers(struct coxi_filling *filling,
                            const struct cox_column *column)
{
    struct coxi_rows *rows = filling->rows;
    float *at = filling->dense;
    if (column->kind == COX_COLUMN_LABEL) {
        return &rows->labels[rows->n];
    }
    if (column->kind == COX_COLUMN_WEIGHT) {
        return &rows->weights[rows->n];
    }
    filling->dense += coxi_column_width(column);
    return at;
}

float coxi_column_number(const struct cox_column *column, float x)
{
    return column->log != 0 ? coxi_log_of((double)x) : x;
}

/* True if a text is an integer of 64 bits: digits, or a minus sign and digits. */
static bool is_integer(const uint8_t *text, size_t len, uint64_t *ret)
{
    bool minus = len > 0 && text[0] == '-';
    uint64_t n = 0;
    for (size_t i = minus; i < len; i++) {
        unsigned digit = (unsigned)text[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, digit, &n)) {
            return false;
        }
    }
    *ret = minus ? -n : n;
    return len > minus && (!minus || n <= (uint64_t)1 << 63);
}

static void put_key(struct coxi_filling *filling, uint64_t key)
{
    *filling->keys++ = key;
    *filling->fields++ = filling->field;
}

void coxi_filling_text(struct coxi_filling *filling, const struct cox_column *column,
                       const uint8_t *text, size_t len)
{
    uint64_t n;
    put_key(filling, column->integers != 0 && is_integer(text, len, &n)
                         ? n
                         : coxi_key_of(text, len, filling->field, column->buckets));
}

void coxi_filling_integer(struct coxi_filling *filling, const struct cox_column *column,
                          int64_t n)
{
    char text[24];
    if (column->integers != 0) {
        put_key(filling, (uint64_t)n);
        return;
    }
    int len = snprintf(text, sizeof(text), "%" PRId64, n);
    put_key(filling, coxi_key_of(text, (size_t)len, filling->field, column->buckets));
}

void coxi_filling_end(struct coxi_filling *filling, uint64_t offset)
{
    struct coxi_rows *rows = filling->rows;
    size_t features = 0;
    if (rows->keys != NULL) {
        features = (size_t)(filling->keys - rows->keys) - rows->n_features;
    }
    coxi_rows_commit(rows, offset, features);
}
