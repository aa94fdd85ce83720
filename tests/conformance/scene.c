/* See scene.h. */
#include "tests/conformance/scene.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Opens the ps and a client that workers dial. */
static void open_late(struct scene *scene, struct cox_options *options)
{
    static int n_opened;
    struct cox_cluster *cluster;
    char json[1024] = "{\"ps\": [";
    char listen[64];
    for (int i = 0; i < scene->setup.n_ps; i++) {
        char address[256];
        size_t len = strlen(json);
        daemon_start(&scene->ps[i], "coxswain-ps", i, "tcp://127.0.0.1:0", address);
        (void)snprintf(json + len, sizeof(json) - len, "%s\"%s\"", i > 0 ? ", " : "",
                       faulty_link(&scene->links, FAULTY_PS, address));
    }
    assert_true(strlen(json) + 3 < sizeof(json));
    assert_code(0, cox_cluster_parse(strcat(json, "]}"), &cluster));
    (void)snprintf(listen, sizeof(listen), "client-%d", n_opened++);
    char *url = coxi_test_path(listen);
    memmove(url + strlen("ipc://"), url, strlen(url) + 1);
    memcpy(url, "ipc://", strlen("ipc://"));
    options->listen = url;
    assert_code(0, cox_open(cluster, options, &scene->crew.c));
    cox_cluster_free(cluster);
    scene->dialled =
        faulty_link(&scene->links, FAULTY_WORKER, cox_listen_address(scene->crew.c));
    assert_code(0, cox_module_load(scene->crew.c, coxi_test_module("conformance"),
                                   &scene->crew.module));
}

void scene_open_with(struct scene *scene, const struct setup *setup,
                     struct cox_options *options)
{
    memset(scene, 0, sizeof(*scene));
    scene->setup = *setup;
    options->queue_max = setup->queue_max;
    options->prefetch = SCENE_HANDS - 1;
    faulty_begin(&scene->links, options);
    if (setup->late) {
        open_late(scene, options);
    } else {
        crew_open(&scene->crew, setup->n_ps, setup->n_workers, "conformance", options);
    }
    for (int i = 0; i < setup->n_ps; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "c%d", i);
        scene->counters[i] = crew_counter(&scene->crew, name);
    }
}

struct program *scene_start_worker(struct scene *scene, const char *name)
{
    struct program *worker = &scene->workers[scene->n_started++];
    assert_true(scene->n_started <= SCENE_WORKERS_MAX);
    program_start(worker, (const char *const[]){"coxswain-worker", "--client",
                                                scene->dialled, "--name", name, NULL});
    return worker;
}

void scene_let_come(struct scene *scene)
{
    for (int i = 0; scene->setup.late && i < scene->setup.n_workers; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "late-%d", i);
        (void)scene_start_worker(scene, name);
    }
}

void scene_open(struct scene *scene, const struct setup *setup)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.cancel_grace_ms = 60000;
    scene_open_with(scene, setup, &options);
}

void scene_close(struct scene *scene)
{
    if (!scene->setup.late) {
        crew_close(&scene->crew);
        faulty_end(&scene->links);
        return;
    }
    assert_code(0, cox_close(scene->crew.c, 5000));
    for (int i = 0; i < scene->n_started; i++) {
        if (scene->workers[i].pid != 0) {
            program_kill(&scene->workers[i], SIGTERM);
            int status = program_wait(&scene->workers[i]);
            if (status != 256 + SIGTERM) { /* it was killed before it served */
                assert_int_equal(128 + SIGTERM, status);
            }
        }
    }
    for (int i = 0; i < scene->setup.n_ps; i++) {
        program_kill(&scene->ps[i], SIGTERM);
        assert_int_equal(128 + SIGTERM, program_wait(&scene->ps[i]));
    }
    faulty_end(&scene->links);
}

/* ---- closures */

static struct cox_future *schedule(struct scene *scene, const char *step,
                                   const struct cox_call *call)
{
    struct cox_future *future = NULL;
    assert_code(0, cox_schedule(scene->crew.c, crew_function(&scene->crew, step), call,
                                &future));
    return future;
}

struct cox_future *scene_schedule(struct scene *scene, const char *step, uint32_t only)
{
    struct cox_call call = COX_CALL_INIT;
    call.only_worker = only;
    return schedule(scene, step, &call);
}

struct cox_future *scene_schedule_failure(struct scene *scene, int64_t number,
                                          uint32_t only)
{
    struct cox_value arg = COX_SCALAR("n", COX_I64, &number);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    call.only_worker = only;
    return schedule(scene, "fail", &call);
}

struct cox_resource *scene_resource(struct scene *scene, const char *name,
                                    const char *function, const char *arg,
                                    int64_t value)
{
    struct cox_resource *resource;
    struct cox_value number = COX_SCALAR(arg, COX_I64, &value);
    struct cox_call call = COX_CALL_INIT;
    call.args = &number;
    call.n_args = arg != NULL;
    assert_code(0, cox_resource_create(scene->crew.c, name,
                                       crew_function(&scene->crew, function), &call,
                                       &resource));
    return resource;
}

void scene_count(struct scene *scene, int n)
{
    struct cox_function *count = crew_function(&scene->crew, "count");
    for (int i = 0; i < n; i++) {
        assert_code(0, cox_schedule(scene->crew.c, count, NULL, NULL));
    }
}

void scene_end(struct cox_future *future, int code)
{
    assert_code(code, cox_future_wait(future, -1));
    cox_future_free(future);
}

int64_t scene_result(struct cox_future *future, const char *name)
{
    struct cox_value value;
    assert_code(0, cox_future_wait(future, -1));
    assert_code(0, cox_future_result(future, name, &value));
    assert_int_equal(COX_I64, value.dtype);
    assert_int_equal(0, value.rank);
    return *(const int64_t *)value.data;
}

/* ---- counts and statistics */

void scene_assert_count(struct scene *scene, int64_t n)
{
    for (int i = 0; i < scene->setup.n_ps; i++) {
        assert_int_equal(n, crew_read(&scene->crew, scene->counters[i]));
    }
}

/* While a ps is out of reach nothing is settled. So if links are faulty, lets every ps
 * answer once more; until the answers have come, nothing may cut their connections. */
static void reach_ps(struct scene *scene)
{
    for (int i = 0; i < scene->setup.n_ps && faulty_rest(&scene->links, true); i++) {
        (void)crew_read(&scene->crew, scene->counters[i]);
    }
}

void scene_assert_settled(struct scene *scene, bool settled)
{
    if (settled) {
        reach_ps(scene);
    }
    assert_code(settled ? 1 : 0, cox_done(scene->crew.c));
    assert_code(settled ? 0 : COX_ETIMEDOUT, cox_join(scene->crew.c, 0));
    (void)faulty_rest(&scene->links, false);
}

void scene_assert_usable(struct scene *scene, int64_t before, int n)
{
    scene_count(scene, n);
    assert_code(0, cox_join(scene->crew.c, -1));
    scene_assert_settled(scene, true);
    scene_assert_count(scene, before + n);
}

void scene_assert_works(struct scene *scene, int index)
{
    struct cox_future *future =
        scene_schedule(scene, "number_off", 1 + (uint32_t)index);
    assert_int_equal(index, scene_result(future, "worker"));
    cox_future_free(future);
}

struct cox_stats scene_stats(struct scene *scene)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(scene->crew.c, &stats));
    return stats;
}

struct wanted {
    struct scene *scene;
    uint64_t n;
};

static bool are_queued(void *arg)
{
    struct wanted *wanted = arg;
    return scene_stats(wanted->scene).queued == wanted->n;
}

void scene_wait_queued(struct scene *scene, uint64_t n)
{
    struct wanted wanted = {scene, n};
    coxi_test_until(are_queued, &wanted, "closures in line");
}

static bool are_ready(void *arg)
{
    struct wanted *wanted = arg;
    return scene_stats(wanted->scene).workers_ready == wanted->n;
}

void scene_wait_ready(struct scene *scene, uint64_t n)
{
    struct wanted wanted = {scene, n};
    coxi_test_until(are_ready, &wanted, "workers that take closures");
}

/* ---- workers that die */

/*
 * A held step must not see the end of its hold, and its next attempt, on any worker,
 * must not find this hold's writer. So the process is stopped, the hold released, and
 * the process killed. If the supervisor is killed, too, it is stopped first, so that it
 * starts no other process.
 */
static void kill_worker(struct scene *scene, int worker, struct crew_hold *held,
                        bool supervisor_too)
{
    int steps = crew_step_process(&scene->crew, worker);
    pid_t supervisor = crew_supervisor(&scene->crew, worker);
    if (supervisor_too) {
        assert_int_equal(0, kill(supervisor, SIGSTOP));
    }
    if (held != NULL) {
        crew_stop(steps);
        crew_hold_release(held);
    }
    crew_kill(steps);
    if (supervisor_too) {
        crew_kill(supervisor);
        crew_wait_gone(supervisor);
    }
    crew_wait_gone(steps);
}

void scene_kill(struct scene *scene, int worker, struct crew_hold *held)
{
    kill_worker(scene, worker, held, false);
}

void scene_kill_host(struct scene *scene, int worker, struct crew_hold *held)
{
    kill_worker(scene, worker, held, true);
}

static bool are_back(void *arg)
{
    struct wanted *wanted = arg;
    struct cox_stats stats = scene_stats(wanted->scene);
    return stats.workers_lost >= wanted->n && stats.workers_ready == stats.workers;
}

void scene_wait_back(struct scene *scene, uint64_t n)
{
    struct wanted wanted = {scene, n};
    coxi_test_until(are_back, &wanted, "the return of every worker");
    assert_int_equal(n, scene_stats(scene).workers_lost);
}

/* ---- calls on threads */

static int put(struct scene *scene,
               int (*how)(struct cox_coordinator *c, struct cox_function *function,
                          const struct cox_call *call, struct cox_future **ret))
{
    struct cox_function *count;
    struct cox_future *future = NULL;
    int r = cox_function_get(scene->crew.module, "count", &count);
    if (r == 0) {
        r = how(scene->crew.c, count, NULL, &future);
    }
    if ((r == 0) != (future != NULL)) {
        abort();
    }
    cox_future_free(future);
    return r;
}

int scene_put(struct scene *scene)
{
    return put(scene, cox_schedule);
}

int scene_try_put(struct scene *scene)
{
    return put(scene, cox_try_schedule);
}

int scene_wait(struct scene *scene)
{
    return cox_join(scene->crew.c, -1);
}

static void *run_caller(void *arg)
{
    struct caller *caller = arg;
    caller->code = caller->call(caller->scene);
    (void)snprintf(caller->text, sizeof(caller->text), "%s",
                   caller->code < 0 ? cox_error_last() : "");
    atomic_store(&caller->returned, true);
    return NULL;
}

void caller_start(struct caller *caller, struct scene *scene,
                  int (*call)(struct scene *scene))
{
    memset(caller, 0, sizeof(*caller));
    caller->scene = scene;
    caller->call = call;
    assert_int_equal(0, pthread_create(&caller->thread, NULL, run_caller, caller));
}

bool caller_has_returned(struct caller *caller)
{
    return atomic_load(&caller->returned);
}

int caller_join(struct caller *caller)
{
    assert_int_equal(0, pthread_join(caller->thread, NULL));
    return caller->code;
}
