/*
 * See server.h. A connection is a struct connection in a list: its thread marks it
 * ended, and the next tick (or the end of the server) joins the thread and frees it. A
 * peer that does not read its answers is not read from either.
 */
#include "common/server.h"

#include <poll.h>
#include <stdlib.h>

#include "common/error.h"
#include "common/log.h"
#include "common/sync.h"

enum {
    CONNECTIONS_MAX = 16384,
    IN_LINE_MAX = 8 * 1024 * 1024, /* bytes of answers in line before reading stops */
    BIND_MS = 1000, /* how long an address may be in use before that counts */
    BIND_REST_MS = 20,
};

struct connection {
    struct coxi_peer peer; /* hello: written once, under the lock */
    struct connection *next;
    pthread_t thread;
    bool greeted; /* this one and `ended`: guarded by server->lock */
    bool ended;
};

struct coxi_server {
    struct coxi_server_options options;
    struct coxi_links *links;
    struct coxi_listener *listener;
    pthread_mutex_t lock; /* guards the list; before that of the links */
    struct connection *connections;
    size_t n_connections;
};

static int greet(struct connection *connection, const struct coxi_frame *frame)
{
    struct coxi_peer *peer = &connection->peer;
    struct coxi_server *server = peer->server;
    struct coxi_hello hello;
    int r = coxi_hello_read(peer->link, frame, &hello);
    if (r != 0) {
        return r;
    }
    coxi_lock(&server->lock);
    peer->hello = hello;
    coxi_unlock(&server->lock);
    r = server->options.events->on_hello(server->options.arg, peer);
    if (r != 0) {
        return coxi_refuse(peer->link, r, coxi_error_text());
    }
    coxi_lock(&server->lock);
    connection->greeted = true;
    coxi_unlock(&server->lock);
    coxi_link_allow(peer->link, COXI_WIRE_META_MAX, COXI_PAYLOAD_MAX);
    struct coxi_hello self = server->options.self;
    self.channel = hello.channel;
    r = coxi_hello_send(peer->link, &self);
    if (r == 0 && server->options.events->on_greeted != NULL) {
        r = server->options.events->on_greeted(server->options.arg, peer);
    }
    return r;
}

static int on_frame(void *arg, struct coxi_link *link, const struct coxi_frame *frame)
{
    struct connection *connection = arg;
    struct coxi_server *server = connection->peer.server;
    struct coxi_message message;
    if (!connection->greeted) { /* written by this thread alone */
        return greet(connection, frame);
    }
    int r = coxi_message_read(frame, &message);
    if (r == 0) {
        r = coxi_link_wait_room(link, IN_LINE_MAX);
    }
    return r != 0 ? r
                  : server->options.events->on_message(
                        server->options.arg, &connection->peer, &message, frame);
}

static void on_close(void *arg, struct coxi_link *link, int code, const char *text)
{
    (void)link;
    struct connection *connection = arg;
    const struct coxi_server_options *options = &connection->peer.server->options;
    bool expected = code == COX_ECLOSED || code == COX_ECANCELLED;
    coxi_log(expected ? COXI_LOG_DEBUG : COXI_LOG_WARN, "connection_closed",
             "peer_role=%d peer_index=%u code=%s text=\"%s\"",
             (int)connection->peer.hello.role, connection->peer.hello.index,
             coxi_error_name(code), text);
    if (connection->greeted && options->events->on_close != NULL) {
        options->events->on_close(options->arg, &connection->peer);
    }
}

static const struct coxi_link_events link_events = {
    .on_frame = on_frame,
    .on_close = on_close,
};

static void *connection_thread(void *arg)
{
    struct connection *connection = arg;
    struct coxi_server *server = connection->peer.server;
    (void)coxi_link_run(connection->peer.link);
    coxi_lock(&server->lock);
    connection->ended = true;
    coxi_unlock(&server->lock);
    return NULL;
}

/* On a thread of nng's: makes the connection and its thread, no more. */
static void accepted(void *arg, struct coxi_link *link)
{
    struct coxi_server *server = arg;
    struct connection *connection = calloc(1, sizeof(*connection));
    int r = connection == NULL ? coxi_error_memory("a connection") : 0;
    coxi_lock(&server->lock);
    if (r == 0 && server->n_connections == CONNECTIONS_MAX) {
        r = coxi_error(COX_ELIMIT, "%d connections are open", CONNECTIONS_MAX);
    }
    if (r == 0) {
        connection->peer.server = server;
        connection->peer.link = link;
        coxi_link_listen_to(link, &link_events, connection);
        coxi_links_add(server->links, link);
        r = coxi_thread_start(&connection->thread, "cox:peer", connection_thread,
                              connection);
    }
    if (r == 0) {
        connection->next = server->connections;
        server->connections = connection;
        server->n_connections++;
    }
    coxi_unlock(&server->lock);
    if (r != 0) {
        coxi_log(COXI_LOG_WARN, "connection_dropped", "error=\"%s\"",
                 coxi_error_text());
        coxi_links_drop(link);
        coxi_link_unref(link);
        free(connection);
    }
}

int coxi_server_open(const struct coxi_server_options *options,
                     struct coxi_server **ret)
{
    struct coxi_server *server = calloc(1, sizeof(*server));
    if (server == NULL) {
        return coxi_error_memory("the server");
    }
    server->options = *options;
    (void)pthread_mutex_init(&server->lock, NULL);
    int r = coxi_links_new(options->peer_timeout_ms, &server->links);
    for (int waited_ms = 0; r == 0 && server->listener == NULL;
         waited_ms += BIND_REST_MS) {
        r = coxi_listener_open(options->listen, accepted, server, &server->listener);
        if (r == COX_EAGAIN && waited_ms < BIND_MS) {
            (void)poll(NULL, 0, BIND_REST_MS);
            r = 0;
        }
    }
    if (r == COX_EAGAIN) {
        r = coxi_error(COX_EADDRESS,
                       "%s is in use: end the process that listens there, or listen at "
                       "another address (port 0 is any free one)",
                       options->listen);
    }
    if (r != 0) {
        coxi_server_free(server);
        return r;
    }
    *ret = server;
    return 0;
}

void coxi_server_start(struct coxi_server *server)
{
    coxi_listener_start(server->listener);
}

const char *coxi_server_url(const struct coxi_server *server)
{
    return coxi_listener_url(server->listener);
}

struct coxi_links *coxi_server_links(struct coxi_server *server)
{
    return server->links;
}

bool coxi_server_any(struct coxi_server *server,
                     bool (*match)(const void *arg, const struct coxi_hello *hello),
                     const void *arg)
{
    bool any = false;
    coxi_lock(&server->lock);
    for (struct connection *c = server->connections; c != NULL && !any; c = c->next) {
        any = c->greeted && !c->ended && match(arg, &c->peer.hello);
    }
    coxi_unlock(&server->lock);
    return any;
}

/* The connections that have ended (all: every one), out of the list. */
static struct connection *take_ended(struct coxi_server *server, bool all)
{
    struct connection *taken = NULL;
    coxi_lock(&server->lock);
    for (struct connection **at = &server->connections; *at != NULL;) {
        struct connection *connection = *at;
        if (!all && !connection->ended) {
            at = &connection->next;
            continue;
        }
        *at = connection->next;
        connection->next = taken;
        taken = connection;
        server->n_connections--;
    }
    coxi_unlock(&server->lock);
    return taken;
}

static void join(struct connection *connection)
{
    while (connection != NULL) {
        struct connection *next = connection->next;
        (void)pthread_join(connection->thread, NULL);
        coxi_link_unref(connection->peer.link);
        coxi_buffer_fini(&connection->peer.scratch);
        free(connection);
        connection = next;
    }
}

void coxi_server_tick(struct coxi_server *server)
{
    coxi_links_tick(server->links);
    join(take_ended(server, false));
}

void coxi_server_stop(struct coxi_server *server)
{
    coxi_listener_close(server->listener);
    server->listener = NULL;
    if (server->links != NULL) {
        coxi_links_close_all(server->links, COX_ECANCELLED, "the daemon is ending");
    }
    join(take_ended(server, true));
}

void coxi_server_free(struct coxi_server *server)
{
    if (server != NULL) {
        coxi_server_stop(server);
        coxi_links_free(server->links);
        (void)pthread_mutex_destroy(&server->lock);
        free(server);
    }
}
