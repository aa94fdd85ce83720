/*
 * Case `checkpoint`: the cost of a ps's snapshots and of reading them, for a table of
 * 16 floats with Adagrad, --bytes in all, in files under TMPDIR.
 *
 *   write         a snapshot, against dd conv=fsync of as many bytes there; the first
 *                 round is discarded
 *   held          the longest span in which others had to wait for a snapshot, in CPU
 *                 time, while commits go on
 *   copied        memory of copies of rows that changed while it was written, against
 *                 these rows
 *   changed       bytes of a snapshot that builds on another after 1 % of the rows were
 *                 touched, against those of the whole one; changed_time: its time
 *   pulls         the p99 of small pulls while one is written (checkpoint_pulls.c)
 *   restore       filling a store from the file, against reading the file; both from
 *                 the disk
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/checkpoint.h"
#include "bench/keys.h"
#include "common/error.h"
#include "common/rand.h"
#include "common/rule.h"
#include "common/sync.h"
#include "coxswain/types.h"
#include "ps/store.h"

enum {
    DIM = CHECKPOINT_DIM,
    BATCH = 1024,
    INCARNATION = 1,
    READ_BYTES = 1 << 20,
    ROW_BYTES = CHECKPOINT_ROW_BYTES,
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
    bench_check(coxi_store_claim(job->store, &job->session, NULL), "claim");
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

/* Takes a snapshot; returns the seconds. */
static double take(struct job *job, uint64_t base, struct coxi_snapshot_file *ret)
{
    struct coxi_snapshot request = {.session = job->session,
                                    .number = ++job->number,
                                    .path = job->path,
                                    .base = base,
                                    .track = true};
    double start = bench_now();
    bench_check(coxi_store_snapshot(job->store, &request, ret), "snapshot");
    double seconds = bench_now() - start;
    coxi_applied_list_fini(&ret->applied);
    return seconds;
}

static void remove_file(const struct job *job)
{
    if (unlink(job->path) != 0) {
        bench_die("cannot remove %s: %s", job->path, strerror(errno));
    }
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
        double seconds = take(job, 0, &file);
        double bytes = (double)file.bytes;
        remove_file(job);
        double dd_seconds = bench_dd(job->path, file.bytes);
        remove_file(job);
        if (i >= 0) { /* discard the first round: the disk may be slow at first */
            m.value[i].value = bytes / seconds / 1e9;
            m.baseline[i] = bytes / dd_seconds / 1e9;
        }
    }
    bench_report(job->bench, "checkpoint", &m);
}

/* ---- while commits go on */

struct committer {
    struct job *job;
    atomic_bool stop;
    uint64_t n_rows; /* rows that it has changed, each once */
};

static void fill_batch(struct batch *batch, uint64_t first)
{
    for (size_t i = 0; i < BATCH; i++) {
        batch->keys[i] = bench_key(first + i);
    }
    for (size_t i = 0; i < (size_t)BATCH * DIM; i++) {
        batch->values[i] = (float)(i % 7);
    }
}

/* Commits to different rows, from the first on. */
static void *commit_all(void *arg)
{
    struct committer *committer = arg;
    struct job *job = committer->job;
    struct batch *batch = calloc(1, sizeof(*batch));
    struct coxi_buffer scratch = {0};
    if (batch == NULL) {
        bench_die("no memory");
    }
    while (!atomic_load(&committer->stop)) {
        fill_batch(batch, committer->n_rows % job->rows);
        commit(job, batch, &scratch);
        committer->n_rows += BATCH;
    }
    coxi_buffer_fini(&scratch);
    free(batch);
    return NULL;
}

static void measure_commits(struct job *job)
{
    struct bench_measurement held = {.name = "held",
                                     .params = job->params,
                                     .unit = "ms",
                                     .baseline_name = "what it may be",
                                     .n_rounds = BENCH_ROUNDS};
    struct bench_measurement copied = {.name = "copied",
                                       .params = job->params,
                                       .unit = "bytes",
                                       .baseline_name = "the rows that changed",
                                       .n_rounds = BENCH_ROUNDS};
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        struct committer committer = {.job = job};
        struct coxi_snapshot_file file;
        pthread_t thread;
        bench_check(coxi_thread_start(&thread, "commit", commit_all, &committer),
                    "thread");
        (void)take(job, 0, &file);
        atomic_store(&committer.stop, true);
        (void)pthread_join(thread, NULL);
        remove_file(job);
        held.value[i].value = (double)file.held_us_max / 1e3;
        held.baseline[i] = 10;
        uint64_t n = committer.n_rows < job->rows ? committer.n_rows : job->rows;
        copied.value[i].value = (double)file.saved_bytes;
        copied.baseline[i] = (double)(n * ROW_BYTES);
    }
    bench_report(job->bench, "checkpoint", &held);
    bench_report(job->bench, "checkpoint", &copied);
}

/* ---- snapshots that build on another */

static void measure_changed(struct job *job)
{
    struct bench_measurement bytes = {.name = "changed",
                                      .params = job->params,
                                      .unit = "bytes",
                                      .baseline_name = "the whole one",
                                      .n_rounds = BENCH_ROUNDS};
    struct bench_measurement time = {.name = "changed_time",
                                     .params = job->params,
                                     .unit = "s",
                                     .baseline_name = "the whole one",
                                     .n_rounds = BENCH_ROUNDS};
    struct batch *batch = calloc(1, sizeof(*batch));
    struct coxi_buffer scratch = {0};
    if (batch == NULL) {
        bench_die("no memory");
    }
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        struct coxi_snapshot_file whole;
        struct coxi_snapshot_file changed;
        time.baseline[i] = take(job, 0, &whole);
        remove_file(job);
        for (uint64_t n = 0; n < job->rows / 100; n += BATCH) {
            fill_batch(batch, n);
            commit(job, batch, &scratch);
        }
        time.value[i].value = take(job, job->number, &changed);
        remove_file(job);
        bytes.value[i].value = (double)changed.bytes;
        bytes.baseline[i] = (double)whole.bytes;
    }
    coxi_buffer_fini(&scratch);
    free(batch);
    bench_report(job->bench, "checkpoint", &bytes);
    bench_report(job->bench, "checkpoint", &time);
}

/* ---- restoring */

/* Makes the next read of the file come from the disk. */
static void forget_file(const struct job *job)
{
    int fd = open(job->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0) {
        bench_die("cannot have %s read anew: %s", job->path, strerror(errno));
    }
    (void)close(fd);
}

static double read_file(const struct job *job)
{
    char *room = malloc(READ_BYTES);
    int fd = open(job->path, O_RDONLY | O_CLOEXEC);
    double start = bench_now();
    ssize_t n = 1;
    if (fd < 0 || room == NULL) {
        bench_die("cannot read %s", job->path);
    }
    while (n > 0) {
        n = read(fd, room, READ_BYTES);
    }
    double seconds = bench_now() - start;
    (void)close(fd);
    free(room);
    return seconds;
}

static double restore(struct job *job, const struct coxi_snapshot_file *file)
{
    const struct coxi_restore request = {.session = job->session,
                                         .round = 1,
                                         .path = job->path,
                                         .bytes = file->bytes,
                                         .crc32 = file->crc32};
    coxi_store_free(job->store);
    open_store(job);
    double start = bench_now();
    bench_check(coxi_store_restore(job->store, &request), "restore");
    return bench_now() - start;
}

static void measure_restore(struct job *job)
{
    struct bench_measurement m = {.name = "restore",
                                  .params = job->params,
                                  .unit = "GB/s",
                                  .baseline_name = "reading the file",
                                  .n_rounds = BENCH_ROUNDS};
    struct coxi_snapshot_file file;
    (void)take(job, 0, &file);
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        forget_file(job);
        m.baseline[i] = (double)file.bytes / read_file(job) / 1e9;
        forget_file(job);
        m.value[i].value = (double)file.bytes / restore(job, &file) / 1e9;
    }
    remove_file(job);
    bench_report(job->bench, "checkpoint", &m);
}

/* ---- the case */

static void bench_store(struct bench *bench)
{
    struct job *job = calloc(1, sizeof(*job));
    if (job == NULL) {
        bench_die("no memory");
    }
    job->bench = bench;
    job->session = (struct coxi_session){1, 1, 1};
    uint64_t bytes = bench->bytes > 0 ? bench->bytes : UINT64_C(4000000000);
    job->rows = bytes / ROW_BYTES / BATCH * BATCH;
    (void)snprintf(job->path, sizeof(job->path), "%s/snapshot", bench->dir);
    (void)snprintf(job->params, sizeof(job->params), "{\"rows\":%llu}",
                   (unsigned long long)job->rows);
    open_store(job);
    fill(job);
    if (bench_wants(bench, "write")) {
        measure_write(job);
    }
    if (bench_wants(bench, "held") || bench_wants(bench, "copied")) {
        measure_commits(job);
    }
    if (bench_wants(bench, "changed")) {
        measure_changed(job);
    }
    if (bench_wants(bench, "restore")) {
        measure_restore(job);
    }
    coxi_store_free(job->store);
    free(job);
}

void bench_checkpoint(struct bench *bench)
{
    bool all = bench->only == NULL;
    if (all || !bench_wants(bench, "pulls")) {
        bench_store(bench);
    }
    if (bench_wants(bench, "pulls")) {
        bench_checkpoint_pulls(bench);
    }
}
