/*
 * What hostile workers tell a client: they dial it under one name or two, take its
 * closures, and answer in any order, twice, for closures and resources that they were
 * never given, with results and lists of any form; they leave, crash, reach no ps, and
 * come back. For closures of rounds they commit to the ps, or say so. The client and its
 * ps run in this process; each input opens a client of its own and closes it.
 *
 * Checks: the client closes; what the program sees of a result can be read.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <coxswain/coxswain.h>

#include "common/dtype.h"
#include "common/log.h"
#include "ps/service.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/maker.h"
#include "tests/fuzz/peer.h"
#include "tests/schema/samples.h"

enum {
    PEERS = 4,
    FUTURES = 8,
    HEADS = 8,
    SEQUENCES = 5, /* of rounds */
    CLOSURES_MAX = 4,
    OPERATIONS_MAX = 60,
    PEER_TIMEOUT_MS = 600000,
    HEAR_MS = 2,
    CLOSE_MS = 1,
};

struct end {
    struct peer peer;
    bool greeted; /* the client has accepted it */
};

struct world {
    struct fuzz_input input;
    struct known known;
    struct cox_coordinator *c;
    struct cox_module *module;
    struct cox_future *futures[FUTURES];
    struct cox_resource *resource;
    struct end ends[PEERS];
    struct coxi_closure_head heads[HEADS]; /* the last ones that were dispatched */
    struct coxi_round_head rounds_of[HEADS];
    bool ended[HEADS]; /* the ps has said so */
    size_t n_heads;

    struct cox_rounds *rounds[SEQUENCES];
    struct peer to_ps;           /* of a worker */
    struct coxi_session session; /* what the client has told of the ps */
    uint64_t incarnation;
};

static char ps_url[160];
static char listen_url[160];
static struct cox_cluster *cluster;

static void prepare(void)
{
    struct coxi_ps *ps;
    char json[256];
    if (cluster != NULL) {
        return;
    }
    coxi_log_to(open("/dev/null", O_WRONLY | O_CLOEXEC));
    (void)snprintf(ps_url, sizeof(ps_url), "ipc://%s/ps", fuzz_dir());
    (void)snprintf(listen_url, sizeof(listen_url), "ipc://%s/client", fuzz_dir());
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"]}", ps_url);
    const struct coxi_ps_options options = {
        .listen = ps_url, .peer_timeout_ms = PEER_TIMEOUT_MS, .memory_max = 64 << 20};
    if (coxi_ps_open(&options, &ps) != 0 || cox_cluster_parse(json, &cluster) != 0) {
        fuzz_fail("no ps");
    }
}

/* ---- the program */

static struct cox_function *any_function(struct world *w)
{
    static const char *const names[] = {"nothing", "give", "make", "use"};
    struct cox_function *function = NULL;
    (void)cox_function_get(w->module, names[fuzz_below(&w->input, 4)], &function);
    return function;
}

static void schedule(struct world *w)
{
    struct cox_call call = COX_CALL_INIT;
    size_t i = fuzz_below(&w->input, FUTURES);
    const struct cox_input input = {.name = "in",
                                    .future = w->futures[(i + 1) % FUTURES]};
    call.keep = (int)fuzz_below(&w->input, 2);
    if (fuzz_below(&w->input, 4) == 3 && input.future != NULL) {
        call.inputs = &input;
        call.n_inputs = 1;
    }
    cox_future_free(w->futures[i]);
    w->futures[i] = NULL;
    (void)cox_try_schedule(w->c, any_function(w), &call, &w->futures[i]);
}

static const struct cox_rounds_spec sequences[SEQUENCES] = {
    COX_ROUNDS_SPEC_INIT,
    {.size = sizeof(struct cox_rounds_spec), .reduce = COX_REDUCE_SUM},
    {.size = sizeof(struct cox_rounds_spec), .staleness = 1},
    {.size = sizeof(struct cox_rounds_spec), .backups = 1},
    {.size = sizeof(struct cox_rounds_spec), .deterministic = 1}};

static void hold(struct world *w, struct cox_future *future)
{
    size_t i = fuzz_below(&w->input, FUTURES);
    cox_future_free(w->futures[i]);
    w->futures[i] = future;
}

static void schedule_round(struct world *w)
{
    struct cox_call call = COX_CALL_INIT;
    struct cox_round_call calls[CLOSURES_MAX];
    struct cox_future *futures[CLOSURES_MAX];
    struct cox_future *end;
    size_t i = fuzz_below(&w->input, SEQUENCES);
    size_t n = 1 + fuzz_below(&w->input, CLOSURES_MAX);
    call.keep = (int)fuzz_below(&w->input, 8) == 7;
    for (size_t k = 0; k < n; k++) {
        calls[k] = (struct cox_round_call){any_function(w), &call};
    }
    if (w->rounds[i] == NULL &&
        cox_rounds_create(w->c, &sequences[i], &w->rounds[i]) != 0) {
        fuzz_fail(cox_error_last());
    }
    if (cox_round_schedule(w->rounds[i], calls, n, futures, &end) == 0) {
        hold(w, end);
        for (size_t k = 0; k < n; k++) {
            hold(w, futures[k]);
        }
    }
}

static void read_result(struct cox_future *future)
{
    struct cox_value value;
    size_t bytes = 0;
    uint64_t sum = 0;
    if (cox_future_result(future, "x", &value) == 0 &&
        coxi_shape_bytes(value.dtype, value.rank, value.shape, &bytes) == 0) {
        for (size_t i = 0; i < bytes; i++) {
            sum += ((const uint8_t *)value.data)[i];
        }
    }
    if (sum == UINT64_MAX) {
        fuzz_fail("cannot be");
    }
}

static void look(struct world *w)
{
    struct cox_future *future = w->futures[fuzz_below(&w->input, FUTURES)];
    uint64_t how = fuzz_below(&w->input, 4);
    if (future == NULL) {
        return;
    }
    if (how == 0) {
        (void)cox_future_cancel(future);
    } else if (how == 1) {
        (void)cox_future_fetch(future, 0);
    } else if (cox_future_wait(future, 0) == 0) {
        read_result(future);
    }
}

static void make_resource(struct world *w)
{
    struct cox_call call = COX_CALL_INIT;
    if (w->resource == NULL) {
        (void)cox_resource_create(w->c, "w", any_function(w), &call, &w->resource);
    } else {
        cox_resource_release(w->resource);
        w->resource = NULL;
    }
}

/* ---- the workers */

static void keep_heads(struct world *w, const struct coxi_dispatch *d)
{
    w->n_heads = d->n_closures < HEADS ? d->n_closures : HEADS;
    for (size_t i = 0; i < w->n_heads; i++) {
        w->heads[i] = d->closures[i];
        w->rounds_of[i] =
            d->rounds != NULL ? d->rounds[i] : (struct coxi_round_head){0};
        w->ended[i] = false;
    }
}

static void take(struct world *w, struct end *end, const struct coxi_message *m)
{
    if (m->kind == COXI_HELLO) {
        end->greeted = true;
    } else if (m->kind == COXI_DISPATCH) {
        keep_heads(w, &m->dispatch);
    } else if (m->kind == COXI_LAYOUT && m->layout.n_servers > 0) {
        struct coxi_ps_address ps;
        coxi_layout_ps(&m->layout, 0, &ps);
        w->session = m->layout.session;
        w->incarnation = ps.incarnation;
    }
}

/* Takes what the client has sent. */
static void hear_all(struct world *w)
{
    struct peer *peers[PEERS];
    for (size_t i = 0; i < PEERS; i++) {
        peers[i] = &w->ends[i].peer;
    }
    (void)peer_wait(peers, PEERS, HEAR_MS);
    for (size_t i = 0; i < PEERS; i++) {
        struct peer_frame frame;
        while (peer_has(&w->ends[i].peer) && peer_next(&w->ends[i].peer, &frame)) {
            take(w, &w->ends[i], &frame.message);
        }
    }
}

static struct end *any_end(struct world *w)
{
    return &w->ends[fuzz_below(&w->input, PEERS)];
}

static void leave(struct world *w)
{
    struct end *end = any_end(w);
    peer_close(&end->peer);
    end->greeted = false;
}

static void come_as(struct world *w, struct end *end, const char *name,
                    enum coxi_channel channel)
{
    struct coxi_message m = {.kind = COXI_HELLO};
    struct peer_frame frame;
    m.hello = (struct coxi_hello){.version = COXI_WIRE_VERSION,
                                  .role = COXI_ROLE_WORKER,
                                  .channel = channel,
                                  .incarnation = 1 + fuzz_below(&w->input, 4),
                                  .slots = (uint32_t)fuzz_below(&w->input, 8),
                                  .name = name,
                                  .local = ""};
    peer_dial(&end->peer, listen_url + strlen("ipc://"));
    end->greeted = peer_send(&end->peer, &m, NULL, 0) &&
                   peer_next(&end->peer, &frame) && frame.message.kind == COXI_HELLO;
}

static void come(struct world *w)
{
    struct end *end = any_end(w);
    uint64_t n = fuzz_below(&w->input, 8);
    come_as(w, end, n % 4 == 3 ? "b" : "a",
            n < 6 ? COXI_CHANNEL_CONTROL : COXI_CHANNEL_DATA);
}

/* Also names what it was given, mostly. */
static void say(struct world *w, enum coxi_message_kind kind)
{
    struct made made;
    struct end *end = any_end(w);
    made_init(&made, &w->input, &w->known, kind);
    for (size_t i = 0; kind == COXI_DONE && i < made.message.done.n_closures; i++) {
        uint64_t n = fuzz_below(&w->input, HEADS + 1);
        if (n < w->n_heads) {
            made.done[i].closure = w->heads[n].closure;
            made.done[i].attempt = w->heads[n].attempt;
        }
    }
    if (kind == COXI_RESULT && w->n_heads > 0) {
        made.message.result.closure = w->heads[0].closure;
        made.message.result.attempt = w->heads[0].attempt;
    }
    if (end->greeted) {
        (void)peer_send(&end->peer, &made.message, made.payload, made.payload_len);
    }
    made_fini(&made);
}

static void say_usual(struct world *w)
{
    static const enum coxi_message_kind usual[] = {
        COXI_DONE,   COXI_DONE,    COXI_DONE,          COXI_DONE,
        COXI_RESULT, COXI_CRASHED, COXI_LEAVING,       COXI_RESOURCE_MADE,
        COXI_REACH,  COXI_DONE,    COXI_MODULE_LOADED, COXI_FILE_READ};
    say(w, usual[fuzz_below(&w->input, sizeof(usual) / sizeof(*usual))]);
}

static void say_any(struct world *w)
{
    say(w, (enum coxi_message_kind)(1 + fuzz_below(&w->input, SAMPLE_KINDS)));
}

/* Ends all closures of the last dispatch well, with a number as their result. */
static void finish(struct world *w)
{
    struct end *end = any_end(w);
    struct coxi_buffer values = {0};
    struct coxi_buffer payload = {0};
    struct coxi_done_head done[HEADS];
    const int64_t x = 7;
    const struct cox_value value = COX_SCALAR("x", COX_I64, &x);
    int r = coxi_values_add(&values, &value);
    for (size_t i = 0; r == 0 && i < w->n_heads; i++) {
        done[i] = (struct coxi_done_head){.closure = w->heads[i].closure,
                                          .attempt = w->heads[i].attempt,
                                          .result_len = (uint32_t)values.len};
        r = coxi_buffer_append(&payload, values.data, values.len);
    }
    const struct coxi_message m = {
        .kind = COXI_DONE, .done = {.closures = done, .n_closures = w->n_heads}};
    if (r == 0 && end->greeted) {
        (void)peer_send(&end->peer, &m, payload.data, payload.len);
    }
    coxi_buffer_fini(&values);
    coxi_buffer_fini(&payload);
}

/* ---- the workers, in rounds */

/* Asks the ps as a worker; false: it does not answer. */
static bool ask_ps(struct world *w, const struct coxi_message *m,
                   struct peer_frame *ret)
{
    return peer_send(&w->to_ps, m, NULL, 0) && peer_next(&w->to_ps, ret);
}

static void dial_ps(struct world *w)
{
    struct coxi_message m = {.kind = COXI_HELLO};
    struct peer_frame frame;
    m.hello = (struct coxi_hello){.version = COXI_WIRE_VERSION,
                                  .role = COXI_ROLE_WORKER,
                                  .session = w->session,
                                  .name = "",
                                  .local = ""};
    peer_dial(&w->to_ps, ps_url + strlen("ipc://"));
    (void)ask_ps(w, &m, &frame);
}

/* Commits for all closures of the last dispatch that are in rounds. */
static void commit(struct world *w)
{
    static const uint32_t touched[] = {0};
    if (w->to_ps.fd <= 0 || w->to_ps.over) {
        dial_ps(w);
    }
    for (size_t i = 0; i < w->n_heads; i++) {
        const struct coxi_round_head *round = &w->rounds_of[i];
        struct coxi_message m = {.kind = COXI_COMMIT};
        struct peer_frame frame;
        m.commit = (struct coxi_commit){
            .session = w->session,
            .incarnation = w->incarnation,
            .closure = w->heads[i].closure,
            .attempt = w->heads[i].attempt,
            .last = true,
            .touched = touched,
            .n_touched = 1,
            .round = round->round,
            .share = {round->n, round->mean != 0, 1, round->after}};
        if (round->round != 0 && ask_ps(w, &m, &frame)) {
            w->ended[i] = frame.message.status.ended;
        }
    }
}

/* Reports the closures of the last dispatch as done, or all but one. Mostly that is true,
 * if they were committed. */
static void report(struct world *w)
{
    struct end *end = any_end(w);
    struct coxi_done_head done[HEADS];
    float weights[HEADS];
    uint32_t ended[HEADS];
    uint64_t payload[HEADS] = {0}; /* each touches ps 0 */
    struct coxi_message m = {.kind = COXI_DONE};
    uint64_t how = fuzz_number(&w->input, 1);
    size_t n = w->n_heads - (how % 16 == 9 && w->n_heads > 0 ? 1 : 0);
    m.done = (struct coxi_done){
        .closures = done, .n_closures = n, .weights = weights, .ended = ended};
    for (size_t i = 0; i < n; i++) {
        bool has_ended = how < 0xc0 ? w->ended[i] : how % 3 == 0;
        done[i] = (struct coxi_done_head){.closure = w->heads[i].closure,
                                          .attempt = w->heads[i].attempt,
                                          .touched_n = how % 8 == 7 ? 0 : 1};
        weights[i] = fuzz_weight(how < 0xf0 ? how % 4 : how);
        if (has_ended) {
            ended[m.done.n_ended++] = (uint32_t)i;
        }
    }
    payload[0] = how >= 0xe0 ? how : 0;
    if (end->greeted) {
        size_t len = how % 8 == 7 ? 0 : n * sizeof(*payload);
        (void)peer_send(&end->peer, &m, payload, len);
    }
}

/* What an honest worker does. */
static void run_round(struct world *w)
{
    hear_all(w);
    commit(w);
    report(w);
}

static void accept_module(struct world *w)
{
    struct end *end = any_end(w);
    const struct coxi_message m = {.kind = COXI_MODULE_LOADED,
                                   .status = {.message = ""}};
    if (end->greeted) {
        (void)peer_send(&end->peer, &m, NULL, 0);
    }
}

/* ---- the world */

static void begin(struct world *w)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.listen = listen_url;
    options.checkpoint_at_close = -1;
    options.keep_going = 1;
    options.peer_timeout_ms = PEER_TIMEOUT_MS;
    if (cox_open(cluster, &options, &w->c) != 0 ||
        cox_module_load(w->c, FUZZ_STEPS, &w->module) != 0) {
        fuzz_fail(cox_error_last());
    }
    come_as(w, &w->ends[0], "a", COXI_CHANNEL_CONTROL);
    come_as(w, &w->ends[1], "a", COXI_CHANNEL_DATA);
    const struct coxi_message m = {.kind = COXI_MODULE_LOADED,
                                   .status = {.message = ""}};
    (void)peer_send(&w->ends[0].peer, &m, NULL, 0);
    schedule(w);
    hear_all(w);
}

static void operate(struct world *w)
{
    static void (*const operations[])(struct world *) = {
        schedule,  schedule,  schedule,  look,      look,          say_usual,
        say_usual, say_usual, say_usual, say_usual, say_any,       come,
        leave,     finish,    finish,    hear_all,  accept_module, make_resource};
    static void (*const rounds[])(struct world *) = {
        schedule_round, run_round, commit, report, run_round, schedule_round};
    uint64_t n = fuzz_number(&w->input, 1);
    if (n >= 0xc0) {
        rounds[n % (sizeof(rounds) / sizeof(*rounds))](w);
    } else {
        operations[n % (sizeof(operations) / sizeof(*operations))](w);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world w;
    static const struct coxi_session sessions[] = {{1, 1, 1}, {0, 0, 0}};
    static const char *const texts[] = {"ipc:///nobody/listens"};
    prepare();
    w = (struct world){
        .input = {data, size},
        .known = {.sessions = sessions, .n_sessions = 2, .texts = texts, .n_texts = 1}};
    begin(&w);
    for (int i = 0; i < OPERATIONS_MAX && w.input.left > 0; i++) {
        operate(&w);
    }
    for (size_t i = 0; i < FUTURES; i++) {
        cox_future_free(w.futures[i]);
    }
    for (size_t i = 0; i < PEERS; i++) {
        peer_close(&w.ends[i].peer);
    }
    peer_close(&w.to_ps);
    (void)cox_close(w.c, CLOSE_MS);
    return 0;
}
