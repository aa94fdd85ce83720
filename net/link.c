/*
 * The life of a link: made, shared, closed (link.h has the contract and the frame's
 * layout).
 *
 * The other files: link_send.c and link_receive.c (one half each), link_made.c (frames
 * made while they are sent), link_sealed.c (sealed streams), link_connect.c (making links), link_watch.c (heartbeats
 * and silence), link_local.c (changes over to shared memory instead of the stream).
 * None of these files knows what a frame means.
 *
 * Invariants
 *   - The engine (receiving, and the sends under way) ends when receiving has ended, no
 *     send is under way, and sent memory is released; on_close comes then, and not
 *     before.
 *   - `closed` is set, under the lock, before the stream is closed.
 *
 * Threads: the receiving side belongs to the receiving thread. The sending side is
 * under `lock`, from any thread and from the send callback on one of nng's threads. No
 * callback of the owner runs under the lock.
 */
#include "net/link.h"
#include "net/ipc.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "net/link_internal.h"

int coxi_link_error(int nng_code)
{
    switch (nng_code) {
    case 0:
        return 0;
    case NNG_ENOMEM:
        return COX_ENOMEM;
    case NNG_ETIMEDOUT:
        return COX_ETIMEDOUT;
    case NNG_ECONNREFUSED:
    case NNG_EUNREACHABLE:
    case NNG_ENOENT:
        return COX_EREFUSED;
    case NNG_EADDRINUSE:
    case NNG_EADDRINVAL:
    case NNG_EINVAL:
    case NNG_EPERM:
    case NNG_ENOTSUP:
        return COX_EADDRESS;
    default:
        return COX_ECLOSED;
    }
}

/* nng's own text for the first two is of its objects ("Object closed"). */
const char *coxi_link_reason(int nng_code)
{
    return nng_code == NNG_ECLOSED || nng_code == NNG_ECONNSHUT
               ? "connection closed by the peer"
               : nng_strerror(nng_code);
}

int coxi_link_new(nng_stream *stream, const struct coxi_agreed *agreed,
                  struct coxi_link **ret)
{
    struct coxi_link *link = calloc(1, sizeof(*link));
    if (link == NULL ||
        (agreed != NULL && coxi_sealed_new(agreed, &link->sealed) != 0) ||
        nng_aio_alloc(&link->now_aio, NULL, NULL) != 0 ||
        nng_aio_alloc(&link->later_aio, coxi_link_sent_later, link) != 0) {
        if (link != NULL) {
            nng_aio_free(link->now_aio);
            coxi_sealed_free(link->sealed);
        }
        free(link);
        nng_stream_free(stream);
        return coxi_error_memory("a connection");
    }
    atomic_init(&link->refs, 1);
    atomic_init(&link->last_in_ms, coxi_now_ms());
    atomic_init(&link->last_out_ms, coxi_now_ms());
    link->stream = stream;
    link->is_proven = agreed != NULL;
    if (agreed != NULL) {
        link->proven = agreed->peer;
    }
    atomic_init(&link->meta_max, COXI_LINK_META_FIRST);
    coxi_mutex_init(&link->lock);
    coxi_cond_init(&link->room);
    *ret = link;
    return 0;
}

int coxi_link_check_user(const struct coxi_link *link)
{
    uint64_t uid = 0;
    return nng_stream_get_uint64(link->stream, NNG_OPT_IPC_PEER_UID, &uid) == 0
               ? coxi_ipc_check_user(uid)
               : 0; /* it is no ipc address */
}

const struct coxi_party *coxi_link_proven(const struct coxi_link *link)
{
    return link->is_proven ? &link->proven : NULL;
}

struct coxi_link *coxi_link_ref(struct coxi_link *link)
{
    atomic_fetch_add_explicit(&link->refs, 1, memory_order_relaxed);
    return link;
}

void coxi_chunks_release(struct coxi_chunk *chunk)
{
    while (chunk != NULL) {
        struct coxi_chunk *next = chunk->next;
        if (chunk->release != NULL) {
            chunk->release(chunk->arg);
        }
        free(chunk);
        chunk = next;
    }
}

/* Drops the frames that wait to be sent, and releases their memory. */
static void drop_line(struct coxi_link *link)
{
    coxi_lock(&link->lock);
    struct coxi_chunk *lines[] = {link->line.head, link->behind.head};
    link->line = link->behind = (struct coxi_link_line){NULL, NULL};
    link->n_queued = 0;
    coxi_unlock(&link->lock);
    coxi_chunks_release(lines[0]);
    coxi_chunks_release(lines[1]);
}

void coxi_link_unref(struct coxi_link *link)
{
    if (link == NULL ||
        atomic_fetch_sub_explicit(&link->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    /* This may run at the end of the stream's own callback: nng frees the memory after
     * it. */
    nng_stream_close(link->stream);
    nng_aio_reap(link->now_aio);
    nng_aio_reap(link->later_aio);
    if (link->recv_aio != NULL) {
        nng_aio_reap(link->recv_aio);
    }
    if (link->watch_aio != NULL) {
        nng_aio_reap(link->watch_aio);
    }
    nng_stream_free(link->stream);
    coxi_rings_free(atomic_load(&link->rings));
    drop_line(link);
    coxi_unshared(&link->lock);
    for (int i = 0; i < COXI_CHUNKS; i++) {
        coxi_chunks_release(link->spares[i].first);
    }
    coxi_sealed_free(link->sealed);
    free(link->in);
    free(link->scratch);
    (void)pthread_cond_destroy(&link->room);
    coxi_mutex_fini(&link->lock);
    free(link);
}

void coxi_link_listen_to(struct coxi_link *link, const struct coxi_link_events *events,
                         void *arg)
{
    link->events = events;
    link->arg = arg;
}

void coxi_link_allow(struct coxi_link *link, size_t meta_max, size_t payload_max)
{
    atomic_store_explicit(&link->meta_max, meta_max, memory_order_relaxed);
    atomic_store_explicit(&link->payload_max, payload_max, memory_order_relaxed);
}

bool coxi_link_closed(struct coxi_link *link)
{
    return atomic_load_explicit(&link->closed, memory_order_acquire);
}

bool coxi_link_mark_closed(struct coxi_link *link, int code, const char *text)
{
    if (coxi_link_closed(link)) {
        return false;
    }
    if (!link->finish) {
        link->close_code = code;
        strncpy(link->close_text, text, sizeof(link->close_text) - 1);
    }
    atomic_store_explicit(&link->closed, true, memory_order_release);
    (void)pthread_cond_broadcast(&link->room);
    return true;
}

void coxi_link_close(struct coxi_link *link, int code, const char *text)
{
    coxi_lock(&link->lock);
    bool first = coxi_link_mark_closed(link, code, text);
    coxi_unlock(&link->lock);
    if (first) {
        coxi_link_shut(link);
    }
}

void coxi_link_shut(struct coxi_link *link)
{
    struct coxi_rings *rings = atomic_load(&link->rings);
    nng_stream_close(link->stream);
    if (rings != NULL) {
        coxi_rings_wake(rings);
    }
}

bool coxi_link_is_local(struct coxi_link *link)
{
    return atomic_load(&link->is_local);
}

void coxi_link_finish(struct coxi_link *link, int code, const char *text)
{
    coxi_lock(&link->lock);
    bool idle = link->n_queued == 0 && !link->sending && !link->making;
    if (!link->finish && !coxi_link_closed(link)) {
        link->finish = true;
        link->close_code = code;
        strncpy(link->close_text, text, sizeof(link->close_text) - 1);
    }
    coxi_unlock(&link->lock);
    if (idle) {
        coxi_link_close(link, code, text);
    } else {
        coxi_link_flush(link);
    }
}

int coxi_link_tell_memory(struct coxi_link *link, size_t *told, size_t bytes)
{
    const struct coxi_link_events *events = link->events;
    size_t more = bytes > COXI_LINK_OWN_FREE ? bytes - COXI_LINK_OWN_FREE : 0;
    size_t to =
        coxi_align(more, COXI_LINK_IN_MAX); /* so that the owner is told seldom */
    if (to == *told || events == NULL || events->on_memory == NULL) {
        return 0;
    }
    int r = events->on_memory(link->arg, link, *told, to);
    *told = r == 0 ? to : *told;
    return r == 0 ? 0 : COX_ENOMEM;
}

void coxi_link_end(struct coxi_link *link)
{
    drop_line(link);
    coxi_links_drop(link);
    (void)coxi_link_tell_memory(link, &link->in_told, 0);
    coxi_held(&link->lock); /* not held, but a closed link's code and text are fixed */
    (void)coxi_link_tell_memory(link, &link->line_told, 0);
    link->events->on_close(link->arg, link, link->close_code, link->close_text);
    coxi_link_unref(link);
}
