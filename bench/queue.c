/*
 * Case `queue`: the tasks of a data set of 1,000,000 tasks, in random order.
 *
 *   hand_outs       a task is taken, packed for its closure, and over; no coordinator
 *   returns         a task of 900,000 that are under way comes back, in random order, and
 *                   is taken again
 *   task_memory     bytes of memory for a task under way, with its packed form
 *   manifest_time   what the progress in a manifest takes, in per cent of the time in
 *                   which that many tasks are handed out, with a checkpoint every second
 *   manifest_bytes  how long it is there, when tasks end nearly in order
 *   scheduled       cox_schedule_next to a local cluster, against cox_schedule with the
 *                   same steps, which do nothing
 */
#include <fcntl.h>
#include <jansson.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/crew.h"
#include "coordinator/closures/closure.h"
#include "coordinator/datasets/marks.h"
#include "coordinator/datasets/tasks.h"
#include "data/cut.h"
#include "data/task.h"

enum {
    TASKS = 1000000,
    RETURNED = 900000,
    TASK_BYTES = 65536,
    UNDER_WAY = 1024,
    BATCH = 20000,
    LATE = 100
};

struct queue {
    struct coxi_files files;
    struct coxi_tasks tasks;
};

/* A file of holes that has TASKS tasks. */
static const char *make_file(const struct bench *bench)
{
    static char path[128];
    (void)snprintf(path, sizeof(path), "%s/records", bench->dir);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)TASKS * TASK_BYTES) != 0) {
        bench_die("cannot make %s", path);
    }
    (void)close(fd);
    return path;
}

static void queue_open(const struct bench *bench, struct queue *ret)
{
    const char *path = make_file(bench);
    const struct coxi_cut cut = {.task_bytes = TASK_BYTES, .splits = true};
    bench_check(coxi_files_find(&path, 1, &cut, &ret->files), "files");
    bench_check(coxi_tasks_init(&ret->tasks, ret->files.n_tasks, UINT64_MAX), "tasks");
}

/* Takes a task and packs it. */
static struct coxi_handout *hand_out(struct queue *queue, struct coxi_buffer *packed)
{
    struct coxi_handout *handout = coxi_tasks_take(
        &queue->tasks, UINT64_MAX, 0, calloc(1, sizeof(struct coxi_handout)));
    if (handout == NULL) {
        bench_die("out of tasks");
    }
    uint64_t epoch = handout->position / TASKS;
    uint64_t place = coxi_order(TASKS, 1, epoch, handout->position % TASKS);
    const struct coxi_cut_task cut = coxi_files_task(&queue->files, place);
    const struct coxi_task task = {
        .dataset = "clicks",
        .file = cut.file->name,
        .epoch = epoch,
        .place = place,
        .position = handout->position,
        .begin = cut.begin,
        .end = cut.end,
        .mark = cut.file->mark,
        .batch_size = 256,
        .prefetch = 2,
        .seed = coxi_task_seed(1, epoch, place),
        .decoding = {.format = COX_CRITEO, .buckets = 1000000}};
    packed->len = 0;
    bench_check(coxi_task_pack(&task, packed), "task");
    return handout;
}

/* Hands tasks out for about `seconds`, with UNDER_WAY of them under way; a second. */
static double hand_outs(struct queue *queue, double seconds)
{
    static struct coxi_handout *under_way[UNDER_WAY];
    struct coxi_buffer packed = {0};
    size_t n = 0;
    double start = bench_now();
    do {
        for (size_t i = 0; i < UNDER_WAY; i++, n++) {
            if (under_way[i] != NULL) {
                coxi_tasks_over(&queue->tasks, under_way[i]);
                free(under_way[i]);
            }
            under_way[i] = hand_out(queue, &packed);
        }
    } while (bench_now() - start < seconds);
    double took = bench_now() - start;
    for (size_t i = 0; i < UNDER_WAY; i++) {
        coxi_tasks_over(&queue->tasks, under_way[i]);
        free(under_way[i]);
        under_way[i] = NULL;
    }
    coxi_buffer_fini(&packed);
    return (double)n / took;
}

static void measure_hand_outs(struct bench *bench, struct queue *queue)
{
    struct bench_measurement m = {.name = "hand_outs",
                                  .params = "{\"tasks\":1000000}",
                                  .unit = "1/s",
                                  .baseline_name = "what it must reach"};
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        m.baseline[m.n_rounds] = 200000;
        m.value[m.n_rounds].value = hand_outs(queue, bench->seconds / BENCH_ROUNDS);
    }
    bench_report(bench, "queue", &m);
}

/* Takes RETURNED tasks, returns them in random order, and takes them again; tasks a
 * second that are returned and taken again. */
static double returns(struct coxi_handout **all)
{
    struct coxi_tasks tasks;
    bench_check(coxi_tasks_init(&tasks, TASKS, 1), "tasks");
    for (size_t i = 0; i < RETURNED; i++) {
        all[i] = coxi_tasks_take(&tasks, UINT64_MAX, 0, calloc(1, sizeof(**all)));
    }
    double start = bench_now();
    for (size_t i = 0; i < RETURNED; i++) {
        coxi_tasks_return(&tasks, all[coxi_order(RETURNED, 1, 0, i)], 0);
    }
    for (size_t i = 0; i < RETURNED; i++) {
        all[i] = coxi_tasks_take(&tasks, UINT64_MAX, 0, NULL);
    }
    double took = bench_now() - start;
    for (size_t i = 0; i < RETURNED; i++) {
        coxi_tasks_over(&tasks, all[i]);
        free(all[i]);
    }
    return RETURNED / took;
}

static void measure_returns(struct bench *bench)
{
    struct coxi_handout **all = calloc(RETURNED, sizeof(struct coxi_handout *));
    struct bench_measurement m = {.name = "returns",
                                  .params = "{\"tasks\":900000}",
                                  .unit = "1/s",
                                  .baseline_name = "what it must reach"};
    if (all == NULL) {
        bench_die("out of memory");
    }
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        m.baseline[m.n_rounds] = 200000;
        m.value[m.n_rounds].value = returns(all);
    }
    free(all);
    bench_report(bench, "queue", &m);
}

static double allocated(void)
{
    struct mallinfo2 info = mallinfo2();
    return (double)info.uordblks + (double)info.hblkhd;
}

static void measure_memory(struct bench *bench, struct queue *queue)
{
    enum { N = 100000 };
    struct coxi_handout **all = calloc(N, sizeof(*all));
    void **args = calloc(N, sizeof(*args));
    struct coxi_buffer packed = {0};
    if (all == NULL || args == NULL) {
        bench_die("out of memory");
    }
    double before = allocated();
    for (size_t i = 0; i < N; i++) {
        all[i] = hand_out(queue, &packed);
        args[i] = malloc(packed.len);
    }
    struct bench_measurement m = {.name = "task_memory",
                                  .params = "{\"tasks\":1000000}",
                                  .unit = "bytes",
                                  .baseline_name = "what it may take",
                                  .baseline = {200},
                                  .n_rounds = 1};
    m.value[0].value = (allocated() - before) / N;
    for (size_t i = 0; i < N; i++) {
        coxi_tasks_over(&queue->tasks, all[i]);
        free(all[i]);
        free(args[i]);
    }
    coxi_buffer_fini(&packed);
    free(all);
    free(args);
    bench_report(bench, "queue", &m);
}

/* The progress as text; *ret_bytes: its length. */
static void save(const struct queue *queue, struct coxi_manifest_dataset *dataset,
                 size_t *ret_bytes)
{
    const struct coxi_manifest_datasets datasets = {dataset, 1};
    bench_check(
        coxi_tasks_save(&queue->tasks, UINT64_MAX, &dataset->next, &dataset->again),
        "progress");
    json_t *json = coxi_manifest_datasets_json(&datasets);
    char *text = json_dumps(json, JSON_INDENT(1));
    if (text == NULL) {
        bench_die("out of memory");
    }
    *ret_bytes = strlen(text);
    free(text);
    json_decref(json);
    coxi_manifest_ranges_fini(&dataset->again);
}

/* LATE tasks, far from each other, have been returned; everything else is in order. */
static void measure_manifest(struct bench *bench, struct queue *queue)
{
    struct coxi_manifest_dataset dataset = {.name = (char[]){"clicks"},
                                            .epochs = UINT64_MAX,
                                            .n_tasks = TASKS,
                                            .n_files = 1};
    struct coxi_handout *late[LATE];
    struct coxi_buffer packed = {0};
    size_t bytes = 0;
    bench_check(coxi_marks_make(&queue->files, &dataset.marks, &dataset.n_marks),
                "marks");
    for (size_t i = 0; i < LATE; i++) {
        late[i] = hand_out(queue, &packed);
        (void)hand_outs(queue, 0);
    }
    for (size_t i = 0; i < LATE; i++) {
        coxi_tasks_return(&queue->tasks, late[i], 0);
    }
    const char *params = "{\"tasks\":1000000,\"returned\":100}";
    struct bench_measurement time = {.name = "manifest_time",
                                     .params = params,
                                     .unit = "%",
                                     .baseline_name = "what it may take",
                                     .baseline = {1},
                                     .n_rounds = 1};
    struct bench_measurement size = {.name = "manifest_bytes",
                                     .params = params,
                                     .unit = "bytes",
                                     .baseline_name = "what it may take",
                                     .baseline = {65536},
                                     .n_rounds = 1};
    size_t n = 0;
    double start = bench_now();
    for (; n < 10 || bench_now() - start < bench->seconds / BENCH_ROUNDS; n++) {
        save(queue, &dataset, &bytes);
    }
    time.value[0].value = 100 * (bench_now() - start) / (double)n;
    size.value[0].value = (double)bytes;
    bench_report(bench, "queue", &time);
    bench_report(bench, "queue", &size);
    coxi_buffer_fini(&packed);
    free(dataset.marks);
}

/* ---- with a coordinator */

/* Schedules batches for about `seconds`, with tasks of the data set or without; a
 * second. */
static double schedule(struct crew *crew, struct cox_function *nothing,
                       struct cox_dataset *dataset, double seconds)
{
    size_t n = 0;
    double start = bench_now();
    do {
        for (size_t i = 0; i < BATCH; i++, n++) {
            bench_check(dataset != NULL
                            ? cox_schedule_next(crew->c, nothing, dataset, NULL, NULL)
                            : cox_schedule(crew->c, nothing, NULL, NULL),
                        "schedule");
        }
        bench_check(cox_join(crew->c, -1), "join");
    } while (bench_now() - start < seconds);
    return (double)n / (bench_now() - start);
}

static void measure_scheduled(struct bench *bench)
{
    struct crew crew;
    struct cox_dataset *dataset;
    const char *path = make_file(bench);
    struct cox_dataset_spec spec = COX_DATASET_SPEC_INIT;
    struct bench_measurement m = {.name = "scheduled",
                                  .params = "{\"workers\":2,\"ps\":2,\"slots\":1}",
                                  .unit = "1/s",
                                  .baseline_name = "cox_schedule"};
    double seconds = bench->seconds / BENCH_ROUNDS / 2;
    crew_open(bench, 2, 2, NULL, &crew);
    spec.name = "clicks";
    spec.files = &path;
    spec.n_files = 1;
    spec.format = COX_LIBSVM;
    spec.task_bytes = TASK_BYTES;
    spec.shuffle = 1;
    spec.epochs = COX_EPOCHS_FOREVER;
    bench_check(cox_dataset_create(crew.c, &spec, &dataset), "data set");
    struct cox_function *nothing = crew_function(&crew, "nothing");
    (void)schedule(&crew, nothing, NULL, seconds); /* warms up */
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        m.baseline[m.n_rounds] = schedule(&crew, nothing, NULL, seconds);
        m.value[m.n_rounds].value = schedule(&crew, nothing, dataset, seconds);
    }
    bench_report(bench, "queue", &m);
    crew_close(&crew);
}

void bench_queue(struct bench *bench)
{
    struct queue queue;
    queue_open(bench, &queue);
    measure_hand_outs(bench, &queue);
    measure_returns(bench);
    measure_memory(bench, &queue);
    measure_manifest(bench, &queue);
    coxi_tasks_fini(&queue.tasks);
    coxi_files_fini(&queue.files);
    measure_scheduled(bench);
}
