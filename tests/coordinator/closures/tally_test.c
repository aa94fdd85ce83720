/* How much of a closure is applied, from the answers of all ps. */
#include "coordinator/closures/tally.h"
#include "net/message.h"
#include "tests/test.h"

enum { N_PS = 3, WORDS_MAX = 16 };

struct said {
    struct coxi_told told[N_PS];
    struct coxi_voided_segment segments[N_PS][WORDS_MAX];
    uint32_t touched[N_PS][WORDS_MAX];
    size_t n_touched[N_PS];
};

/* Ps `ps` has `segment`, which touched the ps in `mask`. */
static void say(struct said *said, uint32_t ps, uint32_t segment, bool last,
                uint32_t mask)
{
    struct coxi_told *told = &said->told[ps];
    struct coxi_voided_segment added = {segment, last, 0};
    for (uint32_t p = 0; p < 8; p++) {
        if ((mask >> p & 1) != 0) {
            said->touched[ps][said->n_touched[ps]++] = p;
            added.touched_n++;
        }
    }
    said->segments[ps][told->n_segments++] = added;
    told->segments = said->segments[ps];
    told->touched = said->touched[ps];
}

static enum coxi_tally tally(const struct said *said)
{
    struct said copy = *said;
    return coxi_tally(copy.told, N_PS);
}

TEST(closure_of_which_nobody_has_anything_has_left_no_trace)
{
    struct said said = {0};
    assert_int_equal(COXI_TALLY_NOTHING, tally(&said));
}

TEST(closure_of_one_segment_is_all_there_once_each_ps_that_it_touched_has_it)
{
    struct said said = {0};
    say(&said, 0, 0, true, 5);
    assert_int_equal(COXI_TALLY_PART, tally(&said));
    say(&said, 2, 0, true, 5);
    assert_int_equal(COXI_TALLY_ALL, tally(&said));
}

TEST(closure_of_several_segments_is_all_there_once_its_last_is)
{
    struct said said = {0};
    say(&said, 0, 0, false, 1);
    assert_int_equal(COXI_TALLY_PART, tally(&said));
    say(&said, 1, 1, false, 6);
    say(&said, 2, 1, false, 6);
    assert_int_equal(COXI_TALLY_PART, tally(&said));
    /* the empty last segment of a step that touched no more ps */
    say(&said, 1, 2, true, 2);
    assert_int_equal(COXI_TALLY_ALL, tally(&said));
}

TEST(closure_that_lacks_a_segment_before_its_last_is_there_in_part)
{
    struct said said = {0};
    say(&said, 0, 0, false, 1);
    say(&said, 1, 2, true, 2);
    assert_int_equal(COXI_TALLY_PART, tally(&said));
    said = (struct said){0};
    say(&said, 1, 0, false, 3);
    say(&said, 1, 1, true, 2);
    assert_int_equal(COXI_TALLY_PART, tally(&said)); /* ps 0 lacks segment 0 */
}

TEST(attempts_that_touched_other_ps_in_a_segment_are_not_alike)
{
    struct said said = {0};
    say(&said, 0, 0, false, 1);
    say(&said, 0, 1, false, 1);
    say(&said, 1, 1, true, 2); /* segment 1 did not touch ps 1 */
    assert_int_equal(COXI_TALLY_UNLIKE, tally(&said));
    said = (struct said){0};
    say(&said, 0, 0, true, 3);
    say(&said, 1, 0, true, 6);
    assert_int_equal(COXI_TALLY_UNLIKE, tally(&said));
    said = (struct said){0};
    say(&said, 0, 0, true, 3);
    say(&said, 1, 0, false, 3);
    assert_int_equal(COXI_TALLY_UNLIKE, tally(&said));
    said = (struct said){0};
    say(&said, 0, 0, true, 2);
    assert_int_equal(COXI_TALLY_UNLIKE, tally(&said));
}

TEST(attempt_that_went_on_where_another_had_ended_is_not_alike)
{
    struct said said = {0};
    say(&said, 0, 0, true, 1);
    say(&said, 1, 1, true, 2);
    assert_int_equal(COXI_TALLY_UNLIKE, tally(&said));
}

TEST(closure_that_touched_a_ps_that_is_not_there_is_not_all_there)
{
    struct said said = {0};
    say(&said, 0, 0, true, 1 | 1 << 7);
    assert_int_equal(COXI_TALLY_PART, tally(&said));
}

TEST(segments_that_cannot_be_are_not_alike)
{
    struct said said = {0};
    say(&said, 0, COXI_SEGMENTS_MAX, true, 1);
    assert_int_equal(COXI_TALLY_UNLIKE, tally(&said));
    said = (struct said){0};
    say(&said, 0, 1, true, 1); /* not sorted */
    say(&said, 0, 0, false, 1);
    assert_int_equal(COXI_TALLY_UNLIKE, tally(&said));
}
