/*
 * A checkpoint that is durable counts even if something fails after that. A checkpoint
 * from which another client has resumed stays. Calls of
 * coxi_hold_take and coxi_directory_sync go through this file (ld --wrap).
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "tests/coordinator/crew.h"
#include "tests/test.h"

static atomic_bool fails;

struct coxi_hold;
int __real_coxi_hold_take(const char *path, struct coxi_hold **ret);
int __wrap_coxi_hold_take(const char *path, struct coxi_hold **ret);

int __wrap_coxi_hold_take(const char *path, struct coxi_hold **ret)
{
    return atomic_load(&fails) ? coxi_error(COX_EIO, "cannot lock %s", path)
                               : __real_coxi_hold_take(path, ret);
}

/* The moment when a checkpoint has its final name, but the name is not durable yet. If
 * armed, the first thread that gets there posts `reached` and waits for `go`. */
static struct {
    atomic_bool armed;
    sem_t reached;
    sem_t go;
} gate;

int __real_coxi_directory_sync(const char *path);
int __wrap_coxi_directory_sync(const char *path);

int __wrap_coxi_directory_sync(const char *path)
{
    const char *name = strrchr(path, '/');
    bool whole = name != NULL && strcmp(name, "/checkpoints") == 0;
    if (whole && atomic_exchange(&gate.armed, false)) {
        (void)sem_post(&gate.reached);
        while (sem_wait(&gate.go) != 0) {
        }
    }
    return __real_coxi_directory_sync(path);
}

static uint64_t save(struct crew *crew)
{
    uint64_t number = 0;
    assert_code(0, cox_checkpoint_save(crew->c, NULL, &number));
    return number;
}

static void count(struct crew *crew, int n)
{
    crew_schedule(crew, crew_function(crew, "count"), n, 1);
    assert_code(0, cox_join(crew->c, -1));
}

static uint64_t recovered(struct crew *crew)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(crew->c, &stats));
    return stats.ps_recovered;
}

static void lose_ps(struct crew *crew, struct cox_variable *counter, int64_t expected)
{
    uint64_t before = recovered(crew);
    crew_kill(crew_ps_process(crew, 0));
    while (recovered(crew) == before) {
        assert_int_equal(expected, crew_read(crew, counter));
    }
    assert_int_equal(expected, crew_read(crew, counter));
}

static bool is_there(const char *name)
{
    return access(coxi_test_path(name), F_OK) == 0;
}

TEST(checkpoint_that_ps_cannot_be_restored_from_counts_and_the_one_before_it_stays)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    options.checkpoint_keep = 1;
    crew_open(&crew, 1, 1, "counter", &options);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    count(&crew, 10);
    assert_int_equal(1, save(&crew));
    count(&crew, 10);
    atomic_store(&fails, true);
    assert_int_equal(2, save(&crew));
    assert_int_equal(3, save(&crew));
    atomic_store(&fails, false);
    assert_true(is_there("checkpoints/ckpt-1"));
    assert_false(is_there("checkpoints/ckpt-2"));
    assert_true(is_there("checkpoints/ckpt-3"));
    count(&crew, 10);
    /* restored from ckpt-1; the later steps are replayed */
    lose_ps(&crew, counter, 30);
    assert_int_equal(4, save(&crew));
    assert_false(is_there("checkpoints/ckpt-1"));
    lose_ps(&crew, counter, 30);
    crew_close(&crew);
}

static void *saving_thread(void *arg)
{
    struct crew *crew = arg;
    assert_code(COX_EFENCED, cox_checkpoint_save(crew->c, NULL, NULL));
    return NULL;
}

TEST(checkpoint_that_another_client_has_gone_on_from_stays)
{
    struct crew old;
    struct crew crew;
    pthread_t thread;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    assert_int_equal(0, sem_init(&gate.reached, 0, 0));
    assert_int_equal(0, sem_init(&gate.go, 0, 0));
    crew_open(&old, 1, 1, "counter", &options);
    (void)crew_counter(&old, "c0");
    count(&old, 10);
    atomic_store(&gate.armed, true);
    assert_int_equal(0, pthread_create(&thread, NULL, saving_thread, &old));
    assert_int_equal(0, sem_wait(&gate.reached));

    crew_open(&crew, 1, 1, "counter", &options);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    assert_int_equal(10, crew_read(&crew, counter));
    assert_int_equal(0, sem_post(&gate.go));
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_code(COX_EFENCED, cox_close(old.c, 5000));
    assert_true(is_there("checkpoints/ckpt-1"));
    count(&crew, 10);
    lose_ps(&crew, counter, 20);
    crew_close(&crew);
}
