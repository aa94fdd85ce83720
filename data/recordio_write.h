/*
 * Writes a RecordIO file, for the tool and for tests.
 *
 * Threads: one at a time.
 */
#ifndef COXI_DATA_RECORDIO_WRITE_H
#define COXI_DATA_RECORDIO_WRITE_H

#include <stddef.h>
#include <stdint.h>

struct coxi_recordio_writer;

/* The bytes of records in a chunk. PaddlePaddle's writer has 32 MiB; with less, files
 * are cut into tasks more evenly. */
enum { COXI_RECORDIO_CHUNK = 1 << 20 };

/* Begins a file `path`.part. `codec`: enum coxi_codec. A chunk ends before a record with
 * which it would have more than `chunk_bytes` bytes (0: COXI_RECORDIO_CHUNK). COX_EIO,
 * COX_ENOMEM. */
int coxi_recordio_create(const char *path, uint32_t codec, size_t chunk_bytes,
                         struct coxi_recordio_writer **ret);

/* COX_ELIMIT: no reader takes a record of that length. COX_EIO, COX_ENOMEM. */
int coxi_recordio_add(struct coxi_recordio_writer *writer, const void *record,
                      size_t len);

/* Writes the rest, and gives the file its name. After an error there is no file of this
 * name that was not there before. Frees the writer in any case; takes NULL. */
int coxi_recordio_finish(struct coxi_recordio_writer *writer);

/* Gives up: removes the part. Takes NULL. */
void coxi_recordio_abandon(struct coxi_recordio_writer *writer);

#endif
