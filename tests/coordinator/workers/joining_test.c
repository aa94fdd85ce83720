/* Workers that dial the client: they join at any time, and return under their names. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "net/message.h"
#include "tests/coordinator/fake_worker.h"
#include "tests/test.h"

enum { COUNT = 4000 };

TEST(client_without_workers_opens_and_has_one_join)
{
    struct yard yard;
    struct program worker;
    yard_open(&yard, NULL);
    assert_int_equal(0, yard_stats(&yard).workers);
    assert_string_equal(yard.listen, cox_listen_address(yard.crew.c));
    yard_count(&yard, 10);
    yard_worker(&yard, &worker, "anna");
    assert_code(0, cox_join(yard.crew.c, 8000));
    assert_int_equal(10, crew_read(&yard.crew, yard.counter));
    assert_int_equal(1, yard_stats(&yard).workers_ready);
    assert_int_equal(0, yard_where(&yard, 0));
    yard_close(&yard);
    yard_kill(&worker);
}

TEST(worker_joins_while_another_is_busy_and_does_the_rest)
{
    struct yard yard;
    struct program workers[2];
    struct crew_hold hold;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_future *future = NULL;
    struct cox_call call = COX_CALL_INIT;
    options.prefetch = 1;
    yard_open(&yard, &options);
    yard_worker(&yard, &workers[0], "anna");
    crew_hold(&hold, &yard.crew, "hold_and_count", false);
    crew_hold_wait(&hold);
    /* The first worker gets one of these in advance, but cannot run it, because its
     * step is held. */
    yard_count(&yard, 100);
    call.only_worker = 2;
    assert_code(COX_EINVAL,
                cox_schedule(yard.crew.c, crew_function(&yard.crew, "number_off"),
                             &call, &future));
    assert_error_names("only_worker is 2, but there is no worker 1: there are 1");
    yard_worker(&yard, &workers[1], NULL);
    yard_wait_ready(&yard, 2);
    assert_int_equal(1, yard_where(&yard, 2));
    crew_hold_release(&hold);
    assert_code(0, cox_join(yard.crew.c, 8000));
    assert_int_equal(102, crew_read(&yard.crew, yard.counter));
    assert_int_equal(0, yard_stats(&yard).workers_lost);
    yard_close(&yard);
    yard_kill(&workers[0]);
    yard_kill(&workers[1]);
}

/* First only its step process dies, and the supervisor starts another one; then both
 * die, and the test starts the worker again. */
TEST(worker_returns_under_its_name_with_its_index_and_counters_are_right)
{
    struct yard yard;
    struct program workers[3];
    yard_open(&yard, NULL);
    yard_worker(&yard, &workers[0], "anna");
    yard_wait_ready(&yard, 1);
    yard_worker(&yard, &workers[1], "berta");
    yard_wait_ready(&yard, 2);
    yard_count(&yard, COUNT);
    pid_t pid = yard_step_process(&workers[1], 0);
    crew_kill(pid);
    (void)yard_step_process(&workers[1], pid);
    yard_wait_lost(&yard, 1);
    yard_wait_ready(&yard, 2);
    yard_count(&yard, COUNT);
    yard_kill(&workers[1]);
    yard_worker(&yard, &workers[1], "berta");
    yard_wait_lost(&yard, 2);
    yard_wait_ready(&yard, 2);
    assert_int_equal(2, yard_stats(&yard).workers);
    assert_int_equal(1, yard_where(&yard, 2));

    /* Under another name it counts as another worker. */
    yard_count(&yard, COUNT);
    yard_kill(&workers[1]);
    yard_worker(&yard, &workers[2], "clara");
    assert_code(0, cox_join(yard.crew.c, 20000));
    yard_wait_lost(&yard, 3);
    yard_wait_ready(&yard, 2);
    assert_int_equal(3, yard_stats(&yard).workers);
    assert_int_equal(2, yard_where(&yard, 3));
    assert_int_equal(3 * COUNT + 2, crew_read(&yard.crew, yard.counter));
    yard_close(&yard);
    yard_kill(&workers[0]);
    yard_kill(&workers[2]);
}

TEST(second_process_of_a_name_is_refused_until_the_first_is_lost)
{
    struct yard yard;
    struct program workers[2];
    yard_open(&yard, NULL);
    yard_worker(&yard, &workers[0], "anna");
    yard_wait_ready(&yard, 1);
    struct coxi_hello hello = fake_worker_hello("anna", 7);
    for (int i = 0; i < 3; i++) {
        struct caller *second = caller_open(cox_listen_address(yard.crew.c), &hello);
        caller_expect_refusal(second, COX_EEXIST, "'anna'");
        caller_close(second);
    }
    yard_worker(&yard, &workers[1], "anna");
    yard_count(&yard, 100);
    assert_code(0, cox_join(yard.crew.c, 8000));
    assert_int_equal(0, yard_stats(&yard).workers_lost);
    assert_int_equal(1, yard_stats(&yard).workers);
    yard_kill(&workers[0]);
    assert_int_equal(0, yard_where(&yard, 0));
    assert_int_equal(1, yard_stats(&yard).workers_lost);
    assert_int_equal(1, yard_stats(&yard).workers);
    yard_close(&yard);
    yard_kill(&workers[1]);
}

TEST(worker_waits_for_its_client_and_serves_the_next_one)
{
    struct yard yard;
    struct program worker;
    yard_open(&yard, NULL);
    yard_close_client(&yard);
    assert_int_not_equal(0, access(yard.listen + strlen("ipc://"), F_OK));
    yard_worker(&yard, &worker, "anna");
    program_wait_printed(&worker, "event=not_reached");
    for (int i = 0; i < 3; i++) {
        yard_open_client(&yard, NULL);
        yard_count(&yard, 10);
        assert_code(0, cox_join(yard.crew.c, 8000));
        assert_int_equal(10, crew_read(&yard.crew, yard.counter));
        if (i < 2) {
            yard_close_client(&yard);
        }
    }
    yard_close(&yard);
    yard_kill(&worker);
}

/* One worker that the cluster lists, and one that dials. */
TEST(listed_workers_and_those_that_dial_are_one_crew)
{
    struct yard yard;
    struct crew crew;
    struct program worker;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_stats stats = COX_STATS_INIT;
    options.listen = "127.0.0.1:0";
    (void)rig_key();
    crew_open(&crew, 1, 1, "hold", &options);
    assert_non_null(strstr(cox_listen_address(crew.c), "tcp://127.0.0.1:"));
    assert_null(strstr(cox_listen_address(crew.c), ":0"));
    (void)crew_counter(&crew, "c0");
    yard = (struct yard){.crew = crew};
    yard_worker(&yard, &worker, "anna");
    yard_wait_ready(&yard, 2);
    assert_int_equal(0, yard_where(&yard, 1));
    assert_int_equal(1, yard_where(&yard, 2));
    assert_code(0, cox_stats(crew.c, &stats));
    assert_int_equal(2, stats.workers);
    crew_close(&crew);
    yard_kill(&worker);
}

TEST(open_waits_for_as_many_workers_as_are_wanted_whoever_dials)
{
    struct yard yard;
    struct program workers[2];
    struct cox_coordinator *c = NULL;
    struct cox_options options = COX_OPTIONS_INIT;
    yard_open(&yard, NULL);
    yard_close_client(&yard);
    options.listen = yard.listen;
    options.min_workers = 2;
    options.open_timeout_ms = 2000;
    assert_code(COX_ETIMEDOUT, cox_open(yard.cluster, &options, &c));
    assert_error_names("0 of 2 workers");
    assert_error_names(yard.listen);
    yard_worker(&yard, &workers[0], "anna");
    yard_worker(&yard, &workers[1], "berta");
    options.open_timeout_ms = 20000;
    yard_open_client(&yard, &options);
    assert_int_equal(2, yard_stats(&yard).workers);
    yard_close(&yard);
    yard_kill(&workers[0]);
    yard_kill(&workers[1]);
}

/* ---- the address at which the client listens */

static void assert_not_listening(const struct yard *yard, const char *listen,
                                 const char *named)
{
    struct cox_coordinator *c = NULL;
    struct cox_options options = COX_OPTIONS_INIT;
    options.listen = listen;
    assert_code(COX_EADDRESS, cox_open(yard->cluster, &options, &c));
    assert_error_names(named);
    assert_null(c);
}

TEST(open_says_what_is_wrong_with_the_address_to_listen_at)
{
    struct yard yard;
    yard_open(&yard, NULL);
    assert_null(cox_listen_address(NULL));
    assert_not_listening(&yard, "nonsense", "'nonsense'");
    assert_not_listening(&yard, "", "''");
    assert_not_listening(&yard, "tcp://127.0.0.1", "tcp://127.0.0.1");
    assert_not_listening(&yard, "ipc:///no/such/directory/client", "/no/such");
    assert_not_listening(&yard, "tls+tcp://host:7", "write tcp://host:7");
    assert_not_listening(&yard, yard.listen, "in use");
    yard_close(&yard);
}

/* Other users of this host reach loopback, too. */
TEST(a_client_without_a_key_listens_on_no_tcp_address)
{
    static const char *const addresses[] = {"0.0.0.0:0", "tcp://127.0.0.1:0",
                                            "tcp://127.example.org:0"};
    static const char *const named[] = {"pose as a worker", "coxswain key new",
                                        "key_file", "ipc:///"};
    struct yard yard;
    yard_open(&yard, NULL);
    assert_int_equal(0, unsetenv("COX_KEY_FILE"));
    for (size_t i = 0; i < 3 * 4; i++) {
        assert_not_listening(&yard, addresses[i / 4], named[i % 4]);
    }
    yard_close(&yard);
}

TEST(client_that_listens_nowhere_has_no_address)
{
    struct crew crew;
    crew_open(&crew, 1, 1, NULL, NULL);
    assert_null(cox_listen_address(crew.c));
    crew_close(&crew);
}

/* ---- messages between the client and peers that dial it */

TEST(client_refuses_who_is_no_worker_of_its_version_with_a_name)
{
    struct yard yard;
    char longest[140];
    char text[64];
    yard_open(&yard, NULL);
    const char *address = cox_listen_address(yard.crew.c);
    struct coxi_hello hello = fake_worker_hello("anna", 7);
    hello.role = COXI_ROLE_PS;
    struct caller *caller = caller_open(address, &hello);
    caller_expect_refusal(caller, COX_EREFUSED, "only workers");
    caller_close(caller);

    struct coxi_message other = {.kind = COXI_HELLO,
                                 .hello = fake_worker_hello("anna", 7)};
    other.hello.version = COXI_WIRE_VERSION + 6;
    caller = caller_open(address, NULL);
    caller_send(caller, &other, NULL, 0);
    (void)snprintf(text, sizeof(text), "version %d meets version %d",
                   COXI_WIRE_VERSION + 6, COXI_WIRE_VERSION);
    caller_expect_refusal(caller, COX_EVERSION, text);
    caller_close(caller);

    static const char *const names[] = {"", "two words", "a\"b", "tab\t", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        hello = fake_worker_hello(names[i], 7);
        caller = caller_open(address, &hello);
        caller_expect_refusal(caller, COX_EINVAL, "name");
        caller_close(caller);
    }
    memset(longest, 'a', sizeof(longest));
    longest[COXI_WIRE_NAME_MAX] = '\0';
    hello = fake_worker_hello(longest, 7);
    caller_close(caller_join(address, &hello));

    hello = fake_worker_hello("nobody", 7);
    hello.channel = COXI_CHANNEL_DATA;
    caller = caller_open(address, &hello);
    caller_expect_refusal(caller, COX_EREFUSED, "data connection of worker 'nobody'");
    caller_close(caller);
    yard_close(&yard);
}

/* A peer that sends heartbeats, but never greets. */
struct lurker {
    struct coxi_link *link;
    struct coxi_links *links;
    atomic_int code; /* why its connection ended; 0 while it is open */
};

static int on_frame(void *arg, struct coxi_link *link, const struct coxi_frame *frame)
{
    (void)arg;
    (void)link;
    (void)frame;
    return COX_EPROTO; /* the client does not speak first */
}

static void on_close(void *arg, struct coxi_link *link, int code, const char *text)
{
    (void)link;
    (void)text;
    atomic_store(&((struct lurker *)arg)->code, code);
}

static const struct coxi_link_events lurker_events = {.on_frame = on_frame,
                                                      .on_close = on_close};

static bool is_sent_away(void *arg)
{
    struct lurker *lurker = arg;
    coxi_links_tick(lurker->links);
    return atomic_load(&lurker->code) == COX_ECLOSED;
}

TEST(client_sends_away_who_does_not_say_who_it_is)
{
    struct yard yard;
    struct lurker lurker = {0};
    struct cox_options options = COX_OPTIONS_INIT;
    struct coxi_key key;
    options.peer_timeout_ms = 400;
    yard_open(&yard, &options);
    assert_code(0, coxi_key_open(NULL, NULL, &key));
    const struct coxi_guard guard = {.key = key, .self = {.role = COXI_ROLE_WORKER}};
    assert_code(0, coxi_link_connect(cox_listen_address(yard.crew.c), &guard, 8000,
                                     &lurker.link));
    assert_code(0, coxi_links_new(800, &lurker.links));
    coxi_link_listen_to(lurker.link, &lurker_events, &lurker);
    coxi_links_add(lurker.links, lurker.link);
    coxi_link_start(lurker.link);
    coxi_test_until(is_sent_away, &lurker, "the end of one who says nothing");
    yard_close(&yard);
    coxi_link_unref(lurker.link);
    coxi_links_free(lurker.links);
}

TEST(worker_that_dials_again_takes_the_place_of_its_own_dead_connection)
{
    struct yard yard;
    struct coxi_closure_head head[8];
    struct cox_future *future;
    yard_open(&yard, NULL);
    struct caller *first = fake_worker(&yard, "anna", 7, 0);
    fake_worker_accept(first, 0);
    yard_wait_ready(&yard, 1);
    assert_code(0, cox_schedule(yard.crew.c, crew_function(&yard.crew, "nothing"), NULL,
                                &future));
    assert_int_equal(1, fake_worker_expect(first, head));
    assert_int_equal(1, head->attempt);
    struct caller *again = fake_worker(&yard, "anna", 7, 0);
    caller_expect_end(first);
    fake_worker_accept(again, 0);
    assert_int_equal(1, fake_worker_expect(again, head));
    assert_int_equal(2, head->attempt);
    fake_worker_answer(again, head, 0);
    assert_code(0, cox_future_wait(future, 8000));
    cox_future_free(future);
    struct cox_stats stats = yard_stats(&yard);
    assert_int_equal(1, stats.workers);
    assert_int_equal(1, stats.workers_lost);
    assert_int_equal(1, stats.put_back);
    caller_close(first);
    caller_close(again);
    yard_close(&yard);
}

TEST(client_asks_for_a_data_connection_and_takes_it_of_that_process_only)
{
    struct yard yard;
    size_t len = 0;
    yard_open(&yard, NULL);
    struct caller *control = fake_worker(&yard, "anna", 7, 0);
    struct coxi_hello hello = fake_worker_hello("anna", 7);
    hello.channel = COXI_CHANNEL_DATA;
    struct caller *data = caller_open(cox_listen_address(yard.crew.c), &hello);
    caller_expect_refusal(data, COX_EREFUSED, "nobody wants");
    caller_close(data);

    struct coxi_message lacks = {.kind = COXI_MODULE_LOADED,
                                 .status = {.code = COX_ENOENT, .message = ""}};
    caller_send(control, &lacks, NULL, 0);
    (void)caller_expect(control, COXI_WANT_DATA);
    hello.incarnation = 8;
    data = caller_open(cox_listen_address(yard.crew.c), &hello);
    caller_expect_refusal(data, COX_EREFUSED, "nobody wants");
    caller_close(data);
    hello.incarnation = 7;
    data = caller_open(cox_listen_address(yard.crew.c), &hello);
    assert_int_equal(COXI_CHANNEL_DATA, caller_expect(data, COXI_HELLO)->hello.channel);
    (void)caller_expect(data, COXI_MODULE);
    (void)caller_payload(data, &len);
    assert_true(len > 1000);
    fake_worker_accept(control, 0);
    yard_wait_ready(&yard, 1);

    /* A worker that loses its data connection is lost. */
    caller_close(data);
    caller_expect_end(control);
    caller_close(control);
    yard_wait_ready(&yard, 0);
    assert_int_equal(1, yard_stats(&yard).workers_lost);
    yard_close(&yard);
}
