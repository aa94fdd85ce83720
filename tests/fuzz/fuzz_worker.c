/*
 * What a hostile client sends a worker: layouts with any ps and variables, modules with
 * another digest than their bytes have, closures, resources, recalls, kept results; over
 * several connections, of clients that take each other's place and leave in the middle.
 * The worker serves in this process, as its daemon lets it, and has a ps. Both stay from
 * input to input; each input begins with a new client.
 *
 * Check: a client whose connections are open is answered.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "common/file.h"
#include "common/hash.h"
#include "common/log.h"
#include "net/link_internal.h"
#include "ps/service.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/maker.h"
#include "tests/fuzz/peer.h"
#include "tests/schema/samples.h"
#include "worker/service.h"

enum {
    PEERS = 4,
    SESSIONS = 4,
    SLOTS = 2,
    OPERATIONS_MAX = 100,
    PEER_TIMEOUT_MS = 600000,
    MODULE_MAX = 16 << 20,
};

/* A connection to the worker. */
struct end {
    struct peer peer;
    struct coxi_session session;
    bool greeted;
    bool controls; /* it is no data connection */
    bool cut;      /* it is in the middle of a frame */
};

struct world {
    struct fuzz_input input;
    struct known known;
    struct end ends[PEERS];
    struct peer owner;    /* the client of the ps */
    uint64_t n_questions; /* the last question, and the last that was answered */
    uint64_t answered;
};

/* Questions name closures from here on, which nobody runs. */
#define QUESTIONS (UINT64_C(1) << 50)

static char worker_url[160];
static char ps_url[160];
static char modules[128];
static char address_file[128];
static struct coxi_module module;
static uint8_t *module_bytes;
static size_t module_len;
static uint64_t generation;

/* ---- the worker and its ps */

static void *serve(void *arg)
{
    int fd;
    int signal;
    struct coxi_worker_options options = {.listen = worker_url,
                                          .address_file = address_file,
                                          .modules = {.dir = modules},
                                          .slots = SLOTS,
                                          .commit_window = 16,
                                          .pull_cache_max = 1 << 20,
                                          .kept_max = 1 << 20,
                                          .step_rows_max = 1 << 20,
                                          .peer_timeout_ms = PEER_TIMEOUT_MS};
    if (coxi_recorder_new(&fd, &options.recorder) != 0 ||
        coxi_worker_serve(&options, &signal) != 0) {
        fuzz_fail("no worker");
    }
    return arg;
}

/* A descriptor that becomes readable whenever something is renamed in fuzz_dir(). */
static int watch_directory(void)
{
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0 || inotify_add_watch(fd, fuzz_dir(), IN_MOVED_TO | IN_CLOSE_WRITE) < 0) {
        fuzz_fail("the directory cannot be watched");
    }
    return fd;
}

/* Waits until the worker has written its address: it listens. */
static void await_address(int watch)
{
    while (access(address_file, R_OK) != 0) {
        char events[4096];
        struct pollfd at = {watch, POLLIN, 0};
        if (poll(&at, 1, PEER_WAIT_MS) == 0) {
            fuzz_fail("nobody listens");
        }
        (void)read(watch, events, sizeof(events));
    }
    (void)close(watch);
}

static void prepare(void)
{
    pthread_t thread;
    struct coxi_ps *ps;
    if (module_bytes != NULL) {
        return;
    }
    coxi_log_to(open("/dev/null", O_WRONLY | O_CLOEXEC));
    (void)snprintf(worker_url, sizeof(worker_url), "ipc://%s/worker", fuzz_dir());
    (void)snprintf(ps_url, sizeof(ps_url), "ipc://%s/ps", fuzz_dir());
    (void)snprintf(modules, sizeof(modules), "%s/modules", fuzz_dir());
    (void)snprintf(address_file, sizeof(address_file), "%s/address", fuzz_dir());
    if (coxi_file_read(FUZZ_STEPS, MODULE_MAX, &module_bytes, &module_len) != 0) {
        fuzz_fail("there is no module " FUZZ_STEPS);
    }
    module = (struct coxi_module){.name = "steps",
                                  .digest = coxi_digest_of(module_bytes, module_len)};
    const struct coxi_ps_options options = {
        .listen = ps_url, .peer_timeout_ms = PEER_TIMEOUT_MS, .memory_max = 64 << 20};
    int watch = watch_directory();
    if (coxi_ps_open(&options, &ps) != 0 ||
        pthread_create(&thread, NULL, serve, NULL) != 0) {
        fuzz_fail("no ps");
    }
    await_address(watch);
}

/* ---- the ps's client */

/* Asks the ps, and returns the code of the answer. */
static int ask_ps(struct world *w, const struct coxi_message *m)
{
    struct peer_frame frame = {0};
    if (!peer_send(&w->owner, m, NULL, 0) || !peer_next(&w->owner, &frame)) {
        fuzz_fail("the ps is gone");
    }
    if (frame.message.kind == COXI_STATUS && frame.message.status.incarnation != 0) {
        w->known.incarnation = frame.message.status.incarnation;
    }
    return frame.message.kind == COXI_STATUS ? frame.message.status.code : 0;
}

static const struct coxi_shard shard = {0, 0, 8};
static const struct coxi_variable variables[] = {
    {.id = 0,
     .name = "w",
     .kind = COXI_KIND_DENSE,
     .dtype = 1,
     .rank = 1,
     .shape = {8},
     .shards = &shard,
     .n_shards = 1},
    {.id = 1,
     .name = "t",
     .kind = COXI_KIND_TABLE,
     .dtype = 1,
     .rank = 1,
     .shape = {4}},
};

/* The ps belongs to this session, and has the variables. */
static void own_ps(struct world *w, const struct coxi_session *session)
{
    struct coxi_message m = {.kind = COXI_HELLO};
    m.hello = (struct coxi_hello){.version = COXI_WIRE_VERSION,
                                  .role = COXI_ROLE_CLIENT,
                                  .session = *session,
                                  .name = "",
                                  .local = ""};
    peer_dial(&w->owner, ps_url + strlen("ipc://"));
    (void)ask_ps(w, &m);
    int r = ask_ps(
        w, &(struct coxi_message){.kind = COXI_CLAIM, .claim = {.session = *session}});
    for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++) {
        m = (struct coxi_message){.kind = COXI_CREATE};
        m.create =
            (struct coxi_create){*session, 1 + i, variables[i], w->known.incarnation};
        r = r != 0 ? r : ask_ps(w, &m);
    }
    if (r != 0) {
        fuzz_fail("the ps refuses its client");
    }
}

/* ---- connections to the worker */

static void close_end(struct end *end)
{
    peer_close(&end->peer);
    end->greeted = end->cut = false;
}

/* Takes the next frame of the worker, which is there, or waits for it. */
static void hear(struct world *w, struct end *end)
{
    struct peer_frame frame;
    if (!peer_next(&end->peer, &frame)) {
        return;
    }
    end->greeted = end->greeted || frame.message.kind == COXI_HELLO;
    if (frame.message.kind == COXI_RESULT &&
        frame.message.result.closure == w->n_questions) {
        w->answered = w->n_questions;
    }
}

/*
 * Waits until the worker has taken all that was sent: asks for a result, which it does
 * not have. The answer may come over another connection of the same client; if the
 * control connection is gone, there is none.
 */
static void settle(struct world *w, struct end *end)
{
    struct peer *peers[PEERS];
    struct coxi_message m = {.kind = COXI_RESULT_WANT};
    m.result = (struct coxi_result){.closure = ++w->n_questions, .message = ""};
    if (!end->greeted || !end->controls || end->cut ||
        !peer_send(&end->peer, &m, NULL, 0)) {
        return;
    }
    for (size_t i = 0; i < PEERS; i++) {
        peers[i] = &w->ends[i].peer;
    }
    while (w->answered != w->n_questions && !end->peer.over) {
        peer_await(peers, PEERS);
        for (size_t i = 0; i < PEERS; i++) {
            while (peer_has(peers[i])) {
                hear(w, &w->ends[i]);
            }
        }
    }
}

static struct end *any_end(struct world *w)
{
    return &w->ends[fuzz_below(&w->input, 8) % PEERS];
}

static void open_end(struct world *w, struct end *end, const struct coxi_message *hello)
{
    close_end(end);
    end->session = hello->hello.session;
    end->controls = hello->hello.channel == COXI_CHANNEL_CONTROL;
    peer_dial(&end->peer, worker_url + strlen("ipc://"));
    if (peer_send(&end->peer, hello, NULL, 0)) {
        hear(w, end);
    }
}

static void open_one(struct world *w)
{
    struct made made;
    struct end *end = any_end(w);
    w->known.own = &w->ends[0].session;
    made_init(&made, &w->input, &w->known, COXI_HELLO);
    if (fuzz_below(&w->input, 8) != 7) {
        made.message.hello.role = COXI_ROLE_CLIENT;
    }
    struct coxi_session own = made.message.hello.session;
    open_end(w, end, &made.message);
    end->session = own;
    made_fini(&made);
}

static void close_one(struct world *w)
{
    close_end(any_end(w));
}

/* ---- messages */

static void say_it(struct world *w, struct end *end, const struct made *made)
{
    bool waits = fuzz_below(&w->input, 4) != 3;
    if (end->greeted && !end->cut &&
        peer_send(&end->peer, &made->message, made->payload, made->payload_len) &&
        waits) {
        settle(w, end);
    }
}

static void say(struct world *w, enum coxi_message_kind kind)
{
    struct made made;
    struct end *end = any_end(w);
    w->known.own = &end->session;
    made_init(&made, &w->input, &w->known, kind);
    say_it(w, end, &made);
    made_fini(&made);
}

static void say_any(struct world *w)
{
    say(w, (enum coxi_message_kind)(1 + fuzz_below(&w->input, SAMPLE_KINDS)));
}

static void say_usual(struct world *w)
{
    static const enum coxi_message_kind usual[] = {
        COXI_DISPATCH,      COXI_DISPATCH, COXI_DISPATCH,    COXI_RESOURCE,
        COXI_RESOURCE_DROP, COXI_RECALL,   COXI_RESULT_DROP, COXI_RESULT_WANT,
        COXI_LAYOUT,        COXI_MODULE,   COXI_DISPATCH,    COXI_RESOURCE,
        COXI_FILE_BYTES};
    say(w, usual[fuzz_below(&w->input, sizeof(usual) / sizeof(*usual))]);
}

static void send_layout(struct world *w, struct end *end, const char *address)
{
    const struct coxi_ps_address server = {address, w->known.incarnation, false};
    struct made made = {.message = {.kind = COXI_LAYOUT}};
    made.message.layout = (struct coxi_layout){.session = end->session,
                                               .servers = &server,
                                               .n_servers = 1,
                                               .variables = variables,
                                               .n_variables = 2};
    say_it(w, end, &made);
}

/* The ps and variables that there are. */
static void say_layout(struct world *w)
{
    struct end *end = any_end(w);
    send_layout(w, end, ps_url);
}

/* With its bytes: the right ones, or some of them are changed. */
static void send_module(struct world *w, struct end *end, uint32_t id, size_t n_changes)
{
    struct made made = {.message = {.kind = COXI_MODULE, .module = module}};
    made.message.module.id = id;
    made.payload = malloc(module_len);
    if (made.payload == NULL) {
        fuzz_fail("no memory");
    }
    memcpy(made.payload, module_bytes, module_len);
    made.payload_len = module_len;
    for (; n_changes > 0; n_changes--) {
        made.payload[fuzz_number(&w->input, 2) % module_len] ^= 1;
    }
    say_it(w, end, &made);
    made_fini(&made);
}

static void say_module(struct world *w)
{
    struct end *end = any_end(w);
    uint32_t id = (uint32_t)fuzz_below(&w->input, 4);
    send_module(w, end, id, fuzz_below(&w->input, 8) == 0 ? 2 : 0);
}

/* A frame that is no message, is longer than it may be, or does not end. */
static void say_bytes(struct world *w)
{
    struct end *end = any_end(w);
    size_t len = fuzz_number(&w->input, 1);
    const uint8_t *bytes = fuzz_bytes(&w->input, &len);
    const struct coxi_prefix prefix = {
        COXI_LINK_MAGIC, (uint32_t)fuzz_any(&w->input),
        fuzz_below(&w->input, 2) == 1 ? fuzz_any(&w->input) : 0};
    if (end->peer.fd > 0 && !end->cut) {
        (void)peer_send_bytes(&end->peer, &prefix, sizeof(prefix));
        (void)peer_send_bytes(&end->peer, bytes, len);
        end->cut = true;
    }
}

static void wait_for_all(struct world *w)
{
    settle(w, any_end(w));
}

/* ---- the world */

/* A client with both connections, whose worker is ready to run steps. */
static void begin(struct world *w, const struct coxi_session *session)
{
    struct coxi_message m = {.kind = COXI_HELLO};
    own_ps(w, session);
    m.hello = (struct coxi_hello){.version = COXI_WIRE_VERSION,
                                  .role = COXI_ROLE_CLIENT,
                                  .session = *session,
                                  .name = "",
                                  .local = ""};
    open_end(w, &w->ends[0], &m);
    m.hello.channel = COXI_CHANNEL_DATA;
    open_end(w, &w->ends[1], &m);
    send_layout(w, &w->ends[0], ps_url);
    struct made made = {.message = {.kind = COXI_MODULE, .module = module}};
    say_it(w, &w->ends[0], &made);
    if (generation == 2) {
        send_module(w, &w->ends[0], 0, 0);
    }
}

static void operate(struct world *w)
{
    static void (*const operations[])(struct world *) = {
        open_one,   close_one,  say_usual,    say_usual, say_usual, say_usual,
        say_usual,  say_usual,  say_usual,    say_usual, say_any,   say_bytes,
        say_layout, say_module, wait_for_all, say_usual};
    operations[fuzz_below(&w->input, sizeof(operations) / sizeof(*operations))](w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world w;
    const char *const texts[] = {ps_url, "ipc:///nobody/listens", "tcp://0.0.0.0:1"};
    prepare();
    /* A client of a higher generation takes the place of an older one. */
    generation += 2;
    const struct coxi_session sessions[SESSIONS] = {{1, generation, 1},
                                                    {1, generation, 2},
                                                    {1, generation - 1, 3},
                                                    {1, generation + 1, 4}};
    w = (struct world){.input = {data, size},
                       .known = {.sessions = sessions,
                                 .n_sessions = SESSIONS,
                                 .module = &module,
                                 .texts = texts,
                                 .n_texts = sizeof(texts) / sizeof(*texts)}};
    w.n_questions = QUESTIONS;
    begin(&w, &sessions[0]);
    for (int i = 0; i < OPERATIONS_MAX && w.input.left > 0; i++) {
        operate(&w);
    }
    for (size_t i = 0; i < PEERS; i++) {
        settle(&w, &w.ends[i]);
        close_end(&w.ends[i]);
    }
    peer_close(&w.owner);
    return 0;
}
