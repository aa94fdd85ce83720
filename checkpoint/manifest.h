/*
 * Checkpoints:
 *
 *   <dir>/ckpt-<n>/ps-<i>-of-<m>.safetensors    a shard: values of a ps (ps/snapshot.c)
 *   <dir>/ckpt-<n>/backlog.safetensors          closures that some ps lack (backlog.h)
 *   <dir>/ckpt-<n>/manifest.json                lists files and variables, with crc32s
 *   <dir>/LATEST                                "ckpt-<n>\n"
 *
 * <dir> is a directory or s3://BUCKET/PREFIX (checkpoint/place.h). In a directory, a
 * checkpoint is written as ckpt-<n>.tmp, and renamed when it is complete and on disk. So a
 * name without .tmp means a complete checkpoint. checkpoint/draft.h says how it is in a
 * store. LATEST is written after that.
 */
#ifndef COXI_CHECKPOINT_MANIFEST_H
#define COXI_CHECKPOINT_MANIFEST_H

#include "checkpoint/manifest_datasets.h"
#include "common/applied_list.h"
#include "schema/wire.h"

enum { COXI_MANIFEST_FORMAT = 1, COXI_MANIFEST_BYTES_MAX = 256 * 1024 * 1024 };

struct coxi_manifest_shard {
    char file[64]; /* in the checkpoint's directory */
    uint64_t bytes;
    uint32_t crc32;
    /* number of the checkpoint whose shard it builds on; 0: it is whole */
    uint64_t base;
    struct coxi_applied_list applied;
};

/* Where a restarted client goes on: the highest closure that was settled or that any ps
 * had, and the cursor of the highest call up to that closure that has a cursor. */
struct coxi_manifest_progress {
    uint64_t closure;
    uint64_t cursor;
    uint64_t cursor_of; /* the id of that call; 0: none had one. Not in the file */
};

/*
 * Notes that the checkpoint covers call `id` with `cursor`; the highest such call's
 * cursor is where the program goes on. Calls without a cursor (an evaluation, say)
 * change nothing. Callers leave out cancelled calls, because the program has to
 * schedule those again.
 */
static inline void coxi_manifest_cover(struct coxi_manifest_progress *progress,
                                       uint64_t id, uint64_t cursor)
{
    if (cursor != 0 && id > progress->cursor_of) {
        progress->cursor = cursor;
        progress->cursor_of = id;
    }
}

struct coxi_manifest {
    struct coxi_session session; /* token: not kept */
    uint64_t number;
    uint64_t base;          /* number of the checkpoint that it builds on; 0: on none */
    uint64_t next_closure;  /* ids given out up to the last shard's moment, plus 1 */
    uint64_t first_closure; /* of the run, from which steps are counted; 0: none yet */
    uint64_t steps_before;  /* the step of first_closure */
    uint64_t next_place; /* of the deterministic round with which the program goes on */
    struct coxi_manifest_progress progress;
    /* of the newest record of the history (records.h) when it was cut. Not in the file */
    uint64_t history_seq;
    /* a file without an applied set; bytes 0: none, because nothing must be repeated */
    struct coxi_manifest_shard backlog;
    double time_s; /* since 1970 */
    bool final;
    struct coxi_manifest_shard *shards; /* by ps */
    uint32_t n_shards;
    /* When written: indexed by id, NULL if the creation failed. When read: only
     * variables that exist, by rising id. */
    struct coxi_variable **variables;
    uint32_t n_variables;
    struct coxi_manifest_datasets datasets;
};

/*
 * In a store (checkpoint/place.h), a manifest.json of at most so many bytes is none, but
 * holds the place of one: the checkpoint is a draft (checkpoint/draft.h).
 */
enum { COXI_PLACEHOLDER_MAX = 64 };

/* "ps-0-of-2.safetensors" */
void coxi_manifest_file(uint32_t ps, uint32_t n_ps, char ret[64]);

/* The text of manifest.json, for free(). COX_ENOMEM. */
int coxi_manifest_text(const struct coxi_manifest *manifest, char **ret);

/* Writes manifest.json into directory `path` and syncs it to disk. COX_EIO,
 * COX_ENOMEM. */
int coxi_manifest_write(const struct coxi_manifest *manifest, const char *path);

/*
 * Adds "crc32" as the last member to the text of a JSON object: zlib's crc32, as eight
 * hex digits, of every byte before the comma in front of it. free() the result; NULL:
 * no memory.
 */
char *coxi_manifest_seal(const char *text);

/* Reads and checks the manifest of the checkpoint `path` (".../ckpt-3"). COX_ENOENT:
 * there is none, or it is a draft (checkpoint/draft.h); COX_EIO; COX_ENOMEM; COX_ECHECKSUM: it was changed or damaged after it
 * was written; COX_EFORMAT says what is wrong. The file is not trusted. */
int coxi_manifest_read(const char *path, struct coxi_manifest **ret);

/* In a store: 0, or COX_ENOENT: `path` is no checkpoint, or a draft; COX_EIO. */
int coxi_manifest_find(const char *path);
void coxi_manifest_free(struct coxi_manifest *manifest); /* takes NULL */

#endif
