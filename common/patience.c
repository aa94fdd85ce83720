/* See patience.h. */
#include "common/patience.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "common/error.h"

int coxi_patience_fill(const struct coxi_patience_field *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *text = getenv(all[i].variable); // NOLINT(concurrency-mt-unsafe)
        if (*all[i].ms != 0 || text == NULL || *text == '\0') {
            continue;
        }
        char *end;
        errno = 0;
        long ms = strtol(text, &end, 10);
        if (*end != '\0' || errno != 0 || ms < (all[i].must_end ? 1 : -1) || ms == 0 ||
            ms > INT_MAX) {
            return coxi_error(COX_EINVAL,
                              "%s is '%.40s': it must be a number of milliseconds from "
                              "1 to %d%s",
                              all[i].variable, text, INT_MAX,
                              all[i].must_end ? "" : ", or -1 for no limit");
        }
        *all[i].ms = (int)ms;
    }
    return 0;
}
