/* coxswain data head, count, verify. */
#include <stdio.h>
#include <unistd.h>
#include <zlib.h>

#include "data/codec.h"
#include "tests/cli/data_tool.h"
#include "tests/data/recordio_sample.h"

static const char lines[] = "1 1:0.5 7:2\n0 3:1\n-1\n";

TEST(every_data_command_has_help_and_refuses_unknown_options)
{
    static const char *const commands[] = {"head",    "count", "verify",  "index",
                                           "convert", "shard", "generate"};
    for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
        data_prints("For example", 0, commands[i], "--help");
        data_prints("--oars", 2, commands[i], "--oars");
        data_prints("say: coxswain data", 2, commands[i]);
    }
    data_prints("verify", 0, "--help");
    data_prints("no command 'sail'", 2, "sail");
}

TEST(formats_are_guessed_from_names_or_named)
{
    data_prints("label 1  2 features 1:0.5 7:2", 0, "head",
                data_write("a.libsvm", lines));
    char *plain = data_write("plain", lines);
    data_prints("plain: its name does not tell the format", 2, "head", plain);
    data_prints("label 1", 0, "head", "--format", "libsvm", plain);
    data_prints("--format takes one of", 2, "head", "--format", "arrow", plain);
    data_prints("missing.txt: No such file", 1, "head", coxi_test_path("missing.txt"));
}

TEST(head_prints_so_many_records_with_their_offsets)
{
    char *path = data_write("a.libsvm", lines);
    char *output = data_tool(0, "head", "--records=2", path);
    assert_string_equal(output, "           0  label 1  2 features 1:0.5 7:2\n"
                                "          12  label 0  1 feature 3:1\n");
    free(output);
    data_prints("3 bytes \"0 x\"", 0, "head", "--raw", data_write("b.libsvm", "0 x\n"));
    data_prints("b.libsvm:0: ", 1, "head", coxi_test_path("b.libsvm"));
}

TEST(head_prints_any_byte_as_text)
{
    static const struct sample_record records[] = {{"a\"\\\n\xff", 5}, {"", 0}};
    char *path = coxi_test_path("a.recordio");
    sample_recordio(path, COXI_CODEC_SNAPPY, 0, records, 2);
    data_prints("5 bytes \"a\\\"\\\\\\x0a\\xff\"", 0, "head", path);
    data_prints("0 bytes \"\"", 0, "head", path);
    data_prints("\"hex\":\"61225c0aff\"", 0, "head", "--json", path);
}

TEST(count_sums_up_records_labels_and_features)
{
    char *path = data_write("a.libsvm", lines);
    char *other = data_write("b.libsvm", "4 1:1 2:1 3:1 4:1\nbad\n");
    json_t *root = data_json(0, "count", "--json", path, other);
    const json_t *total = json_object_get(root, "total");
    assert_int_equal(4, data_integer(total, "records"));
    assert_int_equal(1, data_integer(total, "bad"));
    assert_int_equal(sizeof(lines) - 1 + 22, data_integer(total, "bytes"));
    const json_t *features = json_object_get(total, "features");
    assert_int_equal(0, data_integer(features, "least"));
    assert_int_equal(4, data_integer(features, "most"));
    assert_int_equal(7, data_integer(features, "all"));
    const json_t *labels = json_object_get(total, "labels");
    assert_int_equal(2, data_integer(labels, "positive"));
    assert_true(json_real_value(json_object_get(labels, "average")) == 1);
    assert_true(json_real_value(json_object_get(labels, "least")) == -1);
    json_decref(root);
    data_prints("total", 0, "count", path, other);
}

TEST(compressed_files_are_counted)
{
    char *path = coxi_test_path("a.txt.gz");
    gzFile file = gzopen(path, "wb");
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(8, gzwrite(file, "two one\n", 8));
    }
    assert_int_equal(Z_OK, gzclose(file));
    json_t *root = data_json(0, "count", "--json", path);
    const json_t *total = json_object_get(root, "total");
    assert_int_equal(1000, data_integer(total, "records"));
    assert_int_equal(2000, data_integer(json_object_get(total, "features"), "all"));
    json_decref(root);
    assert_int_equal(0, truncate(path, 30));
    data_prints("a.txt.gz:", 1, "count", path);
    data_prints("a.txt.gz:", 1, "verify", path);
}

TEST(verify_names_every_bad_place)
{
    char *good = data_write("a.libsvm", lines);
    data_prints("3 records in", 0, "verify", good);
    char *bad = data_write("b.libsvm", "1 1:1\nx\n0 2:2\n0 4\n");
    data_prints("b.libsvm:6: ", 1, "verify", good, bad);
    data_prints("b.libsvm:14: ", 1, "verify", good, bad);
    data_prints("2 bad places, 2 other records", 1, "verify", bad);
}

TEST(verify_finds_damaged_chunks)
{
    uint64_t rng = 5;
    size_t len;
    char *path = coxi_test_path("a.recordio");
    sample_recordio_random(path, &rng, 300, 0);
    data_prints("300 records in", 0, "verify", path);
    char *bytes = coxi_test_read(path, &len);
    bytes[25] ^= 1;
    bytes[len - 1] ^= 1;
    coxi_test_write(path, bytes, len);
    free(bytes);
    char *output = data_tool(1, "verify", "--json", path);
    *strchr(output, '\n') = '\0';
    json_t *root = data_tool_json(output);
    const json_t *file = json_array_get(json_object_get(root, "files"), 0);
    const json_t *places = json_object_get(file, "bad");
    assert_int_equal(2, json_array_size(places));
    assert_int_equal(0, data_integer(json_array_get(places, 0), "offset"));
    assert_true(data_integer(json_array_get(places, 1), "offset") > 0);
    assert_true(data_integer(file, "records") < 300);
    json_decref(root);
}

TEST(columns_are_options)
{
    char *path = data_write("a.csv", "x,y\n1,2\n");
    data_prints("--column x:number: say NAME:KIND", 2, "head", "--column", "x:number",
                path);
    data_prints("'size=3' is none of", 2, "head", "--column=x:dense:size=3", path);
    data_prints("3 bytes \"1,2\"", 0, "head", "--header", path);
    data_prints("--column is for csv", 2, "head", "--column", "x:label",
                data_write("a.libsvm", "1 2:3\n"));
}
