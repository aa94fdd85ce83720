/*
 * Checkpoints in a store of objects (the fake one): drafts, who may publish and delete them,
 * holds, and what is appended.
 */
#include <inttypes.h>
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
#include "common/file.h"
#include "tests/checkpoint/sample.h"
#include "tests/objects/fake_s3.h"
#include "tests/test.h"

static const char dir[] = "s3://bucket/runs/a";
static struct fake_s3 *fake;

static void write_some(uint64_t first, uint64_t last)
{
    for (uint64_t n = first; n <= last; n++) {
        sample_write(dir,
                     &(struct sample){.run = 1, .number = n, .n_ps = 2, .n_rows = 9});
    }
}

static void assert_there(const char *expected)
{
    sample_assert_there(dir, expected);
}

static struct coxi_manifest manifest_of(uint64_t number, uint64_t generation)
{
    return (struct coxi_manifest){.session = {.run = 1, .generation = generation},
                                  .number = number};
}

static uint64_t latest(void)
{
    uint64_t number = 0;
    assert_code(0, coxi_latest_read(dir, &number));
    return number;
}

/* ---- drafts */

TEST(checkpoints_in_a_store_are_listed_and_read_whole)
{
    struct coxi_checkpoint *checkpoint;
    struct coxi_draft draft;
    fake = fake_s3_open();
    assert_there("");
    write_some(9, 11);
    assert_code(0, coxi_draft_begin(dir, 12, &draft));
    fake_s3_put(fake, "runs/a/ckpt-0/manifest.json", "x", 1);
    fake_s3_put(fake, "runs/a/ckpt-13", "x", 1);
    fake_s3_put(fake, "runs/a/ckpt-14.tmp/manifest.json", "x", 1);
    assert_there("9 10 11 12.tmp");
    assert_int_equal(11, latest());
    static const enum coxi_checkpoint_depth depths[] = {
        COXI_CHECKPOINT_CHECKED, COXI_CHECKPOINT_STREAMED, COXI_CHECKPOINT_LISTED};
    for (size_t i = 0; i < sizeof(depths) / sizeof(*depths); i++) {
        assert_code(0, coxi_checkpoint_use(dir, depths[i], &checkpoint));
        const struct coxi_whole *values = coxi_checkpoint_find(
            checkpoint, coxi_checkpoint_variable(checkpoint, "t"), "values");
        assert_int_equal(9, values->shape[0]);
        coxi_checkpoint_close(checkpoint);
    }
    assert_code(COX_ENOENT, coxi_checkpoint_open("s3://bucket/runs/a/ckpt-12",
                                                 COXI_CHECKPOINT_LISTED, &checkpoint));
    coxi_draft_drop(&draft);
    assert_there("9 10 11");
    fake_s3_close_clean(fake);
}

TEST(a_number_in_a_store_is_given_once)
{
    struct coxi_draft draft;
    struct coxi_draft other;
    fake = fake_s3_open();
    write_some(1, 1);
    assert_code(COX_EEXIST, coxi_draft_begin(dir, 1, &draft));
    assert_code(0, coxi_draft_begin(dir, 2, &draft));
    assert_code(COX_EEXIST, coxi_draft_begin(dir, 2, &other));
    assert_there("1 2.tmp");
    coxi_draft_drop(&draft);
    fake_s3_close_clean(fake);
}

TEST(a_draft_in_a_store_is_published_or_swept_but_not_both)
{
    struct coxi_draft draft;
    struct coxi_manifest manifest = manifest_of(2, 1);
    fake = fake_s3_open();
    write_some(1, 1);
    assert_code(0, coxi_draft_begin(dir, 2, &draft));
    coxi_checkpoints_remove_unfinished(dir, NULL);
    assert_there("1");
    assert_code(COX_EIO, coxi_draft_publish(&draft, &manifest));
    coxi_draft_drop(&draft);
    assert_there("1");
    assert_code(0, coxi_draft_begin(dir, 2, &draft));
    assert_code(0, coxi_draft_publish(&draft, &manifest));
    coxi_checkpoints_remove_unfinished(dir, NULL);
    coxi_draft_drop(&draft); /* it is none any more */
    assert_there("1 2");
    assert_int_equal(2, latest());
    fake_s3_close_clean(fake);
}

TEST(what_a_killed_client_has_left_in_a_store_is_swept)
{
    struct coxi_draft draft;
    struct coxi_file_sink sink;
    char path[PATH_MAX];
    fake = fake_s3_open();
    write_some(1, 1);
    size_t n = fake_s3_objects(fake);
    assert_code(0, coxi_draft_begin(dir, 2, &draft));
    assert_code(0, coxi_path(path, "%s/ps-0-of-2.safetensors", draft.path));
    assert_code(0, coxi_place_create(NULL, path, 0, &sink));
    assert_code(0, sink.write(sink.arg, 0, "x", 1));
    assert_code(0, sink.finish(sink.arg));
    fake_s3_put(fake, "runs/a/ckpt-3/ps-1-of-2.safetensors", "x", 1);
    assert_there("1 2.tmp 3.tmp");
    coxi_checkpoints_remove_unfinished(dir, NULL);
    assert_there("1");
    assert_int_equal(n, fake_s3_objects(fake));
    fake_s3_close_clean(fake);
}

TEST(a_replaced_client_publishes_nothing_in_a_store)
{
    struct coxi_session first = {1, 0, 11};
    struct coxi_session second = {2, 0, 22};
    struct coxi_draft draft;
    struct coxi_manifest manifest;
    fake = fake_s3_open();
    assert_code(0, coxi_generation_claim(dir, &first));
    assert_int_equal(1, first.generation);
    assert_code(0, coxi_draft_begin(dir, 1, &draft));
    assert_code(0, coxi_generation_claim(dir, &second));
    assert_int_equal(2, second.generation);
    assert_int_equal(1, second.run);
    assert_code(COX_EFENCED, coxi_generation_check(dir, &first));
    assert_code(0, coxi_generation_check(dir, &second));
    manifest = manifest_of(1, first.generation);
    assert_code(COX_EFENCED, coxi_draft_publish(&draft, &manifest));
    coxi_draft_drop(&draft);
    assert_there("");
    fake_s3_close_clean(fake);
}

/* The answer to a conditional write may be lost, and the write done all the same. */
TEST(a_checkpoint_in_a_store_survives_lost_answers)
{
    struct coxi_draft draft;
    fake = fake_s3_open();
    for (uint64_t n = 1; n <= 12; n++) {
        struct coxi_manifest manifest = manifest_of(n, 1);
        fake_s3_heal(fake);
        fake_s3_fault(fake, FAKE_PUT, 1, n % 3 == 0 ? FAKE_CUT : FAKE_LOSE);
        assert_code(0, coxi_draft_begin(dir, n, &draft));
        fake_s3_fault(fake, n % 2 == 0 ? FAKE_PUT : FAKE_HEAD, 1, FAKE_LOSE);
        assert_code(0, coxi_draft_publish(&draft, &manifest));
        assert_int_equal(n, latest());
    }
    fake_s3_close_clean(fake);
}

/* ---- deleting */

static void note(void *arg, uint64_t number, enum coxi_fate fate)
{
    static const char letters[] = "nebrfd";
    char *text = arg;
    size_t used = strlen(text);
    (void)snprintf(text + used, 128 - used, "%" PRIu64 "%c ", number, letters[fate]);
}

static void assert_fates(const char *expected, uint64_t keep)
{
    char text[128] = "";
    const struct coxi_retention retention = {.keep = keep};
    assert_code(0, coxi_checkpoints_prune(dir, &retention, false, note, text));
    assert_string_equal(expected, text);
}

TEST(a_checkpoint_in_a_store_that_is_being_read_is_not_deleted)
{
    struct coxi_checkpoint *reader;
    fake = fake_s3_open();
    write_some(1, 3);
    assert_code(0, coxi_checkpoint_open("s3://bucket/runs/a/ckpt-1",
                                        COXI_CHECKPOINT_LISTED, &reader));
    assert_true(coxi_hold_is_taken("s3://bucket/runs/a/ckpt-1"));
    assert_false(coxi_hold_is_taken("s3://bucket/runs/a/ckpt-2"));
    assert_fates("3n 2d 1r ", 1);
    assert_there("1 3");
    coxi_checkpoint_close(reader);
    assert_fates("3n 1d ", 1);
    assert_there("3");
    fake_s3_close_clean(fake);
}

TEST(a_reader_that_has_died_keeps_its_checkpoint_in_a_store_for_a_while)
{
    fake = fake_s3_open();
    write_some(1, 2);
    fake_s3_put(fake, "runs/a/readers/ckpt-1-0123456789abcdef", "x", 1);
    fake_s3_age(fake, "runs/a/readers/", COXI_HOLD_S - 10);
    assert_fates("2n 1r ", 1);
    fake_s3_age(fake, "runs/a/readers/", COXI_HOLD_S + 10);
    assert_fates("2n 1d ", 1);
    assert_there("2");
    size_t len = 0;
    assert_null(fake_s3_content(fake, "runs/a/readers/ckpt-1-0123456789abcdef", &len));
    fake_s3_close_clean(fake);
}

static void fail_at_fault(void *arg, const char *text)
{
    (void)arg;
    fail_msg("a fault: %s", text);
}

TEST(a_reader_that_may_not_write_reads_without_a_mark)
{
    static const char one[] = "s3://bucket/runs/a/ckpt-1";
    struct coxi_checkpoint *reader;
    struct coxi_hold *hold = NULL;
    bool held = true;
    fake = fake_s3_open();
    write_some(1, 2);
    assert_code(0, coxi_checkpoint_verify(one, fail_at_fault, NULL, &held));
    assert_true(held);
    fake_s3_fault(fake, FAKE_PUT, -1, FAKE_DENY);
    assert_code(COX_EIO, coxi_hold_take(one, &hold));
    assert_code(COX_ENOENT, coxi_hold_try("s3://bucket/runs/a/ckpt-9", &hold));
    assert_code(0, coxi_checkpoint_verify(one, fail_at_fault, NULL, &held));
    assert_false(held);
    assert_code(0, coxi_checkpoint_open(one, COXI_CHECKPOINT_STREAMED, &reader));
    assert_false(coxi_checkpoint_is_held(reader));
    fake_s3_heal(fake);
    assert_fates("2n 1d ", 1);
    coxi_checkpoint_close(reader);
    fake_s3_close_clean(fake);
}

TEST(a_list_of_checkpoints_in_a_store_writes_nothing)
{
    struct coxi_checkpoint *checkpoint;
    fake = fake_s3_open();
    write_some(1, 1);
    int n = fake_s3_count(fake, FAKE_PUT);
    assert_code(0, coxi_checkpoint_open("s3://bucket/runs/a/ckpt-1",
                                        COXI_CHECKPOINT_GLANCED, &checkpoint));
    assert_int_equal(n, fake_s3_count(fake, FAKE_PUT));
    assert_false(coxi_checkpoint_is_held(checkpoint));
    coxi_checkpoint_close(checkpoint);
    fake_s3_close_clean(fake);
}

static void *delete_first(void *arg)
{
    *(int *)arg = coxi_draft_delete(dir, 1);
    return NULL;
}

/* The pruner has found no reader, and makes a draft of the checkpoint; a reader comes in
 * between. The write of the draft waits in the store for that. */
TEST(a_reader_that_comes_while_a_checkpoint_is_deleted_keeps_it_or_is_told)
{
    pthread_t thread;
    int code = 0;
    struct coxi_hold *hold = NULL;
    fake = fake_s3_open();
    write_some(1, 2);
    fake_s3_fault(fake, FAKE_PUT, 1, FAKE_HOLD);
    assert_int_equal(0, pthread_create(&thread, NULL, delete_first, &code));
    fake_s3_await_held(fake);
    assert_code(0, coxi_hold_take("s3://bucket/runs/a/ckpt-1", &hold));
    fake_s3_release(fake);
    (void)pthread_join(thread, NULL);
    assert_int_equal(COX_EBUSY, code);
    assert_there("1 2");
    coxi_hold_release(hold);
    assert_code(0, coxi_draft_delete(dir, 1));
    assert_code(COX_ENOENT, coxi_hold_take("s3://bucket/runs/a/ckpt-1", &hold));
    assert_there("2");
    fake_s3_close_clean(fake);
}

TEST(a_deletion_in_a_store_that_was_cut_off_is_ended_by_the_next_client)
{
    fake = fake_s3_open();
    write_some(1, 2);
    fake_s3_fault(fake, FAKE_DELETE, -1, FAKE_DENY);
    assert_code(0, coxi_draft_delete(dir, 1));
    fake_s3_heal(fake);
    assert_there("1.tmp 2");
    coxi_checkpoints_remove_unfinished(dir, NULL);
    assert_there("2");
    fake_s3_close_clean(fake);
}

/* ---- lines */

enum { WRITERS = 4, LINES = 8 };

static void *append_lines(void *arg)
{
    int *code = arg;
    for (int i = 0; i < LINES && *code == 0; i++) {
        *code =
            coxi_place_append("s3://bucket/runs/a/eval.jsonl", "{\"a\": 1}\n", false);
    }
    return NULL;
}

TEST(lines_that_several_append_to_an_object_are_all_there)
{
    pthread_t threads[WRITERS];
    int codes[WRITERS] = {0};
    size_t len = 0;
    fake = fake_s3_open();
    fake_s3_put(fake, "runs/a/eval.jsonl", "{\"cut", 5);
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(0, pthread_create(&threads[i], NULL, append_lines, &codes[i]));
    }
    for (int i = 0; i < WRITERS; i++) {
        (void)pthread_join(threads[i], NULL);
        assert_int_equal(0, codes[i]);
    }
    uint8_t *text = fake_s3_content(fake, "runs/a/eval.jsonl", &len);
    assert_int_equal(6 + WRITERS * LINES * 9, len);
    assert_memory_equal("{\"cut\n{\"a\": 1}\n", text, 15);
    free(text);
    fake_s3_close_clean(fake);
}

/* ---- stores that cannot be used */

TEST(a_store_without_conditions_or_bucket_is_refused)
{
    fake = fake_s3_open();
    fake_s3_ignore_conditions(fake, true);
    assert_code(COX_EIO, coxi_place_try(dir));
    assert_error_names("the store ignores If-None-Match");
    assert_int_equal(0, fake_s3_objects(fake));
    fake_s3_ignore_conditions(fake, false);
    assert_code(0, coxi_place_try(dir));
    assert_int_equal(0, fake_s3_objects(fake));
    assert_code(COX_EIO, coxi_place_try("s3://other/runs"));
    assert_error_names("make the bucket first");
    fake_s3_fault(fake, FAKE_PUT, -1, FAKE_DENY);
    assert_code(COX_EIO, coxi_place_try(dir));
    assert_error_names("lack the permission s3:PutObject");
    fake_s3_heal(fake);
    fake_s3_fault(fake, FAKE_ABORT, -1, FAKE_500);
    assert_code(0, coxi_place_try(dir));
    fake_s3_heal(fake);
    fake_s3_close_clean(fake);
}

TEST(what_earlier_looks_at_a_store_have_left_is_removed)
{
    static const char *const old[] = {".coxswain-write-test-0123456789abcdef",
                                      ".coxswain-probe-1/.coxswain-probe-1",
                                      ".coxswain-other"};
    static const char fresh[] = "runs/a/.coxswain-write-test-fedcba9876543210";
    size_t len = 0;
    fake = fake_s3_open();
    for (size_t i = 0; i < sizeof(old) / sizeof(*old); i++) {
        char key[128];
        (void)snprintf(key, sizeof(key), "runs/a/%s", old[i]);
        fake_s3_put(fake, key, "a test\n", 7);
    }
    fake_s3_age(fake, "runs/a/", 3700);
    fake_s3_put(fake, fresh, "a test\n", 7);
    assert_code(0, coxi_place_try(dir));
    assert_int_equal(2, fake_s3_objects(fake));
    uint8_t *content = fake_s3_content(fake, fresh, &len);
    assert_non_null(content);
    free(content);
    fake_s3_fault(fake, FAKE_LIST, -1, FAKE_DENY);
    assert_code(0, coxi_place_try(dir));
    fake_s3_heal(fake);
    fake_s3_close_clean(fake);
}

TEST(paths_lead_out_of_no_root_in_a_store)
{
    struct coxi_file_source source = {0};
    struct coxi_file_sink sink;
    fake = fake_s3_open();
    fake_s3_put(fake, "runs/a/f", "abc", 3);
    assert_code(
        0, coxi_place_open("s3://bucket/runs/", "s3://bucket/runs/a/f", 3, &source));
    coxi_place_close(&source);
    static const char *const wrong[] = {"s3://bucket/runs/../x/f",
                                        "s3://bucket/runsx/f", "s3://other/runs/a/f",
                                        "s3://bucket/runs"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_code(COX_EIO,
                    coxi_place_create("s3://bucket/runs/", wrong[i], 3, &sink));
        assert_code(COX_EIO,
                    coxi_place_open("s3://bucket/runs/", wrong[i], 3, &source));
    }
    assert_code(COX_EIO, coxi_place_create("/checkpoints", "s3://bucket/f", 3, &sink));
    assert_int_equal(1, fake_s3_objects(fake));
    fake_s3_close_clean(fake);
}

/* ---- names of places */

TEST(a_place_has_one_name)
{
    static const char *const names[][2] = {
        {"s3://bucket", "s3://bucket"},
        {"s3://bucket/", "s3://bucket"},
        {"s3://bucket//x", "s3://bucket/x"},
        {"s3://bucket/a//b///c//", "s3://bucket/a/b/c"},
        {"dir", "dir"},
        {"dir/", "dir"},
        {"/a/ckpt-3//", "/a/ckpt-3"},
        {"/", "/"},
        {"//", "/"},
        {"./S3://bucket/x", "./S3://bucket/x"},
        {"a b:/x", "a b:/x"},
        {"dir/file:/x", "dir/file:/x"},
        {"10:30", "10:30"},
    };
    char taken[PATH_MAX];
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        assert_code(0, coxi_place_take(names[i][0], taken));
        assert_string_equal(names[i][1], taken);
    }
}

TEST(a_name_with_another_scheme_is_no_place)
{
    static const char *const wrong[] = {
        "S3://bucket/x", "s3:/bucket/x", "s3a://bucket/x", "http://host/x", "file:///x",
        "svn+ssh://a/b", "s3:/"};
    char taken[PATH_MAX] = "as before";
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_code(COX_EINVAL, coxi_place_take(wrong[i], taken));
        assert_error_names(wrong[i]);
        assert_error_names("neither a directory nor s3://BUCKET/PREFIX");
    }
    static const char *const without[] = {"s3://", "s3:///bucket/x", "s3:////"};
    for (size_t i = 0; i < sizeof(without) / sizeof(*without); i++) {
        assert_code(COX_EINVAL, coxi_place_take(without[i], taken));
        assert_error_names("names no bucket");
    }
    assert_string_equal("as before", taken);
}
