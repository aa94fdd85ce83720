/*
 * An etcd for tests, in this process: its JSON gateway on a port of its own, as far as
 * cluster/etcd speaks it, with faults. Any thread.
 */
#ifndef COXI_TESTS_CLUSTER_GATEWAY_H
#define COXI_TESTS_CLUSTER_GATEWAY_H

#include <stdbool.h>
#include <stddef.h>

struct gateway;

struct gateway *gateway_open(void);
void gateway_close(struct gateway *g);
const char *gateway_url(struct gateway *g);

/* From now on nobody can connect, and what is connected is cut off; or that is over. */
void gateway_down(struct gateway *g, bool down);

/* The next `n` answers to `path` ("kv/range") are `raw`, with the status line. NULL: the
 * connection is cut off. "": silence, until gateway_close. */
void gateway_fault(struct gateway *g, const char *path, int n, const char *raw);

void gateway_expire(struct gateway *g);    /* all leases, with their keys */
void gateway_compact(struct gateway *g);   /* ends watches, forgets older changes */
void gateway_lose_data(struct gateway *g); /* and begins at revision 1 */
void gateway_want_password(struct gateway *g, const char *password);
void gateway_forget_tokens(struct gateway *g);
void gateway_half_lines(struct gateway *g); /* of watches, with a pause of 20 ms */

void gateway_put(struct gateway *g, const char *key, const char *value);
void gateway_delete(struct gateway *g, const char *key);
/* The value of a key, for free(); NULL: there is none. */
char *gateway_get(struct gateway *g, const char *key);

/* How often `path` was asked for; waits until it is `n` times. */
int gateway_count(struct gateway *g, const char *path);
void gateway_await(struct gateway *g, const char *path, int n);

#endif
