/*
 * Strangers at an HTTP server, in a process of their own: a thousand connections that are
 * slow, and besides them, one after the other, requests that mean nothing, headers that are
 * too long, and answers that nobody reads.
 *
 * Strangers come from other hosts, so their own work must not count: they take one part in
 * SHARE of a core.
 */
#include "bench/http_strangers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/bench.h"

enum {
    SLOW = 1000,
    GREEDY = 16,
    LONG = 32 << 10,
    SHARE = 50,
    FILES = 4096,
    TRICKLE = 20
};

struct crowd {
    struct sockaddr_in to;
    int slow[SLOW];
    int greedy[GREEDY]; /* have asked, and do not read */
    unsigned turn;
    char text[LONG];
};

static void hang_up(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
    }
    *fd = -1;
}

/* A connection that has said something; -1: there is none to be had. */
static int say(const struct crowd *crowd, const char *text, size_t len)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 &&
        (connect(fd, (const struct sockaddr *)&crowd->to, sizeof(crowd->to)) == 0 ||
         errno == EINPROGRESS)) {
        (void)send(fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    return fd;
}

/* The next slow ones each say a byte more, and come again if they were sent away. */
static void trickle(struct crowd *crowd)
{
    for (unsigned i = 0; i < TRICKLE; i++) {
        int *fd = &crowd->slow[(crowd->turn * TRICKLE + i) % SLOW];
        char byte;
        bool gone = *fd < 0 || recv(*fd, &byte, 1, MSG_DONTWAIT) >= 0 ||
                    send(*fd, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0;
        if (gone) {
            hang_up(fd);
            *fd = say(crowd, "GET /metrics?", 13);
        }
    }
}

static void say_nonsense(struct crowd *crowd)
{
    int fd = say(crowd, crowd->text, 512);
    hang_up(&fd);
}

static void say_too_much(struct crowd *crowd)
{
    static const char begin[] = "GET /metrics HTTP/1.1\r\nX: ";
    int fd = say(crowd, begin, sizeof(begin) - 1);
    if (fd >= 0) {
        (void)send(fd, crowd->text, LONG, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    hang_up(&fd);
}

static void ask_much(struct crowd *crowd)
{
    static const char request[] =
        "GET /api/history HTTP/1.1\r\nHost: localhost\r\n\r\n";
    int *fd = &crowd->greedy[crowd->turn % GREEDY];
    hang_up(fd);
    *fd = say(crowd, request, sizeof(request) - 1);
}

static bool goes_on(int wait_ms)
{
    struct pollfd lifeline = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&lifeline, 1, wait_ms) == 0;
}

void bench_serve_http_strangers(uint16_t port)
{
    static struct crowd crowd;
    struct rlimit files;
    crowd.to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
    crowd.to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memset(crowd.slow, -1, sizeof(crowd.slow));
    memset(crowd.greedy, -1, sizeof(crowd.greedy));
    memset(crowd.text, '\xa5', sizeof(crowd.text));
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES) {
        files.rlim_cur = files.rlim_max < FILES ? files.rlim_max : FILES;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    for (int i = 0; i < SLOW / TRICKLE; i++, crowd.turn++) {
        trickle(&crowd);
    }
    (void)printf("they are there\n");
    (void)fflush(stdout);
    double begun = bench_now() - SHARE * bench_cpu_self();
    do {
        trickle(&crowd);
        say_nonsense(&crowd);
        say_too_much(&crowd);
        ask_much(&crowd);
        crowd.turn++;
        /* seconds until the share allows more */
        double ahead = SHARE * bench_cpu_self() - (bench_now() - begun);
        if (!goes_on(ahead > 0 ? (int)(1e3 * ahead) + 1 : 0)) {
            break;
        }
    } while (true);
}
