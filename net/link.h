/*
 * A link: one connection that carries frames both ways, over tcp, ipc or tls+tcp. It
 * knows nothing of messages: a frame is metadata and payload, both bytes.
 *
 *   frame: {magic u32, meta_len u32, payload_len u64}, metadata,
 *          zeros to a multiple of 8 (of 64 where a payload follows),
 *          payload, zeros to a multiple of 8
 *
 * An empty frame is a heartbeat; links send and swallow them on their own.
 *
 * Sending never blocks on the network: frames are put in line, many small ones leave in
 * one write, and one write is under way at a time. Receiving runs either on a thread of
 * the owner's (coxi_link_run: cheapest, for few peers; handlers may block) or on nng's
 * own threads (coxi_link_start: for many peers; handlers must not block).
 *
 * Lifetime: a link is reference-counted, shared by its owner, the receiving engine, and
 * whoever is sending. on_close comes exactly once, as the last event, after which no
 * memory given to coxi_link_send is referred to any more.
 */
#ifndef COXI_NET_LINK_H
#define COXI_NET_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct coxi_gather;
struct coxi_link;
struct coxi_links;
struct coxi_listener;

struct coxi_frame {
    const void *meta; /* 8-aligned */
    size_t meta_len;
    void *payload; /* 8-aligned; 64-aligned where it did not fit the receive buffer */
    size_t payload_len;
};

/*
 * What the owner wants to hear, one call at a time and in order: from the receiving
 * thread, but for on_close, which may come from one that is sending.
 */
struct coxi_link_events {
    /*
     * A frame has come whole; it is valid during the call. Other than 0: the link
     * closes with that code.
     */
    int (*on_frame)(void *arg, struct coxi_link *link, const struct coxi_frame *frame);
    /*
     * A long payload is about to come (frame->payload is NULL): where to receive it,
     * 64-aligned is best, valid until on_frame or on_close. NULL: into memory of the
     * link's own. Optional.
     */
    void *(*on_payload)(void *arg, struct coxi_link *link,
                        const struct coxi_frame *frame);
    /* All frames of one read have been handed out: time to flush elsewhere.
     * Optional. */
    void (*on_batch)(void *arg, struct coxi_link *link);
    /* The link is closed, why, and the text that goes with it. */
    void (*on_close)(void *arg, struct coxi_link *link, int code, const char *text);
};

/* Until the peer is known, and for ever where nothing else is set. */
enum { COXI_LINK_META_FIRST = 4096 };

/*
 * Connects to `url` ("tcp://host:port", "ipc:///path") within timeout_ms. Blocks; any
 * thread but nng's. COX_EREFUSED (nobody listens), COX_ETIMEDOUT, COX_EADDRESS
 * (malformed, or no such host), with a text that names the address.
 */
int coxi_link_connect(const char *url, int timeout_ms, struct coxi_link **ret);

/*
 * The same without blocking: `done` is called once, from a thread of nng's (it must not
 * block), with the link and code 0, or NULL and why. May be called before this returns.
 */
typedef void (*coxi_link_connected)(void *arg, int code, const char *text,
                                    struct coxi_link *link);
int coxi_link_connect_start(const char *url, int timeout_ms, coxi_link_connected done,
                            void *arg);

/* Sets who is told, before receiving starts. `events` is borrowed for the link's
 * life. */
void coxi_link_listen_to(struct coxi_link *link, const struct coxi_link_events *events,
                         void *arg);

/* What the peer may send from now on, at most. Any thread. */
void coxi_link_allow(struct coxi_link *link, size_t meta_max, size_t payload_max);

/*
 * Receives on the calling thread until the link is closed; on_close has been called
 * when this returns the code. Once, instead of coxi_link_start.
 */
int coxi_link_run(struct coxi_link *link);

/* Receives on nng's threads. Once, instead of coxi_link_run. */
void coxi_link_start(struct coxi_link *link);

/*
 * Puts a frame in line and starts sending unless a write is under way or `later` is set
 * (then coxi_link_flush starts it, or the end of the receive batch that is being
 * handled on this link). Payload segments of COXI_LINK_COPY_MAX bytes and more are not
 * copied: they must stay as they are until `release(arg)`, which is called exactly once
 * and from any thread, also when this fails; NULL: the caller knows in another way when
 * they are free. Any thread. COX_ECLOSED; COX_ELIMIT (not sendable); COX_EAGAIN: more
 * than out_max bytes are in line (the peer does not read).
 */
enum { COXI_LINK_COPY_MAX = 16 * 1024, COXI_LINK_SEGMENTS_MAX = 1024 };

struct coxi_outgoing {
    const void *meta;
    size_t meta_len;
    const struct iovec *payload; /* sent as if one after the other, no gaps */
    size_t n_payload;
    void (*release)(void *arg);
    void *arg;
};

int coxi_link_send(struct coxi_link *link, const struct coxi_outgoing *frame,
                   bool later);

/* Starts sending, but not within a batch that is being handled before that ends or a whole
 * write's worth is in line. */
void coxi_link_flush(struct coxi_link *link);

/* As coxi_link_send, but only puts it in line: for callers that hold locks. *ret_due: it
 * is time for coxi_link_flush. */
int coxi_link_put(struct coxi_link *link, const struct coxi_outgoing *frame, bool later,
                  bool *ret_due);

/*
 * A frame with a payload of `payload_len` bytes that is made while it leaves, so that it
 * needs no memory of that size: `make` puts the next bytes at `to`, as many as it likes of
 * `room` (COXI_LINK_MADE_ROOM at least, also where less is left to make), or returns an
 * error, which closes the link. No lock is held in it. Frames that others send meanwhile
 * follow. One at a time on a link; blocks until the last byte is in line, at the latest
 * until the silent peer is given up. Any thread but nng's. COX_ECLOSED, or what `make`
 * said.
 */
enum { COXI_LINK_MADE_ROOM = 64 * 1024 };

struct coxi_made {
    const void *meta;
    size_t meta_len;
    size_t payload_len;
    int (*make)(void *arg, void *to, size_t room, size_t *ret_len);
    void *arg;
};

int coxi_link_send_made(struct coxi_link *link, const struct coxi_made *frame);

/*
 * The local path: a link between two processes of one host may go on over memory that they
 * share, which costs less. The one that has dialled offers it, under a name that it tells
 * the other in some frame (`ring_bytes` as coxi_rings_new has it); the other tries to accept
 * what it is told, and answers, in another frame, whether it could. Behind these frames each
 * goes local (or withdraws the offer), on the receiving thread or before that starts, when
 * nothing else can be on its way, and receives by coxi_link_run. Nothing else changes: a
 * peer that dies or falls silent is noticed as on any link. COX_ENOMEM; COX_EADDRESS: the
 * other is not on this host, or not ours to share with. `gather`: once it is local, its thread
 * receives for coxi_link_run (gather.h); NULL: it does so itself.
 */
int coxi_link_offer(struct coxi_link *link, struct coxi_gather *gather,
                    size_t ring_bytes, const char **ret_name);
void coxi_link_withdraw(struct coxi_link *link);
int coxi_link_accept(struct coxi_link *link, const char *name);
void coxi_link_go_local(
    struct coxi_link *link); /* blocks until what is in line has left */

/* True where frames go over the local path. */
bool coxi_link_is_local(struct coxi_link *link);

/* Bytes in line. Any thread. */
size_t coxi_link_queued(struct coxi_link *link);

/*
 * Waits until no more than `bytes` are in line: how a sender keeps pace with its peer.
 * Ends at the latest when the silent peer is given up. Any thread but nng's.
 * COX_ECLOSED.
 */
int coxi_link_wait_room(struct coxi_link *link, size_t bytes);

/* When something came from the peer last, coxi_now_ms(). Any thread. */
uint64_t coxi_link_heard_ms(const struct coxi_link *link);

/*
 * Closes, at once and without waiting; what is in line is dropped. `code` is what
 * on_close hears if this is the first reason. Any thread, any number of times.
 */
void coxi_link_close(struct coxi_link *link, int code, const char *text);

/* Closes as soon as all that is in line has been sent. */
void coxi_link_finish(struct coxi_link *link, int code, const char *text);

/* True once closing has begun. Any thread. */
bool coxi_link_closed(struct coxi_link *link);

struct coxi_link *coxi_link_ref(struct coxi_link *link);
void coxi_link_unref(struct coxi_link *link); /* takes NULL */

/* On a thread of nng's: a new link, not yet receiving, which the callee owns. */
typedef void (*coxi_listener_accepted)(void *arg, struct coxi_link *link);

/*
 * Binds `url` (port 0: any free one); connections are accepted from coxi_listener_start
 * on. COX_EAGAIN: in use; COX_EADDRESS: not ours, malformed.
 */
int coxi_listener_open(const char *url, coxi_listener_accepted accepted, void *arg,
                       struct coxi_listener **ret);

/*
 * The same, but waits a second for an address in use, which a process that is just ending
 * may hold for a moment more: then COX_EADDRESS, and what to do. Blocks.
 */
int coxi_listener_claim(const char *url, coxi_listener_accepted accepted, void *arg,
                        struct coxi_listener **ret);
void coxi_listener_start(struct coxi_listener *listener);

enum { COXI_URL_MAX = 159 }; /* bytes of a URL */

/*
 * What addresses are: COX_EADDRESS unless `url` is like "tcp://host:port" or
 * "ipc:///path". The text says what it lacks: a transport that there is, a host, a port up
 * to 65535, a path.
 */
int coxi_url_check(const char *url);

/* The URL that a user means by "host:port" or a URL. COX_EADDRESS as above. */
int coxi_url_from(const char *address, char ret[COXI_URL_MAX + 1]);

/* True where only processes of this host reach `url`. */
bool coxi_url_is_local(const char *url);

/* The address that peers dial, with the port in use. Lives as long as the listener. */
const char *coxi_listener_url(const struct coxi_listener *listener);

/* No `accepted` call is under way or will come when this returns. Takes NULL.
 * Blocks. */
void coxi_listener_close(struct coxi_listener *listener);

/*
 * The links of a process or coordinator, watched for life: one that has been silent for
 * timeout_ms is closed with COX_ETIMEDOUT, and each sends a heartbeat when it has sent
 * nothing for a quarter of that. Call tick several times in a quarter. Any thread, but
 * tick: one at a time.
 */
int coxi_links_new(int timeout_ms, struct coxi_links **ret);
void coxi_links_add(struct coxi_links *links, struct coxi_link *link);
void coxi_links_drop(struct coxi_link *link); /* one that will not receive after all */
void coxi_links_tick(struct coxi_links *links);
void coxi_links_close_all(struct coxi_links *links, int code, const char *text);
void coxi_links_free(struct coxi_links *links); /* after every link of it has closed */

#endif
