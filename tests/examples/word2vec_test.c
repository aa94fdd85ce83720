/* Word vectors rank pairs of words as the planted model does. */
#include <string.h>

#include "tests/program.h"
#include "tests/test.h"

TEST(word_vectors_rank_pairs_of_words_as_planted)
{
    struct program program;
    const char *const argv[] = {"word2vec", coxi_test_path("w2v"), NULL};
    assert_int_equal(0, program_run(&program, argv));
    char *output = program_output(&program);
    const char *at = strstr(output, "124750 pairs of words: rank correlation ");
    assert_non_null(at);
    double correlation =
        strtod(strstr(at, "correlation ") + strlen("correlation "), NULL);
    assert_true(correlation > 0.87); /* a factorization of counts has 0.83 */
    free(output);
}
