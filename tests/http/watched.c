/*
 * A run that is watched, for metrics.py: trains CLOSURES closures on a local cluster of a
 * ps and a worker, prints where the client serves and what cox_stats says, and waits for
 * the end of its standard input.
 *   watched MODULE CLOSURES
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "coxswain/coxswain.h"

static void check(int code)
{
    if (code != 0) {
        (void)fprintf(stderr, "watched: %s\n", cox_error_last());
        exit(1); // NOLINT(concurrency-mt-unsafe)
    }
}

static void train(struct cox_coordinator *c, const char *path, long n)
{
    const int64_t one = 1;
    const struct cox_value arg = COX_SCALAR("n", COX_I64, &one);
    struct cox_call call = COX_CALL_INIT;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    struct cox_variable *counter;
    struct cox_module *module;
    struct cox_function *count;
    spec.name = "c0";
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = 1;
    call.args = &arg;
    call.n_args = 1;
    check(cox_variable_create(c, &spec, &counter));
    check(cox_module_load(c, path, &module));
    check(cox_function_get(module, "count", &count));
    for (long i = 0; i < n; i++) {
        check(cox_schedule(c, count, &call, NULL));
    }
    check(cox_join(c, -1));
}

int main(int argc, char **argv)
{
    struct cox_cluster *cluster;
    struct cox_coordinator *c;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_stats stats = COX_STATS_INIT;
    if (argc != 3) {
        return 2;
    }
    options.http = "127.0.0.1:0";
    check(cox_cluster_local(1, 1, &cluster));
    check(cox_open(cluster, &options, &c));
    train(c, argv[1], strtol(argv[2], NULL, 10));
    check(cox_stats(c, &stats));
    (void)printf("%s %" PRIu64 " %" PRIu64 "\n", cox_http_address(c), stats.done,
                 stats.commits);
    (void)fflush(stdout);
    while (getchar() != EOF) {
    }
    check(cox_close(c, 10000));
    cox_cluster_free(cluster);
    return 0;
}
