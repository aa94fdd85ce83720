/* See log.h. State: who speaks, set once at start. */
#include "common/log.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/error.h"

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static const char *log_role = "client";
static uint32_t log_index;
static enum coxi_log_level log_least = COXI_LOG_WARN;
static int log_fd = STDERR_FILENO;

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

static void write_line(enum coxi_log_level level, const char *event, const char *format,
                       va_list args)
{
    int saved = errno;
    char line[2048];
    struct timespec now;
    struct tm utc;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    size_t used = strftime(line, sizeof(line), "ts=%Y-%m-%dT%H:%M:%S", &utc);
    used += (size_t)snprintf(
        line + used, sizeof(line) - used, ".%03ldZ level=%s role=%s index=%u event=%s ",
        now.tv_nsec / 1000000, level_names[level], log_role, log_index, event);
    int more = vsnprintf(line + used, sizeof(line) - used, format, args);
    used += more > 0 ? (size_t)more : 0;
    if (used > sizeof(line) - 2) {
        used = sizeof(line) - 2;
    }
    /* What a peer or a path puts into a value must not look like another event. */
    for (size_t i = 0; i < used; i++) {
        line[i] = iscntrl((unsigned char)line[i]) ? '.' : line[i];
    }
    line[used++] = '\n';
    /* A log that cannot be written has nobody to tell. */
    ssize_t ignored = write(log_fd, line, used);
    (void)ignored;
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
