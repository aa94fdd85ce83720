/*
 * See exposed.h.
 *
 *   /healthz   200 as long as the process lives and its lock can be had
 *   /readyz    200 once the loop runs, until the run is over or closed; otherwise 503, with
 *              the reason. Never because of a ps or worker that is away, also while
 *              cox_open waits for them: workers that dial the client may be let through to
 *              it only when it is ready
 *   /metrics   for Prometheus
 *   /api/trace a trace of the next seconds (trace_asked.c)
 *   /          the live page, and all that it asks for (page/page.h), if there is a
 *              history
 *
 * It serves from the beginning of cox_open on, so pages are asked for while parts of the
 * coordinator are being made. Nothing of them is read before life.opened.
 *
 * Threads: the server's; start and stop: those of cox_open and cox_close.
 */
#include "coordinator/monitor/exposed.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/event.h"
#include "coordinator/monitor/tasks.h"
#include "coordinator/monitor/trace_asked.h"
#include "http/http.h"
#include "page/page.h"

struct coxi_exposed {
    struct coxi_http_server *server;
    struct coxi_page *page; /* NULL: there is no history */
    struct coxi_trace_asked *trace;
    struct coxi_http_route routes[COXI_PAGE_ROUTES_MAX + 8];
    size_t n_routes;
};

static int say_health(void *context, const struct coxi_http_request *request,
                      struct coxi_http_reply *reply)
{
    struct cox_coordinator *c = context;
    (void)request;
    coxi_lock(&c->lock);
    coxi_unlock(&c->lock);
    return coxi_buffer_printf(&reply->body, "ok\n");
}

/* Why the client takes no calls, or NULL. */
static const char *why_not_ready(const struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    if (c->life.fatal != 0) {
        return c->life.fatal_text;
    }
    if (c->life.closing) {
        return "cox_close was called";
    }
    return c->life.runs ? NULL : "cox_open has just begun";
}

static int say_readiness(void *context, const struct coxi_http_request *request,
                         struct coxi_http_reply *reply)
{
    struct cox_coordinator *c = context;
    char text[COXI_TEXT_MAX];
    (void)request;
    coxi_lock(&c->lock);
    const char *why = why_not_ready(c);
    (void)snprintf(text, sizeof(text), "%s", why != NULL ? why : "ok");
    coxi_unlock(&c->lock);
    reply->status = why != NULL ? 503 : 200;
    return coxi_buffer_printf(&reply->body, "%s\n", text);
}

static int say_metrics(void *context, const struct coxi_http_request *request,
                       struct coxi_http_reply *reply)
{
    struct coxi_openmetrics m;
    reply->type = coxi_openmetrics_type(request->openmetrics);
    coxi_openmetrics_begin(&m, &reply->body, request->openmetrics);
    coxi_openmetrics_process(&m, "client");
    coxi_exposed_metrics(context, &m);
    return coxi_openmetrics_end(&m);
}

static void add_route(struct coxi_exposed *exposed, struct coxi_http_route route)
{
    exposed->routes[exposed->n_routes++] = route;
}

static int get_tasks(void *arg, uint64_t since, struct coxi_buffer *out)
{
    struct cox_coordinator *c = arg;
    coxi_lock(&c->lock);
    bool opened = c->life.opened;
    coxi_unlock(&c->lock);
    return opened
               ? coxi_trace_tasks_json(c, since, out)
               : coxi_buffer_printf(out, "{\"text\":\"The run has not begun yet.\"}\n");
}

static int add_page(struct cox_coordinator *c, struct coxi_exposed *exposed)
{
    const struct coxi_page_sources sources = {
        .records = c->history,
        .log_dir = c->options.log_dir,
        .tasks = get_tasks,
        .arg = c,
        .has_metrics = true,
    };
    if (c->history == NULL) {
        return 0;
    }
    int r = coxi_page_new(&sources, &exposed->page);
    if (r == 0) {
        exposed->n_routes +=
            coxi_page_routes(exposed->page, exposed->routes + exposed->n_routes);
    }
    return r;
}

/* `named`: what says where, for errors. */
static int serve(struct cox_coordinator *c, const char *address, const char *named)
{
    struct coxi_exposed *exposed = c->exposed;
    const struct coxi_http_options options = {.address = address,
                                              .open = c->options.http_open != 0};
    add_route(exposed, (struct coxi_http_route){.path = "/healthz",
                                                .context = c,
                                                .get = say_health,
                                                .is_short = true});
    add_route(exposed, (struct coxi_http_route){.path = "/readyz",
                                                .context = c,
                                                .get = say_readiness,
                                                .is_short = true});
    add_route(exposed, (struct coxi_http_route){.path = "/metrics",
                                                .context = c,
                                                .get = say_metrics,
                                                .is_short = true});
    int r = add_page(c, exposed);
    r = r == 0 ? coxi_trace_asked_new(c, &exposed->trace) : r;
    if (r != 0) {
        return r;
    }
    add_route(exposed, coxi_trace_asked_route(exposed->trace));
    r = coxi_http_start(&options, exposed->routes, exposed->n_routes, &exposed->server);
    if (r != 0) {
        return coxi_error(r, "%s: %s", named, coxi_error_text());
    }
    return 0;
}

int coxi_exposed_start(struct cox_coordinator *c)
{
    const bool is_given = c->options.http != NULL;
    const char *address = is_given
                              ? c->options.http
                              : getenv("COX_HTTP"); // NOLINT(concurrency-mt-unsafe)
    if (address == NULL || address[0] == '\0') {
        return 0;
    }
    c->times.watched = true;
    c->exposed = calloc(1, sizeof(*c->exposed));
    return c->exposed != NULL
               ? serve(c, address, is_given ? "cox_options.http" : "COX_HTTP")
               : coxi_error_memory("an HTTP server");
}

/* Tells the program that has started this one (cli/runner.c), if it asks where the client
 * serves. Also reads from the FIFO, so that a writer without a reader gets no SIGPIPE. */
static void tell_starter(const char *url)
{
    const char *fifo = getenv(COXI_HTTP_TELL); // NOLINT(concurrency-mt-unsafe)
    int fd = fifo != NULL ? open(fifo, O_RDWR | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)dprintf(fd, "%s/\n", url);
        (void)close(fd);
    }
}

void coxi_exposed_tell(struct cox_coordinator *c)
{
    if (c->exposed != NULL) {
        tell_starter(coxi_http_url(c->exposed->server));
        coxi_event(c, COX_EVENT_SERVES, COXI_OF(0), "the run can be watched at %s/",
                   coxi_http_url(c->exposed->server));
    }
}

void coxi_exposed_wake(struct cox_coordinator *c)
{
    coxi_lock(&c->lock); /* keeps coxi_exposed_stop from freeing it */
    if (c->exposed != NULL) {
        coxi_http_wake(c->exposed->server);
    }
    coxi_unlock(&c->lock);
}

void coxi_exposed_end_trace(struct cox_coordinator *c)
{
    if (c->exposed != NULL) { /* it stays until coxi_exposed_stop */
        coxi_trace_asked_stop(c->exposed->trace);
    }
}

void coxi_exposed_stop(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    struct coxi_exposed *exposed = c->exposed;
    c->exposed = NULL;
    coxi_unlock(&c->lock);
    if (exposed != NULL) {
        coxi_http_stop(exposed->server); /* its thread may take the lock */
        coxi_trace_asked_free(exposed->trace);
        coxi_page_free(exposed->page);
        free(exposed);
    }
}

const char *cox_http_address(const struct cox_coordinator *c)
{
    return c != NULL && c->exposed != NULL ? coxi_http_url(c->exposed->server) : NULL;
}
