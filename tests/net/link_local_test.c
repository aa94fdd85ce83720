/* Links on the local path. The tests of all links cover what they carry. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"
#include "net/link.h"
#include "net/link_internal.h"
#include "net/rings.h"
#include "tests/net/ends.h"
#include "tests/test.h"

enum { WAIT_MS = 8000, TIMEOUT_MS = 400 };

bool __real_coxi_rings_ask_room(struct coxi_rings *rings, size_t bytes);
bool __wrap_coxi_rings_ask_room(struct coxi_rings *rings, size_t bytes);

static uint8_t much[4 * 1024 * 1024];

TEST(link_goes_local_where_it_is_accepted)
{
    struct pair pair;
    pair_open_local(&pair);
    assert_true(coxi_link_is_local(pair.near.link));
    assert_true(coxi_link_is_local(pair.far.link));
    pair_close(&pair);
    pair_open(&pair, true, END_RUN);
    assert_false(coxi_link_is_local(pair.near.link));
    pair_close(&pair);
}

TEST(link_stays_on_its_stream_where_an_offer_is_withdrawn)
{
    struct pair pair;
    const char *name;
    pair_open(&pair, true, END_RUN);
    assert_code(0, coxi_link_offer(pair.near.link, NULL, COXI_RING_MIN, &name));
    coxi_link_withdraw(pair.near.link);
    assert_code(COX_EADDRESS, coxi_link_accept(pair.far.link, name));
    assert_code(0, end_send(&pair.near, "near", 4, much, sizeof(much)));
    assert_code(0, end_send(&pair.far, "far", 3, NULL, 0));
    end_wait_frames(&pair.far, 1);
    end_wait_frames(&pair.near, 1);
    assert_false(coxi_link_is_local(pair.near.link));
    pair_close(&pair);
}

/* Links that are local and not yet received from. */
struct quiet {
    struct door door;
    struct coxi_link *near;
    struct coxi_link *far;
};

static void quiet_open(struct quiet *quiet)
{
    const char *name;
    door_open(&quiet->door, true);
    assert_code(0, coxi_link_connect(quiet->door.url, NULL, WAIT_MS, &quiet->near));
    quiet->far = door_wait(&quiet->door);
    coxi_link_allow(quiet->far, sizeof(much), sizeof(much));
    assert_code(0, coxi_link_offer(quiet->near, NULL, COXI_RING_MIN, &name));
    assert_code(0, coxi_link_accept(quiet->far, name));
    coxi_link_go_local(quiet->near);
    coxi_link_go_local(quiet->far);
}

TEST(link_hands_out_what_its_peer_wrote_before_it_closed)
{
    struct quiet quiet;
    struct end near, far;
    quiet_open(&quiet);
    end_init(&near);
    end_init(&far);
    end_start(&near, quiet.near, END_RUN);
    for (int i = 0; i < 100; i++) {
        assert_code(0, end_send(&near, "frame", 5, NULL, 0));
    }
    coxi_link_finish(quiet.near, COX_ECANCELLED, "done");
    end_wait_closed(&near, COX_ECANCELLED);
    end_start(&far, quiet.far, END_RUN);
    end_wait_frames(&far, 100);
    end_wait_closed(&far, COX_ECLOSED);
    end_fini(&near);
    end_fini(&far);
    door_close(&quiet.door);
}

/* ---- room that comes after a sender has looked for it, and before the sender has
 * ended */

/* If not NULL: once a sender has asked for room and found none, the peer reads
 * everything, and the near end's receiving thread sends the waiting data. */
static struct quiet *reads_behind_the_look;

bool __wrap_coxi_rings_ask_room(struct coxi_rings *rings, size_t bytes)
{
    bool has_room = __real_coxi_rings_ask_room(rings, bytes);
    if (!has_room && reads_behind_the_look != NULL) {
        struct quiet *quiet = reads_behind_the_look;
        struct coxi_rings *far = atomic_load(&quiet->far->rings);
        size_t len;
        (void)coxi_rings_data(far, &len);
        coxi_rings_took(far, len);
        coxi_link_flush(quiet->near);
    }
    return has_room;
}

TEST(link_sends_on_where_room_came_while_it_stopped)
{
    struct quiet quiet;
    const struct iovec payload = {much, sizeof(much)};
    const struct coxi_outgoing frame = {
        .meta = "much", .meta_len = 4, .payload = &payload, .n_payload = 1};
    quiet_open(&quiet);
    reads_behind_the_look = &quiet;
    assert_code(0, coxi_link_send(quiet.near, &frame, false));
    reads_behind_the_look = NULL;
    assert_int_equal(0, coxi_link_queued(quiet.near));
    coxi_link_unref(quiet.near);
    coxi_link_unref(quiet.far);
    door_close(&quiet.door);
}

static bool tick_until_closed(void *arg)
{
    struct end *end = arg;
    coxi_links_tick(*(struct coxi_links **)end->arg);
    return coxi_link_closed(end->link);
}

/* A peer that neither reads nor writes, like a stopped process. */
static void check_stopped(bool sends)
{
    struct quiet quiet;
    struct end near;
    struct coxi_links *links;
    quiet_open(&quiet);
    assert_code(0, coxi_links_new(TIMEOUT_MS, &links));
    end_init(&near);
    near.arg = &links;
    coxi_links_add(links, quiet.near);
    end_start(&near, quiet.near, END_RUN);
    if (sends) {
        assert_code(0, end_send(&near, "much", 4, much, sizeof(much)));
        assert_true(coxi_link_queued(quiet.near) > 0);
    }
    coxi_test_until(tick_until_closed, &near, "the end of a silent peer");
    end_wait_closed(&near, COX_ETIMEDOUT);
    end_fini(&near);
    coxi_links_free(links);
    coxi_link_unref(quiet.far);
    door_close(&quiet.door);
}

TEST(link_closes_on_a_local_peer_that_is_silent)
{
    check_stopped(false);
}

TEST(link_closes_on_a_local_peer_that_does_not_read)
{
    check_stopped(true);
}

/* ---- a peer process that writes counts that cannot be */

/* Offsets in the memory of rings: of the side that made it, then of the other. */
enum { WRITTEN = 64, TAKEN = 128, SIDE = 192 };

/* Finds where this process has mapped the head of the rings. */
static uint8_t *find_head(void)
{
    char line[512];
    unsigned long long begin = 0;
    unsigned long long end = 0;
    unsigned long long offset = 1;
    FILE *maps = fopen("/proc/self/maps", "re");
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL) {
        if (strstr(line, "/memfd:coxswain") != NULL &&
            sscanf(line, "%llx-%llx %*s %llx", &begin, &end, &offset) == 3 &&
            offset == 0) {
            break;
        }
    }
    (void)fclose(maps);
    assert_int_equal(0, offset);
    return (uint8_t *)(uintptr_t)begin;
}

/* Another process, which shares the memory, writes `count` into both sides. */
static void write_falsely(size_t at, uint64_t count)
{
    uint8_t *head = find_head();
    int status = 1;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        for (size_t side = 0; side < 2; side++) {
            memcpy(head + side * SIDE + at, &count, sizeof(count));
        }
        _exit(0);
    }
    assert_int_equal(pid, waitpid(pid, &status, 0));
    assert_int_equal(0, status);
}

/* The links' time-out is much longer than the test, so only the counts end the link. */
static void check_false_count(size_t at, uint64_t count)
{
    struct pair pair;
    struct coxi_links *links;
    pair_open_local(&pair);
    assert_code(0, coxi_links_new(60 * 1000, &links));
    coxi_links_add(links, pair.near.link);
    pair.near.arg = &links;
    assert_code(0, end_send(&pair.near, "near", 4, much, 1000));
    assert_code(0, end_send(&pair.far, "far", 3, much, 1000));
    end_wait_frames(&pair.far, 1);
    end_wait_frames(&pair.near, 1);
    coxi_links_tick(links);
    assert_false(coxi_link_closed(pair.near.link));
    write_falsely(at, count);
    coxi_test_until(tick_until_closed, &pair.near, "the end of a peer that lies");
    end_wait_closed(&pair.near, COX_EPROTO);
    pair_close(&pair);
    coxi_links_free(links);
}

TEST(link_closes_at_once_where_a_peer_claims_more_than_fits)
{
    check_false_count(WRITTEN, (uint64_t)1 << 40);
}

TEST(link_closes_at_once_where_a_peer_claims_to_have_read_ahead)
{
    check_false_count(TAKEN, (uint64_t)1 << 40);
}

TEST(link_closes_at_once_where_a_peer_takes_back_what_it_wrote)
{
    check_false_count(WRITTEN, 1);
}

TEST(link_closes_at_once_where_a_peer_takes_back_what_it_read)
{
    check_false_count(TAKEN, 1);
}

static bool tick_both(void *arg)
{
    struct pair *pair = arg;
    coxi_links_tick(pair->near.arg);
    return coxi_now_ms() > *(uint64_t *)pair->far.arg;
}

TEST(link_keeps_a_local_peer_that_only_beats)
{
    struct pair pair;
    struct coxi_links *links;
    uint64_t until_ms = coxi_now_ms() + 3 * TIMEOUT_MS;
    pair_open_local(&pair);
    assert_code(0, coxi_links_new(TIMEOUT_MS, &links));
    coxi_links_add(links, pair.near.link);
    coxi_links_add(links, pair.far.link);
    pair.near.arg = links;
    pair.far.arg = &until_ms;
    coxi_test_until(tick_both, &pair, "some timeouts to pass");
    assert_false(coxi_link_closed(pair.near.link));
    assert_false(coxi_link_closed(pair.far.link));
    assert_int_equal(0, pair.near.n_frames);
    pair_close(&pair);
    coxi_links_free(links);
}

/* ---- a peer that dies while the receiving thread sends to it */

static int make_bytes(void *arg, void *to, size_t room, size_t *ret_len)
{
    size_t *left = arg;
    *ret_len = room < *left ? room : *left;
    memset(to, 1, *ret_len);
    *left -= *ret_len;
    return 0;
}

static void answer_much(struct end *end, const struct coxi_frame *frame)
{
    size_t left = sizeof(much);
    struct coxi_made made = {.meta = "much",
                             .meta_len = 4,
                             .payload_len = left,
                             .make = make_bytes,
                             .arg = &left};
    (void)frame;
    end->on_frame_returns = coxi_link_send_made(end->link, &made);
}

static void answer_and_wait(struct end *end, const struct coxi_frame *frame)
{
    (void)frame;
    (void)end_send(end, "much", 4, much, sizeof(much));
    end->on_frame_returns = coxi_link_wait_room(end->link, 0);
}

static bool is_full(void *near)
{
    size_t len;
    (void)coxi_rings_data(atomic_load(&((struct coxi_link *)near)->rings), &len);
    return len > COXI_RING_MIN - COXI_LINK_MADE_ROOM;
}

/* The peer asks, and dies before it has read the answer, which fills the ring. */
static void check_gone(void (*answer)(struct end *end, const struct coxi_frame *frame))
{
    struct quiet quiet;
    struct end far;
    quiet_open(&quiet);
    end_init(&far);
    end_handle(&far, answer, NULL);
    end_start(&far, quiet.far, END_RUN);
    struct coxi_outgoing ask = {.meta = "ask", .meta_len = 3};
    assert_code(0, coxi_link_send(quiet.near, &ask, false));
    coxi_test_until(is_full, quiet.near, "a ring that nobody reads");
    coxi_link_unref(quiet.near); /* that closes it */
    end_wait_closed(&far, COX_ECLOSED);
    end_fini(&far);
    door_close(&quiet.door);
}

TEST(link_makes_no_more_for_a_local_peer_that_is_gone)
{
    check_gone(answer_much);
}

TEST(link_waits_no_more_for_a_local_peer_that_is_gone)
{
    check_gone(answer_and_wait);
}
