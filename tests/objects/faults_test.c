/* Objects in S3 when the store or the way to it fails. */
#include <stdatomic.h>
#include <stdio.h>

#include "common/disk.h"
#include "common/sync.h"
#include "tests/objects/store.h"
#include "tests/test.h"

enum { MIB = 1 << 20, TWO_PARTS = 9 * MIB };

static const uint8_t *content(void)
{
    static uint8_t *bytes;
    if (bytes == NULL) {
        bytes = store_bytes(TWO_PARTS);
    }
    return bytes;
}

static int put_text(struct store *store, const char *key, const char *text,
                    enum coxi_s3_when when, const char *etag, char *ret_etag)
{
    return coxi_s3_put(store->s3, key, text, strlen(text), when, etag, ret_etag);
}

/* Uploads an object of two parts. */
static int upload(struct store *store, const char *key)
{
    struct coxi_file_sink sink;
    assert_code(0, coxi_s3_upload(store->s3, key, TWO_PARTS, &sink));
    int r = sink.write(sink.arg, 0, content(), TWO_PARTS);
    if (r != 0) {
        sink.abandon(sink.arg);
        return r;
    }
    return sink.finish(sink.arg);
}

static int count(void *arg, const struct coxi_s3_object *object)
{
    (void)object;
    ++*(int *)arg;
    return 0;
}

static void expect_content(struct store *store, const char *key, const void *bytes,
                           size_t len)
{
    size_t n = 0;
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", store->prefix, key);
    uint8_t *got = fake_s3_content(store->fake, path, &n);
    assert_non_null(got);
    assert_int_equal(len, n);
    assert_memory_equal(bytes, got, len);
    free(got);
}

/* ---- failures that pass */

/* Does all that can be done; each must succeed. */
static void do_all(struct store *store)
{
    enum { PIECE = 200000 };
    char etag[COXI_S3_ETAG_MAX];
    uint8_t *to = malloc(PIECE);
    uint8_t *whole = NULL;
    size_t len = 0;
    uint64_t size = 0;
    int n = 0;
    assert_code(0, put_text(store, "claim", "me", COXI_S3_IF_ABSENT, NULL, etag));
    assert_code(0, put_text(store, "claim", "me again", COXI_S3_IF_MATCH, etag, etag));
    assert_code(COX_ECONFLICT,
                put_text(store, "claim", "you", COXI_S3_IF_ABSENT, NULL, NULL));
    expect_content(store, "claim", "me again", 8);
    assert_code(0, upload(store, "shard"));
    expect_content(store, "shard", content(), TWO_PARTS);
    assert_code(0, coxi_s3_get(store->s3, "shard", NULL, 1234567, to, PIECE));
    assert_memory_equal(content() + 1234567, to, PIECE);
    assert_code(0, coxi_s3_read(store->s3, "claim", 100, &whole, &len, NULL));
    assert_int_equal(8, len);
    assert_code(0, coxi_s3_head(store->s3, "shard", &size, NULL));
    assert_int_equal(TWO_PARTS, size);
    assert_code(0, coxi_s3_list(store->s3, "", count, &n));
    assert_int_equal(2, n);
    assert_code(0, coxi_s3_remove(store->s3, "shard"));
    assert_code(0, coxi_s3_drop_uploads(store->s3, ""));
    assert_int_equal(1, fake_s3_objects(store->fake));
    assert_int_equal(0, fake_s3_uploads(store->fake));
    free(whole);
    free(to);
}

static void survive_once(enum fake_op op, int n, enum fake_fault fault)
{
    struct store store;
    store_open(&store);
    fake_s3_fault(store.fake, op, n, fault);
    do_all(&store);
    store_close(&store);
}

/* The first `n` requests of each kind meet the fault. */
static void survive(int n, enum fake_fault fault)
{
    for (int op = 0; op <= FAKE_OPS; op++) {
        survive_once((enum fake_op)op, n, fault);
    }
}

TEST(requests_that_fail_with_500_are_repeated)
{
    survive(2, FAKE_500);
}

TEST(requests_that_come_too_fast_are_repeated)
{
    survive(2, FAKE_SLOW_DOWN);
    survive_once(FAKE_OPS, 4, FAKE_429);
}

TEST(requests_that_are_cut_off_are_repeated)
{
    survive(2, FAKE_CUT);
}

TEST(an_answer_that_is_lost_is_cleared_up)
{
    survive(1, FAKE_LOSE);
}

TEST(two_answers_that_are_lost_are_cleared_up)
{
    survive(2, FAKE_LOSE);
}

TEST(answers_that_break_off_are_cleared_up)
{
    survive(2, FAKE_HALF);
}

TEST(conditions_that_meet_another_write_are_tried_again)
{
    survive_once(FAKE_PUT, 2, FAKE_CONFLICT);
    survive_once(FAKE_END, 2, FAKE_CONFLICT);
}

TEST(an_error_with_status_200_at_the_end_of_an_upload_is_seen)
{
    static const enum fake_fault faults[] = {FAKE_LATE_ERROR, FAKE_LATE_LIE,
                                             FAKE_GARBAGE};
    for (size_t i = 0; i < 3; i++) {
        struct store store;
        store_open(&store);
        fake_s3_fault(store.fake, FAKE_END, 1, faults[i]);
        do_all(&store);
        store_close(&store);
    }
}

/* ---- races */

TEST(a_winner_whose_answer_is_lost_is_told_that_it_has_won)
{
    struct store store;
    char etag[COXI_S3_ETAG_MAX] = "";
    char etag_now[COXI_S3_ETAG_MAX];
    uint64_t bytes = 0;
    store_open(&store);
    fake_s3_fault(store.fake, FAKE_PUT, 1, FAKE_LOSE);
    assert_code(0, put_text(&store, "claim", "same", COXI_S3_IF_ABSENT, NULL, etag));
    assert_code(0, coxi_s3_head(store.s3, "claim", &bytes, etag_now));
    assert_string_equal(etag_now, etag);
    fake_s3_heal(store.fake);
    fake_s3_fault(store.fake, FAKE_PUT, 2, FAKE_LOSE);
    assert_code(0, put_text(&store, "claim", "next", COXI_S3_IF_MATCH, etag, NULL));
    expect_content(&store, "claim", "next", 4);
    store_close(&store);
}

TEST(a_loser_with_the_same_bytes_is_told_that_it_has_lost)
{
    struct store store;
    store_open(&store);
    assert_code(0, put_text(&store, "claim", "same", COXI_S3_IF_ABSENT, NULL, NULL));
    fake_s3_fault(store.fake, FAKE_PUT, 1, FAKE_CUT);
    assert_code(COX_ECONFLICT,
                put_text(&store, "claim", "same", COXI_S3_IF_ABSENT, NULL, NULL));
    assert_error_names("another has written it");
    store_close(&store);
}

TEST(an_outcome_that_cannot_be_found_out_is_no_lost_race)
{
    struct store store;
    store_open(&store);
    fake_s3_fault(store.fake, FAKE_PUT, 1, FAKE_LOSE);
    fake_s3_fault(store.fake, FAKE_HEAD, -1, FAKE_500);
    assert_code(COX_EIO,
                put_text(&store, "claim", "me", COXI_S3_IF_ABSENT, NULL, NULL));
    store_close(&store);
}

TEST(a_store_that_ignores_conditions_is_refused)
{
    struct store store;
    char etag[COXI_S3_ETAG_MAX];
    store_open(&store);
    fake_s3_ignore_conditions(store.fake, true);
    assert_code(COX_EREFUSED,
                put_text(&store, "claim", "me", COXI_S3_IF_ABSENT, NULL, NULL));
    assert_error_names("If-None-Match");
    assert_code(0, put_text(&store, "claim", "me", COXI_S3_ALWAYS, NULL, etag));
    assert_code(COX_EREFUSED,
                put_text(&store, "claim", "me", COXI_S3_IF_MATCH, etag, NULL));
    assert_error_names("If-Match");
    fake_s3_fault(store.fake, FAKE_PUT, 1, FAKE_UNKNOWN);
    assert_code(COX_EREFUSED,
                put_text(&store, "claim", "me", COXI_S3_IF_ABSENT, NULL, NULL));
    store_close(&store);
}

TEST(conditions_are_checked_once)
{
    struct store store;
    store_open(&store);
    assert_code(0, put_text(&store, "a", "1", COXI_S3_IF_ABSENT, NULL, NULL));
    assert_code(0, put_text(&store, "b", "1", COXI_S3_IF_ABSENT, NULL, NULL));
    assert_int_equal(3, fake_s3_count(store.fake, FAKE_PUT));
    store_close(&store);
}

/* ---- failures that last */

TEST(a_store_that_stays_down_is_told)
{
    struct store store;
    struct coxi_s3 *s3 = NULL;
    store_open(&store);
    fake_s3_fault(store.fake, FAKE_PUT, -1, FAKE_SLOW_DOWN);
    assert_code(COX_EIO, put_text(&store, "a", "1", COXI_S3_ALWAYS, NULL, NULL));
    assert_error_names("503 (SlowDown)");
    assert_int_equal(5, fake_s3_count(store.fake, FAKE_PUT));
    assert_int_equal(
        0, setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1", 1)); /* NOLINT */
    assert_code(0, coxi_s3_open("s3://bucket", &s3));
    coxi_s3_limit(s3, &(struct coxi_s3_limits){2000, 10, 20000, 3, 1});
    assert_code(COX_EIO, coxi_s3_remove(s3, "a"));
    assert_error_names("in 3 tries");
    coxi_s3_close(s3);
    store_close(&store);
}

TEST(what_is_denied_is_not_repeated)
{
    struct store store;
    store_open(&store);
    fake_s3_fault(store.fake, FAKE_PUT, -1, FAKE_DENY);
    assert_code(COX_EDENIED, put_text(&store, "a", "1", COXI_S3_ALWAYS, NULL, NULL));
    assert_error_names("s3:PutObject");
    assert_int_equal(1, fake_s3_count(store.fake, FAKE_PUT));
    store_close(&store);
}

TEST(redirects_are_not_followed)
{
    struct store store;
    store_open(&store);
    fake_s3_fault(store.fake, FAKE_OPS, -1, FAKE_MOVED);
    assert_code(COX_EINVAL, put_text(&store, "a", "1", COXI_S3_ALWAYS, NULL, NULL));
    assert_error_names("AWS_REGION");
    store_close(&store);
}

TEST(a_missing_bucket_is_told)
{
    struct store store;
    struct coxi_s3 *s3 = NULL;
    uint8_t *bytes = NULL;
    size_t len = 0;
    store_open(&store);
    assert_code(0, coxi_s3_open("s3://none/prefix", &s3));
    assert_code(COX_EINVAL, coxi_s3_read(s3, "a", 10, &bytes, &len, NULL));
    assert_error_names("NoSuchBucket");
    coxi_s3_close(s3);
    store_close(&store);
}

TEST(no_request_lasts_longer_than_its_deadline)
{
    struct store store;
    store_open(&store);
    coxi_s3_limit(store.s3, &(struct coxi_s3_limits){5000, 20, 300, 5, 2});
    fake_s3_fault(store.fake, FAKE_PUT, -1, FAKE_HOLD);
    assert_code(COX_ETIMEDOUT, put_text(&store, "a", "1", COXI_S3_ALWAYS, NULL, NULL));
    store_close(&store);
}

/* ---- giving up */

struct writer {
    pthread_t thread;
    struct store *store;
    atomic_bool gives_up;
    int code;
};

static void *write_while_held(void *arg)
{
    struct writer *writer = arg;
    coxi_disk_give_up_when(&writer->gives_up);
    writer->code = put_text(writer->store, "a", "1", COXI_S3_ALWAYS, NULL, NULL);
    coxi_disk_give_up_when(NULL);
    return NULL;
}

TEST(a_call_under_way_can_be_cancelled)
{
    struct store store;
    struct writer writer = {.store = &store};
    store_open(&store);
    fake_s3_fault(store.fake, FAKE_PUT, -1, FAKE_HOLD);
    assert_code(0,
                coxi_thread_start(&writer.thread, "write", write_while_held, &writer));
    fake_s3_await_held(store.fake);
    coxi_s3_cancel(store.s3);
    assert_int_equal(0, pthread_join(writer.thread, NULL));
    assert_int_equal(COX_ECANCELLED, writer.code);
    store_close(&store);
}

TEST(a_thread_that_gives_up_the_disk_gives_up_the_store)
{
    struct store store;
    struct writer writer = {.store = &store};
    store_open(&store);
    fake_s3_fault(store.fake, FAKE_PUT, -1, FAKE_HOLD);
    assert_code(0,
                coxi_thread_start(&writer.thread, "write", write_while_held, &writer));
    fake_s3_await_held(store.fake);
    atomic_store(&writer.gives_up, true);
    assert_int_equal(0, pthread_join(writer.thread, NULL));
    assert_int_equal(COX_ECANCELLED, writer.code);
    store_close(&store);
}

static void *upload_while_held(void *arg)
{
    struct writer *writer = arg;
    coxi_disk_give_up_when(&writer->gives_up);
    writer->code = upload(writer->store, "shard");
    coxi_disk_give_up_when(NULL);
    return NULL;
}

TEST(an_upload_under_way_can_be_given_up)
{
    struct store store;
    struct writer writer = {.store = &store};
    store_open(&store);
    fake_s3_fault(store.fake, FAKE_PART, -1, FAKE_HOLD);
    assert_code(0,
                coxi_thread_start(&writer.thread, "write", upload_while_held, &writer));
    fake_s3_await_held(store.fake);
    atomic_store(&writer.gives_up, true);
    assert_int_equal(0, pthread_join(writer.thread, NULL));
    assert_int_equal(COX_ECANCELLED, writer.code);
    assert_int_equal(0, fake_s3_objects(store.fake));
    store_close(&store);
}

/* ---- uploads that fail */

static void fail_upload(enum fake_op op, enum fake_fault fault, int code)
{
    struct store store;
    store_open(&store);
    fake_s3_fault(store.fake, op, -1, fault);
    assert_code(code, upload(&store, "shard"));
    assert_error_names("shard");
    assert_int_equal(0, fake_s3_objects(store.fake));
    assert_int_equal(0, fake_s3_uploads(store.fake));
    store_close(&store);
}

TEST(an_upload_that_fails_leaves_nothing)
{
    fail_upload(FAKE_BEGIN, FAKE_500, COX_EIO);
    fail_upload(FAKE_PART, FAKE_500, COX_EIO);
    fail_upload(FAKE_PART, FAKE_DENY, COX_EDENIED);
    fail_upload(FAKE_END, FAKE_LATE_ERROR, COX_EIO);
    fail_upload(FAKE_END, FAKE_DENY, COX_EDENIED);
}

TEST(an_upload_does_not_touch_the_older_object_until_its_end)
{
    struct store store;
    store_open(&store);
    assert_code(0, put_text(&store, "shard", "old", COXI_S3_ALWAYS, NULL, NULL));
    fake_s3_fault(store.fake, FAKE_END, -1, FAKE_500);
    assert_code(COX_EIO, upload(&store, "shard"));
    expect_content(&store, "shard", "old", 3);
    store_close(&store);
}

TEST(a_writer_at_too_many_places_is_told)
{
    struct store store;
    struct coxi_file_sink sink;
    int r = 0;
    store_open(&store);
    assert_code(0, coxi_s3_upload(store.s3, "a", (uint64_t)1 << 38, &sink));
    for (uint64_t i = 0; r == 0 && i <= COXI_S3_OPEN_PARTS; i++) {
        r = sink.write(sink.arg, i << 30, "x", 1);
    }
    assert_int_equal(COX_ELIMIT, r);
    sink.abandon(sink.arg);
    store_close(&store);
}

/* ---- answers that are wrong */

TEST(lists_that_are_malformed_are_refused)
{
    struct store store;
    int n = 0;
    store_open(&store);
    fake_s3_fault(store.fake, FAKE_LIST, 1, FAKE_GARBAGE);
    assert_code(COX_EFORMAT, coxi_s3_list(store.s3, "", count, &n));
    assert_error_names("document type");
    assert_int_equal(0, n);
    store_close(&store);
}

TEST(lists_that_do_not_get_on_are_refused)
{
    struct store store;
    int n = 0;
    store_open(&store);
    for (char key[] = "a"; key[0] < 'e'; key[0]++) {
        assert_code(0, put_text(&store, key, "1", COXI_S3_ALWAYS, NULL, NULL));
    }
    fake_s3_page(store.fake, 2);
    fake_s3_repeat_pages(store.fake);
    assert_code(COX_EFORMAT, coxi_s3_list(store.s3, "", count, &n));
    assert_error_names("not sorted");
    assert_int_equal(2, n);
    store_close(&store);
}

TEST(an_upload_without_an_id_fails)
{
    struct store store;
    store_open(&store);
    fake_s3_fault(store.fake, FAKE_BEGIN, 1, FAKE_GARBAGE);
    assert_code(COX_EFORMAT, upload(&store, "shard"));
    assert_error_names("has no id");
    store_close(&store);
}

static void *read_slowly(void *arg)
{
    struct writer *writer = arg;
    uint8_t *to = malloc(MIB);
    writer->code = coxi_s3_get(writer->store->s3, "a", NULL, 0, to, MIB);
    free(to);
    return NULL;
}

TEST(an_object_that_changes_while_it_is_read_is_told)
{
    struct store store;
    struct writer reader = {.store = &store};
    char path[128];
    store_open(&store);
    (void)snprintf(path, sizeof(path), "%s/a", store.prefix);
    assert_code(0,
                coxi_s3_put(store.s3, "a", content(), MIB, COXI_S3_ALWAYS, NULL, NULL));
    fake_s3_fault(store.fake, FAKE_GET, 1, FAKE_HALF);
    fake_s3_fault(store.fake, FAKE_GET, 1, FAKE_HOLD);
    assert_code(0, coxi_thread_start(&reader.thread, "read", read_slowly, &reader));
    fake_s3_await_held(store.fake);
    fake_s3_put(store.fake, path, content() + 1, MIB);
    fake_s3_release(store.fake);
    assert_int_equal(0, pthread_join(reader.thread, NULL));
    assert_int_equal(COX_ECONFLICT, reader.code);
    store_close(&store);
}
