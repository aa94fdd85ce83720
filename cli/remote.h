/*
 * One host of `coxswain launch`: an ssh that runs `coxswain host` there. This end writes
 * a request and, while it lives, a beat; when the beats stop, or the connection ends,
 * the other end ends its daemons. Single-threaded, on the loop's thread.
 */
#ifndef COXI_CLI_REMOTE_H
#define COXI_CLI_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/loop.h"

/* Begins the line with which `coxswain host` answers, after which JSON follows. */
#define COXI_HOST_ANSWER "coxswain-host "

struct coxi_remote {
    /* set these first */
    struct coxi_loop *loop;
    char **argv; /* of ssh, ends with NULL; borrowed */
    int err_fd;  /* for what ssh and the other end say */
    int beat_ms;
    /* The other end has started its daemons; `json` is its answer. */
    void (*on_answer)(void *arg, struct coxi_remote *remote, const char *json);
    /* ssh has ended with this exit code, 128 and more for signals. It may be started
     * again. */
    void (*on_end)(void *arg, struct coxi_remote *remote, int code);
    void *arg;
    /* private */
    uv_process_t process;
    uv_pipe_t in;
    uv_pipe_t out;
    uv_timer_t beat;
    uv_write_t write;
    uv_buf_t writes;
    bool is_writing;
    bool runs;
    bool has_answered;
    int n_open; /* handles of this ssh */
    int code;
    size_t used; /* bytes of line */
    char line[65536];
};

/* Starts ssh, and writes the request, which the caller keeps until on_end. COX_EINVAL:
 * ssh cannot be started. */
int coxi_remote_start(struct coxi_remote *remote, const struct coxi_buffer *request);

/* Has the other end end: closes its standard input. on_end follows. */
void coxi_remote_stop(struct coxi_remote *remote);

/* Kills ssh. on_end follows. */
void coxi_remote_kill(struct coxi_remote *remote);

#endif
