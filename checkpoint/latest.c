/* See latest.h. */
#include "checkpoint/latest.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/place.h"
#include "common/error.h"
#include "common/file.h"

/* The number in "ckpt-<n>\n"; 0 if the line has another form. */
static uint64_t latest_number(const char *line)
{
    static const char prefix[] = "ckpt-";
    const char *digits = line + strlen(prefix);
    if (strncmp(line, prefix, strlen(prefix)) != 0 ||
        strcmp(digits + strspn(digits, "0123456789"), "\n") != 0) {
        return 0;
    }
    uint64_t number = strtoull(digits, NULL, 10);
    /* strtoull returns the highest number also if the text is too large */
    return number < UINT64_MAX ? number : 0;
}

int coxi_latest_read(const char *dir, uint64_t *ret_number)
{
    enum { LATEST_MAX = 64 };
    char path[PATH_MAX];
    uint8_t *line = NULL;
    size_t len = 0;
    int r = coxi_path(path, "%s/LATEST", dir);
    if (r == 0) {
        r = coxi_place_read(path, LATEST_MAX, &line, &len);
    }
    if (r != 0 && r != COX_ELIMIT) {
        return r;
    }
    uint64_t number = r == 0 ? latest_number((const char *)line) : 0;
    free(line);
    if (number == 0) {
        return coxi_error(COX_EFORMAT, "%s names no checkpoint", path);
    }
    *ret_number = number;
    return 0;
}

int coxi_latest_write(const char *dir, uint64_t number)
{
    char path[PATH_MAX];
    char line[64];
    int r = coxi_path(path, "%s/LATEST", dir);
    int len = snprintf(line, sizeof(line), "ckpt-%" PRIu64 "\n", number);
    return r == 0 ? coxi_place_write(path, line, (size_t)len) : r;
}
