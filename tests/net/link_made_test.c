/* Payloads that are made while they are sent. */
#include <pthread.h>
#include <string.h>

#include "common/error.h"
#include "common/sync.h"
#include "net/link.h"
#include "tests/net/ends.h"
#include "tests/test.h"

enum { LONG = 5 * 1024 * 1024 + 3 };

/* Bytes that differ with their place. */
static uint8_t byte_at(size_t at)
{
    return (uint8_t)(at * 2654435761u >> 16);
}

static const char long_meta[10000] = "made";

struct maker {
    size_t meta_len; /* how many bytes of long_meta to send; 0: the first 4 */
    size_t at;
    size_t len;
    /* from this byte on it fails with COX_EIO; 0: never */
    size_t fails_at;
    void (*before)(struct maker *); /* called before each piece */
    struct coxi_link *link;
    size_t n_calls;
    pthread_t thread;
    int code;
};

static int make(void *arg, void *to, size_t room, size_t *ret_len)
{
    struct maker *maker = arg;
    size_t left = maker->len - maker->at;
    /* Does not always fill the room. */
    size_t n = room - maker->n_calls++ % 3 * 1000;
    n = n < left ? n : left;
    assert_true(room >= COXI_LINK_MADE_ROOM);
    if (maker->before != NULL) {
        maker->before(maker);
    }
    if (maker->fails_at > 0 && maker->at >= maker->fails_at) {
        return coxi_error(COX_EIO, "it cannot be made");
    }
    for (size_t i = 0; i < n; i++) {
        ((uint8_t *)to)[i] = byte_at(maker->at + i);
    }
    maker->at += n;
    *ret_len = n;
    return 0;
}

static int send_made(struct maker *maker)
{
    struct coxi_made frame = {.meta = long_meta,
                              .meta_len = maker->meta_len > 0 ? maker->meta_len : 4,
                              .payload_len = maker->len,
                              .make = make,
                              .arg = maker};
    return coxi_link_send_made(maker->link, &frame);
}

static void assert_made(const struct end_frame *frame, size_t len)
{
    assert_memory_equal(long_meta, frame->meta, frame->meta_len);
    assert_int_equal(len, frame->payload_len);
    for (size_t i = 0; i < len; i++) {
        if (frame->payload[i] != byte_at(i)) {
            fail_msg("byte %zu of %zu is wrong", i, len);
        }
    }
}

static void check_whole(struct pair *pair)
{
    static const size_t lens[] = {1, 8, 65536, 65537, LONG, 0, LONG, 300000};
    enum { N = sizeof(lens) / sizeof(*lens) };
    for (size_t i = 0; i < N; i++) {
        struct maker maker = {.link = pair->near.link, .len = lens[i]};
        assert_code(0, send_made(&maker));
        assert_int_equal(lens[i], maker.at);
        assert_code(0, end_send(&pair->near, "next", 4, NULL, 0));
    }
    end_wait_frames(&pair->far, (size_t)2 * N);
    for (size_t i = 0; i < N; i++) {
        assert_made(&pair->far.frames[2 * i], lens[i]);
        assert_memory_equal("next", pair->far.frames[2 * i + 1].meta, 4);
    }
}

TEST(link_delivers_payloads_that_are_made_while_they_leave)
{
    for_each_link(check_whole);
}

static void check_long_meta(struct pair *pair)
{
    static const size_t lens[] = {500, 4096, 4097, sizeof(long_meta)};
    enum { N = sizeof(lens) / sizeof(*lens) };
    for (size_t i = 0; i < N; i++) {
        struct maker maker = {
            .link = pair->near.link, .meta_len = lens[i], .len = LONG};
        assert_code(0, send_made(&maker));
    }
    end_wait_frames(&pair->far, N);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(lens[i], pair->far.frames[i].meta_len);
        assert_made(&pair->far.frames[i], LONG);
    }
}

TEST(link_delivers_made_payloads_behind_metadata_of_any_length)
{
    for_each_link(check_long_meta);
}

static void answer_made(struct end *end, const struct coxi_frame *frame)
{
    struct maker maker = {
        .link = end->link, .meta_len = *(const uint32_t *)frame->meta, .len = LONG};
    end->on_frame_returns = send_made(&maker);
}

static void check_made_answers(struct pair *pair)
{
    end_handle(&pair->far, answer_made, NULL);
    for (uint32_t len = 4; len <= sizeof(long_meta); len += 4998) {
        assert_code(0, end_send(&pair->near, &len, sizeof(len), NULL, 0));
    }
    end_wait_frames(&pair->near, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_made(&pair->near.frames[i], LONG);
    }
}

TEST(link_makes_payloads_on_the_thread_that_receives)
{
    struct pair pair;
    for (int i = 0; i < 3; i++) {
        if (i < 2) {
            /* making blocks, which nng's threads must not do */
            pair_open(&pair, i == 0, END_RUN);
        } else {
            pair_open_local(&pair);
        }
        check_made_answers(&pair);
        pair_close(&pair);
    }
}

/* ---- frames of other threads meanwhile */

static void send_other(struct maker *maker)
{
    struct iovec segment = {(void *)(uintptr_t)"payload", 7};
    struct coxi_outgoing frame = {
        .meta = "other", .meta_len = 5, .payload = &segment, .n_payload = 1};
    assert_code(0, coxi_link_send(maker->link, &frame, false));
}

static void check_behind(struct pair *pair)
{
    struct maker maker = {.link = pair->near.link, .len = LONG, .before = send_other};
    assert_code(0, send_made(&maker));
    end_wait_frames(&pair->far, 1 + maker.n_calls);
    assert_made(&pair->far.frames[0], LONG);
    for (size_t i = 1; i <= maker.n_calls; i++) {
        assert_memory_equal("other", pair->far.frames[i].meta, 5);
        assert_memory_equal("payload", pair->far.frames[i].payload, 7);
    }
}

TEST(link_sends_what_comes_while_a_payload_is_made_behind_it)
{
    for_each_link(check_behind);
}

static void finish(struct maker *maker)
{
    coxi_link_finish(maker->link, COX_EREFUSED, "enough");
}

static void check_finish(struct pair *pair)
{
    struct maker maker = {.link = pair->near.link, .len = LONG, .before = finish};
    assert_code(0, send_made(&maker));
    end_wait_frames(&pair->far, 1);
    assert_made(&pair->far.frames[0], LONG);
    end_wait_closed(&pair->near, COX_EREFUSED);
}

TEST(link_that_is_told_to_finish_makes_the_rest_of_a_payload_first)
{
    for_each_link(check_finish);
}

/* ---- payloads that cannot be made or sent */

static void check_failure(struct pair *pair)
{
    struct maker maker = {.link = pair->near.link, .len = LONG, .fails_at = LONG / 2};
    assert_code(COX_EIO, send_made(&maker));
    assert_string_equal("it cannot be made", coxi_error_text());
    end_wait_closed(&pair->near, COX_EIO);
    end_wait_closed(&pair->far, COX_ECLOSED);
    assert_int_equal(0, pair->far.n_frames);
    maker = (struct maker){.link = pair->near.link, .len = LONG};
    assert_code(COX_ECLOSED, send_made(&maker));
    assert_int_equal(0, maker.n_calls);
}

TEST(link_closes_when_the_rest_of_a_payload_cannot_be_made)
{
    for_each_link(check_failure);
}

static void *send_in_thread(void *arg)
{
    struct maker *maker = arg;
    maker->code = send_made(maker);
    return NULL;
}

static bool has_a_line(void *arg)
{
    return coxi_link_queued(arg) > 0;
}

static void check_unread(struct half *half)
{
    enum { MUCH = 64 * 1024 * 1024 };
    struct maker maker = {.link = half->end.link, .len = MUCH};
    assert_code(0,
                coxi_thread_start(&maker.thread, "test:maker", send_in_thread, &maker));
    coxi_test_until(has_a_line, half->end.link,
                    "the line of a peer that does not read");
    coxi_link_close(half->end.link, COX_ETIMEDOUT, "it does not read");
    assert_int_equal(0, pthread_join(maker.thread, NULL));
    assert_code(COX_ECLOSED, maker.code);
    /* No more was made than the kernel has room for, and two pieces. */
    assert_true(maker.at < MUCH);
}

TEST(link_makes_no_more_of_a_payload_than_the_peer_takes)
{
    for_each_half(check_unread);
}
