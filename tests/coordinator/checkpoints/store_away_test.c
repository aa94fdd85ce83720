/*
 * A store of objects (the fake one of this process) that does not answer: calls with a
 * deadline keep it, whatever waits for the store at that moment, and daemons end.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "coxswain/evaluator.h"
#include "tests/coordinator/crew.h"
#include "tests/objects/fake_s3.h"
#include "tests/test.h"

enum {
    N_PS = 2,
    CLOSE_MS = 500,
    LATER_MS = 4000, /* after a deadline; a request to the store has 180 s */
};

static const char dir[] = "s3://bucket/runs/clicks";

struct run {
    struct fake_s3 *fake;
    struct crew crew;
    pthread_t thread; /* of a call that waits for the store */
    int code;         /* its result */
};

static struct cox_options options_of(const char *via)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = dir;
    options.checkpoint_via = via;
    options.checkpoint_at_close = -1;
    options.checkpoint_keep = 1;
    return options;
}

static void run_start(struct run *run, const char *via, int at_close)
{
    struct cox_options options = options_of(via);
    options.checkpoint_at_close = at_close;
    *run = (struct run){.fake = fake_s3_open()};
    crew_open(&run->crew, N_PS, 2, "counter", &options);
    (void)crew_counter(&run->crew, "c0");
    (void)crew_counter(&run->crew, "c1");
    crew_schedule(&run->crew, crew_function(&run->crew, "count"), 10, 2);
    assert_code(0, cox_join(run->crew.c, 60000));
}

/* Closes the client while the store does not answer, then the store. */
static void close_in_time(struct run *run)
{
    uint64_t begun_ms = coxi_now_ms();
    (void)cox_close(run->crew.c, CLOSE_MS);
    assert_in_range(coxi_now_ms() - begun_ms, 0, CLOSE_MS + LATER_MS);
    fake_s3_heal(run->fake);
    fake_s3_release(run->fake);
    fake_s3_close(run->fake);
}

static void *save(void *arg)
{
    struct run *run = arg;
    run->code = cox_checkpoint_save(run->crew.c, NULL, NULL);
    return NULL;
}

static void *load(void *arg)
{
    struct run *run = arg;
    struct cox_load_options o = COX_LOAD_OPTIONS_INIT;
    o.path = "s3://bucket/runs/clicks/ckpt-1";
    run->code = cox_checkpoint_load(run->crew.c, &o, NULL);
    return NULL;
}

/* Calls `call` on a thread, up to its first request of that kind. */
static void call_until(struct run *run, void *(*call)(void *arg), enum fake_op op)
{
    fake_s3_fault(run->fake, op, -1, FAKE_HOLD);
    assert_int_equal(0, pthread_create(&run->thread, NULL, call, run));
    fake_s3_await_held(run->fake);
}

/* ---- cox_close */

TEST(a_close_keeps_its_deadline_while_the_claim_is_looked_at)
{
    struct run run;
    run_start(&run, NULL, -1);
    fake_s3_fault(run.fake, FAKE_LIST, -1, FAKE_HOLD);
    fake_s3_await_held(run.fake);
    close_in_time(&run);
}

TEST(a_close_keeps_its_deadline_while_a_checkpoint_is_written)
{
    struct run run;
    run_start(&run, NULL, -1);
    call_until(&run, save, FAKE_PUT);
    close_in_time(&run);
    (void)pthread_join(run.thread, NULL);
    assert_int_not_equal(0, run.code);
}

/* The first object that is read is LATEST, which the pruner reads. */
TEST(a_close_keeps_its_deadline_while_old_checkpoints_are_deleted)
{
    struct run run;
    run_start(&run, NULL, -1);
    call_until(&run, save, FAKE_GET);
    close_in_time(&run);
    (void)pthread_join(run.thread, NULL);
    assert_int_equal(0, run.code);
}

TEST(a_close_keeps_its_deadline_while_a_checkpoint_is_loaded)
{
    struct run run;
    run_start(&run, NULL, -1);
    assert_code(0, cox_checkpoint_save(run.crew.c, NULL, NULL));
    call_until(&run, load, FAKE_GET);
    close_in_time(&run);
    (void)pthread_join(run.thread, NULL);
    assert_int_not_equal(0, run.code);
}

/* Each load holds its checkpoint until the next one is written. */
TEST(a_close_keeps_its_deadline_though_many_checkpoints_are_held)
{
    struct run run;
    run_start(&run, NULL, -1);
    assert_code(0, cox_checkpoint_save(run.crew.c, NULL, NULL));
    for (int i = 0; i < 8; i++) {
        (void)load(&run);
        assert_int_equal(0, run.code);
    }
    fake_s3_fault(run.fake, FAKE_OPS, -1, FAKE_HOLD);
    close_in_time(&run);
}

/* `op`: what is asked first when a manifest is read, or a shard. */
static void close_in_recovery(const char *via, enum fake_op op)
{
    struct run run;
    run_start(&run, via, -1);
    assert_code(0, cox_checkpoint_save(run.crew.c, NULL, NULL));
    fake_s3_fault(run.fake, op, -1, FAKE_HOLD);
    crew_kill(crew_ps_process(&run.crew, 1));
    fake_s3_await_held(run.fake);
    close_in_time(&run);
}

TEST(a_close_keeps_its_deadline_while_a_lost_ps_waits_for_the_manifest)
{
    close_in_recovery("ps", FAKE_GET);
}

TEST(a_close_keeps_its_deadline_while_a_lost_ps_reads_its_shard)
{
    close_in_recovery("ps", FAKE_HEAD);
}

TEST(a_close_keeps_its_deadline_while_a_shard_is_brought_to_a_lost_ps)
{
    close_in_recovery("client", FAKE_HEAD);
}

TEST(a_close_that_gives_up_its_checkpoint_says_why)
{
    struct run run;
    run_start(&run, NULL, 1);
    fake_s3_fault(run.fake, FAKE_OPS, -1, FAKE_CUT);
    assert_int_not_equal(0, cox_close(run.crew.c, 1500));
    assert_error_names(" tries: ");
    assert_error_names("(http://127.0.0.1:");
    fake_s3_close(run.fake);
}

/* ---- cox_open */

TEST(an_open_keeps_its_deadline_while_the_store_does_not_answer)
{
    struct cox_options options = options_of(NULL);
    struct fake_s3 *fake = fake_s3_open();
    options.open_timeout_ms = 1000;
    static const enum fake_op ops[] = {FAKE_PUT, FAKE_LIST};
    for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
        struct cox_cluster *cluster;
        fake_s3_fault(fake, ops[i], -1, FAKE_HOLD);
        uint64_t begun_ms = coxi_now_ms();
        assert_code(0, cox_cluster_local(1, 1, &cluster));
        crew_refused(cluster, &options, COX_ETIMEDOUT, "s3://bucket/runs/clicks");
        assert_in_range(coxi_now_ms() - begun_ms, 1000, 1000 + LATER_MS);
        cox_cluster_free(cluster);
        fake_s3_heal(fake);
        fake_s3_release(fake);
    }
    fake_s3_close(fake);
}

TEST(an_open_that_is_given_up_says_which_store_was_asked_and_why)
{
    struct cox_options options = options_of(NULL);
    struct cox_cluster *cluster;
    struct fake_s3 *fake = fake_s3_open();
    options.open_timeout_ms = 1000;
    assert_int_equal(
        0, setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1", 1)); /* NOLINT */
    assert_code(0, cox_cluster_local(1, 1, &cluster));
    crew_refused(cluster, &options, COX_ETIMEDOUT, "cox_open had 1000 ms: ");
    assert_error_names("cannot write s3://bucket/runs/clicks/");
    assert_error_names(" tries: ");
    assert_error_names("(http://127.0.0.1:1)");
    cox_cluster_free(cluster);
    fake_s3_close(fake);
}

/* ---- an evaluator */

TEST(an_evaluator_waits_no_longer_for_a_store_than_for_a_checkpoint)
{
    struct cox_evaluator *evaluator;
    struct cox_evaluator_options options = COX_EVALUATOR_OPTIONS_INIT;
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    struct fake_s3 *fake = fake_s3_open();
    options.first_timeout_ms = 1000;
    assert_code(0, cox_evaluator_open(dir, &options, &evaluator));
    fake_s3_fault(fake, FAKE_GET, -1, FAKE_HOLD);
    uint64_t begun_ms = coxi_now_ms();
    assert_code(COX_ETIMEDOUT, cox_evaluator_next(evaluator, &info));
    assert_in_range(coxi_now_ms() - begun_ms, 1000, 5000 + LATER_MS);
    cox_evaluator_close(evaluator);
    fake_s3_heal(fake);
    fake_s3_release(fake);
    fake_s3_close(fake);
}

/* ---- results of evaluators */

static void expect_no_results(const char *part)
{
    struct cox_evals *evals = NULL;
    uint64_t begun_ms = coxi_now_ms();
    assert_code(COX_ETIMEDOUT, cox_evals_read(dir, &evals));
    assert_in_range(coxi_now_ms() - begun_ms, 2900, 3000 + LATER_MS);
    assert_error_names(
        "cannot read s3://bucket/runs/clicks/eval.jsonl: it was given up");
    assert_error_names(part);
    assert_null(evals);
}

TEST(results_are_not_waited_for_while_the_store_does_not_answer)
{
    struct fake_s3 *fake = fake_s3_open();
    fake_s3_fault(fake, FAKE_GET, -1, FAKE_HOLD);
    expect_no_results(": no answer from http://127.0.0.1:");
    fake_s3_heal(fake);
    fake_s3_release(fake);
    fake_s3_close(fake);
}

TEST(results_are_not_waited_for_while_the_store_is_away)
{
    struct fake_s3 *fake = fake_s3_open();
    assert_int_equal(
        0, setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1", 1)); /* NOLINT */
    expect_no_results("(http://127.0.0.1:1)");
    fake_s3_close(fake);
}

/* ---- a ps */

/* The ps sends its shard in parts, which begins with a request that only it makes. */
TEST(a_ps_ends_on_sigterm_while_it_waits_for_the_store)
{
    struct run run;
    struct cox_variable *large;
    run_start(&run, NULL, -1);
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    spec.name = "large";
    spec.dtype = COX_F64;
    spec.rank = 1;
    spec.shape[0] = 3 << 20;
    spec.shards = N_PS;
    assert_code(0, cox_variable_create(run.crew.c, &spec, &large));
    call_until(&run, save, FAKE_BEGIN);
    uint64_t begun_ms = coxi_now_ms();
    pid_t pid = crew_ps_process(&run.crew, 0);
    pid_t other = crew_ps_process(&run.crew, 1);
    assert_int_equal(0, kill(pid, SIGTERM));
    assert_int_equal(0, kill(other, SIGTERM));
    crew_wait_gone(pid);
    crew_wait_gone(other);
    assert_in_range(coxi_now_ms() - begun_ms, 0, LATER_MS);
    close_in_time(&run);
    (void)pthread_join(run.thread, NULL);
}
