/*
 * See relay.h. Each source has a pipe, which outlives its processes, because the relay
 * holds the writing end, too. So there is never an end of file, and one more pipe tells
 * the thread to end.
 *
 * Invariants: lines from one pipe stay in order. Each line is one write, so that lines
 * of several sources do not mix. A line longer than LINE_MAX_BYTES is written in
 * pieces.
 *
 * Threads: coxi_relay_new, _fd, _free the launcher's; everything else the relay's.
 */
#include "cli/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "common/sync.h"

enum {
    PREFIX_MAX_BYTES = COXI_RELAY_NAME_MAX + 3,
    LINE_MAX_BYTES = 4000,
    END_MS = 1000
};

struct pipe {
    int in;
    int out;
    size_t n_prefix;
    size_t used; /* bytes of `line`, with the prefix */
    char line[PREFIX_MAX_BYTES + LINE_MAX_BYTES + 1];
};

struct coxi_relay {
    int to_fd;
    size_t n; /* sources */
    struct pollfd *fds;
    pthread_t thread;
    bool has_thread;
    struct pipe *pipes; /* and one more, which tells the thread to end */
};

/* If a line cannot be written, nobody reads it. */
static void write_line(const struct coxi_relay *relay, struct pipe *pipe)
{
    size_t done = 0;
    pipe->line[pipe->used++] = '\n';
    while (done < pipe->used) {
        ssize_t n = write(relay->to_fd, pipe->line + done, pipe->used - done);
        if (n < 0 && errno != EINTR) {
            break;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    pipe->used = pipe->n_prefix;
}

/* Passes on all that can be read now. */
static void pass_on(const struct coxi_relay *relay, struct pipe *pipe)
{
    char bytes[4096];
    ssize_t n;
    while ((n = read(pipe->in, bytes, sizeof(bytes))) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            if (bytes[i] == '\n' || pipe->used == pipe->n_prefix + LINE_MAX_BYTES) {
                write_line(relay, pipe);
            }
            if (bytes[i] != '\n') {
                pipe->line[pipe->used++] = bytes[i];
            }
        }
    }
}

static void *run(void *arg)
{
    struct coxi_relay *relay = arg;
    struct pollfd *fds = relay->fds;
    for (size_t i = 0; i <= relay->n; i++) {
        fds[i] = (struct pollfd){.fd = relay->pipes[i].in, .events = POLLIN};
    }
    do {
        (void)poll(fds, relay->n + 1, -1); /* coxi_relay_free ends it */
        for (size_t i = 0; i < relay->n; i++) {
            pass_on(relay, &relay->pipes[i]);
        }
    } while (fds[relay->n].revents == 0);
    for (size_t i = 0; i < relay->n; i++) {
        if (relay->pipes[i].used > relay->pipes[i].n_prefix) {
            write_line(relay, &relay->pipes[i]);
        }
    }
    return NULL;
}

static int open_pipe(struct pipe *pipe, const char *name)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return coxi_error_errno(COX_EIO, "cannot make a pipe");
    }
    pipe->in = fds[0];
    pipe->out = fds[1];
    if (fcntl(pipe->in, F_SETFL, O_NONBLOCK) != 0) {
        return coxi_error_errno(COX_EIO, "cannot make a pipe");
    }
    (void)snprintf(pipe->line, PREFIX_MAX_BYTES, "%.*s: ", COXI_RELAY_NAME_MAX, name);
    pipe->n_prefix = strlen(pipe->line);
    pipe->used = pipe->n_prefix;
    return 0;
}

static int open_pipes(struct coxi_relay *relay, const char *const *names)
{
    int r = 0;
    for (size_t i = 0; i <= relay->n; i++) {
        relay->pipes[i].in = -1;
    }
    for (size_t i = 0; r == 0 && i <= relay->n; i++) {
        r = open_pipe(&relay->pipes[i], i < relay->n ? names[i] : "");
    }
    return r;
}

static void relay_free(struct coxi_relay *relay)
{
    for (size_t i = 0; relay->pipes != NULL && i <= relay->n; i++) {
        if (relay->pipes[i].in >= 0) {
            (void)close(relay->pipes[i].in);
            (void)close(relay->pipes[i].out);
        }
    }
    free(relay->pipes);
    free(relay->fds);
    free(relay);
}

int coxi_relay_new(const char *const *names, size_t n, int to_fd,
                   struct coxi_relay **ret)
{
    struct coxi_relay *relay = calloc(1, sizeof(*relay));
    if (relay == NULL) {
        return coxi_error_memory("what others print");
    }
    relay->to_fd = to_fd;
    relay->n = n;
    relay->pipes = calloc(n + 1, sizeof(*relay->pipes));
    relay->fds = calloc(n + 1, sizeof(*relay->fds));
    int r = relay->pipes == NULL || relay->fds == NULL
                ? coxi_error_memory("what others print")
                : open_pipes(relay, names);
    if (r == 0 && pthread_create(&relay->thread, NULL, run, relay) != 0) {
        r = coxi_error(COX_EIO, "cannot start a thread");
    }
    if (r != 0) {
        relay_free(relay);
        return r;
    }
    *ret = relay;
    return 0;
}

int coxi_relay_fd(const struct coxi_relay *relay, size_t i)
{
    return relay->pipes[i].out;
}

void coxi_relay_free(struct coxi_relay *relay)
{
    if (relay == NULL) {
        return;
    }
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += END_MS / 1000;
    if (write(relay->pipes[relay->n].out, "", 1) == 1 &&
        pthread_timedjoin_np(relay->thread, NULL, &until) == 0) {
        relay_free(relay);
    } else {
        /* the thread may use the rest as long as this process lives */
        (void)pthread_detach(relay->thread);
    }
}
