/*
 * A parameter server in a process of its own, and this process as its only client,
 * through net/ps_client as workers use it. The cases of the wire are measured with it.
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
    bool joined; /* the child belongs to another pair */
    struct coxi_links *links;
    struct coxi_loop *loop; /* sends heartbeats */
    struct coxi_psc *psc;
    struct coxi_session session;
    uint64_t incarnation;
    uint32_t n_variables;
    struct coxi_mutex lock; /* guards the rest; leaf */
    pthread_cond_t changed;
    uint64_t next_closure;
};

enum { PAIR_OUTSTANDING_MAX = 256 };

/* How the two are connected, and the name of that in params.transport. */
enum pair_transport { PAIR_TCP, PAIR_LOCAL, PAIR_TRANSPORTS };
extern const char *const pair_transports[PAIR_TRANSPORTS];

void pair_open(struct bench *bench, enum pair_transport transport, struct pair *ret);
void pair_close(struct pair *pair);

/* Opens another connection to the ps of `pair`, as a worker has it; for pulls. Close it
 * before `pair`. */
void pair_join(const struct pair *pair, enum pair_transport transport,
               struct pair *ret);

/* CPU seconds used so far by the ps, and by both processes. */
double pair_cpu_ps(const struct pair *pair);
double pair_cpu(const struct pair *pair);

/* Make a dense variable of `rows` floats with SGD, or a table of `columns` with
 * `optimizer`; return its id. */
uint32_t pair_dense(struct pair *pair, uint64_t rows);
uint32_t pair_table(struct pair *pair, uint64_t columns,
                    enum coxi_optimizer_kind optimizer);

/* Requests of one kind, `outstanding` at a time, each for all rows of a dense variable
 * or for keys of a table. Each push is a commit of its own, of gradients. */
struct pair_load {
    bool push;
    uint32_t variable;
    uint64_t count;       /* rows of the dense variable, or keys of a request */
    const uint64_t *keys; /* n_sets times `count`, used in turn; NULL: dense */
    size_t n_sets;
    size_t row_bytes;
    int outstanding;
    /* called on the receiving thread for each answer; or NULL */
    void (*answered)(void *arg);
    void *arg;
};

struct pair_run;

/* Allocates the memory of a run; frees it. */
void pair_run_open(struct pair *pair, const struct pair_load *load,
                   struct pair_run **ret);
void pair_run_close(struct pair_run *run);

/* Sends requests for about `seconds`; `value` is requests a second. */
struct bench_sample pair_run_for(struct pair_run *run, double seconds);

/* Sends one request for each set of keys. */
void pair_run_once(struct pair_run *run);

/*
 * Sends one request; blocks only while `outstanding` requests are under way. Do not mix
 * this with the other functions that send requests of the run: before those, and before
 * closing the run, call pair_run_wait.
 */
void pair_run_post(struct pair_run *run);
void pair_run_wait(struct pair_run *run);

/* Sends one request at a time, and the calling thread waits for each; measures
 * latencies. */
struct bench_sample pair_run_singly(struct pair_run *run, double seconds);

/* For requests beside other requests: sends them until pair_run_stop, which returns
 * their number when the last one is answered. */
void pair_run_start(struct pair_run *run);
uint64_t pair_run_stop(struct pair_run *run);

#endif
