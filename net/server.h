/*
 * A daemon's side of its connections: accepts them, greets, and gives each a thread that
 * receives, calls `handle` for every message, and closes. Answers that `handle` sends to
 * its own peer leave in one write for each read.
 *
 * Or it dials one peer, again and again for as long as it lives, and serves that
 * connection just as if it had been accepted.
 */
#ifndef COXI_NET_SERVER_H
#define COXI_NET_SERVER_H

#include "common/buffer.h"
#include "net/message.h"

struct coxi_server;

/* A connection that has greeted. Lives until its `on_close` has returned. */
struct coxi_peer {
    struct coxi_server *server;
    struct coxi_link *link;
    struct coxi_hello hello; /* without the texts */
    uint64_t since_ms;       /* when it greeted (coxi_now_ms) */
    /* For `handle`, its thread only: to make answers in, and for what it needs beside. */
    struct coxi_buffer scratch;
    struct coxi_buffer aside;
};

/* All calls on the connection's own thread; each may block. */
struct coxi_server_events {
    /* A peer of our version has greeted: 0 to take it, or it is refused (text: why). */
    int (*on_hello)(void *arg, struct coxi_peer *peer);
    /* It has been greeted in turn: what is sent here is the first that it gets. Other
     * than 0 closes the connection. Optional. */
    int (*on_greeted)(void *arg, struct coxi_peer *peer);
    /* A message; other than 0 closes the connection. */
    int (*on_message)(void *arg, struct coxi_peer *peer,
                      const struct coxi_message *message,
                      const struct coxi_frame *frame);
    /* A peer that was taken is gone. Optional. */
    void (*on_close)(void *arg, struct coxi_peer *peer);
    /* The incarnation to greet with, where it changes: instead of that of `self`. Optional;
     * does not block. */
    uint64_t (*incarnation)(void *arg);
};

struct coxi_server_options {
    const char *listen;
    const char *dial;       /* whom to dial; then it listens nowhere. Or NULL */
    struct coxi_hello self; /* how to greet; `channel` is the peer's */
    int peer_timeout_ms;
    bool local_path;                         /* taken where a peer offers it */
    const struct coxi_server_events *events; /* borrowed */
    void *arg;
};

/*
 * Binds the address, which a process that is just ending may hold for a moment more;
 * peers are served, or the one is dialled, from coxi_server_start on. COX_EADDRESS,
 * COX_ENOMEM.
 */
int coxi_server_open(const struct coxi_server_options *options,
                     struct coxi_server **ret);
void coxi_server_start(struct coxi_server *server);

/* The address that peers dial; where it dials itself: that of the peer. */
const char *coxi_server_url(const struct coxi_server *server);

/*
 * Dials the peer that `control` is connected to once more, for data. Where that fails,
 * `control` is closed, which has all begin anew. COX_EPROTO: there are too many already.
 */
int coxi_server_dial_data(struct coxi_server *server, const struct coxi_peer *control);

/* Dials no more; connections that there are stay. */
void coxi_server_dial_stop(struct coxi_server *server);

/* The links that it watches: others of the same process may join them. */
struct coxi_links *coxi_server_links(struct coxi_server *server);

/* True where `match(arg, hello)` holds for a peer that has greeted. Any thread. */
bool coxi_server_any(struct coxi_server *server,
                     bool (*match)(const void *arg, const struct coxi_hello *hello),
                     const void *arg);

/* When one of the peers that it holds for was heard last (coxi_now_ms); 0: there is none. Any
 * thread. */
uint64_t coxi_server_heard_ms(struct coxi_server *server,
                              bool (*match)(const void *arg,
                                            const struct coxi_hello *hello),
                              const void *arg);

/* Sends a message to every peer that it holds for, as far as there is memory. Any thread. */
void coxi_server_tell(struct coxi_server *server,
                      bool (*match)(const void *arg, const struct coxi_hello *hello),
                      const void *arg, const struct coxi_message *message);

/* Heartbeats, and the end of what has closed. Several times in a quarter of the
 * timeout. */
void coxi_server_tick(struct coxi_server *server);

/* Closes every connection and waits for every thread; `links` stay. Not on them. */
void coxi_server_stop(struct coxi_server *server);
void coxi_server_free(struct coxi_server *server); /* stops it; takes NULL */

#endif
