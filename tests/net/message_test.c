/* Greetings and messages on links. */
#include "net/message.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "common/sync.h"
#include "tests/net/ends.h"
#include "tests/test.h"

static const struct coxi_hello self = {
    .version = COXI_WIRE_VERSION,
    .role = COXI_ROLE_WORKER,
    .channel = COXI_CHANNEL_DATA,
    .index = 3,
    .incarnation = 0x1234,
    .session = {1, 2, 3},
    .slots = 4,
};

/* The result of coxi_hello_read for an end's first frame. */
struct greeting {
    int code;
    char text[512];
    struct coxi_hello hello;
};

static void read_greeting(struct end *end, const struct coxi_frame *frame)
{
    struct greeting *greeting = end->arg;
    greeting->code = coxi_hello_read(end->link, frame, &greeting->hello);
    (void)strncpy(greeting->text, greeting->code != 0 ? coxi_error_text() : "",
                  sizeof(greeting->text) - 1);
    end->on_frame_returns = greeting->code;
}

/* A half whose end reads the first frame as a greeting. */
static void greet_open(struct half *half, struct greeting *greeting, enum end_mode mode)
{
    *greeting = (struct greeting){0};
    door_open(&half->door, true);
    half->fd = raw_connect(half->door.url);
    end_init(&half->end);
    end_handle(&half->end, read_greeting, greeting);
    end_start(&half->end, door_wait(&half->door), mode);
}

static void raw_send_message(int fd, const struct coxi_message *message)
{
    const void *meta;
    size_t len;
    assert_true(coxi_message_encode(message, &meta, &len));
    raw_send_frame(fd, meta, len);
}

static void assert_text_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("'%s' does not say '%s'", text, part);
    }
}

static void assert_same_hello(const struct coxi_hello *a, const struct coxi_hello *b)
{
    assert_int_equal(a->version, b->version);
    assert_int_equal(a->role, b->role);
    assert_int_equal(a->channel, b->channel);
    assert_int_equal(a->index, b->index);
    assert_int_equal(a->incarnation, b->incarnation);
    assert_true(coxi_session_equal(&a->session, &b->session));
    assert_int_equal(a->slots, b->slots);
}

/* ---- greetings */

static void check_hello_both_ways(struct pair *pair)
{
    struct greeting near = {0}, far = {0};
    struct coxi_hello other = self;
    end_handle(&pair->near, read_greeting, &near);
    end_handle(&pair->far, read_greeting, &far);
    other.role = COXI_ROLE_PS;
    /* ignored: a greeting is always sent with this program's version */
    other.version = 77;
    other.index = 9;
    assert_code(0, coxi_hello_send(pair->near.link, &self));
    assert_code(0, coxi_hello_send(pair->far.link, &other));
    end_wait_frames(&pair->near, 1);
    end_wait_frames(&pair->far, 1);
    other.version = COXI_WIRE_VERSION;
    assert_int_equal(0, near.code);
    assert_int_equal(0, far.code);
    assert_same_hello(&self, &far.hello);
    assert_same_hello(&other, &near.hello);
    assert_false(coxi_link_closed(pair->near.link));
}

TEST(message_greets_both_ways)
{
    for_each_link(check_hello_both_ways);
}

/* A peer of another version gets our greeting, reads it, and reports the same error. */
static void meet_other_version(enum end_mode mode)
{
    struct half here, there;
    struct greeting greeting, told;
    struct coxi_message hello = {.kind = COXI_HELLO, .hello = self};
    char ours[32];
    (void)snprintf(ours, sizeof(ours), "version %d:", COXI_WIRE_VERSION);
    hello.hello.version = 42;
    greet_open(&here, &greeting, mode);
    raw_send_message(here.fd, &hello);
    size_t len;
    void *answer = raw_read_frame(here.fd, &len);
    assert_int_equal(0, raw_wait_closed(here.fd));
    end_wait_closed(&here.end, COX_EVERSION);
    assert_int_equal(COX_EVERSION, greeting.code);
    assert_text_has(greeting.text, "42");
    assert_text_has(greeting.text, ours);
    assert_text_has(here.end.close_text, "42");

    greet_open(&there, &told, mode);
    raw_send_frame(there.fd, answer, len);
    end_wait_closed(&there.end, COX_EVERSION);
    assert_int_equal(COX_EVERSION, told.code);
    assert_text_has(told.text, "the peer says");
    assert_text_has(told.text, "42");
    assert_text_has(told.text, ours);
    free(answer);
    half_close(&here);
    half_close(&there);
}

TEST(message_tells_both_sides_of_unlike_versions)
{
    meet_other_version(END_RUN);
    meet_other_version(END_START);
}

static void refuse(struct end *end, const struct coxi_frame *frame)
{
    (void)frame;
    end->on_frame_returns = coxi_refuse(end->link, COX_EBUSY, "run 7 is at work here");
}

static void check_refusal(struct pair *pair)
{
    struct greeting near = {0};
    end_handle(&pair->near, read_greeting, &near);
    end_handle(&pair->far, refuse, NULL);
    assert_code(0, coxi_hello_send(pair->near.link, &self));
    end_wait_closed(&pair->near, COX_EBUSY);
    assert_int_equal(COX_EBUSY, near.code);
    assert_text_has(near.text, "run 7 is at work here");
    end_wait_closed(&pair->far, COX_EBUSY);
    assert_string_equal("run 7 is at work here", pair->far.close_text);
}

TEST(message_brings_the_code_and_text_of_a_refusal)
{
    for_each_link(check_refusal);
}

/* Asserts the result when the peer sends `message` first. */
static void assert_greeting(const struct coxi_message *message, int code,
                            const char *text_part)
{
    struct half half;
    struct greeting greeting;
    greet_open(&half, &greeting, END_RUN);
    raw_send_message(half.fd, message);
    end_wait_closed(&half.end, code);
    assert_int_equal(code, greeting.code);
    assert_text_has(greeting.text, text_part);
    half_close(&half);
}

TEST(message_takes_no_code_for_success_from_a_refusal)
{
    struct coxi_message message = {.kind = COXI_REFUSE,
                                   .refuse = {COXI_WIRE_VERSION, 0, "for no reason"}};
    assert_greeting(&message, COX_EREFUSED, "for no reason");
    message.refuse.code = 7;
    assert_greeting(&message, COX_EREFUSED, "for no reason");
}

TEST(message_refuses_another_first_message_than_a_greeting)
{
    struct coxi_message message = {.kind = COXI_RECALL};
    assert_greeting(&message, COX_EPROTO, "no greeting");
    message = (struct coxi_message){.kind = COXI_CLAIM, .claim = {{1, 2, 3}, 0}};
    assert_greeting(&message, COX_EPROTO, "no greeting");
}

TEST(message_refuses_garbage_in_a_good_frame)
{
    static const char garbage[] = "this is metadata of no message at all, 48 bytes";
    struct half half;
    struct greeting greeting;
    greet_open(&half, &greeting, END_START);
    raw_send_frame(half.fd, garbage, sizeof(garbage));
    end_wait_closed(&half.end, COX_EPROTO);
    assert_int_equal(COX_EPROTO, greeting.code);
    assert_text_has(greeting.text, "malformed message of 48 bytes");
    half_close(&half);
}

/* ---- messages with payloads */

struct committed {
    int code;
    uint64_t request;
    uint64_t closure;
    uint32_t op;
    size_t n_updates;
};

static void read_commit(struct end *end, const struct coxi_frame *frame)
{
    struct committed *committed = end->arg;
    struct coxi_message message;
    committed->code = coxi_message_read(frame, &message);
    if (committed->code == 0 && message.kind == COXI_COMMIT) {
        committed->request = message.request;
        committed->closure = message.commit.closure;
        committed->n_updates = message.commit.n_updates;
        committed->op = message.commit.updates[1].op;
    }
}

static void count(void *arg)
{
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
}

static void check_commit(struct pair *pair)
{
    static uint8_t values[100000];
    static const struct coxi_update updates[] = {{1, COXI_OP_ADD, 0, 1},
                                                 {2, COXI_OP_ASSIGN, 5, 6}};
    struct committed committed = {0};
    struct iovec segments[] = {{values, 50000}, {values + 50000, 50000}};
    int n_released = 0;
    struct coxi_payload payload = {segments, 2, count, &n_released};
    struct coxi_message message = {.request = 17, .kind = COXI_COMMIT};
    message.commit.closure = 5;
    message.commit.updates = updates;
    message.commit.n_updates = 2;
    memset(values, 0x3c, sizeof(values));
    end_handle(&pair->far, read_commit, &committed);
    assert_code(0, coxi_message_send(pair->near.link, &message, &payload, false));
    end_wait_frames(&pair->far, 1);
    assert_int_equal(0, committed.code);
    assert_int_equal(17, committed.request);
    assert_int_equal(5, committed.closure);
    assert_int_equal(2, committed.n_updates);
    assert_int_equal(COXI_OP_ASSIGN, committed.op);
    assert_int_equal(sizeof(values), pair->far.frames[0].payload_len);
    assert_memory_equal(values, pair->far.frames[0].payload, sizeof(values));
    end_fini(&pair->near);
    assert_int_equal(1, n_released);
    end_init(&pair->near);
}

TEST(message_arrives_with_its_payload)
{
    for_each_link(check_commit);
}

TEST(message_that_cannot_be_encoded_releases_its_payload_and_closes)
{
    struct half half;
    uint8_t bytes[8] = {0};
    struct iovec segment = {bytes, sizeof(bytes)};
    int n_released = 0;
    struct coxi_payload payload = {&segment, 1, count, &n_released};
    struct coxi_message message = {.kind = COXI_CREATE};
    message.create.variable.rank = COXI_WIRE_RANK_MAX + 1;
    half_open(&half, true, END_RUN);
    assert_code(COX_ELIMIT,
                coxi_message_send(half.end.link, &message, &payload, false));
    assert_int_equal(1, n_released);
    assert_int_equal(0, coxi_link_queued(half.end.link));
    end_wait_closed(&half.end, COX_ELIMIT);
    assert_text_has(half.end.close_text, "too large");
    half_close(&half);
}
