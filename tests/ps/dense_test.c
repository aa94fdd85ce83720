/* Shards of dense variables. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/dtype.h"
#include "common/initializer.h"
#include "common/rand.h"
#include "ps/dense.h"
#include "tests/ps/rows.h"
#include "tests/test.h"

enum { ROWS = 700, COLUMNS = 5, ELEMENTS = ROWS * COLUMNS, ELEMENT_MAX = 8 };

static const uint32_t dtypes[] = {COX_F32, COX_F64,  COX_I32, COX_I64,
                                  COX_U8,  COX_BF16, COX_F16};
enum { N_DTYPES = sizeof(dtypes) / sizeof(*dtypes) };

/* ROWS x COLUMNS elements in one shard. */
struct subject {
    struct coxi_variable variable;
    struct coxi_shard shard;
    struct coxi_dense *dense;
};

static void subject_init(struct subject *s, uint32_t dtype)
{
    *s = (struct subject){
        .variable = {.name = "v",
                     .dtype = dtype,
                     .rank = 2,
                     .shape = {ROWS, COLUMNS},
                     .n_shards = 1},
        .shard = {.count = ROWS},
    };
    s->variable.shards = &s->shard;
}

static void subject_open(struct subject *s)
{
    assert_code(0, coxi_dense_new(&s->variable, &s->shard, NULL, &s->dense));
}

static void fill_random(uint64_t *rng, void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        ((uint8_t *)bytes)[i] = (uint8_t)coxi_rand(rng);
    }
}

/* ---- operations */

/* Element i of an array as a double. */
static double get(uint32_t dtype, const void *array, size_t i)
{
    switch ((enum cox_dtype)dtype) {
    case COX_F32:
        return (double)((const float *)array)[i];
    case COX_F64:
        return ((const double *)array)[i];
    case COX_I32:
        return ((const int32_t *)array)[i];
    case COX_I64:
        return (double)((const int64_t *)array)[i];
    case COX_U8:
        return ((const uint8_t *)array)[i];
    case COX_BF16:
    case COX_F16:
        break;
    }
    fail_msg("no number");
    return 0;
}

static void set(uint32_t dtype, void *array, size_t i, int value)
{
    switch ((enum cox_dtype)dtype) {
    case COX_F32:
        ((float *)array)[i] = (float)value;
        return;
    case COX_F64:
        ((double *)array)[i] = value;
        return;
    case COX_I32:
        ((int32_t *)array)[i] = value;
        return;
    case COX_I64:
        ((int64_t *)array)[i] = value;
        return;
    case COX_U8:
        ((uint8_t *)array)[i] = (uint8_t)value;
        return;
    case COX_BF16:
    case COX_F16:
        break;
    }
    fail_msg("no number");
}

TEST(dense_assigns_in_every_type)
{
    static uint64_t values[ELEMENTS];
    static uint64_t found[ELEMENTS];
    uint64_t rng = 1;
    for (size_t t = 0; t < N_DTYPES; t++) {
        struct subject s;
        size_t bytes = ELEMENTS * coxi_dtype_size(dtypes[t]);
        subject_init(&s, dtypes[t]);
        subject_open(&s);
        fill_random(&rng, values, bytes);
        update_rows(s.dense, 0, ROWS, COXI_OP_ASSIGN, values);
        memset(found, 0, sizeof(found));
        read_rows(s.dense, &s.variable, 0, ROWS, found);
        assert_memory_equal(values, found, bytes);
        coxi_dense_free(s.dense);
    }
}

TEST(dense_adds_in_every_type_of_numbers)
{
    static uint64_t values[ELEMENTS];
    static uint64_t found[ELEMENTS];
    for (size_t t = 0; t < N_DTYPES && dtypes[t] != COX_BF16; t++) {
        struct subject s;
        subject_init(&s, dtypes[t]);
        subject_open(&s);
        for (int round = 1; round <= 2; round++) {
            for (size_t i = 0; i < ELEMENTS; i++) {
                set(dtypes[t], values, i, (int)(i % 50) * round);
            }
            update_rows(s.dense, 0, ROWS, COXI_OP_ADD, values);
        }
        read_rows(s.dense, &s.variable, 0, ROWS, found);
        for (size_t i = 0; i < ELEMENTS; i++) {
            assert_int_equal(i % 50 * 3, (int)get(dtypes[t], found, i));
        }
        coxi_dense_free(s.dense);
    }
}

TEST(dense_wraps_integers_around)
{
    struct subject s;
    int32_t values[COLUMNS] = {INT32_MAX, INT32_MIN, -1, 7, 0};
    const int32_t more[COLUMNS] = {1, -1, 1, -7, 0};
    subject_init(&s, COX_I32);
    subject_open(&s);
    update_rows(s.dense, 9, 1, COXI_OP_ASSIGN, values);
    update_rows(s.dense, 9, 1, COXI_OP_ADD, more);
    read_rows(s.dense, &s.variable, 9, 1, values);
    const int32_t expected[COLUMNS] = {INT32_MIN, INT32_MAX, 0, 0, 0};
    assert_memory_equal(expected, values, sizeof(expected));
    coxi_dense_free(s.dense);
}

TEST(dense_takes_what_its_type_and_optimizer_allow)
{
    for (size_t t = 0; t < N_DTYPES; t++) {
        struct subject s;
        bool half = dtypes[t] == COX_BF16 || dtypes[t] == COX_F16;
        subject_init(&s, dtypes[t]);
        assert_true(coxi_dense_takes(&s.variable, COXI_OP_ASSIGN));
        assert_int_equal(!half, coxi_dense_takes(&s.variable, COXI_OP_ADD));
        assert_false(coxi_dense_takes(&s.variable, COXI_OP_GRADIENT));
        assert_int_equal(!half, coxi_dense_takes(&s.variable, COXI_OP_MIN));
        assert_int_equal(!half, coxi_dense_takes(&s.variable, COXI_OP_MAX));
        assert_false(coxi_dense_takes(&s.variable, (enum coxi_op)(COXI_OP_MAX + 1)));
    }
    struct subject s;
    subject_init(&s, COX_F32);
    s.variable.optimizer.kind = COXI_OPTIMIZER_SGD;
    assert_true(coxi_dense_takes(&s.variable, COXI_OP_GRADIENT));
}

/* ---- ranges */

TEST(dense_touches_only_the_rows_of_a_range)
{
    static float values[ELEMENTS];
    static float found[ELEMENTS];
    uint64_t rng = 5;
    for (int round = 0; round < 200; round++) {
        struct subject s;
        uint64_t begin = coxi_rand(&rng) % ROWS;
        uint64_t count = coxi_rand(&rng) % (ROWS - begin + 1);
        subject_init(&s, COX_F32);
        s.variable.initializer =
            (struct coxi_initializer){.kind = COXI_INIT_CONSTANT, .a = -1};
        subject_open(&s);
        for (size_t i = 0; i < count * COLUMNS; i++) {
            values[i] = (float)i;
        }
        update_rows(s.dense, begin, count, COXI_OP_ASSIGN, values);
        read_rows(s.dense, &s.variable, 0, ROWS, found);
        for (size_t i = 0; i < ELEMENTS; i++) {
            size_t first = begin * COLUMNS;
            bool inside = i >= first && i < first + count * COLUMNS;
            assert_true(found[i] == (inside ? (float)(i - first) : -1));
        }
        memset(found, 0, sizeof(found));
        read_rows(s.dense, &s.variable, begin, count, found);
        assert_memory_equal(values, found, count * COLUMNS * sizeof(float));
        coxi_dense_free(s.dense);
    }
}

/* ---- training */

static void train(const struct coxi_optimizer *o)
{
    static float gradient[ELEMENTS];
    static float found[ELEMENTS];
    static double w[ELEMENTS];
    static double sum[ELEMENTS];
    struct subject s;
    uint64_t rng = 3;
    subject_init(&s, COX_F32);
    s.variable.optimizer = *o;
    subject_open(&s);
    for (size_t i = 0; i < ELEMENTS; i++) {
        w[i] = 0;
        sum[i] = (double)o->initial_accumulator;
    }
    for (int step = 0; step < 20; step++) {
        /* Rows of different ranges each time: state belongs to its element. */
        uint64_t begin = coxi_rand(&rng) % (ROWS / 2);
        uint64_t count = ROWS / 2;
        for (size_t i = 0; i < count * COLUMNS; i++) {
            gradient[i] = (float)(coxi_rand_unit(&rng) - 0.5);
            double g = (double)gradient[i];
            size_t at = begin * COLUMNS + i;
            sum[at] += g * g;
            w[at] -= o->kind == COXI_OPTIMIZER_SGD
                         ? (double)o->learning_rate * g
                         : (double)o->learning_rate * g /
                               (sqrt(sum[at]) + (double)o->epsilon);
        }
        update_rows(s.dense, begin, count, COXI_OP_GRADIENT, gradient);
    }
    read_rows(s.dense, &s.variable, 0, ROWS, found);
    float *state = o->kind == COXI_OPTIMIZER_ADAGRAD
                       ? read_array(s.dense, 1, ELEMENTS * sizeof(float))
                       : NULL;
    for (size_t i = 0; i < ELEMENTS; i++) {
        assert_true(fabs(w[i] - (double)found[i]) < 2e-6);
        if (o->kind == COXI_OPTIMIZER_ADAGRAD) {
            assert_true(fabs(sum[i] - (double)state[i]) < 2e-6);
        }
    }
    free(state);
    coxi_dense_free(s.dense);
}

TEST(dense_trains_with_sgd_like_plain_arithmetic)
{
    const struct coxi_optimizer o = {.kind = COXI_OPTIMIZER_SGD, .learning_rate = 0.1F};
    train(&o);
}

TEST(dense_trains_with_adagrad_like_plain_arithmetic)
{
    const struct coxi_optimizer o = {.kind = COXI_OPTIMIZER_ADAGRAD,
                                     .learning_rate = 0.1F,
                                     .epsilon = 1e-4F,
                                     .initial_accumulator = 0.1F};
    train(&o);
}

/* ---- beginnings */

TEST(dense_shards_start_as_the_parts_of_one_variable)
{
    static float found[ELEMENTS];
    uint32_t kinds[] = {COXI_INIT_UNIFORM, COXI_INIT_NORMAL, COXI_INIT_CONSTANT};
    for (size_t k = 0; k < 3; k++) {
        struct coxi_shard shards[3];
        struct subject s;
        subject_init(&s, COX_F32);
        s.variable.initializer = (struct coxi_initializer){kinds[k], 0.5F, 2, 99};
        coxi_shards_div(ROWS, 3, shards);
        for (size_t i = 0; i < 3; i++) {
            s.shard = shards[i];
            subject_open(&s);
            read_rows(s.dense, &s.variable, shards[i].begin, shards[i].count,
                      found + shards[i].begin * COLUMNS);
            coxi_dense_free(s.dense);
        }
        for (size_t i = 0; i < ELEMENTS; i++) {
            float expected;
            coxi_initializer_row(&s.variable.initializer, i, &expected, 1);
            assert_true(expected == found[i]);
        }
        assert_int_equal(kinds[k] == COXI_INIT_CONSTANT, found[0] == found[1]);
    }
}

TEST(dense_starts_at_zero_unless_told_otherwise)
{
    static uint8_t found[ELEMENTS * ELEMENT_MAX];
    for (size_t t = 0; t < N_DTYPES; t++) {
        struct subject s;
        size_t bytes = ELEMENTS * coxi_dtype_size(dtypes[t]);
        subject_init(&s, dtypes[t]);
        subject_open(&s);
        memset(found, 0xff, sizeof(found));
        read_rows(s.dense, &s.variable, 0, ROWS, found);
        for (size_t i = 0; i < bytes; i++) {
            assert_int_equal(0, found[i]);
        }
        free(read_array(s.dense, 0, bytes));
        assert_int_equal(bytes, coxi_dense_bytes(s.dense));
        coxi_dense_free(s.dense);
    }
}

/* ---- threads */

enum { BLOCKS = 8, FLOATS = COXI_DENSE_BLOCK / sizeof(float), WRITES = 400 };

struct storm {
    struct coxi_dense *dense;
    const struct coxi_variable *variable;
    atomic_uint writers;
    atomic_uint n_torn;
    atomic_uint n_read;
};

static void *write_constants(void *arg)
{
    struct storm *storm = arg;
    static _Thread_local float values[BLOCKS * FLOATS];
    unsigned me = atomic_fetch_add(&storm->writers, 1) + 1;
    for (unsigned i = 0; i < WRITES; i++) {
        for (size_t j = 0; j < BLOCKS * FLOATS; j++) {
            values[j] = (float)(me * 1000 + i);
        }
        update_rows(storm->dense, 0, BLOCKS * FLOATS,
                    i % 3 == 0 ? COXI_OP_ADD : COXI_OP_ASSIGN, values);
    }
    return NULL;
}

static void *read_blocks(void *arg)
{
    struct storm *storm = arg;
    static _Thread_local float found[BLOCKS * FLOATS];
    for (unsigned i = 0; i < WRITES; i++) {
        read_rows(storm->dense, storm->variable, 0, BLOCKS * FLOATS, found);
        for (size_t b = 0; b < BLOCKS; b++) {
            const float *block = found + b * FLOATS;
            if (memcmp(block, block + 1, (FLOATS - 1) * sizeof(*block)) != 0) {
                atomic_fetch_add(&storm->n_torn, 1);
            }
        }
        atomic_fetch_add(&storm->n_read, 1);
    }
    return NULL;
}

TEST(dense_never_tears_a_block)
{
    struct subject s;
    struct storm storm = {0};
    pthread_t threads[4];
    subject_init(&s, COX_F32);
    s.variable.rank = 1;
    s.variable.shape[0] = s.shard.count = BLOCKS * FLOATS;
    subject_open(&s);
    storm.dense = s.dense;
    storm.variable = &s.variable;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(0, pthread_create(&threads[i], NULL,
                                           i % 2 == 0 ? write_constants : read_blocks,
                                           &storm));
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
    }
    assert_int_equal(0, atomic_load(&storm.n_torn));
    assert_int_equal(2 * WRITES, atomic_load(&storm.n_read));
    coxi_dense_free(s.dense);
}

static void *add_ones(void *arg)
{
    struct storm *storm = arg;
    static _Thread_local float ones[BLOCKS * FLOATS];
    for (size_t j = 0; j < BLOCKS * FLOATS; j++) {
        ones[j] = 1;
    }
    for (unsigned i = 0; i < WRITES; i++) {
        update_rows(storm->dense, 0, BLOCKS * FLOATS, COXI_OP_ADD, ones);
    }
    return NULL;
}

TEST(dense_sums_up_what_threads_add)
{
    static float found[BLOCKS * FLOATS];
    struct subject s;
    struct storm storm = {0};
    pthread_t threads[3];
    subject_init(&s, COX_F32);
    s.variable.rank = 1;
    s.variable.shape[0] = s.shard.count = BLOCKS * FLOATS;
    subject_open(&s);
    storm.dense = s.dense;
    storm.variable = &s.variable;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(0, pthread_create(&threads[i], NULL, add_ones, &storm));
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
    }
    read_rows(s.dense, &s.variable, 0, BLOCKS * FLOATS, found);
    for (size_t i = 0; i < BLOCKS * FLOATS; i++) {
        assert_true(found[i] == 3 * WRITES);
    }
    coxi_dense_free(s.dense);
}
