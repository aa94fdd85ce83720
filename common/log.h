/*
 * The log of a role: one line for each event on standard error, as key=value pairs with
 * a fixed event name. Library code does not log but returns errors. The client library
 * tells events through coordinator/base/event.h.
 *
 *   ts=2026-01-31T12:00:00.123Z level=info role=ps index=0 event=listening address=...
 */
#ifndef COXI_COMMON_LOG_H
#define COXI_COMMON_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum coxi_log_level { COXI_LOG_DEBUG, COXI_LOG_INFO, COXI_LOG_WARN, COXI_LOG_ERROR };

/* Sets the role and index of all lines; `role` is borrowed for ever. Call it before
 * other threads start. */
void coxi_log_init(const char *role, uint32_t index, enum coxi_log_level least);

/* "debug", "info", "warn", "error" to a level; COX_EINVAL otherwise. */
int coxi_log_level_parse(const char *text, enum coxi_log_level *ret);

/*
 * Chooses the format of all lines: "text", or "json", one object a line
 * (common/log_json.h). NULL: what COX_LOG_FORMAT in the environment says; without that,
 * "text". COX_EINVAL: it is neither. At start, but a second call may come at any time.
 */
int coxi_log_format(const char *format);
bool coxi_log_is_json(void);

/* Lines go to this file descriptor (borrowed) instead of standard error. At start. */
void coxi_log_to(int fd);

/*
 * Also writes lines of level `least` and above to `fd` (borrowed), for the program that
 * started this one and does not read its log. Such a write does not block; if `fd` is
 * full, the line is only in the log. At start.
 */
void coxi_log_alert(int fd, enum coxi_log_level least);
int coxi_log_alert_fd(void); /* the `fd` of coxi_log_alert; -1: none */

/*
 * Bounds the log, if it is a regular file: coxi_log_trim() keeps it below `max_bytes`
 * (0: no bound). From now on all processes that share this descriptor append to the
 * file. At start, before coxi_log_to().
 */
void coxi_log_bound(uint64_t max_bytes);

/*
 * If the log is longer than its bound, copies it to "<file>.1", which is replaced, and
 * empties the file. Other writers, such as steps that print, may go on writing. A line
 * that another process writes at that moment may be lost. Several processes may share
 * the file. Daemons call this with each tick. One thread.
 */
void coxi_log_trim(void);

/* Writes one line in one write(2): `event`, then the formatted key=value pairs, whose
 * texts are escaped (common/log_line.h). A line longer than about 2000 bytes is cut. Any
 * thread. */
void coxi_log(enum coxi_log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Like coxi_log, but regardless of the least level. */
void coxi_log_line(enum coxi_log_level level, const char *event, const char *format,
                   ...) __attribute__((format(printf, 3, 4)));

/*
 * Bounds the lines about a kind of event that a stranger can cause as often as he likes,
 * because strangers must not fill the disk: at most one line in COXI_SELDOM_MS. A zeroed
 * one is ready for use.
 */
struct coxi_seldom {
    atomic_uint_least64_t told_ms;
    atomic_uint_least64_t n; /* events since the last line */
    atomic_uint lines;       /* since told_ms, for coxi_seldom_some */
};

enum { COXI_SELDOM_MS = 10000, COXI_SELDOM_SOME = 16 };

/* Counts an event. True: log a line now, which says *ret_n, the number of events since
 * the last line, this one included. Any thread. */
bool coxi_seldom(struct coxi_seldom *seldom, uint64_t *ret_n);

/* The same for events that members cause, of which each counts as long as there are few:
 * COXI_SELDOM_SOME lines in COXI_SELDOM_MS. */
bool coxi_seldom_some(struct coxi_seldom *seldom, uint64_t *ret_n);

#endif
