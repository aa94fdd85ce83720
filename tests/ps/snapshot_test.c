/* Snapshots of a store: what they hold, and that they hold one moment. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/safetensors.h"
#include "common/initializer.h"
#include "tests/loaded.h"
#include "tests/ps/stock.h"
#include "tests/test.h"

/* Takes a snapshot and opens it. `ret_done` may be NULL; otherwise the caller frees its
 * list. */
static struct coxi_st_file *snapshot(struct stock *s, uint64_t number,
                                     struct coxi_snapshot_file *ret_done)
{
    char name[32];
    struct coxi_st_file *file;
    (void)snprintf(name, sizeof(name), "snapshot-%d.st", (int)number);
    char *path = coxi_test_path(name);
    struct coxi_snapshot_file done = stock_take(s, number, path);
    assert_code(0, coxi_st_open(path, done.bytes, &done.crc32, &file));
    if (ret_done != NULL) {
        *ret_done = done;
    } else {
        coxi_applied_list_fini(&done.applied);
    }
    return file;
}

static const struct coxi_st_tensor *find(struct coxi_st_file *file, const char *name,
                                         const char *dtype, uint32_t rank)
{
    const struct coxi_st_tensor *tensor = coxi_st_find(file, name);
    if (tensor == NULL) {
        fail_msg("no tensor is called %s", name);
        return NULL;
    }
    assert_string_equal(dtype, tensor->dtype);
    assert_int_equal(rank, tensor->rank);
    return tensor;
}

TEST(snapshot_holds_dense_variables_with_their_state)
{
    struct stock s;
    struct stock_commit commit;
    struct coxi_shard shards[] = {{1, 0, 2}, {0, 2, 2}};
    struct coxi_variable v = {
        .name = "w",
        .dtype = COX_F32,
        .rank = 2,
        .shape = {4, 3},
        .shards = shards,
        .n_shards = 2,
        .optimizer = {.kind = COXI_OPTIMIZER_ADAGRAD,
                      .learning_rate = 1,
                      .initial_accumulator = 4},
        .initializer = {.kind = COXI_INIT_CONSTANT, .a = 1},
    };
    const float gradient[] = {0, 0, 0, 0, 0, 2};
    const uint8_t odd[] = {1, 2, 3};
    stock_open(&s);
    uint32_t bytes = stock_dense(&s, "odd", COX_U8, 3);
    uint32_t w = stock_create(&s, &v);
    stock_begin(&s, 9, &commit);
    stock_add(&commit, bytes, COXI_OP_ASSIGN, 0, 3, odd, 3);
    stock_add(&commit, w, COXI_OP_GRADIENT, 2, 2, gradient, sizeof(gradient));
    assert_code(0, stock_commit(&s, &commit, NULL));
    struct coxi_st_file *file = snapshot(&s, 1, NULL);
    assert_int_equal(4, coxi_st_count(file));
    const struct coxi_st_tensor *tensor = find(file, "w/part_1", "F32", 2);
    const float root = 2.8284271F;
    const float values[] = {1, 1, 1, 1, 1, 1 - 2 / root};
    assert_true(tensor->shape[0] == 2 && tensor->shape[1] == 3);
    assert_memory_equal(values, loaded(tensor), 5 * sizeof(*values));
    float last = ((const float *)loaded(tensor))[5] - values[5];
    assert_true(last < 1e-6F && last > -1e-6F);
    const float slot[] = {4, 4, 4, 4, 4, 8};
    tensor = find(file, "w/part_1/adagrad", "F32", 2);
    assert_memory_equal(slot, loaded(tensor), sizeof(slot));
    tensor = find(file, "w/part_1/step", "U64", 1);
    assert_int_equal(1, tensor->shape[0]);
    assert_int_equal(1, *(const uint64_t *)loaded(tensor));
    tensor = find(file, "odd", "U8", 1);
    assert_memory_equal(odd, loaded(tensor), sizeof(odd));
    coxi_st_close(file);
    stock_close(&s);
}

static void assert_floats(struct coxi_st_file *file, const char *name, uint32_t rank,
                          const float *expected, size_t n)
{
    const struct coxi_st_tensor *tensor = find(file, name, "F32", rank);
    assert_int_equal(n * sizeof(float), tensor->bytes);
    for (size_t i = 0; i < n; i++) {
        float found = ((const float *)loaded(tensor))[i];
        if (fabsf(found - expected[i]) > 1e-6F * fabsf(expected[i])) {
            fail_msg("%s[%zu] is %g, not %g", name, i, (double)found,
                     (double)expected[i]);
        }
    }
}

TEST(snapshot_holds_every_state_of_a_table)
{
    struct stock s;
    struct stock_commit commit;
    struct coxi_variable adam = {.name = "a",
                                 .kind = COXI_KIND_TABLE,
                                 .dtype = COX_F32,
                                 .rank = 1,
                                 .shape = {2},
                                 .optimizer = {.kind = COXI_OPTIMIZER_ADAM,
                                               .learning_rate = 1,
                                               .epsilon = 1e-8F,
                                               .beta1 = 0.5F,
                                               .beta2 = 0.75F}};
    struct coxi_variable rowwise = adam;
    const uint64_t key = 7;
    const float gradient[] = {3, 4};
    rowwise.name = "r";
    rowwise.optimizer = (struct coxi_optimizer){.kind = COXI_OPTIMIZER_ROWWISE_ADAGRAD,
                                                .learning_rate = 1,
                                                .initial_accumulator = 2};
    stock_open(&s);
    uint32_t a = stock_create(&s, &adam);
    uint32_t r = stock_create(&s, &rowwise);
    for (uint64_t closure = 10; closure < 12; closure++) {
        stock_begin(&s, closure, &commit);
        stock_add_rows(&commit, a, COXI_OP_GRADIENT, &key, 1, gradient,
                       sizeof(gradient));
        stock_add_rows(&commit, r, COXI_OP_GRADIENT, &key, 1, gradient,
                       sizeof(gradient));
        assert_code(0, stock_commit(&s, &commit, NULL));
    }
    struct coxi_st_file *file = snapshot(&s, 1, NULL);
    assert_int_equal(6 + 4, coxi_st_count(file));
    assert_floats(file, "a/adam_m", 2, (const float[]){2.25F, 3}, 2);
    assert_floats(file, "a/adam_v", 2, (const float[]){3.9375F, 7}, 2);
    assert_floats(file, "a/adam_t", 1, (const float[]){2}, 1);
    assert_int_equal(2, *(const uint64_t *)loaded(find(file, "a/step", "U64", 1)));
    assert_floats(file, "r/rowwise_adagrad", 1, (const float[]){2 + 12.5F + 12.5F}, 1);
    assert_int_equal(2, *(const uint64_t *)loaded(find(file, "r/step", "U64", 1)));
    coxi_st_close(file);
    stock_close(&s);
}

TEST(snapshot_holds_every_state_of_a_dense_variable)
{
    struct stock s;
    struct stock_commit commit;
    struct coxi_shard shard = {0, 0, 2};
    struct coxi_variable adam = {.name = "a",
                                 .dtype = COX_F32,
                                 .rank = 2,
                                 .shape = {2, 2},
                                 .shards = &shard,
                                 .n_shards = 1,
                                 .optimizer = {.kind = COXI_OPTIMIZER_ADAMW,
                                               .learning_rate = 1,
                                               .epsilon = 1e-8F,
                                               .beta1 = 0.5F,
                                               .beta2 = 0.75F}};
    struct coxi_variable rowwise = adam;
    const float gradient[] = {3, 4, 0, 2};
    rowwise.name = "r";
    rowwise.optimizer = (struct coxi_optimizer){.kind = COXI_OPTIMIZER_ROWWISE_ADAGRAD,
                                                .learning_rate = 1,
                                                .initial_accumulator = 2};
    stock_open(&s);
    uint32_t a = stock_create(&s, &adam);
    uint32_t r = stock_create(&s, &rowwise);
    stock_begin(&s, 10, &commit);
    stock_add(&commit, a, COXI_OP_GRADIENT, 0, 2, gradient, sizeof(gradient));
    stock_add(&commit, r, COXI_OP_GRADIENT, 0, 2, gradient, sizeof(gradient));
    assert_code(0, stock_commit(&s, &commit, NULL));
    struct coxi_st_file *file = snapshot(&s, 1, NULL);
    assert_int_equal(4 + 3, coxi_st_count(file));
    assert_floats(file, "a/adam_m", 2, (const float[]){1.5F, 2, 0, 1}, 4);
    assert_floats(file, "a/adam_v", 2, (const float[]){2.25F, 4, 0, 1}, 4);
    assert_floats(file, "r/rowwise_adagrad", 1, (const float[]){14.5F, 4}, 2);
    assert_int_equal(1, *(const uint64_t *)loaded(find(file, "a/step", "U64", 1)));
    coxi_st_close(file);
    stock_close(&s);
}

TEST(snapshot_holds_tables_as_keys_and_values)
{
    enum { N = 100 };
    struct stock s;
    stock_open(&s);
    uint32_t t = stock_table(&s, "t", 2);
    (void)stock_table(&s, "empty", 5);
    for (uint64_t key = 0; key < N; key++) {
        struct stock_commit commit;
        const float row[] = {(float)key, -(float)key};
        stock_begin(&s, 10 + key, &commit);
        stock_add_rows(&commit, t, COXI_OP_ASSIGN, &key, 1, row, sizeof(row));
        assert_code(0, stock_commit(&s, &commit, NULL));
    }
    struct coxi_st_file *file = snapshot(&s, 1, NULL);
    assert_int_equal(6, coxi_st_count(file));
    const struct coxi_st_tensor *keys = find(file, "t/keys", "U64", 1);
    const struct coxi_st_tensor *values = find(file, "t/values", "F32", 2);
    assert_int_equal(N, keys->shape[0]);
    assert_true(values->shape[0] == N && values->shape[1] == 2);
    uint64_t sum = 0;
    for (size_t i = 0; i < N; i++) {
        uint64_t key = ((const uint64_t *)loaded(keys))[i];
        const float *row = (const float *)loaded(values) + i * 2;
        assert_true(row[0] == (float)key && row[1] == -(float)key);
        sum += key;
    }
    assert_int_equal(N * (N - 1) / 2, sum);
    assert_int_equal(0, find(file, "empty/keys", "U64", 1)->shape[0]);
    assert_int_equal(5, find(file, "empty/values", "F32", 2)->shape[1]);
    coxi_st_close(file);
    stock_close(&s);
}

TEST(snapshot_holds_the_life_of_rows_that_go_again)
{
    struct stock s;
    struct stock_commit commit;
    const struct coxi_lifecycle lifecycle = {.evict_age = 100};
    const uint64_t keys[] = {7, 8};
    const float gradients[] = {1, 1};
    stock_open(&s);
    uint32_t t = stock_table_of(&s, "t", 1, &lifecycle);
    for (uint64_t closure = 10; closure < 15; closure++) {
        size_t n = closure == 12 ? 2 : 1; /* key 8 in the third */
        stock_begin(&s, closure, &commit);
        stock_add_rows(&commit, t, COXI_OP_GRADIENT, keys, n, gradients,
                       n * sizeof(float));
        assert_code(0, stock_commit(&s, &commit, NULL));
    }
    struct coxi_st_file *file = snapshot(&s, 1, NULL);
    const uint64_t *key = loaded(find(file, "t/keys", "U64", 1));
    const uint64_t *last = loaded(find(file, "t/last", "U64", 1));
    const uint64_t *made = loaded(find(file, "t/made", "U64", 1));
    const uint64_t *updates = loaded(find(file, "t/updates", "U64", 1));
    assert_int_equal(2, find(file, "t/last", "U64", 1)->shape[0]);
    for (size_t i = 0; i < 2; i++) {
        bool first = key[i] == 7;
        assert_int_equal(first ? 5 : 3, last[i]);
        assert_int_equal(first ? 0 : 2, made[i]);
        assert_int_equal(first ? 5 : 1, updates[i]);
    }
    coxi_st_close(file);
    stock_close(&s);
}

TEST(snapshot_tells_what_it_belongs_to_and_has_applied)
{
    struct stock s;
    struct coxi_snapshot_file done;
    stock_open(&s);
    uint32_t v = stock_dense(&s, "v", COX_I64, 1);
    static const uint64_t closures[] = {11, 12, 13, 20, 22, 5};
    for (size_t i = 0; i < 6; i++) {
        assert_code(0, stock_count(&s, v, closures[i], NULL));
    }
    struct stock_commit commit;
    const int64_t one = 1;
    stock_begin(&s, 12, &commit);
    commit.head.segment = 3;
    stock_add(&commit, v, COXI_OP_ADD, 0, 1, &one, sizeof(one));
    assert_code(0, stock_commit(&s, &commit, NULL));
    struct coxi_watermark watermark = {s.session, 10, STOCK_INCARNATION};
    assert_code(0, coxi_store_advance(s.store, &watermark));
    struct coxi_st_file *file = snapshot(&s, 6, &done);
    const struct coxi_interval expected[] = {{11, 13, 0, 0, 0, 0},
                                             {20, 20, 0, 0, 0, 0},
                                             {22, 22, 0, 0, 0, 0},
                                             {12, 12, 3, 1, 0, 0}};
    assert_int_equal(10, done.applied.watermark);
    assert_int_equal(4, done.applied.n_intervals);
    assert_memory_equal(expected, done.applied.intervals, sizeof(expected));
    assert_string_equal("11-13:0 20-20:0 22-22:0 12-12:3.",
                        coxi_st_metadata(file, "applied"));
    assert_string_equal("10", coxi_st_metadata(file, "watermark"));
    assert_string_equal("0000000000000001", coxi_st_metadata(file, "run"));
    assert_string_equal("1", coxi_st_metadata(file, "generation"));
    assert_string_equal("6", coxi_st_metadata(file, "checkpoint"));
    assert_string_equal("0", coxi_st_metadata(file, "ps"));
    assert_string_equal("coxswain-1", coxi_st_metadata(file, "format"));
    coxi_applied_list_fini(&done.applied);
    coxi_st_close(file);
    stock_close(&s);
}

TEST(snapshot_of_an_empty_store_is_a_file_that_opens)
{
    struct stock s;
    stock_open(&s);
    struct coxi_st_file *file = snapshot(&s, 1, NULL);
    assert_int_equal(0, coxi_st_count(file));
    assert_string_equal("", coxi_st_metadata(file, "applied"));
    coxi_st_close(file);
    stock_close(&s);
}

TEST(snapshot_that_cannot_be_written_is_named_and_the_store_goes_on)
{
    struct stock s;
    struct coxi_snapshot_file done = {.bytes = 123};
    stock_open(&s);
    uint32_t v = stock_dense(&s, "v", COX_I64, 1);
    struct coxi_snapshot request = {
        .session = s.session, .number = 1, .path = coxi_test_path("nowhere/file.st")};
    assert_code(COX_EIO, coxi_store_snapshot(s.store, &request, &done));
    assert_error_names("nowhere/file.st");
    assert_int_equal(123, done.bytes);
    assert_code(0, stock_count(&s, v, 10, NULL));
    assert_int_equal(1, stock_number(&s, v));
    struct coxi_st_file *file = snapshot(&s, 2, NULL);
    coxi_st_close(file);
    stock_close(&s);
}

TEST(snapshot_leaves_a_file_alone_that_is_there_already)
{
    struct stock s;
    struct coxi_snapshot_file done;
    stock_open(&s);
    struct coxi_snapshot request = {
        .session = s.session, .number = 1, .path = coxi_test_path("there.st")};
    coxi_test_write(request.path, "precious", 8);
    assert_code(COX_EIO, coxi_store_snapshot(s.store, &request, &done));
    char *found = coxi_test_read(request.path, NULL);
    assert_string_equal("precious", found);
    free(found);
    stock_close(&s);
}

TEST(snapshot_asked_for_again_is_answered_again_and_not_written_twice)
{
    struct stock s;
    struct stock_commit commit;
    struct coxi_snapshot_file first;
    struct coxi_snapshot_file again;
    const int64_t one = 1;
    stock_open(&s);
    uint32_t v = stock_dense(&s, "v", COX_I64, 1);
    stock_begin(&s, 7, &commit);
    stock_add(&commit, v, COXI_OP_ADD, 0, 1, &one, sizeof(one));
    assert_code(0, stock_commit(&s, &commit, NULL));
    struct coxi_snapshot request = {
        .session = s.session, .number = 4, .path = coxi_test_path("4.st")};
    assert_code(0, coxi_store_snapshot(s.store, &request, &first));
    stock_begin(&s, 8, &commit);
    stock_add(&commit, v, COXI_OP_ADD, 0, 1, &one, sizeof(one));
    assert_code(0, stock_commit(&s, &commit, NULL));
    assert_code(0, coxi_store_snapshot(s.store, &request, &again));
    assert_int_equal(first.crc32, again.crc32);
    assert_int_equal(first.bytes, again.bytes);
    assert_int_equal(first.applied.n_intervals, again.applied.n_intervals);
    assert_memory_equal(first.applied.intervals, again.applied.intervals,
                        first.applied.n_intervals * sizeof(*first.applied.intervals));
    coxi_applied_list_fini(&first.applied);
    coxi_applied_list_fini(&again.applied);

    /* A late request for an earlier snapshot writes nothing. */
    request = (struct coxi_snapshot){
        .session = s.session, .number = 3, .path = coxi_test_path("3.st")};
    assert_code(COX_EEXIST, coxi_store_snapshot(s.store, &request, &again));
    assert_int_not_equal(0, access(request.path, F_OK));
    stock_close(&s);
}
