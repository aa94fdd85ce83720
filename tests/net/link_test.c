/* Links between two correct ends: frames arrive whole, and once. */
#include "net/link.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/rand.h"
#include "common/sync.h"
#include "tests/net/ends.h"
#include "tests/test.h"

enum { MB = 1024 * 1024, WAIT_MS = 8000 };

/* Bytes that differ with the place and with `seed`. */
static uint8_t *pattern(size_t len, uint64_t seed)
{
    uint8_t *bytes = malloc(len + 8);
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i += 8) {
        uint64_t value = coxi_rand(&seed);
        memcpy(bytes + i, &value, 8);
    }
    return bytes;
}

/* ---- small frames */

struct small {
    uint64_t sender;
    uint64_t number;
};

static void send_small(struct end *end, uint64_t sender, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        struct small meta = {sender, i};
        /* Different lengths: 16 bytes and up to 7 more. */
        uint8_t bytes[sizeof(meta) + 8] = {0};
        memcpy(bytes, &meta, sizeof(meta));
        if (end_send(end, bytes, sizeof(meta) + i % 8, NULL, 0) != 0) {
            return; /* then frames are missing at the other end, and the test fails */
        }
    }
}

static void check_order(struct pair *pair)
{
    enum { N = 3000 };
    send_small(&pair->near, 7, N);
    send_small(&pair->far, 8, N);
    end_wait_frames(&pair->far, N);
    end_wait_frames(&pair->near, N);
    for (size_t i = 0; i < N; i++) {
        const struct end_frame *frame = &pair->far.frames[i];
        struct small meta;
        assert_int_equal(sizeof(meta) + i % 8, frame->meta_len);
        assert_int_equal(0, frame->payload_len);
        memcpy(&meta, frame->meta, sizeof(meta));
        assert_int_equal(7, meta.sender);
        assert_int_equal(i, meta.number);
        memcpy(&meta, pair->near.frames[i].meta, sizeof(meta));
        assert_int_equal(8, meta.sender);
        assert_int_equal(i, meta.number);
    }
}

TEST(link_delivers_small_frames_in_order_both_ways)
{
    for_each_link(check_order);
}

enum { SENDERS = 4, EACH = 1000 };

struct sender {
    struct end *end;
    uint64_t number;
    pthread_t thread;
};

static void *send_many(void *arg)
{
    struct sender *sender = arg;
    send_small(sender->end, sender->number, EACH);
    return NULL;
}

static void check_senders(struct pair *pair)
{
    struct sender senders[SENDERS];
    uint64_t next[SENDERS] = {0};
    for (uint64_t i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){.end = &pair->near, .number = i};
        assert_code(0, coxi_thread_start(&senders[i].thread, "test:sender", send_many,
                                         &senders[i]));
    }
    for (int i = 0; i < SENDERS; i++) {
        assert_int_equal(0, pthread_join(senders[i].thread, NULL));
    }
    end_wait_frames(&pair->far, (size_t)SENDERS * EACH);
    for (size_t i = 0; i < (size_t)SENDERS * EACH; i++) {
        struct small meta;
        memcpy(&meta, pair->far.frames[i].meta, sizeof(meta));
        assert_true(meta.sender < SENDERS);
        assert_int_equal(next[meta.sender]++, meta.number);
    }
}

TEST(link_keeps_the_order_of_each_of_several_sending_threads)
{
    for_each_link(check_senders);
}

/* ---- payloads */

static const size_t sizes[] = {0,     1,     7,     8,      63,     64,
                               4096,  16384, 65535, 65536,  65537,  5 * MB,
                               65472, 1,     MB,    100001, 2 * MB, 3};
enum { N_SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* In three segments, of which the long ones are lent. */
static void send_in_pieces(struct end *end, const void *meta, size_t meta_len,
                           uint8_t *payload, size_t len)
{
    size_t third = len / 3;
    struct iovec segments[] = {{payload, third},
                               {payload + third, third},
                               {payload + 2 * third, len - 2 * third}};
    struct coxi_outgoing frame = {
        .meta = meta, .meta_len = meta_len, .payload = segments, .n_payload = 3};
    assert_code(0, coxi_link_send(end->link, &frame, false));
}

static void assert_frame(const struct end_frame *frame, const char *meta,
                         const uint8_t *payload, size_t len)
{
    assert_int_equal(strlen(meta), frame->meta_len);
    assert_memory_equal(meta, frame->meta, frame->meta_len);
    assert_int_equal(len, frame->payload_len);
    assert_memory_equal(payload, frame->payload, len > 0 ? len : 1);
    if (len > 0) {
        assert_int_equal(0, (uintptr_t)frame->came_at % 8);
    }
    if (len > (size_t)64 * 1024) { /* longer than the receive buffer ever is */
        assert_int_equal(0, (uintptr_t)frame->came_at % 64);
    }
}

static void check_sizes(struct pair *pair)
{
    uint8_t *payloads[N_SIZES];
    for (size_t i = 0; i < N_SIZES; i++) {
        payloads[i] = pattern(sizes[i], i);
        send_in_pieces(&pair->near, "in pieces", 9, payloads[i], sizes[i]);
        assert_code(0, end_send(&pair->near, "whole!", 6, payloads[i], sizes[i]));
    }
    end_wait_frames(&pair->far, (size_t)2 * N_SIZES);
    for (size_t i = 0; i < N_SIZES; i++) {
        struct end_frame *frame = &pair->far.frames[2 * i];
        payloads[i][sizes[i]] = frame->payload[sizes[i] > 0 ? sizes[i] - 1 : 0];
        if (sizes[i] == 0) {
            payloads[i][0] = frame->payload[0] = frame[1].payload[0] = 0;
        }
        assert_frame(frame, "in pieces", payloads[i], sizes[i]);
        assert_frame(frame + 1, "whole!", payloads[i], sizes[i]);
    }
    /* lent memory must not be sent any more */
    coxi_link_close(pair->near.link, COX_ECLOSED, "");
    end_wait_closed(&pair->near, COX_ECLOSED);
    for (size_t i = 0; i < N_SIZES; i++) {
        free(payloads[i]);
    }
}

TEST(link_delivers_payloads_of_every_size_whole_and_aligned)
{
    for_each_link(check_sizes);
}

static void check_into(struct pair *pair)
{
    size_t len = MB + 3;
    uint8_t *payload = pattern(len, 5);
    void *into = aligned_alloc(64, coxi_align(len, 64));
    assert_non_null(into);
    coxi_lock(&pair->far.lock);
    pair->far.into = into;
    pair->far.into_len = len;
    coxi_unlock(&pair->far.lock);
    assert_code(0, end_send(&pair->near, "a", 1, payload, len));
    assert_code(0, end_send(&pair->near, "b", 1, payload, len - 1));
    assert_code(0, end_send(&pair->near, "c", 1, payload, 100));
    end_wait_frames(&pair->far, 3);
    assert_ptr_equal(into, pair->far.frames[0].came_at);
    assert_memory_equal(payload, into, len);
    assert_ptr_not_equal(into, pair->far.frames[1].came_at);
    assert_frame(&pair->far.frames[1], "b", payload, len - 1);
    assert_frame(&pair->far.frames[2], "c", payload, 100);
    /* it was called only for the long ones */
    assert_int_equal(2, pair->far.n_on_payload);
    coxi_link_close(pair->near.link, COX_ECLOSED, "");
    coxi_link_close(pair->far.link, COX_ECLOSED, "");
    end_wait_closed(&pair->near, COX_ECLOSED);
    end_wait_closed(&pair->far, COX_ECLOSED);
    free(into);
    free(payload);
}

TEST(link_receives_a_long_payload_where_the_owner_says)
{
    for_each_link(check_into);
}

static void check_long_meta(struct pair *pair)
{
    uint8_t *meta = pattern(3 * MB + 5, 6);
    uint8_t *payload = pattern(200000, 7);
    assert_code(0, end_send(&pair->near, meta, 3 * MB + 5, payload, 200000));
    assert_code(0, end_send(&pair->near, "x", 1, NULL, 0));
    assert_code(0, end_send(&pair->near, meta, 3 * MB, payload, 7));
    end_wait_frames(&pair->far, 3);
    assert_int_equal(3 * MB + 5, pair->far.frames[0].meta_len);
    assert_memory_equal(meta, pair->far.frames[0].meta, 3 * MB + 5);
    assert_memory_equal(payload, pair->far.frames[0].payload, 200000);
    assert_int_equal(3 * MB, pair->far.frames[2].meta_len);
    assert_memory_equal(meta, pair->far.frames[2].meta, 3 * MB);
    assert_memory_equal(payload, pair->far.frames[2].payload, 7);
    coxi_link_close(pair->near.link, COX_ECLOSED, "");
    end_wait_closed(&pair->near, COX_ECLOSED);
    free(meta);
    free(payload);
}

TEST(link_delivers_long_metadata_where_it_is_allowed)
{
    for_each_link(check_long_meta);
}

/* ---- memory that is lent */

struct lent {
    atomic_int n_released;
    int n_released_at_close;
};

static void release(void *arg)
{
    atomic_fetch_add(&((struct lent *)arg)->n_released, 1);
}

static void note_released(struct end *end)
{
    struct lent *lent = end->arg;
    lent->n_released_at_close = atomic_load(&lent->n_released);
}

static int send_lent(struct coxi_link *link, struct lent *lent,
                     const struct iovec *segments, size_t n)
{
    struct coxi_outgoing frame = {"lent", 4, segments, n, release, lent};
    return coxi_link_send(link, &frame, false);
}

static bool all_released(void *arg)
{
    return atomic_load(&((struct lent *)arg)->n_released) == 2;
}

static void check_release(struct pair *pair)
{
    struct lent lent = {0};
    uint8_t *bytes = pattern(2 * MB, 9);
    struct iovec segments[] = {
        {bytes, COXI_LINK_COPY_MAX},
        {bytes, 100},
        {bytes + COXI_LINK_COPY_MAX, 2 * MB - COXI_LINK_COPY_MAX}};
    assert_code(0, send_lent(pair->near.link, &lent, segments, 3));
    assert_code(0, send_lent(pair->near.link, &lent, &segments[1], 1)); /* copied */
    end_wait_frames(&pair->far, 2);
    coxi_test_until(all_released, &lent, "the release of what was sent");
    free(bytes); /* with ASan: nothing reads it after its release */
    end_fini(&pair->near);
    assert_int_equal(2, atomic_load(&lent.n_released));
    end_init(&pair->near);
}

TEST(link_releases_what_was_lent_once_when_it_is_sent)
{
    for_each_link(check_release);
}

/* A link that is closed while memory that was lent to it is being released. */
struct slow_release {
    struct end *end;
    atomic_bool has_ended; /* the release */
    bool had_at_close;
};

static void release_slowly(void *arg)
{
    struct slow_release *slow = arg;
    coxi_link_close(slow->end->link, COX_ECANCELLED, "while it is released");
    for (int i = 0; i < 50 && !end_is_closed(slow->end); i++) {
        (void)poll(NULL, 0, 2); /* gives on_close time to come too early */
    }
    atomic_store(&slow->has_ended, true);
}

static void note_release_end(struct end *end)
{
    struct slow_release *slow = end->arg;
    slow->had_at_close = atomic_load(&slow->has_ended);
}

static void check_release_before_close(struct pair *pair)
{
    struct slow_release slow = {.end = &pair->near};
    uint8_t *bytes = pattern(COXI_LINK_COPY_MAX, 11);
    struct iovec segment = {bytes, COXI_LINK_COPY_MAX};
    struct coxi_outgoing frame = {"lent", 4, &segment, 1, release_slowly, &slow};
    pair->near.arg = &slow;
    pair->near.on_close = note_release_end;
    assert_code(0, coxi_link_send(pair->near.link, &frame, false));
    end_wait_closed(&pair->near, COX_ECANCELLED);
    assert_true(slow.had_at_close);
    free(bytes);
}

TEST(link_releases_what_was_lent_before_on_close)
{
    for_each_link(check_release_before_close);
}

/* Sends to a peer that does not read, until more than `bytes` stay in line. */
static int fill_line(struct coxi_link *link, struct lent *lent, struct iovec *segment,
                     size_t bytes)
{
    int n = 0;
    while (coxi_link_queued(link) <= bytes) {
        assert_code(0, send_lent(link, lent, segment, 1));
        n++;
    }
    return n;
}

/* A link to a peer that reads nothing, to which more was lent than the kernel takes. */
struct full {
    struct door door;
    int fd; /* the peer's end */
    struct end end;
    struct lent lent;
    uint8_t *bytes;
    struct iovec segment;
    int n; /* segments lent */
};

static void full_open(struct full *full, bool tcp, enum end_mode mode)
{
    *full = (struct full){.bytes = pattern(MB, 10)};
    full->segment = (struct iovec){full->bytes, MB};
    door_open(&full->door, tcp);
    full->fd = raw_connect(full->door.url);
    end_init(&full->end);
    full->end.arg = &full->lent;
    full->end.on_close = note_released;
    end_start(&full->end, door_wait(&full->door), mode);
    full->n = fill_line(full->end.link, &full->lent, &full->segment, (size_t)8 * MB);
}

static void release_when_closed_in_the_middle(bool tcp, enum end_mode mode)
{
    struct full full;
    full_open(&full, tcp, mode);
    assert_true(atomic_load(&full.lent.n_released) < full.n);
    coxi_link_close(full.end.link, COX_ECANCELLED, "in the middle");
    end_wait_closed(&full.end, COX_ECANCELLED);
    assert_int_equal(full.n, full.lent.n_released_at_close);
    free(full.bytes);
    assert_code(COX_ECLOSED, send_lent(full.end.link, &full.lent, &full.segment, 1));
    assert_int_equal(full.n + 1, atomic_load(&full.lent.n_released));
    assert_int_equal(0, coxi_link_queued(full.end.link));
    end_fini(&full.end);
    assert_int_equal(full.n + 1, atomic_load(&full.lent.n_released));
    (void)close(full.fd);
    door_close(&full.door);
}

TEST(link_releases_what_was_lent_once_when_closed_in_the_middle)
{
    for (int round = 0; round < 5; round++) {
        release_when_closed_in_the_middle(true, END_RUN);
        release_when_closed_in_the_middle(true, END_START);
        release_when_closed_in_the_middle(false, END_RUN);
        release_when_closed_in_the_middle(false, END_START);
    }
}

static void release_when_the_peer_goes(bool tcp, enum end_mode mode)
{
    struct full full;
    full_open(&full, tcp, mode);
    (void)close(full.fd);
    end_wait_closed(&full.end, COX_ECLOSED);
    assert_int_equal(full.n, full.lent.n_released_at_close);
    end_fini(&full.end);
    assert_int_equal(full.n, atomic_load(&full.lent.n_released));
    free(full.bytes);
    door_close(&full.door);
}

TEST(link_releases_what_was_lent_once_when_the_peer_goes)
{
    for (int round = 0; round < 5; round++) {
        release_when_the_peer_goes(true, END_RUN);
        release_when_the_peer_goes(true, END_START);
        release_when_the_peer_goes(false, END_RUN);
        release_when_the_peer_goes(false, END_START);
    }
}
