/* One thread that receives for several links. */
#include "net/gather.h"

#include <pthread.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "net/link.h"
#include "tests/net/ends.h"
#include "tests/test.h"

enum { LINKS = 8, FRAMES = 200 };

struct fan {
    struct coxi_gather *gather;
    struct pair pairs[LINKS];
};

static void fan_open(struct fan *fan)
{
    assert_code(0, coxi_gather_new(&fan->gather));
    for (int i = 0; i < LINKS; i++) {
        pair_open_gathered(&fan->pairs[i], fan->gather);
    }
}

static void fan_close(struct fan *fan)
{
    for (int i = 0; i < LINKS; i++) {
        pair_close(&fan->pairs[i]);
    }
    coxi_gather_free(fan->gather);
}

/* Threads that have handled frames. */
struct hands {
    struct coxi_mutex lock; /* guards the rest; leaf */
    pthread_t first;
    int n;
    int n_others; /* frames that a thread other than the first has handled */
};

static void note_hand(struct end *end, const struct coxi_frame *frame)
{
    struct hands *hands = end->arg;
    (void)frame;
    coxi_lock(&hands->lock);
    hands->first = hands->n == 0 ? pthread_self() : hands->first;
    hands->n_others += !pthread_equal(hands->first, pthread_self());
    hands->n++;
    coxi_unlock(&hands->lock);
}

TEST(gatherer_receives_for_all_its_links_in_order)
{
    struct fan fan;
    struct hands hands = {.lock = COXI_MUTEX_INIT};
    fan_open(&fan);
    for (int i = 0; i < LINKS; i++) {
        end_handle(&fan.pairs[i].near, note_hand, &hands);
    }
    for (int n = 0; n < FRAMES; n++) {
        for (int i = 0; i < LINKS; i++) {
            assert_code(0, end_send(&fan.pairs[i].far, &n, sizeof(n), NULL, 0));
        }
    }
    for (int i = 0; i < LINKS; i++) {
        struct end *near = &fan.pairs[i].near;
        end_wait_frames(near, FRAMES);
        for (int n = 0; n < FRAMES; n++) {
            assert_memory_equal(&n, near->frames[n].meta, sizeof(n));
        }
    }
    assert_int_equal(LINKS * FRAMES, hands.n);
    assert_int_equal(0, hands.n_others);
    fan_close(&fan);
}

TEST(gatherer_goes_on_when_links_of_it_end)
{
    struct fan fan;
    fan_open(&fan);
    coxi_link_close(fan.pairs[0].near.link, COX_ECANCELLED, "here");
    end_wait_closed(&fan.pairs[0].near, COX_ECANCELLED);
    assert_code(0, end_send(&fan.pairs[1].far, "last", 4, NULL, 0));
    coxi_link_finish(fan.pairs[1].far.link, COX_ECANCELLED, "there");
    end_wait_closed(&fan.pairs[1].near, COX_ECLOSED);
    end_wait_frames(&fan.pairs[1].near, 1);
    for (int i = 2; i < LINKS; i++) {
        assert_code(0, end_send(&fan.pairs[i].far, "more", 4, NULL, 0));
        end_wait_frames(&fan.pairs[i].near, 1);
    }
    fan_close(&fan);
}

/* A callback that lasts until the test lets it go on. */
struct stop {
    struct coxi_mutex lock; /* guards the rest; leaf */
    pthread_cond_t changed;
    bool begun;
    bool over;
};

static void wait_at_stop(struct end *end, const struct coxi_frame *frame)
{
    struct stop *stop = end->arg;
    (void)frame;
    coxi_lock(&stop->lock);
    stop->begun = true;
    while (!stop->over) {
        coxi_wait_for_end(&stop->changed, &stop->lock);
    }
    coxi_unlock(&stop->lock);
}

static bool has_begun(void *arg)
{
    struct stop *stop = arg;
    coxi_lock(&stop->lock);
    bool begun = stop->begun;
    coxi_unlock(&stop->lock);
    return begun;
}

struct ticks {
    struct coxi_links *links;
    uint64_t until_ms;
};

static bool tick_on(void *arg)
{
    struct ticks *ticks = arg;
    coxi_links_tick(ticks->links);
    return coxi_now_ms() > ticks->until_ms;
}

TEST(a_long_callback_on_a_gatherer_silences_no_other_link_of_it)
{
    enum { TIMEOUT_MS = 200 };
    struct fan fan;
    struct stop stop = {.lock = COXI_MUTEX_INIT};
    struct ticks ticks;
    coxi_cond_init(&stop.changed);
    fan_open(&fan);
    end_handle(&fan.pairs[0].near, wait_at_stop, &stop);
    assert_code(0, end_send(&fan.pairs[0].far, "long", 4, NULL, 0));
    coxi_test_until(has_begun, &stop, "the long callback");
    assert_code(0, end_send(&fan.pairs[1].far, "more", 4, NULL, 0));
    assert_code(0, coxi_links_new(TIMEOUT_MS, &ticks.links));
    coxi_links_add(ticks.links, fan.pairs[1].near.link);
    ticks.until_ms = coxi_now_ms() + 4 * TIMEOUT_MS;
    coxi_test_until(tick_on, &ticks, "a time longer than the time-out");
    assert_false(end_is_closed(&fan.pairs[1].near));
    coxi_lock(&stop.lock);
    stop.over = true;
    (void)pthread_cond_signal(&stop.changed);
    coxi_unlock(&stop.lock);
    end_wait_frames(&fan.pairs[1].near, 1);
    coxi_links_drop(fan.pairs[1].near.link);
    coxi_links_free(ticks.links);
    fan_close(&fan);
    (void)pthread_cond_destroy(&stop.changed);
}

TEST(gatherer_sends_on_what_has_waited_for_room)
{
    static uint8_t much[4 * 1024 * 1024];
    struct fan fan;
    fan_open(&fan);
    for (int i = 0; i < LINKS; i++) {
        assert_code(0, end_send(&fan.pairs[i].near, "much", 4, much, sizeof(much)));
    }
    for (int i = 0; i < LINKS; i++) {
        end_wait_frames(&fan.pairs[i].far, 1);
    }
    fan_close(&fan);
}
