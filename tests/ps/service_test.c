/* The answers of a ps at a real address to its peers. */
#include "ps/service.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/safetensors.h"
#include "tests/loaded.h"
#include "tests/ps/caller.h"
#include "tests/ps/harbour.h"
#include "tests/test.h"

static const struct coxi_session run1 = {.run = 1, .generation = 1, .token = 11};
static const struct coxi_session run2 = {.run = 2, .generation = 1, .token = 22};

static void take_counts(void *arg, const struct coxi_message *answer)
{
    *(struct coxi_counters *)arg = answer->counts.all;
}

static void take_voided(void *arg, const struct coxi_message *answer)
{
    *(int *)arg = answer->voided.code;
}

static void take_snapshot(void *arg, const struct coxi_message *answer)
{
    struct coxi_snapshot_done *done = arg;
    done->bytes = answer->snapshot_done.bytes;
    done->crc32 = answer->snapshot_done.crc32;
    done->watermark = answer->snapshot_done.watermark;
    done->n_applied = answer->snapshot_done.n_applied;
}

/* ---- what it does for its client */

static void serve_a_run(const char *listen)
{
    enum { N = 100000 }; /* more than goes over the control connection */
    static float values[N];
    static float found[N];
    struct harbour h;
    struct coxi_counters counts;
    struct coxi_snapshot_done done = {0};
    struct coxi_st_file *file;
    const char *path = harbour_shard(coxi_test_dir(), "ckpt-1.tmp");
    harbour_open(&h, listen);
    struct coxi_psc *client = harbour_dial(&h, COXI_ROLE_CLIENT, &run1);
    uint64_t incarnation = coxi_psc_incarnation(client);
    for (size_t i = 0; i < N; i++) {
        values[i] = (float)i;
    }
    assert_code(0, harbour_claim(client, &run1));
    assert_code(0, harbour_create(client, &run1, N));
    for (int i = 0; i < 2; i++) {
        assert_code(0, harbour_commit(client, &run1, incarnation, 7, values, N));
    }
    assert_code(0, harbour_commit(client, &run1, incarnation, 8, values, 1000));
    assert_code(0, harbour_pull(client, &run1, incarnation, found, N));
    for (size_t i = 0; i < N; i++) {
        assert_true(found[i] == (i < 1000 ? 2 * values[i] : values[i]));
    }
    struct coxi_message message = {.kind = COXI_WATERMARK,
                                   .watermark = {run1, 7, incarnation}};
    coxi_psc_tell(client, &message);
    message = (struct coxi_message){.kind = COXI_COUNT};
    struct coxi_psc_request request = {0};
    assert_code(0, coxi_psc_call(client, &message, &request, COXI_COUNTS, take_counts,
                                 &counts));
    assert_int_equal(2, counts.commits);
    assert_int_equal(1, counts.duplicates);
    assert_int_equal(1, counts.pulls);
    assert_int_equal(sizeof(values), counts.bytes);
    message = (struct coxi_message){
        .kind = COXI_SNAPSHOT,
        .snapshot = {
            .session = run1, .number = 1, .path = path, .incarnation = incarnation}};
    assert_code(0, coxi_psc_call(client, &message, &request, COXI_SNAPSHOT_DONE,
                                 take_snapshot, &done));
    assert_int_equal(7, done.watermark);
    assert_int_equal(1, done.n_applied);
    assert_code(0, coxi_st_open(path, done.bytes, &done.crc32, &file));
    assert_memory_equal(found, loaded(coxi_st_find(file, "v")), sizeof(found));
    coxi_st_close(file);
    message = (struct coxi_message){.kind = COXI_RELEASE, .release = run1};
    assert_code(0, harbour_ask(client, &message, COXI_STATUS));
    assert_code(COX_EFENCED, harbour_pull(client, &run1, incarnation, found, N));
    coxi_psc_close(client);
    harbour_close(&h);
}

TEST(ps_serves_a_run_over_ipc)
{
    serve_a_run(harbour_ipc());
}

TEST(ps_serves_a_run_over_tcp)
{
    serve_a_run("tcp://127.0.0.1:0");
}

/* Requests that make no sense, as an update and as a pull. */
static const struct {
    struct coxi_update update;
    size_t n_payload; /* I64s in the payload: 0, 1, 2 ... */
    int code;
    const char *part;
} senseless[] = {
    {{7, COXI_OP_ADD, 0, 1}, 1, COX_ENOENT, "no variable 7"},
    {{0, COXI_OP_ADD, 3, 2}, 1, COX_EINVAL, "rows 3+2 of variable 'v'"},
    {{0, COXI_OP_ADD, 0, UINT64_MAX}, 1, COX_EINVAL, "'v'"},
    {{0, COXI_OP_ADD, COXI_ROWS_LISTED, 2}, 1, COX_EINVAL, "missing"},
    /* there is no row 4 */
    {{0, COXI_OP_ADD, COXI_ROWS_LISTED, 5}, 8, COX_EINVAL, "listed"},
    {{0, COXI_OP_ADD, 0, 0}, 3, COX_EINVAL, "24 bytes more"},
};

static int commit_senseless(struct coxi_psc *psc, uint64_t incarnation, size_t i,
                            const struct iovec *payload)
{
    struct coxi_psc_request request = {.payload = payload, .n_payload = 1};
    struct coxi_message message = {.kind = COXI_COMMIT};
    message.commit = (struct coxi_commit){.session = run1,
                                          .incarnation = incarnation,
                                          .closure = 10,
                                          .updates = &senseless[i].update,
                                          .n_updates = 1};
    return coxi_psc_call(psc, &message, &request, COXI_COMMITTED, NULL, NULL);
}

static int pull_senseless(struct coxi_psc *psc, uint64_t incarnation, size_t i,
                          const struct iovec *payload)
{
    const struct coxi_update *like = &senseless[i].update;
    const struct coxi_pull_item item = {like->variable, like->begin, like->count, 0};
    struct coxi_psc_request request = {.payload = payload, .n_payload = 1};
    struct coxi_message message = {.kind = COXI_PULL};
    message.pull = (struct coxi_pull){run1, incarnation, &item, 1, false, 0, 0};
    return coxi_psc_call(psc, &message, &request, COXI_PULLED, NULL, NULL);
}

TEST(ps_says_what_is_wrong_with_a_request_and_goes_on)
{
    static const uint64_t payload[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const float ones[] = {1, 1, 1, 1};
    float found[4] = {0};
    struct harbour h;
    harbour_open(&h, harbour_ipc());
    struct coxi_psc *client = harbour_dial(&h, COXI_ROLE_CLIENT, &run1);
    uint64_t incarnation = coxi_psc_incarnation(client);
    assert_code(0, harbour_claim(client, &run1));
    assert_code(0, harbour_create(client, &run1, 4));
    for (size_t i = 0; i < sizeof(senseless) / sizeof(*senseless); i++) {
        const struct iovec bytes = {(void *)(uintptr_t)payload,
                                    senseless[i].n_payload * sizeof(*payload)};
        assert_code(senseless[i].code,
                    commit_senseless(client, incarnation, i, &bytes));
        assert_error_names(senseless[i].part);
        assert_code(senseless[i].code, pull_senseless(client, incarnation, i, &bytes));
        assert_error_names(senseless[i].part);
    }
    assert_code(0, harbour_commit(client, &run1, incarnation, 10, ones, 4));
    assert_code(0, harbour_pull(client, &run1, incarnation, found, 4));
    /* the other requests had no effect */
    assert_memory_equal(ones, found, sizeof(ones));
    coxi_psc_close(client);
    harbour_close(&h);
}

TEST(ps_answers_a_snapshot_that_cannot_be_written_with_the_reason)
{
    struct harbour h;
    harbour_open(&h, harbour_ipc());
    struct coxi_psc *client = harbour_dial(&h, COXI_ROLE_CLIENT, &run1);
    assert_code(0, harbour_claim(client, &run1));
    struct coxi_message message = {
        .kind = COXI_SNAPSHOT,
        .snapshot = {.session = run1,
                     .number = 1,
                     .path = "/no/such/ckpt-1.tmp/ps-0-of-1.safetensors",
                     .incarnation = coxi_psc_incarnation(client)}};
    assert_code(COX_EIO, harbour_ask(client, &message, COXI_SNAPSHOT_DONE));
    assert_error_names("/no/such/ckpt-1.tmp/ps-0-of-1.safetensors");
    assert_code(0, harbour_create(client, &run1, 1));
    coxi_psc_close(client);
    harbour_close(&h);
}

/* ---- whom it serves */

struct taker {
    struct coxi_psc *psc;
    int code;
};

/* Claims the ps. It refuses while it cannot know that the first client is gone: BUSY,
 * or AGAIN if it has heard nothing of that client since this one came. */
static bool has_taken_over(void *arg)
{
    struct taker *taker = arg;
    taker->code = harbour_claim(taker->psc, &run2);
    return taker->code != COX_EBUSY && taker->code != COX_EAGAIN;
}

TEST(ps_is_busy_for_another_run_until_its_client_is_gone)
{
    struct harbour h;
    float found;
    harbour_open(&h, harbour_ipc());
    struct coxi_psc *first = harbour_dial(&h, COXI_ROLE_CLIENT, &run1);
    struct taker second = {.psc = harbour_dial(&h, COXI_ROLE_CLIENT, &run2)};
    assert_code(0, harbour_claim(first, &run1));
    assert_code(0, harbour_create(first, &run1, 1));
    assert_code(COX_EBUSY, harbour_claim(second.psc, &run2));
    assert_error_names("0000000000000001");
    assert_code(COX_EFENCED, harbour_create(second.psc, &run2, 1));
    assert_code(0, harbour_pull(first, &run1, coxi_psc_incarnation(first), &found, 1));
    coxi_psc_close(first);
    coxi_test_until(has_taken_over, &second, "the second client's claim");
    assert_int_equal(0, second.code);
    assert_code(COX_ENOENT, harbour_pull(second.psc, &run2,
                                         coxi_psc_incarnation(second.psc), &found, 1));
    assert_code(0, harbour_create(second.psc, &run2, 1));
    coxi_psc_close(second.psc);
    harbour_close(&h);
}

TEST(ps_takes_a_newer_generation_while_the_older_one_is_connected)
{
    const struct coxi_session newer = {.run = 1, .generation = 2, .token = 33};
    struct harbour h;
    harbour_open(&h, harbour_ipc());
    struct coxi_psc *old = harbour_dial(&h, COXI_ROLE_CLIENT, &run1);
    struct coxi_psc *client = harbour_dial(&h, COXI_ROLE_CLIENT, &newer);
    assert_code(0, harbour_claim(old, &run1));
    assert_code(0, harbour_claim(client, &newer));
    assert_code(COX_EFENCED, harbour_claim(old, &run1));
    assert_code(COX_EFENCED, harbour_create(old, &run1, 1));
    assert_code(0, harbour_create(client, &newer, 1));
    coxi_psc_close(old);
    coxi_psc_close(client);
    harbour_close(&h);
}

static bool is_fenced(void *psc)
{
    return coxi_psc_wait(psc, 0) == COX_EFENCED;
}

TEST(ps_tells_a_client_that_asks_nothing_of_the_newer_one_that_has_taken_over)
{
    const struct coxi_hello hello = {.role = COXI_ROLE_CLIENT, .session = run1};
    const struct coxi_session newer = {.run = 1, .generation = 2, .token = 33};
    struct harbour h;
    harbour_open(&h, harbour_ipc());
    struct caller *idle = caller_join(coxi_ps_url(h.ps), &hello);
    struct coxi_psc *old = harbour_dial(&h, COXI_ROLE_CLIENT, &run1);
    struct coxi_psc *client = harbour_dial(&h, COXI_ROLE_CLIENT, &newer);
    assert_code(0, harbour_claim(old, &run1));
    assert_int_equal(0, caller_waiting(idle));
    assert_code(0, harbour_claim(client, &newer));
    const struct coxi_message *told = caller_expect(idle, COXI_STATUS);
    assert_int_equal(0, told->request);
    assert_int_equal(COX_EFENCED, told->status.code);
    assert_non_null(strstr(told->status.message, "generation 2"));
    coxi_test_until(is_fenced, old, "what the older client was told");
    caller_close(idle);
    /* It is not let in again. */
    idle = caller_open(coxi_ps_url(h.ps), &hello);
    caller_expect_refusal(idle, COX_EFENCED, "generation 2");
    caller_close(idle);
    coxi_psc_close(old);
    coxi_psc_close(client);
    harbour_close(&h);
}

/* The client of run 1 vanishes without a release; another run's client uses the ps and
 * releases it. */
static uint64_t serve_another(struct harbour *h)
{
    struct coxi_message release = {.kind = COXI_RELEASE, .release = run2};
    struct coxi_psc *first = harbour_dial(h, COXI_ROLE_CLIENT, &run1);
    assert_code(0, harbour_claim(first, &run1));
    assert_code(0, harbour_create(first, &run1, 1));
    uint64_t incarnation = coxi_psc_incarnation(first);
    struct taker second = {.psc = harbour_dial(h, COXI_ROLE_CLIENT, &run2)};
    coxi_psc_close(first);
    coxi_test_until(has_taken_over, &second, "the second client's claim");
    assert_int_equal(0, second.code);
    assert_code(0, harbour_ask(second.psc, &release, COXI_STATUS));
    coxi_psc_close(second.psc);
    return incarnation;
}

TEST(ps_that_has_served_another_run_is_another_incarnation_for_the_client_before)
{
    float found;
    struct harbour h;
    harbour_open(&h, harbour_ipc());
    uint64_t before = serve_another(&h);
    struct coxi_psc *first = harbour_dial(&h, COXI_ROLE_CLIENT, &run1);
    assert_true(coxi_psc_incarnation(first) != before);
    assert_code(0, harbour_claim(first, &run1));
    uint64_t now = coxi_psc_incarnation(first);
    assert_true(now != before);
    /* Its workers know the previous incarnation: the ps is lost for the step, which is
     * no error of the step. */
    assert_code(COX_EPSLOST, harbour_pull(first, &run1, before, &found, 1));
    assert_code(COX_ENOENT, harbour_pull(first, &run1, now, &found, 1));
    /* A second claim by the same client finds the same incarnation. */
    assert_code(0, harbour_create(first, &run1, 1));
    struct coxi_psc *again = harbour_dial(&h, COXI_ROLE_CLIENT, &run1);
    assert_code(0, harbour_claim(again, &run1));
    assert_true(coxi_psc_incarnation(again) == now);
    assert_code(0, harbour_pull(again, &run1, now, &found, 1));
    coxi_psc_close(again);
    coxi_psc_close(first);
    harbour_close(&h);
}

TEST(ps_fences_a_worker_of_another_session)
{
    const float ones[2] = {1, 1};
    struct coxi_session stale = run1;
    struct harbour h;
    float found[2] = {0};
    stale.token++;
    harbour_open(&h, harbour_ipc());
    struct coxi_psc *client = harbour_dial(&h, COXI_ROLE_CLIENT, &run1);
    struct coxi_psc *worker = harbour_dial(&h, COXI_ROLE_WORKER, &stale);
    uint64_t incarnation = coxi_psc_incarnation(client);
    assert_code(0, harbour_claim(client, &run1));
    assert_code(0, harbour_create(client, &run1, 2));
    assert_code(COX_EFENCED, harbour_pull(worker, &stale, incarnation, found, 2));
    assert_code(COX_EFENCED, harbour_commit(worker, &stale, incarnation, 5, ones, 2));
    assert_code(COX_EPSLOST, harbour_pull(worker, &run1, incarnation + 1, found, 2));
    assert_code(COX_EPSLOST,
                harbour_commit(worker, &run1, incarnation + 1, 5, ones, 2));
    assert_code(0, harbour_pull(client, &run1, incarnation, found, 2));
    assert_true(found[0] == 0);
    assert_code(0, harbour_commit(worker, &run1, incarnation, 5, ones, 2));
    assert_code(0, harbour_pull(worker, &run1, incarnation, found, 2));
    assert_true(found[0] == 1);
    coxi_psc_close(client);
    coxi_psc_close(worker);
    harbour_close(&h);
}

/* Requests that change the ps, or write its content, and are meant for the previous
 * process. */
TEST(ps_refuses_what_was_meant_for_another_incarnation)
{
    struct harbour h;
    float found[2] = {0};
    const float ones[2] = {1, 1};
    harbour_open(&h, harbour_ipc());
    struct coxi_psc *client = harbour_dial(&h, COXI_ROLE_CLIENT, &run1);
    uint64_t other = coxi_psc_incarnation(client) + 1;
    assert_code(0, harbour_claim(client, &run1));
    assert_code(0, harbour_create(client, &run1, 2));
    struct coxi_message message = {.kind = COXI_CREATE};
    message.create = (struct coxi_create){.session = run1,
                                          .closure = 2,
                                          .variable = {.id = 1,
                                                       .name = "t",
                                                       .kind = COXI_KIND_TABLE,
                                                       .dtype = COX_F32,
                                                       .rank = 1,
                                                       .shape = {1}},
                                          .incarnation = other};
    assert_code(COX_EPSLOST, harbour_ask(client, &message, COXI_STATUS));
    assert_error_names("restarted");
    message = (struct coxi_message){.kind = COXI_RESTORE};
    message.restore = (struct coxi_restore){
        .session = run1, .round = 1, .path = "/no/such/file", .incarnation = other};
    assert_code(COX_EPSLOST, harbour_ask(client, &message, COXI_STATUS));
    message = (struct coxi_message){.kind = COXI_SNAPSHOT};
    message.snapshot =
        (struct coxi_snapshot){.session = run1,
                               .number = 1,
                               .path = harbour_shard(coxi_test_dir(), "ckpt-1.tmp"),
                               .incarnation = other};
    assert_code(COX_EPSLOST, harbour_ask(client, &message, COXI_SNAPSHOT_DONE));
    assert_int_equal(-1, access(message.snapshot.path, F_OK));
    int code = 0;
    message = (struct coxi_message){.kind = COXI_VOID};
    message.void_ = (struct coxi_void){run1, 5, 9, other};
    struct coxi_psc_request request = {0};
    assert_code(
        0, coxi_psc_call(client, &message, &request, COXI_VOIDED, take_voided, &code));
    assert_code(COX_EPSLOST, code);
    message =
        (struct coxi_message){.kind = COXI_WATERMARK, .watermark = {run1, 9, other}};
    coxi_psc_tell(client, &message);
    /* No request had an effect: nothing is voided, the watermark did not move, and
     * variable 1 does not exist. */
    assert_code(0, harbour_commit(client, &run1, other - 1, 5, ones, 2));
    assert_code(0, harbour_pull(client, &run1, other - 1, found, 2));
    assert_true(found[0] == 1);
    message = (struct coxi_message){.kind = COXI_COUNT};
    struct coxi_counters counts = {0};
    assert_code(0, coxi_psc_call(client, &message, &request, COXI_COUNTS, take_counts,
                                 &counts));
    assert_int_equal(0, counts.duplicates);
    assert_int_equal(sizeof(found), counts.bytes);
    coxi_psc_close(client);
    harbour_close(&h);
}

/* ---- peers that break the protocol */

static const struct coxi_hello as_client = {.role = COXI_ROLE_CLIENT,
                                            .session = {1, 1, 11}};

/* Asserts that the ps still answers a correct peer. */
static void assert_alive(struct harbour *h)
{
    struct caller *caller = caller_join(coxi_ps_url(h->ps), &as_client);
    struct coxi_message message = {.request = 9, .kind = COXI_COUNT};
    caller_send(caller, &message, NULL, 0);
    assert_int_equal(9, caller_expect(caller, COXI_COUNTS)->request);
    caller_close(caller);
}

TEST(ps_refuses_another_protocol_version_by_number)
{
    struct harbour h;
    harbour_open(&h, harbour_ipc());
    struct caller *caller = caller_open(coxi_ps_url(h.ps), NULL);
    struct coxi_message message = {.kind = COXI_HELLO, .hello = as_client};
    message.hello.version = 41;
    caller_send(caller, &message, NULL, 0);
    caller_expect_refusal(caller, COX_EVERSION, "version 41 meets");
    caller_close(caller);
    assert_alive(&h);
    harbour_close(&h);
}

TEST(ps_refuses_another_ps)
{
    static const struct coxi_hello as_ps = {.role = COXI_ROLE_PS};
    struct harbour h;
    harbour_open(&h, harbour_ipc());
    struct caller *caller = caller_open(coxi_ps_url(h.ps), &as_ps);
    caller_expect_refusal(caller, COX_EREFUSED, "no other ps");
    caller_close(caller);
    harbour_close(&h);
}

TEST(ps_greets_with_its_role_and_the_peers_channel)
{
    struct coxi_hello hello = as_client;
    struct harbour h;
    harbour_open(&h, harbour_ipc());
    hello.channel = COXI_CHANNEL_DATA;
    struct caller *caller = caller_open(coxi_ps_url(h.ps), &hello);
    const struct coxi_message *answer = caller_expect(caller, COXI_HELLO);
    assert_int_equal(COXI_ROLE_PS, answer->hello.role);
    assert_int_equal(COXI_CHANNEL_DATA, answer->hello.channel);
    assert_int_equal(0, answer->hello.index);
    assert_true(answer->hello.incarnation != 0);
    caller_close(caller);
    harbour_close(&h);
}

TEST(ps_closes_a_connection_with_an_unexpected_message_and_serves_the_others)
{
    static const enum coxi_message_kind kinds[] = {
        COXI_HELLO, COXI_STATUS,   COXI_COUNTS, COXI_PULLED,
        COXI_DONE,  COXI_DISPATCH, COXI_RECALL, COXI_MODULE};
    struct harbour h;
    harbour_open(&h, harbour_ipc());
    struct caller *other = caller_join(coxi_ps_url(h.ps), &as_client);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        struct caller *caller = caller_join(coxi_ps_url(h.ps), &as_client);
        struct coxi_message message = {.kind = kinds[i]};
        if (kinds[i] == COXI_HELLO) {
            message.hello = as_client;
        }
        caller_send(caller, &message, NULL, 0);
        caller_expect_end(caller);
        caller_close(caller);
    }
    struct coxi_message message = {.request = 4, .kind = COXI_COUNT};
    caller_send(other, &message, NULL, 0);
    assert_int_equal(4, caller_expect(other, COXI_COUNTS)->request);
    caller_close(other);
    harbour_close(&h);
}

TEST(ps_closes_a_connection_that_sends_garbage_or_does_not_greet)
{
    static const uint64_t garbage[8] = {0x1234567890abcdef, 0xffffffffffffffff, 7};
    struct coxi_message count = {.request = 1, .kind = COXI_COUNT};
    struct harbour h;
    harbour_open(&h, harbour_ipc());
    struct caller *callers[] = {caller_open(coxi_ps_url(h.ps), NULL),
                                caller_join(coxi_ps_url(h.ps), &as_client),
                                caller_open(coxi_ps_url(h.ps), NULL)};
    caller_send_bytes(callers[0], garbage, sizeof(garbage));
    caller_send_bytes(callers[1], garbage, sizeof(garbage));
    caller_send(callers[2], &count, NULL, 0);
    for (size_t i = 0; i < 3; i++) {
        caller_expect_end(callers[i]);
        caller_close(callers[i]);
    }
    assert_alive(&h);
    harbour_close(&h);
}

TEST(ps_takes_no_payload_before_the_greeting)
{
    static uint8_t payload[1 << 20];
    struct harbour h;
    harbour_open(&h, harbour_ipc());
    struct caller *caller = caller_open(coxi_ps_url(h.ps), NULL);
    struct coxi_message message = {.kind = COXI_HELLO, .hello = as_client};
    message.hello.version = COXI_WIRE_VERSION;
    caller_send(caller, &message, payload, sizeof(payload));
    caller_expect_end(caller);
    caller_close(caller);
    assert_alive(&h);
    harbour_close(&h);
}

TEST(ps_that_ends_closes_every_connection)
{
    struct harbour h;
    struct caller *callers[3];
    harbour_open(&h, harbour_ipc());
    for (size_t i = 0; i < 3; i++) {
        callers[i] = caller_join(coxi_ps_url(h.ps), &as_client);
    }
    harbour_close(&h);
    for (size_t i = 0; i < 3; i++) {
        caller_expect_end(callers[i]);
        caller_close(callers[i]);
    }
}

TEST(ps_names_an_address_that_it_cannot_use)
{
    struct coxi_ps *ps;
    struct coxi_ps_options options = {.listen = "ipc:///no/such/directory/ps",
                                      .peer_timeout_ms = 1000};
    assert_code(COX_EADDRESS, coxi_ps_open(&options, &ps));
    assert_error_names("/no/such/directory/ps");
}

/* ---- tools */

static int describe(struct coxi_psc *psc)
{
    struct coxi_message message = {.kind = COXI_DESCRIBE};
    return harbour_ask(psc, &message, COXI_LAYOUT);
}

TEST(a_tool_reads_without_a_token_and_changes_nothing)
{
    static const struct coxi_session none;
    const float ones[2] = {1, 1};
    float values[2] = {7, 7};
    struct harbour harbour;
    struct coxi_session named = {.run = 1, .generation = 1};
    harbour_open(&harbour, harbour_ipc());
    struct coxi_psc *tool = harbour_dial(&harbour, COXI_ROLE_TOOL, &none);
    assert_code(COX_ENOENT, describe(tool));
    assert_error_names("serves no run");
    struct coxi_psc *client = harbour_dial(&harbour, COXI_ROLE_CLIENT, &run1);
    assert_code(0, harbour_claim(client, &run1));
    assert_code(0, harbour_create(client, &run1, 2));
    uint64_t incarnation = coxi_psc_incarnation(client);
    assert_code(0, harbour_commit(client, &run1, incarnation, 2, ones, 2));
    assert_code(0, describe(tool));
    assert_code(0, harbour_pull(tool, &named, incarnation, values, 2));
    assert_float_equal(1, values[1], 0);
    named.generation = 2;
    assert_code(COX_EFENCED, harbour_pull(tool, &named, incarnation, values, 2));
    assert_code(COX_EFENCED, harbour_pull(client, &named, incarnation, values, 2));
    /* Not even with the token. */
    assert_code(COX_EREFUSED, harbour_commit(tool, &run1, incarnation, 3, ones, 2));
    assert_code(COX_EREFUSED, harbour_claim(tool, &run2));
    assert_code(COX_EREFUSED, harbour_create(tool, &run1, 3));
    struct coxi_message release = {.kind = COXI_RELEASE, .release = run1};
    assert_code(COX_EREFUSED, harbour_ask(tool, &release, COXI_STATUS));
    struct coxi_message load = {.kind = COXI_LOAD};
    load.load = (struct coxi_load){.session = run1, .incarnation = incarnation};
    assert_code(COX_EREFUSED, harbour_ask(tool, &load, COXI_STATUS));
    assert_code(0, harbour_pull(client, &run1, incarnation, values, 2));
    assert_float_equal(1, values[0], 0);
    coxi_psc_close(tool);
    coxi_psc_close(client);
    harbour_close(&harbour);
}
