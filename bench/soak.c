/*
 * Case `soak`: training while strangers storm every port (strangers.h): those of a ps,
 * of a worker and of the client, which all listen at tcp with a key. In each round the
 * storm blows for --seconds; then everything is quiet for a quarter of that.
 *
 *   committed          closures a second in the storm, each of which pushes a row;
 *                      against the same when it is quiet
 *   memory_*           how much larger the process is at the end than after the first
 *                      round, against what is allowed
 *   descriptors_*      how many more it has open, in the same way
 *
 * It ends with an error if a process has died, or a closure has failed.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/chaos.h"
#include "bench/crew.h"
#include "bench/strangers.h"
#include "common/file.h"
#include "net/key.h"

enum { RATE = 200, BATCH = 5000, PROCESSES_MAX = 8, ADDRESS_MS = 10000 };

extern char **environ;

struct process {
    const char *role;
    pid_t pid;
    double bytes;
    double descriptors;
};

struct soak {
    struct bench *bench;
    char key[PATH_MAX];
    pid_t ps;
    pid_t worker;
    struct crew crew;
    struct cox_function *push_row;
    struct strangers *strangers;
    struct process processes[PROCESSES_MAX];
    int n_processes;
};

/* ---- the cluster */

/* Starts a daemon at a free port, and returns its address. */
static pid_t start(struct soak *soak, const char *name, char ret[256])
{
    char program[sizeof(soak->bench->self) + 32];
    char file[PATH_MAX];
    char announced[PATH_MAX + 32];
    const char *argv[] = {program, "--listen=tcp://127.0.0.1:0", announced,
                          "--log-level=error", NULL};
    pid_t pid;
    uint8_t *text;
    size_t len;
    (void)snprintf(program, sizeof(program), "%s", soak->bench->self);
    (void)strcpy(strrchr(program, '/') + 1, name);
    bench_check(coxi_path(file, "%s/%s.address", soak->bench->dir, name), name);
    (void)snprintf(announced, sizeof(announced), "--address-file=%s", file);
    errno = posix_spawn(&pid, program, NULL, NULL, (char **)(uintptr_t)argv, environ);
    if (errno != 0) {
        bench_die("cannot start %s: %s", program, strerror(errno));
    }
    double end = bench_now() + ADDRESS_MS / 1e3;
    while (coxi_file_read(file, 256, &text, &len) != 0) {
        if (bench_now() > end) {
            bench_die("%s does not start", name);
        }
        (void)usleep(10000);
    }
    (void)snprintf(ret, 256, "%.*s", (int)strcspn((const char *)text, "\n"),
                   (const char *)text);
    free(text);
    return pid;
}

static uint16_t port_of(const char *url)
{
    return (uint16_t)strtoul(strrchr(url, ':') + 1, NULL, 10);
}

static void add_process(struct soak *soak, const char *role, pid_t pid)
{
    soak->processes[soak->n_processes++] = (struct process){.role = role, .pid = pid};
}

static void find_processes(struct soak *soak)
{
    static struct chaos_proc procs[CHAOS_PROCS_MAX];
    size_t n = chaos_procs(procs);
    add_process(soak, "client", getpid());
    add_process(soak, "ps", soak->ps);
    add_process(soak, "supervisor", soak->worker);
    for (size_t i = 0; i < n; i++) {
        if (procs[i].parent == soak->worker) {
            add_process(soak, "worker", procs[i].pid);
        }
    }
    if (soak->n_processes != 4) {
        bench_die("a worker has %d processes of its own", soak->n_processes - 3);
    }
}

static void soak_open(struct bench *bench, struct soak *soak)
{
    char ps[256];
    char worker[256];
    char json[1024];
    char module[sizeof(bench->self) + 32];
    struct cox_cluster *cluster;
    struct cox_table *table;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_table_spec spec = COX_TABLE_SPEC_INIT;
    *soak = (struct soak){.bench = bench};
    bench_check(coxi_path(soak->key, "%s/run.key", bench->dir), "key");
    bench_check(coxi_key_new(soak->key), "key");
    (void)setenv("COX_KEY_FILE", soak->key, 1);
    if (geteuid() == 0) { /* the daemons stay root then, as this program does */
        (void)setenv("COX_PS_USER", "root", 0);
        (void)setenv("COX_WORKER_USER", "root", 0);
    }
    soak->ps = start(soak, "coxswain-ps", ps);
    soak->worker = start(soak, "coxswain-worker", worker);
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"], \"worker\": [\"%s\"]}", ps,
                   worker);
    bench_check(cox_cluster_parse(json, &cluster), "cluster");
    options.listen = "tcp://127.0.0.1:0";
    options.min_workers = 1;
    bench_check(cox_open(cluster, &options, &soak->crew.c), "open");
    cox_cluster_free(cluster);
    (void)snprintf(module, sizeof(module), "%s", bench->self);
    (void)strcpy(strrchr(module, '/') + 1, "bench_steps.so");
    bench_check(cox_module_load(soak->crew.c, module, &soak->crew.module), "module");
    spec.name = "rows";
    spec.dim = 8;
    spec.optimizer = (struct cox_optimizer){.kind = COX_SGD, .learning_rate = 0.01F};
    bench_check(cox_table_create(soak->crew.c, &spec, &table), "table");
    soak->push_row = crew_function(&soak->crew, "push_row");
    const uint16_t ports[] = {port_of(ps), port_of(worker),
                              port_of(cox_listen_address(soak->crew.c))};
    soak->strangers = strangers_new(ports, 3, RATE);
    find_processes(soak);
}

static void end(pid_t pid, const char *name)
{
    int status;
    if (waitpid(pid, &status, WNOHANG) != 0) {
        bench_die("%s has died", name);
    }
    (void)kill(pid, SIGTERM);
    (void)waitpid(pid, &status, 0);
}

static void soak_close(struct soak *soak)
{
    strangers_free(soak->strangers);
    crew_close(&soak->crew);
    end(soak->worker, "the worker");
    end(soak->ps, "the ps");
    (void)unsetenv("COX_KEY_FILE");
}

/* ---- what is measured */

/* Closures a second, for about `seconds`. */
static double train(struct soak *soak, double seconds)
{
    uint64_t n = 0;
    double begun = bench_now();
    do {
        for (int i = 0; i < BATCH; i++) {
            bench_check(cox_schedule(soak->crew.c, soak->push_row, NULL, NULL),
                        "schedule");
        }
        bench_check(cox_join(soak->crew.c, -1), "join");
        n += BATCH;
    } while (bench_now() - begun < seconds);
    return (double)n / (bench_now() - begun);
}

static double resident_bytes(pid_t pid)
{
    char path[64];
    long pages = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%*s %ld", &pages) != 1) {
        bench_die("process %d has died", (int)pid);
    }
    (void)fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double count_descriptors(pid_t pid)
{
    char path[64];
    double n = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    if (dir == NULL) {
        bench_die("process %d has died", (int)pid);
    }
    while (readdir(dir) != NULL) {
        n++;
    }
    (void)closedir(dir);
    return n;
}

static void look(const struct process *process, double *ret_bytes, double *ret_fds)
{
    *ret_bytes = resident_bytes(process->pid);
    *ret_fds = count_descriptors(process->pid);
}

static void report_growth(struct soak *soak, const char *what, const char *role,
                          const char *unit, double grown, double allowed)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "%s_%s", what, role);
    struct bench_measurement m = {.name = name,
                                  .params = "{\"strangers\":200}",
                                  .unit = unit,
                                  .baseline_name = "what it may grow",
                                  .baseline = {allowed},
                                  .n_rounds = 1};
    m.value[0].value = grown;
    bench_report(soak->bench, "soak", &m);
}

static void report(struct soak *soak, const struct bench_measurement *m)
{
    uint64_t made;
    uint64_t failed;
    bench_report(soak->bench, "soak", m);
    for (int i = 0; i < soak->n_processes; i++) {
        const struct process *process = &soak->processes[i];
        double bytes;
        double fds;
        look(process, &bytes, &fds);
        report_growth(soak, "memory", process->role, "%",
                      100 * (bytes / process->bytes - 1), 2);
        report_growth(soak, "descriptors", process->role, "more",
                      fds - process->descriptors, 0);
    }
    strangers_counts(soak->strangers, &made, &failed);
    (void)fprintf(stderr, "soak: %llu strangers came, %llu found no connection\n",
                  (unsigned long long)made, (unsigned long long)failed);
}

void bench_soak(struct bench *bench)
{
    struct soak soak;
    struct bench_measurement m = {.name = "committed",
                                  .params =
                                      "{\"workers\":1,\"ps\":1,\"strangers\":200}",
                                  .unit = "1/s",
                                  .baseline_name = "quiet"};
    soak_open(bench, &soak);
    (void)train(&soak, bench->seconds / 4); /* warms up */
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        strangers_blow(soak.strangers);
        m.value[m.n_rounds].value = train(&soak, bench->seconds);
        strangers_rest(soak.strangers);
        m.baseline[m.n_rounds] = train(&soak, bench->seconds / 4);
        for (int i = 0; m.n_rounds == 0 && i < soak.n_processes; i++) {
            struct process *process = &soak.processes[i];
            look(process, &process->bytes, &process->descriptors);
        }
        (void)fprintf(stderr,
                      "soak: round %d of %d: %.0f closures a second in the "
                      "storm, %.0f without\n",
                      m.n_rounds + 1, BENCH_ROUNDS, m.value[m.n_rounds].value,
                      m.baseline[m.n_rounds]);
    }
    report(&soak, &m);
    soak_close(&soak);
}
