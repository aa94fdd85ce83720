/* A daemon that answers each count with its peer's index, and clients of it: for tests of servers. */
#ifndef COXI_TESTS_NET_COUNT_DAEMON_H
#define COXI_TESTS_NET_COUNT_DAEMON_H

#include <stdatomic.h>
#include <stdint.h>

#include "net/message.h"
#include "net/server.h"
#include "tests/net/ends.h"

/* A peer of this index is not wanted. */
enum { COUNT_REFUSED_INDEX = 13 };

struct count_daemon {
    struct coxi_server *server;
    atomic_int n_hellos;
    atomic_int n_messages;
    atomic_int n_closed;
};

/* What such a daemon does; the argument is its struct. */
extern const struct coxi_server_events count_events;

/* One that listens; free it with coxi_server_free(daemon->server). */
void count_daemon_open(struct count_daemon *daemon, const char *listen,
                       int peer_timeout_ms);

/* Its worker `index`, which has sent its greeting; free it with end_fini. */
void count_client_open(struct end *end, const struct count_daemon *daemon,
                       uint32_t index);

/* Asks n times, behind the daemon's greeting, and fails where an answer is not `index`. */
void count_client_ask(struct end *end, uint32_t index, uint64_t n);

/* What frame i says. */
struct coxi_message count_message(const struct end *end, size_t i);

/* The threads of nng and of sanitizers, which come with the first use, are there afterwards. */
void count_warm_up(void);

#endif
