/*
 * A link: one connection that carries frames both ways, over tcp or ipc. It
 * knows nothing of messages: a frame is metadata and payload, both bytes.
 *
 * With a key, frames go over tcp in sealed records (seal.h), as the two ends agreed. If
 * a record was changed on its way, the link is closed with COX_EDENIED.
 *
 *   frame: {magic u32, meta_len u32, payload_len u64}, metadata,
 *          zeros to a multiple of 8 (of 64 where a payload follows),
 *          payload, zeros to a multiple of 8
 *
 * An empty frame is a heartbeat; links send and consume heartbeats themselves.
 *
 * Sending never blocks on the network: frames are queued, many small ones go in one
 * write, and one write is under way at a time. Receiving runs on a thread of the owner
 * (coxi_link_run: cheapest, for few peers; handlers may block) or on nng's threads
 * (coxi_link_start: for many peers; handlers must not block).
 *
 * Lifetime: a link is reference-counted; its owner, the receiving engine and threads
 * that send share it. on_close is called exactly once, as the last event. After it the
 * link does not refer to memory given to coxi_link_send any more.
 */
#ifndef COXI_NET_LINK_H
#define COXI_NET_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "net/handshake.h"

struct coxi_gather;
struct coxi_link;
struct coxi_links;
struct coxi_listener;

struct coxi_frame {
    const void *meta; /* 8-aligned */
    size_t meta_len;
    void *payload; /* 8-aligned; 64-aligned where it did not fit the receive buffer */
    size_t payload_len;
    /* true: a long payload was received and dropped, because `takes` refused it */
    bool dropped;
};

/*
 * The owner's callbacks. They are called one at a time and in order, on the receiving
 * thread; only on_close may be called on a thread that sends.
 */
struct coxi_link_events {
    /*
     * A frame has arrived; it is valid during the call. If this returns a code other
     * than 0, the link is closed with that code.
     */
    int (*on_frame)(void *arg, struct coxi_link *link, const struct coxi_frame *frame);
    /*
     * A long payload is about to arrive (frame->payload is NULL). Returns where to
     * receive it: memory that stays valid until on_frame or on_close, best 64-aligned.
     * NULL: the link uses memory of its own. Optional.
     */
    void *(*on_payload)(void *arg, struct coxi_link *link,
                        const struct coxi_frame *frame);
    /* All frames of one read have been handed out: the owner may flush other links now.
     * Optional. */
    void (*on_batch)(void *arg, struct coxi_link *link);
    /* The link is closed; code and text are the reason. */
    void (*on_close)(void *arg, struct coxi_link *link, int code, const char *text);
    /* A long payload is about to arrive (frame->payload is NULL). False: the link
     * receives and drops the payload, so it takes no memory, and on_frame gets the
     * frame without it. Called before on_payload. Optional. */
    bool (*takes)(void *arg, struct coxi_link *link, const struct coxi_frame *frame);
    /*
     * The memory of the link's own for a long message, or for frames in line, changes
     * from `from` to `to` bytes. The first COXI_LINK_OWN_FREE bytes of each do not count.
     * An error denies more, and the link is closed with it; less is never denied. Called
     * before on_close, on any thread, maybe with the link's lock held: it must not block,
     * nor call the link. Optional.
     */
    int (*on_memory)(void *arg, struct coxi_link *link, size_t from, size_t to);
};

enum { COXI_LINK_OWN_FREE = 256 * 1024 };

/* A peer that has denied us at every attempt for this long has another key. A single
 * denial proves little: a peer that ends, or a proxy without its peer, looks alike. */
enum { COXI_DENIED_MS = 3000 };

/* The longest metadata that a link receives, until coxi_link_allow says otherwise. */
enum { COXI_LINK_META_FIRST = 4096 };

/*
 * Connects to `url` ("tcp://host:port", "ipc:///path") within timeout_ms. If `guard`
 * (copied; NULL: none) has a key, both ends also prove in this time that they have it
 * (handshake.h). Blocks; any thread but nng's. COX_EREFUSED (nobody listens),
 * COX_ETIMEDOUT (also if the peer is silent instead of proving itself), COX_EADDRESS
 * (malformed, or no such host), COX_EDENIED (the peer has another key, or none), with a
 * text that names the address.
 */
int coxi_link_connect(const char *url, const struct coxi_guard *guard, int timeout_ms,
                      struct coxi_link **ret);

/*
 * The same, but another thread may end it early. coxi_dial_begin comes before each
 * coxi_dial_link. A call of coxi_dial_abort after that lets coxi_dial_link return
 * COX_ECANCELLED soon, also if it is called only then. Any thread.
 */
struct coxi_dial;
int coxi_dial_new(struct coxi_dial **ret); /* COX_ENOMEM */
void coxi_dial_begin(struct coxi_dial *dial);
int coxi_dial_link(struct coxi_dial *dial, const char *url,
                   const struct coxi_guard *guard, int timeout_ms,
                   struct coxi_link **ret);
void coxi_dial_abort(struct coxi_dial *dial); /* takes NULL, like the next */
void coxi_dial_free(struct coxi_dial *dial);

/*
 * coxi_link_connect without blocking: `done` is called once, on a thread of nng (it must not
 * block), with the link and code 0, or with NULL and the reason. It may be called
 * before this function returns.
 */
typedef void (*coxi_link_connected)(void *arg, int code, const char *text,
                                    struct coxi_link *link);
int coxi_link_connect_start(const char *url, const struct coxi_guard *guard,
                            int timeout_ms, coxi_link_connected done, void *arg);

/* Sets the callbacks, before receiving starts. `events` is borrowed for the link's
 * life. */
void coxi_link_listen_to(struct coxi_link *link, const struct coxi_link_events *events,
                         void *arg);

/* Bounds the frames that the peer may send from now on. Any thread. */
void coxi_link_allow(struct coxi_link *link, size_t meta_max, size_t payload_max);

/*
 * Receives on the calling thread until the link is closed. Returns the code, after
 * on_close. Call it once, instead of coxi_link_start.
 */
int coxi_link_run(struct coxi_link *link);

/* Receives on nng's threads. Call it once, instead of coxi_link_run. */
void coxi_link_start(struct coxi_link *link);

/*
 * Queues a frame, and starts sending unless a write is under way or `later` is set.
 * (With `later`, coxi_link_flush starts it, or the end of the receive batch that is
 * being handled on this link.) Payload segments of COXI_LINK_COPY_MAX bytes and more
 * are not copied: they must not change until `release(arg)`. That is called exactly
 * once, on any thread, also when this function fails; NULL: the caller learns in
 * another way when they are free. Any thread. COX_ECLOSED; COX_ELIMIT: the frame is too
 * large; COX_EAGAIN: more than out_max bytes are queued, because the peer does not
 * read.
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

/* Starts sending. While a receive batch is being handled, sending starts only when a
 * whole write is queued, or at the end of the batch. */
void coxi_link_flush(struct coxi_link *link);

/* Like coxi_link_send, but only queues the frame: for callers that hold locks. If
 * *ret_due is true, call coxi_link_flush next. */
int coxi_link_put(struct coxi_link *link, const struct coxi_outgoing *frame, bool later,
                  bool *ret_due);

/*
 * Sends a frame whose payload of `payload_len` bytes is made while it is being sent, so
 * that it needs no memory of that size. `make` writes the next bytes to `to`, as many
 * as it likes of `room` (which is at least COXI_LINK_MADE_ROOM, even if fewer bytes are
 * left), or returns an error, which closes the link. No lock is held during `make`.
 * Frames that other threads send meanwhile follow this one. One call at a time on a
 * link. Blocks until the last byte is queued, at the latest until a silent peer is
 * given up. Any thread except nng's. COX_ECLOSED, or the error of `make`.
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
 * The local path: a link between two processes of one host may continue over shared
 * memory, which costs less. The side that dialled makes an offer (`ring_bytes` as in
 * coxi_rings_new) and sends its name to the other side in a frame. The other side tries
 * to accept that name, and answers in a frame whether it could. Right after these
 * frames each side goes local (or withdraws the offer), on the receiving thread or
 * before receiving starts, when no other frame can be under way. From then on
 * the thread that calls coxi_link_run receives the frames, or, if the offer names a
 * `gather`, the gatherer's thread (gather.h). Nothing else changes: the death or
 * silence of a peer is noticed as on any link. COX_ENOMEM; COX_EADDRESS: the other side
 * is not on this host, or may not share memory with us.
 */
int coxi_link_offer(struct coxi_link *link, struct coxi_gather *gather,
                    size_t ring_bytes, const char **ret_name);
void coxi_link_withdraw(struct coxi_link *link);
int coxi_link_accept(struct coxi_link *link, const char *name);
/* Goes local; blocks until all queued frames were sent. */
void coxi_link_go_local(struct coxi_link *link);

/* True if frames go over the local path. */
bool coxi_link_is_local(struct coxi_link *link);

/* The number of queued bytes. Any thread. */
size_t coxi_link_queued(struct coxi_link *link);

/*
 * Waits until at most `bytes` are queued, so that a sender keeps pace with its peer.
 * Ends at the latest when a silent peer is given up. Any thread except nng's.
 * COX_ECLOSED.
 */
int coxi_link_wait_room(struct coxi_link *link, size_t bytes);

/* When the last bytes came from the peer (coxi_now_ms). Any thread. */
uint64_t coxi_link_heard_ms(const struct coxi_link *link);

/*
 * Closes at once, without waiting, and drops the queued frames. on_close gets the
 * `code` of the first call. Any thread, any number of times.
 */
void coxi_link_close(struct coxi_link *link, int code, const char *text);

/* Closes as soon as all queued frames have been sent. */
void coxi_link_finish(struct coxi_link *link, int code, const char *text);

/* COX_EDENIED if the link goes to an ipc address where a user listens who is not let in
 * here (ipc.h). */
int coxi_link_check_user(const struct coxi_link *link);

/* The identity that the peer has proved; NULL: nothing was proved on this link. */
const struct coxi_party *coxi_link_proven(const struct coxi_link *link);

/* True once closing has begun. Any thread. */
bool coxi_link_closed(struct coxi_link *link);

struct coxi_link *coxi_link_ref(struct coxi_link *link);
void coxi_link_unref(struct coxi_link *link); /* takes NULL */

/* Called on a thread of nng with a new link that does not receive yet; the callee owns
 * it. */
typedef void (*coxi_listener_accepted)(void *arg, struct coxi_link *link);

/*
 * Binds `url` (port 0: any free one); coxi_listener_start begins to accept connections.
 * If `guard` (copied; NULL: none) has a key or keys, only peers that have proved that they have
 * it become links. The socket of an ipc address may be used only by this user, whatever
 * the umask. If the path is a socket of this user at which nobody listens, it is
 * replaced; any other file stays. COX_EAGAIN: the address is in use; COX_EADDRESS: it
 * is malformed, or not of this host, or something else has its path.
 */
int coxi_listener_open(const char *url, const struct coxi_guard *guard,
                       coxi_listener_accepted accepted, void *arg,
                       struct coxi_listener **ret);

/*
 * The same, but waits up to a second for an address in use, because a process that is
 * ending may still hold it. After that COX_EADDRESS; the text says what to do. Blocks.
 */
int coxi_listener_claim(const char *url, const struct coxi_guard *guard,
                        coxi_listener_accepted accepted, void *arg,
                        struct coxi_listener **ret);
void coxi_listener_start(struct coxi_listener *listener);

/*
 * Before coxi_listener_start: peers that were denied are told to `denied` instead of
 * the log, at most once in ten seconds. `n`: so many since the last call; the error's
 * text is the reason. Called on one of nng's threads, with coxi_listener_accepted's
 * `arg`; it must not block.
 */
void coxi_listener_tell(struct coxi_listener *listener,
                        void (*denied)(void *arg, const char *peer, uint64_t n));

enum { COXI_URL_MAX = 159 }; /* bytes of a URL */

/*
 * COX_EADDRESS unless `url` is like "tcp://host:port" or "ipc:///path". The text says
 * what is wrong: the transport, the host, the port (up to 65535) or the path.
 */
int coxi_url_check(const char *url);

/* Turns "host:port" into a URL, and copies a URL. COX_EADDRESS as above. */
int coxi_url_from(const char *address, char ret[COXI_URL_MAX + 1]);

/* True if `url` is an ipc address: only processes of this user reach it. */
bool coxi_url_is_ipc(const char *url);

/* True if only processes of this host reach `url`. */
bool coxi_url_is_local(const char *url);

/* The address that peers dial, with the port in use. Lives as long as the listener. */
const char *coxi_listener_url(const struct coxi_listener *listener);

/* When this returns, no call of `accepted` is under way or will come. Takes NULL.
 * Blocks. */
void coxi_listener_close(struct coxi_listener *listener);

/*
 * Watches the links of a process or coordinator. A link whose peer has been silent for
 * timeout_ms is closed with COX_ETIMEDOUT. A link that has sent nothing for a quarter
 * of timeout_ms sends a heartbeat. Call tick several times in such a quarter, on one
 * thread at a time; the other functions on any thread.
 */
int coxi_links_new(int timeout_ms, struct coxi_links **ret);
void coxi_links_add(struct coxi_links *links, struct coxi_link *link);
void coxi_links_drop(struct coxi_link *link); /* a link that will never receive */
void coxi_links_tick(struct coxi_links *links);
void coxi_links_close_all(struct coxi_links *links, int code, const char *text);
void coxi_links_free(struct coxi_links *links); /* after all its links have closed */

#endif
