/* See peer.h. */
#include "tests/fuzz/peer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/link_internal.h"
#include "tests/fuzz/fuzz.h"

enum { READ_MIN = 64 * 1024 };

void peer_take(struct peer *peer, int fd)
{
    peer_close(peer);
    *peer = (struct peer){.fd = fd};
}

void peer_dial(struct peer *peer, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        fuzz_fail("no connection");
    }
    peer_take(peer, fd);
}

void peer_close(struct peer *peer)
{
    if (peer->fd > 0) {
        (void)close(peer->fd);
    }
    coxi_buffer_fini(&peer->in);
    *peer = (struct peer){.fd = -1, .over = true};
}

/* Forgets what was read, so that the buffer does not grow. What is left stays at a
 * multiple of 8. */
static void move_up(struct peer *peer)
{
    if (peer->at > 0) {
        memmove(peer->in.data, peer->in.data + peer->at, peer->in.len - peer->at);
        peer->in.len -= peer->at;
        peer->at = 0;
    }
}

/* Reads what has come. */
static void read_some(struct peer *peer)
{
    if (coxi_buffer_reserve(&peer->in, READ_MIN) != 0) {
        fuzz_fail("no memory");
    }
    ssize_t n = recv(peer->fd, peer->in.data + peer->in.len, READ_MIN, MSG_DONTWAIT);
    if (n > 0) {
        peer->in.len += (size_t)n;
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        peer->over = true;
    }
}

/* Waits until something can be read (or sent, if `out`). */
static void await(const struct peer *peer, bool out)
{
    struct pollfd at = {peer->fd, (short)(POLLIN | (out ? POLLOUT : 0)), 0};
    int n = poll(&at, 1, PEER_WAIT_MS);
    if (n == 0) {
        fuzz_fail(out ? "nobody reads" : "no answer");
    }
}

bool peer_wait(struct peer *const *peers, size_t n, int wait_ms)
{
    enum { PEERS_MAX = 16 };
    struct pollfd all[PEERS_MAX];
    nfds_t n_open = 0;
    for (size_t i = 0; i < n && n_open < PEERS_MAX; i++) {
        if (peers[i]->fd > 0 && !peers[i]->over) {
            all[n_open++] = (struct pollfd){peers[i]->fd, POLLIN, 0};
        }
    }
    return n_open > 0 && poll(all, n_open, wait_ms) != 0;
}

void peer_await(struct peer *const *peers, size_t n)
{
    if (!peer_wait(peers, n, PEER_WAIT_MS)) {
        fuzz_fail("no answer");
    }
}

bool peer_send_bytes(struct peer *peer, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    while (len > 0 && !peer->over) {
        ssize_t n = send(peer->fd, at, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        } else if (errno == EAGAIN) {
            await(peer, true);
            read_some(peer);
        } else if (errno != EINTR) {
            peer->over = true;
        }
    }
    return !peer->over;
}

bool peer_send(struct peer *peer, const struct coxi_message *message,
               const void *payload, size_t len)
{
    const void *meta;
    size_t meta_len;
    if (!coxi_message_encode(message, &meta, &meta_len)) {
        return !peer->over;
    }
    const struct coxi_prefix prefix = {COXI_LINK_MAGIC, (uint32_t)meta_len, len};
    size_t head_len = coxi_head_len(&prefix);
    size_t all = head_len + coxi_align(len, 8);
    uint8_t *frame = calloc(1, all);
    if (frame == NULL) {
        fuzz_fail("no memory");
    }
    memcpy(frame, &prefix, sizeof(prefix));
    memcpy(frame + sizeof(prefix), meta, meta_len);
    if (len > 0) {
        memcpy(frame + head_len, payload, len);
    }
    bool sent = peer_send_bytes(peer, frame, all);
    free(frame);
    return sent;
}

/* Bytes of the frame at the beginning of what was read; 0: it has not come as a
 * whole. */
static size_t frame_len(const struct peer *peer, struct coxi_prefix *ret)
{
    size_t have = peer->in.len - peer->at;
    if (have < sizeof(*ret)) {
        return 0;
    }
    memcpy(ret, peer->in.data + peer->at, sizeof(*ret));
    if (ret->magic != COXI_LINK_MAGIC) {
        fuzz_fail("no frame was sent");
    }
    size_t len = coxi_head_len(ret) + coxi_align(ret->payload_len, 8);
    return have < len ? 0 : len;
}

/* Skips heartbeats; false: no frame is there. */
static bool find_frame(struct peer *peer, struct coxi_prefix *ret, size_t *ret_len)
{
    while ((*ret_len = frame_len(peer, ret)) > 0) {
        if (ret->meta_len > 0 || ret->payload_len > 0) {
            return true;
        }
        peer->at += *ret_len;
    }
    return false;
}

bool peer_has(struct peer *peer)
{
    struct coxi_prefix prefix;
    size_t len;
    if (peer->fd <= 0) {
        return false;
    }
    move_up(peer);
    if (!peer->over) {
        read_some(peer);
    }
    return find_frame(peer, &prefix, &len);
}

bool peer_next(struct peer *peer, struct peer_frame *ret)
{
    struct coxi_prefix prefix;
    size_t len;
    move_up(peer);
    while (!find_frame(peer, &prefix, &len)) {
        if (peer->over) {
            return false;
        }
        move_up(peer);
        await(peer, false);
        read_some(peer);
    }
    const uint8_t *frame = peer->in.data + peer->at;
    if (!coxi_message_decode(frame + sizeof(prefix), prefix.meta_len, &ret->message)) {
        fuzz_fail("a message was sent that cannot be decoded");
    }
    ret->payload = frame + coxi_head_len(&prefix);
    ret->payload_len = prefix.payload_len;
    peer->at += len;
    return true;
}
