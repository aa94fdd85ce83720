/* Several runs share the ps: each has a key, a client and workers of its own. */
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/file.h"
#include "net/key.h"
#include "tests/coordinator/crew.h"
#include "tests/program.h"
#include "tests/test.h"

enum { RUNS = 2 };

struct shared {
    const char *keys;
    const char *root;
    struct program ps;
    char ps_url[256];
};

struct user {
    char key[PATH_MAX];
    char directory[PATH_MAX]; /* of its checkpoints */
    struct program worker;
    struct cox_cluster *cluster;
    struct crew crew;
};

static void shared_open(struct shared *shared, const char *runs)
{
    shared->keys = coxi_test_path("keys");
    shared->root = coxi_test_path("root");
    assert_int_equal(0, mkdir(shared->keys, 0700));
    assert_int_equal(0, mkdir(shared->root, 0700));
    for (int i = 0; i < RUNS; i++) {
        char key[PATH_MAX];
        assert_code(0, coxi_path(key, "%s/run%d.key", shared->keys, i));
        assert_code(0, coxi_key_new(key));
    }
    assert_int_equal(0, setenv("COX_PS_RUN_KEYS", shared->keys, 1));
    assert_int_equal(0, setenv("COX_PS_CHECKPOINT_ROOT", shared->root, 1));
    assert_int_equal(0, setenv("COX_PS_RUNS", runs, 1));
    daemon_start(&shared->ps, "coxswain-ps", 0, "tcp://127.0.0.1:0", shared->ps_url);
    assert_int_equal(0, unsetenv("COX_PS_RUN_KEYS"));
}

static void shared_close(struct shared *shared)
{
    program_kill(&shared->ps, SIGTERM);
    (void)program_wait(&shared->ps);
}

/* Starts the worker of a run. */
static void user_init(struct user *user, const struct shared *shared, int run)
{
    char worker[256];
    char json[1024];
    *user = (struct user){0};
    assert_code(0, coxi_path(user->key, "%s/run%d.key", shared->keys, run));
    assert_code(0,
                coxi_path(user->directory, "%s/run%d/checkpoints", shared->root, run));
    assert_int_equal(0, setenv("COX_KEY_FILE", user->key, 1));
    daemon_start(&user->worker, "coxswain-worker", 0, "tcp://127.0.0.1:0", worker);
    assert_int_equal(0, unsetenv("COX_KEY_FILE"));
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"], \"worker\": [\"%s\"]}",
                   shared->ps_url, worker);
    assert_code(0, cox_cluster_parse(json, &user->cluster));
}

static struct cox_options options_of(const struct user *user)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.key_file = user->key;
    options.checkpoint_dir = user->directory;
    return options;
}

static void user_open(struct user *user)
{
    struct crew *crew = &user->crew;
    const struct cox_options options = options_of(user);
    assert_code(0, cox_open(user->cluster, &options, &crew->c));
    assert_code(0,
                cox_module_load(crew->c, coxi_test_module("counter"), &crew->module));
}

static void user_fini(struct user *user)
{
    program_kill(&user->worker, SIGTERM);
    (void)program_wait(&user->worker);
    cox_cluster_free(user->cluster);
}

/* Both train at the same time, with a variable of the same name, and save. */
TEST(two_runs_train_on_one_ps)
{
    struct shared shared;
    struct user users[RUNS];
    struct cox_variable *counters[RUNS];
    shared_open(&shared, "0");
    for (int i = 0; i < RUNS; i++) {
        user_init(&users[i], &shared, i);
        user_open(&users[i]);
        counters[i] = crew_counter(&users[i].crew, "c0");
    }
    for (int i = 0; i < RUNS; i++) {
        crew_schedule(&users[i].crew, crew_function(&users[i].crew, "count"),
                      10 * (1 + i), 1);
    }
    for (int i = 0; i < RUNS; i++) {
        struct stat is;
        assert_code(0, cox_join(users[i].crew.c, 8000));
        assert_int_equal(10 * (1 + i), crew_read(&users[i].crew, counters[i]));
        assert_code(0, cox_close(users[i].crew.c, 8000));
        assert_int_equal(0, stat(users[i].directory, &is));
        user_fini(&users[i]);
    }
    shared_close(&shared);
}

/* The run that came first goes on; the other one can begin when that has ended. */
TEST(a_run_without_a_seat_is_told_so)
{
    struct shared shared;
    struct user first;
    struct user second;
    shared_open(&shared, "1");
    user_init(&first, &shared, 0);
    user_init(&second, &shared, 1);
    user_open(&first);
    struct cox_options options = options_of(&second);
    options.open_timeout_ms = 1000;
    crew_refused(second.cluster, &options, COX_EBUSY, "--runs");
    struct cox_variable *counter = crew_counter(&first.crew, "c0");
    crew_schedule(&first.crew, crew_function(&first.crew, "count"), 20, 1);
    assert_code(0, cox_join(first.crew.c, 8000));
    assert_int_equal(20, crew_read(&first.crew, counter));
    assert_code(0, cox_close(first.crew.c, 8000));
    user_open(&second);
    assert_code(0, cox_close(second.crew.c, 8000));
    user_fini(&first);
    user_fini(&second);
    shared_close(&shared);
}

TEST(the_worker_of_one_run_serves_no_other)
{
    struct shared shared;
    struct user first;
    struct user second;
    shared_open(&shared, "0");
    user_init(&first, &shared, 0);
    user_init(&second, &shared, 1);
    struct cox_options options = options_of(&second);
    options.open_timeout_ms = 1000;
    options.min_workers = 1;
    crew_refused(first.cluster, &options, COX_EDENIED, "another key");
    user_fini(&first);
    user_fini(&second);
    shared_close(&shared);
}

/* A key that is there after SIGHUP is that of a run; one that is gone is no run's. */
TEST(a_shared_ps_reads_its_keys_again_when_it_is_told_to)
{
    struct shared shared;
    char key[PATH_MAX];
    char away[PATH_MAX];
    shared_open(&shared, "0");
    assert_code(0, coxi_path(key, "%s/more.key", shared.keys));
    assert_code(0, coxi_key_new(key));
    assert_code(0, coxi_path(key, "%s/run1.key", shared.keys));
    assert_code(0, coxi_path(away, "%s/run1.away", shared.keys));
    assert_int_equal(0, rename(key, away));
    program_kill(&shared.ps, SIGHUP);
    program_wait_printed(&shared.ps, "event=keys added=\"more\" removed=\"run1\"");
    assert_int_equal(0, chmod(shared.keys, 0777));
    program_kill(&shared.ps, SIGHUP);
    program_wait_printed(&shared.ps, "event=keys_not_read");
    shared_close(&shared);
}

static void ps_refuses(const char *const *argv, const char *part)
{
    struct program program;
    assert_int_equal(2, program_run(&program, argv));
    program_assert_printed(&program, part);
}

TEST(a_shared_ps_needs_keys_and_a_root)
{
    char keys[300];
    (void)snprintf(keys, sizeof(keys), "--run-keys=%s", coxi_test_path("keys"));
    const char *const no_keys[] = {"coxswain-ps", "--runs=2", NULL};
    const char *const no_root[] = {"coxswain-ps", keys, NULL};
    const char *const no_directory[] = {"coxswain-ps", keys, "--checkpoint-root=/tmp",
                                        NULL};
    const char *const two_kinds[] = {"coxswain-ps", keys, "--checkpoint-root=/tmp",
                                     "--key-file=/nowhere", NULL};
    ps_refuses(no_keys, "--run-keys");
    ps_refuses(no_root, "--checkpoint-root");
    ps_refuses(no_directory, "cannot read the directory of keys");
    ps_refuses(two_kinds, "exclude each other");
}
