/* The life of a ps's store, with each allocation failing once: a start, steps, a
 * checkpoint, a recovery. A store that was out of memory goes on afterwards. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/layout.h"
#include "ps/store.h"
#include "tests/test.h"
#include "tests/torture/torture.h"

enum { ROWS = 40, DIM = 3, INCARNATION = 77 };

static const struct coxi_session session = {.run = 1, .generation = 1, .token = 11};

static int create(struct coxi_store *store)
{
    struct coxi_shard shard = {.count = ROWS};
    struct coxi_create dense = {session,
                                1,
                                {.name = "w",
                                 .dtype = COX_F32,
                                 .rank = 1,
                                 .shape = {ROWS},
                                 .shards = &shard,
                                 .n_shards = 1,
                                 .optimizer = {.kind = COXI_OPTIMIZER_ADAGRAD,
                                               .learning_rate = 1,
                                               .initial_accumulator = 1}},
                                INCARNATION};
    struct coxi_create table = {
        session,
        2,
        {.id = 1,
         .name = "t",
         .kind = COXI_KIND_TABLE,
         .dtype = COX_F32,
         .rank = 1,
         .shape = {DIM},
         .optimizer = {.kind = COXI_OPTIMIZER_SGD, .learning_rate = 1}},
        INCARNATION};
    int r = coxi_store_create(store, &dense);
    return r == 0 ? coxi_store_create(store, &table) : r;
}

/* A commit of gradients for both variables. */
static int step(struct coxi_store *store, uint64_t closure)
{
    _Alignas(8) uint8_t payload[ROWS * (sizeof(float) + sizeof(uint64_t) + DIM * 4)];
    struct coxi_update updates[] = {{0, COXI_OP_GRADIENT, 0, ROWS},
                                    {1, COXI_OP_GRADIENT, 0, ROWS}};
    struct coxi_commit commit = {.session = session,
                                 .incarnation = INCARNATION,
                                 .closure = closure,
                                 .attempt = 1,
                                 .last = true,
                                 .updates = updates,
                                 .n_updates = 2};
    struct coxi_buffer scratch = {0};
    bool duplicate;
    memset(payload, 0, sizeof(payload));
    for (uint64_t i = 0; i < ROWS; i++) {
        uint64_t key = i * 7 + 1;
        memcpy(payload + ROWS * sizeof(float) + i * sizeof(key), &key, sizeof(key));
    }
    int r = coxi_store_commit(store, &commit, payload, sizeof(payload), &scratch,
                              &duplicate);
    coxi_buffer_fini(&scratch);
    return r;
}

static int pull(struct coxi_store *store)
{
    const struct coxi_pull_item item = {0, 0, ROWS, 0};
    const struct coxi_pull request = {session, INCARNATION, &item, 1, false, 0, 0};
    struct coxi_buffer values = {0};
    struct coxi_buffer versions = {0};
    int r = coxi_store_pull(store, &request, NULL, 0, &values, &versions);
    coxi_buffer_fini(&values);
    coxi_buffer_fini(&versions);
    return r;
}

static int start(struct coxi_store **ret)
{
    int r = coxi_store_new(0, INCARNATION, ret);
    if (r == 0) {
        r = coxi_store_claim(*ret, &session, NULL);
        r = r == 0 ? create(*ret) : r;
    }
    return r;
}

static int take_snapshot(struct coxi_store *store, const char *path,
                         struct coxi_snapshot_file *ret)
{
    struct coxi_snapshot request = {
        .session = session, .number = 1, .path = path, .incarnation = INCARNATION};
    return coxi_store_snapshot(store, &request, ret);
}

static int bring_back(const char *path, const struct coxi_snapshot_file *file)
{
    struct coxi_store *store = NULL;
    const struct coxi_restore request = {.session = session,
                                         .round = 1,
                                         .path = path,
                                         .bytes = file->bytes,
                                         .crc32 = file->crc32,
                                         .watermark = file->applied.watermark,
                                         .applied = file->applied.intervals,
                                         .n_applied = file->applied.n_intervals,
                                         .touched = file->applied.touched,
                                         .n_touched = file->applied.n_touched,
                                         .incarnation = INCARNATION};
    int r = start(&store);
    if (r == 0) {
        r = coxi_store_restore(store, &request);
        torture_calm();
        assert_code(0, r == 0 ? step(store, 4) : coxi_store_restore(store, &request));
        torture_calm_end();
    }
    coxi_store_free(store);
    return r;
}

static int whole_life(void *arg)
{
    const char *path = arg;
    struct coxi_store *store = NULL;
    struct coxi_snapshot_file file = {0};
    int r = start(&store);
    if (r == 0) {
        r = step(store, 3);
        torture_calm(); /* it goes on, and the closure counts once */
        assert_code(0, step(store, 3));
        torture_calm_end();
    }
    r = r == 0 ? pull(store) : r;
    if (r == 0) {
        r = take_snapshot(store, path, &file);
        if (r != 0) {
            torture_calm();
            assert_code(0, take_snapshot(store, path, &file));
            torture_calm_end();
        }
        r = r == 0 ? bring_back(path, &file) : r;
    }
    torture_calm();
    coxi_applied_list_fini(&file.applied);
    (void)unlink(path);
    torture_calm_end();
    coxi_store_free(store);
    return r;
}

TEST(torture_of_a_store_is_out_of_memory_and_nothing_else)
{
    assert_in_range(torture(whole_life, coxi_test_path("life.st")), 30, 10000);
}
