/*
 * See pair.h. The thread that receives an answer sends the next request in its place.
 * The requests for the answers of one read leave together. So there is one thread on
 * this side, and no other has to be woken. Requests that are waited for one by one come
 * from the main thread.
 */
#include "bench/pair.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/initializer.h"
#include "common/rand.h"
#include "common/sync.h"

enum {
    PEER_TIMEOUT_MS = 10000,
    TICK_MS = 500,
    REQUEST_MS = 60000,
    WATERMARK_EVERY = 1024, /* commits; bounds what the ps has to remember */
    SAMPLES_MAX = 200000,
};

const char *const pair_transports[PAIR_TRANSPORTS] = {"tcp", "local"};

/* ---- the two processes */

static void on_tick(void *arg)
{
    struct pair *pair = arg;
    coxi_links_tick(pair->links);
    coxi_psc_tick(pair->psc);
}

static void on_batch(void *arg)
{
    coxi_psc_flush(((struct pair *)arg)->psc);
}

static void ask(struct pair *pair, const struct coxi_message *message, const char *what)
{
    struct coxi_psc_request request = {0};
    bench_check(coxi_psc_call(pair->psc, message, &request, COXI_STATUS, NULL, NULL),
                what);
}

static void connect_pair(struct pair *ret, enum coxi_role role,
                         enum pair_transport transport)
{
    coxi_mutex_init(&ret->lock);
    coxi_cond_init(&ret->changed);
    bench_check(coxi_links_new(PEER_TIMEOUT_MS, &ret->links), "links");
    struct coxi_psc_options options = {
        .address = ret->child.line,
        .self = {.role = role,
                 .incarnation = coxi_random_id(),
                 .session = ret->session},
        .links = ret->links,
        .connect_ms = PEER_TIMEOUT_MS,
        .reconnect_ms = 0,
        .request_ms = REQUEST_MS,
        .local_path = transport == PAIR_LOCAL,
        .on_batch = on_batch,
        .arg = ret,
    };
    bench_check(coxi_psc_open(&options, &ret->psc), "ps");
    bench_check(coxi_psc_wait(ret->psc, PEER_TIMEOUT_MS), "ps");
    ret->incarnation = coxi_psc_incarnation(ret->psc);
    bench_check(coxi_loop_new(TICK_MS, on_tick, ret, &ret->loop), "loop");
    bench_check(coxi_loop_start(ret->loop, "tick"), "loop");
}

void pair_open(struct bench *bench, enum pair_transport transport, struct pair *ret)
{
    *ret = (struct pair){.session = {coxi_random_id(), 1, coxi_random_id()},
                         .next_closure = 1};
    bench_child_start(bench, "ps=0", &ret->child);
    connect_pair(ret, COXI_ROLE_CLIENT, transport);
    ask(ret,
        &(struct coxi_message){.kind = COXI_CLAIM, .claim = {.session = ret->session}},
        "claim");
}

void pair_join(const struct pair *pair, enum pair_transport transport, struct pair *ret)
{
    *ret =
        (struct pair){.child = pair->child, .joined = true, .session = pair->session};
    connect_pair(ret, COXI_ROLE_WORKER, transport);
}

void pair_close(struct pair *pair)
{
    coxi_loop_stop(pair->loop);
    coxi_loop_free(pair->loop);
    coxi_psc_close(pair->psc);
    coxi_links_free(pair->links);
    if (!pair->joined) {
        bench_child_stop(&pair->child);
    }
    (void)pthread_cond_destroy(&pair->changed);
    coxi_mutex_fini(&pair->lock);
}

double pair_cpu_ps(const struct pair *pair)
{
    return bench_cpu_of(pair->child.pid);
}

double pair_cpu(const struct pair *pair)
{
    return bench_cpu_self() + pair_cpu_ps(pair);
}

static uint64_t take_closure(struct pair *pair)
{
    coxi_lock(&pair->lock);
    uint64_t closure = pair->next_closure++;
    coxi_unlock(&pair->lock);
    return closure;
}

static uint32_t create(struct pair *pair, enum coxi_kind kind, uint64_t size,
                       enum coxi_optimizer_kind optimizer)
{
    char name[32];
    struct coxi_shard shard = {.count = size};
    struct coxi_message message = {.kind = COXI_CREATE};
    (void)snprintf(name, sizeof(name), "v%u", pair->n_variables);
    message.create.session = pair->session;
    message.create.closure = take_closure(pair);
    message.create.incarnation = coxi_psc_incarnation(pair->psc);
    message.create.variable = (struct coxi_variable){
        .id = pair->n_variables++,
        .name = name,
        .kind = kind,
        .dtype = COX_F32,
        .rank = 1,
        .shape = {size},
        .shards = kind == COXI_KIND_DENSE ? &shard : NULL,
        .n_shards = kind == COXI_KIND_DENSE,
        .optimizer = {.kind = optimizer, .learning_rate = 0.01f},
        .initializer = {.kind = COXI_INIT_ZEROS},
    };
    if (optimizer == COXI_OPTIMIZER_ADAGRAD) {
        message.create.variable.optimizer.epsilon = 1e-7f;
        message.create.variable.optimizer.initial_accumulator = 0.1f;
    }
    ask(pair, &message, "create");
    return message.create.variable.id;
}

uint32_t pair_dense(struct pair *pair, uint64_t rows)
{
    return create(pair, COXI_KIND_DENSE, rows, COXI_OPTIMIZER_SGD);
}

uint32_t pair_table(struct pair *pair, uint64_t columns,
                    enum coxi_optimizer_kind optimizer)
{
    return create(pair, COXI_KIND_TABLE, columns, optimizer);
}

/* ---- requests */

/* A request that may be under way, with its memory. */
struct flight {
    struct coxi_psc_request request;
    struct pair_run *run;
    struct iovec segments[2];
    uint8_t *into; /* for a pull */
    uint64_t closure;
};

/* Used by the receiving thread, except fields that are atomic or guarded. */
struct pair_run {
    struct pair *pair;
    struct pair_load load;
    struct flight *flights;
    uint8_t *values; /* for a push: gradients */
    size_t set;      /* the next set of keys */
    atomic_bool going;
    atomic_int_least64_t n_left; /* requests that may still be sent */
    uint64_t n_done;
    size_t n_posted; /* used by the posting thread */
    int n_flying;    /* guarded by pair->lock */
};

static void done(struct coxi_psc_request *request, int code,
                 const struct coxi_message *answer, void *payload, size_t len);

static void fill(struct pair_run *run, struct flight *flight)
{
    const struct pair_load *load = &run->load;
    size_t n = 0;
    if (load->keys != NULL) {
        flight->segments[n++] = (struct iovec){
            (void *)(uintptr_t)(load->keys + run->set * load->count),
            load->count * sizeof(uint64_t),
        };
        run->set = (run->set + 1) % load->n_sets;
    }
    size_t bytes = load->count * load->row_bytes;
    if (load->push) {
        flight->segments[n++] = (struct iovec){run->values, coxi_align(bytes, 8)};
    }
    flight->request = (struct coxi_psc_request){
        .payload = flight->segments,
        .n_payload = n,
        .into = load->push ? NULL : flight->into,
        .into_len = load->push ? 0 : bytes,
        .answer_len = load->push ? 0 : bytes,
        .done = done,
    };
}

static void send_next(struct pair_run *run, struct flight *flight, bool later)
{
    static const uint32_t touched[] = {0};
    struct pair *pair = run->pair;
    struct coxi_message message = {.kind = COXI_PULL};
    fill(run, flight);
    struct coxi_pull_item item = {.variable = run->load.variable,
                                  .count = run->load.count};
    struct coxi_update update = {run->load.variable, COXI_OP_GRADIENT, 0,
                                 run->load.count};
    if (run->load.push) {
        flight->closure = take_closure(pair);
        message.kind = COXI_COMMIT;
        message.commit = (struct coxi_commit){
            .session = pair->session,
            .incarnation = pair->incarnation,
            .closure = flight->closure,
            .attempt = 1,
            .last = true,
            .touched = touched,
            .n_touched = 1,
            .updates = &update,
            .n_updates = 1,
        };
    } else {
        message.pull = (struct coxi_pull){.session = pair->session,
                                          .incarnation = pair->incarnation,
                                          .items = &item,
                                          .n_items = 1};
    }
    bench_check(coxi_psc_submit(pair->psc, &message, &flight->request, later),
                "submit");
}

/* Advances the watermark: answers come in the order of requests, so every commit before
 * this one is applied. */
static void advance(struct pair *pair, uint64_t closure)
{
    if (closure % WATERMARK_EVERY == 0) {
        struct coxi_message message = {.kind = COXI_WATERMARK};
        message.watermark = (struct coxi_watermark){pair->session, closure,
                                                    coxi_psc_incarnation(pair->psc)};
        coxi_psc_tell(pair->psc, &message);
    }
}

/* True if one more request may be sent. */
static bool may_send(struct pair_run *run)
{
    return atomic_load_explicit(&run->going, memory_order_relaxed) &&
           atomic_fetch_sub_explicit(&run->n_left, 1, memory_order_relaxed) > 0;
}

static void land(struct pair_run *run)
{
    coxi_lock(&run->pair->lock);
    run->n_flying--;
    (void)pthread_cond_signal(&run->pair->changed);
    coxi_unlock(&run->pair->lock);
}

static void done(struct coxi_psc_request *request, int code,
                 const struct coxi_message *answer, void *payload, size_t len)
{
    struct flight *flight = (struct flight *)request;
    struct pair_run *run = flight->run;
    (void)payload;
    bench_check(code, "request");
    bench_check(answer->status.code, "answer");
    if (!run->load.push && len != flight->request.into_len) {
        bench_die("an answer of %zu bytes", len);
    }
    run->n_done++;
    if (run->load.push) {
        advance(run->pair, flight->closure);
    }
    if (run->load.answered != NULL) {
        run->load.answered(run->load.arg);
    }
    if (may_send(run)) {
        send_next(run, flight, true);
    } else {
        land(run);
    }
}

static uint8_t *memory(size_t bytes)
{
    uint8_t *data = aligned_alloc(64, coxi_align(bytes + 1, 64));
    if (data == NULL) {
        bench_die("out of memory");
    }
    memset(data, 0, bytes);
    return data;
}

void pair_run_open(struct pair *pair, const struct pair_load *load,
                   struct pair_run **ret)
{
    struct pair_run *run = calloc(1, sizeof(*run));
    size_t bytes = load->count * load->row_bytes;
    if (run == NULL) {
        bench_die("out of memory");
    }
    *run = (struct pair_run){.pair = pair, .load = *load};
    run->flights = calloc((size_t)load->outstanding, sizeof(*run->flights));
    if (run->flights == NULL) {
        bench_die("out of memory");
    }
    run->values = load->push ? memory(bytes + sizeof(uint64_t)) : NULL;
    for (size_t i = 0; load->push && i < bytes / sizeof(float); i++) {
        ((float *)(void *)run->values)[i] = 0.001f;
    }
    for (int i = 0; i < load->outstanding; i++) {
        run->flights[i].run = run;
        run->flights[i].into = load->push ? NULL : memory(bytes);
    }
    *ret = run;
}

void pair_run_close(struct pair_run *run)
{
    for (int i = 0; i < run->load.outstanding; i++) {
        free(run->flights[i].into);
    }
    free(run->flights);
    free(run->values);
    free(run);
}

static void start(struct pair_run *run, int64_t n_requests)
{
    run->n_done = 0;
    atomic_store(&run->going, true);
    atomic_store(&run->n_left, n_requests);
    coxi_lock(&run->pair->lock);
    run->n_flying = run->load.outstanding;
    coxi_unlock(&run->pair->lock);
    for (int i = 0; i < run->load.outstanding; i++) {
        if (may_send(run)) {
            send_next(run, &run->flights[i], true);
        } else {
            land(run);
        }
    }
    coxi_psc_flush(run->pair->psc);
}

void pair_run_wait(struct pair_run *run)
{
    coxi_lock(&run->pair->lock);
    while (run->n_flying > 0) {
        coxi_wait_for_end(&run->pair->changed, &run->pair->lock);
    }
    coxi_unlock(&run->pair->lock);
}

void pair_run_start(struct pair_run *run)
{
    start(run, INT64_MAX);
}

uint64_t pair_run_stop(struct pair_run *run)
{
    atomic_store(&run->going, false);
    pair_run_wait(run);
    return run->n_done;
}

void pair_run_once(struct pair_run *run)
{
    run->set = 0;
    start(run, (int64_t)run->load.n_sets);
    pair_run_wait(run);
}

static struct bench_sample cpu_since(const struct pair *pair, double cpu, double cpu_ps,
                                     uint64_t n)
{
    return (struct bench_sample){
        .cpu_us = (pair_cpu(pair) - cpu) * 1e6 / (double)n,
        .cpu_ps_us = (pair_cpu_ps(pair) - cpu_ps) * 1e6 / (double)n,
    };
}

struct bench_sample pair_run_for(struct pair_run *run, double seconds)
{
    double cpu = pair_cpu(run->pair);
    double cpu_ps = pair_cpu_ps(run->pair);
    double before = bench_now();
    struct timespec until = coxi_deadline((int)(seconds * 1000));
    pair_run_start(run);
    coxi_lock(&run->pair->lock);
    while (coxi_wait_until(&run->pair->changed, &run->pair->lock, &until)) {
    }
    coxi_unlock(&run->pair->lock);
    uint64_t n = pair_run_stop(run);
    double took = bench_now() - before;
    struct bench_sample sample = cpu_since(run->pair, cpu, cpu_ps, n);
    sample.value = (double)n / took;
    return sample;
}

void pair_run_post(struct pair_run *run)
{
    struct pair *pair = run->pair;
    coxi_lock(&pair->lock);
    while (run->n_flying == run->load.outstanding) {
        coxi_wait_for_end(&pair->changed, &pair->lock);
    }
    run->n_flying++;
    coxi_unlock(&pair->lock);
    /* Requests are answered in order. */
    send_next(run, &run->flights[run->n_posted++ % (size_t)run->load.outstanding],
              false);
}

struct bench_sample pair_run_singly(struct pair_run *run, double seconds)
{
    static double samples[SAMPLES_MAX];
    struct pair *pair = run->pair;
    double cpu = pair_cpu(pair);
    double cpu_ps = pair_cpu_ps(pair);
    double begin = bench_now();
    double now = begin;
    size_t n = 0;
    while (now - begin < seconds && n < SAMPLES_MAX) {
        double before = now;
        pair_run_post(run);
        pair_run_wait(run);
        now = bench_now();
        samples[n++] = (now - before) * 1e6;
    }
    struct bench_sample sample = cpu_since(pair, cpu, cpu_ps, n);
    sample.value = sample.p50_us = bench_quantile(samples, n, 0.5);
    sample.p99_us = bench_quantile(samples, n, 0.99);
    return sample;
}
