/* A client is closed while another thread is in cox_schedule. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/clock.h"
#include "tests/coordinator/crew.h"
#include "tests/test.h"

/* How long a thread that is about to wake the loop waits for cox_close to return, which
 * must not happen. */
enum { NOT_WITHIN_MS = 1000 };

struct coxi_loop;

static _Thread_local bool stays;
static atomic_bool is_waking;
static atomic_bool is_closed;
static atomic_bool was_closed; /* before the thread woke the loop */

void __real_coxi_loop_wake_here(struct coxi_loop *loop);
void __wrap_coxi_loop_wake_here(struct coxi_loop *loop);

void __wrap_coxi_loop_wake_here(struct coxi_loop *loop)
{
    uint64_t end_ms = coxi_now_ms() + NOT_WITHIN_MS;
    atomic_store(&is_waking, true);
    while (stays && !atomic_load(&is_closed) && coxi_now_ms() < end_ms) {
        (void)poll(NULL, 0, 1);
    }
    atomic_store(&was_closed, atomic_load(&is_closed));
    if (!was_closed) {
        __real_coxi_loop_wake_here(loop);
    }
}

static void *schedule(void *arg)
{
    struct crew *crew = arg;
    stays = true;
    return cox_schedule(crew->c, crew_function(crew, "nothing"), NULL, NULL) == 0
               ? arg
               : NULL;
}

static bool is_true(void *arg)
{
    return atomic_load((atomic_bool *)arg);
}

TEST(close_waits_for_a_call_that_is_about_to_wake_the_loop)
{
    struct crew crew;
    pthread_t thread;
    void *scheduled;
    crew_open(&crew, 1, 1, "counter", NULL);
    assert_int_equal(0, pthread_create(&thread, NULL, schedule, &crew));
    coxi_test_until(is_true, &is_waking, "a call that wakes the loop");
    assert_code(0, cox_close(crew.c, 5000));
    atomic_store(&is_closed, true);
    assert_int_equal(0, pthread_join(thread, &scheduled));
    assert_non_null(scheduled);
    assert_false(was_closed);
}
