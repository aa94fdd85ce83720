/*
 * Schedules closures with one pull and one push, one at a time, on a local cluster of one ps and
 * one worker: `plain MODULE N`. The first 1000 make everything warm; then N more run while the
 * first byte of $COX_VISITS/on is 1. Exits 0 when all went well.
 */
#include <coxswain/coxswain.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { N_WARM = 1000 };

static void set_visits(char on)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/on", getenv("COX_VISITS"));
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, &on, 1) != 1) {
        perror(path);
        exit(1);
    }
    (void)close(fd);
}

static int run(struct cox_coordinator *c, struct cox_function *train, int n)
{
    int r = 0;
    for (int i = 0; r == 0 && i < n; i++) {
        struct cox_call call = COX_CALL_INIT;
        struct cox_future *future;
        r = cox_schedule(c, train, &call, &future);
        if (r == 0) {
            r = cox_future_wait(future, 10000);
            cox_future_free(future);
        }
    }
    return r;
}

static int count_visits(struct cox_coordinator *c, const char *path, int n)
{
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    spec.name = "weights";
    spec.dtype = COX_F32;
    spec.rank = 1;
    spec.shape[0] = 8;
    spec.optimizer.kind = COX_SGD;
    spec.optimizer.learning_rate = 0.1F;
    struct cox_variable *weights;
    struct cox_module *module;
    struct cox_function *train;
    int r = cox_variable_create(c, &spec, &weights);
    if (r == 0) {
        r = cox_module_load(c, path, &module);
    }
    if (r == 0) {
        r = cox_function_get(module, "train", &train);
    }
    if (r == 0) {
        r = run(c, train, N_WARM);
    }
    if (r == 0) {
        set_visits('1');
        r = run(c, train, n);
        set_visits('0');
    }
    return r;
}

int main(int argc, char **argv)
{
    if (argc != 3 || getenv("COX_VISITS") == NULL) {
        (void)fprintf(stderr, "usage: COX_VISITS=FOLDER plain MODULE N\n");
        return 2;
    }
    struct cox_cluster *cluster;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_coordinator *c;
    int r = cox_cluster_local(1, 1, &cluster);
    if (r == 0) {
        r = cox_open(cluster, &options, &c);
        if (r == 0) {
            r = count_visits(c, argv[1], (int)strtol(argv[2], NULL, 10));
            int closed = cox_close(c, 10000);
            r = r == 0 ? closed : r;
        }
        cox_cluster_free(cluster);
    }
    if (r != 0) {
        (void)fprintf(stderr, "plain: %s\n", cox_error_last());
    }
    return r == 0 ? 0 : 1;
}
