/* See keep.h. */
#include "tests/coordinator/keep.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/test.h"

void keep_open(struct keep *keep, int n_workers, const struct cox_options *options)
{
    crew_open(&keep->crew, 1, n_workers, "kept", options);
    keep->counter = crew_counter(&keep->crew, "c0");
}

void keep_close(struct keep *keep)
{
    crew_close(&keep->crew);
}

struct cox_future *keep_start(struct keep *keep, const struct keep_call *asked)
{
    static const char *const names[KEEP_TAKES_MAX] = {"a", "b", "c", "d"};
    const char *step = asked->step != NULL ? asked->step : "sum";
    const char *fifo = asked->fifo != NULL ? asked->fifo : "";
    struct cox_value args[] = {COX_SCALAR("own", COX_I64, &asked->own),
                               COX_VECTOR("fifo", COX_U8, strlen(fifo) + 1, fifo)};
    struct cox_input inputs[KEEP_TAKES_MAX];
    struct cox_call call = COX_CALL_INIT;
    struct cox_future *future = NULL;
    call.args = args;
    call.n_args = asked->fifo != NULL ? 2 : 1;
    call.only_worker = asked->only_worker;
    call.keep = asked->keep;
    call.inputs = inputs;
    while (call.n_inputs < KEEP_TAKES_MAX && asked->takes[call.n_inputs] != NULL) {
        inputs[call.n_inputs] =
            (struct cox_input){names[call.n_inputs], asked->takes[call.n_inputs], "x"};
        call.n_inputs++;
    }
    assert_code(0, cox_schedule(keep->crew.c, crew_function(&keep->crew, step), &call,
                                &future));
    return future;
}

int64_t keep_value(struct cox_future *future, const char *name)
{
    struct cox_value value;
    assert_code(0, cox_future_result(future, name, &value));
    assert_int_equal(COX_I64, value.dtype);
    return *(const int64_t *)value.data;
}

int64_t keep_fetch(struct cox_future *future, const char *name)
{
    assert_code(0, cox_future_fetch(future, -1));
    int64_t value = keep_value(future, name);
    cox_future_free(future);
    return value;
}

int64_t keep_run(struct keep *keep, const char *name, const struct keep_call *call)
{
    return keep_fetch(keep_start(keep, call), name);
}

int64_t keep_count(struct keep *keep)
{
    assert_code(0, cox_join(keep->crew.c, -1));
    return crew_read(&keep->crew, keep->counter);
}

uint64_t keep_made_again(struct keep *keep)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(keep->crew.c, &stats));
    return stats.made_again;
}

void keep_open_gate(const char *fifo)
{
    char empty[PATH_MAX];
    (void)snprintf(empty, sizeof(empty), "%s-empty", fifo);
    int fd = open(empty, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(0, close(fd));
    assert_int_equal(0, rename(empty, fifo));
}

void keep_end_worker(struct keep *keep, int worker)
{
    pid_t pid = crew_step_process(&keep->crew, worker);
    assert_int_equal(0, kill(crew_supervisor(&keep->crew, worker), SIGTERM));
    crew_wait_gone(pid);
}

struct loss {
    struct cox_coordinator *c;
    uint64_t lost;
};

static bool is_noticed(void *arg)
{
    const struct loss *loss = arg;
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(loss->c, &stats));
    return stats.workers_lost > loss->lost;
}

void keep_kill(struct keep *keep, int worker)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(keep->crew.c, &stats));
    struct loss loss = {keep->crew.c, stats.workers_lost};
    crew_kill(crew_step_process(&keep->crew, worker));
    coxi_test_until(is_noticed, &loss, "the loss of a worker");
}
