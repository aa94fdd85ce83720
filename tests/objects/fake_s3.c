/* See fake_s3.h. libmicrohttpd has a thread for each connection, so a request that is
 * held holds up no other. */
#include "tests/objects/fake_s3.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/objects/fake_s3_internal.h"
#include "tests/test.h"

enum { WAIT_MS = 60000 };

/* ---- requests */

const char *fake_header(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

const char *fake_parameter(const struct request *request, const char *name)
{
    for (size_t i = 0; i < request->n_parameters; i++) {
        if (strcmp(request->parameters[i].name, name) == 0) {
            return request->parameters[i].value;
        }
    }
    return NULL;
}

static char *decoded(const char *text, size_t len)
{
    char *copy = strndup(text, len);
    (void)MHD_http_unescape(copy);
    return copy;
}

/* Called first of all, with the URI as it came. */
static void *begin_request(void *arg, const char *uri,
                           struct MHD_Connection *connection)
{
    (void)arg;
    struct request *request = calloc(1, sizeof(*request));
    request->uri = strdup(uri);
    request->connection = connection;
    const char *query = strchr(request->uri, '?');
    size_t len = query != NULL ? (size_t)(query - request->uri) : strlen(request->uri);
    request->path = decoded(request->uri + 1, len - 1);
    while (query != NULL && request->n_parameters < PARAMETERS_MAX) {
        struct parameter *to = &request->parameters[request->n_parameters++];
        const char *name = query + 1;
        query = strchr(name, '&');
        size_t all = query != NULL ? (size_t)(query - name) : strlen(name);
        const char *equals = memchr(name, '=', all);
        size_t name_len = equals != NULL ? (size_t)(equals - name) : all;
        to->name = decoded(name, name_len);
        to->value =
            equals != NULL ? decoded(equals + 1, all - name_len - 1) : strdup("");
    }
    return request;
}

static void end_request(void *arg, struct MHD_Connection *connection, void **at,
                        enum MHD_RequestTerminationCode why)
{
    (void)arg, (void)connection, (void)why;
    struct request *request = *at;
    if (request != NULL) {
        for (size_t i = 0; i < request->n_parameters; i++) {
            free(request->parameters[i].name);
            free(request->parameters[i].value);
        }
        coxi_buffer_fini(&request->body);
        free(request->uri);
        free(request->path);
        free(request);
    }
    *at = NULL;
}

static enum fake_op op_of(const struct request *request)
{
    bool get = strcmp(request->method, "GET") == 0;
    bool post = strcmp(request->method, "POST") == 0;
    bool has_id = fake_parameter(request, "uploadId") != NULL;
    if (fake_parameter(request, "uploads") != NULL) {
        return post ? FAKE_BEGIN : FAKE_UPLOADS;
    }
    return get && fake_parameter(request, "list-type") != NULL ? FAKE_LIST
           : get                                               ? FAKE_GET
           : post                                              ? FAKE_END
           : strcmp(request->method, "HEAD") == 0              ? FAKE_HEAD
           : strcmp(request->method, "PUT") == 0 ? (has_id ? FAKE_PART : FAKE_PUT)
           : has_id                              ? FAKE_ABORT
                                                 : FAKE_DELETE;
}

/* ---- answers */

static void add_headers(struct MHD_Response *response, const struct answer *answer)
{
    if (answer->etag[0] != '\0') {
        (void)MHD_add_response_header(response, "ETag", answer->etag);
    }
    if (answer->meta[0] != '\0') {
        (void)MHD_add_response_header(response, "x-amz-meta-coxswain-writer",
                                      answer->meta);
    }
    if (answer->range[0] != '\0') {
        (void)MHD_add_response_header(response, "Content-Range", answer->range);
    }
    if (answer->status == 307) {
        (void)MHD_add_response_header(response, "Location",
                                      "http://elsewhere.invalid/bucket");
    }
}

static enum MHD_Result send_answer(const struct request *request, struct answer *answer)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        answer->body.len, answer->body.data != NULL ? (void *)answer->body.data : "",
        MHD_RESPMEM_MUST_COPY);
    add_headers(response, answer);
    enum MHD_Result r =
        MHD_queue_response(request->connection, answer->status, response);
    MHD_destroy_response(response);
    return r;
}

struct half {
    struct coxi_buffer body;
};

static ssize_t read_half(void *arg, uint64_t at, char *to, size_t max)
{
    const struct half *half = arg;
    size_t len = half->body.len / 2;
    if (at >= len) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    size_t n = len - (size_t)at < max ? len - (size_t)at : max;
    memcpy(to, half->body.data + at, n);
    return (ssize_t)n;
}

static void free_half(void *arg)
{
    struct half *half = arg;
    coxi_buffer_fini(&half->body);
    free(half);
}

/* Sends half of the body, and cuts the connection. Takes the body. */
static enum MHD_Result send_half(const struct request *request, struct answer *answer)
{
    struct half *half = calloc(1, sizeof(*half));
    half->body = answer->body;
    answer->body = (struct coxi_buffer){0};
    struct MHD_Response *response = MHD_create_response_from_callback(
        half->body.len, 4096, read_half, half, free_half);
    add_headers(response, answer);
    enum MHD_Result r =
        MHD_queue_response(request->connection, answer->status, response);
    MHD_destroy_response(response);
    return r;
}

/* ---- faults */

static bool take_fault(struct fake_s3 *f, enum fake_op op, enum fake_fault *ret)
{
    for (size_t i = 0; i < f->n_faults; i++) {
        struct fault *fault = &f->faults[i];
        if ((fault->op == op || fault->op == FAKE_OPS) && fault->left != 0) {
            fault->left -= fault->left > 0 ? 1 : 0;
            *ret = fault->kind;
            return true;
        }
    }
    return false;
}

static void hold(struct fake_s3 *f)
{
    int releases = f->releases;
    f->held++;
    (void)pthread_cond_broadcast(&f->changed);
    while (f->releases == releases && !f->closing) {
        coxi_wait_for_work(&f->changed, &f->lock);
    }
    f->held--;
}

static bool is_done(enum fake_fault fault)
{
    return fault == FAKE_LOSE || fault == FAKE_HALF || fault == FAKE_LATE_LIE ||
           fault == FAKE_GARBAGE || fault == FAKE_HOLD;
}

/* What the client gets instead. */
static void replace(enum fake_fault fault, struct answer *answer)
{
    static const struct {
        enum fake_fault fault;
        unsigned status;
        const char *code;
    } errors[] = {
        {FAKE_500, 500, "InternalError"},
        {FAKE_SLOW_DOWN, 503, "SlowDown"},
        {FAKE_429, 429, "TooManyRequests"},
        {FAKE_LATE_ERROR, 200, "InternalError"},
        {FAKE_LATE_LIE, 200, "InternalError"},
        {FAKE_DENY, 403, "AccessDenied"},
        {FAKE_NO_USER, 404, "XAdminUserNotFound"},
        {FAKE_EXPIRED, 400, "ExpiredToken"},
        {FAKE_MOVED, 307, "TemporaryRedirect"},
        {FAKE_CONFLICT, 409, "ConditionalRequestConflict"},
        {FAKE_UNKNOWN, 501, "NotImplemented"},
    };
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        if (errors[i].fault == fault) {
            fake_error(answer, errors[i].status, errors[i].code);
        }
    }
    if (fault == FAKE_GARBAGE) {
        answer->body.len = 0;
        (void)coxi_buffer_printf(&answer->body,
                                 "<!DOCTYPE x [<!ENTITY a \"b\">]><x>&a;");
    }
}

static enum MHD_Result carry_out(struct fake_s3 *f, struct request *request)
{
    struct answer answer = {.status = 200};
    enum fake_fault fault = FAKE_500;
    coxi_lock(&f->lock);
    request->op = op_of(request);
    f->counts[request->op]++;
    (void)pthread_cond_broadcast(&f->changed);
    bool faulty = take_fault(f, request->op, &fault);
    const char *wrong = fake_check_signature(f, request);
    if (faulty && fault == FAKE_HOLD) {
        hold(f);
    }
    if (wrong != NULL) {
        f->refused++;
        fake_error(&answer, strcmp(wrong, "BadDigest") == 0 ? 400 : 403, wrong);
    } else if (!faulty || is_done(fault)) {
        fake_do(f, request, &answer);
    }
    coxi_unlock(&f->lock);
    if (faulty) {
        replace(fault, &answer);
    }
    enum MHD_Result r = faulty && (fault == FAKE_CUT || fault == FAKE_LOSE) ? MHD_NO
                        : faulty && fault == FAKE_HALF ? send_half(request, &answer)
                                                       : send_answer(request, &answer);
    coxi_buffer_fini(&answer.body);
    return r;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection,
                                  const char *url, const char *method,
                                  const char *version, const char *bytes, size_t *len,
                                  void **at)
{
    (void)url, (void)version;
    struct request *request = *at;
    request->connection = connection;
    request->method = method;
    if (!request->begun) {
        request->begun = true;
        return MHD_YES;
    }
    if (*len > 0) {
        (void)coxi_buffer_append_raw(&request->body, bytes, *len);
        *len = 0;
        return MHD_YES;
    }
    return carry_out(arg, request);
}

/* ---- life */

static const struct sockaddr_in loopback = {.sin_family = AF_INET,
                                            .sin_addr = {.s_addr = 0x0100007f}};

static void set(const char *name, const char *value)
{
    assert_int_equal(0, setenv(name, value, 1)); /* NOLINT(concurrency-mt-unsafe) */
}

static void set_environment(const struct fake_s3 *f, int port, bool sealed)
{
    char endpoint[64];
    (void)snprintf(endpoint, sizeof(endpoint), "%s://127.0.0.1:%d",
                   sealed ? "https" : "http", port);
    set("AWS_ENDPOINT_URL_S3", endpoint);
    set("AWS_REGION", "eu-west-7");
    set("AWS_ACCESS_KEY_ID", f->id);
    set("AWS_SECRET_ACCESS_KEY", f->secret);
    set("AWS_SESSION_TOKEN", f->token);
}

/* `options` are libmicrohttpd's, besides those that all have. */
static struct fake_s3 *open_with(unsigned flags, struct MHD_OptionItem *options)
{
    struct fake_s3 *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    coxi_mutex_init(&f->lock);
    coxi_cond_init(&f->changed);
    f->page = 1000;
    fake_s3_accept(f, "TESTID", "test/secret+key", NULL);
    f->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
            flags,
        0, NULL, NULL, on_request, f, MHD_OPTION_SOCK_ADDR, &loopback,
        MHD_OPTION_URI_LOG_CALLBACK, begin_request, f, MHD_OPTION_NOTIFY_COMPLETED,
        end_request, f, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)256 << 10,
        MHD_OPTION_ARRAY, options, MHD_OPTION_END);
    assert_non_null(f->daemon);
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(f->daemon, MHD_DAEMON_INFO_BIND_PORT);
    set_environment(f, info->port, flags != 0);
    return f;
}

struct fake_s3 *fake_s3_open(void)
{
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    return open_with(0, none);
}

struct fake_s3 *fake_s3_open_sealed(const char *path)
{
    char *key = NULL;
    char *certificate = NULL;
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES) {
        return NULL;
    }
    fake_certificate(&key, &certificate);
    coxi_test_write(path, certificate, strlen(certificate));
    struct MHD_OptionItem options[] = {{MHD_OPTION_HTTPS_MEM_KEY, 0, key},
                                       {MHD_OPTION_HTTPS_MEM_CERT, 0, certificate},
                                       {MHD_OPTION_END, 0, NULL}};
    struct fake_s3 *f = open_with(MHD_USE_TLS, options);
    free(key);
    free(certificate);
    return f;
}

void fake_s3_close(struct fake_s3 *f)
{
    coxi_lock(&f->lock);
    f->closing = true;
    (void)pthread_cond_broadcast(&f->changed);
    coxi_unlock(&f->lock);
    MHD_stop_daemon(f->daemon);
    while (f->objects != NULL) {
        fake_drop(f, f->objects->key);
    }
    while (f->uploads != NULL) {
        struct upload *upload = f->uploads;
        f->uploads = upload->next;
        fake_upload_free(upload);
    }
    (void)pthread_cond_destroy(&f->changed);
    coxi_mutex_fini(&f->lock);
    free(f);
}

void fake_s3_close_clean(struct fake_s3 *f)
{
    assert_int_equal(0, fake_s3_refused(f));
    assert_int_equal(0, fake_s3_uploads(f));
    fake_s3_close(f);
}

void fake_s3_fault(struct fake_s3 *f, enum fake_op op, int n, enum fake_fault fault)
{
    coxi_lock(&f->lock);
    assert_true(f->n_faults < FAULTS_MAX);
    f->faults[f->n_faults++] = (struct fault){op, fault, n};
    coxi_unlock(&f->lock);
}

void fake_s3_heal(struct fake_s3 *f)
{
    coxi_lock(&f->lock);
    f->n_faults = 0;
    coxi_unlock(&f->lock);
}

void fake_s3_await_held(struct fake_s3 *f)
{
    struct timespec until = coxi_deadline(WAIT_MS);
    coxi_lock(&f->lock);
    while (f->held == 0) {
        assert_true(coxi_wait_until(&f->changed, &f->lock, &until));
    }
    coxi_unlock(&f->lock);
}

void fake_s3_release(struct fake_s3 *f)
{
    coxi_lock(&f->lock);
    f->releases++;
    (void)pthread_cond_broadcast(&f->changed);
    coxi_unlock(&f->lock);
}

int fake_s3_count(struct fake_s3 *f, enum fake_op op)
{
    coxi_lock(&f->lock);
    int n = f->counts[op];
    coxi_unlock(&f->lock);
    return n;
}

int fake_s3_refused(struct fake_s3 *f)
{
    coxi_lock(&f->lock);
    int n = f->refused;
    coxi_unlock(&f->lock);
    return n;
}

void fake_s3_page(struct fake_s3 *f, size_t keys)
{
    coxi_lock(&f->lock);
    f->page = keys;
    coxi_unlock(&f->lock);
}

void fake_s3_ignore_conditions(struct fake_s3 *f, bool ignores)
{
    coxi_lock(&f->lock);
    f->ignores_conditions = ignores;
    coxi_unlock(&f->lock);
}

void fake_s3_repeat_pages(struct fake_s3 *f)
{
    coxi_lock(&f->lock);
    f->repeats_pages = true;
    coxi_unlock(&f->lock);
}

void fake_s3_accept(struct fake_s3 *f, const char *id, const char *secret,
                    const char *token)
{
    coxi_lock(&f->lock);
    (void)snprintf(f->id, sizeof(f->id), "%s", id);
    (void)snprintf(f->secret, sizeof(f->secret), "%s", secret);
    (void)snprintf(f->token, sizeof(f->token), "%s", token != NULL ? token : "");
    coxi_unlock(&f->lock);
}

/* ---- objects */

void fake_s3_put(struct fake_s3 *f, const char *key, const void *data, size_t len)
{
    coxi_lock(&f->lock);
    struct object *object = fake_make(f, key);
    object->data.len = 0;
    (void)coxi_buffer_append_raw(&object->data, data, len);
    (void)snprintf(object->etag, sizeof(object->etag), "\"%032zu\"",
                   (size_t)++f->last_upload);
    object->meta[0] = '\0';
    coxi_unlock(&f->lock);
}

void fake_s3_age(struct fake_s3 *f, const char *prefix, int seconds)
{
    coxi_lock(&f->lock);
    for (struct object *object = f->objects; object != NULL; object = object->next) {
        if (strncmp(object->key, prefix, strlen(prefix)) == 0) {
            object->modified_s = time(NULL) - seconds;
        }
    }
    coxi_unlock(&f->lock);
}

void fake_s3_remove(struct fake_s3 *f, const char *key)
{
    coxi_lock(&f->lock);
    fake_drop(f, key);
    coxi_unlock(&f->lock);
}

uint8_t *fake_s3_content(struct fake_s3 *f, const char *key, size_t *ret_len)
{
    uint8_t *copy = NULL;
    coxi_lock(&f->lock);
    const struct object *object = fake_find(f, key);
    if (object != NULL) {
        copy = malloc(object->data.len + 1);
        assert_non_null(copy);
        memcpy(copy, object->data.data != NULL ? object->data.data : (uint8_t *)"",
               object->data.len);
        copy[object->data.len] = '\0';
        *ret_len = object->data.len;
    }
    coxi_unlock(&f->lock);
    return copy;
}

size_t fake_s3_objects(struct fake_s3 *f)
{
    size_t n = 0;
    coxi_lock(&f->lock);
    for (const struct object *object = f->objects; object != NULL;
         object = object->next) {
        n++;
    }
    coxi_unlock(&f->lock);
    return n;
}

size_t fake_s3_uploads(struct fake_s3 *f)
{
    size_t n = 0;
    coxi_lock(&f->lock);
    for (const struct upload *upload = f->uploads; upload != NULL;
         upload = upload->next) {
        n++;
    }
    coxi_unlock(&f->lock);
    return n;
}
