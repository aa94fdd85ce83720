/*
 * See conn.h. Events are mail: the receiving thread allocates them, a turn of the loop
 * runs and frees them. A conn is freed with its last event. The events of its beginning and
 * of its end are allocated with it: without them the loop would wait for ever.
 *
 * The control connections of up to LOCAL_MAX workers on this host offer the local path
 * (link.h). Each of these has a thread that receives. While the loop sleeps, that
 * thread takes the turn that handles its frames, because waking the loop's thread takes
 * longer than most turns. All other connections are received on nng's threads, which
 * only post, because they serve all connections and must not block.
 */
#include "coordinator/workers/conn.h"

#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/workers/workers.h"
#include "net/rings.h"

enum {
    CONNECT_MS = 1000,
    LOCAL_MAX = 16, /* connections that have a thread */
};

struct coxi_conn {
    struct cox_coordinator *c;
    const struct coxi_conn_events *events;
    void *arg;
    enum coxi_channel channel;
    bool accepted;          /* the peer has dialled: its greeting comes first */
    struct coxi_link *link; /* set by the loop */
    /* we close it, so our reason takes precedence over the link's */
    bool closing;
    int close_code;
    char close_text[256];
    bool may_be_local; /* a control connection that we dial, to a worker on this host */
    bool threaded;     /* has a thread, which ends with its EVENT_CLOSED */
    pthread_t thread;
    /* until they are posted, in this order */
    struct event *connected;
    struct event *closed;

    /* ---- only for the receiving thread */
    struct event *receiving; /* holds the payload that is being received */
    bool greeted;            /* `threaded`: the peer's first frame has come */
    bool has_put;            /* put an event that on_batch runs */
};

enum event_kind { EVENT_CONNECTED, EVENT_FRAME, EVENT_CLOSED };

struct event {
    struct coxi_mail mail;
    enum event_kind kind;
    struct coxi_conn *conn;
    struct coxi_link *link; /* CONNECTED: the link; NULL: connecting failed */
    int code;
    char text[256];
    struct coxi_frame frame;
    _Alignas(64) uint8_t bytes[]; /* payload, then metadata */
};

/* ---- on the loop */

static void conn_free(struct coxi_conn *conn)
{
    free(conn->connected);
    free(conn->closed);
    free(conn);
}

static void conn_end(struct coxi_conn *conn, int code, const char *text)
{
    conn->c->workers->n_conns--;
    if (conn->threaded) {
        (void)pthread_join(conn->thread, NULL); /* the thread is about to end */
        conn->c->workers->n_local--;
    }
    conn->events->on_close(conn->arg, conn, conn->closing ? conn->close_code : code,
                           conn->closing ? conn->close_text : text);
    coxi_link_unref(conn->link);
    conn_free(conn);
}

static void on_connected(struct coxi_conn *conn, struct event *event);

static void run_event(struct coxi_mail *mail)
{
    struct event *event = (struct event *)mail;
    struct coxi_conn *conn = event->conn;
    struct cox_coordinator *c = conn->c;
    switch (event->kind) {
    case EVENT_CONNECTED:
        on_connected(conn, event);
        break;
    case EVENT_FRAME: {
        int r = conn->events->on_frame(conn->arg, conn, &event->frame);
        if (r != 0) {
            coxi_conn_close(conn, r, coxi_error_text());
        }
        break;
    }
    case EVENT_CLOSED:
        conn_end(conn, event->code, event->text);
        break;
    }
    free(event);
    coxi_loop_wake_after_mail(c->loop); /* the turn's end: dispatch and settle */
}

/* ---- on receiving threads */

/* An event with room for `len` bytes. */
static struct event *event_new(struct coxi_conn *conn, enum event_kind kind, size_t len)
{
    struct event *event = coxi_aligned_new(sizeof(*event) + coxi_align(len, 64));
    if (event != NULL) {
        memset(event, 0, sizeof(*event));
        event->kind = kind;
        event->conn = conn;
        event->mail.run = run_event;
    }
    return event;
}

/* The event for a frame: the payload comes first in its memory, for alignment. */
static struct event *frame_event(struct coxi_conn *conn, const struct coxi_frame *frame)
{
    size_t payload_len = coxi_align(frame->payload_len, 8);
    struct event *event = event_new(conn, EVENT_FRAME, payload_len + frame->meta_len);
    if (event != NULL) {
        event->frame.payload = event->bytes;
        event->frame.payload_len = frame->payload_len;
        event->frame.meta = event->bytes + payload_len;
        event->frame.meta_len = frame->meta_len;
    }
    return event;
}

static void *on_payload(void *arg, struct coxi_link *link,
                        const struct coxi_frame *frame)
{
    (void)link;
    struct coxi_conn *conn = arg;
    conn->receiving = frame_event(conn, frame);
    return conn->receiving != NULL ? conn->receiving->bytes : NULL;
}

/* The peer's first frame: its greeting, which says whether it takes the offer; or why
 * it refuses us. */
static void change_over(struct coxi_conn *conn, struct coxi_link *link,
                        const struct coxi_frame *frame)
{
    struct coxi_message message;
    conn->greeted = true;
    if (coxi_message_read(frame, &message) == 0 && message.kind == COXI_HELLO) {
        coxi_hello_change_over(link, &message.hello);
    }
}

static int on_frame(void *arg, struct coxi_link *link, const struct coxi_frame *frame)
{
    struct coxi_conn *conn = arg;
    struct event *event = conn->receiving;
    conn->receiving = NULL;
    if (event == NULL) {
        event = frame_event(conn, frame);
        if (event == NULL) {
            return coxi_error_memory("a message");
        }
        if (frame->payload_len > 0) {
            memcpy(event->bytes, frame->payload, frame->payload_len);
        }
    }
    memcpy((uint8_t *)(uintptr_t)event->frame.meta, frame->meta, frame->meta_len);
    if (!conn->threaded) {
        coxi_loop_post(conn->c->loop, &event->mail);
        return 0;
    }
    if (!conn->greeted) {
        change_over(conn, link, frame);
    }
    coxi_loop_put(conn->c->loop, &event->mail);
    conn->has_put = true;
    return 0;
}

static void on_batch(void *arg, struct coxi_link *link)
{
    (void)link;
    struct coxi_conn *conn = arg;
    if (conn->has_put) {
        conn->has_put = false;
        coxi_loop_run_posted(conn->c->loop);
    }
}

/* Posts one of the events that were allocated with the conn. */
static void post(struct event **at, struct coxi_link *link, int code, const char *text)
{
    struct event *event = *at;
    *at = NULL; /* the loop frees it */
    event->link = link;
    event->code = code;
    strncpy(event->text, text, sizeof(event->text) - 1);
    coxi_loop_post(event->conn->c->loop, &event->mail);
}

static void on_close(void *arg, struct coxi_link *link, int code, const char *text)
{
    (void)link;
    struct coxi_conn *conn = arg;
    free(conn->receiving);
    conn->receiving = NULL;
    post(&conn->closed, NULL, code, text);
}

static void connected(void *arg, int code, const char *text, struct coxi_link *link)
{
    struct coxi_conn *conn = arg;
    post(&conn->connected, link, code, text);
}

static const struct coxi_link_events link_events = {
    .on_frame = on_frame,
    .on_payload = on_payload,
    .on_close = on_close,
};

static const struct coxi_link_events threaded_events = {
    .on_frame = on_frame,
    .on_payload = on_payload,
    .on_batch = on_batch,
    .on_close = on_close,
};

static void *conn_thread(void *link)
{
    (void)coxi_link_run(link);
    return NULL;
}

/* ---- on the loop again */

/* Makes an offer, with the name in *ret_name, and starts the thread that receives.
 * False: the connection stays on the socket (there may be no memory). */
static bool start_local(struct coxi_conn *conn, const char **ret_name)
{
    struct coxi_workers *workers = conn->c->workers;
    const char *name;
    if (!conn->may_be_local || workers->n_local == LOCAL_MAX ||
        coxi_link_offer(conn->link, NULL, COXI_RING_MIN, &name) != 0) {
        return false;
    }
    coxi_link_listen_to(conn->link, &threaded_events, conn);
    conn->threaded = true;
    if (coxi_thread_start(&conn->thread, "cox:worker", conn_thread, conn->link) != 0) {
        coxi_link_withdraw(conn->link);
        conn->threaded = false;
        return false;
    }
    workers->n_local++;
    *ret_name = name;
    return true;
}

static struct coxi_hello own_hello(const struct cox_coordinator *c)
{
    return (struct coxi_hello){.role = COXI_ROLE_CLIENT, .session = c->session};
}

static void greet(struct coxi_conn *conn, enum coxi_channel channel, const char *local)
{
    struct coxi_hello hello = own_hello(conn->c);
    hello.channel = channel;
    hello.local = local;
    (void)coxi_hello_send(conn->link, &hello);
}

struct coxi_guard coxi_conn_guard(const struct cox_coordinator *c)
{
    const struct coxi_hello hello = own_hello(c);
    return coxi_hello_guard(&c->site.key, &hello);
}

static void on_connected(struct coxi_conn *conn, struct event *event)
{
    const char *local = NULL;
    if (event->link == NULL) {
        conn_end(conn, event->code, event->text);
        return;
    }
    conn->link = event->link;
    coxi_links_add(conn->c->site.links, conn->link);
    bool receives = start_local(conn, &local);
    if (!receives) {
        coxi_link_listen_to(conn->link, &link_events, conn);
    }
    if (!conn->accepted) {
        greet(conn, conn->channel, local);
    }
    if (!receives) {
        coxi_link_start(conn->link);
    }
    if (conn->closing) {
        coxi_link_close(conn->link, conn->close_code, conn->close_text);
    } else {
        conn->events->on_open(conn->arg, conn);
    }
}

/* NULL: there is no memory. */
static struct coxi_conn *conn_new(struct cox_coordinator *c,
                                  const struct coxi_conn_events *events, void *arg)
{
    struct coxi_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL) {
        return NULL;
    }
    conn->c = c;
    conn->events = events;
    conn->arg = arg;
    conn->connected = event_new(conn, EVENT_CONNECTED, 0);
    conn->closed = event_new(conn, EVENT_CLOSED, 0);
    if (conn->connected == NULL || conn->closed == NULL) {
        conn_free(conn);
        return NULL;
    }
    return conn;
}

int coxi_conn_open(struct cox_coordinator *c, const char *url,
                   enum coxi_channel channel, const struct coxi_conn_events *events,
                   void *arg, struct coxi_conn **ret)
{
    struct coxi_conn *conn = conn_new(c, events, arg);
    if (conn == NULL) {
        return coxi_error_memory("a connection");
    }
    conn->channel = channel;
    conn->may_be_local = channel == COXI_CHANNEL_CONTROL && coxi_url_is_local(url);
    const struct coxi_guard guard = coxi_conn_guard(c);
    int r = coxi_link_connect_start(url, &guard, CONNECT_MS, connected, conn);
    if (r != 0) {
        conn_free(conn);
        return r;
    }
    c->workers->n_conns++;
    *ret = conn;
    return 0;
}

void coxi_conn_accept(struct cox_coordinator *c, struct coxi_link *link,
                      const struct coxi_conn_events *events, void *arg)
{
    struct coxi_conn *conn = conn_new(c, events, arg);
    if (conn == NULL) {
        coxi_link_unref(link);
        return;
    }
    conn->accepted = true;
    c->workers->n_conns++;
    post(&conn->connected, link, 0, "");
}

void coxi_conn_adopt(struct coxi_conn *conn, const struct coxi_conn_events *events,
                     void *arg)
{
    conn->events = events;
    conn->arg = arg;
}

void coxi_conn_greet(struct coxi_conn *conn, enum coxi_channel channel)
{
    greet(conn, channel, NULL);
}

struct coxi_link *coxi_conn_link(struct coxi_conn *conn)
{
    return conn->link;
}

void coxi_conn_close(struct coxi_conn *conn, int code, const char *text)
{
    if (conn == NULL) {
        return;
    }
    if (!conn->closing) {
        conn->closing = true;
        conn->close_code = code;
        strncpy(conn->close_text, text, sizeof(conn->close_text) - 1);
    }
    if (conn->link != NULL) {
        coxi_link_close(conn->link, code, text);
    }
}
