/*
 * With --dataset: steps take the records of a data set, and each record adds 1 to a row
 * of its own. At the end every row must be the number of epochs.
 */
#ifndef COXI_BENCH_CHAOS_DATASET_H
#define COXI_BENCH_CHAOS_DATASET_H

#include <stdint.h>

struct chaos_client;
struct chaos_config;
struct chaos_dataset;
struct cox_module;

/* Writes the files of records into a new directory. The seed chooses the format:
 * RecordIO (plain, gzip or Snappy) or libsvm (every eighth file compressed). */
int chaos_dataset_write(const struct chaos_config *config, const char *dir);

/* Creates the data set, or goes on with the checkpoint's. NULL: no --dataset. */
int chaos_dataset_open(struct chaos_client *client, struct cox_module *module,
                       struct chaos_dataset **ret);

/* Schedules tasks until every one of every epoch is done. */
int chaos_dataset_run(struct chaos_dataset *dataset);

/* Counts the rows that are not the number of epochs. */
int chaos_dataset_count_wrong(struct chaos_dataset *dataset, int64_t *ret);

/* Checks that every record has counted and no task has failed. */
void chaos_dataset_check(struct chaos_dataset *dataset);

/* Takes NULL. */
void chaos_dataset_free(struct chaos_dataset *dataset);

#endif
