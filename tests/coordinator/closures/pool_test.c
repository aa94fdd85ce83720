#include "coordinator/closures/pool.h"

#include "common/rand.h"
#include "tests/test.h"

enum { N_MEMBERS = 60, N_STEPS = 20000 };

struct member {
    uint32_t held;
    uint32_t capacity;
};

/* The least loaded member with room, found by looking at each. */
static bool reference_first(const struct member *members, uint32_t n,
                            uint32_t *ret_member)
{
    bool found = false;
    uint32_t best = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct member *m = &members[i];
        if (m->held < m->capacity && (!found || m->held * members[best].capacity <
                                                    members[best].held * m->capacity)) {
            found = true;
            best = i;
        }
    }
    *ret_member = best;
    return found;
}

static void assert_same(const struct coxi_pool *pool, const struct member *members,
                        uint32_t n)
{
    uint32_t expected;
    uint32_t member = 0;
    uint32_t room = 0;
    bool found = reference_first(members, n, &expected);
    assert_int_equal(coxi_pool_first(pool, &member, &room), found);
    if (found) {
        assert_int_equal(member, expected);
        assert_int_equal(room, members[member].capacity - members[member].held);
    }
}

TEST(pool_finds_the_least_loaded_as_looking_at_everyone_does)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct coxi_pool pool = {0};
        struct member members[N_MEMBERS] = {0};
        uint32_t n = 0;
        uint64_t random = seed;
        for (int step = 0; step < N_STEPS; step++) {
            uint64_t r = coxi_rand(&random);
            if (n < N_MEMBERS && (n == 0 || r % 97 == 0)) {
                n += 1 + (uint32_t)(r >> 32) % (N_MEMBERS - n);
                assert_code(0, coxi_pool_reserve(&pool, n));
            }
            uint32_t i = (uint32_t)(r >> 40) % n;
            members[i].capacity = (uint32_t)(r >> 20) % 8;
            members[i].held = (uint32_t)(r >> 10) % 8;
            coxi_pool_set(&pool, i, members[i].held, members[i].capacity);
            assert_same(&pool, members, n);
        }
        coxi_pool_fini(&pool);
    }
}

TEST(pool_hands_everything_out_evenly)
{
    struct coxi_pool pool = {0};
    struct member members[N_MEMBERS];
    assert_code(0, coxi_pool_reserve(&pool, N_MEMBERS));
    for (uint32_t i = 0; i < N_MEMBERS; i++) {
        members[i] = (struct member){0, i % 2 == 0 ? 4 : 8};
        coxi_pool_set(&pool, i, 0, members[i].capacity);
    }
    uint32_t i;
    uint32_t room;
    for (uint32_t n = N_MEMBERS * 3; n > 0; n--) {
        assert_true(coxi_pool_first(&pool, &i, &room));
        members[i].held++;
        coxi_pool_set(&pool, i, members[i].held, members[i].capacity);
    }
    for (i = 0; i < N_MEMBERS; i++) {
        assert_int_equal(members[i].held, members[i].capacity / 2);
    }
    coxi_pool_fini(&pool);
}

TEST(pool_without_room_has_no_first)
{
    struct coxi_pool pool = {0};
    uint32_t i = 7;
    uint32_t room = 7;
    assert_false(coxi_pool_first(&pool, &i, &room));
    assert_code(0, coxi_pool_reserve(&pool, 2));
    assert_false(coxi_pool_first(&pool, &i, &room));
    coxi_pool_set(&pool, 1, 0, 1);
    assert_true(coxi_pool_first(&pool, &i, &room));
    assert_int_equal(i, 1);
    coxi_pool_set(&pool, 1, 1, 1);
    i = room = 7;
    assert_false(coxi_pool_first(&pool, &i, &room));
    assert_int_equal(i, 7);
    assert_int_equal(room, 7);
    coxi_pool_fini(&pool);
}
