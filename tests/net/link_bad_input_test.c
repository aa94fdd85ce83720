/* Peers that break the protocol: the link is closed with COX_EPROTO, and nothing else
 * happens. */
#include <string.h>
#include <unistd.h>

#include "common/buffer.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/rand.h"
#include "net/link.h"
#include "tests/net/ends.h"
#include "tests/test.h"

enum { META_MAX = 1000, PAYLOAD_MAX = 100000 };

/* Only builds with a sanitizer have this function. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static size_t allocated(void)
{
    return __sanitizer_get_current_allocated_bytes != NULL
               ? __sanitizer_get_current_allocated_bytes()
               : 0;
}

/* Asserts that the link is closed with COX_EPROTO, that the peer sees it, and that no
 * frame was delivered. */
static void assert_refused(struct half *half, const char *text_part)
{
    end_wait_closed(&half->end, COX_EPROTO);
    (void)raw_wait_closed(half->fd);
    assert_int_equal(0, half->end.n_frames);
    assert_int_equal(0, half->end.n_on_payload);
    if (strstr(half->end.close_text, text_part) == NULL) {
        fail_msg("'%s' does not say '%s'", half->end.close_text, text_part);
    }
}

static void check_magic(struct half *half)
{
    raw_send(half->fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 35);
    assert_refused(half, "does not speak this protocol");
}

TEST(link_refuses_a_peer_of_another_protocol)
{
    for_each_half(check_magic);
}

static void refuse_prefix(struct half *half, uint32_t meta_len, uint64_t payload_len,
                          const char *text_part)
{
    struct raw_prefix prefix = raw_prefix(meta_len, payload_len);
    coxi_link_allow(half->end.link, META_MAX, PAYLOAD_MAX);
    size_t before = allocated();
    raw_send(half->fd, &prefix, sizeof(prefix));
    assert_refused(half, text_part);
    assert_true(allocated() < before + (size_t)256 * 1024);
}

static void check_meta_len(struct half *half)
{
    refuse_prefix(half, META_MAX + 1, 0, "frame of 1001 + 0 bytes");
}

TEST(link_refuses_a_frame_with_more_metadata_than_allowed)
{
    for_each_half(check_meta_len);
}

static void check_largest_meta_len(struct half *half)
{
    refuse_prefix(half, UINT32_MAX, 8, "1000 + 100000 are allowed");
}

TEST(link_refuses_the_largest_metadata_length)
{
    for_each_half(check_largest_meta_len);
}

static void check_payload_len(struct half *half)
{
    refuse_prefix(half, 8, PAYLOAD_MAX + 1, "frame of 8 + 100001 bytes");
}

TEST(link_refuses_a_frame_with_more_payload_than_allowed)
{
    for_each_half(check_payload_len);
}

static void check_largest_payload_len(struct half *half)
{
    refuse_prefix(half, 8, UINT64_MAX, "are allowed");
}

TEST(link_refuses_the_largest_payload_length)
{
    for_each_half(check_largest_payload_len);
}

static void check_no_meta(struct half *half)
{
    refuse_prefix(half, 0, 64, "a payload and no metadata");
}

TEST(link_refuses_a_payload_without_metadata)
{
    for_each_half(check_no_meta);
}

static void check_unknown_peer(struct half *half)
{
    struct raw_prefix prefix = raw_prefix(COXI_LINK_META_FIRST, 1);
    raw_send(half->fd, &prefix, sizeof(prefix));
    assert_refused(half, "frame of 4096 + 1 bytes");
}

TEST(link_takes_no_payload_before_the_peer_is_known)
{
    for_each_half(check_unknown_peer);
}

/* ---- the limits themselves are allowed, and frames may come in any pieces */

static void check_at_the_limits(struct half *half)
{
    static const uint8_t zeros[PAYLOAD_MAX + 64];
    struct raw_prefix prefix = raw_prefix(META_MAX, PAYLOAD_MAX);
    size_t head = coxi_align(sizeof(prefix) + META_MAX, 64);
    coxi_link_allow(half->end.link, META_MAX, PAYLOAD_MAX);
    raw_send(half->fd, &prefix, sizeof(prefix));
    raw_send(half->fd, zeros, head - sizeof(prefix));
    raw_send(half->fd, zeros, coxi_align(PAYLOAD_MAX, 8));
    end_wait_frames(&half->end, 1);
    assert_int_equal(META_MAX, half->end.frames[0].meta_len);
    assert_int_equal(PAYLOAD_MAX, half->end.frames[0].payload_len);
}

TEST(link_takes_a_frame_at_the_limits)
{
    for_each_half(check_at_the_limits);
}

static void check_single_bytes(struct half *half)
{
    uint8_t bytes[3 * 192] = {0};
    struct raw_prefix prefix = raw_prefix(10, 100);
    coxi_link_allow(half->end.link, META_MAX, PAYLOAD_MAX);
    for (size_t i = 0; i < 3; i++) {
        /* a prefix (16 bytes) and metadata (10), padded to 64; a payload (100), padded
         * to 104 */
        uint8_t *at = bytes + i * 168;
        memcpy(at, &prefix, sizeof(prefix));
        memset(at + sizeof(prefix), 'm', 10);
        memset(at + 64, 'p', 100);
    }
    for (size_t i = 0; i < (size_t)3 * 168; i++) {
        raw_send(half->fd, &bytes[i], 1);
    }
    end_wait_frames(&half->end, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(10, half->end.frames[i].meta_len);
        assert_memory_equal("mmmmmmmmmm", half->end.frames[i].meta, 10);
        assert_int_equal(100, half->end.frames[i].payload_len);
        assert_memory_equal(bytes + 64, half->end.frames[i].payload, 100);
    }
}

TEST(link_puts_frames_together_that_come_byte_by_byte)
{
    for_each_half(check_single_bytes);
}

static void check_truncated(struct half *half)
{
    struct raw_prefix prefix = raw_prefix(100, 90000);
    uint8_t bytes[128 + 50000] = {0};
    coxi_link_allow(half->end.link, META_MAX, PAYLOAD_MAX);
    memcpy(bytes, &prefix, sizeof(prefix));
    raw_send(half->fd, bytes, sizeof(bytes)); /* about half of the payload */
    (void)close(half->fd);
    half->fd = -1;
    end_wait_closed(&half->end, COX_ECLOSED);
    assert_int_equal(0, half->end.n_frames);
}

TEST(link_drops_a_frame_that_ends_in_the_middle)
{
    for_each_half(check_truncated);
}

/* ---- garbage */

static void check_garbage(struct half *half)
{
    static uint64_t seed = 1;
    uint64_t state = seed++;
    uint8_t bytes[8192];
    print_message("seed %llu\n", (unsigned long long)state);
    coxi_link_allow(half->end.link, META_MAX, PAYLOAD_MAX);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)coxi_rand(&state);
    }
    raw_send(half->fd, bytes, sizeof(bytes));
    assert_refused(half, "does not speak this protocol");
}

TEST(link_refuses_garbage)
{
    for (int round = 0; round < 10; round++) {
        for_each_half(check_garbage);
    }
}

/* Sends correct prefixes with random lengths: the link is closed at a length that is
 * too large. */
static void check_garbage_lengths(struct half *half)
{
    static uint64_t seed = 1;
    uint64_t state = seed++;
    uint8_t zeros[4096] = {0};
    print_message("seed %llu\n", (unsigned long long)state);
    coxi_link_allow(half->end.link, META_MAX, sizeof(zeros) - 64);
    size_t n_good = 0;
    for (bool good = true; good;) {
        uint32_t meta_len = 1 + (uint32_t)(coxi_rand(&state) % (META_MAX + 100));
        uint64_t payload_len = coxi_rand(&state) % (sizeof(zeros) - 64 + 100);
        struct raw_prefix prefix = raw_prefix(meta_len, payload_len);
        size_t to = payload_len > 0 ? 64 : 8;
        good = meta_len <= META_MAX && payload_len <= sizeof(zeros) - 64;
        n_good += good;
        raw_send(half->fd, &prefix, sizeof(prefix));
        if (good) {
            raw_send(half->fd, zeros,
                     coxi_align(sizeof(prefix) + meta_len, to) - sizeof(prefix));
            raw_send(half->fd, zeros, coxi_align(payload_len, 8));
        }
    }
    end_wait_closed(&half->end, COX_EPROTO);
    assert_int_equal(n_good, half->end.n_frames);
}

TEST(link_takes_good_frames_up_to_the_first_bad_one)
{
    for (int round = 0; round < 10; round++) {
        for_each_half(check_garbage_lengths);
    }
}
