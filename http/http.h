/*
 * The pages that a process serves over HTTP: a fixed table of paths, each answered with a
 * text, with a stream of server-sent events, or with a long text that is made meanwhile.
 * Nobody can change anything over HTTP, and only programs of this host can have work done.
 *
 * Only this host reaches the server, unless it is opened. On loopback it answers only
 * requests for a name of this host, so that no web page can read it through a browser
 * (DNS rebinding).
 *
 * Everything is bounded: connections, their headers, the time of each request and answer,
 * the memory of answers, the streams, and the share of a core that all of it takes.
 * Strangers who take all connections keep nobody out, because the one that has waited
 * longest, for a request or for a slow reader, makes room for the next; and of the streams
 * of events the oldest.
 */
#ifndef COXI_HTTP_HTTP_H
#define COXI_HTTP_HTTP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"

enum {
    COXI_HTTP_CONNECTIONS_MAX = 64,
    COXI_HTTP_STREAMS_MAX = 16,   /* of events */
    COXI_HTTP_HEADERS_MAX = 8192, /* bytes of a request, about */
    COXI_HTTP_REQUEST_MS =
        10000,                   /* how long a request may take, and the one after it */
    COXI_HTTP_ANSWER_MS = 60000, /* how long an answer may take, ... */
    COXI_HTTP_WORK_MS = 900000,  /* ... and a long one that is made meanwhile */
    COXI_HTTP_URL_MAX = 96,
};

/* How long a request may take, and how long a stream of events has its place at least:
 * COXI_HTTP_REQUEST_MS, which tests shorten. */
extern atomic_uint coxi_http_request_ms;

struct coxi_http_server;

struct coxi_http_options {
    /* "host:port" (port 0: any), "[::1]:port", or a port alone: of 127.0.0.1 */
    const char *address;
    bool open; /* other hosts may reach it */
};

enum { COXI_HTTP_HOST_MAX = 255, COXI_HTTP_PORT_MAX = 5 /* digits */ };

/* Splits "host:port", "[host]:port" or a port alone, which is of 127.0.0.1. COX_EADDRESS: it is
 * none, and the text says why. Any thread. */
int coxi_http_split(const char *address, char ret_host[COXI_HTTP_HOST_MAX + 1],
                    char ret_port[COXI_HTTP_PORT_MAX + 1]);

struct coxi_http_request {
    uint64_t since;   /* ?since=N; 0: it was not given */
    uint64_t seconds; /* ?seconds=N, likewise */
    bool openmetrics; /* the reader takes OpenMetrics, and not only Prometheus's text */
};

/* An answer: empty at first. The server frees `body`. */
struct coxi_http_reply {
    struct coxi_buffer body;
    const char *type; /* its media type, a constant; NULL: plain text */
    int status;       /* 0: 200 */
};

/*
 * A long answer that is made while it is sent, and takes work. So only a program of this host
 * gets it, and only if it says that it means it: by a GET with the header
 * COXI_HTTP_WORK_HEADER, which browsers let no web page send ("Sec-" is theirs).
 */
struct coxi_http_work {
    const char *type; /* its media type, a constant */
    /* Begins it. Leaves reply->status 0, or says there and in the body why not. */
    int (*begin)(void *context, const struct coxi_http_request *request,
                 struct coxi_http_reply *reply);
    /* Like `events` of a route; returns COXI_HTTP_LAST with the last text. */
    int (*more)(void *context, uint64_t *cursor, struct coxi_buffer *out);
    /* The reader has all of it, or is gone. Called once after each `begin` that has
     * begun, also by coxi_http_stop. */
    void (*end)(void *context);
};

#define COXI_HTTP_WORK_HEADER "Sec-Coxswain-Work"
enum { COXI_HTTP_LAST = 1 };

/*
 * A path, with one of `get`, `events` and `work`. All run on the server's thread, one at a
 * time. An error is answered with status 500, or ends the stream.
 */
struct coxi_http_route {
    const char *path; /* "/metrics"; constant */
    void *context;    /* for the functions */
    int (*get)(void *context, const struct coxi_http_request *request,
               struct coxi_http_reply *reply);
    /* answers of `get` are cheap and have less than 1 MiB: they are given also when others
     * are refused, because slow readers hold their memory, or because the server has had
     * its share of a core */
    bool is_short;
    /*
     * Appends to *out the events after *cursor, as text ("id: 7\ndata: ...\n\n"), and
     * moves *cursor on. Nothing new: appends nothing. At first *cursor is what the reader
     * says that it has (Last-Event-ID, or else ?since=N), or 0. Called when a stream
     * begins, after coxi_http_wake, and again when everything appended was sent: so a
     * reader that is slow makes nothing grow. Should append at most 256 KiB a call, and
     * tell a reader that has missed events.
     */
    int (*events)(void *context, uint64_t *cursor, struct coxi_buffer *out);
    const struct coxi_http_work *work; /* constant */
};

/* The variable of the environment with which `coxswain run --page` asks its program where
 * the program's client serves: it names a FIFO, for one line with the URL. */
#define COXI_HTTP_TELL "COX_HTTP_TELL"

/*
 * Serves `routes` (borrowed) until coxi_http_stop. COX_EADDRESS: the address is none, is
 * in use, or other hosts reach it and `open` is false; COX_ENOMEM.
 */
int coxi_http_start(const struct coxi_http_options *options,
                    const struct coxi_http_route *routes, size_t n_routes,
                    struct coxi_http_server **ret);

/* Where it serves, "http://127.0.0.1:8080", until coxi_http_stop. Any thread. */
const char *coxi_http_url(const struct coxi_http_server *server);

/* There may be events: asks all streams for them. Any thread; does not block. Takes
 * NULL. */
void coxi_http_wake(struct coxi_http_server *server);

/* Readers of events get those that are there, as far as they take them at once. Then closes all
 * connections, and waits for the server's thread. Takes NULL. Not within functions of routes. */
void coxi_http_stop(struct coxi_http_server *server);

#endif
