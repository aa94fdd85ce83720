/*
 * Sequences of messages over several connections to a ps: clients that claim and
 * release it, workers and readers, rounds, long pulls that are not read, snapshots,
 * restores of files that may have been changed, connections that end in the middle. The
 * ps is served as a daemon serves it, in this process; only the key is missing. The input
 * is a list of operations.
 *
 * Checks: answers belong to requests that were made, and every request is answered unless
 * its connection ends.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/crc.h"
#include "common/file.h"
#include "common/log.h"
#include "net/link_internal.h"
#include "ps/service.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/maker.h"
#include "tests/fuzz/peer.h"
#include "tests/fuzz/rounds.h"
#include "tests/schema/samples.h"

enum {
    PEERS = 4,
    FILES = 2,
    ASKED_MAX = 64,
    INTERVALS_MAX = 32,
    OPERATIONS_MAX = 100,
    SEEING_MAX = 2, /* each may take a tenth of a second */
    MEMORY_MAX = 64 << 20,
};

static const struct coxi_session sessions[] = {
    {1, 1, 0}, {1, 2, 1}, {1, 2, 2}, {2, 1, 3}};

/* A connection to the ps. */
struct end {
    struct peer peer;
    struct coxi_session session; /* in its greeting */
    bool greeted;                /* the ps has accepted it */
    bool cut;                    /* it is in the middle of a frame */
    uint64_t asked[ASKED_MAX];   /* requests that have no answer yet */
    size_t n_asked;
};

/* What a snapshot's answer says of its file. */
struct snapshot {
    bool there;
    uint64_t bytes;
    uint32_t crc32;
    uint64_t watermark;
    struct coxi_interval applied[INTERVALS_MAX];
    size_t n_applied;
    uint32_t touched[INTERVALS_MAX];
    size_t n_touched;
};

struct world {
    struct fuzz_input input;
    struct coxi_ps *ps;
    struct known known;
    struct end ends[PEERS];
    uint64_t n_requests;
    struct snapshot snapshots[FILES];
    int n_seeing; /* pulls that had to see a round */
};

static char listen_url[160];
static char written[FILES][128]; /* the paths of snapshots that are written */
static char whole[FILES][128];   /* and the same files for restores */
static char probe[128];

/* ---- answers */

/* Takes a request out of the list; false: it is not there. */
static bool strike_out(struct end *end, uint64_t request)
{
    for (size_t i = 0; i < end->n_asked; i++) {
        if (end->asked[i] == request) {
            end->asked[i] = end->asked[--end->n_asked];
            return true;
        }
    }
    return false;
}

static void keep_snapshot(struct world *w, const struct coxi_snapshot_done *done,
                          uint64_t request)
{
    struct snapshot *s = &w->snapshots[request % FILES];
    *s = (struct snapshot){.there = done->code == 0,
                           .bytes = done->bytes,
                           .crc32 = done->crc32,
                           .watermark = done->watermark,
                           .n_applied = done->n_applied,
                           .n_touched = done->n_touched};
    if (done->n_applied > INTERVALS_MAX || done->n_touched > INTERVALS_MAX) {
        s->there = false;
    }
    for (size_t i = 0; s->there && i < done->n_applied; i++) {
        s->applied[i] = done->applied[i];
    }
    for (size_t i = 0; s->there && i < done->n_touched; i++) {
        s->touched[i] = done->touched[i];
    }
}

/* The next frame of the ps. False: the connection is over. */
static bool hear(struct world *w, struct end *end)
{
    struct peer_frame frame;
    if (!peer_next(&end->peer, &frame)) {
        end->n_asked = 0;
        return false;
    }
    const struct coxi_message *m = &frame.message;
    if (m->kind == COXI_HELLO) {
        end->greeted = true;
        w->known.incarnation = m->hello.incarnation;
    } else if (m->kind == COXI_STATUS && m->request == 0) {
        return true; /* another client has taken the ps */
    } else if (m->kind != COXI_REFUSE && !strike_out(end, m->request) &&
               m->request > w->n_requests) {
        fuzz_fail("an answer to no request");
    }
    if (m->kind == COXI_SNAPSHOT_DONE) {
        keep_snapshot(w, &m->snapshot_done, m->request);
    } else if (m->kind == COXI_STATUS && m->status.code == 0 &&
               m->status.incarnation != 0) {
        w->known.incarnation = m->status.incarnation;
    }
    return true;
}

/* Waits until all requests of the connection are answered. */
static void settle(struct world *w, struct end *end)
{
    while (!end->cut && end->n_asked > 0 && hear(w, end)) {
    }
}

/* ---- connections */

static void close_end(struct end *end)
{
    peer_close(&end->peer);
    end->greeted = end->cut = false;
    end->n_asked = 0;
}

static void open_end(struct world *w, struct end *end, const struct coxi_message *hello)
{
    close_end(end);
    end->session = hello->hello.session;
    peer_dial(&end->peer, listen_url + strlen("ipc://"));
    if (peer_send(&end->peer, hello, NULL, 0)) {
        (void)hear(w, end);
    }
}

static struct end *any_end(struct world *w)
{
    return &w->ends[fuzz_below(&w->input, PEERS)];
}

static void open_one(struct world *w)
{
    struct made made;
    struct end *end = any_end(w);
    w->known.own = NULL;
    made_init(&made, &w->input, &w->known, COXI_HELLO);
    if (fuzz_below(&w->input, 2) == 1) {
        made.message.hello.role = COXI_ROLE_CLIENT;
    }
    open_end(w, end, &made.message);
    made_fini(&made);
}

static void close_one(struct world *w)
{
    close_end(any_end(w));
}

/* ---- requests */

/* Sends it, and may wait for the answers. */
static void ask_and(struct world *w, struct end *end, struct coxi_message *m,
                    const void *payload, size_t len, bool waits)
{
    if (!end->greeted || end->cut) {
        return;
    }
    if (end->n_asked == ASKED_MAX) {
        settle(w, end);
    }
    /* a snapshot's number tells its file */
    size_t file = m->kind == COXI_SNAPSHOT && m->snapshot.path == written[1] ? 1 : 0;
    w->n_requests += w->n_requests % FILES == file ? FILES : 1;
    m->request = w->n_requests;
    /* a turn of a carry is answered when the carry begins or ends */
    if (m->kind != COXI_WATERMARK && m->kind != COXI_EXCHANGE) {
        end->asked[end->n_asked++] = m->request;
    }
    if (!peer_send(&end->peer, m, payload, len) || waits) {
        settle(w, end);
    }
}

/* Waits for the answers unless the input says otherwise. */
static void ask(struct world *w, struct end *end, struct coxi_message *m,
                const void *payload, size_t len)
{
    ask_and(w, end, m, payload, len, fuzz_below(&w->input, 4) != 3);
}

static void say(struct world *w, enum coxi_message_kind kind)
{
    struct made made;
    struct end *end = any_end(w);
    w->known.own = &end->session;
    made_init(&made, &w->input, &w->known, kind);
    if (fuzz_below(&w->input, 8) != 7 && kind == COXI_CLAIM) {
        made.message.claim.session = end->session; /* nobody may claim for others */
    }
    if (kind == COXI_SNAPSHOT) {
        made.message.snapshot.carry = 0; /* otherwise the ps waits for turns */
    } else if (kind == COXI_RESTORE) {
        made.message.restore.carry = 0;
    }
    ask(w, end, &made.message, made.payload, made.payload_len);
    made_fini(&made);
}

/* Any message, which may close the connection. */
static void say_any(struct world *w)
{
    say(w, (enum coxi_message_kind)(1 + fuzz_below(&w->input, SAMPLE_KINDS)));
}

static void say_usual(struct world *w)
{
    static const enum coxi_message_kind usual[] = {
        COXI_CLAIM,  COXI_CREATE,  COXI_CREATE,    COXI_COMMIT,
        COXI_COMMIT, COXI_PULL,    COXI_PULL,      COXI_LOAD,
        COXI_VOID,   COXI_RELEASE, COXI_WATERMARK, COXI_SNAPSHOT,
        COXI_COUNT,  COXI_PROBE,   COXI_DESCRIBE,  COXI_RESTORE};
    say(w, usual[fuzz_below(&w->input, sizeof(usual) / sizeof(*usual))]);
}

/* ---- rounds */

static void create_for_rounds(struct world *w, struct end *end)
{
    for (size_t i = 0; i < ROUND_VARIABLES; i++) {
        struct coxi_message m = {.kind = COXI_CREATE};
        m.create = (struct coxi_create){.session = end->session,
                                        .closure = 1 + i,
                                        .variable = *fuzz_round_variable(i),
                                        .incarnation = w->known.incarnation};
        ask_and(w, end, &m, NULL, 0, true);
    }
}

static void create_again(struct world *w)
{
    create_for_rounds(w, any_end(w));
}

static void commit_round(struct world *w, struct end *end, struct fuzz_round *round)
{
    struct coxi_message m = {.kind = COXI_COMMIT};
    round->commit.session = end->session;
    round->commit.incarnation = w->known.incarnation;
    m.commit = round->commit;
    ask(w, end, &m, round->payload, round->len);
}

static void wait_in_round(struct world *w)
{
    struct fuzz_round round;
    uint64_t r = fuzz_below(&w->input, ROUNDS);
    fuzz_round_wait(&w->input, r, fuzz_below(&w->input, r + 1), &round);
    commit_round(w, any_end(w), &round);
}

static void end_round(struct world *w)
{
    struct fuzz_round round;
    fuzz_round_end(&w->input, fuzz_below(&w->input, ROUNDS), &round);
    commit_round(w, any_end(w), &round);
}

/* All closures of a round, and then its end, over one connection. */
static void fill_round(struct world *w)
{
    struct fuzz_round round;
    struct end *end = any_end(w);
    uint64_t r = fuzz_below(&w->input, ROUNDS);
    for (uint64_t i = 0; i <= r; i++) {
        fuzz_round_wait(&w->input, r, i, &round);
        commit_round(w, end, &round);
    }
    fuzz_round_end(&w->input, r, &round);
    commit_round(w, end, &round);
}

/* A pull that must see a round, which may end meanwhile. */
static void see_round(struct world *w)
{
    struct end *end = any_end(w);
    const struct coxi_pull_item item = {.variable = fuzz_round_variable(0)->id,
                                        .count = 2};
    struct coxi_message m = {.kind = COXI_PULL};
    m.pull = (struct coxi_pull){.session = end->session,
                                .incarnation = w->known.incarnation,
                                .items = &item,
                                .n_items = 1,
                                .after = fuzz_round_id(fuzz_below(&w->input, ROUNDS))};
    if (w->n_seeing++ < SEEING_MAX) {
        ask(w, end, &m, NULL, 0);
    }
}

/* ---- files */

static void snapshot(struct world *w)
{
    struct end *end = any_end(w);
    struct coxi_message m = {.kind = COXI_SNAPSHOT};
    m.snapshot = (struct coxi_snapshot){.session = end->session,
                                        .number = 1 + fuzz_below(&w->input, 8),
                                        .path = written[fuzz_below(&w->input, FILES)],
                                        .base = fuzz_below(&w->input, 4),
                                        .track = fuzz_below(&w->input, 2) == 1,
                                        .incarnation = w->known.incarnation};
    ask(w, end, &m, NULL, 0);
}

/* Copies the file, with some bytes changed; returns its checksum. */
static uint32_t change(struct world *w, size_t i, uint64_t bytes)
{
    size_t len = 0;
    uint8_t *data = NULL;
    uint32_t crc = 0;
    if (coxi_file_read(written[i], bytes, &data, &len) != 0 || len == 0) {
        free(data);
        return 0;
    }
    for (size_t n = fuzz_below(&w->input, 6); n > 0; n--) {
        data[fuzz_number(&w->input, 2) % len] = (uint8_t)fuzz_number(&w->input, 1);
    }
    int fd = open(whole[i], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || coxi_fd_write(fd, data, len) != 0) {
        fuzz_fail("a file cannot be written");
    }
    (void)close(fd);
    crc = coxi_crc32(0, data, len);
    free(data);
    return crc;
}

static void restore(struct world *w)
{
    struct end *end = any_end(w);
    size_t i = fuzz_below(&w->input, FILES);
    const struct snapshot *s = &w->snapshots[i];
    if (!s->there) {
        return;
    }
    struct coxi_message m = {.kind = COXI_RESTORE};
    m.restore = (struct coxi_restore){.session = end->session,
                                      .round = fuzz_below(&w->input, 8),
                                      .path = whole[i],
                                      .bytes = s->bytes,
                                      .crc32 = change(w, i, s->bytes),
                                      .watermark = s->watermark,
                                      .applied = s->applied,
                                      .n_applied = s->n_applied,
                                      .touched = s->touched,
                                      .n_touched = s->n_touched,
                                      .at = fuzz_below(&w->input, 3),
                                      .incarnation = w->known.incarnation,
                                      .more = fuzz_below(&w->input, 4) == 0};
    ask(w, end, &m, NULL, 0);
}

/* ---- what is no message */

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
        if (fuzz_below(&w->input, 4) != 3) {
            (void)peer_send_bytes(&end->peer, &prefix, sizeof(prefix));
        }
        (void)peer_send_bytes(&end->peer, bytes, len);
        end->cut = true;
    }
}

static void wait_for_all(struct world *w)
{
    settle(w, any_end(w));
}

static void tick(struct world *w)
{
    coxi_ps_tick(w->ps);
}

/* ---- the world */

static void prepare(void)
{
    if (*listen_url != '\0') {
        return;
    }
    coxi_log_to(open("/dev/null", O_WRONLY | O_CLOEXEC));
    for (int i = 0; i < FILES; i++) {
        char dir[PATH_MAX];
        (void)coxi_path(dir, "%s/ckpt-%d.tmp", fuzz_dir(), i);
        (void)mkdir(dir, 0700);
        (void)snprintf(written[i], sizeof(written[i]),
                       "%s/ckpt-%d.tmp/ps-0-of-1.safetensors", fuzz_dir(), i);
        (void)coxi_path(dir, "%s/ckpt-%d", fuzz_dir(), i);
        (void)mkdir(dir, 0700);
        (void)snprintf(whole[i], sizeof(whole[i]), "%s/ckpt-%d/ps-0-of-1.safetensors",
                       fuzz_dir(), i);
    }
    (void)snprintf(probe, sizeof(probe), "%s/.coxswain-probe-0123456789abcdef",
                   fuzz_dir());
    (void)snprintf(listen_url, sizeof(listen_url), "ipc://%s/ps", fuzz_dir());
    (void)close(open(probe, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

/* A client that has claimed the ps, which has variables for rounds. */
static void begin(struct world *w)
{
    struct coxi_message m = {.kind = COXI_HELLO};
    m.hello = (struct coxi_hello){.version = COXI_WIRE_VERSION,
                                  .role = COXI_ROLE_CLIENT,
                                  .session = sessions[0],
                                  .name = "",
                                  .local = ""};
    open_end(w, &w->ends[0], &m);
    m = (struct coxi_message){.kind = COXI_CLAIM, .claim = {.session = sessions[0]}};
    ask(w, &w->ends[0], &m, NULL, 0);
    settle(w, &w->ends[0]);
    create_for_rounds(w, &w->ends[0]);
}

static void operate(struct world *w)
{
    static void (*const operations[])(struct world *) = {
        open_one,  close_one, say_usual, say_usual, say_usual, say_usual,
        say_usual, say_usual, say_usual, say_usual, say_any,   wait_for_all,
        tick,      snapshot,  restore,   say_bytes};
    static void (*const rounds[])(struct world *) = {
        wait_in_round, wait_in_round, end_round,    fill_round,
        fill_round,    see_round,     create_again, fill_round,
    };
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
    const char *const texts[] = {written[0], whole[0], written[1], whole[1], probe};
    prepare();
    w = (struct world){.input = {data, size},
                       .known = {.sessions = sessions,
                                 .n_sessions = sizeof(sessions) / sizeof(*sessions),
                                 .texts = texts,
                                 .n_texts = sizeof(texts) / sizeof(*texts)}};
    const struct coxi_ps_options options = {.listen = listen_url,
                                            .peer_timeout_ms = 600000,
                                            .memory_max = MEMORY_MAX,
                                            .checkpoint_root = fuzz_dir()};
    if (coxi_ps_open(&options, &w.ps) != 0) {
        fuzz_fail("no ps");
    }
    begin(&w);
    for (int i = 0; i < OPERATIONS_MAX && w.input.left > 0; i++) {
        operate(&w);
    }
    for (size_t i = 0; i < PEERS; i++) {
        settle(&w, &w.ends[i]);
        close_end(&w.ends[i]);
    }
    coxi_ps_close(w.ps);
    return 0;
}
