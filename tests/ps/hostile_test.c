/* Peers that own the store, and files, with numbers that nobody honest has. */
#include <string.h>

#include "checkpoint/safetensors.h"
#include "common/error.h"
#include "common/layout.h"
#include "tests/ps/stock.h"
#include "tests/test.h"

/* ---- shapes */

/* The elements and the accumulator of their only row have 2^64 bytes together, which
 * wrap to 0; and so do the elements alone when they are rounded up. */
TEST(store_makes_no_variable_whose_bytes_wrap_to_few)
{
    struct stock s;
    struct coxi_shard shard = {.count = 1};
    struct coxi_variable huge = {
        .name = "huge",
        .dtype = COX_F32,
        .rank = 2,
        .shape = {1, UINT64_MAX / 4},
        .shards = &shard,
        .n_shards = 1,
        .optimizer = {.kind = COXI_OPTIMIZER_ROWWISE_ADAGRAD, .learning_rate = 1}};
    stock_open(&s);
    struct coxi_create create = {s.session, 1, huge, STOCK_INCARNATION};
    assert_code(COX_ELIMIT, coxi_store_create(s.store, &create));
    assert_error_names("'huge'");
    create.variable.dtype = COX_U8;
    create.variable.optimizer = (struct coxi_optimizer){0};
    create.variable.shape[1] = UINT64_MAX;
    assert_code(COX_ELIMIT, coxi_store_create(s.store, &create));
    stock_close(&s);
}

TEST(store_takes_no_table_with_more_shards_than_there_can_be_ps)
{
    static struct coxi_shard shards[COXI_PS_MAX + 1];
    struct stock s;
    stock_open(&s);
    struct coxi_create create = {s.session,
                                 1,
                                 {.name = "t",
                                  .kind = COXI_KIND_TABLE,
                                  .dtype = COX_F32,
                                  .rank = 1,
                                  .shape = {4},
                                  .shards = shards,
                                  .n_shards = COXI_PS_MAX + 1},
                                 STOCK_INCARNATION};
    assert_code(COX_EINVAL, coxi_store_create(s.store, &create));
    stock_close(&s);
}

/* A tensor without elements has any number of rows, so 2^61 rows of 8 bytes have as many
 * bytes as the file: none. */
TEST(restore_reads_no_rows_that_the_file_only_claims_to_have)
{
    const struct coxi_st_metadata metadata[] = {{"run", "0000000000000001"},
                                                {"ps", "0"}};
    const uint64_t rows = UINT64_C(1) << 61;
    const struct coxi_st_tensor tensors[] = {
        {.name = "t/keys", .dtype = "U64", .rank = 2, .shape = {rows, 0}},
        {.name = "t/values", .dtype = "F32", .rank = 2, .shape = {rows, 0}}};
    struct stock s;
    struct coxi_st_writer *writer;
    uint64_t bytes = 0;
    struct coxi_restore request = {.session = {.run = 1, .generation = 1, .token = 11},
                                   .round = 1,
                                   .path = coxi_test_path("claims.st")};
    stock_open(&s);
    (void)stock_table(&s, "t", 8);
    assert_code(0, coxi_st_create(request.path, tensors, 2, metadata, 2, &writer));
    assert_code(0, coxi_st_finish(writer, &bytes, &request.crc32));
    request.bytes = bytes;
    assert_code(COX_EFORMAT, coxi_store_restore(s.store, &request));
    assert_error_names("'t/keys'");
    stock_close(&s);
}
