/*
 * Passes on lines from several sources to one file descriptor: what steps print, the
 * warnings and errors of the daemons' logs (alerts), what other hosts say. Each line
 * begins with its source's name. A thread of its own reads and writes. So a slow or
 * missing reader of that descriptor holds up only what prints: daemons do not wait for
 * room for an alert.
 */
#ifndef COXI_CLI_RELAY_H
#define COXI_CLI_RELAY_H

#include <stddef.h>

struct coxi_relay;

enum { COXI_RELAY_NAME_MAX = 79 }; /* a longer name is cut */

/* A relay for `n` sources, whose lines begin with names[i] (copied) and ": ". Borrows
 * `to_fd`. COX_EIO. */
int coxi_relay_new(const char *const *names, size_t n, int to_fd,
                   struct coxi_relay **ret);

/* The descriptor to which source `i` writes; borrowed, close-on-exec. */
int coxi_relay_fd(const struct coxi_relay *relay, size_t i);

/*
 * Passes on everything printed so far, also beginnings of lines, and ends. Waits a
 * second for a reader that does not read, then leaves the rest to the thread. Takes
 * NULL.
 */
void coxi_relay_free(struct coxi_relay *relay);

#endif
