/*
 * A run whose checkpoints are in a store of objects (the fake one of this process), which ps
 * write themselves, or which get the shards through the client.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "coordinator/base/call.h"
#include "coordinator/coordinator.h"
#include "coxswain/evaluator.h"
#include "tests/coordinator/crew.h"
#include "tests/objects/fake_s3.h"
#include "tests/program.h"
#include "tests/test.h"

enum { N_PS = 2 };

static const char dir[] = "s3://bucket/runs/clicks/";

struct run {
    struct fake_s3 *fake;
    struct crew crew;
    struct cox_variable *counters[N_PS];
};

static void run_open(struct run *run, const char *via)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = dir;
    options.checkpoint_via = via;
    options.checkpoint_incremental = 2;
    options.checkpoint_at_close = -1;
    crew_open(&run->crew, N_PS, 2, "counter", &options);
    run->counters[0] = crew_counter(&run->crew, "c0");
    run->counters[1] = crew_counter(&run->crew, "c1");
}

static void run_start(struct run *run, const char *via)
{
    *run = (struct run){.fake = fake_s3_open()};
    run_open(run, via);
}

static void run_end(struct run *run)
{
    crew_close(&run->crew);
    fake_s3_close_clean(run->fake);
}

static void count(struct run *run, int n)
{
    crew_schedule(&run->crew, crew_function(&run->crew, "count"), n, 2);
    assert_code(0, cox_join(run->crew.c, 60000));
}

static void assert_counted(struct run *run, int64_t n)
{
    assert_int_equal(n, crew_read(&run->crew, run->counters[0]));
    assert_int_equal(n, crew_read(&run->crew, run->counters[1]));
}

static uint64_t save(struct run *run)
{
    uint64_t number = 0;
    assert_code(0, cox_checkpoint_save(run->crew.c, NULL, &number));
    return number;
}

/* True: the fake store has that object. */
static bool has(const struct run *run, const char *key)
{
    char whole[256];
    size_t len = 0;
    (void)snprintf(whole, sizeof(whole), "runs/clicks/%s", key);
    uint8_t *content = fake_s3_content(run->fake, whole, &len);
    free(content);
    return content != NULL;
}

/* A lost ps gets its values from the store, and a next client goes on from there. */
static void lose_and_go_on(const char *via)
{
    struct run run;
    struct cox_progress progress = COX_PROGRESS_INIT;
    run_start(&run, via);
    count(&run, 10);
    assert_int_equal(1, save(&run));
    count(&run, 10);
    assert_int_equal(2, save(&run)); /* builds on the first */
    count(&run, 10);
    crew_kill(crew_ps_process(&run.crew, 1));
    count(&run, 10);
    assert_counted(&run, 40);
    assert_true(has(&run, "LATEST") && has(&run, "generation-1"));
    assert_true(has(&run, "ckpt-1/manifest.json"));
    assert_true(has(&run, "ckpt-2/ps-1-of-2.safetensors"));
    crew_close(&run.crew);
    run_open(&run, via);
    assert_code(0, cox_progress(run.crew.c, &progress));
    assert_int_equal(2, progress.checkpoint);
    assert_int_equal(2, progress.generation);
    assert_counted(&run, 20);
    assert_false(has(&run, "generation-1"));
    run_end(&run);
}

TEST(ps_write_to_a_store_and_are_restored_from_it)
{
    lose_and_go_on("ps");
}

TEST(shards_go_through_the_client_to_a_store_and_back)
{
    lose_and_go_on("client");
}

TEST(a_checkpoint_that_a_store_refuses_fails_and_the_next_one_is_whole)
{
    struct run run;
    run_start(&run, NULL);
    count(&run, 10);
    fake_s3_fault(run.fake, FAKE_PUT, -1, FAKE_DENY);
    assert_code(COX_EIO, cox_checkpoint_save(run.crew.c, NULL, NULL));
    fake_s3_heal(run.fake);
    count(&run, 10);
    uint64_t number = save(&run);
    crew_kill(crew_ps_process(&run.crew, 0));
    assert_counted(&run, 20);
    struct cox_checkpoint_options final = COX_CHECKPOINT_OPTIONS_INIT;
    final.final = 1;
    assert_code(0, cox_checkpoint_save(run.crew.c, &final, NULL));
    assert_true(number > 1);
    run_end(&run);
}

/* The store refuses lists, so nothing is published, and nothing can be removed. */
TEST(what_a_failed_checkpoint_has_left_in_a_store_is_removed_with_the_next)
{
    struct run run;
    run_start(&run, NULL);
    count(&run, 10);
    fake_s3_fault(run.fake, FAKE_LIST, -1, FAKE_DENY);
    assert_code(COX_EIO, cox_checkpoint_save(run.crew.c, NULL, NULL));
    assert_true(has(&run, "ckpt-1/ps-0-of-2.safetensors"));
    fake_s3_heal(run.fake);
    assert_int_equal(2, save(&run));
    assert_false(has(&run, "ckpt-1/ps-0-of-2.safetensors"));
    assert_false(has(&run, "ckpt-1/manifest.json"));
    run_end(&run);
}

/* ---- closing */

/* A program calls cox_close. */
static bool is_closing(void *arg)
{
    struct cox_coordinator *c = arg;
    bool is = false;
    coxi_lock(&c->lock);
    for (const struct coxi_call *call = c->life.calls; call != NULL;
         call = call->next) {
        is = is || strcmp(call->what, "cox_close") == 0;
    }
    coxi_unlock(&c->lock);
    return is;
}

static bool has_draft(void *arg)
{
    return has(arg, "ckpt-1/manifest.json");
}

/* Lets the store go on once the program closes the client. */
static void *go_on(void *arg)
{
    struct run *run = arg;
    coxi_test_until(is_closing, run->crew.c, "cox_close");
    fake_s3_heal(run->fake);
    fake_s3_release(run->fake);
    return NULL;
}

/* The same, and an error comes meanwhile. */
static void *fail_and_go_on(void *arg)
{
    struct cox_coordinator *c = ((struct run *)arg)->crew.c;
    coxi_test_until(is_closing, c, "cox_close");
    coxi_lock(&c->lock);
    c->life.failed = true;
    coxi_unlock(&c->lock);
    return go_on(arg);
}

/* Closes a client whose first checkpoint, of 10 closures, is being written, and which has
 * done 5 more. Returns the number of the checkpoint from which the next client begins. */
static uint64_t close_during_one(void *(*meanwhile)(void *))
{
    struct run run = {.fake = fake_s3_open()};
    struct cox_progress progress = COX_PROGRESS_INIT;
    struct cox_options options = COX_OPTIONS_INIT;
    pthread_t thread;
    options.checkpoint_dir = dir;
    options.checkpoint_every_closures = 10;
    options.checkpoint_at_close = 1;
    crew_open(&run.crew, N_PS, 2, "counter", &options);
    run.counters[0] = crew_counter(&run.crew, "c0");
    run.counters[1] = crew_counter(&run.crew, "c1");
    fake_s3_fault(run.fake, FAKE_PUT, -1, FAKE_HOLD);
    count(&run, 10);
    fake_s3_await_held(run.fake); /* the draft */
    fake_s3_release(run.fake);
    coxi_test_until(has_draft, &run, "a draft");
    fake_s3_await_held(run.fake); /* a shard */
    count(&run, 5);
    assert_int_equal(0, pthread_create(&thread, NULL, meanwhile, &run));
    crew_close(&run.crew);
    assert_int_equal(0, pthread_join(thread, NULL));
    run_open(&run, NULL);
    assert_code(0, cox_progress(run.crew.c, &progress));
    assert_code(0, cox_join(run.crew.c, -1)); /* what the checkpoint lacks runs again */
    assert_counted(&run, 15);
    run_end(&run);
    return progress.checkpoint;
}

TEST(closing_saves_what_was_done_since_the_cut_of_one_that_is_being_written)
{
    assert_int_equal(2, close_during_one(go_on));
}

TEST(closing_saves_nothing_if_an_error_comes_while_one_is_being_written)
{
    assert_int_equal(1, close_during_one(fail_and_go_on));
}

/* ---- names of places */

/* A mistyped scheme would be a directory called "S3:". */
TEST(a_directory_that_looks_like_another_store_is_refused)
{
    static const char *const wrong[] = {"S3://bucket/x", "file:///x", "s3:///bucket/x"};
    struct cox_evaluator *evaluator;
    struct cox_evals *evals;
    struct cox_cluster *cluster;
    assert_code(0, cox_cluster_local(1, 1, &cluster));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct cox_options options = COX_OPTIONS_INIT;
        options.checkpoint_dir = wrong[i];
        crew_refused(cluster, &options, COX_EINVAL, "s3://BUCKET/PREFIX");
        assert_code(COX_EINVAL, cox_evaluator_open(wrong[i], NULL, &evaluator));
        assert_code(COX_EINVAL, cox_evals_read(wrong[i], &evals));
        assert_error_names("s3://BUCKET/PREFIX");
    }
    cox_cluster_free(cluster);
}

/* ---- slashes that mean nothing */

TEST(a_local_cluster_writes_to_a_prefix_with_several_slashes)
{
    struct run run = {.fake = fake_s3_open()};
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = "s3://bucket//runs//clicks//";
    crew_open(&run.crew, 1, 1, "counter", &options);
    run.counters[0] = crew_counter(&run.crew, "c0");
    assert_int_equal(1, save(&run));
    assert_true(has(&run, "ckpt-1/ps-0-of-1.safetensors"));
    run_end(&run);
}

TEST(a_root_with_several_slashes_is_that_of_its_clients)
{
    struct run run = {.fake = fake_s3_open()};
    struct program ps;
    struct program worker;
    struct cox_cluster *cluster;
    char listen[300];
    char at[300];
    char address[256];
    char json[900];
    (void)snprintf(at, sizeof(at), "ipc://%s", coxi_test_path("ps"));
    const char *const argv[] = {"coxswain-ps", "--listen", at,
                                "--checkpoint-root=s3://bucket//runs//", NULL};
    program_start(&ps, argv);
    program_wait_printed(&ps, "event=listening");
    (void)snprintf(listen, sizeof(listen), "ipc://%s", coxi_test_path("worker"));
    daemon_start(&worker, "coxswain-worker", 0, listen, address);
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"], \"worker\": [\"%s\"]}", at,
                   address);
    assert_code(0, cox_cluster_parse(json, &cluster));
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = "s3://bucket/runs//clicks";
    assert_code(0, cox_open(cluster, &options, &run.crew.c));
    (void)crew_counter(&run.crew, "c0");
    assert_int_equal(1, save(&run));
    assert_true(has(&run, "ckpt-1/ps-0-of-1.safetensors"));
    assert_code(0, cox_close(run.crew.c, 5000));
    cox_cluster_free(cluster);
    program_kill(&worker, SIGKILL);
    (void)program_wait(&worker);
    program_kill(&ps, SIGKILL);
    (void)program_wait(&ps);
    fake_s3_close_clean(run.fake);
}

/* ---- an evaluator */

TEST(an_evaluator_reads_from_a_store_and_reports_there)
{
    struct run run;
    struct cox_evaluator *evaluator;
    struct cox_evals *evals;
    struct cox_eval eval = COX_EVAL_INIT;
    const struct cox_score score = {"count", 10};
    int64_t value = 0;
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    run_start(&run, NULL);
    count(&run, 10);
    (void)save(&run);
    assert_code(0, cox_evaluator_open(dir, NULL, &evaluator));
    assert_code(0, cox_evaluator_next(evaluator, &info));
    assert_int_equal(1, info.number);
    assert_code(0, cox_evaluator_read(evaluator, "c1", &value, sizeof(value)));
    assert_int_equal(10, value);
    assert_code(0, cox_evaluator_report(evaluator, &score, 1));
    cox_evaluator_close(evaluator);
    assert_code(0, cox_evals_read(dir, &evals));
    assert_int_equal(1, cox_evals_count(evals));
    assert_code(0, cox_evals_at(evals, 0, &eval));
    assert_int_equal(1, eval.checkpoint);
    cox_evals_free(evals);
    run_end(&run);
}

TEST(an_evaluator_that_may_not_write_reads_from_a_store)
{
    struct run run;
    struct cox_evaluator *evaluator;
    const struct cox_score score = {"count", 10};
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    run_start(&run, NULL);
    (void)save(&run);
    fake_s3_fault(run.fake, FAKE_PUT, -1, FAKE_DENY);
    assert_code(0, cox_evaluator_open(dir, NULL, &evaluator));
    assert_code(0, cox_evaluator_next(evaluator, &info));
    assert_int_equal(1, info.number);
    assert_code(COX_EIO, cox_evaluator_report(evaluator, &score, 1));
    cox_evaluator_close(evaluator);
    fake_s3_heal(run.fake);
    run_end(&run);
}

/* The client looks into a store every 10 s, and once more when it is closed. */
TEST(what_an_evaluator_reports_to_a_store_last_is_in_the_history)
{
    struct run run;
    struct cox_evaluator *evaluator;
    const struct cox_score score = {"auc_of_store", 0.5};
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    char path[300];
    uint8_t *text = NULL;
    size_t len = 0;
    run_start(&run, NULL);
    count(&run, 10);
    (void)save(&run);
    assert_code(0, cox_evaluator_open(dir, NULL, &evaluator));
    assert_code(0, cox_evaluator_next(evaluator, &info));
    assert_code(0, cox_evaluator_report(evaluator, &score, 1));
    cox_evaluator_close(evaluator);
    (void)snprintf(path, sizeof(path), "%s/metrics.jsonl", run.crew.log_dir);
    run_end(&run);
    assert_code(0, coxi_file_read(path, 1 << 20, &text, &len));
    assert_non_null(strstr((const char *)text, "auc_of_store"));
    free(text);
}

TEST(another_run_loads_a_checkpoint_from_a_store)
{
    struct run run;
    struct crew other;
    run_start(&run, NULL);
    count(&run, 10);
    (void)save(&run);
    crew_open(&other, 1, 1, "counter", NULL);
    struct cox_variable *counter = crew_counter(&other, "c0");
    struct cox_load_options load = COX_LOAD_OPTIONS_INIT;
    load.path = "s3://bucket/runs/clicks/ckpt-1";
    assert_code(0, cox_checkpoint_load(other.c, &load, NULL));
    assert_int_equal(10, crew_read(&other, counter));
    crew_close(&other);
    run_end(&run);
}
