/*
 * Files in the safetensors format: u64 header length, JSON header, then the tensors'
 * data without gaps. Written in one pass. Readers copy data into memory of their own:
 * another process may shorten or change a file while it is open, and its tensors may
 * lie at odd addresses.
 * Format: https://huggingface.co/docs/safetensors (header at most 100 MB, offsets
 * sorted, no holes).
 */
#ifndef COXI_CHECKPOINT_SAFETENSORS_H
#define COXI_CHECKPOINT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "checkpoint/place.h"
#include "coxswain/types.h"

struct coxi_st_tensor {
    const char *name;
    const char *dtype; /* "F32", "U64", ... */
    uint32_t rank;
    uint64_t shape[COX_RANK_MAX];
    uint64_t bytes; /* of all elements */
    /* Only for reading; both live while the file is open. `data`: the tensor was put
     * together in memory. `file`: its bytes begin at `at` in that file. Both NULL: it is
     * put together from several files, and only coxi_st_stream() reads it. */
    const void *data;
    const struct coxi_st_file *file;
    uint64_t at;
};

struct coxi_st_metadata {
    const char *key;
    const char *value;
};

struct coxi_st_writer;
struct coxi_st_file;

/*
 * Creates `path` (it must not exist) and writes the header. Write the data of each
 * tensor after that, in order, in pieces of any size. COX_EIO: the text names the file
 * and the reason; COX_EINVAL: a name is given twice or is not UTF-8; COX_ENOMEM.
 */
int coxi_st_create(const char *path, const struct coxi_st_tensor *tensors, size_t n,
                   const struct coxi_st_metadata *metadata, size_t n_metadata,
                   struct coxi_st_writer **ret);

/* The same, into a sink, which it takes (also on failure: then the sink is abandoned).
 * `name`: of the file, for error texts. Errors of the sink. */
int coxi_st_create_in(const struct coxi_file_sink *sink, const char *name,
                      const struct coxi_st_tensor *tensors, size_t n,
                      const struct coxi_st_metadata *metadata, size_t n_metadata,
                      struct coxi_st_writer **ret);

/* The same, if the file lies beneath `root` (common/beneath.h); NULL: anywhere. */
int coxi_st_create_beneath(const char *root, const char *path,
                           const struct coxi_st_tensor *tensors, size_t n,
                           const struct coxi_st_metadata *metadata, size_t n_metadata,
                           struct coxi_st_writer **ret);

/* Writes the next bytes of a tensor; tensors may be written in turns. */
int coxi_st_put(struct coxi_st_writer *writer, size_t tensor, const void *data,
                size_t len);

/* Writes the next bytes of the file's data, in which the tensors follow each other. */
int coxi_st_write(struct coxi_st_writer *writer, const void *data, size_t len);

/*
 * Ends the file and syncs it to disk (fsync). *ret_crc32 is zlib's crc32 of the whole
 * file. Frees the writer in any case; on failure it removes the file.
 */
int coxi_st_finish(struct coxi_st_writer *writer, uint64_t *ret_bytes,
                   uint32_t *ret_crc32);

/* Removes the unfinished file and frees the writer. Takes NULL. */
void coxi_st_abandon(struct coxi_st_writer *writer);

/*
 * Opens a file that must have exactly `bytes` bytes and, if `crc32` is not NULL, that
 * checksum. COX_EIO; COX_ECHECKSUM; COX_EFORMAT: the text says what is wrong. The bytes
 * are not trusted.
 */
int coxi_st_open(const char *path, uint64_t bytes, const uint32_t *crc32,
                 struct coxi_st_file **ret);

/* The same, if the file lies beneath `root` (common/beneath.h); NULL: anywhere. */
int coxi_st_open_beneath(const char *root, const char *path, uint64_t bytes,
                         const uint32_t *crc32, struct coxi_st_file **ret);

/* The same for an object in a store, which is copied into a file without a name first
 * (checkpoint/place.h). COX_ENOENT. */
int coxi_st_open_copy(const char *path, uint64_t bytes, uint32_t crc32,
                      struct coxi_st_file **ret);

/* Reads from a source, which it borrows until coxi_st_close. Checks no checksum. Errors
 * of the source. */
int coxi_st_open_from(const struct coxi_file_source *source, const char *name,
                      uint64_t bytes, struct coxi_st_file **ret);
size_t coxi_st_count(const struct coxi_st_file *file);
const struct coxi_st_tensor *coxi_st_at(const struct coxi_st_file *file, size_t i);
const struct coxi_st_tensor *coxi_st_find(const struct coxi_st_file *file,
                                          const char *name); /* or NULL */
const char *coxi_st_metadata(const struct coxi_st_file *file,
                             const char *key); /* or NULL */
void coxi_st_close(struct coxi_st_file *file); /* takes NULL */

/* True: each read of values is a request to a store, so read much at a time. */
bool coxi_st_is_remote(const struct coxi_st_file *file);

/* Copies the bytes [at, at + len) of a tensor into `to`. COX_EIO; COX_EFORMAT: the file
 * ends before them, because it was shortened while it was open. The text names the file
 * and the offset. Any thread. */
int coxi_st_read(const struct coxi_st_tensor *tensor, uint64_t at, void *to,
                 size_t len);

/* Copies all bytes of a tensor into new memory, 64-aligned, for free(). COX_ENOMEM;
 * errors of coxi_st_read. Any thread. */
int coxi_st_read_all(const struct coxi_st_tensor *tensor, void **ret);

/* Receives the next `len` bytes of a tensor, whole elements, which are aligned and
 * valid during the call. */
typedef int coxi_st_take(void *arg, const void *data, size_t len);

/*
 * Gives all data of one of the file's tensors to `take`, in order, in pieces of 1 MiB
 * (or of a row, if that is longer). If `take` returns a code other than 0, this ends
 * with that code. COX_ENOMEM; errors of coxi_st_read. Any thread.
 */
int coxi_st_stream(const struct coxi_st_file *file, const struct coxi_st_tensor *tensor,
                   coxi_st_take *take, void *arg);

/* Computes the checksum of a file that was opened without one, while its data are being
 * read. Use loaded data only after the checksum was found correct. */
struct coxi_st_sum;
int coxi_st_sum_new(const struct coxi_st_file *file,
                    struct coxi_st_sum **ret);  /* COX_ENOMEM; borrows the file */
void coxi_st_sum_free(struct coxi_st_sum *sum); /* takes NULL */

/* Like coxi_st_read, and adds the bytes to the sum. Afterwards they are in the
 * processor's caches, and the kernel is reading the bytes that follow them. Read each
 * byte once, in long pieces. Any thread. */
int coxi_st_sum_read(struct coxi_st_sum *sum, const struct coxi_st_tensor *tensor,
                     uint64_t at, void *to, size_t len);

/* Reads the bytes that were in no piece; *ret is the file's crc32. Call it when no
 * thread reads any more. COX_ENOMEM; errors of coxi_st_read. */
int coxi_st_sum_end(struct coxi_st_sum *sum, uint32_t *ret);

#endif
