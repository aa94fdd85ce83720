/* A daemon that answers each count with its peer's index, and clients of it, for tests
 * of servers. */
#ifndef COXI_TESTS_NET_COUNT_DAEMON_H
#define COXI_TESTS_NET_COUNT_DAEMON_H

#include <stdatomic.h>
#include <stdint.h>

#include "net/message.h"
#include "net/server.h"
#include "tests/net/ends.h"

/* The daemon refuses a peer of this index. */
enum { COUNT_REFUSED_INDEX = 13 };

struct count_daemon {
    struct coxi_server *server;
    atomic_int n_hellos;
    atomic_int n_messages;
    atomic_int n_closed;
};

/* The functions of such a daemon; their argument is the struct. */
extern const struct coxi_server_events count_events;

/* Opens a daemon that listens; free it with coxi_server_free(daemon->server). */
void count_daemon_open(struct count_daemon *daemon, const char *listen,
                       int peer_timeout_ms);

/* Opens a client, worker `index`, which has sent its greeting; free it with
 * end_fini. */
void count_client_open(struct end *end, const struct count_daemon *daemon,
                       uint32_t index);

/* Sends n counts, after the daemon's greeting; fails if an answer is not `index`. */
void count_client_ask(struct end *end, uint32_t index, uint64_t n);

/* The message in frame i. */
struct coxi_message count_message(const struct end *end, size_t i);

/* Makes sure that the threads of nng and of sanitizers, which start at the first use,
 * exist. */
void count_warm_up(void);

#endif
