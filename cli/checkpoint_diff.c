/*
 * coxswain checkpoint diff: the differences between two checkpoints. Numbers differ if
 * their bits differ. A number that is not finite on either side does not count for the
 * largest difference.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoints.h"
#include "checkpoint/row_index.h"
#include "cli/checkpoint.h"
#include "cli/commands.h"
#include "cli/numbers.h"
#include "common/buffer.h"
#include "common/error.h"
#include "common/layout.h"

enum { CURSOR_BYTES = 1 << 20 /* rows that are read at a time */ };

struct config {
    bool json;
    const char *variable;
};

static const struct coxi_option options[] = {
    COXI_CHECKPOINT_JSON(struct config),
    COXI_CHECKPOINT_VARIABLE(struct config),
};

static const struct coxi_program program = {
    .name = "coxswain checkpoint diff",
    .usage = "[options] A B",
    .summary = "Compares two checkpoints (.../ckpt-3, or a directory's latest one): "
               "which variables\nare in only one of them or have different "
               "specifications, and how far the values of\nthe others are apart. Rows "
               "of tables are compared by their keys.\nA and B may lie in a store: "
               "s3://BUCKET/PREFIX.",
    .prefix = "COX_CHECKPOINT",
    .mixed = true,
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

enum change { ADDED, REMOVED, SPECIFIED, DIFFERENT, EQUAL };

static const char *const change_words[] = {"added", "removed", "specified", "values",
                                           "none"};

/* The difference of one variable. */
struct difference {
    const char *name;
    enum change change;
    bool compared; /* the fields below are set */
    uint64_t rows[2];
    uint64_t only[2];  /* rows of a table that are in only one of the two */
    uint64_t n_rows;   /* rows in both that differ */
    uint64_t n_values; /* values that differ in these rows */
    double largest;
};

/* ---- values */

/* Compares the `n` values of a row. */
static void compare_row(const char *dtype, const void *a, const void *b, uint64_t n,
                        struct difference *d)
{
    size_t size = coxi_number_size(dtype);
    uint64_t before = d->n_values;
    if (memcmp(a, b, n * size) == 0) {
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (memcmp((const uint8_t *)a + i * size, (const uint8_t *)b + i * size,
                   size) == 0) {
            continue;
        }
        double apart = fabs(coxi_number(dtype, a, i) - coxi_number(dtype, b, i));
        d->largest = isfinite(apart) && apart > d->largest ? apart : d->largest;
        d->n_values++;
    }
    d->n_rows += d->n_values > before;
}

/* Reads the rows of a whole in order, many at a time. */
struct cursor {
    const struct coxi_whole *whole;
    size_t row_bytes;
    uint8_t *rows; /* of one piece: [begin, end) of the whole */
    uint64_t begin;
    uint64_t end;
    size_t piece;
};

static int cursor_init(struct cursor *cursor, const struct coxi_whole *whole,
                       size_t row_bytes)
{
    *cursor = (struct cursor){.whole = whole, .row_bytes = row_bytes};
    cursor->rows =
        coxi_aligned_new(row_bytes > CURSOR_BYTES ? row_bytes : CURSOR_BYTES);
    return cursor->rows != NULL ? 0 : coxi_error_memory("comparing checkpoints");
}

/* Reads row `row`, and those after it for which there is room. */
static int cursor_fill(struct cursor *cursor, uint64_t row)
{
    const struct coxi_whole *whole = cursor->whole;
    while (cursor->piece + 1 < whole->n_pieces &&
           row >= whole->pieces[cursor->piece + 1].begin) {
        cursor->piece++;
    }
    const struct coxi_piece *piece = &whole->pieces[cursor->piece];
    uint64_t at = (row - piece->begin) * cursor->row_bytes;
    uint64_t most = CURSOR_BYTES / cursor->row_bytes;
    uint64_t left = (piece->tensor->bytes - at) / cursor->row_bytes;
    uint64_t n = most == 0 ? 1 : most < left ? most : left;
    cursor->begin = row;
    cursor->end = row + n;
    return coxi_st_read(piece->tensor, at, cursor->rows, n * cursor->row_bytes);
}

/* Sets *ret to row `row`, which must not be before the last one. */
static int row_at(struct cursor *cursor, uint64_t row, const void **ret)
{
    int r = row < cursor->end ? 0 : cursor_fill(cursor, row);
    if (r == 0) {
        *ret = cursor->rows + (row - cursor->begin) * cursor->row_bytes;
    }
    return r;
}

static int compare_dense(const struct coxi_whole *a, const struct coxi_whole *b,
                         struct difference *d)
{
    struct cursor cursors[2] = {{0}};
    const void *rows[2] = {NULL, NULL};
    size_t row_bytes = coxi_variable_row_bytes(a->variable);
    uint64_t n = row_bytes / coxi_number_size(a->dtype);
    int r = cursor_init(&cursors[0], a, row_bytes);
    r = r == 0 ? cursor_init(&cursors[1], b, row_bytes) : r;
    for (uint64_t row = 0; r == 0 && row < a->shape[0]; row++) {
        for (size_t i = 0; r == 0 && i < 2; i++) {
            r = row_at(&cursors[i], row, &rows[i]);
        }
        if (r == 0) {
            compare_row(a->dtype, rows[0], rows[1], n, d);
        }
    }
    free(cursors[0].rows);
    free(cursors[1].rows);
    return r;
}

/* Compares the row of a table with the row of the same key in the other checkpoint, if
 * that has one. `room`: for that row. */
static int compare_key(struct cursor *keys, struct cursor *values, uint64_t row,
                       const struct coxi_row_index *others, float *room,
                       struct difference *d, uint64_t *n_both)
{
    const void *key = NULL;
    const void *own = NULL;
    bool found = false;
    int r = row_at(keys, row, &key);
    r = r == 0 ? row_at(values, row, &own) : r;
    r = r == 0 ? coxi_row_index_read(others, *(const uint64_t *)key, room, &found) : r;
    if (r == 0 && found) {
        ++*n_both;
        compare_row("F32", own, room, values->row_bytes / sizeof(*room), d);
    }
    return r;
}

static int compare_tables(const struct coxi_checkpoint *const checkpoints[2],
                          const struct coxi_variable *const v[2], struct difference *d)
{
    struct coxi_row_index index = {0};
    struct cursor keys = {0};
    struct cursor values = {0};
    size_t row_bytes = coxi_table_dim(v[0]) * sizeof(float);
    float *room = coxi_aligned_new(row_bytes);
    uint64_t n_both = 0;
    int r = room != NULL ? 0 : coxi_error_memory("comparing checkpoints");
    r = r == 0 ? cursor_init(&keys, coxi_checkpoint_find(checkpoints[0], v[0], "keys"),
                             sizeof(uint64_t))
               : r;
    r = r == 0
            ? cursor_init(&values, coxi_checkpoint_find(checkpoints[0], v[0], "values"),
                          row_bytes)
            : r;
    r = r == 0 ? coxi_row_index_init(&index, checkpoints[1], v[1]) : r;
    for (uint64_t row = 0; r == 0 && row < d->rows[0]; row++) {
        r = compare_key(&keys, &values, row, &index, room, d, &n_both);
    }
    d->only[0] = d->rows[0] - n_both;
    d->only[1] = d->rows[1] - n_both;
    coxi_row_index_fini(&index);
    free(keys.rows);
    free(values.rows);
    free(room);
    return r;
}

/* ---- variables */

static bool comparable(const struct coxi_variable *a, const struct coxi_variable *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->shape, b->shape, a->rank * sizeof(*a->shape)) == 0;
}

static int compare(const struct coxi_checkpoint *const checkpoints[2],
                   const struct coxi_variable *const v[2], struct difference *d)
{
    const struct coxi_whole *values[2];
    int r = 0;
    *d = (struct difference){.name = v[0]->name, .compared = comparable(v[0], v[1])};
    if (d->compared) {
        for (int i = 0; i < 2; i++) {
            values[i] = coxi_checkpoint_find(checkpoints[i], v[i], "values");
            d->rows[i] = values[i]->shape[0];
        }
        if (v[0]->kind == COXI_KIND_TABLE) {
            r = compare_tables(checkpoints, v, d);
        } else {
            r = compare_dense(values[0], values[1], d);
        }
    }
    bool differ = d->n_rows > 0 || d->only[0] > 0 || d->only[1] > 0;
    d->change = !coxi_variable_equal(v[0], v[1]) ? SPECIFIED
                : differ                         ? DIFFERENT
                                                 : EQUAL;
    return r;
}

/* ---- output */

static void print_difference(const struct difference *d)
{
    (void)printf("%-28s %-10s", d->name, change_words[d->change]);
    if (d->compared) {
        (void)printf(" %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64
                     " %12" PRIu64 " %12" PRIu64 " %12.6g",
                     d->rows[0], d->rows[1], d->only[0], d->only[1], d->n_rows,
                     d->n_values, d->largest);
    }
    (void)printf("\n");
}

static json_t *difference_json(const struct difference *d)
{
    json_t *object =
        json_pack("{s:s, s:s}", "variable", d->name, "change", change_words[d->change]);
    if (d->compared) {
        json_t *more = json_pack(
            "{s:[I, I], s:[I, I], s:I, s:I, s:f}", "rows", (json_int_t)d->rows[0],
            (json_int_t)d->rows[1], "rows_only", (json_int_t)d->only[0],
            (json_int_t)d->only[1], "rows_differing", (json_int_t)d->n_rows,
            "values_differing", (json_int_t)d->n_values, "largest", d->largest);
        (void)json_object_update(object, more);
        json_decref(more);
    }
    return object;
}

static void tell(const struct difference *d, json_t *lines)
{
    if (lines != NULL) {
        (void)json_array_append_new(lines, difference_json(d));
    } else {
        print_difference(d);
    }
}

/* Tells the variables of the first checkpoint that the second lacks, as `change`;
 * compares the others. */
static int tell_all(const struct coxi_checkpoint *const checkpoints[2],
                    const char *pattern, json_t *lines)
{
    const struct coxi_manifest *a = checkpoints[0]->manifest;
    const struct coxi_manifest *b = checkpoints[1]->manifest;
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < a->n_variables; i++) {
        const char *name = a->variables[i]->name;
        const struct coxi_variable *v[2] = {
            a->variables[i], coxi_checkpoint_variable(checkpoints[1], name)};
        struct difference d = {.name = name, .change = REMOVED};
        if (!coxi_name_matches(pattern, name)) {
            continue;
        }
        if (v[1] != NULL) {
            r = compare(checkpoints, v, &d);
        }
        if (r == 0) {
            tell(&d, lines);
        }
    }
    for (uint32_t i = 0; r == 0 && i < b->n_variables; i++) {
        const char *name = b->variables[i]->name;
        if (coxi_name_matches(pattern, name) &&
            coxi_checkpoint_variable(checkpoints[0], name) == NULL) {
            tell(&(struct difference){.name = name, .change = ADDED}, lines);
        }
    }
    return r;
}

static int diff(char **dirs, const struct config *config)
{
    struct coxi_checkpoint *both[2] = {NULL, NULL};
    json_t *lines = config->json ? json_array() : NULL;
    int r = coxi_checkpoint_use(dirs[0], COXI_CHECKPOINT_CHECKED, &both[0]);
    if (r == 0) {
        r = coxi_checkpoint_use(dirs[1], COXI_CHECKPOINT_CHECKED, &both[1]);
    }
    if (r == 0 && !config->json) {
        (void)printf("A: %s\nB: %s\n\n%-28s %-10s %12s %12s %12s %12s %12s %12s %12s\n",
                     both[0]->path, both[1]->path, "variable", "change", "rows of A",
                     "rows of B", "only in A", "only in B", "rows differ", "values",
                     "largest");
    }
    if (r == 0) {
        const struct coxi_checkpoint *const checkpoints[2] = {both[0], both[1]};
        r = tell_all(checkpoints, config->variable, lines);
    }
    if (r == 0 && config->json) {
        r = coxi_checkpoint_print(json_pack("{s:s, s:s, s:O}", "a", both[0]->path, "b",
                                            both[1]->path, "variables", lines));
    }
    json_decref(lines);
    coxi_checkpoint_close(both[0]);
    coxi_checkpoint_close(both[1]);
    return r;
}

int coxi_checkpoint_diff(int argc, char **argv)
{
    struct config config = {0};
    char **words;
    int code;
    if (!coxi_command_options(&program, argc, argv, &config, 2, &words, &code)) {
        return code;
    }
    return coxi_checkpoint_exit(&program, diff(words, &config));
}
