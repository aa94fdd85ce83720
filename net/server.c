/*
 * See server.h. A connection is a struct coxi_connection in a list. When it ends, its thread
 * takes it out of the list, frees what it holds, and joins the thread that ended before
 * it; the next tick (or the end of the server) joins the last one. While a peer does not
 * read its answers, nothing is read from it.
 *
 * A server that dials has a thread for dialling, which also serves that connection.
 * Data connections are in the list like accepted ones; their threads dial first.
 */
#include <stdlib.h>

#include "common/error.h"
#include "common/log.h"
#include "common/rand.h"
#include "common/sync.h"
#include "net/server_internal.h"
#include "schema/check.h"

enum {
    /* bytes of answers in line; with more, reading stops */
    IN_LINE_MAX = 1024 * 1024,
    CONNECT_MS = 1000,
    REST_FIRST_MS = 10, /* pause before dialling again; it doubles each time */
    REST_MAX_MS = 2000,
    /* data connections that we dialled: one in use, and those that are ending */
    DATA_MAX = 8,
};

/* ---- a connection's thread */

/* Our greeting of this peer. */
static struct coxi_hello own_hello(const struct coxi_peer *peer,
                                   enum coxi_channel channel)
{
    const struct coxi_server_options *options = &peer->server->options;
    struct coxi_hello self = options->self;
    self.channel = channel;
    if (options->events->incarnation != NULL) {
        self.incarnation = options->events->incarnation(options->arg, peer);
    }
    return self;
}

static int say_hello(const struct coxi_peer *peer, enum coxi_channel channel)
{
    const struct coxi_hello self = own_hello(peer, channel);
    return coxi_hello_send(peer->link, &self);
}

/* Answers a greeting, and changes over to the local path if the greeting offers one
 * that works. */
static int answer_hello(const struct coxi_peer *peer, const struct coxi_hello *hello)
{
    struct coxi_link *link = peer->link;
    struct coxi_hello self = own_hello(peer, hello->channel);
    bool is_local = peer->server->options.local_path && *hello->local != '\0' &&
                    coxi_link_accept(link, hello->local) == 0;
    self.local = is_local ? hello->local : NULL;
    int r = coxi_hello_send(link, &self);
    if (r == 0 && is_local) {
        coxi_link_go_local(link);
    }
    return r;
}

static int greet(struct coxi_connection *connection, const struct coxi_frame *frame)
{
    struct coxi_peer *peer = &connection->peer;
    struct coxi_server *server = peer->server;
    struct coxi_hello hello;
    int r = coxi_hello_read(peer->link, frame, &hello);
    if (r != 0) {
        return r;
    }
    hello.channel = connection->dialled ? connection->channel : hello.channel;
    coxi_lock(&server->lock);
    peer->hello = hello;
    peer->since_ms = coxi_now_ms();
    /* these texts are in the frame, which is gone after this call */
    peer->hello.name = peer->hello.local = NULL;
    coxi_unlock(&server->lock);
    r = server->options.events->on_hello(server->options.arg, peer);
    if (r != 0) {
        return coxi_refuse(peer->link, r, coxi_error_text());
    }
    coxi_lock(&server->lock);
    connection->greeted = true;
    coxi_unlock(&server->lock);
    coxi_link_allow(peer->link, COXI_WIRE_META_MAX, COXI_PAYLOAD_MAX);
    r = connection->dialled ? 0 : answer_hello(peer, &hello);
    if (r == 0 && server->options.events->on_greeted != NULL) {
        r = server->options.events->on_greeted(server->options.arg, peer);
    }
    return r;
}

static int on_frame(void *arg, struct coxi_link *link, const struct coxi_frame *frame)
{
    struct coxi_connection *connection = arg;
    struct coxi_server *server = connection->peer.server;
    struct coxi_message message;
    if (!connection->greeted) {
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

static bool takes(void *arg, struct coxi_link *link, const struct coxi_frame *frame)
{
    (void)link;
    struct coxi_connection *connection = arg;
    const struct coxi_server_options *options = &connection->peer.server->options;
    struct coxi_message message;
    /* on_frame closes a connection whose message is malformed */
    return options->events->on_payload == NULL ||
           (coxi_message_read(frame, &message) == 0 &&
            options->events->on_payload(options->arg, &connection->peer, &message,
                                        frame->payload_len) == 0);
}

/* A peer that has not greeted sends no long message. */
static int on_memory(void *arg, struct coxi_link *link, size_t from, size_t to)
{
    (void)link;
    struct coxi_connection *connection = arg;
    const struct coxi_server_options *options = &connection->peer.server->options;
    return options->events->on_memory == NULL || !connection->greeted
               ? 0
               : options->events->on_memory(options->arg, &connection->peer, from, to);
}

static bool is_quiet(struct coxi_server *server)
{
    coxi_lock(&server->lock);
    bool quiet = server->quiet;
    coxi_unlock(&server->lock);
    return quiet;
}

static void log_not_reached(struct coxi_server *server, const char *text)
{
    coxi_log(is_quiet(server) ? COXI_LOG_DEBUG : COXI_LOG_WARN, "not_reached",
             "address=%s error=\"%s\"", coxi_address_get(&server->dial), text);
}

/* Logs that a connection was closed. A peer may have one closed as often as it likes, so
 * of those that were not expected one line for each code in a while must do. */
static void log_closed(struct coxi_connection *connection, bool expected, int code,
                       const char *text)
{
    uint64_t n = 1;
    size_t kind = code < 0 && code > -COXI_SERVER_CODES_MAX ? (size_t)-code : 0;
    if (expected || coxi_seldom(&connection->peer.server->closed[kind], &n)) {
        coxi_log(expected ? COXI_LOG_DEBUG : COXI_LOG_WARN, "connection_closed",
                 "peer_role=%d peer_index=%u code=%s closed=%llu text=\"%s\"",
                 (int)connection->peer.hello.role, connection->peer.hello.index,
                 coxi_error_name(code), (unsigned long long)n, text);
    }
}

static void on_close(void *arg, struct coxi_link *link, int code, const char *text)
{
    (void)link;
    struct coxi_connection *connection = arg;
    struct coxi_server *server = connection->peer.server;
    const struct coxi_server_options *options = &server->options;
    if (code == COX_ECLOSED && connection->dialled && !connection->greeted &&
        connection->control == NULL) {
        /* the connection was closed before the peer had greeted */
        log_not_reached(server, text);
        return;
    }
    bool expected = code == COX_ECLOSED || code == COX_ECANCELLED ||
                    (connection->dialled && !connection->greeted && is_quiet(server));
    log_closed(connection, expected, code, text);
    if (connection->greeted && options->events->on_close != NULL) {
        options->events->on_close(options->arg, &connection->peer);
    }
}

static const struct coxi_link_events link_events = {
    .takes = takes,
    .on_memory = on_memory,
    .on_frame = on_frame,
    .on_close = on_close,
};

/* Connects, and greets first. Returns 0, or the reason why it failed. */
static int dial(struct coxi_connection *connection)
{
    struct coxi_server *server = connection->peer.server;
    struct coxi_link *link;
    const struct coxi_hello self = own_hello(&connection->peer, connection->channel);
    const struct coxi_guard guard = coxi_hello_guard(server->options.key, &self);
    const char *url = coxi_address_get(&server->dial);
    int r = coxi_link_connect(url, &guard, CONNECT_MS, &link);
    if (r != 0) {
        return r;
    }
    r = guard.key.kind == COXI_KEY_NONE ? coxi_link_check_user(link) : 0;
    if (r != 0) {
        coxi_link_unref(link);
        return r;
    }
    connection->peer.link = link;
    coxi_link_listen_to(link, &link_events, connection);
    coxi_lock(&server->lock);
    bool stopping = server->stopping;
    bool moved = url != coxi_address_get(&server->dial);
    if (connection->control == NULL) {
        server->dialled = link;
    }
    /* the control connection is not in the list of connections */
    if (connection->peer.number == 0) {
        connection->peer.number = ++server->n_begun;
    }
    coxi_links_add(server->links, link);
    coxi_unlock(&server->lock);
    if (stopping) {
        coxi_link_close(link, COX_ECANCELLED, "the daemon is ending");
    } else if (moved) {
        coxi_link_close(link, COX_ECLOSED, "the client has moved");
    }
    (void)say_hello(&connection->peer, connection->channel);
    return 0;
}

/* Serves a connection until it is closed. Returns 0, or the reason why dialling or
 * greeting failed. */
static int serve(struct coxi_connection *connection)
{
    int r = connection->dialled ? dial(connection) : 0;
    if (r != 0) {
        return r;
    }
    r = coxi_link_run(connection->peer.link);
    return connection->greeted ? 0 : r;
}

static void connection_release(struct coxi_connection *connection)
{
    coxi_link_unref(connection->peer.link);
    coxi_link_unref(connection->control);
    coxi_buffer_fini(&connection->peer.scratch);
    coxi_buffer_fini(&connection->peer.aside);
    connection->peer.link = connection->control = NULL;
}

static void connection_free(struct coxi_connection *connection)
{
    connection_release(connection);
    free(connection);
}

/* Joins the threads of a list of connections, and frees them. */
static void join(struct coxi_connection *connection)
{
    while (connection != NULL) {
        struct coxi_connection *next = connection->next;
        (void)pthread_join(connection->thread, NULL);
        connection_free(connection);
        connection = next;
    }
}

/* Takes a connection out of the server's list. */
static void take_out(struct coxi_server *server, struct coxi_connection *connection)
    COXI_REQUIRES(server->lock)
{
    COXI_CHECK(connection->at != NULL);
    *connection->at = connection->next;
    if (connection->next != NULL) {
        connection->next->at = connection->at;
    }
    connection->at = NULL;
    connection->next = NULL;
    server->n_connections--;
}

/* The end of a connection's thread. */
static void leave(struct coxi_server *server, struct coxi_connection *connection)
{
    struct coxi_connection *before = NULL;
    coxi_lock(&server->lock);
    if (connection->at != NULL) {
        take_out(server, connection);
        before = server->ended;
        server->ended = connection;
    }
    coxi_unlock(&server->lock);
    connection_release(connection);
    join(before);
}

static void *connection_thread(void *arg)
{
    struct coxi_connection *connection = arg;
    struct coxi_server *server = connection->peer.server;
    int r = serve(connection);
    if (connection->control != NULL && r != 0) {
        coxi_link_close(connection->control, r, "it cannot be dialled for data");
    }
    leave(server, connection);
    return NULL;
}

/* Counts the data connections that we have dialled. */
static size_t count_data(const struct coxi_server *server) COXI_REQUIRES(server->lock)
{
    size_t n = 0;
    for (const struct coxi_connection *c = server->connections; c != NULL;
         c = c->next) {
        n += c->dialled;
    }
    return n;
}

static void put_in(struct coxi_server *server, struct coxi_connection *connection)
    COXI_REQUIRES(server->lock)
{
    connection->next = server->connections;
    connection->at = &server->connections;
    if (connection->next != NULL) {
        connection->next->at = &connection->next;
    }
    server->connections = connection;
    server->n_connections++;
}

/* Puts a connection in the list and starts its thread. */
static int begin(struct coxi_server *server, struct coxi_connection *connection)
{
    int r = 0;
    coxi_lock(&server->lock);
    if (server->n_connections == COXI_SERVER_CONNECTIONS_MAX) {
        r = coxi_error(COX_ELIMIT, "%d connections are open",
                       COXI_SERVER_CONNECTIONS_MAX);
    } else if (connection->dialled && count_data(server) >= DATA_MAX) {
        r = coxi_error(COX_EPROTO, "%d connections for data are open", DATA_MAX);
    } else if (!connection->dialled) {
        r = coxi_server_check_share(server, connection);
    }
    if (r == 0) {
        connection->peer.server = server;
        connection->peer.number = ++server->n_begun;
        if (!connection->dialled) {
            connection->begun_ms = coxi_now_ms();
            coxi_link_listen_to(connection->peer.link, &link_events, connection);
            coxi_links_add(server->links, connection->peer.link);
        }
        r = coxi_thread_start_small(&connection->thread, "cox:peer", connection_thread,
                                    connection);
    }
    if (r == 0) {
        put_in(server, connection);
    }
    coxi_unlock(&server->lock);
    return r;
}

/* Makes a connection and its thread. Does nothing else, because it runs on one of nng's
 * threads. */
static void accepted(void *arg, struct coxi_link *link)
{
    struct coxi_connection *connection = calloc(1, sizeof(*connection));
    int r = COX_ENOMEM;
    if (connection == NULL) {
        (void)coxi_error_memory("a connection");
        coxi_link_unref(link);
    } else {
        connection->peer.link = link;
        r = begin(arg, connection);
    }
    uint64_t n;
    struct coxi_server *server = arg;
    if (r != 0 && coxi_seldom(&server->dropped, &n)) {
        coxi_log(COXI_LOG_WARN, "connection_dropped", "dropped=%llu error=\"%s\"",
                 (unsigned long long)n, coxi_error_text());
    }
    if (r != 0 && connection != NULL) {
        coxi_links_drop(link);
        connection_free(connection);
    }
}

/* ---- dialling instead */

int coxi_server_dial_data(struct coxi_server *server, const struct coxi_peer *control)
{
    if (!server->dials) {
        return coxi_error(COX_EPROTO, "a server that listens dials nobody");
    }
    struct coxi_connection *connection = calloc(1, sizeof(*connection));
    if (connection == NULL) {
        return coxi_error_memory("a connection");
    }
    connection->dialled = true;
    connection->channel = COXI_CHANNEL_DATA;
    connection->control = coxi_link_ref(control->link);
    int r = begin(server, connection);
    if (r != 0) {
        connection_free(connection);
    }
    return r;
}

/* Serves the peer that is dialled, once. Returns 0, or the reason why it failed. */
static int serve_dialled(struct coxi_server *server)
{
    struct coxi_connection connection = {.peer.server = server, .dialled = true};
    int r = serve(&connection);
    if (connection.peer.link == NULL) {
        log_not_reached(server, coxi_error_text());
    }
    coxi_lock(&server->lock);
    server->dialled = NULL;
    coxi_unlock(&server->lock);
    coxi_link_unref(connection.peer.link);
    coxi_buffer_fini(&connection.peer.scratch);
    coxi_buffer_fini(&connection.peer.aside);
    return r;
}

/* Dials the peer and serves the connection, again and again until the server stops. */
static void *dialler_thread(void *arg)
{
    struct coxi_server *server = arg;
    uint64_t random = coxi_random_id();
    int rest_ms = REST_FIRST_MS;
    uint64_t n_redials;
    bool goes_on;
    coxi_server_await_dial(server, &n_redials);
    do {
        uint64_t before = n_redials;
        int r = serve_dialled(server);
        rest_ms = r == 0 ? REST_FIRST_MS : rest_ms * 2;
        rest_ms = rest_ms < REST_MAX_MS ? rest_ms : REST_MAX_MS;
        /* The pause is random, because many clients that lost the same peer must not
         * dial it all at once. */
        int pause_ms = rest_ms / 2 + (int)(coxi_rand(&random) % (unsigned)rest_ms) / 2;
        goes_on =
            coxi_server_rest(server, pause_ms, pause_ms >= REST_MAX_MS / 2, &n_redials);
        rest_ms = n_redials == before ? rest_ms : REST_FIRST_MS;
    } while (goes_on);
    return NULL;
}

/* ---- the server */

int coxi_server_open(const struct coxi_server_options *options,
                     struct coxi_server **ret)
{
    struct coxi_server *server = calloc(1, sizeof(*server));
    if (server == NULL) {
        return coxi_error_memory("the server");
    }
    server->options = *options;
    server->room = coxi_server_room();
    coxi_mutex_init(&server->lock);
    coxi_cond_init(&server->changed);
    int r = coxi_links_new(options->peer_timeout_ms, &server->links);
    if (r == 0 && options->dial != NULL) {
        r = coxi_server_redial(server, options->dial);
    }
    if (r == 0 && (options->dial != NULL || options->dials)) {
        r = coxi_thread_start(&server->dialler, "cox:dial", dialler_thread, server);
        server->dials = r == 0;
    } else if (r == 0) {
        struct coxi_guard guard = coxi_hello_guard(options->key, &options->self);
        guard.keys = options->keys;
        r = coxi_listener_claim(options->listen, &guard, accepted, server,
                                &server->listener);
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
    coxi_lock(&server->lock);
    server->started = true;
    (void)pthread_cond_broadcast(&server->changed);
    coxi_unlock(&server->lock);
    if (server->listener != NULL) {
        coxi_listener_start(server->listener);
    }
}

const char *coxi_server_url(struct coxi_server *server)
{
    if (server->listener != NULL) {
        return coxi_listener_url(server->listener);
    }
    coxi_lock(&server->lock);
    const char *url = server->has_dial ? coxi_address_get(&server->dial) : "";
    coxi_unlock(&server->lock);
    return url;
}

struct coxi_links *coxi_server_links(struct coxi_server *server)
{
    return server->links;
}

/* Takes the connection that ended last (`all`: also every connection in the list). */
static struct coxi_connection *take_ended(struct coxi_server *server, bool all)
{
    coxi_lock(&server->lock);
    struct coxi_connection *taken = server->ended;
    server->ended = NULL;
    while (all && server->connections != NULL) {
        struct coxi_connection *connection = server->connections;
        take_out(server, connection);
        connection->next = taken;
        taken = connection;
    }
    coxi_unlock(&server->lock);
    return taken;
}

void coxi_server_tick(struct coxi_server *server)
{
    coxi_links_tick(server->links);
    coxi_server_close_late(server);
    join(take_ended(server, false));
}

void coxi_server_stop(struct coxi_server *server)
{
    coxi_listener_close(server->listener);
    server->listener = NULL;
    coxi_server_dial_stop(server);
    if (server->links != NULL) {
        coxi_links_close_all(server->links, COX_ECANCELLED, "the daemon is ending");
    }
    if (server->dials) {
        (void)pthread_join(server->dialler, NULL);
        server->dials = false;
    }
    join(take_ended(server, true));
}

void coxi_server_free(struct coxi_server *server)
{
    if (server != NULL) {
        coxi_server_stop(server);
        coxi_links_free(server->links);
        coxi_address_fini(&server->dial);
        (void)pthread_cond_destroy(&server->changed);
        coxi_mutex_fini(&server->lock);
        free(server);
    }
}
