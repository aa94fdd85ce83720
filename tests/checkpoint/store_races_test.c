/*
 * Checkpoints in a store of objects (the fake one), at the moments at which several clients,
 * a pruner and readers meet, or answers come late or not at all.
 */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoints.h"
#include "checkpoint/draft.h"
#include "checkpoint/generation.h"
#include "checkpoint/hold.h"
#include "checkpoint/latest.h"
#include "checkpoint/place.h"
#include "common/error.h"
#include "tests/checkpoint/sample.h"
#include "tests/objects/fake_s3.h"
#include "tests/test.h"

static const char dir[] = "s3://bucket/runs/a";
static const char first_path[] = "s3://bucket/runs/a/ckpt-1";
static struct fake_s3 *fake;

static void write_one(uint64_t number, uint64_t base)
{
    sample_write(dir,
                 &(struct sample){
                     .run = 1, .number = number, .n_ps = 2, .n_rows = 9, .base = base});
}

static void assert_there(const char *expected)
{
    sample_assert_there(dir, expected);
}

/* Waits until the store was asked that often. */
static void await_count(enum fake_op op, int n)
{
    for (int ms = 0; fake_s3_count(fake, op) < n; ms += 10) {
        assert_true(ms < 60000);
        (void)poll(NULL, 0, 10);
    }
}

static bool is_stored(const char *key)
{
    size_t len = 0;
    uint8_t *content = fake_s3_content(fake, key, &len);
    free(content);
    return content != NULL;
}

/* ---- pruning */

static void deny_after_2(void *arg, uint64_t number, enum coxi_fate fate)
{
    (void)arg, (void)fate;
    if (number == 2) {
        fake_s3_fault(fake, FAKE_GET, 2, FAKE_DENY);
    }
}

/* Whether ckpt-2 builds on ckpt-1 is not known while its manifest cannot be read. */
TEST(a_base_stays_while_the_store_does_not_say_who_builds_on_it)
{
    struct coxi_checkpoint *checkpoint;
    const struct coxi_retention retention = {.keep = 1, .keep_every = 2};
    fake = fake_s3_open();
    write_one(1, 0);
    write_one(2, 1);
    write_one(3, 0);
    assert_code(COX_EIO,
                coxi_checkpoints_prune(dir, &retention, false, deny_after_2, NULL));
    fake_s3_heal(fake);
    assert_there("1 2 3");
    assert_code(0, coxi_checkpoint_open("s3://bucket/runs/a/ckpt-2",
                                        COXI_CHECKPOINT_CHECKED, &checkpoint));
    coxi_checkpoint_close(checkpoint);
    fake_s3_close_clean(fake);
}

/* A pruner was killed after it had made a draft of the checkpoint, and before it saw the
 * reader that had come meanwhile. */
TEST(a_sweep_spares_what_somebody_reads)
{
    struct coxi_hold *hold = NULL;
    fake = fake_s3_open();
    write_one(1, 0);
    write_one(2, 0);
    assert_code(0, coxi_hold_take(first_path, &hold));
    fake_s3_put(fake, "runs/a/ckpt-1/manifest.json", "draft x\n", 8);
    coxi_checkpoints_remove_unfinished(dir, NULL);
    assert_true(is_stored("runs/a/ckpt-1/ps-0-of-2.safetensors"));
    coxi_hold_release(hold);
    coxi_checkpoints_remove_unfinished(dir, NULL);
    assert_false(is_stored("runs/a/ckpt-1/ps-0-of-2.safetensors"));
    assert_there("2");
    fake_s3_close_clean(fake);
}

/* ---- two clients */

struct late {
    struct coxi_session session;
    int code;
};

static void *claim(void *arg)
{
    struct late *late = arg;
    late->code = coxi_generation_claim(dir, &late->session);
    return NULL;
}

/* The store carries a claim out when later clients have claimed, and removed the older
 * claims, that of the same number too. */
TEST(a_claim_that_is_carried_out_late_counts_for_nothing)
{
    pthread_t thread;
    struct late late = {.session = {1, 0, 11}};
    struct coxi_session others[3] = {{1, 0, 21}, {1, 0, 22}, {1, 0, 23}};
    fake = fake_s3_open();
    assert_code(0, coxi_generation_claim(dir, &others[0]));
    fake_s3_fault(fake, FAKE_PUT, 1, FAKE_HOLD);
    assert_int_equal(0, pthread_create(&thread, NULL, claim, &late));
    fake_s3_await_held(fake);
    assert_code(0, coxi_generation_claim(dir, &others[1]));
    assert_code(0, coxi_generation_claim(dir, &others[2]));
    assert_int_equal(3, others[2].generation);
    fake_s3_release(fake);
    (void)pthread_join(thread, NULL);
    assert_int_equal(COX_EFENCED, late.code);
    assert_int_equal(0, late.session.generation);
    assert_code(0, coxi_generation_check(dir, &others[2]));
    assert_false(is_stored("runs/a/generation-2"));
    fake_s3_close_clean(fake);
}

TEST(a_replaced_client_sweeps_no_draft_of_its_successor)
{
    struct coxi_session first = {1, 0, 11};
    struct coxi_session second = {1, 0, 22};
    struct coxi_draft draft;
    fake = fake_s3_open();
    assert_code(0, coxi_generation_claim(dir, &first));
    assert_code(0, coxi_generation_claim(dir, &second));
    assert_code(0, coxi_draft_begin(dir, 1, &draft));
    coxi_checkpoints_remove_unfinished(dir, &first);
    assert_there("1.tmp");
    coxi_checkpoints_remove_unfinished(dir, &second);
    assert_there("");
    fake_s3_close_clean(fake);
}

/* ---- publishing */

struct publishing {
    struct coxi_draft draft;
    struct coxi_manifest manifest;
    int code;
};

static void *publish(void *arg)
{
    struct publishing *publishing = arg;
    publishing->code = coxi_draft_publish(&publishing->draft, &publishing->manifest);
    coxi_draft_drop(&publishing->draft);
    return NULL;
}

/* Begins to publish ckpt-1, up to the moment before LATEST is written. */
static void publish_manifest(struct publishing *publishing, pthread_t *ret)
{
    struct coxi_session session = {1, 0, 11};
    assert_code(0, coxi_generation_claim(dir, &session));
    *publishing = (struct publishing){.manifest = {.session = session, .number = 1}};
    assert_code(0, coxi_draft_begin(dir, 1, &publishing->draft));
    fake_s3_fault(fake, FAKE_HEAD, 1, FAKE_HOLD);
    assert_int_equal(0, pthread_create(ret, NULL, publish, publishing));
    fake_s3_await_held(fake);
}

/* LATEST cannot be written, so the client makes a draft of the checkpoint again; while that
 * is under way, another client claims the directory and goes on from the checkpoint. */
TEST(a_checkpoint_from_which_a_successor_goes_on_is_not_withdrawn)
{
    pthread_t thread;
    struct publishing publishing;
    struct coxi_session second = {1, 0, 22};
    struct coxi_hold *hold = NULL;
    fake = fake_s3_open();
    publish_manifest(&publishing, &thread);
    int n = fake_s3_count(fake, FAKE_PUT);
    fake_s3_fault(fake, FAKE_PUT, 1, FAKE_DENY);
    fake_s3_fault(fake, FAKE_PUT, 1, FAKE_HOLD);
    fake_s3_release(fake);
    await_count(FAKE_PUT, n + 2);
    assert_code(0, coxi_generation_claim(dir, &second));
    assert_there("1");
    assert_code(0, coxi_hold_take(first_path, &hold));
    fake_s3_release(fake);
    (void)pthread_join(thread, NULL);
    assert_int_equal(COX_EIO, publishing.code);
    assert_there("1");
    coxi_hold_release(hold);
    fake_s3_close_clean(fake);
}

/* LATEST was written, but the answer was lost, and the store does not say what it names. */
TEST(a_checkpoint_that_latest_may_name_is_not_withdrawn)
{
    pthread_t thread;
    struct publishing publishing;
    uint64_t number = 0;
    fake = fake_s3_open();
    publish_manifest(&publishing, &thread);
    fake_s3_fault(fake, FAKE_PUT, 1, FAKE_LOSE);
    fake_s3_fault(fake, FAKE_PUT, 1, FAKE_DENY);
    fake_s3_fault(fake, FAKE_GET, 1, FAKE_DENY);
    fake_s3_release(fake);
    (void)pthread_join(thread, NULL);
    assert_int_equal(COX_EIO, publishing.code);
    assert_code(0, coxi_latest_read(dir, &number));
    assert_int_equal(1, number);
    assert_there("1");
    fake_s3_close_clean(fake);
}

/* ---- readers */

/* There is no room for copies; the older checkpoint is whole all the same. */
TEST(a_reader_without_room_for_copies_is_told_the_reason)
{
    struct coxi_checkpoint *checkpoint;
    fake = fake_s3_open();
    write_one(1, 0);
    write_one(2, 1);
    write_one(3, 0);
    assert_int_equal(0, setenv("TMPDIR", "/nowhere", 1));
    assert_code(COX_EIO,
                coxi_checkpoint_use(dir, COXI_CHECKPOINT_CHECKED, &checkpoint));
    assert_int_equal(0, unsetenv("TMPDIR"));
    assert_error_names("cannot make a file in /nowhere");
    assert_error_names("ckpt-2 is complete");
    fake_s3_close_clean(fake);
}

TEST(an_older_checkpoint_that_is_damaged_is_not_offered)
{
    struct coxi_checkpoint *checkpoint;
    size_t len = 0;
    fake = fake_s3_open();
    for (uint64_t n = 1; n <= 3; n++) {
        write_one(n, 0);
    }
    for (uint64_t n = 2; n <= 3; n++) {
        char key[64];
        (void)snprintf(key, sizeof(key),
                       "runs/a/ckpt-%" PRIu64 "/ps-1-of-2.safetensors", n);
        uint8_t *shard = fake_s3_content(fake, key, &len);
        shard[len - 1] ^= 1;
        fake_s3_put(fake, key, shard, len);
        free(shard);
    }
    assert_code(COX_ECHECKSUM,
                coxi_checkpoint_use(dir, COXI_CHECKPOINT_CHECKED, &checkpoint));
    assert_error_names("ckpt-1 is complete");
    fake_s3_close_clean(fake);
}

/* ---- lines */

static void *append_line(void *arg)
{
    *(int *)arg = coxi_place_append("s3://bucket/runs/a/eval.jsonl", "mine\n", true);
    return NULL;
}

/* The line was written, but the answer was lost, and another process appends before the
 * write is sent again: it finds another object than its own. */
TEST(a_line_whose_answer_is_lost_is_in_an_object_once)
{
    static const char *const before[] = {"", "first\n"};
    for (size_t i = 0; i < 2; i++) {
        pthread_t thread;
        int code = 1;
        size_t len = 0;
        char text[64];
        fake = fake_s3_open();
        if (i > 0) {
            fake_s3_put(fake, "runs/a/eval.jsonl", before[i], strlen(before[i]));
        }
        fake_s3_fault(fake, FAKE_PUT, 1, FAKE_LOSE);
        fake_s3_fault(fake, FAKE_PUT, 1, FAKE_HOLD);
        assert_int_equal(0, pthread_create(&thread, NULL, append_line, &code));
        fake_s3_await_held(fake);
        (void)snprintf(text, sizeof(text), "%smine\nother\n", before[i]);
        fake_s3_put(fake, "runs/a/eval.jsonl", text, strlen(text));
        fake_s3_release(fake);
        (void)pthread_join(thread, NULL);
        assert_int_equal(0, code);
        uint8_t *content = fake_s3_content(fake, "runs/a/eval.jsonl", &len);
        assert_string_equal(text, (const char *)content);
        free(content);
        fake_s3_close_clean(fake);
    }
}

/* ---- permissions */

TEST(a_permission_that_is_missing_is_found_before_it_is_needed)
{
    static const enum fake_op ops[] = {FAKE_PUT, FAKE_GET, FAKE_DELETE, FAKE_UPLOADS,
                                       FAKE_ABORT};
    fake = fake_s3_open();
    for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
        fake_s3_fault(fake, ops[i], -1, FAKE_DENY);
        assert_code(COX_EIO, coxi_place_try(dir));
        assert_error_names("lack the permission s3:");
        fake_s3_heal(fake);
    }
    fake_s3_close_clean(fake);
}

/* ---- litter */

TEST(a_store_that_is_refused_keeps_nothing_of_the_test)
{
    fake = fake_s3_open();
    fake_s3_ignore_conditions(fake, true);
    assert_code(COX_EIO, coxi_place_try(dir));
    assert_int_equal(0, fake_s3_objects(fake));
    fake_s3_close_clean(fake);
}
