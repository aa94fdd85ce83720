/*
 * Sequences of requests of several clients and readers at a ps's store: claims, releases,
 * creations, commits, rounds, pulls that are made piece by piece while other requests go
 * on, snapshots, and restores of their files, which may have been changed. The input is
 * a list of operations; numbers come from a small range, so that operations meet.
 *
 * Checks: no answer is longer than it was said to be; a store takes its own snapshot
 * back.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/crc.h"
#include "common/layout.h"
#include "ps/store.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/rounds.h"

enum {
    SESSIONS = 4,
    NAMES = 4,
    PULLINGS = 3,
    FILES = 3,
    ITEMS_MAX = 3,
    MEMORY_MAX = 64 << 20,
    OPERATIONS_MAX = 200,
};

/* A long pull that is under way. */
struct pull {
    bool open;
    struct coxi_pull pull;
    struct coxi_pull_item items[ITEMS_MAX];
    struct coxi_buffer versions;
    struct coxi_pulling pulling;
    uint64_t list[64];
    size_t said;
    size_t got;
};

struct file {
    char path[128];
    struct coxi_snapshot_file done;
    bool there;
};

struct world {
    struct fuzz_input input;
    struct coxi_store *store;
    struct pull pulls[PULLINGS];
    struct file files[FILES];
    uint64_t n_snapshots;
    struct coxi_buffer scratch;
    uint64_t n_awaited; /* pulls that have waited for a round */
};

/* ---- numbers */

static uint64_t any_number(struct world *w)
{
    return fuzz_any(&w->input);
}

static uint64_t some_rows(struct world *w)
{
    return fuzz_rows(&w->input);
}

static struct coxi_session any_session(struct world *w)
{
    uint64_t n = fuzz_below(&w->input, SESSIONS);
    return (struct coxi_session){
        .run = 1 + n / 3, .generation = 1 + n % 3 / 2, .token = n};
}

static uint64_t any_incarnation(struct world *w)
{
    return fuzz_below(&w->input, 8) == 0 ? any_number(w)
                                         : coxi_store_incarnation(w->store);
}

/* ---- requests */

static void claim(struct world *w)
{
    struct coxi_session session = any_session(w);
    struct coxi_session gone;
    bool is_gone = fuzz_below(&w->input, 2) == 1 && coxi_store_owner(w->store, &gone);
    (void)coxi_store_greeted(w->store, &session);
    (void)coxi_store_claim(w->store, &session, is_gone ? &gone : NULL);
}

static void give_up(struct world *w)
{
    struct coxi_session session = any_session(w);
    size_t how = fuzz_below(&w->input, 3);
    if (how == 0) {
        (void)coxi_store_release(w->store, &session);
    } else if (how == 1) {
        (void)coxi_store_vacate(w->store, &session);
    } else {
        (void)coxi_store_renew(w->store, &session, coxi_store_incarnation(w->store));
    }
}

static struct coxi_optimizer any_optimizer(struct world *w)
{
    struct coxi_optimizer o = {.kind = (uint32_t)fuzz_below(&w->input, 14),
                               .learning_rate = 0.5F,
                               .initial_accumulator = 0.1F,
                               .beta1 = 0.9F,
                               .beta2 = 0.99F,
                               .epsilon = 1e-6F,
                               .rho = 0.9F,
                               .momentum = 0.9F};
    return o;
}

static void create(struct world *w)
{
    static const char *const names[NAMES] = {"w", "t", "w/t", "v"};
    struct coxi_shard shards[2] = {{.count = some_rows(w)}};
    struct coxi_create request = {.session = any_session(w),
                                  .closure = any_number(w),
                                  .incarnation = any_incarnation(w)};
    struct coxi_variable *v = &request.variable;
    v->id = (uint32_t)any_number(w);
    v->name = (char *)(uintptr_t)names[fuzz_below(&w->input, NAMES)];
    v->kind = (enum coxi_kind)fuzz_below(&w->input, 3);
    v->dtype = (uint32_t)fuzz_below(&w->input, 9);
    v->rank = (uint32_t)(1 + fuzz_below(&w->input, 3));
    v->optimizer = any_optimizer(w);
    if (coxi_variable_is_trained(v)) {
        v->staleness.action = v->optimizer.kind % COXI_STALENESS_END;
        v->staleness.max = v->staleness.action != 0 ? v->id % 2 : 0;
        v->staleness.compensation = v->id % 4 > 1 ? 0.5F : 0.0F;
    }
    v->shape[0] =
        v->kind == COXI_KIND_TABLE ? 1 + fuzz_below(&w->input, 40) : shards[0].count;
    v->shape[1] = some_rows(w);
    v->shape[2] = 2;
    v->shards = shards;
    v->n_shards = v->kind == COXI_KIND_TABLE ? 0 : 1;
    if (fuzz_below(&w->input, 4) == 0) {
        v->lifecycle.rows_max = any_number(w);
        v->lifecycle.evict_age = any_number(w);
        v->lifecycle.admit_count = (uint32_t)fuzz_below(&w->input, 4);
    }
    (void)coxi_store_create(w->store, &request);
}

static size_t any_items(struct world *w, struct coxi_pull_item *items)
{
    size_t n = 1 + fuzz_below(&w->input, ITEMS_MAX);
    for (size_t i = 0; i < n; i++) {
        bool listed = fuzz_below(&w->input, 3) == 0;
        items[i] =
            (struct coxi_pull_item){.variable = any_number(w),
                                    .begin = listed ? COXI_ROWS_LISTED : any_number(w),
                                    .count = some_rows(w),
                                    .version = fuzz_below(&w->input, 4)};
    }
    return n;
}

static void pull_end(struct pull *pull)
{
    coxi_buffer_fini(&pull->versions);
    *pull = (struct pull){.open = false};
}

static void pull_begin(struct world *w)
{
    struct pull *pull = &w->pulls[fuzz_below(&w->input, PULLINGS)];
    pull_end(pull);
    pull->pull = (struct coxi_pull){.session = any_session(w),
                                    .incarnation = any_incarnation(w),
                                    .items = pull->items,
                                    .n_items = any_items(w, pull->items),
                                    .narrow = fuzz_below(&w->input, 2) == 1};
    for (size_t i = 0; i < 64; i++) {
        pull->list[i] = i % 7;
    }
    size_t len = fuzz_below(&w->input, 65) * sizeof(uint64_t);
    pull->open = coxi_store_pull_begin(w->store, &pull->pull, pull->list, len,
                                       &pull->versions, &pull->pulling) == 0;
    pull->said = pull->pulling.left;
}

static void pull_some(struct world *w)
{
    struct pull *pull = &w->pulls[fuzz_below(&w->input, PULLINGS)];
    size_t len = 0;
    if (!pull->open || pull->got == pull->said) {
        return;
    }
    uint8_t *to = aligned_alloc(64, COXI_PULL_ROOM);
    if (to == NULL ||
        coxi_store_pull_some(w->store, &pull->pulling, to, COXI_PULL_ROOM, &len) != 0) {
        pull_end(pull);
    } else {
        pull->got += len;
        if (len == 0 || len > COXI_PULL_ROOM || pull->got > pull->said) {
            fuzz_fail("a pull has another length than it said");
        }
    }
    free(to);
}

static void commit(struct world *w)
{
    uint32_t touched[4] = {0, 1, 2, (uint32_t)any_number(w)};
    struct coxi_update updates[ITEMS_MAX];
    bool duplicate;
    struct coxi_commit request = {.session = any_session(w),
                                  .incarnation = any_incarnation(w),
                                  .closure = any_number(w),
                                  .attempt = (uint32_t)fuzz_below(&w->input, 4),
                                  .segment = (uint32_t)any_number(w),
                                  .last = fuzz_below(&w->input, 2) == 1,
                                  .touched = touched,
                                  .n_touched = fuzz_below(&w->input, 5),
                                  .updates = updates,
                                  .n_updates = fuzz_below(&w->input, ITEMS_MAX + 1),
                                  .step = any_number(w)};
    const uint64_t pulled[ITEMS_MAX] = {request.step, request.closure, 2};
    request.pulled = pulled;
    request.n_pulled =
        request.attempt < request.n_updates ? request.attempt : request.n_updates;
    request.worker = coxi_maybe_of_number(request.segment);
    for (size_t i = 0; i < request.n_updates; i++) {
        updates[i] = (struct coxi_update){
            .variable = (uint32_t)any_number(w),
            .op = (uint32_t)fuzz_below(&w->input, 7),
            .begin = fuzz_below(&w->input, 3) == 0 ? COXI_ROWS_LISTED : any_number(w),
            .count = some_rows(w)};
        if (i > 0 && updates[i].op == COXI_OP_ROUND) {
            updates[i].op = COXI_OP_COMPENSATED;
        }
    }
    size_t len =
        fuzz_number(&w->input, 1) * 8 * (fuzz_below(&w->input, 4) == 0 ? 16 : 1);
    uint8_t *payload = aligned_alloc(64, (len + 127) / 64 * 64);
    if (payload != NULL) {
        memset(payload, 0, len + 64);
        size_t given = 64 < len ? 64 : len;
        const uint8_t *bytes = fuzz_bytes(&w->input, &given);
        if (given > 0) {
            memcpy(payload, bytes, given);
        }
        (void)coxi_store_commit(w->store, &request, payload, len, &w->scratch,
                                &duplicate);
    }
    free(payload);
}

/* ---- rounds */

/* Of the client that has the store, mostly. */
static struct coxi_session some_session(struct world *w)
{
    struct coxi_session owner;
    return coxi_store_owner(w->store, &owner) && fuzz_below(&w->input, 16) != 15
               ? owner
               : any_session(w);
}

static void create_for_rounds(struct world *w)
{
    for (size_t i = 0; i < ROUND_VARIABLES; i++) {
        const struct coxi_create request = {.session = some_session(w),
                                            .closure = 1 + i,
                                            .variable = *fuzz_round_variable(i),
                                            .incarnation =
                                                coxi_store_incarnation(w->store)};
        (void)coxi_store_create(w->store, &request);
    }
}

static void commit_round(struct world *w, struct fuzz_round *round)
{
    bool duplicate;
    uint64_t *payload = aligned_alloc(64, (round->len + 64) / 64 * 64);
    round->commit.session = some_session(w);
    round->commit.incarnation = coxi_store_incarnation(w->store);
    if (payload != NULL) {
        memcpy(payload, round->payload, round->len);
        (void)coxi_store_commit(w->store, &round->commit, payload, round->len,
                                &w->scratch, &duplicate);
    }
    free(payload);
}

static void wait_in_round(struct world *w)
{
    struct fuzz_round round;
    uint64_t r = fuzz_below(&w->input, ROUNDS);
    fuzz_round_wait(&w->input, r, fuzz_below(&w->input, r + 1), &round);
    commit_round(w, &round);
}

static void end_round(struct world *w)
{
    struct fuzz_round round;
    fuzz_round_end(&w->input, fuzz_below(&w->input, ROUNDS), &round);
    commit_round(w, &round);
}

/* All closures of a round, and then its end. */
static void fill_round(struct world *w)
{
    struct fuzz_round round;
    uint64_t r = fuzz_below(&w->input, ROUNDS);
    for (uint64_t i = 0; i <= r; i++) {
        fuzz_round_wait(&w->input, r, i, &round);
        commit_round(w, &round);
    }
    fuzz_round_end(&w->input, r, &round);
    commit_round(w, &round);
}

/* A pull that must see a round. Only the first of an input may wait in vain, because
 * that takes a tenth of a second. */
static void see_round(struct world *w)
{
    const struct coxi_pull pull = {
        .session = some_session(w),
        .incarnation = any_incarnation(w),
        .after = fuzz_below(&w->input, 4) == 3
                     ? any_number(w)
                     : fuzz_round_id(fuzz_below(&w->input, ROUNDS))};
    bool has_ended = coxi_store_has_ended(w->store, pull.after);
    if (has_ended || w->n_awaited++ == 0) {
        (void)coxi_store_pull_await(w->store, &pull, NULL, NULL);
    }
}

static void load(struct world *w)
{
    struct coxi_load request = {.session = any_session(w),
                                .incarnation = any_incarnation(w),
                                .closure = any_number(w),
                                .variable = (uint32_t)any_number(w),
                                .begin = any_number(w),
                                .count = some_rows(w),
                                .state = fuzz_below(&w->input, 2) == 1,
                                .life = fuzz_below(&w->input, 2) == 1,
                                .step = any_number(w),
                                .last = fuzz_below(&w->input, 4) == 0};
    size_t len = fuzz_number(&w->input, 2) / 8 * 8;
    uint8_t *payload = aligned_alloc(64, (len + 64) / 64 * 64);
    if (payload != NULL) {
        memset(payload, 0, (len + 64) / 64 * 64);
        (void)coxi_store_load(w->store, &request, payload, len);
    }
    free(payload);
}

static void void_or_advance(struct world *w)
{
    struct coxi_buffer segments = {0};
    struct coxi_buffer touched = {0};
    if (fuzz_below(&w->input, 2) == 0) {
        const struct coxi_void request = {.session = any_session(w),
                                          .closure = any_number(w),
                                          .attempt = (uint32_t)fuzz_below(&w->input, 5),
                                          .incarnation = any_incarnation(w)};
        (void)coxi_store_void(w->store, &request, &segments, &touched);
    } else {
        struct coxi_watermark request = {.session = any_session(w)};
        request.watermark = any_number(w);
        (void)coxi_store_advance(w->store, &request);
    }
    coxi_buffer_fini(&segments);
    coxi_buffer_fini(&touched);
}

/* ---- snapshots and restores */

static void file_remove(struct file *file)
{
    if (file->there) {
        (void)unlink(file->path);
        coxi_applied_list_fini(&file->done.applied);
    }
    *file = (struct file){.there = false};
}

static void snapshot(struct world *w)
{
    size_t i = fuzz_below(&w->input, FILES);
    struct file *file = &w->files[i];
    file_remove(file);
    (void)snprintf(file->path, sizeof(file->path), "%s/snapshot-%zu", fuzz_dir(), i);
    struct coxi_snapshot request = {
        .session = any_session(w),
        .number = ++w->n_snapshots,
        .path = file->path,
        .base = fuzz_below(&w->input, 2) == 1 ? w->n_snapshots - 1 : 0,
        .track = fuzz_below(&w->input, 2) == 1,
        .incarnation = coxi_store_incarnation(w->store)};
    file->there = coxi_store_snapshot(w->store, &request, &file->done) == 0;
}

/* Changes some bytes of the file, and its checksum. */
static void change(struct world *w, struct file *file, uint32_t *crc)
{
    uint8_t *bytes = malloc(file->done.bytes);
    FILE *f = fopen(file->path, "r+e");
    if (f != NULL && bytes != NULL &&
        fread(bytes, 1, file->done.bytes, f) == file->done.bytes) {
        for (size_t n = fuzz_below(&w->input, 8); n > 0; n--) {
            uint64_t at = fuzz_number(&w->input, 2) % file->done.bytes;
            bytes[at] = (uint8_t)fuzz_number(&w->input, 1);
        }
        if (fseek(f, 0, SEEK_SET) != 0 ||
            fwrite(bytes, 1, file->done.bytes, f) != file->done.bytes) {
            fuzz_fail("a file cannot be written");
        }
        *crc = coxi_crc32(0, bytes, file->done.bytes);
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    free(bytes);
}

static void restore(struct world *w)
{
    struct file *file = &w->files[fuzz_below(&w->input, FILES)];
    if (!file->there) {
        return;
    }
    uint32_t crc = file->done.crc32;
    if (fuzz_below(&w->input, 2) == 1) {
        change(w, file, &crc);
    }
    const struct coxi_restore request = {.session = any_session(w),
                                         .round = any_number(w),
                                         .path = file->path,
                                         .bytes = file->done.bytes,
                                         .crc32 = crc,
                                         .watermark = file->done.applied.watermark,
                                         .applied = file->done.applied.intervals,
                                         .n_applied = file->done.applied.n_intervals,
                                         .touched = file->done.applied.touched,
                                         .n_touched = file->done.applied.n_touched,
                                         .at = fuzz_below(&w->input, 3),
                                         .incarnation =
                                             coxi_store_incarnation(w->store),
                                         .more = fuzz_below(&w->input, 4) == 0};
    (void)coxi_store_restore(w->store, &request);
    file->done.crc32 = crc;
}

static void look(struct world *w)
{
    struct coxi_description description;
    struct coxi_counts counts;
    if (coxi_store_describe(w->store, &description) == 0) {
        coxi_description_fini(&description);
    }
    uint32_t what = (uint32_t)fuzz_below(&w->input, 32);
    const struct coxi_count count = {.table = coxi_maybe_of(what),
                                     .stale_of = (enum coxi_stale_of)(what % 4),
                                     .index = what / 4};
    coxi_store_counts(w->store, &count, &counts);
}

static void operate(struct world *w)
{
    static void (*const operations[])(struct world *) = {
        claim,     give_up,   create, create,          commit,   commit,  pull_begin,
        pull_some, pull_some, load,   void_or_advance, snapshot, restore, look,
    };
    static void (*const rounds[])(struct world *) = {
        create_for_rounds, wait_in_round, wait_in_round, end_round,
        fill_round,        fill_round,    see_round,     fill_round,
    };
    uint64_t n = fuzz_number(&w->input, 1);
    if (n >= 0xc0) {
        rounds[n % (sizeof(rounds) / sizeof(*rounds))](w);
    } else {
        operations[n % (sizeof(operations) / sizeof(*operations))](w);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world w;
    w = (struct world){.input = {data, size}};
    const struct coxi_session first = {.run = 1, .generation = 1, .token = 0};
    if (coxi_store_new(0, 77, &w.store) != 0) {
        return 0;
    }
    coxi_store_set_memory_max(w.store, MEMORY_MAX);
    (void)coxi_store_claim(w.store, &first, NULL);
    create_for_rounds(&w);
    for (int i = 0; i < OPERATIONS_MAX && w.input.left > 0; i++) {
        operate(&w);
    }
    for (size_t i = 0; i < PULLINGS; i++) {
        pull_end(&w.pulls[i]);
    }
    for (size_t i = 0; i < FILES; i++) {
        file_remove(&w.files[i]);
    }
    coxi_buffer_fini(&w.scratch);
    coxi_store_free(w.store);
    return 0;
}
