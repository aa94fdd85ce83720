/* Futures: callbacks, cox_wait_any, results that nobody needs. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "coordinator/closures/futures.h"
#include "tests/coordinator/crew.h"
#include "tests/coordinator/inside.h"
#include "tests/test.h"

enum { CALLS_MAX = 16 };

static struct cox_future *schedule(struct crew *crew, const char *name)
{
    struct cox_future *future;
    assert_code(0, cox_schedule(crew->c, crew_function(crew, name), NULL, &future));
    return future;
}

/* A crew of one worker whose step is held. */
static void open_held(struct crew *crew, struct crew_hold *hold)
{
    crew_open(crew, 1, 1, "hold", NULL);
    crew_hold(hold, crew, "hold", true);
    crew_hold_wait(hold);
}

static void close_held(struct crew *crew, struct crew_hold *hold)
{
    cox_future_free(hold->future);
    crew_close(crew);
}

/* ---- callbacks */

/* What callbacks have seen; they share one thread. */
struct calls {
    struct cox_coordinator *c;
    struct cox_function *function;
    struct cox_future *futures[CALLS_MAX];
    int codes[CALLS_MAX];
    pthread_t threads[CALLS_MAX];
    atomic_int n;
    int expected;
};

static void note(struct calls *calls, struct cox_future *future, int code)
{
    int n = atomic_load(&calls->n);
    if (n < CALLS_MAX) {
        calls->futures[n] = future;
        calls->codes[n] = code;
        calls->threads[n] = pthread_self();
    }
    atomic_store(&calls->n, n + 1);
}

static bool all_called(void *arg)
{
    struct calls *calls = arg;
    return atomic_load(&calls->n) >= calls->expected;
}

static void wait_called(struct calls *calls, int n)
{
    calls->expected = n;
    coxi_test_until(all_called, calls, "a callback");
}

static void note_outcome(void *arg, struct cox_future *future)
{
    note(arg, future, cox_future_wait(future, 0));
}

TEST(callback_is_called_once_when_the_closure_is_settled)
{
    struct crew crew;
    struct crew_hold hold;
    struct calls calls = {0};
    open_held(&crew, &hold);
    assert_code(0, cox_future_then(hold.future, note_outcome, &calls));
    assert_int_equal(0, atomic_load(&calls.n));
    crew_hold_release(&hold);
    wait_called(&calls, 1);
    assert_ptr_equal(hold.future, calls.futures[0]);
    assert_code(0, calls.codes[0]);
    close_held(&crew, &hold);
    assert_int_equal(1, atomic_load(&calls.n));
}

TEST(callback_on_a_settled_future_is_called_too)
{
    struct crew crew;
    struct calls calls = {0};
    crew_open(&crew, 1, 1, "hold", NULL);
    struct cox_future *future = schedule(&crew, "nothing");
    assert_code(0, cox_future_wait(future, -1));
    assert_code(0, cox_future_then(future, note_outcome, &calls));
    wait_called(&calls, 1);
    assert_code(0, calls.codes[0]);
    assert_false(pthread_equal(pthread_self(), calls.threads[0]));
    cox_future_free(future);
    crew_close(&crew);
    assert_int_equal(1, atomic_load(&calls.n));
}

struct numbered {
    struct calls *calls;
    int number;
};

static void note_number(void *arg, struct cox_future *future)
{
    struct numbered *numbered = arg;
    note(numbered->calls, future, numbered->number);
}

TEST(callbacks_of_a_future_are_called_in_order_on_one_thread)
{
    enum { BEFORE = 5, ALL = 10 };
    struct crew crew;
    struct crew_hold hold;
    struct calls calls = {0};
    struct numbered numbered[ALL];
    open_held(&crew, &hold);
    for (int i = 0; i < ALL; i++) {
        numbered[i] = (struct numbered){&calls, i};
        if (i == BEFORE) {
            crew_hold_release(&hold);
        }
        assert_code(0, cox_future_then(hold.future, note_number, &numbered[i]));
    }
    wait_called(&calls, ALL);
    for (int i = 0; i < ALL; i++) {
        assert_int_equal(i, calls.codes[i]);
        assert_true(pthread_equal(calls.threads[0], calls.threads[i]));
    }
    close_held(&crew, &hold);
}

TEST(callback_is_called_for_failed_and_cancelled_closures)
{
    struct crew crew;
    struct crew_hold hold;
    struct calls calls = {0};
    open_held(&crew, &hold);
    /* it fails, because it has no argument */
    struct cox_future *failing = schedule(&crew, "hold");
    assert_code(0, cox_future_then(failing, note_outcome, &calls));
    crew_hold_release(&hold);
    wait_called(&calls, 1);
    assert_code(COX_ESTEP, calls.codes[0]);
    assert_code(COX_ESTEP, cox_join(crew.c, -1));
    cox_future_free(hold.future);

    crew_hold(&hold, &crew, "hold", true);
    crew_hold_wait(&hold);
    struct cox_future *queued = schedule(&crew, "nothing");
    assert_code(0, cox_future_then(queued, note_outcome, &calls));
    assert_code(0, cox_future_then(hold.future, note_outcome, &calls));
    /* Both callbacks have run when cox_close returns. */
    assert_code(COX_ETIMEDOUT, cox_close(crew.c, 50));
    assert_int_equal(3, atomic_load(&calls.n));
    assert_ptr_equal(queued, calls.futures[1]);
    assert_code(COX_ECANCELLED, calls.codes[1]);
    assert_code(COX_ECANCELLED, calls.codes[2]);
    assert_code(COX_ECLOSED, cox_future_then(queued, note_outcome, &calls));
    assert_int_equal(3, atomic_load(&calls.n));
    cox_future_free(failing);
    cox_future_free(queued);
    cox_future_free(hold.future);
    crew_hold_release(&hold);
}

/* A callback: schedules the next closure of a chain, and frees the future for which it
 * is called. */
static void go_on(void *arg, struct cox_future *future)
{
    struct calls *calls = arg;
    int n = atomic_load(&calls->n);
    int code = 0;
    if (n < CALLS_MAX - 1) {
        struct cox_future *next;
        code = cox_schedule(calls->c, calls->function, NULL, &next);
        code = code == 0 ? cox_future_then(next, go_on, calls) : code;
    }
    cox_future_free(future);
    note(calls, NULL, code);
}

TEST(callback_may_schedule_and_free_its_future)
{
    struct crew crew;
    struct crew_hold hold;
    open_held(&crew, &hold);
    struct calls calls = {.c = crew.c, .function = crew_function(&crew, "nothing")};
    assert_code(0, cox_future_then(hold.future, go_on, &calls));
    crew_hold_release(&hold);
    wait_called(&calls, CALLS_MAX);
    for (int i = 0; i < CALLS_MAX; i++) {
        assert_code(0, calls.codes[i]);
    }
    crew_close(&crew);
}

static void join_and_close(void *arg, struct cox_future *future)
{
    struct calls *calls = arg;
    note(calls, future, cox_join(calls->c, 0));
    note(calls, future, cox_join(calls->c, -1));
    note(calls, future, cox_close(calls->c, -1));
}

TEST(join_and_close_from_a_callback_would_wait_for_themselves)
{
    struct crew crew;
    struct crew other;
    struct crew_hold hold;
    open_held(&crew, &hold);
    struct calls calls = {.c = crew.c};
    assert_code(0, cox_future_then(hold.future, join_and_close, &calls));
    crew_hold_release(&hold);
    wait_called(&calls, 3);
    assert_code(COX_EDEADLK, calls.codes[0]);
    assert_code(COX_EDEADLK, calls.codes[1]);
    assert_code(COX_EDEADLK, calls.codes[2]);
    /* Nothing was closed. */
    assert_code(0, cox_join(crew.c, -1));

    /* A callback may join and close another coordinator. */
    crew_open(&other, 1, 1, NULL, NULL);
    struct calls allowed = {.c = other.c};
    assert_code(0, cox_future_then(hold.future, join_and_close, &allowed));
    wait_called(&allowed, 3);
    assert_code(0, allowed.codes[1]);
    assert_code(0, allowed.codes[2]);
    close_held(&crew, &hold);
}

static void note_result(void *arg, struct cox_future *future)
{
    struct cox_value value;
    note(arg, future, cox_future_result(future, "n", &value));
}

TEST(callback_of_a_future_freed_before_still_gets_the_result)
{
    struct crew crew;
    struct crew_hold hold;
    struct calls calls = {0};
    int64_t number = 7;
    struct cox_value arg = COX_SCALAR("n", COX_I64, &number);
    struct cox_call call = COX_CALL_INIT;
    struct cox_future *future;
    call.args = &arg;
    call.n_args = 1;
    open_held(&crew, &hold);
    assert_code(0, cox_module_load(crew.c, coxi_test_module("counter"), &crew.module));
    assert_code(0, cox_schedule(crew.c, crew_function(&crew, "echo"), &call, &future));
    assert_code(0, cox_future_then(future, note_result, &calls));
    cox_future_free(future);
    crew_hold_release(&hold);
    wait_called(&calls, 1);
    assert_code(0, calls.codes[0]);
    close_held(&crew, &hold);
}

TEST(then_needs_a_future_and_a_function)
{
    struct crew crew;
    crew_open(&crew, 1, 1, "hold", NULL);
    struct cox_future *future = schedule(&crew, "nothing");
    assert_code(COX_EINVAL, cox_future_then(NULL, note_outcome, NULL));
    assert_code(COX_EINVAL, cox_future_then(future, NULL, NULL));
    cox_future_free(future);
    crew_close(&crew);
}

/* ---- waiting for any */

TEST(wait_any_finds_what_is_settled_skips_null_and_times_out)
{
    struct crew crew;
    struct crew_hold hold;
    size_t index = 77;
    crew_open(&crew, 1, 2, "hold", NULL);
    crew_hold(&hold, &crew, "hold", true);
    crew_hold_wait(&hold);
    struct cox_future *futures[5] = {NULL, hold.future, NULL,
                                     schedule(&crew, "nothing"), NULL};
    struct cox_future *done = futures[3];
    assert_code(0, cox_wait_any(futures, 5, -1, &index));
    assert_int_equal(3, index);
    /* the same future is found again */
    assert_code(0, cox_wait_any(futures, 5, 0, &index));
    assert_int_equal(3, index);
    futures[3] = NULL;
    index = 77;
    assert_code(COX_ETIMEDOUT, cox_wait_any(futures, 5, 0, &index));
    assert_code(COX_ETIMEDOUT, cox_wait_any(futures, 5, 1, &index));
    assert_int_equal(77, index);
    crew_hold_release(&hold);
    assert_code(0, cox_wait_any(futures, 5, -1, &index));
    assert_int_equal(1, index);
    cox_future_free(done);
    close_held(&crew, &hold);
}

TEST(wait_any_refuses_nothing_to_wait_for_and_two_coordinators)
{
    struct crew crew;
    struct crew other;
    struct crew_hold hold;
    struct crew_hold other_hold;
    size_t index = 77;
    open_held(&crew, &hold);
    open_held(&other, &other_hold);
    struct cox_future *both[2] = {hold.future, other_hold.future};
    struct cox_future *none[2] = {NULL, NULL};
    assert_code(COX_EINVAL, cox_wait_any(NULL, 1, 0, &index));
    assert_code(COX_EINVAL, cox_wait_any(both, 0, 0, &index));
    assert_code(COX_EINVAL, cox_wait_any(both, 1, 0, NULL));
    assert_code(COX_EINVAL, cox_wait_any(none, 2, -1, &index));
    assert_code(COX_EINVAL, cox_wait_any(both, 2, -1, &index));
    assert_error_names("different coordinators");
    assert_int_equal(77, index);
    crew_hold_release(&hold);
    crew_hold_release(&other_hold);
    close_held(&crew, &hold);
    close_held(&other, &other_hold);
}

/* A thread that waits for any of its futures until all are NULL. */
struct drainer {
    pthread_t thread;
    struct cox_future *futures[2];
    size_t order[2];
    int codes[2];
    size_t n;
};

static void *drain(void *arg)
{
    struct drainer *d = arg;
    while (d->n < 2 && (d->futures[0] != NULL || d->futures[1] != NULL)) {
        size_t index = 77;
        if (cox_wait_any(d->futures, 2, -1, &index) != 0) {
            break;
        }
        d->order[d->n] = index;
        d->codes[d->n++] = cox_future_wait(d->futures[index], 0);
        d->futures[index] = NULL;
    }
    return NULL;
}

static bool is_waited_for(void *arg)
{
    return inside_is_waited_for(arg);
}

static void drainer_start(struct drainer *d, struct cox_future *first,
                          struct cox_future *second)
{
    *d = (struct drainer){.futures = {first, second}};
    assert_int_equal(0, pthread_create(&d->thread, NULL, drain, d));
    coxi_test_until(is_waited_for, first, "a thread that waits");
}

static void drainer_join(struct drainer *d)
{
    assert_int_equal(0, pthread_join(d->thread, NULL));
}

TEST(wait_any_is_woken_by_a_closure_that_fails)
{
    struct crew crew;
    struct crew_hold hold;
    struct drainer drainer;
    open_held(&crew, &hold);
    /* it fails, because it has no argument */
    struct cox_future *failing = schedule(&crew, "hold");
    drainer_start(&drainer, failing, NULL);
    crew_hold_release(&hold);
    drainer_join(&drainer);
    assert_int_equal(1, drainer.n);
    assert_code(COX_ESTEP, drainer.codes[0]);
    cox_future_free(failing);
    close_held(&crew, &hold);
}

TEST(wait_any_is_woken_by_cancelling_and_by_close)
{
    struct crew crew;
    struct crew_hold hold;
    struct drainer drainer;
    open_held(&crew, &hold);
    struct cox_future *queued = schedule(&crew, "nothing");
    drainer_start(&drainer, hold.future, queued);
    assert_code(COX_ETIMEDOUT, cox_close(crew.c, 50));
    drainer_join(&drainer);
    /* Queued closures are cancelled at once; the running one when its step is
     * released. */
    assert_int_equal(2, drainer.n);
    assert_int_equal(1, drainer.order[0]);
    assert_int_equal(0, drainer.order[1]);
    assert_code(COX_ECANCELLED, drainer.codes[0]);
    assert_code(COX_ECANCELLED, drainer.codes[1]);
    cox_future_free(queued);
    cox_future_free(hold.future);
    crew_hold_release(&hold);
}

TEST(many_threads_wait_for_the_same_futures)
{
    enum { THREADS = 4 };
    struct crew crew;
    struct crew_hold hold;
    struct drainer drainers[THREADS];
    open_held(&crew, &hold);
    struct cox_future *behind = schedule(&crew, "nothing");
    for (int i = 0; i < THREADS; i++) {
        drainer_start(&drainers[i], hold.future, behind);
    }
    /* A thread that gives up does not disturb the other waiters. */
    assert_code(COX_ETIMEDOUT, cox_future_wait(hold.future, 1));
    assert_true(is_waited_for(hold.future));
    crew_hold_release(&hold);
    assert_code(0, cox_future_wait(behind, -1));
    for (int i = 0; i < THREADS; i++) {
        drainer_join(&drainers[i]);
        assert_int_equal(2, drainers[i].n);
        assert_code(0, drainers[i].codes[0]);
        assert_code(0, drainers[i].codes[1]);
    }
    assert_false(is_waited_for(hold.future));
    cox_future_free(behind);
    close_held(&crew, &hold);
}

TEST(wait_any_drains_ten_thousand_futures_each_once)
{
    enum { N = 10000 };
    struct crew crew;
    struct crew_hold hold;
    size_t index;
    struct cox_future **futures = malloc(N * sizeof(struct cox_future *));
    assert_non_null(futures);
    open_held(&crew, &hold);
    futures[0] = hold.future;
    for (size_t i = 1; i < N; i++) {
        futures[i] = schedule(&crew, "nothing");
    }
    /* None is settled: the call adds a waiter to each future, and removes all of
     * them. */
    assert_code(COX_ETIMEDOUT, cox_wait_any(futures, N, 1, &index));
    for (size_t i = 0; i < N; i++) {
        assert_false(is_waited_for(futures[i]));
    }
    crew_hold_release(&hold);
    for (size_t i = 0; i < N; i++) {
        assert_code(0, cox_wait_any(futures, N, -1, &index));
        assert_true(index < N);
        assert_non_null(futures[index]);
        assert_code(0, cox_future_wait(futures[index], 0));
        cox_future_free(futures[index]);
        futures[index] = NULL;
    }
    assert_code(COX_EINVAL, cox_wait_any(futures, N, 0, &index));
    free(futures);
    crew_close(&crew);
}

struct offer {
    struct cox_future *future;
    const void *result;
    size_t len;
    bool kept;
};

static void make_offer(void *arg)
{
    struct offer *offer = arg;
    int r = coxi_future_keep(offer->future, offer->result, offer->len);
    offer->kept = r == 0 && offer->future->result_len == offer->len;
}

/* Offers a result to the future of an unsettled closure; true if the future copies
 * it. */
static bool keeps(struct crew *crew, struct cox_future *future, const void *result,
                  size_t len)
{
    struct offer offer = {future, result, len, false};
    inside_run(crew->c, make_offer, &offer);
    return offer.kept;
}

/* ---- results that nobody wants */

TEST(result_is_copied_only_for_a_future_that_is_held)
{
    const uint8_t result[8] = {1};
    struct crew crew;
    struct crew_hold hold;
    open_held(&crew, &hold);
    struct cox_future *kept = schedule(&crew, "nothing");
    struct cox_future *freed = schedule(&crew, "nothing");
    cox_future_free(freed);
    /* Both are queued after the held step, so they are not settled. */
    assert_false(keeps(&crew, freed, result, sizeof(result)));
    assert_true(keeps(&crew, kept, result, sizeof(result)));
    crew_hold_release(&hold);
    assert_code(0, cox_join(crew.c, -1));
    cox_future_free(kept);
    close_held(&crew, &hold);
}
