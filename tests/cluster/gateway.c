/*
 * See gateway.h. A thread accepts, and each connection has one. Everything is under one
 * lock; `changed` tells of all that happens.
 */
#include "tests/cluster/gateway.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/buffer.h"
#include "common/sync.h"
#include "tests/test.h"

enum { KEYS = 32, PATHS = 16, CONNECTIONS = 256, REQUEST_MAX = 65536, LEASE = 1000 };

struct key {
    char name[256];
    char value[2048];
    long long lease;
    long long revision;
};

struct path {
    char name[32];
    int count;
    int faults;
    char *raw;
};

struct gateway {
    struct coxi_mutex lock;
    pthread_cond_t changed;
    int listener;
    pthread_t acceptor;
    char url[64];
    bool closing;
    bool down;
    bool half_lines;
    struct key keys[KEYS];
    size_t n_keys;
    long long revision;
    long long compacted;
    long long next_lease;
    long long first_lease; /* older ones have expired */
    char password[64];
    int token; /* that is valid */
    struct path paths[PATHS];
    int fds[CONNECTIONS];
    pthread_t threads[CONNECTIONS];
    size_t n_connections;
};

struct connection {
    struct gateway *g;
    int fd;
};

/* ---- values */

static char *plain_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    size_t len = text != NULL ? strlen(text) : 0;
    char *plain = calloc(1, len + 4);
    if (len > 0) {
        (void)EVP_DecodeBlock((unsigned char *)plain, (const unsigned char *)text,
                              (int)len);
    }
    return plain;
}

static long long number_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL ? strtoll(text, NULL, 10) : 0;
}

static void encode(const char *text, char ret[4096])
{
    (void)EVP_EncodeBlock((unsigned char *)ret, (const unsigned char *)text,
                          (int)strlen(text));
}

/* ---- keys; with the lock */

static struct key *find(struct gateway *g, const char *name)
{
    for (size_t i = 0; i < g->n_keys; i++) {
        if (strcmp(g->keys[i].name, name) == 0) {
            return &g->keys[i];
        }
    }
    return NULL;
}

static void set(struct gateway *g, const char *name, const char *value, long long lease)
{
    struct key *key = find(g, name);
    if (key == NULL) {
        assert_true(g->n_keys < KEYS);
        key = &g->keys[g->n_keys++];
        (void)snprintf(key->name, sizeof(key->name), "%s", name);
    }
    (void)snprintf(key->value, sizeof(key->value), "%s", value);
    key->lease = lease;
    key->revision = ++g->revision;
    (void)pthread_cond_broadcast(&g->changed);
}

static void drop(struct gateway *g, struct key *key)
{
    *key = g->keys[--g->n_keys];
    g->revision++;
    (void)pthread_cond_broadcast(&g->changed);
}

static bool is_in(const char *name, const char *begin, const char *end)
{
    return *end == '\0' ? strcmp(name, begin) == 0
                        : strcmp(name, begin) >= 0 && strcmp(name, end) < 0;
}

/* ---- requests */

static void send_all(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, text, len, MSG_NOSIGNAL);
        if (n <= 0) {
            return;
        }
        text += n;
        len -= (size_t)n;
    }
}

static void answer(int fd, int status, const char *body)
{
    char head[160];
    int n = snprintf(head, sizeof(head), "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n\r\n",
                     status, strlen(body));
    send_all(fd, head, (size_t)n);
    send_all(fd, body, strlen(body));
}

static void answer_range(struct gateway *g, int fd, const json_t *in)
{
    char *begin = plain_of(in, "key");
    char *end = plain_of(in, "range_end");
    struct coxi_buffer out = {0};
    const char *comma = "";
    (void)coxi_buffer_printf(&out, "{\"header\":{\"revision\":\"%lld\"},\"kvs\":[",
                             g->revision);
    for (size_t i = 0; i < g->n_keys; i++) {
        char key[4096];
        char value[4096];
        encode(g->keys[i].name, key);
        encode(g->keys[i].value, value);
        if (is_in(g->keys[i].name, begin, end)) {
            (void)coxi_buffer_printf(
                &out, "%s{\"key\":\"%s\",\"value\":\"%s\",\"mod_revision\":\"%lld\"}",
                comma, key, value, g->keys[i].revision);
            comma = ",";
        }
    }
    (void)coxi_buffer_printf(&out, "]}");
    (void)coxi_buffer_append_raw(&out, "", 1);
    answer(fd, 200, (const char *)out.data);
    coxi_buffer_fini(&out);
    free(begin);
    free(end);
}

static void answer_txn(struct gateway *g, int fd, const json_t *in)
{
    const json_t *compare = json_array_get(json_object_get(in, "compare"), 0);
    const json_t *put = json_object_get(
        json_array_get(json_object_get(in, "success"), 0), "request_put");
    char *name = plain_of(compare, "key");
    char *value = plain_of(put, "value");
    const struct key *key = find(g, name);
    if (number_of(put, "lease") < g->first_lease) {
        answer(fd, 404, "{\"message\":\"requested lease not found\",\"code\":5}");
    } else if ((key != NULL ? key->revision : 0) !=
               number_of(compare, "mod_revision")) {
        answer(fd, 200, "{\"header\":{}}");
    } else {
        set(g, name, value, number_of(put, "lease"));
        answer(fd, 200, "{\"succeeded\":true}");
    }
    free(name);
    free(value);
}

static void answer_lease(struct gateway *g, int fd, const char *path, const json_t *in)
{
    char text[96];
    long long lease = number_of(in, "ID");
    bool lives = lease >= g->first_lease && lease < g->next_lease;
    if (strcmp(path, "lease/grant") == 0) {
        (void)snprintf(text, sizeof(text), "{\"ID\":\"%lld\",\"TTL\":\"%lld\"}",
                       g->next_lease++, number_of(in, "TTL"));
    } else if (strcmp(path, "lease/keepalive") == 0) {
        (void)snprintf(text, sizeof(text), "{\"result\":{\"ID\":\"%lld\"%s}}", lease,
                       lives ? ",\"TTL\":\"5\"" : "");
    } else {
        for (size_t i = g->n_keys; i > 0; i--) {
            if (g->keys[i - 1].lease == lease) {
                drop(g, &g->keys[i - 1]);
            }
        }
        (void)snprintf(text, sizeof(text), "{}");
    }
    answer(fd, 200, text);
}

/* A line of a watch, perhaps in two pieces. */
static void send_line(struct gateway *g, int fd, const char *line)
{
    size_t len = strlen(line);
    size_t first = g->half_lines ? len / 2 : len;
    send_all(fd, line, first);
    if (first < len) {
        struct timespec until = coxi_deadline(20);
        while (!g->closing && coxi_wait_until(&g->changed, &g->lock, &until)) {
        }
        send_all(fd, line + first, len - first);
    }
}

/* True if the peer of a connection has gone. */
static bool is_cut(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Watches until the connection ends. What has changed is not told: a client lists. */
static void answer_watch(struct gateway *g, int fd, const json_t *in)
{
    static const char head[] = "HTTP/1.1 200 OK\r\n\r\n"
                               "{\"result\":{\"header\":{},\"created\":true}}\n";
    char line[160];
    long long from = number_of(json_object_get(in, "create_request"), "start_revision");
    send_all(fd, head, strlen(head));
    while (!g->closing && !g->down && !is_cut(fd)) {
        if (from <= g->compacted) {
            send_line(g, fd,
                      "{\"result\":{\"header\":{},\"canceled\":true,"
                      "\"compact_revision\":\"9\"}}\n");
            break;
        }
        if (from <= g->revision) {
            from = g->revision + 1;
            (void)snprintf(line, sizeof(line),
                           "{\"result\":{\"header\":{\"revision\":\"%lld\"},"
                           "\"events\":[{}]}}\n",
                           g->revision);
            send_line(g, fd, line);
        }
        struct timespec until = coxi_deadline(10); /* then looks for the peer */
        (void)coxi_wait_until(&g->changed, &g->lock, &until);
    }
    (void)shutdown(fd, SHUT_RDWR);
}

static struct path *path_of(struct gateway *g, const char *name)
{
    size_t i = 0;
    while (i < PATHS && g->paths[i].name[0] != '\0' &&
           strcmp(g->paths[i].name, name) != 0) {
        i++;
    }
    assert_true(i < PATHS);
    (void)snprintf(g->paths[i].name, sizeof(g->paths[i].name), "%s", name);
    return &g->paths[i];
}

/* True: a fault was played. */
static bool play_fault(struct gateway *g, int fd, const char *name)
{
    struct path *path = path_of(g, name);
    path->count++;
    (void)pthread_cond_broadcast(&g->changed);
    if (path->faults == 0) {
        return false;
    }
    path->faults--;
    if (path->raw == NULL) {
        (void)shutdown(fd, SHUT_RDWR);
    } else if (*path->raw == '\0') {
        while (!g->closing && !is_cut(fd)) {
            struct timespec until = coxi_deadline(10);
            (void)coxi_wait_until(&g->changed, &g->lock, &until);
        }
    } else {
        send_all(fd, path->raw, strlen(path->raw));
        (void)shutdown(fd, SHUT_RDWR);
    }
    return true;
}

static void answer_login(const struct gateway *g, int fd, const json_t *in)
{
    char text[64];
    const char *password = json_string_value(json_object_get(in, "password"));
    (void)snprintf(text, sizeof(text), "{\"token\":\"t%d\"}", g->token);
    if (g->password[0] == '\0') {
        answer(fd, 412, "{\"message\":\"not enabled\",\"code\":9}");
    } else if (strcmp(password, g->password) != 0) {
        answer(fd, 400, "{\"message\":\"wrong password\",\"code\":3}");
    } else {
        answer(fd, 200, text);
    }
}

static void handle(struct gateway *g, int fd, const char *path, const char *token,
                   const json_t *in)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "t%d", g->token);
    if (play_fault(g, fd, path)) {
        return;
    }
    if (strcmp(path, "auth/authenticate") == 0) {
        answer_login(g, fd, in);
    } else if (g->password[0] != '\0' && strcmp(token, text) != 0) {
        answer(fd, 401, "{\"message\":\"invalid auth token\",\"code\":16}");
    } else if (strcmp(path, "kv/range") == 0) {
        answer_range(g, fd, in);
    } else if (strcmp(path, "kv/txn") == 0) {
        answer_txn(g, fd, in);
    } else if (strncmp(path, "lease/", 6) == 0) {
        answer_lease(g, fd, path, in);
    } else if (strcmp(path, "watch") == 0) {
        answer_watch(g, fd, in);
    } else {
        answer(fd, 404, "Not Found");
    }
}

/* Reads a request and its body into `in`; false: the connection has ended. */
static bool read_request(int fd, char in[REQUEST_MAX], char **ret_body)
{
    size_t len = 0;
    for (;;) {
        in[len] = '\0';
        char *body = strstr(in, "\r\n\r\n");
        const char *field = strcasestr(in, "Content-Length:");
        if (body != NULL && field != NULL &&
            strlen(body + 4) >= strtoull(field + 15, NULL, 10)) {
            *ret_body = body + 4;
            return true;
        }
        ssize_t n = recv(fd, in + len, REQUEST_MAX - 1 - len, 0);
        if (n <= 0) {
            return false;
        }
        len += (size_t)n;
    }
}

static void *connection_thread(void *arg)
{
    struct connection connection = *(struct connection *)arg;
    struct gateway *g = connection.g;
    char *in = malloc(REQUEST_MAX);
    char *body;
    free(arg);
    while (read_request(connection.fd, in, &body)) {
        char path[64] = "";
        char token[32] = "";
        char *field = strcasestr(in, "Authorization: ");
        if (field != NULL) {
            (void)sscanf(field + 15, "%31[^\r]", token); // NOLINT
        }
        (void)sscanf(in, "POST /v3/%63s", path); // NOLINT
        json_t *json = json_loads(body, 0, NULL);
        coxi_lock(&g->lock);
        if (g->down || g->closing) {
            (void)shutdown(connection.fd, SHUT_RDWR);
        } else {
            handle(g, connection.fd, path, token, json);
        }
        coxi_unlock(&g->lock);
        json_decref(json);
    }
    free(in);
    return NULL;
}

static void *acceptor_thread(void *arg)
{
    struct gateway *g = arg;
    for (;;) {
        int fd = accept(g->listener, NULL, NULL);
        coxi_lock(&g->lock);
        bool takes = fd >= 0 && !g->closing && !g->down;
        if (takes) {
            assert_true(g->n_connections < CONNECTIONS);
            struct connection *connection = malloc(sizeof(*connection));
            *connection = (struct connection){g, fd};
            g->fds[g->n_connections] = fd;
            assert_int_equal(0, pthread_create(&g->threads[g->n_connections++], NULL,
                                               connection_thread, connection));
        } else if (fd >= 0) {
            (void)close(fd);
        }
        bool closing = g->closing;
        coxi_unlock(&g->lock);
        if (closing) {
            return NULL;
        }
    }
}

/* ---- for tests */

struct gateway *gateway_open(void)
{
    struct gateway *g = calloc(1, sizeof(*g));
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    coxi_mutex_init(&g->lock);
    coxi_cond_init(&g->changed);
    g->revision = 1;
    g->next_lease = g->first_lease = LEASE;
    g->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(0, bind(g->listener, (struct sockaddr *)&at, len));
    assert_int_equal(0, listen(g->listener, 64));
    assert_int_equal(0, getsockname(g->listener, (struct sockaddr *)&at, &len));
    (void)snprintf(g->url, sizeof(g->url), "http://127.0.0.1:%d", ntohs(at.sin_port));
    assert_int_equal(0, pthread_create(&g->acceptor, NULL, acceptor_thread, g));
    return g;
}

static void cut_all(struct gateway *g)
{
    for (size_t i = 0; i < g->n_connections; i++) {
        (void)shutdown(g->fds[i], SHUT_RDWR);
    }
    (void)pthread_cond_broadcast(&g->changed);
}

void gateway_close(struct gateway *g)
{
    coxi_lock(&g->lock);
    g->closing = true;
    cut_all(g);
    (void)shutdown(g->listener, SHUT_RDWR);
    coxi_unlock(&g->lock);
    (void)pthread_join(g->acceptor, NULL);
    for (size_t i = 0; i < g->n_connections; i++) {
        (void)pthread_join(g->threads[i], NULL);
        (void)close(g->fds[i]);
    }
    for (size_t i = 0; i < PATHS; i++) {
        free(g->paths[i].raw);
    }
    (void)close(g->listener);
    (void)pthread_cond_destroy(&g->changed);
    coxi_mutex_fini(&g->lock);
    free(g);
}

const char *gateway_url(struct gateway *g)
{
    return g->url;
}

void gateway_down(struct gateway *g, bool down)
{
    coxi_lock(&g->lock);
    g->down = down;
    if (down) {
        cut_all(g);
    }
    coxi_unlock(&g->lock);
}

void gateway_fault(struct gateway *g, const char *path, int n, const char *raw)
{
    coxi_lock(&g->lock);
    struct path *of = path_of(g, path);
    free(of->raw);
    of->raw = raw != NULL ? strdup(raw) : NULL;
    of->faults = n;
    coxi_unlock(&g->lock);
}

void gateway_expire(struct gateway *g)
{
    coxi_lock(&g->lock);
    g->first_lease = g->next_lease;
    for (size_t i = g->n_keys; i > 0; i--) {
        if (g->keys[i - 1].lease != 0) {
            drop(g, &g->keys[i - 1]);
        }
    }
    coxi_unlock(&g->lock);
}

void gateway_compact(struct gateway *g)
{
    coxi_lock(&g->lock);
    g->revision++;
    g->compacted = g->revision;
    (void)pthread_cond_broadcast(&g->changed);
    coxi_unlock(&g->lock);
}

void gateway_lose_data(struct gateway *g)
{
    coxi_lock(&g->lock);
    g->n_keys = 0;
    g->revision = 1;
    g->compacted = 0;
    g->first_lease = g->next_lease;
    coxi_unlock(&g->lock);
}

void gateway_want_password(struct gateway *g, const char *password)
{
    coxi_lock(&g->lock);
    (void)snprintf(g->password, sizeof(g->password), "%s", password);
    coxi_unlock(&g->lock);
}

void gateway_forget_tokens(struct gateway *g)
{
    coxi_lock(&g->lock);
    g->token++;
    coxi_unlock(&g->lock);
}

void gateway_half_lines(struct gateway *g)
{
    coxi_lock(&g->lock);
    g->half_lines = true;
    coxi_unlock(&g->lock);
}

void gateway_put(struct gateway *g, const char *key, const char *value)
{
    coxi_lock(&g->lock);
    set(g, key, value, 0);
    coxi_unlock(&g->lock);
}

void gateway_delete(struct gateway *g, const char *key)
{
    coxi_lock(&g->lock);
    struct key *found = find(g, key);
    if (found != NULL) {
        drop(g, found);
    }
    coxi_unlock(&g->lock);
}

char *gateway_get(struct gateway *g, const char *key)
{
    coxi_lock(&g->lock);
    const struct key *found = find(g, key);
    char *value = found != NULL ? strdup(found->value) : NULL;
    coxi_unlock(&g->lock);
    return value;
}

int gateway_count(struct gateway *g, const char *path)
{
    coxi_lock(&g->lock);
    int n = path_of(g, path)->count;
    coxi_unlock(&g->lock);
    return n;
}

void gateway_await(struct gateway *g, const char *path, int n)
{
    struct timespec until = coxi_deadline(8000);
    coxi_lock(&g->lock);
    while (path_of(g, path)->count < n) {
        assert_true(coxi_wait_until(&g->changed, &g->lock, &until));
    }
    coxi_unlock(&g->lock);
}
