/* Evaluating on the workers: each range of examples counts once, even if processes
 * die. */
#include "tests/coordinator/crew.h"
#include "tests/test.h"

enum { RANGES = 3000, KILLS = 6, WORKERS = 2 };

static struct cox_metric *metric(struct crew *crew, const char *name, uint32_t kind)
{
    struct cox_metric_spec spec = COX_METRIC_SPEC_INIT;
    struct cox_metric *m;
    spec.name = name;
    spec.kind = kind;
    assert_code(0, cox_metric_create(crew->c, &spec, &m));
    return m;
}

struct progress {
    struct crew *crew;
    uint64_t done; /* how many closures must be done */
};

static bool has_done(void *arg)
{
    const struct progress *progress = arg;
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(progress->crew->c, &stats));
    return stats.done >= progress->done;
}

/* Evaluates, and kills workers meanwhile: by turns only a step process, or the whole
 * worker. */
static void evaluate(struct crew *crew, uint64_t done_before)
{
    for (int i = 0; i < RANGES; i++) {
        const double value = i;
        const struct cox_value args[] = {COX_SCALAR("value", COX_F64, &value)};
        struct cox_call call = COX_CALL_INIT;
        call.args = args;
        call.n_args = 1;
        assert_code(0,
                    cox_schedule(crew->c, crew_function(crew, "score"), &call, NULL));
    }
    for (uint64_t i = 0; i < KILLS; i++) {
        struct progress progress = {crew, done_before + i * RANGES / (2 * KILLS)};
        coxi_test_until(has_done, &progress, "ranges");
        int worker = (int)(i % WORKERS);
        crew_kill(i % 3 == 0 ? crew_supervisor(crew, worker)
                             : crew_step_process(crew, worker));
    }
    assert_code(0, cox_join(crew->c, -1));
}

TEST(each_range_of_an_evaluation_counts_once_though_workers_are_killed)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    double value = 0;
    double weight = 0;
    options.worker_wait_ms = 60000;
    crew_open(&crew, 2, WORKERS, "model", &options);
    struct cox_metric *mean = metric(&crew, "mean", COX_METRIC_MEAN);
    struct cox_metric *count = metric(&crew, "count", COX_METRIC_COUNT);
    struct cox_metric *auc = metric(&crew, "auc", COX_METRIC_AUC);
    for (uint64_t round = 0; round < 2; round++) {
        assert_code(0, cox_metric_reset(crew.c, mean));
        assert_code(0, cox_metric_reset(crew.c, count));
        evaluate(&crew, round * RANGES);
        assert_code(0, cox_metric_read(crew.c, count, &value, NULL));
        assert_true(value == 2.0 * RANGES);
        assert_code(0, cox_metric_read(crew.c, mean, &value, &weight));
        assert_true(value == (RANGES - 1) / 2.0 && weight == 2.0 * RANGES);
    }
    assert_code(0, cox_metric_read(crew.c, auc, &value, &weight));
    assert_true(value == 1 && weight == 2 * 2.0 * RANGES);
    crew_close(&crew);
}
