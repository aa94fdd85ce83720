/*
 * The client of story.sh: counts for as many seconds as it is told, with a small replay
 * log and a checkpoint each second, and prints at the end what it has counted.
 *   client_story MODULE DIRECTORY SECONDS      (COX_CLUSTER says where the daemons are)
 */
#include <coxswain/coxswain.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void check(int code, const char *what)
{
    if (code != 0) {
        (void)fprintf(stderr, "%s: %s: %s\n", what, cox_strerror(code),
                      cox_error_last());
        exit(1); /* NOLINT(concurrency-mt-unsafe) */
    }
}

int main(int argc, char **argv)
{
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    struct cox_call call = COX_CALL_INIT;
    const int64_t n_ps = 2;
    const struct cox_value arg = COX_SCALAR("n", COX_I64, &n_ps);
    static const char *const names[] = {"c0", "c1"};
    struct cox_cluster *cluster;
    struct cox_coordinator *c;
    struct cox_module *module;
    struct cox_function *count;
    struct cox_variable *counters[2];
    if (argc != 4) {
        return 2;
    }
    options.checkpoint_dir = argv[2];
    options.checkpoint_every_s = 1;
    options.checkpoint_keep = 2;
    options.replay_log_bytes = 4 << 20;
    options.queue_max = 64;
    options.peer_timeout_ms = 3000;
    options.min_workers = 2;
    check(cox_cluster_from_env(&cluster), "cluster");
    check(cox_open(cluster, &options, &c), "open");
    check(cox_module_load(c, argv[1], &module), "module");
    check(cox_function_get(module, "count", &count), "count");
    for (int i = 0; i < 2; i++) {
        spec.name = names[i];
        spec.dtype = COX_I64;
        spec.rank = 1;
        spec.shape[0] = 1;
        check(cox_variable_create(c, &spec, &counters[i]), "variable");
    }
    call.args = &arg;
    call.n_args = 1;
    for (time_t end = time(NULL) + strtol(argv[3], NULL, 10); time(NULL) < end;) {
        call.cursor++;
        check(cox_schedule(c, count, &call, NULL), "schedule");
    }
    check(cox_join(c, -1), "join");
    for (int i = 0; i < 2; i++) {
        int64_t value = 0;
        check(cox_variable_read(c, counters[i], &value, sizeof(value)), "read");
        (void)fprintf(stderr, "%s is %lld after %llu steps\n", names[i],
                      (long long)value, (unsigned long long)call.cursor);
    }
    check(cox_close(c, 10000), "close");
    cox_cluster_free(cluster);
    return 0;
}
