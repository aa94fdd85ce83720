/*
 * A client whose curves TensorBoard draws, for tensorboard.sh: client_curves
 * run_the_client, with its directory in $COX_TEST_CURVES.
 *
 * The first time it logs, writes a checkpoint, lets an evaluator report, logs more and
 * kills itself. The second time it goes on from the checkpoint, and logs to the end.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/coordinator/crew.h"
#include "tests/test.h"

enum { N = 50 };

static void train(struct crew *crew, int n, uint64_t epoch)
{
    for (int i = 0; i < n; i++) {
        assert_code(0, cox_schedule(crew->c, crew_function(crew, "train"), NULL, NULL));
    }
    assert_code(0, cox_join(crew->c, -1));
    assert_code(0, cox_log_scalar(crew->c, "epoch", epoch, 1 / (double)epoch));
}

/* What an evaluator says of the newest checkpoint. */
static void evaluate(const char *dir, double auc)
{
    struct cox_evaluator *evaluator;
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    const struct cox_score score = {"auc", auc};
    assert_code(0, cox_evaluator_open(dir, NULL, &evaluator));
    assert_code(0, cox_evaluator_next(evaluator, &info));
    assert_code(0, cox_evaluator_report(evaluator, &score, 1));
    cox_evaluator_close(evaluator);
}

struct wanted {
    const char *path;
    const char *part;
};

/* metrics.jsonl has this text. */
static bool is_written(void *arg)
{
    const struct wanted *wanted = arg;
    size_t len;
    if (access(wanted->path, F_OK) != 0) {
        return false;
    }
    char *text = coxi_test_read(wanted->path, &len);
    bool is = strstr(text, wanted->part) != NULL;
    free(text);
    return is;
}

static void run(const char *dir)
{
    char run_dir[1024];
    char curves[1024];
    char path[1100];
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_progress progress = COX_PROGRESS_INIT;
    (void)snprintf(run_dir, sizeof(run_dir), "%s/run", dir);
    (void)snprintf(curves, sizeof(curves), "%s/curves", dir);
    (void)snprintf(path, sizeof(path), "%s/metrics.jsonl", run_dir);
    options.checkpoint_dir = run_dir;
    options.tensorboard_dir = curves;
    crew_open(&crew, 2, 2, "scalars", &options);
    assert_code(0, cox_progress(crew.c, &progress));
    if (progress.checkpoint != 0) {
        train(&crew, 3 * N, 2);
        assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
        evaluate(run_dir, 0.75);
        crew_close(&crew);
        return;
    }
    (void)crew_counter(&crew, "c0");
    train(&crew, N, 1);
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    evaluate(run_dir, 0.5);
    train(&crew, N, 2);
    struct wanted eval = {path, "\"kind\":\"eval\""};
    coxi_test_until(is_written, &eval, "the evaluation in metrics.jsonl");
    assert_code(0, cox_log_scalar(crew.c, "last", 1, 1));
    struct wanted last = {path, "\"name\":\"last\""};
    coxi_test_until(is_written, &last, "the last point in metrics.jsonl");
    (void)raise(SIGKILL);
}

TEST(run_the_client)
{
    const char *dir = getenv("COX_TEST_CURVES");
    assert_non_null(dir);
    run(dir);
}
