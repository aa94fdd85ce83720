/* See watcher.h. */
#include "cli/watcher.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "checkpoint/history_file.h"
#include "checkpoint/place.h"
#include "common/error.h"
#include "common/file.h"
#include "data/http.h"
#include "http/http.h"
#include "net/daemon.h"

enum {
    ANSWER_MAX = 64 << 20, /* bytes of an answer; the history in memory has 16 MiB */
    PIECE_BYTES = 1 << 20,
    URL_MAX = 256,
};

struct coxi_watcher {
    struct coxi_history *history; /* of a directory; or NULL */
    char url[URL_MAX];            /* of a client: "http://127.0.0.1:8080" */
    uint64_t seq;                 /* the newest record that was given */
};

static const char http_scheme[] = "http://";

/* ---- opening */

static bool is_directory(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 && S_ISDIR(file.st_mode);
}

int coxi_watcher_check(const char *where)
{
    char taken[PATH_MAX];
    return strncmp(where, http_scheme, strlen(http_scheme)) == 0
               ? 0
               : coxi_place_take(where, taken);
}

int coxi_watcher_exit(const char *program, int code)
{
    (void)fprintf(stderr, "%s: %s\n", program, coxi_error_text());
    return code == COX_EINVAL || code == COX_EADDRESS ? COXI_EXIT_CONFIG
                                                      : COXI_EXIT_FAILED;
}

int coxi_watcher_history(const char *where, char ret_dir[PATH_MAX],
                         struct coxi_history **ret)
{
    static const char *const within[] = {"", "/checkpoints", "/logs"};
    char dir[PATH_MAX];
    int r = COX_ENOENT;
    if (coxi_place_in_store(where)) {
        return coxi_error(
            COX_EINVAL,
            "%s is in a store of objects, which has no history of the run; "
            "say the run's log_dir, or its address",
            where);
    }
    for (size_t i = 0; r == COX_ENOENT && i < sizeof(within) / sizeof(*within); i++) {
        r = coxi_path(dir, "%s%s", where, within[i]);
        if (r == 0) {
            r = is_directory(dir) ? coxi_history_open(dir, ret) : COX_ENOENT;
        }
    }
    if (r == COX_ENOENT) {
        return coxi_error(COX_ENOENT,
                          "there is no run in %s: none of metrics.jsonl, "
                          "checkpoints/metrics.jsonl and logs/metrics.jsonl exists "
                          "there; say the run's directory, or its address",
                          strcmp(where, ".") == 0 ? "this directory" : where);
    }
    return r == 0 ? coxi_path(ret_dir, "%s", dir) : r;
}

/* Checks what stands before the first slash: HOST:PORT, or HOST after a scheme. */
static int check_address(const char *where, bool has_scheme)
{
    char address[URL_MAX];
    char host[COXI_HTTP_HOST_MAX + 1];
    char port[COXI_HTTP_PORT_MAX + 1];
    int n = snprintf(address, sizeof(address), "%.*s", (int)strcspn(where, "/"), where);
    if (n < 0 || (size_t)n >= sizeof(address)) {
        return coxi_error(COX_EINVAL, "the address %s is too long", where);
    }
    bool has_port = strchr(address, ':') != NULL && address[n - 1] != ']';
    if (has_scheme && n > 0 && !has_port) {
        return 0;
    }
    int r = coxi_http_split(address, host, port);
    return r == 0 && strtol(port, NULL, 10) == 0
               ? coxi_error(COX_EADDRESS,
                            "nobody is at port 0 of %s: say the port at "
                            "which the client serves",
                            address)
               : r;
}

static int find_url(const char *where, char ret[URL_MAX])
{
    bool has_scheme = strncmp(where, http_scheme, strlen(http_scheme)) == 0;
    bool is_port = *where != '\0' && strspn(where, "0123456789") == strlen(where);
    const char *address = where + (has_scheme ? strlen(http_scheme) : 0);
    if (!has_scheme && !is_port && strchr(where, ':') == NULL) {
        return coxi_error(COX_ENOENT,
                          "%s is no directory, and no address such as 127.0.0.1:8080",
                          where);
    }
    int r = check_address(address, has_scheme);
    if (r != 0) {
        return r;
    }
    int n = snprintf(ret, URL_MAX, "%s%s%s", http_scheme, is_port ? "127.0.0.1:" : "",
                     address);
    if (n < 0 || n >= URL_MAX) {
        return coxi_error(COX_EINVAL, "the address %s is too long", where);
    }
    while (n > 0 && ret[n - 1] == '/') {
        ret[--n] = '\0';
    }
    return 0;
}

int coxi_watcher_open(const char *where, struct coxi_watcher **ret)
{
    int r = coxi_watcher_check(where);
    if (r != 0) {
        return r;
    }
    struct coxi_watcher *watch = calloc(1, sizeof(*watch));
    if (watch == NULL) {
        return coxi_error_memory("the records of a run");
    }
    char dir[PATH_MAX];
    bool is_dir = is_directory(where) || coxi_place_in_store(where);
    r = is_dir ? coxi_watcher_history(where, dir, &watch->history)
               : find_url(where, watch->url);
    if (r != 0) {
        free(watch);
        return r;
    }
    *ret = watch;
    return 0;
}

void coxi_watcher_close(struct coxi_watcher *watch)
{
    if (watch != NULL) {
        coxi_history_close(watch->history);
        free(watch);
    }
}

/* ---- reading */

int coxi_watcher_get(const char *url, const char *path, struct coxi_buffer *to)
{
    static const struct coxi_http_limits limits = {
        .connect_ms = 2000, .stall_s = 5, .tries = 1};
    struct coxi_http_address address = {0};
    struct coxi_http *http;
    char whole[URL_MAX + 64];
    (void)snprintf(whole, sizeof(whole), "%s%s", url, path);
    address.url = strdup(whole);
    if (address.url == NULL) {
        return coxi_error_memory("an address");
    }
    int r = coxi_http_new(url, &address, &limits, &http);
    if (r == 0) {
        r = coxi_http_read_all(http, ANSWER_MAX, to);
        coxi_http_free(http);
    }
    return r;
}

static const char record_begin[] = "{\"seq\":";

/* The number in a line of JSON's first member. */
static uint64_t number_of(const char *line)
{
    return strncmp(line, record_begin, sizeof(record_begin) - 1) == 0
               ? strtoull(line + sizeof(record_begin) - 1, NULL, 10)
               : 0;
}

/* The number of the last whole line. */
static uint64_t last_number(const struct coxi_buffer *lines)
{
    size_t end = lines->len;
    while (end > 0 && lines->data[end - 1] == '\n') {
        end--;
    }
    while (end > 0 && lines->data[end - 1] != '\n') {
        end--;
    }
    return end < lines->len ? number_of((const char *)lines->data + end) : 0;
}

/* Somebody else may have the address. */
static bool is_record(const struct coxi_buffer *answer)
{
    return answer->len > sizeof(record_begin) - 1 &&
           memcmp(answer->data, record_begin, sizeof(record_begin) - 1) == 0;
}

/* The records from number `from` on, and a NUL behind them, which does not count. */
static int get_from(struct coxi_watcher *watch, uint64_t from, struct coxi_buffer *ret)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/api/history?since=%" PRIu64,
                   from > 0 ? from - 1 : 0);
    ret->len = 0;
    int r = coxi_watcher_get(watch->url, path, ret);
    if (r == COX_ENOENT || (r == 0 && ret->len > 0 && !is_record(ret))) {
        return coxi_error(COX_EIO, "no client of a run answers at %s", watch->url);
    }
    r = r != 0 ? r : coxi_buffer_append_raw(ret, "", 1);
    ret->len -= r == 0;
    return r;
}

/* Asks for the newest record that is known as well: a client that does not have it is
 * another one, and its numbers have begun anew. */
static int next_of_client(struct coxi_watcher *watch, struct coxi_buffer *lines,
                          bool *ret_anew)
{
    struct coxi_buffer answer = {0};
    int r = get_from(watch, watch->seq, &answer);
    if (r == 0 && answer.len == 0 && watch->seq > 0) {
        *ret_anew = true;
        watch->seq = 0;
        r = get_from(watch, 0, &answer);
    }
    if (r == 0 && answer.len > 0) {
        const char *text = (const char *)answer.data;
        const char *end = strchr(text, '\n');
        size_t known = number_of(text) == watch->seq && watch->seq > 0 && end != NULL
                           ? (size_t)(end + 1 - text)
                           : 0;
        watch->seq = last_number(&answer);
        r = coxi_buffer_append_raw(lines, answer.data + known, answer.len - known);
    }
    coxi_buffer_fini(&answer);
    return r;
}

static int next_of_directory(struct coxi_watcher *watch, struct coxi_buffer *lines,
                             bool *ret_anew)
{
    struct coxi_records *records = coxi_history_records(watch->history);
    int r = coxi_history_update(watch->history);
    if (coxi_records_last(records) < watch->seq) {
        *ret_anew = true;
        watch->seq = 0;
    }
    uint64_t from;
    do {
        from = watch->seq;
        r = r != 0 ? r
                   : coxi_records_since(records, from, PIECE_BYTES, lines, &watch->seq);
    } while (r == 0 && watch->seq > from);
    return r;
}

int coxi_watcher_next(struct coxi_watcher *watch, struct coxi_buffer *lines,
                      bool *ret_anew)
{
    *ret_anew = false;
    return watch->history != NULL ? next_of_directory(watch, lines, ret_anew)
                                  : next_of_client(watch, lines, ret_anew);
}

const char *coxi_watcher_url(const struct coxi_watcher *watch)
{
    return watch->history == NULL ? watch->url : NULL;
}

/* ---- waiting */

static volatile sig_atomic_t told_to_end;

static void on_signal(int signum)
{
    (void)signum;
    told_to_end = 1;
}

bool coxi_watcher_pause(int ms)
{
    static bool is_installed;
    sigset_t both;
    sigset_t before;
    const struct timespec time = {.tv_sec = ms / 1000,
                                  .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)sigemptyset(&both);
    (void)sigaddset(&both, SIGINT);
    (void)sigaddset(&both, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &both, &before);
    if (!is_installed) {
        const struct sigaction action = {.sa_handler = on_signal};
        is_installed = sigaction(SIGINT, &action, NULL) == 0 &&
                       sigaction(SIGTERM, &action, NULL) == 0;
    }
    if (!told_to_end) { /* a signal can only come within pselect */
        (void)pselect(0, NULL, NULL, NULL, &time, &before);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !told_to_end;
}

/* ---- texts */

/* The bytes of the UTF-8 character at `at`; 0: it is none, or a control character. */
static size_t character(const unsigned char *at)
{
    static const struct {
        unsigned char mask;
        unsigned char bits;
        unsigned least;
    } kinds[] = {{0x80, 0x00, 0},
                 {0xe0, 0xc0, 0x80},
                 {0xf0, 0xe0, 0x800},
                 {0xf8, 0xf0, 0x10000}};
    for (size_t n = 1; n <= 4; n++) {
        if ((at[0] & kinds[n - 1].mask) != kinds[n - 1].bits) {
            continue;
        }
        unsigned code = at[0] & (unsigned char)~kinds[n - 1].mask;
        for (size_t i = 1; i < n; i++) {
            if ((at[i] & 0xc0) != 0x80) {
                return 0;
            }
            code = code << 6 | (at[i] & 0x3f);
        }
        bool is_control = code < 0x20 || (code >= 0x7f && code < 0xa0) ||
                          (code >= 0x200e && code <= 0x200f) ||
                          (code >= 0x202a && code <= 0x202e) ||
                          (code >= 0x2066 && code <= 0x2069);
        return code < kinds[n - 1].least || is_control ? 0 : n;
    }
    return 0;
}

void coxi_watcher_plain(char *text)
{
    unsigned char *at = (unsigned char *)text;
    while (*at != '\0') {
        size_t n = character(at);
        if (n == 0) {
            *at = '?';
            n = 1;
        }
        at += n;
    }
}
