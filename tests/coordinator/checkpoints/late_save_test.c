/* A checkpoint that is being written when calls are cancelled: no later cursor passes over
 * them. coxi_backlog_collect goes through this file (ld --wrap). */
#include <pthread.h>
#include <stdatomic.h>

#include "checkpoint/latest.h"
#include "coordinator/base/alive.h"
#include "coordinator/checkpoints/backlog.h"
#include "tests/coordinator/crew.h"
#include "tests/test.h"

/* Called before the backlog is collected, if it is not NULL. */
static void (*before_collection)(struct cox_coordinator *c);

__typeof__(coxi_backlog_collect) __real_coxi_backlog_collect,
    __wrap_coxi_backlog_collect;

int __wrap_coxi_backlog_collect(struct cox_coordinator *c, const char *path,
                                const struct coxi_recovery_mark *mark,
                                struct coxi_manifest *manifest)
{
    if (before_collection != NULL) {
        before_collection(c);
    }
    return __real_coxi_backlog_collect(c, path, mark, manifest);
}

/* A crew whose call with cursor 1 waits for worker 1, while that with cursor 2 is done. A
 * client that resumed after cursor 2 would skip the first one. */
struct pair {
    struct crew crew;
    struct crew_hold hold;
};

static struct cox_future *waits; /* the call with cursor 1 */

static void pair_open(struct pair *pair)
{
    enum { MORE_THAN_A_WORKER_TAKES = 2000 };
    struct cox_future *done;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_call call = COX_CALL_INIT;
    options.checkpoint_dir = coxi_test_path("ckpt");
    options.checkpoint_at_close = -1;
    crew_open(&pair->crew, 1, 2, "hold", &options);
    (void)crew_counter(&pair->crew, "c0");
    crew_hold_on(&pair->hold, &pair->crew, "watch_and_count", 1, false);
    crew_hold_wait(&pair->hold);
    struct cox_function *nothing = crew_function(&pair->crew, "nothing");
    call.only_worker = 1;
    for (int i = 0; i < MORE_THAN_A_WORKER_TAKES; i++) {
        assert_code(0, cox_schedule(pair->crew.c, nothing, &call, NULL));
    }
    call.cursor = 1;
    assert_code(0, cox_schedule(pair->crew.c, nothing, &call, &waits));
    call.only_worker = 2;
    call.cursor = 2;
    assert_code(0, cox_schedule(pair->crew.c, nothing, &call, &done));
    assert_code(0, cox_future_wait(done, 10000));
    cox_future_free(done);
}

/* Closes the crew, unless that was done, and asserts that there is no checkpoint. */
static void pair_end(struct pair *pair, bool closed)
{
    uint64_t latest = 0;
    (void)coxi_latest_read(coxi_test_path("ckpt"), &latest);
    assert_int_equal(0, latest);
    before_collection = NULL;
    cox_future_free(waits);
    crew_hold_release(&pair->hold);
    if (!closed) {
        crew_close(&pair->crew);
    }
}

/* ---- the run ends */

static void end_run(struct cox_coordinator *c)
{
    coxi_fatal(c, COX_EREPLAY, "closure 0 cannot be done again");
    assert_code(COX_EREPLAY, cox_future_wait(waits, 10000));
}

TEST(no_cursor_passes_over_calls_that_the_end_of_the_run_settled)
{
    struct pair pair;
    pair_open(&pair);
    before_collection = end_run;
    assert_code(COX_EREPLAY, cox_checkpoint_save(pair.crew.c, NULL, NULL));
    assert_code(COX_EREPLAY,
                cox_checkpoint_save(pair.crew.c, NULL, NULL)); /* later, too */
    pair_end(&pair, false);
}

/* ---- cox_close */

static atomic_bool collects;

static void await_close(struct cox_coordinator *c)
{
    (void)c;
    atomic_store(&collects, true);
    assert_code(COX_ECANCELLED, cox_future_wait(waits, 10000));
}

static bool is_collecting(void *arg)
{
    (void)arg;
    return atomic_load(&collects);
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

TEST(no_checkpoint_passes_over_calls_that_cox_close_has_cancelled)
{
    struct pair pair;
    pthread_t thread;
    pair_open(&pair);
    before_collection = await_close;
    struct saving saving = {pair.crew.c, 0};
    assert_int_equal(0, pthread_create(&thread, NULL, save, &saving));
    coxi_test_until(is_collecting, NULL, "a checkpoint being written");
    crew_close(&pair.crew);
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_code(COX_ECLOSED, saving.code);
    pair_end(&pair, true);
}
