/* Restoring from a store of objects (the fake one): each read is a request. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint/safetensors.h"
#include "tests/objects/fake_s3.h"
#include "tests/ps/stock.h"
#include "tests/test.h"

enum { ROWS = 150000, PUSH = 1000, DIM = 2, WIDTH = 3 << 20, REQUESTS_MAX = 40 };

/* Variables by id. */
enum { TABLE, DENSE };

static const struct coxi_optimizer adagrad = {
    .kind = COXI_OPTIMIZER_ADAGRAD, .learning_rate = 1, .initial_accumulator = 1};

static void open_store(struct stock *stock)
{
    stock_open(stock);
    stock_pair(stock, DIM, WIDTH, &adagrad);
}

static void push(struct stock *stock, uint64_t first)
{
    static uint64_t keys[PUSH];
    static float values[PUSH * DIM];
    struct stock_commit commit;
    for (size_t i = 0; i < PUSH; i++) {
        keys[i] = (first + i) * 0x9e3779b97f4a7c15u;
        values[i * DIM] = (float)((first + i) % 7);
    }
    stock_begin(stock, ++stock->closure, &commit);
    stock_add_rows(&commit, TABLE, COXI_OP_GRADIENT, keys, PUSH, values,
                   sizeof(values));
    assert_code(0, stock_commit(stock, &commit, NULL));
}

TEST(a_restore_from_a_store_reads_much_at_a_time)
{
    static char path[] = "s3://bucket/ckpt-1/ps-0-of-1.safetensors";
    static char path_again[] = "s3://bucket/ckpt-2/ps-0-of-1.safetensors";
    struct stock stock;
    struct stock again;
    struct fake_s3 *fake = fake_s3_open();
    open_store(&stock);
    open_store(&again);
    for (uint64_t first = 0; first < ROWS; first += PUSH) {
        push(&stock, first);
    }
    struct coxi_snapshot_file file = stock_take(&stock, 1, path);
    int before = fake_s3_count(fake, FAKE_GET);
    assert_code(0, stock_restore(&again, 1, path, &file));
    assert_in_range(fake_s3_count(fake, FAKE_GET) - before, 1, REQUESTS_MAX);
    struct coxi_counts counts = {0};
    coxi_store_counts(again.store, &(struct coxi_count){.table = coxi_maybe_of(TABLE)},
                      &counts);
    assert_int_equal(ROWS, counts.table.rows);
    struct coxi_snapshot_file file_again = stock_take(&again, 1, path_again);
    assert_int_equal(file.bytes, file_again.bytes);
    coxi_applied_list_fini(&file.applied);
    coxi_applied_list_fini(&file_again.applied);
    stock_close(&stock);
    stock_close(&again);
    fake_s3_close(fake);
}
