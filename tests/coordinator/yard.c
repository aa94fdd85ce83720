/* See yard.h. */
#include "tests/coordinator/yard.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/test.h"

void yard_open_client(struct yard *yard, const struct cox_options *options)
{
    struct cox_options o = COX_OPTIONS_INIT;
    if (options != NULL) {
        o = *options;
    }
    o.checkpoint_at_close = -1; /* as in crew_open */
    if (o.listen == NULL) {
        o.listen = yard->listen;
    }
    assert_code(0, cox_open(yard->cluster, &o, &yard->crew.c));
    assert_code(
        0, cox_module_load(yard->crew.c, coxi_test_module("hold"), &yard->crew.module));
    yard->counter = crew_counter(&yard->crew, "c0");
}

void yard_open(struct yard *yard, const struct cox_options *options)
{
    char json[400];
    *yard = (struct yard){0};
    daemon_start(&yard->ps, "coxswain-ps", 0, "tcp://127.0.0.1:0", yard->ps_address);
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"]}", yard->ps_address);
    assert_code(0, cox_cluster_parse(json, &yard->cluster));
    (void)snprintf(yard->listen, sizeof(yard->listen), "ipc://%s",
                   coxi_test_path("client"));
    yard_open_client(yard, options);
}

void yard_close_client(struct yard *yard)
{
    assert_code(0, cox_close(yard->crew.c, 5000));
    yard->crew.c = NULL;
}

void yard_close(struct yard *yard)
{
    yard_close_client(yard);
    program_kill(&yard->ps, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&yard->ps));
    cox_cluster_free(yard->cluster);
}

void yard_worker(const struct yard *yard, struct program *worker, const char *name)
{
    const char *address =
        yard->crew.c != NULL ? cox_listen_address(yard->crew.c) : yard->listen;
    const char *argv[] = {"coxswain-worker", "--client", address, "--name", name, NULL};
    if (name == NULL) {
        argv[3] = NULL;
    }
    program_start(worker, argv);
}

void yard_kill(struct program *worker)
{
    program_kill(worker, SIGKILL);
    assert_int_equal(256 + SIGKILL, program_wait(worker));
}

struct process {
    const struct program *worker;
    pid_t before;
    pid_t pid;
};

static bool find_process(void *arg)
{
    struct process *process = arg;
    char *all = program_output(process->worker);
    process->pid = 0;
    for (const char *at = all; (at = strstr(at, "event=dialling")) != NULL; at++) {
        const char *pid = strstr(at, " pid=");
        process->pid = pid != NULL ? (pid_t)strtol(pid + 5, NULL, 10) : 0;
    }
    free(all);
    return process->pid != 0 && process->pid != process->before;
}

pid_t yard_step_process(const struct program *worker, pid_t before)
{
    struct process process = {worker, before, 0};
    coxi_test_until(find_process, &process, "a worker's process");
    return process.pid;
}

struct cox_stats yard_stats(struct yard *yard)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(yard->crew.c, &stats));
    return stats;
}

struct wanted {
    struct yard *yard;
    uint64_t n;
};

static bool are_ready(void *arg)
{
    struct wanted *wanted = arg;
    return yard_stats(wanted->yard).workers_ready == wanted->n;
}

void yard_wait_ready(struct yard *yard, uint64_t n)
{
    struct wanted wanted = {yard, n};
    coxi_test_until(are_ready, &wanted, "the number of workers that are ready");
}

static bool are_lost(void *arg)
{
    struct wanted *wanted = arg;
    return yard_stats(wanted->yard).workers_lost == wanted->n;
}

void yard_wait_lost(struct yard *yard, uint64_t n)
{
    struct wanted wanted = {yard, n};
    coxi_test_until(are_lost, &wanted, "the loss of workers");
}

int64_t yard_where(struct yard *yard, uint32_t only)
{
    struct cox_future *future;
    struct cox_value worker;
    struct cox_call call = COX_CALL_INIT;
    call.only_worker = only;
    assert_code(0, cox_schedule(yard->crew.c, crew_function(&yard->crew, "number_off"),
                                &call, &future));
    assert_code(0, cox_future_wait(future, 8000));
    assert_code(0, cox_future_result(future, "worker", &worker));
    int64_t index = *(const int64_t *)worker.data;
    cox_future_free(future);
    return index;
}

void yard_count(struct yard *yard, int n)
{
    struct cox_function *function = crew_function(&yard->crew, "number_off");
    for (int i = 0; i < n; i++) {
        assert_code(0, cox_schedule(yard->crew.c, function, NULL, NULL));
    }
}
