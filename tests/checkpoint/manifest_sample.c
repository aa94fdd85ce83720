/* See manifest_sample.h. */
#include "tests/checkpoint/manifest_sample.h"

#include "common/initializer.h"
#include "common/rule.h"
#include "coxswain/types.h"
#include "tests/test.h"

static struct coxi_interval applied[] = {{5, 9, 0, 1, 0, 2}, {12, 12, 3, 0, 2, 1}};
static uint32_t touched[] = {0, 1, 1};
static struct coxi_shard parts[] = {{1, 0, 6}, {0, 6, 5}};
static struct coxi_variable dense = {
    .id = 0,
    .name = "layer/w",
    .kind = COXI_KIND_DENSE,
    .dtype = COX_F32,
    .rank = 3,
    .shape = {11, 2, 5},
    .shards = parts,
    .n_shards = 2,
    .optimizer = {.kind = COXI_OPTIMIZER_ADAGRAD,
                  .learning_rate = 0.1F,
                  .epsilon = 1e-7F,
                  .initial_accumulator = 0.3F,
                  .schedule = {.kind = COXI_SCHEDULE_COSINE,
                               .end_rate = 0.003F,
                               .steps = INT64_MAX,
                               .warmup_steps = 7}},
    .initializer = {COXI_INIT_NORMAL, 0.1F, 1e-30F, UINT64_MAX},
};
static struct coxi_variable table = {
    .id = 2,
    .name = "gr\xc3\xb6\xc3\x9f"
            "e",
    .kind = COXI_KIND_TABLE,
    .dtype = COX_F32,
    .rank = 1,
    .shape = {16},
    .optimizer = {.kind = COXI_OPTIMIZER_SGD, .learning_rate = 0.5F},
};

static struct coxi_manifest_shard shards[] = {
    {.file = "ps-0-of-2.safetensors",
     .bytes = (uint64_t)1 << 40,
     .crc32 = UINT32_MAX,
     .applied = {4, applied, 2, touched, 3}},
    {.file = "ps-1-of-2.safetensors", .bytes = 1},
};
static struct coxi_variable *variables[] = {&dense, NULL, &table};
const struct coxi_manifest manifest_sample = {
    .session = {.run = 0xfedcba9876543210, .generation = 3, .token = 99},
    .number = 12,
    .next_closure = ((uint64_t)1 << 53) + 1,
    .time_s = 1769860800.125,
    .final = true,
    .shards = shards,
    .n_shards = 2,
    .variables = variables,
    .n_variables = 3,
};

const char *manifest_sample_write(void)
{
    assert_code(0, coxi_manifest_write(&manifest_sample, coxi_test_dir()));
    return coxi_test_path("manifest.json");
}
