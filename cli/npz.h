/*
 * Archives of arrays that numpy reads (np.load): a zip file with a .npy for each array,
 * always with 64-bit fields (zip64), so that sizes have no bound. Formats: PKWARE
 * APPNOTE 6.3 (4.3, 4.5.3); numpy.lib.format, version 1.0.
 *
 * Threads: one. Memory: two buffers of 64 KiB, and a hundred bytes for each array.
 */
#ifndef COXI_CLI_NPZ_H
#define COXI_CLI_NPZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coxi_npz;

/* Creates or overwrites `path`; `deflate`: compressed. COX_EIO. */
int coxi_npz_create(const char *path, bool deflate, struct coxi_npz **ret);

/* Begins the next array; `descr`: its type in numpy's notation ("<f4"). Its elements
 * follow in pieces of any size. COX_EINVAL: the name would lead somewhere else when the
 * archive is unpacked ("../x", "/x"), or is too long. COX_EIO. */
int coxi_npz_begin(struct coxi_npz *npz, const char *name, const char *descr,
                   uint32_t rank, const uint64_t *shape);
int coxi_npz_write(struct coxi_npz *npz, const void *data, size_t len);

/* Ends the file, which is on disk then. Frees the writer in any case. COX_EIO. */
int coxi_npz_finish(struct coxi_npz *npz);
void coxi_npz_abandon(struct coxi_npz *npz); /* frees the writer; takes NULL */

#endif
