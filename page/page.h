/*
 * The live page and what it asks for, as paths of an HTTP server (http/http.h): `/` and its
 * files, /api/history, /events, /api/state, /api/tasks, /api/logs. The client of a run
 * serves them, and `coxswain page` of a directory. docs/watching.md lists them.
 *
 * Threads: that of the server; creating and freeing: any, while no server has the routes.
 * Cost: an event stream costs what its records are long (of thousands of scalars a second
 * some are left out); /api/state reads the records that it has not seen yet.
 */
#ifndef COXI_PAGE_PAGE_H
#define COXI_PAGE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/records.h"
#include "common/buffer.h"
#include "http/http.h"
#include "page/assets.h"

/* Where the page's content is from; all borrowed. */
struct coxi_page_sources {
    struct coxi_records *records;
    const char *log_dir; /* of the daemons' logs; NULL: there is none */
    /* the task stream after `since` (in us since 1970); NULL: there is none */
    int (*tasks)(void *arg, uint64_t since, struct coxi_buffer *out);
    void *arg;        /* for `tasks` */
    bool of_file;     /* another process writes the records, and may be gone */
    bool has_metrics; /* the server has /metrics, too: the page links to it */
};

/* Room that coxi_page_routes needs. */
enum { COXI_PAGE_ROUTES_MAX = COXI_PAGE_ASSETS_MAX + 8 };

struct coxi_page;

int coxi_page_new(const struct coxi_page_sources *sources, struct coxi_page **ret);
void coxi_page_free(struct coxi_page *page); /* takes NULL */

/* Writes the routes to `ret`, which has room for COXI_PAGE_ROUTES_MAX; returns their number.
 * They are valid until coxi_page_free. */
size_t coxi_page_routes(struct coxi_page *page, struct coxi_http_route *ret);

#endif
