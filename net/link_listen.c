/*
 * Makes links by listening; see link.h. A listener has an nng listener and one aio.
 * With a key, a peer proves itself (proving.h) before it becomes a link: until then it
 * costs only a descriptor and a little memory, for two seconds at most, but no thread.
 */
#include <arpa/inet.h>
#include <nng/nng.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/sync.h"
#include "common/unforked.h"
#include "net/ipc.h"
#include "net/link.h"
#include "net/link_internal.h"
#include "net/proving.h"

#define IPC "ipc://"

struct newcomer;

struct coxi_listener {
    nng_stream_listener *listener;
    nng_aio *aio;
    struct coxi_guard guard; /* without a key: nothing is proved */
    coxi_listener_accepted accepted;
    void (*on_denied)(void *arg, const char *peer, uint64_t n); /* NULL: logs */
    void *arg;
    bool resting;
    bool is_ipc;
    struct coxi_unforked unforked;
    char url[160];

    /* The peers that have not proved themselves yet, in the order in which they
     * came. */
    struct coxi_mutex lock; /* leaf */
    pthread_cond_t left;    /* a newcomer has left the list */
    struct newcomer *first COXI_GUARDED_BY(lock);
    struct newcomer **last COXI_GUARDED_BY(lock);
    nng_aio *sweep_aio; /* looks for newcomers whose time has passed */
    bool sweeps COXI_GUARDED_BY(lock);
    uint32_t n_newcomers COXI_GUARDED_BY(lock);
    struct coxi_seldom denied;
    uint32_t newcomers_max; /* fixed */
};

struct newcomer {
    struct coxi_listener *listener;
    struct coxi_proving *proving;
    char peer[64]; /* its address, for the log */
    struct newcomer *next;
    struct newcomer **at;
};

enum {
    NEWCOMERS_MAX = 1024, /* peers that prove themselves at a time */
    ACCEPT_REST_MS = 50,
    SWEEP_MS = 500, /* by which a newcomer's time may be exceeded; nng is busy for up to
                       a millisecond before each wake-up, so there should be few */
    CLAIM_MS = 1000, /* how long an address may be in use before that is an error */
    CLAIM_REST_MS = 20,
};

/* True if peers must prove themselves. */
static bool proves(const struct coxi_listener *listener)
{
    return listener->guard.key.kind != COXI_KEY_NONE || listener->guard.keys != NULL;
}

static void hand_over(struct coxi_listener *listener, nng_stream *stream,
                      const struct coxi_agreed *agreed)
{
    struct coxi_link *link;
    if (coxi_link_new(stream, agreed, &link) == 0) {
        listener->accepted(listener->arg, link);
    }
}

/* ---- peers that prove themselves */

/* Takes a newcomer out of the list, so that nobody aborts its handshake any more. */
static void take_out(struct newcomer *newcomer)
{
    struct coxi_listener *listener = newcomer->listener;
    coxi_lock(&listener->lock);
    *newcomer->at = newcomer->next;
    if (newcomer->next != NULL) {
        newcomer->next->at = newcomer->at;
    } else {
        listener->last = newcomer->at;
    }
    coxi_unlock(&listener->lock);
}

/* Logs that a peer was denied, and how many were denied since the last such line. */
static void tell_denied(struct coxi_listener *listener, const char *peer)
{
    uint64_t n;
    if (!coxi_seldom(&listener->denied, &n)) {
        return;
    }
    if (listener->on_denied != NULL) {
        listener->on_denied(listener->arg, peer, n);
    } else {
        coxi_log(COXI_LOG_WARN, "connection_denied",
                 "address=%s peer=%s denied=%llu text=\"%s\"", listener->url, peer,
                 (unsigned long long)n, coxi_error_text());
    }
}

static void on_proved(void *arg, int code, nng_stream *stream,
                      const struct coxi_agreed *agreed)
{
    struct newcomer *newcomer = arg;
    struct coxi_listener *listener = newcomer->listener;
    char peer[sizeof(newcomer->peer)];
    take_out(newcomer);
    memcpy(peer, newcomer->peer, sizeof(peer));
    free(newcomer);
    if (code == 0) {
        hand_over(listener, stream, agreed);
    } else {
        tell_denied(listener, peer);
    }
    coxi_lock(&listener->lock);
    listener->n_newcomers--;
    (void)pthread_cond_broadcast(&listener->left);
    coxi_unlock(&listener->lock);
}

/* Puts a newcomer at the end of the list. If the list is full, aborts the oldest
 * newcomer: an honest one needs only a round trip, so the oldest is probably idle. */
static void put_in(struct coxi_listener *listener, struct newcomer *newcomer)
    COXI_REQUIRES(listener->lock)
{
    if (listener->n_newcomers >= listener->newcomers_max && listener->first != NULL) {
        coxi_proving_abort(listener->first->proving);
    }
    newcomer->next = NULL;
    newcomer->at = listener->last;
    *listener->last = newcomer;
    listener->last = &newcomer->next;
    listener->n_newcomers++;
    if (!listener->sweeps) {
        listener->sweeps = true;
        nng_sleep_aio(SWEEP_MS, listener->sweep_aio);
    }
}

/* Ends the handshakes of newcomers whose time has passed. Runs while there are any. */
static void sweep(void *arg)
{
    struct coxi_listener *listener = arg;
    bool stopped = nng_aio_result(listener->sweep_aio) != 0;
    coxi_lock(&listener->lock);
    for (struct newcomer *n = listener->first; n != NULL; n = n->next) {
        coxi_proving_expire(n->proving);
    }
    listener->sweeps = listener->first != NULL && !stopped;
    if (listener->sweeps) {
        nng_sleep_aio(SWEEP_MS, listener->sweep_aio);
    }
    coxi_unlock(&listener->lock);
}

/* Writes the address from which the peer dialled: host:port, or "local" (ipc). */
static void tell_peer(nng_stream *stream, char *ret, size_t len)
{
    nng_sockaddr sa;
    char host[INET6_ADDRSTRLEN] = "?";
    bool known = nng_stream_get_addr(stream, NNG_OPT_REMADDR, &sa) == 0;
    if (known && sa.s_family == NNG_AF_INET) {
        (void)inet_ntop(AF_INET, &sa.s_in.sa_addr, host, sizeof(host));
        (void)snprintf(ret, len, "%s:%u", host, ntohs(sa.s_in.sa_port));
    } else if (known && sa.s_family == NNG_AF_INET6) {
        (void)inet_ntop(AF_INET6, sa.s_in6.sa_addr, host, sizeof(host));
        (void)snprintf(ret, len, "[%s]:%u", host, ntohs(sa.s_in6.sa_port));
    } else {
        /* a peer that has hung up already has no address any more */
        (void)snprintf(ret, len, "%s",
                       known && sa.s_family == NNG_AF_IPC ? "local" : "unknown");
    }
}

/* Lets a peer prove itself. */
static void receive_newcomer(struct coxi_listener *listener, nng_stream *stream)
{
    struct newcomer *newcomer = calloc(1, sizeof(*newcomer));
    if (newcomer == NULL) {
        nng_stream_free(stream);
        return;
    }
    newcomer->listener = listener;
    tell_peer(stream, newcomer->peer, sizeof(newcomer->peer));
    if (coxi_proving_new(stream, &listener->guard, false, COXI_PROVING_MS, on_proved,
                         newcomer, &newcomer->proving) != 0) {
        free(newcomer);
        return;
    }
    coxi_lock(&listener->lock);
    put_in(listener, newcomer);
    coxi_unlock(&listener->lock);
    coxi_proving_start(newcomer->proving);
}

/* Aborts the handshakes of all newcomers, and waits until they have ended. */
static void send_away(struct coxi_listener *listener)
{
    coxi_lock(&listener->lock);
    for (struct newcomer *n = listener->first; n != NULL; n = n->next) {
        coxi_proving_abort(n->proving);
    }
    while (listener->n_newcomers > 0) {
        coxi_wait_for_end(&listener->left, &listener->lock); /* they were aborted */
    }
    coxi_unlock(&listener->lock);
}

/* ---- accepting */

/* The peer is a process of a user who is not let in. */
static void send_back(struct coxi_listener *listener, nng_stream *stream)
{
    tell_denied(listener, "local");
    nng_stream_free(stream);
}

static void accept_callback(void *arg)
{
    struct coxi_listener *listener = arg;
    int failed = nng_aio_result(listener->aio);
    if (failed == NNG_ECLOSED || failed == NNG_ECANCELED) {
        return;
    }
    if (failed != 0) {
        /* The cause (no free descriptors, say) may last, so rest before the next
         * accept. */
        listener->resting = true;
        nng_sleep_aio(ACCEPT_REST_MS, listener->aio);
        return;
    }
    if (listener->resting) {
        listener->resting = false;
    } else if (listener->is_ipc &&
               coxi_ipc_check_stream(nng_aio_get_output(listener->aio, 0)) != 0) {
        send_back(listener, nng_aio_get_output(listener->aio, 0));
    } else if (proves(listener)) {
        receive_newcomer(listener, nng_aio_get_output(listener->aio, 0));
    } else {
        hand_over(listener, nng_aio_get_output(listener->aio, 0), NULL);
    }
    nng_stream_listener_accept(listener->listener, listener->aio);
}

/* The place of the port in "tcp://host:0", with its colon; the end if there is none. */
static char *port_of(char *url)
{
    char *host = strstr(url, "://");
    /* of an IPv6 address, which contains colons, too */
    char *bracket = strrchr(url, ']');
    char *colon = strrchr(bracket != NULL ? bracket : host + 3, ':');
    return colon != NULL ? colon : url + strlen(url);
}

/* Replaces the port 0 in "tcp://host:0" by the port that was found; other addresses
 * stay. */
static void set_url(struct coxi_listener *listener, const char *url)
{
    (void)snprintf(listener->url, sizeof(listener->url), "%s", url);
    int port = 0;
    if (strncmp(url, "ipc:", 4) == 0 ||
        nng_stream_listener_get_int(listener->listener, NNG_OPT_TCP_BOUND_PORT,
                                    &port) != 0) {
        return;
    }
    char *at = port_of(listener->url);
    size_t used = (size_t)(at - listener->url);
    (void)snprintf(at, sizeof(listener->url) - used, ":%d", port);
}

static void listener_free(struct coxi_listener *listener)
{
    coxi_unforked_drop(&listener->unforked);
    if (listener->aio != NULL) {
        nng_aio_stop(listener->aio);
        nng_aio_free(listener->aio);
    }
    if (listener->listener != NULL) {
        nng_stream_listener_free(listener->listener);
    }
    send_away(listener);
    if (listener->sweep_aio != NULL) {
        nng_aio_stop(listener->sweep_aio);
        nng_aio_free(listener->sweep_aio);
    }
    (void)pthread_cond_destroy(&listener->left);
    coxi_mutex_fini(&listener->lock);
    coxi_key_wipe(&listener->guard.key);
    coxi_seen_free(listener->guard.seen);
    free(listener);
}

/*
 * If nobody listens at the path of an ipc address, nng removes the file there, even a
 * regular one. So nng gets a path only if nothing is there, or a socket of this user.
 * COX_EADDRESS.
 */
static int check_path(const char *url)
{
    struct stat st;
    if (strncmp(url, IPC, strlen(IPC)) != 0 || lstat(url + strlen(IPC), &st) != 0 ||
        (S_ISSOCK(st.st_mode) && st.st_uid == geteuid())) {
        return 0;
    }
    return coxi_error(COX_EADDRESS, "cannot listen at %s: %s is there already", url,
                      S_ISSOCK(st.st_mode) ? "another user's socket"
                                           : "something that is no socket");
}

/* How many peers may be proving themselves at the same time: a quarter of the
 * descriptors that this process may open, but at most NEWCOMERS_MAX. */
static uint32_t newcomers_max(void)
{
    struct rlimit files;
    bool known = getrlimit(RLIMIT_NOFILE, &files) == 0;
    return known && files.rlim_cur / 4 < NEWCOMERS_MAX
               ? (uint32_t)files.rlim_cur / 4 + 1
               : NEWCOMERS_MAX;
}

static struct coxi_listener *listener_alloc(const struct coxi_guard *guard,
                                            coxi_listener_accepted accepted, void *arg)
{
    struct coxi_listener *listener = calloc(1, sizeof(*listener));
    if (listener == NULL) {
        return NULL;
    }
    coxi_mutex_init(&listener->lock);
    coxi_unshared(&listener->lock);
    coxi_cond_init(&listener->left);
    listener->last = &listener->first;
    listener->newcomers_max = newcomers_max();
    listener->accepted = accepted;
    listener->arg = arg;
    if (guard != NULL) {
        listener->guard = *guard;
    }
    listener->guard.seen = NULL;
    if (proves(listener) &&
        (coxi_seen_new(&listener->guard.seen) != 0 ||
         nng_aio_alloc(&listener->sweep_aio, sweep, listener) != 0)) {
        listener_free(listener);
        return NULL;
    }
    return listener;
}

int coxi_listener_open(const char *url, const struct coxi_guard *guard,
                       coxi_listener_accepted accepted, void *arg,
                       struct coxi_listener **ret)
{
    int r = check_path(url);
    struct coxi_listener *listener =
        r == 0 ? listener_alloc(guard, accepted, arg) : NULL;
    if (listener == NULL) {
        return r != 0 ? r : coxi_error_memory("a listener");
    }
    listener->guard.seal = coxi_seal_at(url, listener->guard.seal);
    coxi_use_nng();
    int failed = nng_stream_listener_alloc(&listener->listener, url);
    if (failed != 0) {
        listener->listener = NULL;
    } else {
        (void)nng_stream_listener_set_bool(listener->listener, NNG_OPT_TCP_NODELAY,
                                           true);
        /* Applies to ipc only: no other user may connect, whatever the umask. */
        (void)nng_stream_listener_set_int(listener->listener, NNG_OPT_IPC_PERMISSIONS,
                                          coxi_ipc_mode());
        failed = nng_aio_alloc(&listener->aio, accept_callback, listener);
    }
    if (failed == 0) {
        failed = nng_stream_listener_listen(listener->listener);
    }
    if (failed != 0) {
        listener_free(listener);
        return coxi_error(failed == NNG_EADDRINUSE ? COX_EAGAIN : COX_EADDRESS,
                          "cannot listen at %s: %s", url,
                          failed == NNG_EADDRINVAL ? "this host has no such address"
                                                   : coxi_link_reason(failed));
    }
    set_url(listener, url);
    listener->is_ipc = coxi_url_is_ipc(url);
    r = listener->is_ipc ? coxi_ipc_give_away(url + strlen(IPC)) : 0;
    if (r != 0) {
        listener_free(listener);
        return r;
    }
    listener->unforked.url = listener->url;
    coxi_unforked_hold(&listener->unforked);
    *ret = listener;
    return 0;
}

int coxi_listener_claim(const char *url, const struct coxi_guard *guard,
                        coxi_listener_accepted accepted, void *arg,
                        struct coxi_listener **ret)
{
    int r = coxi_listener_open(url, guard, accepted, arg, ret);
    for (int waited_ms = 0; r == COX_EAGAIN && waited_ms < CLAIM_MS;
         waited_ms += CLAIM_REST_MS) {
        (void)poll(NULL, 0, CLAIM_REST_MS);
        r = coxi_listener_open(url, guard, accepted, arg, ret);
    }
    return r != COX_EAGAIN
               ? r
               : coxi_error(COX_EADDRESS,
                            "%s is in use: end the process that listens there, or "
                            "listen at another address (port 0 is any free one)",
                            url);
}

void coxi_listener_tell(struct coxi_listener *listener,
                        void (*denied)(void *arg, const char *peer, uint64_t n))
{
    listener->on_denied = denied;
}

void coxi_listener_start(struct coxi_listener *listener)
{
    nng_stream_listener_accept(listener->listener, listener->aio);
}

const char *coxi_listener_url(const struct coxi_listener *listener)
{
    return listener->url;
}

void coxi_listener_close(struct coxi_listener *listener)
{
    if (listener != NULL) {
        nng_stream_listener_close(listener->listener);
        listener_free(listener);
    }
}
