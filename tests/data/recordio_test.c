/* RecordIO: PaddlePaddle's bytes, codecs, cuts, and damage. */
#include <stdio.h>

#include "common/crc.h"
#include "common/rand.h"
#include "coxswain/dataset.h"
#include "data/codec.h"
#include "data/recordio.h"
#include "data/recordio_write.h"
#include "tests/data/recordio_sample.h"
#include "tests/data/records.h"
#include "tests/test.h"

static const uint8_t golden[] = {
    0x04, 0x03, 0x02, 0x01, 0x83, 0x7e, 0x47, 0x59, 0x00, 0x00, 0x00, 0x00, 0x13,
    0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x48, 0x65,
    0x6c, 0x6c, 0x6f, 0x06, 0x00, 0x00, 0x00, 0x57, 0x6f, 0x72, 0x6c, 0x64, 0x21};

static const struct sample_record hello[] = {{"Hello", 5}, {"World!", 6}};

static struct records read_bytes(const void *bytes, size_t len)
{
    struct records records = {0};
    char *path = coxi_test_path("file");
    struct coxi_task task = records_task(path, COX_RECORDIO);
    coxi_test_write(path, bytes, len);
    records_read(&task, &records);
    return records;
}

TEST(golden_bytes_are_read)
{
    static const char *const expected[] = {"Hello", "World!"};
    struct records records = read_bytes(golden, sizeof(golden));
    records_assert(&records, expected, 2);
    assert_int_equal(sizeof(golden), records.counts.bytes);
    records_free(&records);
}

TEST(golden_bytes_are_written)
{
    char *path = coxi_test_path("file");
    size_t len;
    sample_recordio(path, COXI_CODEC_NONE, 0, hello, 2);
    char *bytes = coxi_test_read(path, &len);
    assert_int_equal(sizeof(golden), len);
    assert_memory_equal(golden, bytes, len);
    free(bytes);
}

TEST(empty_files_and_empty_records_are_valid)
{
    static const struct sample_record empty[] = {{"", 0}, {"x", 1}, {"", 0}};
    static const char *const expected[] = {"", "x", ""};
    struct records records = read_bytes("", 0);
    records_assert(&records, NULL, 0);
    for (uint32_t codec = 0; codec < 3; codec++) {
        struct records some = {0};
        char *path = coxi_test_path("file");
        struct coxi_task task = records_task(path, COX_RECORDIO);
        sample_recordio(path, codec, 1, empty, 3);
        records_read(&task, &some);
        records_assert(&some, expected, 3);
        records_free(&some);
    }
}

/* Long enough that a chunk has several frames of Snappy, and that zlib's output grows. */
TEST(codecs_give_the_bytes_back)
{
    enum { LEN = 600000 };
    uint64_t rng = 1;
    uint8_t *bytes = calloc(1, LEN);
    assert_non_null(bytes);
    for (size_t i = 0; i < LEN / 4; i++) { /* the rest are zeros */
        bytes[i] = (uint8_t)coxi_rand(&rng);
    }
    for (uint32_t codec = 0; codec < 3; codec++) {
        char *path = coxi_test_path("file");
        struct records records = {0};
        struct coxi_task task = records_task(path, COX_RECORDIO);
        const struct sample_record one[] = {{bytes, LEN}, {bytes, 7}};
        struct records plain = {0};
        sample_recordio(path, COXI_CODEC_NONE, 0, one, 2);
        records_read(&task, &plain);
        assert_int_equal(2, plain.n);
        sample_recordio(path, codec, 0, one, 2);
        records_read(&task, &records);
        records_assert_same(&plain, &records);
        records_free(&records);
        records_free(&plain);
    }
    free(bytes);
}

/* ---- cuts */

enum { ROUNDS = 40 };

static size_t length_of(const char *path)
{
    size_t len;
    free(coxi_test_read(path, &len));
    return len;
}

TEST(cut_files_have_every_record_once)
{
    uint64_t rng = 3;
    char *path = coxi_test_path("file");
    struct coxi_task task = records_task(path, COX_RECORDIO);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t cuts[20];
        struct records whole = {0};
        struct records parts = {0};
        sample_recordio_random(path, &rng, 100, 0);
        size_t n = records_cuts(&rng, length_of(path), cuts, 20);
        records_read(&task, &whole);
        assert_int_equal(100, whole.n);
        records_read_cut(&task, cuts, n, &parts);
        records_assert_same(&whole, &parts);
        records_free(&whole);
        records_free(&parts);
    }
}

/* A boundary inside a record that is a RecordIO file itself is never silently wrong. */
TEST(records_within_records_are_right_or_an_error)
{
    uint64_t rng = 4;
    int refused = 0;
    char *path = coxi_test_path("file");
    struct coxi_task task = records_task(path, COX_RECORDIO);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t cuts[6];
        struct records whole = {0};
        struct records parts = {0};
        sample_recordio_random(path, &rng, 100, 1);
        size_t n = records_cuts(&rng, length_of(path), cuts, 6);
        records_read(&task, &whole);
        assert_int_equal(100, whole.n);
        records_read_cut(&task, cuts, n, &parts);
        if (parts.code == COX_EEOF) {
            records_assert_same(&whole, &parts);
        } else {
            assert_int_equal(COX_EFORMAT, parts.code);
            assert_non_null(strstr(parts.error, "coxswain data index"));
            refused++;
        }
        records_free(&whole);
        records_free(&parts);
    }
    assert_true(refused > 5);
    assert_true(refused < ROUNDS);
}

/* ---- damage */

TEST(each_flipped_byte_and_each_shorter_file_is_an_error)
{
    uint8_t bytes[sizeof(golden)];
    for (size_t i = 0; i < sizeof(golden); i++) {
        memcpy(bytes, golden, sizeof(golden));
        bytes[i] ^= 0x41;
        struct records flipped = read_bytes(bytes, sizeof(golden));
        assert_true(flipped.code == COX_EFORMAT || flipped.code == COX_ECHECKSUM);
        assert_non_null(strstr(flipped.error, "file:"));
        records_free(&flipped);
        struct records cut = read_bytes(golden, i);
        assert_int_equal(i > 0 ? COX_EFORMAT : COX_EEOF, cut.code);
        records_free(&cut);
    }
}

/* Three chunks of one record each; `damage` flips a byte. */
static void three_chunks(const char *path, size_t flip)
{
    static const struct sample_record three[] = {
        {"first", 5}, {"other", 5}, {"third", 5}};
    size_t len;
    sample_recordio(path, COXI_CODEC_NONE, 1, three, 3);
    char *bytes = coxi_test_read(path, &len);
    assert_int_equal(87, len); /* three of 29 */
    bytes[flip] ^= 1;
    coxi_test_write(path, bytes, len);
    free(bytes);
}

TEST(a_damaged_chunk_can_be_left_out)
{
    static const char *const expected[] = {"first", "third"};
    char *path = coxi_test_path("file");
    struct coxi_task task = records_task(path, COX_RECORDIO);
    task.decoding.on_bad_record = COX_BAD_SKIP_RECORD;
    for (size_t flip = 29; flip < 58; flip++) {
        struct records records = {0};
        three_chunks(path, flip);
        records_read(&task, &records);
        if (flip >= 45 && flip < 49) { /* the number of records has no checksum */
            records_free(&records);
            continue;
        }
        records_assert(&records, expected, 2);
        assert_int_equal(1, records.counts.bad);
        assert_int_equal(29, records.counts.first_bad[0]);
        records_free(&records);
    }
}

/* Wherever the file is cut, the damaged chunk is reported once, and others are read. */
TEST(a_damaged_chunk_at_a_cut_is_reported_once)
{
    static const char *const expected[] = {"first", "third"};
    char *path = coxi_test_path("file");
    struct coxi_task task = records_task(path, COX_RECORDIO);
    task.decoding.on_bad_record = COX_BAD_SKIP_RECORD;
    three_chunks(path, 55);
    for (uint64_t a = 1; a < 87; a++) {
        struct records records = {0};
        uint64_t bad = 0;
        for (int part = 0; part < 2; part++) {
            task.begin = part == 0 ? 0 : a;
            task.end = part == 0 ? a : UINT64_MAX;
            records_read(&task, &records);
            bad += records.counts.bad;
        }
        records_assert(&records, expected, 2);
        assert_int_equal(1, bad);
        records_free(&records);
    }
}

TEST(a_damaged_chunk_at_a_cut_fails_one_task)
{
    char *path = coxi_test_path("file");
    three_chunks(path, 55);
    for (uint64_t a = 1; a < 87; a++) {
        int failed = 0;
        for (int part = 0; part < 2; part++) {
            struct records records = {0};
            struct coxi_task task = records_task(path, COX_RECORDIO);
            task.begin = part == 0 ? 0 : a;
            task.end = part == 0 ? a : UINT64_MAX;
            records_read(&task, &records);
            failed += records.code != COX_EEOF;
            assert_true(records.code == COX_EEOF ||
                        strstr(records.error, "file:29: ") != NULL);
            records_free(&records);
        }
        assert_int_equal(1, failed);
    }
}

enum { CHUNKS = 6, CHUNK = 29 };

/* CHUNKS chunks of one record each, those of `damaged` with a flipped byte. */
static void many_chunks(const char *path, unsigned damaged)
{
    static const struct sample_record all[] = {{"first", 5}, {"secon", 5},
                                               {"third", 5}, {"forth", 5},
                                               {"fifth", 5}, {"sixth", 5}};
    size_t len;
    sample_recordio(path, COXI_CODEC_NONE, 1, all, CHUNKS);
    char *bytes = coxi_test_read(path, &len);
    assert_int_equal(CHUNKS * CHUNK, len);
    for (size_t i = 0; i < CHUNKS; i++) {
        bytes[i * CHUNK + CHUNK - 2] ^= (char)(damaged >> i & 1);
    }
    coxi_test_write(path, bytes, len);
    free(bytes);
}

/* Reads the file as three tasks; returns the number of bad records. */
static uint64_t read_three(struct coxi_task *task, uint64_t a, uint64_t b,
                           struct records *records)
{
    const uint64_t cuts[] = {0, a, b, UINT64_MAX};
    uint64_t bad = 0;
    for (int part = 0; part < 3; part++) {
        task->begin = cuts[part];
        task->end = cuts[part + 1];
        records_read(task, records);
        bad += records->counts.bad;
    }
    return bad;
}

TEST(damaged_neighbours_at_cuts_are_reported_once_each)
{
    static const unsigned sets[] = {0x06, 0x0e, 0x1e, 0x3e, 0x07, 0x30, 0x3f, 0x16};
    char *path = coxi_test_path("file");
    for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
        struct records whole = {0};
        struct coxi_task task = records_task(path, COX_RECORDIO);
        task.decoding.on_bad_record = COX_BAD_SKIP_RECORD;
        many_chunks(path, sets[i]);
        records_read(&task, &whole);
        uint64_t bad = whole.counts.bad;
        assert_int_equal(__builtin_popcount(sets[i]), bad);
        for (uint64_t a = 1; a < CHUNKS * CHUNK; a += 14) {
            for (uint64_t b = a + 1; b < CHUNKS * CHUNK; b += 14) {
                struct records parts = {0};
                assert_int_equal(bad, read_three(&task, a, b, &parts));
                records_assert_same(&whole, &parts);
                records_free(&parts);
            }
        }
        records_free(&whole);
    }
}

/* A chunk whose checksum holds. */
static struct records read_chunk(uint32_t codec, uint32_t n, const void *payload,
                                 uint32_t len)
{
    uint8_t bytes[256];
    const struct coxi_recordio_head head = {COXI_RECORDIO_MAGIC,
                                            coxi_crc32(0, payload, len), codec, len, n};
    memcpy(bytes, &head, sizeof(head));
    memcpy(bytes + sizeof(head), payload, len);
    return read_bytes(bytes, sizeof(head) + len);
}

TEST(a_chunk_that_lies_about_its_records_is_an_error)
{
    static const struct {
        uint32_t codec;
        uint32_t n;
        const char *payload;
        uint32_t len;
        const char *reason;
    } cases[] = {
        {0, 1, "\5\0\0\0abcd", 8, "file:20: a record reaches past its chunk's end"},
        {0, 1, "\377\377\377\377", 4, "file:20: a record reaches past"},
        {0, 2, "\4\0\0\0abcd", 8, "file:28: a record reaches past"},
        {0, 1, "\1\0\0\0abcd", 8, "file:25: a chunk has bytes behind its last record"},
        {0, 0, "abcd", 4, "file:20: a chunk has bytes behind"},
        {0, 2, "\0\0\0\0", 4, "file:0: no header"},
        {3, 0, "", 0, "file:0: no header"},
        {1, 1, "abcd", 4, "file:0: its Snappy frames: no identifier"},
        {2, 1, "abcd", 4, "file:0: its gzip data"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct records records =
            read_chunk(cases[i].codec, cases[i].n, cases[i].payload, cases[i].len);
        if (records.code != COX_EFORMAT ||
            strstr(records.error, cases[i].reason) == NULL) {
            fail_msg("%zu: %d, %s", i, records.code, records.error);
        }
        records_free(&records);
    }
}

TEST(an_abandoned_file_does_not_appear)
{
    struct coxi_recordio_writer *writer;
    char *path = coxi_test_path("gone");
    assert_code(0, coxi_recordio_create(path, COXI_CODEC_NONE, 0, &writer));
    assert_code(0, coxi_recordio_add(writer, "x", 1));
    assert_code(COX_ELIMIT, coxi_recordio_add(writer, "x", (size_t)1 << 32));
    coxi_recordio_abandon(writer);
    assert_null(fopen(path, "re"));
    assert_null(fopen(coxi_test_path("gone.part"), "re"));
    assert_code(COX_EIO,
                coxi_recordio_create(coxi_test_path("no/file"), 0, 0, &writer));
}
