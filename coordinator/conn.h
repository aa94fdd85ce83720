/*
 * A connection to a worker, as events on the loop: received frames are copied (a long
 * payload is received in place) and posted, in order, and the end of it comes last.
 */
#ifndef COXI_COORDINATOR_CONN_H
#define COXI_COORDINATOR_CONN_H

#include "coordinator/coordinator.h"

struct coxi_conn;

struct coxi_conn_events {
    /* Connected: the greeting has been sent. */
    void (*on_open)(void *arg, struct coxi_conn *conn);
    /* A frame; other than 0 closes the connection. `payload` is 8-aligned. */
    int (*on_frame)(void *arg, struct coxi_conn *conn, const struct coxi_frame *frame);
    /* It failed to connect, or was closed; the conn is freed after this. */
    void (*on_close)(void *arg, struct coxi_conn *conn, int code, const char *text);
};

/* Starts connecting. `events` and `arg` must outlive it. Loop. */
int coxi_conn_open(struct cox_coordinator *c, const char *url,
                   enum coxi_channel channel, const struct coxi_conn_events *events,
                   void *arg, struct coxi_conn **ret);

/* Its link, once on_open has come. */
struct coxi_link *coxi_conn_link(struct coxi_conn *conn);

/* Closes it; on_close comes later. Loop. Takes NULL. */
void coxi_conn_close(struct coxi_conn *conn, int code, const char *text);

#endif
