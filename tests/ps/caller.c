/* See caller.h. Threads: the test's, and one of nng's that receives. */
#include "tests/ps/caller.h"

#include <string.h>

#include "common/buffer.h"
#include "common/sync.h"
#include "tests/test.h"

enum { CONNECT_MS = 5000, WAIT_MS = 8000, FRAMES_MAX = 4096 };

/* A frame that has come: its metadata, then (64-aligned) its payload. */
struct kept {
    struct kept *next;
    bool is_message;
    enum coxi_message_kind kind;
    struct coxi_buffer meta;
    struct coxi_buffer payload;
};

struct caller {
    struct coxi_link *link;
    struct coxi_message message;
    struct kept *current;

    struct coxi_mutex lock; /* guards all below; leaf */
    pthread_cond_t changed;
    struct kept *first;
    struct kept *last;
    size_t n;
    bool ended;
};

static void kept_free(struct kept *kept)
{
    if (kept != NULL) {
        coxi_buffer_fini(&kept->meta);
        coxi_buffer_fini(&kept->payload);
        free(kept);
    }
}

static int on_frame(void *arg, struct coxi_link *link, const struct coxi_frame *frame)
{
    (void)link;
    struct caller *caller = arg;
    struct kept *kept = calloc(1, sizeof(*kept));
    if (kept == NULL ||
        coxi_buffer_append_raw(&kept->meta, frame->meta, frame->meta_len) != 0 ||
        coxi_buffer_append_raw(&kept->payload, frame->payload, frame->payload_len) !=
            0) {
        kept_free(kept);
        return COX_ENOMEM;
    }
    struct coxi_message message;
    kept->is_message = coxi_message_decode(kept->meta.data, kept->meta.len, &message);
    kept->kind = kept->is_message ? message.kind : COXI_REFUSE;
    coxi_lock(&caller->lock);
    if (caller->first == NULL) {
        caller->first = kept;
    } else {
        caller->last->next = kept;
    }
    caller->last = kept;
    caller->n++;
    int r = caller->n > FRAMES_MAX ? COX_ELIMIT : 0;
    (void)pthread_cond_signal(&caller->changed);
    coxi_unlock(&caller->lock);
    return r;
}

static void on_close(void *arg, struct coxi_link *link, int code, const char *text)
{
    (void)link;
    (void)code;
    (void)text;
    struct caller *caller = arg;
    coxi_lock(&caller->lock);
    caller->ended = true;
    (void)pthread_cond_signal(&caller->changed);
    coxi_unlock(&caller->lock);
}

static const struct coxi_link_events events = {.on_frame = on_frame,
                                               .on_close = on_close};

struct caller *caller_open(const char *url, const struct coxi_hello *hello)
{
    struct coxi_key key; /* of the daemons that the test has started, if any */
    const struct coxi_hello nobody = {.role = COXI_ROLE_TOOL};
    assert_code(0, coxi_key_open(NULL, NULL, &key));
    const struct coxi_guard guard =
        coxi_hello_guard(&key, hello != NULL ? hello : &nobody);
    return caller_open_as(url, &guard, hello);
}

struct caller *caller_open_as(const char *url, const struct coxi_guard *guard,
                              const struct coxi_hello *hello)
{
    struct caller *caller = calloc(1, sizeof(*caller));
    assert_non_null(caller);
    coxi_mutex_init(&caller->lock);
    coxi_cond_init(&caller->changed);
    assert_code(0, coxi_link_connect(url, guard, CONNECT_MS, &caller->link));
    coxi_link_listen_to(caller->link, &events, caller);
    coxi_link_allow(caller->link, COXI_WIRE_META_MAX, COXI_PAYLOAD_MAX);
    coxi_link_start(caller->link);
    if (hello != NULL) {
        int r = coxi_hello_send(caller->link, hello);
        assert_code(r == COX_ECLOSED ? r : 0, r); /* the peer may not want us */
    }
    return caller;
}

struct caller *caller_join(const char *url, const struct coxi_hello *hello)
{
    struct caller *caller = caller_open(url, hello);
    (void)caller_expect(caller, COXI_HELLO);
    return caller;
}

void caller_send(struct caller *caller, const struct coxi_message *message,
                 const void *payload, size_t len)
{
    void *copy = malloc(len + 1); /* a link may send it later */
    assert_non_null(copy);
    if (len > 0) {
        memcpy(copy, payload, len);
    }
    struct iovec segment = {copy, len};
    struct coxi_payload lent = {
        .segments = &segment, .n_segments = 1, .release = free, .arg = copy};
    assert_code(0, coxi_message_send(caller->link, message, &lent, false));
}

void caller_send_bytes(struct caller *caller, const void *bytes, size_t len)
{
    struct coxi_outgoing frame = {.meta = bytes, .meta_len = len};
    assert_code(0, coxi_link_send(caller->link, &frame, false));
}

/* The next frame becomes the current one; false: the end has come. */
static bool next_frame(struct caller *caller)
{
    struct timespec until = coxi_deadline(WAIT_MS);
    coxi_lock(&caller->lock);
    while (caller->first == NULL && !caller->ended &&
           coxi_wait_until(&caller->changed, &caller->lock, &until)) {
    }
    struct kept *kept = caller->first;
    bool ended = caller->ended;
    if (kept != NULL) {
        caller->first = kept->next;
        caller->n--;
    }
    coxi_unlock(&caller->lock);
    kept_free(caller->current);
    caller->current = kept;
    if (kept == NULL && !ended) {
        fail_msg("nothing has come in %d ms", WAIT_MS);
    }
    if (kept != NULL) {
        assert_true(
            coxi_message_decode(kept->meta.data, kept->meta.len, &caller->message));
    }
    return kept != NULL;
}

/* The same; leaves out what a worker tells of its memory, which may come at any time. */
static bool next(struct caller *caller)
{
    bool any;
    do {
        any = next_frame(caller);
    } while (any && caller->message.kind == COXI_MEMORY);
    return any;
}

bool caller_hears(struct caller *caller)
{
    return next(caller);
}

const struct coxi_message *caller_next(struct caller *caller)
{
    if (!next(caller)) {
        fail_msg("the connection was closed instead of a message");
    }
    return &caller->message;
}

const struct coxi_message *caller_expect(struct caller *caller,
                                         enum coxi_message_kind kind)
{
    if (!next(caller)) {
        fail_msg("the connection was closed instead of a message of kind %d", kind);
    }
    if (caller->message.kind == COXI_REFUSE && kind != COXI_REFUSE) {
        fail_msg("refused: %s", caller->message.refuse.message);
    }
    assert_int_equal(kind, caller->message.kind);
    return &caller->message;
}

/* Brings the first frame of this kind before all others. False: there is none. */
static bool bring_forward(struct caller *caller, enum coxi_message_kind kind)
    COXI_REQUIRES(caller->lock)
{
    struct kept *before = NULL;
    struct kept *kept = caller->first;
    while (kept != NULL && (!kept->is_message || kept->kind != kind)) {
        before = kept;
        kept = kept->next;
    }
    if (kept != NULL && before != NULL) {
        before->next = kept->next;
        caller->last = caller->last == kept ? before : caller->last;
        kept->next = caller->first;
        caller->first = kept;
    }
    return kept != NULL;
}

const struct coxi_message *caller_pick(struct caller *caller,
                                       enum coxi_message_kind kind)
{
    struct timespec until = coxi_deadline(WAIT_MS);
    coxi_lock(&caller->lock);
    bool came = bring_forward(caller, kind);
    while (!came && !caller->ended &&
           coxi_wait_until(&caller->changed, &caller->lock, &until)) {
        came = bring_forward(caller, kind);
    }
    came = came || bring_forward(caller, kind);
    coxi_unlock(&caller->lock);
    if (!came) {
        fail_msg("no message of kind %d has come", kind);
    }
    return caller_expect(caller, kind);
}

const void *caller_payload(const struct caller *caller, size_t *ret_len)
{
    *ret_len = caller->current->payload.len;
    return caller->current->payload.data;
}

size_t caller_waiting(struct caller *caller)
{
    coxi_lock(&caller->lock);
    size_t n = caller->n;
    coxi_unlock(&caller->lock);
    return n;
}

void caller_expect_end(struct caller *caller)
{
    if (next(caller)) {
        fail_msg("a message of kind %d came, not the end", caller->message.kind);
    }
}

void caller_expect_refusal(struct caller *caller, int code, const char *part)
{
    const struct coxi_message *message = caller_expect(caller, COXI_REFUSE);
    assert_int_equal(code, message->refuse.code);
    if (strstr(message->refuse.message, part) == NULL) {
        fail_msg("'%s' does not name '%s'", message->refuse.message, part);
    }
    caller_expect_end(caller);
}

void caller_close(struct caller *caller)
{
    if (caller == NULL) {
        return;
    }
    coxi_link_close(caller->link, COX_ECLOSED, "the test closes it");
    coxi_lock(&caller->lock);
    while (!caller->ended) {
        coxi_wait_for_end(&caller->changed, &caller->lock);
    }
    coxi_unlock(&caller->lock);
    coxi_link_unref(caller->link);
    kept_free(caller->current);
    while (caller->first != NULL) {
        struct kept *kept = caller->first;
        caller->first = kept->next;
        kept_free(kept);
    }
    (void)pthread_cond_destroy(&caller->changed);
    coxi_mutex_fini(&caller->lock);
    free(caller);
}
