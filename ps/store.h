/*
 * The store of a ps: the variables, tables and applied set of a run. It knows no
 * network: the server calls it for its peers; benchmarks and tests may call it
 * directly.
 *
 * All functions except new and free are for any thread. Lock order: `snapshots`, then
 * `registry` (which variables exist), then `moment` (commits against the cut of a
 * snapshot), then rows, blocks and the applied set. Pulls take only the registry.
 */
#ifndef COXI_PS_STORE_H
#define COXI_PS_STORE_H

#include <stdbool.h>

#include "checkpoint/place.h"
#include "common/applied_list.h"
#include "common/buffer.h"
#include "ps/quota.h"
#include "schema/wire.h"

struct coxi_store;

int coxi_store_new(uint32_t ps_index, uint64_t incarnation, struct coxi_store **ret);
void coxi_store_free(struct coxi_store *store); /* takes NULL */

/* Bounds the memory of variables and tables (--memory-max); 0, the initial value: no
 * limit. Call it before the store is used. */
void coxi_store_set_memory_max(struct coxi_store *store, uint64_t bytes);

/* Bounds what the run that has the store may take of the ps. Call it before any
 * variable is made. */
void coxi_store_set_quota(struct coxi_store *store, const struct coxi_quota *quota);

/* The memory of variables and tables counts in `whole`, too, which the store borrows.
 * Call it before the store is used. */
struct coxi_memory;
void coxi_store_count_in(struct coxi_store *store, struct coxi_memory *whole);

/* The memory that commits take in `scratch` counts there (borrowed). Before any. */
void coxi_store_work_in(struct coxi_store *store, struct coxi_memory *work);

/* Snapshots are written, and restored, beneath `root` only (--checkpoint-root), which
 * the store borrows; NULL, the initial value: anywhere. Call it before the store is
 * used. */
void coxi_store_set_root(struct coxi_store *store, const char *root);

/*
 * Claims the store for a run, or for a newer client of the same run. A second claim of
 * the same session changes nothing. Any other claim empties the store and, except for
 * the very first one, begins another incarnation. An incarnation is the life of a ps's
 * contents, not of its process. So a peer that knows an incarnation (a client that was
 * cut off, its workers, a commit under way) either finds everything that it left, or
 * gets COX_EPSLOST. COX_EFENCED: a newer client of the run has claimed the store, even
 * if it has released it since (ps/served.h). COX_EBUSY: another run has the store, and
 * its session is not `gone`: the one whose client was found to be gone (NULL: none).
 */
int coxi_store_claim(struct coxi_store *store, const struct coxi_session *session,
                     const struct coxi_session *gone);

/*
 * Empties the store for the session that has it, and begins another incarnation, if the
 * present one is `leaves`; otherwise does nothing. So a repeated call changes nothing.
 * COX_EFENCED; COX_ENOMEM: the store has no client.
 */
int coxi_store_renew(struct coxi_store *store, const struct coxi_session *session,
                     uint64_t leaves);

/* The current incarnation. Never waits. */
uint64_t coxi_store_incarnation(const struct coxi_store *store);

/* Checks the session of a client that has greeted. COX_EFENCED: the store would refuse
 * its claim with the same code. Never waits. */
int coxi_store_greeted(struct coxi_store *store, const struct coxi_session *session);

/* The session that has claimed the store; false: none. */
bool coxi_store_owner(struct coxi_store *store, struct coxi_session *ret);

/* The run, without its token, and this ps's part of its variables. The caller frees
 * them with _fini. COX_ENOENT: no run has claimed the store; COX_ENOMEM. */
struct coxi_description {
    struct coxi_session session;
    struct coxi_variable *variables;
    struct coxi_variable **copies; /* `variables` points into these */
    size_t n;
};

int coxi_store_describe(struct coxi_store *store, struct coxi_description *ret);
void coxi_description_fini(struct coxi_description *description);

/* Forgets the run if `gone` has the store, and begins another incarnation; true: it
 * did. */
bool coxi_store_vacate(struct coxi_store *store, const struct coxi_session *gone);

/* Forgets the run. COX_EFENCED: another session has the store. */
int coxi_store_release(struct coxi_store *store, const struct coxi_session *session);

/*
 * COX_EPSLOST: the request was meant for another incarnation of the ps. Pulls, commits
 * and loads check that themselves; call this before any other request that changes the
 * store.
 */
int coxi_store_meant(const struct coxi_store *store, uint64_t incarnation);

/* Checks whether the store would answer a pull, commit or load of this session and
 * incarnation: 0, COX_EFENCED, COX_EPSLOST. The server asks before a long payload
 * arrives, and gives it memory only after 0. */
int coxi_store_serves(struct coxi_store *store, const struct coxi_session *session,
                      uint64_t incarnation);

/* The same for a client that may be restoring the store: whether it has this incarnation
 * of it. */
int coxi_store_belongs(struct coxi_store *store, const struct coxi_session *session,
                       uint64_t incarnation);

/*
 * Creates this ps's part of a variable, by the operation `closure` (0: none, nothing is
 * recorded). If it exists already with the same description, nothing happens, even if
 * another client created it. COX_EEXIST: another variable has the id or the name;
 * COX_ENOMEM: --memory-max or the host's own; COX_EINVAL, COX_EFENCED.
 */
int coxi_store_create(struct coxi_store *store, const struct coxi_create *create);

/*
 * Answers a pull, whose keys and row numbers are the `len` bytes at `list` (8-aligned).
 * Appends the values to *ret. If any item has a version, appends a version for each
 * item to *ret_versions (0 for tables). Waits for the end of the round that the pull must
 * see. COX_EFENCED, COX_EPSLOST (meant for another incarnation), COX_ENOENT, COX_EINVAL,
 * COX_ELIMIT, COX_ECANCELLED (that end has not come); both may have grown then.
 */
int coxi_store_pull(struct coxi_store *store, const struct coxi_pull *pull,
                    const void *list, size_t len, struct coxi_buffer *ret,
                    struct coxi_buffer *ret_versions);

/*
 * Answers a pull piece by piece, so that a long answer needs no memory of its own.
 * _begin checks the pull and sets the length. _some puts the next bytes at `to`: as
 * many as fit `room`, which is at least COXI_PULL_ROOM, in whole rows of tables and
 * blocks of dense variables. The pull, its list and *versions are borrowed until the
 * last piece. No lock is held in between: _some fails with COX_EFENCED if another
 * client has come meanwhile, and with COX_ENOENT if the variable was dropped, even if
 * another one has its id.
 */
enum { COXI_PULL_ROOM = 64 * 1024 };

struct coxi_pulling {
    const struct coxi_pull *pull;
    const struct coxi_buffer *versions;
    const uint8_t *list; /* of the next item */
    size_t list_len;
    size_t item;     /* the index of the next item */
    size_t at;       /* bytes of that item read so far, counted in its own type */
    size_t left;     /* bytes to come */
    uint64_t n_made; /* parts that the store had made when the pull began */
};

/*
 * Waits until the round that the pull must see has ended here; on_wait(arg) (or NULL) is
 * called before. It comes soon, because its closures are done or under way; if it does
 * not, the step would keep its slot from one of them. COX_ECANCELLED: it has not come;
 * errors of coxi_store_pull.
 */
int coxi_store_pull_await(struct coxi_store *store, const struct coxi_pull *pull,
                          void (*on_wait)(void *arg), void *arg);

int coxi_store_pull_begin(struct coxi_store *store, const struct coxi_pull *pull,
                          const void *list, size_t len,
                          struct coxi_buffer *ret_versions, struct coxi_pulling *ret);
int coxi_store_pull_some(struct coxi_store *store, struct coxi_pulling *pulling,
                         void *to, size_t room, size_t *ret_len);

/*
 * Applies a commit as a whole, once; *ret_duplicate: it was applied before. `payload`
 * is 8-aligned; `scratch` is memory to work in. Does not check values: the worker must
 * see to it that no gradient is NaN if that is forbidden. Errors of coxi_store_pull,
 * and COX_ENOMEM; nothing is applied then.
 */
int coxi_store_commit(struct coxi_store *store, const struct coxi_commit *commit,
                      const void *payload, size_t len, struct coxi_buffer *scratch,
                      bool *ret_duplicate);

/* True if the end of the round is applied, or the round lies below the watermark. */
bool coxi_store_has_ended(struct coxi_store *store, uint64_t round);

/* Refuses attempts of a closure from now on, and appends what is applied of the
 * closure, as coxi_applied_void does. COX_EFENCED, COX_ELIMIT, COX_ENOMEM. */
int coxi_store_void(struct coxi_store *store, const struct coxi_void *request,
                    struct coxi_buffer *segments, struct coxi_buffer *touched);

/* Moves the watermark on; COX_EFENCED, COX_ELIMIT. */
int coxi_store_advance(struct coxi_store *store,
                       const struct coxi_watermark *watermark);

/* The result of a snapshot; end its applied set with coxi_applied_list_fini. */
struct coxi_snapshot_file {
    uint64_t bytes;
    uint32_t crc32;
    struct coxi_applied_list applied;
    /* the snapshot that this one builds on; 0: none, it has everything */
    uint64_t base;
    /* CPU time of the longest span in which others had to wait for it */
    uint64_t held_us_max;
    /* memory of copies, made because values changed while it was written */
    uint64_t saved_bytes;
};

/*
 * Writes the state of one moment to a new file at snapshot->path, while pulls and
 * commits go on. If snapshot->base is the number of this session's last durable
 * snapshot, and the changes since then are known (from the first snapshot with `track`
 * on), writes only the changes. A repeated call with the same session and number gives
 * the same answer and writes nothing; a lower number: COX_EEXIST. COX_EFENCED: also if
 * another client claims the store, or this one releases it, meanwhile. COX_EPSLOST:
 * another incarnation has begun meanwhile. COX_EIO.
 * COX_ENOMEM: also if there is no memory for copies of what changes. No file is left
 * after an error, unless only the answer lacked memory; the same call again gives it.
 */
int coxi_store_snapshot(struct coxi_store *store, const struct coxi_snapshot *snapshot,
                        struct coxi_snapshot_file *ret);

/* The same into a sink, which this finishes or abandons if it begins; NULL: to the file.
 * Errors of the sink, too. */
int coxi_store_snapshot_to(struct coxi_store *store,
                           const struct coxi_snapshot *snapshot,
                           const struct coxi_file_sink *sink,
                           struct coxi_snapshot_file *ret);

/*
 * Loads a snapshot's file into the variables that exist, in place of their values
 * (restore->at 0: the file has everything) or on top of the file before (`at` above 0),
 * and replaces the applied set. The store was just claimed. A repeated call for the
 * same file of a round does nothing. Other requests do not wait meanwhile, but find the
 * store not ready (COX_EPSLOST), also after a restore that failed; it may be asked for
 * again. COX_EFENCED: also if the run is forgotten meanwhile, which ends the restore
 * soon. COX_EPSLOST: it was abandoned. COX_EBUSY: another restore is under way.
 * COX_EIO, COX_ECHECKSUM, COX_EFORMAT, COX_ENOMEM.
 */
int coxi_store_restore(struct coxi_store *store, const struct coxi_restore *restore);

/* The same from a source; NULL: from the file. Errors of the source, too. */
int coxi_store_restore_from(struct coxi_store *store,
                            const struct coxi_restore *restore,
                            const struct coxi_file_source *source);

/* Abandons the restore that is under way: it ends soon. */
void coxi_store_abandon_restore(struct coxi_store *store);

/*
 * Loads a piece of another checkpoint into a variable, while other requests go on. The
 * `last` piece of a closure is empty and only says that it is the last. `payload` is
 * 8-aligned. COX_EFENCED, COX_EPSLOST, COX_ENOENT, COX_EINVAL, COX_ELIMIT, COX_ENOMEM:
 * some of its rows may have been loaded.
 */
int coxi_store_load(struct coxi_store *store, const struct coxi_load *load,
                    const void *payload, size_t len);

/* Returns the counters of this run on this ps; those of the table and of the gradients
 * that the question names are zeros if there are none. */
void coxi_store_counts(struct coxi_store *store, const struct coxi_count *count,
                       struct coxi_counts *ret);

#endif
