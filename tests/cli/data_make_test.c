/* coxswain data generate. */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/cli/data_tool.h"
#include "tests/program.h"

TEST(generate_has_help_and_refuses_unknown_kinds)
{
    data_prints("For example", 0, "generate", "--help");
    data_prints("say: coxswain data", 2, "generate", "boats", "x.txt");
    data_prints("say: coxswain data", 2, "generate", "clicks");
    data_prints("texts come as text, not as csv", 2, "generate", "--format=csv",
                "texts", coxi_test_path("t"));
    data_prints("--records", 2, "generate", "--records=0", "clicks",
                coxi_test_path("c"));
    data_prints("cannot write", 1, "generate", "clicks", coxi_test_path("no/where"));
    data_prints("clicks are written as lines", 2, "generate", "clicks",
                coxi_test_path("c.recordio"));
    data_prints("ratings are written as lines", 2, "generate", "ratings",
                coxi_test_path("r.tfrecord.gz"));
}

/* The number `name` of the JSON that generate printed. */
static double quality(const json_t *root, const char *name)
{
    return json_number_value(json_object_get(root, name));
}

TEST(clicks_have_a_planted_auc)
{
    char *plain = coxi_test_path("plain.libsvm");
    char *pairs = coxi_test_path("pairs.libsvm");
    json_t *a = data_json(0, "generate", "--json", "--records=5000", "clicks", plain);
    json_t *b = data_json(0, "generate", "--json", "--records=5000", "--interactions=1",
                          "clicks", pairs);
    assert_true(quality(a, "planted_auc") > 0.7 && quality(a, "planted_auc") < 0.9);
    assert_true(quality(a, "planted_auc") == quality(a, "planted_auc_without_pairs"));
    assert_true(quality(b, "planted_auc") >
                quality(b, "planted_auc_without_pairs") + 0.1);
    json_t *counts = data_json(0, "count", "--json", plain);
    const json_t *total = json_object_get(counts, "total");
    assert_int_equal(5000, data_integer(total, "records"));
    assert_int_equal(lround(5000 * quality(a, "positive")),
                     data_integer(json_object_get(total, "labels"), "positive"));
    json_decref(a);
    json_decref(b);
    json_decref(counts);
}

TEST(the_same_seed_makes_the_same_bytes)
{
    char *a = coxi_test_path("a.libsvm");
    char *b = coxi_test_path("b.libsvm");
    char *other = coxi_test_path("c.libsvm");
    size_t len;
    free(data_tool(0, "generate", "--records=100", "--seed=5", "clicks", a));
    free(data_tool(0, "generate", "--records=100", "--seed=5", "clicks", b));
    free(data_tool(0, "generate", "--records=100", "--seed=5", "--draw=1", "clicks",
                   other));
    data_assert_same(a, b);
    char *bytes_a = coxi_test_read(a, &len);
    char *bytes_c = coxi_test_read(other, &len);
    assert_string_not_equal(bytes_a, bytes_c);
    free(bytes_a);
    free(bytes_c);
}

TEST(several_files_share_the_records)
{
    free(data_tool(0, "generate", "--format=criteo", "--records=10", "--files=3",
                   "clicks", coxi_test_path("day.tsv.gz")));
    json_t *root = data_json(
        0, "count", "--json", "--format=criteo", coxi_test_path("day-00000.tsv.gz"),
        coxi_test_path("day-00001.tsv.gz"), coxi_test_path("day-00002.tsv.gz"));
    assert_int_equal(10, data_integer(json_object_get(root, "total"), "records"));
    const json_t *files = json_object_get(root, "files");
    assert_int_equal(4, data_integer(json_array_get(files, 0), "records"));
    assert_int_equal(3, data_integer(json_array_get(files, 2), "records"));
    assert_int_equal(0, data_integer(json_object_get(root, "total"), "bad"));
    json_decref(root);
}

TEST(ratings_have_a_planted_noise)
{
    char *csv = coxi_test_path("r.csv");
    char *libsvm = coxi_test_path("r.libsvm");
    json_t *a = data_json(0, "generate", "--json", "--noise=0.5", "ratings", csv);
    assert_true(fabs(quality(a, "planted_rmse") - 0.5) < 0.01);
    assert_true(quality(a, "rmse_of_biases") > 0.8);
    assert_true(quality(a, "rmse_of_mean") > quality(a, "rmse_of_biases"));
    json_decref(a);
    free(
        data_tool(0, "generate", "--format=libsvm", "--records=50", "ratings", libsvm));
    json_t *counts = data_json(0, "count", "--json", libsvm);
    const json_t *total = json_object_get(counts, "total");
    assert_int_equal(100, data_integer(json_object_get(total, "features"), "all"));
    json_decref(counts);
    counts = data_json(0, "count", "--json", "--header", "--column=user:key:integers",
                       "--column=item:key:integers", "--column=rating:label", csv);
    assert_int_equal(100000, data_integer(json_object_get(counts, "total"), "records"));
    json_decref(counts);
}

TEST(texts_are_lines_of_words)
{
    char *path = coxi_test_path("t.txt");
    json_t *root = data_json(0, "generate", "--json", "--records=50", "texts", path);
    assert_int_equal(800, data_integer(root, "words"));
    json_decref(root);
    root = data_json(0, "count", "--json", path);
    const json_t *total = json_object_get(root, "total");
    assert_int_equal(800, data_integer(json_object_get(total, "features"), "all"));
    json_decref(root);
}

static bool is_begun(void *path)
{
    return access(path, F_OK) == 0;
}

TEST(an_interrupted_command_leaves_no_file)
{
    struct program program;
    char *path = coxi_test_path("large.libsvm");
    char *part = coxi_test_path("large.libsvm.part");
    const char *argv[] = {"coxswain", "data", "generate", "--records=1000000000",
                          "clicks",   path,   NULL};
    program_start(&program, argv);
    coxi_test_until(is_begun, part, "the file is not begun");
    program_kill(&program, 2);
    assert_int_equal(256 + 2, program_wait(&program));
    program_assert_printed(&program, "interrupted");
    assert_int_equal(-1, access(path, F_OK));
    assert_int_equal(-1, access(part, F_OK));
}
