/*
 * Case `checkpoint`, `pulls`: the delay of small pulls at a steady pace while a ps
 * writes one snapshot after another, against raw sockets while dd writes as many bytes
 * to the same place. A snapshot uses its client's connection; the pulls use one of
 * their own, as a worker's do.
 */
#include <errno.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/checkpoint.h"
#include "bench/keys.h"
#include "bench/paced.h"
#include "bench/pair.h"
#include "bench/raw.h"
#include "common/file.h"
#include "common/sync.h"

enum { BATCH = 4096 };

double bench_dd(const char *path, uint64_t bytes)
{
    extern char **environ;
    char of[4300];
    char count[48];
    char *argv[] = {"dd",         "if=/dev/zero", of,  "bs=1M", count,
                    "conv=fsync", "status=none",  NULL};
    pid_t pid;
    int status = 0;
    (void)snprintf(of, sizeof(of), "of=%s", path);
    (void)snprintf(count, sizeof(count), "count=%llu",
                   (unsigned long long)(bytes >> 20));
    double start = bench_now();
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0 ||
        waitpid(pid, &status, 0) != pid || status != 0) {
        bench_die("dd to %s failed", path);
    }
    return bench_now() - start;
}

/* Writes one file after another until it is told to end. */
struct writing {
    struct pair *pair; /* whose ps writes snapshots; NULL: dd writes */
    uint64_t bytes;
    uint64_t number;
    atomic_bool going;
    char path[128];
};

static void snapshot(struct writing *writing)
{
    struct coxi_psc_request request = {0};
    struct coxi_message message = {.kind = COXI_SNAPSHOT};
    message.snapshot =
        (struct coxi_snapshot){.session = writing->pair->session,
                               .number = ++writing->number,
                               .path = writing->path,
                               .incarnation = coxi_psc_incarnation(writing->pair->psc)};
    bench_check(coxi_psc_call(writing->pair->psc, &message, &request,
                              COXI_SNAPSHOT_DONE, NULL, NULL),
                "snapshot");
}

static void *write_files(void *arg)
{
    struct writing *writing = arg;
    while (atomic_load(&writing->going)) {
        if (writing->pair != NULL) {
            snapshot(writing);
        } else {
            (void)bench_dd(writing->path, writing->bytes);
        }
        if (unlink(writing->path) != 0) {
            bench_die("cannot remove %s: %s", writing->path, strerror(errno));
        }
    }
    return NULL;
}

static void begin(struct writing *writing, double seconds, pthread_t *ret)
{
    atomic_store(&writing->going, true);
    bench_check(coxi_thread_start(ret, "write", write_files, writing), "thread");
    paced_begin(seconds);
}

static struct bench_sample end(struct writing *writing, pthread_t thread)
{
    struct bench_sample sample = paced_end();
    atomic_store(&writing->going, false);
    (void)pthread_join(thread, NULL);
    return sample;
}

/* ---- raw */

static double measure_raw(struct writing *dd, struct raw *raw, double seconds)
{
    pthread_t writer;
    begin(dd, seconds, &writer);
    paced_ask_raw(raw);
    return end(dd, writer).p99_us;
}

/* ---- a ps */

static void ask_pull(void *arg)
{
    pair_run_post(arg);
}

static struct bench_sample measure_pulls(struct writing *snapshots,
                                         struct pair_run *pulls, double seconds)
{
    pthread_t writer;
    begin(snapshots, seconds, &writer);
    paced_ask(ask_pull, pulls);
    pair_run_wait(pulls);
    return end(snapshots, writer);
}

/* Makes rows of `bytes` bytes in all; returns the table's id. */
static uint32_t fill(struct pair *pair, uint64_t bytes)
{
    struct pair_run *run;
    struct pair_load load = {.push = true,
                             .count = BATCH,
                             .n_sets = bytes / CHECKPOINT_ROW_BYTES / BATCH + 1,
                             .row_bytes = CHECKPOINT_DIM * sizeof(float),
                             .outstanding = 4};
    uint64_t *keys = calloc(load.n_sets * BATCH, sizeof(*keys));
    if (keys == NULL) {
        bench_die("no memory");
    }
    for (uint64_t i = 0; i < load.n_sets * BATCH; i++) {
        keys[i] = bench_key(i);
    }
    load.keys = keys;
    load.variable = pair_table(pair, CHECKPOINT_DIM, COXI_OPTIMIZER_ADAGRAD);
    pair_run_open(pair, &load, &run);
    pair_run_once(run);
    pair_run_close(run);
    free(keys);
    return load.variable;
}

void bench_checkpoint_pulls(struct bench *bench)
{
    const uint64_t keys[] = {bench_key(1)};
    struct bench_measurement m = {.name = "pulls",
                                  .params = "{}",
                                  .unit = "us",
                                  .baseline_name = "p99 of raw tcp while dd writes"};
    struct pair pair;
    struct pair worker;
    struct pair_run *pulls;
    struct raw raw;
    struct writing snapshots = {.pair = &pair};
    struct writing dd = {.bytes = bench->bytes};
    double seconds = bench->seconds / BENCH_ROUNDS / 2;
    (void)snprintf(snapshots.path, sizeof(dd.path), "%s/ckpt-0.tmp", bench->dir);
    bench_check(coxi_directory_make(snapshots.path), "directory");
    (void)snprintf(snapshots.path, sizeof(dd.path),
                   "%s/ckpt-0.tmp/ps-0-of-1.safetensors", bench->dir);
    (void)snprintf(dd.path, sizeof(dd.path), "%s/dd", bench->dir);
    pair_open(bench, PAIR_TCP, &pair);
    uint32_t table = fill(&pair, bench->bytes);
    pair_join(&pair, PAIR_TCP, &worker);
    raw_open(bench, true, &raw);
    pair_run_open(&worker,
                  &(struct pair_load){.variable = table,
                                      .count = 1,
                                      .keys = keys,
                                      .n_sets = 1,
                                      .row_bytes = CHECKPOINT_DIM * sizeof(float),
                                      .outstanding = PAIR_OUTSTANDING_MAX,
                                      .answered = paced_answered},
                  &pulls);
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        m.baseline[m.n_rounds] = measure_raw(&dd, &raw, seconds);
        m.value[m.n_rounds] = measure_pulls(&snapshots, pulls, seconds);
    }
    bench_report(bench, "checkpoint", &m);
    pair_run_close(pulls);
    raw_close(&raw);
    pair_close(&worker);
    pair_close(&pair);
}
