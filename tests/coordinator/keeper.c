/* See keeper.h. */
#include "tests/coordinator/keeper.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/test.h"

void keeper_check(void (*check)(const struct cox_options *options))
{
    struct cox_options options = COX_OPTIONS_INIT;
    check(&options);
    options.queue_max = 2;
    check(&options);
}

void keeper_open(struct crew *crew, int n_workers, const struct cox_options *options)
{
    crew_open(crew, 1, n_workers, "resource", options);
}

struct cox_call keeper_call(const struct keeper_ask *ask, struct cox_value args[3])
{
    struct cox_call call = COX_CALL_INIT;
    const char *const texts[2][2] = {{"name", ask->name}, {"path", ask->path}};
    for (int i = 0; i < 2; i++) {
        if (texts[i][1] != NULL) {
            args[call.n_args++] = (struct cox_value)COX_VECTOR(
                texts[i][0], COX_U8, strlen(texts[i][1]) + 1, texts[i][1]);
        }
    }
    if (ask->number != NULL) {
        args[call.n_args++] =
            (struct cox_value)COX_SCALAR(ask->number, COX_I64, &ask->n);
    }
    call.args = args;
    call.only_worker = ask->only_worker;
    call.timeout_ms = ask->timeout_ms;
    return call;
}

struct cox_resource *keeper_create(struct crew *crew, const char *name,
                                   const char *function, const struct keeper_ask *ask)
{
    struct cox_value args[3];
    struct cox_resource *resource = NULL;
    struct cox_call call = keeper_call(ask, args);
    assert_code(0, cox_resource_create(crew->c, name, crew_function(crew, function),
                                       &call, &resource));
    assert_non_null(resource);
    return resource;
}

struct cox_resource *keeper_create_plain(struct crew *crew, const char *name)
{
    return keeper_create(crew, name, "make", &(struct keeper_ask){0});
}

struct cox_future *keeper_start(struct crew *crew, const char *step,
                                const struct keeper_ask *ask)
{
    struct cox_value args[3];
    struct cox_future *future = NULL;
    struct cox_call call = keeper_call(ask, args);
    assert_code(0, cox_schedule(crew->c, crew_function(crew, step), &call, &future));
    return future;
}

int64_t keeper_result(struct cox_future *future, const char *name)
{
    struct cox_value value;
    assert_code(0, cox_future_wait(future, -1));
    assert_code(0, cox_future_result(future, name, &value));
    int64_t n = *(const int64_t *)value.data;
    cox_future_free(future);
    return n;
}

int64_t keeper_run(struct crew *crew, const char *step, const char *result,
                   const struct keeper_ask *ask)
{
    return keeper_result(keeper_start(crew, step, ask), result);
}

int64_t keeper_peek(struct crew *crew, const char *name, uint32_t index)
{
    return keeper_run(crew, "peek", "count",
                      &(struct keeper_ask){.name = name, .only_worker = 1 + index});
}

int64_t keeper_count_alive(struct crew *crew, uint32_t index)
{
    return keeper_run(crew, "alive", "alive",
                      &(struct keeper_ask){.only_worker = 1 + index});
}

const char *keeper_fifo(void)
{
    static int n_made;
    char name[32];
    (void)snprintf(name, sizeof(name), "fifo-%d", n_made++);
    const char *path = coxi_test_path(name);
    assert_int_equal(0, mkfifo(path, 0600));
    return path;
}

void keeper_assert_unmade(struct crew *crew, const char *step, const char *name,
                          uint32_t index, const char *reason)
{
    char place[32];
    struct cox_error error = COX_ERROR_INIT;
    struct cox_future *future = keeper_start(
        crew, step, &(struct keeper_ask){.name = name, .only_worker = 1 + index});
    assert_code(COX_ERESOURCE, cox_future_wait(future, -1));
    assert_code(0, cox_future_error(future, &error));
    (void)snprintf(place, sizeof(place), "on worker %u:", index);
    assert_non_null(strstr(error.message, name));
    assert_non_null(strstr(error.message, place));
    if (strstr(error.message, reason) == NULL) {
        fail_msg("'%s' does not say '%s'", error.message, reason);
    }
    cox_future_free(future);
}
