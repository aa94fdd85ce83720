/* coxswain checkpoint list, show, verify, diff, prune, export, on checkpoints made by
 * hand. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "common/file.h"
#include "tests/checkpoint/sample.h"
#include "tests/loaded.h"
#include "tests/objects/fake_s3.h"
#include "tests/program.h"
#include "tests/test.h"

enum { ROWS = 6 };

static void write_some(const char *dir, uint64_t first, uint64_t last)
{
    for (uint64_t n = first; n <= last; n++) {
        sample_write(
            dir,
            &(struct sample){
                .run = 1, .number = n, .n_ps = 3, .n_rows = ROWS, .plus = (float)n});
    }
}

/* Runs `coxswain checkpoint` with these arguments; returns its output, for free(). */
static char *tool(int code, const char *a, const char *b, const char *c, const char *d,
                  const char *e)
{
    struct program program;
    const char *argv[] = {"coxswain", "checkpoint", a, b, c, d, e, NULL};
    int found = program_run(&program, argv);
    char *output = program_output(&program);
    if (found != code) {
        fail_msg("%s exited with %d, not %d: %s", a, found, code, output);
    }
    return output;
}

static void assert_prints(const char *part, int code, const char *a, const char *b,
                          const char *c, const char *d, const char *e)
{
    char *output = tool(code, a, b, c, d, e);
    if (strstr(output, part) == NULL) {
        fail_msg("'%s' is not in: %s", part, output);
    }
    free(output);
}

static json_t *tool_json(int code, const char *a, const char *b, const char *c,
                         const char *d)
{
    char *output = tool(code, a, "--json", b, c, d);
    json_t *root = json_loads(output, JSON_DISABLE_EOF_CHECK, NULL);
    if (root == NULL) {
        fail_msg("no JSON: %s", output);
    }
    free(output);
    return root;
}

static const json_t *member(const json_t *root, const char *list, size_t i,
                            const char *name)
{
    return json_object_get(json_array_get(json_object_get(root, list), i), name);
}

/* Member `name` of that element of `list` whose member `key` is `value`. */
static const json_t *member_of(const json_t *root, const char *list, const char *key,
                               const char *value, const char *name)
{
    const json_t *all = json_object_get(root, list);
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i);
        if (strcmp(json_string_value(json_object_get(one, key)), value) == 0) {
            return json_object_get(one, name);
        }
    }
    fail_msg("no %s is '%s'", key, value);
    return NULL;
}

/* ---- list */

TEST(list_tells_what_there_is_and_its_state)
{
    struct coxi_checkpoint *reader;
    char *dir = coxi_test_path("d");
    write_some(dir, 1, 3);
    assert_int_equal(0, mkdir(coxi_test_path("d/ckpt-4.tmp"), 0700));
    assert_int_equal(0, truncate(coxi_test_path("d/ckpt-1/manifest.json"), 50));
    assert_code(0, coxi_checkpoint_open(coxi_test_path("d/ckpt-2"),
                                        COXI_CHECKPOINT_LISTED, &reader));
    json_t *root = tool_json(0, "list", dir, NULL, NULL);
    assert_int_equal(4, json_array_size(json_object_get(root, "checkpoints")));
    assert_string_equal("faulty",
                        json_string_value(member(root, "checkpoints", 0, "state")));
    assert_non_null(strstr(json_string_value(member(root, "checkpoints", 0, "fault")),
                           "manifest.json"));
    assert_true(json_is_true(member(root, "checkpoints", 1, "being_read")));
    assert_true(json_is_false(member(root, "checkpoints", 1, "latest")));
    assert_true(json_is_true(member(root, "checkpoints", 2, "latest")));
    assert_true(json_is_false(member(root, "checkpoints", 2, "being_read")));
    assert_int_equal(ROWS, json_integer_value(member(root, "checkpoints", 2, "rows")));
    assert_int_equal(4,
                     json_integer_value(member(root, "checkpoints", 2, "variables")));
    assert_int_equal(3, json_integer_value(member(root, "checkpoints", 2, "ps")));
    assert_string_equal("unfinished",
                        json_string_value(member(root, "checkpoints", 3, "state")));
    json_decref(root);
    assert_prints("complete, LATEST\n", 0, "list", dir, NULL, NULL, NULL);
    assert_prints("complete, being read\n", 0, "list", dir, NULL, NULL, NULL);
    coxi_checkpoint_close(reader);
    assert_prints("nowhere", 1, "list", coxi_test_path("nowhere"), NULL, NULL, NULL);
}

TEST(every_command_has_help_and_refuses_what_it_does_not_know)
{
    static const char *const commands[] = {"list", "show",   "verify",
                                           "diff", "export", "prune"};
    for (size_t i = 0; i < 6; i++) {
        assert_prints("--json", 0, commands[i], "--help", NULL, NULL, NULL);
        assert_prints("s3://BUCKET/PREFIX", 0, commands[i], "--help", NULL, NULL, NULL);
        assert_prints("--oars", 2, commands[i], "--oars", NULL, NULL, NULL);
        assert_prints("say: coxswain checkpoint", 2, commands[i], NULL, NULL, NULL,
                      NULL);
    }
    assert_prints("verify", 0, "--help", NULL, NULL, NULL, NULL);
    assert_prints("no command 'sail'", 2, "sail", NULL, NULL, NULL, NULL);
}

TEST(no_command_takes_a_mistyped_store)
{
    static const char *const commands[] = {"list", "show", "verify"};
    static const char text[] = "neither a directory nor s3://BUCKET/PREFIX";
    for (size_t i = 0; i < 3; i++) {
        assert_prints(text, 1, commands[i], "S3://b/run", NULL, NULL, NULL);
    }
    assert_prints(text, 1, "diff", "S3://b/run", "s3:/b/run", NULL, NULL);
    assert_prints(text, 1, "export", "file:///run", "out.npz", NULL, NULL);
    assert_prints(text, 1, "prune", "--keep", "1", "s3a://b/run", NULL);
}

static void assert_slash_means_nothing(const char *dir)
{
    char one[300];
    char whole[300];
    char text[400];
    (void)snprintf(one, sizeof(one), "%s/ckpt-1/", dir);
    (void)snprintf(whole, sizeof(whole), "%s/", dir);
    (void)snprintf(text, sizeof(text), "%s/ckpt-1: complete\n", dir);
    assert_prints(text, 0, "verify", one, NULL, NULL, NULL);
    assert_prints(text, 0, "verify", whole, NULL, NULL, NULL);
    assert_prints("checksums are right", 0, "show", one, NULL, NULL, NULL);
    (void)snprintf(text, sizeof(text), "of %s/ckpt-1 are in ", dir);
    assert_prints(text, 0, "export", one, coxi_test_path("one.npz"), NULL, NULL);
    assert_prints(text, 0, "export", whole, coxi_test_path("whole.npz"), NULL, NULL);
    assert_int_equal(0, unlink(coxi_test_path("one.npz")));
    assert_int_equal(0, unlink(coxi_test_path("whole.npz")));
}

TEST(a_slash_at_the_end_means_nothing)
{
    struct fake_s3 *fake = fake_s3_open();
    write_some(coxi_test_path("d"), 1, 1);
    write_some("s3://bucket/run", 1, 1);
    assert_slash_means_nothing(coxi_test_path("d"));
    assert_slash_means_nothing("s3://bucket/run");
    fake_s3_close_clean(fake);
}

TEST(credentials_that_may_only_read_look_at_checkpoints)
{
    static const char dir[] = "s3://bucket/run";
    static const char warning[] = "warning: the credentials may not write";
    struct fake_s3 *fake = fake_s3_open();
    write_some(dir, 1, 2);
    fake_s3_fault(fake, FAKE_PUT, -1, FAKE_DENY);
    char *output = tool(0, "list", dir, NULL, NULL, NULL);
    assert_non_null(strstr(output, "complete, LATEST\n"));
    assert_null(strstr(output, "403"));
    assert_null(strstr(output, warning));
    free(output);
    output = tool(0, "verify", dir, NULL, NULL, NULL);
    assert_non_null(strstr(output, "s3://bucket/run/ckpt-1: complete\n"));
    const char *first = strstr(output, warning);
    assert_non_null(first);
    assert_null(strstr(first + 1, warning));
    free(output);
    assert_prints(warning, 0, "export", dir, coxi_test_path("out.npz"), NULL, NULL);
    fake_s3_heal(fake);
    fake_s3_close_clean(fake);
}

TEST(a_place_without_checkpoints_is_told)
{
    static const char none[] = "s3://bucket/none is no checkpoint and holds none";
    static const char one[] = "/ckpt-3 is the name of a checkpoint";
    struct fake_s3 *fake = fake_s3_open();
    static const char *const commands[] = {"list", "verify", "show"};
    for (size_t i = 0; i < 3; i++) {
        assert_prints(none, 1, commands[i], "s3://bucket/none", NULL, NULL, NULL);
    }
    assert_prints(none, 1, "prune", "--keep", "1", "s3://bucket/none/", NULL);
    assert_prints("holds none", 1, "verify", coxi_test_dir(), NULL, NULL, NULL);
    assert_prints(one, 1, "list", "s3://bucket/run/ckpt-3", NULL, NULL, NULL);
    assert_prints(one, 1, "list", coxi_test_path("ckpt-3"), NULL, NULL, NULL);
    assert_prints(one, 1, "prune", "--keep", "1", "s3://bucket/run/ckpt-3/", NULL);
    fake_s3_put(fake, "run/generation-1", "{}", 2);
    assert_prints("checkpoint", 0, "list", "s3://bucket/run", NULL, NULL, NULL);
    write_some("s3://bucket/run", 1, 1);
    fake_s3_remove(fake, "run/LATEST");
    assert_prints("cannot read s3://bucket/run/LATEST", 1, "verify", "s3://bucket/run",
                  NULL, NULL, NULL);
    assert_prints("LATEST", 1, "prune", "--keep", "1", "s3://bucket/run", NULL);
    fake_s3_close_clean(fake);
}

TEST(export_writes_local_files_only)
{
    write_some(coxi_test_path("d"), 1, 1);
    assert_prints("OUT is a local file", 1, "export", coxi_test_path("d"),
                  "s3://bucket/out.npz", NULL, NULL);
    assert_prints("OUT is a local file", 1, "export", coxi_test_path("d"),
                  "S3://bucket/out.npz", NULL, NULL);
}

/* ---- show */

TEST(show_takes_chosen_variables_and_tells_the_value_of_steps)
{
    char *dir = coxi_test_path("d");
    write_some(dir, 1, 1);
    json_t *root = tool_json(0, "show", "--variable", "@(w|half)", dir);
    assert_int_equal(7, json_array_size(json_object_get(root, "tensors")));
    assert_int_equal(5, json_integer_value(member_of(root, "tensors", "name",
                                                     "w/part_0/step", "value")));
    assert_true(json_real_value(member_of(root, "tensors", "name", "half", "sum")) ==
                -0.5);
    json_decref(root);
    char *output = tool(0, "show", "--variable", "t", dir, NULL);
    assert_non_null(strstr(output, "t/adagrad"));
    assert_null(strstr(output, "w/part_0"));
    free(output);
}

/* ---- verify */

TEST(verify_names_each_faulty_file_and_exits_1)
{
    char *dir = coxi_test_path("d");
    write_some(dir, 1, 3);
    assert_prints("d/ckpt-3: complete\n", 0, "verify", dir, NULL, NULL, NULL);
    assert_int_equal(0, truncate(coxi_test_path("d/ckpt-2/ps-1-of-3.safetensors"), 64));
    assert_int_equal(0, unlink(coxi_test_path("d/ckpt-2/ps-2-of-3.safetensors")));
    char *output = tool(1, "verify", dir, NULL, NULL, NULL);
    assert_non_null(strstr(output, "ckpt-1: complete\n"));
    assert_non_null(strstr(output, "ps-1-of-3.safetensors has 64 bytes"));
    assert_non_null(strstr(output, "ps-2-of-3.safetensors"));
    assert_non_null(strstr(output, "2 faults"));
    free(output);
    assert_prints("complete", 0, "verify", coxi_test_path("d/ckpt-1"), NULL, NULL,
                  NULL);
    json_t *root = tool_json(1, "verify", coxi_test_path("d/ckpt-2"), NULL, NULL);
    assert_int_equal(2, json_array_size(member(root, "checkpoints", 0, "faults")));
    json_decref(root);
}

TEST(verify_finds_a_latest_that_names_what_is_not_there)
{
    char *dir = coxi_test_path("d");
    write_some(dir, 1, 1);
    coxi_test_write(coxi_test_path("d/LATEST"), "ckpt-7\n", 7);
    assert_prints("names ckpt-7", 1, "verify", dir, NULL, NULL, NULL);
    coxi_test_write(coxi_test_path("d/LATEST"), "ckpt\n", 5);
    assert_prints("LATEST names no checkpoint", 1, "verify", dir, NULL, NULL, NULL);
}

TEST(the_older_checkpoint_that_is_complete_is_named)
{
    char *dir = coxi_test_path("d");
    char *newest = coxi_test_path("d/ckpt-3");
    write_some(dir, 1, 3);
    assert_int_equal(0, truncate(coxi_test_path("d/ckpt-3/ps-1-of-3.safetensors"), 64));
    static const char part[] = "; ckpt-2 is complete";
    assert_prints(part, 1, "show", dir, NULL, NULL, NULL);
    assert_prints(part, 1, "show", newest, NULL, NULL, NULL);
    assert_prints(part, 1, "diff", newest, dir, NULL, NULL);
    assert_prints(part, 1, "export", dir, coxi_test_path("out.npz"), NULL, NULL);
    coxi_test_write(coxi_test_path("d/LATEST"), "ckpt\n", 5);
    assert_prints("LATEST names no checkpoint; ckpt-2 is complete", 1, "show", dir,
                  NULL, NULL, NULL);
}

/* ---- diff */

TEST(diff_counts_rows_and_values_and_tells_the_largest_difference)
{
    char *a = coxi_test_path("a");
    char *b = coxi_test_path("b");
    sample_write(a, &(struct sample){.run = 1, .number = 1, .n_ps = 2, .n_rows = 6});
    sample_write(b, &(struct sample){.run = 2,
                                     .number = 4,
                                     .n_ps = 2,
                                     .n_rows = 8,
                                     .plus = 0.25F,
                                     .without_half = true});
    json_t *root = tool_json(0, "diff", a, b, NULL);
    assert_string_equal(
        "removed",
        json_string_value(member_of(root, "variables", "variable", "half", "change")));
    assert_string_equal("none", json_string_value(member_of(
                                    root, "variables", "variable", "n", "change")));
    static const struct {
        const char *variable;
        int rows;
        int values;
    } expected[] = {{"w", 7, SAMPLE_W}, {"t", 6, 6 * SAMPLE_DIM}};
    for (int i = 0; i < 2; i++) {
        const char *name = expected[i].variable;
        assert_string_equal("values",
                            json_string_value(member_of(root, "variables", "variable",
                                                        name, "change")));
        assert_int_equal(expected[i].rows,
                         json_integer_value(member_of(root, "variables", "variable",
                                                      name, "rows_differing")));
        assert_int_equal(expected[i].values,
                         json_integer_value(member_of(root, "variables", "variable",
                                                      name, "values_differing")));
        assert_true(json_real_value(member_of(root, "variables", "variable", name,
                                              "largest")) == 0.25);
    }
    const json_t *only = member_of(root, "variables", "variable", "t", "rows_only");
    assert_int_equal(0, json_integer_value(json_array_get(only, 0)));
    assert_int_equal(2, json_integer_value(json_array_get(only, 1)));
    json_decref(root);
    assert_prints("added", 0, "diff", b, a, NULL, NULL);
    root = tool_json(0, "diff", a, a, NULL);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal("none",
                            json_string_value(member(root, "variables", i, "change")));
    }
    json_decref(root);
}

TEST(diff_compares_variables_that_are_cut_in_another_way)
{
    char *a = coxi_test_path("a");
    char *b = coxi_test_path("b");
    sample_write(a, &(struct sample){.run = 1, .number = 1, .n_ps = 1, .n_rows = 6});
    sample_write(b, &(struct sample){.run = 1, .number = 1, .n_ps = 4, .n_rows = 6});
    json_t *root = tool_json(0, "diff", a, b, NULL);
    assert_string_equal(
        "specified",
        json_string_value(member_of(root, "variables", "variable", "w", "change")));
    assert_int_equal(0, json_integer_value(member_of(root, "variables", "variable", "w",
                                                     "values_differing")));
    assert_string_equal("none", json_string_value(member_of(
                                    root, "variables", "variable", "t", "change")));
    json_decref(root);
}

/* ---- prune */

TEST(prune_tells_what_it_deletes_and_deletes_nothing_in_a_dry_run)
{
    char *dir = coxi_test_path("d");
    write_some(dir, 1, 5);
    assert_prints("--keep is missing", 2, "prune", dir, NULL, NULL, NULL);
    assert_prints("4  kept by its number\n", 0, "prune", "--keep=1", "--keep-every=2",
                  "--dry-run", dir);
    assert_prints("3  would be deleted\n", 0, "prune", "--keep=1", "--dry-run", dir,
                  NULL);
    json_t *root = tool_json(0, "prune", "--keep=2", dir, NULL);
    assert_string_equal("deleted",
                        json_string_value(member(root, "checkpoints", 2, "fate")));
    json_decref(root);
    assert_int_not_equal(0, access(coxi_test_path("d/ckpt-3"), F_OK));
    assert_int_equal(0, access(coxi_test_path("d/ckpt-4"), F_OK));
    assert_prints("ckpt-4: complete", 0, "verify", dir, NULL, NULL, NULL);
}

/* ---- export */

TEST(export_joins_shards_into_whole_tensors)
{
    struct coxi_st_file *file;
    struct stat st;
    char *dir = coxi_test_path("d");
    char *out = coxi_test_path("out.safetensors");
    struct sample sample = {.number = 1, .plus = 1};
    write_some(dir, 1, 1);
    assert_prints("5 tensors", 0, "export", "--format=safetensors", dir, out, NULL);
    assert_int_equal(0, stat(out, &st));
    assert_code(0, coxi_st_open(out, (uint64_t)st.st_size, NULL, &file));
    assert_int_equal(5, coxi_st_count(file));
    const struct coxi_st_tensor *w = coxi_st_find(file, "w");
    assert_int_equal(7, w->shape[0]);
    for (uint64_t i = 0; i < SAMPLE_W; i++) {
        assert_true(sample_w(&sample, i) == ((const float *)loaded(w))[i]);
    }
    const struct coxi_st_tensor *keys = coxi_st_find(file, "t/keys");
    const float *values = loaded(coxi_st_find(file, "t/values"));
    assert_int_equal(ROWS, keys->shape[0]);
    for (uint64_t i = 0; i < ROWS; i++) {
        uint64_t row = 0;
        while (sample_key(row) != ((const uint64_t *)loaded(keys))[i]) {
            row++;
        }
        assert_true(sample_value(&sample, row, 2) == values[i * SAMPLE_DIM + 2]);
    }
    coxi_st_close(file);
    assert_prints("is there already", 1, "export", dir, out, NULL, NULL);
    char *other = coxi_test_path("other.npz");
    assert_prints("no variable 'x*'", 1, "export", "--variable=x*", dir, other, NULL);
    assert_int_not_equal(0, access(other, F_OK));
    assert_prints("cannot create", 1, "export", dir, coxi_test_path("no/such/dir.npz"),
                  NULL, NULL);
}

/* Reads the file with numpy; false: numpy is not installed. */
static bool read_with_numpy(const char *path, char **ret)
{
    struct program program;
    const char *python = getenv("COX_TEST_PYTHON");
    const char *argv[] = {"/usr/bin/env", python != NULL ? python : "python3",
                          COXI_TEST_READER, path, NULL};
    int code = program_run(&program, argv);
    *ret = program_output(&program);
    if (code != 0 && code != 77) {
        fail_msg("the reader ended with %d: %s", code, *ret);
    }
    return code == 0;
}

static const char npz_lines[] = "half float32 4 -0.5\n"
                                "n int64 3 -3000000021.0\n"
                                "t/adagrad float32 6,3 9.0\n"
                                "t/keys uint64 6 ";

TEST(numpy_reads_an_exported_npz)
{
    char *dir = coxi_test_path("d");
    write_some(dir, 1, 1);
    for (int compress = 0; compress <= 1; compress++) {
        char *out = coxi_test_path(compress != 0 ? "small.npz" : "plain.npz");
        char *lines;
        assert_prints("9 tensors", 0, "export", "--state", dir, out,
                      compress != 0 ? "--compress" : NULL);
        if (!read_with_numpy(out, &lines)) {
            free(lines);
            skip();
        }
        assert_int_equal(0, strncmp(lines, npz_lines, sizeof(npz_lines) - 1));
        assert_non_null(strstr(lines, "\nt/step uint64 3 27.0\n"));
        assert_non_null(
            strstr(lines, "\nt/values float32 6,3 67.5\n")); /* with plus 1 */
        assert_non_null(strstr(lines, "\nw float32 7,2 59.5\n"));
        assert_non_null(strstr(lines, "\nw/adagrad float32 7,2 3.5\n"));
        free(lines);
    }
}

TEST(the_safetensors_library_reads_an_export)
{
    char *dir = coxi_test_path("d");
    char *out = coxi_test_path("out.safetensors");
    char *lines;
    write_some(dir, 1, 1);
    free(tool(0, "export", "--format=safetensors", "--variable=@(t|w|n)", dir, out));
    if (!read_with_numpy(out, &lines)) {
        free(lines);
        skip();
    }
    assert_non_null(strstr(lines, "t/values float32 6,3 67.5\n"));
    assert_non_null(strstr(lines, "w float32 7,2 59.5\n"));
    free(lines);
}

TEST(a_compressed_npz_is_smaller_and_holds_the_same)
{
    struct stat plain;
    struct stat small;
    char *dir = coxi_test_path("d");
    sample_write(dir,
                 &(struct sample){.run = 1, .number = 1, .n_ps = 1, .n_rows = 600});
    free(tool(0, "export", dir, coxi_test_path("plain.npz"), NULL, NULL));
    free(tool(0, "export", "--compress", dir, coxi_test_path("small.npz"), NULL));
    assert_int_equal(0, stat(coxi_test_path("plain.npz"), &plain));
    assert_int_equal(0, stat(coxi_test_path("small.npz"), &small));
    assert_true(small.st_size < plain.st_size);
    char *lines[2];
    if (!read_with_numpy(coxi_test_path("plain.npz"), &lines[0])) {
        free(lines[0]);
        skip();
    }
    assert_true(read_with_numpy(coxi_test_path("small.npz"), &lines[1]));
    assert_string_equal(lines[0], lines[1]);
    free(lines[0]);
    free(lines[1]);
}
