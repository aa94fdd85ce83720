/*
 * A connection to a worker, as events on the loop: received frames are copied (a long
 * payload is received in place) and posted in order; the end of the connection comes
 * last.
 */
#ifndef COXI_COORDINATOR_WORKERS_CONN_H
#define COXI_COORDINATOR_WORKERS_CONN_H

#include "coordinator/coordinator.h"

struct coxi_conn;

struct coxi_conn_events {
    /* Connected: our greeting was sent; an accepted connection: it was accepted. */
    void (*on_open)(void *arg, struct coxi_conn *conn);
    /* A frame was received; a result other than 0 closes the connection. `payload` is
     * 8-aligned. */
    int (*on_frame)(void *arg, struct coxi_conn *conn, const struct coxi_frame *frame);
    /* It failed to connect, or was closed; the conn is freed after this. */
    void (*on_close)(void *arg, struct coxi_conn *conn, int code, const char *text);
};

/* Starts connecting. `events` and `arg` must outlive it. Loop. */
int coxi_conn_open(struct cox_coordinator *c, const char *url,
                   enum coxi_channel channel, const struct coxi_conn_events *events,
                   void *arg, struct coxi_conn **ret);

/*
 * A peer has dialled us: takes `link`, over which the peer's greeting will come.
 * Without memory the link is closed, and nothing else happens. Any thread; the loop
 * must run.
 */
void coxi_conn_accept(struct cox_coordinator *c, struct coxi_link *link,
                      const struct coxi_conn_events *events, void *arg);

/* Sends its events to `events` and `arg` from now on. Loop. */
void coxi_conn_adopt(struct coxi_conn *conn, const struct coxi_conn_events *events,
                     void *arg);

/* Answers the greeting of a peer that has dialled us. Loop. */
void coxi_conn_greet(struct coxi_conn *conn, enum coxi_channel channel);

/* The client's guard of connections to workers. */
struct coxi_guard coxi_conn_guard(const struct cox_coordinator *c);

/* The connection's link; valid once on_open was called. */
struct coxi_link *coxi_conn_link(struct coxi_conn *conn);

/* Closes it; on_close comes later. Loop. Takes NULL. */
void coxi_conn_close(struct coxi_conn *conn, int code, const char *text);

#endif
