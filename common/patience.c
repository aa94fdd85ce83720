/* See patience.h. */
#include "common/patience.h"

atomic_uint coxi_patience_ms = COXI_PATIENCE_MS;
