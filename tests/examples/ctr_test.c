/* The click model: a factorization machine learns pairs of ids, and logistic regression
 * cannot. */
#include <stdio.h>
#include <string.h>

#include "tests/program.h"
#include "tests/test.h"

/* The area under the curve that the model reaches on a generated log. */
static double auc_of(const char *model)
{
    struct program program;
    char out[64];
    (void)snprintf(out, sizeof(out), "ctr-%s", model);
    const char *const argv[] = {"ctr",
                                "--rows",
                                "40000",
                                "--ids",
                                "5",
                                "--pairs",
                                "1",
                                "--model",
                                model,
                                "--out",
                                coxi_test_path(out),
                                NULL};
    assert_int_equal(0, program_run(&program, argv));
    char *output = program_output(&program);
    const char *at = strstr(output, "\"auc\": ");
    assert_non_null(at);
    double auc = strtod(at + strlen("\"auc\": "), NULL);
    assert_non_null(strstr(output, "{\"examples\": 240000,")); /* each row, 6 times */
    free(output);
    return auc;
}

TEST(a_factorization_machine_learns_pairs_of_ids)
{
    double lr = auc_of("lr");
    double fm = auc_of("fm");
    assert_true(lr > 0.88);
    assert_true(fm > lr + 0.02);
}

/* `script` (Debian package bsdutils) runs it in a terminal. */
TEST(events_begin_a_line_of_the_terminal)
{
    struct program program;
    char command[1024];
    size_t n = 0;
    (void)snprintf(command, sizeof(command),
                   "\"$COX_BIN_DIR/ctr\" --rows 20000 --epochs 3 --out \"%s\"",
                   coxi_test_path("out"));
    const char *const argv[] = {"/usr/bin/script", "-qec", command, "/dev/null", NULL};
    assert_int_equal(0, program_run(&program, argv));
    char *output = program_output(&program);
    for (const char *at = output; (at = strstr(at, "ts=20")) != NULL; at++) {
        assert_true(at > output && strchr("\r\n", at[-1]) != NULL);
        n++;
    }
    assert_true(n >= 3); /* the end of each epoch */
    free(output);
}

TEST(a_malformed_row_is_named_and_ends_training)
{
    struct program program;
    const char *bad = coxi_test_path("bad.libsvm");
    const char *good = coxi_test_path("good.libsvm");
    coxi_test_write(bad, "1 3:1\n0 4:x\n", 12);
    coxi_test_write(good, "1 3:1\n0 4:1\n", 12);
    const char *const argv[] = {"ctr",     "--train", bad,
                                "--valid", good,      "--epochs",
                                "100000",  "--out",   coxi_test_path("ctr-bad"),
                                NULL};
    assert_int_equal(2, program_run(&program, argv));
    program_assert_printed(&program, "bad.libsvm:6: ");
}

TEST(a_client_reads_the_rows_for_its_workers)
{
    struct program program;
    const char *argv[] = {"ctr",    "--source", "client",
                          "--rows", "5000",     "--epochs",
                          "2",      "--out",    coxi_test_path("out"),
                          NULL};
    assert_int_equal(0, program_run(&program, argv));
    program_assert_printed(&program, "{\"examples\": 10000,");
    argv[2] = "nobody";
    assert_int_equal(2, program_run(&program, argv));
    program_assert_printed(&program, "--source takes worker or client, not 'nobody'");
}

/* The generated log is written anew, and is still the file that the run knows. */
TEST(a_run_on_a_generated_log_goes_on)
{
    struct program program;
    const char *argv[] = {
        "ctr", "--rows", "5000", "--epochs", "1", "--out", coxi_test_path("out"),
        NULL,  NULL};
    assert_int_equal(0, program_run(&program, argv));
    program_assert_printed(&program, "{\"examples\": 5000,");
    assert_int_equal(2, program_run(&program, argv));
    program_assert_printed(&program, "--resume");
    argv[7] = "--resume";
    assert_int_equal(0, program_run(&program, argv));
    program_assert_printed(&program, "with 5000 examples done");
}
