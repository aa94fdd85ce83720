/* See strangers.h. */
#include "bench/strangers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench.h"

enum {
    SILENT_MAX = 1024, /* connections that say nothing */
    TICK_NS = 5000000,
    KINDS = 4,
};

enum kind { ABORTS, BABBLES, BREAKS_OFF, SAYS_NOTHING };

struct strangers {
    uint16_t ports[STRANGERS_PORTS_MAX];
    int n_ports;
    int rate;
    pthread_t thread;
    atomic_bool blows;
    atomic_bool rests; /* nothing is open any more */
    atomic_bool ends;
    atomic_uint_least64_t made;
    atomic_uint_least64_t failed;
    int silent[SILENT_MAX]; /* a ring: the oldest is closed for the newest */
    uint64_t n_silent;
};

/* The beginning of a handshake's first message, as far as a stranger can know it. */
static const uint8_t greeting[64] = {0x43, 0x58, 0x4b, 0x31, 1, 0, 1};

static void hang_up(int fd)
{
    const struct linger at_once = {1, 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    (void)close(fd);
}

static void keep_silent(struct strangers *s, int fd)
{
    int *at = &s->silent[s->n_silent % SILENT_MAX];
    if (s->n_silent >= SILENT_MAX) {
        hang_up(*at);
    }
    *at = fd;
    s->n_silent++;
}

static void hang_up_all(struct strangers *s)
{
    uint64_t n = s->n_silent < SILENT_MAX ? s->n_silent : SILENT_MAX;
    for (uint64_t i = 0; i < n; i++) {
        hang_up(s->silent[i]);
    }
    s->n_silent = 0;
}

static void visit(struct strangers *s, uint16_t port, enum kind kind)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint8_t noise[256];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const void *)&address, sizeof(address)) != 0) {
        atomic_fetch_add(&s->failed, 1);
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    atomic_fetch_add(&s->made, 1);
    if (kind == SAYS_NOTHING) {
        keep_silent(s, fd);
        return;
    }
    if (kind == BABBLES) {
        memset(noise, (int)(atomic_load(&s->made) * 37U & 0xFFU), sizeof(noise));
        (void)send(fd, noise, sizeof(noise), MSG_NOSIGNAL | MSG_DONTWAIT);
    } else if (kind == BREAKS_OFF) {
        (void)send(fd, greeting, sizeof(greeting), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    hang_up(fd);
}

static void *storm(void *arg)
{
    struct strangers *s = arg;
    const struct timespec tick = {0, TICK_NS};
    uint64_t n = 0;
    double due = 0;
    double last = bench_now();
    while (!atomic_load(&s->ends)) {
        (void)nanosleep(&tick, NULL);
        double now = bench_now();
        if (!atomic_load(&s->blows)) {
            hang_up_all(s);
            atomic_store(&s->rests, true);
            due = 0;
        } else {
            due += (now - last) * s->rate * s->n_ports;
        }
        uint64_t end = n + (uint64_t)due;
        due -= (double)(end - n);
        for (; n < end; n++) {
            visit(s, s->ports[n % (uint64_t)s->n_ports],
                  (enum kind)(n / (uint64_t)s->n_ports % KINDS));
        }
        last = now;
    }
    hang_up_all(s);
    return NULL;
}

struct strangers *strangers_new(const uint16_t *ports, int n_ports, int rate)
{
    struct strangers *s = calloc(1, sizeof(*s));
    if (s == NULL || n_ports > STRANGERS_PORTS_MAX) {
        bench_die("out of memory");
    }
    memcpy(s->ports, ports, (size_t)n_ports * sizeof(*ports));
    s->n_ports = n_ports;
    s->rate = rate;
    if (pthread_create(&s->thread, NULL, storm, s) != 0) {
        bench_die("cannot start a thread");
    }
    return s;
}

void strangers_blow(struct strangers *s)
{
    atomic_store(&s->rests, false);
    atomic_store(&s->blows, true);
}

void strangers_rest(struct strangers *s)
{
    const struct timespec tick = {0, TICK_NS};
    atomic_store(&s->rests, false);
    atomic_store(&s->blows, false);
    while (!atomic_load(&s->rests)) {
        (void)nanosleep(&tick, NULL);
    }
}

void strangers_counts(struct strangers *s, uint64_t *ret_made, uint64_t *ret_failed)
{
    *ret_made = atomic_load(&s->made);
    *ret_failed = atomic_load(&s->failed);
}

void strangers_free(struct strangers *s)
{
    atomic_store(&s->ends, true);
    (void)pthread_join(s->thread, NULL);
    free(s);
}
