/*
 * Every mode of training (docs/modes.md) on the same model and rows: which of them learns
 * how much from an example, and in a second. Read examples/ctr first.
 *
 *     main -> prepare_rows   the user's files, or a generated log
 *          -> run            train (train.c) in each mode; then charts and a table
 *
 * The model and the generated rows are those of examples/ctr, without factors.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clicks.h"
#include "curves.h"
#include "options.h"
#include "rows.h"
#include "train.h"

/* The most examples in a run: 1 GiB for their order. */
static const size_t order_max = (size_t)1 << 28;

static int fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "modes: %s: %s\n", what, why);
    return 2;
}

/* ---- rows */

static int generate(struct options *o)
{
    static char train[PATH_MAX];
    static char test[PATH_MAX];
    (void)snprintf(train, sizeof(train), "%s/train.libsvm", o->out);
    (void)snprintf(test, sizeof(test), "%s/test.libsvm", o->out);
    (void)printf(
        "no files given: generating a click log of %lld rows with seed %lld in "
        "%s\n",
        (long long)o->rows, (long long)o->seed, o->out);
    (void)fflush(stdout);
    struct clicks log = {(size_t)o->rows, (uint64_t)o->seed, (uint64_t)o->ids, 0};
    struct clicks other = log;
    other.n_rows = log.n_rows / 5 + 1;
    if (clicks_generate(train, &log, 0) != 0 || clicks_generate(test, &other, 1) != 0) {
        return fail(o->out, strerror(errno));
    }
    o->train = train;
    o->test = test;
    return 0;
}

static int prepare_rows(struct options *o)
{
    static char path[PATH_MAX];
    if (mkdir(o->out, 0777) != 0 && errno != EEXIST) {
        return fail(o->out, strerror(errno));
    }
    int code = o->train == NULL ? generate(o) : 0;
    /* Workers may run in another directory: they get the absolute path. */
    if (code == 0 && realpath(o->train, path) == NULL) {
        code = fail(o->train, strerror(errno));
    }
    o->train = path;
    return code;
}

/* ---- order */

/* splitmix64 */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The rows of each epoch in another random order (Fisher, Yates). */
static void shuffle(int32_t *order, size_t n_rows, size_t epochs, uint64_t seed)
{
    uint64_t state = seed;
    for (size_t e = 0; e < epochs; e++, order += n_rows) {
        for (size_t i = 0; i < n_rows; i++) {
            size_t j = next_random(&state) % (i + 1);
            order[i] = order[j];
            order[j] = (int32_t)i;
        }
    }
}

/* ---- all modes */

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static int run(const struct work *work, const char *name)
{
    struct curve curves[KINDS] = {0};
    const struct options *o = work->options;
    int code = 0;
    for (int k = 0; code == 0 && k < KINDS; k++) {
        if (o->chosen[k]) {
            code = train(work, &kinds[k], &curves[k]);
        }
    }
    if (isatty(STDOUT_FILENO) != 0) {
        (void)printf("\r\033[K");
    }
    if (code == 0) {
        code = curves_draw(curves, o->out, name);
    }
    if (code == 0) {
        curves_print(curves);
        (void)printf(
            "\n%zu examples in batches of %lld; the curves are in %s/examples.svg "
            "and %s/seconds.svg\n",
            work->n_order, (long long)o->batch, o->out, o->out);
    }
    for (int k = 0; k < KINDS; k++) {
        curve_fini(&curves[k]);
    }
    return code;
}

/* Reads the rows to test on, and sees how many there are to train on. */
static int run_on(const struct options *o, const char *name)
{
    struct rows rows;
    struct rows test = {0};
    int code =
        rows_read(o->train, &rows) != 0 || rows_read(o->test, &test) != 0 ? 2 : 0;
    size_t n_rows = rows.batch.n;
    size_t n = n_rows * (size_t)o->epochs;
    if (code == 0 && (rows.n_features == 0 || test.n_features == 0)) {
        code = fail(rows.n_features == 0 ? o->train : o->test, "has no features");
    }
    if (code == 0 && n > order_max) {
        code = fail(o->train, "has too many rows for so many epochs");
    }
    rows_free(&rows);
    int32_t *order = code == 0 ? calloc(n, sizeof(*order)) : NULL;
    if (code == 0 && order == NULL) {
        code = fail(o->train, "out of memory");
    }
    if (code == 0) {
        shuffle(order, n_rows, (size_t)o->epochs, (uint64_t)o->seed);
        const struct work work = {o, o->train, &test, order, n};
        code = run(&work, name);
    }
    free(order);
    rows_free(&test);
    return code;
}

int main(int argc, char **argv)
{
    struct options options;
    int r = options_parse(argc, argv, &options);
    if (r != 0) {
        return r == 1 ? 0 : r;
    }
    const char *name =
        options.train != NULL ? name_of(options.train) : "a generated log";
    r = prepare_rows(&options);
    return r == 0 ? run_on(&options, name) : r;
}
