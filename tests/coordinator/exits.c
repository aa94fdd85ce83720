/* A client's program that ends by exit() while its closures are under way.
 *
 *   client_exits CLUSTER KEY_FILE MODULE */
#include <stdio.h>
#include <stdlib.h>

#include "coxswain/coxswain.h"

enum { CLOSURES = 20000 };

static void check(int code)
{
    if (code != 0) {
        (void)fprintf(stderr, "%s\n", cox_error_last());
        _Exit(EXIT_FAILURE);
    }
}

int main(int argc, char **argv)
{
    struct cox_cluster *cluster;
    struct cox_coordinator *c;
    struct cox_module *module;
    struct cox_function *count;
    struct cox_variable *counter;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    const int64_t one = 1;
    const struct cox_value n = COX_SCALAR("n", COX_I64, &one);
    struct cox_call call = COX_CALL_INIT;
    if (argc != 4) {
        return EXIT_FAILURE;
    }
    options.key_file = argv[2];
    check(cox_cluster_parse(argv[1], &cluster));
    check(cox_open(cluster, &options, &c));
    check(cox_module_load(c, argv[3], &module));
    check(cox_function_get(module, "count", &count));
    spec.name = "c0";
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = 1;
    check(cox_variable_create(c, &spec, &counter));
    call.args = &n;
    call.n_args = 1;
    for (int i = 0; i < CLOSURES; i++) {
        check(cox_schedule(c, count, &call, NULL));
    }
    cox_cluster_free(cluster);
    exit(EXIT_SUCCESS);
}
