/*
 * See ps_client.h: requests and their answers. ps_client_channel.c has the connections
 * and follows the ps.
 *
 * Invariants
 *   - A request is in `waiting` from submission until `done`. Ids rise in order, so an
 *     answer finds its request in O(1), and after a reconnection all requests go out
 *     again in order.
 *   - `done` with an error runs only while the request's channel has no link, or a link
 *     on which nothing has been sent: so nothing refers to its payload and `into`.
 *   - coxi_psc_submit_now, _flush, _tell, _follow, _give_up and _tick never wait for
 *     the ps, because threads that declare losses call them.
 *
 * Locks: `lock` guards the fields that name it; it comes before a link's lock and is
 * never held in a callback.
 */
#include "net/ps_client.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/loop.h"
#include "common/sync.h"
#include "net/ps_client_internal.h"

enum {
    META_FIRST = 256,   /* bytes of memory for an encoded message, at least */
    META_KEPT = 4096,   /* the most that is kept for another request */
    WAITING_MAX = 4096, /* unanswered requests; with more, callers block */
    /* ids from the oldest unanswered request to the newest; with more, callers block */
    SPAN_MAX = 1 << 20,
    /* payload bytes of unanswered requests; with more, callers block. A single request
     * may have more. */
    WAITING_BYTES_MAX = 512 * 1024 * 1024,
    IN_LINE_MAX = 4 * 1024 * 1024, /* bytes in line; with more, callers block */
    /* longer payloads go over the data connection */
    SMALL_MAX = 64 * 1024,
};

/* ---- requests */

static size_t payload_len(const struct coxi_psc_request *request)
{
    size_t len = 0;
    for (size_t i = 0; i < request->n_payload; i++) {
        len += request->payload[i].iov_len;
    }
    return len;
}

/* The encoded message is no longer needed. */
static void drop_meta(struct coxi_psc *psc, struct coxi_psc_request *request)
    COXI_REQUIRES(psc->lock)
{
    struct coxi_psc_meta *meta = request->meta;
    request->meta = NULL;
    if (meta != NULL && meta->capacity <= META_KEPT) {
        meta->next = psc->metas;
        psc->metas = meta;
    } else {
        free(meta);
    }
}

struct coxi_psc_request *coxi_psc_delist(struct coxi_psc *psc, uint64_t id)
{
    struct coxi_psc_request *request = coxi_window_take(&psc->waiting, id);
    if (request != NULL) {
        drop_meta(psc, request);
        psc->waiting_bytes -= payload_len(request);
        (void)pthread_cond_broadcast(&psc->changed);
    }
    return request;
}

bool coxi_psc_put(struct coxi_link *link, const struct coxi_psc_request *request,
                  bool later)
{
    assert(request->meta != NULL);
    struct coxi_outgoing frame = {
        .meta = request->meta->bytes,
        .meta_len = request->meta->len,
        .payload = request->payload,
        .n_payload = request->n_payload,
    };
    bool due;
    int r = coxi_link_put(link, &frame, later, &due);
    if (r != 0 && r != COX_ECLOSED) {
        /* The next link sends the request again. */
        coxi_link_close(link, r, "a request could not be sent");
    }
    return due;
}

/* Returns a reference to the channel's link, or NULL if the channel is not up. */
static struct coxi_link *link_of(struct coxi_psc *psc, enum coxi_channel kind)
    COXI_REQUIRES(psc->lock)
{
    struct coxi_psc_channel *channel = &psc->channels[kind];
    return channel->up ? coxi_link_ref(channel->link) : NULL;
}

bool coxi_psc_fail(struct coxi_psc *psc, int code, const char *text)
{
    coxi_lock(&psc->lock);
    bool first = psc->failed == 0;
    if (first) {
        psc->failed = code;
        strncpy(psc->failed_text, text, sizeof(psc->failed_text) - 1);
    }
    for (int i = 0; i < 2; i++) {
        coxi_dial_abort(psc->channels[i].dial);
        if (psc->channels[i].link != NULL) {
            coxi_link_close(psc->channels[i].link, code, text);
        }
    }
    (void)pthread_cond_broadcast(&psc->changed);
    coxi_unlock(&psc->lock);
    return first;
}

/* ---- the interface */

static void free_dials(struct coxi_psc *psc)
{
    for (int i = 0; psc != NULL && i < 2; i++) {
        coxi_dial_free(psc->channels[i].dial);
        psc->channels[i].dial = NULL;
    }
}

int coxi_psc_open(const struct coxi_psc_options *options, struct coxi_psc **ret)
{
    struct coxi_psc *psc = calloc(1, sizeof(*psc));
    if (psc == NULL || coxi_dial_new(&psc->channels[0].dial) != 0 ||
        coxi_dial_new(&psc->channels[1].dial) != 0 ||
        coxi_address_set(&psc->address, options->address) != 0) {
        free_dials(psc);
        free(psc);
        return coxi_error_memory("a connection to a ps");
    }
    psc->options = *options;
    /* the text belongs to the caller; the ps client has a copy */
    psc->options.address = NULL;
    coxi_mutex_init(&psc->lock);
    coxi_cond_init(&psc->changed);
    coxi_window_init(&psc->waiting, 1, SIZE_MAX);
    for (int i = 0; i < 2; i++) {
        psc->channels[i].psc = psc;
        psc->channels[i].kind = (enum coxi_channel)i;
    }
    coxi_lock(&psc->lock);
    psc->next_id = 1;
    psc->reached_ms = coxi_now_ms();
    int r = coxi_psc_start_channel(psc, COXI_CHANNEL_CONTROL);
    coxi_unlock(&psc->lock);
    if (r != 0) {
        coxi_psc_close(psc);
        return r;
    }
    *ret = psc;
    return 0;
}

/* Sets the error to the reason why the ps client has failed; returns its code. */
static int failure(const struct coxi_psc *psc) COXI_REQUIRES(psc->lock)
{
    return coxi_error(psc->failed, "ps %u at %s: %s", psc->options.index,
                      coxi_psc_address(psc), psc->failed_text);
}

int coxi_psc_wait(struct coxi_psc *psc, int timeout_ms)
{
    struct timespec until = coxi_deadline(timeout_ms);
    int r = 0;
    coxi_lock(&psc->lock);
    while (r == 0 && psc->failed == 0 && !psc->channels[COXI_CHANNEL_CONTROL].up) {
        if (!coxi_wait_until(&psc->changed, &psc->lock, &until)) {
            r = coxi_error(COX_ETIMEDOUT, "ps %u at %s: no connection: %s",
                           psc->options.index, coxi_psc_address(psc), psc->last_text);
        }
    }
    if (r == 0 && psc->failed != 0) {
        r = failure(psc);
    }
    coxi_unlock(&psc->lock);
    return r;
}

bool coxi_psc_is_up(struct coxi_psc *psc)
{
    coxi_lock(&psc->lock);
    bool up = psc->channels[COXI_CHANNEL_CONTROL].up;
    coxi_unlock(&psc->lock);
    return up;
}

/* `denied_ms`: for how long it must have denied us. */
static int check(struct coxi_psc *psc, int denied_ms)
{
    int r = 0;
    coxi_lock(&psc->lock);
    if (psc->failed != 0) {
        r = failure(psc);
    } else if (psc->misnamed && !psc->channels[COXI_CHANNEL_CONTROL].up) {
        r = coxi_error(COX_EADDRESS, "ps %u at %s: no connection: %s",
                       psc->options.index, coxi_psc_address(psc), psc->last_text);
    } else if (psc->denied_ms != 0 &&
               coxi_now_ms() - psc->denied_ms >= (uint64_t)denied_ms) {
        r = coxi_error(COX_EDENIED, "ps %u at %s: no connection: %s",
                       psc->options.index, coxi_psc_address(psc), psc->last_text);
    }
    coxi_unlock(&psc->lock);
    return r;
}

int coxi_psc_check(struct coxi_psc *psc)
{
    return check(psc, COXI_DENIED_MS);
}

int coxi_psc_check_last(struct coxi_psc *psc)
{
    return check(psc, 0);
}

uint64_t coxi_psc_incarnation(struct coxi_psc *psc)
{
    coxi_lock(&psc->lock);
    uint64_t incarnation = psc->incarnation;
    coxi_unlock(&psc->lock);
    return incarnation;
}

uint32_t coxi_psc_index(const struct coxi_psc *psc)
{
    return psc->options.index;
}

const char *coxi_psc_address(const struct coxi_psc *psc)
{
    return coxi_address_get(&psc->address);
}

/* Takes memory for an encoded message. */
static struct coxi_psc_meta *take_meta(struct coxi_psc *psc, size_t len)
    COXI_REQUIRES(psc->lock)
{
    struct coxi_psc_meta *meta = psc->metas;
    if (meta != NULL) {
        psc->metas = meta->next;
    }
    if (meta == NULL || meta->capacity < len) {
        size_t capacity = len > META_FIRST ? len : META_FIRST;
        free(meta);
        meta = malloc(sizeof(*meta) + capacity);
        if (meta != NULL) {
            meta->capacity = capacity;
        }
    }
    return meta;
}

static int encode(struct coxi_psc *psc, struct coxi_message *message,
                  struct coxi_psc_request *request) COXI_REQUIRES(psc->lock)
{
    const void *bytes;
    size_t len;
    if (!coxi_message_encode(message, &bytes, &len)) {
        return coxi_error(COX_ELIMIT, "a request of kind %d is too large to send",
                          (int)message->kind);
    }
    request->meta = take_meta(psc, len);
    if (request->meta == NULL) {
        return coxi_error_memory("a request");
    }
    request->meta->len = len;
    memcpy(request->meta->bytes, bytes, len);
    return 0;
}

static bool has_room(const struct coxi_psc *psc, size_t len) COXI_REQUIRES(psc->lock)
{
    return psc->waiting.count == 0 || (psc->waiting.count < WAITING_MAX &&
                                       psc->next_id - psc->waiting.first < SPAN_MAX &&
                                       psc->waiting_bytes + len <= WAITING_BYTES_MAX);
}

/* Gives the request an id and a place in `waiting`. */
static int enlist(struct coxi_psc *psc, struct coxi_message *message,
                  struct coxi_psc_request *request) COXI_REQUIRES(psc->lock)
{
    if (psc->failed != 0) {
        return failure(psc);
    }
    if (psc->unreached) {
        return coxi_error(COX_EPSLOST, "ps %u at %s: %s", psc->options.index,
                          coxi_psc_address(psc), psc->last_text);
    }
    request->id = message->request = psc->next_id;
    int r = encode(psc, message, request);
    if (r == 0) {
        r = coxi_window_put(&psc->waiting, request->id, request);
    }
    if (r == 0) {
        psc->next_id++;
        psc->waiting_bytes += payload_len(request);
        psc->claim = message->kind == COXI_CLAIM ? request->id : psc->claim;
        r = psc->channels[request->channel].started
                ? 0
                : coxi_psc_start_channel(psc, request->channel);
        if (r != 0) {
            (void)coxi_psc_delist(psc, request->id);
        }
    }
    if (r != 0) {
        drop_meta(psc, request);
    }
    return r;
}

static void prepare(const struct coxi_psc *psc, struct coxi_psc_request *request)
{
    bool is_long = payload_len(request) > SMALL_MAX || request->answer_len > SMALL_MAX;
    request->channel = is_long ? COXI_CHANNEL_DATA : COXI_CHANNEL_CONTROL;
    int timeout_ms =
        request->timeout_ms > 0 ? request->timeout_ms : psc->options.request_ms;
    request->deadline_ms = coxi_now_ms() + (uint64_t)timeout_ms;
    request->ends = 0;
    request->meta = NULL;
}

/* Waits until `waiting` has room for the request, at most until the request's
 * deadline. */
static int await_room(struct coxi_psc *psc, const struct coxi_psc_request *request)
    COXI_REQUIRES(psc->lock)
{
    uint64_t now = coxi_now_ms();
    uint64_t left_ms = request->deadline_ms > now ? request->deadline_ms - now : 0;
    struct timespec until = coxi_deadline(left_ms < INT_MAX ? (int)left_ms : INT_MAX);
    while (psc->failed == 0 && !psc->unreached &&
           !has_room(psc, payload_len(request))) {
        if (!coxi_wait_until(&psc->changed, &psc->lock, &until)) {
            return coxi_error(COX_ETIMEDOUT, "ps %u at %s: no answers in time",
                              psc->options.index, coxi_psc_address(psc));
        }
    }
    return 0;
}

/* Waits while more than IN_LINE_MAX bytes are in line on the request's connection.
 * Unlocks meanwhile. */
static void await_line(struct coxi_psc *psc, const struct coxi_psc_request *request)
    COXI_REQUIRES(psc->lock)
{
    struct coxi_link *link = link_of(psc, request->channel);
    if (link != NULL && coxi_link_queued(link) > IN_LINE_MAX) {
        coxi_unlock(&psc->lock);
        (void)coxi_link_wait_room(link, IN_LINE_MAX);
        coxi_lock(&psc->lock);
    }
    coxi_link_unref(link);
}

/* Puts the request in line while it holds the lock, because the request may be answered
 * and freed as soon as the lock is released. Starts sending without the lock. `waits`:
 * first waits for room in line and in `waiting`. */
static int submit(struct coxi_psc *psc, const struct coxi_message *message,
                  struct coxi_psc_request *request, bool later, bool waits)
{
    struct coxi_message numbered = *message;
    coxi_lock(&psc->lock);
    if (waits) {
        await_line(psc, request);
    }
    int r = waits ? await_room(psc, request) : 0;
    r = r == 0 ? enlist(psc, &numbered, request) : r;
    struct coxi_link *link = r == 0 ? link_of(psc, request->channel) : NULL;
    /* If the link breaks, the next one sends the request. */
    bool due = link != NULL && coxi_psc_put(link, request, later);
    coxi_unlock(&psc->lock);
    if (due) {
        coxi_link_flush(link);
    }
    coxi_link_unref(link);
    return r;
}

int coxi_psc_submit(struct coxi_psc *psc, const struct coxi_message *message,
                    struct coxi_psc_request *request, bool later)
{
    coxi_loop_assert_may_wait();
    prepare(psc, request);
    return submit(psc, message, request, later, true);
}

int coxi_psc_submit_now(struct coxi_psc *psc, const struct coxi_message *message,
                        struct coxi_psc_request *request, bool later)
{
    prepare(psc, request);
    return submit(psc, message, request, later, false);
}

void coxi_psc_flush(struct coxi_psc *psc)
{
    struct coxi_link *links[2];
    coxi_lock(&psc->lock);
    for (int i = 0; i < 2; i++) {
        links[i] = link_of(psc, (enum coxi_channel)i);
    }
    coxi_unlock(&psc->lock);
    for (int i = 0; i < 2; i++) {
        if (links[i] != NULL) {
            coxi_link_flush(links[i]);
            coxi_link_unref(links[i]);
        }
    }
}

void coxi_psc_tell(struct coxi_psc *psc, const struct coxi_message *message)
{
    coxi_lock(&psc->lock);
    struct coxi_link *link = link_of(psc, COXI_CHANNEL_CONTROL);
    coxi_unlock(&psc->lock);
    if (link != NULL) {
        (void)coxi_message_send(link, message, NULL, false);
        coxi_link_unref(link);
    }
}

void coxi_psc_give_up(struct coxi_psc *psc, const char *text)
{
    (void)coxi_psc_fail(psc, COX_EPSLOST, text);
}

/* ---- answers */

/* The incarnation in the answer to a Claim or a Describe; `known` for other answers. */
static uint64_t incarnation_in(const struct coxi_message *message, uint64_t known)
{
    struct coxi_ps_address ps = {0};
    if (message->kind == COXI_STATUS) {
        ps.incarnation = message->status.incarnation;
    } else if (message->kind == COXI_LAYOUT && message->layout.n_servers == 1) {
        coxi_layout_ps(&message->layout, 0, &ps);
    }
    return ps.incarnation != 0 ? ps.incarnation : known;
}

int coxi_psc_on_frame(void *arg, struct coxi_link *link, const struct coxi_frame *frame)
{
    struct coxi_psc_channel *channel = arg;
    struct coxi_psc *psc = channel->psc;
    if (!channel->greeted) {
        return coxi_psc_greet(channel, link, frame);
    }
    struct coxi_message message;
    int r = coxi_message_read(frame, &message);
    if (r != 0 || message.request == 0) {
        return r != 0 ? r : coxi_psc_told(channel, &message);
    }
    coxi_lock(&psc->lock);
    struct coxi_psc_request *request = coxi_window_get(&psc->waiting, message.request);
    bool ours = request == NULL || request->channel == channel->kind;
    psc->incarnation = incarnation_in(&message, psc->incarnation);
    if (ours) {
        (void)coxi_psc_delist(psc, message.request);
    }
    coxi_unlock(&psc->lock);
    if (!ours) {
        return coxi_error(COX_EPROTO, "an answer on the wrong connection");
    }
    if (request == NULL) {
        return 0; /* the second answer to a request that was sent twice */
    }
    if (request->into != NULL && frame->payload_len == request->into_len &&
        frame->payload != request->into && frame->payload_len > 0) {
        memcpy(request->into, frame->payload, frame->payload_len);
    }
    request->done(request, 0, &message, frame->payload, frame->payload_len);
    return 0;
}

void *coxi_psc_on_payload(void *arg, struct coxi_link *link,
                          const struct coxi_frame *frame)
{
    (void)link;
    struct coxi_psc_channel *channel = arg;
    struct coxi_message message;
    void *into = NULL;
    if (!channel->greeted || coxi_message_read(frame, &message) != 0) {
        return NULL;
    }
    coxi_lock(&channel->psc->lock);
    struct coxi_psc_request *request =
        coxi_window_get(&channel->psc->waiting, message.request);
    if (request != NULL && request->into_len == frame->payload_len &&
        request->channel == channel->kind) {
        into = request->into;
    }
    coxi_unlock(&channel->psc->lock);
    return into;
}

void coxi_psc_on_batch(void *arg, struct coxi_link *link)
{
    (void)link;
    struct coxi_psc *psc = ((struct coxi_psc_channel *)arg)->psc;
    if (psc->options.on_batch != NULL) {
        psc->options.on_batch(psc->options.arg);
    }
}

/* ---- the end */

/* Waits for a channel's thread, which was told to end. */
static void join_channel(struct coxi_psc_channel *channel)
{
    struct coxi_psc *psc = channel->psc;
    coxi_lock(&psc->lock);
    bool started = channel->started; /* no other thread will be started */
    channel->started = false;
    coxi_unlock(&psc->lock);
    if (started) {
        (void)pthread_join(channel->thread, NULL);
    }
}

void coxi_psc_retire(struct coxi_psc *psc, int code, const char *text)
{
    (void)coxi_psc_fail(psc, code, text);
    for (int i = 0; i < 2; i++) {
        join_channel(&psc->channels[i]);
    }
    coxi_lock(&psc->lock);
    while (psc->metas != NULL) {
        struct coxi_psc_meta *meta = psc->metas;
        psc->metas = meta->next;
        free(meta);
    }
    coxi_window_fini(&psc->waiting);
    free_dials(psc);
    coxi_unlock(&psc->lock);
}

void coxi_psc_close(struct coxi_psc *psc)
{
    if (psc == NULL) {
        return;
    }
    coxi_psc_retire(psc, COX_ECANCELLED, "closing");
    (void)pthread_cond_destroy(&psc->changed);
    coxi_mutex_fini(&psc->lock);
    coxi_address_fini(&psc->address);
    free(psc);
}
