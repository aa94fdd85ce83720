/*
 * coxswain checkpoint diff: the differences between two checkpoints. Numbers differ if
 * their bits differ. A number that is not finite on either side does not count for the
 * largest difference.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoints.h"
#include "checkpoint/row_index.h"
#include "cli/checkpoint.h"
#include "cli/commands.h"
#include "cli/numbers.h"
#include "common/error.h"
#include "common/layout.h"

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
               "of tables are compared by their keys.",
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

/* Row `row` of a dense variable. *piece: the piece of the last row; moves on. */
static const uint8_t *row_at(const struct coxi_whole *whole, uint64_t row,
                             size_t row_bytes, size_t *piece)
{
    while (row >=
           whole->pieces[*piece].begin + whole->pieces[*piece].tensor->shape[0]) {
        ++*piece;
    }
    const struct coxi_piece *p = &whole->pieces[*piece];
    return (const uint8_t *)p->tensor->data + (row - p->begin) * row_bytes;
}

static void compare_dense(const struct coxi_whole *a, const struct coxi_whole *b,
                          struct difference *d)
{
    size_t pieces[2] = {0, 0};
    size_t row_bytes = coxi_variable_row_bytes(a->variable);
    uint64_t n = row_bytes / coxi_number_size(a->dtype);
    for (uint64_t row = 0; row < a->shape[0]; row++) {
        compare_row(a->dtype, row_at(a, row, row_bytes, &pieces[0]),
                    row_at(b, row, row_bytes, &pieces[1]), n, d);
    }
}

static int compare_tables(const struct coxi_checkpoint *const checkpoints[2],
                          const struct coxi_variable *const v[2], struct difference *d)
{
    struct coxi_row_index index;
    const struct coxi_whole *keys = coxi_checkpoint_find(checkpoints[0], v[0], "keys");
    const struct coxi_whole *values =
        coxi_checkpoint_find(checkpoints[0], v[0], "values");
    size_t dim = coxi_table_dim(v[0]);
    uint64_t n_both = 0;
    int r = coxi_row_index_init(&index, checkpoints[1], v[1]);
    for (size_t p = 0; r == 0 && p < keys->n_pieces; p++) {
        const struct coxi_st_tensor *piece = keys->pieces[p].tensor;
        const float *rows = values->pieces[p].tensor->data;
        for (uint64_t i = 0; i < piece->shape[0]; i++) {
            const float *other =
                coxi_row_index_find(&index, ((const uint64_t *)piece->data)[i]);
            if (other != NULL) {
                n_both++;
                compare_row("F32", rows + i * dim, other, dim, d);
            }
        }
    }
    if (r == 0) {
        d->only[0] = d->rows[0] - n_both;
        d->only[1] = d->rows[1] - n_both;
        coxi_row_index_fini(&index);
    }
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
            compare_dense(values[0], values[1], d);
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
