#include "checkpoint/safetensors.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include "common/error.h"
#include "common/rand.h"
#include "tests/loaded.h"
#include "tests/test.h"

/* ---- files as we write them */

static const float weights[6] = {0, 1, 2, 3, 4, 5};
static const uint64_t keys[3] = {7, UINT64_MAX, 9};
static const uint8_t bytes[5] = {1, 2, 3, 4, 5};

static const struct coxi_st_tensor sample[] = {
    {"t/keys", "U64", 1, {3}, sizeof(keys), keys, NULL, 0},
    {"w", "F32", 2, {2, 3}, sizeof(weights), weights, NULL, 0},
    {"none", "F32", 2, {0, 3}, 0, weights, NULL, 0},
    {"one", "F32", 0, {0}, 4, weights, NULL, 0},
    {"gr\xc3\xb6\xc3\x9f"
     "e",
     "U8",
     1,
     {5},
     sizeof(bytes),
     bytes,
     NULL,
     0},
};

enum { N_SAMPLE = sizeof(sample) / sizeof(*sample) };

static const struct coxi_st_metadata metadata[] = {
    {"run", "00ff"},
    {"what", "a \"test\""},
};

struct written {
    char *path;
    uint64_t bytes;
    uint32_t crc32;
};

static struct written write_tensors(const char *name,
                                    const struct coxi_st_tensor *tensors, size_t n)
{
    struct written file = {.path = coxi_test_path(name)};
    struct coxi_st_writer *writer = NULL;
    (void)unlink(file.path);
    assert_code(0, coxi_st_create(file.path, tensors, n, metadata, 2, &writer));
    for (size_t i = 0; i < n; i++) {
        assert_code(0, coxi_st_write(writer, tensors[i].data, tensors[i].bytes));
    }
    assert_code(0, coxi_st_finish(writer, &file.bytes, &file.crc32));
    return file;
}

static struct written write_sample(void)
{
    return write_tensors("sample.safetensors", sample, N_SAMPLE);
}

TEST(what_is_written_is_read_back)
{
    struct written w = write_sample();
    struct coxi_st_file *file = NULL;
    assert_code(0, coxi_st_open(w.path, w.bytes, &w.crc32, &file));
    assert_int_equal(N_SAMPLE, coxi_st_count(file));
    for (size_t i = 0; i < N_SAMPLE; i++) {
        const struct coxi_st_tensor *found = coxi_st_find(file, sample[i].name);
        assert_non_null(found);
        assert_string_equal(sample[i].name, found->name);
        assert_string_equal(sample[i].dtype, found->dtype);
        assert_int_equal(sample[i].rank, found->rank);
        for (uint32_t d = 0; d < found->rank; d++) {
            assert_int_equal(sample[i].shape[d], found->shape[d]);
        }
        assert_int_equal(sample[i].bytes, found->bytes);
        assert_memory_equal(sample[i].data, loaded(found), found->bytes);
    }
    assert_null(coxi_st_find(file, "W"));
    for (size_t i = 1; i < N_SAMPLE; i++) {
        assert_true(coxi_st_at(file, i - 1)->at <= coxi_st_at(file, i)->at);
    }
    coxi_st_close(file);
    coxi_st_close(NULL);
}

TEST(metadata_is_read_back)
{
    struct written w = write_sample();
    struct coxi_st_file *file = NULL;
    assert_code(0, coxi_st_open(w.path, w.bytes, NULL, &file));
    assert_string_equal("00ff", coxi_st_metadata(file, "run"));
    assert_string_equal("a \"test\"", coxi_st_metadata(file, "what"));
    assert_null(coxi_st_metadata(file, "why"));
    assert_null(coxi_st_find(file, "__metadata__"));
    coxi_st_close(file);
}

TEST(size_and_crc32_are_those_of_the_file)
{
    struct written w = write_sample();
    size_t len = 0;
    char *whole = coxi_test_read(w.path, &len);
    assert_int_equal(len, w.bytes);
    assert_int_equal(crc32(0, (const Bytef *)whole, (uInt)len), w.crc32);
    free(whole);
}

/* Bytes that were in no piece are read at the end; bytes of two pieces count once. */
TEST(a_sum_of_pieces_in_any_order_is_the_crc32_of_the_file)
{
    struct written w = write_sample();
    struct coxi_st_file *file = NULL;
    struct coxi_st_sum *sum = NULL;
    assert_code(0, coxi_st_open(w.path, w.bytes, NULL, &file));
    assert_code(0, coxi_st_sum_new(file, &sum));
    for (size_t i = coxi_st_count(file); i-- > 1;) {
        const struct coxi_st_tensor *tensor = coxi_st_at(file, i);
        size_t half = tensor->bytes / 2;
        uint8_t data[64];
        assert_code(0, coxi_st_sum_read(sum, tensor, half, data, tensor->bytes - half));
        assert_code(0, coxi_st_sum_read(sum, tensor, 0, data,
                                        i % 2 == 0 ? half : tensor->bytes));
    }
    uint32_t found = 0;
    assert_code(0, coxi_st_sum_end(sum, &found));
    assert_int_equal(w.crc32, found);
    coxi_st_sum_free(sum);
    coxi_st_close(file);
}

TEST(a_file_without_tensors_is_one_too)
{
    struct written w = write_tensors("none.safetensors", NULL, 0);
    struct coxi_st_file *file = NULL;
    assert_code(0, coxi_st_open(w.path, w.bytes, &w.crc32, &file));
    assert_int_equal(0, coxi_st_count(file));
    assert_string_equal("00ff", coxi_st_metadata(file, "run"));
    coxi_st_close(file);
}

/* Tensors longer than the writer's buffer, in pieces shorter and longer than it. */
TEST(data_may_come_in_pieces_of_any_size)
{
    enum { LEN = 5 << 20 };
    struct coxi_st_writer *writer = NULL;
    struct coxi_st_file *file = NULL;
    struct written w = {.path = coxi_test_path("pieces.safetensors")};
    uint64_t rng = 3;
    uint8_t *data = malloc(LEN);
    assert_non_null(data);
    for (size_t i = 0; i < LEN; i++) {
        data[i] = (uint8_t)coxi_rand(&rng);
    }
    const struct coxi_st_tensor big = {"big", "U8", 1, {LEN}, LEN, NULL, NULL, 0};
    assert_code(0, coxi_st_create(w.path, &big, 1, NULL, 0, &writer));
    for (size_t at = 0, len = 1; at < LEN; at += len) {
        len = at < 4000 ? 1 + len % 7 : coxi_rand(&rng) % (3 << 20);
        len = len < LEN - at ? len : LEN - at;
        assert_code(0, coxi_st_write(writer, data + at, len));
    }
    assert_code(0, coxi_st_finish(writer, &w.bytes, &w.crc32));
    assert_code(0, coxi_st_open(w.path, w.bytes, &w.crc32, &file));
    assert_memory_equal(data, loaded(coxi_st_find(file, "big")), LEN);
    coxi_st_close(file);
    free(data);
}

/* Writes several tensors in turns, as a ps writes keys and values of the same rows. */
TEST(tensors_may_be_written_side_by_side)
{
    enum { N = 300000, PIECE = 1000 };
    struct coxi_st_writer *writer = NULL;
    struct coxi_st_file *file = NULL;
    struct written w = {.path = coxi_test_path("side.safetensors")};
    uint64_t *wide = malloc(N * sizeof(*wide));
    float *narrow = malloc(N * sizeof(*narrow));
    assert_true(wide != NULL && narrow != NULL);
    for (size_t i = 0; i < N; i++) {
        wide[i] = i * i;
        narrow[i] = (float)i;
    }
    const struct coxi_st_tensor both[] = {
        {"wide", "U64", 1, {N}, N * sizeof(*wide), NULL, NULL, 0},
        {"narrow", "F32", 1, {N}, N * sizeof(*narrow), NULL, NULL, 0}};
    assert_code(0, coxi_st_create(w.path, both, 2, NULL, 0, &writer));
    for (size_t i = 0; i < N; i += PIECE) {
        assert_code(0, coxi_st_put(writer, 1, narrow + i, PIECE * sizeof(*narrow)));
        assert_code(0, coxi_st_put(writer, 0, wide + i, PIECE * sizeof(*wide)));
    }
    assert_code(COX_EIO, coxi_st_put(writer, 0, wide, 1));
    coxi_st_abandon(writer);
    assert_code(0, coxi_st_create(w.path, both, 2, NULL, 0, &writer));
    for (size_t i = 0; i < N; i += PIECE) {
        assert_code(0, coxi_st_put(writer, 1, narrow + i, PIECE * sizeof(*narrow)));
        assert_code(0, coxi_st_put(writer, 0, wide + i, PIECE * sizeof(*wide)));
    }
    assert_code(0, coxi_st_finish(writer, &w.bytes, &w.crc32));
    assert_code(0, coxi_st_open(w.path, w.bytes, &w.crc32, &file));
    assert_memory_equal(wide, loaded(coxi_st_find(file, "wide")), N * sizeof(*wide));
    assert_memory_equal(narrow, loaded(coxi_st_find(file, "narrow")),
                        N * sizeof(*narrow));
    coxi_st_close(file);
    free(wide);
    free(narrow);
}

/* The form on which other readers rely: the length, then JSON, padded so that the data
 * are aligned. */
TEST(the_header_is_json_padded_to_8)
{
    struct written w = write_sample();
    uint64_t header_len = 0;
    char *whole = coxi_test_read(w.path, NULL);
    memcpy(&header_len, whole, sizeof(header_len));
    assert_int_equal(0, header_len % 8);
    assert_int_equal(w.bytes, 8 + header_len + sizeof(keys) + sizeof(weights) + 4 +
                                  sizeof(bytes));
    assert_memory_equal("{\"__metadata__\":{", whole + 8, 17);
    whole[8 + header_len] = '\0';
    assert_non_null(strstr(whole + 8, "\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],"
                                      "\"data_offsets\":[24,48]}"));
    free(whole);
}

/* ---- writing that fails */

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

TEST(a_file_that_is_there_is_not_written_over)
{
    struct coxi_st_writer *writer = NULL;
    char *path = coxi_test_path("there.safetensors");
    coxi_test_write(path, "mine", 4);
    assert_code(COX_EIO, coxi_st_create(path, sample, N_SAMPLE, NULL, 0, &writer));
    assert_error_names(path);
    assert_null(writer);
    char *text = coxi_test_read(path, NULL);
    assert_string_equal("mine", text);
    free(text);
}

TEST(a_place_that_takes_no_file_is_eio_and_named)
{
    struct coxi_st_writer *writer = NULL;
    char *file = coxi_test_path("file");
    coxi_test_write(file, "", 0);
    char *paths[] = {coxi_test_path("file/under.safetensors"),
                     coxi_test_path("missing/under.safetensors"),
                     "/proc/under.safetensors"};
    for (size_t i = 0; i < 3; i++) {
        assert_code(COX_EIO,
                    coxi_st_create(paths[i], sample, N_SAMPLE, NULL, 0, &writer));
        assert_error_names(paths[i]);
    }
    assert_null(writer);
}

TEST(an_abandoned_file_is_removed)
{
    struct coxi_st_writer *writer = NULL;
    char *path = coxi_test_path("abandoned.safetensors");
    assert_code(0, coxi_st_create(path, sample, N_SAMPLE, NULL, 0, &writer));
    assert_code(0, coxi_st_write(writer, keys, sizeof(keys)));
    assert_true(exists(path));
    coxi_st_abandon(writer);
    assert_false(exists(path));
    coxi_st_abandon(NULL);
}

static void assert_finish_fails(size_t len, int code)
{
    static const uint8_t zeros[1000];
    struct coxi_st_writer *writer = NULL;
    uint64_t file_bytes = 77;
    uint32_t file_crc32 = 78;
    char *path = coxi_test_path("short.safetensors");
    assert_code(0, coxi_st_create(path, sample, 2, NULL, 0, &writer));
    assert_code(code, coxi_st_write(writer, zeros, len));
    assert_code(COX_EIO, coxi_st_finish(writer, &file_bytes, &file_crc32));
    assert_error_names(path);
    assert_false(exists(path));
    assert_int_equal(77, file_bytes);
    assert_int_equal(78, file_crc32);
}

TEST(data_of_another_length_than_the_header_says_is_eio_and_leaves_no_file)
{
    assert_finish_fails(0, 0);
    assert_finish_fails(sizeof(keys) + sizeof(weights) - 1, 0);
    assert_finish_fails(sizeof(keys) + sizeof(weights) + 1, COX_EIO);
}

/* Acts like a full disk, also for root: no file may grow past the limit. */
TEST(a_full_disk_is_eio_and_leaves_no_file)
{
    static uint8_t much[3 << 20];
    struct coxi_st_writer *writer = NULL;
    struct rlimit old;
    uint64_t file_bytes = 0;
    uint32_t file_crc32 = 0;
    char *path = coxi_test_path("full.safetensors");
    const struct coxi_st_tensor big = {"b",          "U8", 1,    {sizeof(much)},
                                       sizeof(much), NULL, NULL, 0};
    assert_code(0, coxi_st_create(path, &big, 1, NULL, 0, &writer));
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(0, getrlimit(RLIMIT_FSIZE, &old));
    struct rlimit tight = {.rlim_cur = 2 << 20, .rlim_max = old.rlim_max};
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &tight));
    int r = coxi_st_write(writer, much, sizeof(much));
    (void)setrlimit(RLIMIT_FSIZE, &old);
    assert_code(COX_EIO, r);
    assert_error_names(path);
    assert_error_names("File too large");
    assert_code(COX_EIO, coxi_st_finish(writer, &file_bytes, &file_crc32));
    assert_false(exists(path));
}

TEST(two_tensors_of_one_name_are_refused)
{
    struct coxi_st_writer *writer = NULL;
    char *path = coxi_test_path("twice.safetensors");
    const struct coxi_st_tensor twice[] = {sample[1], sample[0], sample[1]};
    assert_code(COX_EINVAL, coxi_st_create(path, twice, 3, NULL, 0, &writer));
    assert_error_names("'w'");
    assert_false(exists(path));
    struct coxi_st_tensor reserved = sample[0];
    reserved.name = "__metadata__";
    assert_code(COX_EINVAL, coxi_st_create(path, &reserved, 1, metadata, 2, &writer));
    assert_error_names("'__metadata__'");
    assert_false(exists(path));
}

TEST(text_that_is_not_utf_8_is_refused)
{
    struct coxi_st_writer *writer = NULL;
    char *path = coxi_test_path("latin.safetensors");
    const struct coxi_st_metadata latin = {"where", "K\xf6ln"};
    struct coxi_st_tensor tensor = sample[0];
    assert_code(COX_EINVAL, coxi_st_create(path, &tensor, 1, &latin, 1, &writer));
    assert_error_names("where");
    tensor.name = "gr\xf6\xdf"
                  "e";
    assert_code(COX_EINVAL, coxi_st_create(path, &tensor, 1, NULL, 0, &writer));
    assert_error_names(path);
    assert_false(exists(path));
    assert_null(writer);
}
