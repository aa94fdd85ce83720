/* See relay.h. Threads: one accepts; each way of a connection has one. */
#include "tests/net/relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
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
    uint64_t rng;
    size_t at; /* the next fault happens behind this many bytes */
    pthread_t thread;
};

/* Where a socket listens. */
struct place {
    union {
        struct sockaddr any;
        struct sockaddr_in tcp;
        struct sockaddr_un ipc;
    } u;
    socklen_t len;
};

struct relay {
    int fd;
    struct place daemon;
    char url[300];
    struct relay_plan plan;
    uint64_t rng;
    atomic_bool rests;
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
    switch (way->relay->plan.fault) {
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
    if (atomic_load(&relay->rests) || atomic_fetch_sub(&relay->n_left, 1) <= 0) {
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
    bool good = true;
    ssize_t n = 0;
    while (good && (n = recv(way->from, bytes, sizeof(bytes), 0)) > 0) {
        size_t len = (size_t)n;
        bool now = passed + len > way->at;
        passed += len;
        if (now) {
            way->at = passed + coxi_rand(&way->rng) % way->relay->plan.spread;
        }
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
    *way = (struct way){
        .relay = relay, .from = from, .to = to, .rng = coxi_rand(&relay->rng)};
    way->at = relay->plan.earliest + coxi_rand(&way->rng) % relay->plan.spread;
    relay->ways[relay->n_ways++] = way;
    return way;
}

static void take_in(struct relay *relay, int near)
{
    const int yes = 1;
    const struct place *daemon = &relay->daemon;
    int far = socket(daemon->u.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (far < 0) {
        (void)close(near);
        return;
    }
    if (relay->n_ways + 2 > WAYS_MAX ||
        connect(far, &daemon->u.any, daemon->len) != 0) {
        (void)close(far);
        (void)close(near);
        return;
    }
    /* these fail for ipc, which does not wait for more either */
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

static struct place place_tcp(unsigned port)
{
    struct place place = {.len = sizeof(struct sockaddr_in)};
    place.u.tcp.sin_family = AF_INET;
    place.u.tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    place.u.tcp.sin_port = htons((uint16_t)port);
    return place;
}

static struct place place_ipc(const char *path)
{
    struct place place = {.len = sizeof(struct sockaddr_un)};
    place.u.ipc.sun_family = AF_UNIX;
    assert_true(strlen(path) < sizeof(place.u.ipc.sun_path));
    (void)strcpy(place.u.ipc.sun_path, path);
    return place;
}

/* Binds and listens; writes relay->url. */
static void listen_at(struct relay *relay, struct place place, const char *path)
{
    relay->fd = socket(place.u.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(relay->fd >= 0);
    assert_int_equal(0, bind(relay->fd, &place.u.any, place.len));
    assert_int_equal(0, listen(relay->fd, 64));
    assert_int_equal(0, getsockname(relay->fd, &place.u.any, &place.len));
    if (path != NULL) {
        (void)snprintf(relay->url, sizeof(relay->url), "ipc://%s", path);
    } else {
        (void)snprintf(relay->url, sizeof(relay->url), "tcp://127.0.0.1:%u",
                       (unsigned)ntohs(place.u.tcp.sin_port));
    }
}

struct relay *relay_open(const char *url, const struct relay_plan *plan)
{
    static atomic_int n_opened;
    struct relay *relay = calloc(1, sizeof(*relay));
    unsigned port = 0;
    assert_non_null(relay);
    relay->plan = *plan;
    relay->plan.earliest = plan->spread != 0 ? plan->earliest : EARLIEST;
    relay->plan.spread = plan->spread != 0 ? plan->spread : SPREAD;
    relay->rng = plan->seed;
    atomic_init(&relay->n_left, plan->n_faults);
    if (strncmp(url, "ipc://", 6) == 0) {
        char name[32];
        (void)snprintf(name, sizeof(name), "relay-%d", atomic_fetch_add(&n_opened, 1));
        const char *path = coxi_test_path(name);
        relay->daemon = place_ipc(url + 6);
        listen_at(relay, place_ipc(path), path);
    } else {
        assert_int_equal(1, sscanf(url, "tcp://127.0.0.1:%u", &port));
        relay->daemon = place_tcp(port);
        listen_at(relay, place_tcp(0), NULL);
    }
    print_message("relay: fault %d, seed %llu\n", (int)plan->fault,
                  (unsigned long long)plan->seed);
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

void relay_rest(struct relay *relay, bool rests)
{
    atomic_store(&relay->rests, rests);
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
