/* How the optimizer and initializer of a spec are converted. */
#include "coordinator/variables/rules.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "common/initializer.h"
#include "common/layout.h"
#include "common/rule.h"
#include "tests/coordinator/crew.h"
#include "tests/test.h"

static struct coxi_optimizer optimizer_of(struct cox_optimizer o)
{
    const struct cox_initializer zeros = COX_INITIALIZER_INIT;
    struct coxi_variable v = {.kind = COXI_KIND_TABLE, .rank = 1, .shape = {4}};
    coxi_rules_set(&v, &o, &zeros);
    return v.optimizer;
}

TEST(zeros_are_the_defaults_that_the_header_tells)
{
    static const struct coxi_optimizer expected[] = {
        {.kind = COX_OPTIMIZER_NONE},
        {.kind = COX_SGD, .learning_rate = 0.5F},
        {.kind = COX_ADAGRAD, .learning_rate = 0.5F, .epsilon = 1e-10F},
        {.kind = COX_MOMENTUM, .learning_rate = 0.5F, .momentum = 0.9F},
        {.kind = COX_NESTEROV, .learning_rate = 0.5F, .momentum = 0.9F},
        {.kind = COX_ROWWISE_ADAGRAD, .learning_rate = 0.5F, .epsilon = 1e-10F},
        {.kind = COX_ADADELTA, .learning_rate = 0.5F, .epsilon = 1e-6F, .rho = 0.9F},
        {.kind = COX_RMSPROP, .learning_rate = 0.5F, .epsilon = 1e-8F, .rho = 0.99F},
        {.kind = COX_ADAM,
         .learning_rate = 0.5F,
         .epsilon = 1e-8F,
         .beta1 = 0.9F,
         .beta2 = 0.999F},
        {.kind = COX_ADAMW,
         .learning_rate = 0.5F,
         .epsilon = 1e-8F,
         .beta1 = 0.9F,
         .beta2 = 0.999F},
        {.kind = COX_FTRL, .learning_rate = 0.5F},
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
        struct coxi_optimizer made = optimizer_of((struct cox_optimizer){
            .kind = expected[i].kind, .learning_rate = expected[i].learning_rate});
        assert_true(coxi_optimizer_equal(&expected[i], &made));
        assert_code(0, coxi_optimizer_check(&made));
    }
}

TEST(numbers_that_are_given_are_taken)
{
    const struct cox_optimizer given = {.kind = COX_ADAMW,
                                        .learning_rate = 1,
                                        .epsilon = 2,
                                        .initial_accumulator = 3,
                                        .momentum = 4,
                                        .rho = 5,
                                        .beta1 = 6,
                                        .beta2 = 7,
                                        .beta = 8,
                                        .l1 = 9,
                                        .l2 = 10,
                                        .weight_decay = 11,
                                        .clip_value = 12,
                                        .clip_norm = 13,
                                        .growth_factor = 20,
                                        .growth_interval = 21,
                                        .schedule = {14, 15, 16, 17, 18, 19}};
    const struct coxi_optimizer taken = {
        COXI_OPTIMIZER_ADAMW,    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 20, 21,
        {14, 15, 16, 17, 18, 19}};
    struct coxi_optimizer made = optimizer_of(given);
    assert_true(coxi_optimizer_equal(&taken, &made));
}

/* ---- the table in docs/optimizers.md */

/* The table cell with the numbers that a rule takes: "`epsilon` 1e-10, `beta` 0". */
static void numbers_of(uint32_t kind, char *ret, size_t size)
{
    static const struct {
        const char *name;
        size_t offset;
    } numbers[] = {
#define NUMBER(name) {#name, offsetof(struct coxi_optimizer, name)}
        NUMBER(epsilon),
        NUMBER(initial_accumulator),
        NUMBER(momentum),
        NUMBER(rho),
        NUMBER(beta1),
        NUMBER(beta2),
        NUMBER(beta),
        NUMBER(l1),
        NUMBER(l2),
        NUMBER(growth_factor),
        NUMBER(growth_interval)
#undef NUMBER
    };
    bool has_rate = kind != COX_LOSS_SCALE;
    const struct coxi_optimizer o = optimizer_of(
        (struct cox_optimizer){.kind = kind, .learning_rate = has_rate ? 1 : 0});
    size_t len = 0;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        struct coxi_optimizer with = o;
        float x;
        memcpy(&x, (const char *)&o + numbers[i].offset, sizeof(x));
        memcpy((char *)&with + numbers[i].offset, &(float){0.5F}, sizeof(x));
        if (coxi_optimizer_check(&with) == 0 ||
            strstr(coxi_error_text(), "has no use") == NULL) {
            len += (size_t)snprintf(ret + len, size - len, "%s`%s` %g",
                                    len > 0 ? ", " : "", numbers[i].name, (double)x);
        }
    }
    (void)snprintf(ret + len, size - len, "%s", len > 0 ? "" : "none");
}

/* The table cell with its state: "`adam_m`, `adam_v`; a row: `adam_t`". */
static void state_of(uint32_t kind, char *ret, size_t size)
{
    const struct coxi_variable v = {.kind = COXI_KIND_TABLE,
                                    .optimizer = {.kind = kind}};
    struct coxi_state_layout layout = coxi_optimizer_layout(&v);
    size_t len = 0;
    for (size_t i = 0; i < layout.n_slots + layout.n_row; i++) {
        const char *before = i == layout.n_slots ? (i > 0 ? "; a row: " : "a row: ")
                             : i > 0             ? ", "
                                                 : "";
        len += (size_t)snprintf(ret + len, size - len, "%s`%s`", before,
                                layout.states[i].name);
    }
    (void)snprintf(ret + len, size - len, "%s", len > 0 ? "" : "none");
}

TEST(the_table_of_optimizers_is_what_the_code_does)
{
    static const char *const kinds[] = {[COX_SGD] = "COX_SGD",
                                        [COX_ADAGRAD] = "COX_ADAGRAD",
                                        [COX_MOMENTUM] = "COX_MOMENTUM",
                                        [COX_NESTEROV] = "COX_NESTEROV",
                                        [COX_ROWWISE_ADAGRAD] = "COX_ROWWISE_ADAGRAD",
                                        [COX_ADADELTA] = "COX_ADADELTA",
                                        [COX_RMSPROP] = "COX_RMSPROP",
                                        [COX_ADAM] = "COX_ADAM",
                                        [COX_ADAMW] = "COX_ADAMW",
                                        [COX_FTRL] = "COX_FTRL",
                                        [COX_LOSS_SCALE] = "COX_LOSS_SCALE"};
    static char text[1 << 15];
    FILE *file = fopen(COXI_TEST_OPTIMIZERS, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    assert_int_equal(0, fclose(file));
    for (uint32_t kind = COX_SGD; kind < COXI_OPTIMIZER_END; kind++) {
        char numbers[256];
        char kept[256];
        char begin[64];
        char end[600];
        numbers_of(kind, numbers, sizeof(numbers));
        state_of(kind, kept, sizeof(kept));
        (void)snprintf(begin, sizeof(begin), "\n| `%s` |", kinds[kind]);
        (void)snprintf(end, sizeof(end), " | %s | %s |\n", numbers, kept);
        const char *row = strstr(text, begin);
        assert_non_null(row);
        const char *row_end = strchr(row + 1, '\n') + 1;
        if (strncmp(row_end - strlen(end), end, strlen(end)) != 0) {
            fail_msg("the row of %s does not end in '%s'", kinds[kind], end);
        }
    }
}

static void assert_glorot(enum coxi_kind kind, uint32_t rank, const uint64_t *shape,
                          double both)
{
    const struct cox_optimizer none = COX_OPTIMIZER_INIT;
    struct coxi_variable v = {.kind = kind, .rank = rank};
    for (uint32_t i = 0; i < rank; i++) {
        v.shape[i] = shape[i];
    }
    coxi_rules_set(&v, &none, &(struct cox_initializer){COX_GLOROT_UNIFORM, 0, 0, 9});
    assert_int_equal(COXI_INIT_UNIFORM, v.initializer.kind);
    assert_int_equal(9, v.initializer.seed);
    assert_true(fabs((double)v.initializer.b - sqrt(6 / both)) < 1e-6);
    assert_true(v.initializer.a == -v.initializer.b);
    coxi_rules_set(&v, &none, &(struct cox_initializer){COX_GLOROT_NORMAL, 0, 0, 9});
    assert_int_equal(COXI_INIT_NORMAL, v.initializer.kind);
    assert_true(v.initializer.a == 0);
    assert_true(fabs((double)v.initializer.b - sqrt(2 / both)) < 1e-6);
}

TEST(glorot_numbers_follow_from_the_shape)
{
    assert_glorot(COXI_KIND_DENSE, 1, (const uint64_t[]){50}, 100);
    assert_glorot(COXI_KIND_DENSE, 2, (const uint64_t[]){300, 100}, 400);
    assert_glorot(COXI_KIND_DENSE, 4, (const uint64_t[]){3, 5, 10, 20}, 15 * 30);
    assert_glorot(COXI_KIND_TABLE, 1, (const uint64_t[]){16}, 17);
}

TEST(shapes_that_are_none_do_no_harm)
{
    const struct cox_optimizer none = COX_OPTIMIZER_INIT;
    const struct cox_initializer glorot = {COX_GLOROT_NORMAL, 0, 0, 1};
    struct coxi_variable v = {.kind = COXI_KIND_DENSE, .rank = UINT32_MAX};
    coxi_rules_set(&v, &none, &glorot);
    assert_true(isfinite(v.initializer.b));
    v.rank = 0;
    coxi_rules_set(&v, &none, &glorot);
    assert_true(isfinite(v.initializer.b));
}

TEST(glorot_variables_start_spread_over_their_range)
{
    enum { IN = 60, OUT = 36 };
    static float w[IN * OUT];
    struct crew crew;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    struct cox_variable *variable;
    const double limit = 0.25; /* sqrt(6 / 96) */
    double squares = 0;
    crew_open(&crew, 2, 1, NULL, NULL);
    spec.name = "kernel";
    spec.dtype = COX_F32;
    spec.rank = 2;
    spec.shape[0] = IN;
    spec.shape[1] = OUT;
    spec.shards = 2;
    spec.initializer.kind = COX_GLOROT_UNIFORM;
    spec.initializer.seed = 5;
    assert_code(0, cox_variable_create(crew.c, &spec, &variable));
    assert_code(0, cox_variable_read(crew.c, variable, w, sizeof(w)));
    for (int i = 0; i < IN * OUT; i++) {
        assert_true(fabs((double)w[i]) <= limit);
        squares += (double)w[i] * (double)w[i];
    }
    assert_true(fabs(squares / (IN * OUT) - limit * limit / 3) < 0.002);
    crew_close(&crew);
}

/* ---- seeds */

enum { DRAWN = 8 };

/* The initial values of a variable called `name`, in a run with that seed. */
static void draw(uint64_t run_seed, const char *name, uint64_t seed, float *ret)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    struct cox_table_spec table_spec = COX_TABLE_SPEC_INIT;
    struct cox_variable *variable;
    struct cox_table *table;
    const uint64_t key = 3;
    options.seed = run_seed;
    crew_open(&crew, 1, 1, NULL, &options);
    spec.name = name;
    spec.dtype = COX_F32;
    spec.rank = 1;
    spec.shape[0] = DRAWN;
    spec.initializer = (struct cox_initializer){COX_NORMAL, 0, 1, seed};
    assert_code(0, cox_variable_create(crew.c, &spec, &variable));
    assert_code(0, cox_variable_read(crew.c, variable, ret, DRAWN * sizeof(float)));
    table_spec.name = "table";
    table_spec.dim = DRAWN;
    table_spec.initializer = spec.initializer;
    assert_code(0, cox_table_create(crew.c, &table_spec, &table));
    assert_code(0, cox_table_read(crew.c, table, &key, 1, ret + DRAWN));
    crew_close(&crew);
}

TEST(equal_specs_without_a_seed_begin_differently)
{
    float a[2 * DRAWN];
    float again[2 * DRAWN];
    float other_run[2 * DRAWN];
    float b[2 * DRAWN];
    draw(0, "a", 0, a);
    draw(0, "a", 0, again);
    draw(7, "a", 0, other_run);
    draw(0, "b", 0, b);
    assert_memory_equal(a, again, sizeof(a));
    for (size_t i = 0; i < DRAWN; i++) {
        assert_true(a[i] != b[i]);
    }
    for (size_t i = 0; i < 2 * DRAWN; i++) {
        assert_true(a[i] != other_run[i]);
    }
    draw(0, "a", 5, a);
    draw(7, "b", 5, b);
    assert_memory_equal(a, b, sizeof(a));
}

TEST(seeds_are_for_what_is_drawn)
{
    const struct cox_optimizer none = COX_OPTIMIZER_INIT;
    struct coxi_variable v = {.name = "v", .rank = 1, .shape = {4}};
    coxi_rules_set(&v, &none, &(struct cox_initializer){COX_CONSTANT, 1, 0, 0});
    coxi_rules_seed(&v, 7);
    assert_int_equal(0, v.initializer.seed);
    coxi_rules_set(&v, &none, &(struct cox_initializer){COX_GLOROT_NORMAL, 0, 0, 0});
    coxi_rules_seed(&v, 7);
    assert_true(v.initializer.seed != 0);
}
