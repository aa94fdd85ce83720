/* See differences.h. */
#include "data/differences.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add(const struct coxi_differences *list, const char *name, const char *a,
                const char *b)
{
    char item[512];
    size_t used = strlen(list->text);
    int n = snprintf(item, sizeof(item), "%s%s is %s, not %s", used > 0 ? "; " : "",
                     name, a, b);
    if (n > 0 && (size_t)n < sizeof(item) && used + (size_t)n < list->len) {
        memcpy(list->text + used, item, (size_t)n + 1);
    }
}

void coxi_differ_number(const struct coxi_differences *list, const char *name,
                        uint64_t a, uint64_t b)
{
    char x[32];
    char y[32];
    if (a != b) {
        (void)snprintf(x, sizeof(x), "%" PRIu64, a);
        (void)snprintf(y, sizeof(y), "%" PRIu64, b);
        add(list, name, x, y);
    }
}

void coxi_differ_float(const struct coxi_differences *list, const char *name, float a,
                       float b)
{
    char x[32];
    char y[32];
    uint32_t a_bits;
    uint32_t b_bits;
    memcpy(&a_bits, &a, sizeof(a_bits)); /* equal NaNs are equal */
    memcpy(&b_bits, &b, sizeof(b_bits));
    if (a_bits != b_bits) {
        (void)snprintf(x, sizeof(x), "%.9g", (double)a);
        (void)snprintf(y, sizeof(y), "%.9g", (double)b);
        add(list, name, x, y);
    }
}

void coxi_differ_text(const struct coxi_differences *list, const char *name,
                      const char *a, const char *b)
{
    if (strcmp(a, b) != 0) {
        add(list, name, a, b);
    }
}
