/*
 * A file of events for TensorBoard: TFRecords (length, masked crc32c of it, bytes, masked
 * crc32c of them) of protocol buffers, which are so simple that they are written by hand:
 *
 *     Event:   1 wall_time (double)  2 step (int64)  3 file_version (string)
 *              5 summary (Summary)   7 session_log (SessionLog)
 *     Summary: 1 value (repeated: 1 tag (string), 2 simple_value (float))
 *     SessionLog: 1 status (1: START)
 *
 * One thread at a time. What is added waits in memory for coxi_event_file_flush.
 */
#ifndef COXI_COORDINATOR_MONITOR_EVENT_FILE_H
#define COXI_COORDINATOR_MONITOR_EVENT_FILE_H

#include <stdint.h>

struct coxi_event_file;

/*
 * Begins a file in directory `dir`. The first flush makes both, the directory if it is
 * missing. The file's name sorts behind those of other such files there, so that
 * TensorBoard reads it after them. It begins with the restart of the run at `first_step`:
 * TensorBoard forgets points of the older files whose step is not below that. COX_EINVAL:
 * the path is too long. COX_ENOMEM.
 */
int coxi_event_file_new(const char *dir, uint64_t first_step,
                        struct coxi_event_file **ret);

/* Closes the file without a flush. Takes NULL. */
void coxi_event_file_free(struct coxi_event_file *file);

/* Adds a point. TensorBoard has floats: the value is rounded to one. COX_ENOMEM; COX_EIO:
 * too much waits, because the file cannot be written. */
int coxi_event_file_scalar(struct coxi_event_file *file, const char *tag, uint64_t step,
                           double t, double value);

/* Writes what was added: all of it or nothing; then it still waits, also if the file could
 * not be made. COX_EIO. */
int coxi_event_file_flush(struct coxi_event_file *file);

#endif
