/*
 * Case `recover`: the cost of losing one ps of three, on a local cluster with two
 * workers that train all the time. Each ps has --bytes, as its snapshot, in files under
 * TMPDIR. The last checkpoint is a fifth of --seconds old when the ps is killed. Each
 * ps is killed once.
 *
 *   back     time from when its process, which the launcher starts again, accepts
 *            connections until a closure is done that began after the kill (every
 *            closure touches every ps)
 *   killed   the same from the kill
 *   start    the parts of that: until the process accepts connections,
 *   detect   until the client has found and claimed it,
 *   restore  until it has its values of the checkpoint,
 *   replay   until its later updates were done again, and the first closure was done
 *
 * The program ends with an error if one of the other two was rolled back, or if at the
 * end any closure has not counted exactly once on each ps.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

#include "bench/chaos.h"
#include "bench/crew.h"
#include "bench/visit.h"

enum {
    WINDOW = 256, /* closures that are scheduled and not waited for */
    /* bytes of a row in a file */
    ROW_BYTES = sizeof(uint64_t) + sizeof(float) * 2 * VISIT_DIM,
};

struct training {
    struct crew crew;
    struct cox_function *visit;
    struct cox_variable *visits;
    int64_t rows;
    double trained;                     /* seconds between a checkpoint and a kill */
    struct cox_future *futures[WINDOW]; /* closure n: n % WINDOW */
    uint64_t n;                         /* closures scheduled */
    /* the highest count that a closure has found on each ps */
    int64_t most[VISIT_PS];
    char log_dir[128];
};

/* ---- the logs of the ps */

/* When a ps did it last, in seconds since 1970; 0: never. */
struct events {
    double listening;
    double claim;
    double restore;
};

static double clock_time(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double time_of(const char *line)
{
    struct tm utc = {0};
    const char *rest = strptime(line, "ts=%Y-%m-%dT%H:%M:%S", &utc);
    return rest != NULL ? (double)timegm(&utc) + strtod(rest, NULL) : 0;
}

static void read_events(const struct training *t, uint32_t ps, struct events *ret)
{
    char path[256];
    char line[4096];
    (void)snprintf(path, sizeof(path), "%s/ps-%u.log", t->log_dir, ps);
    FILE *log = fopen(path, "re");
    if (log == NULL) {
        bench_die("cannot read %s", path);
    }
    *ret = (struct events){0};
    while (fgets(line, sizeof(line), log) != NULL) {
        double *event = strstr(line, " event=listening ") != NULL ? &ret->listening
                        : strstr(line, " event=claim ") != NULL   ? &ret->claim
                        : strstr(line, " event=restore ") != NULL ? &ret->restore
                                                                  : NULL;
        if (event != NULL) {
            *event = time_of(line);
        }
    }
    (void)fclose(log);
}

/* ---- training */

/* Waits for a closure and copies the counts that it found; returns when it began. */
static double take(struct training *t, struct cox_future *future,
                   int64_t ret_found[VISIT_PS])
{
    struct cox_value value;
    int64_t result[VISIT_RESULT];
    bench_check(cox_future_wait(future, -1), "future");
    bench_check(cox_future_result(future, "visit", &value), "result");
    memcpy(result, value.data, sizeof(result));
    cox_future_free(future);
    for (int p = 0; p < VISIT_PS; p++) {
        ret_found[p] = result[VISIT_COUNTS + p];
        t->most[p] = ret_found[p] > t->most[p] ? ret_found[p] : t->most[p];
    }
    return 1e-9 * (double)result[VISIT_STARTED_NS];
}

/* Schedules a closure, and takes the one scheduled WINDOW closures before; returns when
 * that began. */
static double train_one(struct training *t, int64_t ret_found[VISIT_PS])
{
    const struct cox_value arg = COX_SCALAR("rows", COX_I64, &t->rows);
    struct cox_call call = COX_CALL_INIT;
    struct cox_future **place = &t->futures[t->n % WINDOW];
    double began = t->n >= WINDOW ? take(t, *place, ret_found) : 0;
    call.args = &arg;
    call.n_args = 1;
    bench_check(cox_schedule(t->crew.c, t->visit, &call, place), "schedule");
    t->n++;
    return began;
}

static void train(struct training *t, double seconds)
{
    int64_t found[VISIT_PS] = {0};
    double end = bench_now() + seconds;
    do {
        (void)train_one(t, found);
    } while (bench_now() < end);
}

/* Waits for all scheduled closures; checks that every closure has counted once on each
 * ps. */
static void finish(struct training *t)
{
    int64_t counts[VISIT_PS];
    for (uint64_t n = t->n < WINDOW ? 0 : t->n - WINDOW; n < t->n; n++) {
        (void)take(t, t->futures[n % WINDOW], counts);
    }
    bench_check(cox_variable_read(t->crew.c, t->visits, counts, sizeof(counts)),
                "read");
    for (int p = 0; p < VISIT_PS; p++) {
        if (counts[p] != (int64_t)t->n) {
            bench_die("ps %d has counted %lld closures of %llu", p,
                      (long long)counts[p], (unsigned long long)t->n);
        }
    }
}

/* ---- losing a ps */

/* Kills a ps and waits until its process is gone; returns when the signal was sent. */
static double kill_ps(uint32_t ps)
{
    struct chaos_proc proc = chaos_procs_ps(ps);
    struct pollfd gone = {.fd = chaos_proc_pin(&proc), .events = POLLIN};
    double killed = clock_time();
    if (gone.fd < 0 || pidfd_send_signal(gone.fd, SIGKILL, NULL, 0) != 0 ||
        poll(&gone, 1, -1) != 1) {
        bench_die("cannot kill ps %u", ps);
    }
    (void)close(gone.fd);
    return killed;
}

static void check_others(const struct training *t, uint32_t lost, double killed,
                         const int64_t before[VISIT_PS], const int64_t after[VISIT_PS])
{
    for (uint32_t p = 0; p < VISIT_PS; p++) {
        struct events events;
        read_events(t, p, &events);
        if (p != lost && (events.listening > killed || events.claim > killed ||
                          events.restore > killed || after[p] < before[p])) {
            bench_die("ps %u was rolled back when ps %u was lost", p, lost);
        }
    }
}

enum { BACK, KILLED, START, DETECT, RESTORE, REPLAY, N_PARTS };

/* Loses a ps; sets `ret` to the seconds that each part of its recovery takes. */
static void lose_ps(struct training *t, uint32_t ps, double ret[N_PARTS])
{
    struct events events;
    int64_t before[VISIT_PS] = {0};
    int64_t found[VISIT_PS] = {0};
    bench_check(cox_checkpoint_save(t->crew.c, NULL, NULL), "checkpoint");
    train(t, t->trained);
    memcpy(before, t->most, sizeof(before));
    double killed = kill_ps(ps);
    double gone = bench_now(); /* steps return times of this clock */
    while (train_one(t, found) <= gone) {
    }
    double done = clock_time();
    check_others(t, ps, killed, before, found);
    read_events(t, ps, &events);
    ret[BACK] = done - events.listening;
    ret[KILLED] = done - killed;
    ret[START] = events.listening - killed;
    ret[DETECT] = events.claim - events.listening;
    ret[RESTORE] = events.restore - events.claim;
    ret[REPLAY] = done - events.restore;
}

/* ---- the case */

static void create(struct training *t)
{
    struct cox_table *table;
    struct cox_table_spec visited = COX_TABLE_SPEC_INIT;
    struct cox_variable_spec visits = COX_VARIABLE_SPEC_INIT;
    visited.name = "visited";
    visited.dim = VISIT_DIM;
    visited.optimizer = (struct cox_optimizer){.kind = COX_ADAGRAD,
                                               .learning_rate = 0.1F,
                                               .epsilon = 1e-7F,
                                               .initial_accumulator = 0.1F};
    bench_check(cox_table_create(t->crew.c, &visited, &table), "table");
    visits.name = "visits";
    visits.dtype = COX_I64;
    visits.rank = 1;
    visits.shape[0] = VISIT_PS;
    visits.shards = VISIT_PS;
    bench_check(cox_variable_create(t->crew.c, &visits, &t->visits), "variable");
}

static void fill(struct training *t)
{
    struct cox_function *function = crew_function(&t->crew, "fill");
    for (int64_t first = 0; first < t->rows; first += VISIT_FILL) {
        const struct cox_value arg = COX_SCALAR("first", COX_I64, &first);
        struct cox_call call = COX_CALL_INIT;
        call.args = &arg;
        call.n_args = 1;
        bench_check(cox_schedule(t->crew.c, function, &call, NULL), "schedule");
    }
    bench_check(cox_join(t->crew.c, -1), "join");
}

static void training_open(struct bench *bench, struct training *t)
{
    char dir[128];
    struct cox_options options = COX_OPTIONS_INIT;
    uint64_t bytes = bench->bytes > 0 ? bench->bytes : 1000000000;
    (void)snprintf(dir, sizeof(dir), "%s/checkpoints", bench->dir);
    (void)snprintf(t->log_dir, sizeof(t->log_dir), "%s/logs", bench->dir);
    options.checkpoint_dir = dir;
    options.checkpoint_keep = 1;
    options.log_dir = t->log_dir;
    t->rows = (int64_t)(bytes * VISIT_PS / ROW_BYTES / VISIT_FILL + 1) * VISIT_FILL;
    t->trained = bench->seconds / 5;
    crew_open(bench, VISIT_PS, 2, &options, &t->crew);
    create(t);
    fill(t);
    t->visit = crew_function(&t->crew, "visit");
}

static void report(struct bench *bench, const struct training *t,
                   double seconds[VISIT_PS][N_PARTS])
{
    static const char *const names[N_PARTS] = {"back",   "killed",  "start",
                                               "detect", "restore", "replay"};
    char params[128];
    (void)snprintf(params, sizeof(params),
                   "{\"ps\":%d,\"workers\":2,\"rows\":%lld,\"trained_s\":%g}", VISIT_PS,
                   (long long)t->rows, t->trained);
    for (int part = 0; part < N_PARTS; part++) {
        struct bench_measurement m = {
            .name = names[part], .params = params, .unit = "s", .n_rounds = VISIT_PS};
        m.baseline_name = part == BACK ? "what it may take" : NULL;
        for (int p = 0; p < VISIT_PS; p++) {
            m.value[p].value = seconds[p][part];
            m.baseline[p] = part == BACK ? 3 : 0;
        }
        bench_report(bench, "recover", &m);
    }
}

void bench_recover(struct bench *bench)
{
    double seconds[VISIT_PS][N_PARTS];
    struct training *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        bench_die("no memory");
    }
    training_open(bench, t);
    train(t, t->trained);
    for (uint32_t p = 0; p < VISIT_PS; p++) {
        lose_ps(t, p, seconds[p]);
    }
    finish(t);
    report(bench, t, seconds);
    crew_close(&t->crew);
    free(t);
}
