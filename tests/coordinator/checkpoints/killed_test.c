/* Clients that are killed while they write checkpoints. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoints.h"
#include "checkpoint/latest.h"
#include "common/error.h"
#include "common/file.h"
#include "common/rand.h"
#include "tests/coordinator/crew.h"
#include "tests/loaded.h"
#include "tests/test.h"

/* The number of kills, unless COX_TEST_KILLS says another one. */
enum { KILLS = 20, ELEMENTS = 4096 };

static const char *via; /* how the next client writes checkpoints */

static struct cox_options options_for(const char *dir)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = dir;
    options.checkpoint_via = via;
    return options;
}

/* Starts a process that runs `client(dir)`, which does not return. */
static pid_t start(void (*client)(const char *dir), const char *dir)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        client(dir);
        _exit(1);
    }
    return pid;
}

/* ---- kill -9 */

/* Saves checkpoint n with n in every element of a variable on each ps, for ever. */
static void save_for_ever(const char *dir)
{
    static int64_t values[ELEMENTS];
    struct crew crew;
    struct cox_variable *variable;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    struct cox_options options = options_for(dir);
    options.checkpoint_keep = 3;
    crew_open(&crew, 2, 1, NULL, &options);
    spec.name = "v";
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = ELEMENTS;
    spec.shards = 2;
    assert_code(0, cox_variable_create(crew.c, &spec, &variable));
    for (int64_t n = 1;; n++) {
        uint64_t number = 0;
        for (size_t i = 0; i < ELEMENTS; i++) {
            values[i] = n;
        }
        assert_code(0, cox_variable_assign(crew.c, variable, values, sizeof(values)));
        assert_code(0, cox_checkpoint_save(crew.c, NULL, &number));
        assert_int_equal(n, number);
    }
}

static bool is_written(void *dir)
{
    struct coxi_listed *all = NULL;
    size_t n = 0;
    uint64_t latest = 0;
    if (coxi_latest_read(dir, &latest) != 0 ||
        coxi_checkpoints_list(dir, &all, &n) != 0) {
        return false;
    }
    bool unfinished = n > 0 && all[n - 1].unfinished;
    free(all);
    return unfinished;
}

/* Asserts that every complete checkpoint, LATEST among them, loads and contains its
 * number. */
static void assert_all_whole(const char *dir)
{
    struct coxi_listed *all = NULL;
    size_t n = 0;
    uint64_t latest = 0;
    bool found = false;
    assert_code(0, coxi_latest_read(dir, &latest));
    assert_code(0, coxi_checkpoints_list(dir, &all, &n));
    for (size_t i = 0; i < n; i++) {
        char path[PATH_MAX];
        struct coxi_checkpoint *checkpoint;
        if (all[i].unfinished) {
            continue;
        }
        found = found || all[i].number == latest;
        assert_code(
            0, coxi_path(path, "%s/ckpt-%llu", dir, (unsigned long long)all[i].number));
        assert_code(0,
                    coxi_checkpoint_open(path, COXI_CHECKPOINT_CHECKED, &checkpoint));
        const struct coxi_whole *v = coxi_checkpoint_find(
            checkpoint, coxi_checkpoint_variable(checkpoint, "v"), "values");
        for (size_t p = 0; p < v->n_pieces; p++) {
            assert_int_equal(all[i].number,
                             *(const int64_t *)loaded(v->pieces[p].tensor));
        }
        coxi_checkpoint_close(checkpoint);
    }
    free(all);
    assert_true(found);
}

TEST(kill_9_at_any_moment_leaves_the_newest_complete_checkpoint_whole)
{
    uint64_t rng = 12;
    const char *more = getenv("COX_TEST_KILLS");
    int n_kills = more != NULL ? atoi(more) : KILLS;
    int n_amidst = 0; /* kills while a checkpoint was being written */
    for (int i = 0; i < n_kills; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "killed-%d", i);
        char *dir = coxi_test_path(name);
        via = i % 2 == 0 ? "ps" : "client";
        pid_t pid = start(save_for_ever, dir);
        coxi_test_until(is_written, dir, "a checkpoint being written");
        /* Kill at a random moment. */
        (void)poll(NULL, 0, (int)(coxi_rand(&rng) % 8));
        for (uint64_t spin = coxi_rand(&rng) % 64; spin > 0; spin--) {
            (void)access(dir, F_OK);
        }
        crew_kill(pid);
        assert_int_equal(pid, waitpid(pid, NULL, 0));
        n_amidst += is_written(dir);
        assert_all_whole(dir);
        coxi_directory_remove(dir);
    }
    assert_true(n_amidst > 0);
}

/* ---- SIGTERM */

/* Counts to ten in each of two runs. */
static void count_twice(const char *dir)
{
    struct crew crews[2];
    for (int i = 0; i < 2; i++) {
        char path[PATH_MAX];
        assert_code(0, coxi_path(path, "%s-%d", dir, i));
        struct cox_options options = options_for(path);
        options.checkpoint_on_sigterm = 1;
        crew_open(&crews[i], 2, 1, "counter", &options);
        (void)crew_counter(&crews[i], "c0");
        crew_schedule(&crews[i], crew_function(&crews[i], "count"), 10, 1);
        assert_code(0, cox_join(crews[i].c, -1));
    }
    coxi_test_write(coxi_test_path("counted"), "", 0);
    for (;;) {
        (void)pause();
    }
}

static bool has_counted(void *path)
{
    return access(path, F_OK) == 0;
}

TEST(sigterm_writes_a_checkpoint_of_each_run_and_ends_the_process)
{
    int status = 0;
    char *dir = coxi_test_path("ckpt");
    pid_t pid = start(count_twice, dir);
    coxi_test_until(has_counted, coxi_test_path("counted"), "ten counts");
    assert_int_equal(0, kill(pid, SIGTERM));
    assert_int_equal(pid, waitpid(pid, &status, 0));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    for (int i = 0; i < 2; i++) {
        int64_t c0 = 0;
        char path[PATH_MAX];
        struct cox_evaluator *evaluator;
        struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
        assert_code(0, coxi_path(path, "%s-%d", dir, i));
        assert_code(0, cox_evaluator_open(path, NULL, &evaluator));
        assert_code(0, cox_evaluator_next(evaluator, &info));
        assert_int_equal(1, info.number);
        assert_code(0, cox_evaluator_read(evaluator, "c0", &c0, sizeof(c0)));
        assert_int_equal(10, c0);
        cox_evaluator_close(evaluator);
    }
}

/* Waits for a ps that never comes. */
static void open_for_ever(const char *dir)
{
    char json[2 * PATH_MAX + 128];
    struct cox_cluster *cluster;
    struct cox_coordinator *c;
    struct cox_options options = options_for(dir);
    options.checkpoint_on_sigterm = 1;
    options.open_timeout_ms = -1;
    (void)snprintf(
        json, sizeof(json),
        "{\"cluster\":{\"ps\":[\"ipc://%s.ps\"],\"worker\":[\"ipc://%s.worker\"]}}",
        dir, dir);
    assert_code(0, cox_cluster_parse(json, &cluster));
    (void)cox_open(cluster, &options, &c);
}

/* As the kernel tells it. */
static bool handles_sigterm(void *pid)
{
    char path[64];
    char line[256];
    unsigned long long caught = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)*(pid_t *)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "SigCgt:", strlen("SigCgt:")) == 0) {
            caught = strtoull(line + strlen("SigCgt:"), NULL, 16);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return (caught >> (SIGTERM - 1) & 1) != 0;
}

TEST(sigterm_ends_a_client_that_is_still_being_opened)
{
    int status = 0;
    pid_t pid = start(open_for_ever, coxi_test_path("ckpt"));
    coxi_test_until(handles_sigterm, &pid, "a client that handles SIGTERM");
    assert_int_equal(0, kill(pid, SIGTERM));
    assert_int_equal(pid, waitpid(pid, &status, 0));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

/* ---- all ps write at the same time */

struct saving {
    struct crew crew;
    int code;
};

static void *save_one(void *arg)
{
    struct saving *saving = arg;
    saving->code = cox_checkpoint_save(saving->crew.c, NULL, NULL);
    return NULL;
}

static bool second_is_written(void *arg)
{
    (void)arg;
    return access(coxi_test_path("ckpt/ckpt-1.tmp/ps-1-of-2.safetensors"), F_OK) == 0;
}

TEST(a_ps_does_not_wait_for_another_to_write_its_shard)
{
    struct saving saving = {.code = -1};
    struct cox_options options = options_for(coxi_test_path("ckpt"));
    pthread_t thread;
    crew_open(&saving.crew, 2, 1, NULL, &options);
    pid_t first = crew_ps_process(&saving.crew, 0);
    assert_int_equal(0, kill(first, SIGSTOP));
    assert_int_equal(0, pthread_create(&thread, NULL, save_one, &saving));
    coxi_test_until(second_is_written, NULL, "the second ps's shard");
    assert_int_equal(0, kill(first, SIGCONT));
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_code(0, saving.code);
    crew_close(&saving.crew);
}
