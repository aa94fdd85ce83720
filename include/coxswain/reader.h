/*
 * Readers: programs that read the values of a run from its ps while it trains. A reader
 * changes nothing and needs only the addresses of the ps. Include <coxswain/coxswain.h>
 * instead of this file.
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
    int timeout_ms; /* for opening, and for each read */

    /* The file with the run's key, or with that of its readers (coxswain key reader).
     * NULL: the file that $COX_KEY_FILE names; without that, there is no key. */
    const char *key_file;

    /* As cox_options.seal. */
    const char *seal;
};
#define COX_READER_OPTIONS_INIT COX_INIT(cox_reader_options)

/*
 * Connects to every ps that `cluster` lists (and to no worker), and waits until the ps
 * serve a run, no matter which. `options` NULL: defaults. The caller may free `cluster`
 * afterwards. COX_ETIMEDOUT (also if a ps has a key, and this program has none),
 * COX_EDENIED (a ps has another key; told after a few seconds), COX_EVERSION,
 * COX_ECONFLICT: the text names the ps. COX_ENOENT: there was no run in time.
 * COX_EINVAL: the cluster is a local one, whose ps only its client knows; or the key
 * file is wrong.
 */
COX_API int cox_reader_open(const struct cox_cluster *cluster,
                            const struct cox_reader_options *options,
                            struct cox_reader **ret);

/* The id of the run that was read last, as in checkpoints and logs. */
COX_API uint64_t cox_reader_run(const struct cox_reader *reader);

struct cox_reader_variable {
    size_t size;
    int table;      /* 1: a table, whose shape[0] is its dim */
    uint32_t dtype; /* enum cox_dtype */
    uint32_t rank;
    uint64_t shape[COX_RANK_MAX];
    uint32_t metric; /* enum cox_metric_kind; 0: no metric */
};
#define COX_READER_VARIABLE_INIT COX_INIT(cox_reader_variable)

/*
 * Describes a variable, table or metric. This function and those below follow the run:
 * while a ps is being started again, or another client takes the ps, they try until
 * timeout_ms is over. COX_ENOENT: there is no run, or it has no variable of that name
 * (yet). If the reader has seen the variable before, it waits for it instead.
 * COX_EPSLOST, COX_EFENCED, COX_ETIMEDOUT.
 *
 * Only one thread at a time may use a reader.
 */
COX_API int cox_reader_describe(struct cox_reader *reader, const char *name,
                                struct cox_reader_variable *ret);

/*
 * Reads a dense variable or metric; `bytes` must be its size. Each 4 KiB is from one
 * moment, but two pieces may be from different moments. While a lost ps is being
 * restored, its values may be older.
 */
COX_API int cox_reader_read(struct cox_reader *reader, const char *name, void *ret_data,
                            size_t bytes);

/* Reads rows of a table: n_keys * dim floats. Each row is of one moment. A row that
 * does not exist reads as its initial values. */
COX_API int cox_reader_lookup(struct cox_reader *reader, const char *table,
                              const uint64_t *keys, size_t n_keys, uint32_t dim,
                              float *ret_rows);

/* Reads a metric; see cox_metric_read. */
COX_API int cox_reader_metric(struct cox_reader *reader, const char *name,
                              double *ret_value, double *ret_weight);

COX_API void cox_reader_close(struct cox_reader *reader); /* takes NULL */

#ifdef __cplusplus
}
#endif
#endif
