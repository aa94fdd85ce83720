/* The history of a run: what is recorded, on disk and in memory; clients that go on, disks
 * without room. */
#include <glob.h>
#include <jansson.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/history_file.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/history.h"
#include "coordinator/monitor/writer.h"
#include "tests/coordinator/crew.h"
#include "tests/coordinator/monitor/dead_disk.h"
#include "tests/coordinator/monitor/told.h"
#include "tests/test.h"

enum { N = 100, HOARD = 256 << 20 };

static void count(struct crew *crew, int n)
{
    (void)crew_counter(crew, "c0");
    crew_schedule(crew, crew_function(crew, "count"), n, 1);
    assert_code(0, cox_join(crew->c, -1));
}

/* Runs a client in `dir` that counts, and saves a checkpoint if `saves`. */
static void run(const char *dir, bool saves)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = dir;
    options.checkpoint_at_close = -1;
    crew_open(&crew, 2, 2, "counter", &options);
    count(&crew, N);
    if (saves) {
        assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    }
    crew_close(&crew);
}

TEST(the_history_tells_of_run_samples_ps_workers_checkpoints_and_events)
{
    struct told told;
    char *dir = coxi_test_path("run");
    run(dir, true);
    told_read(dir, &told);
    const json_t *begun = told_last(&told, "run");
    assert_int_equal(2, told_number(begun, "n_ps"));
    assert_int_equal(1, told_number(begun, "generation"));
    assert_null(json_object_get(begun, "resumed"));
    const json_t *sample = told_last(&told, "sample");
    assert_int_equal(N, told_number(sample, "done"));
    assert_int_equal(2, told_number(sample, "workers_ready"));
    assert_int_equal(0, told_number(sample, "in_flight"));
    assert_true(told_number(sample, "step") >= N);
    assert_true(json_is_true(json_object_get(sample, "over")));
    assert_int_equal(2, json_array_size(json_object_get(told_last(&told, "ps"), "ps")));
    const json_t *workers = json_object_get(told_last(&told, "workers"), "workers");
    assert_true(json_array_size(workers) > 0);
    const json_t *checkpoint = told_last(&told, "checkpoint");
    assert_int_equal(1, told_number(checkpoint, "number"));
    assert_true(told_number(checkpoint, "closure") >= N);
    assert_true(told_number(checkpoint, "bytes") > 0);
    assert_non_null(told_event(&told, "checkpoint_saved"));
    told_free(&told);
}

/* All ps have answered, so nothing is as it was a moment before. */
TEST(the_last_sample_has_the_last_numbers)
{
    struct crew crew;
    struct told told;
    struct cox_stats stats = COX_STATS_INIT;
    struct cox_options options = COX_OPTIONS_INIT;
    char *dir = coxi_test_path("run");
    options.checkpoint_dir = dir;
    options.checkpoint_at_close = 1;
    crew_open(&crew, 2, 2, "counter", &options);
    count(&crew, N);
    assert_code(0, cox_stats(crew.c, &stats));
    crew_close(&crew);
    told_read(dir, &told);
    const json_t *sample = told_last(&told, "sample");
    assert_true(json_is_true(json_object_get(sample, "over")));
    assert_int_equal(stats.commits, told_number(sample, "commits"));
    assert_int_equal(stats.done, told_number(sample, "done"));
    assert_int_equal(0, told_number(sample, "ps_age_ms"));
    assert_int_equal(1, told_number(sample, "checkpoints")); /* the one at close */
    assert_true(told_number(sample, "rate") > 0);
    assert_true(told_number(sample, "commits_rate") > 0);
    json_t *ps;
    size_t i;
    json_array_foreach(json_object_get(told_last(&told, "ps"), "ps"), i, ps)
    {
        assert_string_equal("up", told_text(ps, "state"));
    }
    told_free(&told);
}

TEST(the_last_sample_tells_the_first_step_that_failed)
{
    struct crew crew;
    struct told told;
    struct cox_options options = COX_OPTIONS_INIT;
    char *dir = coxi_test_path("run");
    options.checkpoint_dir = dir;
    crew_open(&crew, 1, 1, "counter", &options);
    crew_schedule(&crew, crew_function(&crew, "count"), 1, 9); /* at most 4 */
    assert_int_not_equal(0, cox_join(crew.c, -1));
    crew_close(&crew);
    told_read(dir, &told);
    const json_t *sample = told_last(&told, "sample");
    assert_int_equal(1, told_number(sample, "failed"));
    assert_non_null(
        strstr(told_text(sample, "failure"), "closure 1 (count): count needs"));
    told_free(&told);
}

/* Not as one that was closed as it should be. */
TEST(the_last_sample_of_a_client_that_could_not_be_opened_says_so)
{
    struct told told;
    struct cox_cluster *cluster;
    struct cox_options options = COX_OPTIONS_INIT;
    char *dir = coxi_test_path("run");
    options.checkpoint_dir = dir;
    options.bin_dir = coxi_test_bin();
    options.listen = "127.0.0.1:0";
    options.min_workers = 2; /* nobody dials */
    options.open_timeout_ms = 3000;
    assert_code(0, cox_cluster_local(1, 1, &cluster));
    crew_refused(cluster, &options, COX_ETIMEDOUT, "1 of 2 workers");
    cox_cluster_free(cluster);
    told_read(dir, &told);
    const json_t *sample = told_last(&told, "sample");
    assert_true(json_is_true(json_object_get(sample, "over")));
    assert_true(json_is_false(json_object_get(sample, "opened")));
    told_free(&told);
}

TEST(the_history_tells_from_the_root_where_logs_are)
{
    struct cox_coordinator *c;
    struct cox_cluster *cluster;
    struct told told;
    struct cox_options options = COX_OPTIONS_INIT;
    assert_int_equal(0, chdir(coxi_test_dir()));
    options.log_dir = "logs";
    assert_code(0, cox_cluster_local(1, 1, &cluster));
    assert_code(0, cox_open(cluster, &options, &c));
    cox_cluster_free(cluster);
    assert_code(0, cox_close(c, -1));
    told_read("logs", &told);
    assert_string_equal(coxi_test_path("logs"),
                        told_text(told_last(&told, "run"), "log_dir"));
    told_free(&told);
}

TEST(without_history_there_is_no_file)
{
    struct crew crew;
    struct stat stat_of;
    struct coxi_buffer out = {0};
    uint64_t last = 0;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("run");
    options.history = -1;
    crew_open(&crew, 1, 1, "counter", &options);
    count(&crew, N);
    assert_code(0, coxi_history_since(crew.c, 0, 4096, &out, &last));
    assert_int_equal(0, out.len);
    crew_close(&crew);
    assert_int_equal(-1, stat(coxi_test_path("run/metrics.jsonl"), &stat_of));
}

TEST(history_is_0_or_minus_1)
{
    struct cox_cluster *cluster;
    struct cox_options options = COX_OPTIONS_INIT;
    options.history = 1;
    assert_code(0, cox_cluster_local(1, 1, &cluster));
    crew_refused(cluster, &options, COX_EINVAL, "history");
    cox_cluster_free(cluster);
}

/* ---- while it goes on */

static bool tells_of_worker(void *arg)
{
    struct crew *crew = arg;
    struct coxi_buffer out = {0};
    uint64_t last = 0;
    assert_code(0, coxi_history_since(crew->c, 0, 1 << 20, &out, &last));
    assert_code(0, coxi_buffer_append_raw(&out, "", 1));
    bool tells = strstr((const char *)out.data, "\"worker_back\"") != NULL &&
                 strstr((const char *)out.data, "\"lost\":1,\"back\":1") != NULL;
    coxi_buffer_fini(&out);
    return tells;
}

TEST(a_worker_that_is_killed_is_told_of_and_that_it_is_back)
{
    struct crew crew;
    crew_open(&crew, 1, 1, "counter", NULL);
    crew_kill(crew_step_process(&crew, 0));
    coxi_test_until(tells_of_worker, &crew, "a worker that is back in the history");
    crew_close(&crew);
    struct told told;
    told_read(crew.log_dir, &told); /* without a checkpoint directory it is here */
    assert_int_equal(0, told_number(told_event(&told, "worker_lost"), "worker"));
    told_free(&told);
}

/* What the newest record of a worker says of its memory; 0: nothing. */
static uint64_t memory_told(struct crew *crew)
{
    static const char begin[] = "\"rss\":";
    struct coxi_buffer out = {0};
    uint64_t last = 0;
    uint64_t bytes = 0;
    assert_code(0, coxi_history_since(crew->c, 0, 1 << 20, &out, &last));
    assert_code(0, coxi_buffer_append_raw(&out, "", 1));
    const char *at = (const char *)out.data;
    while ((at = strstr(at, begin)) != NULL) {
        at += strlen(begin);
        bytes = strtoull(at, NULL, 10);
    }
    coxi_buffer_fini(&out);
    return bytes;
}

static bool has_much(void *arg)
{
    return memory_told(arg) >= HOARD;
}

static bool has_little(void *arg)
{
    return memory_told(arg) < HOARD;
}

/* Also while the step goes on. */
TEST(the_memory_of_a_worker_is_told_of_until_its_process_is_gone)
{
    struct crew crew;
    struct cox_future *future;
    static const int64_t bytes = HOARD;
    const struct cox_value arg = COX_SCALAR("bytes", COX_I64, &bytes);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    crew_open(&crew, 1, 1, "crash", NULL);
    assert_code(0, cox_schedule(crew.c, crew_function(&crew, "hoard"), &call, &future));
    coxi_test_until(has_much, &crew, "the memory of a step");
    assert_code(0, cox_future_cancel(future));
    crew_kill(crew_step_process(&crew, 0));
    coxi_test_until(has_little, &crew, "the memory of the next process");
    cox_future_free(future);
    crew_close(&crew);
}

/* ---- from client to client */

TEST(a_client_that_goes_on_continues_the_file_and_its_numbers)
{
    struct told told;
    char *dir = coxi_test_path("run");
    run(dir, true);
    told_read(dir, &told);
    double last = told_number(told.all[told.n - 1], "seq");
    double cut = told_number(told_last(&told, "checkpoint"), "cut");
    told_free(&told);
    run(dir, false);
    told_read(dir, &told);
    assert_int_equal(2, told_count(&told, "run"));
    const json_t *begun = told_last(&told, "run");
    assert_true(told_number(begun, "seq") > last);
    assert_int_equal(2, told_number(begun, "generation"));
    const json_t *resumed = json_object_get(begun, "resumed");
    assert_int_equal(1, told_number(resumed, "checkpoint"));
    assert_true(told_number(resumed, "seq") == cut && cut > 0);
    told_free(&told);
}

/* What it tells while it opens comes after what the client before it has told. */
TEST(a_client_that_goes_on_and_serves_has_the_history_from_its_first_record_on)
{
    struct told told;
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    struct coxi_buffer out = {0};
    uint64_t last = 0;
    char *dir = coxi_test_path("run");
    run(dir, true);
    options.checkpoint_dir = dir;
    options.http = "127.0.0.1:0";
    crew_open(&crew, 2, 2, "counter", &options);
    assert_code(0, coxi_history_since(crew.c, 0, 4096, &out, &last));
    assert_code(0, coxi_buffer_append_raw(&out, "", 1));
    const char *line = (const char *)out.data;
    assert_int_equal(0, strncmp(line, "{\"seq\":1,", 9));
    const char *first_run = strstr(line, "\"generation\":1");
    assert_non_null(first_run);
    assert_true(first_run < strchr(line, '\n'));
    coxi_buffer_fini(&out);
    crew_close(&crew);
    told_read(dir, &told); /* numbers rise */
    assert_non_null(told_event(&told, "serves"));
    told_free(&told);
}

TEST(a_run_that_begins_anew_keeps_the_file_of_the_one_before)
{
    struct told told;
    char *dir = coxi_test_path("run");
    run(dir, false); /* without a checkpoint, the next one begins anew */
    told_read(dir, &told);
    double last = told_number(told.all[told.n - 1], "seq");
    told_free(&told);
    run(dir, false);
    told_read(dir, &told);
    assert_int_equal(1, told_count(&told, "run"));
    assert_true(told_number(told.all[0], "seq") > last);
    told_free(&told);
    assert_int_equal(0, access(coxi_test_path("run/metrics.jsonl.old"), F_OK));
}

/* ---- a disk without room */

static atomic_int n_failed;
static atomic_int n_back;

static void on_event(void *arg, const struct cox_event *event)
{
    (void)arg;
    n_failed += event->code == COX_EVENT_METRICS_FAILED;
    n_back += event->code == COX_EVENT_METRICS_BACK;
}

static bool has_failed(void *arg)
{
    (void)arg;
    return n_failed > 0;
}

static bool is_back(void *arg)
{
    (void)arg;
    return n_back > 0;
}

TEST(training_goes_on_without_room_on_the_disk_and_an_event_tells_of_it)
{
    struct crew crew;
    struct told told;
    struct rlimit all;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("run");
    options.checkpoint_at_close = -1;
    options.on_event = on_event;
    crew_open(&crew, 1, 1, "counter", &options);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(0, getrlimit(RLIMIT_FSIZE, &all));
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &(struct rlimit){1, all.rlim_max}));
    coxi_test_until(has_failed, NULL, "an event that the file cannot be written");
    count(&crew, N);
    assert_int_equal(1, n_failed);
    assert_int_equal(0, n_back);
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &all));
    coxi_test_until(is_back, NULL, "an event that it can be written again");
    crew_close(&crew);
    told_read(options.checkpoint_dir, &told);
    assert_int_equal(N, told_number(told_last(&told, "sample"), "done"));
    assert_int_equal(1, told_count(&told, "run"));
    assert_non_null(told_event(&told, "metrics_failed"));
    told_free(&told);
}

static off_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : 0;
}

static bool has_got_some(void *arg)
{
    const off_t *before = arg;
    return size_of(coxi_test_path("run/metrics.jsonl")) > *before;
}

/* What waits does not fit as a whole. */
TEST(a_disk_with_a_little_room_gets_a_part_of_what_waits)
{
    enum { SCALARS = 4000, ROOM = 40000 };
    struct crew crew;
    struct told told;
    struct rlimit all;
    struct cox_options options = COX_OPTIONS_INIT;
    n_failed = n_back = 0;
    options.checkpoint_dir = coxi_test_path("run");
    options.checkpoint_at_close = -1;
    options.on_event = on_event;
    crew_open(&crew, 1, 1, "counter", &options);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(0, getrlimit(RLIMIT_FSIZE, &all));
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &(struct rlimit){1, all.rlim_max}));
    for (uint64_t i = 0; i < SCALARS; i++) {
        assert_code(0, cox_log_scalar(crew.c, "loss", i, 1));
    }
    coxi_test_until(has_failed, NULL, "an event that the file cannot be written");
    off_t before = size_of(coxi_test_path("run/metrics.jsonl"));
    rlim_t room = (rlim_t)before + ROOM;
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &(struct rlimit){room, all.rlim_max}));
    coxi_test_until(has_got_some, &before, "a longer file");
    assert_int_equal(0, n_back);
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &all));
    coxi_test_until(is_back, NULL, "an event that it can be written again");
    crew_close(&crew);
    told_read(options.checkpoint_dir, &told);
    assert_int_equal(SCALARS, told_count(&told, "scalar"));
    told_free(&told);
}

/* Reads the only file of events in a directory. */
static bool has_points(const char *pattern, const char *name, size_t n)
{
    glob_t all;
    size_t len;
    size_t found = 0;
    assert_int_equal(0, glob(pattern, 0, NULL, &all));
    assert_int_equal(1, all.gl_pathc);
    char *bytes = coxi_test_read(all.gl_pathv[0], &len);
    const char *at = bytes;
    while ((at = memmem(at, len - (size_t)(at - bytes), name, strlen(name))) != NULL) {
        found++;
        at++;
    }
    free(bytes);
    globfree(&all);
    return found == n;
}

TEST(files_for_tensorboard_that_could_not_be_made_at_first_have_all_points_later)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    const char *board = coxi_test_path("board");
    n_failed = n_back = 0;
    options.tensorboard_dir = board;
    options.on_event = on_event;
    coxi_test_write(board, "", 0); /* a file is in the way */
    crew_open(&crew, 1, 1, "counter", &options);
    for (uint64_t i = 0; i < N; i++) {
        assert_code(0, cox_log_scalar(crew.c, "loss", i, 1));
    }
    coxi_test_until(has_failed, NULL, "an event that the files cannot be made");
    assert_int_equal(0, unlink(board));
    coxi_test_until(is_back, NULL, "an event that they can be written");
    crew_close(&crew);
    assert_int_equal(1, n_failed);
    assert_true(has_points(coxi_test_path("board/train/*"), "loss", N));
}

/* ---- a disk that does not answer */

static atomic_int n_silent;

static void note_silence(void *arg, const struct cox_event *event)
{
    (void)arg;
    n_silent +=
        event->code == COX_EVENT_METRICS_FAILED && event->error == COX_ETIMEDOUT;
}

static bool is_silent(void *arg)
{
    (void)arg;
    return n_silent > 0;
}

static bool has_grown(void *arg)
{
    static uint64_t first;
    uint64_t last = coxi_history_last(arg);
    first = first == 0 ? last : first;
    return last > first + 5;
}

TEST(nobody_waits_for_a_disk_that_does_not_answer)
{
    static char thread[] = "cox:history";
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("run");
    options.checkpoint_at_close = -1;
    options.on_event = note_silence;
    atomic_store(&coxi_patience_ms, 200);
    atomic_store(&coxi_writer_close_ms, 300);
    dead_disk_begin("/metrics.jsonl");
    crew_open(&crew, 1, 1, "counter", &options);
    coxi_test_until(dead_disk_is_waiting, NULL, "a write that does not end");
    coxi_test_until(is_silent, NULL, "an event that tells of it");
    n_silent = 0;
    count(&crew, N);
    coxi_test_until(has_grown, crew.c, "records that are added all the same");
    crew_close(&crew);
    assert_true(dead_disk_is_waiting(NULL)); /* still */
    assert_true(n_silent > 0);
    dead_disk_end();
    coxi_test_until(dead_disk_has_left, thread,
                    "the end of the thread that was left behind");
}
