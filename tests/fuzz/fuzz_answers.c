/*
 * What a hostile ps answers its clients and workers (net/ps_client): in any order,
 * twice, to requests that were never made, with another kind of message, with payloads
 * that are too long or too short; it also hangs up, refuses, and greets as somebody
 * else.
 *
 * Checks: every request ends once, and its answer can be read.
 */
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/ps_client.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/maker.h"
#include "tests/fuzz/peer.h"
#include "tests/schema/samples.h"

enum {
    PEERS = 4,
    ASKED = 16,
    INTO = 256,
    OPERATIONS_MAX = 60,
    TIMEOUT_MS = 600000,
    FIRST_MS = 10000,
    HEAR_MS = 1,
    PS_INDEX = 3,
    INCARNATION = 77,
};

struct asked {
    struct coxi_psc_request request;
    bool submitted;
    atomic_int n_done;
    uint8_t into[INTO];
};

struct world {
    struct fuzz_input input;
    struct known known;
    struct coxi_psc *psc;
    struct asked asked[ASKED];
    size_t n_asked;
    struct peer peers[PEERS];
    size_t next; /* the peer that the next connection takes */
    uint64_t ids[ASKED];
    size_t n_ids;
};

static char url[160];
static int listener = -1;
static _Atomic uint64_t sum;

static void prepare(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (listener >= 0) {
        return;
    }
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/ps", fuzz_dir());
    (void)snprintf(url, sizeof(url), "ipc://%s", address.sun_path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 ||
        bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(listener, PEERS) != 0) {
        fuzz_fail("no listener");
    }
}

/* ---- the ps */

static void say_hello(struct world *w, struct peer *peer)
{
    struct coxi_message m = {.kind = COXI_HELLO};
    m.hello = (struct coxi_hello){.version = COXI_WIRE_VERSION,
                                  .role = COXI_ROLE_PS,
                                  .index = PS_INDEX,
                                  .incarnation = w->known.incarnation,
                                  .name = "",
                                  .local = ""};
    (void)peer_send(peer, &m, NULL, 0);
}

/* Takes a connection, if one comes in this time. */
static void take_one(struct world *w, int wait_ms)
{
    struct pollfd at = {listener, POLLIN, 0};
    if (poll(&at, 1, wait_ms) <= 0) {
        return;
    }
    int fd = accept(listener, NULL, NULL);
    if (fd > 0) {
        struct peer *peer = &w->peers[w->next++ % PEERS];
        peer_take(peer, fd);
        if (fuzz_below(&w->input, 16) != 15) {
            say_hello(w, peer);
        }
    }
}

/* Takes what has come. */
static void hear(struct world *w)
{
    take_one(w, HEAR_MS);
    for (size_t i = 0; i < PEERS; i++) {
        struct peer_frame frame;
        while (peer_has(&w->peers[i]) && peer_next(&w->peers[i], &frame)) {
            w->ids[w->n_ids++ % ASKED] = frame.message.request;
        }
    }
}

static void say(struct world *w, enum coxi_message_kind kind)
{
    struct made made;
    struct peer *peer = &w->peers[fuzz_below(&w->input, PEERS)];
    made_init(&made, &w->input, &w->known, kind);
    uint64_t n = fuzz_below(&w->input, (uint64_t)2 * ASKED);
    made.message.request = n < ASKED ? w->ids[n] : n % ASKED;
    if (kind == COXI_PULLED && fuzz_below(&w->input, 2) == 1) {
        made_payload(&made, &w->input, INTO);
    }
    if (peer->fd > 0 && !peer->over) {
        (void)peer_send(peer, &made.message, made.payload, made.payload_len);
    }
    made_fini(&made);
}

static void answer(struct world *w)
{
    static const enum coxi_message_kind usual[] = {
        COXI_PULLED, COXI_PULLED, COXI_COMMITTED, COXI_STATUS,
        COXI_COUNTS, COXI_VOIDED, COXI_LAYOUT,    COXI_SNAPSHOT_DONE};
    say(w, usual[fuzz_below(&w->input, sizeof(usual) / sizeof(*usual))]);
}

static void answer_any(struct world *w)
{
    say(w, (enum coxi_message_kind)(1 + fuzz_below(&w->input, SAMPLE_KINDS)));
}

static void hang_up(struct world *w)
{
    peer_close(&w->peers[fuzz_below(&w->input, PEERS)]);
}

/* ---- its client */

/* Reads the whole answer. */
static void done(struct coxi_psc_request *request, int code,
                 const struct coxi_message *message, void *payload, size_t payload_len)
{
    struct asked *asked = (struct asked *)request;
    const uint8_t *bytes = payload;
    uint64_t all = 0;
    for (size_t i = 0; code == 0 && i < payload_len; i++) {
        all += bytes[i];
    }
    if (code == 0) {
        all += message->request;
    }
    atomic_fetch_add(&sum, all);
    atomic_fetch_add(&asked->n_done, 1);
}

/* True if the ps client would send such a message. */
static bool is_valid(const struct coxi_message *message)
{
    const void *bytes;
    size_t len;
    struct coxi_message decoded;
    return coxi_message_encode(message, &bytes, &len) &&
           coxi_message_decode(bytes, len, &decoded);
}

static void ask(struct world *w)
{
    static const enum coxi_message_kind kinds[] = {
        COXI_PULL,  COXI_PULL, COXI_COMMIT,  COXI_COUNT,
        COXI_CLAIM, COXI_VOID, COXI_DESCRIBE};
    struct made made;
    if (w->n_asked == ASKED) {
        return;
    }
    struct asked *asked = &w->asked[w->n_asked++];
    made_init(&made, &w->input, &w->known,
              kinds[fuzz_below(&w->input, sizeof(kinds) / sizeof(*kinds))]);
    asked->request.done = done;
    asked->request.answer_len = fuzz_below(&w->input, 2) == 1 ? INTO : 1 << 20;
    if (made.message.kind == COXI_PULL) {
        asked->request.into = asked->into;
        asked->request.into_len = INTO;
    }
    asked->submitted =
        is_valid(&made.message) &&
        coxi_psc_submit_now(w->psc, &made.message, &asked->request, false) == 0;
    made_fini(&made);
}

static void tick(struct world *w)
{
    coxi_psc_tick(w->psc);
}

/* ---- the world */

static void operate(struct world *w)
{
    static void (*const operations[])(struct world *) = {
        ask,    ask,    hear,       hear,    answer, answer,
        answer, answer, answer_any, hang_up, tick};
    operations[fuzz_below(&w->input, sizeof(operations) / sizeof(*operations))](w);
}

static void end(struct world *w, struct coxi_links *links)
{
    coxi_psc_close(w->psc);
    coxi_links_free(links);
    for (size_t i = 0; i < PEERS; i++) {
        peer_close(&w->peers[i]);
    }
    take_one(w, 0); /* whoever has dialled last */
    peer_close(&w->peers[(w->next + PEERS - 1) % PEERS]);
    for (size_t i = 0; i < w->n_asked; i++) {
        if (atomic_load(&w->asked[i].n_done) != (w->asked[i].submitted ? 1 : 0)) {
            fuzz_fail("a request has not ended once");
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world w;
    static const struct coxi_session sessions[] = {{1, 1, 1}, {1, 2, 2}};
    static const char *const texts[] = {"x"};
    struct coxi_links *links = NULL;
    prepare();
    memset(&w, 0, sizeof(w));
    w.input = (struct fuzz_input){data, size};
    w.known = (struct known){.sessions = sessions,
                             .n_sessions = 2,
                             .incarnation = INCARNATION,
                             .texts = texts,
                             .n_texts = 1};
    const struct coxi_psc_options options = {
        .address = url,
        .index = PS_INDEX,
        .self = {.role = COXI_ROLE_WORKER, .index = 1, .incarnation = 1},
        .connect_ms = TIMEOUT_MS,
        .reconnect_ms = -1,
        .request_ms = TIMEOUT_MS};
    struct coxi_psc_options with_links = options;
    if (coxi_links_new(TIMEOUT_MS, &links) != 0) {
        return 0;
    }
    with_links.links = links;
    if (coxi_psc_open(&with_links, &w.psc) != 0) {
        fuzz_fail("no client of the ps");
    }
    take_one(&w, FIRST_MS);
    for (int i = 0; i < OPERATIONS_MAX && w.input.left > 0; i++) {
        operate(&w);
    }
    end(&w, links);
    return 0;
}
