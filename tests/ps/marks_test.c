/* Marks: equal ones are stored once, and freed when nobody uses them. */
#include <string.h>

#include "common/rand.h"
#include "ps/marks.h"
#include "tests/test.h"

static size_t count(const struct coxi_marks *marks, uint32_t mark)
{
    uint32_t at = 0;
    size_t n = 0;
    struct coxi_segment segment;
    while (coxi_marks_next(marks, mark, &at, &segment)) {
        n++;
    }
    return n;
}

static uint32_t with(struct coxi_marks *marks, uint32_t mark, uint32_t segment,
                     const uint32_t *touched, size_t n)
{
    struct coxi_segment added = {segment, segment % 2 == 1, touched, n};
    uint32_t made = 0;
    assert_code(0, coxi_marks_with(marks, mark, &added, &made));
    assert_int_not_equal(COXI_MARK_NONE, made);
    return made;
}

TEST(marks_that_are_equal_are_one_whatever_their_order)
{
    const uint32_t touched[] = {1, 2, 3};
    struct coxi_marks *marks;
    assert_code(0, coxi_marks_new(SIZE_MAX, &marks));
    uint32_t a = with(marks, with(marks, 0, 0, touched, 3), 1, touched, 2);
    uint32_t b = with(marks, with(marks, 0, 1, touched, 2), 0, touched, 3);
    assert_int_equal(a, b);
    assert_int_not_equal(a, with(marks, 0, 0, touched, 3));
    assert_int_not_equal(a, with(marks, with(marks, 0, 0, touched, 3), 1, touched, 1));
    assert_int_equal(2, count(marks, a));
    struct coxi_segment found;
    assert_true(coxi_marks_find(marks, a, 1, &found));
    assert_true(found.last);
    assert_int_equal(2, found.n_touched);
    assert_memory_equal(touched, found.touched, 2 * sizeof(*touched));
    assert_false(coxi_marks_find(marks, a, 2, &found));
    assert_false(coxi_marks_find(marks, COXI_MARK_NONE, 0, &found));
    assert_int_equal(0, count(marks, COXI_MARK_NONE));
    coxi_marks_free(marks);
    coxi_marks_free(NULL);
}

/* Uses and drops random marks; a mark in use always has the content with which it was
 * made. */
TEST(marks_keep_what_is_in_use_while_others_come_and_go)
{
    enum { USES = 2000, WORDS = 6, ROUNDS = 20000 };
    static struct {
        uint32_t mark;
        uint32_t touched[WORDS];
        size_t n;
    } uses[USES];
    uint64_t random = 4711;
    struct coxi_marks *marks;
    assert_code(0, coxi_marks_new(SIZE_MAX, &marks));
    for (int round = 0; round < ROUNDS; round++) {
        size_t i = coxi_rand(&random) % USES;
        struct coxi_segment found;
        if (uses[i].mark != 0) {
            assert_true(coxi_marks_find(marks, uses[i].mark, 5, &found));
            assert_int_equal(uses[i].n, found.n_touched);
            assert_memory_equal(uses[i].touched, found.touched,
                                uses[i].n * sizeof(uint32_t));
            coxi_marks_drop(marks, uses[i].mark);
            uses[i].mark = 0;
            continue;
        }
        uses[i].n = 1 + coxi_rand(&random) % WORDS;
        for (size_t k = 0; k < uses[i].n; k++) {
            uses[i].touched[k] = (uint32_t)(coxi_rand(&random) % 8);
        }
        uses[i].mark = with(marks, COXI_MARK_NONE, 5, uses[i].touched, uses[i].n);
        assert_true(uses[i].mark <= USES); /* numbers are used again */
    }
    coxi_marks_free(marks);
}

TEST(marks_take_no_more_memory_than_they_may)
{
    enum { BYTES_MAX = 4096, N = 100 };
    static uint32_t touched[N];
    struct coxi_marks *marks;
    uint32_t made = 0;
    uint32_t last = 0;
    int r = 0;
    assert_code(0, coxi_marks_new(BYTES_MAX, &marks));
    for (uint32_t i = 0; r == 0; i++) {
        const struct coxi_segment added = {i, false, touched, N};
        assert_in_range(i, 0, BYTES_MAX / sizeof(touched));
        last = made;
        r = coxi_marks_with(marks, 0, &added, &made);
    }
    assert_code(COX_ELIMIT, r);
    coxi_marks_drop(marks, last); /* makes room for another */
    (void)with(marks, 0, 7777, touched, N);
    coxi_marks_free(marks);
}
