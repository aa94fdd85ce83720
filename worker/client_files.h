/*
 * Files of the client, for data sets whose source is the client: a source that asks the
 * client for blocks of COXI_FILE_BLOCK bytes, and keeps them for all steps of a run. It
 * asks for the next block while a block is read. A client that answers no request at all
 * for COXI_FILE_WAIT_MS is not waited for any longer.
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

enum { COXI_FILE_BLOCK = 1 << 20, COXI_FILE_WAIT_MS = 60000 };

struct coxi_client_block;

struct coxi_client_files {
    struct coxi_link *link; /* of the run: its control connection */
    size_t blocks_max;
    uint32_t wait_ms; /* COXI_FILE_WAIT_MS; tests shorten it */
    struct coxi_mutex lock;
    pthread_cond_t changed; /* a block has come, or the wait must end */
    /* the most recently used one first */
    struct coxi_client_block *first COXI_GUARDED_BY(lock);
    size_t n COXI_GUARDED_BY(lock);
    uint64_t requests COXI_GUARDED_BY(lock); /* the number of the last one */
    uint64_t heard_ms COXI_GUARDED_BY(lock); /* when it answered last */
    bool closed COXI_GUARDED_BY(lock);       /* the client is gone */
};

/* `link` is the run's; it stays until fini. */
void coxi_client_files_init(struct coxi_client_files *files, struct coxi_link *link,
                            size_t max);
void coxi_client_files_fini(struct coxi_client_files *files);

/* The client is gone: reads fail with COX_ECLOSED from now on. */
void coxi_client_files_close(struct coxi_client_files *files);

/* An answer of the client; one that has come too late is dropped. COX_EPROTO: nobody has
 * asked for it. */
int coxi_client_files_answer(struct coxi_client_files *files, uint64_t request,
                             const struct coxi_file_bytes *answer, const void *bytes,
                             size_t len);

/* Opens a task's file, at the client. Borrows the files and the task. COX_ENOMEM. Reads
 * end with COX_ETIMEDOUT, COX_ECLOSED, COX_ECANCELLED, or what the client says. */
int coxi_source_open_client(struct coxi_client_files *files,
                            const struct coxi_task *task, struct coxi_source *ret);

#endif
