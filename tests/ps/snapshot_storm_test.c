/* Snapshots of a store while commits and pulls come and claims interrupt. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "checkpoint/safetensors.h"
#include "common/hash.h"
#include "common/rand.h"
#include "tests/loaded.h"
#include "tests/ps/stock.h"
#include "tests/test.h"

enum {
    N_COMMITTERS = 2,
    N_SNAPSHOTS = 12,
    KEYS = 4000, /* of a table */
    PUSH = 64,   /* keys of a commit */
    DIM = 8,
    WIDTH = 20000, /* of a dense variable */
    RANGE = 300,   /* rows of the dense variable in a commit */
    FIRST = 100,   /* closure */
};

struct storm {
    struct stock stock;
    uint32_t dense;
    uint32_t counts; /* a table: adds */
    uint32_t going;  /* a table whose rows are evicted: takes gradients */
    atomic_bool stop;
    atomic_uint_least64_t closure;
    atomic_uint n_committed;
    atomic_uint n_failed;
};

/* Draws the updates of a closure: it adds 1 to RANGE rows from *ret_begin on, and to
 * the keys. */
static void keys_of(uint64_t closure, uint64_t keys[PUSH], uint64_t *ret_begin)
{
    uint64_t rng = closure;
    for (size_t i = 0; i < PUSH; i++) {
        keys[i] = coxi_rand(&rng) % KEYS;
    }
    *ret_begin = coxi_rand(&rng) % (WIDTH - RANGE);
}

static int commit_one(struct storm *storm, uint64_t closure)
{
    static _Thread_local float ones[PUSH * DIM + RANGE];
    static _Thread_local float minus[PUSH];
    struct stock_commit commit;
    uint64_t keys[PUSH];
    uint64_t begin;
    keys_of(closure, keys, &begin);
    for (size_t i = 0; i < sizeof(ones) / sizeof(*ones); i++) {
        ones[i] = 1;
    }
    for (size_t i = 0; i < PUSH; i++) {
        minus[i] = -1; /* a gradient, of rate 1 */
    }
    stock_begin(&storm->stock, closure, &commit);
    stock_add(&commit, storm->dense, COXI_OP_ADD, begin, RANGE, ones,
              RANGE * sizeof(float));
    stock_add_rows(&commit, storm->counts, COXI_OP_ADD, keys, PUSH, ones,
                   (size_t)PUSH * DIM * sizeof(float));
    stock_add_rows(&commit, storm->going, COXI_OP_GRADIENT, keys, PUSH, minus,
                   sizeof(minus));
    return stock_commit(&storm->stock, &commit, NULL);
}

static void *commit_all(void *arg)
{
    struct storm *storm = arg;
    while (!atomic_load(&storm->stop)) {
        int r = commit_one(storm, atomic_fetch_add(&storm->closure, 1));
        atomic_fetch_add(r == 0 ? &storm->n_committed : &storm->n_failed, 1);
    }
    return NULL;
}

static void open_storm(struct storm *storm)
{
    struct coxi_variable going = {
        .name = "going",
        .kind = COXI_KIND_TABLE,
        .dtype = COX_F32,
        .rank = 1,
        .shape = {1},
        .optimizer = {.kind = COXI_OPTIMIZER_SGD, .learning_rate = 1},
        .lifecycle = {.rows_max = KEYS / 4}};
    memset(storm, 0, sizeof(*storm));
    stock_open(&storm->stock);
    storm->dense = stock_dense(&storm->stock, "dense", COX_F32, WIDTH);
    storm->counts = stock_table(&storm->stock, "counts", DIM);
    storm->going = stock_create(&storm->stock, &going);
    atomic_store(&storm->closure, FIRST);
}

/* ---- against the applied set */

/* The expected values after the closures of an applied set. */
struct expected {
    float dense[WIDTH];
    float counts[KEYS];
};

static void expect(const struct coxi_applied_list *list, struct expected *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; i < list->n_intervals; i++) {
        const struct coxi_interval *in = &list->intervals[i];
        for (uint64_t closure = in->first; closure <= in->last; closure++) {
            uint64_t keys[PUSH];
            uint64_t begin;
            if (closure < FIRST) {
                continue; /* the variables */
            }
            keys_of(closure, keys, &begin);
            for (size_t k = 0; k < PUSH; k++) {
                ret->counts[keys[k]]++;
            }
            for (size_t k = 0; k < RANGE; k++) {
                ret->dense[begin + k]++;
            }
        }
    }
}

static const void *data_of(const struct coxi_st_file *file, const char *name)
{
    const struct coxi_st_tensor *tensor = coxi_st_find(file, name);
    assert_non_null(tensor);
    return loaded(tensor);
}

static void assert_counts(const struct coxi_st_file *file,
                          const struct expected *expected)
{
    static bool seen[KEYS];
    const uint64_t *keys = data_of(file, "counts/keys");
    const float *values = data_of(file, "counts/values");
    uint64_t n = coxi_st_find(file, "counts/keys")->shape[0];
    memset(seen, 0, sizeof(seen));
    for (uint64_t i = 0; i < n; i++) {
        assert_true(keys[i] < KEYS && !seen[keys[i]]);
        seen[keys[i]] = true;
        for (size_t c = 0; c < DIM; c++) {
            assert_true(values[i * DIM + c] == expected->counts[keys[i]]);
        }
    }
    for (size_t key = 0; key < KEYS; key++) {
        assert_true(seen[key] || expected->counts[key] == 0);
    }
}

/* Which rows were evicted depends on the order of threads; but the values of a row must
 * agree with each other. */
static void assert_going(const struct coxi_st_file *file)
{
    static bool seen[KEYS];
    const uint64_t *keys = data_of(file, "going/keys");
    const float *values = data_of(file, "going/values");
    const uint64_t *updates = data_of(file, "going/updates");
    const uint64_t *last = data_of(file, "going/last");
    uint64_t step = *(const uint64_t *)data_of(file, "going/step");
    memset(seen, 0, sizeof(seen));
    for (uint64_t i = 0; i < coxi_st_find(file, "going/keys")->shape[0]; i++) {
        assert_true(keys[i] < KEYS && !seen[keys[i]]);
        seen[keys[i]] = true;
        assert_true(values[i] == (float)updates[i] && last[i] <= step);
    }
}

static void assert_one_moment(struct storm *storm, uint64_t number)
{
    static struct expected expected;
    char name[32];
    struct coxi_st_file *file;
    struct coxi_snapshot_file done;
    (void)snprintf(name, sizeof(name), "snapshot-%d.st", (int)number);
    struct coxi_snapshot request = {.session = storm->stock.session,
                                    .number = number,
                                    .path = coxi_test_path(name)};
    assert_code(0, coxi_store_snapshot(storm->stock.store, &request, &done));
    assert_code(0, coxi_st_open(request.path, done.bytes, &done.crc32, &file));
    expect(&done.applied, &expected);
    assert_memory_equal(expected.dense, data_of(file, "dense"), sizeof(expected.dense));
    assert_counts(file, &expected);
    assert_going(file);
    coxi_applied_list_fini(&done.applied);
    coxi_st_close(file);
}

static bool has_gone_on(void *arg)
{
    struct storm *storm = arg;
    static unsigned last;
    unsigned now = atomic_load(&storm->n_committed);
    bool more = now > last;
    last = now;
    return more || atomic_load(&storm->n_failed) > 0;
}

/* Pulls rows, and asserts that none is torn: the columns of a row are always equal. */
static void *pull_all(void *arg)
{
    struct storm *storm = arg;
    uint64_t rng = 1;
    while (!atomic_load(&storm->stop)) {
        float row[DIM];
        uint64_t key = coxi_rand(&rng) % KEYS;
        struct coxi_pull_item item = {.variable = storm->counts, .count = 1};
        struct coxi_pull pull = {.session = storm->stock.session,
                                 .incarnation = STOCK_INCARNATION,
                                 .items = &item,
                                 .n_items = 1};
        struct coxi_buffer values = {0};
        struct coxi_buffer versions = {0};
        int r = coxi_store_pull(storm->stock.store, &pull, &key, sizeof(key), &values,
                                &versions);
        bool whole = r == 0 && values.len == sizeof(row);
        if (whole) {
            memcpy(row, values.data, sizeof(row));
        }
        for (size_t c = 1; whole && c < DIM; c++) {
            whole = row[c] == row[0];
        }
        atomic_fetch_add(&storm->n_failed, whole ? 0 : 1);
        coxi_buffer_fini(&values);
        coxi_buffer_fini(&versions);
    }
    return NULL;
}

TEST(snapshot_is_one_moment_while_commits_and_pulls_go_on)
{
    static struct storm storm;
    pthread_t threads[N_COMMITTERS];
    pthread_t puller;
    open_storm(&storm);
    for (int i = 0; i < N_COMMITTERS; i++) {
        assert_int_equal(0, pthread_create(&threads[i], NULL, commit_all, &storm));
    }
    assert_int_equal(0, pthread_create(&puller, NULL, pull_all, &storm));
    for (uint64_t number = 1; number <= N_SNAPSHOTS; number++) {
        coxi_test_until(has_gone_on, &storm, "a commit between snapshots");
        assert_one_moment(&storm, number);
    }
    atomic_store(&storm.stop, true);
    for (int i = 0; i < N_COMMITTERS; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
    }
    assert_int_equal(0, pthread_join(puller, NULL));
    assert_int_equal(0, atomic_load(&storm.n_failed));
    stock_close(&storm.stock);
}

/* ---- what ends one */

struct attempt {
    struct coxi_store *store;
    struct coxi_snapshot request;
    int result;
};

static void *take_one(void *arg)
{
    struct attempt *attempt = arg;
    struct coxi_snapshot_file done = {0};
    attempt->result = coxi_store_snapshot(attempt->store, &attempt->request, &done);
    coxi_applied_list_fini(&done.applied);
    return NULL;
}

static bool is_begun(void *arg)
{
    return access(((const struct attempt *)arg)->request.path, F_OK) == 0;
}

/* Claims the ps while it writes a snapshot, if that happens in time; returns the
 * snapshot's code. */
static int interrupt(struct stock *s)
{
    enum { LARGE = 8 << 20 };
    pthread_t thread;
    stock_open(s);
    (void)stock_dense(s, "large", COX_F32, LARGE);
    struct attempt attempt = {
        s->store,
        {.session = s->session, .number = 1, .path = coxi_test_path("ended.st")},
        0};
    assert_int_equal(0, pthread_create(&thread, NULL, take_one, &attempt));
    coxi_test_until(is_begun, &attempt, "the file of a snapshot");
    s->session.generation++;
    assert_code(0, coxi_store_claim(s->store, &s->session, NULL));
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_int_equal(attempt.result == 0, is_begun(&attempt));
    (void)unlink(attempt.request.path);
    return attempt.result;
}

TEST(snapshot_ends_where_another_client_claims_the_ps)
{
    enum { TRIES = 50 };
    struct stock s;
    int ended = 0;
    for (int i = 0; i < TRIES && ended == 0; i++) {
        ended = interrupt(&s);
        /* The new client works as if nothing had happened. */
        s.n_variables = 0;
        uint32_t v = stock_dense(&s, "v", COX_I64, 1);
        assert_code(0, stock_count(&s, v, 50, NULL));
        struct attempt next = {
            s.store,
            {.session = s.session, .number = 1, .path = coxi_test_path("next.st")},
            -1};
        (void)take_one(&next);
        assert_code(0, next.result);
        (void)unlink(next.request.path);
        stock_close(&s);
    }
    assert_code(COX_EFENCED, ended);
}

TEST(snapshot_that_a_full_disk_stops_leaves_nothing_and_the_next_one_is_right)
{
    static struct storm storm;
    struct rlimit old;
    open_storm(&storm);
    for (uint64_t i = 0; i < 200; i++) {
        assert_code(0, commit_one(&storm, atomic_fetch_add(&storm.closure, 1)));
    }
    struct attempt attempt = {storm.stock.store,
                              {.session = storm.stock.session,
                               .number = 1,
                               .path = coxi_test_path("full.st")},
                              0};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(0, getrlimit(RLIMIT_FSIZE, &old));
    struct rlimit tight = {.rlim_cur = 100 << 10, .rlim_max = old.rlim_max};
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &tight));
    (void)take_one(&attempt);
    (void)setrlimit(RLIMIT_FSIZE, &old);
    assert_code(COX_EIO, attempt.result);
    assert_false(is_begun(&attempt));
    for (uint64_t i = 0; i < 200; i++) {
        assert_code(0, commit_one(&storm, atomic_fetch_add(&storm.closure, 1)));
    }
    assert_one_moment(&storm, N_SNAPSHOTS + 1);
    stock_close(&storm.stock);
}
