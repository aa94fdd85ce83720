/* See message.h. */
#include "net/message.h"

#include <string.h>

#include "common/error.h"

enum { LONG = 256 * 1024 };

static int too_large(const struct coxi_message *message)
{
    return coxi_error(COX_ELIMIT, "a message of kind %d is too large to send",
                      (int)message->kind);
}

/* Closes the link with the last error's text unless `code` is 0 or the link is closed
 * already. Returns the code. */
static int not_sent(struct coxi_link *link, int code)
{
    if (code != 0 && code != COX_ECLOSED) {
        coxi_link_close(link, code, coxi_error_text());
    }
    return code;
}

int coxi_message_send(struct coxi_link *link, const struct coxi_message *message,
                      const struct coxi_payload *payload, bool later)
{
    struct coxi_outgoing frame = {0};
    if (payload != NULL) {
        frame.payload = payload->segments;
        frame.n_payload = payload->n_segments;
        frame.release = payload->release;
        frame.arg = payload->arg;
    }
    if (!coxi_message_encode(message, &frame.meta, &frame.meta_len)) {
        if (frame.release != NULL) {
            frame.release(frame.arg);
        }
        return not_sent(link, too_large(message));
    }
    int r = coxi_link_send(link, &frame, later);
    if (frame.meta_len > LONG) {
        coxi_message_forget(); /* many threads may have sent a long message */
    }
    return not_sent(link, r);
}

int coxi_message_send_made(
    struct coxi_link *link, const struct coxi_message *message, size_t payload_len,
    int (*make)(void *arg, void *to, size_t room, size_t *ret_len), void *arg)
{
    struct coxi_made frame = {.payload_len = payload_len, .make = make, .arg = arg};
    if (!coxi_message_encode(message, &frame.meta, &frame.meta_len)) {
        return not_sent(link, too_large(message));
    }
    return not_sent(link, coxi_link_send_made(link, &frame));
}

int coxi_message_read(const struct coxi_frame *frame, struct coxi_message *ret)
{
    if (!coxi_message_decode(frame->meta, frame->meta_len, ret)) {
        return coxi_error(COX_EPROTO, "malformed message of %zu bytes",
                          frame->meta_len);
    }
    return 0;
}

int coxi_hello_send(struct coxi_link *link, const struct coxi_hello *hello)
{
    struct coxi_message message = {.kind = COXI_HELLO, .hello = *hello};
    message.hello.version = COXI_WIRE_VERSION;
    return coxi_message_send(link, &message, NULL, false);
}

void coxi_hello_change_over(struct coxi_link *link, const struct coxi_hello *hello)
{
    if (*hello->local != '\0') {
        coxi_link_go_local(link);
    } else {
        coxi_link_withdraw(link);
    }
}

int coxi_hello_name_check(const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < len; i++) {
        if (name[i] <= ' ' || name[i] > '~' || strchr("\"'\\", name[i]) != NULL) {
            return coxi_error(COX_EINVAL,
                              "character %zu of the worker's name is no visible ASCII "
                              "character, or is a quote or a backslash",
                              i + 1);
        }
    }
    if (len == 0 || len > COXI_WIRE_NAME_MAX) {
        return coxi_error(COX_EINVAL, "a worker's name has 1 to %d characters, not %zu",
                          COXI_WIRE_NAME_MAX, len);
    }
    return 0;
}

int coxi_refuse(struct coxi_link *link, int code, const char *text)
{
    struct coxi_message message = {.kind = COXI_REFUSE,
                                   .refuse = {COXI_WIRE_VERSION, code, text}};
    (void)coxi_message_send(link, &message, NULL, false);
    coxi_link_finish(link, code, text);
    return code;
}

struct coxi_guard coxi_hello_guard(const struct coxi_key *key,
                                   const struct coxi_hello *hello)
{
    struct coxi_guard guard = {
        .self = {hello->role, hello->index, hello->session.run},
    };
    if (key != NULL) {
        guard.key = *key;
        guard.seal = key->seal;
    }
    return guard;
}

/* COX_EDENIED if the peer's greeting names another role, index or run than the peer has
 * proved. */
static int check_proven(const struct coxi_link *link, const struct coxi_hello *hello)
{
    const struct coxi_party *proven = coxi_link_proven(link);
    bool is_same =
        proven == NULL ||
        (proven->role == hello->role && proven->index == hello->index &&
         (proven->run == COXI_RUN_UNNAMED || proven->run == hello->session.run));
    return is_same ? 0
                   : coxi_error(COX_EDENIED,
                                "the peer greets as somebody else than its key proved");
}

int coxi_hello_read(struct coxi_link *link, const struct coxi_frame *frame,
                    struct coxi_hello *ret)
{
    struct coxi_message message;
    int r = coxi_message_read(frame, &message);
    if (r != 0) {
        return r;
    }
    if (message.kind == COXI_REFUSE) {
        return coxi_error(message.refuse.code < 0 ? message.refuse.code : COX_EREFUSED,
                          "the peer says: %s", message.refuse.message);
    }
    if (message.kind != COXI_HELLO) {
        return coxi_error(COX_EPROTO, "the peer's first message is no greeting");
    }
    if (message.hello.version != COXI_WIRE_VERSION) {
        r = coxi_error(COX_EVERSION,
                       "protocol version %u meets version %d: run the same release "
                       "everywhere",
                       message.hello.version, COXI_WIRE_VERSION);
        return coxi_refuse(link, r, coxi_error_text());
    }
    *ret = message.hello;
    return check_proven(link, ret);
}
