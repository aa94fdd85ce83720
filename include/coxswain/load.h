/*
 * Warm start: loads a checkpoint of any run into the variables, tables and metrics of
 * this run. Include <coxswain/coxswain.h> instead of this file.
 */
#ifndef COXSWAIN_LOAD_H
#define COXSWAIN_LOAD_H

#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cox_coordinator;

/*
 * Whether state is loaded beside the values: the optimizer's state and count of
 * updates, the ages of rows (struct cox_lifecycle), and the place in schedules. State
 * that is not loaded stays as it is.
 */
enum cox_load_state {
    COX_LOAD_STATE_MATCHING = 0, /* if the optimizers are of one kind */
    COX_LOAD_STATE_NONE = 1,     /* no state: only values */
    /* the state of all variables; COX_ECONFLICT if the kinds differ */
    COX_LOAD_STATE_REQUIRED = 2,
};

/* What happens to a variable that the checkpoint does not have, or has with another
 * shape. */
enum cox_load_missing {
    COX_LOAD_MISSING_FAIL = 0, /* nothing is loaded: COX_ENOENT or COX_ECONFLICT */
    COX_LOAD_MISSING_SKIP = 1, /* the variable stays as it is */
};

struct cox_load_options {
    size_t size;

    /* A checkpoint (".../ckpt-3"), or a checkpoint directory: its latest one. Both may be
     * in a store (s3://...) */
    const char *path;

    /* Variables of this run, by name or pattern (fnmatch; a star also matches '/');
     * NULL: all */
    const char *const *variables;
    size_t n_variables;

    /* Only variables whose names begin with to_prefix are loaded. In the checkpoint
     * their names begin with from_prefix instead. NULL: "" */
    const char *to_prefix;
    const char *from_prefix;

    uint32_t state;   /* enum cox_load_state */
    uint32_t missing; /* enum cox_load_missing */
    /* Called now and then on the calling thread: the ps have loaded `bytes` of
     * `bytes_all` */
    void (*on_progress)(void *arg, uint64_t bytes, uint64_t bytes_all);
    void *arg;
};
#define COX_LOAD_OPTIONS_INIT COX_INIT(cox_load_options)

struct cox_load_info {
    size_t size;
    uint64_t number;    /* the checkpoint's number */
    uint64_t run;       /* the id of the run that wrote it */
    uint64_t variables; /* loaded */
    uint64_t skipped;   /* chosen, but missing in the checkpoint or of another shape */
    uint64_t rows;      /* of tables */
    uint64_t bytes;
};
#define COX_LOAD_INFO_INIT COX_INIT(cox_load_info)

/*
 * Loads a checkpoint into variables that this run has created; the numbers of ps and
 * shards may differ. A variable's type and shape, a table's dim, and the kind of a
 * metric must be the same. Optimizers of the same kind may have other numbers.
 *
 * Afterwards a dense variable holds the values of the checkpoint. The rows of a table
 * in the checkpoint are overwritten, or made even if its lifecycle would not admit
 * them. Other rows stay; if there are more than rows_max then, some are dropped.
 *
 * With state (other than COX_LOAD_STATE_NONE) training goes on as it would have in the
 * other run. The schedules of all variables of this run go on from the place that they
 * had there (enum cox_schedule_kind). Rows are as old as they were: each ps counts the
 * updates by which rows age, and afterwards every ps has the highest of those counts,
 * or the table's own count if that is higher. Learning rates are not loaded, not even
 * those that cox_variable_set_rate or cox_table_set_rate set in the other run; nor are
 * an optimizer's other numbers. This run may have chosen its own, to train further at a
 * smaller rate, say. Set the rate here, too, if you want it.
 *
 * The call blocks, and checkpoints wait for it. Steps may run meanwhile; each row that
 * they read is either the old one or the new one. With a checkpoint directory, a ps
 * that is lost later is loaded again. So pruning does not delete the loaded checkpoint
 * until a newer checkpoint of this run holds what was loaded. A client that goes on
 * from that newer checkpoint (cox_progress) finds the loaded values in it.
 *
 * `ret` may be NULL. Nothing has changed after these errors. COX_ENOENT: there is no
 * checkpoint, it lacks a variable, or no variable of this run matches a name in
 * `variables`. COX_ECONFLICT: the text names a variable and what differs.
 * COX_ECHECKSUM, COX_EFORMAT, COX_EIO: the checkpoint cannot be loaded; the text names
 * the file and the next older complete checkpoint.
 *
 * After these, something may be loaded. COX_EPARTIAL: a ps refused a part (it has no
 * memory for it, say). The text says why, and which ps have loaded something; a ps that
 * is lost later is not given that part again, so load the checkpoint once more.
 * COX_EPSLOST.
 */
COX_API int cox_checkpoint_load(struct cox_coordinator *c,
                                const struct cox_load_options *options,
                                struct cox_load_info *ret);

#ifdef __cplusplus
}
#endif
#endif
