/*
 * Readers: programs beside a run that look at what it holds while it trains. They have no
 * claim on it, change nothing, and need no more than the addresses of its ps. Include
 * <coxswain/coxswain.h> instead of this file.
 */
#ifndef COXSWAIN_READER_H
#define COXSWAIN_READER_H

#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cox_cluster;
struct cox_reader;

struct cox_reader_options {
    size_t size;
    int timeout_ms; /* for opening, and for each read: 10000 */
};
#define COX_READER_OPTIONS_INIT {sizeof(struct cox_reader_options), 0}

/*
 * Connects to every ps that `cluster` lists (workers are not asked), and waits for a run to
 * be there, whichever. `options` NULL: defaults. `cluster` is not needed afterwards.
 * COX_ETIMEDOUT, COX_EVERSION, COX_ECONFLICT: of a ps, which the text names; COX_ENOENT: no
 * run is there in time; COX_EINVAL: the cluster is a local one, which is its client's.
 */
COX_API int cox_reader_open(const struct cox_cluster *cluster,
                            const struct cox_reader_options *options,
                            struct cox_reader **ret);

/* The run that was read last, as it stands in checkpoints and logs. */
COX_API uint64_t cox_reader_run(const struct cox_reader *reader);

struct cox_reader_variable {
    size_t size;
    int table;      /* 1: a table, whose shape[0] is its dim */
    uint32_t dtype; /* enum cox_dtype */
    uint32_t rank;
    uint64_t shape[COX_RANK_MAX];
    uint32_t metric; /* enum cox_metric_kind; 0: it is none */
};
#define COX_READER_VARIABLE_INIT                                                       \
    {sizeof(struct cox_reader_variable), 0, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}, 0}

/*
 * What a variable, table or metric is like. All of these follow the run: where a ps is being
 * started again, or another client takes the ps, they try until timeout_ms is over.
 * COX_ENOENT: there is no run, or it has none of that name, or not yet (one that was there
 * before is waited for); COX_EPSLOST, COX_EFENCED, COX_ETIMEDOUT.
 *
 * One reader is used by one thread at a time.
 */
COX_API int cox_reader_describe(struct cox_reader *reader, const char *name,
                                struct cox_reader_variable *ret);

/*
 * All `bytes` of a dense variable or metric, as they are at that moment: never torn within
 * 4 KiB. While a ps that was lost is given back what it had, what is read of it may be older.
 */
COX_API int cox_reader_read(struct cox_reader *reader, const char *name, void *ret_data,
                            size_t bytes);

/* Rows of a table, none of them torn: n_keys * dim floats; rows not there: their initial
 * values. */
COX_API int cox_reader_lookup(struct cox_reader *reader, const char *table,
                              const uint64_t *keys, size_t n_keys, uint32_t dim,
                              float *ret_rows);

/* What a metric reads as; see cox_metric_read. */
COX_API int cox_reader_metric(struct cox_reader *reader, const char *name,
                              double *ret_value, double *ret_weight);

COX_API void cox_reader_close(struct cox_reader *reader); /* takes NULL */

#ifdef __cplusplus
}
#endif
#endif
