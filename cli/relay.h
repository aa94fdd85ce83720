/*
 * What steps print, from the workers of a local cluster to one file descriptor: each line
 * begins with its worker's name. A thread of its own reads and writes, so a reader of that
 * descriptor that is slow, or gone, holds up what prints and nothing else.
 */
#ifndef COXI_CLI_RELAY_H
#define COXI_CLI_RELAY_H

#include <stdint.h>

struct coxi_relay;

/* For workers 0 to n - 1, at most COXI_LOCAL_MAX; borrows `to_fd`. COX_EIO. */
int coxi_relay_new(uint32_t n, int to_fd, struct coxi_relay **ret);

/* Where worker `i` is to print; borrowed, closed when the process executes another. */
int coxi_relay_fd(const struct coxi_relay *relay, uint32_t i);

/*
 * Passes on what has been printed, the beginnings of lines too, and ends. Waits a second for
 * a reader that does not read, and leaves it the rest. Takes NULL.
 */
void coxi_relay_free(struct coxi_relay *relay);

#endif
