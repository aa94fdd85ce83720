/* The ps client: requests and their answers, without faults. */
#include "net/ps_round.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "common/sync.h"
#include "net/link_internal.h"
#include "net/ps_client_internal.h"
#include "tests/net/fake_ps.h"
#include "tests/test.h"

enum { WAIT_MS = 8000 };

static struct asked *many(struct client *client, size_t n)
{
    struct asked *asked = calloc(n, sizeof(*asked));
    assert_non_null(asked);
    for (size_t i = 0; i < n; i++) {
        asked_init(&asked[i], client);
    }
    return asked;
}

static void assert_pulled(const uint8_t *bytes, uint64_t variable, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != fake_ps_byte(variable, i)) {
            fail_msg("byte %zu of %zu of the answer is wrong", i, len);
        }
    }
}

TEST(ps_client_brings_every_request_its_own_answer)
{
    enum { N = 3000 };
    struct fake_ps ps;
    struct client client;
    fake_ps_start(&ps, "tcp://127.0.0.1:0", 1);
    client_open_to(&client, &ps);
    struct asked *asked = many(&client, N);
    for (size_t i = 0; i < N; i++) {
        assert_code(0, ask_count(&asked[i]));
    }
    for (size_t i = 0; i < N; i++) {
        asked_wait(&asked[i], 0);
        assert_int_equal(COXI_COUNTS, asked[i].kind);
        assert_int_equal(asked[i].request.id, asked[i].number);
    }
    assert_int_equal(N, fake_ps_messages(&ps));
    assert_int_equal(1, coxi_psc_incarnation(client.psc));
    assert_int_equal(FAKE_PS_INDEX, coxi_psc_index(client.psc));
    assert_string_equal(ps.url, coxi_psc_address(client.psc));
    client_close(&client);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(1, asked[i].n_done);
    }
    free(asked);
    fake_ps_stop(&ps);
}

/* ---- more requests than may be outstanding */

enum { OUTSTANDING = 4096, MORE = 6000 };

struct flood {
    struct asked *asked;
    atomic_int n_submitted;
    int code;
};

static void *submit_all(void *arg)
{
    struct flood *flood = arg;
    for (int i = 0; i < MORE && flood->code == 0; i++) {
        flood->code = ask_count(&flood->asked[i]);
        atomic_fetch_add(&flood->n_submitted, flood->code == 0);
    }
    return NULL;
}

static bool is_full(void *arg)
{
    return atomic_load(&((struct flood *)arg)->n_submitted) >= OUTSTANDING;
}

/* A ps that answers nothing, and a thread that asks it until the window is full. */
static pthread_t flood_begin(struct flood *flood, struct client *client,
                             struct fake_ps *ps)
{
    pthread_t thread;
    fake_ps_start(ps, NULL, 1);
    client_open_to(client, ps);
    fake_ps_set(ps, true, false);
    *flood = (struct flood){.asked = many(client, MORE)};
    assert_code(0, coxi_thread_start(&thread, "test:flood", submit_all, flood));
    coxi_test_until(is_full, flood, "the window being full");
    return thread;
}

TEST(ps_client_blocks_while_too_many_requests_are_unanswered)
{
    struct fake_ps ps;
    struct client client;
    struct flood flood;
    pthread_t thread = flood_begin(&flood, &client, &ps);
    (void)poll(NULL, 0, 50); /* time in which nothing should happen */
    assert_int_equal(OUTSTANDING, atomic_load(&flood.n_submitted));
    fake_ps_set(&ps, false, false);
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_int_equal(0, flood.code);
    for (int i = 0; i < MORE; i++) {
        asked_wait(&flood.asked[i], 0);
    }
    assert_int_equal(MORE, fake_ps_messages(&ps));
    client_close(&client);
    free(flood.asked);
    fake_ps_stop(&ps);
}

TEST(ps_client_ends_a_blocked_submission_when_the_ps_is_given_up)
{
    struct fake_ps ps;
    struct client client;
    struct flood flood;
    pthread_t thread = flood_begin(&flood, &client, &ps);
    coxi_psc_give_up(client.psc, "the test says so");
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_int_equal(COX_EPSLOST, flood.code);
    for (int i = 0; i < OUTSTANDING; i++) {
        asked_wait(&flood.asked[i], COX_EPSLOST);
    }
    /* the request was not accepted */
    assert_int_equal(0, flood.asked[OUTSTANDING].n_done);
    client_close(&client);
    free(flood.asked);
    fake_ps_stop(&ps);
}

TEST(ps_client_takes_any_number_of_requests_from_who_must_not_wait)
{
    struct fake_ps ps;
    struct client client;
    struct coxi_message message = {.kind = COXI_COUNT};
    fake_ps_start(&ps, NULL, 1);
    client_open_to(&client, &ps);
    fake_ps_set(&ps, true, false);
    struct asked *asked = many(&client, MORE);
    for (int i = 0; i < MORE; i++) {
        assert_code(
            0, coxi_psc_submit_now(client.psc, &message, &asked[i].request, i % 2));
    }
    coxi_psc_flush(client.psc);
    fake_ps_set(&ps, false, false);
    for (int i = 0; i < MORE; i++) {
        asked_wait(&asked[i], 0);
        assert_int_equal(asked[i].request.id, asked[i].number);
    }
    client_close(&client);
    free(asked);
    fake_ps_stop(&ps);
}

/* ---- payloads, and the connection that they take */

TEST(ps_client_sends_long_payloads_over_the_data_connection)
{
    static uint8_t values[300000];
    struct fake_ps ps;
    struct client client;
    struct asked small, large;
    fake_ps_start(&ps, "tcp://127.0.0.1:0", 1);
    client_open_to(&client, &ps);
    for (size_t i = 0; i < sizeof(values); i++) {
        values[i] = fake_ps_byte(9, i);
    }
    asked_init(&small, &client);
    assert_code(0, ask_commit(&small, values, 1000));
    asked_wait(&small, 0);
    assert_int_equal(COXI_COMMITTED, small.kind);
    fake_ps_look(&ps);
    assert_int_equal(1000, ps.commit_len);
    assert_int_equal(fake_ps_sum(values, 1000), ps.commit_sum);
    assert_int_equal(0, ps.n_hellos[COXI_CHANNEL_DATA]); /* not opened without need */
    asked_init(&large, &client);
    assert_code(0, ask_commit(&large, values, sizeof(values)));
    asked_wait(&large, 0);
    fake_ps_look(&ps);
    assert_int_equal(sizeof(values), ps.commit_len);
    assert_int_equal(fake_ps_sum(values, sizeof(values)), ps.commit_sum);
    assert_int_equal(1, ps.n_messages[COXI_CHANNEL_CONTROL]);
    assert_int_equal(1, ps.n_messages[COXI_CHANNEL_DATA]);
    assert_int_equal(1, ps.n_hellos[COXI_CHANNEL_CONTROL]);
    client_close(&client);
    fake_ps_stop(&ps);
}

static void pull(struct client *client, uint64_t variable, size_t len)
{
    struct asked asked;
    uint8_t *into = aligned_alloc(64, coxi_align(len, 64));
    assert_non_null(into);
    memset(into, 0, len);
    asked_init(&asked, client);
    assert_code(0, ask_pull(&asked, variable, into, len));
    asked_wait(&asked, 0);
    assert_int_equal(COXI_PULLED, asked.kind);
    assert_int_equal(len, asked.payload_len);
    assert_pulled(into, variable, len);
    if (len > (size_t)64 * 1024) { /* received there, not copied */
        assert_ptr_equal(into, asked.payload);
    }
    free(into);
}

TEST(ps_client_receives_an_answer_into_the_memory_of_the_request)
{
    struct fake_ps ps;
    struct client client;
    fake_ps_start(&ps, "tcp://127.0.0.1:0", 1);
    client_open_to(&client, &ps);
    pull(&client, 1, 8);
    pull(&client, 2, 5000);
    pull(&client, 3, 65536);
    fake_ps_look(&ps);
    assert_int_equal(0, ps.n_messages[COXI_CHANNEL_DATA]);
    pull(&client, 4, 65537);
    pull(&client, 5, 3000001);
    fake_ps_look(&ps);
    assert_int_equal(2, ps.n_messages[COXI_CHANNEL_DATA]);
    client_close(&client);
    fake_ps_stop(&ps);
}

TEST(ps_client_leaves_the_memory_alone_when_the_answer_has_another_length)
{
    struct fake_ps ps;
    struct client client;
    struct asked asked;
    static uint8_t into[100000];
    static const uint8_t zeros[sizeof(into)];
    fake_ps_start(&ps, NULL, 1);
    client_open_to(&client, &ps);
    asked_init(&asked, &client);
    struct coxi_pull_item item = {1, 0, sizeof(into) - 8, 0};
    struct coxi_message message = {.kind = COXI_PULL};
    message.pull.items = &item;
    message.pull.n_items = 1;
    asked.request.into = into;
    asked.request.into_len = asked.request.answer_len = sizeof(into);
    assert_code(0, coxi_psc_submit(client.psc, &message, &asked.request, false));
    asked_wait(&asked, 0);
    assert_int_equal(sizeof(into) - 8, asked.payload_len);
    assert_memory_equal(zeros, into, sizeof(into));
    client_close(&client);
    fake_ps_stop(&ps);
}

/* ---- later, batches, tell */

/* The thread that has received the greeting flushes the link after it has let waiters go.
 * True: it has done so. */
static bool is_flushed(void *arg)
{
    struct coxi_psc *psc = ((struct client *)arg)->psc;
    coxi_lock(&psc->lock);
    const struct coxi_link *link = psc->channels[COXI_CHANNEL_CONTROL].link;
    bool flushed = !atomic_load_explicit(&link->handling, memory_order_acquire);
    coxi_unlock(&psc->lock);
    return flushed;
}

TEST(ps_client_sends_later_requests_with_the_flush)
{
    struct fake_ps ps;
    struct client client;
    struct asked asked[10];
    struct coxi_message message = {.kind = COXI_COUNT};
    fake_ps_start(&ps, NULL, 1);
    client_open_to(&client, &ps);
    coxi_test_until(is_flushed, &client, "the end of the greeting");
    for (int i = 0; i < 10; i++) {
        asked_init(&asked[i], &client);
        assert_code(0, coxi_psc_submit(client.psc, &message, &asked[i].request, true));
    }
    assert_int_equal(0, fake_ps_messages(&ps));
    coxi_psc_flush(client.psc);
    for (int i = 0; i < 10; i++) {
        asked_wait(&asked[i], 0);
    }
    client_close(&client);
    assert_true(client.n_batches > 0);
    fake_ps_stop(&ps);
}

static bool heard_watermark(void *arg)
{
    struct fake_ps *ps = arg;
    coxi_lock(&ps->lock);
    bool heard = ps->watermark == 1234;
    coxi_unlock(&ps->lock);
    return heard;
}

TEST(ps_client_tells_what_has_no_answer)
{
    struct fake_ps ps;
    struct client client;
    struct coxi_message message = {.kind = COXI_WATERMARK};
    message.watermark.watermark = 1234;
    fake_ps_start(&ps, NULL, 1);
    client_open_to(&client, &ps);
    coxi_psc_tell(client.psc, &message);
    coxi_test_until(heard_watermark, &ps, "the watermark's arrival");
    client_close(&client);
    fake_ps_stop(&ps);
}

/* ---- calls */

static void take_counts(void *arg, const struct coxi_message *answer)
{
    *(uint64_t *)arg = answer->counts.all.commits;
}

TEST(ps_client_calls_and_returns_the_code_and_text_of_the_answer)
{
    struct fake_ps ps;
    struct client client;
    uint64_t number = 0;
    struct coxi_psc_request request = {0};
    struct coxi_message claim = {.kind = COXI_CLAIM};
    struct coxi_message count = {.kind = COXI_COUNT};
    fake_ps_start(&ps, NULL, 1);
    client_open_to(&client, &ps);
    assert_code(0,
                coxi_psc_call(client.psc, &claim, &request, COXI_STATUS, NULL, NULL));
    claim.claim.session.run = 14;
    assert_code(COX_EBUSY,
                coxi_psc_call(client.psc, &claim, &request, COXI_STATUS, NULL, NULL));
    assert_error_names("the claim says -14");
    assert_code(0, coxi_psc_call(client.psc, &count, &request, COXI_COUNTS, take_counts,
                                 &number));
    assert_int_equal(3, number);
    number = 0;
    assert_code(COX_EPROTO, coxi_psc_call(client.psc, &count, &request, COXI_STATUS,
                                          take_counts, &number));
    assert_int_equal(0, number);
    client_close(&client);
    fake_ps_stop(&ps);
}

TEST(a_round_says_of_each_call_how_it_has_ended)
{
    enum { N = 3 };
    struct fake_ps ps;
    struct client client;
    struct coxi_ps_round round;
    struct coxi_message count = {.kind = COXI_COUNT};
    struct coxi_ps_round_call calls[N] = {{.expect = COXI_COUNTS},
                                          {.expect = COXI_STATUS},
                                          {.expect = COXI_COUNTS, .code = 1}};
    fake_ps_start(&ps, NULL, 1);
    client_open_to(&client, &ps);
    coxi_ps_round_begin(&round);
    for (int i = 0; i < N; i++) {
        coxi_ps_round_add(&round, client.psc, &count, &calls[i]);
    }
    assert_code(COX_EPROTO, coxi_ps_round_end(&round));
    assert_int_equal(0, calls[0].code);
    assert_int_equal(COX_EPROTO, calls[1].code);
    assert_int_equal(0, calls[2].code);
    coxi_psc_give_up(client.psc, "for good");
    coxi_ps_round_begin(&round);
    coxi_ps_round_add(&round, client.psc, &count, &calls[0]);
    assert_code(COX_EPSLOST, coxi_ps_round_end(&round));
    assert_int_equal(COX_EPSLOST, calls[0].code);
    client_close(&client);
    fake_ps_stop(&ps);
}

TEST(ps_client_call_refuses_an_answer_of_another_length)
{
    struct fake_ps ps;
    struct client client;
    uint8_t into[64] = {0};
    struct coxi_pull_item item = {1, 0, 56, 0};
    struct coxi_message message = {.kind = COXI_PULL};
    struct coxi_psc_request request = {.into = into, .into_len = sizeof(into)};
    message.pull.items = &item;
    message.pull.n_items = 1;
    fake_ps_start(&ps, NULL, 1);
    client_open_to(&client, &ps);
    assert_code(COX_EPROTO,
                coxi_psc_call(client.psc, &message, &request, COXI_PULLED, NULL, NULL));
    assert_error_names("another number of bytes");
    item.count = sizeof(into);
    assert_code(0,
                coxi_psc_call(client.psc, &message, &request, COXI_PULLED, NULL, NULL));
    assert_pulled(into, 1, sizeof(into));
    client_close(&client);
    fake_ps_stop(&ps);
}

TEST(ps_client_refuses_a_request_that_cannot_be_encoded)
{
    struct fake_ps ps;
    struct client client;
    struct asked asked;
    struct coxi_message message = {.kind = COXI_CREATE};
    message.create.variable.rank = COXI_WIRE_RANK_MAX + 1;
    fake_ps_start(&ps, NULL, 1);
    client_open_to(&client, &ps);
    asked_init(&asked, &client);
    assert_code(COX_ELIMIT,
                coxi_psc_submit(client.psc, &message, &asked.request, false));
    assert_int_equal(0, asked.n_done);
    assert_code(0, ask_count(&asked)); /* the next request does not hold it up */
    asked_wait(&asked, 0);
    client_close(&client);
    fake_ps_stop(&ps);
}

/* ---- the first connection */

struct reason {
    struct client *client;
    const char *part;
};

/* The first attempts may not have ended at the first deadline. */
static bool wait_names(void *arg)
{
    struct reason *reason = arg;
    assert_code(COX_ETIMEDOUT, coxi_psc_wait(reason->client->psc, 20));
    return strstr(coxi_test_error(), reason->part) != NULL;
}

TEST(ps_client_wait_ends_at_its_deadline_with_the_reason)
{
    struct client client;
    char url[300];
    (void)snprintf(url, sizeof(url), "ipc://%s/nobody", coxi_test_dir());
    struct coxi_psc_options options = client_options(&client, url);
    struct reason reason = {&client, "cannot reach"};
    client_open(&client, &options);
    coxi_test_until(wait_names, &reason, "naming the reason");
    assert_error_names("ps 3");
    assert_error_names(url);
    assert_int_equal(0, coxi_psc_incarnation(client.psc));
    client_close(&client);
    assert_int_equal(0, client.n_lost);
}

TEST(ps_client_waits_for_a_ps_that_starts_later)
{
    struct fake_ps ps;
    struct client client;
    struct asked asked;
    char url[300];
    (void)snprintf(url, sizeof(url), "ipc://%s/later", coxi_test_dir());
    struct coxi_psc_options options = client_options(&client, url);
    options.reconnect_ms = 1; /* does not count before the first connection */
    client_open(&client, &options);
    asked_init(&asked, &client);
    assert_code(0, ask_count(&asked));
    assert_code(COX_ETIMEDOUT, coxi_psc_wait(client.psc, 50));
    fake_ps_start(&ps, url, 1);
    assert_code(0, coxi_psc_wait(client.psc, WAIT_MS));
    asked_wait(&asked, 0);
    client_close(&client);
    fake_ps_stop(&ps);
}

/* ---- given up */

static int n_in_reach; /* how often a ps was said to be within reach again */

static void count_out(void *arg, struct coxi_psc *psc, const char *text)
{
    struct client *client = arg;
    (void)psc;
    client->n_lost += text != NULL;
    n_in_reach += text == NULL;
}

static bool tick_both(void *arg)
{
    struct client *clients = arg;
    coxi_psc_tick(clients[0].psc);
    coxi_psc_tick(clients[1].psc);
    return clients[1].n_lost > 0;
}

/* The second client never reaches its ps, and reports that long after the first was
 * given up. */
TEST(ps_client_that_gave_up_a_ps_does_not_say_that_it_is_out_of_reach)
{
    struct fake_ps ps;
    struct client clients[2];
    char url[300];
    fake_ps_start(&ps, NULL, 1);
    (void)snprintf(url, sizeof(url), "ipc://%s/nobody", coxi_test_dir());
    for (int i = 0; i < 2; i++) {
        struct coxi_psc_options options =
            client_options(&clients[i], i == 0 ? ps.url : url);
        options.unreached_ms = 100;
        options.on_reach = count_out;
        options.on_lost = NULL;
        client_open(&clients[i], &options);
        if (i == 0) {
            assert_code(0, coxi_psc_wait(clients[0].psc, 5000));
            coxi_psc_give_up(clients[0].psc, "the run is over");
        }
    }
    coxi_test_until(tick_both, clients, "being told of the other");
    assert_int_equal(0, clients[0].n_lost);
    /* Nor does it say that the ps is within reach again. */
    coxi_psc_give_up(clients[1].psc, "the run is over");
    (void)tick_both(clients);
    assert_int_equal(0, n_in_reach);
    client_close(&clients[0]);
    client_close(&clients[1]);
    fake_ps_stop(&ps);
}
