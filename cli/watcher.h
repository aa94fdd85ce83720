/*
 * What a run has recorded, for the commands that show it: from a client that serves it over
 * HTTP, or from the file in the run's directory, of a run that goes on or is over.
 * One thread.
 */
#ifndef COXI_CLI_WATCHER_H
#define COXI_CLI_WATCHER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"

struct coxi_history;
struct coxi_watcher;

/* COX_EINVAL: `where` is neither an address nor a place (coxi_place_take). Asks nobody. */
int coxi_watcher_check(const char *where);

/* Prints "<program>: <last error text>" on standard error. Returns the exit code of a command that has
 * failed with `code`: COXI_EXIT_CONFIG for COX_EINVAL and COX_EADDRESS, because what the command line names can
 * be no run; otherwise COXI_EXIT_FAILED. */
int coxi_watcher_exit(const char *program, int code);

/* For --help. */
#define COXI_WATCHER_EXIT_HELP                                                         \
    "\nExits with 1 if there is no run or its client does not answer, with 2 if the "  \
    "command line\nis wrong."

/*
 * Opens the history of a run in the directory `where`, or in `checkpoints` or `logs` there.
 * COX_ENOENT: there is none; COX_EINVAL: `where` is in a store of objects; COX_EIO;
 * COX_ENOMEM.
 */
int coxi_watcher_history(const char *where, char ret_dir[PATH_MAX],
                         struct coxi_history **ret);

/*
 * `where`: a directory, or an address ("127.0.0.1:8080", "http://...", a port of this
 * host). A directory will do as for coxi_watcher_history. COX_EINVAL, COX_EADDRESS: it is none;
 * COX_ENOENT: there is no history, or no such directory; COX_EIO; COX_ENOMEM.
 */
int coxi_watcher_open(const char *where, struct coxi_watcher **ret);
void coxi_watcher_close(struct coxi_watcher *watch); /* takes NULL */

/*
 * Appends the records since the last call (at first all) to *lines, as lines of JSON. *ret_anew:
 * the source has begun anew, so forget what it has said before. COX_EIO: the
 * client does not answer now; the next call tries again.
 */
int coxi_watcher_next(struct coxi_watcher *watch, struct coxi_buffer *lines,
                      bool *ret_anew);

/* Appends what the client at a URL ("http://127.0.0.1:8080") answers to GET `path`.
 * COX_EIO, COX_ENOENT. */
int coxi_watcher_get(const char *url, const char *path, struct coxi_buffer *to);

/* The client's URL, "http://127.0.0.1:8080"; NULL: it is a directory. */
const char *coxi_watcher_url(const struct coxi_watcher *watch);

/* Waits for `ms`. False: SIGINT or SIGTERM has come meanwhile, or before. The first call
 * of any watch installs the handlers. */
bool coxi_watcher_pause(int ms);

/* Replaces what a terminal must not get (control characters, and bytes that are no UTF-8)
 * by '?', in place. */
void coxi_watcher_plain(char *text);

#endif
