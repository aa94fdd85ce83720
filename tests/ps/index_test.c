/* The index of a table: from key to row, growing a line at a time. */
#include <string.h>

#include "common/rand.h"
#include "ps/index.h"
#include "tests/test.h"

static uint64_t key_of(uint64_t i)
{
    return i * 0x9e3779b97f4a7c15u;
}

static int put(struct coxi_index *index, struct coxi_index_bucket *bucket, uint64_t key,
               uint32_t row)
{
    return coxi_index_put(index, bucket, key, coxi_hash_key(key), row);
}

static uint32_t find(struct coxi_index *index, struct coxi_index_bucket *bucket,
                     uint64_t key)
{
    return coxi_index_find(index, bucket, key, coxi_hash_key(key));
}

TEST(index_finds_nothing_where_nothing_is)
{
    struct coxi_index index;
    struct coxi_index_bucket bucket = {0};
    coxi_index_init(&index);
    assert_int_equal(0, find(&index, &bucket, 0));
    assert_int_equal(0, find(&index, &bucket, 1));
    assert_int_equal(0, coxi_index_remove(&index, &bucket, 1, coxi_hash_key(1)));
    coxi_index_fini(&index);
}

/* If a bucket moved all its keys when it grows, it would move thousands at once. */
TEST(index_moves_few_keys_with_each_put_however_many_it_has)
{
    enum { N = 1000000, FEW = 40 };
    struct coxi_index index;
    struct coxi_index_bucket bucket = {0};
    uint32_t most = 0;
    coxi_index_init(&index);
    for (uint32_t i = 0; i < N; i++) {
        assert_code(0, put(&index, &bucket, key_of(i), i + 1));
        most = bucket.n_moved > most ? bucket.n_moved : most;
    }
    assert_true(most > 0 && most <= FEW);
    assert_true(bucket.n_lines > N / 4 && bucket.n_lines < N / 3);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(i + 1, find(&index, &bucket, key_of(i)));
    }
    assert_int_equal(0, find(&index, &bucket, key_of(N)));
    coxi_index_fini(&index);
}

TEST(index_made_for_as_many_keys_moves_none_of_them)
{
    enum { N = 100000 };
    struct coxi_index index;
    struct coxi_index_bucket bucket = {0};
    coxi_index_init(&index);
    coxi_index_expect(&index, &bucket, 1);
    assert_int_equal(1, bucket.n_lines);
    coxi_index_expect(&index, &bucket, N);
    uint32_t n_lines = bucket.n_lines;
    for (uint32_t i = 0; i < N; i++) {
        assert_code(0, put(&index, &bucket, key_of(i), i + 1));
        assert_int_equal(0, bucket.n_moved);
    }
    assert_int_equal(n_lines, bucket.n_lines);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(i + 1, find(&index, &bucket, key_of(i)));
    }
    /* it grows normally again */
    assert_code(0, put(&index, &bucket, key_of(N), N + 1));
    for (uint32_t i = N + 1; i < 2 * N; i++) {
        assert_code(0, put(&index, &bucket, key_of(i), i + 1));
    }
    for (uint32_t i = 0; i < 2 * N; i++) {
        assert_int_equal(i + 1, find(&index, &bucket, key_of(i)));
    }
    coxi_index_fini(&index);
}

/* Their places end in the same bits, so they stay in one line for ever. */
TEST(index_takes_keys_that_all_fall_into_one_line)
{
    enum { N = 40 };
    struct coxi_index index;
    struct coxi_index_bucket bucket = {0};
    uint64_t keys[N];
    size_t n = 0;
    coxi_index_init(&index);
    for (uint64_t i = 0; n < N; i++) {
        if ((coxi_index_place(&index, coxi_hash_key(i)) & 0xfff) == 0) {
            keys[n++] = i;
        }
    }
    for (uint32_t i = 0; i < N; i++) {
        assert_code(0, put(&index, &bucket, keys[i], i + 1));
    }
    for (uint32_t i = 0; i < N; i += 2) {
        assert_int_equal(
            i + 1, coxi_index_remove(&index, &bucket, keys[i], coxi_hash_key(keys[i])));
    }
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(i % 2 == 0 ? 0 : i + 1, find(&index, &bucket, keys[i]));
    }
    coxi_index_fini(&index);
}

static int count_one(void *arg, uint64_t key, uint32_t row)
{
    (void)key;
    (void)row;
    *(uint32_t *)arg += 1;
    return 0;
}

/* About how many entries all puts together have looked at. */
static uint64_t work(const struct coxi_index *index,
                     const struct coxi_index_bucket *bucket)
{
    uint64_t sum = 0;
    for (uint32_t line = 0; line < bucket->n_lines; line++) {
        uint32_t n = 0;
        (void)coxi_index_each(index, bucket, line, count_one, &n);
        sum += (uint64_t)n * n;
    }
    return sum;
}

/* Without a seed, keys whose hashes differ only in a few bits would fall into few
 * lines, and each put would pass all earlier keys. With a few seeds that happens, too,
 * so the test always uses the same seeds. */
TEST(index_spreads_keys_that_were_chosen_to_collide)
{
    enum { N = 1 << 14, LEAST = 16 };
    uint64_t rng = 71;
    for (unsigned shift = LEAST; shift + 14 <= 64 - COXI_BUCKET_BITS; shift++) {
        struct coxi_index index;
        struct coxi_index_bucket bucket = {0};
        coxi_index_init(&index);
        index.seed = coxi_rand(&rng) | 1;
        for (uint64_t i = 0; i < N; i++) {
            uint64_t hash = UINT64_C(0xabc0000000000123) ^ i << shift;
            assert_true(coxi_hash_key(coxi_test_unhash(hash)) == hash);
            assert_code(0,
                        put(&index, &bucket, coxi_test_unhash(hash), (uint32_t)i + 1));
        }
        /* N * N if all are in one line */
        assert_in_range(work(&index, &bucket), N, 32 * N);
        coxi_index_fini(&index);
    }
}

/* Two indexes have different seeds. */
TEST(index_has_a_seed_of_its_own)
{
    struct coxi_index a;
    struct coxi_index b;
    coxi_index_init(&a);
    coxi_index_init(&b);
    assert_true(a.seed % 2 == 1 && b.seed % 2 == 1);
    assert_true(a.seed != b.seed);
    coxi_index_fini(&a);
    coxi_index_fini(&b);
}

/* ---- against a plain array */

enum { KEYS = 3000, BUCKETS = 3 };

struct crowd {
    struct coxi_index index;
    struct coxi_index_bucket buckets[BUCKETS];
    uint32_t rows[KEYS]; /* of key i; 0: it has none */
    uint32_t seen;
};

static struct coxi_index_bucket *bucket_of(struct crowd *crowd, uint64_t i)
{
    return &crowd->buckets[i % BUCKETS];
}

/* Now mostly puts, now mostly removals. */
static void change(struct crowd *crowd, uint64_t *rng, bool grows)
{
    uint64_t i = coxi_rand(rng) % KEYS;
    uint64_t key = key_of(i);
    if (crowd->rows[i] == 0 && coxi_rand(rng) % 4 < (grows ? 3 : 1)) {
        crowd->rows[i] = (uint32_t)(coxi_rand(rng) | 1);
        assert_code(0, put(&crowd->index, bucket_of(crowd, i), key, crowd->rows[i]));
    } else if (crowd->rows[i] != 0 && coxi_rand(rng) % 4 < (grows ? 1 : 3)) {
        assert_int_equal(crowd->rows[i],
                         coxi_index_remove(&crowd->index, bucket_of(crowd, i), key,
                                           coxi_hash_key(key)));
        crowd->rows[i] = 0;
    }
}

static int see(void *arg, uint64_t key, uint32_t row)
{
    struct crowd *crowd = arg;
    uint64_t i = key * 0xf1de83e19937733du; /* the inverse of key_of's factor */
    assert_true(i < KEYS && crowd->rows[i] == row);
    crowd->seen++;
    return 0;
}

static void compare(struct crowd *crowd)
{
    uint32_t n = 0;
    crowd->seen = 0;
    for (uint64_t i = 0; i < KEYS; i++) {
        n += crowd->rows[i] != 0 ? 1 : 0;
        assert_int_equal(crowd->rows[i],
                         find(&crowd->index, bucket_of(crowd, i), key_of(i)));
    }
    for (uint32_t b = 0; b < BUCKETS; b++) {
        for (uint32_t line = 0; line < crowd->buckets[b].n_lines; line++) {
            assert_code(0, coxi_index_each(&crowd->index, &crowd->buckets[b], line, see,
                                           crowd));
        }
    }
    assert_int_equal(n, crowd->seen);
}

TEST(index_agrees_with_a_plain_array)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct crowd *crowd = calloc(1, sizeof(*crowd));
        uint64_t rng = seed;
        coxi_index_init(&crowd->index);
        for (int i = 0; i < 40000; i++) {
            change(crowd, &rng, i / 5000 % 2 == 0);
            if (i % 2500 == 2499) {
                compare(crowd);
            }
        }
        coxi_index_fini(&crowd->index);
        free(crowd);
    }
}

/* ---- at the end of its room */

TEST(index_stays_as_it_was_where_a_put_finds_no_room)
{
    struct coxi_index index;
    struct coxi_index_bucket bucket = {0};
    coxi_index_init(&index);
    index.lines.max = 0;
    assert_code(COX_ELIMIT, put(&index, &bucket, 1, 1));
    assert_int_equal(0, find(&index, &bucket, 1));
    index.lines.max = 1;
    assert_code(0, put(&index, &bucket, 1, 1));
    assert_int_equal(1, find(&index, &bucket, 1));
    coxi_index_fini(&index);
}

/* The bucket's chains get longer until the overflow memory is full, too; then the
 * bucket grows again. */
TEST(index_goes_on_where_it_cannot_grow)
{
    enum { LINES = 13, MANY = 5000 };
    struct coxi_index index;
    struct coxi_index_bucket bucket = {0};
    uint32_t n = 0;
    coxi_index_init(&index);
    index.lines.max = 1;
    index.overflow.max = LINES;
    while (put(&index, &bucket, key_of(n), n + 1) == 0) {
        n++;
    }
    assert_int_equal(LINES * COXI_LINE_KEYS, n);
    assert_int_equal(0, find(&index, &bucket, key_of(n)));
    assert_int_equal(1, bucket.n_lines);
    index.lines.max = UINT32_MAX;
    index.overflow.max = UINT32_MAX;
    for (; n < MANY; n++) {
        assert_code(0, put(&index, &bucket, key_of(n), n + 1));
    }
    assert_true(bucket.n_lines > MANY / 4);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(i + 1, find(&index, &bucket, key_of(i)));
    }
    coxi_index_fini(&index);
}

/* ---- the memory below */

TEST(stretch_gives_every_item_a_place_of_its_own)
{
    static const size_t sizes[] = {4, 72, 128, 49152, 65536, 100000};
    for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
        struct coxi_stretch stretch;
        uint32_t n = (uint32_t)(4000000 / sizes[k]);
        uint32_t next = 1;
        coxi_stretch_init(&stretch, sizes[k], UINT32_MAX);
        while (next < n) {
            uint32_t first = 0;
            uint32_t count = next % 64 + 1;
            assert_code(0, coxi_stretch_take(&stretch, count, &first));
            assert_int_equal(next, first);
            for (; next < first + count; next++) {
                uint8_t *item = coxi_stretch_at(&stretch, next);
                memcpy(item, &next, sizeof(next));
                memcpy(item + sizes[k] - sizeof(next), &next, sizeof(next));
            }
        }
        for (uint32_t i = 1; i < next; i++) {
            const uint8_t *item = coxi_stretch_at(&stretch, i);
            assert_memory_equal(&i, item, sizeof(i));
            assert_memory_equal(&i, item + sizes[k] - sizeof(i), sizeof(i));
        }
        coxi_stretch_fini(&stretch);
    }
}
