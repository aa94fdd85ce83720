/*
 * The files of a data set, and how they are cut into tasks: by arithmetic, nothing is
 * read for it. And the order of tasks in an epoch: a permutation that is computed, not
 * stored.
 *
 * Threads: any, if nobody changes the struct.
 */
#ifndef COXI_DATA_CUT_H
#define COXI_DATA_CUT_H

#include <stdbool.h>

#include "data/source.h"

/* ---- files */

struct coxi_files {
    char *names; /* all names, each with its NUL */
    struct coxi_cut_file *all;
    size_t n;
    uint64_t n_tasks; /* of an epoch */
    uint64_t bytes;   /* of all files, as they are stored */
};

struct coxi_cut_file {
    const char *name;
    struct coxi_file_mark mark;
    uint64_t first; /* the place of its first task */
    uint64_t n_tasks;
};

struct coxi_cut {
    uint64_t task_bytes; /* about how many a task has; not 0 */
    bool splits; /* a plain file may be cut at any byte; otherwise it is whole */
};

/*
 * Finds the files: expands patterns (* ? [ ]), sorts the names of each pattern by their
 * bytes, makes relative paths absolute, and looks at every file's size, time and head.
 * Patterns leave out indexes (.coxi) and parts of files (.part).
 * A name with a scheme stands for the files that coxi_source_find says. An empty file has no task, a file
 * that ends in .gz has one.
 *
 * COX_ENOENT: a pattern matches nothing, or a file is missing; the text names it.
 * COX_EINVAL: a file is listed twice, or there is no name. COX_EIO, COX_ENOMEM.
 */
int coxi_files_find(const char *const *patterns, size_t n, const struct coxi_cut *cut,
                    struct coxi_files *ret);
void coxi_files_fini(struct coxi_files *files); /* takes zeros */

/* The task at `place`, which is less than n_tasks: records that begin in [begin, end)
 * of the file; end UINT64_MAX: the file's end. */
struct coxi_cut_task {
    const struct coxi_cut_file *file;
    uint64_t begin;
    uint64_t end;
    uint64_t bytes;
};

struct coxi_cut_task coxi_files_task(const struct coxi_files *files, uint64_t place);

/* ---- the order of an epoch */

/*
 * Which place comes at number `i` of `n`: for each seed and epoch a permutation of 0 to
 * n - 1. O(1) time and memory.
 *
 * It is a Feistel network on pairs (left, right) of numbers below a and b, a * b >= n
 * (Black, Rogaway: Ciphers with arbitrary finite domains, CT-RSA 2002): each round adds
 * a hash of one half to the other, modulo a or b. A number that comes out at or above n
 * goes in again, which happens rarely because a * b - n < a.
 */
uint64_t coxi_order(uint64_t n, uint64_t seed, uint64_t epoch, uint64_t i);

/* A seed for one task of one epoch. */
uint64_t coxi_task_seed(uint64_t seed, uint64_t epoch, uint64_t place);

#endif
