/*
 * Proxies: see chaos_net.h. Beside each daemon's stream socket there is another one.
 * Bytes that come there go on to the daemon, and answers go back, unless that
 * connection is cut. The socket's credentials tell who has dialled: a worker, or else
 * the client.
 *
 * Invariants: a connection that is cut is neither read nor written. A connection that
 * has ended on one side is closed on the other side when everything before was passed
 * on, which a cut delays.
 *
 * Threads: one that passes bytes on; the storm's cuts. Cost: two copies of every byte.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench/chaos.h"
#include "bench/chaos_net.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/sync.h"

enum {
    LINES_MAX = 512,
    DOORS_MAX = CHAOS_PS_MAX + 64,
    ROOM = 128 * 1024, /* most bytes that are in the proxy, each way */
    BACKLOG = 128,
    LATEST_MS = 1000,
    URL_HEAD = sizeof("ipc://") - 1,
};

/* The socket at which a daemon is dialled. */
struct door {
    int fd;
    bool is_ps;
    uint32_t index;
    struct sockaddr_un daemon;
};

/* The bytes from one side to the other. */
struct way {
    size_t begin;
    size_t end;
    bool over; /* nothing more comes in */
    uint8_t bytes[ROOM];
};

struct line {
    int fds[2]; /* of the side that dialled; of the daemon, or -1: not dialled yet */
    pid_t pid;
    bool by_worker;
    const struct door *door;
    struct way ways[2]; /* [i]: from fds[i] */
};

struct cut {
    uint64_t until_ms;
    uint32_t index;
    pid_t pid; /* only this worker; 0: all */
};

struct proxies {
    struct chaos_net net; /* must be the first member */
    struct door doors[DOORS_MAX];
    size_t n_doors;
    pthread_t thread;
    bool runs;
    int wake; /* an eventfd: a cut has changed, or the thread must end */

    struct coxi_mutex lock; /* guards the rest, except while the thread polls; leaf */
    struct cut cuts[CHAOS_CUT_KINDS];
    struct line *lines[LINES_MAX];
    size_t n_lines;
    bool end;
};

static enum chaos_cut kind_of(const struct line *line)
{
    if (!line->door->is_ps) {
        return CHAOS_CUT_WORKER;
    }
    return line->by_worker ? CHAOS_CUT_WORKER_PS : CHAOS_CUT_CLIENT_PS;
}

static bool is_cut(const struct proxies *net, const struct line *line, uint64_t now_ms)
{
    const struct cut *cut = &net->cuts[kind_of(line)];
    return now_ms < cut->until_ms && line->door->index == cut->index &&
           (cut->pid == 0 || cut->pid == line->pid);
}

/* ---- lines */

static void line_free(struct line *line)
{
    for (int i = 0; i < 2; i++) {
        if (line->fds[i] >= 0) {
            (void)close(line->fds[i]);
        }
    }
    free(line);
}

static void take_in(struct proxies *net, const struct door *door)
{
    struct ucred who = {0};
    socklen_t len = sizeof(who);
    int fd = accept4(door->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct line *line =
        fd >= 0 && net->n_lines < LINES_MAX ? calloc(1, sizeof(*line)) : NULL;
    if (line == NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len);
    line->fds[0] = fd;
    line->fds[1] = -1;
    line->pid = who.pid;
    line->by_worker = chaos_proc_is(who.pid, "coxswain-worker");
    line->door = door;
    net->lines[net->n_lines++] = line;
}

/* Dials the daemon; false: it does not listen. */
static bool dial(struct line *line)
{
    if (line->fds[1] < 0) {
        line->fds[1] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    }
    return line->fds[1] >= 0 &&
           connect(line->fds[1], (const struct sockaddr *)&line->door->daemon,
                   sizeof(line->door->daemon)) == 0;
}

/* Reads from a side; false: that side is gone. */
static bool read_side(struct line *line, int side)
{
    struct way *way = &line->ways[side];
    if (way->begin == way->end) {
        way->begin = way->end = 0;
    }
    if (way->over || way->end == ROOM) {
        return true;
    }
    /* NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection): it does not block */
    ssize_t n = recv(line->fds[side], way->bytes + way->end, ROOM - way->end, 0);
    if (n > 0) {
        way->end += (size_t)n;
        return true;
    }
    way->over = n == 0 || errno != EAGAIN;
    return !way->over;
}

static bool write_side(struct line *line, int side)
{
    struct way *way = &line->ways[1 - side];
    while (way->begin < way->end) {
        ssize_t n = send(line->fds[side], way->bytes + way->begin,
                         way->end - way->begin, MSG_NOSIGNAL);
        if (n < 0) {
            return errno == EAGAIN;
        }
        way->begin += (size_t)n;
    }
    return true;
}

/* Passes bytes on, both ways; false: the line must be closed. */
static bool pass_on(struct line *line)
{
    if (line->fds[1] < 0 && !dial(line)) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        (void)read_side(line, i);
    }
    for (int i = 0; i < 2; i++) {
        const struct way *in = &line->ways[1 - i];
        if (!write_side(line, i) || (in->over && in->begin == in->end)) {
            return false;
        }
    }
    return true;
}

static void pass_all_on(struct proxies *net, uint64_t now_ms)
{
    size_t n = 0;
    for (size_t i = 0; i < net->n_lines; i++) {
        struct line *line = net->lines[i];
        if (is_cut(net, line, now_ms) || pass_on(line)) {
            net->lines[n++] = line;
        } else {
            line_free(line);
        }
    }
    net->n_lines = n;
}

/* ---- the thread */

/* The events that a line waits for on one side; none if it is cut. */
static struct pollfd wish(const struct line *line, int side, bool cut)
{
    const struct way *in = &line->ways[side];
    const struct way *out = &line->ways[1 - side];
    short events = (short)(!in->over && in->end < ROOM ? POLLIN : 0);
    events = (short)(events | (out->begin < out->end ? POLLOUT : 0));
    return (struct pollfd){.fd = cut || events == 0 ? -1 : line->fds[side],
                           .events = events};
}

/* The time until something changes by itself. */
static int patience_ms(const struct proxies *net, uint64_t now_ms)
{
    uint64_t least = LATEST_MS;
    for (int i = 0; i < CHAOS_CUT_KINDS; i++) {
        uint64_t until_ms = net->cuts[i].until_ms;
        if (until_ms > now_ms && until_ms - now_ms < least) {
            least = until_ms - now_ms;
        }
    }
    return (int)least;
}

/* One turn of the thread. Locked, except while it waits. */
static void turn(struct proxies *net) COXI_REQUIRES(net->lock)
{
    static struct pollfd fds[1 + DOORS_MAX + 2 * LINES_MAX];
    uint64_t now_ms = coxi_now_ms();
    nfds_t n = 0;
    fds[n++] = (struct pollfd){.fd = net->wake, .events = POLLIN};
    for (size_t i = 0; i < net->n_doors; i++) {
        fds[n++] = (struct pollfd){.fd = net->doors[i].fd, .events = POLLIN};
    }
    for (size_t i = 0; i < net->n_lines; i++) {
        bool cut = is_cut(net, net->lines[i], now_ms);
        fds[n++] = wish(net->lines[i], 0, cut);
        fds[n++] = wish(net->lines[i], 1, cut);
    }
    int wait_ms = patience_ms(net, now_ms);
    coxi_unlock(&net->lock);
    (void)poll(fds, n, wait_ms);
    if ((fds[0].revents & POLLIN) != 0) {
        eventfd_t ignored;
        (void)eventfd_read(net->wake, &ignored);
    }
    coxi_lock(&net->lock);
    for (size_t i = 0; i < net->n_doors; i++) {
        if ((fds[1 + i].revents & POLLIN) != 0) {
            take_in(net, &net->doors[i]);
        }
    }
    pass_all_on(net, coxi_now_ms());
}

static void *pass_for_ever(void *arg)
{
    struct proxies *net = arg;
    coxi_lock(&net->lock);
    while (!net->end) {
        turn(net);
    }
    coxi_unlock(&net->lock);
    return NULL;
}

/* ---- cuts */

/* A random worker that is connected to that ps; 0: none is. */
static pid_t draw_worker(const struct proxies *net, uint32_t index, uint64_t draw)
{
    for (size_t i = 0; i < net->n_lines; i++) {
        const struct line *line = net->lines[(draw + i) % net->n_lines];
        if (kind_of(line) == CHAOS_CUT_WORKER_PS && line->door->index == index) {
            return line->pid;
        }
    }
    return 0;
}

static bool proxies_cut(struct chaos_net *of, enum chaos_cut kind, uint32_t index,
                        uint64_t draw, uint64_t while_ms)
{
    struct proxies *net = (struct proxies *)of;
    bool hit = false;
    coxi_lock(&net->lock);
    uint64_t now_ms = coxi_now_ms();
    bool one = kind == CHAOS_CUT_WORKER_PS && draw % 2 == 0;
    net->cuts[kind] = (struct cut){.until_ms = now_ms + while_ms,
                                   .index = index,
                                   .pid = one ? draw_worker(net, index, draw / 2) : 0};
    for (size_t i = 0; i < net->n_lines; i++) {
        const struct line *line = net->lines[i];
        hit = hit || (kind_of(line) == kind && is_cut(net, line, now_ms));
    }
    coxi_unlock(&net->lock);
    (void)eventfd_write(net->wake, 1);
    return hit;
}

static void proxies_heal(struct chaos_net *of)
{
    struct proxies *net = (struct proxies *)of;
    coxi_lock(&net->lock);
    memset(net->cuts, 0, sizeof(net->cuts));
    coxi_unlock(&net->lock);
    (void)eventfd_write(net->wake, 1);
}

/* ---- life */

static int address(const char *url, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t len = strlen(url);
    if (strncmp(url, "ipc://", URL_HEAD) != 0 ||
        len - URL_HEAD >= sizeof(ret->sun_path)) {
        return coxi_error(COX_EADDRESS, "%s is no path of a socket, or too long", url);
    }
    memcpy(ret->sun_path, url + URL_HEAD, len - URL_HEAD);
    return 0;
}

static int add_door(struct proxies *net, bool is_ps, uint32_t index, const char *daemon,
                    const char *url)
{
    struct door *door = &net->doors[net->n_doors++];
    struct sockaddr_un self;
    *door = (struct door){.fd = -1, .is_ps = is_ps, .index = index};
    int r = address(daemon, &door->daemon);
    r = r != 0 ? r : address(url, &self);
    if (r != 0) {
        return r;
    }
    door->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (door->fd < 0 || bind(door->fd, (struct sockaddr *)&self, sizeof(self)) != 0 ||
        listen(door->fd, BACKLOG) != 0) {
        return coxi_error_errno(COX_EIO, "cannot listen at %s", url);
    }
    return 0;
}

static int add_doors(struct proxies *net, const struct cox_cluster *daemons,
                     const struct cox_cluster *proxies)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < daemons->n_ps; i++) {
        r = add_door(net, true, i, daemons->ps[i], proxies->ps[i]);
    }
    for (uint32_t i = 0; r == 0 && i < daemons->n_workers; i++) {
        r = add_door(net, false, i, daemons->workers[i], proxies->workers[i]);
    }
    return r;
}

static void proxies_stop(struct chaos_net *of)
{
    struct proxies *net = (struct proxies *)of;
    coxi_lock(&net->lock);
    net->end = true;
    coxi_unlock(&net->lock);
    (void)eventfd_write(net->wake, 1);
    if (net->runs) {
        (void)pthread_join(net->thread, NULL);
    }
    for (size_t i = 0; i < net->n_lines; i++) {
        line_free(net->lines[i]);
    }
    for (size_t i = 0; i < net->n_doors; i++) {
        if (net->doors[i].fd >= 0) {
            (void)close(net->doors[i].fd);
        }
    }
    (void)close(net->wake);
    coxi_mutex_fini(&net->lock);
    free(net);
}

int chaos_proxy_start(const struct cox_cluster *cluster, const char *dir,
                      struct chaos_journal *journal, struct chaos_net **ret,
                      struct cox_cluster **ret_cluster)
{
    static const struct chaos_net_way way = {proxies_cut, proxies_heal, proxies_stop};
    struct cox_cluster *proxies = NULL;
    struct proxies *net = calloc(1, sizeof(*net));
    if (net == NULL) {
        return coxi_error_memory("proxies");
    }
    coxi_mutex_init(&net->lock);
    net->net = (struct chaos_net){&way, journal};
    net->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = coxi_directory_make(dir);
    r = r != 0 ? r : coxi_cluster_at(dir, cluster->n_ps, cluster->n_workers, &proxies);
    r = r != 0 ? r : add_doors(net, cluster, proxies);
    r = r != 0 ? r : coxi_thread_start(&net->thread, "chaos:net", pass_for_ever, net);
    net->runs = r == 0;
    if (r != 0) {
        proxies_stop(&net->net);
        cox_cluster_free(proxies);
        return r;
    }
    *ret = &net->net;
    *ret_cluster = proxies;
    return 0;
}

/* ---- both implementations */

bool chaos_net_cut(struct chaos_net *net, enum chaos_cut kind, uint32_t index,
                   uint64_t draw, uint64_t while_ms)
{
    static const enum chaos_count counts[] = {CHAOS_CUTS_CLIENT_PS,
                                              CHAOS_CUTS_WORKER_PS, CHAOS_CUTS_WORKER};
    bool hit = net->way->cut(net, kind, index, draw, while_ms);
    chaos_count_add(net->journal, counts[kind], hit);
    return hit;
}

void chaos_net_heal(struct chaos_net *net)
{
    net->way->heal(net);
}

void chaos_net_stop(struct chaos_net *net)
{
    if (net != NULL) {
        net->way->stop(net);
    }
}
