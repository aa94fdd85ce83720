/* TFRecord files: TensorFlow's bytes, cuts, and damage. */
#include "coxswain/dataset.h"

#include "common/crc32c.h"
#include "common/rand.h"
#include "data/format_tfrecord.h"
#include "tests/data/records.h"
#include "tests/test.h"

/* "Hello", "World!" and "", as TensorFlow 2.21 writes them. */
static const uint8_t golden[] = {
    0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xea, 0xb2, 0x04, 0x3e,
    0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x8a, 0xee, 0xb9, 0xbe, 0x06, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x73, 0x69, 0xd5, 0x37, 0x57, 0x6f, 0x72,
    0x6c, 0x64, 0x21, 0xb2, 0xbb, 0xba, 0x22, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x29, 0x03, 0x98, 0x07, 0xd8, 0xea, 0x82, 0xa2};

enum { SECOND = 21, THIRD = 43, MUTATIONS = 10000 };

static const char *path_of_file(void)
{
    static char *path;
    path = path != NULL ? path : coxi_test_path("file");
    return path;
}

static struct records read_bytes(const void *bytes, size_t len)
{
    struct records records = {0};
    struct coxi_task task = records_task(path_of_file(), COX_TFRECORD);
    coxi_test_write(task.file, bytes, len);
    records_read(&task, &records);
    return records;
}

TEST(golden_bytes_are_read)
{
    static const char *const expected[] = {"Hello", "World!", ""};
    struct records records = read_bytes(golden, sizeof(golden));
    records_assert(&records, expected, 3);
    assert_int_equal(sizeof(golden), records.counts.bytes);
    records_free(&records);
    records = read_bytes("", 0);
    records_assert(&records, NULL, 0);
}

TEST(golden_bytes_are_written)
{
    struct coxi_buffer file = {0};
    assert_code(0, coxi_tfrecord_append(&file, "Hello", 5));
    assert_code(0, coxi_tfrecord_append(&file, "World!", 6));
    assert_code(0, coxi_tfrecord_append(&file, "", 0));
    assert_int_equal(sizeof(golden), file.len);
    assert_memory_equal(golden, file.data, file.len);
    coxi_buffer_fini(&file);
}

/* ---- cuts */

/* Records of random lengths and bytes, the longest beyond a piece of the file; some of
 * them are TFRecord files themselves if `nested`. */
static void write_random(uint64_t *rng, size_t n, bool nested, struct coxi_buffer *file)
{
    static uint8_t bytes[600000];
    file->len = 0;
    for (size_t i = 0; i < n; i++) {
        size_t most = coxi_rand(rng) % 8 == 0 ? 3000 : 40;
        size_t len =
            coxi_rand(rng) % (coxi_rand(rng) % 500 == 0 ? sizeof(bytes) : most);
        for (size_t j = 0; j < len; j++) {
            bytes[j] = (uint8_t)coxi_rand(rng);
        }
        bool is_file = nested && coxi_rand(rng) % 3 == 0;
        assert_code(0, coxi_tfrecord_append(file, is_file ? golden : bytes,
                                            is_file ? sizeof(golden) : len));
    }
    coxi_test_write(path_of_file(), file->data, file->len);
}

/* Reads random files whole and cut; returns how many cuts were refused. */
static int read_cut(uint64_t rng, int rounds, size_t most_cuts, bool nested)
{
    int refused = 0;
    struct coxi_buffer file = {0};
    struct coxi_task task = records_task(path_of_file(), COX_TFRECORD);
    for (int round = 0; round < rounds; round++) {
        uint64_t cuts[20];
        struct records whole = {0};
        struct records parts = {0};
        write_random(&rng, 100, nested, &file);
        size_t n = records_cuts(&rng, file.len, cuts, most_cuts);
        records_read(&task, &whole);
        assert_int_equal(100, whole.n);
        records_read_cut(&task, cuts, n, &parts);
        if (nested && parts.code == COX_EFORMAT) {
            assert_non_null(strstr(parts.error, "a record contains a record"));
            refused++;
        } else {
            records_assert_same(&whole, &parts);
        }
        records_free(&whole);
        records_free(&parts);
    }
    coxi_buffer_fini(&file);
    return refused;
}

TEST(cut_files_have_every_record_once)
{
    assert_int_equal(0, read_cut(1, 80, 20, false));
}

/* A cut inside a record that is a TFRecord file itself is never silently wrong. */
TEST(records_within_records_are_right_or_refused)
{
    int refused = read_cut(2, 80, 6, true);
    assert_true(refused > 10);
    assert_true(refused < 80);
}

TEST(each_byte_can_be_a_cut)
{
    struct coxi_task task = records_task(path_of_file(), COX_TFRECORD);
    records_assert_cuts(&task, golden, sizeof(golden), 3);
}

/* ---- damage */

TEST(each_flipped_byte_and_each_shorter_file_is_an_error)
{
    for (size_t i = 0; i < sizeof(golden); i++) {
        uint8_t bytes[sizeof(golden)];
        memcpy(bytes, golden, sizeof(golden));
        bytes[i] ^= 0x41;
        struct records flipped = read_bytes(bytes, sizeof(golden));
        assert_true(flipped.code == COX_EFORMAT || flipped.code == COX_ECHECKSUM);
        assert_non_null(strstr(flipped.error, i < SECOND  ? "file:0: "
                                              : i < THIRD ? "file:21: "
                                                          : "file:43: "));
        records_free(&flipped);
        struct records cut = read_bytes(golden, i);
        bool whole = i == 0 || i == SECOND || i == THIRD;
        assert_int_equal(whole ? COX_EEOF : COX_EFORMAT, cut.code);
        records_free(&cut);
    }
}

/* A length whose checksum holds. */
static struct records read_length(uint64_t length, const void *behind, size_t len)
{
    uint8_t bytes[64];
    memcpy(bytes, &length, sizeof(length));
    uint32_t sum = coxi_crc32c_masked(coxi_crc32c(0, bytes, sizeof(length)));
    memcpy(bytes + 8, &sum, sizeof(sum));
    memcpy(bytes + 12, behind, len);
    return read_bytes(bytes, 12 + len);
}

TEST(a_length_past_the_files_end_is_an_error)
{
    static const uint64_t lengths[] = {
        5, 6, 1u << 30, (uint64_t)1 << 40, UINT64_MAX - 15, UINT64_MAX};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        struct records records = read_length(lengths[i], "12345678", 8);
        assert_int_equal(COX_EFORMAT, records.code);
        assert_non_null(strstr(records.error, "file:0: "));
        records_free(&records);
    }
}

/* Wherever the file is cut, the damaged record is reported once, and others are read. */
TEST(a_damaged_record_is_left_out_once)
{
    static const char *const expected[] = {"Hello", ""};
    uint8_t bytes[sizeof(golden)];
    struct coxi_task task = records_task(path_of_file(), COX_TFRECORD);
    task.decoding.on_bad_record = COX_BAD_SKIP_RECORD;
    for (size_t flip = SECOND; flip < THIRD; flip++) {
        memcpy(bytes, golden, sizeof(golden));
        bytes[flip] ^= 1;
        coxi_test_write(task.file, bytes, sizeof(bytes));
        for (uint64_t cut = 1; cut < sizeof(golden); cut++) {
            struct records records = {0};
            uint64_t bad = 0;
            for (int part = 0; part < 2; part++) {
                task.begin = part == 0 ? 0 : cut;
                task.end = part == 0 ? cut : UINT64_MAX;
                records_read(&task, &records);
                bad += records.counts.bad;
            }
            records_assert(&records, expected, 2);
            assert_int_equal(1, bad);
            records_free(&records);
        }
    }
}

TEST(ten_thousand_changed_files_are_read_or_refused)
{
    struct coxi_task task = records_task("file", COX_TFRECORD);
    records_mutate(&task, golden, sizeof(golden), MUTATIONS);
}
