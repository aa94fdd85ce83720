/* Memory that grows with what members send stays within the budget of payloads. */
#include <stdlib.h>

#include "ps/carry.h"
#include "ps/deferred.h"
#include "tests/ps/caller.h"
#include "tests/ps/harbour.h"
#include "tests/ps/stock.h"
#include "tests/test.h"

enum {
    BUDGET = 256 << 20, /* the least */
    N_UPDATES = 400000,
    MESSAGE = N_UPDATES * 24, /* or some bytes more */
    CALLERS = BUDGET / MESSAGE + 8,
};

static const struct coxi_session run1 = {.run = 1, .generation = 1, .token = 11};
static const struct coxi_hello as_client = {.role = COXI_ROLE_CLIENT,
                                            .session = {1, 1, 11}};

/* A message of more than MESSAGE bytes. */
static struct coxi_message long_message(void)
{
    static struct coxi_update updates[N_UPDATES];
    struct coxi_message message = {.request = 3, .kind = COXI_COMMIT};
    message.commit = (struct coxi_commit){.session = run1,
                                          .closure = 5,
                                          .attempt = 1,
                                          .updates = updates,
                                          .n_updates = N_UPDATES};
    return message;
}

/* ---- long messages */

/* Sends a long message, and waits for the answer. False: the connection was closed. */
static bool is_heard(struct harbour *h, struct caller **ret)
{
    const struct coxi_message message = long_message();
    *ret = caller_join(coxi_ps_url(h->ps), &as_client);
    caller_send(*ret, &message, NULL, 0);
    return caller_hears(*ret);
}

static bool is_heard_again(void *arg)
{
    struct caller *caller;
    bool is = is_heard(arg, &caller);
    caller_close(caller);
    return is;
}

/* A connection keeps the memory of its longest message, so only so many may have any. */
TEST(ps_takes_long_messages_of_all_members_within_its_budget)
{
    static struct caller *callers[CALLERS];
    struct harbour h;
    size_t n = 0;
    harbour_open_with(&h, (struct coxi_ps_options){.memory_max = 1});
    while (n < CALLERS && is_heard(&h, &callers[n])) {
        n++;
    }
    assert_true(n > 4 && n < BUDGET / MESSAGE + 3);
    for (size_t i = 0; i < CALLERS; i++) {
        caller_close(callers[i]);
    }
    coxi_test_until(is_heard_again, &h, "a budget that is free again");
    harbour_close(&h);
}

/* ---- requests that wait for the disk */

struct slow {
    struct coxi_mutex lock;
    pthread_cond_t changed;
    bool open;
};

static void wait_until_open(void *arg, struct coxi_link *link,
                            const struct coxi_message *request)
{
    struct slow *slow = arg;
    (void)link;
    (void)request;
    coxi_lock(&slow->lock);
    while (!slow->open) {
        coxi_wait_for_end(&slow->changed, &slow->lock);
    }
    coxi_unlock(&slow->lock);
}

TEST(requests_that_wait_for_the_disk_are_within_the_budget)
{
    struct slow slow = {.lock = COXI_MUTEX_INIT, .changed = PTHREAD_COND_INITIALIZER};
    const struct coxi_message message = long_message();
    struct coxi_frame frame = {0};
    struct stock s;
    struct harbour h;
    struct coxi_payloads payloads;
    struct coxi_deferred *deferred;
    struct coxi_link *link;
    size_t n = 0;
    stock_open(&s);
    harbour_open(&h, harbour_ipc());
    assert_code(0, coxi_link_connect(coxi_ps_url(h.ps), NULL, 1000, &link));
    coxi_payloads_init(&payloads, s.store, 1);
    assert_code(
        0, coxi_deferred_new("test", wait_until_open, &slow, &payloads, &deferred));
    assert_true(coxi_message_encode(&message, &frame.meta, &frame.meta_len));
    while (n < CALLERS && coxi_deferred_add(deferred, link, &frame) == 0) {
        n++;
    }
    assert_int_equal(BUDGET / frame.meta_len, n);
    assert_code(COX_ENOMEM, coxi_deferred_add(deferred, link, &frame));
    coxi_lock(&slow.lock);
    slow.open = true;
    (void)pthread_cond_broadcast(&slow.changed);
    coxi_unlock(&slow.lock);
    coxi_deferred_free(deferred);
    assert_int_equal(0, atomic_load(&payloads.memory.used_bytes));
    coxi_link_unref(link);
    harbour_close(&h);
    stock_close(&s);
}

/* ---- commits in work */

/* Each update of a commit takes memory while it is prepared. */
TEST(commits_in_work_are_within_the_budget)
{
    struct stock s;
    struct coxi_memory work;
    struct coxi_buffer scratch = {0};
    bool duplicate;
    struct coxi_message message = long_message();
    stock_open(&s);
    coxi_memory_init(&work);
    work.max_bytes = MESSAGE;
    coxi_store_work_in(s.store, &work);
    message.commit.session = s.session;
    message.commit.incarnation = STOCK_INCARNATION;
    assert_code(COX_ENOMEM, coxi_store_commit(s.store, &message.commit, NULL, 0,
                                              &scratch, &duplicate));
    message.commit.n_updates = 1000;
    assert_code(COX_ENOENT, coxi_store_commit(s.store, &message.commit, NULL, 0,
                                              &scratch, &duplicate));
    assert_true(scratch.capacity > 0);
    assert_int_equal(scratch.capacity, atomic_load(&work.used_bytes));
    coxi_memory_free(&work, &scratch);
    assert_int_equal(0, atomic_load(&work.used_bytes));
    stock_close(&s);
}

/* ---- shards that travel */

static int never_asked(void *arg)
{
    (void)arg;
    return 0;
}

/* A session whose client has nowhere to put the shard of carry 1. */
static struct coxi_message give_up_of(uint64_t generation)
{
    struct coxi_message turn = {.kind = COXI_EXCHANGE};
    turn.exchange = (struct coxi_exchange){.session = {1, generation, 12},
                                           .carry = 1,
                                           .turn = 1,
                                           .code = COX_EIO,
                                           .message = "no room"};
    return turn;
}

TEST(shards_that_travel_are_within_the_budget_and_give_back_what_they_took)
{
    const struct coxi_message turn = give_up_of(2);
    struct stock s;
    struct harbour h;
    struct coxi_payloads payloads;
    struct coxi_carry *carry;
    struct coxi_file_source source;
    struct coxi_link *link;
    stock_open(&s);
    harbour_open(&h, harbour_ipc());
    assert_code(0, coxi_link_connect(coxi_ps_url(h.ps), NULL, 1000, &link));
    coxi_payloads_init(&payloads, s.store, 1);
    assert_code(0, coxi_payloads_hold(&payloads, BUDGET - 1000));
    for (int restores = 0; restores < 2; restores++) {
        assert_code(0, coxi_carry_new(restores == 1, &payloads, &carry));
        int r = coxi_carry_begin(carry, &run1, 1, never_asked, NULL);
        r = r == 0 ? coxi_carry_source(carry, BUDGET, &source) : r;
        assert_code(COX_ENOMEM, r);
        coxi_carry_end(carry, &run1, 1);
        coxi_payloads_drop(&payloads, BUDGET - 1000);
        assert_code(0, coxi_carry_begin(carry, &run1, 2, never_asked, NULL));
        assert_code(0, restores == 1 ? coxi_carry_source(carry, BUDGET, &source) : 0);
        assert_true(atomic_load(&payloads.memory.used_bytes) >= 4 << 20);
        /* the next client gives up a carry while this one is under way */
        coxi_carry_turn(carry, link, &turn, NULL, 0);
        coxi_carry_end(carry, &run1, 2);
        assert_int_equal(0, atomic_load(&payloads.memory.used_bytes));
        coxi_carry_free(carry);
        assert_code(0, coxi_payloads_hold(&payloads, BUDGET - 1000));
    }
    coxi_link_close(link, COX_ECLOSED, "the test is over");
    coxi_link_unref(link);
    harbour_close(&h);
    stock_close(&s);
}
