/*
 * Snapshots that build on each other: a store that is restored from the chain equals
 * the store that was cut, after any changes, and even if some snapshots were abandoned.
 * Compares whole snapshots of both.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/safetensors.h"
#include "common/rand.h"
#include "common/rule.h"
#include "tests/loaded.h"
#include "tests/ps/stock.h"
#include "tests/test.h"

enum { KEYS = 3000, PUSH = 100, DIM = 2, WIDTH = 9000, CHAIN_MAX = 64 };

struct file {
    uint64_t number;
    char path[256];
    struct coxi_snapshot_file done;
};

struct subject {
    struct stock stock;
    struct coxi_variable specs[8]; /* by variable id */
    uint64_t next;                 /* number of a snapshot */
    /* the durable snapshots: a whole one, and those that build on it */
    struct file chain[CHAIN_MAX];
    size_t n_chain;
    uint64_t rng;
};

static const struct coxi_optimizer adagrad = {
    .kind = COXI_OPTIMIZER_ADAGRAD, .learning_rate = 1, .initial_accumulator = 1};
static struct coxi_shard whole = {0, 0, WIDTH};

static void create(struct subject *s, const struct coxi_variable *v)
{
    uint32_t id = s->stock.n_variables;
    s->specs[id] = *v;
    assert_int_equal(id, stock_create(&s->stock, &s->specs[id]));
}

static void create_table(struct subject *s, char *name, struct coxi_lifecycle lifecycle)
{
    create(s, &(struct coxi_variable){.name = name,
                                      .kind = COXI_KIND_TABLE,
                                      .dtype = COX_F32,
                                      .rank = 1,
                                      .shape = {DIM},
                                      .optimizer = adagrad,
                                      .lifecycle = lifecycle});
}

static void create_dense(struct subject *s, char *name)
{
    create(s, &(struct coxi_variable){.name = name,
                                      .dtype = COX_F32,
                                      .rank = 1,
                                      .shape = {WIDTH},
                                      .shards = &whole,
                                      .n_shards = 1,
                                      .optimizer = adagrad});
}

/* Variables by id. */
enum { PLAIN, GOING, BUSY, IDLE, LATE };

static void open_subject(struct subject *s, uint64_t seed)
{
    *s = (struct subject){.next = 1, .rng = seed};
    stock_open(&s->stock);
    create_table(s, "plain", (struct coxi_lifecycle){0});
    create_table(
        s, "going",
        (struct coxi_lifecycle){
            .evict_age = 9, .evict_count = 2, .evict_count_age = 5, .rows_max = 300});
    create_dense(s, "busy");
    create_dense(s, "idle");
}

static void close_subject(struct subject *s)
{
    for (size_t i = 0; i < s->n_chain; i++) {
        coxi_applied_list_fini(&s->chain[i].done.applied);
    }
    stock_close(&s->stock);
}

/* ---- changes */

static void push_rows(struct subject *s, struct stock_commit *commit, uint32_t table)
{
    uint64_t keys[PUSH];
    float values[PUSH * DIM];
    for (size_t i = 0; i < PUSH; i++) {
        keys[i] = coxi_rand(&s->rng) % KEYS;
    }
    for (size_t i = 0; i < (size_t)PUSH * DIM; i++) {
        values[i] = (float)(coxi_rand(&s->rng) % 9) - 4;
    }
    stock_add_rows(commit, table, COXI_OP_GRADIENT, keys, PUSH, values, sizeof(values));
}

static void push_dense(struct subject *s, struct stock_commit *commit, uint32_t dense)
{
    float values[PUSH];
    uint64_t begin = coxi_rand(&s->rng) % (WIDTH - PUSH);
    for (size_t i = 0; i < PUSH; i++) {
        values[i] = (float)(coxi_rand(&s->rng) % 9) - 4;
    }
    stock_add(commit, dense, COXI_OP_GRADIENT, begin, PUSH, values, sizeof(values));
}

/* Loads a piece of another checkpoint into the variable. `keys`: it is a table; `life`:
 * the table's rows have a life. */
static void load(struct subject *s, uint32_t variable, bool keys, bool life)
{
    enum { ARRAYS = 6 };
    uint64_t payload[ARRAYS * PUSH];
    uint64_t *at = payload;
    struct coxi_load piece = {.session = s->stock.session,
                              .incarnation = STOCK_INCARNATION,
                              .closure = ++s->stock.closure,
                              .variable = variable,
                              .count = PUSH,
                              .state = true,
                              .life = life,
                              .step = coxi_rand(&s->rng) % 100};
    for (size_t i = 0; keys && i < PUSH; i++) {
        *at++ = coxi_rand(&s->rng) % KEYS;
    }
    size_t n = (size_t)PUSH * (keys ? DIM : 1) * 2; /* each with one number of state */
    for (size_t i = 0; i < n; i++) {
        ((float *)(void *)at)[i] = (float)(coxi_rand(&s->rng) % 9);
    }
    at += n / 2;
    for (size_t i = 0; life && i < (size_t)3 * PUSH; i++) {
        *at++ = coxi_rand(&s->rng) % 9;
    }
    size_t len = (size_t)(at - payload) * sizeof(*payload);
    assert_code(0, coxi_store_load(s->stock.store, &piece, payload, len));
    piece.last = true;
    assert_code(0, coxi_store_load(s->stock.store, &piece, NULL, 0));
}

static void load_some(struct subject *s)
{
    load(s, PLAIN, true, false);
    load(s, GOING, true, true);
    load(s, IDLE, false, false);
}

static void change(struct subject *s)
{
    struct stock_commit commit;
    stock_begin(&s->stock, ++s->stock.closure, &commit);
    push_rows(s, &commit, PLAIN);
    push_rows(s, &commit, GOING);
    if (coxi_rand(&s->rng) % 3 == 0) {
        push_dense(s, &commit, BUSY);
    }
    if (coxi_rand(&s->rng) % 20 == 0) {
        push_dense(s, &commit, IDLE);
    }
    if (s->stock.n_variables > LATE) {
        push_rows(s, &commit, LATE);
    }
    assert_code(0, stock_commit(&s->stock, &commit, NULL));
}

/* ---- snapshots */

static void take(struct stock *stock, uint64_t number, uint64_t base, bool track,
                 struct file *ret)
{
    static int n_files;
    *ret = (struct file){.number = number};
    char name[32];
    (void)snprintf(name, sizeof(name), "file-%d.st", n_files++);
    (void)snprintf(ret->path, sizeof(ret->path), "%s", coxi_test_path(name));
    struct coxi_snapshot request = {stock->session,    number, ret->path, base, track,
                                    STOCK_INCARNATION, 0};
    assert_code(0, coxi_store_snapshot(stock->store, &request, &ret->done));
}

static void drop(struct file *file)
{
    coxi_applied_list_fini(&file->done.applied);
    assert_int_equal(0, unlink(file->path));
}

/* Takes the next snapshot of the chain; `abandoned`: one that will not become
 * durable. */
static void snapshot(struct subject *s, bool full, bool abandoned)
{
    struct file file;
    uint64_t base = s->n_chain > 0 && !full ? s->chain[s->n_chain - 1].number : 0;
    take(&s->stock, s->next++, base, true, &file);
    assert_true(file.done.base == base || file.done.base == 0);
    if (abandoned) {
        drop(&file);
        return;
    }
    if (file.done.base == 0) {
        for (size_t i = 0; i < s->n_chain; i++) {
            drop(&s->chain[i]);
        }
        s->n_chain = 0;
    }
    assert_true(s->n_chain < CHAIN_MAX);
    s->chain[s->n_chain++] = file;
}

/* ---- restoring, and comparing */

static void create_all(const struct subject *s, struct stock *ret)
{
    stock_open(ret);
    for (uint32_t id = 0; id < s->stock.n_variables; id++) {
        struct coxi_variable v = s->specs[id];
        assert_int_equal(id, stock_create(ret, &v));
    }
}

static void restore_file(const struct subject *s, size_t i, struct stock *ret)
{
    const struct file *file = &s->chain[i];
    const struct coxi_applied_list *list = &file->done.applied;
    struct coxi_restore request = {.session = ret->session,
                                   .round = 1,
                                   .path = file->path,
                                   .bytes = file->done.bytes,
                                   .crc32 = file->done.crc32,
                                   .watermark = list->watermark,
                                   .applied = list->intervals,
                                   .n_applied = list->n_intervals,
                                   .touched = list->touched,
                                   .n_touched = list->n_touched,
                                   .at = i,
                                   .more = i + 1 < s->n_chain};
    assert_code(0, coxi_store_restore(ret->store, &request));
    assert_code(0, coxi_store_restore(ret->store, &request)); /* it came again */
}

static void restore(const struct subject *s, struct stock *ret)
{
    create_all(s, ret);
    for (size_t i = 0; i < s->n_chain; i++) {
        restore_file(s, i, ret);
    }
}

/* Finds the rows of a table in a file, by key; -1: the file does not have it. */
static void rows_of(const struct coxi_st_file *file, const char *table,
                    int64_t ret[KEYS])
{
    char name[64];
    (void)snprintf(name, sizeof(name), "%s/keys", table);
    const struct coxi_st_tensor *keys = coxi_st_find(file, name);
    memset(ret, 0xff, KEYS * sizeof(*ret));
    const uint64_t *all = loaded(keys);
    for (uint64_t i = 0; i < keys->shape[0]; i++) {
        uint64_t key = all[i];
        assert_true(key < KEYS && ret[key] == -1);
        ret[key] = (int64_t)i;
    }
}

static void compare_rows(const struct coxi_st_file *x, const struct coxi_st_file *y,
                         const struct coxi_st_tensor *tensor, const char *table)
{
    static int64_t in_x[KEYS];
    static int64_t in_y[KEYS];
    const struct coxi_st_tensor *other = coxi_st_find(y, tensor->name);
    assert_non_null(other);
    assert_int_equal(tensor->bytes, other->bytes);
    rows_of(x, table, in_x);
    rows_of(y, table, in_y);
    size_t bytes = tensor->shape[0] > 0 ? tensor->bytes / tensor->shape[0] : 0;
    const char *of_x = loaded(tensor);
    const char *of_y = loaded(other);
    for (size_t key = 0; key < KEYS; key++) {
        assert_int_equal(in_x[key] == -1, in_y[key] == -1);
        if (in_x[key] >= 0) {
            assert_memory_equal(of_x + (size_t)in_x[key] * bytes,
                                of_y + (size_t)in_y[key] * bytes, bytes);
        }
    }
}

static void compare_files(const struct coxi_st_file *x, const struct coxi_st_file *y)
{
    assert_int_equal(coxi_st_count(x), coxi_st_count(y));
    for (size_t i = 0; i < coxi_st_count(x); i++) {
        const struct coxi_st_tensor *tensor = coxi_st_at(x, i);
        char table[64];
        char keys[80];
        (void)snprintf(table, sizeof(table), "%.*s", (int)strcspn(tensor->name, "/"),
                       tensor->name);
        (void)snprintf(keys, sizeof(keys), "%s/keys", table);
        bool of_rows =
            coxi_st_find(x, keys) != NULL && strstr(tensor->name, "/step") == NULL;
        if (of_rows) {
            compare_rows(x, y, tensor, table);
            continue;
        }
        const struct coxi_st_tensor *other = coxi_st_find(y, tensor->name);
        assert_non_null(other);
        assert_int_equal(tensor->bytes, other->bytes);
        assert_memory_equal(loaded(tensor), loaded(other), tensor->bytes);
    }
}

static struct coxi_st_file *open_whole(struct stock *stock, uint64_t number,
                                       struct file *file)
{
    struct coxi_st_file *st;
    take(stock, number, 0, false, file);
    assert_code(0, coxi_st_open(file->path, file->done.bytes, &file->done.crc32, &st));
    return st;
}

/* Asserts that a store restored from the chain equals the store. */
static void compare(struct subject *s)
{
    struct stock again;
    struct file file_x;
    struct file file_y;
    restore(s, &again);
    struct coxi_st_file *x = open_whole(&s->stock, s->next++, &file_x);
    struct coxi_st_file *y = open_whole(&again, 1, &file_y);
    compare_files(x, y);
    assert_string_equal(coxi_st_metadata(x, "applied"), coxi_st_metadata(y, "applied"));
    coxi_st_close(x);
    coxi_st_close(y);
    drop(&file_x);
    drop(&file_y);
    stock_close(&again);
}

static void run(uint64_t seed)
{
    static struct subject s;
    open_subject(&s, seed);
    size_t longest = 0;
    for (int i = 0; i < 30; i++) {
        for (uint64_t n = coxi_rand(&s.rng) % 4; n > 0; n--) {
            change(&s);
        }
        if (coxi_rand(&s.rng) % 5 == 0) {
            load_some(&s);
        }
        if (i == 15) {
            create_table(&s, "late", (struct coxi_lifecycle){0});
        }
        bool abandoned = coxi_rand(&s.rng) % 4 == 0;
        snapshot(&s, coxi_rand(&s.rng) % 12 == 0, abandoned);
        if (!abandoned) {
            compare(&s);
        }
        longest = s.n_chain > longest ? s.n_chain : longest;
    }
    assert_true(longest > 3);
    close_subject(&s);
}

TEST(chain_of_snapshots_holds_what_the_store_held)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        run(seed);
    }
}

/* ---- what is in one */

static uint64_t bytes_of(struct subject *s, const char *name)
{
    const struct file *last = &s->chain[s->n_chain - 1];
    struct coxi_st_file *file;
    assert_code(0,
                coxi_st_open(last->path, last->done.bytes, &last->done.crc32, &file));
    const struct coxi_st_tensor *tensor = coxi_st_find(file, name);
    uint64_t bytes = tensor != NULL ? tensor->bytes : UINT64_MAX;
    coxi_st_close(file);
    return bytes;
}

TEST(snapshot_that_builds_on_another_has_what_changed_alone)
{
    static struct subject s;
    struct stock_commit commit;
    const uint64_t key = 7;
    const float value[DIM] = {1, 1};
    open_subject(&s, 1);
    for (int i = 0; i < 20; i++) {
        change(&s);
    }
    snapshot(&s, false, false);
    assert_true(bytes_of(&s, "plain/keys") > 1000 * sizeof(uint64_t));
    assert_true(bytes_of(&s, "plain/removed") == UINT64_MAX);
    stock_begin(&s.stock, ++s.stock.closure, &commit);
    stock_add_rows(&commit, PLAIN, COXI_OP_ADD, &key, 1, value, sizeof(value));
    assert_code(0, stock_commit(&s.stock, &commit, NULL));
    snapshot(&s, false, false);
    assert_int_equal(2, s.n_chain);
    assert_int_equal(1, s.chain[1].done.base);
    assert_int_equal(sizeof(uint64_t), bytes_of(&s, "plain/keys"));
    assert_int_equal(0, bytes_of(&s, "plain/removed"));
    assert_int_equal(0, bytes_of(&s, "going/keys"));
    assert_true(bytes_of(&s, "busy") == UINT64_MAX);
    compare(&s);
    close_subject(&s);
}

TEST(snapshot_on_a_base_that_the_ps_does_not_know_has_everything)
{
    static struct subject s;
    struct file file;
    open_subject(&s, 1);
    change(&s);
    take(&s.stock, 4, 3, true, &file); /* as after a restart */
    assert_int_equal(0, file.done.base);
    drop(&file);
    change(&s);
    take(&s.stock, 5, 3, true, &file); /* it was abandoned */
    assert_int_equal(0, file.done.base);
    drop(&file);
    take(&s.stock, 6, 5, true, &file);
    assert_int_equal(5, file.done.base);
    drop(&file);
    close_subject(&s);
}

/* A whole snapshot, and one that builds on it. */
static void open_chain_of_two(struct subject *s)
{
    open_subject(s, 1);
    change(s);
    snapshot(s, false, false);
    change(s);
    snapshot(s, false, false);
}

TEST(restore_of_what_builds_on_others_comes_after_those)
{
    static struct subject s;
    struct stock again;
    open_chain_of_two(&s);
    stock_open(&again);
    const struct file *second = &s.chain[1];
    struct coxi_restore request = {.session = again.session,
                                   .round = 1,
                                   .path = second->path,
                                   .bytes = second->done.bytes,
                                   .crc32 = second->done.crc32,
                                   .at = 1};
    assert_code(COX_EINVAL, coxi_store_restore(again.store, &request));
    assert_error_names(second->path);
    request.at = 0;
    assert_code(COX_EFORMAT, coxi_store_restore(again.store, &request));
    assert_error_names(second->path);
    stock_close(&again);
    close_subject(&s);
}

TEST(store_that_has_a_part_of_a_chain_is_not_ready)
{
    static struct subject s;
    struct stock again;
    open_chain_of_two(&s);
    create_all(&s, &again);
    restore_file(&s, 0, &again);
    const struct coxi_watermark any = {.session = again.session};
    assert_code(COX_EPSLOST, coxi_store_advance(again.store, &any));
    assert_error_names("not restored yet");
    restore_file(&s, 1, &again);
    assert_code(0, coxi_store_advance(again.store, &any));
    stock_close(&again);
    close_subject(&s);
}
