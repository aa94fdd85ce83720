/*
 * A server: a daemon's side of its connections. It accepts connections and gives each a
 * thread, which greets, receives, calls on_message for every message, and closes the
 * connection. After each read, all answers that on_message has sent to its own peer go
 * in one write.
 *
 * Instead of accepting, a server may dial one peer, again and again for as long as it
 * lives. It serves that connection like an accepted one.
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
    /*
     * Connections are numbered in the order in which they began. Each has a thread of
     * its own, so the greeting of an older connection may be handled after that of a
     * newer.
     */
    uint64_t number;
    struct coxi_hello hello; /* without the texts */
    uint64_t since_ms;       /* when it greeted (coxi_now_ms) */
    /* Buffers for on_message, which runs on the connection's thread: one for answers,
     * one for anything else. */
    struct coxi_buffer scratch;
    struct coxi_buffer aside;
    uint64_t payload_bytes; /* for on_payload: the longest payload that was accepted */
    void *of; /* for the callbacks: set by on_hello, and not changed after it */
};

/* Callbacks, on the connection's own thread; each may block. */
struct coxi_server_events {
    /* A peer of our version has greeted. 0 accepts it; an error, with its text, refuses
     * it. */
    int (*on_hello)(void *arg, struct coxi_peer *peer);
    /* Our greeting is sent: messages sent here are the first that the peer gets. An
     * error closes the connection. Optional. */
    int (*on_greeted)(void *arg, struct coxi_peer *peer);
    /* A message has arrived, and its long payload (`len` bytes) is about to arrive.
     * After an error the payload is dropped (frame->dropped), and on_message gets the
     * message without it. Optional. */
    int (*on_payload)(void *arg, struct coxi_peer *peer,
                      const struct coxi_message *message, size_t len);
    /* As in net/link.h: the connection's memory for long messages and for answers that
     * wait changes. Any thread; must not block. Optional. */
    int (*on_memory)(void *arg, struct coxi_peer *peer, size_t from, size_t to);
    /* A message has arrived. An error closes the connection. */
    int (*on_message)(void *arg, struct coxi_peer *peer,
                      const struct coxi_message *message,
                      const struct coxi_frame *frame);
    /* An accepted peer is gone. Optional. */
    void (*on_close)(void *arg, struct coxi_peer *peer);
    /* For a server whose incarnation changes: returns the one for our greeting of this
     * peer, which replaces that of `self`. Optional; does not block. */
    uint64_t (*incarnation)(void *arg, const struct coxi_peer *peer);
};

struct coxi_server_options {
    const char *listen;
    const char *dial;       /* the peer to dial instead of listening; NULL: none */
    bool dials;             /* the same, but coxi_server_redial tells whom */
    struct coxi_hello self; /* our greeting; `channel` is the peer's */
    int peer_timeout_ms;
    const struct coxi_key *key; /* the run's, borrowed; NULL: nobody proves anything */
    /* of the runs that share this server, in place of `key`: borrowed; or NULL */
    struct coxi_keyring *keys;
    bool local_path;                         /* accept it if a peer offers it */
    const struct coxi_server_events *events; /* borrowed */
    void *arg;
};

/*
 * Binds the address, and waits a moment if a process that is ending still holds it.
 * coxi_server_start begins to accept peers, or to dial. COX_EADDRESS, COX_ENOMEM.
 */
int coxi_server_open(const struct coxi_server_options *options,
                     struct coxi_server **ret);
void coxi_server_start(struct coxi_server *server);

/* The address that peers dial, or the address that the server dials ("": it is not known
 * yet). */
const char *coxi_server_url(struct coxi_server *server);

/*
 * Dials the peer of `control` once more, for a data connection. If that fails,
 * `control` is closed, which restarts the session. COX_EPROTO: there are too many
 * connections already, or the server listens.
 */
int coxi_server_dial_data(struct coxi_server *server, const struct coxi_peer *control);

/* For a server that dials: from now on it dials the peer at `url`. If that is another
 * address, the connection to the old one is closed. One thread at a time. COX_ENOMEM. */
int coxi_server_redial(struct coxi_server *server, const char *url);

/* Stops dialling; existing connections stay. */
void coxi_server_dial_stop(struct coxi_server *server);

/* The links that the server watches; other links of the process may join them. */
struct coxi_links *coxi_server_links(struct coxi_server *server);

/* Whether a peer that has greeted is meant. Called with the server's lock held. */
typedef bool (*coxi_peer_match)(const void *arg, const struct coxi_peer *peer);

/* True if `match` is true for any peer. Any thread. */
bool coxi_server_any(struct coxi_server *server, coxi_peer_match match,
                     const void *arg);

/* When the last bytes came from any matching peer (coxi_now_ms); 0: there is no such
 * peer. Any thread. */
uint64_t coxi_server_heard_ms(struct coxi_server *server, coxi_peer_match match,
                              const void *arg);

/* Sends a message to every matching peer, if there is memory. Any thread. */
void coxi_server_tell(struct coxi_server *server, coxi_peer_match match,
                      const void *arg, const struct coxi_message *message);

/* Closes the link of every matching peer, if there is memory. Any thread. */
void coxi_server_close(struct coxi_server *server, coxi_peer_match match,
                       const void *arg, int code, const char *text);

/* Sends heartbeats, and joins the thread of the last closed connection. Call it several times in a quarter of
 * the timeout. */
void coxi_server_tick(struct coxi_server *server);

/* Closes every connection and waits for their threads; `links` stay. Not on these
 * threads. */
void coxi_server_stop(struct coxi_server *server);
void coxi_server_free(struct coxi_server *server); /* stops it; takes NULL */

#endif
