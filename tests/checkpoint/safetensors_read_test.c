/* Reading malformed files; safetensors_test.c has the rest. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/safetensors.h"
#include "common/error.h"
#include "common/rand.h"
#include "tests/loaded.h"
#include "tests/test.h"

/* Opens the file, and reads every byte of its tensors. */
static int open_and_touch(const char *path, uint64_t bytes, const uint32_t *crc32)
{
    struct coxi_st_file *file = NULL;
    int r = coxi_st_open(path, bytes, crc32, &file);
    if (r != 0) {
        assert_null(file);
        assert_error_names(path);
        return r;
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < coxi_st_count(file); i++) {
        const struct coxi_st_tensor *tensor = coxi_st_at(file, i);
        assert_true(tensor->rank <= COX_RANK_MAX);
        assert_true(tensor->bytes <= bytes);
        sum += strlen(tensor->name) + strlen(tensor->dtype);
        const uint8_t *touched = loaded(tensor);
        for (uint64_t at = 0; at < tensor->bytes; at++) {
            sum += touched[at];
        }
    }
    (void)coxi_st_metadata(file, "k");
    coxi_st_close(file);
    assert_true(sum < UINT64_MAX);
    return 0;
}

/* ---- headers made by hand */

/* Writes and opens a file of that header and `data_len` bytes of data. */
static int open_with(const char *header, size_t data_len)
{
    static uint8_t whole[8192];
    char *path = coxi_test_path("made.safetensors");
    uint64_t header_len = strlen(header);
    assert_true(8 + header_len + data_len <= sizeof(whole));
    memset(whole, 1, sizeof(whole));
    memcpy(whole, &header_len, sizeof(header_len));
    memcpy(whole + 8, header, header_len);
    coxi_test_write(path, whole, 8 + header_len + data_len);
    return open_and_touch(path, 8 + header_len + data_len, NULL);
}

#define TENSOR(dtype, shape, begin, end)                                               \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

TEST(headers_that_others_write_are_read)
{
    assert_code(0, open_with("{}", 0));
    assert_code(0, open_with("{\"a\":" TENSOR("F32", "[2]", "0", "8") "}", 8));
    assert_code(0, open_with(" {\"a\":" TENSOR("I16", "[3]", "0", "6") "}   ", 6));
    assert_code(0,
                open_with("{\"b\":" TENSOR("U8", "[2,2]", "8", "12") ",\"a\":" TENSOR(
                              "F64", "[]", "0", "8") "}",
                          12));
    assert_code(0, open_with("{\"e\":" TENSOR("F32", "[0]", "0", "0") ",\"a\":" TENSOR(
                                 "U8", "[4]", "0", "4") "}",
                             4));
    assert_code(0, open_with("{\"a\":" TENSOR("F8_E4M3", "[4]", "0", "4") "}", 4));
    assert_code(0, open_with("{\"__metadata__\":{\"k\":\"v\"}}", 0));
    assert_code(0, open_with("{\"__metadata__\":5}", 0));
}

TEST(a_malformed_header_is_eformat)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "5",
        "\"text\"",
        "{} {}",
        "{\"a\":5}",
        "{\"a\":{}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}",
        "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}",
        "{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":5,\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":{}}}",
        "{\"a\":" TENSOR("F32", "2", "0", "8") "}",
        "{\"a\":" TENSOR("F32", "[2.0]", "0", "8") "}",
        "{\"a\":" TENSOR("F32", "[-2]", "0", "8") "}",
        "{\"a\":" TENSOR("F32", "[2]", "-8", "8") "}",
        "{\"a\":" TENSOR("F32", "[2]", "8", "0") "}",
        "{\"a\":" TENSOR("F32", "[2]", "0", "8.0") "}",
        "{\"a\":" TENSOR("F32", "[1,1,1,1,1,1,1,1,2]", "0", "8") "}",
        "{\"a\":" TENSOR("F32", "[4611686018427387904,4,2]", "0", "8") "}",
        "{\"a\":" TENSOR("F32", "[2]", "0", "9223372036854775807") "}",
        "{\"a\":" TENSOR("F32", "[2]", "0", "18446744073709551615") "}",
        "{\"\xff\":" TENSOR("F32", "[2]", "0", "8") "}",
        "{\"a\":" TENSOR("U8", "[4]", "0", "4") ",\"a\":" TENSOR("U8", "[4]", "4",
                                                                 "8") "}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        int r = open_with(bad[i], 8);
        if (r != COX_EFORMAT) {
            fail_msg("%s: %d, not COX_EFORMAT", bad[i], r);
        }
    }
}

TEST(bytes_that_do_not_fit_type_and_shape_are_eformat)
{
    static const char *const bad[] = {
        "{\"a\":" TENSOR("U64", "[8]", "0", "8") "}",
        "{\"a\":" TENSOR("F32", "[1]", "0", "8") "}",
        "{\"a\":" TENSOR("F32", "[4]", "0", "8") "}",
        "{\"a\":" TENSOR("F32", "[3]", "0", "8") "}",
        "{\"a\":" TENSOR("BF16", "[2]", "0", "8") "}",
        "{\"a\":" TENSOR("U8", "[]", "0", "8") "}",
        "{\"a\":" TENSOR("F32", "[0]", "0", "8") "}",
        "{\"a\":" TENSOR("X9", "[3]", "0", "8") "}",
        "{\"a\":" TENSOR("X9", "[]", "0", "16") "}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        int r = open_with(bad[i], i == 8 ? 16 : 8);
        if (r != COX_EFORMAT) {
            fail_msg("%s: %d, not COX_EFORMAT", bad[i], r);
        }
        assert_error_names("header is malformed");
    }
}

TEST(holes_overlaps_and_left_over_bytes_are_eformat)
{
    assert_code(COX_EFORMAT, open_with("{\"a\":" TENSOR("U8", "[4]", "4", "8") "}", 8));
    assert_error_names("hole");
    assert_code(COX_EFORMAT,
                open_with("{\"a\":" TENSOR("U8", "[4]", "0", "4") ",\"b\":" TENSOR(
                              "U8", "[4]", "2", "6") "}",
                          6));
    assert_error_names("hole or overlap");
    assert_code(COX_EFORMAT,
                open_with("{\"a\":" TENSOR("U8", "[4]", "0", "4") ",\"b\":" TENSOR(
                              "U8", "[4]", "0", "4") "}",
                          4));
    assert_code(COX_EFORMAT, open_with("{\"a\":" TENSOR("U8", "[4]", "0", "4") "}", 5));
    assert_error_names("length");
    assert_code(COX_EFORMAT, open_with("{}", 1));
}

/* ---- data at odd addresses */

/* Asserts that pieces are aligned, and adds their numbers. */
static int add_aligned(void *arg, const void *data, size_t len)
{
    uint64_t *sum = arg;
    assert_int_equal(0, (uintptr_t)data % 8);
    for (size_t i = 0; i < len / sizeof(uint64_t); i++) {
        *sum += ((const uint64_t *)data)[i];
    }
    return 0;
}

TEST(a_header_that_is_not_padded_is_read_aligned)
{
    enum { N = 200000 }; /* more than a stretch of 1 MiB */
    static const char header[] = "{\"a\":" TENSOR(
        "U8", "[3]", "0", "3") ",\"b\":" TENSOR("U64", "[200000]", "3", "1600003") "} ";
    uint64_t header_len = sizeof(header) - 1;
    size_t len = 8 + header_len + 3 + N * sizeof(uint64_t);
    uint8_t *whole = calloc(1, len);
    char *path = coxi_test_path("odd.safetensors");
    struct coxi_st_file *file = NULL;
    uint64_t sum = 0;
    assert_non_null(whole);
    assert_int_not_equal(0, (8 + header_len + 3) % 4);
    memcpy(whole, &header_len, sizeof(header_len));
    memcpy(whole + 8, header, header_len);
    for (uint64_t i = 0; i < N; i++) {
        memcpy(whole + len - (N - i) * sizeof(i), &i, sizeof(i));
    }
    coxi_test_write(path, whole, len);
    free(whole);
    assert_code(0, coxi_st_open(path, len, NULL, &file));
    const struct coxi_st_tensor *b = coxi_st_find(file, "b");
    const uint64_t *numbers = loaded(b);
    assert_int_equal(N - 1, numbers[N - 1]);
    assert_code(0, coxi_st_stream(file, b, add_aligned, &sum));
    assert_int_equal((uint64_t)N * (N - 1) / 2, sum);
    coxi_st_close(file);
}

TEST(a_header_longer_than_the_file_or_the_limit_is_eformat)
{
    static const uint64_t lengths[] = {3, 4096, 100000001, UINT64_MAX, UINT64_MAX - 7};
    char *path = coxi_test_path("long.safetensors");
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        char whole[10] = {0};
        memcpy(whole, &lengths[i], sizeof(lengths[i]));
        memcpy(whole + 8, "{}", 2);
        coxi_test_write(path, whole, sizeof(whole));
        assert_code(COX_EFORMAT, open_and_touch(path, sizeof(whole), NULL));
        assert_error_names("header is too long");
    }
    coxi_test_write(path, "\2\0\0\0\0\0\0", 7);
    assert_code(COX_EFORMAT, open_and_touch(path, 7, NULL));
    assert_error_names("too short");
}

/* ---- a good file, damaged */

enum { PAGE = 4096 };

struct good {
    char *path;
    uint8_t whole[PAGE];
    uint64_t header_len;
    uint32_t crc32;
};

/*
 * A file that ends with its page of memory, so that a read past its end is a fault: one
 * tensor of a few dimensions, and one that fills the rest.
 */
static void make_good(struct good *good)
{
    static const uint8_t data[PAGE];
    struct coxi_st_tensor tensors[] = {
        {"first", "F32", 3, {2, 3, 4}, 96, data, NULL, 0},
        {"second", "U8", 1, {1000}, 1000, data, NULL, 0},
    };
    const struct coxi_st_metadata metadata = {"k", "v"};
    uint64_t bytes = 0;
    good->path = coxi_test_path("good.safetensors");
    for (int round = 0; bytes != PAGE; round++) {
        struct coxi_st_writer *writer = NULL;
        assert_true(round < 3);
        tensors[1].bytes += round == 0 ? 0 : PAGE - bytes;
        tensors[1].shape[0] = tensors[1].bytes;
        (void)unlink(good->path);
        assert_code(0, coxi_st_create(good->path, tensors, 2, &metadata, 1, &writer));
        assert_code(0, coxi_st_write(writer, data, 96));
        assert_code(0, coxi_st_write(writer, data, tensors[1].bytes));
        assert_code(0, coxi_st_finish(writer, &bytes, &good->crc32));
    }
    char *whole = coxi_test_read(good->path, NULL);
    memcpy(good->whole, whole, PAGE);
    memcpy(&good->header_len, whole, sizeof(good->header_len));
    free(whole);
    assert_code(0, open_and_touch(good->path, PAGE, &good->crc32));
}

TEST(a_file_of_another_length_is_eformat_with_both_lengths)
{
    struct good good;
    make_good(&good);
    assert_code(COX_EFORMAT, open_and_touch(good.path, PAGE + 1, &good.crc32));
    assert_error_names("4096");
    assert_error_names("4097");
    assert_code(COX_EFORMAT, open_and_touch(good.path, 0, NULL));
}

TEST(another_checksum_is_echecksum_with_both_sums)
{
    struct good good;
    char text[16];
    make_good(&good);
    uint32_t other = good.crc32 ^ 1;
    assert_code(COX_ECHECKSUM, open_and_touch(good.path, PAGE, &other));
    (void)snprintf(text, sizeof(text), "%08x", good.crc32);
    assert_error_names(text);
    (void)snprintf(text, sizeof(text), "%08x", other);
    assert_error_names(text);
}

TEST(a_changed_bit_anywhere_is_echecksum)
{
    struct good good;
    uint64_t rng = 4;
    make_good(&good);
    for (int i = 0; i < 300; i++) {
        uint64_t n = coxi_rand(&rng);
        good.whole[n % PAGE] ^= (uint8_t)(1 << (n >> 61));
        coxi_test_write(good.path, good.whole, PAGE);
        assert_code(COX_ECHECKSUM, open_and_touch(good.path, PAGE, &good.crc32));
        good.whole[n % PAGE] ^= (uint8_t)(1 << (n >> 61));
    }
}

TEST(a_file_cut_short_anywhere_is_eformat)
{
    struct good good;
    make_good(&good);
    for (size_t len = PAGE; len-- > 0;) {
        len = len > good.header_len + 200 ? len - len % 64 : len;
        assert_int_equal(0, truncate(good.path, (off_t)len));
        assert_code(COX_EFORMAT, open_and_touch(good.path, len, NULL));
    }
}

TEST(a_changed_header_is_never_read_past_the_file)
{
    enum { ROUNDS = 6000 };
    struct good good;
    uint64_t rng = 5;
    int refused = 0;
    make_good(&good);
    int fd = open(good.path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    for (int i = 0; i < ROUNDS; i++) {
        static const char likely[] = "0123456789[]{}\",:-e \x80\xff";
        uint64_t n = coxi_rand(&rng);
        off_t at = (off_t)((n >> 16) % (8 + good.header_len));
        uint8_t byte = n % 3 == 0 ? (uint8_t)(n >> 8)
                                  : (uint8_t)likely[(n >> 8) % (sizeof(likely) - 1)];
        assert_int_equal(1, pwrite(fd, &byte, 1, at));
        int r = open_and_touch(good.path, PAGE, NULL);
        assert_true(r == 0 || r == COX_EFORMAT);
        refused += r != 0;
        assert_int_equal(1, pwrite(fd, &good.whole[at], 1, at));
    }
    (void)close(fd);
    assert_in_range(refused, ROUNDS / 4, ROUNDS - 100);
}

TEST(a_file_that_cannot_be_read_is_eio)
{
    assert_code(COX_EIO, open_and_touch(coxi_test_path("missing"), 100, NULL));
    char *path = coxi_test_path("file");
    coxi_test_write(path, "x", 1);
    assert_code(COX_EIO, open_and_touch(coxi_test_path("file/under"), 100, NULL));
}
