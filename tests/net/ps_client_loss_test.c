/* The ps client: connections that break, and processes that are replaced. */
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

/* ---- connections that break */

TEST(ps_client_sends_again_what_a_broken_connection_left_unanswered)
{
    enum { N = 500, AT = 50, TIMES = 4 };
    struct fake_ps ps;
    struct client client;
    static struct asked asked[N];
    fake_ps_start(&ps, "tcp://127.0.0.1:0", 1);
    client_open_to(&client, &ps);
    fake_ps_break(&ps, AT, TIMES);
    for (int i = 0; i < N; i++) {
        asked_init(&asked[i], &client);
        assert_code(0, ask_count(&asked[i]));
    }
    for (int i = 0; i < N; i++) {
        asked_wait(&asked[i], 0);
        assert_int_equal(asked[i].request.id, asked[i].number);
    }
    client_close(&client);
    assert_int_equal(0, client.n_lost);
    for (int i = 0; i < N; i++) {
        assert_int_equal(1, asked[i].n_done);
    }
    fake_ps_stop(&ps);
    assert_int_equal(1 + TIMES, ps.n_hellos[COXI_CHANNEL_CONTROL]);
    assert_true(ps.n_messages[COXI_CHANNEL_CONTROL] >= N + TIMES);
}

TEST(ps_client_sends_a_long_payload_again_after_a_break)
{
    enum { LEN = 2000000 };
    struct fake_ps ps;
    struct client client;
    struct asked asked;
    uint8_t *values = malloc(LEN);
    assert_non_null(values);
    for (size_t i = 0; i < LEN; i++) {
        values[i] = fake_ps_byte(5, i);
    }
    fake_ps_start(&ps, "tcp://127.0.0.1:0", 1);
    client_open_to(&client, &ps);
    fake_ps_break(&ps, 1, 2);
    asked_init(&asked, &client);
    assert_code(0, ask_commit(&asked, values, LEN));
    asked_wait(&asked, 0);
    fake_ps_look(&ps);
    assert_int_equal(3, ps.n_messages[COXI_CHANNEL_DATA]);
    assert_int_equal(LEN, ps.commit_len);
    assert_int_equal(fake_ps_sum(values, LEN), ps.commit_sum);
    client_close(&client);
    assert_int_equal(1, asked.n_done);
    free(values);
    fake_ps_stop(&ps);
}

/* ---- another process at the address */

TEST(ps_client_loses_a_ps_that_was_restarted)
{
    enum { N = 20 };
    struct fake_ps ps, second;
    struct client client;
    static struct asked asked[N + 1];
    fake_ps_start(&ps, NULL, 1);
    struct coxi_psc_options options = client_options(&client, ps.url);
    options.same_incarnation = true;
    client_open(&client, &options);
    assert_code(0, coxi_psc_wait(client.psc, WAIT_MS));
    fake_ps_set(&ps, false, true);
    for (int i = 0; i < N; i++) {
        asked_init(&asked[i], &client);
        assert_code(0, ask_count(&asked[i]));
    }
    fake_ps_stop(&ps);
    fake_ps_start(&second, ps.url, 2);
    for (int i = 0; i < N; i++) {
        asked_wait(&asked[i], COX_EPSLOST);
        assert_non_null(strstr(asked[i].text, "restarted"));
    }
    assert_int_equal(1, client_times_lost(&client));
    assert_non_null(strstr(client.lost_text, "restarted"));
    asked_init(&asked[N], &client);
    assert_code(COX_EPSLOST, ask_count(&asked[N]));
    assert_error_names("restarted");
    assert_error_names(second.url);
    assert_code(COX_EPSLOST, coxi_psc_wait(client.psc, WAIT_MS));
    client_close(&client);
    assert_int_equal(1, client.n_lost);
    for (int i = 0; i < N; i++) {
        assert_int_equal(1, asked[i].n_done);
    }
    assert_int_equal(0, asked[N].n_done);
    assert_int_equal(0, fake_ps_messages(&second));
    fake_ps_stop(&second);
}

TEST(ps_client_goes_on_with_a_restarted_ps_where_that_is_no_matter)
{
    struct fake_ps ps, second;
    struct client client;
    struct asked asked;
    fake_ps_start(&ps, NULL, 1);
    client_open_to(&client, &ps);
    fake_ps_set(&ps, false, true);
    asked_init(&asked, &client);
    assert_code(0, ask_count(&asked));
    fake_ps_wait_messages(&ps, 1);
    fake_ps_stop(&ps);
    fake_ps_start(&second, ps.url, 2);
    asked_wait(&asked, 0);
    assert_int_equal(2, coxi_psc_incarnation(client.psc));
    assert_int_equal(1, fake_ps_messages(&second));
    client_close(&client);
    assert_int_equal(0, client.n_lost);
    fake_ps_stop(&second);
}

/* ---- a ps that is elsewhere from now on */

/* Asks `ps`, which does not answer; then makes the client follow to `second`. */
static void ask_and_follow(struct client *client, struct fake_ps *ps,
                           const struct fake_ps *second, uint64_t incarnation,
                           struct asked *asked)
{
    assert_code(0, coxi_psc_follow(client->psc, ps->url, 1));
    fake_ps_set(ps, false, true);
    asked_init(asked, client);
    assert_code(0, ask_count(asked));
    fake_ps_wait_messages(ps, 1);
    assert_code(0, coxi_psc_follow(client->psc, second->url, incarnation));
}

/* The old ps stays: only the move ends the connection to it. */
TEST(ps_client_follows_a_reborn_ps_and_ends_what_it_has_asked_the_old_one)
{
    struct fake_ps ps, second;
    struct client client;
    struct asked asked, after;
    fake_ps_start(&ps, NULL, 1);
    fake_ps_start(&second, NULL, 2);
    client_open_to(&client, &ps);
    ask_and_follow(&client, &ps, &second, 2, &asked);
    asked_wait(&asked, COX_EPSLOST);
    asked_init(&after, &client);
    assert_code(0, ask_count(&after));
    asked_wait(&after, 0);
    assert_string_equal(second.url, coxi_psc_address(client.psc));
    assert_int_equal(2, coxi_psc_incarnation(client.psc));
    assert_int_equal(1, fake_ps_messages(&ps));
    assert_int_equal(1, fake_ps_messages(&second));
    client_close(&client);
    assert_int_equal(0, client.n_lost);
    fake_ps_stop(&ps);
    fake_ps_stop(&second);
}

TEST(ps_client_asks_again_at_the_new_address_where_the_ps_is_the_same)
{
    struct fake_ps ps, second;
    struct client client;
    struct asked asked;
    fake_ps_start(&ps, NULL, 1);
    fake_ps_start(&second, NULL, 1);
    client_open_to(&client, &ps);
    ask_and_follow(&client, &ps, &second, 1, &asked);
    asked_wait(&asked, 0);
    assert_int_equal(1, fake_ps_messages(&second));
    client_close(&client);
    fake_ps_stop(&ps);
    fake_ps_stop(&second);
}

static bool is_told(void *arg)
{
    struct client *client = arg;
    coxi_psc_tick(client->psc);
    return coxi_psc_incarnation(client->psc) == 2;
}

/* A name that leads to the old process for a while, and then to the new one. */
TEST(ps_client_leaves_another_process_than_the_one_it_follows)
{
    struct fake_ps ps, second;
    struct client client;
    fake_ps_start(&ps, NULL, 1);
    fake_ps_start(&second, NULL, 2);
    client_open_to(&client, &ps);
    assert_code(0, coxi_psc_follow(client.psc, ps.url, 2));
    size_t scheme = strlen("ipc://");
    assert_int_equal(0, rename(second.url + scheme, ps.url + scheme));
    coxi_test_until(is_told, &client, "the connection to the new process");
    client_close(&client);
    fake_ps_stop(&ps);
    fake_ps_stop(&second);
}

static bool is_lost(void *arg)
{
    return client_times_lost(arg) > 0;
}

TEST(ps_client_loses_a_ps_that_does_not_come_back_in_time)
{
    struct fake_ps ps;
    struct client client;
    struct asked asked;
    fake_ps_start(&ps, NULL, 1);
    struct coxi_psc_options options = client_options(&client, ps.url);
    options.reconnect_ms = 30;
    client_open(&client, &options);
    assert_code(0, coxi_psc_wait(client.psc, WAIT_MS));
    fake_ps_set(&ps, false, true);
    asked_init(&asked, &client);
    assert_code(0, ask_count(&asked));
    fake_ps_stop(&ps);
    coxi_test_until(is_lost, &client, "the loss of the ps");
    asked_wait(&asked, COX_EPSLOST);
    assert_non_null(strstr(client.lost_text, "cannot reach"));
    client_close(&client);
    assert_int_equal(1, client.n_lost);
    assert_int_equal(1, asked.n_done);
}

/* ---- another daemon at the address */

TEST(ps_client_gives_up_where_another_ps_is_at_the_address)
{
    struct fake_ps ps;
    struct client client;
    struct asked asked;
    fake_ps_start(&ps, NULL, 1);
    struct coxi_psc_options options = client_options(&client, ps.url);
    options.index = FAKE_PS_INDEX + 1;
    client_open(&client, &options);
    assert_code(COX_ECONFLICT, coxi_psc_wait(client.psc, WAIT_MS));
    assert_error_names("ps 4");
    assert_error_names("another --index");
    coxi_test_until(is_lost, &client, "the loss of the ps");
    asked_init(&asked, &client);
    assert_code(COX_ECONFLICT, ask_count(&asked));
    client_close(&client);
    assert_int_equal(1, client.n_lost);
    assert_int_equal(0, fake_ps_messages(&ps));
    fake_ps_stop(&ps);
}

static void greet(struct end *end, struct coxi_link *link, uint32_t version)
{
    const void *meta;
    size_t len;
    struct coxi_message hello = {.kind = COXI_HELLO};
    hello.hello = (struct coxi_hello){.version = version,
                                      .role = COXI_ROLE_PS,
                                      .index = FAKE_PS_INDEX,
                                      .incarnation = 1};
    coxi_link_allow(link, COXI_WIRE_META_MAX, COXI_PAYLOAD_MAX);
    end_init(end);
    end_start(end, link, END_START);
    end_wait_frames(end, 1);
    assert_true(coxi_message_encode(&hello, &meta, &len));
    assert_code(0, end_send(end, meta, len, NULL, 0));
}

TEST(ps_client_tells_a_ps_of_another_version_and_gives_it_up)
{
    struct door door;
    struct end end;
    struct client client;
    struct coxi_message told;
    door_open(&door, true);
    struct coxi_psc_options options = client_options(&client, door.url);
    client_open(&client, &options);
    greet(&end, door_wait(&door), 42);
    assert_code(COX_EVERSION, coxi_psc_wait(client.psc, WAIT_MS));
    assert_error_names("42");
    end_wait_closed(&end, COX_ECLOSED);
    assert_int_equal(2, end.n_frames);
    assert_true(coxi_message_decode(end.frames[1].meta, end.frames[1].meta_len, &told));
    assert_int_equal(COXI_REFUSE, told.kind);
    assert_int_equal(COX_EVERSION, told.refuse.code);
    assert_non_null(strstr(told.refuse.message, "42"));
    client_end_psc(&client);
    assert_int_equal(1, client.n_lost);
    end_fini(&end);
    client_close(&client);
    door_close(&door);
}

/* ---- out of reach */

struct reach {
    int n_out;
    int n_in;
    char text[256];
};

static struct reach reach; /* on_reach, on the thread that ticks, writes it */

static void on_reach(void *arg, struct coxi_psc *psc, const char *text)
{
    (void)arg;
    (void)psc;
    reach.n_out += text != NULL;
    reach.n_in += text == NULL;
    if (text != NULL) {
        (void)snprintf(reach.text, sizeof(reach.text), "%s", text);
    }
}

static bool tick_until_out(void *arg)
{
    coxi_psc_tick(((struct client *)arg)->psc);
    return reach.n_out > 0;
}

static bool tick_until_in(void *arg)
{
    coxi_psc_tick(((struct client *)arg)->psc);
    return reach.n_in > 0;
}

static bool knows_why(void *arg)
{
    struct coxi_psc *psc = ((struct client *)arg)->psc;
    coxi_lock(&psc->lock);
    bool knows = strstr(psc->last_text, "another --index") != NULL;
    coxi_unlock(&psc->lock);
    return knows;
}

/* First another daemon is at the address, then the ps. */
TEST(ps_client_says_that_a_ps_is_out_of_reach_and_when_it_is_back)
{
    struct fake_ps other, ps;
    struct client client;
    struct asked asked, after;
    fake_ps_start(&other, NULL, 1);
    struct coxi_psc_options options = client_options(&client, other.url);
    options.index = FAKE_PS_INDEX + 1; /* not the index of `other` */
    options.unreached_ms = 100;
    options.on_reach = on_reach;
    reach = (struct reach){0};
    client_open(&client, &options);
    asked_init(&asked, &client);
    assert_code(0, ask_count(&asked));
    coxi_test_until(knows_why, &client, "the greeting of the other daemon");
    coxi_test_until(tick_until_out, &client, "being told");
    assert_non_null(strstr(reach.text, "another --index"));
    asked_wait(&asked, COX_EPSLOST);
    asked_init(&after, &client);
    assert_code(COX_EPSLOST, ask_count(&after)); /* at once */
    client_end_psc(&client);
    assert_int_equal(0, client.n_lost);
    client_close(&client);
    fake_ps_stop(&other);

    char url[300];
    (void)snprintf(url, sizeof(url), "ipc://%s/later", coxi_test_dir());
    options = client_options(&client, url);
    options.unreached_ms = 100;
    options.on_reach = on_reach;
    reach = (struct reach){0};
    client_open(&client, &options);
    coxi_test_until(tick_until_out, &client, "being told");
    fake_ps_start(&ps, url, 1);
    coxi_test_until(tick_until_in, &client, "being told that it is back");
    assert_code(0, ask_count(&after));
    asked_wait(&after, 0);
    assert_int_equal(1, reach.n_out);
    client_close(&client);
    fake_ps_stop(&ps);
}

/* ---- a ps that does not keep to the protocol */

static void send_pulled(struct end *end, uint64_t request, const void *bytes,
                        size_t len)
{
    struct coxi_message message = {.request = request, .kind = COXI_PULLED};
    struct iovec segment = {(void *)(uintptr_t)bytes, len};
    struct coxi_payload payload = {.segments = &segment, .n_segments = 1};
    assert_code(0, coxi_message_send(end->link, &message, &payload, false));
}

/* Otherwise `done` would be called while the other connection still fills `into`. */
TEST(ps_client_takes_no_answer_from_the_other_connection)
{
    enum { LEN = 100000 };
    static uint8_t wrong[64], right[LEN];
    struct door door;
    struct end control, data;
    struct client client;
    struct asked asked;
    uint8_t *into = malloc(LEN);
    assert_non_null(into);
    memset(right, 0x5a, LEN);
    door_open(&door, true);
    struct coxi_psc_options options = client_options(&client, door.url);
    client_open(&client, &options);
    greet(&control, door_wait(&door), COXI_WIRE_VERSION);
    assert_code(0, coxi_psc_wait(client.psc, WAIT_MS));
    asked_init(&asked, &client);
    assert_code(0, ask_pull(&asked, 1, into, LEN));
    greet(&data, door_wait(&door), COXI_WIRE_VERSION);
    end_wait_frames(&data, 2);
    send_pulled(&control, asked.request.id, wrong, sizeof(wrong));
    end_wait_closed(&control, COX_ECLOSED);
    assert_int_equal(0, asked.n_done);
    send_pulled(&data, asked.request.id, right, LEN);
    asked_wait(&asked, 0);
    assert_int_equal(LEN, asked.payload_len);
    assert_memory_equal(right, into, LEN);
    client_end_psc(&client);
    end_fini(&control);
    end_fini(&data);
    client_close(&client);
    door_close(&door);
    free(into);
}

TEST(ps_client_connects_again_after_garbage)
{
    static const char garbage[40] = "no message";
    struct door door;
    struct end first, second;
    struct client client;
    struct asked asked;
    door_open(&door, false);
    struct coxi_psc_options options = client_options(&client, door.url);
    client_open(&client, &options);
    greet(&first, door_wait(&door), COXI_WIRE_VERSION);
    assert_code(0, coxi_psc_wait(client.psc, WAIT_MS));
    asked_init(&asked, &client);
    assert_code(0, ask_count(&asked));
    end_wait_frames(&first, 2);
    assert_code(0, end_send(&first, garbage, sizeof(garbage), NULL, 0));
    end_wait_closed(&first, COX_ECLOSED);
    greet(&second, door_wait(&door), COXI_WIRE_VERSION);
    end_wait_frames(&second, 2); /* the same request again */
    assert_int_equal(first.frames[1].meta_len, second.frames[1].meta_len);
    assert_memory_equal(first.frames[1].meta, second.frames[1].meta,
                        second.frames[1].meta_len);
    client_end_psc(&client);
    asked_wait(&asked, COX_ECANCELLED);
    end_fini(&first);
    end_fini(&second);
    client_close(&client);
    door_close(&door);
}
