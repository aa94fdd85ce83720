/* The client creates and reads variables and tables. */
#include <stdio.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "tests/coordinator/crew.h"
#include "tests/coordinator/writing.h"
#include "tests/test.h"

static struct cox_variable_spec spec_of(const char *name, uint32_t dtype, uint64_t rows)
{
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    spec.name = name;
    spec.dtype = dtype;
    spec.rank = 1;
    spec.shape[0] = rows;
    return spec;
}

static struct cox_variable *create(struct crew *crew,
                                   const struct cox_variable_spec *spec)
{
    struct cox_variable *variable;
    assert_code(0, cox_variable_create(crew->c, spec, &variable));
    return variable;
}

static void assert_refused(struct crew *crew, const struct cox_variable_spec *spec,
                           int code, const char *named)
{
    struct cox_variable *variable = NULL;
    assert_code(code, cox_variable_create(crew->c, spec, &variable));
    assert_error_names(named);
    assert_null(variable);
}

TEST(variable_that_cannot_be_is_refused_by_name)
{
    struct crew crew;
    crew_open(&crew, 2, 1, NULL, NULL);
    struct cox_variable_spec good = spec_of("v", COX_F32, 4);
    struct cox_variable_spec bad = good;
    bad.rank = 0;
    assert_refused(&crew, &bad, COX_EINVAL, "'v'");
    bad.rank = COX_RANK_MAX + 1;
    assert_refused(&crew, &bad, COX_EINVAL, "'v'");
    bad = spec_of("v", 99, 4);
    assert_refused(&crew, &bad, COX_EINVAL, "99");
    bad = spec_of("v", COX_F32, 0);
    assert_refused(&crew, &bad, COX_EINVAL, "'v'");
    bad = spec_of("two words", COX_F32, 4);
    assert_refused(&crew, &bad, COX_EINVAL, "two words");
    bad = spec_of("", COX_F32, 4);
    assert_refused(&crew, &bad, COX_EINVAL, "name");
    bad = spec_of("v", COX_F64, UINT64_MAX / 4);
    assert_refused(&crew, &bad, COX_ELIMIT, "'v'");
    bad = spec_of("v", COX_F32, UINT64_C(1) << 42);
    bad.shards = 1;
    assert_refused(&crew, &bad, COX_ENOMEM,
                   "'v' would need 17592186044416 bytes on this ps, whose host has ");
    bad = good;
    bad.dtype = COX_I64;
    bad.initializer.kind = COX_CONSTANT;
    bad.initializer.a = 1;
    assert_refused(&crew, &bad, COX_EINVAL, "F32");
    bad = good;
    bad.optimizer.kind = 77;
    assert_refused(&crew, &bad, COX_EINVAL, "'v'");
    bad = good;
    bad.optimizer.kind = COX_ADAM;
    bad.optimizer.beta2 = 1;
    assert_refused(&crew, &bad, COX_EINVAL, "'v': beta2");
    bad = good;
    bad.optimizer.kind = COX_SGD;
    bad.optimizer.momentum = 0.9F;
    assert_refused(&crew, &bad, COX_EINVAL, "'v': momentum");
    bad = good;
    bad.optimizer.kind = COX_SGD;
    bad.optimizer.schedule.kind = COX_SCHEDULE_COSINE;
    assert_refused(&crew, &bad, COX_EINVAL, "'v': schedule.steps");
    bad = good;
    bad.initializer.kind = COX_GLOROT_NORMAL + 1;
    assert_refused(&crew, &bad, COX_EINVAL, "'v'");
    bad = good;
    bad.optimizer.kind = COX_ADAM;
    assert_refused(&crew, &bad, COX_EINVAL, "'v': learning_rate is 0: Adam would");
    bad = good;
    bad.optimizer.learning_rate = 0.5F;
    assert_refused(&crew, &bad, COX_EINVAL,
                   "'v': learning_rate is 0.5, but a variable without optimizer");
    bad = good;
    bad.initializer.kind = COX_GLOROT_NORMAL;
    bad.initializer.b = 0.5F;
    assert_refused(&crew, &bad, COX_EINVAL, "'v': Glorot's initializers derive");
    bad = good;
    bad.size = 0;
    assert_refused(&crew, &bad, COX_EINVAL, "_INIT");

    /* The name is still free after all these errors. */
    (void)create(&crew, &good);
    crew_close(&crew);
}

TEST(table_without_columns_is_refused_by_name)
{
    struct crew crew;
    struct cox_table *table = NULL;
    struct cox_table_spec spec = COX_TABLE_SPEC_INIT;
    crew_open(&crew, 1, 1, NULL, NULL);
    spec.name = "t";
    assert_code(COX_EINVAL, cox_table_create(crew.c, &spec, &table));
    assert_error_names("table 't': dim is 1 to 4096, not 0");
    spec.dim = 4097;
    assert_code(COX_EINVAL, cox_table_create(crew.c, &spec, &table));
    assert_error_names("table 't': dim is 1 to 4096, not 4097");
    assert_null(table);
    crew_close(&crew);
}

TEST(variable_created_twice_exists_already)
{
    struct crew crew;
    crew_open(&crew, 1, 1, NULL, NULL);
    struct cox_variable_spec spec = spec_of("v", COX_F32, 4);
    struct cox_table_spec table = COX_TABLE_SPEC_INIT;
    struct cox_table *handle = NULL;
    table.name = "v";
    table.dim = 2;
    (void)create(&crew, &spec);
    assert_refused(&crew, &spec, COX_EEXIST, "'v'");
    assert_code(COX_EEXIST, cox_table_create(crew.c, &table, &handle));
    assert_error_names("'v'");
    spec = spec_of("v/w", COX_F32, 4);
    assert_refused(&crew, &spec, COX_EEXIST, "'v'");
    spec = spec_of("a/b", COX_F32, 4);
    (void)create(&crew, &spec);
    table.name = "a";
    assert_code(COX_EEXIST, cox_table_create(crew.c, &table, &handle));
    assert_error_names("'a/b'");
    assert_null(handle);
    spec = spec_of("a/bc", COX_F32, 4);
    (void)create(&crew, &spec);
    crew_close(&crew);
}

static void tell_fault(void *arg, const char *text)
{
    (void)arg;
    print_error("%s\n", text);
}

TEST(variable_that_one_ps_refused_can_be_created_again)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    const int64_t rows[6] = {1, 2, 3, 4, 5, 6};
    int64_t read[6] = {0};
    options.checkpoint_dir = coxi_test_path("checkpoints");
    crew_open(&crew, 2, 1, NULL, &options);
    struct cox_variable_spec spec = spec_of("v", COX_I64, 4);
    spec.shards = 2;
    writing_refuse_next(crew.c, 1);
    assert_refused(&crew, &spec, COX_ECANCELLED, "voided");
    writing_refuse_next(crew.c, 0);
    assert_refused(&crew, &spec, COX_ECANCELLED, "voided");
    spec.shape[0] = 6;
    struct cox_variable *v = create(&crew, &spec);
    assert_code(0, cox_variable_assign(crew.c, v, rows, sizeof(rows)));
    assert_code(0, cox_variable_read(crew.c, v, read, sizeof(read)));
    assert_memory_equal(rows, read, sizeof(rows));
    assert_refused(&crew, &spec, COX_EEXIST, "'v'");
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    assert_code(0, coxi_checkpoint_verify(coxi_test_path("checkpoints/ckpt-1"),
                                          tell_fault, NULL, NULL));
    crew_close(&crew);
}

TEST(variable_is_found_by_name_and_kind)
{
    struct crew crew;
    crew_open(&crew, 2, 1, NULL, NULL);
    struct cox_variable_spec spec = spec_of("dense", COX_I32, 4);
    struct cox_variable *made = create(&crew, &spec);
    struct cox_variable *found = NULL;
    struct cox_table *none = NULL;
    assert_code(0, cox_variable_get(crew.c, "dense", &found));
    assert_ptr_equal(made, found);
    assert_code(COX_ENOENT, cox_table_get(crew.c, "dense", &none));
    assert_error_names("'dense' is a variable, not a table: use cox_variable_get");
    assert_code(COX_ENOENT, cox_variable_get(crew.c, "nowhere", &found));
    assert_error_names("'nowhere'");
    assert_ptr_equal(made, found);
    assert_null(none);
    crew_close(&crew);
}

TEST(variable_of_any_shard_count_reads_as_it_was_assigned)
{
    enum { ROWS = 10 };
    struct crew crew;
    crew_open(&crew, 4, 1, NULL, NULL);
    for (uint32_t shards = 0; shards <= 17; shards++) {
        char name[16];
        int64_t out[ROWS][3];
        int64_t in[ROWS][3];
        (void)snprintf(name, sizeof(name), "v%u", shards);
        struct cox_variable_spec spec = spec_of(name, COX_I64, ROWS);
        spec.rank = 2;
        spec.shape[1] = 3;
        spec.shards = shards;
        struct cox_variable *v = create(&crew, &spec);
        for (int i = 0; i < ROWS * 3; i++) {
            out[i / 3][i % 3] = i * 1000 + (int64_t)shards;
        }
        memset(in, 1, sizeof(in));
        assert_code(0, cox_variable_read(crew.c, v, in, sizeof(in)));
        assert_int_equal(0, in[9][2]);
        assert_code(0, cox_variable_assign(crew.c, v, out, sizeof(out)));
        assert_code(0, cox_variable_read(crew.c, v, in, sizeof(in)));
        assert_memory_equal(out, in, sizeof(out));
        assert_code(COX_EINVAL, cox_variable_read(crew.c, v, in, sizeof(in) - 1));
        assert_error_names("240");
        assert_code(COX_EINVAL, cox_variable_assign(crew.c, v, in, sizeof(in) + 8));
    }
    crew_close(&crew);
}

TEST(variable_of_many_megabytes_travels_whole)
{
    enum { N = 3 * 1000 * 1000 };
    struct crew crew;
    crew_open(&crew, 2, 1, NULL, NULL);
    struct cox_variable_spec spec = spec_of("big", COX_F32, N);
    spec.shards = 2;
    struct cox_variable *v = create(&crew, &spec);
    float *out = malloc(N * sizeof(*out));
    float *in = calloc(N, sizeof(*in));
    assert_non_null(out);
    assert_non_null(in);
    for (int i = 0; i < N; i++) {
        out[i] = (float)i;
    }
    assert_code(0, cox_variable_assign(crew.c, v, out, N * sizeof(*out)));
    assert_code(0, cox_variable_read(crew.c, v, in, N * sizeof(*in)));
    assert_memory_equal(out, in, N * sizeof(*in));
    free(out);
    free(in);
    crew_close(&crew);
}

TEST(variable_starts_as_its_initializer_says)
{
    struct crew crew;
    float w[6];
    crew_open(&crew, 2, 1, NULL, NULL);
    struct cox_variable_spec spec = spec_of("w", COX_F32, 6);
    spec.shards = 2;
    spec.initializer.kind = COX_CONSTANT;
    spec.initializer.a = 2.5F;
    struct cox_variable *v = create(&crew, &spec);
    assert_code(0, cox_variable_read(crew.c, v, w, sizeof(w)));
    for (int i = 0; i < 6; i++) {
        assert_true(w[i] == 2.5F);
    }
    crew_close(&crew);
}

/* ---- tables, and steps that train */

static const uint64_t keys[] = {0, 1, 2, 77, 1u << 20, UINT64_MAX, 2};
enum { N_KEYS = sizeof(keys) / sizeof(*keys) };

static struct cox_table *create_table(struct crew *crew, uint32_t initializer)
{
    struct cox_table *table;
    struct cox_table_spec spec = COX_TABLE_SPEC_INIT;
    spec.name = "t";
    spec.dim = 2;
    spec.optimizer.kind = COX_SGD;
    spec.optimizer.learning_rate = 0.5F;
    spec.initializer.kind = initializer;
    if (initializer != COX_ZEROS) {
        spec.initializer.a = -1;
        spec.initializer.b = 1;
    }
    spec.initializer.seed = 42;
    assert_code(0, cox_table_create(crew->c, &spec, &table));
    return table;
}

TEST(table_rows_that_nobody_touched_read_as_their_initial_values)
{
    struct crew crew;
    struct cox_stats stats = COX_STATS_INIT;
    float rows[2][N_KEYS][2];
    crew_open(&crew, 3, 1, NULL, NULL);
    struct cox_table *table = create_table(&crew, COX_UNIFORM);
    assert_code(0, cox_table_read(crew.c, table, keys, N_KEYS, rows[0][0]));
    assert_code(0, cox_table_read(crew.c, table, keys, N_KEYS, rows[1][0]));
    assert_memory_equal(rows[0], rows[1], sizeof(rows[0]));
    assert_memory_equal(rows[0][2], rows[0][6], sizeof(rows[0][2]));
    assert_true(rows[0][0][0] >= -1 && rows[0][0][0] < 1);
    assert_memory_not_equal(rows[0][0], rows[0][1], sizeof(rows[0][0]));
    assert_code(0, cox_stats(crew.c, &stats));
    assert_int_equal(0, stats.table_rows);
    assert_code(0, cox_table_read(crew.c, table, NULL, 0, NULL));
    crew_close(&crew);
}

TEST(steps_train_a_table_and_a_dense_variable)
{
    enum { STEPS = 40, W = 5 };
    struct crew crew;
    struct cox_stats stats = COX_STATS_INIT;
    struct cox_future *future;
    struct cox_value value;
    float rows[N_KEYS][2];
    float w[W];
    crew_open(&crew, 3, 2, "model", NULL);
    struct cox_table *table = create_table(&crew, COX_ZEROS);
    struct cox_variable_spec spec = spec_of("w", COX_F32, W);
    spec.shards = 3;
    spec.optimizer.kind = COX_SGD;
    spec.optimizer.learning_rate = 0.25F;
    struct cox_variable *dense = create(&crew, &spec);
    struct cox_value arg = COX_VECTOR("keys", COX_I64, N_KEYS, keys);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    for (int i = 0; i < STEPS; i++) {
        assert_code(
            0, cox_schedule(crew.c, crew_function(&crew, "push_ones"), &call, NULL));
    }
    assert_code(0, cox_join(crew.c, -1));
    assert_code(0, cox_table_read(crew.c, table, keys, N_KEYS, rows[0]));
    assert_code(0, cox_variable_read(crew.c, dense, w, sizeof(w)));
    for (int i = 0; i < N_KEYS; i++) {
        /* Key 2 is listed twice, so it gets two gradients in each step. */
        float expected = -0.5F * STEPS * (keys[i] == 2 ? 2 : 1);
        assert_true(rows[i][0] == expected && rows[i][1] == expected);
    }
    for (int i = 0; i < W; i++) {
        assert_true(w[i] == -0.25F * STEPS);
    }
    assert_code(0, cox_stats(crew.c, &stats));
    assert_int_equal(N_KEYS - 1, stats.table_rows);

    /* A step pulls the same values as the client reads. */
    assert_code(0,
                cox_schedule(crew.c, crew_function(&crew, "pull_all"), &call, &future));
    assert_code(0, cox_future_wait(future, -1));
    assert_code(0, cox_future_result(future, "rows", &value));
    assert_memory_equal(rows, value.data, sizeof(rows));
    assert_code(0, cox_future_result(future, "w", &value));
    assert_memory_equal(w, value.data, sizeof(w));
    cox_future_free(future);
    crew_close(&crew);
}

TEST(step_sees_a_variable_that_was_created_just_before)
{
    struct crew crew;
    crew_open(&crew, 2, 2, "counter", NULL);
    struct cox_function *count = crew_function(&crew, "count");
    crew_schedule(&crew, count, 100, 0);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    crew_schedule(&crew, count, 100, 1);
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(100, crew_read(&crew, counter));
    crew_close(&crew);
}
