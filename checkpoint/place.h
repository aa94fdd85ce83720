/*
 * Where checkpoints are kept: in directories of files, or in a store of objects, beneath
 * s3://BUCKET/PREFIX (objects/s3.h). A path that begins with "s3://" names an object, or
 * a prefix of objects; all others name files.
 *
 * Errors of all calls, besides their own: COX_EIO, COX_ENOMEM, COX_ECANCELLED (the thread
 * gives up, common/disk.h). The text names the file or object and the reason.
 *
 * Threads: any. All functions block.
 */
#ifndef COXI_CHECKPOINT_PLACE_H
#define COXI_CHECKPOINT_PLACE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/sink.h"

/* True: the path lies in a store of objects. Any path. */
bool coxi_place_in_store(const char *path);

/*
 * Takes the name of a directory or a place in a store as a user gives it, and says it without
 * the slashes that mean nothing: those at its end, in a store also several in a row. All
 * others get names from here, so that client, ps and tools mean the same place by the same
 * name. COX_EINVAL: it has a scheme ("S3://", "file:/"), but not "s3://", or no bucket, or is
 * too long. Asks nobody.
 */
int coxi_place_take(const char *given, char ret[PATH_MAX]);

/* The one name of an existing directory, or of a prefix, whatever links lead there.
 * COX_ENOENT. */
int coxi_place_real(const char *path, char ret[PATH_MAX]);

/* ---- long files */

/*
 * Makes a new file of `bytes` bytes (0: not known yet) beneath `root` (NULL: anywhere;
 * common/beneath.h). An object may take an older one's place. COX_EIO also if the path
 * does not lie beneath the root.
 */
int coxi_place_create(const char *root, const char *path, uint64_t bytes,
                      struct coxi_file_sink *ret);

/* Opens a file that must have `bytes` bytes, beneath `root`. COX_EFORMAT: it has another
 * length. Reading: COX_EFORMAT (it was shortened). */
int coxi_place_open(const char *root, const char *path, uint64_t bytes,
                    struct coxi_file_source *ret);
void coxi_place_close(struct coxi_file_source *source); /* takes a zeroed one */

/*
 * Copies an object of `bytes` bytes into a new file without a name in $TMPDIR, for readers
 * that jump about in it. *ret reads from that file, whose checksum is *ret_crc32.
 * COX_ENOENT, COX_EFORMAT.
 */
int coxi_place_fetch(const char *path, uint64_t bytes, struct coxi_file_source *ret,
                     uint32_t *ret_crc32);

/* The bytes will soon be read: the kernel may begin to read them. Of a source that
 * coxi_place_open or coxi_place_fetch has made, or of any other: then it does nothing. */
void coxi_place_expect(const struct coxi_file_source *source, uint64_t at,
                       uint64_t len);

/* ---- short files */

/* Reads a whole file of at most `max` bytes, and adds a NUL. *ret is for free().
 * COX_ENOENT, COX_ELIMIT. */
int coxi_place_read(const char *path, size_t max, uint8_t **ret, size_t *ret_len);

/* Writes a file so that it appears either whole or not at all, in the place of an older
 * one. When this returns, it is durable under its name. */
int coxi_place_write(const char *path, const void *bytes, size_t len);

/* The same, if there is no such file. COX_EEXIST: there is one. `token`: a number of the
 * caller's own, which is in no other process's files of that name. */
int coxi_place_write_new(const char *path, const void *bytes, size_t len,
                         uint64_t token);

/*
 * Appends a line, with its newline, to a file, which is made if it is missing. If the file
 * ends within a line, the new line begins behind a newline. Several processes may do so
 * at a time. In a store, this reads and writes the whole file. If an answer is lost there,
 * and another process appends at that moment, the line may be there twice, unless it
 * `is_unique`: no other line of the file is like it.
 */
int coxi_place_append(const char *path, const char *line, bool is_unique);

/* Success also if there is no such file. */
int coxi_place_remove(const char *path);

/* ---- directories */

/* Calls `found` with the names in a directory that begin with `prefix`, in no order. In a
 * store: with the names of objects. Another result than 0 ends it, and is returned.
 * COX_ENOENT: there is no such directory; a store has all. */
int coxi_place_names(const char *dir, const char *prefix,
                     int (*found)(void *arg, const char *name), void *arg);

/* Finds missing permissions, read-only file systems, stores that do not know conditions
 * and the like. Makes the directory. In a store, removes what such looks, and those of ps
 * (struct coxi_probe), have left there an hour ago or before. */
int coxi_place_try(const char *dir);

#endif
