/* A ps is lost after or during a warm start: the loading is repeated on it. */
#include <stdio.h>
#include <string.h>

#include "checkpoint/hold.h"
#include "coordinator/base/replay_log.h"
#include "coordinator/closures/operation.h"
#include "coordinator/coordinator.h"
#include "coordinator/variables/load.h"
#include "tests/coordinator/inside.h"
#include "tests/coordinator/variables/model.h"
#include "tests/test.h"

static uint64_t recovered(struct model *model)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(model->crew.c, &stats));
    return stats.ps_recovered;
}

static void lose_ps(struct model *model, int index)
{
    uint64_t before = recovered(model);
    crew_kill(crew_ps_process(&model->crew, index));
    while (recovered(model) == before) {
        model_read(model);
    }
}

TEST(a_ps_lost_after_a_load_gets_it_again_from_where_it_came)
{
    struct model model;
    struct model straight;
    struct model_plan plan = {.n_ps = 3, .optimizer = model_adam()};
    (void)model_saved(plan, "first", 4);
    const char *from = coxi_test_path("first/ckpt-1");
    plan.n_ps = 2;
    plan.dir = coxi_test_path("second");
    model_open(&model, &plan);
    model_train(&model, 2);
    assert_code(0, model_load(&model, from, NULL));
    assert_true(coxi_hold_is_taken(from));
    model_train(&model, 3);
    plan.dir = NULL;
    plan.n_ps = 1;
    model_open(&straight, &plan);
    assert_code(0, model_load(&straight, from, NULL));
    model_train(&straight, 3);
    model_assert_alike(&model, &straight);
    for (int ps = 0; ps < 2; ps++) {
        lose_ps(&model, ps);
        model_assert_alike(&model, &straight);
    }
    assert_code(0, cox_checkpoint_save(model.crew.c, NULL, NULL));
    assert_false(coxi_hold_is_taken(from));
    lose_ps(&model, 0);
    model_assert_alike(&model, &straight);
    crew_close(&straight.crew);
    crew_close(&model.crew);
}

/* The load during which a ps is lost. */
struct amidst {
    struct model *model;
    struct cox_variable *other;
    uint64_t recovered;
    bool is_lost;
};

static bool has_recovered(void *arg)
{
    const struct amidst *amidst = arg;
    return recovered(amidst->model) > amidst->recovered;
}

/* During the load the replay log asks for a checkpoint, which must wait for the load;
 * and a ps is lost and comes back. */
static void lose_amidst(void *arg, uint64_t bytes, uint64_t all)
{
    static const uint8_t large[40 * 1024];
    struct amidst *amidst = arg;
    struct model *model = amidst->model;
    (void)bytes;
    (void)all;
    if (amidst->is_lost) {
        return;
    }
    amidst->is_lost = true;
    assert_code(
        0, cox_variable_assign(model->crew.c, amidst->other, large, sizeof(large)));
    model_train(model, 1);
    amidst->recovered = recovered(model);
    crew_kill(crew_ps_process(&model->crew, 1));
    coxi_test_until(has_recovered, amidst, "the ps that comes back");
}

TEST(a_ps_lost_amidst_a_load_gets_all_of_it_while_a_checkpoint_waits)
{
    static const char *const table[] = {"t"};
    struct model model;
    struct model from;
    struct amidst amidst = {.model = &model};
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_load_options load_options = COX_LOAD_OPTIONS_INIT;
    struct model_plan plan = {.n_ps = 2, .optimizer = model_adagrad()};
    plan.dir = coxi_test_path("first");
    model_open(&from, &plan);
    model_train(&from, 4);
    assert_code(0, cox_checkpoint_save(from.crew.c, NULL, NULL));
    load_options.path = plan.dir;
    load_options.variables = table;
    load_options.n_variables = 1;
    load_options.on_progress = lose_amidst;
    load_options.arg = &amidst;
    plan.dir = coxi_test_path("second");
    options.replay_log_bytes = 64 * 1024;
    model_open_with(&model, &plan, &options);
    amidst.other = model_variable(&model.crew, "other", COX_U8, 40 * 1024);
    assert_code(0, cox_checkpoint_load(model.crew.c, &load_options, NULL));
    assert_true(amidst.is_lost);
    model_train(&from, 1);
    model_read(&model);
    model_read(&from);
    assert_memory_equal(from.t_values, model.t_values, sizeof(from.t_values));
    crew_close(&model.crew);
    crew_close(&from.crew);
}

/* Loads a variable from checkpoint `path`, if the ps have these incarnations. */
static int load_from(struct cox_coordinator *c, struct cox_variable *variable,
                     const char *path, const uint64_t *incarnations)
{
    struct coxi_checkpoint *checkpoint;
    struct coxi_operation *operation;
    char name[COXI_WIRE_NAME_MAX + 1];
    struct coxi_load_item item = {.to = variable->entry.description, .from = name};
    struct coxi_loading loading = {.refs = 1, .items = &item, .n_items = 1};
    struct coxi_replay_entry what = {.kind =
                                         COXI_REPLAY_BARRED}; /* nothing to replay */
    (void)snprintf(name, sizeof(name), "%s", item.to->name);
    int r = coxi_checkpoint_open(path, COXI_CHECKPOINT_CHECKED, &checkpoint);
    if (r != 0) {
        return r;
    }
    r = coxi_operation_begin(c, &what, true, &operation);
    if (r == 0) {
        const struct coxi_load_target target = {.c = c,
                                                .closure = operation->id,
                                                .only_ps = COXI_LOAD_ALL_PS,
                                                .incarnations = incarnations};
        r = coxi_loading_send(&loading, checkpoint, &target);
        coxi_operation_end(operation, COXI_OPERATION_LOGGED);
    }
    coxi_checkpoint_close(checkpoint);
    return r;
}

TEST(a_ps_that_has_come_back_takes_nothing_of_a_load_that_began_before)
{
    struct model model;
    uint64_t before[2];
    uint64_t now[2];
    struct model_plan plan = {.n_ps = 2, .optimizer = model_adagrad()};
    (void)model_saved(plan, "first", 1);
    const char *from = coxi_test_path("first/ckpt-1");
    plan.dir = coxi_test_path("second");
    model_open(&model, &plan);
    inside_incarnations(model.crew.c, before);
    lose_ps(&model, 1);
    inside_incarnations(model.crew.c, now);
    assert_true(before[0] == now[0] && before[1] != now[1]);
    assert_code(COX_EPSLOST, load_from(model.crew.c, model.w, from, before));
    assert_code(0, load_from(model.crew.c, model.w, from, now));
    crew_close(&model.crew);
}
