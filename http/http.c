/*
 * The life, the thread and the connections of the HTTP server. libmicrohttpd speaks HTTP;
 * this thread accepts connections and hands them over, so that it can choose who makes
 * room when there are too many, and can end those that are slow: libmicrohttpd's own
 * time-out begins anew with each byte.
 *
 * Invariants: at most COXI_HTTP_CONNECTIONS_MAX connections are not doomed, and
 * COXI_HTTP_DOOMED_MAX are. A connection's socket is open while it is in `clients`, because
 * libmicrohttpd tells of the end before it closes the socket.
 *
 * Threads: its own, on which all functions of routes run; start, wake and stop: any.
 * Cost: nothing while nobody asks; a request costs two or three system calls.
 */
#include "http/http.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "http/server.h"

enum {
    SWEEP_MS = 500,       /* how often connections are looked at */
    REST_MS = 100,        /* after accept has failed for lack of descriptors */
    ACCEPTS_MAX = 16,     /* in one turn */
    LAST_MS = 100,        /* for the last events */
    LAST_TURNS_MAX = 256, /* turns of libmicrohttpd with them, */
    END_TURNS_MAX = 8,    /* ... and at the end */
    SHARE = 5, /* the thread takes at most one part in five of a core's time, ... */
    REST_MOST_MS = 100,
};

/* ... but this much at once, for a page that is opened */
static const int64_t share_burst_ns = 300 * 1000000LL;

atomic_uint coxi_http_request_ms = COXI_HTTP_REQUEST_MS;

/* ---- connections */

void coxi_http_set_state(struct coxi_http_client *client, enum coxi_http_state state)
{
    client->state = state;
    client->since_ms = coxi_now_ms();
}

void coxi_http_doom(struct coxi_http_client *client)
{
    if (client->state != COXI_HTTP_DOOMED) {
        client->server->n_doomed++;
        coxi_http_set_state(client, COXI_HTTP_DOOMED);
        (void)shutdown(client->fd, SHUT_RDWR);
        if (client->stream != NULL) {
            coxi_http_resume(client->stream);
        }
    }
}

static void begin(struct coxi_http_server *server, struct MHD_Connection *connection,
                  void **of_socket)
{
    struct coxi_http_client *client = calloc(1, sizeof(*client));
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    *of_socket = client;
    if (client == NULL || info == NULL) {
        free(client);
        *of_socket = NULL; /* its requests are refused */
        return;
    }
    client->server = server;
    client->connection = connection;
    client->fd = info->connect_fd;
    client->next = server->clients;
    client->at = &server->clients;
    if (client->next != NULL) {
        client->next->at = &client->next;
    }
    server->clients = client;
    server->n_clients++;
    coxi_http_set_state(client, COXI_HTTP_READING);
}

static void end(struct coxi_http_client *client)
{
    struct coxi_http_server *server = client->server;
    coxi_http_answered(client);
    server->n_doomed -= client->state == COXI_HTTP_DOOMED;
    server->n_clients--;
    *client->at = client->next;
    if (client->next != NULL) {
        client->next->at = client->at;
    }
    free(client);
}

static void on_connection(void *cls, struct MHD_Connection *connection,
                          void **of_socket, enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        begin(cls, connection, of_socket);
    } else if (*of_socket != NULL) {
        end(*of_socket);
        *of_socket = NULL;
    }
}

static void on_answered(void *cls, struct MHD_Connection *connection, void **of_request,
                        enum MHD_RequestTerminationCode why)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    (void)cls;
    (void)of_request;
    (void)why;
    if (info != NULL && info->socket_context != NULL) {
        coxi_http_answered(info->socket_context);
    }
}

/* How long a connection may stay as it is; 0: for ever. */
static uint64_t limit_ms(const struct coxi_http_client *client)
{
    switch (client->state) {
    case COXI_HTTP_READING:
        return atomic_load(&coxi_http_request_ms);
    case COXI_HTTP_ANSWERING:
        return COXI_HTTP_ANSWER_MS;
    case COXI_HTTP_STREAMING:
        return client->stream->route->work != NULL ? COXI_HTTP_WORK_MS : 0;
    case COXI_HTTP_DOOMED:
        break;
    }
    return 0;
}

/* Ends connections that are too slow; says to silent streams that all is well. */
static void sweep(struct coxi_http_server *server)
{
    uint64_t now_ms = coxi_now_ms();
    for (struct coxi_http_client *client = server->clients; client != NULL;
         client = client->next) {
        uint64_t most_ms = limit_ms(client);
        if (most_ms > 0 && now_ms - client->since_ms >= most_ms) {
            coxi_http_doom(client);
        } else if (client->state == COXI_HTTP_STREAMING && client->stream->sleeps &&
                   now_ms - client->stream->sent_ms >= COXI_HTTP_KEEP_MS) {
            coxi_http_resume(client->stream);
        }
    }
}

/* ---- accepting */

/* The connection that has been in this state for longest; NULL: there is none. */
static struct coxi_http_client *oldest_in(const struct coxi_http_server *server,
                                          enum coxi_http_state state)
{
    struct coxi_http_client *oldest = NULL;
    for (struct coxi_http_client *client = server->clients; client != NULL;
         client = client->next) {
        if (client->state == state &&
            (oldest == NULL || client->since_ms <= oldest->since_ms)) {
            oldest = client;
        }
    }
    return oldest;
}

/* Makes room for one more connection: ends the one that has waited longest for a
 * request, or else for a reader of its answer. False: there is none. */
static bool make_room(struct coxi_http_server *server)
{
    if (server->n_clients - server->n_doomed < COXI_HTTP_CONNECTIONS_MAX) {
        return true;
    }
    struct coxi_http_client *oldest = oldest_in(server, COXI_HTTP_READING);
    oldest = oldest != NULL ? oldest : oldest_in(server, COXI_HTTP_ANSWERING);
    if (oldest != NULL) {
        coxi_http_doom(oldest);
    }
    return oldest != NULL;
}

static bool can_accept(const struct coxi_http_server *server)
{
    return server->n_doomed < COXI_HTTP_DOOMED_MAX &&
           coxi_now_ms() >= server->rests_until_ms;
}

static void refuse(int fd)
{
    static const char busy[] = "HTTP/1.1 503 Service Unavailable\r\n"
                               "Connection: close\r\nRetry-After: 1\r\n"
                               "Content-Length: 0\r\n\r\n";
    (void)send(fd, busy, sizeof(busy) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)close(fd);
}

static void accept_some(struct coxi_http_server *server)
{
    for (int i = 0; i < ACCEPTS_MAX && can_accept(server); i++) {
        struct sockaddr_storage peer;
        socklen_t len = sizeof(peer);
        int fd = accept4(server->listen_fd, (struct sockaddr *)&peer, &len,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
                server->rests_until_ms = coxi_now_ms() + REST_MS;
            }
            return;
        }
        if (!make_room(server)) {
            refuse(fd);
        } else { /* which closes it after an error */
            (void)MHD_add_connection(server->daemon, fd, (struct sockaddr *)&peer, len);
        }
    }
}

/* ---- the thread */

/* Somebody has called coxi_http_wake or _stop. */
static void take_wake(struct coxi_http_server *server)
{
    uint64_t n;
    (void)!read(server->wake_fd, &n, sizeof(n));
    atomic_store(&server->is_woken, false);
    for (struct coxi_http_client *client = server->clients; client != NULL;
         client = client->next) {
        if (client->stream != NULL) {
            coxi_http_resume(client->stream);
        }
    }
}

/* How long the thread may sleep; -1: until something happens. */
static int sleep_ms(struct coxi_http_server *server)
{
    MHD_UNSIGNED_LONG_LONG most_ms;
    if (MHD_get_timeout(server->daemon, &most_ms) == MHD_YES && most_ms < SWEEP_MS) {
        return (int)most_ms;
    }
    return server->n_clients > 0 || !can_accept(server) ? SWEEP_MS : -1;
}

/* True while a reader of events has not been sent all that there was. */
static bool is_telling(const struct coxi_http_server *server)
{
    for (const struct coxi_http_client *client = server->clients; client != NULL;
         client = client->next) {
        const struct coxi_http_stream *stream = client->stream;
        if (stream != NULL && client->state == COXI_HTTP_STREAMING &&
            stream->route->events != NULL && !stream->sleeps) {
            return true;
        }
    }
    return false;
}

/* Readers of events get those that are there, as far as their sockets take them at once:
 * libmicrohttpd sends one block in each turn. */
static void tell_last(struct coxi_http_server *server)
{
    for (struct coxi_http_client *client = server->clients; client != NULL;
         client = client->next) {
        if (client->stream != NULL && client->stream->route->events != NULL) {
            coxi_http_resume(client->stream);
        }
    }
    uint64_t end_ms = coxi_now_ms() + LAST_MS; /* others ask meanwhile */
    for (int i = 0; i < LAST_TURNS_MAX && is_telling(server) && coxi_now_ms() < end_ms;
         i++) {
        (void)MHD_run(server->daemon);
    }
}

/* libmicrohttpd lets nobody wait for it at the end whose stream it holds. */
static void end_all(struct coxi_http_server *server)
{
    for (int i = 0; i < END_TURNS_MAX && server->n_clients > 0; i++) {
        for (struct coxi_http_client *client = server->clients; client != NULL;
             client = client->next) {
            coxi_http_doom(client);
            if (client->stream != NULL) {
                coxi_http_resume(client->stream);
            }
        }
        (void)MHD_run(server->daemon);
    }
}

/* The CPU time that the thread may still take at once; negative: it has had more than its
 * share of a core. A crowd of strangers must not slow the program down. */
static int64_t share_left_ns(struct coxi_http_server *server)
{
    struct timespec cpu;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    uint64_t cpu_ns = (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec;
    uint64_t wall_ns = coxi_now_ns();
    int64_t left_ns = server->share.left_ns +
                      (int64_t)((wall_ns - server->share.wall_ns) / SHARE) -
                      (int64_t)(cpu_ns - server->share.cpu_ns);
    server->share.left_ns = left_ns < share_burst_ns ? left_ns : share_burst_ns;
    server->share.wall_ns = wall_ns;
    server->share.cpu_ns = cpu_ns;
    return server->share.left_ns;
}

bool coxi_http_has_time(struct coxi_http_server *server)
{
    return share_left_ns(server) >= 0;
}

/* How long the thread must rest. */
static int rest_ms(struct coxi_http_server *server)
{
    int64_t left_ns = share_left_ns(server);
    int64_t ms = left_ns < 0 ? -left_ns * SHARE / 1000000 + 1 : 0;
    return ms < REST_MOST_MS ? (int)ms : REST_MOST_MS;
}

static void *serve(void *arg)
{
    struct coxi_http_server *server = arg;
    uint64_t swept_ms = 0;
    server->share.left_ns = share_burst_ns;
    server->share.wall_ns = coxi_now_ns();
    while (!atomic_load(&server->ends)) {
        int ms = rest_ms(server);
        if (ms > 0) {
            (void)poll(NULL, 0, ms);
            continue;
        }
        struct pollfd files[] = {
            {.fd = server->wake_fd, .events = POLLIN},
            {.fd = server->epoll_fd, .events = POLLIN},
            {.fd = can_accept(server) ? server->listen_fd : -1, .events = POLLIN}};
        (void)poll(files, sizeof(files) / sizeof(*files), sleep_ms(server));
        if (files[0].revents != 0) {
            take_wake(server);
        }
        if (files[2].revents != 0) {
            accept_some(server);
        }
        (void)MHD_run(server->daemon);
        if (coxi_now_ms() - swept_ms >= SWEEP_MS) {
            swept_ms = coxi_now_ms();
            sweep(server);
        }
    }
    tell_last(server);
    end_all(server);
    return NULL;
}

/* ---- life */

/* Paths are compared as they come: nothing in them is decoded. */
static size_t leave_escaped(void *cls, struct MHD_Connection *connection, char *text)
{
    size_t len = 0;
    (void)cls;
    (void)connection;
    while (text[len] != '\0') {
        len++;
    }
    return len;
}

static int start_daemon(struct coxi_http_server *server)
{
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, NULL,
        NULL, coxi_http_answer, server, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)(COXI_HTTP_CONNECTIONS_MAX + COXI_HTTP_DOOMED_MAX + 1),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)COXI_HTTP_HEADERS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(COXI_HTTP_REQUEST_MS / 1000),
        MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, server, MHD_OPTION_NOTIFY_COMPLETED, on_answered, server,
        MHD_OPTION_END);
    const union MHD_DaemonInfo *info =
        server->daemon != NULL
            ? MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)
            : NULL;
    if (info == NULL) {
        return coxi_error_memory("an HTTP server");
    }
    server->epoll_fd = info->epoll_fd;
    return 0;
}

static void free_server(struct coxi_http_server *server)
{
    coxi_unforked_drop(&server->unforked);
    if (server->daemon != NULL) {
        MHD_stop_daemon(server->daemon);
    }
    if (server->wake_fd >= 0) {
        (void)close(server->wake_fd);
    }
    if (server->listen_fd >= 0) {
        (void)close(server->listen_fd);
    }
    free(server);
}

int coxi_http_start(const struct coxi_http_options *options,
                    const struct coxi_http_route *routes, size_t n_routes,
                    struct coxi_http_server **ret)
{
    struct coxi_http_server *server = calloc(1, sizeof(*server));
    if (server == NULL) {
        return coxi_error_memory("an HTTP server");
    }
    server->routes = routes;
    server->n_routes = n_routes;
    server->open = options->open;
    server->listen_fd = -1;
    server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = server->wake_fd < 0 ? coxi_error_errno(COX_ENOMEM, "an HTTP server") : 0;
    if (r == 0) {
        r = coxi_http_listen(options, &server->listen_fd, server->url);
    }
    if (r == 0) {
        server->unforked.url = server->url;
        coxi_unforked_hold(&server->unforked);
        r = start_daemon(server);
    }
    if (r == 0) {
        r = coxi_thread_start(&server->thread, "cox:http", serve, server);
    }
    if (r != 0) {
        free_server(server);
        return r;
    }
    *ret = server;
    return 0;
}

const char *coxi_http_url(const struct coxi_http_server *server)
{
    return server->url;
}

void coxi_http_wake(struct coxi_http_server *server)
{
    const uint64_t one = 1;
    if (server != NULL && !atomic_exchange(&server->is_woken, true)) {
        (void)!write(server->wake_fd, &one, sizeof(one));
    }
}

void coxi_http_stop(struct coxi_http_server *server)
{
    if (server != NULL) {
        atomic_store(&server->ends, true);
        atomic_store(&server->is_woken, false); /* in any case wakes it */
        coxi_http_wake(server);
        (void)pthread_join(server->thread, NULL);
        free_server(server);
    }
}
