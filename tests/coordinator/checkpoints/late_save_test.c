/* A checkpoint that is still being written when cox_close cancels calls. */
#include <pthread.h>
#include <stdatomic.h>

#include "checkpoint/latest.h"
#include "coordinator/checkpoints/backlog.h"
#include "tests/coordinator/crew.h"
#include "tests/test.h"

static struct cox_future *waits; /* if not NULL, cancelled before the collection */
static atomic_bool collects;

int __real_coxi_backlog_collect(struct cox_coordinator *c, const char *path,
                                const struct coxi_recovery_mark *mark,
                                struct coxi_manifest *manifest);
int __wrap_coxi_backlog_collect(struct cox_coordinator *c, const char *path,
                                const struct coxi_recovery_mark *mark,
                                struct coxi_manifest *manifest);

int __wrap_coxi_backlog_collect(struct cox_coordinator *c, const char *path,
                                const struct coxi_recovery_mark *mark,
                                struct coxi_manifest *manifest)
{
    if (waits != NULL) {
        atomic_store(&collects, true);
        assert_code(COX_ECANCELLED, cox_future_wait(waits, 10000));
    }
    return __real_coxi_backlog_collect(c, path, mark, manifest);
}

struct saving {
    struct cox_coordinator *c;
    int code;
};

static void *save(void *arg)
{
    struct saving *saving = arg;
    saving->code = cox_checkpoint_save(saving->c, NULL, NULL);
    return NULL;
}

static bool is_collecting(void *arg)
{
    (void)arg;
    return atomic_load(&collects);
}

/* A client that resumed after the second call's cursor would skip the first one. */
TEST(no_checkpoint_passes_over_calls_that_cox_close_has_cancelled)
{
    enum { MORE_THAN_A_WORKER_TAKES = 2000 };
    struct crew crew;
    struct crew_hold hold;
    struct cox_future *done;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_call call = COX_CALL_INIT;
    pthread_t thread;
    uint64_t latest = 0;
    const char *dir = coxi_test_path("ckpt");
    options.checkpoint_dir = dir;
    options.checkpoint_at_close = -1;
    crew_open(&crew, 1, 2, "hold", &options);
    (void)crew_counter(&crew, "c0");
    crew_hold_on(&hold, &crew, "watch_and_count", 1, false);
    crew_hold_wait(&hold);
    struct cox_function *nothing = crew_function(&crew, "nothing");
    call.only_worker = 1;
    for (int i = 0; i < MORE_THAN_A_WORKER_TAKES; i++) {
        assert_code(0, cox_schedule(crew.c, nothing, &call, NULL));
    }
    call.cursor = 1;
    assert_code(0, cox_schedule(crew.c, nothing, &call, &waits));
    call.only_worker = 2;
    call.cursor = 2;
    assert_code(0, cox_schedule(crew.c, nothing, &call, &done));
    assert_code(0, cox_future_wait(done, 10000));
    struct saving saving = {crew.c, 0};
    assert_int_equal(0, pthread_create(&thread, NULL, save, &saving));
    coxi_test_until(is_collecting, NULL, "a checkpoint being written");
    crew_close(&crew);
    crew_hold_release(&hold);
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_code(COX_ECLOSED, saving.code);
    (void)coxi_latest_read(dir, &latest);
    assert_int_equal(0, latest);
    cox_future_free(waits);
    cox_future_free(done);
    waits = NULL;
}
