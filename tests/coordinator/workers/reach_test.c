/* Workers that cannot reach a ps: they report it, and the client tells that apart from
 * a lost ps. */
#include <string.h>

#include "tests/coordinator/fake_worker.h"
#include "tests/test.h"

enum { HEADS_MAX = 16 };

static void say(struct caller *worker, int code)
{
    struct coxi_message message = {.kind = COXI_REACH};
    message.status.code = code;
    message.status.message = code != 0 ? "cannot reach it: No route to host" : "";
    caller_send(worker, &message, NULL, 0);
}

static struct yard *yard_of;

static bool is_cut_off(void *arg)
{
    return yard_stats(yard_of).workers_cut_off == *(uint64_t *)arg;
}

static void wait_cut_off(struct yard *yard, uint64_t n)
{
    yard_of = yard;
    coxi_test_until(is_cut_off, &n, "the number of workers that are cut off");
}

/* Without checkpoints, so that the loss of a ps would end the run. */
TEST(closures_of_a_worker_that_cannot_reach_a_ps_go_elsewhere)
{
    struct yard yard;
    struct coxi_closure_head at_anna[HEADS_MAX], at_bert[HEADS_MAX];
    yard_open(&yard, NULL);
    struct caller *anna = fake_worker(&yard, "anna", 7, 0);
    fake_worker_accept(anna, 0);
    yard_wait_ready(&yard, 1);
    yard_count(&yard, 1);
    assert_int_equal(1, fake_worker_expect(anna, at_anna));
    struct caller *bert = fake_worker(&yard, "bert", 8, 1);
    fake_worker_accept(bert, 0);
    yard_wait_ready(&yard, 2);
    say(anna, COX_EPSLOST);
    const struct coxi_message *recall = caller_expect(anna, COXI_RECALL);
    assert_true(recall->recall.all);
    assert_false(recall->recall.running);
    yard_wait_ready(&yard, 1);
    wait_cut_off(&yard, 1);
    fake_worker_answer(anna, at_anna, COX_EPSLOST);
    assert_int_equal(1, fake_worker_expect(bert, at_bert));
    assert_int_equal(at_anna[0].closure, at_bert[0].closure);
    fake_worker_answer(bert, at_bert, 0);
    assert_code(0, cox_join(yard.crew.c, 5000));

    say(anna, 0);
    yard_wait_ready(&yard, 2);
    wait_cut_off(&yard, 0);
    caller_close(anna);
    caller_close(bert);
    yard_close(&yard);
}

TEST(a_worker_that_was_cut_off_and_is_lost_is_not_counted_any_more)
{
    struct yard yard;
    yard_open(&yard, NULL);
    struct caller *anna = fake_worker(&yard, "anna", 7, 0);
    fake_worker_accept(anna, 0);
    yard_wait_ready(&yard, 1);
    say(anna, COX_EPSLOST);
    wait_cut_off(&yard, 1);
    caller_close(anna);
    wait_cut_off(&yard, 0);
    yard_close(&yard);
}

TEST(a_ps_that_no_worker_reaches_is_lost)
{
    struct yard yard;
    struct cox_options options = COX_OPTIONS_INIT;
    options.peer_timeout_ms = 2000;
    yard_open(&yard, &options);
    struct caller *anna = fake_worker(&yard, "anna", 7, 0);
    fake_worker_accept(anna, 0);
    yard_wait_ready(&yard, 1);
    say(anna, COX_EPSLOST);
    /* A worker that is cut off gets no closures. (This one would not hand them back.) */
    wait_cut_off(&yard, 1);
    yard_count(&yard, 1);
    /* The worker counts as alive while it keeps sending messages. */
    int r;
    do {
        say(anna, COX_EPSLOST);
        r = cox_join(yard.crew.c, 100);
    } while (r == COX_ETIMEDOUT);
    assert_code(COX_EPSLOST, r);
    assert_error_names("no worker reaches it");
    assert_error_names("No route to host");
    caller_close(anna);
    yard_close(&yard);
}
