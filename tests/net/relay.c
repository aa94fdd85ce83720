/* See relay.h. Threads: one accepts; each way of a connection has one. */
#include "tests/net/relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/rand.h"
#include "common/sync.h"
#include "tests/test.h"

enum {
    WAYS_MAX = 2048,
    CHUNK = 16 * 1024,
    /* after the greeting, and within what a small run sends */
    EARLIEST = 300,
    SPREAD = 8000,
    DELAY_US = 150 * 1000,
    BYTEWISE_MAX = 2000,
};

struct way {
    struct relay *relay;
    int from;
    int to;
    size_t at; /* the fault happens behind this many bytes */
    pthread_t thread;
};

struct relay {
    int fd;
    struct sockaddr_in daemon;
    char url[64];
    enum relay_fault fault;
    uint64_t rng;
    atomic_int n_left;
    atomic_int n_happened;
    pthread_t thread;
    struct way *ways[WAYS_MAX];
    int n_ways;
};

static bool send_all(int fd, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
        if (n <= 0) {
            return false;
        }
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

static bool send_bytewise(int fd, const uint8_t *bytes, size_t len)
{
    size_t single = len < BYTEWISE_MAX ? len : BYTEWISE_MAX;
    for (size_t i = 0; i < single; i++) {
        if (!send_all(fd, bytes + i, 1)) {
            return false;
        }
    }
    return send_all(fd, bytes + single, len - single);
}

/* Passes nothing on until the other side gives up. */
static void swallow(int fd)
{
    uint8_t bytes[CHUNK];
    while (recv(fd, bytes, sizeof(bytes), 0) > 0) {
    }
}

/* False: the connection ends. */
static bool pass_badly(const struct way *way, uint8_t *bytes, size_t len)
{
    switch (way->relay->fault) {
    case RELAY_CUT:
        return false;
    case RELAY_TRUNCATE:
        (void)send_all(way->to, bytes, len / 2);
        return false;
    case RELAY_DROP:
        return true;
    case RELAY_DUPLICATE:
        return send_all(way->to, bytes, len) && send_all(way->to, bytes, len);
    case RELAY_FLIP:
        bytes[len / 2] ^= 4;
        return send_all(way->to, bytes, len);
    case RELAY_DELAY:
        (void)usleep(DELAY_US);
        return send_all(way->to, bytes, len);
    case RELAY_HALF_OPEN:
        swallow(way->from);
        return false;
    case RELAY_BYTEWISE:
        return send_bytewise(way->to, bytes, len);
    }
    return false;
}

/* Takes one of the faults that are to happen. */
static bool take_fault(struct relay *relay)
{
    if (atomic_fetch_sub(&relay->n_left, 1) <= 0) {
        return false;
    }
    atomic_fetch_add(&relay->n_happened, 1);
    return true;
}

static void *pass_on(void *arg)
{
    struct way *way = arg;
    uint8_t bytes[CHUNK];
    size_t passed = 0;
    bool done = false;
    bool good = true;
    ssize_t n = 0;
    while (good && (n = recv(way->from, bytes, sizeof(bytes), 0)) > 0) {
        size_t len = (size_t)n;
        bool now = !done && passed + len > way->at;
        done = done || now;
        passed += len;
        good = now && take_fault(way->relay) ? pass_badly(way, bytes, len)
                                             : send_all(way->to, bytes, len);
    }
    (void)shutdown(way->from, SHUT_RDWR);
    (void)shutdown(way->to, SHUT_RDWR);
    return NULL;
}

static struct way *add_way(struct relay *relay, int from, int to)
{
    struct way *way = calloc(1, sizeof(*way));
    *way = (struct way){.relay = relay,
                        .from = from,
                        .to = to,
                        .at = EARLIEST + coxi_rand(&relay->rng) % SPREAD};
    relay->ways[relay->n_ways++] = way;
    return way;
}

static void take_in(struct relay *relay, int near)
{
    const int yes = 1;
    int far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (relay->n_ways + 2 > WAYS_MAX ||
        connect(far, (const struct sockaddr *)&relay->daemon, sizeof(relay->daemon)) !=
            0) {
        (void)close(far);
        (void)close(near);
        return;
    }
    (void)setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    (void)setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    struct way *there = add_way(relay, near, far);
    struct way *back = add_way(relay, far, near);
    (void)coxi_thread_start(&there->thread, "relay", pass_on, there);
    (void)coxi_thread_start(&back->thread, "relay", pass_on, back);
}

static void *accept_all(void *arg)
{
    struct relay *relay = arg;
    int fd;
    while ((fd = accept4(relay->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        take_in(relay, fd);
    }
    return NULL;
}

struct relay *relay_open(const char *url, enum relay_fault fault, uint64_t seed,
                         int n_faults)
{
    struct relay *relay = calloc(1, sizeof(*relay));
    struct sockaddr_in own = {.sin_family = AF_INET,
                              .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(own);
    unsigned port = 0;
    assert_non_null(relay);
    assert_int_equal(1, sscanf(url, "tcp://127.0.0.1:%u", &port));
    relay->daemon = own;
    relay->daemon.sin_port = htons((uint16_t)port);
    relay->fault = fault;
    relay->rng = seed;
    atomic_init(&relay->n_left, n_faults);
    relay->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(0, bind(relay->fd, (struct sockaddr *)&own, sizeof(own)));
    assert_int_equal(0, listen(relay->fd, 64));
    assert_int_equal(0, getsockname(relay->fd, (struct sockaddr *)&own, &len));
    (void)snprintf(relay->url, sizeof(relay->url), "tcp://127.0.0.1:%u",
                   (unsigned)ntohs(own.sin_port));
    print_message("relay: fault %d, seed %llu\n", (int)fault, (unsigned long long)seed);
    assert_code(0, coxi_thread_start(&relay->thread, "relay", accept_all, relay));
    return relay;
}

const char *relay_url(const struct relay *relay)
{
    return relay->url;
}

int relay_n_happened(struct relay *relay)
{
    return atomic_load(&relay->n_happened);
}

void relay_close(struct relay *relay)
{
    (void)shutdown(relay->fd, SHUT_RDWR);
    (void)pthread_join(relay->thread, NULL);
    (void)close(relay->fd);
    for (int i = 0; i < relay->n_ways; i++) {
        (void)shutdown(relay->ways[i]->from, SHUT_RDWR);
    }
    for (int i = 0; i < relay->n_ways; i++) {
        (void)pthread_join(relay->ways[i]->thread, NULL);
    }
    for (int i = 0; i < relay->n_ways; i++) {
        (void)close(relay->ways[i]->from);
        free(relay->ways[i]);
    }
    free(relay);
}
