/* libsvm and libffm files through readers. */
#include <inttypes.h>
#include <stdio.h>
#include <zlib.h>

#include "common/rand.h"
#include "coxswain/dataset.h"
#include "tests/data/records.h"
#include "tests/test.h"

enum { MANY = 300 };

static char *write_text(const char *name, const char *text)
{
    char *path = coxi_test_path(name);
    coxi_test_write(path, text, strlen(text));
    return path;
}

static struct records read_text(uint32_t format, const char *text)
{
    struct records records = {0};
    struct coxi_task task = records_task(write_text("file", text), format);
    records_read(&task, &records);
    return records;
}

TEST(libsvm_lines_become_records)
{
    static const char *const expected[] = {
        "1 7:0.5 3:-2 18446744073709551615:1000",
        "-1",
        "0.25 0:1",
        "1 5:1 6:2",
        "0 1:1",
    };
    struct records records =
        read_text(COX_LIBSVM, "+1 7:0.5 3:-2.0 18446744073709551615:1e3 # a comment\n"
                              "-1\n"
                              "\n"
                              "# no record\r\n"
                              "  .25\t0:1 \r\n"
                              "1 qid:12 5:1. 6:+2\n"
                              "0 1:1");
    records_assert(&records, expected, 5);
    assert_int_equal(5, records.counts.records);
    assert_int_equal(0, records.counts.bad);
    records_free(&records);
}

TEST(libffm_lines_become_records)
{
    static const char *const expected[] = {"1 0:7:0.5 4294967295:3:-2", "0 1:2:3"};
    struct records records =
        read_text(COX_LIBFFM, "1 0:7:0.5 4294967295:3:-2\n0 1:2:3\n");
    records_assert(&records, expected, 2);
    records_free(&records);
}

TEST(a_malformed_line_is_named_by_its_offset)
{
    static const char *const bad[] = {
        "x 1:1",    "1 1:1 2", "1 1:1 2:",
        "1 :1",     "1 1:x",   "1 1:1,2:2",
        "1 1 :1",   "nan 1:1", "1 1:inf",
        "1 1:1e99", "1 -1:1",  "1 1:0x10",
        "1 1:1:1",  "--1 1:1", "1 1:1\0012:1",
        "1e 1:1",   "1 1:.",   "1 1:1 qid:",
        "1:1",      "+ 1:1",   "1 18446744073709551616:1",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char text[128];
        (void)snprintf(text, sizeof(text), "1 2:3\n%s\n0 4:5\n", bad[i]);
        struct records records = read_text(COX_LIBSVM, text);
        if (records.code != COX_EFORMAT || strstr(records.error, "file:6: ") == NULL) {
            fail_msg("'%s': %d, %s", bad[i], records.code, records.error);
        }
        assert_int_equal(1, records.n);
        records_free(&records);
    }
}

TEST(malformed_lines_can_be_left_out)
{
    static const char *const expected[] = {"1 2:3", "0 4:5", "0 6:7"};
    struct records records = {0};
    struct coxi_task task = records_task(
        write_text("file", "1 2:3\nx\n0 4:5\n0 4\n0 4:5:6\n0 6:7\n"), COX_LIBSVM);
    task.decoding.on_bad_record = COX_BAD_SKIP_RECORD;
    records_read(&task, &records);
    records_assert(&records, expected, 3);
    assert_int_equal(3, records.counts.bad);
    assert_int_equal(6, records.counts.first_bad[0]);
    assert_int_equal(14, records.counts.first_bad[1]);
    assert_int_equal(18, records.counts.first_bad[2]);
    assert_string_equal("byte 1 of the line: no label, or none that is finite",
                        records.counts.first_reason);
    records_free(&records);
}

/* Lines of many lengths, some of them empty, some longer than a piece of the file. */
static char *many_lines(uint64_t *rng, bool long_ones)
{
    char *text;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    for (size_t i = 0; i < MANY; i++) {
        size_t n = coxi_rand(rng) % 8;
        n = long_ones && coxi_rand(rng) % 64 == 0 ? 40000 : n;
        (void)fprintf(out, "%zu", i);
        for (size_t j = 0; j < n; j++) {
            (void)fprintf(out, " %" PRIu64 ":0.%u", coxi_rand(rng) % 1000000,
                          (unsigned)j);
        }
        (void)fputs(coxi_rand(rng) % 4 == 0 ? "\n\n" : "\n", out);
    }
    (void)fclose(out);
    return text;
}

/* Any cuts: every record is read once, in order. */
TEST(cut_files_have_every_record_once)
{
    uint64_t rng = 1;
    for (int round = 0; round < 60; round++) {
        uint64_t cuts[20];
        struct records whole = {0};
        struct records parts = {0};
        char *text = many_lines(&rng, round == 0);
        struct coxi_task task = records_task(write_text("file", text), COX_LIBSVM);
        size_t n = records_cuts(&rng, strlen(text), cuts, 20);
        records_read(&task, &whole);
        assert_int_equal(MANY, whole.n);
        records_read_cut(&task, cuts, n, &parts);
        records_assert_same(&whole, &parts);
        records_free(&whole);
        records_free(&parts);
        free(text);
    }
}

TEST(each_byte_can_be_a_cut)
{
    static const char text[] = "1 1:1\n\n0 2:2 3:3\r\n\n1 4:4\n0";
    struct coxi_task task = records_task(coxi_test_path("file"), COX_LIBSVM);
    records_assert_cuts(&task, text, strlen(text), 4);
}

/* ---- compressed */

static void write_gz(const char *path, const char *mode, const char *text, size_t len)
{
    gzFile file = gzopen(path, mode);
    assert_non_null(file);
    assert_int_equal(len, gzwrite(file, text, (unsigned)len));
    assert_int_equal(Z_OK, gzclose(file));
}

TEST(compressed_files_are_inflated_member_by_member)
{
    uint64_t rng = 2;
    char *text = many_lines(&rng, true);
    size_t len = strlen(text);
    struct records plain = {0};
    struct records inflated = {0};
    struct coxi_task task = records_task(write_text("file", text), COX_LIBSVM);
    records_read(&task, &plain);
    char *path = coxi_test_path("file.gz");
    write_gz(path, "wb", text, len / 3);
    write_gz(path, "ab", text + len / 3, 0);
    write_gz(path, "ab", text + len / 3, len - len / 3);
    task.file = path;
    records_read(&task, &inflated);
    records_assert_same(&plain, &inflated);
    records_free(&inflated);
    free(text);
    records_free(&plain);
}

TEST(a_damaged_compressed_file_is_an_error)
{
    static const char text[] = "1 1:1\n0 2:2\n";
    char *path = coxi_test_path("file.gz");
    write_gz(path, "wb", text, strlen(text));
    size_t len;
    char *bytes = coxi_test_read(path, &len);
    struct coxi_task task = records_task(path, COX_LIBSVM);
    for (size_t i = 0; i < len; i++) {
        struct records records = {0};
        coxi_test_write(path, bytes, i);
        records_read(&task, &records);
        assert_int_equal(COX_EFORMAT, records.code);
        assert_non_null(strstr(records.error, "file.gz:"));
        records_free(&records);
    }
    for (size_t i = len - 8; i < len; i++) { /* its checksum and length */
        struct records records = {0};
        bytes[i] ^= 1;
        coxi_test_write(path, bytes, len);
        bytes[i] ^= 1;
        records_read(&task, &records);
        assert_int_equal(COX_EFORMAT, records.code);
        records_free(&records);
    }
    free(bytes);
}

TEST(a_compressed_file_is_not_cut)
{
    struct records records = {0};
    char *path = coxi_test_path("file.gz");
    write_gz(path, "wb", "1\n", 2);
    struct coxi_task task = records_task(path, COX_LIBSVM);
    task.begin = 1;
    records_read(&task, &records);
    assert_int_equal(COX_EINVAL, records.code);
    assert_non_null(strstr(records.error, "file.gz"));
}
