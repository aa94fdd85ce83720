/* What is told of requests to S3 that fail: the cause, the endpoint, and what to do. */
#include <stdio.h>

#include "common/clock.h"
#include "common/disk.h"
#include "tests/objects/store.h"
#include "tests/test.h"

static int put_text(struct store *store)
{
    return coxi_s3_put(store->s3, "a", "1", 1, COXI_S3_ALWAYS, NULL, NULL);
}

static int count(void *arg, const struct coxi_s3_object *object)
{
    (void)object;
    ++*(int *)arg;
    return 0;
}

/* Begins an upload of two parts. */
static int upload(struct store *store)
{
    enum { PART = 9 << 20 };
    struct coxi_file_sink sink;
    uint8_t *bytes = store_bytes(PART);
    assert_code(0, coxi_s3_upload(store->s3, "a", (uint64_t)2 * PART, &sink));
    int r = sink.write(sink.arg, 0, bytes, PART);
    sink.abandon(sink.arg);
    free(bytes);
    return r;
}

/* ---- the end of tries */

/* A client whose tries end with its time, or with the thread's. */
static struct coxi_s3 *open_at(const char *endpoint, int call_ms)
{
    struct coxi_s3 *s3 = NULL;
    assert_int_equal(0, setenv("AWS_ENDPOINT_URL_S3", endpoint, 1)); /* NOLINT */
    assert_code(0, coxi_s3_open("s3://bucket/x", &s3));
    coxi_s3_limit(s3, &(struct coxi_s3_limits){5000, 10, call_ms, 0, 1});
    return s3;
}

TEST(time_ends_the_tries_and_not_their_number)
{
    enum { FAILURES = 10, CALL_MS = 700 };
    struct store store;
    store_open(&store);
    coxi_s3_limit(store.s3, &(struct coxi_s3_limits){5000, 20, 50000, 0, 1});
    fake_s3_fault(store.fake, FAKE_PUT, FAILURES, FAKE_SLOW_DOWN);
    assert_code(0, put_text(&store));
    assert_int_equal(FAILURES + 1, fake_s3_count(store.fake, FAKE_PUT));
    fake_s3_fault(store.fake, FAKE_PUT, -1, FAKE_SLOW_DOWN);
    coxi_s3_limit(store.s3, &(struct coxi_s3_limits){5000, 20, CALL_MS, 0, 1});
    assert_code(COX_ETIMEDOUT, put_text(&store));
    assert_error_names("503 (SlowDown), in ");
    struct coxi_s3 *s3 = open_at("http://127.0.0.1:1", CALL_MS);
    uint64_t begun_ms = coxi_now_ms();
    assert_code(COX_ETIMEDOUT, coxi_s3_remove(s3, "a"));
    assert_in_range(coxi_now_ms() - begun_ms, CALL_MS / 4, CALL_MS + 3000);
    assert_error_names("(http://127.0.0.1:1), in ");
    coxi_s3_close(s3);
    store_close(&store);
}

TEST(programs_whose_user_waits_limit_the_tries)
{
    struct store store;
    struct coxi_s3 *s3 = NULL;
    store_open(&store);
    coxi_s3_limit_tries(2);
    assert_code(0, coxi_s3_open("s3://bucket/x", &s3));
    coxi_s3_limit_tries(0);
    fake_s3_fault(store.fake, FAKE_DELETE, -1, FAKE_500);
    assert_code(COX_EIO, coxi_s3_remove(s3, "a"));
    assert_int_equal(2, fake_s3_count(store.fake, FAKE_DELETE));
    coxi_s3_close(s3);
    store_close(&store);
}

/* Writes to the endpoint; the text has these. */
static void expect_cause(const char *endpoint, const char *part, const char *other)
{
    struct coxi_s3 *s3 = open_at(endpoint, 60000);
    coxi_s3_limit(s3, &(struct coxi_s3_limits){5000, 10, 60000, 2, 1});
    assert_code(COX_EIO, coxi_s3_put(s3, "a", "1", 1, COXI_S3_ALWAYS, NULL, NULL));
    assert_error_names("cannot write s3://bucket/x/a: ");
    assert_error_names(", in 2 tries, ");
    assert_error_names(part);
    assert_error_names(other);
    coxi_s3_close(s3);
}

/* A label is too long for any name server to be asked. */
#define TEN     "a123456789"
#define UNKNOWN TEN TEN TEN TEN TEN TEN TEN ".invalid"

TEST(an_endpoint_that_cannot_be_used_is_named)
{
    struct store store;
    char sealed[64] = "https";
    store_open(&store);
    const char *plain = getenv("AWS_ENDPOINT_URL_S3"); /* NOLINT */
    if (plain != NULL) {
        (void)snprintf(sealed, sizeof(sealed), "https%s", plain + strlen("http"));
    }
    expect_cause("http://127.0.0.1:1", "Couldn't connect", " (http://127.0.0.1:1)");
    expect_cause("http://user:hidden@127.0.0.1:1/path", "Couldn't connect",
                 " (http://127.0.0.1:1)");
    assert_null(strstr(coxi_test_error(), "hidden"));
    expect_cause("http://" UNKNOWN, " resolve host", " (http://" UNKNOWN ")");
    expect_cause(sealed, sealed, "does it speak https?");
    store_close(&store);
}

/* A thread gives up a write to the endpoint at that time; the text has these. */
static void expect_given_up(struct coxi_s3 *s3, int after_ms, const char *part)
{
    coxi_disk_give_up_at(coxi_now_ms() + (uint64_t)after_ms);
    assert_code(COX_ECANCELLED,
                coxi_s3_put(s3, "a", "1", 1, COXI_S3_ALWAYS, NULL, NULL));
    coxi_disk_give_up_at(UINT64_MAX);
    assert_error_names(": it was given up after ");
    assert_error_names(part);
}

TEST(what_is_given_up_names_the_endpoint_and_the_cause)
{
    struct store store;
    store_open(&store);
    fake_s3_fault(store.fake, FAKE_PUT, -1, FAKE_HOLD);
    expect_given_up(store.s3, 400, " ms, 1 try: no answer from http://127.0.0.1:");
    fake_s3_heal(store.fake);
    fake_s3_release(store.fake);
    coxi_s3_limit(store.s3, &(struct coxi_s3_limits){5000, 20, 50000, 0, 1});
    fake_s3_fault(store.fake, FAKE_PUT, -1, FAKE_SLOW_DOWN);
    expect_given_up(store.s3, 1000, " tries: HTTP status 503 (SlowDown)");
    store_close(&store);
    struct coxi_s3 *s3 = open_at("http://127.0.0.1:1", 60000);
    expect_given_up(s3, 1000, "Couldn't connect to server (http://127.0.0.1:1)");
    coxi_s3_close(s3);
}

/* ---- answers */

/* All requests of that kind are denied; what is told names the permission. */
static void expect_permission(struct store *store, enum fake_op op,
                              const char *permission)
{
    char wanted[96];
    uint64_t bytes = 0;
    int n = 0;
    fake_s3_fault(store->fake, op, -1, FAKE_DENY);
    int r = op == FAKE_GET      ? coxi_s3_get(store->s3, "a", NULL, 0, &n, 1)
            : op == FAKE_HEAD   ? coxi_s3_head(store->s3, "a", &bytes, NULL)
            : op == FAKE_PUT    ? put_text(store)
            : op == FAKE_DELETE ? coxi_s3_remove(store->s3, "a")
            : op == FAKE_LIST   ? coxi_s3_list(store->s3, "", count, &n)
            : op == FAKE_BEGIN  ? upload(store)
            : op == FAKE_ABORT  ? coxi_s3_may_abort(store->s3, "a")
                                : coxi_s3_drop_uploads(store->s3, "");
    assert_code(COX_EDENIED, r);
    (void)snprintf(wanted, sizeof(wanted), ": the credentials lack the permission %s",
                   permission);
    assert_error_names(wanted);
    fake_s3_heal(store->fake);
}

TEST(the_permission_that_lacks_is_named)
{
    struct store store;
    store_open(&store);
    expect_permission(&store, FAKE_GET, "s3:GetObject");
    expect_permission(&store, FAKE_HEAD, "s3:GetObject");
    expect_permission(&store, FAKE_PUT, "s3:PutObject");
    expect_permission(&store, FAKE_BEGIN, "s3:PutObject");
    expect_permission(&store, FAKE_DELETE, "s3:DeleteObject");
    expect_permission(&store, FAKE_LIST, "s3:ListBucket");
    expect_permission(&store, FAKE_UPLOADS, "s3:ListBucketMultipartUploads");
    expect_permission(&store, FAKE_ABORT, "s3:AbortMultipartUpload");
    assert_code(0, coxi_s3_may_abort(store.s3, "a"));
    fake_s3_fault(store.fake, FAKE_ABORT, -1, FAKE_UNKNOWN);
    assert_code(0, coxi_s3_may_abort(store.s3, "a"));
    store_close(&store);
}

TEST(a_404_of_something_else_is_no_missing_object)
{
    struct store store;
    uint8_t *bytes = NULL;
    size_t len = 0;
    store_open(&store);
    assert_code(COX_ENOENT, coxi_s3_read(store.s3, "a", 10, &bytes, &len, NULL));
    fake_s3_fault(store.fake, FAKE_OPS, -1, FAKE_NO_USER);
    assert_code(COX_EIO, coxi_s3_read(store.s3, "a", 10, &bytes, &len, NULL));
    assert_error_names("404 (XAdminUserNotFound)");
    assert_code(COX_EIO, coxi_s3_remove(store.s3, "a"));
    store_close(&store);
}
