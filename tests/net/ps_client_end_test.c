/* The ps client: deadlines of requests, and the end of all requests. */
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "net/ps_client_internal.h"
#include "tests/net/ends.h"
#include "tests/net/fake_ps.h"
#include "tests/test.h"

enum { WAIT_MS = 8000 };

/* ---- deadlines */

static bool tick_until_done(void *arg)
{
    struct asked *asked = arg;
    coxi_psc_tick(asked->client->psc);
    coxi_lock(&asked->client->lock);
    bool is_done = asked->n_done > 0;
    coxi_unlock(&asked->client->lock);
    return is_done;
}

TEST(ps_client_ends_a_request_at_its_deadline_and_sends_the_others_again)
{
    struct fake_ps ps;
    struct client client;
    struct asked hasty, patient;
    fake_ps_start(&ps, NULL, 1);
    client_open_to(&client, &ps);
    fake_ps_set(&ps, false, true);
    asked_init(&patient, &client);
    asked_init(&hasty, &client);
    hasty.request.timeout_ms = 50;
    assert_code(0, ask_count(&patient));
    assert_code(0, ask_count(&hasty));
    fake_ps_wait_messages(&ps, 2);
    /* from now on it answers, but not these two requests */
    fake_ps_set(&ps, false, false);
    coxi_test_until(tick_until_done, &hasty, "the deadline");
    asked_wait(&hasty, COX_ETIMEDOUT);
    assert_non_null(strstr(hasty.text, "ps 3"));
    asked_wait(&patient, 0);
    client_close(&client);
    assert_int_equal(1, hasty.n_done);
    assert_int_equal(1, patient.n_done);
    assert_int_equal(0, client.n_lost);
    fake_ps_stop(&ps);
}

/* The payload and `into` of an expired request belong to the caller again. */
TEST(ps_client_lets_go_of_the_memory_of_an_expired_request)
{
    enum { LEN = 4000000 };
    struct fake_ps ps;
    struct client client;
    struct asked pulled, committed;
    fake_ps_start(&ps, NULL, 1);
    client_open_to(&client, &ps);
    fake_ps_set(&ps, true, false);
    asked_init(&pulled, &client);
    asked_init(&committed, &client);
    pulled.request.timeout_ms = committed.request.timeout_ms = 30;
    uint8_t *into = malloc(LEN);
    uint8_t *values = calloc(1, LEN);
    assert_non_null(into);
    assert_non_null(values);
    assert_code(0, ask_pull(&pulled, 1, into, LEN));
    assert_code(0, ask_commit(&committed, values, LEN));
    coxi_test_until(tick_until_done, &pulled, "the deadline of a pull");
    coxi_test_until(tick_until_done, &committed, "the deadline of a commit");
    free(into); /* with ASan: neither is used any more */
    free(values);
    fake_ps_set(&ps, false, false);
    asked_wait(&pulled, COX_ETIMEDOUT);
    asked_wait(&committed, COX_ETIMEDOUT);
    struct asked after;
    asked_init(&after, &client);
    assert_code(0, ask_count(&after));
    asked_wait(&after, 0);
    client_close(&client);
    fake_ps_stop(&ps);
}

TEST(ps_client_ends_a_request_at_its_deadline_while_there_is_no_ps)
{
    struct client client;
    struct asked asked;
    char url[300];
    (void)snprintf(url, sizeof(url), "ipc://%s/nobody", coxi_test_dir());
    struct coxi_psc_options options = client_options(&client, url);
    options.request_ms = 20;
    client_open(&client, &options);
    asked_init(&asked, &client);
    assert_code(0, ask_count(&asked));
    coxi_test_until(tick_until_done, &asked, "the deadline");
    asked_wait(&asked, COX_ETIMEDOUT);
    client_close(&client);
    assert_int_equal(1, asked.n_done);
}

static bool is_expired(void *arg)
{
    struct asked *asked = arg;
    coxi_psc_tick(asked->client->psc);
    return coxi_now_ms() > asked->request.deadline_ms;
}

/* A request that expired while there was no connection must not be sent over the next
 * one, because that ps may never answer. */
TEST(ps_client_does_not_send_a_request_whose_deadline_has_passed)
{
    for (int round = 0; round < 4; round++) {
        struct fake_ps ps;
        struct client client;
        struct asked asked, after;
        char url[300];
        (void)snprintf(url, sizeof(url), "ipc://%s/late-%d", coxi_test_dir(), round);
        struct coxi_psc_options options = client_options(&client, url);
        client_open(&client, &options);
        assert_code(COX_ETIMEDOUT, coxi_psc_wait(client.psc, 100)); /* long back-off */
        asked_init(&asked, &client);
        asked.request.timeout_ms = 1;
        assert_code(0, ask_count(&asked));
        coxi_test_until(is_expired, &asked, "the deadline");
        coxi_psc_tick(client.psc);
        fake_ps_start(&ps, url, 1);
        fake_ps_set(&ps, false, true);
        assert_code(0, coxi_psc_wait(client.psc, WAIT_MS));
        coxi_test_until(tick_until_done, &asked, "the end of the expired request");
        asked_wait(&asked, COX_ETIMEDOUT);
        fake_ps_set(&ps, false, false);
        asked_init(&after, &client);
        assert_code(0, ask_count(&after));
        asked_wait(&after, 0);
        assert_int_equal(1, fake_ps_messages(&ps));
        client_close(&client);
        fake_ps_stop(&ps);
    }
}

/* ---- giving up, closing */

static void ask_both_ways(struct client *client, struct asked *asked, size_t n,
                          uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < n; i++) {
        asked_init(&asked[i], client);
        if (i % 3 == 0) {
            assert_code(0, ask_count(&asked[i]));
        } else if (i % 3 == 1) {
            assert_code(0, ask_commit(&asked[i], bytes, len));
        } else {
            assert_code(0, ask_pull(&asked[i], i, bytes, len));
        }
    }
}

TEST(ps_client_ends_every_request_when_the_ps_is_given_up)
{
    enum { N = 30, LEN = 100000 };
    static uint8_t bytes[LEN];
    static struct asked asked[N];
    struct fake_ps ps;
    struct client client;
    fake_ps_start(&ps, NULL, 1);
    client_open_to(&client, &ps);
    fake_ps_set(&ps, false, true);
    ask_both_ways(&client, asked, N, bytes, LEN);
    coxi_psc_give_up(client.psc, "its machine was taken away");
    for (int i = 0; i < N; i++) {
        asked_wait(&asked[i], COX_EPSLOST);
        assert_non_null(strstr(asked[i].text, "its machine was taken away"));
    }
    struct asked after;
    asked_init(&after, &client);
    assert_code(COX_EPSLOST, ask_count(&after));
    assert_error_names("its machine was taken away");
    client_close(&client);
    for (int i = 0; i < N; i++) {
        assert_int_equal(1, asked[i].n_done);
    }
    assert_int_equal(0, after.n_done);
    fake_ps_stop(&ps);
}

static void close_with_pending(bool waiting)
{
    enum { N = 30, LEN = 1000000 };
    static uint8_t bytes[LEN];
    static struct asked asked[N];
    struct fake_ps ps;
    struct client client;
    fake_ps_start(&ps, waiting ? NULL : "tcp://127.0.0.1:0", 1);
    client_open_to(&client, &ps);
    fake_ps_set(&ps, waiting, true);
    if (waiting) { /* long ones would block: nothing is read */
        ask_both_ways(&client, asked, N, bytes, 1000);
    } else {
        ask_both_ways(&client, asked, N, bytes, LEN);
    }
    client_end_psc(&client);
    for (int i = 0; i < N; i++) {
        asked_wait(&asked[i], COX_ECANCELLED);
    }
    assert_int_equal(0, client.n_lost);
    client_close(&client);
    fake_ps_stop(&ps);
}

TEST(ps_client_ends_every_request_once_when_it_closes)
{
    close_with_pending(false);
    close_with_pending(true);
}

TEST(ps_client_closes_with_requests_that_were_never_sent)
{
    struct client client;
    struct asked asked;
    char url[300];
    (void)snprintf(url, sizeof(url), "ipc://%s/nobody", coxi_test_dir());
    struct coxi_psc_options options = client_options(&client, url);
    client_open(&client, &options);
    asked_init(&asked, &client);
    assert_code(0, ask_count(&asked));
    client_end_psc(&client);
    asked_wait(&asked, COX_ECANCELLED);
    client_close(&client);
    coxi_psc_close(NULL);
}
