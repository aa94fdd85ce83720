/* The example of modes: each of them learns, and its curves are drawings that programs
 * can read. */
#include <stdio.h>
#include <string.h>

#include "tests/program.h"
#include "tests/test.h"

/* The curves, and the names, of each drawing. */
static const char count_lines[] =
    "import sys, xml.etree.ElementTree as tree\n"
    "svg = '{http://www.w3.org/2000/svg}'\n"
    "for path in sys.argv[1:]:\n"
    "    root = tree.parse(path).getroot()\n"
    "    assert root.tag == svg + 'svg', root.tag\n"
    "    lines = [e.get('points').split() for e in root.iter(svg + 'polyline')]\n"
    "    print(len(lines), 'curves of', min(map(len, lines)), 'points or more')\n"
    "    assert all(float(x) > 0 and float(y) > 0 for line in lines\n"
    "               for x, y in (point.split(',') for point in line))\n"
    "    print([e.text for e in root.iter(svg + 'text')])\n";

static void run_modes(const char *out, const char *modes, struct program *program)
{
    const char *const argv[] = {
        "modes", "--out",     out,        "--modes", modes,     "--rows", "4000",
        "--ids", "20",        "--epochs", "1",       "--batch", "16",     "--points",
        "4",     "--workers", "3",        "--rate",  "0.02",    NULL};
    assert_int_equal(0, program_run(program, argv));
}

/* The row of the table that begins with `label`. */
static void assert_learnt(const char *output, const char *label)
{
    char begin[64];
    double number[6] = {0}; /* seconds, examples/s, loss, auc, staleness, left out */
    (void)snprintf(begin, sizeof(begin), "\n%-22s ", label);
    const char *at = strstr(output, begin);
    assert_non_null(at);
    char *end = (char *)(uintptr_t)at + strlen(begin);
    for (int i = 0; i < 6; i++) {
        at = end + strspn(end, " ");
        number[i] = strtod(at, &end);
        end += strncmp(at, "- ", 2) == 0; /* local steps push no gradients */
        assert_true(end != at);
    }
    assert_int_equal('\n', *end);
    assert_true(number[0] > 0 && number[1] > 0);
    assert_true(number[2] > 0.3 && number[2] < 0.65);
    assert_true(number[3] > 0.7 && number[3] < 1);
}

static void assert_drawn(const char *out, const char *curves)
{
    char examples[256];
    char seconds[256];
    struct program program;
    (void)snprintf(examples, sizeof(examples), "%s/examples.svg", out);
    (void)snprintf(seconds, sizeof(seconds), "%s/seconds.svg", out);
    const char *const argv[] = {"/usr/bin/env", "python3", "-c", count_lines,
                                examples,       seconds,   NULL};
    assert_int_equal(0, program_run(&program, argv));
    char *output = program_output(&program);
    const char *at = strstr(output, curves);
    assert_non_null(at);
    assert_non_null(strstr(at + 1, curves));
    assert_non_null(strstr(output, "'examples (thousands)'"));
    assert_non_null(strstr(output, "'seconds of training'"));
    free(output);
}

TEST(modes_with_rounds_learn_and_are_drawn)
{
    static const char *const labels[] = {"asynchronous", "synchronous",
                                         "synchronous, 1 backup", "bounded, k = 1",
                                         "bounded, k = 3"};
    struct program program;
    const char *out = coxi_test_path("rounds");
    run_modes(out, "async,sync,backups,bound1,bound3", &program);
    char *output = program_output(&program);
    for (size_t i = 0; i < sizeof(labels) / sizeof(*labels); i++) {
        assert_learnt(output, labels[i]);
    }
    assert_non_null(strstr(output, "\n4000 examples in batches of 16;"));
    free(output);
    assert_drawn(out, "5 curves of 4 points");
}

TEST(modes_without_rounds_learn_and_are_drawn)
{
    static const char *const labels[] = {"local steps", "accumulation",
                                         "stale ones scaled", "stale ones dropped",
                                         "delay compensation"};
    struct program program;
    const char *out = coxi_test_path("steps");
    run_modes(out, "local,accumulate,scale,drop,compensate", &program);
    char *output = program_output(&program);
    for (size_t i = 0; i < sizeof(labels) / sizeof(*labels); i++) {
        assert_learnt(output, labels[i]);
    }
    free(output);
    assert_drawn(out, "5 curves of 4 points");
}

TEST(files_of_rows_are_taken_and_a_malformed_row_is_named)
{
    struct program program;
    const char *good = coxi_test_path("<good & small>.libsvm");
    const char *bad = coxi_test_path("bad.libsvm");
    const char *out = coxi_test_path("files");
    coxi_test_write(good, "1 3:1\n0 4:1\n", 12);
    coxi_test_write(bad, "1 3:1\n0 4:x\n", 12);
    const char *argv[] = {"modes", "--train",   good,    "--test",   good, "--out",
                          out,     "--modes",   "async", "--epochs", "50", "--batch",
                          "1",     "--workers", "2",     NULL};
    assert_int_equal(0, program_run(&program, argv));
    program_assert_printed(&program, "100 examples in batches of 1;");
    assert_drawn(out, "1 curves of ");
    argv[4] = bad;
    assert_int_equal(2, program_run(&program, argv));
    program_assert_printed(&program, "bad.libsvm:2: ");
}

TEST(options_that_are_wrong_are_named)
{
    struct program program;
    const char *const list[] = {"modes", "--modes", "async,sink", NULL};
    const char *const number[] = {"modes", "--workers", "1", NULL};
    const char *const alone[] = {"modes", "--train", "x", NULL};
    const char *const missing[] = {"modes",
                                   "--train",
                                   "/nowhere/x",
                                   "--test",
                                   "x",
                                   "--out",
                                   coxi_test_path("missing"),
                                   NULL};
    const char *const help[] = {"modes", "--help", NULL};
    assert_int_equal(2, program_run(&program, list));
    program_assert_printed(&program, "--modes takes names of async,sync,");
    assert_int_equal(2, program_run(&program, number));
    program_assert_printed(&program, "--workers takes a number from 2 to 64, not '1'");
    assert_int_equal(2, program_run(&program, alone));
    program_assert_printed(&program, "give both --train and --test");
    assert_int_equal(2, program_run(&program, missing));
    program_assert_printed(&program, "/nowhere/x: No such file");
    assert_int_equal(0, program_run(&program, help));
    program_assert_printed(&program, "--staleness-max N");
}
