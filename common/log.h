/*
 * The log of a role: one line an event on standard error, as key=value pairs with a
 * fixed event name. Library code does not log, it returns errors; what the client library has
 * to say goes through coordinator/event.h.
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
 * Writes one line in one write(2): `event`, then the formatted key=value pairs, control
 * characters in them as dots, cut where it is long (about 2000 bytes). Any thread.
 */
void coxi_log(enum coxi_log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, whatever the least level is. */
void coxi_log_line(enum coxi_log_level level, const char *event, const char *format,
                   ...) __attribute__((format(printf, 3, 4)));

#endif
