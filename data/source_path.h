/* Sources of this machine's file system. */
#ifndef COXI_DATA_SOURCE_PATH_H
#define COXI_DATA_SOURCE_PATH_H

#include "data/source.h"

/* Opens a regular file. COX_ENOENT, COX_EIO (also: not a regular file). */
int coxi_source_open_path(const char *path, struct coxi_source *ret);

#endif
