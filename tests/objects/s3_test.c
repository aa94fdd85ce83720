/* Objects in S3, against the fake store or another server (store.h). */
#include "objects/s3.h"

#include <stdio.h>

#include "common/sync.h"
#include "tests/objects/store.h"
#include "tests/test.h"

enum { MIB = 1 << 20 };

/* ---- whole objects */

static void expect_text(struct store *store, const char *key, const char *text)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    assert_code(0, coxi_s3_read(store->s3, key, 1000, &bytes, &len, NULL));
    assert_int_equal(strlen(text), len);
    assert_string_equal(text, (const char *)bytes);
    free(bytes);
}

static int put_text(struct store *store, const char *key, const char *text,
                    enum coxi_s3_when when, const char *etag, char *ret_etag)
{
    return coxi_s3_put(store->s3, key, text, strlen(text), when, etag, ret_etag);
}

TEST(what_is_put_can_be_read)
{
    struct store store;
    char put[COXI_S3_ETAG_MAX];
    char etag[COXI_S3_ETAG_MAX];
    uint64_t bytes = 0;
    store_open(&store);
    assert_code(0, put_text(&store, "a/b", "hello", COXI_S3_ALWAYS, NULL, put));
    expect_text(&store, "a/b", "hello");
    assert_code(0, coxi_s3_head(store.s3, "a/b", &bytes, etag));
    assert_int_equal(5, bytes);
    assert_string_equal(put, etag);
    assert_code(0, put_text(&store, "a/b", "another", COXI_S3_ALWAYS, NULL, NULL));
    expect_text(&store, "a/b", "another");
    store_close(&store);
}

TEST(an_object_may_be_empty)
{
    struct store store;
    struct coxi_file_sink sink;
    uint64_t bytes = 1;
    char nothing = 0;
    store_open(&store);
    assert_code(0, coxi_s3_put(store.s3, "none", NULL, 0, COXI_S3_ALWAYS, NULL, NULL));
    expect_text(&store, "none", "");
    assert_code(0, coxi_s3_get(store.s3, "none", NULL, 0, &nothing, 0));
    assert_code(COX_EFORMAT, coxi_s3_get(store.s3, "none", NULL, 0, &nothing, 1));
    assert_code(0, coxi_s3_upload(store.s3, "none either", 0, &sink));
    assert_code(0, sink.finish(sink.arg));
    assert_code(0, coxi_s3_head(store.s3, "none either", &bytes, NULL));
    assert_int_equal(0, bytes);
    store_close(&store);
}

TEST(keys_may_have_any_letters)
{
    static const char *const keys[] = {"a b+c%20d&e=f?g#h", "sch\xc3\xb6n/*'()!~,;:@$",
                                       "<tag>\"quoted\"&amp;", "back\\slash"};
    struct store store;
    store_open(&store);
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        assert_code(0, put_text(&store, keys[i], keys[i], COXI_S3_ALWAYS, NULL, NULL));
        expect_text(&store, keys[i], keys[i]);
    }
    store_close(&store);
}

TEST(what_is_missing_is_told)
{
    struct store store;
    uint8_t *bytes = NULL;
    size_t len = 7;
    uint64_t size = 7;
    char to = 0;
    store_open(&store);
    assert_code(COX_ENOENT, coxi_s3_read(store.s3, "no", 10, &bytes, &len, NULL));
    assert_error_names("/no");
    assert_null(bytes);
    assert_int_equal(7, len);
    assert_code(COX_ENOENT, coxi_s3_head(store.s3, "no", &size, NULL));
    assert_int_equal(7, size);
    assert_code(COX_ENOENT, coxi_s3_get(store.s3, "no", NULL, 0, &to, 1));
    assert_code(0, coxi_s3_remove(store.s3, "no"));
    store_close(&store);
}

TEST(an_object_that_is_too_long_is_not_read)
{
    struct store store;
    uint8_t *bytes = NULL;
    size_t len = 0;
    store_open(&store);
    assert_code(0, put_text(&store, "a", "12345", COXI_S3_ALWAYS, NULL, NULL));
    assert_code(COX_ELIMIT, coxi_s3_read(store.s3, "a", 4, &bytes, &len, NULL));
    assert_code(0, coxi_s3_read(store.s3, "a", 5, &bytes, &len, NULL));
    free(bytes);
    store_close(&store);
}

TEST(removed_objects_are_gone)
{
    struct store store;
    uint64_t size = 0;
    store_open(&store);
    assert_code(0, put_text(&store, "a", "1", COXI_S3_ALWAYS, NULL, NULL));
    assert_code(0, coxi_s3_remove(store.s3, "a"));
    assert_code(COX_ENOENT, coxi_s3_head(store.s3, "a", &size, NULL));
    store_close(&store);
}

TEST(keys_that_servers_would_change_are_refused)
{
    static const char *const keys[] = {"", "/a", "a/", "a//b", ".", "a/../b", "./a"};
    struct store store;
    char too_long[COXI_S3_KEY_MAX + 1];
    store_open(&store);
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        assert_code(COX_EINVAL,
                    put_text(&store, keys[i], "", COXI_S3_ALWAYS, NULL, NULL));
    }
    memset(too_long, 'a', sizeof(too_long));
    too_long[COXI_S3_KEY_MAX] = '\0';
    assert_code(COX_EINVAL, put_text(&store, too_long, "", COXI_S3_ALWAYS, NULL, NULL));
    store_close(&store);
}

/* ---- conditions */

TEST(only_the_first_put_of_an_absent_object_wins)
{
    struct store store;
    char etag[COXI_S3_ETAG_MAX] = "";
    store_open(&store);
    assert_code(0, put_text(&store, "claim", "me", COXI_S3_IF_ABSENT, NULL, etag));
    assert_true(etag[0] != '\0');
    assert_code(COX_ECONFLICT,
                put_text(&store, "claim", "you", COXI_S3_IF_ABSENT, NULL, NULL));
    expect_text(&store, "claim", "me");
    assert_code(0, coxi_s3_remove(store.s3, "claim"));
    assert_code(0, put_text(&store, "claim", "you", COXI_S3_IF_ABSENT, NULL, NULL));
    store_close(&store);
}

TEST(a_put_with_an_etag_replaces_that_version_only)
{
    struct store store;
    char first[COXI_S3_ETAG_MAX];
    char second[COXI_S3_ETAG_MAX];
    store_open(&store);
    assert_code(0, put_text(&store, "a", "1", COXI_S3_ALWAYS, NULL, first));
    assert_code(0, put_text(&store, "a", "2", COXI_S3_IF_MATCH, first, second));
    assert_code(COX_ECONFLICT,
                put_text(&store, "a", "3", COXI_S3_IF_MATCH, first, NULL));
    expect_text(&store, "a", "2");
    assert_code(0, put_text(&store, "a", "3", COXI_S3_IF_MATCH, second, NULL));
    assert_code(0, coxi_s3_remove(store.s3, "a"));
    assert_code(COX_ECONFLICT,
                put_text(&store, "a", "4", COXI_S3_IF_MATCH, second, NULL));
    store_close(&store);
}

/* ---- parts */

TEST(parts_of_an_object_can_be_read)
{
    enum { LEN = 3 * MIB };
    struct store store;
    char etag[COXI_S3_ETAG_MAX];
    uint8_t *bytes = store_bytes(LEN);
    uint8_t *to = malloc(LEN);
    store_open(&store);
    assert_code(0, coxi_s3_put(store.s3, "a", bytes, LEN, COXI_S3_ALWAYS, NULL, etag));
    assert_code(0, coxi_s3_get(store.s3, "a", NULL, 0, to, LEN));
    assert_memory_equal(bytes, to, LEN);
    assert_code(0, coxi_s3_get(store.s3, "a", etag, 1000001, to, 1500000));
    assert_memory_equal(bytes + 1000001, to, 1500000);
    assert_code(0, coxi_s3_get(store.s3, "a", etag, LEN - 1, to, 1));
    assert_int_equal(bytes[LEN - 1], to[0]);
    assert_code(COX_EFORMAT, coxi_s3_get(store.s3, "a", etag, LEN - 1, to, 2));
    assert_code(COX_EFORMAT, coxi_s3_get(store.s3, "a", etag, LEN, to, 1));
    assert_code(COX_ECONFLICT, coxi_s3_get(store.s3, "a", "\"other\"", 0, to, 1));
    store_close(&store);
    free(bytes);
    free(to);
}

TEST(a_source_reads_one_version)
{
    struct store store;
    struct coxi_file_source source = {0};
    char to[4];
    store_open(&store);
    assert_code(0, put_text(&store, "a", "1234567890", COXI_S3_ALWAYS, NULL, NULL));
    assert_code(COX_EFORMAT, coxi_s3_source(store.s3, "a", 9, &source));
    assert_code(COX_ENOENT, coxi_s3_source(store.s3, "b", 9, &source));
    assert_code(0, coxi_s3_source(store.s3, "a", 10, &source));
    assert_code(0, source.read(source.arg, 3, to, 4));
    assert_memory_equal("4567", to, 4);
    assert_code(0, put_text(&store, "a", "abcdefghij", COXI_S3_ALWAYS, NULL, NULL));
    assert_code(COX_ECONFLICT, source.read(source.arg, 3, to, 4));
    coxi_s3_source_close(&source);
    store_close(&store);
}

struct reader {
    pthread_t thread;
    struct store *store;
    const uint8_t *bytes;
    size_t at;
};

static void *read_pieces(void *arg)
{
    enum { PIECE = 10000, STEP = 77777 };
    const struct reader *reader = arg;
    uint8_t to[PIECE];
    for (size_t at = reader->at; at + PIECE <= MIB; at += STEP) {
        assert_code(0, coxi_s3_get(reader->store->s3, "a", NULL, at, to, PIECE));
        assert_memory_equal(reader->bytes + at, to, PIECE);
    }
    return NULL;
}

TEST(many_threads_read_at_once)
{
    struct store store;
    struct reader readers[12];
    uint8_t *bytes = store_bytes(MIB);
    store_open(&store);
    assert_code(0, coxi_s3_put(store.s3, "a", bytes, MIB, COXI_S3_ALWAYS, NULL, NULL));
    for (size_t i = 0; i < 12; i++) {
        readers[i] = (struct reader){.store = &store, .bytes = bytes, .at = i * 5000};
        assert_code(
            0, coxi_thread_start(&readers[i].thread, "read", read_pieces, &readers[i]));
    }
    for (size_t i = 0; i < 12; i++) {
        assert_int_equal(0, pthread_join(readers[i].thread, NULL));
    }
    store_close(&store);
    free(bytes);
}

/* ---- uploads */

static void expect_content(struct store *store, const char *key, const uint8_t *bytes,
                           size_t len)
{
    uint8_t *got = NULL;
    size_t n = 0;
    assert_code(0, coxi_s3_read(store->s3, key, len + 1, &got, &n, NULL));
    assert_int_equal(len, n);
    assert_memory_equal(bytes, got, len);
    free(got);
}

/* Writes `bytes` as three streams side by side, a piece of each in turn. */
static void write_streams(struct coxi_file_sink *sink, const uint8_t *bytes, size_t len)
{
    enum { STREAMS = 3, PIECE = 300001 };
    size_t third = len / STREAMS;
    for (size_t done = 0; done < third + STREAMS; done += PIECE) {
        for (size_t i = 0; i < STREAMS; i++) {
            size_t end = i + 1 == STREAMS ? len : (i + 1) * third;
            size_t at = i * third + done;
            size_t n = at >= end ? 0 : end - at < PIECE ? end - at : PIECE;
            if (n > 0) {
                assert_code(0, sink->write(sink->arg, at, bytes + at, n));
            }
        }
    }
}

static void upload(size_t len, uint64_t told)
{
    struct store store;
    struct coxi_file_sink sink;
    uint8_t *bytes = store_bytes(len);
    store_open(&store);
    assert_code(0, coxi_s3_upload(store.s3, "dir/shard", told, &sink));
    write_streams(&sink, bytes, len);
    assert_code(0, sink.finish(sink.arg));
    expect_content(&store, "dir/shard", bytes, len);
    if (store.fake != NULL) {
        assert_int_equal(0, fake_s3_uploads(store.fake));
        assert_int_equal(1, fake_s3_objects(store.fake));
    }
    store_close(&store);
    free(bytes);
}

TEST(a_short_object_is_uploaded_at_once)
{
    upload(2 * MIB + 5, 2 * MIB + 5);
}

TEST(a_short_object_of_unknown_length_is_uploaded)
{
    upload(2 * MIB + 5, 0);
}

TEST(a_long_object_is_uploaded_in_parts)
{
    upload(27 * MIB + 5, 27 * MIB + 5);
}

TEST(a_long_object_of_unknown_length_is_uploaded)
{
    upload(27 * MIB + 5, 0);
}

TEST(an_object_of_whole_parts_is_uploaded)
{
    upload(16 * MIB, 16 * MIB);
    upload(16 * MIB, 0);
    upload(8 * MIB, 8 * MIB);
    upload(8 * MIB, 0);
}

TEST(nothing_is_seen_of_an_upload_that_is_abandoned)
{
    enum { LEN = 20 * MIB };
    struct store store;
    struct coxi_file_sink sink;
    uint64_t size = 0;
    uint8_t *bytes = store_bytes(LEN);
    store_open(&store);
    assert_code(0, coxi_s3_upload(store.s3, "a", 2 * LEN, &sink));
    assert_code(0, sink.write(sink.arg, 0, bytes, LEN));
    assert_code(COX_ENOENT, coxi_s3_head(store.s3, "a", &size, NULL));
    sink.abandon(sink.arg);
    assert_code(COX_ENOENT, coxi_s3_head(store.s3, "a", &size, NULL));
    if (store.fake != NULL) {
        assert_int_equal(0, fake_s3_uploads(store.fake));
    }
    store_close(&store);
    free(bytes);
}

TEST(an_upload_that_lacks_bytes_makes_no_object)
{
    struct store store;
    struct coxi_file_sink sink;
    uint64_t size = 0;
    store_open(&store);
    assert_code(0, coxi_s3_upload(store.s3, "a", 10, &sink));
    assert_code(0, sink.write(sink.arg, 0, "12345", 5));
    assert_code(COX_EINVAL, sink.finish(sink.arg));
    assert_code(0, coxi_s3_upload(store.s3, "a", 0, &sink));
    assert_code(0, sink.write(sink.arg, 5, "12345", 5));
    assert_code(COX_EINVAL, sink.finish(sink.arg));
    assert_code(0, coxi_s3_upload(store.s3, "a", 4, &sink));
    assert_code(COX_EINVAL, sink.write(sink.arg, 0, "12345", 5));
    sink.abandon(sink.arg);
    assert_code(COX_ENOENT, coxi_s3_head(store.s3, "a", &size, NULL));
    store_close(&store);
}

/* ---- lists */

struct listed {
    size_t n;
    char keys[64][64];
    uint64_t bytes[64];
    int code;
};

static int note(void *arg, const struct coxi_s3_object *object)
{
    struct listed *listed = arg;
    (void)snprintf(listed->keys[listed->n], 64, "%s", object->key);
    listed->bytes[listed->n++] = object->bytes;
    return listed->code;
}

static void put_some(struct store *store)
{
    static const char *const keys[] = {"a&b/1", "a&b/2", "a&b/3 <x>", "c", "d/e/f"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        assert_code(
            0, coxi_s3_put(store->s3, keys[i], "12345", i, COXI_S3_ALWAYS, NULL, NULL));
    }
}

static void expect_lists(struct store *store)
{
    struct listed all = {0};
    struct listed some = {0};
    struct listed none = {0};
    struct listed first = {.code = 42};
    assert_code(0, coxi_s3_list(store->s3, "", note, &all));
    assert_int_equal(5, all.n);
    assert_string_equal("a&b/1", all.keys[0]);
    assert_string_equal("a&b/3 <x>", all.keys[2]);
    assert_string_equal("d/e/f", all.keys[4]);
    assert_int_equal(4, all.bytes[4]);
    assert_code(0, coxi_s3_list(store->s3, "a&b/", note, &some));
    assert_int_equal(3, some.n);
    assert_code(0, coxi_s3_list(store->s3, "nothing", note, &none));
    assert_int_equal(0, none.n);
    assert_code(42, coxi_s3_list(store->s3, "", note, &first));
    assert_int_equal(1, first.n);
}

TEST(lists_have_all_objects_with_a_prefix)
{
    struct store store;
    store_open(&store);
    put_some(&store);
    expect_lists(&store);
    if (store.fake != NULL) {
        fake_s3_page(store.fake, 2);
        expect_lists(&store);
        fake_s3_page(store.fake, 1);
        expect_lists(&store);
    }
    store_close(&store);
}

TEST(what_killed_writers_have_left_is_dropped)
{
    enum { LEN = 10 * MIB };
    struct store store;
    struct coxi_file_sink sink;
    uint8_t *bytes = store_bytes(LEN);
    store_open(&store);
    assert_code(0, coxi_s3_upload(store.s3, "dir/a", 2 * LEN, &sink));
    assert_code(0, sink.write(sink.arg, 0, bytes, LEN));
    assert_code(0, coxi_s3_drop_uploads(store.s3, "other/"));
    if (store.fake != NULL) {
        assert_int_equal(1, fake_s3_uploads(store.fake));
    }
    assert_code(0, coxi_s3_drop_uploads(store.s3, "dir/"));
    if (store.fake != NULL) {
        assert_int_equal(0, fake_s3_uploads(store.fake));
    }
    sink.abandon(sink.arg);
    store_close(&store);
    free(bytes);
}
