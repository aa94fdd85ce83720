/*
 * Where the files of checkpoints go, and where they come from: a sink takes the bytes of
 * one new file, a source has those of one file. Both know bytes and offsets only. Here
 * are those of files on disk; ps/carry.h has those of a shard that travels between a ps
 * and its client.
 */
#ifndef COXI_CHECKPOINT_PLACE_H
#define COXI_CHECKPOINT_PLACE_H

#include <stddef.h>
#include <stdint.h>

/* Calls follow each other, on any thread. */
struct coxi_file_sink {
    /* The bytes at that offset; they may come in any order, each byte once. */
    int (*write)(void *arg, uint64_t at, const void *data, size_t len);
    /* All bytes are there: makes the file durable. Frees the sink in any case; on failure
     * no file is left. */
    int (*finish)(void *arg);
    /* Drops the file, and frees the sink. */
    void (*abandon)(void *arg);
    void *arg;
};

struct coxi_file_source {
    /* Copies bytes that the file has. Any thread, several at a time. */
    int (*read)(void *arg, uint64_t at, void *to, size_t len);
    void *arg;
};

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
