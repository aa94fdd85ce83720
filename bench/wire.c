/*
 * Case `wire`: links against raw blocking sockets, to a process of its own on this
 * host.
 *   bandwidth_1m, bandwidth_64m   payloads streamed one way into aligned memory
 *   requests_64                   64-byte requests and answers, 64 outstanding
 *   round_trip                    one outstanding
 * The first, third and last of these also with a key, by seal (none, mac, full), against
 * the same link without a key, each side on a core of its own.
 *   handshakes                    in memory, both ends of each on one core
 *   replayed handshakes           the acceptor's end, if its peer only repeats a message
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/raw.h"
#include "common/error.h"
#include "common/sync.h"
#include "net/link.h"

/* Metadata of a frame in this case: the number of bytes of the answer's metadata (0: no
 * answer). */
enum { META = 48, SAMPLES_MAX = 200000 };

struct meta {
    uint64_t answer;
    uint8_t rest[META - sizeof(uint64_t)];
};

static int send_frame(struct coxi_link *link, size_t answer,
                      const struct iovec *payload)
{
    struct meta meta = {.answer = answer};
    return coxi_link_send(link,
                          &(struct coxi_outgoing){
                              .meta = &meta,
                              .meta_len = sizeof(meta),
                              .payload = payload,
                              .n_payload = payload != NULL ? 1 : 0,
                          },
                          false);
}

/* ---- the other side: a thread for each connection, like a ps */

struct served {
    struct coxi_link *link;
    pthread_t thread;
    uint8_t *payload;
};

static void *served_payload(void *arg, struct coxi_link *link,
                            const struct coxi_frame *frame)
{
    (void)link;
    return frame->payload_len <= RAW_MAX ? ((struct served *)arg)->payload : NULL;
}

static int served_frame(void *arg, struct coxi_link *link,
                        const struct coxi_frame *frame)
{
    (void)arg;
    struct meta meta;
    memcpy(&meta, frame->meta, sizeof(meta));
    return meta.answer > 0 ? send_frame(link, 0, NULL) : 0;
}

static void served_close(void *arg, struct coxi_link *link, int code, const char *text)
{
    (void)arg;
    (void)link;
    (void)code;
    (void)text;
}

static const struct coxi_link_events served_events = {
    .on_frame = served_frame,
    .on_payload = served_payload,
    .on_close = served_close,
};

static void *served_thread(void *arg)
{
    (void)coxi_link_run(((struct served *)arg)->link);
    return NULL;
}

static void served_accepted(void *arg, struct coxi_link *link)
{
    struct served *served = arg;
    served->link = link;
    coxi_link_listen_to(link, &served_events, served);
    coxi_link_allow(link, 4096, RAW_MAX);
    bench_check(coxi_thread_start(&served->thread, "bench", served_thread, served),
                "a thread");
}

/* How a link is protected: "none", "mac" and "full" are seals with a key. */
static const char *const seals[] = {"none", "mac", "full"};
enum {
    SEALS = sizeof(seals) / sizeof(*seals),
    NO_KEY = -1,
    WAYS = SEALS + 1, /* without a key, and with each seal */
    PARTS = 10,
};

/* The guard of an end; its key is `key` and `seal` is one of the above, or NO_KEY. */
static struct coxi_guard guard_of(enum coxi_role role, int seal)
{
    return (struct coxi_guard){
        .key = {.kind = seal == NO_KEY ? COXI_KEY_NONE : COXI_KEY_RUN, .secret = {1}},
        .self = {.role = role},
        .seal = seal == NO_KEY ? COXI_SEAL_NONE : (enum coxi_seal)seal,
    };
}

/* Splits "SEAL,URL"; returns the seal, or NO_KEY for a URL without one. */
static int parse_seal(const char **url)
{
    const char *comma = strchr(*url, ',');
    for (int i = 0; comma != NULL && i < SEALS; i++) {
        if (strncmp(*url, seals[i], strlen(seals[i])) == 0) {
            *url = comma + 1;
            return i;
        }
    }
    return NO_KEY;
}

void bench_serve_link(const char *url)
{
    const struct coxi_guard guard = guard_of(COXI_ROLE_PS, parse_seal(&url));
    struct served served = {.payload = aligned_alloc(64, RAW_MAX)};
    struct coxi_listener *listener;
    if (served.payload == NULL) {
        bench_die("out of memory");
    }
    bench_check(coxi_listener_open(url, &guard, served_accepted, &served, &listener),
                "link");
    coxi_listener_start(listener);
    (void)printf("%s\n", coxi_listener_url(listener));
    (void)fflush(stdout);
    bench_child_await_end();
    _exit(0);
}

/* ---- this side */

struct side {
    struct bench_child child;
    struct coxi_link *link;
    pthread_t thread;
    uint8_t *payload;
    struct coxi_mutex lock; /* guards n_answers; leaf */
    pthread_cond_t answered;
    size_t n_answers;
    /* requests: the receiving thread sends the next request for each answer */
    atomic_bool going;
    size_t n_sent; /* used by the receiving thread while it goes */
};

static int side_frame(void *arg, struct coxi_link *link, const struct coxi_frame *frame)
{
    (void)frame;
    struct side *side = arg;
    int r = 0;
    if (atomic_load_explicit(&side->going, memory_order_relaxed)) {
        side->n_sent++;
        r = send_frame(link, META, NULL);
    }
    coxi_lock(&side->lock);
    side->n_answers++;
    if (!atomic_load_explicit(&side->going, memory_order_relaxed)) {
        (void)pthread_cond_signal(&side->answered);
    }
    coxi_unlock(&side->lock);
    return r;
}

static const struct coxi_link_events side_events = {
    .on_frame = side_frame,
    .on_close = served_close,
};

static void *side_thread(void *arg)
{
    (void)coxi_link_run(((struct side *)arg)->link);
    return NULL;
}

static void side_open(struct bench *bench, bool tcp, int seal, struct side *side)
{
    char what[160];
    const struct coxi_guard guard = guard_of(COXI_ROLE_CLIENT, seal);
    (void)snprintf(what, sizeof(what), "link=%s%s%s%s",
                   seal == NO_KEY ? "" : seals[seal], seal == NO_KEY ? "" : ",",
                   tcp ? "tcp://127.0.0.1:0" : "ipc://", tcp ? "" : bench->dir);
    (void)snprintf(what + strlen(what), sizeof(what) - strlen(what), "%s",
                   tcp ? "" : "/link");
    bench_child_start(bench, what, &side->child);
    side->payload = aligned_alloc(64, RAW_MAX);
    if (side->payload == NULL) {
        bench_die("out of memory");
    }
    memset(side->payload, 1, RAW_MAX);
    coxi_mutex_init(&side->lock);
    coxi_cond_init(&side->answered);
    bench_check(coxi_link_connect(side->child.line, &guard, 5000, &side->link), "link");
    coxi_link_listen_to(side->link, &side_events, side);
    coxi_link_allow(side->link, 4096, 4096);
    bench_check(coxi_thread_start(&side->thread, "bench", side_thread, side),
                "a thread");
}

static void side_close(struct side *side)
{
    coxi_link_close(side->link, COX_ECANCELLED, "done");
    (void)pthread_join(side->thread, NULL);
    coxi_link_unref(side->link);
    bench_child_stop(&side->child);
    (void)pthread_cond_destroy(&side->answered);
    coxi_mutex_fini(&side->lock);
    free(side->payload);
}

/* Waits until `n` answers have come since the count was 0, and sets it to 0. */
static void await_answers(struct side *side, size_t n)
{
    coxi_lock(&side->lock);
    while (side->n_answers < n) {
        coxi_wait_for_end(&side->answered, &side->lock);
    }
    side->n_answers = 0;
    coxi_unlock(&side->lock);
}

static double side_cpu(const struct side *side)
{
    return bench_cpu_self() + bench_cpu_of(side->child.pid);
}

static struct bench_sample bandwidth(struct side *side, size_t bytes, double seconds)
{
    size_t n = 0;
    size_t every = bytes >= RAW_MAX ? 2 : (size_t)RAW_MAX * 2 / bytes;
    struct iovec payload = {side->payload, bytes};
    double cpu = side_cpu(side);
    double start = bench_now();
    do {
        for (size_t i = 0; i < every; i++) {
            bench_check(send_frame(side->link, i + 1 == every ? META : 0, &payload),
                        "send");
        }
        n += every;
        await_answers(side, 1);
    } while (bench_now() - start < seconds);
    double took = bench_now() - start;
    return (struct bench_sample){
        .value = (double)n * (double)bytes / took / 1e9,
        .cpu_us = (side_cpu(side) - cpu) * 1e6 / (double)n,
    };
}

static struct bench_sample requests(struct side *side, int outstanding, double seconds)
{
    double cpu = side_cpu(side);
    double start = bench_now();
    side->n_sent = (size_t)outstanding;
    atomic_store(&side->going, true);
    for (int i = 0; i < outstanding; i++) {
        bench_check(send_frame(side->link, META, NULL), "send");
    }
    /* The receiving thread keeps the requests going. */
    struct timespec until = coxi_deadline((int)(seconds * 1000));
    coxi_lock(&side->lock);
    while (coxi_wait_until(&side->answered, &side->lock, &until)) {
    }
    atomic_store(&side->going, false);
    coxi_unlock(&side->lock);
    coxi_lock(&side->lock);
    while (side->n_answers < side->n_sent) {
        coxi_wait_for_end(&side->answered, &side->lock);
    }
    size_t n = side->n_answers;
    side->n_answers = 0;
    coxi_unlock(&side->lock);
    double took = bench_now() - start;
    return (struct bench_sample){
        .value = (double)n / took,
        .cpu_us = (side_cpu(side) - cpu) * 1e6 / (double)n,
    };
}

static struct bench_sample round_trip(struct side *side, double seconds)
{
    static double samples[SAMPLES_MAX];
    size_t n = 0;
    double cpu = side_cpu(side);
    double start = bench_now();
    double now = start;
    while (now - start < seconds && n < SAMPLES_MAX) {
        double before = now;
        bench_check(send_frame(side->link, META, NULL), "send");
        await_answers(side, 1);
        now = bench_now();
        samples[n++] = (now - before) * 1e6;
    }
    struct bench_sample sample = {
        .p50_us = bench_quantile(samples, n, 0.5),
        .p99_us = bench_quantile(samples, n, 0.99),
        .cpu_us = (side_cpu(side) - cpu) * 1e6 / (double)n,
    };
    sample.value = sample.p50_us;
    return sample;
}

static void measure_transport(struct bench *bench, bool tcp)
{
    struct side side = {0};
    struct raw raw;
    const char *params = tcp ? "{\"transport\":\"tcp\"}" : "{\"transport\":\"ipc\"}";
    double seconds = bench->seconds / BENCH_ROUNDS / 2;
    side_open(bench, tcp, NO_KEY, &side);
    raw_open(bench, tcp, &raw);
    static const struct {
        const char *name;
        size_t bytes;
    } sizes[] = {{"bandwidth_1m", 1 << 20}, {"bandwidth_64m", 64 << 20}};
    for (int s = 0; s < 2; s++) {
        struct bench_measurement m = {.name = sizes[s].name,
                                      .params = params,
                                      .unit = "GB/s",
                                      .baseline_name = "raw blocking sockets"};
        for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
            m.baseline[m.n_rounds] =
                raw_bandwidth(&raw, sizes[s].bytes, false, seconds);
            m.value[m.n_rounds] = bandwidth(&side, sizes[s].bytes, seconds);
        }
        bench_report(bench, "wire", &m);
    }
    struct bench_measurement m = {.name = "requests_64",
                                  .params = params,
                                  .unit = "1/s",
                                  .baseline_name = "raw, a write a message"};
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        m.baseline[m.n_rounds] = raw_requests(&raw, 64, 64, seconds);
        m.value[m.n_rounds] = requests(&side, 64, seconds);
    }
    bench_report(bench, "wire", &m);
    m = (struct bench_measurement){.name = "round_trip",
                                   .params = params,
                                   .unit = "us",
                                   .baseline_name = "raw round trip"};
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        m.baseline[m.n_rounds] = raw_round_trip(&raw, seconds);
        m.value[m.n_rounds] = round_trip(&side, seconds);
    }
    bench_report(bench, "wire", &m);
    raw_close(&raw);
    side_close(&side);
}

/* ---- keys and seals */

static struct bench_sample streamed(struct side *side, double seconds)
{
    return bandwidth(side, 1 << 20, seconds);
}

static struct bench_sample asked(struct side *side, double seconds)
{
    return requests(side, 64, seconds);
}

static const struct {
    const char *name;
    const char *unit;
    struct bench_sample (*measure)(struct side *side, double seconds);
} sealed[] = {{"bandwidth_1m", "GB/s", streamed},
              {"requests_64", "1/s", asked},
              {"round_trip", "us", round_trip}};

/* Adds a part of a round to the mean of the round. */
static void add_part(struct bench_sample *round, const struct bench_sample *part)
{
    round->value += part->value / PARTS;
    round->p50_us += part->p50_us / PARTS;
    round->p99_us += part->p99_us / PARTS;
    round->cpu_us += part->cpu_us / PARTS;
}

/* Measures a round: short parts of all links in turn, because on a machine that others
 * use only what runs nearly at the same time can be compared. The first link is the
 * baseline. */
static void measure_round(size_t what, struct side sides[WAYS], double seconds,
                          int round, struct bench_measurement m[WAYS])
{
    for (int part = 0; part < PARTS; part++) {
        for (int w = 0; w < WAYS; w++) {
            const struct bench_sample sample =
                sealed[what].measure(&sides[w], seconds / PARTS);
            add_part(&m[w].value[round], &sample);
        }
    }
    for (int w = 0; w < WAYS; w++) {
        m[w].baseline[round] = m[0].value[round].value;
    }
}

static void measure_ways(struct bench *bench, size_t what, struct side sides[WAYS])
{
    struct bench_measurement m[WAYS] = {0};
    double seconds = bench->seconds / BENCH_ROUNDS / WAYS;
    for (int round = 0; round < BENCH_ROUNDS; round++) {
        measure_round(what, sides, seconds, round, m);
    }
    for (int w = 0; w < WAYS; w++) {
        char params[64];
        (void)snprintf(params, sizeof(params),
                       "{\"transport\":\"tcp\",\"seal\":\"%s\"}",
                       w == 0 ? "no key" : seals[w - 1]);
        m[w].name = sealed[what].name;
        m[w].params = params;
        m[w].unit = sealed[what].unit;
        m[w].baseline_name = "the same without a key";
        m[w].n_rounds = BENCH_ROUNDS;
        bench_report(bench, "wire", &m[w]);
    }
}

/* Compares links with a key, one for each seal, with a link without a key. */
static void measure_seals(struct bench *bench)
{
    struct side sides[WAYS] = {0};
    for (int w = 0; w < WAYS; w++) {
        side_open(bench, true, w == 0 ? NO_KEY : w - 1, &sides[w]);
        bench_pin(&sides[w].child, 1);
    }
    bench_pin(NULL, 0);
    for (size_t i = 0; i < sizeof(sealed) / sizeof(*sealed); i++) {
        measure_ways(bench, i, sides);
    }
    bench_pin(NULL, BENCH_ANY_CORE);
    for (int w = 0; w < WAYS; w++) {
        side_close(&sides[w]);
    }
}

static void take(struct coxi_handshake *to, const struct coxi_handshake *from)
{
    size_t len;
    bench_check(coxi_handshake_take(to, coxi_handshake_out(from, &len)), "handshake");
}

/* How many handshakes a core does in a second, both ends of each. */
static void measure_handshakes(struct bench *bench)
{
    const struct coxi_guard client = guard_of(COXI_ROLE_CLIENT, COXI_SEAL_FULL);
    const struct coxi_guard ps = guard_of(COXI_ROLE_PS, COXI_SEAL_FULL);
    struct bench_measurement m = {
        .name = "handshakes", .params = "{}", .unit = "1/s", .baseline_name = ""};
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        double start = bench_cpu_self();
        int n = 0;
        for (; bench_cpu_self() - start < bench->seconds / BENCH_ROUNDS; n++) {
            struct coxi_handshake *dialler;
            struct coxi_handshake *acceptor;
            bench_check(coxi_handshake_dial(&client, &dialler), "handshake");
            bench_check(coxi_handshake_accept(&ps, &acceptor), "handshake");
            take(acceptor, dialler);
            take(dialler, acceptor);
            take(acceptor, dialler);
            coxi_handshake_free(dialler);
            coxi_handshake_free(acceptor);
        }
        m.value[m.n_rounds].value = n / (bench_cpu_self() - start);
    }
    bench_report(bench, "wire", &m);
}

/* How many first messages a core answers, or refuses because it has seen them
 * (`remembers`), if somebody sends a recorded one again and again. */
static void measure_replays(struct bench *bench, bool remembers)
{
    struct coxi_guard ps = guard_of(COXI_ROLE_PS, COXI_SEAL_FULL);
    const struct coxi_guard client = guard_of(COXI_ROLE_CLIENT, COXI_SEAL_FULL);
    struct coxi_handshake *dialler;
    struct bench_measurement m = {.name = "replayed handshakes",
                                  .params = remembers ? "{\"remembers\": true}"
                                                      : "{\"remembers\": false}",
                                  .unit = "1/s",
                                  .baseline_name = ""};
    size_t len;
    bench_check(coxi_handshake_dial(&client, &dialler), "handshake");
    if (remembers) {
        bench_check(coxi_seen_new(&ps.seen), "handshake");
    }
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        double start = bench_cpu_self();
        int n = 0;
        for (; bench_cpu_self() - start < bench->seconds / BENCH_ROUNDS; n++) {
            struct coxi_handshake *acceptor;
            bench_check(coxi_handshake_accept(&ps, &acceptor), "handshake");
            (void)coxi_handshake_take(acceptor, coxi_handshake_out(dialler, &len));
            coxi_handshake_free(acceptor);
        }
        m.value[m.n_rounds].value = n / (bench_cpu_self() - start);
    }
    bench_report(bench, "wire", &m);
    coxi_handshake_free(dialler);
    coxi_seen_free(ps.seen);
}

void bench_wire(struct bench *bench)
{
    measure_transport(bench, true);
    measure_transport(bench, false);
    measure_seals(bench);
    measure_handshakes(bench);
    measure_replays(bench, false);
    measure_replays(bench, true);
}
