/* See cause.h. */
#include "coordinator/base/cause.h"

#include <string.h>

#include "schema/wire.h"

const char *coxi_cause_text(int cause)
{
    return cause == COXI_CAUSE_EXIT     ? "it called exit or pthread_exit"
           : cause == COXI_CAUSE_MEMORY ? "more memory than --step-memory-max"
                                        : strsignal(cause);
}
