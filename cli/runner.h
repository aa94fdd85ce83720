/*
 * Runs the client program of `coxswain run` and `coxswain launch`, with COX_CLUSTER and
 * COX_KEY_FILE set. If a signal ends it, or it exits with 128 or more, it is started
 * again. If the command is killed, the program gets SIGTERM: its cluster ends as well, and
 * nobody would start that again. Single-threaded, on the loop's thread, which has to be
 * the process's first one.
 */
#ifndef COXI_CLI_RUNNER_H
#define COXI_CLI_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/loop.h"
#include "http/http.h"

struct coxi_runner {
    /* set these first */
    const char *name; /* of the command, which begins each message */
    struct coxi_loop *loop;
    char **argv;          /* the program's; borrowed */
    int64_t restarts_max; /* in a row */
    bool page;            /* its client serves the page of its run */
    /* The program has ended for good. */
    void (*on_end)(void *arg, int exit_code);
    void *arg;
    /* private */
    uv_process_t process;
    uv_timer_t pause; /* before the program is started again */
    bool runs;
    bool told_to_end; /* do not start it again */
    char parent[16];  /* this process's id */
    uint64_t started_ms;
    int64_t n_restarts; /* in a row */
    /* with `page`: a FIFO in page_dir, through which the client tells where it serves */
    char page_dir[64]; /* "": there is none */
    int page_lock;
    uv_pipe_t page_pipe;
    char told[256];                  /* what was just read from it */
    char url[COXI_HTTP_URL_MAX + 1]; /* the line that is being read */
    size_t url_len;
    char announced[COXI_HTTP_URL_MAX + 1]; /* "": no page yet */
};

/*
 * Starts the program. `key_file` NULL: COX_KEY_FILE stays as it is. With `page`, sets
 * COX_HTTP for the program (its value, if it has one; else a free port of this host), and
 * prints the page's address on standard error once the program's client serves there.
 * COX_EINVAL: it cannot be started; COX_EADDRESS, COX_EIO, COX_ENOMEM.
 */
int coxi_runner_start(struct coxi_runner *runner, const char *cluster_json,
                      const char *key_file);

/* The first word of a command line with which a command has itself start the program:
 * COXI_RUNNER_TIED NAME PID PROGRAM [ARGUMENT ...]. */
#define COXI_RUNNER_TIED "--tied"
enum { COXI_RUNNER_TIED_WORDS = 5 };

/* Becomes the program, which ends with its parent. Returns, with an exit code, only if
 * that fails. `argv` has at least COXI_RUNNER_TIED_WORDS words. */
int coxi_runner_tied(char **argv);

/* Passes a signal on that ends this command. The program is not started again. SIGINT
 * is not sent, because Ctrl-C has reached the program, too. */
void coxi_runner_signal(struct coxi_runner *runner, int signum);

/* Ends the program with SIGTERM because its cluster has ended. False: it does not run,
 * and on_end will not be called. Takes a runner that was never started. */
bool coxi_runner_stop(struct coxi_runner *runner);

/* Call when the loop has been freed. Takes a runner that was never started. */
void coxi_runner_fini(struct coxi_runner *runner);

/* Options of the commands; `config` has `int64_t restarts` and `bool page`. */
#define COXI_RUNNER_OPTIONS(config)                                                    \
    {.name = "restarts",                                                               \
     .type = COXI_OPTION_INT,                                                          \
     .offset = offsetof(config, restarts),                                             \
     .max = 1000000,                                                                   \
     .fallback = "10",                                                                 \
     .help =                                                                           \
         "how often in a row PROGRAM is started again after a signal has ended it or " \
         "it has exited with 128 or more; after a minute the count starts again"},     \
        {.name = "page",                                                               \
         .type = COXI_OPTION_FLAG,                                                     \
         .offset = offsetof(config, page),                                             \
         .help =                                                                       \
             "have the program serve the live page of its run (at COX_HTTP, if that "  \
             "is set; else at a free port of this host), and print the page's "        \
             "address once it is served"}

#endif
