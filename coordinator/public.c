/* What all public functions share: their errors' texts, and structs of other versions. Any
 * thread. */
#include <string.h>

#include "common/error.h"
#include "coordinator/coordinator.h"

const char *cox_strerror(int code)
{
    return coxi_strerror(code);
}

const char *cox_error_last(void)
{
    return coxi_error_text();
}

const char *cox_version(void)
{
#define TEXT_OF(x)          #x
#define VERSION_OF(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)
    return VERSION_OF(COX_VERSION_MAJOR, COX_VERSION_MINOR, COX_VERSION_PATCH);
}

int coxi_struct_copy(void *ret, size_t size, const void *from, const char *what)
{
    size_t given;
    memcpy(&given, from, sizeof(given));
    if (given < sizeof(given)) {
        return coxi_error(COX_EINVAL, "%s: initialize the struct with its _INIT", what);
    }
    for (size_t i = size; i < given; i++) {
        if (((const uint8_t *)from)[i] != 0) {
            return coxi_error(COX_EINVAL,
                              "%s sets something that this version (%s) does not know",
                              what, cox_version());
        }
    }
    memset(ret, 0, size);
    memcpy(ret, from, given < size ? given : size);
    memcpy(ret, &size, sizeof(size));
    return 0;
}

int coxi_struct_return(void *ret, size_t size, const void *from, const char *what)
{
    size_t wanted;
    memcpy(&wanted, ret, sizeof(wanted));
    if (wanted < sizeof(wanted)) {
        return coxi_error(COX_EINVAL, "%s: initialize the struct with its _INIT", what);
    }
    memcpy(ret, from, wanted < size ? wanted : size);
    memcpy(ret, &wanted, sizeof(wanted));
    return 0;
}
