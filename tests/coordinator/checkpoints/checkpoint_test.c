/* Checkpoints: what they hold, and which directories a client may write them to. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/latest.h"
#include "checkpoint/manifest.h"
#include "tests/coordinator/crew.h"
#include "tests/test.h"

static void open_at(struct crew *crew, const char *dir, const char *module)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = dir;
    options.history = -1; /* checkpoints are alone in the directory */
    crew_open(crew, 2, 1, module, &options);
}

static uint64_t save(struct crew *crew, int final)
{
    uint64_t number = 0;
    struct cox_checkpoint_options options = COX_CHECKPOINT_OPTIONS_INIT;
    options.final = final;
    assert_code(0, cox_checkpoint_save(crew->c, &options, &number));
    return number;
}

TEST(checkpoint_holds_every_variable_and_which_closures_count_in_it)
{
    struct crew crew;
    struct coxi_manifest *manifest;
    uint64_t latest = 0;
    char *dir = coxi_test_path("deep/er");
    open_at(&crew, dir, "counter");
    (void)crew_counter(&crew, "c0");
    (void)crew_counter(&crew, "c1");
    crew_schedule(&crew, crew_function(&crew, "count"), 300, 2);
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(1, save(&crew, 0));
    assert_int_equal(2, save(&crew, 1));
    assert_code(0, coxi_latest_read(dir, &latest));
    assert_int_equal(2, latest);
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/ckpt-2", dir);
    assert_code(0, coxi_manifest_read(path, &manifest));
    assert_int_equal(cox_run_id(crew.c), manifest->session.run);
    assert_int_equal(2, manifest->n_shards);
    assert_int_equal(2, manifest->n_variables);
    assert_string_equal("c1", manifest->variables[1]->name);
    assert_true(manifest->final);
    /* 2 creations and 300 steps: all settled, so the ids that follow begin at 303. */
    assert_int_equal(303, manifest->next_closure);
    coxi_manifest_free(manifest);
    crew_close(&crew);
}

TEST(checkpoint_while_steps_run_is_whole)
{
    struct crew crew;
    struct cox_evaluator *evaluator;
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    int64_t c0 = -1;
    char *dir = coxi_test_path("ckpt");
    open_at(&crew, dir, "counter");
    (void)crew_counter(&crew, "c0");
    crew_schedule(&crew, crew_function(&crew, "count"), 5000, 1);
    (void)save(&crew, 0);
    crew_schedule(&crew, crew_function(&crew, "count"), 5000, 1);
    (void)save(&crew, 0);
    assert_code(0, cox_join(crew.c, -1));
    (void)save(&crew, 1);
    assert_code(0, cox_evaluator_open(dir, NULL, &evaluator));
    assert_code(0, cox_evaluator_next(evaluator, &info));
    assert_int_equal(3, info.number);
    assert_code(0, cox_evaluator_read(evaluator, "c0", &c0, sizeof(c0)));
    assert_int_equal(10000, c0);
    cox_evaluator_close(evaluator);
    crew_close(&crew);
}

TEST(checkpoint_without_a_directory_says_what_to_set)
{
    struct crew crew;
    uint64_t number = 7;
    crew_open(&crew, 1, 1, NULL, NULL);
    assert_code(COX_ENOENT, cox_checkpoint_save(crew.c, NULL, &number));
    assert_error_names("checkpoint_dir");
    assert_int_equal(7, number);
    crew_close(&crew);
}

static void assert_open_refused(const char *dir, int resume, int code,
                                const char *named)
{
    struct cox_cluster *cluster;
    struct cox_coordinator *c = NULL;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = dir;
    options.resume = resume;
    options.bin_dir = coxi_test_bin();
    assert_code(0, cox_cluster_local(1, 1, &cluster));
    assert_code(code, cox_open(cluster, &options, &c));
    assert_error_names(named);
    assert_null(c);
    cox_cluster_free(cluster);
}

TEST(checkpoint_directory_that_cannot_be_written_is_refused_at_open)
{
    char *file = coxi_test_path("file");
    coxi_test_write(file, "x", 1);
    assert_open_refused(file, 0, COX_EIO, file);
    char *below = coxi_test_path("file/below");
    assert_open_refused(below, 0, COX_EIO, below);
    assert_open_refused("/proc/coxswain", 0, COX_EIO, "/proc/coxswain");
}

static size_t count_entries(const char *dir)
{
    size_t n = 0;
    DIR *stream = opendir(dir);
    assert_non_null(stream);
    while (readdir(stream) != NULL) {
        n++;
    }
    (void)closedir(stream);
    return n - 2;
}

TEST(checkpoint_directory_that_was_used_is_refused_where_nothing_is_to_go_on)
{
    struct crew crew;
    char *dir = coxi_test_path("ckpt");
    open_at(&crew, dir, NULL);
    (void)save(&crew, 0);
    crew_close(&crew);
    assert_open_refused(dir, -1, COX_EEXIST, dir);
    /* The same if that run's client died before it could write LATEST. */
    assert_int_equal(0, unlink(coxi_test_path("ckpt/LATEST")));
    assert_open_refused(dir, -1, COX_EEXIST, dir);
}

TEST(what_a_client_left_unfinished_is_removed_by_the_next)
{
    struct crew crew;
    char *dir = coxi_test_path("ckpt");
    assert_int_equal(0, mkdir(dir, 0700));
    assert_int_equal(0, mkdir(coxi_test_path("ckpt/ckpt-1.tmp"), 0700));
    coxi_test_write(coxi_test_path("ckpt/ckpt-1.tmp/x"), "x", 1);
    open_at(&crew, dir, NULL);
    assert_int_equal(1, count_entries(dir)); /* the claim */
    assert_int_equal(2, save(&crew, 0));     /* 1 was the other client's */
    crew_close(&crew);
}

TEST(checkpoint_that_fails_leaves_nothing_and_the_next_one_works)
{
    struct crew crew;
    uint64_t number = 9;
    char *dir = coxi_test_path("ckpt");
    open_at(&crew, dir, "counter");
    (void)crew_counter(&crew, "c0");
    (void)save(&crew, 0);
    /* A directory that is not empty has the final name of the next checkpoint. */
    char *in_the_way = coxi_test_path("ckpt/ckpt-2");
    assert_int_equal(0, mkdir(in_the_way, 0700));
    coxi_test_write(coxi_test_path("ckpt/ckpt-2/x"), "x", 1);
    assert_code(COX_EIO, cox_checkpoint_save(crew.c, NULL, &number));
    assert_error_names("ckpt-2");
    assert_int_equal(9, number);
    /* ckpt-1, LATEST, generation-1, and the directory in the way */
    assert_int_equal(4, count_entries(dir));
    assert_int_equal(3, save(&crew, 0));
    crew_schedule(&crew, crew_function(&crew, "count"), 10, 1);
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
}

/* An older client that does not know yet that it was replaced may be writing there,
 * too. */
TEST(checkpoint_leaves_alone_what_somebody_else_is_writing)
{
    struct crew crew;
    char *dir = coxi_test_path("ckpt");
    char *shard = coxi_test_path("ckpt/ckpt-1.tmp/ps-0-of-2.safetensors");
    open_at(&crew, dir, NULL);
    assert_int_equal(0, mkdir(coxi_test_path("ckpt/ckpt-1.tmp"), 0700));
    coxi_test_write(shard, "x", 1);
    assert_int_equal(2, save(&crew, 0));
    assert_int_equal(0, access(shard, F_OK));
    crew_close(&crew);
}
