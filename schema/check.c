/* See check.h. Uses no memory and no lock, because the process may be damaged. */
#include "schema/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void coxi_check_failed(const char *condition, const char *file, int line)
{
    char text[512];
    int len = snprintf(text, sizeof(text), "%s:%d: check failed: %s\n", file, line,
                       condition);
    size_t bytes = len < 0                       ? 0
                   : (size_t)len >= sizeof(text) ? sizeof(text) - 1
                                                 : (size_t)len;
    (void)!write(STDERR_FILENO, text, bytes);
    abort();
}
