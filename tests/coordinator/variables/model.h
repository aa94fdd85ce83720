/* A client with a small model that it trains, saves and loads: for tests of loading. */
#ifndef COXI_TESTS_COORDINATOR_VARIABLES_MODEL_H
#define COXI_TESTS_COORDINATOR_VARIABLES_MODEL_H

#include <stdint.h>

#include "tests/coordinator/crew.h"

enum { MODEL_W = 40, MODEL_KEYS = 300, MODEL_DIM = 2 };

/* A model with w [40] and t (dim 2), which module `model` trains. */
struct model {
    struct crew crew;
    struct cox_variable *w;
    struct cox_table *t;
    float w_values[MODEL_W]; /* set by model_read */
    float t_values[MODEL_KEYS * MODEL_DIM];
};

/* The options that a test varies. */
struct model_plan {
    int n_ps;
    const char *dir; /* for its checkpoints; NULL: none */
    struct cox_optimizer optimizer;
    struct cox_lifecycle lifecycle;
    uint64_t shard_max_bytes; /* 0: a shard on each ps */
};

/* Opens the client; close it with crew_close(&model->crew). */
void model_open_with(struct model *model, const struct model_plan *plan,
                     struct cox_options *options);
void model_open(struct model *model, const struct model_plan *plan);

/* Pushes a gradient of ones to every element, `times` times, one after the other. */
void model_train(struct model *model, int times);

/* Reads the model into w_values and t_values. */
void model_read(struct model *model);

/* Asserts that both hold the same numbers. */
void model_assert_alike(struct model *a, struct model *b);

/* The statistics of the table. */
struct cox_table_stats model_stats(struct model *model);

/* Runs a client that trains `times` times and saves. Returns its directory, which is
 * called `name`. */
const char *model_saved(struct model_plan plan, const char *name, int times);

/* Loads the checkpoint at `path` into the whole model. */
int model_load(struct model *model, const char *path, struct cox_load_info *ret);

struct cox_optimizer model_adagrad(void);

/* Adam, with a rate that depends on the number of updates. */
struct cox_optimizer model_adam(void);

/* Creates another variable, on two ps. */
struct cox_variable *model_variable(struct crew *crew, const char *name, uint32_t dtype,
                                    uint64_t rows);

#endif
