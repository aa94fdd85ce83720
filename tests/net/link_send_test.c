/* The line of a link: frames held back, flushed, bounded, waited for, and closing. */
#include "net/link.h"

#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/error.h"
#include "common/sync.h"
#include "net/message.h"
#include "tests/net/ends.h"
#include "tests/test.h"

#define MB ((size_t)1 << 20)

static int send_later(struct coxi_link *link, const void *meta, size_t len)
{
    struct coxi_outgoing frame = {.meta = meta, .meta_len = len};
    return coxi_link_send(link, &frame, true);
}

static uint8_t long_payload[5 * MB]; /* static, because it is lent to links */

/* Lends the long payload until more than `bytes` stay in line. */
static void fill_line(struct end *end, size_t bytes)
{
    while (coxi_link_queued(end->link) <= bytes) {
        assert_code(0, end_send(end, "long", 4, long_payload, sizeof(long_payload)));
    }
}

/* ---- later, flush */

static void check_later(struct half *half)
{
    size_t len;
    assert_code(0, send_later(half->end.link, "one", 3));
    assert_code(0, send_later(half->end.link, "two", 3));
    assert_int_equal(2 * 24, coxi_link_queued(half->end.link));
    coxi_link_flush(half->end.link);
    char *meta = raw_read_frame(half->fd, &len);
    assert_int_equal(3, len);
    assert_memory_equal("one", meta, len);
    free(meta);
    meta = raw_read_frame(half->fd, &len);
    assert_memory_equal("two", meta, len);
    free(meta);
    assert_code(0, coxi_link_wait_room(half->end.link, 0));
    assert_int_equal(0, coxi_link_queued(half->end.link));
}

TEST(link_holds_later_frames_back_until_the_flush)
{
    for_each_half(check_later);
}

static void answer(struct end *end, const struct coxi_frame *frame)
{
    struct coxi_outgoing outgoing = {.meta = frame->meta, .meta_len = frame->meta_len};
    (void)coxi_link_send(end->link, &outgoing, true);
}

static void check_answers(struct pair *pair)
{
    enum { N = 500 };
    end_handle(&pair->far, answer, NULL);
    for (uint32_t i = 0; i < N; i++) {
        assert_code(0, end_send(&pair->near, &i, sizeof(i), NULL, 0));
    }
    end_wait_frames(&pair->near, N);
    for (uint32_t i = 0; i < N; i++) {
        assert_memory_equal(&i, pair->near.frames[i].meta, sizeof(i));
    }
}

TEST(link_flushes_answers_at_the_end_of_a_batch)
{
    for_each_link(check_answers);
}

static bool batch_is_told(void *arg)
{
    struct end *end = arg;
    coxi_lock(&end->lock);
    bool told = end->batch_end == 3;
    coxi_unlock(&end->lock);
    return told;
}

static void check_batches(struct pair *pair)
{
    for (int i = 0; i < 3; i++) {
        assert_code(0, send_later(pair->near.link, "frame", 5));
    }
    coxi_link_flush(pair->near.link);
    coxi_test_until(batch_is_told, &pair->far, "the end of a batch of three");
    assert_int_equal(3, pair->far.n_frames);
}

TEST(link_tells_the_end_of_each_batch)
{
    for_each_link(check_batches);
}

/* ---- bounds */

enum { HELD_MAX = 4 * MB };

/* The memory that a link holds, and whether it has closed. */
struct held {
    atomic_size_t bytes;
    atomic_bool has_closed;
    size_t at_close;
};

static int take_none(void *arg, struct coxi_link *link, const struct coxi_frame *frame)
{
    (void)arg;
    (void)link;
    (void)frame;
    return 0;
}

static int bound_memory(void *arg, struct coxi_link *link, size_t from, size_t to)
{
    struct held *held = arg;
    (void)link;
    if (to > from && atomic_load(&held->bytes) + to - from > HELD_MAX) {
        return coxi_error(COX_ELIMIT, "that is enough");
    }
    atomic_fetch_add(&held->bytes, to - from);
    return 0;
}

static void note_close(void *arg, struct coxi_link *link, int code, const char *text)
{
    struct held *held = arg;
    (void)link;
    (void)text;
    assert_code(COX_ENOMEM, code);
    held->at_close = atomic_load(&held->bytes);
    atomic_store(&held->has_closed, true);
}

static bool has_closed(void *arg)
{
    struct held *held = arg;
    return atomic_load(&held->has_closed);
}

/* A link whose owner bounds its memory, and whose peer is the socket `fd`. */
static struct coxi_link *bounded(struct door *door, struct held *held, int *fd)
{
    static const struct coxi_link_events events = {
        .on_frame = take_none, .on_close = note_close, .on_memory = bound_memory};
    door_open(door, false);
    *fd = raw_connect(door->url);
    struct coxi_link *link = door_wait(door);
    coxi_link_allow(link, (size_t)16 * MB, 0);
    coxi_link_listen_to(link, &events, held);
    coxi_link_start(link);
    return link;
}

static void bounded_close(struct door *door, struct held *held, int fd,
                          struct coxi_link *link)
{
    coxi_test_until(has_closed, held, "the end of a link that needs too much");
    assert_int_equal(0, held->at_close);
    coxi_link_unref(link);
    (void)close(fd);
    door_close(door);
}

/* The owner hears of the memory that frames in line take, and when they have gone. */
TEST(link_closes_when_frames_in_line_may_take_no_more_memory)
{
    struct held held = {0};
    struct door door;
    int fd;
    struct coxi_link *link = bounded(&door, &held, &fd);
    const struct iovec segment = {long_payload, COXI_LINK_COPY_MAX - 1};
    const struct coxi_outgoing frame = {
        .meta = "x", .meta_len = 1, .payload = &segment, .n_payload = 1};
    for (size_t i = 0; i < 2 * MB / COXI_LINK_COPY_MAX; i++) {
        assert_code(0, coxi_link_send(link, &frame, true));
    }
    assert_true(atomic_load(&held.bytes) >= MB);
    coxi_link_flush(link);
    while (coxi_link_queued(link) > 0) { /* also a moment after the last byte is here */
        (void)recv(fd, (uint8_t[65536]){0}, 65536, MSG_DONTWAIT);
    }
    assert_int_equal(0, atomic_load(&held.bytes));
    int r = 0;
    while (r == 0) {
        r = coxi_link_send(link, &frame, true);
        assert_true(coxi_link_queued(link) < HELD_MAX + MB);
    }
    assert_code(COX_ENOMEM, r);
    bounded_close(&door, &held, fd, link);
}

/* The announcement alone is enough. */
TEST(link_closes_when_a_long_message_may_take_no_more_memory)
{
    struct held held = {0};
    struct door door;
    int fd;
    struct coxi_link *link = bounded(&door, &held, &fd);
    const struct raw_prefix prefix = raw_prefix(5 * MB, 0);
    raw_send(fd, &prefix, sizeof(prefix));
    bounded_close(&door, &held, fd, link);
}

static void count(void *arg)
{
    ++*(int *)arg;
}

TEST(link_refuses_a_frame_of_too_many_segments)
{
    struct half half;
    struct iovec segments[COXI_LINK_SEGMENTS_MAX + 1] = {{long_payload, 8}};
    int n_released = 0;
    struct coxi_outgoing frame = {
        "x", 1, segments, COXI_LINK_SEGMENTS_MAX + 1, count, &n_released};
    half_open(&half, true, END_START);
    assert_code(COX_ELIMIT, coxi_link_send(half.end.link, &frame, false));
    assert_int_equal(1, n_released);
    assert_int_equal(0, coxi_link_queued(half.end.link));
    frame.n_payload = COXI_LINK_SEGMENTS_MAX;
    assert_code(0, coxi_link_send(half.end.link, &frame, false));
    assert_int_equal(2, n_released);
    half_close(&half);
}

TEST(link_says_try_again_when_a_gigabyte_is_in_line)
{
    struct half half;
    int n_released = 0;
    half_open(&half, false, END_RUN);
    fill_line(&half.end, (size_t)1 << 30);
    struct iovec segment = {long_payload, sizeof(long_payload)};
    struct coxi_outgoing frame = {"x", 1, &segment, 1, count, &n_released};
    assert_code(COX_EAGAIN, coxi_link_send(half.end.link, &frame, false));
    assert_int_equal(1, n_released);
    assert_false(coxi_link_closed(half.end.link));
    half_close(&half);
    assert_int_equal(1, n_released);
}

/* Senders may ignore the error, and later messages would build on the missing one. */
TEST(link_is_closed_by_a_message_that_a_full_line_has_no_room_for)
{
    struct half half;
    const struct coxi_message message = {.kind = COXI_LEAVING};
    half_open(&half, false, END_RUN);
    fill_line(&half.end, (size_t)1 << 30);
    assert_code(COX_EAGAIN, coxi_message_send(half.end.link, &message, NULL, false));
    assert_true(coxi_link_closed(half.end.link));
    half_close(&half);
}

/* ---- waiting for room */

struct waiter {
    struct coxi_link *link;
    size_t bytes;
    int code;
    size_t queued;
    pthread_t thread;
};

static void *wait_room(void *arg)
{
    struct waiter *waiter = arg;
    waiter->code = coxi_link_wait_room(waiter->link, waiter->bytes);
    waiter->queued = coxi_link_queued(waiter->link);
    return NULL;
}

static void read_away(struct half *half, size_t len)
{
    static uint8_t bytes[256 * 1024];
    while (len > 0) {
        size_t part = len < sizeof(bytes) ? len : sizeof(bytes);
        raw_read(half->fd, bytes, part);
        len -= part;
    }
}

static void check_room(struct half *half)
{
    struct waiter waiter = {.link = half->end.link, .bytes = 2 * MB};
    fill_line(&half->end, 12 * MB);
    assert_code(0, coxi_link_wait_room(half->end.link, 20 * MB)); /* at once */
    size_t queued = coxi_link_queued(half->end.link);
    assert_code(0,
                coxi_thread_start(&waiter.thread, "test:waiter", wait_room, &waiter));
    read_away(half, queued);
    assert_int_equal(0, pthread_join(waiter.thread, NULL));
    assert_code(0, waiter.code);
    assert_true(waiter.queued <= 2 * MB);
}

TEST(link_waits_until_the_peer_has_made_room)
{
    for_each_half(check_room);
}

static void check_room_closed(struct half *half)
{
    struct waiter waiter = {.link = half->end.link, .bytes = 0};
    fill_line(&half->end, 12 * MB);
    assert_code(0,
                coxi_thread_start(&waiter.thread, "test:waiter", wait_room, &waiter));
    (void)close(half->fd);
    half->fd = -1;
    assert_int_equal(0, pthread_join(waiter.thread, NULL));
    assert_int_equal(COX_ECLOSED, waiter.code);
    end_wait_closed(&half->end, COX_ECLOSED);
}

TEST(link_stops_waiting_for_room_when_the_peer_goes)
{
    for_each_half(check_room_closed);
}

/* ---- closing */

static void check_peer_closes(struct pair *pair)
{
    assert_code(0, end_send(&pair->near, "last", 4, NULL, 0));
    end_wait_frames(&pair->far, 1);
    coxi_link_close(pair->near.link, COX_ECANCELLED, "enough");
    end_wait_closed(&pair->far, COX_ECLOSED);
    end_wait_closed(&pair->near, COX_ECANCELLED);
    assert_string_equal("enough", pair->near.close_text);
    assert_true(strlen(pair->far.close_text) > 0);
    assert_true(coxi_link_closed(pair->far.link));
    assert_code(COX_ECLOSED, end_send(&pair->far, "late", 4, NULL, 0));
    assert_code(COX_ECLOSED, coxi_link_wait_room(pair->far.link, 0));
}

TEST(link_tells_both_ends_of_a_close_once)
{
    for_each_link(check_peer_closes);
}

/* Over ipc the peer can take no more and still not have closed: so it is sending that ends. */
TEST(link_says_in_plain_words_that_it_cannot_send_to_a_peer_that_has_closed)
{
    struct half half;
    half_open(&half, false, END_START);
    assert_int_equal(0, shutdown(half.fd, SHUT_RD));
    (void)end_send(&half.end, "late", 4, NULL, 0);
    end_wait_closed(&half.end, COX_ECLOSED);
    assert_string_equal("connection closed by the peer", half.end.close_text);
    half_close(&half);
}

static void check_first_reason(struct half *half)
{
    coxi_link_close(half->end.link, COX_EBUSY, "the first");
    coxi_link_close(half->end.link, COX_ELIMIT, "the second");
    coxi_link_finish(half->end.link, COX_EINVAL, "the third");
    end_wait_closed(&half->end, COX_EBUSY);
    assert_string_equal("the first", half->end.close_text);
    assert_int_equal(0, raw_wait_closed(half->fd));
}

TEST(link_keeps_the_first_reason_for_closing)
{
    for_each_half(check_first_reason);
}

static void refuse_frame(struct end *end, const struct coxi_frame *frame)
{
    (void)frame;
    end->on_frame_returns = COX_EFORMAT;
}

static void check_handler_code(struct pair *pair)
{
    end_handle(&pair->far, refuse_frame, NULL);
    assert_code(0, end_send(&pair->near, "bad", 3, NULL, 0));
    end_wait_closed(&pair->far, COX_EFORMAT);
    end_wait_closed(&pair->near, COX_ECLOSED);
    assert_int_equal(1, pair->far.n_frames);
}

TEST(link_closes_with_the_code_that_the_owner_returns)
{
    for_each_link(check_handler_code);
}

static void check_finish(struct half *half)
{
    size_t before = 0;
    for (int i = 0; i < 100; i++) {
        assert_code(0, end_send(&half->end, "12345678", 8, NULL, 0));
    }
    fill_line(&half->end, 12 * MB);
    before = coxi_link_queued(half->end.link);
    coxi_link_finish(half->end.link, COX_EREFUSED, "said all");
    assert_true(raw_wait_closed(half->fd) > before);
    end_wait_closed(&half->end, COX_EREFUSED);
    assert_string_equal("said all", half->end.close_text);
}

TEST(link_finishes_what_is_in_line_before_it_closes)
{
    for_each_half(check_finish);
}

static void check_finish_later(struct half *half)
{
    assert_code(0, send_later(half->end.link, "12345678", 8));
    coxi_link_finish(half->end.link, COX_EREFUSED, "said all");
    assert_int_equal(24, raw_wait_closed(half->fd));
    end_wait_closed(&half->end, COX_EREFUSED);
}

TEST(link_finishes_frames_that_nobody_has_flushed)
{
    for_each_half(check_finish_later);
}

static void check_finish_idle(struct half *half)
{
    coxi_link_finish(half->end.link, COX_EREFUSED, "nothing to say");
    assert_int_equal(0, raw_wait_closed(half->fd));
    end_wait_closed(&half->end, COX_EREFUSED);
}

TEST(link_finishes_at_once_with_nothing_in_line)
{
    for_each_half(check_finish_idle);
}

static void finish_in_handler(struct end *end, const struct coxi_frame *frame)
{
    answer(end, frame);
    coxi_link_finish(end->link, COX_EREFUSED, "after this answer");
}

static void check_finish_in_handler(struct pair *pair)
{
    end_handle(&pair->far, finish_in_handler, NULL);
    assert_code(0, end_send(&pair->near, "question", 8, NULL, 0));
    end_wait_closed(&pair->near, COX_ECLOSED);
    assert_int_equal(1, pair->near.n_frames);
    end_wait_closed(&pair->far, COX_EREFUSED);
}

TEST(link_finishes_after_the_answer_of_its_own_handler)
{
    for_each_link(check_finish_in_handler);
}
