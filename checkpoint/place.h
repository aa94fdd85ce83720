/* Sinks and sources (common/sink.h) of files on disk. */
#ifndef COXI_CHECKPOINT_PLACE_H
#define COXI_CHECKPOINT_PLACE_H

#include <stdint.h>

#include "common/sink.h"

/* Makes a new file beneath `root` (common/beneath.h; NULL: anywhere). COX_EIO: the text
 * names the file and the reason; so do the calls of the sink. COX_ENOMEM. */
int coxi_place_create(const char *root, const char *path, struct coxi_file_sink *ret);

/* Opens a file that must have `bytes` bytes, beneath `root`. COX_EIO, COX_ENOMEM;
 * COX_EFORMAT: it has another length. Reading: COX_EIO, COX_EFORMAT (it was shortened).
 * Release the source with coxi_place_close. */
int coxi_place_open(const char *root, const char *path, uint64_t bytes,
                    struct coxi_file_source *ret);
void coxi_place_close(struct coxi_file_source *source);

#endif
