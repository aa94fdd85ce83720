/* See stock.h. */
#include "tests/ps/stock.h"

#include <string.h>

#include "coxswain/types.h"
#include "tests/test.h"

void stock_open(struct stock *stock)
{
    *stock = (struct stock){.session = {.run = 1, .generation = 1, .token = 11}};
    assert_code(0, coxi_store_new(0, STOCK_INCARNATION, &stock->store));
    assert_code(0, coxi_store_claim(stock->store, &stock->session, NULL));
}

void stock_close(struct stock *stock)
{
    coxi_store_free(stock->store);
}

uint32_t stock_create(struct stock *stock, struct coxi_variable *variable)
{
    variable->id = stock->n_variables++;
    struct coxi_create create = {stock->session, ++stock->closure, *variable,
                                 coxi_store_incarnation(stock->store)};
    assert_code(0, coxi_store_create(stock->store, &create));
    return variable->id;
}

uint32_t stock_dense(struct stock *stock, const char *name, uint32_t dtype, uint64_t n)
{
    struct coxi_shard shard = {.count = n};
    struct coxi_variable variable = {.name = name,
                                     .dtype = dtype,
                                     .rank = 1,
                                     .shape = {n},
                                     .shards = &shard,
                                     .n_shards = 1};
    return stock_create(stock, &variable);
}

uint32_t stock_table_of(struct stock *stock, const char *name, uint32_t dim,
                        const struct coxi_lifecycle *lifecycle)
{
    struct coxi_variable variable = {
        .name = name,
        .kind = COXI_KIND_TABLE,
        .dtype = COX_F32,
        .rank = 1,
        .shape = {dim},
        .optimizer = {.kind = COXI_OPTIMIZER_SGD, .learning_rate = 1},
        .lifecycle = *lifecycle};
    return stock_create(stock, &variable);
}

uint32_t stock_table(struct stock *stock, const char *name, uint32_t dim)
{
    const struct coxi_lifecycle no_end = {0};
    return stock_table_of(stock, name, dim, &no_end);
}

void stock_pair(struct stock *stock, uint32_t dim, uint64_t n,
                const struct coxi_optimizer *optimizer)
{
    static char names[][8] = {"t", "w"};
    struct coxi_shard whole = {.count = n};
    stock->n_variables = 0;
    (void)stock_create(stock, &(struct coxi_variable){.name = names[0],
                                                      .kind = COXI_KIND_TABLE,
                                                      .dtype = COX_F32,
                                                      .rank = 1,
                                                      .shape = {dim},
                                                      .optimizer = *optimizer});
    (void)stock_create(stock, &(struct coxi_variable){.name = names[1],
                                                      .dtype = COX_F32,
                                                      .rank = 1,
                                                      .shape = {n},
                                                      .shards = &whole,
                                                      .n_shards = 1,
                                                      .optimizer = *optimizer});
}

void stock_begin(const struct stock *stock, uint64_t closure, struct stock_commit *ret)
{
    *ret = (struct stock_commit){
        .head = {.session = stock->session,
                 .incarnation = coxi_store_incarnation(stock->store),
                 .closure = closure,
                 .attempt = 1,
                 .last = true}};
}

static void add_update(struct stock_commit *commit, struct coxi_update update)
{
    assert_true(commit->head.n_updates < STOCK_UPDATES_MAX);
    commit->updates[commit->head.n_updates++] = update;
}

void stock_add(struct stock_commit *commit, uint32_t variable, uint32_t op,
               uint64_t begin, uint64_t count, const void *values, size_t bytes)
{
    add_update(commit, (struct coxi_update){variable, op, begin, count});
    assert_code(0, coxi_buffer_append(&commit->payload, values, bytes));
}

void stock_add_rows(struct stock_commit *commit, uint32_t table, uint32_t op,
                    const uint64_t *keys, size_t n, const float *values, size_t bytes)
{
    add_update(commit, (struct coxi_update){table, op, 0, n});
    assert_code(0, coxi_buffer_append(&commit->payload, keys, n * sizeof(*keys)));
    assert_code(0, coxi_buffer_append(&commit->payload, values, bytes));
}

int stock_commit(struct stock *stock, struct stock_commit *commit, bool *ret_duplicate)
{
    bool duplicate = false;
    commit->head.updates = commit->updates;
    struct coxi_buffer scratch = {0};
    int r = coxi_store_commit(stock->store, &commit->head, commit->payload.data,
                              commit->payload.len, &scratch, &duplicate);
    coxi_buffer_fini(&scratch);
    coxi_buffer_fini(&commit->payload);
    if (ret_duplicate != NULL) {
        *ret_duplicate = duplicate;
    }
    return r;
}

/* `key`: of a row of a table, or NULL. */
static uint64_t pull(struct stock *stock, uint32_t variable, uint64_t count,
                     const uint64_t *key, void *ret, size_t bytes)
{
    struct coxi_pull_item item = {variable, 0, count, 1};
    struct coxi_pull pull = {
        stock->session, coxi_store_incarnation(stock->store), &item, 1, false, 0, 0};
    struct coxi_buffer answer = {0};
    struct coxi_buffer versions = {0};
    assert_code(0, coxi_store_pull(stock->store, &pull, key,
                                   key != NULL ? sizeof(*key) : 0, &answer, &versions));
    assert_int_equal(bytes, answer.len);
    assert_int_equal(sizeof(uint64_t), versions.len);
    memcpy(ret, answer.data, bytes);
    uint64_t version = *(const uint64_t *)(void *)versions.data;
    coxi_buffer_fini(&answer);
    coxi_buffer_fini(&versions);
    return version;
}

uint64_t stock_pull(struct stock *stock, uint32_t variable, uint64_t count, void *ret,
                    size_t bytes)
{
    return pull(stock, variable, count, NULL, ret, bytes);
}

uint64_t stock_pull_row(struct stock *stock, uint32_t table, uint64_t key, void *ret,
                        size_t bytes)
{
    return pull(stock, table, 1, &key, ret, bytes);
}

int64_t stock_number(struct stock *stock, uint32_t variable)
{
    int64_t number = -1;
    stock_pull(stock, variable, 1, &number, sizeof(number));
    return number;
}

int stock_count(struct stock *stock, uint32_t variable, uint64_t closure,
                bool *ret_duplicate)
{
    /* Asserts nothing, because other threads call it, too. */
    const int64_t one = 1;
    const struct coxi_update update = {variable, COXI_OP_ADD, 0, 1};
    struct coxi_commit commit = {.session = stock->session,
                                 .incarnation = coxi_store_incarnation(stock->store),
                                 .closure = closure,
                                 .updates = &update,
                                 .n_updates = 1};
    bool duplicate = false;
    struct coxi_buffer scratch = {0};
    int r = coxi_store_commit(stock->store, &commit, &one, sizeof(one), &scratch,
                              &duplicate);
    coxi_buffer_fini(&scratch);
    if (ret_duplicate != NULL) {
        *ret_duplicate = duplicate;
    }
    return r;
}

struct coxi_snapshot_file stock_take(struct stock *stock, uint64_t number, char *path)
{
    struct coxi_snapshot_file done;
    const struct coxi_snapshot request = {
        .session = stock->session, .number = number, .path = path};
    assert_code(0, coxi_store_snapshot(stock->store, &request, &done));
    return done;
}

int stock_restore(const struct stock *stock, uint64_t round, char *path,
                  const struct coxi_snapshot_file *file)
{
    const struct coxi_restore request = {.session = stock->session,
                                         .round = round,
                                         .path = path,
                                         .bytes = file->bytes,
                                         .crc32 = file->crc32,
                                         .watermark = file->applied.watermark,
                                         .applied = file->applied.intervals,
                                         .n_applied = file->applied.n_intervals,
                                         .touched = file->applied.touched,
                                         .n_touched = file->applied.n_touched};
    return coxi_store_restore(stock->store, &request);
}

struct coxi_counters stock_counts(struct stock *stock)
{
    struct coxi_counts found;
    coxi_store_counts(stock->store, &(struct coxi_count){.table = coxi_maybe_none()},
                      &found);
    return found.all;
}
