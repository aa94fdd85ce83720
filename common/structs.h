/* Public structs of older and newer versions of the library. Any thread. */
#ifndef COXI_COMMON_STRUCTS_H
#define COXI_COMMON_STRUCTS_H

#include "coxswain/types.h"

#define COXI_TEXT_OF_(x) #x
#define COXI_VERSION_OF_(a, b, c)                                                      \
    COXI_TEXT_OF_(a) "." COXI_TEXT_OF_(b) "." COXI_TEXT_OF_(c)
#define COXI_VERSION_TEXT                                                              \
    COXI_VERSION_OF_(COX_VERSION_MAJOR, COX_VERSION_MINOR, COX_VERSION_PATCH)

/*
 * The public structs that begin with `size`, each with the last field of its first
 * version. A struct that ends before that field was not initialized, and neither was
 * one whose size is no multiple of the alignment of size_t. Later fields may be
 * missing, and then count as 0.
 */
#define COXI_STRUCTS(X)                                                                \
    X(BATCH, cox_batch, epoch)                                                         \
    X(CALL, cox_call, n_args)                                                          \
    X(CHECKPOINT_INFO, cox_checkpoint_info, final)                                     \
    X(CHECKPOINT_OPTIONS, cox_checkpoint_options, final)                               \
    X(DATASET_PROGRESS, cox_dataset_progress, first_failure)                           \
    X(DATASET_SPEC, cox_dataset_spec, timeout_floor_ms)                                \
    X(ERROR, cox_error, message)                                                       \
    X(EVAL, cox_eval, n_scores)                                                        \
    X(EVALUATOR_OPTIONS, cox_evaluator_options, poll_ms)                               \
    X(LOAD_INFO, cox_load_info, bytes)                                                 \
    X(LOAD_OPTIONS, cox_load_options, arg)                                             \
    X(METRIC_SPEC, cox_metric_spec, buckets)                                           \
    X(OPTIONS, cox_options, worker_wait_ms)                                            \
    X(PROFILE, cox_profile, advice)                                                    \
    X(PROGRESS, cox_progress, rerun)                                                   \
    X(READER_OPTIONS, cox_reader_options, timeout_ms)                                  \
    X(READER_VARIABLE, cox_reader_variable, metric)                                    \
    X(ROUNDS_SPEC, cox_rounds_spec, reduce)                                            \
    X(STALENESS_COUNTS, cox_staleness_counts, counts)                                  \
    X(STATS, cox_stats, ps_bytes)                                                      \
    X(TABLE_SPEC, cox_table_spec, initializer)                                         \
    X(TABLE_STATS, cox_table_stats, updates)                                           \
    X(VARIABLE_SPEC, cox_variable_spec, initializer)

enum coxi_struct {
#define COXI_STRUCT_ID(id, type, last) COXI_STRUCT_##id,
    COXI_STRUCTS(COXI_STRUCT_ID)
#undef COXI_STRUCT_ID
};

/*
 * coxi_struct_copy copies a caller's struct into ours, coxi_struct_return copies ours
 * into the caller's. The caller's struct may be of an older or newer version.
 * COX_EINVAL: it was not initialized, or sets a field that this version does not know.
 * Read fields only in the copy, because the caller's struct may end before them.
 * coxi_struct_check only tells whether the struct was initialized: for functions that
 * fill it in at their end.
 */
int coxi_struct_check(enum coxi_struct of, const void *given);
int coxi_struct_copy(void *ret, enum coxi_struct of, const void *from);
int coxi_struct_return(void *ret, enum coxi_struct of, const void *from);

#endif
