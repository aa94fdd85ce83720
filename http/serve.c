/* See serve.h. Threads: start and stop: the daemon's main thread; answers: the
 * server's. */
#include "http/serve.h"

#include <stdlib.h>

#include "common/error.h"
#include "common/file.h"
#include "common/log.h"
#include "http/openmetrics.h"

struct coxi_served {
    const char *role;
    const struct coxi_serve_calls *calls;
    void *arg;
    struct coxi_http_server *server;
    struct coxi_http_route routes[3];
};

static int say_health(void *context, const struct coxi_http_request *request,
                      struct coxi_http_reply *reply)
{
    (void)context;
    (void)request;
    return coxi_buffer_printf(&reply->body, "ok\n");
}

static int say_readiness(void *context, const struct coxi_http_request *request,
                         struct coxi_http_reply *reply)
{
    const struct coxi_served *served = context;
    bool is_ready = served->calls->is_ready(served->arg);
    (void)request;
    reply->status = is_ready ? 200 : 503;
    return coxi_buffer_printf(&reply->body, is_ready ? "ok\n" : "not ready\n");
}

static int say_metrics(void *context, const struct coxi_http_request *request,
                       struct coxi_http_reply *reply)
{
    const struct coxi_served *served = context;
    struct coxi_openmetrics m;
    reply->type = coxi_openmetrics_type(request->openmetrics);
    coxi_openmetrics_begin(&m, &reply->body, request->openmetrics);
    coxi_openmetrics_process(&m, served->role);
    served->calls->metrics(served->arg, &m);
    return coxi_openmetrics_end(&m);
}

/* Writes the URL to --http-file. */
static int announce(const char *path, const char *url)
{
    struct coxi_buffer line = {0};
    int r = coxi_buffer_printf(&line, "%s\n", url);
    if (r == 0) {
        r = coxi_file_write(path, line.data, line.len);
    }
    coxi_buffer_fini(&line);
    return r;
}

int coxi_serve(const struct coxi_serve_options *options, const char *role,
               const struct coxi_serve_calls *calls, void *arg,
               struct coxi_served **ret)
{
    const struct coxi_http_options http = {.address = options->address,
                                           .open = options->open};
    if (options->address == NULL) {
        *ret = NULL;
        return 0;
    }
    struct coxi_served *served = calloc(1, sizeof(*served));
    if (served == NULL) {
        return coxi_error_memory("an HTTP server");
    }
    *served = (struct coxi_served){
        .role = role,
        .calls = calls,
        .arg = arg,
        .routes = {{.path = "/healthz",
                    .context = served,
                    .get = say_health,
                    .is_short = true},
                   {.path = "/readyz",
                    .context = served,
                    .get = say_readiness,
                    .is_short = true},
                   {.path = "/metrics",
                    .context = served,
                    .get = say_metrics,
                    .is_short = true}},
    };
    int r = coxi_http_start(&http, served->routes, 3, &served->server);
    if (r != 0) {
        r = coxi_error(r, "--http: %s", coxi_error_text());
    } else if (options->file != NULL) {
        r = announce(options->file, coxi_http_url(served->server));
    }
    if (r != 0) {
        coxi_served_stop(served);
        return r;
    }
    coxi_log(COXI_LOG_INFO, "serves", "address=%s", coxi_http_url(served->server));
    *ret = served;
    return 0;
}

void coxi_served_stop(struct coxi_served *served)
{
    if (served != NULL) {
        coxi_http_stop(served->server);
        free(served);
    }
}
