/* Opening a checkpoint, and reading all of it, with each allocation failing once. */
#include <stdlib.h>

#include "checkpoint/row_index.h"
#include "tests/checkpoint/sample.h"
#include "tests/test.h"
#include "tests/torture/torture.h"

struct reading {
    const char *path;
    enum coxi_checkpoint_depth depth;
};

static int take_nothing(void *arg, const void *data, size_t len)
{
    (void)arg;
    (void)data;
    (void)len;
    return 0;
}

static int read_shard(const struct coxi_st_file *shard)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < coxi_st_count(shard); i++) {
        r = coxi_st_stream(shard, coxi_st_at(shard, i), take_nothing, NULL);
    }
    return r;
}

static int read_table(const struct coxi_checkpoint *checkpoint)
{
    struct coxi_row_index index = {0};
    float row[SAMPLE_DIM];
    bool found;
    int r = coxi_row_index_init(&index, checkpoint,
                                coxi_checkpoint_variable(checkpoint, "t"));
    r = r == 0 ? coxi_row_index_read(&index, sample_key(9), row, &found) : r;
    coxi_row_index_fini(&index);
    return r;
}

static int read_checkpoint(void *arg)
{
    const struct reading *reading = arg;
    struct coxi_checkpoint *checkpoint = NULL;
    int r = coxi_checkpoint_open(reading->path, reading->depth, &checkpoint);
    for (size_t i = 0; r == 0 && i < checkpoint->manifest->n_shards; i++) {
        r = read_shard(checkpoint->shards[i]);
    }
    if (r == 0 && reading->depth == COXI_CHECKPOINT_CHECKED) {
        r = read_table(checkpoint);
    }
    coxi_checkpoint_close(checkpoint);
    return r;
}

TEST(torture_of_readers_is_out_of_memory_and_nothing_else)
{
    const struct sample first = {.run = 1, .number = 1, .n_ps = 2, .n_rows = 20};
    const struct sample second = {.run = 1,
                                  .number = 2,
                                  .n_ps = 2,
                                  .n_rows = 20,
                                  .base = 1,
                                  .rows_from = 5,
                                  .n_removed = 2};
    sample_write(coxi_test_dir(), &first);
    sample_write(coxi_test_dir(), &second);
    struct reading reading = {coxi_test_path("ckpt-2"), COXI_CHECKPOINT_CHECKED};
    assert_in_range(torture(read_checkpoint, &reading), 30, 10000);
    reading.depth = COXI_CHECKPOINT_STREAMED;
    assert_in_range(torture(read_checkpoint, &reading), 30, 10000);
}
