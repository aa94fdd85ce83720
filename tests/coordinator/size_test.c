/* If no version of a struct has the `size` that a caller passes, the struct was not
 * initialized. Every function that takes or fills such a struct refuses it,
 * whatever its other fields are. */
#include "coxswain/coxswain.h"
#include "tests/coordinator/crew.h"
#include "tests/test.h"

/* Sizes that end before the fields that are needed, or inside of one. */
static const size_t bad[] = {0, 7, sizeof(size_t), sizeof(size_t) + 1};
enum { N_BAD = sizeof(bad) / sizeof(*bad) };

#define assert_no_size(type, call)                                                     \
    do {                                                                               \
        assert_code(COX_EINVAL, call);                                                 \
        assert_error_names(type);                                                      \
        assert_error_names("_INIT");                                                   \
    } while (0)

TEST(spec_of_no_size_is_refused)
{
    struct crew crew;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    struct cox_table_spec table_spec = COX_TABLE_SPEC_INIT;
    struct cox_metric_spec metric_spec = COX_METRIC_SPEC_INIT;
    struct cox_variable *variable;
    struct cox_table *table;
    struct cox_metric *metric;
    crew_open(&crew, 1, 1, NULL, NULL);
    spec.name = table_spec.name = metric_spec.name = "v";
    spec.dtype = COX_F32;
    spec.rank = 1;
    spec.shape[0] = 1;
    table_spec.dim = 2;
    for (int i = 0; i < N_BAD; i++) {
        spec.size = table_spec.size = metric_spec.size = bad[i];
        assert_no_size("cox_variable_spec",
                       cox_variable_create(crew.c, &spec, &variable));
        assert_no_size("cox_table_spec", cox_table_create(crew.c, &table_spec, &table));
        assert_no_size("cox_metric_spec",
                       cox_metric_create(crew.c, &metric_spec, &metric));
    }
    spec.size = table_spec.size = 2 * sizeof(size_t);
    assert_no_size("cox_variable_spec", cox_variable_create(crew.c, &spec, &variable));
    assert_no_size("cox_table_spec", cox_table_create(crew.c, &table_spec, &table));
    /* The size of an older version is accepted: missing fields count as 0. */
    table_spec.size = offsetof(struct cox_table_spec, lifecycle);
    table_spec.lifecycle.admit_count = UINT32_MAX;
    table_spec.wire_rounding = 77;
    assert_code(0, cox_table_create(crew.c, &table_spec, &table));
    crew_close(&crew);
}

TEST(options_of_no_size_are_refused)
{
    struct cox_cluster *cluster;
    struct cox_coordinator *c;
    struct cox_evaluator *evaluator;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_evaluator_options evaluator_options = COX_EVALUATOR_OPTIONS_INIT;
    assert_code(0, cox_cluster_local(1, 1, &cluster));
    for (int i = 0; i < N_BAD; i++) {
        options.size = evaluator_options.size = bad[i];
        assert_no_size("cox_options", cox_open(cluster, &options, &c));
        assert_no_size("cox_evaluator_options",
                       cox_evaluator_open("/tmp", &evaluator_options, &evaluator));
    }
    cox_cluster_free(cluster);
}

TEST(call_or_answer_of_no_size_is_refused)
{
    struct crew crew;
    struct cox_call call = COX_CALL_INIT;
    struct cox_stats stats = COX_STATS_INIT;
    struct cox_progress progress = COX_PROGRESS_INIT;
    struct cox_checkpoint_options save = COX_CHECKPOINT_OPTIONS_INIT;
    struct cox_load_options load = COX_LOAD_OPTIONS_INIT;
    struct cox_load_info info = COX_LOAD_INFO_INIT;
    struct cox_eval eval = COX_EVAL_INIT;
    double score;
    crew_open(&crew, 1, 1, "hold", NULL);
    struct cox_function *nothing = crew_function(&crew, "nothing");
    load.path = "/nowhere"; /* refused before anything is loaded from there */
    for (int i = 0; i < N_BAD; i++) {
        call.size = stats.size = progress.size = save.size = info.size = bad[i];
        eval.size = bad[i];
        assert_no_size("cox_call", cox_schedule(crew.c, nothing, &call, NULL));
        assert_no_size("cox_stats", cox_stats(crew.c, &stats));
        assert_no_size("cox_progress", cox_progress(crew.c, &progress));
        assert_no_size("cox_checkpoint_options",
                       cox_checkpoint_save(crew.c, &save, NULL));
        assert_no_size("cox_load_info", cox_checkpoint_load(crew.c, &load, &info));
        assert_no_size("cox_eval", cox_eval_score(&eval, "loss", &score));
    }
    crew_close(&crew);
}
