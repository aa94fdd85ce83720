/* See structs.h. */
#include "common/structs.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/error.h"
#include "coxswain/coxswain.h"

static const struct {
    const char *name;
    size_t size;  /* in this version */
    size_t first; /* the end of the fields that every version has */
} structs[] = {
#define END_OF(type, field) (offsetof(type, field) + sizeof(((type *)NULL)->field))
#define ROW(id, type, last)                                                            \
    [COXI_STRUCT_##id] = {#type, sizeof(struct type), END_OF(struct type, last)},
    COXI_STRUCTS(ROW)
#undef ROW
};

int coxi_struct_check(enum coxi_struct of, const void *given)
{
    size_t size;
    memcpy(&size, given, sizeof(size));
    return size >= structs[of].first && size % sizeof(size) == 0
               ? 0
               : coxi_error(COX_EINVAL,
                            "%s: its size is %zu, which no version has: initialize the "
                            "struct with its _INIT",
                            structs[of].name, size);
}

int coxi_struct_copy(void *ret, enum coxi_struct of, const void *from)
{
    const size_t size = structs[of].size;
    size_t given;
    memcpy(&given, from, sizeof(given));
    int r = coxi_struct_check(of, from);
    if (r != 0) {
        return r;
    }
    for (size_t i = size; i < given; i++) {
        if (((const uint8_t *)from)[i] != 0) {
            return coxi_error(COX_EINVAL,
                              "%s sets something that this version (%s) does not know",
                              structs[of].name, COXI_VERSION_TEXT);
        }
    }
    memset(ret, 0, size);
    memcpy(ret, from, given < size ? given : size);
    memcpy(ret, &size, sizeof(size));
    return 0;
}

int coxi_struct_return(void *ret, enum coxi_struct of, const void *from)
{
    size_t wanted;
    memcpy(&wanted, ret, sizeof(wanted));
    int r = coxi_struct_check(of, ret);
    if (r != 0) {
        return r;
    }
    memcpy(ret, from, wanted < structs[of].size ? wanted : structs[of].size);
    memcpy(ret, &wanted, sizeof(wanted));
    return 0;
}
