/*
 * Those who watch a run: Prometheus, which reads /metrics of client, ps and workers each
 * second, and two browsers with the page open. A browser asks for what page/app.js asks for:
 * the state and the history, then the events; and for the tasks (each second) and the logs
 * (every two seconds), as if all sections were in view at once.
 *
 * They run on other hosts, so their own work should not count: they parse nothing, wait
 * when they have used more than one part in SHARE of a core, and the benchmark leaves their
 * CPU time out. They work while told to; time that they rest does not pass for them.
 *
 * Threads: one. Cost: a connection for each request, which is more than Prometheus and
 * browsers need.
 */
#include "bench/watchers.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum {
    BROWSERS = 2,
    PORTS_MAX = 64,
    SHARE = 20,
    ANSWER_BYTES = 64 << 20,
    TAIL = 256, /* bytes at the end of an answer in which its last number is */
    PATIENCE_S = 5
};

struct browser {
    int events;               /* the stream; -1: none */
    unsigned long long seq;   /* the newest record that it has */
    unsigned long long tasks; /* the newest task */
    double tasks_at;          /* when they are asked for next */
    double logs_at;
};

struct watchers {
    uint16_t ports[PORTS_MAX];
    size_t n_ports;
    struct browser browsers[BROWSERS];
    double scrape_at;
    double passed; /* seconds in which they have watched */
    size_t n_scrapes;
    size_t bytes; /* of all answers and events */
    char *answer;
};

/* ---- requests */

/* Sends a request. */
static int ask(uint16_t port, const char *path, const char *accept)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0 ||
        connect(fd, (const struct sockaddr *)&to, sizeof(to)) != 0 ||
        dprintf(fd,
                "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: %s\r\n"
                "Connection: close\r\n\r\n",
                path, accept) < 0) {
        bench_die("a watcher cannot ask port %u for %s: %s", port, path,
                  strerror(errno));
    }
    return fd;
}

/* Asks for a page and reads all of it into `answer`; returns its end. */
static const char *get(struct watchers *w, uint16_t port, const char *path)
{
    static const char ok[] = "HTTP/1.1 200";
    int fd = ask(port, path, "application/openmetrics-text");
    size_t len = 0;
    ssize_t n;
    while ((n = recv(fd, w->answer + len, ANSWER_BYTES - 1 - len, 0)) > 0) {
        len += (size_t)n;
    }
    (void)close(fd);
    w->answer[len] = '\0';
    w->bytes += len;
    if (n < 0 || strncmp(w->answer, ok, sizeof(ok) - 1) != 0) {
        bench_die("%s of port %u: no answer", path, port);
    }
    return len > TAIL ? w->answer + len - TAIL : w->answer;
}

/* The last number in the text behind `name`; `fallback`: there is none. */
static unsigned long long last_number(const char *text, const char *name,
                                      unsigned long long fallback)
{
    unsigned long long number = fallback;
    for (const char *at = text; (at = strstr(at, name)) != NULL;) {
        at += strlen(name);
        number = strtoull(at, NULL, 10);
    }
    return number;
}

static void scrape(struct watchers *w)
{
    for (size_t i = 0; i < w->n_ports; i++) {
        (void)get(w, w->ports[i], "/metrics");
    }
    w->n_scrapes++;
}

/* ---- browsers */

static void open_page(struct watchers *w, struct browser *browser)
{
    char path[128];
    (void)get(w, w->ports[0], "/api/state");
    (void)snprintf(path, sizeof(path), "/api/history?since=%llu", browser->seq);
    browser->seq = last_number(get(w, w->ports[0], path), "{\"seq\":", browser->seq);
    (void)snprintf(path, sizeof(path), "/events?since=%llu", browser->seq);
    browser->events = ask(w->ports[0], path, "text/event-stream");
}

static void ask_for_tasks(struct watchers *w, struct browser *browser)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "/api/tasks?since=%llu", browser->tasks);
    browser->tasks =
        last_number(get(w, w->ports[0], path), "\"next\":", browser->tasks);
}

/* Reads what has come; the end of it has the newest record's number. */
static void read_events(struct watchers *w, struct browser *browser)
{
    ssize_t n = recv(browser->events, w->answer, ANSWER_BYTES - 1, MSG_DONTWAIT);
    if (n <= 0) { /* it ends, as it may: app.js asks again, too */
        (void)close(browser->events);
        browser->events = -1;
        return;
    }
    w->answer[n] = '\0';
    w->bytes += (size_t)n;
    browser->seq = last_number(n > TAIL ? w->answer + n - TAIL : w->answer,
                               "\nid: ", browser->seq);
}

static void browse(struct watchers *w, struct browser *browser)
{
    if (browser->events < 0) {
        open_page(w, browser);
    }
    if (w->passed >= browser->tasks_at) {
        browser->tasks_at = w->passed + 1;
        ask_for_tasks(w, browser);
    }
    if (w->passed >= browser->logs_at) {
        browser->logs_at = w->passed + 2;
        (void)get(w, w->ports[0], "/api/logs");
    }
}

/* ---- the child */

/* Waits for events or the lifeline; true: the benchmark has said something. */
static bool await(struct watchers *w, int wait_ms)
{
    struct pollfd fds[BROWSERS + 1] = {{.fd = STDIN_FILENO, .events = POLLIN}};
    for (int i = 0; i < BROWSERS; i++) {
        fds[i + 1] = (struct pollfd){.fd = w->browsers[i].events, .events = POLLIN};
    }
    (void)poll(fds, BROWSERS + 1, wait_ms);
    for (int i = 0; i < BROWSERS; i++) {
        if (fds[i + 1].fd >= 0 && fds[i + 1].revents != 0) {
            read_events(w, &w->browsers[i]);
        }
    }
    return fds[0].revents != 0;
}

/* Waits while they have used more than their share; true: the benchmark has said
 * something. */
static bool await_share(double begun, double cpu_before)
{
    double ahead = SHARE * (bench_cpu_self() - cpu_before) - (bench_now() - begun);
    struct pollfd lifeline = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&lifeline, 1, ahead > 0 ? (int)(1e3 * ahead) + 1 : 0) != 0;
}

/* Watches until the benchmark says something. */
static void watch(struct watchers *w)
{
    double begun = bench_now();
    double before = w->passed;
    double cpu = bench_cpu_self();
    while (!await(w, 10) && !await_share(begun, cpu)) {
        w->passed = before + bench_now() - begun;
        for (int i = 0; i < BROWSERS; i++) {
            browse(w, &w->browsers[i]);
        }
        if (w->passed >= w->scrape_at) {
            w->scrape_at = w->passed + 1;
            scrape(w);
        }
    }
}

void bench_serve_watchers(const char *ports)
{
    static struct watchers w;
    char line[16];
    w.answer = malloc(ANSWER_BYTES);
    for (char *end; w.n_ports < PORTS_MAX; ports = end + 1) {
        w.ports[w.n_ports++] = (uint16_t)strtoul(ports, &end, 10);
        if (*end != ',') {
            break;
        }
    }
    for (int i = 0; i < BROWSERS; i++) { /* spread over the second, as chance would */
        w.browsers[i] = (struct browser){
            .events = -1, .tasks_at = 0.25 + 0.5 * i, .logs_at = 0.4 + 0.5 * i};
    }
    w.scrape_at = 0.5;
    if (w.answer == NULL) {
        bench_die("out of memory");
    }
    (void)printf("ready\n");
    (void)fflush(stdout);
    while (fgets(line, sizeof(line), stdin) != NULL) { /* "go", then "rest" */
        bool goes = line[0] == 'g';
        (void)printf("%zu scrapes, %zu bytes\n", w.n_scrapes, w.bytes);
        (void)fflush(stdout);
        if (goes) {
            watch(&w);
        }
    }
}

/* ---- the benchmark's side */

/* Appends the ports at which the daemons that log to this file serve; returns how many. */
static int add_ports(const char *path, char *ports, size_t size)
{
    static const char said[] = "event=serves address=";
    char line[1024];
    int n = 0;
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const char *at = strstr(line, said);
        const char *port = at != NULL ? strrchr(at, ':') : NULL;
        if (port != NULL) {
            size_t len = strlen(ports);
            (void)snprintf(ports + len, size - len, ",%lu",
                           strtoul(port + 1, NULL, 10));
            n++;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return n;
}

/* The ports of all daemons whose logs are in the directory; returns how many. */
static int find_ports(const char *log_dir, char *ports, size_t size)
{
    char path[PATH_MAX];
    int n = 0;
    DIR *dir = opendir(log_dir);
    const struct dirent *entry;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of our own */
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            (void)snprintf(path, sizeof(path), "%s/%s", log_dir, entry->d_name);
            n += add_ports(path, ports, size);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return n;
}

void watchers_start(struct bench *bench, const char *client, const char *log_dir,
                    int n_daemons, struct bench_child *ret)
{
    char what[512];
    size_t client_len =
        (size_t)snprintf(what, sizeof(what), "watchers=%s", strrchr(client, ':') + 1);
    double end = bench_now() + PATIENCE_S;
    const struct timespec moment = {.tv_nsec = 10000000};
    int n;
    do { /* a launcher passes the logs on, so they may be late */
        what[client_len] = '\0';
        n = find_ports(log_dir, what, sizeof(what));
        (void)nanosleep(&moment, NULL);
    } while (n < n_daemons && bench_now() < end);
    if (n != n_daemons) {
        bench_die("%d of %d daemons serve over HTTP", n, n_daemons);
    }
    bench_child_start(bench, what, ret);
}

void watchers_go(struct bench_child *watchers)
{
    char answer[128];
    bench_child_ask(watchers, answer, "go");
}

void watchers_rest(struct bench_child *watchers)
{
    char answer[128];
    bench_child_ask(watchers, answer, "rest");
}
