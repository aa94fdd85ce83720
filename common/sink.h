/*
 * Where the bytes of new files go, and where those of files come from: a sink takes the
 * bytes of one new file, a source has those of one file. Both know bytes and offsets
 * only. checkpoint/place.h has those of files on disk, objects/s3.h those of objects,
 * ps/carry.h those of a shard that travels between a ps and its client.
 */
#ifndef COXI_COMMON_SINK_H
#define COXI_COMMON_SINK_H

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

#endif
