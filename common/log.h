/*
 * The log of a role: one line an event on standard error, as key=value pairs with a
 * fixed event name. Library code does not log, it returns errors; what the client library has
 * to say goes through coordinator/base/event.h.
 *
 *   ts=2026-01-31T12:00:00.123Z level=info role=ps index=0 event=listening address=...
 */
#ifndef COXI_COMMON_LOG_H
#define COXI_COMMON_LOG_H

#include <stdint.h>

enum coxi_log_level { COXI_LOG_DEBUG, COXI_LOG_INFO, COXI_LOG_WARN, COXI_LOG_ERROR };

/* Who speaks, from now on; `role` is borrowed for ever. Before other threads start. */
void coxi_log_init(const char *role, uint32_t index, enum coxi_log_level least);

/* "debug", "info", "warn", "error" to a level; COX_EINVAL otherwise. */
int coxi_log_level_parse(const char *text, enum coxi_log_level *ret);

/* Lines go to this file descriptor (borrowed) instead of standard error. At start. */
void coxi_log_to(int fd);

/*
 * Lines of level `least` and above also go to `fd` (borrowed), for whoever started this program
 * and does not read its log. Writes to it do not block: where it is full, the line is in the
 * log alone. At start.
 */
void coxi_log_alert(int fd, enum coxi_log_level least);
int coxi_log_alert_fd(void); /* that one; -1: there is none */

/*
 * Bounds the log, where it is a regular file: coxi_log_trim() keeps it below `max_bytes` (0: no
 * bound). The file is appended to from here on, by everybody who shares this descriptor. At
 * start, before coxi_log_to().
 */
void coxi_log_bound(uint64_t max_bytes);

/*
 * Moves what a log beyond its bound has to "<file>.1", in place of what that had, and empties
 * the file. So whatever else writes to the file goes on: steps print there, too. A line that
 * another process writes at that very moment may be lost. Several processes may share the file.
 * Nothing happens to a file that is short; daemons call this with each tick. One thread.
 */
void coxi_log_trim(void);

/*
 * Writes one line in one write(2): `event`, then the formatted key=value pairs, control
 * characters in them as dots, cut where it is long (about 2000 bytes). Any thread.
 */
void coxi_log(enum coxi_log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, whatever the least level is. */
void coxi_log_line(enum coxi_log_level level, const char *event, const char *format,
                   ...) __attribute__((format(printf, 3, 4)));

#endif
