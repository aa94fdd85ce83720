/* See log.h. State: the role that writes the lines and the least level, set once at
 * start. */
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/log_json.h"
#include "common/log_line.h"

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static const char *log_role = "client";
static uint32_t log_index;
static enum coxi_log_level log_least = COXI_LOG_WARN;
static int log_fd = STDERR_FILENO;
static int alert_fd = -1;
static enum coxi_log_level alert_least;
static uint64_t log_max_bytes; /* 0: no bound */
static atomic_bool log_json;

enum { LINE_MAX_BYTES = 2048 };

void coxi_log_init(const char *role, uint32_t index, enum coxi_log_level least)
{
    log_role = role;
    log_index = index;
    log_least = least;
}

void coxi_log_to(int fd)
{
    log_fd = fd;
}

void coxi_log_alert(int fd, enum coxi_log_level least)
{
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    alert_fd = fd;
    alert_least = least;
}

int coxi_log_alert_fd(void)
{
    return alert_fd;
}

int coxi_log_level_parse(const char *text, enum coxi_log_level *ret)
{
    for (unsigned i = 0; i < sizeof(level_names) / sizeof(*level_names); i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *ret = (enum coxi_log_level)i;
            return 0;
        }
    }
    return coxi_error(COX_EINVAL, "log level '%s' is none of debug, info, warn, error",
                      text);
}

int coxi_log_format(const char *format)
{
    const char *chosen =
        format != NULL ? format
                       : getenv("COX_LOG_FORMAT"); /* NOLINT(concurrency-mt-unsafe) */
    bool json = chosen != NULL && strcmp(chosen, "json") == 0;
    if (!json && chosen != NULL && *chosen != '\0' && strcmp(chosen, "text") != 0) {
        return coxi_error(COX_EINVAL, "%s is '%s': text or json",
                          format != NULL ? "the log's format" : "COX_LOG_FORMAT",
                          chosen);
    }
    atomic_store(&log_json, json);
    return 0;
}

bool coxi_log_is_json(void)
{
    return atomic_load(&log_json);
}

/* Writes a line, of which the last byte is free for its end. */
static void write_to(int fd, char *line, size_t len)
{
    line[len++] = '\n';
    /* Ignore errors, because there is no other place to report them. */
    (void)!write(fd, line, len);
}

static void write_line(enum coxi_log_level level, const char *event, const char *format,
                       va_list args)
{
    int saved = errno;
    char line[LINE_MAX_BYTES];
    char json[8 * LINE_MAX_BYTES + 16];
    struct timespec now;
    struct tm utc;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    size_t used = strftime(line, sizeof(line), "ts=%Y-%m-%dT%H:%M:%S", &utc);
    used += (size_t)snprintf(
        line + used, sizeof(line) - used, ".%03ldZ level=%s role=%s index=%u event=%s ",
        now.tv_nsec / 1000000, level_names[level], log_role, log_index, event);
    used += coxi_log_text(line + used, sizeof(line) - 1 - used, format, args);
    char *out = line;
    if (coxi_log_is_json()) {
        used = coxi_log_json(line, used, json);
        out = json;
    }
    write_to(log_fd, out, used);
    if (alert_fd >= 0 && level >= alert_least) {
        write_to(alert_fd, out, used);
    }
    errno = saved;
}

void coxi_log(enum coxi_log_level level, const char *event, const char *format, ...)
{
    va_list args;
    if (level >= log_least) {
        va_start(args, format);
        write_line(level, event, format, args);
        va_end(args);
    }
}

void coxi_log_line(enum coxi_log_level level, const char *event, const char *format,
                   ...)
{
    va_list args;
    va_start(args, format);
    write_line(level, event, format, args);
    va_end(args);
}

/* ---- events that others can cause as often as they like */

/* If a thread looks at `lines` just before another begins a new span, its event is only
 * counted. */
static bool is_among(struct coxi_seldom *seldom, unsigned most, uint64_t *ret_n)
{
    uint64_t now = coxi_now_ms();
    uint64_t last = atomic_load(&seldom->told_ms);
    atomic_fetch_add(&seldom->n, 1);
    if ((last == 0 || now - last >= COXI_SELDOM_MS) &&
        atomic_compare_exchange_strong(&seldom->told_ms, &last, now)) {
        atomic_store(&seldom->lines, 0);
    }
    if (atomic_load(&seldom->lines) >= most ||
        atomic_fetch_add(&seldom->lines, 1) >= most) {
        return false;
    }
    *ret_n = atomic_exchange(&seldom->n, 0);
    return true;
}

bool coxi_seldom(struct coxi_seldom *seldom, uint64_t *ret_n)
{
    return is_among(seldom, 1, ret_n);
}

bool coxi_seldom_some(struct coxi_seldom *seldom, uint64_t *ret_n)
{
    return is_among(seldom, COXI_SELDOM_SOME, ret_n);
}

/* ---- the bound on its size */

/* True if the log is a file of more than `bytes` bytes. */
static bool is_longer(uint64_t bytes)
{
    struct stat st;
    return fstat(log_fd, &st) == 0 && S_ISREG(st.st_mode) &&
           (uint64_t)st.st_size > bytes;
}

void coxi_log_bound(uint64_t max_bytes)
{
    struct stat st;
    int flags = fcntl(log_fd, F_GETFL);
    log_max_bytes = max_bytes;
    if (max_bytes > 0 && flags >= 0 && fstat(log_fd, &st) == 0 && S_ISREG(st.st_mode)) {
        /* Append, because otherwise, after the file was emptied, we would write beyond
         * its end and leave a hole. */
        (void)fcntl(log_fd, F_SETFL, flags | O_APPEND);
    }
}

/* The file's path with ".1" appended; false: the file has no path any more. */
static bool older_path(const char *own, char ret[PATH_MAX])
{
    struct stat st;
    ssize_t len = readlink(own, ret, PATH_MAX - sizeof(".1"));
    if (len <= 0 || fstat(log_fd, &st) != 0 || st.st_nlink == 0) {
        return false;
    }
    memcpy(ret + len, ".1", sizeof(".1"));
    return true;
}

/* False: some bytes could not be written. */
static bool copy_all(int from, int to)
{
    char bytes[16 << 10];
    ssize_t n;
    while ((n = read(from, bytes, sizeof(bytes))) > 0) {
        if (write(to, bytes, (size_t)n) != n) {
            return false;
        }
    }
    return n == 0;
}

/* Copies the log to `older` and empties it, even if the disk has no room for the whole
 * copy, because the bound must hold. */
static void move_to(int log, const char *older)
{
    int to = open(older, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    bool whole = to >= 0 && copy_all(log, to);
    if (to >= 0) {
        (void)close(to);
    }
    if (ftruncate(log, 0) == 0) {
        coxi_log(COXI_LOG_INFO, "log_rotated", "older=%s whole=%s", older,
                 whole ? "yes" : "no");
    }
}

void coxi_log_trim(void)
{
    char own[32];
    char older[PATH_MAX];
    if (log_max_bytes == 0 || !is_longer(log_max_bytes)) {
        return;
    }
    (void)snprintf(own, sizeof(own), "/proc/self/fd/%d", log_fd);
    /* opened anew, so that it has its own position and lock */
    int log = open(own, O_RDWR | O_CLOEXEC);
    /* Trim only with the lock. If another process has it, that process trims the log,
     * or has just done so. */
    if (log >= 0 && flock(log, LOCK_EX | LOCK_NB) == 0 && is_longer(log_max_bytes)) {
        if (older_path(own, older)) {
            move_to(log, older);
        } else {
            (void)!ftruncate(log, 0);
        }
    }
    if (log >= 0) {
        (void)close(log);
    }
}
