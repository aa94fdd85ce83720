/* A daemon that dials: it serves the peer that it reaches, and dials again when that
 * peer is gone. */
#include <stdatomic.h>

#include "net/server.h"
#include "tests/net/count_daemon.h"
#include "tests/net/ends.h"
#include "tests/test.h"

/* Opens a daemon that dials `url`. */
static void dialler_open(struct count_daemon *daemon, const char *url)
{
    struct coxi_server_options options = {
        .dial = url,
        .self = {.role = COXI_ROLE_WORKER, .index = 5, .name = "anna"},
        .peer_timeout_ms = 60000,
        .events = &count_events,
        .arg = daemon,
    };
    *daemon = (struct count_daemon){0};
    assert_code(0, coxi_server_open(&options, &daemon->server));
    assert_string_equal(url, coxi_server_url(daemon->server));
    coxi_server_start(daemon->server);
}

static void take(struct end *end, struct door *door, enum coxi_channel channel)
{
    struct coxi_link *link = door_wait(door);
    coxi_link_allow(link, COXI_WIRE_META_MAX, 0);
    end_init(end);
    end_start(end, link, END_START);
    end_wait_frames(end, 1);
    struct coxi_message hello = count_message(end, 0);
    assert_int_equal(COXI_HELLO, hello.kind);
    assert_int_equal(COXI_ROLE_WORKER, hello.hello.role);
    assert_int_equal(channel, hello.hello.channel);
    assert_string_equal("anna", hello.hello.name);
}

static void greet(struct end *end, uint32_t index)
{
    struct coxi_hello hello = {.role = COXI_ROLE_CLIENT, .index = index};
    assert_code(0, coxi_hello_send(end->link, &hello));
}

TEST(server_that_dials_serves_its_peer_and_dials_again_when_that_is_gone)
{
    struct count_daemon daemon;
    struct door door;
    struct end end;
    door_open(&door, true);
    dialler_open(&daemon, door.url);
    for (int i = 1; i <= 3; i++) {
        take(&end, &door, COXI_CHANNEL_CONTROL);
        greet(&end, 21);
        count_client_ask(&end, 21, 10);
        assert_int_equal(i, atomic_load(&daemon.n_hellos));
        end_fini(&end);
    }
    coxi_server_free(daemon.server);
    assert_int_equal(30, atomic_load(&daemon.n_messages));
    assert_int_equal(3, atomic_load(&daemon.n_closed));
    door_close(&door);
}

TEST(server_that_dials_goes_over_to_another_address)
{
    struct count_daemon daemon = {0};
    struct door doors[2];
    struct end ends[2];
    const struct coxi_server_options options = {
        .dials = true,
        .self = {.role = COXI_ROLE_WORKER, .index = 5, .name = "anna"},
        .peer_timeout_ms = 60000,
        .events = &count_events,
        .arg = &daemon,
    };
    door_open(&doors[0], true);
    door_open(&doors[1], true);
    assert_code(0, coxi_server_open(&options, &daemon.server));
    coxi_server_start(daemon.server);
    assert_string_equal("", coxi_server_url(daemon.server));
    for (int i = 0; i < 2; i++) {
        assert_code(0, coxi_server_redial(daemon.server, doors[i].url));
        assert_string_equal(doors[i].url, coxi_server_url(daemon.server));
        take(&ends[i], &doors[i], COXI_CHANNEL_CONTROL);
        greet(&ends[i], 21);
        count_client_ask(&ends[i], 21, 10);
        /* the same address again changes nothing */
        assert_code(0, coxi_server_redial(daemon.server, doors[i].url));
        count_client_ask(&ends[i], 21, 10);
    }
    end_wait_closed(&ends[0], COX_ECLOSED);
    end_fini(&ends[0]);
    end_fini(&ends[1]);
    coxi_server_free(daemon.server);
    assert_int_equal(2, atomic_load(&daemon.n_hellos));
    door_close(&doors[0]);
    door_close(&doors[1]);
}

TEST(server_that_dials_tells_a_peer_that_it_does_not_want_and_dials_again)
{
    struct count_daemon daemon;
    struct door door;
    struct end end;
    door_open(&door, false);
    dialler_open(&daemon, door.url);
    take(&end, &door, COXI_CHANNEL_CONTROL);
    greet(&end, COUNT_REFUSED_INDEX);
    end_wait_closed(&end, COX_ECLOSED);
    assert_int_equal(COXI_REFUSE, count_message(&end, 1).kind);
    end_fini(&end);
    take(&end, &door, COXI_CHANNEL_CONTROL);
    greet(&end, 1);
    count_client_ask(&end, 1, 1);
    coxi_server_free(daemon.server);
    assert_int_equal(1, atomic_load(&daemon.n_closed));
    end_fini(&end);
    door_close(&door);
}

TEST(server_that_is_told_to_dial_no_more_serves_the_connection_there_is)
{
    struct count_daemon daemon;
    struct door door;
    struct end end;
    count_warm_up();
    int before = coxi_test_threads();
    door_open(&door, true);
    dialler_open(&daemon, door.url);
    take(&end, &door, COXI_CHANNEL_CONTROL);
    greet(&end, 2);
    coxi_server_dial_stop(daemon.server);
    count_client_ask(&end, 2, 10);
    end_fini(&end);
    coxi_test_until(coxi_test_has_threads, &before, "the end of the one that dials");
    assert_int_equal(1, door.n_accepted);
    coxi_server_free(daemon.server);
    door_close(&door);
}

TEST(server_that_reaches_nobody_stops_all_the_same)
{
    struct count_daemon daemon;
    struct door door;
    door_open(&door, true);
    coxi_listener_close(door.listener);
    door.listener = NULL;
    dialler_open(&daemon, door.url);
    coxi_server_free(daemon.server);
    assert_int_equal(0, atomic_load(&daemon.n_hellos));
    door_close(&door);
}

TEST(server_dials_for_data_when_the_peer_wants_that)
{
    struct count_daemon daemon;
    struct door door;
    struct end control, data;
    struct coxi_message want = {.kind = COXI_WANT_DATA};
    door_open(&door, true);
    dialler_open(&daemon, door.url);
    take(&control, &door, COXI_CHANNEL_CONTROL);
    greet(&control, 3);
    assert_code(0, coxi_message_send(control.link, &want, NULL, false));
    take(&data, &door, COXI_CHANNEL_DATA);
    greet(&data, 3);
    count_client_ask(&data, 3, 10);
    count_client_ask(&control, 3, 10);
    end_fini(&data);
    count_client_ask(&control, 3, 1);

    /* If the data connection cannot be made, the session begins anew. */
    coxi_listener_close(door.listener);
    door.listener = NULL;
    assert_code(0, coxi_message_send(control.link, &want, NULL, false));
    end_wait_closed(&control, COX_ECLOSED);
    coxi_server_free(daemon.server);
    end_fini(&control);
    door_close(&door);
}

TEST(server_dials_for_data_a_few_times_at_most)
{
    struct count_daemon daemon;
    struct door door;
    struct end control;
    struct coxi_message want = {.kind = COXI_WANT_DATA};
    door_open(&door, true);
    dialler_open(&daemon, door.url);
    take(&control, &door, COXI_CHANNEL_CONTROL);
    greet(&control, 4);
    for (int i = 0; i < 9; i++) {
        assert_code(0, coxi_message_send(control.link, &want, NULL, false));
    }
    end_wait_closed(&control, COX_ECLOSED);
    coxi_server_free(daemon.server);
    assert_int_equal(9, atomic_load(&daemon.n_messages));
    end_fini(&control);
    door_close(&door);
}
