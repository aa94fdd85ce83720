/* See simulated.h. */
#include "bench/simulated.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "bench/crowd.h"
#include "common/buffer.h"
#include "coxswain/coxswain.h"

enum {
    FILES_MORE = 200, /* besides one for each worker */
    OPEN_MS = 120000,
    CLOSE_MS = 5000,
};

static void raise_files(uint32_t n_workers)
{
    struct rlimit files;
    rlim_t needed = n_workers + FILES_MORE;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
        bench_die("getrlimit: %s", strerror(errno));
    }
    if (files.rlim_max < needed) {
        bench_die("--workers %u needs %llu open files, and the limit is %llu: raise it "
                  "(ulimit -Hn), or take fewer workers",
                  n_workers, (unsigned long long)needed,
                  (unsigned long long)files.rlim_max);
    }
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

/* Makes the cluster's JSON: the ps, and the crowd's listeners in turn. */
static void describe(struct simulated *simulated, struct coxi_buffer *json)
{
    char url[128] = "";
    int r = coxi_buffer_printf(json, "{\"ps\":[");
    for (uint32_t i = 0; r == 0 && i < simulated->n_ps; i++) {
        r = coxi_buffer_printf(json, "%s\"%s\"", i > 0 ? "," : "",
                               simulated->ps[i].line);
    }
    if (r == 0) {
        r = coxi_buffer_printf(json, "],\"worker\":[");
    }
    for (uint32_t i = 0; r == 0 && i < simulated->n_workers; i++) {
        if (i % CROWD_PER_LISTENER == 0) {
            bench_child_ask(&simulated->crowd, url, "url %u", i / CROWD_PER_LISTENER);
        }
        /* The workers of a listener are told apart by their loopback addresses. */
        uint32_t place = i % CROWD_PER_LISTENER;
        r = coxi_buffer_printf(json, "%s\"tcp://127.0.%u.%u:%s\"", i > 0 ? "," : "",
                               place / 250, 1 + place % 250, strrchr(url, ':') + 1);
    }
    if (r == 0) {
        r = coxi_buffer_append_raw(json, "]}", 3);
    }
    bench_check(r, "cluster");
}

void simulated_start(struct bench *bench, uint32_t n_workers, uint32_t n_ps,
                     struct simulated *ret)
{
    struct coxi_buffer json = {0};
    char what[32];
    *ret = (struct simulated){.bench = bench, .n_workers = n_workers, .n_ps = n_ps};
    raise_files(n_workers);
    (void)snprintf(ret->params, sizeof(ret->params),
                   "{\"workers\":%u,\"ps\":%u,\"slots\":1}", n_workers, n_ps);
    (void)snprintf(what, sizeof(what), "crowd=%u", n_workers);
    bench_child_start(bench, what, &ret->crowd);
    for (uint32_t i = 0; i < n_ps; i++) {
        (void)snprintf(what, sizeof(what), "ps=%u", i);
        bench_child_start(bench, what, &ret->ps[i]);
    }
    describe(ret, &json);
    bench_check(cox_cluster_parse((const char *)json.data, &ret->cluster), "cluster");
    coxi_buffer_fini(&json);
}

void simulated_stop(struct simulated *simulated)
{
    bench_child_stop(&simulated->crowd);
    for (uint32_t i = 0; i < simulated->n_ps; i++) {
        bench_child_stop(&simulated->ps[i]);
    }
    cox_cluster_free(simulated->cluster);
}

double simulated_open(const struct simulated *simulated, struct cox_options *options,
                      struct cox_coordinator **ret, struct cox_function **ret_nothing)
{
    const struct bench *bench = simulated->bench;
    struct cox_module *module;
    char path[sizeof(bench->self) + 32];
    options->min_workers = simulated->n_workers;
    options->open_timeout_ms = OPEN_MS;
    double start = bench_now();
    bench_check(cox_open(simulated->cluster, options, ret), "open");
    double seconds = bench_now() - start;
    (void)snprintf(path, sizeof(path), "%s", bench->self);
    (void)strcpy(strrchr(path, '/') + 1, "bench_steps.so");
    bench_check(cox_module_load(*ret, path, &module), "module");
    bench_check(cox_function_get(module, "nothing", ret_nothing), "function");
    return seconds;
}

void simulated_close(struct cox_coordinator *c)
{
    bench_check(cox_close(c, CLOSE_MS), "close");
}
