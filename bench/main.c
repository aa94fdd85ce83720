/* coxswain-bench: the speed of Coxswain, as ratios to plain baselines in the same
 * run. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/crowd.h"
#include "bench/http_strangers.h"
#include "bench/watchers.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/option.h"
#include "net/daemon.h"

static const struct {
    const char *name;
    void (*run)(struct bench *bench);
} cases[] = {
    {"wire", bench_wire},         {"pull", bench_pull},
    {"push", bench_push},         {"tail", bench_tail},
    {"sparse", bench_sparse},     {"table", bench_table},
    {"schedule", bench_schedule}, {"train", bench_train},
    {"recovery", bench_recovery}, {"footprint", bench_footprint},
    {"scale", bench_scale},       {"checkpoint", bench_checkpoint},
    {"recover", bench_recover},   {"variables", bench_variables},
    {"fanout", bench_fanout},     {"soak", bench_soak},
    {"data", bench_data},         {"queue", bench_queue},
    {"modes", bench_modes},       {"rounds", bench_rounds},
    {"visible", bench_visible},
};

enum { N_CASES = sizeof(cases) / sizeof(*cases) };

struct config {
    bool all;
    bool json;
    const char *only;
    double seconds;
    int64_t workers;
    int64_t ps;
    int64_t args;
    int64_t rows;
    int64_t bytes;
    const char *serve;
};

static const struct coxi_option options[] = {
    {.name = "all",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct config, all),
     .help = "run every case"},
    {.name = "json",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct config, json),
     .help = "print one JSON object a line for each measurement"},
    {.name = "only",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct config, only),
     .help = "take only the measurements with this name (cases pull, push, table, "
             "schedule, train, checkpoint, fanout, data, modes, rounds and visible)"},
    {.name = "seconds",
     .type = COXI_OPTION_REAL,
     .offset = offsetof(struct config, seconds),
     .min = 0.1,
     .max = 600,
     .fallback = "5",
     .help = "time for a measurement, about"},
    {.name = "workers",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, workers),
     .min = 2,
     .max = 65536,
     .fallback = "1000",
     .help = "workers that case scale simulates"},
    {.name = "ps",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, ps),
     .min = 1,
     .max = BENCH_PS_MAX,
     .fallback = "1",
     .help = "parameter servers of case scale"},
    {.name = "args",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, args),
     .min = 1,
     .max = 16 << 20,
     .fallback = "1024",
     .help = "bytes of the argument, and of the result, of closures that have them"},
    {.name = "rows",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, rows),
     .min = 0,
     .max = 1000000000,
     .fallback = "0",
     .help = "rows with which case table measures memory; 0: 100 million if there is "
             "enough free memory, otherwise 10 million"},
    {.name = "bytes",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, bytes),
     .min = 0,
     .max = INT64_C(1) << 40,
     .fallback = "0",
     .help =
         "size of a ps's snapshots, which are files in TMPDIR; 0: 4e9 (checkpoint), "
         "1e9 (recover); of the files of case data: 256e6; of train's: 128e6"},
    {.name = "serve",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct config, serve),
     .help = "run as the other side of a case (the benchmark starts it)"},
};

static const struct coxi_program program = {
    .name = "coxswain-bench",
    .usage = "[options] CASE ... | --all",
    .summary =
        "Measures Coxswain on this host. Cases: wire (links), pull, push (a ps), tail "
        "(a "
        "busy\nps), sparse (rows of tables), table (the same in one thread), schedule "
        "(closures),\ntrain (the click model), recovery (workers that die), footprint "
        "(idle processes,\nmemory), scale (many workers), checkpoint (snapshots), "
        "recover (a ps that\ndies), variables (very many), fanout (steps on many "
        "ps), soak (a storm of\nstrangers at every port), data (files of records), "
        "queue (tasks of\ndata sets), modes (rounds), rounds (what they cost the "
        "client),\nvisible (that a run can be watched).\n"
        "Each measurement has a baseline, measured in turn with it, or a bound.",
    .prefix = "COX_BENCH",
    .mixed = true,
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

/* ---- helpers */

void bench_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fputs("coxswain-bench: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void bench_check(int code, const char *what)
{
    if (code != 0) {
        bench_die("%s: %s", what, coxi_error_text());
    }
}

static double cpu_of_clock(clockid_t clock)
{
    struct timespec t;
    return clock_gettime(clock, &t) == 0 ? (double)t.tv_sec + 1e-9 * (double)t.tv_nsec
                                         : 0;
}

double bench_cpu_self(void)
{
    return cpu_of_clock(CLOCK_PROCESS_CPUTIME_ID);
}

double bench_cpu_of(pid_t pid)
{
    clockid_t clock;
    return clock_getcpuclockid(pid, &clock) == 0 ? cpu_of_clock(clock) : 0;
}

double bench_now(void)
{
    return 1e-9 * (double)coxi_now_ns();
}

bool bench_wants(const struct bench *bench, const char *name)
{
    return bench->only == NULL || strcmp(bench->only, name) == 0;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_quantile(double *numbers, size_t n, double p)
{
    if (n == 0) {
        return 0;
    }
    qsort(numbers, n, sizeof(*numbers), by_size);
    size_t i = (size_t)(p * (double)(n - 1) + 0.5);
    return numbers[i];
}

/* ---- children */

extern char **environ;

void bench_child_start(struct bench *bench, const char *what, struct bench_child *ret)
{
    int to[2];
    int from[2];
    const char *argv[] = {bench->self, "--serve", what, NULL};
    posix_spawn_file_actions_t actions;
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) {
        bench_die("pipe: %s", strerror(errno));
    }
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    (void)posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    errno = posix_spawn(&ret->pid, bench->self, &actions, NULL,
                        (char **)(uintptr_t)argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (errno != 0) {
        bench_die("cannot start %s: %s", bench->self, strerror(errno));
    }
    (void)close(to[0]);
    (void)close(from[1]);
    ret->lifeline = to[1];
    ret->output = fdopen(from[0], "r");
    if (ret->output == NULL ||
        fgets(ret->line, sizeof(ret->line), ret->output) == NULL) {
        bench_die("the other side, --serve %s, did not start", what);
    }
    ret->line[strcspn(ret->line, "\n")] = '\0';
}

void bench_child_ask(struct bench_child *child, char answer[128], const char *format,
                     ...)
{
    va_list args;
    va_start(args, format);
    (void)vdprintf(child->lifeline, format, args);
    va_end(args);
    (void)dprintf(child->lifeline, "\n");
    if (fgets(answer, 128, child->output) == NULL) {
        bench_die("the other side of a case has ended");
    }
    answer[strcspn(answer, "\n")] = '\0';
}

void bench_child_await_end(void)
{
    char ignored;
    while (read(STDIN_FILENO, &ignored, 1) < 0 && errno == EINTR) {
    }
}

void bench_child_stop(struct bench_child *child)
{
    (void)close(child->lifeline);
    (void)fclose(child->output);
    (void)waitpid(child->pid, NULL, 0);
}

static void pin_thread(pid_t thread, int core)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (core == BENCH_ANY_CORE || i == (size_t)core) {
            CPU_SET(i, &cores);
        }
    }
    /* fails if the thread has ended */
    (void)sched_setaffinity(thread, sizeof(cores), &cores);
}

void bench_pin(const struct bench_child *child, int core)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/task",
                   (int)(child != NULL ? child->pid : getpid()));
    DIR *tasks = opendir(path);
    const struct dirent *entry;
    while (tasks != NULL && (entry = readdir(tasks)) != NULL) {
        if (entry->d_name[0] != '.') {
            pin_thread((pid_t)strtol(entry->d_name, NULL, 10), core);
        }
    }
    if (tasks != NULL) {
        (void)closedir(tasks);
    }
}

/* ---- output */

static double median_of(const struct bench_measurement *m, size_t offset)
{
    double numbers[BENCH_ROUNDS_MAX];
    for (int i = 0; i < m->n_rounds; i++) {
        memcpy(&numbers[i], (const char *)&m->value[i] + offset, sizeof(double));
    }
    return bench_quantile(numbers, (size_t)m->n_rounds, 0.5);
}

/* A ratio to the baseline. */
struct ratio {
    double value;
    double error; /* its standard error; 0: not known */
};

/* The error is half of the interval in which the median of all rounds lies in two cases of
 * three, whatever their distribution: between the ranks n/2 -+ sqrt(n)/2. */
static struct ratio ratio_of_rounds(const struct bench_measurement *m)
{
    double ratios[BENCH_ROUNDS_MAX];
    size_t n = (size_t)m->n_rounds;
    double off = 0.5 / sqrt((double)n);
    for (size_t i = 0; i < n; i++) {
        ratios[i] = m->value[i].value / m->baseline[i];
    }
    return (struct ratio){
        bench_quantile(ratios, n, 0.5),
        (bench_quantile(ratios, n, 0.5 + off) - bench_quantile(ratios, n, 0.5 - off)) /
            2};
}

static void print_json(const char *name, const struct bench_measurement *m,
                       const struct bench_sample *median, double baseline,
                       const struct ratio *ratio)
{
    (void)printf("{\"case\":\"%s\",\"name\":\"%s\",\"params\":%s,\"value\":%.6g,"
                 "\"unit\":\"%s\"",
                 name, m->name, m->params, median->value, m->unit);
    if (median->p50_us > 0) {
        (void)printf(",\"p50_us\":%.4g,\"p99_us\":%.4g", median->p50_us,
                     median->p99_us);
    }
    if (baseline > 0) {
        (void)printf(",\"baseline\":%.6g,\"baseline_name\":\"%s\",\"ratio\":%.4g",
                     baseline, m->baseline_name, ratio->value);
    }
    if (baseline > 0 && ratio->error > 0) {
        (void)printf(",\"ratio_error\":%.2g", ratio->error);
    }
    if (median->cpu_us > 0) {
        (void)printf(",\"cpu_us\":%.4g", median->cpu_us);
    }
    if (median->cpu_ps_us > 0) {
        (void)printf(",\"cpu_ps_us\":%.4g", median->cpu_ps_us);
    }
    (void)printf("}\n");
}

static void print_row(struct bench *bench, const char *name,
                      const struct bench_measurement *m,
                      const struct bench_sample *median, double baseline,
                      const struct ratio *ratio)
{
    if (!bench->headed) {
        bench->headed = true;
        (void)printf("%-9s %-15s %12s %-6s %8s %8s %8s %7s  %s\n", "case", "name",
                     "value", "unit", "p50 us", "p99 us", "cpu us", "ratio",
                     "to, and parameters");
    }
    (void)printf("%-9s %-15s %12.5g %-6s", name, m->name, median->value, m->unit);
    if (median->p50_us > 0) {
        (void)printf(" %8.1f %8.1f", median->p50_us, median->p99_us);
    } else {
        (void)printf(" %8s %8s", "", "");
    }
    if (median->cpu_us > 0) {
        (void)printf(" %8.2f", median->cpu_us);
    } else {
        (void)printf(" %8s", "");
    }
    if (baseline > 0) {
        (void)printf(" %7.*f  %s (%.5g)", ratio->error > 0 ? 3 : 2, ratio->value,
                     m->baseline_name, baseline);
    } else {
        (void)printf(" %7s ", "");
    }
    if (baseline > 0 && ratio->error > 0) {
        (void)printf("  +- %.3f", ratio->error);
    }
    (void)printf("  %s\n", m->params);
}

void bench_report(struct bench *bench, const char *name,
                  const struct bench_measurement *m)
{
    double baselines[BENCH_ROUNDS_MAX];
    memcpy(baselines, m->baseline, sizeof(baselines));
    double baseline = bench_quantile(baselines, (size_t)m->n_rounds, 0.5);
    struct bench_sample median = {
        .value = median_of(m, offsetof(struct bench_sample, value)),
        .p50_us = median_of(m, offsetof(struct bench_sample, p50_us)),
        .p99_us = median_of(m, offsetof(struct bench_sample, p99_us)),
        .cpu_us = median_of(m, offsetof(struct bench_sample, cpu_us)),
        .cpu_ps_us = median_of(m, offsetof(struct bench_sample, cpu_ps_us)),
    };
    struct ratio ratio = {.value = median.value / baseline};
    if (m->of_rounds) {
        ratio = ratio_of_rounds(m);
    }
    if (bench->json) {
        print_json(name, m, &median, baseline, &ratio);
    } else {
        print_row(bench, name, m, &median, baseline, &ratio);
    }
    (void)fflush(stdout);
}

/* ---- the program */

static int serve(const char *what)
{
    if (strcmp(what, "raw-tcp") == 0 || strcmp(what, "raw-ipc") == 0) {
        bench_serve_raw(strcmp(what, "raw-tcp") == 0);
        return EXIT_SUCCESS;
    }
    if (strncmp(what, "link=", 5) == 0) {
        bench_serve_link(what + 5);
        return EXIT_SUCCESS;
    }
    if (strncmp(what, "crowd=", 6) == 0) {
        bench_serve_crowd((uint32_t)strtoul(what + 6, NULL, 10));
        return EXIT_SUCCESS;
    }
    if (strncmp(what, "http-strangers=", 15) == 0) {
        bench_serve_http_strangers((uint16_t)strtoul(what + 15, NULL, 10));
        return EXIT_SUCCESS;
    }
    if (strncmp(what, "watchers=", 9) == 0) {
        bench_serve_watchers(what + 9);
        return EXIT_SUCCESS;
    }
    if (strncmp(what, "ps=", 3) == 0) {
        bench_serve_ps((uint32_t)strtoul(what + 3, NULL, 10));
        return EXIT_SUCCESS;
    }
    (void)coxi_error(COX_EINVAL, "--serve %s: no such thing", what);
    return coxi_exit_config(program.name);
}

static bool is_case(const char *name)
{
    for (size_t i = 0; i < N_CASES; i++) {
        if (strcmp(cases[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_asked(const char *name, const struct config *config, char **argv)
{
    if (config->all) {
        return true;
    }
    for (; *argv != NULL; argv++) {
        if (strcmp(*argv, name) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- the directory for the files of cases */

static struct {
    char path[64];
    pid_t owner; /* children that exit must not remove it */
} directory;

static void remove_directory(void)
{
    if (getpid() == directory.owner) {
        coxi_directory_remove(directory.path);
    }
}

/* Makes a directory, which is removed however the program ends by itself, also by
 * bench_die. */
static int make_directory(struct bench *bench)
{
    int r = coxi_directory_temporary(bench->dir);
    if (r == 0) {
        (void)snprintf(directory.path, sizeof(directory.path), "%s", bench->dir);
        directory.owner = getpid();
        (void)atexit(remove_directory);
    }
    return r;
}

int main(int argc, char **argv)
{
    struct config config = {0};
    struct bench bench = {0};
    int rest = argc;
    int r = coxi_options_parse(&program, argc, argv, &config, &rest);
    if (r == COXI_OPTIONS_EXIT) {
        return EXIT_SUCCESS;
    }
    if (r == 0 && config.serve != NULL) {
        return serve(config.serve);
    }
    if (r == 0 && rest == argc && !config.all) {
        r = coxi_error(
            COX_EINVAL,
            "which case? wire, pull, push, tail, sparse, table, schedule, "
            "train, recovery, footprint, scale, checkpoint, recover, "
            "variables, fanout, soak, data, queue, modes, rounds, visible, or --all");
    }
    for (int i = rest; r == 0 && i < argc; i++) {
        r = is_case(argv[i]) ? 0
                             : coxi_error(COX_EINVAL, "there is no case '%s'", argv[i]);
    }
    if (r == 0) {
        r = make_directory(&bench);
    }
    if (r != 0) {
        return coxi_exit_config(program.name);
    }
    ssize_t n = readlink("/proc/self/exe", bench.self, sizeof(bench.self) - 1);
    bench.self[n > 0 ? n : 0] = '\0';
    bench.seconds = config.seconds;
    bench.args_bytes = (size_t)config.args;
    bench.json = config.json;
    bench.only = config.only;
    bench.workers = (uint32_t)config.workers;
    bench.ps = (uint32_t)config.ps;
    bench.rows = (uint64_t)config.rows;
    bench.bytes = (uint64_t)config.bytes;
    (void)signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < N_CASES; i++) {
        if (is_asked(cases[i].name, &config, argv + rest)) {
            cases[i].run(&bench);
        }
    }
    return EXIT_SUCCESS;
}
