/* The ends of the logs in a directory. Any thread; reads files. */
#ifndef COXI_PAGE_LOGS_H
#define COXI_PAGE_LOGS_H

#include "common/buffer.h"

/*
 * Appends {"logs":[{"name":"ps-0","text":"..."}, ...]}: of each file *.log in `dir` the last
 * 16 KiB in whole lines, by name; of many files the 32 that were written last. No
 * directory (or NULL): an empty list. COX_ENOMEM.
 */
int coxi_logs_json(const char *dir, struct coxi_buffer *out);

#endif
