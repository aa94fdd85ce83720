/*
 * See ps_client.h.
 *
 * Invariants
 *   - A request is in `waiting` from submission until `done`; ids are given in order,
 * so an answer finds it in O(1), and after a reconnection all go out again in order.
 *   - `done` with an error runs only while the request's channel has no link, or one
 * on which nothing has been sent yet: its payload and `into` are not referred to then.
 *
 * States of a channel: DOWN -> (connected, greeted) UP -> (link closed) DOWN. All in
 * its own thread. Locks: `lock` guards what the struct says; it comes before a link's
 * lock and is never held in a callback.
 */
#include "common/ps_client.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/address.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "common/window.h"

enum {
    META_FIRST = 256,   /* bytes of memory for an encoded message, at least */
    META_KEPT = 4096,   /* and at most where it is kept for another request */
    WAITING_MAX = 4096, /* unanswered requests: more block */
    WAITING_BYTES_MAX = 512 * 1024 * 1024, /* of their payloads; one may have more */
    IN_LINE_MAX = 4 * 1024 * 1024,         /* bytes in line: more block */
    SMALL_MAX = 64 * 1024,                 /* longer payloads go over data */
    BACKOFF_FIRST_MS = 5,
    BACKOFF_MAX_MS = 500,
};

/* Of the local path, each way, by channel: what is under way at a time. */
static const size_t ring_bytes[] = {(size_t)256 * 1024, (size_t)1024 * 1024};

/* An encoded message, kept for sending it again. */
struct coxi_psc_meta {
    struct coxi_psc_meta *next; /* of those that are not in use */
    size_t capacity;
    size_t len;
    _Alignas(8) uint8_t bytes[];
};

struct channel {
    struct coxi_psc *psc;
    enum coxi_channel kind;
    pthread_t thread;
    bool started;           /* all below: guarded by psc->lock */
    struct coxi_link *link; /* being greeted or up */
    bool up;
    bool greeted; /* these: this thread only */
    int verdict;  /* why trying again would not help, or 0 */
    char verdict_text[256];
};

struct coxi_psc {
    struct coxi_psc_options options;
    struct coxi_address address;
    struct channel channels[2];

    pthread_mutex_t lock; /* guards all below and the channels; leaf */
    pthread_cond_t changed;
    struct coxi_window waiting;
    size_t waiting_bytes;
    struct coxi_psc_meta
        *metas; /* not in use: as many as ever were, at most WAITING_MAX */
    uint64_t next_id;
    uint64_t incarnation;
    int failed; /* 0, or why nothing works any more */
    char failed_text[256];
    char last_text[256]; /* why the last connection failed */
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

/* The encoded message is not needed any more. Locked. */
static void drop_meta(struct coxi_psc *psc, struct coxi_psc_request *request)
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

/* Takes a request out of `waiting`; NULL: it is not there. Locked. */
static struct coxi_psc_request *delist(struct coxi_psc *psc, uint64_t id)
{
    struct coxi_psc_request *request = coxi_window_take(&psc->waiting, id);
    if (request != NULL) {
        drop_meta(psc, request);
        psc->waiting_bytes -= payload_len(request);
        (void)pthread_cond_broadcast(&psc->changed);
    }
    return request;
}

/* Puts the request in line; true: it is time for a flush, without the lock. Locked. */
static bool put_request(struct coxi_link *link, const struct coxi_psc_request *request,
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
        coxi_link_close(link, r, "a request could not be sent"); /* the next one does */
    }
    return due;
}

/* A reference to the link of the request's channel, if that is up. Locked. */
static struct coxi_link *link_of(struct coxi_psc *psc, enum coxi_channel kind)
{
    struct channel *channel = &psc->channels[kind];
    return channel->up ? coxi_link_ref(channel->link) : NULL;
}

/* The requests of a channel that have to end now, taken out of `waiting`, by
 * `next_id`. */
static struct coxi_psc_request *next_to_end(struct channel *channel, int *ret_code)
{
    struct coxi_psc *psc = channel->psc;
    struct coxi_psc_request *found = NULL;
    coxi_lock(&psc->lock);
    for (uint64_t id = psc->waiting.first; id < psc->waiting.next && found == NULL;
         id++) {
        struct coxi_psc_request *request = coxi_window_get(&psc->waiting, id);
        if (request != NULL && request->channel == channel->kind &&
            (psc->failed != 0 || request->expired)) {
            found = delist(psc, id);
            *ret_code = psc->failed != 0 ? psc->failed : COX_ETIMEDOUT;
        }
    }
    if (found != NULL) {
        (void)coxi_error(*ret_code, "ps %u at %s: %s", psc->options.index,
                         coxi_psc_address(psc),
                         psc->failed != 0 ? psc->failed_text : "no answer in time");
    }
    coxi_unlock(&psc->lock);
    return found;
}

static void end_requests(struct channel *channel)
{
    int code;
    struct coxi_psc_request *request;
    while ((request = next_to_end(channel, &code)) != NULL) {
        request->done(request, code, NULL, NULL, 0);
    }
}

/* ---- a connection's life */

static void note_failure(struct coxi_psc *psc, const char *text)
{
    coxi_lock(&psc->lock);
    strncpy(psc->last_text, text, sizeof(psc->last_text) - 1);
    coxi_unlock(&psc->lock);
}

/* Fails everything from now on. Returns true the first time. */
static bool fail(struct coxi_psc *psc, int code, const char *text)
{
    coxi_lock(&psc->lock);
    bool first = psc->failed == 0;
    if (first) {
        psc->failed = code;
        strncpy(psc->failed_text, text, sizeof(psc->failed_text) - 1);
    }
    for (int i = 0; i < 2; i++) {
        if (psc->channels[i].link != NULL) {
            coxi_link_close(psc->channels[i].link, code, text);
        }
    }
    (void)pthread_cond_broadcast(&psc->changed);
    coxi_unlock(&psc->lock);
    return first;
}

static void lose(struct coxi_psc *psc, int code, const char *text)
{
    if (fail(psc, code, text) && psc->options.on_lost != NULL) {
        psc->options.on_lost(psc->options.arg, psc, text);
    }
}

/* The ps has greeted: the channel is up, and what is unanswered goes out (again). */
static int greeted(struct channel *channel, const struct coxi_hello *hello)
{
    struct coxi_psc *psc = channel->psc;
    if (hello->role != COXI_ROLE_PS || hello->index != psc->options.index) {
        return coxi_error(COX_ECONFLICT, "there is another daemon at this address: %s",
                          hello->role == COXI_ROLE_PS ? "a ps with another --index"
                                                      : "it is no ps");
    }
    coxi_lock(&psc->lock);
    bool other = psc->incarnation != 0 && psc->incarnation != hello->incarnation;
    if (!other || !psc->options.same_incarnation) {
        psc->incarnation = hello->incarnation;
        channel->up = true;
        coxi_link_allow(channel->link, COXI_WIRE_META_MAX, COXI_PAYLOAD_MAX);
        for (uint64_t id = psc->waiting.first; id < psc->waiting.next; id++) {
            struct coxi_psc_request *request = coxi_window_get(&psc->waiting, id);
            if (request != NULL && request->channel == channel->kind) {
                (void)put_request(channel->link, request, true);
            }
        }
        (void)pthread_cond_broadcast(&psc->changed);
    }
    coxi_unlock(&psc->lock);
    coxi_link_flush(channel->link);
    if (other && psc->options.same_incarnation) {
        return coxi_error(COX_EPSLOST, "it was restarted and has lost its state");
    }
    return 0;
}

/* To the local path, if the ps has taken the offer. */
static void change_over(struct coxi_link *link, const struct coxi_hello *hello)
{
    if (*hello->local != '\0') {
        coxi_link_go_local(link);
    } else {
        coxi_link_withdraw(link);
    }
}

static int on_frame(void *arg, struct coxi_link *link, const struct coxi_frame *frame)
{
    struct channel *channel = arg;
    struct coxi_psc *psc = channel->psc;
    if (!channel->greeted) {
        struct coxi_hello hello;
        int r = coxi_hello_read(link, frame, &hello);
        channel->greeted = r == 0;
        if (r == 0) {
            change_over(link, &hello);
            r = greeted(channel, &hello);
        }
        if (r == COX_EVERSION || r == COX_ECONFLICT || r == COX_EPSLOST) {
            /* Told when the link has ended: what it still has to say leaves first. */
            channel->verdict = r;
            strncpy(channel->verdict_text, coxi_error_text(),
                    sizeof(channel->verdict_text) - 1);
        }
        return r;
    }
    struct coxi_message message;
    int r = coxi_message_read(frame, &message);
    if (r != 0) {
        return r;
    }
    coxi_lock(&psc->lock);
    struct coxi_psc_request *request = coxi_window_get(&psc->waiting, message.request);
    bool ours = request == NULL || request->channel == channel->kind;
    if (ours) {
        (void)delist(psc, message.request);
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

static void *on_payload(void *arg, struct coxi_link *link,
                        const struct coxi_frame *frame)
{
    (void)link;
    struct channel *channel = arg;
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

static void on_batch(void *arg, struct coxi_link *link)
{
    (void)link;
    struct coxi_psc *psc = ((struct channel *)arg)->psc;
    if (psc->options.on_batch != NULL) {
        psc->options.on_batch(psc->options.arg);
    }
}

static void on_close(void *arg, struct coxi_link *link, int code, const char *text)
{
    (void)link;
    (void)code;
    struct channel *channel = arg;
    note_failure(channel->psc, text);
}

static const struct coxi_link_events events = {on_frame, on_payload, on_batch,
                                               on_close};

/* Connects once and serves the connection until it is closed. True: it had been up. */
static bool connect_and_serve(struct channel *channel)
{
    struct coxi_psc *psc = channel->psc;
    struct coxi_link *link;
    if (coxi_link_connect(coxi_psc_address(psc), psc->options.connect_ms, &link) != 0) {
        note_failure(psc, coxi_error_text());
        return false;
    }
    channel->greeted = false;
    coxi_link_listen_to(link, &events, channel);
    coxi_links_add(psc->options.links, link);
    coxi_lock(&psc->lock);
    channel->link = link;
    bool stop = psc->failed != 0;
    coxi_unlock(&psc->lock);
    /* What expired before has closed no link, and must not go out on this one. */
    end_requests(channel);
    struct coxi_hello hello = psc->options.self;
    hello.channel = channel->kind;
    /* Without memory to offer, it is done without. */
    if (psc->options.local_path &&
        coxi_link_offer(link, ring_bytes[channel->kind], &hello.local) != 0) {
        hello.local = NULL;
    }
    (void)coxi_hello_send(link, &hello);
    if (stop) {
        coxi_link_close(link, COX_ECANCELLED, "closing");
    }
    (void)coxi_link_run(link);
    coxi_lock(&psc->lock);
    bool was_up = channel->up;
    channel->up = false;
    channel->link = NULL;
    coxi_unlock(&psc->lock);
    coxi_link_unref(link);
    if (channel->verdict != 0) {
        lose(psc, channel->verdict, channel->verdict_text);
    }
    return was_up;
}

/* Waits before the next attempt; false: there is none. */
static bool back_off(struct channel *channel, int *backoff_ms, uint64_t down_since_ms)
{
    struct coxi_psc *psc = channel->psc;
    if (psc->options.reconnect_ms >= 0 && coxi_psc_incarnation(psc) != 0 &&
        coxi_now_ms() - down_since_ms > (uint64_t)psc->options.reconnect_ms) {
        char text[sizeof(psc->last_text)];
        coxi_lock(&psc->lock);
        memcpy(text, psc->last_text, sizeof(text));
        coxi_unlock(&psc->lock);
        lose(psc, COX_EPSLOST, text);
    }
    struct timespec until = coxi_deadline(*backoff_ms);
    coxi_lock(&psc->lock);
    while (psc->failed == 0 &&
           pthread_cond_timedwait(&psc->changed, &psc->lock, &until) == 0) {
    }
    bool again = psc->failed == 0;
    coxi_unlock(&psc->lock);
    *backoff_ms = *backoff_ms * 2 < BACKOFF_MAX_MS ? *backoff_ms * 2 : BACKOFF_MAX_MS;
    return again;
}

static void *channel_thread(void *arg)
{
    struct channel *channel = arg;
    int backoff_ms = BACKOFF_FIRST_MS;
    uint64_t down_since_ms = coxi_now_ms();
    do {
        if (connect_and_serve(channel)) {
            backoff_ms = BACKOFF_FIRST_MS;
            down_since_ms = coxi_now_ms();
        }
        end_requests(channel);
    } while (back_off(channel, &backoff_ms, down_since_ms));
    end_requests(channel);
    return NULL;
}

/* Starts the channel's thread on first need. Locked. */
static int start_channel(struct coxi_psc *psc, enum coxi_channel kind)
{
    struct channel *channel = &psc->channels[kind];
    if (channel->started) {
        return 0;
    }
    int r =
        coxi_thread_start(&channel->thread, "cox:ps-client", channel_thread, channel);
    channel->started = r == 0;
    return r;
}

/* ---- the interface */

int coxi_psc_open(const struct coxi_psc_options *options, struct coxi_psc **ret)
{
    struct coxi_psc *psc = calloc(1, sizeof(*psc));
    if (psc == NULL || coxi_address_set(&psc->address, options->address) != 0) {
        free(psc);
        return coxi_error_memory("a connection to a ps");
    }
    psc->options = *options;
    psc->options.address = NULL; /* that is the caller's */
    (void)pthread_mutex_init(&psc->lock, NULL);
    coxi_cond_init(&psc->changed);
    coxi_window_init(&psc->waiting, 1, WAITING_MAX);
    psc->next_id = 1;
    for (int i = 0; i < 2; i++) {
        psc->channels[i].psc = psc;
        psc->channels[i].kind = (enum coxi_channel)i;
    }
    coxi_lock(&psc->lock);
    int r = start_channel(psc, COXI_CHANNEL_CONTROL);
    coxi_unlock(&psc->lock);
    if (r != 0) {
        coxi_psc_close(psc);
        return r;
    }
    *ret = psc;
    return 0;
}

int coxi_psc_wait(struct coxi_psc *psc, int timeout_ms)
{
    struct timespec until = coxi_deadline(timeout_ms);
    int r = 0;
    coxi_lock(&psc->lock);
    while (r == 0 && psc->failed == 0 && !psc->channels[COXI_CHANNEL_CONTROL].up) {
        if (pthread_cond_timedwait(&psc->changed, &psc->lock, &until) != 0) {
            r = coxi_error(COX_ETIMEDOUT, "ps %u at %s: no connection: %s",
                           psc->options.index, coxi_psc_address(psc), psc->last_text);
        }
    }
    if (r == 0 && psc->failed != 0) {
        r = coxi_error(psc->failed, "ps %u at %s: %s", psc->options.index,
                       coxi_psc_address(psc), psc->failed_text);
    }
    coxi_unlock(&psc->lock);
    return r;
}

uint64_t coxi_psc_incarnation(struct coxi_psc *psc)
{
    coxi_lock(&psc->lock);
    uint64_t incarnation = psc->incarnation;
    coxi_unlock(&psc->lock);
    return incarnation;
}

int coxi_psc_move(struct coxi_psc *psc, const char *address)
{
    return coxi_address_set(&psc->address, address);
}

uint32_t coxi_psc_index(const struct coxi_psc *psc)
{
    return psc->options.index;
}

const char *coxi_psc_address(const struct coxi_psc *psc)
{
    return coxi_address_get(&psc->address);
}

/* Memory for an encoded message. Locked. */
static struct coxi_psc_meta *take_meta(struct coxi_psc *psc, size_t len)
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

/* Locked. */
static int encode(struct coxi_psc *psc, struct coxi_message *message,
                  struct coxi_psc_request *request)
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

/* Gives the request an id and a place among the waiting. Locked; may wait for a
 * place. */
static int enlist(struct coxi_psc *psc, struct coxi_message *message,
                  struct coxi_psc_request *request)
{
    size_t len = payload_len(request);
    while (psc->failed == 0 && psc->waiting.count > 0 &&
           (psc->next_id - psc->waiting.first >= WAITING_MAX ||
            psc->waiting_bytes + len > WAITING_BYTES_MAX)) {
        (void)pthread_cond_wait(&psc->changed, &psc->lock);
    }
    if (psc->failed != 0) {
        return coxi_error(psc->failed, "ps %u at %s: %s", psc->options.index,
                          coxi_psc_address(psc), psc->failed_text);
    }
    request->id = message->request = psc->next_id;
    int r = encode(psc, message, request);
    if (r == 0) {
        r = coxi_window_put(&psc->waiting, request->id, request);
    }
    if (r == 0) {
        psc->next_id++;
        psc->waiting_bytes += len;
        r = start_channel(psc, request->channel);
        if (r != 0) {
            (void)delist(psc, request->id);
        }
    }
    if (r != 0) {
        drop_meta(psc, request);
    }
    return r;
}

int coxi_psc_submit(struct coxi_psc *psc, const struct coxi_message *message,
                    struct coxi_psc_request *request, bool later)
{
    struct coxi_message numbered = *message;
    bool is_long = payload_len(request) > SMALL_MAX || request->answer_len > SMALL_MAX;
    request->channel = is_long ? COXI_CHANNEL_DATA : COXI_CHANNEL_CONTROL;
    int timeout_ms =
        request->timeout_ms > 0 ? request->timeout_ms : psc->options.request_ms;
    request->deadline_ms = coxi_now_ms() + (uint64_t)timeout_ms;
    request->expired = false;
    request->meta = NULL;
    coxi_lock(&psc->lock);
    struct coxi_link *link = link_of(psc, request->channel);
    coxi_unlock(&psc->lock);
    if (link != NULL) {
        (void)coxi_link_wait_room(link, IN_LINE_MAX);
        coxi_link_unref(link);
    }
    /* In line under the lock: once it is released, the request may be answered and
     * gone. Not sent under it. */
    coxi_lock(&psc->lock);
    int r = enlist(psc, &numbered, request);
    link = r == 0 ? link_of(psc, request->channel) : NULL;
    /* If the link breaks, the next one sends it. */
    bool due = link != NULL && put_request(link, request, later);
    coxi_unlock(&psc->lock);
    if (due) {
        coxi_link_flush(link);
    }
    coxi_link_unref(link);
    return r;
}

void coxi_psc_flush(struct coxi_psc *psc)
{
    for (int i = 0; i < 2; i++) {
        coxi_lock(&psc->lock);
        struct coxi_link *link = link_of(psc, (enum coxi_channel)i);
        coxi_unlock(&psc->lock);
        if (link != NULL) {
            coxi_link_flush(link);
            coxi_link_unref(link);
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
    (void)fail(psc, COX_EPSLOST, text);
}

void coxi_psc_tick(struct coxi_psc *psc)
{
    uint64_t now = coxi_now_ms();
    coxi_lock(&psc->lock);
    for (uint64_t id = psc->waiting.first; id < psc->waiting.next; id++) {
        struct coxi_psc_request *request = coxi_window_get(&psc->waiting, id);
        if (request == NULL || request->expired || now < request->deadline_ms) {
            continue;
        }
        /* It ends when its connection has: until then its memory may be in use. */
        request->expired = true;
        struct channel *channel = &psc->channels[request->channel];
        if (channel->link != NULL) {
            coxi_link_close(channel->link, COX_ETIMEDOUT, "a request was not answered");
        }
        (void)pthread_cond_broadcast(&psc->changed);
    }
    coxi_unlock(&psc->lock);
}

void coxi_psc_close(struct coxi_psc *psc)
{
    if (psc == NULL) {
        return;
    }
    (void)fail(psc, COX_ECANCELLED, "closing");
    for (int i = 0; i < 2; i++) {
        if (psc->channels[i].started) {
            (void)pthread_join(psc->channels[i].thread, NULL);
        }
    }
    coxi_window_fini(&psc->waiting);
    while (psc->metas != NULL) {
        struct coxi_psc_meta *meta = psc->metas;
        psc->metas = meta->next;
        free(meta);
    }
    (void)pthread_cond_destroy(&psc->changed);
    (void)pthread_mutex_destroy(&psc->lock);
    coxi_address_fini(&psc->address);
    free(psc);
}
