/*
 * A task as it travels: the first argument of a closure (and so in replay logs and
 * backlogs). It has all that a worker needs, so that workers keep nothing of a data set
 * between closures.
 *
 * Threads: any.
 */
#ifndef COXI_DATA_TASK_H
#define COXI_DATA_TASK_H

#include "common/buffer.h"
#include "data/decoding.h"
#include "data/source.h"

/* Programs may not give arguments and results names that begin with this. */
#define COXI_RESERVED '\1'
/* The argument with the packed task: U8 [bytes]. The closure's first argument; steps do
 * not see it. */
#define COXI_TASK_ARGUMENT "\1task"
/* The result in which a worker tells what was read: U8 [bytes], packed counts. The last
 * result; programs do not see it. */
#define COXI_TASK_RESULT "\1read"

enum {
    COXI_DATASET_NAME_MAX = 127,
    COXI_FILE_NAME_MAX = 4095,
    COXI_FIRST_BAD = 4,
    COXI_REASON_MAX = 255,
};

struct coxi_task {
    const char *dataset;
    const char *file; /* path or URL */
    uint64_t epoch;
    uint64_t place;    /* among the tasks of the epoch, in the order of the files */
    uint64_t position; /* among all tasks of all epochs, in the order of hand-outs */
    uint64_t begin;    /* records that begin in [begin, end) of the file */
    uint64_t end;      /* UINT64_MAX: the file's end */
    struct coxi_file_mark mark;
    uint32_t source;   /* enum cox_source */
    uint32_t failures; /* of earlier closures with this task */
    uint32_t batch_size;
    uint32_t shuffle_window;
    uint32_t prefetch;
    uint64_t seed; /* of this task in this epoch */
    struct coxi_decoding decoding;
};

/* Packs into a buffer, without padding. COX_ENOMEM. */
int coxi_task_pack(const struct coxi_task *task, struct coxi_buffer *to);

/* Unpacks; texts stay in the bytes. Release the rest with coxi_task_fini. COX_EFORMAT:
 * the bytes, which may come from a peer or a file, are no task; COX_ENOMEM. */
int coxi_task_unpack(const void *bytes, size_t len, struct coxi_task *ret);

/* Takes a task that was unpacked, or is zeroed. */
void coxi_task_fini(struct coxi_task *task);

/* What a task's reader has met. */
struct coxi_reader_counts {
    uint64_t records;                   /* handed to the step */
    uint64_t bytes;                     /* of the file */
    uint64_t bad;                       /* records that were left out */
    uint64_t first_bad[COXI_FIRST_BAD]; /* offsets of the first of these */
    char first_reason[COXI_REASON_MAX + 1];
};

/* As above; unpacking needs no release. */
int coxi_counts_pack(const struct coxi_reader_counts *counts, struct coxi_buffer *to);
int coxi_counts_unpack(const void *bytes, size_t len, struct coxi_reader_counts *ret);

#endif
