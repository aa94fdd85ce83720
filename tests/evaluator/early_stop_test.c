/* The example that stops early: it ends by itself, with a model that is about as good
 * as its problem allows. */
#include <stdio.h>
#include <string.h>

#include "coxswain/coxswain.h"
#include "tests/program.h"
#include "tests/test.h"

/* Asserts that the rate was lowered after 2 checkpoints that are no better, or after
 * more if several are evaluated at a time. */
static void assert_lowered_after_2(const char *output)
{
    size_t n = 0;
    double rate = 0;
    const char *line = strstr(output, "no better for ");
    assert_non_null(line);
    assert_int_equal(
        2, sscanf(line, "no better for %zu checkpoints: rate %lf\n", &n, &rate));
    assert_true(n >= 2);
    assert_true(rate == 4);
}

TEST(the_example_lowers_its_rate_and_stops_when_evaluations_get_no_better)
{
    struct program program;
    struct cox_evals *evals;
    struct cox_eval eval = COX_EVAL_INIT;
    double loss = 1;
    const char *dir = coxi_test_path("early");
    const char *const argv[] = {"early_stop", dir, NULL};
    assert_int_equal(0, program_run(&program, argv));
    program_assert_printed(&program,
                           " checkpoints: rate 4\n"); /* 2, or more at a time */
    program_assert_printed(&program, "stopped early after");
    char *output = program_output(&program);
    assert_lowered_after_2(output);
    const char *line = output;
    size_t n = 0;
    while ((line = strstr(line, "loss ")) != NULL) {
        line = strchr(line, '\n');
        assert_non_null(line);
        assert_memory_equal(" of 2000 rows", line - 13, 13);
        n++;
    }
    assert_true(n >= 2);
    free(output);
    assert_code(0, cox_evals_read(dir, &evals));
    assert_code(0, cox_evals_at(evals, cox_evals_count(evals) - 1, &eval));
    assert_code(0, cox_eval_score(&eval, "loss", &loss));
    assert_true(loss < 0.52);
    cox_evals_free(evals);
}
