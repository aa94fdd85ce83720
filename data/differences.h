/* A list of differences for the text of an error: "format is csv, not text; ...". Items
 * that do not fit are left out. Any thread. */
#ifndef COXI_DATA_DIFFERENCES_H
#define COXI_DATA_DIFFERENCES_H

#include <stddef.h>
#include <stdint.h>

struct coxi_differences {
    char *text; /* "" at first */
    size_t len;
};

/* Each adds "`name` is `a`, not `b`" if the two differ. */
void coxi_differ_number(const struct coxi_differences *list, const char *name,
                        uint64_t a, uint64_t b);
void coxi_differ_float(const struct coxi_differences *list, const char *name, float a,
                       float b);
void coxi_differ_text(const struct coxi_differences *list, const char *name,
                      const char *a, const char *b);

#endif
