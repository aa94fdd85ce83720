/*
 * Files that were changed at random, 10,000 of each format: every one is read as some
 * records, or is an error that names the file and an offset; whole and cut, with bad
 * records as errors and left out.
 */
#include <stdio.h>
#include <unistd.h>
#include <zlib.h>

#include "common/rand.h"
#include "coxswain/dataset.h"
#include "data/codec.h"
#include "tests/data/recordio_sample.h"
#include "tests/data/records.h"
#include "tests/test.h"

enum { N = 10000, FILE_MAX = 4096 };

struct bytes {
    uint8_t data[FILE_MAX];
    size_t len;
};

/* Numbers that lengths and counts are likely to trip over. */
static const uint32_t odd_numbers[] = {0,          1,          4,          19,
                                       20,         0x7fffffff, 0x80000000, 0xffffffff,
                                       0xfffffff0, 0x10000000, 0x01020304, 0x0fffffff};

static void mutate(struct bytes *file, uint64_t *rng)
{
    size_t at = coxi_rand(rng) % file->len;
    size_t n = 1 + coxi_rand(rng) % 16;
    switch (coxi_rand(rng) % 6) {
    case 0:
        file->data[at] ^= (uint8_t)(1u << coxi_rand(rng) % 8);
        break;
    case 1:
        file->data[at] = (uint8_t)coxi_rand(rng);
        break;
    case 2: /* shorter */
        file->len = at + 1;
        break;
    case 3: { /* a length or count */
        uint32_t number = odd_numbers[coxi_rand(rng) % 12];
        at = at / 4 * 4;
        memcpy(file->data + at, &number, sizeof(number));
        file->len = at + 4 > file->len ? at + 4 : file->len;
        break;
    }
    case 4: /* bytes are missing */
        n = at + n < file->len ? n : 0;
        memmove(file->data + at, file->data + at + n, file->len - at - n);
        file->len -= n;
        break;
    default: /* bytes are there twice */
        n = at + n < file->len && file->len + n <= FILE_MAX ? n : 0;
        memmove(file->data + at + n, file->data + at, file->len - at);
        file->len += n;
        break;
    }
}

static void check_end(const struct records *records, const char *file)
{
    char name[600];
    (void)snprintf(name, sizeof(name), "%s:", file);
    bool known = records->code == COX_EFORMAT || records->code == COX_ECHECKSUM ||
                 records->code == COX_ELIMIT;
    if (records->code != COX_EEOF &&
        (!known || strncmp(records->error, name, strlen(name)) != 0)) {
        fail_msg("%d: %s", records->code, records->error);
    }
}

static void read_hostile(const char *path, uint32_t format, uint64_t *rng)
{
    struct coxi_task task = records_task(path, format);
    struct records records = {0};
    size_t len;
    free(coxi_test_read(path, &len));
    task.batch_size = 1 + (uint32_t)(coxi_rand(rng) % 40);
    task.shuffle_window = (uint32_t)(coxi_rand(rng) % 8);
    if (coxi_rand(rng) % 2 == 0) {
        task.decoding.on_bad_record = COX_BAD_SKIP_RECORD;
    }
    if (coxi_rand(rng) % 2 == 0 && strstr(path, ".gz") == NULL) {
        task.begin = coxi_rand(rng) % (len + 1);
        task.end = task.begin + coxi_rand(rng) % (len + 1);
    }
    records_read(&task, &records);
    check_end(&records, path);
    records_free(&records);
}

static void read_mutations(const char *path, uint32_t format, size_t n, uint64_t seed)
{
    size_t len;
    char *original = coxi_test_read(path, &len);
    assert_in_range(len, 1, FILE_MAX - 64);
    for (size_t i = 0; i < n; i++) {
        struct bytes file = {.len = len};
        uint64_t rng = seed + i;
        memcpy(file.data, original, len);
        for (size_t m = 1 + coxi_rand(&rng) % 3; m > 0; m--) {
            mutate(&file, &rng);
        }
        (void)unlink(path); /* a file that becomes shorter may be written to disk */
        coxi_test_write(path, file.data, file.len);
        read_hostile(path, format, &rng);
    }
    free(original);
}

TEST(changed_libsvm_files_are_read_or_refused)
{
    static const char text[] =
        "1 7:0.5 3:-2.0 18446744073709551615:1e3 # a comment\n-1\n\n0.25\t0:1 \r\n"
        "1 qid:12 5:1. 6:+2\n0 1:0.000000000123456789123456789 2:123456789.125\n"
        "1 1:1 2:2 3:3 4:4";
    char *path = coxi_test_path("file");
    coxi_test_write(path, text, strlen(text));
    read_mutations(path, COX_LIBSVM, N, 1);
}

TEST(changed_libffm_files_are_read_or_refused)
{
    static const char text[] = "1 0:7:0.5 4294967295:3:-2\n0 1:2:3\n1 3:4:1e-3 5:6:7\n";
    char *path = coxi_test_path("file");
    coxi_test_write(path, text, strlen(text));
    read_mutations(path, COX_LIBFFM, N / 4, 2);
}

TEST(changed_compressed_files_are_read_or_refused)
{
    static const char text[] = "1 7:0.5 3:-2.0\n-1\n0 1:1\n1 7:0.5 3:-2.0\n-1\n0 1:1\n";
    char *path = coxi_test_path("file.gz");
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_true(gzwrite(file, text, sizeof(text) - 1) > 0);
    assert_int_equal(Z_OK, gzclose(file));
    read_mutations(path, COX_LIBSVM, N / 4, 3);
}

static void read_recordio(uint32_t codec, size_t n, uint64_t seed)
{
    static const struct sample_record records[] = {
        {"Hello", 5},
        {"World!", 6},
        {"", 0},
        {"a record that Snappy can make shorter: "
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         77}};
    char *path = coxi_test_path("file");
    sample_recordio(path, codec, 40, records, 4);
    read_mutations(path, COX_RECORDIO, n, seed);
}

TEST(changed_recordio_files_are_read_or_refused)
{
    read_recordio(COXI_CODEC_NONE, N, 4);
}

TEST(changed_recordio_of_snappy_is_read_or_refused)
{
    read_recordio(COXI_CODEC_SNAPPY, N / 4, 5);
}

TEST(changed_recordio_of_gzip_is_read_or_refused)
{
    read_recordio(COXI_CODEC_GZIP, N / 4, 6);
}
