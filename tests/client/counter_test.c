/* The promise: every step counts exactly once on every ps that it touches. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "coxswain/coxswain.h"
#include "tests/test.h"

enum { N_PS = 3, N_STEPS = 100000 };

TEST(steps_count_exactly_once_on_every_ps)
{
    struct cox_cluster *cluster;
    struct cox_coordinator *c;
    struct cox_module *module;
    struct cox_function *count;
    struct cox_variable *counters[N_PS];
    struct cox_options options = COX_OPTIONS_INIT;
    options.bin_dir = coxi_test_bin();
    options.log_dir = coxi_test_path("logs");
    assert_code(0, cox_cluster_local(N_PS, 2, &cluster));
    assert_code(0, cox_open(cluster, &options, &c));
    cox_cluster_free(cluster);
    for (int i = 0; i < N_PS; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "c%d", i);
        struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
        spec.name = name;
        spec.dtype = COX_I64;
        spec.rank = 1;
        spec.shape[0] = 1;
        assert_code(0, cox_variable_create(c, &spec, &counters[i]));
    }
    assert_code(0, cox_module_load(c, coxi_test_module("counter"), &module));
    assert_code(0, cox_function_get(module, "count", &count));
    int64_t n = N_PS;
    struct cox_value arg = COX_SCALAR("n", COX_I64, &n);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    for (int i = 0; i < N_STEPS; i++) {
        assert_code(0, cox_schedule(c, count, &call, NULL));
    }
    assert_code(0, cox_join(c, -1));
    for (int i = 0; i < N_PS; i++) {
        int64_t found = 0;
        assert_code(0, cox_variable_read(c, counters[i], &found, sizeof(found)));
        assert_int_equal(N_STEPS, found);
    }
    assert_code(0, cox_close(c, 5000));
}
