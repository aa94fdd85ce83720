/* See rounds.h. */
#include "tests/fuzz/rounds.h"

#include <string.h>

#include "common/buffer.h"
#include "common/layout.h"
#include "coxswain/types.h"

enum {
    FIRST_END = 100,
    APART = 10, /* of the ids of two ends */
    FIRST_ID = 8,
    DIM = 2,
    ROWS = 4,
    ROWS_MAX = 6, /* of an update */
};

static const struct coxi_shard shard = {.count = ROWS};
static const struct coxi_variable variables[ROUND_VARIABLES] = {
    {.id = FIRST_ID,
     .name = "dense",
     .dtype = COX_F32,
     .rank = 2,
     .shape = {ROWS, DIM},
     .shards = &shard,
     .n_shards = 1,
     .optimizer = {.kind = COXI_OPTIMIZER_SGD, .learning_rate = 0.5F}},
    {.id = FIRST_ID + 1,
     .name = "table",
     .kind = COXI_KIND_TABLE,
     .dtype = COX_F32,
     .rank = 1,
     .shape = {DIM},
     .optimizer = {.kind = COXI_OPTIMIZER_ADAGRAD,
                   .learning_rate = 0.5F,
                   .epsilon = 1e-6F,
                   .initial_accumulator = 0.1F}},
    {.id = FIRST_ID + 2,
     .name = "narrow",
     .dtype = COX_F32,
     .rank = 2,
     .shape = {ROWS, DIM},
     .shards = &shard,
     .n_shards = 1,
     .wire_dtype = COX_BF16,
     .staleness = {.action = COXI_STALENESS_DROP, .max = 1},
     .optimizer = {.kind = COXI_OPTIMIZER_SGD, .learning_rate = 0.5F}},
};

const struct coxi_variable *fuzz_round_variable(size_t i)
{
    return &variables[i];
}

uint64_t fuzz_round_id(uint64_t r)
{
    return FIRST_END + APART * r;
}

/* ---- payloads */

static void *room(struct fuzz_round *ret, size_t bytes)
{
    bytes = coxi_align(bytes, 8);
    if (bytes > sizeof(ret->payload) - ret->len) {
        return NULL;
    }
    void *at = (uint8_t *)ret->payload + ret->len;
    ret->len += bytes;
    return at;
}

static void put_list(struct fuzz_round *ret, uint64_t n, uint64_t first)
{
    uint64_t *list = room(ret, n * sizeof(*list));
    for (uint64_t i = 0; list != NULL && i < n; i++) {
        list[i] = (first + i * 3) % ROWS;
    }
}

/* Ones; as they are in F32 and in BF16. */
static void put_values(struct fuzz_round *ret, uint64_t n, bool narrow)
{
    const float wide = 1;
    const uint16_t half = 0x3f80;
    size_t bytes = narrow ? sizeof(half) : sizeof(wide);
    uint8_t *values = room(ret, n * bytes);
    for (uint64_t i = 0; values != NULL && i < n; i++) {
        memcpy(values + i * bytes, narrow ? (const void *)&half : &wide, bytes);
    }
}

/* ---- commits that wait */

/* An update that fits its variable; sometimes it does not. */
static void add_update(struct fuzz_input *input, struct fuzz_round *ret)
{
    uint64_t how = fuzz_number(input, 1);
    uint64_t first = fuzz_below(input, ROWS);
    const struct coxi_variable *v = &variables[how % ROUND_VARIABLES];
    bool lists = v->kind == COXI_KIND_TABLE || how % 5 > 2;
    uint64_t count = fuzz_below(input, lists ? ROWS_MAX : ROWS + 1 - first);
    struct coxi_update *update = &ret->updates[ret->commit.n_updates];
    ret->pulled[ret->commit.n_updates++] = how % 7;
    *update = (struct coxi_update){.variable = v->id,
                                   .op = how >= 0xe0    ? (uint32_t)(how % 8)
                                         : how % 4 == 3 ? COXI_OP_ADD
                                                        : 0,
                                   .begin = lists ? COXI_ROWS_LISTED : first,
                                   .count = count};
    if (lists) {
        put_list(ret, count, first);
    }
    bool narrow = v->wire_dtype != 0 && update->op == COXI_OP_GRADIENT;
    put_values(ret, count * DIM, narrow);
}

/* Something about it is unusual. */
static void be_odd(struct fuzz_input *input, struct coxi_commit *commit)
{
    switch (fuzz_below(input, 9)) {
    case 0:
        commit->attempt = (uint32_t)fuzz_below(input, 4);
        break;
    case 1:
        commit->attempt = COXI_ATTEMPT_LATEST;
        break;
    case 2:
        commit->segment = (uint32_t)fuzz_below(input, 3);
        break;
    case 3:
        commit->last = false;
        break;
    case 4:
        commit->n_touched = fuzz_below(input, 3);
        break;
    case 5:
        commit->share.n = (uint32_t)fuzz_any(input);
        break;
    case 6:
        commit->share.after = fuzz_any(input);
        break;
    case 7:
        commit->closure = fuzz_any(input);
        break;
    default:
        commit->loss_scale = fuzz_weight(fuzz_below(input, 8));
        break;
    }
}

static void begin(struct fuzz_round *ret)
{
    *ret = (struct fuzz_round){.touched = {0, 1}};
    ret->commit = (struct coxi_commit){.attempt = 1,
                                       .last = true,
                                       .touched = ret->touched,
                                       .n_touched = 1,
                                       .updates = ret->updates};
}

void fuzz_round_wait(struct fuzz_input *input, uint64_t r, uint64_t i,
                     struct fuzz_round *ret)
{
    begin(ret);
    uint64_t weight = fuzz_number(input, 1);
    ret->commit.round = fuzz_round_id(r);
    ret->commit.closure = ret->commit.round - 1 - r + i;
    ret->commit.step = r;
    ret->commit.share =
        (struct coxi_share){.n = (uint32_t)r + 1,
                            .mean = r % 2 == 1,
                            .weight = fuzz_weight(weight < 0xc0 ? weight % 4 : weight)};
    for (uint64_t n = fuzz_below(input, ROUND_UPDATES_MAX + 1); n > 0; n--) {
        add_update(input, ret);
    }
    ret->commit.pulled = ret->pulled;
    ret->commit.n_pulled = ret->commit.n_updates;
    if (fuzz_number(input, 1) >= 0xc0) {
        be_odd(input, &ret->commit);
    }
}

/* ---- ends */

void fuzz_round_end(struct fuzz_input *input, uint64_t r, struct fuzz_round *ret)
{
    begin(ret);
    uint64_t how = fuzz_number(input, 1);
    ret->commit.closure = fuzz_round_id(r);
    ret->commit.attempt = (uint32_t)(1 + how % 2);
    ret->commit.n_updates = 1;
    ret->updates[0] = (struct coxi_update){
        .op = COXI_OP_ROUND, .begin = ret->commit.closure - r - 1, .count = r + 1};
    struct coxi_round_part *parts = room(ret, (r + 1) * sizeof(*parts));
    for (uint64_t i = 0; parts != NULL && i <= r; i++) {
        uint64_t part = fuzz_number(input, 1);
        parts[i].attempt = part < 0xa0   ? 1
                           : part < 0xd0 ? (uint32_t)(part % 3)
                                         : COXI_ATTEMPT_LATEST;
        parts[i].factor = fuzz_weight(part % 16 < 12 ? part % 4 : part % 8);
        ret->commit.n_waiting += parts[i].attempt == 1 || parts[i].attempt == 2;
    }
    if (how >= 0xc0) {
        ret->commit.n_waiting = (uint32_t)fuzz_below(input, 6);
    } else if (how >= 0xa0) {
        ret->updates[0].begin = fuzz_any(input);
        ret->updates[0].count = fuzz_any(input);
    }
}
