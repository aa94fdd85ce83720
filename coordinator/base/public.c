/* Public functions about errors and the library itself. Any thread. */

#include "common/error.h"
#include "common/structs.h"
#include "coxswain/coxswain.h"

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
    return COXI_VERSION_TEXT;
}
