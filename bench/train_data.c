/*
 * `train` over a data set: examples a second of the click model of examples/ctr, whose
 * rows come from files of libsvm, beside the same steps on rows that the worker has in
 * memory. Both sides have one cluster, and take turns.
 *
 *   lr_data, fm_data     tasks of 4 MiB; each batch of 64 rows is a segment
 *   lr_tasks, fm_tasks   tasks of 16 KiB, without segments, as examples/ctr has them
 *
 *   ..._cpu              CPU time of all processes for an example
 *
 * The files have --bytes together, and are read again and again. The rows in memory are
 * those of the first file.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/batch_steps.h"
#include "bench/bench.h"
#include "coxswain/coxswain.h"
#include "examples/ctr/clicks.h"
#include "examples/ctr/model.h"

enum {
    FILE_ROWS = 100000,
    QUEUE = 4, /* closures: what is left to do when the time of a turn is over */
    TURNS = 2, /* of each side in a round */
};

struct files {
    char dir[128];
    char first[160];
    uint64_t bytes; /* of the first one */
    int n;
};

struct kind {
    const char *name;
    bool factors;
    uint64_t task_bytes;
    int64_t segments;
};

struct course {
    struct cox_coordinator *c;
    struct cox_dataset *rows;
    struct cox_function *train_data;
    struct cox_function *train_kept;
    int64_t segments;
    int64_t n;     /* batches of a closure that has rows in memory */
    int64_t first; /* of the next closure */
};

/* ---- files */

static void write_file(const struct files *files, int i)
{
    char path[160];
    const struct clicks clicks = {.n_rows = FILE_ROWS, .seed = 1, .ids = 5000};
    (void)snprintf(path, sizeof(path), "%s/clicks-%05d", files->dir, i);
    if (clicks_generate(path, &clicks, i) != 0) {
        bench_die("cannot write %s", path);
    }
}

static void write_files(const struct bench *bench, uint64_t bytes, struct files *files)
{
    struct stat st;
    (void)snprintf(files->dir, sizeof(files->dir), "%s/rows", bench->dir);
    (void)snprintf(files->first, sizeof(files->first), "%s/clicks-00000", files->dir);
    if (mkdir(files->dir, 0700) != 0) {
        bench_die("cannot make %s", files->dir);
    }
    write_file(files, 0);
    if (stat(files->first, &st) != 0) {
        bench_die("cannot look at %s", files->first);
    }
    files->bytes = (uint64_t)st.st_size;
    files->n =
        1 + (int)((bytes > files->bytes ? bytes - files->bytes : 0) / files->bytes);
    for (int i = 1; i < files->n; i++) {
        write_file(files, i);
    }
}

/* ---- the cluster */

static const struct cox_optimizer adagrad = {
    .kind = COX_ADAGRAD, .learning_rate = 0.1F, .initial_accumulator = 100};

static void create_table(struct cox_coordinator *c, const char *name, uint32_t dim,
                         float deviation)
{
    struct cox_table *table;
    struct cox_table_spec spec = COX_TABLE_SPEC_INIT;
    spec.name = name;
    spec.dim = dim;
    spec.optimizer = adagrad;
    spec.initializer = (struct cox_initializer){COX_NORMAL, 0, deviation, 1};
    bench_check(cox_table_create(c, &spec, &table), "table");
}

static void create_parameters(struct cox_coordinator *c, bool factors)
{
    struct cox_variable *bias;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    spec.name = "bias";
    spec.dtype = COX_F32;
    spec.rank = 1;
    spec.shape[0] = 1;
    spec.optimizer = adagrad;
    bench_check(cox_variable_create(c, &spec, &bias), "variable");
    create_table(c, "weights", 1, 0.01F);
    if (factors) {
        create_table(c, "factors", MODEL_FACTORS, 0.03F);
    }
}

static void create_rows(struct course *course, const struct files *files,
                        const struct kind *kind)
{
    char pattern[160];
    const char *name = pattern;
    struct cox_dataset_spec spec = COX_DATASET_SPEC_INIT;
    (void)snprintf(pattern, sizeof(pattern), "%s/clicks-*", files->dir);
    spec.name = "rows";
    spec.files = &name;
    spec.n_files = 1;
    spec.format = COX_LIBSVM;
    spec.epochs = COX_EPOCHS_FOREVER;
    spec.batch_size = BATCH_ROWS;
    spec.task_bytes = kind->task_bytes;
    spec.shuffle = 1;
    bench_check(cox_dataset_create(course->c, &spec, &course->rows), "data set");
}

static void load_steps(struct course *course, const struct bench *bench,
                       const struct files *files)
{
    char path[sizeof(bench->self) + 32];
    struct cox_module *module;
    struct cox_function *keep;
    struct cox_value file =
        COX_VECTOR("path", COX_U8, strlen(files->first), files->first);
    struct cox_call call = COX_CALL_INIT;
    (void)snprintf(path, sizeof(path), "%s", bench->self);
    (void)strcpy(strrchr(path, '/') + 1, "batch_steps.so");
    call.args = &file;
    call.n_args = 1;
    bench_check(cox_module_load(course->c, path, &module), "module");
    bench_check(cox_function_get(module, "train_data", &course->train_data), "step");
    bench_check(cox_function_get(module, "train_kept", &course->train_kept), "step");
    bench_check(cox_function_get(module, "keep", &keep), "step");
    bench_check(cox_resource_create(course->c, BATCH_KEPT, keep, &call, NULL), "rows");
}

static void open_course(struct course *course, const struct bench *bench,
                        const struct files *files, const struct kind *kind)
{
    struct cox_cluster *cluster;
    struct cox_options options = COX_OPTIONS_INIT;
    options.worker_slots = 2;
    options.queue_max = QUEUE;
    bench_check(cox_cluster_local(1, 1, &cluster), "cluster");
    bench_check(cox_open(cluster, &options, &course->c), "open");
    cox_cluster_free(cluster);
    create_parameters(course->c, kind->factors);
    create_rows(course, files, kind);
    load_steps(course, bench, files);
    course->segments = kind->segments;
    course->n = (int64_t)(kind->task_bytes * FILE_ROWS / files->bytes) / BATCH_ROWS;
    course->n = course->n > 0 ? course->n : 1;
}

/* ---- turns */

static uint64_t rows_done(const struct course *course)
{
    struct cox_dataset_progress progress = COX_DATASET_PROGRESS_INIT;
    bench_check(cox_dataset_progress(course->c, course->rows, &progress), "progress");
    if (progress.failed > 0) {
        bench_die("a task has failed: %s", progress.first_failure);
    }
    return progress.records;
}

/* What the turns of a round have come to. */
struct sum {
    double rows;
    double seconds;
    double cpu; /* of all processes */
};

static void schedule_data(struct course *course, struct sum *sum)
{
    struct cox_value segments = COX_SCALAR("segments", COX_I64, &course->segments);
    struct cox_call call = COX_CALL_INIT;
    (void)sum; /* the data set counts its rows */
    call.args = &segments;
    call.n_args = 1;
    bench_check(
        cox_schedule_next(course->c, course->train_data, course->rows, &call, NULL),
        "schedule");
}

static void schedule_kept(struct course *course, struct sum *sum)
{
    const struct cox_value args[] = {
        COX_SCALAR("segments", COX_I64, &course->segments),
        COX_SCALAR("first", COX_I64, &course->first),
        COX_SCALAR("n", COX_I64, &course->n),
    };
    struct cox_call call = COX_CALL_INIT;
    call.args = args;
    call.n_args = sizeof(args) / sizeof(*args);
    bench_check(cox_schedule(course->c, course->train_kept, &call, NULL), "schedule");
    course->first += course->n;
    sum->rows += (double)(course->n * BATCH_ROWS);
}

/* Schedules closures for so long, and waits for them. */
static void turn(struct course *course, void (*schedule)(struct course *, struct sum *),
                 double seconds, struct sum *sum)
{
    uint64_t before = rows_done(course);
    double cpu = bench_cpu_all();
    double start = bench_now();
    do {
        schedule(course, sum);
    } while (bench_now() - start < seconds);
    bench_check(cox_join(course->c, -1), "join");
    sum->seconds += bench_now() - start;
    sum->cpu += bench_cpu_all() - cpu;
    sum->rows += (double)(rows_done(course) - before);
}

static void measure(struct bench *bench, const struct files *files,
                    const struct kind *kind)
{
    char params[160];
    char cpu_name[32];
    struct course course = {0};
    double turn_s = bench->seconds / BENCH_ROUNDS / TURNS / 2;
    struct sum ignored = {0};
    (void)snprintf(params, sizeof(params),
                   "{\"ps\":1,\"workers\":1,\"slots\":2,\"bytes\":%" PRIu64
                   ",\"task_bytes\":%" PRIu64 ",\"segments\":%" PRId64 "}",
                   files->bytes * (uint64_t)files->n, kind->task_bytes, kind->segments);
    (void)snprintf(cpu_name, sizeof(cpu_name), "%s_cpu", kind->name);
    const char *baseline = "the same, rows in memory";
    struct bench_measurement rate = {
        .name = kind->name, .params = params, .unit = "1/s", .baseline_name = baseline};
    struct bench_measurement cpu = {
        .name = cpu_name, .params = params, .unit = "us", .baseline_name = baseline};
    open_course(&course, bench, files, kind);
    turn(&course, schedule_data, turn_s, &ignored); /* makes the table's rows */
    turn(&course, schedule_kept, turn_s, &ignored);
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        struct sum data = {0};
        struct sum kept = {0};
        for (int k = 0; k < TURNS; k++) {
            turn(&course, schedule_kept, turn_s, &kept);
            turn(&course, schedule_data, turn_s, &data);
        }
        rate.value[i].value = data.rows / data.seconds;
        rate.baseline[i] = kept.rows / kept.seconds;
        cpu.value[i].value = 1e6 * data.cpu / data.rows;
        cpu.baseline[i] = 1e6 * kept.cpu / kept.rows;
    }
    rate.n_rounds = cpu.n_rounds = BENCH_ROUNDS;
    bench_report(bench, "train", &rate);
    bench_report(bench, "train", &cpu);
    bench_check(cox_close(course.c, 5000), "close");
}

void bench_train_data(struct bench *bench)
{
    static const struct kind kinds[] = {
        {"lr_data", false, 4 << 20, 1},
        {"fm_data", true, 4 << 20, 1},
        {"lr_tasks", false, 16 << 10, 0},
        {"fm_tasks", true, 16 << 10, 0},
    };
    struct files files = {.n = 0};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (!bench_wants(bench, kinds[i].name)) {
            continue;
        }
        if (files.n == 0) {
            write_files(bench, bench->bytes > 0 ? bench->bytes : 128000000, &files);
        }
        measure(bench, &files, &kinds[i]);
    }
}
