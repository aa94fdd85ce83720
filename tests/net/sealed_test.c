/* Sealed links, with somebody in the middle who sees every byte on its way and changes
 * what he likes. He is the test: it passes the handshake on, and then each record. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/buffer.h"
#include "common/clock.h"
#include "common/error.h"
#include "net/link.h"
#include "net/seal.h"
#include "tests/net/ends.h"
#include "tests/test.h"

enum { WAIT_MS = 8000, ALLOWED = 4 << 20, LONG = 1 << 20 };

static const struct coxi_key run_key = {.kind = COXI_KEY_RUN, .secret = {1, 2, 3}};

static struct coxi_guard guard_of(enum coxi_role role, enum coxi_seal seal)
{
    return (struct coxi_guard){.key = run_key,
                               .self = {.role = role, .index = 3, .run = 0x1234},
                               .seal = seal,
                               .rekey_records = 5};
}

/* ---- the man in the middle */

struct dialled {
    struct coxi_mutex lock; /* guards the rest; leaf */
    pthread_cond_t known;
    bool over;
    struct coxi_link *link;
};

struct middle {
    struct door door;
    enum coxi_seal seal;
    struct end near; /* the end that dials ... */
    int near_fd;     /* ... and his connection to it */
    struct end far;
    int far_fd;
};

struct record {
    uint8_t bytes[COXI_SEAL_BODY_MAX + COXI_SEAL_MORE];
    size_t len;
};

static void on_dialled(void *arg, int code, const char *text, struct coxi_link *link)
{
    (void)code;
    (void)text;
    struct dialled *dialled = arg;
    coxi_lock(&dialled->lock);
    dialled->over = true;
    dialled->link = link;
    (void)pthread_cond_signal(&dialled->known);
    coxi_unlock(&dialled->lock);
}

static struct coxi_link *await_dialled(struct dialled *dialled)
{
    struct timespec until = coxi_deadline(WAIT_MS);
    coxi_lock(&dialled->lock);
    while (!dialled->over && coxi_wait_until(&dialled->known, &dialled->lock, &until)) {
    }
    struct coxi_link *link = dialled->link;
    coxi_unlock(&dialled->lock);
    (void)pthread_cond_destroy(&dialled->known);
    coxi_mutex_fini(&dialled->lock);
    assert_non_null(link);
    return link;
}

/* Listens for the dialler; returns the socket and the address to dial. */
static int listen_between(char url[64])
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    socklen_t len = sizeof(in);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(0, bind(fd, (struct sockaddr *)&in, sizeof(in)));
    assert_int_equal(0, listen(fd, 1));
    assert_int_equal(0, getsockname(fd, (struct sockaddr *)&in, &len));
    (void)snprintf(url, 64, "tcp://127.0.0.1:%u", ntohs(in.sin_port));
    return fd;
}

static void pass(int from, int to, size_t len)
{
    uint8_t bytes[COXI_HANDSHAKE_MAX];
    raw_read(from, bytes, len);
    raw_send(to, bytes, len);
}

/* Connects an end to the far one through the middle. */
static void middle_join(struct middle *middle)
{
    const struct coxi_guard client = guard_of(COXI_ROLE_CLIENT, middle->seal);
    struct dialled dialled = {0};
    char url[64];
    int listening = listen_between(url);
    coxi_mutex_init(&dialled.lock);
    coxi_cond_init(&dialled.known);
    assert_code(0,
                coxi_link_connect_start(url, &client, WAIT_MS, on_dialled, &dialled));
    middle->near_fd = raw_accept(listening);
    middle->far_fd = raw_connect(middle->door.url);
    (void)close(listening);
    pass(middle->near_fd, middle->far_fd, COXI_HANDSHAKE_DIAL);
    pass(middle->far_fd, middle->near_fd, COXI_HANDSHAKE_ACCEPT);
    pass(middle->near_fd, middle->far_fd, COXI_HANDSHAKE_PROOF);
    struct coxi_link *near = await_dialled(&dialled);
    struct coxi_link *far = door_wait(&middle->door);
    coxi_link_allow(near, ALLOWED, ALLOWED);
    coxi_link_allow(far, ALLOWED, ALLOWED);
    end_init(&middle->near);
    end_init(&middle->far);
    end_start(&middle->near, near, END_RUN);
    end_start(&middle->far, far, END_START);
}

static void middle_open(struct middle *middle, enum coxi_seal seal)
{
    const struct coxi_guard ps = guard_of(COXI_ROLE_PS, seal);
    middle->seal = seal;
    door_open_guarded(&middle->door, "tcp://127.0.0.1:0", &ps);
    middle_join(middle);
}

static void middle_leave(struct middle *middle)
{
    (void)close(middle->near_fd);
    (void)close(middle->far_fd);
    end_fini(&middle->near);
    end_fini(&middle->far);
}

static void middle_close(struct middle *middle)
{
    middle_leave(middle);
    door_close(&middle->door);
}

/* Takes the next record off a connection. */
static void read_record(int fd, struct record *ret)
{
    size_t len;
    raw_read(fd, ret->bytes, COXI_SEAL_HEAD);
    assert_code(0, coxi_seal_body_len(ret->bytes, &len));
    ret->len = len + COXI_SEAL_MORE;
    raw_read(fd, ret->bytes + COXI_SEAL_HEAD, ret->len - COXI_SEAL_HEAD);
}

static void send_record(int fd, const struct record *record)
{
    raw_send(fd, record->bytes, record->len);
}

/* Has the near end send a frame, and takes its record. */
static void say(struct middle *middle, const char *text, struct record *ret)
{
    assert_code(0, end_send(&middle->near, text, strlen(text), NULL, 0));
    read_record(middle->near_fd, ret);
}

static void assert_heard(const struct end *end, size_t at, const char *text)
{
    assert_int_equal(strlen(text), end->frames[at].meta_len);
    assert_memory_equal(text, end->frames[at].meta, strlen(text));
}

/* Somebody else gets through the same door, and talks. */
static void assert_serves(struct middle *middle)
{
    struct record record;
    middle_leave(middle);
    middle_join(middle);
    say(middle, "another", &record);
    send_record(middle->far_fd, &record);
    end_wait_frames(&middle->far, 1);
    assert_heard(&middle->far, 0, "another");
}

/* The far end has noticed: it is closed after n_frames frames, and has answered
 * nothing. The door serves others: after this, the far end has got one frame of
 * theirs. */
static void assert_noticed(struct middle *middle, size_t n_frames)
{
    end_wait_closed(&middle->far, COX_EDENIED);
    assert_non_null(strstr(middle->far.close_text, "changed bytes on their way"));
    assert_int_equal(n_frames, middle->far.n_frames);
    assert_int_equal(0, raw_wait_closed(middle->far_fd));
    assert_serves(middle);
}

/* Runs an attack on links of both seals. */
static void for_each_seal(void (*attack)(struct middle *middle))
{
    static const enum coxi_seal seals[] = {COXI_SEAL_FULL, COXI_SEAL_MAC};
    for (size_t i = 0; i < sizeof(seals) / sizeof(*seals); i++) {
        struct middle middle;
        middle_open(&middle, seals[i]);
        attack(&middle);
        middle_close(&middle);
    }
}

/* ---- nobody attacks */

/* Also across changes of the key, in both directions. */
static void check_talk(struct middle *middle)
{
    struct record record;
    for (size_t i = 0; i < 12; i++) {
        say(middle, "question", &record);
        send_record(middle->far_fd, &record);
        end_wait_frames(&middle->far, i + 1);
        assert_heard(&middle->far, i, "question");
        assert_code(0, end_send(&middle->far, "answered", 8, NULL, 0));
        read_record(middle->far_fd, &record);
        send_record(middle->near_fd, &record);
        end_wait_frames(&middle->near, i + 1);
        assert_heard(&middle->near, i, "answered");
    }
}

TEST(sealed_frames_come_through)
{
    for_each_seal(check_talk);
}

/* A byte at a time. */
static void check_bytes(struct middle *middle)
{
    struct record record;
    say(middle, "slow", &record);
    for (size_t i = 0; i < record.len; i++) {
        raw_send(middle->far_fd, record.bytes + i, 1);
    }
    end_wait_frames(&middle->far, 1);
    assert_heard(&middle->far, 0, "slow");
}

TEST(a_sealed_frame_comes_through_byte_by_byte)
{
    for_each_seal(check_bytes);
}

static bool shows(const struct record *record, const char *text)
{
    return memmem(record->bytes, record->len, text, strlen(text)) != NULL;
}

static void check_wire(struct middle *middle)
{
    struct record first;
    struct record second;
    bool is_plain = middle->seal == COXI_SEAL_MAC;
    say(middle, "the value of the variable", &first);
    say(middle, "the value of the variable", &second);
    assert_int_equal(is_plain, shows(&first, "value of the variable"));
    assert_int_equal(is_plain, shows(&first, "1COX"));
    assert_int_equal(first.len, second.len);
    assert_memory_not_equal(first.bytes + first.len - COXI_SEAL_TAG,
                            second.bytes + second.len - COXI_SEAL_TAG, COXI_SEAL_TAG);
    if (!is_plain) {
        assert_memory_not_equal(first.bytes + COXI_SEAL_HEAD,
                                second.bytes + COXI_SEAL_HEAD,
                                first.len - COXI_SEAL_MORE);
    }
}

/* Only a full seal hides what is said; and it hides that something is said again. */
TEST(a_listener_on_the_wire_reads_nothing)
{
    for_each_seal(check_wire);
}

static void check_beat(struct middle *middle)
{
    struct coxi_links *links;
    struct record beat;
    struct pollfd fd = {.fd = middle->near_fd, .events = POLLIN};
    uint64_t end_ms = coxi_now_ms() + WAIT_MS;
    assert_code(0, coxi_links_new(400, &links));
    coxi_links_add(links, middle->near.link);
    for (int n = 0; n == 0 && coxi_now_ms() < end_ms;) {
        coxi_links_tick(links);
        n = poll(&fd, 1, 20);
    }
    read_record(middle->near_fd, &beat);
    coxi_links_drop(middle->near.link);
    coxi_links_free(links);
    assert_int_equal(16 + COXI_SEAL_MORE, beat.len);
    assert_int_equal(middle->seal == COXI_SEAL_MAC, shows(&beat, "1COX"));
    beat.bytes[COXI_SEAL_HEAD + 4] ^= 1;
    send_record(middle->far_fd, &beat);
    assert_noticed(middle, 0);
}

TEST(a_changed_heartbeat_is_refused)
{
    for_each_seal(check_beat);
}

/* ---- attacks */

static void check_flips(struct middle *middle)
{
    static const char text[] = "some bytes";
    const size_t len = 16 + 16; /* prefix, metadata, zeros */
    const size_t places[] = {0,
                             COXI_SEAL_HEAD,
                             COXI_SEAL_HEAD + 4,
                             COXI_SEAL_HEAD + 16,
                             COXI_SEAL_HEAD + len - 1,
                             COXI_SEAL_HEAD + len,
                             COXI_SEAL_HEAD + len + COXI_SEAL_TAG - 1};
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        struct record record;
        struct record next;
        say(middle, text, &record);
        assert_int_equal(len + COXI_SEAL_MORE, record.len);
        record.bytes[places[i]] ^= 1;
        send_record(middle->far_fd, &record);
        /* so that all bytes come that a changed length asks for */
        say(middle, "next", &next);
        send_record(middle->far_fd, &next);
        assert_noticed(middle, i > 0 ? 1 : 0);
    }
}

TEST(a_sealed_frame_with_a_flipped_bit_is_refused)
{
    for_each_seal(check_flips);
}

/* In the middle of a long payload, which is received in the owner's memory. */
static void check_long(struct middle *middle)
{
    static uint8_t payload[LONG];
    static uint8_t into[LONG];
    struct record record;
    size_t sum = 0;
    middle->far.into = into;
    middle->far.into_len = sizeof(into);
    assert_code(0, end_send(&middle->near, "long", 4, payload, sizeof(payload)));
    while (sum < sizeof(payload) / 2) {
        read_record(middle->near_fd, &record);
        sum += record.len;
        record.bytes[record.len / 2] ^= sum < sizeof(payload) / 2 ? 0 : 0x80;
        send_record(middle->far_fd, &record);
    }
    assert_noticed(middle, 0);
}

TEST(a_long_sealed_frame_with_a_flipped_bit_is_refused)
{
    for_each_seal(check_long);
}

/* A byte of the body is left out. */
static void check_cut(struct middle *middle)
{
    struct record record;
    struct record next;
    say(middle, "some bytes", &record);
    say(middle, "next", &next);
    memmove(record.bytes + 10, record.bytes + 11, record.len - 11);
    record.len--;
    send_record(middle->far_fd, &record);
    send_record(middle->far_fd, &next);
    assert_noticed(middle, 0);
}

TEST(a_cut_sealed_frame_is_refused)
{
    for_each_seal(check_cut);
}

/* A record is shortened together with its length. */
static void check_shortened(struct middle *middle)
{
    struct record record;
    say(middle, "some bytes", &record);
    record.bytes[0] -= 8;
    record.len -= 8;
    send_record(middle->far_fd, &record);
    assert_noticed(middle, 0);
}

TEST(a_shortened_sealed_frame_is_refused)
{
    for_each_seal(check_shortened);
}

static void check_swap(struct middle *middle)
{
    struct record first;
    struct record second;
    say(middle, "same length 1", &first);
    say(middle, "same length 2", &second);
    send_record(middle->far_fd, &second);
    send_record(middle->far_fd, &first);
    assert_noticed(middle, 0);
}

TEST(swapped_sealed_frames_are_refused)
{
    for_each_seal(check_swap);
}

static void check_replay(struct middle *middle)
{
    struct record record;
    say(middle, "commit", &record);
    send_record(middle->far_fd, &record);
    send_record(middle->far_fd, &record);
    assert_noticed(middle, 1);
}

TEST(a_replayed_sealed_frame_is_refused)
{
    for_each_seal(check_replay);
}

static void check_drop(struct middle *middle)
{
    struct record record;
    say(middle, "first", &record);
    send_record(middle->far_fd, &record);
    say(middle, "dropped", &record);
    say(middle, "third", &record);
    send_record(middle->far_fd, &record);
    assert_noticed(middle, 1);
}

TEST(a_sealed_frame_after_a_dropped_one_is_refused)
{
    for_each_seal(check_drop);
}

/* What an end has said itself comes back to it: its key is that of the other
 * direction. */
static void check_reflection(struct middle *middle)
{
    struct record record;
    assert_code(0, end_send(&middle->far, "echo", 4, NULL, 0));
    read_record(middle->far_fd, &record);
    send_record(middle->far_fd, &record);
    assert_noticed(middle, 0);
}

TEST(a_reflected_sealed_frame_is_refused)
{
    for_each_seal(check_reflection);
}

/* The first record of one connection becomes the first of the next. */
static void check_older(struct middle *middle)
{
    struct record record;
    say(middle, "commit", &record);
    middle_leave(middle);
    middle_join(middle);
    send_record(middle->far_fd, &record);
    assert_noticed(middle, 0);
}

TEST(a_sealed_frame_of_an_older_connection_is_refused)
{
    for_each_seal(check_older);
}

/* Refused at once, before the bytes come that the length announces. */
static void check_lengths(struct middle *middle)
{
    static const uint32_t lens[] = {0, COXI_SEAL_BODY_MAX + 1, 0x80000000, UINT32_MAX};
    for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
        raw_send(middle->far_fd, &lens[i], sizeof(lens[i]));
        assert_noticed(middle, i > 0 ? 1 : 0);
    }
}

TEST(a_forged_length_of_a_sealed_frame_is_refused)
{
    for_each_seal(check_lengths);
}

/* A frame as it is without a seal. */
static void check_unsealed(struct middle *middle)
{
    raw_send_frame(middle->far_fd, "commit", 6);
    assert_noticed(middle, 0);
}

TEST(an_unsealed_frame_on_a_sealed_link_is_refused)
{
    for_each_seal(check_unsealed);
}

/* The end of the stream within a record is a loss like every other; no part of the
 * record is handed out. */
static void check_truncated(struct middle *middle)
{
    struct record record;
    say(middle, "whole", &record);
    send_record(middle->far_fd, &record);
    say(middle, "in part", &record);
    raw_send(middle->far_fd, record.bytes, record.len - 1);
    (void)shutdown(middle->far_fd, SHUT_WR);
    end_wait_closed(&middle->far, COX_ECLOSED);
    assert_int_equal(1, middle->far.n_frames);
    assert_serves(middle);
}

TEST(a_truncated_sealed_frame_is_not_handed_out)
{
    for_each_seal(check_truncated);
}
