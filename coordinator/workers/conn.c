/* See conn.h. Events are mail: the nng thread on which they happen allocates them, the
 * loop runs and frees them. A conn is freed with its last event. */
#include "coordinator/workers/conn.h"

#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/error.h"
#include "coordinator/workers/workers.h"

enum { CONNECT_MS = 1000 };

struct coxi_conn {
    struct cox_coordinator *c;
    const struct coxi_conn_events *events;
    void *arg;
    enum coxi_channel channel;
    bool accepted;          /* the peer has dialled: its greeting comes first */
    struct coxi_link *link; /* set by the loop */
    bool closing;           /* we have a reason to close it, which takes precedence */
    int close_code;
    char close_text[256];
    /* holds the payload that is being received; receiving thread */
    struct event *receiving;
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

static void conn_end(struct coxi_conn *conn, int code, const char *text)
{
    conn->c->workers->n_conns--;
    conn->events->on_close(conn->arg, conn, conn->closing ? conn->close_code : code,
                           conn->closing ? conn->close_text : text);
    coxi_link_unref(conn->link);
    free(conn);
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

/* ---- on nng's threads */

/* An event with room for `len` bytes. It is tiny, so without memory there is no going
 * on. */
static struct event *event_new(struct coxi_conn *conn, enum event_kind kind, size_t len)
{
    struct event *event =
        aligned_alloc(64, coxi_align(sizeof(*event) + coxi_align(len, 64), 64));
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

static int on_frame(void *arg, struct coxi_link *link, const struct coxi_frame *frame)
{
    (void)link;
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
    coxi_loop_post(conn->c->loop, &event->mail);
    return 0;
}

static void post_end(struct coxi_conn *conn, enum event_kind kind,
                     struct coxi_link *link, int code, const char *text)
{
    struct event *event = event_new(conn, kind, 0);
    if (event == NULL) {
        /* without this event the loop would wait for ever for the connection's end */
        abort();
    }
    event->link = link;
    event->code = code;
    strncpy(event->text, text, sizeof(event->text) - 1);
    coxi_loop_post(conn->c->loop, &event->mail);
}

static void on_close(void *arg, struct coxi_link *link, int code, const char *text)
{
    (void)link;
    struct coxi_conn *conn = arg;
    free(conn->receiving);
    conn->receiving = NULL;
    post_end(conn, EVENT_CLOSED, NULL, code, text);
}

static void connected(void *arg, int code, const char *text, struct coxi_link *link)
{
    post_end(arg, EVENT_CONNECTED, link, code, text);
}

static const struct coxi_link_events link_events = {
    .on_frame = on_frame,
    .on_payload = on_payload,
    .on_close = on_close,
};

/* ---- on the loop again */

static void on_connected(struct coxi_conn *conn, struct event *event)
{
    if (event->link == NULL) {
        conn_end(conn, event->code, event->text);
        return;
    }
    conn->link = event->link;
    coxi_link_listen_to(conn->link, &link_events, conn);
    coxi_links_add(conn->c->site.links, conn->link);
    if (!conn->accepted) {
        coxi_conn_greet(conn, conn->channel);
    }
    coxi_link_start(conn->link);
    if (conn->closing) {
        coxi_link_close(conn->link, conn->close_code, conn->close_text);
    } else {
        conn->events->on_open(conn->arg, conn);
    }
}

int coxi_conn_open(struct cox_coordinator *c, const char *url,
                   enum coxi_channel channel, const struct coxi_conn_events *events,
                   void *arg, struct coxi_conn **ret)
{
    struct coxi_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL) {
        return coxi_error_memory("a connection");
    }
    conn->c = c;
    conn->events = events;
    conn->arg = arg;
    conn->channel = channel;
    int r = coxi_link_connect_start(url, CONNECT_MS, connected, conn);
    if (r != 0) {
        free(conn);
        return r;
    }
    c->workers->n_conns++;
    *ret = conn;
    return 0;
}

void coxi_conn_accept(struct cox_coordinator *c, struct coxi_link *link,
                      const struct coxi_conn_events *events, void *arg)
{
    struct coxi_conn *conn = calloc(1, sizeof(*conn));
    struct event *event = conn != NULL ? event_new(conn, EVENT_CONNECTED, 0) : NULL;
    if (event == NULL) {
        free(conn);
        coxi_link_unref(link);
        return;
    }
    conn->c = c;
    conn->events = events;
    conn->arg = arg;
    conn->accepted = true;
    event->link = link;
    c->workers->n_conns++;
    coxi_loop_post(c->loop, &event->mail);
}

void coxi_conn_adopt(struct coxi_conn *conn, const struct coxi_conn_events *events,
                     void *arg)
{
    conn->events = events;
    conn->arg = arg;
}

void coxi_conn_greet(struct coxi_conn *conn, enum coxi_channel channel)
{
    (void)coxi_hello_send(conn->link, &(struct coxi_hello){
                                          .role = COXI_ROLE_CLIENT,
                                          .channel = channel,
                                          .session = conn->c->session,
                                      });
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
