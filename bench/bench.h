/*
 * The frame of the benchmark: its cases, and how measurements are reported.
 *
 * A case runs in rounds. In each round the value and its baseline are measured one
 * after the other, so that both see the same machine; the medians of the rounds are
 * reported.
 */
#ifndef COXI_BENCH_BENCH_H
#define COXI_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct bench {
    double seconds;    /* about how long a measurement takes */
    size_t args_bytes; /* length of a closure's argument, if the case has one */
    bool json;
    const char *only; /* the only measurement that is wanted, or NULL */
    uint32_t workers; /* case scale: number of workers */
    uint32_t ps;
    uint64_t rows; /* case table: rows with which its memory is measured */
    /* cases checkpoint, recover, data, train: about how large a ps's snapshot, or a file, is;
     * 0: the case decides */
    uint64_t bytes;
    char self[4096]; /* this program */
    char dir[64];    /* for files; removed at the end */
    bool headed;     /* the head of the table was printed */
};

/* How many rounds a measurement has, and the most that it can have. */
enum { BENCH_ROUNDS = 5, BENCH_ROUNDS_MAX = 100, BENCH_PS_MAX = 64 };

/* The result of a round. A latency of 0 was not measured. */
struct bench_sample {
    double value;
    double p50_us;
    double p99_us;
    double cpu_us;    /* CPU time of both sides for an operation; 0: not known */
    double cpu_ps_us; /* the part of it that the ps used; 0: not known */
};

struct bench_measurement {
    const char *name;
    const char *params; /* a JSON object */
    const char *unit;   /* "1/s", "GB/s", "us", "ms", "%", "bytes" */
    /* the baseline's name, or that of a bound that must be kept */
    const char *baseline_name;
    struct bench_sample value[BENCH_ROUNDS_MAX];
    double baseline[BENCH_ROUNDS_MAX];
    int n_rounds;
    /* the ratio is the median of the rounds' ratios, not that of the medians, and is told
     * with its standard error */
    bool of_rounds;
};

/* Prints a measurement of case `name`: a line of JSON or of the table. */
void bench_report(struct bench *bench, const char *name,
                  const struct bench_measurement *m);

/* True if the measurement `name` is wanted. */
bool bench_wants(const struct bench *bench, const char *name);

/* The p-th quantile (0 to 1) of n numbers, which it sorts. */
double bench_quantile(double *numbers, size_t n, double p);

/* Prints what went wrong and ends the program. */
__attribute__((noreturn, format(printf, 1, 2))) void bench_die(const char *format, ...);

/* Dies with the last error's text unless `code` is 0. */
void bench_check(int code, const char *what);

/* CPU seconds used so far by this process, and by another. */
double bench_cpu_self(void);
double bench_cpu_of(pid_t pid);

/* CPU seconds used so far by this process and all that it has started and that live. */
double bench_cpu_all(void);
double bench_now(void); /* seconds */

/* A second process of this program that runs `--serve what`, and its first line of
 * output. */
struct bench_child {
    pid_t pid;
    int lifeline; /* its standard input; the child ends when this is closed */
    FILE *output;
    char line[128];
};
void bench_child_start(struct bench *bench, const char *what, struct bench_child *ret);
void bench_child_stop(struct bench_child *child);

/* In the child: waits until the benchmark ends it, or has ended itself. */
void bench_child_await_end(void);

/* Keeps all threads of a child (NULL: of this process) on one core; BENCH_ANY_CORE:
 * releases them. */
enum { BENCH_ANY_CORE = -1 };
void bench_pin(const struct bench_child *child, int core);

/* Sends the child a line; returns its answer, without the newline. */
__attribute__((format(printf, 3, 4))) void
bench_child_ask(struct bench_child *child, char answer[128], const char *format, ...);

/* The cases, and the functions that their children run. */
void bench_wire(struct bench *bench);
void bench_pull(struct bench *bench);
void bench_push(struct bench *bench);
void bench_tail(struct bench *bench);
void bench_sparse(struct bench *bench);
void bench_schedule(struct bench *bench);
void bench_train(struct bench *bench);
void bench_train_data(struct bench *bench); /* a part of case train */
void bench_scale(struct bench *bench);
void bench_recovery(struct bench *bench);
void bench_recover(struct bench *bench);
void bench_checkpoint(struct bench *bench);
void bench_footprint(struct bench *bench);
void bench_table(struct bench *bench);
void bench_variables(struct bench *bench);
void bench_fanout(struct bench *bench);
void bench_soak(struct bench *bench);
void bench_data(struct bench *bench);
void bench_queue(struct bench *bench);
void bench_modes(struct bench *bench);
void bench_rounds(struct bench *bench);
void bench_visible(struct bench *bench);
void bench_serve_link(const char *url);
void bench_serve_raw(bool tcp);

#endif
