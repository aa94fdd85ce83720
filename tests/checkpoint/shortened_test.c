/* A file of somebody else that gets shorter while it is open: an error that names the
 * file and the offset, wherever it is read. */
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "checkpoint/row_index.h"
#include "tests/checkpoint/sample.h"
#include "tests/test.h"

enum { BIG = 3 << 20, LEFT = 1 << 20 };

/* A file with one tensor of BIG bytes. */
struct big {
    char *path;
    uint64_t bytes;
    struct coxi_st_file *file;
    const struct coxi_st_tensor *tensor;
};

static void open_big(struct big *big)
{
    static uint8_t data[BIG];
    const struct coxi_st_tensor tensor = {
        .name = "big", .dtype = "U8", .rank = 1, .shape = {BIG}, .bytes = BIG};
    struct coxi_st_writer *writer;
    uint32_t crc32;
    big->path = coxi_test_path("big.safetensors");
    assert_code(0, coxi_st_create(big->path, &tensor, 1, NULL, 0, &writer));
    assert_code(0, coxi_st_write(writer, data, BIG));
    assert_code(0, coxi_st_finish(writer, &big->bytes, &crc32));
    assert_code(0, coxi_st_open(big->path, big->bytes, NULL, &big->file));
    big->tensor = coxi_st_find(big->file, "big");
}

static int take_nothing(void *arg, const void *data, size_t len)
{
    (void)arg;
    (void)data;
    (void)len;
    return 0;
}

static void assert_named(const struct big *big)
{
    assert_error_names(big->path);
    assert_error_names("byte 1048576");
}

TEST(shortened_file_is_an_error_wherever_it_is_read)
{
    struct big big;
    struct coxi_st_sum *sum;
    void *all;
    uint8_t some[16];
    uint32_t crc32;
    open_big(&big);
    assert_int_equal(0, truncate(big.path, LEFT));
    assert_code(0, coxi_st_read(big.tensor, 0, some, sizeof(some)));
    assert_code(COX_EFORMAT, coxi_st_read(big.tensor, LEFT - big.tensor->at - 8, some,
                                          sizeof(some)));
    assert_named(&big);
    assert_code(COX_EFORMAT, coxi_st_read_all(big.tensor, &all));
    assert_named(&big);
    assert_code(COX_EFORMAT, coxi_st_stream(big.file, big.tensor, take_nothing, NULL));
    assert_named(&big);
    assert_code(0, coxi_st_sum_new(big.file, &sum));
    assert_code(COX_EFORMAT, coxi_st_sum_end(sum, &crc32));
    assert_named(&big);
    coxi_st_sum_free(sum);
    coxi_st_close(big.file);
}

static void shorten_shards(void)
{
    char *dir = coxi_test_path("ckpt-3");
    char path[PATH_MAX];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof(path), "%s/ps-%d-of-2.safetensors", dir, i);
        assert_int_equal(0, truncate(path, 16));
    }
}

TEST(shortened_checkpoint_is_an_error_for_its_readers)
{
    static const struct sample sample = {
        .run = 0xfeed, .number = 3, .n_ps = 2, .n_rows = 40};
    struct coxi_checkpoint *checkpoint;
    struct coxi_row_index index;
    float row[SAMPLE_DIM];
    bool found;
    sample_write(coxi_test_dir(), &sample);
    assert_code(0, coxi_checkpoint_open(coxi_test_path("ckpt-3"),
                                        COXI_CHECKPOINT_CHECKED, &checkpoint));
    const struct coxi_variable *t = coxi_checkpoint_variable(checkpoint, "t");
    assert_code(0, coxi_row_index_init(&index, checkpoint, t));
    shorten_shards();
    assert_code(COX_EFORMAT, coxi_row_index_read(&index, sample_key(0), row, &found));
    assert_error_names(".safetensors has no byte");
    coxi_row_index_fini(&index);
    assert_code(COX_EFORMAT, coxi_row_index_init(&index, checkpoint, t));
    coxi_checkpoint_close(checkpoint);
}
