/* See raw.h. */
#include "bench/raw.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/error.h"
#include "common/optimizer.h"
#include "common/sync.h"

struct head {
    uint64_t len;
    uint64_t answer;
    uint64_t applied;
};

enum { SMALL = 64, BUFFER = 64 * 1024, SAMPLES_MAX = 200000 };

/* Fails for sockets that are not tcp, which is fine. */
static void set_nodelay(int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void read_all(int fd, void *to, size_t len)
{
    while (len > 0) {
        ssize_t n = recv(fd, to, len, 0);
        if (n <= 0) {
            bench_die("raw socket: %s", n == 0 ? "closed" : strerror(errno));
        }
        to = (uint8_t *)to + n;
        len -= (size_t)n;
    }
}

static void write_all(int fd, struct iovec *iov, int n_iov)
{
    while (n_iov > 0) {
        ssize_t n = writev(fd, iov, n_iov);
        if (n < 0) {
            bench_die("raw socket: %s", strerror(errno));
        }
        while (n_iov > 0 && (size_t)n >= iov->iov_len) {
            n -= (ssize_t)iov->iov_len;
            iov++;
            n_iov--;
        }
        if (n_iov > 0) {
            iov->iov_base = (uint8_t *)iov->iov_base + n;
            iov->iov_len -= (size_t)n;
        }
    }
}

/* ---- the other side */

/* A connection: reads messages through a buffer, long ones directly into memory. */
struct served {
    int fd;
    uint8_t buffer[BUFFER];
    uint8_t *payload;
    float *weights; /* enough for RAW_MAX bytes */
};

/* Applies gradients as a ps does. */
static void apply(float *weights, const uint8_t *gradients, size_t n)
{
    static const struct coxi_optimizer sgd = {.kind = COXI_OPTIMIZER_SGD,
                                              .learning_rate = 0.01f};
    float *const slots[COXI_SLOTS_MAX] = {NULL};
    struct coxi_optimizer_step step;
    coxi_optimizer_begin(&sgd, 0, 0, &step);
    coxi_optimizer_apply(&step, weights, slots, (const float *)(const void *)gradients,
                         n);
}

/* Handles the complete messages among the first `have` bytes of the buffer; returns how
 * many bytes they have. */
static size_t serve_messages(struct served *served, size_t have)
{
    static const uint8_t answer[BUFFER];
    struct head head;
    size_t at = 0;
    while (have - at >= sizeof(head)) {
        memcpy(&head, served->buffer + at, sizeof(head));
        size_t here = have - at - sizeof(head);
        if (head.len > here && head.len <= BUFFER - sizeof(head)) {
            break;
        }
        size_t part = head.len < here ? head.len : here;
        if (head.len > here || head.applied > 0) {
            memcpy(served->payload, served->buffer + at + sizeof(head), part);
            read_all(served->fd, served->payload + part, head.len - part);
        }
        apply(served->weights, served->payload, head.applied);
        at += sizeof(head) + part;
        if (head.answer > 0) {
            write_all(served->fd,
                      &(struct iovec){(void *)(uintptr_t)answer, head.answer}, 1);
        }
    }
    return at;
}

static void *serve_connection(void *arg)
{
    struct served *served = arg;
    size_t have = 0;
    ssize_t n;
    while ((n = recv(served->fd, served->buffer + have, BUFFER - have, 0)) > 0) {
        have += (size_t)n;
        size_t at = serve_messages(served, have);
        memmove(served->buffer, served->buffer + at, have - at);
        have -= at;
    }
    (void)close(served->fd);
    free(served->payload);
    free(served->weights);
    free(served);
    return NULL;
}

static void serve(int fd)
{
    pthread_t thread;
    struct served *served = calloc(1, sizeof(*served));
    if (served != NULL) {
        served->fd = fd;
        served->payload = aligned_alloc(64, RAW_MAX);
        served->weights = aligned_alloc(64, RAW_MAX);
    }
    if (served == NULL || served->payload == NULL || served->weights == NULL) {
        bench_die("out of memory");
    }
    memset(served->weights, 0, RAW_MAX);
    set_nodelay(fd);
    bench_check(coxi_thread_start(&thread, "raw", serve_connection, served), "thread");
    (void)pthread_detach(thread);
}

static void *accept_all(void *arg)
{
    int fd;
    while ((fd = accept4(*(int *)arg, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        serve(fd);
    }
    return NULL;
}

void bench_serve_raw(bool tcp)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    pthread_t thread;
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "coxswain-bench-%d",
                   (int)getpid());
    socklen_t len = tcp ? sizeof(in) : sizeof(un);
    struct sockaddr *address = tcp ? (struct sockaddr *)&in : (struct sockaddr *)&un;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, address, len) != 0 || listen(fd, 8) != 0 ||
        getsockname(fd, address, &len) != 0) {
        bench_die("raw socket: %s", strerror(errno));
    }
    if (tcp) {
        (void)printf("%d\n", ntohs(in.sin_port));
    } else {
        (void)printf("%s\n", un.sun_path + 1);
    }
    (void)fflush(stdout);
    bench_check(coxi_thread_start(&thread, "raw", accept_all, &fd), "thread");
    bench_child_await_end();
    _exit(0);
}

/* ---- this side */

static void raw_connect(struct raw *ret)
{
    bool tcp = ret->tcp;
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in.sin_port = htons((uint16_t)strtol(ret->child.line, NULL, 10));
    (void)snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "%.100s", ret->child.line);
    const struct sockaddr *address =
        tcp ? (const struct sockaddr *)&in : (const struct sockaddr *)&un;
    ret->fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (ret->fd < 0 || connect(ret->fd, address, tcp ? sizeof(in) : sizeof(un)) != 0) {
        bench_die("raw socket: %s", strerror(errno));
    }
    set_nodelay(ret->fd);
    ret->payload = aligned_alloc(64, RAW_MAX);
    if (ret->payload == NULL) {
        bench_die("out of memory");
    }
    memset(ret->payload, 1, RAW_MAX);
}

void raw_open(struct bench *bench, bool tcp, struct raw *ret)
{
    *ret = (struct raw){.tcp = tcp};
    bench_child_start(bench, tcp ? "raw-tcp" : "raw-ipc", &ret->child);
    raw_connect(ret);
}

void raw_join(const struct raw *raw, struct raw *ret)
{
    *ret = *raw;
    ret->joined = true;
    raw_connect(ret);
}

void raw_close(struct raw *raw)
{
    (void)close(raw->fd);
    if (!raw->joined) {
        bench_child_stop(&raw->child);
    }
    free(raw->payload);
}

static void send_gradients(struct raw *raw, size_t len, size_t answer, size_t applied)
{
    struct head head = {len, answer, applied};
    struct iovec iov[] = {{&head, sizeof(head)}, {raw->payload, len}};
    write_all(raw->fd, iov, 2);
}

static void send_message(struct raw *raw, size_t len, size_t answer)
{
    send_gradients(raw, len, answer, 0);
}

double raw_bandwidth(struct raw *raw, size_t bytes, bool applied, double seconds)
{
    uint8_t answer[8];
    size_t n = 0;
    /* An answer now and then keeps the two sides within a few hundred megabytes of each
     * other. */
    size_t every = bytes >= RAW_MAX ? 2 : (size_t)RAW_MAX * 2 / bytes;
    double start = bench_now();
    do {
        for (size_t i = 0; i < every; i++) {
            send_gradients(raw, bytes, i + 1 == every ? sizeof(answer) : 0,
                           applied ? bytes / sizeof(float) : 0);
        }
        n += every;
        read_all(raw->fd, answer, sizeof(answer));
    } while (bench_now() - start < seconds);
    return (double)n * (double)bytes / (bench_now() - start) / 1e9;
}

double raw_requests(struct raw *raw, size_t bytes, int outstanding, double seconds)
{
    static uint8_t answers[BUFFER];
    size_t n_sent = 0;
    size_t have = 0;
    size_t n_done = 0;
    double start = bench_now();
    for (int i = 0; i < outstanding; i++) {
        send_message(raw, bytes - sizeof(struct head), bytes);
        n_sent++;
    }
    bool going = true;
    while (n_done < n_sent) {
        ssize_t n = recv(raw->fd, answers, sizeof(answers), 0);
        if (n <= 0) {
            bench_die("raw socket: closed");
        }
        have += (size_t)n;
        for (; have >= bytes; have -= bytes) {
            n_done++;
            if (going) {
                send_message(raw, bytes - sizeof(struct head), bytes);
                n_sent++;
            }
        }
        going = going && bench_now() - start < seconds;
    }
    return (double)n_done / (bench_now() - start);
}

void raw_push(struct raw *raw, size_t bytes)
{
    uint8_t answer[SMALL];
    send_gradients(raw, bytes, sizeof(answer), bytes / sizeof(float));
    read_all(raw->fd, answer, sizeof(answer));
}

void raw_ask(struct raw *raw)
{
    send_message(raw, SMALL - sizeof(struct head), SMALL);
}

void raw_await(struct raw *raw)
{
    uint8_t answer[SMALL];
    read_all(raw->fd, answer, sizeof(answer));
}

double raw_round_trip(struct raw *raw, double seconds)
{
    static double samples[SAMPLES_MAX];
    size_t n = 0;
    double start = bench_now();
    double now = start;
    while (now - start < seconds && n < SAMPLES_MAX) {
        double before = now;
        raw_ask(raw);
        raw_await(raw);
        now = bench_now();
        samples[n++] = (now - before) * 1e6;
    }
    return bench_quantile(samples, n, 0.5);
}
