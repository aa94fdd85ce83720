/*
 * Requests, answers and streams of the HTTP server: what is asked for is found in the
 * table of routes, or refused. On the server's thread.
 *
 * Invariants: an answer holds at most BODIES_MAX bytes before another is made, so a
 * crowd of slow readers takes no more memory than that and one answer, and a short answer
 * for each connection. A stream has text of one call of `events` at most.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/clock.h"
#include "common/error.h"
#include "http/server.h"

enum {
    BODIES_MAX = 64 << 20, /* bytes of answers under way when another one may begin */
    BLOCK_BYTES = 4096,    /* of a stream, that libmicrohttpd asks for at a time */
    OUT_KEPT_MAX =
        1 << 20, /* a stream's buffer that is larger is freed once it is sent */
};

static const char text_plain[] = "text/plain; charset=utf-8";

/* ---- answering */

/* What every answer says: nothing is stored or guessed, and pages load and send nothing
 * beyond this server. */
static bool add_headers(struct MHD_Response *response, const char *type)
{
    static const char *const all[][2] = {
        {"X-Content-Type-Options", "nosniff"},
        {"Content-Security-Policy",
         "default-src 'self'; style-src 'self' 'unsafe-inline'; script-src 'self'; "
         "img-src 'self' data:; base-uri 'none'; form-action 'none'; "
         "frame-ancestors 'none'"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Referrer-Policy", "no-referrer"},
        {"Cache-Control", "no-store"},
    };
    bool added = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                         type) == MHD_YES;
    for (size_t i = 0; added && i < sizeof(all) / sizeof(*all); i++) {
        added = MHD_add_response_header(response, all[i][0], all[i][1]) == MHD_YES;
    }
    return added;
}

/* Sends the response, which this takes; may be NULL. MHD_NO closes the connection. */
static enum MHD_Result send_response(struct coxi_http_client *client, int status,
                                     const char *type, struct MHD_Response *response)
{
    enum MHD_Result sent = MHD_NO;
    if (response != NULL && add_headers(response, type)) {
        sent = MHD_queue_response(client->connection, (unsigned)status, response);
    }
    if (response != NULL) {
        MHD_destroy_response(response);
    }
    return sent;
}

/* Refuses a request. `closes`: what follows on the connection is not looked at. */
static enum MHD_Result refuse(struct coxi_http_client *client, int status,
                              const char *why, bool closes)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(why), (void *)(uintptr_t)why, MHD_RESPMEM_PERSISTENT);
    if (response != NULL && status == MHD_HTTP_METHOD_NOT_ALLOWED) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    }
    if (response != NULL && closes) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    }
    coxi_http_set_state(client, COXI_HTTP_ANSWERING);
    return send_response(client, status, text_plain, response);
}

/* Sends what a route has said, and takes it; r: what its function has returned. */
static enum MHD_Result answer_text(struct coxi_http_client *client, int r,
                                   struct coxi_http_reply *reply)
{
    if (r != 0) {
        coxi_buffer_fini(&reply->body);
        return refuse(client, MHD_HTTP_INTERNAL_SERVER_ERROR,
                      "this cannot be said now\n", false);
    }
    size_t len = reply->body.len;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, reply->body.data, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        coxi_buffer_fini(&reply->body);
        return MHD_NO;
    }
    client->body_bytes = len;
    client->server->body_bytes += len;
    coxi_http_set_state(client, COXI_HTTP_ANSWERING);
    return send_response(client, reply->status != 0 ? reply->status : MHD_HTTP_OK,
                         reply->type != NULL ? reply->type : text_plain, response);
}

static enum MHD_Result answer_get(struct coxi_http_client *client,
                                  const struct coxi_http_route *route,
                                  const struct coxi_http_request *request)
{
    struct coxi_http_reply reply = {0};
    if (!route->is_short && !coxi_http_has_time(client->server)) {
        /* or the rest would become so long that probes of /healthz give up */
        return refuse(client, MHD_HTTP_SERVICE_UNAVAILABLE, "too many at once\n",
                      false);
    }
    if (!route->is_short && client->server->body_bytes >= BODIES_MAX) {
        return refuse(client, MHD_HTTP_SERVICE_UNAVAILABLE, "too many slow readers\n",
                      false);
    }
    int r = route->get(route->context, request, &reply);
    return answer_text(client, r, &reply);
}

void coxi_http_answered(struct coxi_http_client *client)
{
    client->server->body_bytes -= client->body_bytes;
    client->body_bytes = 0;
    if (client->stream != NULL) {
        client->stream->client = NULL;
        client->stream = NULL;
    }
    if (client->state != COXI_HTTP_DOOMED) {
        coxi_http_set_state(client, COXI_HTTP_READING);
    }
}

/* ---- streams */

void coxi_http_resume(struct coxi_http_stream *stream)
{
    if (stream->sleeps) {
        stream->sleeps = false;
        MHD_resume_connection(stream->client->connection);
    }
}

static int fill_work(struct coxi_http_stream *stream)
{
    int r = stream->route->work->more(stream->route->context, &stream->cursor,
                                      &stream->out);
    stream->is_last = r == COXI_HTTP_LAST;
    return stream->is_last ? 0 : r;
}

/* Everything was sent: asks for more. */
static int fill(struct coxi_http_stream *stream)
{
    bool begins = stream->sent_ms == 0;
    if (stream->out.capacity > OUT_KEPT_MAX) {
        coxi_buffer_fini(&stream->out);
    }
    stream->out.len = 0;
    stream->sent = 0;
    if (stream->route->work != NULL) {
        return fill_work(stream);
    }
    int r =
        stream->route->events(stream->route->context, &stream->cursor, &stream->out);
    if (r == 0 && begins && stream->out.len == 0) {
        r = coxi_buffer_printf(&stream->out, "retry: 1000\n\n");
    } else if (r == 0 && stream->out.len == 0 &&
               coxi_now_ms() - stream->sent_ms >= COXI_HTTP_KEEP_MS) {
        r = coxi_buffer_printf(&stream->out, ":\n\n");
    }
    return r;
}

/* libmicrohttpd asks for the next bytes of a stream. */
static ssize_t read_stream(void *cls, uint64_t at, char *to, size_t room)
{
    struct coxi_http_stream *stream = cls;
    (void)at;
    if (stream->client == NULL || stream->client->state == COXI_HTTP_DOOMED) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    if (stream->sent == stream->out.len && !stream->is_last && fill(stream) != 0) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    if (stream->sent == stream->out.len && stream->is_last) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    size_t n = stream->out.len - stream->sent;
    n = n < room ? n : room;
    if (n == 0) {
        stream->sleeps = true;
        MHD_suspend_connection(stream->client->connection);
        return 0;
    }
    memcpy(to, stream->out.data + stream->sent, n);
    stream->sent += n;
    stream->sent_ms = coxi_now_ms();
    return (ssize_t)n;
}

static void free_stream(void *cls)
{
    struct coxi_http_stream *stream = cls;
    if (stream->client != NULL) {
        stream->client->stream = NULL;
    }
    if (stream->route->work != NULL) {
        stream->route->work->end(stream->route->context);
    }
    coxi_buffer_fini(&stream->out);
    free(stream);
}

/* Whether one more stream of events may begin. The oldest makes room, once it has had its
 * time: its reader asks again. */
static bool make_room_for_events(struct coxi_http_server *server)
{
    struct coxi_http_client *oldest = NULL;
    size_t n = 0;
    for (struct coxi_http_client *client = server->clients; client != NULL;
         client = client->next) {
        if (client->state == COXI_HTTP_STREAMING &&
            client->stream->route->events != NULL) {
            n++;
            oldest = oldest == NULL || client->since_ms <= oldest->since_ms ? client
                                                                            : oldest;
        }
    }
    if (n < COXI_HTTP_STREAMS_MAX) {
        return true;
    }
    if (coxi_now_ms() - oldest->since_ms < atomic_load(&coxi_http_request_ms) ||
        server->n_doomed >= COXI_HTTP_DOOMED_MAX) {
        return false;
    }
    coxi_http_doom(oldest);
    return true;
}

/* Answers with events, or with work that has begun. */
static enum MHD_Result answer_stream(struct coxi_http_client *client,
                                     const struct coxi_http_route *route,
                                     uint64_t cursor)
{
    const struct coxi_http_work *work = route->work;
    struct coxi_http_stream *stream = calloc(1, sizeof(*stream));
    struct MHD_Response *response =
        stream != NULL
            ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES,
                                                read_stream, stream, free_stream)
            : NULL;
    if (response == NULL) {
        free(stream);
        if (work != NULL) {
            work->end(route->context);
        }
        return MHD_NO;
    }
    *stream =
        (struct coxi_http_stream){.client = client, .route = route, .cursor = cursor};
    client->stream = stream;
    coxi_http_set_state(client, COXI_HTTP_STREAMING);
    return send_response(client, MHD_HTTP_OK,
                         work != NULL ? work->type : "text/event-stream; charset=utf-8",
                         response);
}

/* ---- requests */

/* A number in decimal digits. NULL: none was given, and *ret stays. */
static bool parse_number(const char *text, uint64_t *ret)
{
    uint64_t n = 0;
    if (text == NULL) {
        return true;
    }
    for (size_t i = 0; text[i] != '\0' || i == 0; i++) {
        unsigned digit = (unsigned char)text[i] - (unsigned)'0';
        if (digit > 9 || __builtin_mul_overflow(n, 10u, &n) ||
            __builtin_add_overflow(n, digit, &n)) {
            return false;
        }
    }
    *ret = n;
    return true;
}

static const char *header(const struct coxi_http_client *client, const char *name)
{
    return MHD_lookup_connection_value(client->connection, MHD_HEADER_KIND, name);
}

static const char *argument(const struct coxi_http_client *client, const char *name)
{
    return MHD_lookup_connection_value(client->connection, MHD_GET_ARGUMENT_KIND, name);
}

static bool has_body(const struct coxi_http_client *client)
{
    const char *len = header(client, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return header(client, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL ||
           (len != NULL && strcmp(len, "0") != 0);
}

static const struct coxi_http_route *find_route(const struct coxi_http_server *server,
                                                const char *path)
{
    for (size_t i = 0; i < server->n_routes; i++) {
        if (strcmp(server->routes[i].path, path) == 0) {
            return &server->routes[i];
        }
    }
    return NULL;
}

/* Begins work, if the request may have it done. */
static enum MHD_Result answer_work(struct coxi_http_client *client,
                                   const struct coxi_http_route *route,
                                   const struct coxi_http_request *request,
                                   const char *method)
{
    struct coxi_http_reply reply = {0};
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 ||
        header(client, COXI_HTTP_WORK_HEADER) == NULL) {
        return refuse(client, MHD_HTTP_FORBIDDEN,
                      "this takes work: ask by GET with the header "
                      "\"" COXI_HTTP_WORK_HEADER ": 1\"\n",
                      false);
    }
    if (!coxi_http_is_of_this_host(client->fd)) {
        return refuse(client, MHD_HTTP_FORBIDDEN,
                      "this takes work: ask on the host of this program\n", false);
    }
    int r = route->work->begin(route->context, request, &reply);
    if (r == 0 && reply.status == 0) {
        coxi_buffer_fini(&reply.body);
        return answer_stream(client, route, 0);
    }
    return answer_text(client, r, &reply);
}

/* The headers are here. Refuses what must not be, or lets it go on. */
static enum MHD_Result begin_request(struct coxi_http_client *client,
                                     const char *method, void **of_request)
{
    const char *host = header(client, MHD_HTTP_HEADER_HOST);
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 &&
        strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        return refuse(client, MHD_HTTP_METHOD_NOT_ALLOWED,
                      "this can only be read: GET or HEAD\n", true);
    }
    if (has_body(client)) {
        return refuse(client, MHD_HTTP_BAD_REQUEST, "a request has no body here\n",
                      true);
    }
    if (!client->server->open && host != NULL && !coxi_http_names_loopback(host)) {
        return refuse(client, MHD_HTTP_FORBIDDEN,
                      "ask for localhost: this is for programs of this host\n", true);
    }
    *of_request = client; /* anything but NULL */
    return MHD_YES;
}

enum MHD_Result coxi_http_answer(void *cls, struct MHD_Connection *connection,
                                 const char *path, const char *method,
                                 const char *version, const char *upload,
                                 size_t *upload_len, void **of_request)
{
    struct coxi_http_server *server = cls;
    struct coxi_http_request request = {0};
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct coxi_http_client *client = info != NULL ? info->socket_context : NULL;
    (void)version;
    (void)upload;
    if (client == NULL || *upload_len != 0) {
        return MHD_NO;
    }
    if (*of_request == NULL) {
        return begin_request(client, method, of_request);
    }
    const struct coxi_http_route *route = find_route(server, path);
    if (route == NULL) {
        return refuse(client, MHD_HTTP_NOT_FOUND, "there is no such page\n", false);
    }
    if (!parse_number(argument(client, "since"), &request.since) ||
        !parse_number(argument(client, "seconds"), &request.seconds)) {
        return refuse(client, MHD_HTTP_BAD_REQUEST,
                      "since= and seconds= take a number\n", false);
    }
    const char *accepts = header(client, MHD_HTTP_HEADER_ACCEPT);
    request.openmetrics =
        accepts != NULL && strstr(accepts, "application/openmetrics-text") != NULL;
    if (route->get != NULL) {
        return answer_get(client, route, &request);
    }
    if (route->work != NULL) {
        return answer_work(client, route, &request, method);
    }
    if (!make_room_for_events(server)) {
        return refuse(client, MHD_HTTP_SERVICE_UNAVAILABLE, "too many streams\n",
                      false);
    }
    /* a browser that comes back says this; what it asked for at first is older */
    (void)parse_number(header(client, "Last-Event-ID"), &request.since);
    return answer_stream(client, route, request.since);
}
