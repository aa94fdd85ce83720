/* Asks a client for a trace of its run, and takes the answer as it comes. One thread. */
#ifndef COXI_CLI_TRACE_GET_H
#define COXI_CLI_TRACE_GET_H

#include <stdbool.h>
#include <stddef.h>

struct coxi_trace_get {
    const char *url; /* "http://127.0.0.1:8080" */
    int seconds;
    /* Takes a part of the trace; an error ends it. */
    int (*take)(void *arg, const void *bytes, size_t len);
    /* Called ten times a second. False: no more is wanted. */
    bool (*goes_on)(void *arg);
    void *arg;
};

/*
 * COX_EBUSY: the client takes a trace for somebody else. COX_ECANCELLED: goes_on has said
 * false; COX_ECLOSED: the answer broke off: so far both were right. COX_EIO: nobody
 * answers, or the client says no. Other errors: of `take`.
 */
int coxi_trace_get(const struct coxi_trace_get *get);

#endif
