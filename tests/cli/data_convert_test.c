/* coxswain data convert and index. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/codec.h"
#include "tests/cli/data_tool.h"
#include "tests/data/recordio_sample.h"
#include "tests/data/records.h"
#include "tests/program.h"

static const char lines[] = "1 1:0.5\n0 2:1\n-1 3:7 4:8\n";

/* Runs the script COXI_TEST_READER; returns its output. */
static char *script(const char *a, const char *b, const char *c)
{
    struct program program;
    const char *argv[] = {"/usr/bin/python3", COXI_TEST_READER, a, b, c, NULL};
    int code = program_run(&program, argv);
    char *output = program_output(&program);
    if (code != 0) {
        fail_msg("%s: %s", a, output);
    }
    return output;
}

/* ---- convert */

TEST(lines_come_back_from_every_format)
{
    static const char *const names[] = {"b.recordio", "b.tfrecord", "b.tfrecord.gz",
                                        "b.txt.gz"};
    static const char *const codecs[] = {"none", "gzip", "snappy"};
    char *from = data_write("a.libsvm", lines);
    char *back = coxi_test_path("back.libsvm");
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < (i == 0 ? 3 : 1); k++) {
            char *to = coxi_test_path(names[i]);
            data_prints("3 records", 0, "convert", "--codec", codecs[k], from, to);
            data_prints("3 records", 0, "convert", to, back);
            data_assert_same(from, back);
        }
    }
}

TEST(a_script_from_the_page_reads_our_recordio_files)
{
    static const char *const codecs[] = {"none", "gzip"};
    char *from = data_write("a.libsvm", lines);
    char *to = coxi_test_path("a.recordio");
    for (size_t i = 0; i < 2; i++) {
        free(data_tool(0, "convert", "--codec", codecs[i], from, to));
        char *output = script("read", to, NULL);
        assert_string_equal("3120313a302e35\n3020323a31\n2d3120333a3720343a38\n",
                            output);
        free(output);
    }
    char *tfrecord = coxi_test_path("a.tfrecord");
    free(data_tool(0, "convert", from, tfrecord));
    char *output = script("tfrecord", tfrecord, NULL);
    assert_string_equal("3120313a302e35\n3020323a31\n2d3120333a3720343a38\n", output);
    free(output);
}

TEST(we_read_recordio_files_of_a_script_from_the_page)
{
    static const char *const codecs[] = {"none", "gzip"};
    char *path = coxi_test_path("script.recordio");
    for (size_t i = 0; i < 2; i++) {
        free(script("write", path, codecs[i]));
        data_prints("4 records in", 0, "verify", path);
        data_prints("12 bytes \"three\\x0alines\\x0a\"", 0, "head", path);
        char *again = coxi_test_path("again.recordio");
        free(data_tool(0, "convert", "--codec=gzip", path, again));
        char *before = script("read", path, NULL);
        char *after = script("read", again, NULL);
        assert_string_equal(before, after);
        free(before);
        free(after);
    }
}

TEST(a_record_with_a_newline_is_no_line)
{
    char *path = coxi_test_path("script.recordio");
    char *out = coxi_test_path("out.txt");
    free(script("write", path, "none"));
    data_prints("script.recordio:", 1, "convert", path, out);
    assert_int_equal(-1, access(out, F_OK));
    assert_int_equal(-1, access(coxi_test_path("out.txt.part"), F_OK));
}

TEST(a_record_that_is_no_line_of_csv_is_named)
{
    static const struct {
        const char *text;
        const char *reason; /* NULL: it is one */
    } all[] = {{"a\nb", "it has a newline"},
               {"\"a\"\r\nb", "it has a newline"},
               {"\"a\"b\nc", "it has a newline"},
               {"x,\"open", "its quotes stay open"},
               {"x,\"two\nlines", "its quotes stay open"},
               {"x,\"two\nlines\"", NULL},
               {"x,\"y\"z", NULL},
               {"", NULL}};
    char *path = coxi_test_path("a.recordio");
    char *out = coxi_test_path("out.csv");
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        const struct sample_record record = {all[i].text, strlen(all[i].text)};
        sample_recordio(path, COXI_CODEC_NONE, 1, &record, 1);
        if (all[i].reason != NULL) {
            char *output = data_tool(1, "convert", path, out);
            assert_non_null(
                strstr(output, "a.recordio:20: the record cannot be a line"));
            assert_non_null(strstr(output, all[i].reason));
            free(output);
            assert_int_equal(-1, access(out, F_OK));
        } else {
            data_prints("1 record", 0, "convert", path, out);
            assert_int_equal(0, unlink(out));
        }
    }
}

TEST(lines_of_tabs_are_records)
{
    char *path = data_write("a.tsv", "\t\t\n1\t2\t3\n\n \n");
    char *back = coxi_test_path("back.tsv");
    data_prints("3 records", 0, "convert", path, coxi_test_path("a.recordio"));
    data_prints("3 records", 0, "convert", coxi_test_path("a.recordio"), back);
    data_prints(": 3 records in", 0, "verify", back);
    path = data_write("a.txt", "\t\t\nword\n \n");
    data_prints("1 record", 0, "convert", path, coxi_test_path("b.recordio"));
}

TEST(lines_of_malformed_csv_are_those_that_steps_see)
{
    char *path = data_write("a.csv", "1,\"x\"y\n2,a\n3,\"b\nc\"z\n\"4\",\"\n\"\n");
    data_prints("5 records", 0, "convert", path, coxi_test_path("a.recordio"));
    data_prints("a.csv:0: text behind", 1, "verify", path);
    data_prints("2 bad places, 3 other records", 1, "verify", path);
    path = data_write("b.csv", "\xef\xbb\xbf\"a\nb\",2\n1,2\n");
    data_prints("2 records", 0, "convert", path, coxi_test_path("a.recordio"));
}

TEST(lines_of_csv_keep_newlines_within_quotes)
{
    char *path = data_write("a.csv", "a,b\n1,\"x\ny\"\n2,5\" z\n3,\"\"\"\n\"\"\"\n");
    char *back = coxi_test_path("back.csv");
    data_prints("4 records", 0, "convert", path, coxi_test_path("a.recordio"));
    data_prints("4 records", 0, "convert", coxi_test_path("a.recordio"), back);
    data_prints("3 records", 0, "convert", "--header", path, back);
}

TEST(an_output_is_no_input)
{
    char *path = data_write("a.txt", "words\n");
    data_prints("is read and written", 2, "convert", path, path);
    data_prints("--codec gzip", 2, "convert", path, coxi_test_path("b.recordio.gz"));
}

TEST(the_part_of_an_output_is_no_input)
{
    char *part = data_write("a.txt.part", "words\n");
    char *same = data_write("same.txt", "words\n");
    char *path = coxi_test_path("a.txt");
    data_prints("is read and written", 2, "convert", "--format=text", part, path);
    data_assert_same(same, part);
}

TEST(a_part_that_a_killed_process_left_is_written_anew)
{
    char *path = data_write("a.txt", "words\n");
    char *left = data_write("b.txt.part", "many more words\n");
    char *to = coxi_test_path("b.txt");
    data_prints("1 record", 0, "convert", path, to);
    data_assert_same(path, to);
    assert_int_not_equal(0, access(left, F_OK));
}

/* For lines and for RecordIO, whose writers differ. */
TEST(a_part_that_is_no_file_or_is_being_written_is_left_alone)
{
    static const char *const names[] = {"b.txt", "b.recordio"};
    char *path = data_write("a.txt", "words\n");
    char *target = data_write("target.txt", "kept\n");
    char *same = data_write("same.txt", "kept\n");
    for (size_t i = 0; i < 2; i++) {
        char *to = coxi_test_path(names[i]);
        char part[PATH_MAX];
        (void)snprintf(part, sizeof(part), "%s.part", to);
        assert_int_equal(0, symlink(target, part));
        data_prints("no regular file", 2, "convert", path, to);
        assert_int_equal(0, unlink(part));
        assert_int_equal(0, mkfifo(part, 0600));
        data_prints("no regular file", 2, "convert", path, to);
        assert_int_equal(0, unlink(part));
        int fd = open(part, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_int_equal(0, flock(fd, LOCK_EX));
        data_prints("by another process", 1, "convert", path, to);
        assert_int_equal(0, access(part, F_OK));
        assert_int_equal(0, close(fd));
        assert_int_not_equal(0, access(to, F_OK));
    }
    data_assert_same(same, target);
}

TEST(an_output_that_is_no_file_is_left_alone)
{
    char *path = data_write("a.txt", "words\n");
    char *target = data_write("target.txt", "kept\n");
    char *same = data_write("same.txt", "kept\n");
    char *link = coxi_test_path("link.txt");
    char *pipe = coxi_test_path("pipe.txt");
    struct stat st;
    assert_int_equal(0, symlink(target, link));
    assert_int_equal(0, mkfifo(pipe, 0600));
    data_prints("no regular file", 2, "convert", path, link);
    data_prints("no regular file", 2, "convert", path, pipe);
    data_prints("no regular file", 2, "shard", "--files=1", path, pipe);
    data_prints("no regular file", 2, "generate", "--records=1", "clicks", pipe);
    assert_int_equal(0, lstat(link, &st));
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(0, lstat(pipe, &st));
    assert_true(S_ISFIFO(st.st_mode));
    data_assert_same(same, target);
}

TEST(addresses_are_not_written)
{
    char *path = data_write("a.txt", "words\n");
    data_prints("only files can be written", 2, "convert", path,
                "http://127.0.0.1/b.txt");
    data_prints("only files can be written", 2, "generate", "texts", "s3://b/c.txt");
    data_prints("written beside a file", 2, "index", "http://127.0.0.1/a.libsvm");
}

/* ---- index */

/* Cuts the file at every byte, and asserts that the parts have the records of the whole
 * one. */
static void assert_cuts(const char *path, uint32_t format, size_t step)
{
    struct stat st;
    struct records whole = {0};
    struct coxi_task task = records_task(path, format);
    records_read(&task, &whole);
    assert_int_equal(0, stat(path, &st));
    for (uint64_t cut = 1; cut < (uint64_t)st.st_size; cut += step) {
        struct records parts = {0};
        records_read_cut(&task, &cut, 1, &parts);
        records_assert_same(&whole, &parts);
        records_free(&parts);
    }
    records_free(&whole);
}

static int code_of_cut(const char *path, uint32_t format, uint64_t cut)
{
    struct records parts = {0};
    struct coxi_task task = records_task(path, format);
    records_read_cut(&task, &cut, 1, &parts);
    int code = parts.code;
    records_free(&parts);
    return code;
}

TEST(files_within_records_need_an_index)
{
    static const char *const every[] = {"1", "3", "1000"};
    uint64_t rng = 3;
    char *path = coxi_test_path("nested.recordio");
    size_t refused = 0;
    sample_recordio_random(path, &rng, 40, 1);
    struct stat st;
    assert_int_equal(0, stat(path, &st));
    for (uint64_t cut = 1; cut < (uint64_t)st.st_size; cut += 37) {
        refused += code_of_cut(path, COX_RECORDIO, cut) == COX_EFORMAT;
    }
    assert_true(refused > 0);
    for (size_t i = 0; i < 3; i++) {
        data_prints("40 records", 0, "index", "--every", every[i], path);
        assert_cuts(path, COX_RECORDIO, 131);
    }
}

TEST(an_index_serves_tfrecord_files)
{
    uint64_t rng = 4;
    char *recordio = coxi_test_path("a.recordio");
    char *path = coxi_test_path("a.tfrecord");
    sample_recordio_random(recordio, &rng, 60, 0);
    free(data_tool(0, "convert", recordio, path));
    data_prints("60 records, 12 entries", 0, "index", "--every=5", path);
    assert_cuts(path, COX_TFRECORD, 307);
}

TEST(an_index_of_a_changed_file_does_not_count)
{
    static const struct sample_record records[] = {{"one", 3}, {"two", 3}};
    char *path = coxi_test_path("a.recordio");
    char *index = coxi_test_path("a.recordio.coxi");
    uint64_t rng = 6;
    sample_recordio_random(path, &rng, 50, 0);
    data_prints("50 records", 0, "index", path);
    sample_recordio(path, COXI_CODEC_NONE, 8, records, 2);
    assert_cuts(path, COX_RECORDIO, 3);
    free(data_tool(0, "index", path));
    size_t len;
    char *bytes = coxi_test_read(index, &len);
    bytes[9] ^= 1;
    coxi_test_write(index, bytes, len);
    free(bytes);
    struct records parts = {0};
    struct coxi_task task = records_task(path, COX_RECORDIO);
    uint64_t cut = 5;
    records_read_cut(&task, &cut, 1, &parts);
    assert_int_equal(COX_EFORMAT, parts.code);
    assert_non_null(strstr(parts.error, "a.recordio.coxi:0: the index is damaged"));
    records_free(&parts);
}

TEST(verify_checks_the_sums_of_an_index)
{
    size_t len;
    struct stat st;
    char *path = data_write("a.txt", "one\ntwo\nthree\nfour\n");
    data_prints("4 records, 4 entries", 0, "index", "--every=1", path);
    data_prints("4 records in", 0, "verify", path);
    assert_int_equal(0, stat(path, &st));
    char *bytes = coxi_test_read(coxi_test_path("a.txt.coxi"), &len);
    bytes[len - 5] ^= 1; /* the last entry's own checksum is behind its sum */
    coxi_test_write(coxi_test_path("a.txt.coxi"), bytes, len);
    free(bytes);
    data_prints("a.txt.coxi:", 1, "verify", path);
    (void)data_write("a.txt", "one\ntwo\nthree\nfour\nfive\n");
    data_prints("a.txt.coxi: the file has changed since", 1, "verify", path);
    (void)data_write("a.txt", "one\ntwo\nthree\nfour\n");
    data_prints("4 records, 4 entries", 0, "index", "--every=1", path);
    /* a changed byte behind the head that the mark knows, at the same time */
    char *large = calloc(1, 10000);
    memset(large, 'x', 9999);
    path = data_write("large.txt", large);
    assert_int_equal(0, stat(path, &st));
    free(data_tool(0, "index", path));
    large[9000] = 'y';
    path = data_write("large.txt", large);
    free(large);
    const struct timespec times[2] = {st.st_atim, st.st_mtim};
    assert_int_equal(0, utimensat(AT_FDCWD, path, times, 0));
    data_prints("large.txt:0: the bytes from here", 1, "verify", path);
}

TEST(an_index_needs_a_whole_plain_file)
{
    char *bad = data_write("bad.recordio", "no chunk is here at all");
    data_prints("bad.recordio:0: ", 1, "index", bad);
    assert_int_equal(-1, access(coxi_test_path("bad.recordio.coxi"), F_OK));
    free(data_tool(0, "convert", data_write("a.txt", "words\n"),
                   coxi_test_path("a.txt.gz")));
    data_prints("needs no index", 2, "index", coxi_test_path("a.txt.gz"));
}
