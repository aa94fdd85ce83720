/*
 * A step module and a client, as users write them, in one file. It compiles as C11 and
 * as C++17 without a warning (tests/CMakeLists.txt), so the names of the public headers
 * do not collide.
 */
#include <coxswain/coxswain.h>
#include <coxswain/step.h>

static int count(struct cox_step *step)
{
    struct cox_variable *total;
    const int64_t one = 1;
    const uint64_t keys[] = {1, 2};
    float rows[2] = {0, 0};
    struct cox_pull pull = {NULL, cox_rows_listed(keys, 2), rows, 0};
    int r = cox_step_variable(step, "total", &total);
    if (r == 0) {
        r = cox_step_variable(step, "table", &pull.variable);
    }
    if (r == 0) {
        r = cox_step_pull(step, &pull, 1);
    }
    return r != 0 ? cox_step_fail(step, r, "%s", "no row")
                  : cox_step_add(step, total, &one);
}

COX_STEPS(COX_STEP("count", count), COX_STEP("again", count));

/* The structs that are also functions. */
static int look(struct cox_coordinator *c, struct cox_table *table)
{
    struct cox_stats stats = COX_STATS_INIT;
    struct cox_progress progress = COX_PROGRESS_INIT;
    struct cox_table_stats rows = COX_TABLE_STATS_INIT;
    int r = cox_stats(c, &stats);
    if (r == 0) {
        r = cox_progress(c, &progress);
    }
    return r == 0 ? cox_table_stats(c, table, &rows) : r;
}

static int create(struct cox_coordinator *c, struct cox_table **ret)
{
    struct cox_variable *total;
    struct cox_metric *metric;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    struct cox_table_spec table = COX_TABLE_SPEC_INIT;
    struct cox_metric_spec sum = COX_METRIC_SPEC_INIT;
    struct cox_schedule schedule = spec.optimizer.schedule;
    spec.name = "total";
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = 1;
    schedule.warmup_steps = 10;
    table.name = "table";
    table.optimizer.kind = COX_ADAM;
    table.optimizer.learning_rate = 0.1F;
    table.optimizer.schedule = schedule;
    sum.name = "sum";
    int r = cox_variable_create(c, &spec, &total);
    if (r == 0) {
        r = cox_metric_create(c, &sum, &metric);
    }
    return r == 0 ? cox_table_create(c, &table, ret) : r;
}

static int run(struct cox_coordinator *c)
{
    struct cox_table *table = NULL;
    struct cox_module *cox_module = NULL;
    struct cox_function *function = NULL;
    struct cox_future *future = NULL;
    struct cox_call call = COX_CALL_INIT;
    struct cox_error error = COX_ERROR_INIT;
    const int64_t n = 1;
    const struct cox_value args[] = {COX_SCALAR("n", COX_I64, &n)};
    call.args = args;
    call.n_args = 1;
    int r = create(c, &table);
    if (r == 0) {
        r = cox_module_load(c, "both.so", &cox_module);
    }
    if (r == 0) {
        r = cox_function_get(cox_module, "count", &function);
    }
    if (r == 0) {
        r = cox_schedule(c, function, &call, &future);
    }
    if (r == 0) {
        r = cox_future_error(future, &error);
    }
    return r == 0 ? look(c, table) : r;
}

static const struct cox_options defaults = COX_OPTIONS_INIT;

/* Every initializer that no other function here uses. */
static int initialize(void)
{
    struct cox_eval eval = COX_EVAL_INIT;
    struct cox_evaluator_options evaluator = COX_EVALUATOR_OPTIONS_INIT;
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    struct cox_reader_options reader = COX_READER_OPTIONS_INIT;
    struct cox_reader_variable variable = COX_READER_VARIABLE_INIT;
    struct cox_load_options load = COX_LOAD_OPTIONS_INIT;
    struct cox_load_info loaded = COX_LOAD_INFO_INIT;
    struct cox_optimizer optimizer = COX_OPTIMIZER_INIT;
    struct cox_initializer initializer = COX_INITIALIZER_INIT;
    struct cox_lifecycle lifecycle = COX_LIFECYCLE_INIT;
    return eval.size == sizeof(eval) && evaluator.size == sizeof(evaluator) &&
           info.size == sizeof(info) && reader.size == sizeof(reader) &&
           variable.size == sizeof(variable) && load.size == sizeof(load) &&
           loaded.size == sizeof(loaded) && optimizer.kind == COX_OPTIMIZER_NONE &&
           initializer.kind == COX_ZEROS && lifecycle.rows_max == 0 &&
           defaults.size == sizeof(defaults);
}

int main(void)
{
    struct cox_cluster *cluster = NULL;
    struct cox_coordinator *c = NULL;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_checkpoint_options checkpoint = COX_CHECKPOINT_OPTIONS_INIT;
    int r = initialize() ? cox_cluster_from_env(&cluster) : COX_EINVAL;
    options.checkpoint_dir = "checkpoints";
    if (r == 0) {
        r = cox_open(cluster, &options, &c);
    }
    if (r == 0) {
        r = run(c);
    }
    if (r == 0) {
        r = cox_checkpoint_save(c, &checkpoint, NULL);
    }
    return cox_close(c, 1000) == 0 ? r : 1;
}
