/* Checkpoints that hold only the changes since the one before: the evaluator, ps that
 * are restored and the next client all see the same numbers. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/manifest.h"
#include "tests/coordinator/crew.h"
#include "tests/test.h"

enum { N_PS = 2, KEYS = 400, PUSH = 30, STEPS = 5, BUILT = 3 };

struct run {
    struct crew crew;
    char *dir;
    struct cox_table *t;
    struct cox_variable *w;
    float rows[KEYS]; /* the expected value of each row of t, */
    float all;        /* and of each element of w */
};

static void open_run(struct run *run, struct cox_options *options)
{
    *run = (struct run){.dir = coxi_test_path("checkpoints")};
    options->checkpoint_dir = run->dir;
    crew_open(&run->crew, N_PS, 1, "model", options);
    struct cox_table_spec t = COX_TABLE_SPEC_INIT;
    struct cox_variable_spec w = COX_VARIABLE_SPEC_INIT;
    t.name = "t";
    t.dim = 2;
    t.optimizer.kind = COX_SGD;
    t.optimizer.learning_rate = 1;
    w.name = "w";
    w.dtype = COX_F32;
    w.rank = 1;
    w.shape[0] = 3;
    w.optimizer = t.optimizer;
    assert_code(0, cox_table_create(run->crew.c, &t, &run->t));
    assert_code(0, cox_variable_create(run->crew.c, &w, &run->w));
}

/* Runs steps that push gradients for PUSH keys, from `first` on. */
static void train(struct run *run, uint64_t first)
{
    uint64_t keys[PUSH];
    for (uint64_t i = 0; i < PUSH; i++) {
        keys[i] = first + i;
        run->rows[first + i] -= STEPS;
    }
    run->all -= STEPS;
    struct cox_value arg = COX_VECTOR("keys", COX_I64, PUSH, keys);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    for (int i = 0; i < STEPS; i++) {
        assert_code(0, cox_schedule(run->crew.c, crew_function(&run->crew, "push_ones"),
                                    &call, NULL));
    }
    assert_code(0, cox_join(run->crew.c, -1));
}

/* Saves a checkpoint; returns its base. */
static uint64_t save(struct run *run, int full)
{
    char path[PATH_MAX];
    uint64_t number = 0;
    struct coxi_manifest *manifest;
    struct cox_checkpoint_options options = COX_CHECKPOINT_OPTIONS_INIT;
    options.full = full;
    assert_code(0, cox_checkpoint_save(run->crew.c, &options, &number));
    (void)snprintf(path, sizeof(path), "%s/ckpt-%d", run->dir, (int)number);
    assert_code(0, coxi_manifest_read(path, &manifest));
    uint64_t base = manifest->base;
    coxi_manifest_free(manifest);
    return base;
}

static void assert_values(const struct run *run, float rows[KEYS][2], const float w[3])
{
    for (size_t key = 0; key < KEYS; key++) {
        assert_true(rows[key][0] == run->rows[key] && rows[key][1] == run->rows[key]);
    }
    assert_true(w[0] == run->all && w[2] == run->all);
}

static void all_keys(uint64_t keys[KEYS])
{
    for (uint64_t key = 0; key < KEYS; key++) {
        keys[key] = key;
    }
}

/* Asserts that the ps hold the expected values. */
static void assert_trained(struct run *run)
{
    uint64_t keys[KEYS];
    float rows[KEYS][2];
    float w[3];
    all_keys(keys);
    assert_code(0, cox_table_read(run->crew.c, run->t, keys, KEYS, rows[0]));
    assert_code(0, cox_variable_read(run->crew.c, run->w, w, sizeof(w)));
    assert_values(run, rows, w);
}

/* Asserts that the newest checkpoint holds the expected values. */
static void assert_saved(const struct run *run)
{
    struct cox_evaluator *evaluator;
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    uint64_t keys[KEYS];
    float rows[KEYS][2];
    float w[3];
    all_keys(keys);
    assert_code(0, cox_evaluator_open(run->dir, NULL, &evaluator));
    assert_code(0, cox_evaluator_next(evaluator, &info));
    assert_code(0, cox_evaluator_lookup(evaluator, "t", keys, KEYS, 2, rows[0]));
    assert_code(0, cox_evaluator_read(evaluator, "w", w, sizeof(w)));
    assert_values(run, rows, w);
    cox_evaluator_close(evaluator);
}

TEST(checkpoints_build_on_the_one_before_as_often_as_the_option_says)
{
    static const uint64_t bases[] = {0, 1, 2, 3, 0, 5};
    struct run run;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_incremental = BUILT;
    open_run(&run, &options);
    for (size_t i = 0; i < sizeof(bases) / sizeof(*bases); i++) {
        train(&run, i * PUSH / 2);
        assert_int_equal(bases[i], save(&run, 0));
        assert_saved(&run);
    }
    train(&run, 0);
    assert_int_equal(0, save(&run, 1));
    assert_int_equal(7, save(&run, 0)); /* nothing has changed */
    assert_saved(&run);
    crew_close(&run.crew);
}

static uint64_t recovered(struct run *run)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(run->crew.c, &stats));
    return stats.ps_recovered;
}

TEST(a_lost_ps_is_restored_from_what_builds_on_each_other)
{
    struct run run;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_incremental = 100;
    options.checkpoint_keep = 1;
    open_run(&run, &options);
    for (int i = 0; i < 4; i++) {
        train(&run, (uint64_t)i * PUSH / 2);
        (void)save(&run, 0);
    }
    train(&run, 100);
    for (uint64_t ps = 0; ps < N_PS; ps++) {
        crew_kill(crew_ps_process(&run.crew, (int)ps));
        while (recovered(&run) == ps) {
            assert_trained(&run);
        }
    }
    assert_trained(&run);
    train(&run, 200);
    assert_int_equal(0, save(&run, 0)); /* both ps have written whole shards */
    train(&run, 210);
    crew_kill(crew_ps_process(&run.crew, 0));
    while (recovered(&run) == N_PS) {
        assert_trained(&run);
    }
    assert_int_equal(5, save(&run, 0)); /* ps 1 writes changes only */
    assert_saved(&run);
    crew_close(&run.crew);
}

TEST(a_checkpoint_that_fails_is_no_base)
{
    struct run run;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_incremental = 100;
    open_run(&run, &options);
    train(&run, 0);
    assert_int_equal(0, save(&run, 0));
    train(&run, 20);
    /* A file has the checkpoint's final name, so it fails after every ps has written
     * its shard. */
    coxi_test_write(coxi_test_path("checkpoints/ckpt-2"), "", 0);
    assert_code(COX_EIO, cox_checkpoint_save(run.crew.c, NULL, NULL));
    assert_int_equal(0, unlink(coxi_test_path("checkpoints/ckpt-2")));
    train(&run, 40);
    assert_int_equal(1, save(&run, 0));
    assert_saved(&run);
    crew_close(&run.crew);
}

TEST(a_client_that_is_started_again_goes_on_from_what_builds_on_each_other)
{
    struct run run;
    struct run again;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_incremental = 100;
    open_run(&run, &options);
    for (int i = 0; i < 3; i++) {
        train(&run, (uint64_t)i * PUSH / 2);
        (void)save(&run, 0);
    }
    crew_close(&run.crew);
    open_run(&again, &options);
    memcpy(again.rows, run.rows, sizeof(again.rows));
    again.all = run.all;
    assert_trained(&again);
    train(&again, 100);
    assert_int_equal(0, save(&again, 0));
    train(&again, 110);
    assert_int_equal(4, save(&again, 0));
    assert_saved(&again);
    crew_close(&again.crew);
}
