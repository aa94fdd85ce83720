/* See bad.h. */
#include "data/bad.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"

static void count(struct coxi_reader_counts *counts, uint64_t offset,
                  const char *reason)
{
    if (counts->bad == 0) {
        (void)snprintf(counts->first_reason, sizeof(counts->first_reason), "%s",
                       reason);
    }
    if (counts->bad < COXI_FIRST_BAD) {
        counts->first_bad[counts->bad] = offset;
    }
    counts->bad++;
}

int coxi_bad_record(struct coxi_bad_records *bad, int code, uint64_t offset,
                    const char *format, ...)
{
    char reason[COXI_REASON_MAX + 1];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    if (bad->leaves_out) {
        count(&bad->counts, offset, reason);
        if (bad->on_left_out != NULL) {
            bad->on_left_out(bad->arg, offset, reason);
        }
        return 0;
    }
    return coxi_error(code, "%s:%" PRIu64 ": %s", bad->file, offset, reason);
}
