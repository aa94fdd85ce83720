/* What daemons serve over HTTP, and how they tell where. */
#ifndef COXI_HTTP_SERVE_H
#define COXI_HTTP_SERVE_H

#include "http/http.h"

struct coxi_served;
struct coxi_openmetrics;

struct coxi_serve_options {
    const char *address; /* --http; NULL: nothing is served */
    const char *file;    /* --http-file; NULL: none */
    bool open;           /* --http-open */
};

/* What a daemon tells; both run on the server's thread. */
struct coxi_serve_calls {
    /* True if the daemon can serve peers. Never because of a peer that is away. */
    bool (*is_ready)(void *arg);
    /* Writes the metrics, besides those of every process. */
    void (*metrics)(void *arg, struct coxi_openmetrics *m);
};

/*
 * Serves /healthz, /readyz and /metrics, logs the address ("event=serves"), and writes it
 * to the file. `role` is constant; `calls` and `arg` are borrowed until coxi_served_stop.
 * Without an address: 0, and *ret is NULL. COX_EADDRESS, COX_EIO, COX_ENOMEM.
 */
int coxi_serve(const struct coxi_serve_options *options, const char *role,
               const struct coxi_serve_calls *calls, void *arg,
               struct coxi_served **ret);

void coxi_served_stop(struct coxi_served *served); /* takes NULL */

/* The options of daemons; `config` has a struct coxi_serve_options called `http`. */
#define COXI_SERVE_OPTIONS(config)                                                     \
    {.name = "http",                                                                   \
     .type = COXI_OPTION_STRING,                                                       \
     .offset = offsetof(config, http.address),                                         \
     .help = "serve metrics for Prometheus (/metrics), /healthz and /readyz over "     \
             "HTTP at this address: host:port (port 0: any), or a port of 127.0.0.1"}, \
        {.name = "http-file",                                                          \
         .type = COXI_OPTION_STRING,                                                   \
         .offset = offsetof(config, http.file),                                        \
         .help = "write the URL of --http to this file once it is served"},            \
        {.name = "http-open",                                                          \
         .type = COXI_OPTION_FLAG,                                                     \
         .offset = offsetof(config, http.open),                                        \
         .help = "let --http be an address that other hosts reach: whoever reaches "   \
                 "it may read what is served there"}

#endif
