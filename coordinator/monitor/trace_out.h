/*
 * The file of a trace, which a thread of its own writes. Only that thread waits for the disk.
 * If the disk does not answer, the thread is left behind with everything that it uses, and
 * writes nothing more.
 */
#ifndef COXI_COORDINATOR_MONITOR_TRACE_OUT_H
#define COXI_COORDINATOR_MONITOR_TRACE_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"

struct coxi_trace_out;

/* Makes the file `path`, or if that is NULL, takes `fd`, also on failure. COX_EIO: the file
 * cannot be made. COX_ENOMEM. */
int coxi_trace_out_new(const char *path, int fd, struct coxi_trace_out **ret);

/* Has the text written. It is empty afterwards. Does not block. */
void coxi_trace_out_add(struct coxi_trace_out *out, struct coxi_buffer *text);

/* So much waits for the disk that the caller should keep what it has. */
bool coxi_trace_out_is_behind(struct coxi_trace_out *out);

/* A write has failed, and the file is not complete. */
bool coxi_trace_out_has_failed(struct coxi_trace_out *out);

/* No text will be added. True: the file is closed. Otherwise this waits for that, for `ms`
 * at most; *ret_silent_ms: how long the disk has taken nothing. */
bool coxi_trace_out_end(struct coxi_trace_out *out, int ms, uint64_t *ret_silent_ms);

/* After coxi_trace_out_end: frees it, at once or when the disk answers. COX_EIO: a write has
 * failed. COX_ETIMEDOUT: the disk does not answer. The file is not complete then. */
int coxi_trace_out_close(struct coxi_trace_out *out);

#endif
