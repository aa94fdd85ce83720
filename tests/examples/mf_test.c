/* Matrix factorization comes close to the noise of its planted ratings. */
#include <string.h>

#include "tests/program.h"
#include "tests/test.h"

TEST(matrix_factorization_comes_near_the_noise)
{
    struct program program;
    const char *const argv[] = {"mf", coxi_test_path("mf"), NULL};
    assert_int_equal(0, program_run(&program, argv));
    char *output = program_output(&program);
    const char *at = strstr(output, "epoch 12: rmse ");
    assert_non_null(at);
    double rmse = strtod(at + strlen("epoch 12: rmse "), NULL);
    assert_true(rmse > 0.28 && rmse < 0.32); /* the noise's deviation is 0.3 */
    assert_non_null(strstr(at, "on 10000 ratings"));
    free(output);
}
