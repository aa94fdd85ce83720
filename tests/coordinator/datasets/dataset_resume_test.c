/* Data sets of clients that go on from a checkpoint. */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/manifest.h"
#include "common/file.h"
#include "common/rand.h"
#include "tests/coordinator/datasets/dataset.h"
#include "tests/test.h"

enum { EPOCHS = 3, KILLS = 4 };

static struct cox_options options_in(const char *dir)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = dir;
    return options;
}

static struct cox_dataset_spec spec_of(uint32_t shuffle)
{
    struct cox_dataset_spec spec = rows_spec();
    spec.epochs = EPOCHS;
    spec.shuffle = shuffle;
    return spec;
}

static void save(struct rows *rows)
{
    assert_code(0, cox_checkpoint_save(rows->crew.c, NULL, NULL));
}

/* ---- closed in the middle */

static void assert_goes_on(uint32_t shuffle)
{
    struct rows rows;
    struct cox_options options =
        options_in(coxi_test_path(shuffle ? "ckpt-1" : "ckpt"));
    struct cox_dataset_spec spec = spec_of(shuffle);
    rows_open(&rows, 2, &options, &spec);
    struct cox_function *step = crew_function(&rows.crew, "count_lines");
    uint64_t tasks = rows_progress(&rows).tasks;
    for (uint64_t i = 0; i < tasks + 5; i++) {
        assert_code(0, cox_schedule_next(rows.crew.c, step, rows.dataset, NULL, NULL));
    }
    save(&rows); /* some are done, some are under way */
    for (uint64_t i = 0; i < 4; i++) {
        assert_code(0, cox_schedule_next(rows.crew.c, step, rows.dataset, NULL, NULL));
    }
    rows_close(&rows);
    rows_open(&rows, 2, &options, &spec);
    assert_true(rows_progress(&rows).done <= tasks + 5);
    assert_code(COX_EEOF, rows_run(&rows, "count_lines", NULL, 0));
    rows_assert_all(&rows, EPOCHS);
    struct cox_dataset_progress p = rows_progress(&rows);
    assert_int_equal(p.done, EPOCHS * tasks);
    assert_int_equal(p.records, EPOCHS * ROWS_N);
    assert_int_equal(p.bytes, EPOCHS * p.bytes_total);
    rows_close(&rows);
}

TEST(a_client_goes_on_at_the_record)
{
    assert_goes_on(0);
}

TEST(a_client_goes_on_in_a_shuffled_order)
{
    assert_goes_on(1);
}

/* Schedules `n` tasks, one after the other; the one at place 2 fails. */
static void schedule_three(struct rows *rows, int n)
{
    const int64_t row = ROWS_THIRD + 1;
    const struct cox_value arg = COX_SCALAR("fail_row", COX_I64, &row);
    struct cox_function *step = crew_function(&rows->crew, "count_lines");
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    for (int i = 0; i < n; i++) {
        struct cox_future *future;
        assert_code(
            0, cox_schedule_next(rows->crew.c, step, rows->dataset, &call, &future));
        (void)cox_future_wait(future, 10000);
        cox_future_free(future);
    }
}

TEST(a_client_goes_on_with_failures_and_returned_tasks)
{
    struct rows rows;
    struct cox_options options = options_in(coxi_test_path("ckpt"));
    struct cox_dataset_spec spec = rows_spec();
    spec.failures_max = 2;
    rows_open(&rows, 1, &options, &spec);
    schedule_three(&rows, 3);
    save(&rows);
    rows_close(&rows);
    rows_open(&rows, 1, &options, &spec);
    assert_true(rows_progress(&rows).retries == 1 && rows_progress(&rows).done == 2);
    schedule_three(&rows, 1); /* fails for the second time */
    assert_int_equal(rows_progress(&rows).failed, 1);
    save(&rows);
    rows_close(&rows);
    /* a client that did not see the failure tells of it, too */
    rows_open(&rows, 1, &options, &spec);
    assert_code(COX_ESTEP, rows_run(&rows, "count_lines", NULL, 0));
    assert_error_names("1 failed");
    assert_error_names("rows-0:");
    assert_int_equal(rows_progress(&rows).failed, 1);
    rows_close(&rows);
}

/* ---- a task under way in the checkpoint */

struct goal {
    struct rows *rows;
    uint64_t done;
};

static bool is_done(void *arg)
{
    const struct goal *goal = arg;
    return rows_progress(goal->rows).done >= goal->done;
}

enum end { END_DONE, END_FAILS, END_FLUSHED };

/* Takes a checkpoint while the first task hangs, and five later ones are done; then the
 * client is closed. `end`: the step fails once it does not hang any more, or it has
 * flushed its batches before. */
static void save_amid(const struct cox_options *options,
                      const struct cox_dataset_spec *spec, const char *gate,
                      enum end end)
{
    struct rows rows;
    struct cox_call call = COX_CALL_INIT;
    const int64_t row = 1; /* row 0 */
    const struct cox_value args[] = {
        COX_VECTOR("gate", COX_U8, strlen(gate) + 1, gate),
        COX_SCALAR("slow_row", COX_I64, &row),
        COX_SCALAR(end == END_FAILS ? "fail_row" : "flush", COX_I64, &row)};
    coxi_test_write(gate, "", 0);
    rows_open(&rows, 2, options, spec);
    struct goal goal = {&rows, 5};
    call.args = args;
    call.n_args = end != END_DONE ? 3 : 2;
    for (int i = 0; i < 6; i++) {
        assert_code(0, cox_schedule_next(rows.crew.c,
                                         crew_function(&rows.crew, "count_lines"),
                                         rows.dataset, &call, NULL));
    }
    coxi_test_until(is_done, &goal, "five tasks done");
    save(&rows);
    rows_close(&rows);
    assert_int_equal(0, unlink(gate));
}

static void assert_goes_on_amid(bool fails)
{
    struct rows rows;
    struct cox_progress progress = COX_PROGRESS_INIT;
    struct cox_options options = options_in(coxi_test_path("amid"));
    struct cox_dataset_spec spec = spec_of(0);
    save_amid(&options, &spec, coxi_test_path("gate"), fails ? END_FAILS : END_DONE);
    rows_open(&rows, 2, &options, &spec);
    assert_code(0, cox_progress(rows.crew.c, &progress));
    assert_int_equal(progress.rerun, 1);
    assert_int_equal(rows_progress(&rows).done, 5);
    assert_int_equal(rows_progress(&rows).pending, 1);
    assert_code(COX_EEOF, rows_run(&rows, "count_lines", NULL, 0));
    rows_assert_all(&rows, EPOCHS);
    struct cox_dataset_progress p = rows_progress(&rows);
    assert_int_equal(p.done, EPOCHS * p.tasks);
    assert_int_equal(p.records, EPOCHS * ROWS_N);
    assert_int_equal(p.retries, fails);
    rows_close(&rows);
}

TEST(a_task_under_way_in_the_checkpoint_counts_once)
{
    assert_goes_on_amid(false);
}

TEST(a_task_under_way_in_the_checkpoint_may_fail_and_come_again)
{
    assert_goes_on_amid(true);
}

/* A part of the task is applied, so it could not be given out again. */
TEST(a_task_under_way_has_its_file_before_the_data_set_is_created)
{
    struct rows rows;
    struct cox_options options = options_in(coxi_test_path("late"));
    struct cox_dataset_spec spec = spec_of(0);
    spec.source = COX_SOURCE_CLIENT;
    save_amid(&options, &spec, coxi_test_path("gate"), END_FLUSHED);
    crew_open(&rows.crew, 2, 2, "lines", &options);
    assert_code(0, cox_join(rows.crew.c, -1));
    rows_create(&rows, &spec);
    assert_code(COX_EEOF, rows_run(&rows, "count_lines", NULL, 0));
    rows_assert_all(&rows, EPOCHS);
    struct cox_dataset_progress p = rows_progress(&rows);
    assert_true(p.done == EPOCHS * p.tasks && p.failed == 0 && p.retries == 0);
    rows_close(&rows);
}

/* ---- killed */

enum { AT_ONCE = 4, MOMENTS = 12 };

/* How a client trains. */
struct manner {
    uint32_t source;
    bool in_rounds; /* of AT_ONCE tasks */
    uint32_t backups;
};

/* A client that trains on what is left, and saves again and again while steps run.
 * `n_moments` counts what it does. */
static void train(const char *dir, const struct manner *manner, atomic_uint *n_moments)
{
    struct rows rows;
    struct cox_options options = options_in(dir);
    struct cox_dataset_spec spec = spec_of(1);
    spec.source = manner->source;
    rows_open(&rows, 2, &options, &spec);
    struct cox_rounds *rounds = rows_rounds(&rows, manner->backups);
    struct cox_function *step = crew_function(&rows.crew, "count_lines");
    for (int r = 0; r == 0;) {
        for (int i = 0; r == 0 && i < AT_ONCE; i += manner->in_rounds ? AT_ONCE : 1) {
            r = manner->in_rounds
                    ? cox_round_schedule_next(rounds, step, rows.dataset, NULL, AT_ONCE,
                                              NULL, NULL)
                    : cox_schedule_next(rows.crew.c, step, rows.dataset, NULL, NULL);
            (void)atomic_fetch_add(n_moments, 1);
        }
        save(&rows);
        (void)atomic_fetch_add(n_moments, 1);
    }
    atomic_store(n_moments, UINT32_MAX);
    for (;;) {
        (void)pause();
    }
}

static bool has_two_checkpoints(void *arg)
{
    char path[PATH_MAX];
    struct stat at;
    const uint64_t *n = arg;
    assert_code(0, coxi_path(path, "%s/ckpt-%llu", coxi_test_path("killed"),
                             (unsigned long long)*n));
    return stat(path, &at) == 0;
}

struct moment {
    const atomic_uint *n;
    unsigned wanted;
};

static bool has_come(void *arg)
{
    const struct moment *moment = arg;
    return atomic_load(moment->n) >= moment->wanted;
}

/* The highest number of a checkpoint, 0: there is none. */
static uint64_t highest(void)
{
    uint64_t n = 0;
    FILE *file = fopen(coxi_test_path("killed/LATEST"), "re");
    if (file != NULL) {
        assert_int_equal(1, fscanf(file, "ckpt-%" SCNu64, &n));
        (void)fclose(file);
    }
    return n;
}

static void kill_clients(const struct manner *manner)
{
    struct rows rows;
    const char *dir = coxi_test_path("killed");
    struct cox_options options = options_in(dir);
    struct cox_dataset_spec spec = spec_of(1);
    uint64_t seed = 16;
    spec.source = manner->source;
    (void)rows_spec(); /* this process writes the files */
    atomic_uint *n_moments = mmap(NULL, sizeof(*n_moments), PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(n_moments != MAP_FAILED);
    for (int i = 0; i < KILLS; i++) {
        uint64_t wanted = highest() + 2;
        atomic_store(n_moments, 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            train(dir, manner, n_moments);
        }
        coxi_test_until(has_two_checkpoints, &wanted, "a checkpoint");
        struct moment moment = {n_moments, atomic_load(n_moments)};
        moment.wanted += (unsigned)(coxi_rand(&seed) % MOMENTS);
        coxi_test_until(has_come, &moment, "the client goes on");
        crew_kill(pid);
        assert_int_equal(pid, waitpid(pid, NULL, 0));
    }
    assert_int_equal(0, munmap(n_moments, sizeof(*n_moments)));
    rows_open(&rows, 2, &options, &spec);
    assert_code(COX_EEOF,
                manner->in_rounds
                    ? rows_run_rounds(&rows, rows_rounds(&rows, manner->backups),
                                      AT_ONCE, NULL, 0)
                    : rows_run(&rows, "count_lines", NULL, 0));
    rows_assert_all(&rows, EPOCHS);
    struct cox_dataset_progress p = rows_progress(&rows);
    assert_int_equal(p.done, EPOCHS * p.tasks);
    assert_int_equal(p.records, EPOCHS * ROWS_N);
    rows_close(&rows);
}

TEST(clients_that_are_killed_lose_no_record_and_repeat_none)
{
    kill_clients(&(struct manner){.source = COX_SOURCE_WORKER});
}

TEST(clients_that_are_killed_read_their_files_again)
{
    kill_clients(&(struct manner){.source = COX_SOURCE_CLIENT});
}

TEST(clients_that_are_killed_amid_rounds_lose_no_record_and_repeat_none)
{
    kill_clients(&(struct manner){.in_rounds = true});
}

TEST(clients_that_are_killed_amid_rounds_with_backups_do_neither)
{
    kill_clients(&(struct manner){.in_rounds = true, .backups = 1});
}

/* ---- another data set under the name */

/* A checkpoint in the middle of the data set. */
static struct cox_options half_done(const struct cox_dataset_spec *spec)
{
    struct rows rows;
    struct cox_options options = options_in(coxi_test_path("half"));
    rows_open(&rows, 1, &options, spec);
    for (int i = 0; i < 3; i++) {
        assert_code(0, rows_next(&rows, "count_lines", NULL));
    }
    assert_code(0, cox_join(rows.crew.c, -1));
    save(&rows);
    rows_close(&rows);
    return options;
}

static void assert_conflict(struct crew *crew, const struct cox_dataset_spec *spec,
                            const char *named)
{
    struct cox_dataset *dataset;
    assert_code(COX_ECONFLICT, cox_dataset_create(crew->c, spec, &dataset));
    assert_error_names("'rows' of the checkpoint");
    assert_error_names(named);
}

TEST(another_spec_than_the_checkpoints_is_a_conflict)
{
    struct crew crew;
    struct cox_dataset *dataset;
    struct cox_dataset_spec spec = spec_of(0);
    struct cox_options options = half_done(&spec);
    crew_open(&crew, 2, 1, "lines", &options);
    spec.task_bytes++;
    assert_conflict(&crew, &spec, "task_bytes is 101, not 100");
    spec = spec_of(1);
    assert_conflict(&crew, &spec, "shuffle is 1, not 0");
    spec = spec_of(0);
    spec.seed = 9;
    assert_conflict(&crew, &spec, "seed is 9, not 0");
    spec = spec_of(0);
    spec.format = COX_LIBFFM;
    assert_conflict(&crew, &spec, "format is libffm, not libsvm");
    spec = spec_of(0);
    spec.epochs--;
    assert_conflict(&crew, &spec, "epochs");
    /* these may differ */
    spec = spec_of(0);
    spec.epochs = 10;
    spec.prefetch = 7;
    spec.failures_max = 9;
    spec.timeout_floor_ms = -1;
    assert_code(0, cox_dataset_create(crew.c, &spec, &dataset));
    assert_code(COX_EEXIST, cox_dataset_create(crew.c, &spec, &dataset));
    crew_close(&crew);
}

TEST(files_that_have_changed_since_the_checkpoint_are_a_conflict)
{
    struct crew crew;
    struct cox_dataset *dataset;
    struct cox_dataset_spec spec = spec_of(0);
    struct cox_options options = half_done(&spec);
    const char *path = coxi_test_path("rows-1");
    const char *more = coxi_test_path("rows-3");
    size_t len;
    char *text = coxi_test_read(path, &len);
    struct stat was;
    assert_int_equal(0, stat(path, &was));
    const struct timespec times[2] = {was.st_atim, was.st_mtim};
    crew_open(&crew, 2, 1, "lines", &options);
    coxi_test_write(path, text, len - 1);
    assert_conflict(&crew, &spec, "rows-1 has changed: 1563 bytes, not 1564");
    text[0] ^= 1;
    coxi_test_write(path, text, len);
    assert_conflict(&crew, &spec, "rows-1 has changed: it begins differently");
    text[0] ^= 1;
    coxi_test_write(path, text, len);
    assert_conflict(&crew, &spec, "rows-1 has changed: it was written at another time");
    assert_int_equal(0, utimensat(AT_FDCWD, path, times, 0));
    coxi_test_write(more, "1\n", 2);
    assert_conflict(&crew, &spec, "3 files, and now 4");
    assert_int_equal(0, rename(coxi_test_path("rows-2"), coxi_test_path("other")));
    assert_conflict(&crew, &spec, "rows-3");
    assert_int_equal(0, unlink(more));
    assert_int_equal(0, rename(coxi_test_path("other"), coxi_test_path("rows-2")));
    assert_code(0, cox_dataset_create(crew.c, &spec, &dataset));
    free(text);
    crew_close(&crew);
}

TEST(a_data_set_that_the_program_does_not_create_stays_in_checkpoints)
{
    struct rows rows;
    struct crew crew;
    struct cox_dataset_spec spec = spec_of(0);
    struct cox_options options = half_done(&spec);
    crew_open(&crew, 2, 1, "lines", &options);
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    crew_close(&crew);
    rows_open(&rows, 1, &options, &spec);
    assert_int_equal(rows_progress(&rows).done, 3);
    assert_code(COX_EEOF, rows_run(&rows, "count_lines", NULL, 0));
    rows_assert_all(&rows, EPOCHS);
    rows_close(&rows);
}
