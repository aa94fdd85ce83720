/*
 * A parameter server in a process of its own, and this process as its one client, through
 * net/ps_client as workers are: what the cases of the wire are measured on.
 */
#ifndef COXI_BENCH_PAIR_H
#define COXI_BENCH_PAIR_H

#include "bench/bench.h"
#include "common/loop.h"
#include "common/rule.h"
#include "common/sync.h"
#include "net/ps_round.h"

struct pair {
    struct bench_child child;
    bool joined; /* the child is another's */
    struct coxi_links *links;
    struct coxi_loop *loop; /* heartbeats */
    struct coxi_psc *psc;
    struct coxi_session session;
    uint64_t incarnation;
    uint32_t n_variables;
    struct coxi_mutex lock; /* guards the rest; leaf */
    pthread_cond_t changed;
    uint64_t next_closure;
};

enum { PAIR_OUTSTANDING_MAX = 256 };

/* How the two are connected, and what params.transport says of each. */
enum pair_transport { PAIR_TCP, PAIR_LOCAL, PAIR_TRANSPORTS };
extern const char *const pair_transports[PAIR_TRANSPORTS];

void pair_open(struct bench *bench, enum pair_transport transport, struct pair *ret);
void pair_close(struct pair *pair);

/* One more connection to the ps of `pair`, as a worker has it; for pulls. To be closed before
 * that. */
void pair_join(const struct pair *pair, enum pair_transport transport,
               struct pair *ret);

/* CPU seconds that the ps, that both have used so far. */
double pair_cpu_ps(const struct pair *pair);
double pair_cpu(const struct pair *pair);

/* Makes a dense variable of `rows` floats under SGD, a table of `columns` under
 * `optimizer`; its id. */
uint32_t pair_dense(struct pair *pair, uint64_t rows);
uint32_t pair_table(struct pair *pair, uint64_t columns,
                    enum coxi_optimizer_kind optimizer);

/*
 * Requests of one kind, so many at a time, each of all rows of a dense variable or of keys
 * of a table. Each push is a commit of its own, of gradients.
 */
struct pair_load {
    bool push;
    uint32_t variable;
    uint64_t count;       /* rows of the dense variable, keys of a request */
    const uint64_t *keys; /* n_sets times `count`, used in turn; NULL: dense */
    size_t n_sets;
    size_t row_bytes;
    int outstanding;
    void (*answered)(void *arg); /* on the receiving thread, for each; or NULL */
    void *arg;
};

struct pair_run;

/* Has memory for it ready; the rates of a time of it; its end. */
void pair_run_open(struct pair *pair, const struct pair_load *load,
                   struct pair_run **ret);
void pair_run_close(struct pair_run *run);

/* Requests for about `seconds`; `value` is requests a second. */
struct bench_sample pair_run_for(struct pair_run *run, double seconds);

/* Each set of keys once. */
void pair_run_once(struct pair_run *run);

/* One request, which blocks only while `outstanding` are under way. Not while others of the
 * run are sent in other ways; before that, and before its end, wait for those that are. */
void pair_run_post(struct pair_run *run);
void pair_run_wait(struct pair_run *run);

/* One at a time, waited for by the thread that asks; latencies. */
struct bench_sample pair_run_singly(struct pair_run *run, double seconds);

/*
 * For requests that overlap with others: sends them until it is told to end, which returns
 * when the last is answered; how many there were.
 */
void pair_run_start(struct pair_run *run);
uint64_t pair_run_stop(struct pair_run *run);

#endif
