/* The applied set, by which a commit that comes twice counts once. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/rand.h"
#include "coxswain/types.h"
#include "ps/applied.h"
#include "tests/test.h"

static struct coxi_applied *new_set(void)
{
    struct coxi_applied *applied;
    assert_code(0, coxi_applied_new(&applied));
    return applied;
}

static int begin(struct coxi_applied *applied, uint64_t closure, uint32_t segment)
{
    struct coxi_commit commit = {
        .closure = closure, .segment = segment, .attempt = 1, .last = true};
    return coxi_applied_begin(applied, &commit);
}

static void apply(struct coxi_applied *applied, uint64_t closure, uint32_t segment)
{
    assert_code(0, begin(applied, closure, segment));
    coxi_applied_end(applied, closure, 0);
}

static void assert_applied(struct coxi_applied *applied, uint64_t closure,
                           uint32_t segment)
{
    assert_code(COX_EEXIST, begin(applied, closure, segment));
}

/* Asserts that the segment is not in the set; asking does not add it. */
static void assert_not_applied(struct coxi_applied *applied, uint64_t closure,
                               uint32_t segment)
{
    assert_code(0, begin(applied, closure, segment));
    coxi_applied_end(applied, closure, COX_EINVAL);
}

static uint64_t watermark_of(struct coxi_applied *applied)
{
    struct coxi_applied_list list;
    assert_code(0, coxi_applied_list(applied, &list));
    uint64_t watermark = list.watermark;
    coxi_applied_list_fini(&list);
    return watermark;
}

TEST(applied_tells_what_comes_twice)
{
    struct coxi_applied *applied = new_set();
    apply(applied, 7, 0);
    assert_applied(applied, 7, 0);
    assert_not_applied(applied, 6, 0);
    assert_not_applied(applied, 8, 0);
    coxi_applied_free(applied);
}

TEST(applied_keeps_segments_apart)
{
    struct coxi_applied *applied = new_set();
    apply(applied, 3, 0);
    apply(applied, 3, 63);
    assert_applied(applied, 3, 0);
    assert_applied(applied, 3, 63);
    assert_not_applied(applied, 3, 1);
    assert_not_applied(applied, 3, 31);
    assert_not_applied(applied, 3, 32);
    assert_not_applied(applied, 3, 62);
    coxi_applied_free(applied);
}

TEST(applied_takes_nothing_up_to_the_watermark)
{
    struct coxi_applied *applied = new_set();
    assert_applied(applied, 0, 0);
    coxi_applied_advance(applied, 5);
    assert_applied(applied, 1, 0);
    assert_applied(applied, 5, 0);
    assert_applied(applied, 5, 9);
    assert_not_applied(applied, 6, 0);
    coxi_applied_free(applied);
}

TEST(applied_ignores_a_lower_watermark)
{
    struct coxi_applied *applied = new_set();
    coxi_applied_advance(applied, 10);
    coxi_applied_advance(applied, 3);
    assert_int_equal(10, watermark_of(applied));
    assert_applied(applied, 7, 0);
    coxi_applied_free(applied);
}

TEST(applied_does_not_mistake_an_id_for_one_passed_long_ago)
{
    struct coxi_applied *applied = new_set();
    for (uint64_t id = 1; id <= 1024; id++) {
        apply(applied, id, 0);
    }
    coxi_applied_advance(applied, 1024);
    apply(applied, 2048, 0);
    for (uint64_t id = 1025; id < 2048; id++) {
        assert_not_applied(applied, id, 0);
    }
    coxi_applied_advance(applied, 1000000);
    apply(applied, 1000001, 0);
    assert_applied(applied, 1000001, 0);
    assert_not_applied(applied, 1000002, 0);
    coxi_applied_free(applied);
}

TEST(applied_keeps_what_it_has_when_it_grows)
{
    struct coxi_applied *applied = new_set();
    coxi_applied_advance(applied, 500);
    for (uint64_t id = 501; id <= 1500; id += 3) {
        apply(applied, id, 0);
    }
    apply(applied, 100000, 0);
    for (uint64_t id = 501; id <= 1500; id++) {
        if (id % 3 == 0) {
            assert_applied(applied, id, 0);
        } else {
            assert_not_applied(applied, id, 0);
        }
    }
    assert_applied(applied, 100000, 0);
    coxi_applied_free(applied);
}

TEST(applied_refuses_a_closure_beyond_its_window)
{
    struct coxi_applied *applied = new_set();
    assert_code(COX_ELIMIT, begin(applied, COXI_APPLIED_WINDOW + 1, 0));
    assert_code(COX_ELIMIT, begin(applied, UINT64_MAX, 0));
    apply(applied, COXI_APPLIED_WINDOW, 0);
    coxi_applied_advance(applied, 1);
    apply(applied, COXI_APPLIED_WINDOW + 1, 0);
    assert_applied(applied, COXI_APPLIED_WINDOW, 0);
    coxi_applied_free(applied);
}

TEST(applied_refuses_a_segment_beyond_the_last)
{
    struct coxi_applied *applied = new_set();
    assert_code(COX_ELIMIT, begin(applied, 1, COXI_SEGMENTS_MAX));
    apply(applied, 1, COXI_SEGMENTS_MAX - 1);
    assert_applied(applied, 1, COXI_SEGMENTS_MAX - 1);
    coxi_applied_free(applied);
}

TEST(applied_forgets_what_has_failed)
{
    struct coxi_applied *applied = new_set();
    assert_code(0, begin(applied, 4, 2));
    coxi_applied_end(applied, 4, COX_ENOMEM);
    apply(applied, 4, 2);
    assert_applied(applied, 4, 2);
    coxi_applied_free(applied);
}

/* ---- two that ask at a time */

struct asker {
    struct coxi_applied *applied;
    atomic_int thread; /* its id, once it is about to ask */
    atomic_bool answered;
    int code;
};

static void *ask(void *arg)
{
    struct asker *asker = arg;
    atomic_store(&asker->thread, (int)syscall(SYS_gettid));
    asker->code = begin(asker->applied, 7, 0);
    atomic_store(&asker->answered, true);
    return NULL;
}

/* True if it sleeps in the kernel, or has an answer already (which would be wrong). */
static bool waits_or_is_answered(void *arg)
{
    struct asker *asker = arg;
    char path[64];
    char state = 0;
    if (atomic_load(&asker->answered) || atomic_load(&asker->thread) == 0) {
        return atomic_load(&asker->answered);
    }
    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat",
                   atomic_load(&asker->thread));
    FILE *file = fopen(path, "re");
    int n = file != NULL ? fscanf(file, "%*d (%*[^)]) %c", &state) : 0;
    if (file != NULL) {
        (void)fclose(file);
    }
    return n == 1 && state == 'S';
}

/* Asks about a commit while another thread has it open. Returns the answer after that
 * thread's commit has ended with `failed`. */
static int ask_meanwhile(int failed)
{
    struct asker asker = {.applied = new_set()};
    pthread_t thread;
    assert_code(0, begin(asker.applied, 7, 0));
    assert_int_equal(0, pthread_create(&thread, NULL, ask, &asker));
    coxi_test_until(waits_or_is_answered, &asker, "the second asker's wait");
    apply(asker.applied, 8, 0); /* the end of another commit does not end its wait */
    assert_false(atomic_load(&asker.answered));
    coxi_applied_end(asker.applied, 7, failed);
    assert_int_equal(0, pthread_join(thread, NULL));
    coxi_applied_free(asker.applied);
    return asker.code;
}

TEST(applied_lets_a_second_asker_wait_and_then_tells_it)
{
    assert_int_equal(COX_EEXIST, ask_meanwhile(0));
}

TEST(applied_lets_a_second_asker_apply_what_the_first_could_not)
{
    assert_int_equal(0, ask_meanwhile(COX_ENOMEM));
}

enum { N_IDS = 5000, N_SEGMENTS = 2, N_THREADS = 4 };

struct crowd {
    struct coxi_applied *applied;
    atomic_uint times[N_IDS + 1][N_SEGMENTS];
    atomic_uint strange;
    atomic_uint next_seed;
};

static void *apply_all(void *arg)
{
    struct crowd *crowd = arg;
    uint64_t seed = atomic_fetch_add(&crowd->next_seed, 1);
    for (uint64_t i = 0; i < (uint64_t)N_IDS * 2; i++) {
        uint64_t id = i < N_IDS ? coxi_rand(&seed) % N_IDS + 1 : i - N_IDS + 1;
        for (uint32_t segment = 0; segment < N_SEGMENTS; segment++) {
            int r = begin(crowd->applied, id, segment);
            if (r == 0) {
                atomic_fetch_add(&crowd->times[id][segment], 1);
                coxi_applied_end(crowd->applied, id, 0);
            } else if (r != COX_EEXIST) {
                atomic_fetch_add(&crowd->strange, 1);
            }
        }
    }
    return NULL;
}

TEST(applied_lets_one_of_many_threads_apply_each_segment)
{
    struct crowd *crowd = calloc(1, sizeof(*crowd));
    pthread_t threads[N_THREADS];
    crowd->applied = new_set();
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(0, pthread_create(&threads[i], NULL, apply_all, crowd));
    }
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
    }
    assert_int_equal(0, atomic_load(&crowd->strange));
    for (size_t id = 1; id <= N_IDS; id++) {
        assert_int_equal(1, atomic_load(&crowd->times[id][0]));
        assert_int_equal(1, atomic_load(&crowd->times[id][1]));
    }
    coxi_applied_free(crowd->applied);
    free(crowd);
}

/* ---- against a plain array */

enum { SPAN = 4000, SEGMENTS = 3, OPERATIONS = 6000 };

struct plain {
    bool applied[SPAN + 1][SEGMENTS];
    uint64_t watermark;
};

/* Asserts that the list equals the array, in as few intervals as possible. */
static void assert_list(struct coxi_applied *applied, const struct plain *plain)
{
    struct coxi_applied_list list;
    size_t at = 0;
    assert_code(0, coxi_applied_list(applied, &list));
    const struct coxi_interval *intervals = list.intervals;
    size_t n = list.n_intervals;
    uint64_t watermark = list.watermark;
    assert_int_equal(plain->watermark, watermark);
    for (uint32_t segment = 0; segment < SEGMENTS; segment++) {
        for (uint64_t id = watermark + 1; id <= SPAN; id++) {
            if (!plain->applied[id][segment]) {
                continue;
            }
            assert_true(at < n);
            assert_int_equal(id, intervals[at].first);
            assert_int_equal(segment, intervals[at].segment);
            while (id < SPAN && plain->applied[id + 1][segment]) {
                id++;
            }
            assert_int_equal(id, intervals[at].last);
            at++;
        }
    }
    assert_int_equal(n, at);
    for (uint64_t id = 1; id <= SPAN; id++) {
        for (uint32_t segment = 0; segment < SEGMENTS; segment++) {
            assert_int_equal(id <= watermark || plain->applied[id][segment],
                             coxi_applied_list_has(&list, id, segment));
        }
    }
    coxi_applied_list_fini(&list);
}

static void do_something(struct coxi_applied *applied, struct plain *plain,
                         uint64_t *rng)
{
    uint64_t kind = coxi_rand(rng) % 100;
    if (kind == 0) {
        uint64_t to = plain->watermark + coxi_rand(rng) % 60;
        coxi_applied_advance(applied, to);
        plain->watermark = to < SPAN ? to : plain->watermark;
        return;
    }
    uint64_t id = 1 + (plain->watermark + coxi_rand(rng) % 300) % SPAN;
    uint32_t segment = (uint32_t)(coxi_rand(rng) % SEGMENTS);
    bool known = id <= plain->watermark || plain->applied[id][segment];
    assert_code(known ? COX_EEXIST : 0, begin(applied, id, segment));
    if (!known) {
        bool fails = kind < 20;
        coxi_applied_end(applied, id, fails ? COX_ENOMEM : 0);
        plain->applied[id][segment] = !fails;
    }
}

TEST(applied_agrees_with_a_plain_array)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct coxi_applied *applied = new_set();
        struct plain *plain = calloc(1, sizeof(*plain));
        uint64_t rng = seed;
        for (int i = 0; i < OPERATIONS && plain->watermark < SPAN - 60; i++) {
            do_something(applied, plain, &rng);
            if (i % 97 == 0) {
                assert_list(applied, plain);
            }
        }
        assert_list(applied, plain);
        free(plain);
        coxi_applied_free(applied);
    }
}

/* ---- voiding */

struct told {
    struct coxi_buffer segments;
    struct coxi_buffer touched;
};

static const struct coxi_voided_segment *segment_at(const struct told *told, size_t i)
{
    return &((const struct coxi_voided_segment *)(const void *)told->segments.data)[i];
}

static size_t void_closure(struct coxi_applied *applied, uint64_t closure,
                           uint32_t attempt, struct told *told)
{
    told->segments.len = told->touched.len = 0;
    assert_code(0, coxi_applied_void(applied, closure, attempt, &told->segments,
                                     &told->touched));
    return told->segments.len / sizeof(struct coxi_voided_segment);
}

static void told_fini(struct told *told)
{
    coxi_buffer_fini(&told->segments);
    coxi_buffer_fini(&told->touched);
}

static int commit_of(struct coxi_applied *applied, uint64_t closure, uint32_t attempt,
                     uint32_t segment, bool last, const uint32_t *touched, size_t n)
{
    struct coxi_commit commit = {.closure = closure,
                                 .attempt = attempt,
                                 .segment = segment,
                                 .last = last,
                                 .touched = touched,
                                 .n_touched = n};
    int r = coxi_applied_begin(applied, &commit);
    if (r == 0) {
        coxi_applied_end(applied, closure, 0);
    }
    return r;
}

TEST(void_refuses_attempts_up_to_its_own_and_no_later_ones)
{
    const uint32_t touched[] = {0};
    struct told told = {0};
    struct coxi_applied *applied = new_set();
    assert_int_equal(0, void_closure(applied, 9, 2, &told));
    assert_code(COX_ECANCELLED, commit_of(applied, 9, 1, 0, true, touched, 1));
    assert_code(COX_ECANCELLED, commit_of(applied, 9, 2, 0, true, touched, 1));
    /* does not lower the fence */
    assert_int_equal(0, void_closure(applied, 9, 1, &told));
    assert_code(COX_ECANCELLED, commit_of(applied, 9, 2, 0, true, touched, 1));
    assert_code(0, commit_of(applied, 9, 3, 0, true, touched, 1));
    assert_code(0, commit_of(applied, 8, 1, 0, true, touched, 1));
    assert_code(COX_EEXIST, commit_of(applied, 9, 1, 0, true, touched, 1));
    told_fini(&told);
    coxi_applied_free(applied);
}

TEST(void_tells_what_is_applied_with_last_and_touched)
{
    const uint32_t touched[] = {1, 4, 7};
    struct told told = {0};
    struct coxi_applied *applied = new_set();
    assert_code(0, commit_of(applied, 5, 1, 3, true, touched, 3));
    assert_code(0, commit_of(applied, 5, 1, 0, false, touched + 1, 1));
    assert_int_equal(2, void_closure(applied, 5, 1, &told));
    assert_int_equal(0, segment_at(&told, 0)->segment);
    assert_int_equal(0, segment_at(&told, 0)->last);
    assert_int_equal(1, segment_at(&told, 0)->touched_n);
    assert_int_equal(3, segment_at(&told, 1)->segment);
    assert_int_equal(1, segment_at(&told, 1)->last);
    assert_int_equal(3, segment_at(&told, 1)->touched_n);
    const uint32_t all[] = {4, 1, 4, 7};
    assert_int_equal(sizeof(all), told.touched.len);
    assert_memory_equal(all, told.touched.data, sizeof(all));
    coxi_applied_advance(applied, 5);
    assert_int_equal(0, void_closure(applied, 5, 9, &told)); /* settled */
    told_fini(&told);
    coxi_applied_free(applied);
}

TEST(applied_tells_attempts_that_are_not_alike)
{
    const uint32_t touched[] = {0, 1, 2};
    struct coxi_applied *applied = new_set();
    assert_code(0, commit_of(applied, 5, 1, 0, true, touched, 2));
    assert_code(COX_EEXIST, commit_of(applied, 5, 2, 0, true, touched, 2));
    assert_code(COX_EDIVERGED, commit_of(applied, 5, 2, 0, true, touched, 3));
    assert_code(COX_EDIVERGED, commit_of(applied, 5, 2, 0, true, touched + 1, 2));
    assert_code(COX_EDIVERGED, commit_of(applied, 5, 2, 0, false, touched, 2));
    assert_error_names("closure 5");
    coxi_applied_free(applied);
}

__attribute__((weak)) size_t __sanitizer_get_current_allocated_bytes(void);

TEST(set_gives_its_memory_back_when_a_late_watermark_has_come)
{
    enum { LATE = COXI_APPLIED_WINDOW - 1, SMALL = 64 << 10, ENTRY = 8 };
    if (__sanitizer_get_current_allocated_bytes == NULL) {
        skip(); /* only a sanitizer's allocator tells */
    }
    struct coxi_applied *applied = new_set();
    apply(applied, 1, 0);
    size_t before = __sanitizer_get_current_allocated_bytes();
    apply(applied, LATE, 0);
    assert_true(__sanitizer_get_current_allocated_bytes() >= before + LATE * ENTRY / 2);
    /* a commit that has begun keeps its place */
    assert_code(0, begin(applied, LATE + 1, 0));
    assert_code(0, coxi_applied_advance(applied, LATE));
    assert_true(__sanitizer_get_current_allocated_bytes() >= before + LATE * ENTRY / 2);
    coxi_applied_end(applied, LATE + 1, 0);
    assert_applied(applied, LATE + 1, 0);
    assert_code(0, coxi_applied_advance(applied, LATE + 1));
    assert_true(__sanitizer_get_current_allocated_bytes() <= before + SMALL);
    apply(applied, LATE + 2000, 0);
    assert_applied(applied, LATE + 2000, 0);
    assert_not_applied(applied, LATE + 1999, 0);
    coxi_applied_free(applied);
}

TEST(void_beyond_the_window_is_refused)
{
    struct told told = {0};
    struct coxi_applied *applied = new_set();
    assert_code(COX_ELIMIT, coxi_applied_void(applied, COXI_APPLIED_WINDOW + 1, 1,
                                              &told.segments, &told.touched));
    assert_int_equal(0, void_closure(applied, COXI_APPLIED_WINDOW, 1, &told));
    told_fini(&told);
    coxi_applied_free(applied);
}

/* ---- as a list, and back */

static void apply_touching(struct coxi_applied *applied, uint64_t closure,
                           uint32_t segment, bool last, const uint32_t *touched,
                           size_t n)
{
    struct coxi_commit commit = {.closure = closure,
                                 .attempt = 1,
                                 .segment = segment,
                                 .last = last,
                                 .touched = touched,
                                 .n_touched = n};
    assert_code(0, coxi_applied_begin(applied, &commit));
    coxi_applied_end(applied, closure, 0);
}

static const uint32_t some[] = {0, 3, 7};

static struct coxi_applied *varied_set(void)
{
    struct coxi_applied *applied = new_set();
    coxi_applied_advance(applied, 4);
    for (uint64_t id = 5; id <= 9; id++) {
        apply_touching(applied, id, 0, true, some, 2);
    }
    apply_touching(applied, 10, 0, true, some, 3);
    apply_touching(applied, 11, 0, false, some, 3);
    apply_touching(applied, 11, 2, true, some + 1, 1);
    apply_touching(applied, 13, 0, false, some, 3);
    return applied;
}

TEST(applied_lists_what_is_alike_together)
{
    static const struct coxi_interval expected[] = {
        {5, 9, 0, 1, 0, 2},   {10, 10, 0, 1, 2, 3}, {11, 11, 0, 0, 5, 3},
        {13, 13, 0, 0, 5, 3}, {11, 11, 2, 1, 8, 1},
    };
    static const uint32_t touched[] = {0, 3, 0, 3, 7, 0, 3, 7, 3};
    struct coxi_applied *applied = varied_set();
    struct coxi_applied_list list;
    assert_code(0, coxi_applied_list(applied, &list));
    assert_int_equal(4, list.watermark);
    assert_int_equal(5, list.n_intervals);
    assert_memory_equal(expected, list.intervals, sizeof(expected));
    assert_int_equal(9, list.n_touched);
    assert_memory_equal(touched, list.touched, sizeof(touched));
    coxi_applied_list_fini(&list);
    coxi_applied_free(applied);
}

TEST(applied_is_from_a_list_what_it_was)
{
    struct coxi_applied *applied = varied_set();
    struct coxi_applied *again = new_set();
    struct coxi_applied_list list;
    struct coxi_applied_list second;
    assert_code(0, coxi_applied_list(applied, &list));
    assert_code(0, coxi_applied_load(again, &list));
    assert_code(0, coxi_applied_list(again, &second));
    assert_int_equal(list.n_intervals, second.n_intervals);
    assert_memory_equal(list.intervals, second.intervals,
                        list.n_intervals * sizeof(*list.intervals));
    assert_memory_equal(list.touched, second.touched,
                        list.n_touched * sizeof(*list.touched));
    assert_applied(again, 4, 0);
    assert_not_applied(again, 12, 0);
    assert_not_applied(again, 13, 1);
    struct coxi_commit commit = {
        .closure = 11, .attempt = 2, .last = false, .touched = some, .n_touched = 3};
    assert_code(COX_EEXIST, coxi_applied_begin(again, &commit));
    commit.n_touched = 2;
    assert_code(COX_EDIVERGED, coxi_applied_begin(again, &commit));
    coxi_applied_list_fini(&list);
    coxi_applied_list_fini(&second);
    coxi_applied_free(applied);
    coxi_applied_free(again);
}

TEST(applied_refuses_lists_that_can_be_no_set)
{
    static struct coxi_interval bad[][2] = {
        {{4, 6, 0, 1, 0, 0}, {8, 8, 0, 1, 0, 0}},                       /* settled */
        {{6, 5, 0, 1, 0, 0}, {8, 8, 0, 1, 0, 0}},                       /* backwards */
        {{5, 6, 0, 1, 0, 0}, {6, 7, 0, 1, 0, 0}},                       /* twice */
        {{5, 6, COXI_SEGMENTS_MAX, 1, 0, 0}, {8, 8, 0, 1, 0, 0}},       /* no segment */
        {{5, 5 + COXI_APPLIED_WINDOW, 0, 1, 0, 0}, {8, 8, 1, 1, 0, 0}}, /* too far */
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct coxi_applied *applied = new_set();
        struct coxi_applied_list list = {4, bad[i], 2, NULL, 0};
        assert_code(COX_EFORMAT, coxi_applied_load(applied, &list));
        coxi_applied_free(applied);
    }
}
