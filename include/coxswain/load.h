/*
 * Warm start: what a checkpoint holds, of whatever run, into the variables, tables and
 * metrics of this one. Include <coxswain/coxswain.h> instead of this file.
 */
#ifndef COXSWAIN_LOAD_H
#define COXSWAIN_LOAD_H

#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cox_coordinator;

/* What is loaded beside values: the optimizer's state, its count of updates, the life of
 * rows that may go again, and where schedules are. Without it these stay as they are. */
enum cox_load_state {
    COX_LOAD_STATE_MATCHING = 0, /* where both have an optimizer of the same kind */
    COX_LOAD_STATE_NONE = 1,     /* of none: values alone */
    COX_LOAD_STATE_REQUIRED = 2, /* of all: COX_ECONFLICT where the kinds differ */
};

/* What becomes of a variable that the checkpoint does not have, or has otherwise. */
enum cox_load_missing {
    COX_LOAD_MISSING_FAIL = 0, /* nothing is loaded: COX_ENOENT, COX_ECONFLICT */
    COX_LOAD_MISSING_SKIP = 1, /* it stays as it is */
};

struct cox_load_options {
    size_t size;
    /* A checkpoint (".../ckpt-3"), or a directory of them: its latest. */
    const char *path;
    /* Of this run, by name or pattern (fnmatch: a star also matches '/'); NULL: all. */
    const char *const *variables;
    size_t n_variables;
    const char *to_prefix;   /* only those whose names begin so; NULL: "" ... */
    const char *from_prefix; /* ... which begin so in the checkpoint; NULL: "" */
    uint32_t state;          /* enum cox_load_state */
    uint32_t missing;        /* enum cox_load_missing */
    /* Now and then, on the calling thread: bytes that the ps have taken, and of all. */
    void (*on_progress)(void *arg, uint64_t bytes, uint64_t bytes_all);
    void *arg;
};
#define COX_LOAD_OPTIONS_INIT                                                          \
    {sizeof(struct cox_load_options), NULL, NULL, 0, NULL, NULL, 0, 0, NULL, NULL}

struct cox_load_info {
    size_t size;
    uint64_t number;    /* of the checkpoint */
    uint64_t run;       /* which has written it */
    uint64_t variables; /* that were loaded */
    uint64_t skipped;   /* that were chosen, and are not in it or are otherwise */
    uint64_t rows;      /* of tables */
    uint64_t bytes;
};
#define COX_LOAD_INFO_INIT {sizeof(struct cox_load_info), 0, 0, 0, 0, 0, 0}

/*
 * Loads variables that have been created here from a checkpoint, from any number of ps and
 * shards to any other. A variable's type and shape, a table's dim, and what a metric measures
 * have to be the same; its optimizer, where that is of the same kind, may have other numbers.
 *
 * A dense variable holds afterwards what the checkpoint has. Rows of a table are made
 * whatever is admitted, and overwritten; rows that the checkpoint does not have stay. Where
 * rows go by number (rows_max), those that are too many go.
 * With state (other than COX_LOAD_STATE_NONE), training goes on as it would have in the other
 * run: the schedules of learning rates, those of all variables of this run, go on from where they
 * were there (enum cox_schedule_kind), and rows are as old as they were. Updates, by which rows
 * age, are counted by each ps: afterwards every ps has the highest of those counts, and a table's
 * own if that is higher. A rate that cox_variable_set_rate or cox_table_set_rate has set in the
 * other run is not loaded, as none of its optimizer's other numbers is: those are this run's own,
 * which may have been chosen for what is loaded (to train it further at a smaller rate, say). Set
 * it here, too, where it is to hold.
 *
 * Blocks, and checkpoints wait. Steps may run meanwhile; what they read is the one or the
 * other, row by row. With a checkpoint directory a ps that is lost later gets it again: the
 * checkpoint it came from is not deleted, by pruning, until a newer one of this run has what
 * was loaded. A client that is started again, and goes on from a checkpoint (cox_progress),
 * has it from there.
 *
 * `ret` may be NULL. COX_ENOENT: there is no checkpoint, it has no such variable, or nothing
 * here matches a name of `variables`; COX_ECONFLICT names a variable and what differs;
 * COX_ECHECKSUM, COX_EFORMAT, COX_EIO: the checkpoint cannot be loaded; the text names the
 * file and the next older one that is complete. Nothing has changed then. COX_EPARTIAL: a ps
 * refused some of it (it has no memory for it, say); the text says why, and which ps have
 * loaded something, which none of them is given again after a loss: load it once more.
 * COX_EPSLOST: some of it may have been loaded.
 */
COX_API int cox_checkpoint_load(struct cox_coordinator *c,
                                const struct cox_load_options *options,
                                struct cox_load_info *ret);

#ifdef __cplusplus
}
#endif
#endif
