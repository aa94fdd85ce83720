/* coxswain-sim: plays storms against the real client, ps and worker in a simulated
 * world, and reports whether any call did not count exactly once. See
 * docs/simulator.md. */
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/memory.h"
#include "tests/sim/plan.h"
#include "tests/sim/storm.h"
#include "tests/sim/trace.h"

static const char usage[] =
    "usage: coxswain-sim [options]\n"
    "Plays seeded storms (lost processes, connections, hosts and disks) against the "
    "real\n"
    "client, parameter servers and workers under virtual time, and checks what each "
    "call\n"
    "has counted. Prints one line of JSON; exits 1 after a violation.\n"
    "\n"
    "  --seed N        the first storm's seed (1); the next has the next one\n"
    "  --runs N        storms (1000)\n"
    "  --calls N       closures of a storm (100), at most 400\n"
    "  --keep-going    goes on after a violation, and counts them\n"
    "  --trace         of each storm, what happens, to standard error\n"
    "  --debug         a crash ends the program as ever, for a debugger\n"
    "  --help          this\n";

struct arguments {
    uint64_t seed;
    uint64_t runs;
    uint32_t calls;
    bool keep_going;
    bool keep_signals;
};

static struct {
    uint64_t runs;
    uint64_t closures;
    uint64_t faults;
    uint64_t messages;
    uint64_t turns;
    uint64_t lives;
    uint64_t virtual_ms;
    uint64_t violations;
    uint64_t seed; /* of the storm that is played */
    uint64_t first_seed;
    char first[1000];
} totals;

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
ssize_t __real_write(int fd, const void *from, size_t len);
void __real__exit(int code) __attribute__((noreturn));

static double now_s(clockid_t clock)
{
    struct timespec now;
    (void)__real_clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static uint64_t number_of(const char *name, const char *text)
{
    char *end = NULL;
    unsigned long long number = text != NULL ? strtoull(text, &end, 10) : 0;
    if (text == NULL || end == text || *end != '\0') {
        (void)fprintf(stderr, "coxswain-sim: %s takes a number\n%s", name, usage);
        exit(2);
    }
    return number;
}

static void parse(int argc, char **argv, struct arguments *ret)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--help") == 0) {
            (void)fputs(usage, stdout);
            exit(0);
        } else if (strcmp(name, "--trace") == 0) {
            sim_traces = true;
        } else if (strcmp(name, "--keep-going") == 0) {
            ret->keep_going = true;
        } else if (strcmp(name, "--debug") == 0) {
            ret->keep_signals = true;
        } else if (strcmp(name, "--seed") == 0) {
            ret->seed = number_of(name, argv[++i]);
        } else if (strcmp(name, "--runs") == 0) {
            ret->runs = number_of(name, argv[++i]);
        } else if (strcmp(name, "--calls") == 0) {
            ret->calls = (uint32_t)number_of(name, argv[++i]);
        } else {
            (void)fprintf(stderr, "coxswain-sim: no option '%s'\n%s", name, usage);
            exit(2);
        }
    }
    if (ret->calls < 2 || ret->calls > SIM_CALLS_MAX) {
        (void)fprintf(stderr, "coxswain-sim: --calls is 2 to %d\n", SIM_CALLS_MAX);
        exit(2);
    }
}

static void count(uint64_t seed, uint32_t calls, const struct sim_storm_result *result)
{
    totals.runs++;
    totals.closures += calls;
    totals.faults += result->faults;
    totals.messages += result->messages;
    totals.turns += result->turns;
    totals.lives += result->lives;
    totals.virtual_ms += result->virtual_ms;
    if (result->violation == NULL) {
        return;
    }
    (void)fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed,
                  result->violation);
    if (totals.violations++ == 0) {
        totals.first_seed = seed;
        (void)snprintf(totals.first, sizeof(totals.first), "%s", result->violation);
    }
}

/* `seconds` of the clock on the wall, and of a core. */
static void print_totals(double seconds, double core_seconds)
{
    json_t *line = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "runs",
        (json_int_t)totals.runs, "closures", (json_int_t)totals.closures, "faults",
        (json_int_t)totals.faults, "clients", (json_int_t)totals.lives, "messages",
        (json_int_t)totals.messages, "turns", (json_int_t)totals.turns, "virtual_s",
        (json_int_t)(totals.virtual_ms / 1000), "storms_per_minute",
        (json_int_t)((double)totals.runs * 60 / seconds), "storms_per_core_minute",
        (json_int_t)((double)totals.runs * 60 / core_seconds), "violations",
        (json_int_t)totals.violations);
    if (totals.violations > 0) {
        (void)json_object_set_new(line, "first_seed",
                                  json_integer((json_int_t)totals.first_seed));
        (void)json_object_set_new(line, "first", json_string(totals.first));
    }
    char *text = json_dumps(line, JSON_COMPACT);
    (void)puts(text);
    free(text);
    json_decref(line);
}

/* A crash is a violation like any other, but ends the simulator. */
static void on_crash(int signum)
{
    char text[300];
    totals.runs++;
    int len = snprintf(text, sizeof(text),
                       "{\"runs\":%llu,\"violations\":%llu,\"first_seed\":%llu,"
                       "\"first\":\"the program dies of signal %d\"}\n",
                       (unsigned long long)totals.runs,
                       (unsigned long long)totals.violations + 1,
                       (unsigned long long)totals.seed, signum);
    ssize_t ignored = __real_write(STDOUT_FILENO, text, (size_t)len);
    (void)ignored;
    __real__exit(1);
}

static void watch_for_crashes(void)
{
#if !defined(__SANITIZE_ADDRESS__) /* AddressSanitizer reports crashes itself */
    static char stack[65536];      /* a fiber's may be full */
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK};
    (void)sigaltstack(&other, NULL);
    (void)sigaction(SIGSEGV, &action, NULL);
    (void)sigaction(SIGBUS, &action, NULL);
    (void)sigaction(SIGFPE, &action, NULL);
    (void)sigaction(SIGABRT, &action, NULL);
#else
    (void)on_crash;
#endif
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.seed = 1, .runs = 1000, .calls = 100};
    parse(argc, argv, &arguments);
    json_object_seed(1);
    /* through memory.h: jansson's memory belongs to the run */
    json_set_alloc_funcs(malloc, free);
    if (!arguments.keep_signals) {
        watch_for_crashes();
    }
    double begin = now_s(CLOCK_MONOTONIC);
    double core_begin = now_s(CLOCK_PROCESS_CPUTIME_ID);
    for (uint64_t i = 0; i < arguments.runs; i++) {
        struct sim_storm_result result;
        totals.seed = arguments.seed + i;
        sim_storm_run(arguments.seed + i, arguments.calls, &result);
        count(arguments.seed + i, arguments.calls, &result);
        if (result.violation != NULL && !arguments.keep_going) {
            break;
        }
    }
    print_totals(now_s(CLOCK_MONOTONIC) - begin,
                 now_s(CLOCK_PROCESS_CPUTIME_ID) - core_begin);
    return totals.violations > 0 ? 1 : 0;
}
