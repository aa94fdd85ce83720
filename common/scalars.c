/* See scalars.h. */
#include "common/scalars.h"

#include <string.h>

enum { HEAD = 9 };

int coxi_scalars_add(struct coxi_buffer *to, const char *name, double value)
{
    uint8_t packed[HEAD + COXI_SCALARS_NAME_MAX];
    size_t len = strlen(name);
    memcpy(packed, &value, sizeof(value));
    packed[HEAD - 1] = (uint8_t)len;
    memcpy(packed + HEAD, name, len); /* NOLINT(bugprone-not-null-terminated-result) */
    return coxi_buffer_append_raw(to, packed, HEAD + len);
}

bool coxi_scalars_next(const uint8_t **at, size_t *len, struct coxi_scalar *ret)
{
    size_t name_len = *len >= HEAD ? (*at)[HEAD - 1] : 0;
    if (name_len == 0 || name_len > COXI_SCALARS_NAME_MAX || *len - HEAD < name_len ||
        memchr(*at + HEAD, '\0', name_len) != NULL) {
        return false;
    }
    memcpy(&ret->value, *at, sizeof(ret->value));
    memcpy(ret->name, *at + HEAD, name_len);
    ret->name[name_len] = '\0';
    *at += HEAD + name_len;
    *len -= HEAD + name_len;
    return true;
}

bool coxi_scalars_check(const uint8_t *at, size_t len)
{
    struct coxi_scalar scalar;
    size_t n = 0;
    while (n <= COXI_SCALARS_MAX && coxi_scalars_next(&at, &len, &scalar)) {
        n++;
    }
    return len == 0 && n <= COXI_SCALARS_MAX;
}
