/*
 * What a checkpoint keeps of the files of a data set, so that a client that goes on
 * from it notices other files and files that have changed: the mark of each file; with
 * more than COXI_MARKS_MAX files, of each group of files that follow each other.
 *
 * Threads: any.
 */
#ifndef COXI_COORDINATOR_DATASETS_MARKS_H
#define COXI_COORDINATOR_DATASETS_MARKS_H

#include "checkpoint/manifest_datasets.h"
#include "data/cut.h"

enum { COXI_MARKS_MAX = 512 };

/* *ret is for free(). COX_ENOMEM. */
int coxi_marks_make(const struct coxi_files *files, struct coxi_manifest_mark **ret,
                    size_t *ret_n);

/* COX_ECONFLICT: the files are not those of the marks, which were made of `n_files`
 * files; the text names the first file or group that differs, and the difference. */
int coxi_marks_check(const struct coxi_files *files,
                     const struct coxi_manifest_mark *marks, size_t n,
                     uint64_t n_files);

#endif
