/* Manifests are read as they were written. */
#include "checkpoint/manifest.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "common/layout.h"
#include "common/rule.h"
#include "coxswain/types.h"
#include "tests/checkpoint/manifest_sample.h"
#include "tests/test.h"

static void assert_shard(const struct coxi_manifest_shard *expected,
                         const struct coxi_manifest_shard *found)
{
    assert_string_equal(expected->file, found->file);
    assert_int_equal(expected->bytes, found->bytes);
    assert_int_equal(expected->crc32, found->crc32);
    const struct coxi_applied_list *a = &expected->applied;
    const struct coxi_applied_list *b = &found->applied;
    assert_int_equal(a->watermark, b->watermark);
    assert_int_equal(a->n_intervals, b->n_intervals);
    assert_int_equal(a->n_touched, b->n_touched);
    if (a->n_intervals > 0) {
        assert_memory_equal(a->intervals, b->intervals,
                            a->n_intervals * sizeof(*a->intervals));
        assert_memory_equal(a->touched, b->touched, a->n_touched * sizeof(*a->touched));
    }
}

TEST(what_is_written_is_read_back)
{
    struct coxi_manifest *m = NULL;
    (void)manifest_sample_write();
    assert_code(0, coxi_manifest_read(coxi_test_dir(), &m));
    assert_int_equal(manifest_sample.session.run, m->session.run);
    assert_int_equal(3, m->session.generation);
    assert_int_equal(0, m->session.token);
    assert_int_equal(12, m->number);
    assert_int_equal(manifest_sample.next_closure, m->next_closure);
    assert_true(manifest_sample.time_s == m->time_s);
    assert_true(m->final);
    assert_int_equal(2, m->n_shards);
    assert_shard(&manifest_sample.shards[0], &m->shards[0]);
    assert_shard(&manifest_sample.shards[1], &m->shards[1]);
    /* The variable whose creation failed is left out; the others keep their ids. */
    assert_int_equal(2, m->n_variables);
    assert_true(coxi_variable_equal(manifest_sample.variables[0], m->variables[0]));
    assert_true(coxi_variable_equal(manifest_sample.variables[2], m->variables[1]));
    assert_int_equal(0, m->variables[0]->id);
    assert_int_equal(2, m->variables[1]->id);
    coxi_manifest_free(m);
    coxi_manifest_free(NULL);
}

TEST(every_number_of_an_optimizer_is_read_back)
{
    static const struct coxi_optimizer optimizers[] = {
        {.kind = COXI_OPTIMIZER_MOMENTUM, .learning_rate = 0.1F, .momentum = 0.7F},
        {.kind = COXI_OPTIMIZER_RMSPROP,
         .epsilon = 1e-5F,
         .rho = 0.95F,
         .schedule = {COXI_SCHEDULE_POLYNOMIAL, 0.2F, 0.3F, 0, 11, 13}},
        {.kind = COXI_OPTIMIZER_ADAMW,
         .epsilon = 1e-5F,
         .beta1 = 0.85F,
         .beta2 = 0.998F,
         .weight_decay = 0.2F,
         .clip_value = 3,
         .clip_norm = 1e30F,
         .schedule = {COXI_SCHEDULE_STEP, 0, 0, 0.6F, 17, 0}},
        {.kind = COXI_OPTIMIZER_FTRL,
         .learning_rate = 0.1F,
         .initial_accumulator = 0.4F,
         .beta = 1.1F,
         .l1 = 1.2F,
         .l2 = 1.3F},
    };
    struct coxi_variable v = *manifest_sample.variables[2];
    struct coxi_variable *one[] = {&v};
    struct coxi_manifest with = manifest_sample;
    with.variables = one;
    with.n_variables = 1;
    for (size_t i = 0; i < sizeof(optimizers) / sizeof(*optimizers); i++) {
        struct coxi_manifest *m = NULL;
        v.optimizer = optimizers[i];
        assert_code(0, coxi_variable_check(&v, 2));
        assert_code(0, coxi_manifest_write(&with, coxi_test_dir()));
        assert_code(0, coxi_manifest_read(coxi_test_dir(), &m));
        assert_true(coxi_variable_equal(&v, m->variables[0]));
        coxi_manifest_free(m);
    }
}

TEST(members_that_are_0_are_left_out)
{
    json_t *root = json_load_file(manifest_sample_write(), 0, NULL);
    const json_t *variable = json_array_get(json_object_get(root, "variables"), 1);
    const json_t *optimizer = json_object_get(variable, "optimizer");
    assert_int_equal(2, json_object_size(optimizer)); /* only kind and learning_rate */
    assert_int_equal(0, json_object_size(json_object_get(variable, "lifecycle")));
    assert_null(json_object_get(variable, "metric"));
    json_decref(root);
}

TEST(what_is_said_of_a_variable_is_read_back)
{
    struct coxi_variable v = *manifest_sample.variables[2];
    struct coxi_variable *one[] = {&v};
    struct coxi_manifest with = manifest_sample;
    struct coxi_manifest *m = NULL;
    v.wire_dtype = COX_BF16;
    v.wire_rounding = COXI_ROUND_STOCHASTIC;
    v.nonfinite = COXI_NONFINITE_ALLOW;
    v.lifecycle = (struct coxi_lifecycle){1, 0.5F, 2, 3, 4, 5};
    v.staleness = (struct coxi_staleness){COXI_STALENESS_SCALE, 0, (uint64_t)1 << 60};
    with.variables = one;
    with.n_variables = 1;
    assert_code(0, coxi_manifest_write(&with, coxi_test_dir()));
    assert_code(0, coxi_manifest_read(coxi_test_dir(), &m));
    assert_true(coxi_variable_equal(&v, m->variables[0]));
    coxi_manifest_free(m);
    v.wire_dtype = v.wire_rounding = 0;
    v.staleness.compensation = 0.04F;
    assert_code(0, coxi_manifest_write(&with, coxi_test_dir()));
    assert_code(0, coxi_manifest_read(coxi_test_dir(), &m));
    assert_true(coxi_variable_equal(&v, m->variables[0]));
    coxi_manifest_free(m);
}

TEST(a_manifest_without_variables_is_read_back)
{
    struct coxi_manifest little = manifest_sample;
    struct coxi_manifest *m = NULL;
    little.n_variables = 0;
    little.final = false;
    little.n_shards = 1;
    assert_code(0, coxi_manifest_write(&little, coxi_test_dir()));
    assert_code(0, coxi_manifest_read(coxi_test_dir(), &m));
    assert_int_equal(0, m->n_variables);
    assert_int_equal(1, m->n_shards);
    assert_false(m->final);
    coxi_manifest_free(m);
}

TEST(the_files_of_shards_are_named_by_ps)
{
    char name[64];
    coxi_manifest_file(0, 2, name);
    assert_string_equal("ps-0-of-2.safetensors", name);
    coxi_manifest_file(UINT32_MAX - 1, UINT32_MAX, name);
    assert_string_equal("ps-4294967294-of-4294967295.safetensors", name);
}

TEST(a_manifest_that_cannot_be_written_is_eio)
{
    char *file = coxi_test_path("file");
    coxi_test_write(file, "", 0);
    assert_code(COX_EIO, coxi_manifest_write(&manifest_sample, file));
    assert_error_names(file);
    assert_code(COX_EIO,
                coxi_manifest_write(&manifest_sample, coxi_test_path("missing")));
    assert_error_names("missing/manifest.json");
}
