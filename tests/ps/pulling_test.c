/* Pulls that are answered piece by piece. */
#include <string.h>

#include "common/error.h"
#include "coxswain/types.h"
#include "tests/ps/stock.h"
#include "tests/test.h"

enum {
    ELEMENTS = 100000,
    FIRST = 5,   /* element that is pulled */
    DIM = 100,   /* 400 bytes a row: a piece has room for 163 and a part of one */
    KEYS = 1000, /* half of them have a row */
};

static struct coxi_buffer no_versions; /* stays empty: none is asked for */

struct pulled {
    struct stock stock;
    uint32_t variable;
    uint32_t table;
    uint64_t keys[KEYS];
    struct coxi_pull_item items[3];
    struct coxi_pull pull;
    struct coxi_pulling pulling;
};

static void pulled_open(struct pulled *p)
{
    static float values[ELEMENTS];
    static float rows[KEYS / 2 * DIM];
    struct stock_commit commit;
    stock_open(&p->stock);
    p->variable = stock_dense(&p->stock, "v", COX_F32, ELEMENTS);
    p->table = stock_table(&p->stock, "t", DIM);
    for (size_t i = 0; i < ELEMENTS; i++) {
        values[i] = (float)i;
    }
    for (size_t i = 0; i < KEYS; i++) {
        p->keys[i] = i * 7;
    }
    for (size_t i = 0; i < KEYS / 2 * DIM; i++) {
        rows[i] = (float)i + 0.5f;
    }
    stock_begin(&p->stock, 50, &commit);
    stock_add(&commit, p->variable, COXI_OP_ASSIGN, 0, ELEMENTS, values,
              sizeof(values));
    stock_add_rows(&commit, p->table, COXI_OP_ASSIGN, p->keys, KEYS / 2, rows,
                   sizeof(rows));
    assert_code(0, stock_commit(&p->stock, &commit, NULL));
    p->items[0] = (struct coxi_pull_item){
        .variable = p->variable, .begin = FIRST, .count = ELEMENTS - FIRST};
    p->items[1] = (struct coxi_pull_item){.variable = p->table, .count = KEYS};
    p->items[2] = (struct coxi_pull_item){.variable = p->variable, .count = 3};
    p->pull = (struct coxi_pull){.session = p->stock.session,
                                 .incarnation = STOCK_INCARNATION,
                                 .items = p->items,
                                 .n_items = 3};
    assert_code(0, coxi_store_pull_begin(p->stock.store, &p->pull, p->keys,
                                         sizeof(p->keys), &no_versions, &p->pulling));
}

TEST(store_answers_a_long_pull_in_pieces_of_whole_blocks_and_rows)
{
    static struct pulled p;
    static uint8_t piece[COXI_PULL_ROOM];
    struct coxi_buffer whole = {0};
    struct coxi_buffer pieces = {0};
    const size_t dense = (ELEMENTS - FIRST) * sizeof(float);
    const size_t rows = KEYS * DIM * sizeof(float);
    pulled_open(&p);
    assert_int_equal(dense + rows + 3 * sizeof(float), p.pulling.left);
    while (p.pulling.left > 0) {
        size_t n = 0;
        assert_code(0, coxi_store_pull_some(p.stock.store, &p.pulling, piece,
                                            sizeof(piece), &n));
        assert_in_range(n, 1, sizeof(piece));
        assert_code(0, coxi_buffer_append_raw(&pieces, piece, n));
        if (pieces.len < dense) {
            assert_int_equal(0,
                             (FIRST * sizeof(float) + pieces.len) % COXI_DENSE_BLOCK);
        } else if (pieces.len < dense + rows) {
            assert_int_equal(0, (pieces.len - dense) % (DIM * sizeof(float)));
        }
    }
    assert_code(0, coxi_store_pull(p.stock.store, &p.pull, p.keys, sizeof(p.keys),
                                   &whole, &no_versions));
    assert_int_equal(whole.len, pieces.len);
    assert_memory_equal(whole.data, pieces.data, whole.len);
    const float *values = (const float *)(const void *)pieces.data;
    assert_true(values[0] == FIRST);
    assert_true(values[ELEMENTS - FIRST + DIM] == DIM + 0.5f);
    coxi_buffer_fini(&whole);
    coxi_buffer_fini(&pieces);
    stock_close(&p.stock);
}

/* Asks for the next piece. */
static int pull_some(struct pulled *p, size_t *ret_len)
{
    static uint8_t piece[COXI_PULL_ROOM];
    return coxi_store_pull_some(p->stock.store, &p->pulling, piece, sizeof(piece),
                                ret_len);
}

/* Opens a pull, and takes its first piece. */
static void pulled_begin(struct pulled *p)
{
    size_t n = 0;
    pulled_open(p);
    assert_code(0, pull_some(p, &n));
}

TEST(store_refuses_the_rest_of_a_pull_when_a_newer_client_has_come)
{
    static struct pulled p;
    pulled_begin(&p);
    struct coxi_session newer = {.run = 1, .generation = 2, .token = 12};
    assert_code(0, coxi_store_claim(p.stock.store, &newer, NULL));
    size_t none = 0;
    assert_code(COX_EFENCED, pull_some(&p, &none));
    assert_int_equal(0, none);
    p.stock.session = newer;
    stock_close(&p.stock);
}

/* Creates a variable of `n` elements with this id; no operation is recorded. */
static void make(struct stock *stock, uint32_t id, const char *name, uint64_t n)
{
    struct coxi_shard shard = {.count = n};
    struct coxi_create create = {.session = stock->session,
                                 .variable = {.id = id,
                                              .name = name,
                                              .dtype = COX_F32,
                                              .rank = 1,
                                              .shape = {n},
                                              .shards = &shard,
                                              .n_shards = 1},
                                 .incarnation = coxi_store_incarnation(stock->store)};
    assert_code(0, coxi_store_create(stock->store, &create));
}

TEST(store_ends_a_pull_whose_variable_was_dropped_and_made_smaller)
{
    static struct pulled p;
    pulled_begin(&p);
    /* A second creation under a higher id drops the first; then its id is free. */
    make(&p.stock, p.table + 1, "v", ELEMENTS);
    size_t none = 0;
    assert_code(COX_ENOENT, pull_some(&p, &none));
    make(&p.stock, p.variable, "smaller", 10);
    assert_code(COX_ENOENT, pull_some(&p, &none));
    assert_int_equal(0, none);
    stock_close(&p.stock);
}
