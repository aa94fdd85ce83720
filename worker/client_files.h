/*
 * Files of the client, for data sets whose source is the client: a source that asks the
 * client for blocks of COXI_FILE_BLOCK bytes, and keeps them for all steps of a run. It
 * asks for the next block while a block is read.
 *
 * Memory: blocks of at most `max` bytes; more only if readers need them at the same time:
 * one each. The least recently used one goes first.
 *
 * Locks: `lock` comes before a link's locks. Threads: any.
 */
#ifndef COXI_WORKER_CLIENT_FILES_H
#define COXI_WORKER_CLIENT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/sync.h"
#include "data/source.h"
#include "data/task.h"
#include "net/link.h"
#include "schema/wire.h"

enum { COXI_FILE_BLOCK = 1 << 20 };

struct coxi_client_block;

struct coxi_client_files {
    struct coxi_link *link; /* of the run: its control connection */
    size_t blocks_max;
    struct coxi_mutex lock;
    pthread_cond_t changed; /* a block has come, or the wait must end */
    /* the most recently used one first */
    struct coxi_client_block *first COXI_GUARDED_BY(lock);
    size_t n COXI_GUARDED_BY(lock);
    uint64_t requests COXI_GUARDED_BY(lock); /* the number of the last one */
    bool closed COXI_GUARDED_BY(lock);       /* the client is gone */
};

/* `link` is the run's; it stays until fini. */
void coxi_client_files_init(struct coxi_client_files *files, struct coxi_link *link,
                            size_t max);
void coxi_client_files_fini(struct coxi_client_files *files);

/* The client is gone: reads fail with COX_ECLOSED from now on. */
void coxi_client_files_close(struct coxi_client_files *files);

/* An answer of the client, which may have come too late. COX_EPROTO. */
int coxi_client_files_answer(struct coxi_client_files *files, uint64_t request,
                             const struct coxi_file_bytes *answer, const void *bytes,
                             size_t len);

/* Opens a task's file, at the client. Borrows the files and the task. COX_ENOMEM. */
int coxi_source_open_client(struct coxi_client_files *files,
                            const struct coxi_task *task, struct coxi_source *ret);

#endif
