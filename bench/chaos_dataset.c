/*
 * See chaos_dataset.h. Record i is in file i % FILES and has the key i. The row of key
 * i is in the table CHAOS_VISITED; steps also add the number of their records to the
 * counter of each ps. Steps are in chaos_steps.c.
 *
 * Threads: the client's. Cost: a read of all rows at the end, CHUNK at a time.
 */
#include "bench/chaos_dataset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "bench/chaos_client.h"
#include "bench/chaos_rounds.h"
#include "common/error.h"
#include "common/file.h"
#include "data/codec.h"
#include "data/recordio_write.h"

enum {
    FILES = 32,
    DEFLATED_EVERY = 8, /* one file of libsvm in so many ends in .gz */
    WINDOW = 512,       /* records that --shuffle mixes */
    CHUNK = 1 << 16,    /* rows of one read */
};

struct chaos_dataset {
    struct chaos_client *client;
    struct cox_function *visit;
    struct cox_dataset *records;
    struct cox_table *visited;
    char pattern[PATH_MAX];
};

static bool is_recordio(const struct chaos_config *config)
{
    return config->seed % 2 == 0;
}

/* ---- files */

static int write_recordio(const struct chaos_config *config, const char *path,
                          int64_t first)
{
    static const uint32_t codecs[] = {COXI_CODEC_NONE, COXI_CODEC_SNAPPY,
                                      COXI_CODEC_GZIP};
    struct coxi_recordio_writer *writer;
    size_t chunk_bytes = (size_t)config->task_bytes / 4 + 1;
    int r =
        coxi_recordio_create(path, codecs[config->seed / 2 % 3], chunk_bytes, &writer);
    if (r != 0) {
        return r;
    }
    for (int64_t i = first; r == 0 && i < config->records; i += FILES) {
        uint64_t key = (uint64_t)i;
        r = coxi_recordio_add(writer, &key, sizeof(key));
    }
    if (r != 0) {
        coxi_recordio_abandon(writer);
        return r;
    }
    return coxi_recordio_finish(writer);
}

/* Mode "wT" writes plain text. */
static int write_libsvm(const struct chaos_config *config, const char *path,
                        const char *mode, int64_t first)
{
    gzFile file = gzopen(path, mode);
    bool ok = file != NULL;
    for (int64_t i = first; ok && i < config->records; i += FILES) {
        ok = gzprintf(file, "%d %lld:1\n", (int)(i % 2), (long long)i) > 0;
    }
    ok = file != NULL && gzclose(file) == Z_OK && ok;
    return ok ? 0 : coxi_error(COX_EIO, "cannot write %s", path);
}

int chaos_dataset_write(const struct chaos_config *config, const char *dir)
{
    int r = coxi_directory_make(dir);
    for (int i = 0; r == 0 && i < FILES; i++) {
        char path[PATH_MAX];
        bool deflated = !is_recordio(config) && i % DEFLATED_EVERY == 0;
        r = coxi_path(path, "%s/records-%02d%s", dir, i, deflated ? ".gz" : "");
        if (r == 0) {
            r = is_recordio(config)
                    ? write_recordio(config, path, i)
                    : write_libsvm(config, path, deflated ? "wb" : "wT", i);
        }
    }
    return r;
}

/* ---- the data set */

static int create(struct chaos_dataset *dataset)
{
    const struct chaos_config *config = dataset->client->config;
    const char *pattern = dataset->pattern;
    struct cox_dataset_spec spec = COX_DATASET_SPEC_INIT;
    struct cox_table_spec visited = COX_TABLE_SPEC_INIT;
    visited.name = CHAOS_VISITED;
    visited.dim = 1;
    spec.name = "records";
    spec.files = &pattern;
    spec.n_files = 1;
    spec.format = is_recordio(config) ? COX_RECORDIO : COX_LIBSVM;
    spec.source = config->client_files ? COX_SOURCE_CLIENT : COX_SOURCE_WORKER;
    spec.epochs = (uint64_t)config->epochs;
    spec.batch_size = (uint32_t)config->batch_size;
    spec.task_bytes = (uint64_t)config->task_bytes;
    spec.shuffle = config->shuffle;
    spec.shuffle_window = config->shuffle ? WINDOW : 0;
    spec.seed = (uint64_t)config->seed;
    int r = cox_table_create(dataset->client->c, &visited, &dataset->visited);
    return r != 0 ? r
                  : cox_dataset_create(dataset->client->c, &spec, &dataset->records);
}

int chaos_dataset_open(struct chaos_client *client, struct cox_module *module,
                       struct chaos_dataset **ret)
{
    if (!client->config->dataset) {
        return 0;
    }
    struct chaos_dataset *dataset = calloc(1, sizeof(*dataset));
    if (dataset == NULL) {
        return chaos_client_wrong(client, "no memory for a data set");
    }
    dataset->client = client;
    *ret = dataset;
    chaos_client_doing(client, "creating the data set");
    int r = coxi_path(dataset->pattern, "%s/records-*", client->data_dir);
    if (r != 0) {
        return chaos_client_wrong(client, "%s", coxi_error_text());
    }
    r = cox_function_get(module, "visit", &dataset->visit);
    r = r != 0 ? r : create(dataset);
    return chaos_client_check(client, r);
}

/* ---- the run */

int chaos_dataset_run(struct chaos_dataset *dataset)
{
    struct chaos_client *client = dataset->client;
    const struct chaos_config *config = client->config;
    const int64_t plan[CHAOS_VISIT] = {
        [CHAOS_VISIT_SEED] = config->seed,
        [CHAOS_VISIT_US] = config->step_us,
        [CHAOS_VISIT_PS] = config->ps,
        [CHAOS_VISIT_CRASHES] = (int64_t)(config->crash_rate * CHAOS_VISIT_MILLION),
        [CHAOS_VISIT_STRAGGLES] = config->speculate,
        [CHAOS_VISIT_SEGMENTS] = config->segments,
    };
    struct cox_value arg = COX_VECTOR("plan", COX_I64, CHAOS_VISIT, plan);
    struct cox_call call = COX_CALL_INIT;
    int r = 0;
    call.args = &arg;
    call.n_args = 1;
    chaos_client_doing(client, "scheduling tasks");
    while (r == 0) {
        r = chaos_client_storm(client);
        if (r != 0) {
            return r;
        }
        r = chaos_rounds_schedule_next(client, dataset->visit, dataset->records, &call);
        coxi_lock(&client->lock);
        client->result.n_scheduled += r == 0;
        coxi_unlock(&client->lock);
    }
    if (r != COX_EEOF) {
        return chaos_client_check(client, r);
    }
    coxi_lock(&client->lock);
    for (int64_t i = 0; i < config->ps; i++) {
        client->result.expected[i] = config->records * config->epochs;
    }
    coxi_unlock(&client->lock);
    return 0;
}

/* ---- the end */

int chaos_dataset_count_wrong(struct chaos_dataset *dataset, int64_t *ret)
{
    const struct chaos_config *config = dataset->client->config;
    uint64_t n = (uint64_t)config->records;
    uint64_t *keys = calloc(CHUNK, sizeof(*keys));
    float *found = calloc(CHUNK, sizeof(*found));
    int r = keys != NULL && found != NULL ? 0 : coxi_error_memory("rows");
    for (uint64_t first = 0; r == 0 && first < n; first += CHUNK) {
        uint64_t some = n - first < CHUNK ? n - first : CHUNK;
        for (uint64_t i = 0; i < some; i++) {
            keys[i] = first + i;
        }
        r = cox_table_read(dataset->client->c, dataset->visited, keys, some, found);
        for (uint64_t i = 0; r == 0 && i < some; i++) {
            *ret += found[i] != (float)config->epochs;
        }
    }
    free(keys);
    free(found);
    return r;
}

void chaos_dataset_check(struct chaos_dataset *dataset)
{
    struct chaos_client *client = dataset->client;
    const struct chaos_config *config = client->config;
    struct cox_dataset_progress progress = COX_DATASET_PROGRESS_INIT;
    chaos_client_doing(client, "looking at the data set's progress");
    if (chaos_client_check(client, cox_dataset_progress(client->c, dataset->records,
                                                        &progress)) != 0) {
        return;
    }
    coxi_lock(&client->lock);
    client->result.n_records = progress.records;
    client->result.n_tasks = progress.done;
    client->result.n_task_retries = progress.retries;
    coxi_unlock(&client->lock);
    if (progress.records != (uint64_t)(config->records * config->epochs) ||
        progress.done != progress.tasks * (uint64_t)config->epochs ||
        progress.failed + progress.skipped + progress.bad_records + progress.todo +
                progress.pending !=
            0) {
        (void)chaos_client_wrong(
            client,
            "the data set has %llu records and %llu of %llu tasks done, %llu failed, "
            "%llu to do, %llu under way; first failure: %s",
            (unsigned long long)progress.records, (unsigned long long)progress.done,
            (unsigned long long)progress.tasks * (unsigned long long)config->epochs,
            (unsigned long long)progress.failed, (unsigned long long)progress.todo,
            (unsigned long long)progress.pending, progress.first_failure);
    }
}

void chaos_dataset_free(struct chaos_dataset *dataset)
{
    free(dataset);
}
