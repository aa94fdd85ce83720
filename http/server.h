/* What the files of the HTTP server share. http.c: its life, its thread, its connections;
 * answer.c: requests, answers and streams; listen.c: its address. */
#ifndef COXI_HTTP_SERVER_H
#define COXI_HTTP_SERVER_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/unforked.h"
#include "http/http.h"

enum {
    /* a stream that is silent for so long gets a comment, which also shows who is gone */
    COXI_HTTP_KEEP_MS = 15000,
    COXI_HTTP_DOOMED_MAX = 32, /* connections that are being closed */
};

/*
 *   READING <-> ANSWERING;  READING -> STREAMING;  any -> DOOMED -> (closed)
 *
 * READING: waits for a request, or for the rest of one. DOOMED: it was shut down, and
 * libmicrohttpd will close it.
 */
enum coxi_http_state {
    COXI_HTTP_READING,
    COXI_HTTP_ANSWERING,
    COXI_HTTP_STREAMING,
    COXI_HTTP_DOOMED,
};

/* The events that a connection gets, or the long answer. */
struct coxi_http_stream {
    struct coxi_http_client *client; /* NULL: the connection is gone */
    const struct coxi_http_route *route;
    uint64_t cursor;
    struct coxi_buffer out; /* text that `events` or `more` has made */
    bool is_last;           /* nothing comes after `out` */
    size_t sent;            /* bytes of `out` that libmicrohttpd has taken */
    uint64_t sent_ms;       /* when it took some */
    bool sleeps;            /* there was nothing to send: suspended */
};

/* A connection. */
struct coxi_http_client {
    struct coxi_http_client *next;
    struct coxi_http_client **at;
    struct coxi_http_server *server;
    struct MHD_Connection *connection;
    int fd;
    enum coxi_http_state state;
    uint64_t since_ms;               /* when its state began */
    size_t body_bytes;               /* of the answer under way */
    struct coxi_http_stream *stream; /* STREAMING, or doomed then */
};

struct coxi_http_server {
    const struct coxi_http_route *routes;
    size_t n_routes;
    bool open;
    int listen_fd;
    int wake_fd;
    char url[COXI_HTTP_URL_MAX];
    struct coxi_unforked unforked; /* all its sockets */
    struct MHD_Daemon *daemon;
    pthread_t thread;
    atomic_bool is_woken; /* wake_fd was written, and not read yet */
    atomic_bool ends;
    /* the server's thread: */
    int epoll_fd; /* of libmicrohttpd */
    struct coxi_http_client *clients;
    size_t n_clients;
    size_t n_doomed;
    size_t body_bytes; /* of all answers under way */
    struct {
        int64_t left_ns;  /* CPU time that the thread may take at once */
        uint64_t wall_ns; /* when that was worked out, ... */
        uint64_t cpu_ns;  /* ... and what the thread had taken then */
    } share;
    uint64_t rests_until_ms; /* accepts nothing before, because it has no descriptors */
};

/* Binds and listens. *ret_fd is non-blocking. COX_EADDRESS. */
int coxi_http_listen(const struct coxi_http_options *options, int *ret_fd,
                     char ret_url[COXI_HTTP_URL_MAX]);

/* True if a request's Host names this host: a loopback address, or localhost. */
bool coxi_http_names_loopback(const char *host);

/* True if a connection comes from this host. */
bool coxi_http_is_of_this_host(int fd);

/* Answers a request: a function of libmicrohttpd. `cls` is the server. */
enum MHD_Result coxi_http_answer(void *cls, struct MHD_Connection *connection,
                                 const char *path, const char *method,
                                 const char *version, const char *upload,
                                 size_t *upload_len, void **of_request);

/* The answer to a client's request has ended, however it did. */
void coxi_http_answered(struct coxi_http_client *client);

/* False: the thread has had more than its share of a core, and will rest. */
bool coxi_http_has_time(struct coxi_http_server *server);

/* Shuts a connection down; libmicrohttpd will close it. */
void coxi_http_doom(struct coxi_http_client *client);

/* Lets a suspended stream go on. */
void coxi_http_resume(struct coxi_http_stream *stream);

/* The state in which a connection is from now on. */
void coxi_http_set_state(struct coxi_http_client *client, enum coxi_http_state state);

#endif
