/* See files.h. */
#include "files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clicks.h"

static int make_directory(const char *path)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        (void)fprintf(stderr, "ctr: cannot make %s: %s\n", path, strerror(errno));
        return 2;
    }
    return 0;
}

/* Refuses to write over checkpoints of an earlier run. */
static int check_unused(const char *dir)
{
    char path[1024];
    (void)snprintf(path, sizeof(path), "%s/LATEST", dir);
    if (access(path, F_OK) != 0) {
        return 0;
    }
    (void)fprintf(
        stderr,
        "ctr: %s holds the checkpoints of an earlier run: go on with it (--resume), "
        "remove it, or choose another --out\n",
        dir);
    return 2;
}

/* True if both files can be read and have the same bytes. */
static bool are_same(const char *a, const char *b)
{
    static char blocks[2][1 << 16];
    FILE *files[2] = {fopen(a, "r"), fopen(b, "r")};
    bool same = files[0] != NULL && files[1] != NULL;
    bool more = same;
    while (more) {
        size_t n = fread(blocks[0], 1, sizeof(blocks[0]), files[0]);
        same = fread(blocks[1], 1, sizeof(blocks[1]), files[1]) == n &&
               memcmp(blocks[0], blocks[1], n) == 0;
        more = same && n == sizeof(blocks[0]);
    }
    for (int i = 0; i < 2; i++) {
        if (files[i] != NULL) {
            (void)fclose(files[i]);
        }
    }
    return same;
}

/* Writes the log, unless it is there already: a run that goes on wants the files with
 * which it began, and knows them by the time at which they were written. */
static int generate(const char *path, const struct clicks *log, int part)
{
    char made[PATH_MAX];
    (void)snprintf(made, sizeof(made), "%s.new", path);
    int r = clicks_generate(made, log, part);
    if (r == 0 && are_same(made, path)) {
        return unlink(made);
    }
    return r == 0 ? rename(made, path) : r;
}

static int prepare_data(struct options *o)
{
    static char train_path[PATH_MAX];
    static char valid_path[PATH_MAX];
    static char full_path[PATH_MAX];
    if (o->train == NULL) {
        (void)snprintf(train_path, sizeof(train_path), "%s/train.libsvm", o->out);
        (void)snprintf(valid_path, sizeof(valid_path), "%s/valid.libsvm", o->out);
        (void)printf(
            "no files given: generating a click log of %lld rows with seed %llu in "
            "%s\n",
            (long long)o->rows, (unsigned long long)o->seed, o->out);
        (void)fflush(stdout);
        struct clicks log = {(size_t)o->rows, o->seed, (uint64_t)o->ids, o->pairs};
        struct clicks test = log;
        test.n_rows = log.n_rows / 10 + 1;
        if (generate(train_path, &log, 0) != 0 || generate(valid_path, &test, 1) != 0) {
            (void)fprintf(stderr, "ctr: %s: %s\n", o->out, strerror(errno));
            return 2;
        }
        o->train = train_path;
        o->valid = valid_path;
    }
    /* Workers may run in another directory: they get the absolute path. */
    if (realpath(o->train, full_path) != NULL) {
        o->train = full_path;
    }
    return 0;
}

int files_prepare(struct options *options)
{
    int r = make_directory(options->out);
    if (r == 0 && !options->resume) {
        r = check_unused(options->checkpoint_dir);
    }
    if (r == 0) {
        r = prepare_data(options);
    }
    if (r == 0 && (access(options->valid, R_OK) != 0)) {
        (void)fprintf(stderr, "ctr: %s: %s\n", options->valid, strerror(errno));
        r = 2;
    }
    return r;
}
