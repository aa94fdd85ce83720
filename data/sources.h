/* The kinds of sources by name: a table of URL schemes; any other name is a path. */
#ifndef COXI_DATA_SOURCES_H
#define COXI_DATA_SOURCES_H

#include "data/source.h"

/* Opens a path, or a URL if this build has its scheme. COX_ENOENT, COX_EIO, COX_EINVAL
 * (a scheme that is not known). */
int coxi_source_open(const char *name, struct coxi_source *ret);

#endif
