/*
 * What steps print, and the warnings and errors of the daemons' logs (alerts), from a local
 * cluster to one file descriptor: each line begins with its daemon's name. A thread of its own
 * reads and writes, so a reader of that descriptor that is slow, or gone, holds up what prints
 * and nothing else: daemons do not wait for room for an alert.
 */
#ifndef COXI_CLI_RELAY_H
#define COXI_CLI_RELAY_H

#include <stdbool.h>
#include <stdint.h>

struct coxi_relay;

/* For at most COXI_LOCAL_MAX of each; borrows `to_fd`. COX_EIO. */
int coxi_relay_new(uint32_t n_ps, uint32_t n_workers, int to_fd,
                   struct coxi_relay **ret);

/* Where worker `i` is to print; borrowed, closed when the process executes another. */
int coxi_relay_fd(const struct coxi_relay *relay, uint32_t i);

/* Where ps or worker `i` is to write its alerts; as above. */
int coxi_relay_alerts_fd(const struct coxi_relay *relay, bool is_worker, uint32_t i);

/*
 * Passes on what has been printed, the beginnings of lines too, and ends. Waits a second for
 * a reader that does not read, and leaves it the rest. Takes NULL.
 */
void coxi_relay_free(struct coxi_relay *relay);

#endif
