/*
 * Traces: what each slot, loop and thread of a run did, in a file that Perfetto
 * (ui.perfetto.dev) and Chrome (chrome://tracing) open. docs/watching.md shows how to read
 * it. Include <coxswain/coxswain.h> instead of this file.
 */
#ifndef COXSWAIN_TRACE_H
#define COXSWAIN_TRACE_H

#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cox_coordinator;

/*
 * Writes a trace to the file `path` from now on, until cox_trace_stop or cox_close.
 * cox_options.trace does the same from the end of cox_open on. Waits until all ps and
 * workers have begun, for at most 5 s; one that comes later is traced from 100 ms
 * after that on. The client asks ps and workers for what they did, ten times a second, and
 * gathers it in the background; what a lost daemon had not told is missing. Of a thread that
 * does more than 4096 things between two questions there are 4096 in a row every 0.8 s.
 * After two million entries the trace ends.
 * Each file has a last entry, "coxswain", with the numbers of entries that were written
 * and lost. Only one trace at a time in a process, and of a worker or ps (of a ps that
 * others use, too: entries of other runs are never told). COX_EBUSY: there is one, of this
 * program, or of `coxswain trace`, which also takes traces of this run (docs/watching.md).
 * COX_EIO: the file cannot be written. Any thread.
 */
COX_API int cox_trace_start(struct cox_coordinator *c, const char *path);

/*
 * Ends the trace: asks everybody for the rest, for at most 5 s (cox_close: a second),
 * and closes the file.
 * COX_EIO: the file could not be written, and is not complete. COX_ETIMEDOUT: neither is
 * it, because its disk has taken nothing for 5 s (in cox_close, or until half a second
 * after its deadline at most). COX_ENOENT: there is no trace that cox_trace_start or
 * cox_options.trace has begun.
 */
COX_API int cox_trace_stop(struct cox_coordinator *c);

#ifdef __cplusplus
}
#endif
#endif
