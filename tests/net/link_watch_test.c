/* Heartbeats, and peers that are silent. The test's own loop is the ticking daemon. */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "net/link.h"
#include "tests/net/ends.h"
#include "tests/test.h"

static int closed_times(struct end *end)
{
    coxi_lock(&end->lock);
    int n = end->n_closed;
    coxi_unlock(&end->lock);
    return n;
}

struct watch {
    struct coxi_links *links;
    struct end *end;
};

static bool tick_until_closed(void *arg)
{
    struct watch *watch = arg;
    coxi_links_tick(watch->links);
    return closed_times(watch->end) > 0;
}

static void check_silent(struct half *half)
{
    struct watch watch = {.end = &half->end};
    assert_code(0, coxi_links_new(150, &watch.links));
    coxi_links_add(watch.links, half->end.link);
    coxi_test_until(tick_until_closed, &watch, "the end of a silent peer");
    end_wait_closed(&half->end, COX_ETIMEDOUT);
    assert_non_null(strstr(half->end.close_text, "silent"));
    (void)raw_wait_closed(half->fd);
    coxi_links_tick(watch.links); /* no link is left to watch */
    coxi_links_free(watch.links);
}

TEST(link_closes_when_the_peer_is_silent)
{
    for_each_half(check_silent);
}

struct deaf {
    struct watch watch;
    int fd;
};

/* The peer sends heartbeats of its own and reads nothing. */
static bool beat_until_closed(void *arg)
{
    struct deaf *deaf = arg;
    struct raw_prefix beat = raw_prefix(0, 0);
    (void)send(deaf->fd, &beat, sizeof(beat), MSG_DONTWAIT | MSG_NOSIGNAL);
    return tick_until_closed(&deaf->watch);
}

static void check_deaf(struct half *half)
{
    static uint8_t bytes[8 << 20];
    struct deaf deaf = {.watch.end = &half->end, .fd = half->fd};
    /* Long enough for its beats to be heard in time, however busy the host is. */
    assert_code(0, coxi_links_new(1000, &deaf.watch.links));
    coxi_links_add(deaf.watch.links, half->end.link);
    assert_code(0, end_send(&half->end, "x", 1, bytes, sizeof(bytes)));
    coxi_test_until(beat_until_closed, &deaf, "the end of a peer that does not read");
    end_wait_closed(&half->end, COX_ETIMEDOUT);
    assert_non_null(strstr(half->end.close_text, "read"));
    coxi_links_tick(deaf.watch.links);
    coxi_links_free(deaf.watch.links);
}

TEST(link_closes_when_the_peer_does_not_read)
{
    for_each_half(check_deaf);
}

/* Answers each heartbeat with one; returns their number. */
static int echo_beats(int fd)
{
    struct pollfd pollfd = {.fd = fd, .events = POLLIN};
    if (poll(&pollfd, 1, 2) != 1) {
        return 0;
    }
    struct raw_prefix prefix, beat = raw_prefix(0, 0);
    raw_read(fd, &prefix, sizeof(prefix));
    assert_memory_equal(&beat, &prefix, sizeof(beat));
    raw_send(fd, &beat, sizeof(beat));
    return 1;
}

/* Six beats at a quarter of the timeout each: longer than the timeout. */
static void beat(bool tcp, enum end_mode mode)
{
    enum { TIMEOUT_MS = 1000, BEATS = 6 };
    struct half half;
    struct coxi_links *links;
    int n_beats = 0;
    assert_code(0, coxi_links_new(TIMEOUT_MS, &links));
    half_open(&half, tcp, mode);
    coxi_links_add(links, half.end.link);
    uint64_t start_ms = coxi_now_ms();
    while (n_beats < BEATS && closed_times(&half.end) == 0) {
        coxi_links_tick(links);
        n_beats += echo_beats(half.fd);
    }
    assert_int_equal(BEATS, n_beats);
    assert_true(coxi_now_ms() - start_ms > TIMEOUT_MS);
    assert_int_equal(0, closed_times(&half.end));
    assert_int_equal(0, half.end.n_frames); /* the owner does not see heartbeats */
    half_close(&half);
    coxi_links_free(links);
}

TEST(link_stays_open_for_heartbeats_over_tcp)
{
    beat(true, END_RUN);
}

TEST(link_stays_open_for_heartbeats_over_ipc)
{
    beat(false, END_START);
}

TEST(link_closes_with_all_that_are_watched)
{
    struct half halves[4];
    struct coxi_links *links;
    assert_code(0, coxi_links_new(60000, &links));
    for (int i = 0; i < 4; i++) {
        half_open(&halves[i], i % 2 == 0, i / 2 == 0 ? END_RUN : END_START);
        coxi_links_add(links, halves[i].end.link);
    }
    coxi_links_tick(links); /* nobody is silent yet */
    coxi_links_close_all(links, COX_ECANCELLED, "all of them");
    for (int i = 0; i < 4; i++) {
        end_wait_closed(&halves[i].end, COX_ECANCELLED);
        assert_string_equal("all of them", halves[i].end.close_text);
        half_close(&halves[i]);
    }
    coxi_links_free(links);
}

/* Links may leave the set in any order; the others are still watched. */
TEST(link_leaves_the_watched_in_any_order)
{
    struct half halves[3];
    struct coxi_links *links;
    assert_code(0, coxi_links_new(60000, &links));
    for (int i = 0; i < 3; i++) {
        half_open(&halves[i], true, END_START);
        coxi_links_add(links, halves[i].end.link);
    }
    coxi_links_drop(halves[1].end.link);
    coxi_links_close_all(links, COX_ECANCELLED, "all of them");
    end_wait_closed(&halves[0].end, COX_ECANCELLED);
    end_wait_closed(&halves[2].end, COX_ECANCELLED);
    assert_int_equal(0, closed_times(&halves[1].end));
    for (int i = 0; i < 3; i++) {
        half_close(&halves[i]);
    }
    coxi_links_free(links);
}

TEST(link_heartbeats_leave_on_every_link_that_owes_one)
{
    enum { LINKS = 4, TIMEOUT_MS = 1000 };
    struct half halves[LINKS];
    struct coxi_links *links;
    int n_beats[LINKS] = {0};
    int n_heard = 0;
    assert_code(0, coxi_links_new(TIMEOUT_MS, &links));
    for (int i = 0; i < LINKS; i++) {
        half_open(&halves[i], true, END_START);
        coxi_links_add(links, halves[i].end.link);
    }
    for (int closed = 0; n_heard < LINKS && closed == 0;) {
        coxi_links_tick(links);
        n_heard = 0;
        for (int i = 0; i < LINKS; i++) {
            n_beats[i] += echo_beats(halves[i].fd);
            n_heard += n_beats[i] > 0;
            closed += closed_times(&halves[i].end);
        }
    }
    assert_int_equal(LINKS, n_heard);
    for (int i = 0; i < LINKS; i++) {
        half_close(&halves[i]);
    }
    coxi_links_free(links);
}
