/*
 * Passes on what steps print, and the warnings and errors of the daemons' logs
 * (alerts), from a local cluster to one file descriptor. Each line begins with its
 * daemon's name. A thread of its own reads and writes. So a slow or missing reader of
 * that descriptor holds up only what prints: daemons do not wait for room for an alert.
 */
#ifndef COXI_CLI_RELAY_H
#define COXI_CLI_RELAY_H

#include <stdbool.h>
#include <stdint.h>

struct coxi_relay;

/* A relay for at most COXI_LOCAL_MAX ps and workers each; borrows `to_fd`. COX_EIO. */
int coxi_relay_new(uint32_t n_ps, uint32_t n_workers, int to_fd,
                   struct coxi_relay **ret);

/* The descriptor to which worker `i` prints; borrowed, close-on-exec. */
int coxi_relay_fd(const struct coxi_relay *relay, uint32_t i);

/* The descriptor for the alerts of ps or worker `i`; as above. */
int coxi_relay_alerts_fd(const struct coxi_relay *relay, bool is_worker, uint32_t i);

/*
 * Passes on everything printed so far, also beginnings of lines, and ends. Waits a
 * second for a reader that does not read, then leaves the rest to the thread. Takes
 * NULL.
 */
void coxi_relay_free(struct coxi_relay *relay);

#endif
