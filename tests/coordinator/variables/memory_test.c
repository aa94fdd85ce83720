/* Memory bounds of a ps, and which rows of a table it keeps, as the client sees
 * them. */
#include <stdlib.h>
#include <string.h>

#include "tests/coordinator/crew.h"
#include "tests/test.h"

enum { W = 4, DIM = 2 };

/* Table "t" and variable "w", as module model trains them. */
static struct cox_table *create_model(struct crew *crew,
                                      const struct cox_lifecycle *lifecycle)
{
    struct cox_table *table;
    struct cox_variable *w;
    struct cox_table_spec rows = COX_TABLE_SPEC_INIT;
    struct cox_variable_spec dense = COX_VARIABLE_SPEC_INIT;
    rows.name = "t";
    rows.dim = DIM;
    rows.optimizer.kind = COX_SGD;
    rows.optimizer.learning_rate = 1;
    rows.lifecycle = *lifecycle;
    dense.name = "w";
    dense.dtype = COX_F32;
    dense.rank = 1;
    dense.shape[0] = W;
    dense.optimizer = rows.optimizer;
    assert_code(0, cox_table_create(crew->c, &rows, &table));
    assert_code(0, cox_variable_create(crew->c, &dense, &w));
    return table;
}

/* Runs a step that pushes gradients of 1 to the keys [first, first + n) and to w;
 * returns its code. */
static int push(struct crew *crew, uint64_t first, size_t n)
{
    uint64_t keys[4096];
    for (size_t i = 0; i < n; i++) {
        keys[i] = first + i;
    }
    struct cox_value arg = COX_VECTOR("keys", COX_I64, n, keys);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    assert_code(0,
                cox_schedule(crew->c, crew_function(crew, "push_ones"), &call, NULL));
    return cox_join(crew->c, -1);
}

/* The first value of a key's row. */
static float row_of(struct crew *crew, struct cox_table *table, uint64_t key)
{
    float row[DIM];
    assert_code(0, cox_table_read(crew->c, table, &key, 1, row));
    return row[0];
}

TEST(a_ps_that_is_full_says_so_and_goes_on)
{
    static const struct cox_lifecycle lifecycle = COX_LIFECYCLE_INIT;
    struct crew crew;
    struct cox_variable *v;
    struct cox_variable_spec large = COX_VARIABLE_SPEC_INIT;
    float w[W];
    assert_int_equal(0, setenv("COX_PS_MEMORY_MAX", "100K", 1));
    crew_open(&crew, 1, 1, "model", NULL);
    assert_int_equal(0, unsetenv("COX_PS_MEMORY_MAX"));
    struct cox_table *table = create_model(&crew, &lifecycle);
    large.name = "large";
    large.dtype = COX_F32;
    large.rank = 1;
    large.shape[0] = 100000;
    assert_code(COX_ENOMEM, cox_variable_create(crew.c, &large, &v));
    assert_error_names("--memory-max");
    assert_error_names("'large'");
    assert_code(0, push(&crew, 0, 1000));
    assert_code(COX_ENOMEM, push(&crew, 10000, 4000));
    assert_error_names("--memory-max");
    assert_error_names("table 't'");
    assert_true(row_of(&crew, table, 10000) == 0);
    assert_code(0, push(&crew, 0, 10));
    assert_true(row_of(&crew, table, 0) == -2 && row_of(&crew, table, 10) == -1);
    assert_code(0, cox_variable_get(crew.c, "w", &v));
    assert_code(0, cox_variable_read(crew.c, v, w, sizeof(w)));
    assert_true(w[0] == -2); /* two steps were applied */
    crew_close(&crew);
}

/* Opens with a variable, and with a table that has no room for the rows that the test
 * loads. */
static void open_for_load(struct crew *crew, const char *dir, struct cox_variable **w)
{
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_table *table;
    struct cox_table_spec rows = COX_TABLE_SPEC_INIT;
    struct cox_variable_spec dense = COX_VARIABLE_SPEC_INIT;
    options.checkpoint_dir = dir;
    crew_open(crew, 1, 1, "model", &options);
    dense.name = "w";
    dense.dtype = COX_F32;
    dense.rank = 1;
    dense.shape[0] = W;
    dense.optimizer.kind = COX_SGD;
    dense.optimizer.learning_rate = 1;
    rows.name = "t";
    rows.dim = DIM;
    rows.optimizer = dense.optimizer;
    assert_code(0, cox_variable_create(crew->c, &dense, w));
    assert_code(0, cox_table_create(crew->c, &rows, &table));
}

TEST(a_load_that_a_ps_has_no_memory_for_says_who_has_loaded_something)
{
    struct crew crew;
    struct cox_variable *w;
    float values[W];
    struct cox_load_options load = COX_LOAD_OPTIONS_INIT;
    const char *dir = coxi_test_path("first");
    open_for_load(&crew, dir, &w);
    for (uint64_t i = 0; i < 4; i++) {
        assert_code(0, push(&crew, i * 4000, 4000));
    }
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    crew_close(&crew);
    assert_int_equal(0, setenv("COX_PS_MEMORY_MAX", "100K", 1));
    open_for_load(&crew, coxi_test_path("second"), &w);
    assert_int_equal(0, unsetenv("COX_PS_MEMORY_MAX"));
    load.path = dir;
    assert_code(COX_EPARTIAL, cox_checkpoint_load(crew.c, &load, NULL));
    assert_error_names("--memory-max");
    assert_error_names("loaded on ps 0");
    assert_code(0, cox_variable_read(crew.c, w, values, sizeof(values)));
    assert_true(values[0] == -4);
    crew_close(&crew);
}

TEST(rows_come_and_go_as_the_table_was_told)
{
    static const struct cox_lifecycle lifecycle = {.admit_count = 2, .rows_max = 100};
    struct crew crew;
    struct cox_table_stats stats = COX_TABLE_STATS_INIT;
    crew_open(&crew, 1, 1, "model", NULL);
    struct cox_table *table = create_model(&crew, &lifecycle);
    assert_code(0, push(&crew, 0, 50));
    assert_true(row_of(&crew, table, 7) == 0);
    assert_code(0, push(&crew, 0, 50));
    assert_true(row_of(&crew, table, 7) == -1);
    assert_code(0, push(&crew, 1000, 150));
    assert_code(0, push(&crew, 1000, 150));
    assert_code(0, cox_table_stats(crew.c, table, &stats));
    assert_int_equal(100, stats.rows);
    assert_int_equal(200, stats.admitted);
    assert_int_equal(100, stats.evicted);
    assert_int_equal(4, stats.updates);
    assert_int_equal(2, stats.lookups);
    assert_int_equal(1, stats.hits);
    crew_close(&crew);
}
