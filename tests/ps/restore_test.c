/* Restoring a store from a file: one with many rows, and one that is damaged. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/safetensors.h"
#include "common/crc.h"
#include "common/rand.h"
#include "common/rule.h"
#include "tests/loaded.h"
#include "tests/ps/stock.h"
#include "tests/test.h"

enum {
    ROWS = 150000,
    PUSH = 1000,
    DIM = 2,
    WIDTH = 5000,
    PLACES = 200,
    ROW_BYTES = DIM * sizeof(float)
};

/* Variables by id. */
enum { TABLE, DENSE };

static const struct coxi_optimizer adagrad = {
    .kind = COXI_OPTIMIZER_ADAGRAD, .learning_rate = 1, .initial_accumulator = 1};

static void open_store(struct stock *stock)
{
    stock_open(stock);
    stock_pair(stock, DIM, WIDTH, &adagrad);
}

static uint64_t key_of(uint64_t i)
{
    return i * 0x9e3779b97f4a7c15u;
}

static void begin_push(struct stock *stock, uint64_t first, size_t n,
                       struct stock_commit *ret)
{
    static uint64_t keys[PUSH];
    static float values[PUSH * DIM];
    for (size_t i = 0; i < n; i++) {
        keys[i] = key_of(first + i);
        values[i * DIM] = (float)((first + i) % 7);
        values[i * DIM + 1] = (float)((first + i) % 5);
    }
    stock_begin(stock, ++stock->closure, ret);
    stock_add_rows(ret, TABLE, COXI_OP_GRADIENT, keys, n, values,
                   n * DIM * sizeof(*values));
}

static void push_rows(struct stock *stock, uint64_t first, size_t n)
{
    struct stock_commit commit;
    begin_push(stock, first, n, &commit);
    assert_code(0, stock_commit(stock, &commit, NULL));
}

static void push(struct stock *stock, uint64_t first, size_t n)
{
    static const float gradient[WIDTH] = {1, 2, 3};
    struct stock_commit commit;
    begin_push(stock, first, n, &commit);
    stock_add(&commit, DENSE, COXI_OP_GRADIENT, 0, WIDTH, gradient, sizeof(gradient));
    assert_code(0, stock_commit(stock, &commit, NULL));
}

static struct coxi_snapshot_file take(struct stock *stock, uint64_t number, char *path)
{
    struct coxi_snapshot_file done = stock_take(stock, number, path);
    coxi_applied_list_fini(&done.applied);
    done.applied = (struct coxi_applied_list){0};
    return done;
}

/* A digest of all rows, in any order, and of the other tensors. */
static uint64_t digest(const char *path, const struct coxi_snapshot_file *done)
{
    struct coxi_st_file *file;
    uint64_t sum = 0;
    assert_code(0, coxi_st_open(path, done->bytes, &done->crc32, &file));
    const uint8_t *keys = loaded(coxi_st_find(file, "t/keys"));
    const uint8_t *values = loaded(coxi_st_find(file, "t/values"));
    const uint8_t *state = loaded(coxi_st_find(file, "t/adagrad"));
    uint64_t n = coxi_st_find(file, "t/keys")->shape[0];
    for (uint64_t i = 0; i < n; i++) {
        uint32_t crc = coxi_crc32(0, keys + i * 8, 8);
        crc = coxi_crc32(crc, values + i * ROW_BYTES, ROW_BYTES);
        sum += coxi_crc32(crc, state + i * ROW_BYTES, ROW_BYTES);
    }
    sum += coxi_crc32(0, loaded(coxi_st_find(file, "w")), WIDTH * sizeof(float));
    sum +=
        coxi_crc32(0, loaded(coxi_st_find(file, "w/adagrad")), WIDTH * sizeof(float));
    coxi_st_close(file);
    return sum + n;
}

/* More than one thread loads them. */
TEST(restore_of_many_rows_is_the_store_that_was_cut)
{
    struct stock stock;
    struct stock again;
    char *path = coxi_test_path("one.st");
    char *path_again = coxi_test_path("two.st");
    open_store(&stock);
    open_store(&again);
    for (uint64_t first = 0; first < ROWS; first += PUSH) {
        push(&stock, first, PUSH);
    }
    struct coxi_snapshot_file file = take(&stock, 1, path);
    assert_code(0, stock_restore(&again, 1, path, &file));
    struct coxi_counts counts = {0};
    coxi_store_counts(again.store, &(struct coxi_count){.table = coxi_maybe_of(TABLE)},
                      &counts);
    assert_int_equal(ROWS, counts.table.rows);
    struct coxi_snapshot_file file_again = take(&again, 1, path_again);
    assert_true(digest(path, &file) == digest(path_again, &file_again));
    stock_close(&stock);
    stock_close(&again);
}

/* ---- memory */

enum { WIDE = 64, WIDE_ROWS = 80000, LONG = 6 << 20 };

/* Writes a snapshot of 90 MB; returns its description. */
static struct coxi_snapshot_file write_large(char *path)
{
    static float values[PUSH * WIDE];
    struct stock stock;
    stock_open(&stock);
    stock_pair(&stock, WIDE, LONG, &adagrad);
    for (uint64_t first = 0; first < WIDE_ROWS; first += PUSH) {
        struct stock_commit commit;
        uint64_t keys[PUSH];
        for (size_t i = 0; i < PUSH; i++) {
            keys[i] = key_of(first + i);
        }
        stock_begin(&stock, ++stock.closure, &commit);
        stock_add_rows(&commit, 0, COXI_OP_GRADIENT, keys, PUSH, values,
                       sizeof(values));
        assert_code(0, stock_commit(&stock, &commit, NULL));
    }
    struct coxi_snapshot_file file = take(&stock, 1, path);
    stock_close(&stock);
    return file;
}

/* The same in another process, so that its memory does not count here. */
static struct coxi_snapshot_file write_large_elsewhere(char *path)
{
    struct coxi_snapshot_file file;
    int ends[2];
    int status = 0;
    assert_int_equal(0, pipe(ends));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        file = write_large(path);
        _exit(write(ends[1], &file, sizeof(file)) == sizeof(file) ? 0 : 1);
    }
    assert_int_equal(sizeof(file), read(ends[0], &file, sizeof(file)));
    assert_int_equal(pid, waitpid(pid, &status, 0));
    assert_int_equal(0, status);
    (void)close(ends[0]);
    (void)close(ends[1]);
    return file;
}

static uint64_t peak_bytes(void)
{
    struct rusage usage;
    assert_int_equal(0, getrusage(RUSAGE_SELF, &usage));
    return (uint64_t)usage.ru_maxrss * 1024;
}

/* The memory is that of the rows and of the table's index, but not also that of the
 * file. */
TEST(restore_does_not_hold_the_file_that_it_loads)
{
    needs_true_memory();
    struct stock stock;
    char *path = coxi_test_path("large.st");
    struct coxi_snapshot_file file = write_large_elsewhere(path);
    uint64_t before = peak_bytes();
    stock_open(&stock);
    stock_pair(&stock, WIDE, LONG, &adagrad);
    assert_code(0, stock_restore(&stock, 1, path, &file));
    uint64_t more = peak_bytes() - before;
    if (more > file.bytes + file.bytes * 4 / 10) {
        fail_msg("%llu bytes for a file of %llu", (unsigned long long)more,
                 (unsigned long long)file.bytes);
    }
    stock_close(&stock);
}

/* Rows of every age, none of them due; more of them than one update can evict. */
TEST(restore_of_a_table_whose_rows_go_drops_none_of_them)
{
    struct stock stock;
    struct stock again;
    struct coxi_counts counts = {0};
    char *path = coxi_test_path("ages.st");
    const struct coxi_variable ages = {
        .name = "t",
        .kind = COXI_KIND_TABLE,
        .dtype = COX_F32,
        .rank = 1,
        .shape = {DIM},
        .optimizer = adagrad,
        .lifecycle = {.evict_age = 1000, .evict_count = 2, .evict_count_age = 1000}};
    struct coxi_variable v = ages;
    stock_open(&stock);
    (void)stock_create(&stock, &v);
    stock_open(&again);
    (void)stock_create(&again, &v);
    for (uint64_t first = 0; first < ROWS; first += PUSH) {
        push_rows(&stock, first, PUSH);
    }
    struct coxi_snapshot_file file = take(&stock, 1, path);
    assert_code(0, stock_restore(&again, 1, path, &file));
    coxi_store_counts(again.store, &(struct coxi_count){.table = coxi_maybe_of(TABLE)},
                      &counts);
    assert_int_equal(ROWS, counts.table.rows);
    assert_int_equal(0, counts.table.evicted);
    assert_int_equal(ROWS / PUSH, counts.table.updates);
    stock_close(&stock);
    stock_close(&again);
}

/* Even if it is in rows that were loaded before the checksum was known. */
TEST(restore_of_a_damaged_file_is_an_error_wherever_the_damage_is)
{
    struct stock stock;
    struct stock again;
    char *path = coxi_test_path("file.st");
    uint64_t rng = 5;
    open_store(&stock);
    push(&stock, 0, PUSH);
    struct coxi_snapshot_file file = take(&stock, 1, path);
    uint8_t *bytes = (uint8_t *)coxi_test_read(path, NULL);
    for (uint64_t i = 0; i < PLACES; i++) {
        uint64_t at = file.bytes * i / PLACES;
        uint8_t bit = (uint8_t)(1U << coxi_rand(&rng) % 8);
        bytes[at] ^= bit;
        coxi_test_write(path, bytes, file.bytes);
        bytes[at] ^= bit;
        open_store(&again);
        int r = stock_restore(&again, 1, path, &file);
        assert_true(r == COX_ECHECKSUM || r == COX_EFORMAT);
        assert_error_names(path);
        stock_close(&again);
    }
    free(bytes);
    stock_close(&stock);
}

/* Removes the padding of the file's header, so that its data lie at odd places. */
static struct coxi_snapshot_file unpad(const char *path,
                                       const struct coxi_snapshot_file *file)
{
    struct coxi_snapshot_file unpadded = *file;
    uint64_t header_len = 0;
    uint8_t *bytes = (uint8_t *)coxi_test_read(path, NULL);
    memcpy(&header_len, bytes, sizeof(header_len));
    uint64_t from = 8 + header_len;
    while (bytes[8 + header_len - 1] == ' ') {
        header_len--;
    }
    while ((8 + header_len) % 2 == 0) { /* JSON may end with a space */
        bytes[8 + header_len++] = ' ';
    }
    memcpy(bytes, &header_len, sizeof(header_len));
    memmove(bytes + 8 + header_len, bytes + from, file->bytes - from);
    unpadded.bytes = file->bytes - from + 8 + header_len;
    unpadded.crc32 = coxi_crc32(0, bytes, unpadded.bytes);
    coxi_test_write(path, bytes, unpadded.bytes);
    free(bytes);
    return unpadded;
}

TEST(restore_of_a_file_whose_header_is_not_padded)
{
    struct stock stock;
    struct stock again;
    char *path = coxi_test_path("file.st");
    char *second = coxi_test_path("second.st");
    open_store(&stock);
    push(&stock, 0, PUSH);
    struct coxi_snapshot_file file = take(&stock, 1, path);
    uint64_t expected = digest(path, &file);
    file = unpad(path, &file);
    open_store(&again);
    assert_code(0, stock_restore(&again, 1, path, &file));
    struct coxi_snapshot_file copy = take(&again, 2, second);
    assert_true(digest(second, &copy) == expected);
    stock_close(&again);
    stock_close(&stock);
}

/* ---- what ends one */

struct attempt {
    struct stock *stock;
    struct coxi_session session;
    char *path;
    const struct coxi_snapshot_file *file;
    int code;
};

static void *restore_one(void *arg)
{
    struct attempt *attempt = arg;
    const struct stock stock = {.store = attempt->stock->store,
                                .session = attempt->session};
    attempt->code = stock_restore(&stock, 1, attempt->path, attempt->file);
    return NULL;
}

static bool has_rows(void *arg)
{
    struct attempt *attempt = arg;
    struct coxi_counts counts = {0};
    coxi_store_counts(attempt->stock->store,
                      &(struct coxi_count){.table = coxi_maybe_of(TABLE)}, &counts);
    return counts.table.rows > 0;
}

/* While rows are loaded, another client claims the store (`claimed`), or the restore is
 * abandoned, if that happens in time. Returns the restore's code. */
static int interrupt(struct stock *stock, char *path,
                     const struct coxi_snapshot_file *file, bool claimed)
{
    struct attempt attempt = {stock, stock->session, path, file, 0};
    pthread_t thread;
    assert_int_equal(0, pthread_create(&thread, NULL, restore_one, &attempt));
    coxi_test_until(has_rows, &attempt, "rows that are restored");
    if (claimed) {
        stock->session.generation++;
        assert_code(0, coxi_store_claim(stock->store, &stock->session, NULL));
    } else {
        coxi_store_abandon_restore(stock->store);
    }
    assert_int_equal(0, pthread_join(thread, NULL));
    return attempt.code;
}

/* The restore may have read everything by then; if not, it must end with an error. */
TEST(restore_of_a_file_that_is_shortened_meanwhile_ends)
{
    struct stock stock;
    struct stock again;
    pthread_t thread;
    char *path = coxi_test_path("file.st");
    open_store(&stock);
    for (uint64_t first = 0; first < ROWS; first += PUSH) {
        push(&stock, first, PUSH);
    }
    struct coxi_snapshot_file file = take(&stock, 1, path);
    for (int i = 0; i < 5; i++) {
        char *bytes = coxi_test_read(path, NULL);
        open_store(&again);
        struct attempt attempt = {&again, again.session, path, &file, 1};
        assert_int_equal(0, pthread_create(&thread, NULL, restore_one, &attempt));
        coxi_test_until(has_rows, &attempt, "rows that are restored");
        assert_int_equal(0, truncate(path, 4096));
        assert_int_equal(0, pthread_join(thread, NULL));
        assert_true(attempt.code == 0 || attempt.code == COX_EFORMAT);
        stock_close(&again);
        coxi_test_write(path, bytes, file.bytes);
        free(bytes);
    }
    stock_close(&stock);
}

TEST(restore_ends_where_another_client_claims_the_ps_or_it_is_abandoned)
{
    enum { TRIES = 50 };
    struct stock stock;
    struct stock again;
    struct coxi_counts counts = {0};
    char *path = coxi_test_path("file.st");
    open_store(&stock);
    for (uint64_t first = 0; first < ROWS; first += PUSH) {
        push(&stock, first, PUSH);
    }
    struct coxi_snapshot_file file = take(&stock, 1, path);
    for (int claimed = 0; claimed < 2; claimed++) {
        int ended = 0;
        for (int i = 0; i < TRIES && ended == 0; i++) {
            open_store(&again);
            ended = interrupt(&again, path, &file, claimed);
            if (claimed) {
                coxi_store_counts(again.store,
                                  &(struct coxi_count){.table = coxi_maybe_none()},
                                  &counts);
                assert_int_equal(0, counts.all.bytes); /* nothing of the old run's */
                stock_pair(&again, DIM, WIDTH, &adagrad);
            }
            assert_code(0, stock_restore(&again, 1, path, &file));
            coxi_store_counts(again.store,
                              &(struct coxi_count){.table = coxi_maybe_of(TABLE)},
                              &counts);
            assert_int_equal(ROWS, counts.table.rows);
            push(&again, ROWS, 1);
            stock_close(&again);
        }
        assert_code(claimed ? COX_EFENCED : COX_EPSLOST, ended);
    }
    stock_close(&stock);
}

/* ---- creating */

/* As after a broken connection: the request was done, its answer is lost, and then a
 * restore has replaced the applied set. */
TEST(what_is_created_once_more_behind_a_restore_is_there_already)
{
    struct stock stock;
    struct stock again;
    struct coxi_counts counts = {0};
    char *path = coxi_test_path("file.st");
    struct coxi_shard whole = {.count = WIDTH};
    struct coxi_variable v = {.name = "w",
                              .dtype = COX_F32,
                              .rank = 1,
                              .shape = {WIDTH},
                              .shards = &whole,
                              .n_shards = 1,
                              .optimizer = adagrad};
    stock_open(&stock);
    stock.closure = 49;
    (void)stock_create(&stock, &v);
    struct coxi_snapshot_file file = take(&stock, 1, path);
    stock_open(&again);
    for (uint64_t closure = 0; closure < 3; closure++) {
        struct coxi_create create = {again.session, closure, v, STOCK_INCARNATION};
        assert_code(0, coxi_store_create(again.store, &create));
        assert_code(0, stock_restore(&again, 1 + closure, path, &file));
        assert_code(0, coxi_store_create(again.store, &create));
        create.variable.shape[0]--;
        assert_code(COX_EEXIST, coxi_store_create(again.store, &create));
        create.variable.kind = COXI_KIND_TABLE;
        create.variable.n_shards = 0;
        create.variable.shape[0] = 2;
        assert_code(COX_EEXIST, coxi_store_create(again.store, &create));
    }
    coxi_store_counts(again.store, &(struct coxi_count){.table = coxi_maybe_none()},
                      &counts);
    assert_int_equal(2 * WIDTH * sizeof(float), counts.all.bytes);
    stock_close(&stock);
    stock_close(&again);
}

/* The snapshot was cut when the variable existed on this ps, but not on all: the
 * restored applied set has the operation, but the store lacks the variable. */
TEST(what_a_restored_applied_set_has_without_its_variable_is_created)
{
    struct stock stock;
    struct stock again;
    char *path = coxi_test_path("file.st");
    stock_open(&stock);
    (void)stock_dense(&stock, "n", COX_I64, 1);
    struct coxi_snapshot_file file = stock_take(&stock, 1, path);
    stock_open(&again);
    assert_code(0, stock_restore(&again, 1, path, &file));
    (void)stock_dense(&again, "n", COX_I64, 1); /* by the same closure */
    assert_int_equal(0, stock_number(&again, 0));
    coxi_applied_list_fini(&file.applied);
    stock_close(&stock);
    stock_close(&again);
}

/* A later closure may have the number that a restore has used for its creations. */
TEST(what_is_created_for_a_restore_is_no_operation)
{
    struct stock stock;
    bool duplicate = true;
    struct coxi_shard shard = {.count = 1};
    struct coxi_variable v = {.name = "n",
                              .dtype = COX_I64,
                              .rank = 1,
                              .shape = {1},
                              .shards = &shard,
                              .n_shards = 1};
    stock_open(&stock);
    const struct coxi_create create = {stock.session, 0, v, STOCK_INCARNATION};
    assert_code(0, coxi_store_create(stock.store, &create));
    for (uint64_t closure = 1; closure < 3; closure++) {
        assert_code(0, stock_count(&stock, 0, closure, &duplicate));
        assert_false(duplicate);
    }
    stock_close(&stock);
}

TEST(restore_of_a_damaged_file_leaves_a_store_that_is_claimed_anew_and_restored)
{
    struct stock stock;
    struct stock again;
    char *path = coxi_test_path("file.st");
    open_store(&stock);
    push(&stock, 0, PUSH);
    struct coxi_snapshot_file file = take(&stock, 1, path);
    open_store(&again);
    file.crc32 ^= 1;
    assert_code(COX_ECHECKSUM, stock_restore(&again, 1, path, &file));
    file.crc32 ^= 1;
    again.session.generation++;
    assert_code(0, coxi_store_claim(again.store, &again.session, NULL));
    stock_pair(&again, DIM, WIDTH, &adagrad);
    assert_code(0, stock_restore(&again, 1, path, &file));
    stock_close(&stock);
    stock_close(&again);
}
