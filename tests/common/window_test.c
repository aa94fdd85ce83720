#include "common/window.h"

#include "common/error.h"
#include "common/rand.h"
#include "tests/test.h"

enum { N_IDS = 1500, N_STEPS = 10000 };

/* The simplest window: an array of the items of all ids. */
struct reference {
    char *items[N_IDS];
    uint64_t next;
    size_t max;
};

static char items[N_IDS];

static uint64_t reference_first(const struct reference *reference)
{
    uint64_t id = 0;
    while (id < reference->next && reference->items[id] == NULL) {
        id++;
    }
    return id;
}

static size_t reference_count(const struct reference *reference)
{
    size_t n = 0;
    for (uint64_t id = 0; id < reference->next; id++) {
        n += reference->items[id] != NULL;
    }
    return n;
}

static bool reference_put(struct reference *reference, uint64_t id)
{
    if (reference_count(reference) > 0 &&
        id - reference_first(reference) >= reference->max) {
        return false;
    }
    reference->items[id] = &items[id];
    reference->next = id + 1;
    return true;
}

static void assert_same(const struct coxi_window *window,
                        const struct reference *reference, uint64_t base)
{
    uint64_t first = reference_first(reference);
    assert_int_equal(reference_count(reference), window->count);
    assert_int_equal(base + reference->next, window->next);
    assert_int_equal(base + first, window->first);
    for (uint64_t id = first > 3 ? first - 3 : 0; id < reference->next + 3; id++) {
        assert_ptr_equal(reference->items[id], coxi_window_get(window, base + id));
    }
}

/* One random put or take; false when the ids are used up. */
static bool step(struct coxi_window *window, struct reference *reference, uint64_t base,
                 uint64_t *rng)
{
    uint64_t id = reference->next +
                  (coxi_rand(rng) % 8 == 0 ? coxi_rand(rng) % (reference->max + 3) : 0);
    if (id + 3 >= N_IDS) {
        return false;
    }
    if (coxi_rand(rng) % 2 == 0) {
        bool fits = reference_put(reference, id);
        assert_int_equal(fits ? 0 : COX_EAGAIN,
                         coxi_window_put(window, base + id, &items[id]));
    } else {
        uint64_t first = reference_first(reference);
        id = first + coxi_rand(rng) % (reference->next - first + 2);
        assert_ptr_equal(reference->items[id], coxi_window_take(window, base + id));
        reference->items[id] = NULL;
    }
    return true;
}

static void compare(size_t max, uint64_t base, uint64_t seed)
{
    struct coxi_window window;
    struct reference reference = {.max = max};
    uint64_t rng = seed;
    coxi_window_init(&window, base, max);
    for (int i = 0; i < N_STEPS && step(&window, &reference, base, &rng); i++) {
        assert_same(&window, &reference, base);
    }
    coxi_window_fini(&window);
}

TEST(random_puts_and_takes_agree_with_a_plain_array)
{
    static const size_t maxima[] = {1, 2, 7, 63, 64, 65, 300};
    for (size_t i = 0; i < sizeof(maxima) / sizeof(*maxima); i++) {
        for (uint64_t seed = 1; seed <= 2; seed++) {
            compare(maxima[i], seed == 1 ? 1 : (uint64_t)1 << 40, seed);
        }
    }
}

TEST(an_id_beyond_the_window_waits_until_the_first_has_left)
{
    struct coxi_window window;
    coxi_window_init(&window, 1, 4);
    for (uint64_t id = 1; id <= 4; id++) {
        assert_code(0, coxi_window_put(&window, id, &items[id]));
    }
    assert_int_equal(COX_EAGAIN, coxi_window_put(&window, 5, &items[5]));
    assert_int_equal(5, window.next);
    assert_ptr_equal(&items[2], coxi_window_take(&window, 2));
    assert_int_equal(COX_EAGAIN, coxi_window_put(&window, 5, &items[5]));
    assert_ptr_equal(&items[1], coxi_window_take(&window, 1));
    assert_int_equal(3, window.first);
    assert_code(0, coxi_window_put(&window, 5, &items[5]));
    assert_code(0, coxi_window_put(&window, 6, &items[6]));
    assert_int_equal(COX_EAGAIN, coxi_window_put(&window, 7, &items[7]));
    coxi_window_fini(&window);
}

TEST(an_empty_window_moves_on_to_any_later_id)
{
    struct coxi_window window;
    coxi_window_init(&window, 10, 2);
    assert_code(0, coxi_window_put(&window, 1000000, &items[0]));
    assert_int_equal(1000000, window.first);
    assert_null(coxi_window_get(&window, 10));
    assert_ptr_equal(&items[0], coxi_window_take(&window, 1000000));
    assert_null(coxi_window_take(&window, 1000000));
    assert_int_equal(1000001, window.first);
    coxi_window_fini(&window);
}

TEST(skipped_ids_are_gone)
{
    struct coxi_window window;
    coxi_window_init(&window, 1, 100);
    assert_code(0, coxi_window_put(&window, 1, &items[1]));
    assert_code(0, coxi_window_put(&window, 90, &items[90]));
    for (uint64_t id = 2; id < 90; id++) {
        assert_null(coxi_window_get(&window, id));
        assert_null(coxi_window_take(&window, id));
    }
    assert_ptr_equal(&items[1], coxi_window_take(&window, 1));
    assert_int_equal(90, window.first);
    assert_int_equal(1, window.count);
    coxi_window_fini(&window);
}

TEST(an_empty_window_has_nothing_at_any_id)
{
    struct coxi_window window;
    coxi_window_init(&window, 5, 8);
    assert_null(coxi_window_get(&window, 0));
    assert_null(coxi_window_get(&window, 5));
    assert_null(coxi_window_get(&window, UINT64_MAX));
    assert_null(coxi_window_take(&window, 5));
    assert_int_equal(5, window.first);
    coxi_window_fini(&window);
}
