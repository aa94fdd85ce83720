/*
 * Case `checkpoint`: what a ps's snapshots and their reading cost, of a table of 16 floats
 * with Adagrad, --bytes in all, in files under TMPDIR.
 *
 *   write     a snapshot, against dd conv=fsync of as many bytes there; the first round is
 *             discarded
 */
#include <errno.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/keys.h"
#include "common/error.h"
#include "common/rand.h"
#include "common/rule.h"
#include "coxswain/types.h"
#include "ps/store.h"

enum {
    DIM = 16,
    BATCH = 1024,
    INCARNATION = 1,
    ROW_BYTES = sizeof(uint64_t) + 2 * DIM * sizeof(float), /* in a file */
};

struct job {
    struct bench *bench;
    struct coxi_store *store;
    struct coxi_session session;
    uint64_t rows;
    atomic_uint_least64_t closure;
    uint64_t number; /* of the last snapshot */
    char path[4200];
    char params[64];
};

/* ---- the store */

static void open_store(struct job *job)
{
    struct coxi_create create = {
        .session = job->session,
        .closure = 1,
        .variable = {.name = "t",
                     .kind = COXI_KIND_TABLE,
                     .dtype = COX_F32,
                     .rank = 1,
                     .shape = {DIM},
                     .optimizer = {.kind = COXI_OPTIMIZER_ADAGRAD,
                                   .learning_rate = 0.1F,
                                   .epsilon = 1e-7F,
                                   .initial_accumulator = 0.1F}}};
    bench_check(coxi_store_new(0, INCARNATION, &job->store), "store");
    bench_check(coxi_store_claim(job->store, &job->session, false), "claim");
    bench_check(coxi_store_create(job->store, &create), "create");
    atomic_store(&job->closure, 2);
}

struct batch {
    uint64_t keys[BATCH];
    float values[BATCH * DIM];
};

static void commit(struct job *job, const struct batch *batch,
                   struct coxi_buffer *scratch)
{
    const struct coxi_update update = {.op = COXI_OP_GRADIENT, .count = BATCH};
    struct coxi_commit commit = {.session = job->session,
                                 .incarnation = INCARNATION,
                                 .closure = atomic_fetch_add(&job->closure, 1),
                                 .last = true,
                                 .updates = &update,
                                 .n_updates = 1};
    bool duplicate;
    bench_check(coxi_store_commit(job->store, &commit, batch, sizeof(*batch), scratch,
                                  &duplicate),
                "commit");
}

static void fill(struct job *job)
{
    struct batch *batch = calloc(1, sizeof(*batch));
    struct coxi_buffer scratch = {0};
    uint64_t rng = 1;
    if (batch == NULL) {
        bench_die("no memory");
    }
    for (uint64_t first = 0; first < job->rows; first += BATCH) {
        for (size_t i = 0; i < BATCH; i++) {
            batch->keys[i] = bench_key(first + i);
        }
        for (size_t i = 0; i < (size_t)BATCH * DIM; i++) {
            batch->values[i] = (float)(coxi_rand(&rng) % 1000);
        }
        commit(job, batch, &scratch);
    }
    coxi_buffer_fini(&scratch);
    free(batch);
}

/* ---- files */

static uint64_t take(struct job *job, struct coxi_snapshot_file *ret)
{
    struct coxi_snapshot request = {
        .session = job->session, .number = ++job->number, .path = job->path};
    bench_check(coxi_store_snapshot(job->store, &request, ret), "snapshot");
    coxi_applied_list_fini(&ret->applied);
    return ret->bytes;
}

static void remove_file(const struct job *job)
{
    if (unlink(job->path) != 0) {
        bench_die("cannot remove %s: %s", job->path, strerror(errno));
    }
}

/* Seconds of dd for so many bytes at the path. */
static double run_dd(const struct job *job, uint64_t bytes)
{
    extern char **environ;
    char of[4300];
    char count[48];
    char *argv[] = {"dd",         "if=/dev/zero", of,  "bs=1M", count,
                    "conv=fsync", "status=none",  NULL};
    pid_t pid;
    int status = 0;
    (void)snprintf(of, sizeof(of), "of=%s", job->path);
    (void)snprintf(count, sizeof(count), "count=%llu",
                   (unsigned long long)(bytes >> 20));
    double start = bench_now();
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0 ||
        waitpid(pid, &status, 0) != pid || status != 0) {
        bench_die("dd to %s failed", job->path);
    }
    return bench_now() - start;
}

static void measure_write(struct job *job)
{
    struct bench_measurement m = {.name = "write",
                                  .params = job->params,
                                  .unit = "GB/s",
                                  .baseline_name = "dd conv=fsync",
                                  .n_rounds = BENCH_ROUNDS};
    for (int i = -1; i < BENCH_ROUNDS; i++) {
        struct coxi_snapshot_file file;
        double start = bench_now();
        double bytes = (double)take(job, &file);
        double seconds = bench_now() - start;
        remove_file(job);
        double dd_seconds = run_dd(job, file.bytes);
        remove_file(job);
        if (i >= 0) { /* the disk may be slow at first */
            m.value[i].value = bytes / seconds / 1e9;
            m.baseline[i] = bytes / dd_seconds / 1e9;
        }
    }
    bench_report(job->bench, "checkpoint", &m);
}

void bench_checkpoint(struct bench *bench)
{
    struct job *job = calloc(1, sizeof(*job));
    if (job == NULL) {
        bench_die("no memory");
    }
    job->bench = bench;
    job->session = (struct coxi_session){1, 1, 1};
    job->rows = bench->bytes / ROW_BYTES / BATCH * BATCH;
    (void)snprintf(job->path, sizeof(job->path), "%s/snapshot", bench->dir);
    (void)snprintf(job->params, sizeof(job->params), "{\"rows\":%llu}",
                   (unsigned long long)job->rows);
    open_store(job);
    fill(job);
    measure_write(job);
    coxi_store_free(job->store);
    free(job);
}
