/*
 * coxswain host: one host's daemons of a cluster, for `coxswain launch`, which starts it
 * over ssh. Standard input gives the run's key, a request, and then beats: when it ends,
 * or is silent for the peer timeout, the daemons end. So nothing stays here when the
 * connection is lost or the other end is killed. The key is never on a command line or
 * on the disk of this host: daemons inherit it in memory.
 *
 * The request: a line with the key (hexadecimal), then a line of JSON. The answer, on
 * standard output: a line of JSON with the address and the ports. What daemons and this
 * program say goes to standard error.
 */
#include <errno.h>
#include <jansson.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/launcher.h"
#include "cli/remote.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/structs.h"
#include "net/daemon.h"
#include "net/key.h"

enum {
    LINE_MAX_BYTES = 1 << 20,
    REQUEST_MS = 30000,
    KEY_DIGITS = 2 * COXI_KEY_BYTES,
};

static const struct coxi_program host_program = {
    .name = "coxswain host",
    .usage = "",
    .summary = "Runs the daemons of one host for coxswain launch, which starts it over "
               "ssh and\ntells it through standard input what to run. When that ends, "
               "they end.",
    .prefix = "COX_HOST",
};

struct place {
    char url[COXI_URL_MAX + 1];
    int reserved; /* a socket that keeps others from the port; -1: none */
    int port;
};

struct host {
    struct coxi_loop *loop;
    struct coxi_launcher *launcher;
    struct coxi_launcher_options options;
    struct coxi_launcher_place *daemons;
    struct place *places; /* as in `daemons` */
    char address[128];
    int key_fd;
    char dir[64];
    int dir_lock;
    uv_pipe_t in;
    uv_timer_t silence;
    bool stops;
    int exit_code;
};

/* ---- the request */

/* Reads a line, without its newline, and adds a NUL. The bytes after it stay in the
 * pipe. */
static int read_line(char *to, size_t room, uint64_t until_ms)
{
    size_t n = 0;
    for (;;) {
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
        uint64_t now_ms = coxi_now_ms();
        int ready = now_ms < until_ms ? poll(&in, 1, (int)(until_ms - now_ms)) : 0;
        ssize_t got = ready > 0 ? read(STDIN_FILENO, to + n, 1) : 0;
        if (got < 0 || (ready < 0 && errno == EINTR)) {
            return coxi_error_errno(COX_EIO, "cannot read standard input");
        }
        if (got == 0 || n + 1 == room) {
            return coxi_error(COX_EINVAL,
                              "no request on standard input: coxswain launch "
                              "starts this program");
        }
        if (to[n] == '\n') {
            to[n] = '\0';
            return 0;
        }
        n++;
    }
}

static int read_key(struct host *host, uint64_t until_ms)
{
    char digits[KEY_DIGITS + 2];
    struct coxi_key key = {.kind = COXI_KEY_RUN};
    int r = read_line(digits, sizeof(digits), until_ms);
    if (r == 0 && strspn(digits, "0123456789abcdef") != KEY_DIGITS) {
        r = coxi_error(COX_EINVAL, "the request has no key");
    }
    for (size_t i = 0; r == 0 && i < COXI_KEY_BYTES; i++) {
        char two[] = {digits[2 * i], digits[2 * i + 1], '\0'};
        key.secret[i] = (uint8_t)strtoul(two, NULL, 16);
    }
    if (r == 0) {
        r = coxi_key_pass(&key, &host->key_fd);
    }
    coxi_key_wipe(&key);
    explicit_bzero(digits, sizeof(digits));
    return r;
}

static int read_request(struct host *host, json_t **ret)
{
    json_error_t error;
    uint64_t until_ms = coxi_now_ms() + REQUEST_MS;
    char *line = malloc(LINE_MAX_BYTES);
    int r = line == NULL ? coxi_error_memory("a request") : 0;
    if (r == 0) {
        r = read_key(host, until_ms);
    }
    if (r == 0) {
        r = read_line(line, LINE_MAX_BYTES, until_ms);
    }
    if (r == 0) {
        *ret = json_loads(line, 0, &error);
        r = *ret != NULL ? 0 : coxi_error(COX_EINVAL, "the request: %s", error.text);
    }
    free(line);
    return r;
}

/* Sets the options; strings live as long as `request`. */
static int take_request(struct host *host, json_t *request)
{
    const char *version = "";
    const char *address = NULL;
    const char *log = NULL;
    json_t *ps;
    json_t *workers;
    int slots;
    int timeout_ms;
    json_int_t memory;
    struct coxi_launcher_options *options = &host->options;
    if (json_unpack(request, "{s:s}", "version", &version) != 0 ||
        strcmp(version, COXI_VERSION_TEXT) != 0) {
        return coxi_error(COX_EVERSION,
                          "here is Coxswain %s, and there %s: install the same release "
                          "on all hosts",
                          COXI_VERSION_TEXT, version);
    }
    json_error_t error;
    if (json_unpack_ex(request, &error, 0,
                       "{s?s, s?s, s:o, s:o, s:i, s:i, s:I, s?s, s?s}", "address",
                       &address, "log", &log, "ps", &ps, "worker", &workers, "slots",
                       &slots, "peer_timeout_ms", &timeout_ms, "step_memory_max",
                       &memory, "log_dir", &options->log_dir, "checkpoint_root",
                       &options->checkpoint_root) != 0) {
        return coxi_error(COX_EINVAL, "the request: %s", error.text);
    }
    if (log != NULL && setenv("COX_LOG", log, 1) != 0) {
        return coxi_error_memory("the environment");
    }
    options->n_ps = (uint32_t)json_array_size(ps);
    options->n_workers = (uint32_t)json_array_size(workers);
    options->slots = (uint32_t)slots;
    options->peer_timeout_ms = timeout_ms;
    options->step_memory_max = (uint64_t)memory;
    options->key_fd = host->key_fd;
    /* "client-address port server-address port": how this host was reached */
    const char *connection = getenv("SSH_CONNECTION");
    if (address != NULL) {
        (void)snprintf(host->address, sizeof(host->address), "%s", address);
    } else if (connection == NULL ||
               sscanf(connection, "%*s %*s %127s", host->address) != 1) {
        return coxi_error(COX_EINVAL,
                          "SSH_CONNECTION does not say this host's address: "
                          "list the host as NAME=ADDRESS");
    }
    return 0;
}

/* ---- ports */

/*
 * Binds a socket to a port (0: a free one) and keeps it, without listening. So no other
 * program gets the port while a daemon is started again. The daemon itself may listen
 * there, because both sockets have SO_REUSEADDR.
 */
static int reserve(const struct host *host, struct place *place, int port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    struct sockaddr_storage bound = {0};
    socklen_t len = sizeof(bound);
    int one = 1;
    char service[16];
    (void)snprintf(service, sizeof(service), "%d", port);
    int failed = getaddrinfo(host->address, service, &hints, &found);
    if (failed != 0) {
        return coxi_error(COX_EADDRESS, "%s: %s", host->address, gai_strerror(failed));
    }
    place->reserved = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int r = 0;
    if (place->reserved < 0 ||
        setsockopt(place->reserved, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        bind(place->reserved, found->ai_addr, found->ai_addrlen) != 0 ||
        getsockname(place->reserved, (struct sockaddr *)&bound, &len) != 0) {
        r = coxi_error_errno(COX_EADDRESS, "cannot use port %d at %s", port,
                             host->address);
    }
    freeaddrinfo(found);
    place->port =
        ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                          : ((struct sockaddr_in *)&bound)->sin_port);
    bool brackets = strchr(host->address, ':') != NULL;
    (void)snprintf(place->url, sizeof(place->url), "tcp://%s%s%s:%d",
                   brackets ? "[" : "", host->address, brackets ? "]" : "",
                   place->port);
    return r;
}

/* Takes the daemons of one role from the request. */
static int take_places(struct host *host, json_t *tasks, uint32_t first)
{
    size_t i;
    json_t *task;
    int r = 0;
    json_array_foreach(tasks, i, task)
    {
        int index;
        int port;
        struct place *place = &host->places[first + i];
        if (r == 0 && json_unpack(task, "[i, i]", &index, &port) != 0) {
            r = coxi_error(COX_EINVAL, "the request: a task is [index, port]");
        }
        if (r == 0) {
            r = reserve(host, place, port);
        }
        if (r == 0) {
            host->daemons[first + i] =
                (struct coxi_launcher_place){(uint32_t)index, place->url};
        }
    }
    return r;
}

static int take_all_places(struct host *host, json_t *request)
{
    size_t n = (size_t)host->options.n_ps + host->options.n_workers;
    host->daemons = calloc(n + 1, sizeof(*host->daemons));
    host->places = calloc(n + 1, sizeof(*host->places));
    if (host->daemons == NULL || host->places == NULL) {
        return coxi_error_memory("places");
    }
    for (size_t i = 0; i < n; i++) {
        host->places[i].reserved = -1;
    }
    int r = take_places(host, json_object_get(request, "ps"), 0);
    return r == 0 ? take_places(host, json_object_get(request, "worker"),
                                host->options.n_ps)
                  : r;
}

static void answer(const struct host *host)
{
    json_t *ports = json_array();
    size_t n = (size_t)host->options.n_ps + host->options.n_workers;
    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(ports, json_integer(host->places[i].port));
    }
    json_t *root = json_pack("{s:s, s:o}", "address", host->address, "ports", ports);
    char *text = json_dumps(root, JSON_COMPACT);
    /* a start file of the shell may have printed half a line */
    (void)printf("\n" COXI_HOST_ANSWER "%s\n", text != NULL ? text : "");
    (void)fflush(stdout);
    free(text);
    json_decref(root);
}

/* ---- life */

static void stop(struct host *host)
{
    if (!host->stops) {
        host->stops = true;
        (void)uv_timer_stop(&host->silence);
        coxi_launcher_stop(host->launcher);
    }
}

static void on_silence(uv_timer_t *timer)
{
    struct host *host = timer->data;
    (void)fprintf(stderr,
                  "coxswain host: nothing was heard for %d ms: its daemons end\n",
                  host->options.peer_timeout_ms);
    stop(host);
}

static void await_beat(struct host *host)
{
    (void)uv_timer_start(&host->silence, on_silence,
                         (uint64_t)host->options.peer_timeout_ms, 0);
}

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    static char ignored[64];
    (void)handle;
    (void)suggested;
    *ret = uv_buf_init(ignored, sizeof(ignored));
}

static void on_beat(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct host *host = stream->data;
    (void)buffer;
    if (n < 0) {
        (void)uv_read_stop(stream);
        stop(host);
    } else if (!host->stops) {
        await_beat(host);
    }
}

static void on_signal(void *arg, int signum)
{
    (void)signum;
    stop(arg);
}

static void on_fail(void *arg, const char *text)
{
    (void)arg;
    (void)fprintf(stderr, "coxswain host: %s\n", text);
}

static void on_end(void *arg, bool failed)
{
    struct host *host = arg;
    host->exit_code = failed ? COXI_EXIT_FAILED : 0;
    coxi_loop_stop(host->loop);
}

static int listen_to_input(struct host *host)
{
    uv_loop_t *loop = coxi_loop_uv(host->loop);
    host->in.data = host->silence.data = host;
    (void)uv_timer_init(loop, &host->silence);
    int failed = uv_pipe_init(loop, &host->in, 0);
    if (failed == 0) {
        failed = uv_pipe_open(&host->in, STDIN_FILENO);
    }
    if (failed == 0) {
        failed = uv_read_start((uv_stream_t *)&host->in, give_buffer, on_beat);
    }
    if (failed != 0) {
        return coxi_error(COX_EIO, "standard input: %s", uv_strerror(failed));
    }
    await_beat(host);
    return 0;
}

static int run(struct host *host)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    struct coxi_launcher_options *options = &host->options;
    int r = coxi_directory_held(host->dir, &host->dir_lock);
    if (r == 0) {
        options->dir = host->dir;
        options->dir_is_ours = true;
        options->places = host->daemons;
        options->prints_fd = STDERR_FILENO;
        options->on_fail = on_fail;
        options->on_end = on_end;
        options->arg = host;
        r = coxi_loop_new(0, NULL, host, &host->loop);
    }
    for (size_t i = 0; r == 0 && i < sizeof(signals) / sizeof(*signals); i++) {
        r = coxi_loop_on_signal(host->loop, signals[i], on_signal);
    }
    if (r == 0) {
        r = listen_to_input(host);
    }
    if (r == 0) {
        r = coxi_launcher_start(host->loop, options, &host->launcher);
    }
    if (r == 0) {
        answer(host);
        coxi_loop_run(host->loop);
    }
    return r;
}

static void host_fini(struct host *host)
{
    coxi_loop_free(host->loop);
    coxi_launcher_free(host->launcher);
    size_t n = (size_t)host->options.n_ps + host->options.n_workers;
    for (size_t i = 0; host->places != NULL && i < n; i++) {
        if (host->places[i].reserved >= 0) {
            (void)close(host->places[i].reserved);
        }
    }
    free(host->daemons);
    free(host->places);
    if (host->key_fd > 0) {
        (void)close(host->key_fd);
    }
    if (host->dir[0] != '\0') {
        coxi_directory_remove(host->dir);
        (void)close(host->dir_lock);
    }
}

int coxi_command_host(int argc, char **argv)
{
    struct host host = {0};
    json_t *request = NULL;
    int unused;
    int r = coxi_options_parse(&host_program, argc, argv, &unused, NULL);
    if (r == COXI_OPTIONS_EXIT) {
        return EXIT_SUCCESS;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    if (r == 0) {
        r = read_request(&host, &request);
    }
    if (r == 0) {
        r = take_request(&host, request);
    }
    if (r == 0) {
        r = take_all_places(&host, request);
    }
    if (r == 0) {
        r = run(&host);
    }
    int code = r != 0 ? coxi_exit_config(host_program.name) : host.exit_code;
    host_fini(&host);
    json_decref(request);
    return code;
}
