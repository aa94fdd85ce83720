/*
 * See page.h. Records travel as they are: a line of /api/history is a record, and so is an
 * event of /events, with the record's number as its id. So a page that has lost its
 * connection goes on after the newest number that it has.
 */
#include "page/page.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "page/logs.h"
#include "page/state.h"

enum {
    SCALARS_MAX = 64,         /* that are told at a time, about; five times a second */
    EVENTS_BYTES = 192 << 10, /* of one call, before the events' own text */
    HISTORY_BYTES = 32 << 20, /* of one answer */
    STATE_BYTES = 1 << 20,    /* of records that are read at a time */
};

struct coxi_page {
    struct coxi_page_sources sources;
    struct coxi_state *state; /* as of coxi_state_seq */
};

/* ---- files */

static int get_asset(void *context, const struct coxi_http_request *request,
                     struct coxi_http_reply *reply)
{
    const struct coxi_page_asset *asset = context;
    (void)request;
    reply->type = asset->type;
    return coxi_buffer_append_raw(&reply->body, asset->bytes, asset->len);
}

/* ---- records */

static int get_history(void *context, const struct coxi_http_request *request,
                       struct coxi_http_reply *reply)
{
    struct coxi_page *page = context;
    uint64_t seq;
    reply->type = "application/x-ndjson";
    return coxi_records_since(page->sources.records, request->since, HISTORY_BYTES,
                              &reply->body, &seq);
}

/* The number of a record, which is its line's first member. */
static uint64_t number_of(const char *line)
{
    static const char begin[] = "{\"seq\":";
    return strncmp(line, begin, sizeof(begin) - 1) == 0
               ? strtoull(line + sizeof(begin) - 1, NULL, 10)
               : 0;
}

/* The length of the first line, with its newline. */
static size_t length_of(const char *lines, size_t len)
{
    const char *end = memchr(lines, '\n', len);
    return end != NULL ? (size_t)(end - lines) + 1 : len;
}

static int append_event(const char *line, size_t len, struct coxi_buffer *out)
{
    size_t n = len > 0 && line[len - 1] == '\n' ? len - 1 : len;
    int r = coxi_buffer_printf(out, "id: %" PRIu64 "\ndata: ", number_of(line));
    r = r != 0 ? r : coxi_buffer_append_raw(out, line, n);
    return r != 0 ? r : coxi_buffer_append_raw(out, "\n\n", 2);
}

static int append_events(const struct coxi_buffer *lines, struct coxi_buffer *out)
{
    const char *line = (const char *)lines->data;
    size_t len = lines->len;
    int r = 0;
    while (r == 0 && len > 0) {
        size_t n = length_of(line, len);
        r = append_event(line, n, out);
        line += n;
        len -= n;
    }
    return r;
}

/* A reader that knows more records than there are has seen another run: it has to begin
 * anew. */
static int give_events(void *context, uint64_t *cursor, struct coxi_buffer *out)
{
    struct coxi_page *page = context;
    struct coxi_buffer lines = {0};
    uint64_t last = coxi_records_last(page->sources.records);
    if (*cursor > last) {
        *cursor = last;
        return coxi_buffer_printf(out, "event: reset\ndata: 0\n\n");
    }
    uint64_t seq = *cursor;
    /* Steps that log thousands of scalars a second fill no browser; /api/history has them
     * all. */
    int r = coxi_records_some(page->sources.records, *cursor, SCALARS_MAX, EVENTS_BYTES,
                              &lines, &seq);
    r = r != 0 ? r : append_events(&lines, out);
    if (r == 0) {
        *cursor = seq;
    }
    coxi_buffer_fini(&lines);
    return r;
}

/* ---- the state */

/* Takes the records that have come since the last time. */
static int read_on(struct coxi_page *page)
{
    uint64_t from = coxi_state_seq(page->state);
    uint64_t to = from;
    int r;
    do {
        struct coxi_buffer lines = {0};
        from = to;
        r = coxi_records_some(page->sources.records, from, 1, STATE_BYTES, &lines, &to);
        if (r == 0 && lines.len > 0) {
            coxi_state_take(page->state, (const char *)lines.data, lines.len);
        }
        coxi_buffer_fini(&lines);
    } while (r == 0 && to > from);
    return r;
}

static int append_json(const char *text, size_t len, void *arg)
{
    return coxi_buffer_append_raw(arg, text, len) == 0 ? 0 : -1;
}

static int get_state(void *context, const struct coxi_http_request *request,
                     struct coxi_http_reply *reply)
{
    struct coxi_page *page = context;
    const struct coxi_page_sources *sources = &page->sources;
    (void)request;
    int r = 0;
    if (coxi_records_last(sources->records) < coxi_state_seq(page->state)) {
        struct coxi_state *anew;
        r = coxi_state_new(&anew);
        if (r == 0) {
            coxi_state_free(page->state);
            page->state = anew;
        }
    }
    r = r != 0 ? r : read_on(page);
    if (r != 0) {
        return r;
    }
    json_t *whole = coxi_state_json(page->state);
    enum coxi_client client = coxi_state_client(page->state);
    bool is_live = !sources->of_file || client == COXI_CLIENT_RUNNING ||
                   client == COXI_CLIENT_OPENING;
    reply->type = "application/json";
    int failed =
        whole == NULL ? -1 : json_object_set_new(whole, "live", json_boolean(is_live));
    if (failed == 0) {
        failed = json_object_set_new(whole, "has_metrics",
                                     json_boolean(sources->has_metrics));
    }
    if (failed == 0) {
        failed = json_dump_callback(whole, append_json, &reply->body, JSON_COMPACT);
    }
    json_decref(whole);
    return failed == 0 ? 0 : coxi_error_memory("the state of the run");
}

/* ---- tasks and logs */

static int get_tasks(void *context, const struct coxi_http_request *request,
                     struct coxi_http_reply *reply)
{
    const struct coxi_page_sources *sources = &((struct coxi_page *)context)->sources;
    reply->type = "application/json";
    return sources->tasks != NULL
               ? sources->tasks(sources->arg, request->since, &reply->body)
               : coxi_buffer_printf(&reply->body,
                                    "{\"text\":\"There is no task stream: a run shows "
                                    "one while it goes on.\"}\n");
}

static int get_logs(void *context, const struct coxi_http_request *request,
                    struct coxi_http_reply *reply)
{
    (void)request;
    reply->type = "application/json";
    return coxi_logs_json(((struct coxi_page *)context)->sources.log_dir, &reply->body);
}

/* ---- all of it */

int coxi_page_new(const struct coxi_page_sources *sources, struct coxi_page **ret)
{
    struct coxi_page *page = calloc(1, sizeof(*page));
    if (page == NULL) {
        return coxi_error_memory("the live page");
    }
    page->sources = *sources;
    int r = coxi_state_new(&page->state);
    if (r != 0) {
        free(page);
        return r;
    }
    *ret = page;
    return 0;
}

void coxi_page_free(struct coxi_page *page)
{
    if (page != NULL) {
        coxi_state_free(page->state);
        free(page);
    }
}

size_t coxi_page_routes(struct coxi_page *page, struct coxi_http_route *ret)
{
    const struct coxi_http_route own[] = {
        {.path = "/api/history", .context = page, .get = get_history},
        {.path = "/events", .context = page, .events = give_events},
        {.path = "/api/state", .context = page, .get = get_state},
        {.path = "/api/tasks", .context = page, .get = get_tasks},
        {.path = "/api/logs", .context = page, .get = get_logs},
    };
    size_t n = sizeof(own) / sizeof(*own);
    memcpy(ret, own, sizeof(own));
    for (size_t i = 0; i < coxi_page_n_assets && i < COXI_PAGE_ASSETS_MAX; i++) {
        ret[n++] = (struct coxi_http_route){
            .path = coxi_page_assets[i].path,
            .context = (void *)(uintptr_t)&coxi_page_assets[i],
            .get = get_asset,
            .is_short = true, /* nobody loads a script that was refused again */
        };
    }
    return n;
}
