/* The commits that wait for their rounds (ps/rounds.h), by themselves. */
#include "ps/rounds.h"

#include "ps/applied.h"
#include "ps/memory.h"
#include "tests/test.h"

struct waits {
    struct coxi_memory memory;
    struct coxi_applied *applied;
    struct coxi_rounds *rounds;
};

static void waits_open(struct waits *w)
{
    coxi_memory_init(&w->memory);
    assert_code(0, coxi_applied_new(&w->applied));
    assert_code(0, coxi_rounds_new(&w->memory, &w->rounds));
}

static void waits_close(struct waits *w)
{
    coxi_rounds_free(w->rounds);
    coxi_applied_free(w->applied);
    assert_int_equal(0, w->memory.used_bytes);
}

static int put(struct waits *w, uint64_t closure, uint64_t round)
{
    const struct coxi_commit commit = {
        .closure = closure, .attempt = 1, .last = true, .round = round};
    bool whole;
    return coxi_rounds_put(w->rounds, w->applied, &commit, NULL, 0, &whole);
}

/* The closures that wait for a round, in order. */
static size_t count(struct waits *w, uint64_t round)
{
    size_t n = 0;
    uint64_t last = 0;
    for (const struct coxi_waiting *waiting = coxi_rounds_first(w->rounds, round);
         waiting != NULL; waiting = coxi_rounds_next(w->rounds, waiting)) {
        assert_true(waiting->commit.closure > last);
        last = waiting->commit.closure;
        n++;
    }
    return n;
}

TEST(waiting_commits_are_in_order_in_whatever_order_they_come)
{
    static const uint64_t order[] = {5, 9, 7, 1, 8, 6, 2};
    struct waits w;
    waits_open(&w);
    for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
        assert_code(0, put(&w, order[i], 10));
    }
    for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
        assert_code(COX_EEXIST, put(&w, order[i], 10));
    }
    assert_int_equal(sizeof(order) / sizeof(*order), count(&w, 10));
    waits_close(&w);
}

/* The client has settled it as failed, while the ps was about to end it. */
TEST(round_that_has_failed_while_it_was_held_is_dropped_when_it_is_let_go)
{
    struct waits w;
    waits_open(&w);
    assert_code(0, put(&w, 1, 3));
    assert_code(0, put(&w, 2, 3));
    assert_code(0, put(&w, 4, 5));
    uint64_t both = w.memory.used_bytes;
    assert_true(coxi_rounds_hold(w.rounds, 3));
    assert_code(0, coxi_applied_advance(w.applied, 3));
    coxi_rounds_drop_below(w.rounds, 3);
    assert_int_equal(2, count(&w, 3)); /* for who holds it */
    coxi_rounds_let_go(w.rounds, 3);
    assert_int_equal(0, count(&w, 3));
    assert_int_equal(1, count(&w, 5));
    assert_true(w.memory.used_bytes < both);
    waits_close(&w);
}

/* A worker may name any of the rounds above the watermark. If each of these commits
 * walked all rounds, this would take minutes. */
TEST(commits_of_any_number_of_rounds_wait)
{
    enum { N = 200000 };
    struct waits w;
    waits_open(&w);
    for (uint64_t round = 2; round < 2 + N; round++) {
        assert_code(0, put(&w, round - 1, round));
    }
    for (uint64_t round = 2; round < 2 + N; round++) {
        assert_int_equal(1, count(&w, round));
    }
    assert_true(w.memory.used_bytes > N * sizeof(struct coxi_waiting));
    coxi_rounds_drop_below(w.rounds, 1 + N);
    assert_int_equal(0, w.memory.used_bytes);
    waits_close(&w);
}
