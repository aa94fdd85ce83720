/* See net.h. A connection is two links, one on each side; pieces sent to a link wait in
 * its line until its receiving fiber takes them, each when it is due. Links are not
 * freed before the run ends. */
#include "tests/sim/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/sync.h"
#include "net/link.h"
#include "schema/wire.h"
#include "tests/sim/listeners.h"
#include "tests/sim/messages.h"
#include "tests/sim/net_internal.h"
#include "tests/sim/sched.h"
#include "tests/sim/trace.h"

enum {
    LATENCY_MIN = 30,
    LATENCY_MAX = 150,    /* us */
    HICCUP_ONE_IN = 400,  /* frames */
    LONG_PAYLOAD = 65536, /* the owner is asked where to receive it */
};

/* A frame on its way, or the end of the connection. */
struct piece {
    struct piece *next;
    uint64_t at;
    bool is_end;
    bool is_accepted; /* handed out; for the trace */
    size_t meta_len;
    size_t payload_len;
    _Alignas(16) uint8_t bytes[]; /* metadata, zeros to a multiple of 16, payload */
};

static struct {
    struct coxi_link *open;
    /* when the hosts reach each other again */
    uint64_t parted[SIM_NODES_MAX][SIM_NODES_MAX];
    uint64_t n_sent;
    void (*seen)(const struct sim_sending *sending);
} net;

void sim_net_begin(void)
{
    memset(&net, 0, sizeof(net));
    sim_listeners_begin();
}

uint64_t sim_net_sent(void)
{
    return net.n_sent;
}

/* ---- hosts */

void sim_net_part(uint32_t a, uint32_t b, uint64_t until)
{
    sim_trace("hosts %u and %u are parted for %llu ms", a, b,
              (unsigned long long)((until - sim_now()) / SIM_MS));
    net.parted[a][b] = net.parted[b][a] = until;
}

uint64_t sim_net_parted_until(const struct coxi_link *link)
{
    return net.parted[link->proc->node][link->peer_node];
}

/* The host in "tcp://h<node>:<port>". */
static uint32_t node_of(const char *url)
{
    const char *at = strstr(url, "//h");
    return at != NULL ? (uint32_t)strtoul(at + 3, NULL, 10) % SIM_NODES_MAX : 0;
}

/* ---- pieces */

void sim_net_watch(void (*seen)(const struct sim_sending *sending))
{
    net.seen = seen;
}

/* Asks the watcher how much longer the piece takes. */
static uint64_t tell_watcher(const struct coxi_link *from, const struct piece *piece)
{
    uint64_t delay = 0;
    struct coxi_message m;
    if (net.seen != NULL && !piece->is_end &&
        coxi_message_decode(piece->bytes, piece->meta_len, &m)) {
        net.seen(&(struct sim_sending){from->proc, from->peer->proc, &m, &delay});
    }
    return delay;
}

static void trace_piece(const struct coxi_link *from, const struct piece *piece)
{
    struct coxi_message m;
    char more[400];
    if (piece->is_end) {
        sim_trace("%s -> %s: end of the connection", from->proc->name,
                  from->peer->proc->name);
    } else if (coxi_message_decode(piece->bytes, piece->meta_len, &m)) {
        sim_message_tell(&m, more, sizeof(more));
        sim_trace("%s -> %s: %s%s (request %llu), arrives at %.6f", from->proc->name,
                  from->peer->proc->name, sim_message_name(m.kind), more,
                  (unsigned long long)m.request, (double)piece->at / 1e9);
    }
}

static uint64_t draw_latency(void)
{
    uint64_t us = sim_between(LATENCY_MIN, LATENCY_MAX);
    if (sim_chance(HICCUP_ONE_IN)) {
        us += sim_below(sim_chance(4) ? 100000 : 3000);
    }
    return us * SIM_US;
}

/* Puts a piece in line for the other side, which may be gone. */
static void post(struct coxi_link *from, struct piece *piece)
{
    struct coxi_link *to = from->peer;
    uint64_t at = sim_now() + draw_latency() + to->delay + tell_watcher(from, piece);
    piece->at = to->last != NULL && to->last->at > at ? to->last->at : at;
    piece->next = NULL;
    if (sim_traces) {
        trace_piece(from, piece);
    }
    if (to->closed) {
        return;
    }
    if (to->last != NULL) {
        to->last->next = piece;
    } else {
        to->first = piece;
    }
    to->last = piece;
    if (to->first == piece && to->receiver != NULL) {
        sim_wake_at(to->receiver, piece->at);
    }
}

/* Drops the pieces under way from some point on. */
static void lose_some(struct coxi_link *to)
{
    size_t n = 0;
    for (const struct piece *p = to->first; p != NULL; p = p->next) {
        n++;
    }
    uint64_t keep = sim_below(n + 1);
    struct piece **at = &to->first;
    to->last = NULL;
    for (uint64_t i = 0; i < keep && *at != NULL; i++) {
        to->last = *at;
        at = &(*at)->next;
    }
    *at = NULL;
}

/* ---- links */

static struct coxi_link *link_new(struct sim_proc *proc, uint32_t peer_node)
{
    struct coxi_link *link = calloc(1, sizeof(*link));
    link->proc = proc;
    link->peer_node = peer_node;
    link->heard_ms = sim_now() / SIM_MS;
    link->next = net.open;
    link->back = &net.open;
    if (net.open != NULL) {
        net.open->back = &link->next;
    }
    net.open = link;
    return link;
}

/* Closes the link: nothing is received or sent any more. */
static bool shut(struct coxi_link *link, int code, const char *text, bool loses)
{
    if (link->closed) {
        return false;
    }
    link->closed = true;
    link->code = code;
    (void)snprintf(link->text, sizeof(link->text), "%s", text);
    *link->back = link->next;
    if (link->next != NULL) {
        link->next->back = link->back;
    }
    if (loses && sim_chance(2)) {
        lose_some(link->peer);
    }
    struct piece *end = calloc(1, sizeof(*end));
    end->is_end = true;
    post(link, end);
    (void)sim_wake(link->receiver);
    return true;
}

void coxi_link_close(struct coxi_link *link, int code, const char *text)
{
    (void)shut(link, code, text, true);
}

void coxi_link_finish(struct coxi_link *link, int code, const char *text)
{
    (void)shut(link, code, text, false);
}

bool coxi_link_closed(struct coxi_link *link)
{
    return link->closed;
}

struct coxi_link *coxi_link_ref(struct coxi_link *link)
{
    return link;
}

void coxi_link_unref(struct coxi_link *link)
{
    (void)link;
}

void coxi_link_listen_to(struct coxi_link *link, const struct coxi_link_events *events,
                         void *arg)
{
    link->events = events;
    link->arg = arg;
}

void coxi_link_allow(struct coxi_link *link, size_t meta_max, size_t payload_max)
{
    (void)link;
    (void)meta_max;
    (void)payload_max;
}

/* ---- sending */

static size_t payload_len(const struct coxi_outgoing *frame)
{
    size_t len = 0;
    for (size_t i = 0; i < frame->n_payload; i++) {
        len += frame->payload[i].iov_len;
    }
    return len;
}

static size_t aligned(size_t len)
{
    return (len + 15) / 16 * 16;
}

int coxi_link_put(struct coxi_link *link, const struct coxi_outgoing *frame, bool later,
                  bool *ret_due)
{
    (void)later;
    *ret_due = false;
    int r = link->closed ? coxi_error(COX_ECLOSED, "the connection is closed") : 0;
    if (r == 0) {
        size_t len = payload_len(frame);
        struct piece *piece = malloc(sizeof(*piece) + aligned(frame->meta_len) + len);
        *piece = (struct piece){.meta_len = frame->meta_len, .payload_len = len};
        memcpy(piece->bytes, frame->meta, frame->meta_len);
        uint8_t *to = piece->bytes + aligned(frame->meta_len);
        for (size_t i = 0; i < frame->n_payload; i++) {
            if (frame->payload[i].iov_len > 0) {
                memcpy(to, frame->payload[i].iov_base, frame->payload[i].iov_len);
                to += frame->payload[i].iov_len;
            }
        }
        net.n_sent++;
        post(link, piece);
    }
    if (frame->release != NULL) {
        frame->release(frame->arg);
    }
    return r;
}

int coxi_link_send(struct coxi_link *link, const struct coxi_outgoing *frame,
                   bool later)
{
    bool due;
    return coxi_link_put(link, frame, later, &due);
}

void coxi_link_flush(struct coxi_link *link)
{
    (void)link;
}

int coxi_link_send_made(struct coxi_link *link, const struct coxi_made *frame)
{
    size_t room = frame->payload_len + COXI_LINK_MADE_ROOM;
    uint8_t *bytes = malloc(room);
    size_t have = 0;
    int r = 0;
    while (r == 0 && have < frame->payload_len) {
        size_t n = 0;
        r = frame->make(frame->arg, bytes + have, room - have, &n);
        have += n;
    }
    if (r == 0) {
        const struct iovec payload = {bytes, have};
        const struct coxi_outgoing whole = {.meta = frame->meta,
                                            .meta_len = frame->meta_len,
                                            .payload = &payload,
                                            .n_payload = 1};
        r = coxi_link_send(link, &whole, false);
    } else {
        coxi_link_close(link, r, coxi_error_text());
    }
    free(bytes);
    return r;
}

size_t coxi_link_queued(struct coxi_link *link)
{
    (void)link;
    return 0;
}

int coxi_link_wait_room(struct coxi_link *link, size_t bytes)
{
    (void)bytes;
    return link->closed ? coxi_error(COX_ECLOSED, "the connection is closed") : 0;
}

/* ---- receiving */

/* Hands out one frame. */
static int hand_out(struct coxi_link *link, struct piece *piece)
{
    struct coxi_frame frame = {.meta = piece->bytes, .meta_len = piece->meta_len};
    void *bytes = piece->bytes + aligned(piece->meta_len);
    frame.payload_len = piece->payload_len;
    if (piece->payload_len >= LONG_PAYLOAD && link->events->on_payload != NULL) {
        void *into = link->events->on_payload(link->arg, link, &frame);
        if (into != NULL) {
            memcpy(into, bytes, piece->payload_len);
            bytes = into;
        }
    }
    frame.payload = piece->payload_len > 0 ? bytes : NULL;
    return link->events->on_frame(link->arg, link, &frame);
}

/* The next piece that has arrived; waits for it, after `on_batch`. NULL: there will be
 * none. */
static struct piece *take_piece(struct coxi_link *link, bool *in_batch)
{
    while (!link->closed) {
        struct piece *piece = link->first;
        uint64_t parted = sim_net_parted_until(link);
        uint64_t at = piece == NULL        ? SIM_NEVER
                      : piece->at > parted ? piece->at
                                           : parted;
        if (at <= sim_now()) {
            link->first = piece->next;
            link->last = link->first == NULL ? NULL : link->last;
            return piece;
        }
        if (*in_batch && link->events->on_batch != NULL) {
            *in_batch = false;
            link->events->on_batch(link->arg, link);
            continue;
        }
        *in_batch = false;
        link->receiver = sim_self();
        (void)sim_wait(NULL, at, "a message");
        link->receiver = NULL;
    }
    return NULL;
}

int coxi_link_run(struct coxi_link *link)
{
    bool in_batch = false;
    struct piece *piece;
    while ((piece = take_piece(link, &in_batch)) != NULL) {
        int r = 0;
        if (piece->is_end) {
            (void)shut(link, COX_ECLOSED, "the peer has closed the connection", true);
        } else {
            r = hand_out(link, piece);
            in_batch = true;
        }
        free(piece);
        if (r != 0) {
            coxi_link_close(link, r, coxi_error_text());
        }
    }
    if (in_batch && link->events->on_batch != NULL) {
        link->events->on_batch(link->arg, link);
    }
    coxi_links_drop(link);
    link->events->on_close(link->arg, link, link->code, link->text);
    return link->code;
}

static void *run(void *arg)
{
    (void)coxi_link_run(arg);
    return NULL;
}

void coxi_link_start(struct coxi_link *link)
{
    sim_spawn(link->proc, "net", run, link)->detached = true;
}

/* ---- connecting */

struct accepting {
    struct coxi_listener *listener;
    struct coxi_link *link;
};

static void *accept(void *arg)
{
    struct accepting *accepting = arg;
    struct coxi_listener *listener = accepting->listener;
    listener->accepted(listener->arg, accepting->link);
    listener->n_accepting--;
    sim_wake_all(&listener->quiet);
    free(accepting);
    return NULL;
}

int coxi_link_connect(const char *url, const struct coxi_guard *guard, int timeout_ms,
                      struct coxi_link **ret)
{
    (void)guard; /* simulated runs have no key */
    uint64_t end =
        timeout_ms < 0 ? SIM_NEVER : sim_now() + (uint64_t)timeout_ms * SIM_MS;
    struct sim_proc *self = sim_self_proc();
    uint32_t node = node_of(url);
    sim_sleep(draw_latency());
    while (sim_now() < net.parted[self->node][node] && sim_now() < end) {
        uint64_t until = net.parted[self->node][node];
        sim_sleep((until < end ? until : end) - sim_now());
    }
    if (sim_now() >= end) {
        return coxi_error(COX_ETIMEDOUT, "cannot reach %s: timed out", url);
    }
    struct coxi_listener *listener = sim_listener_find(url);
    if (listener == NULL) {
        return coxi_error(COX_EREFUSED, "cannot reach %s: connection refused", url);
    }
    struct coxi_link *near = link_new(self, node);
    struct coxi_link *far = link_new(listener->proc, self->node);
    struct accepting *accepting = malloc(sizeof(*accepting));
    near->peer = far;
    far->peer = near;
    *accepting = (struct accepting){listener, far};
    listener->n_accepting++;
    sim_spawn(listener->proc, "accept", accept, accepting)->detached = true;
    *ret = near;
    return 0;
}

/* A simulated connect is not ended early: it ends with its time. */
int coxi_dial_new(struct coxi_dial **ret)
{
    *ret = NULL;
    return 0;
}

void coxi_dial_begin(struct coxi_dial *dial)
{
    (void)dial;
}

int coxi_dial_link(struct coxi_dial *dial, const char *url,
                   const struct coxi_guard *guard, int timeout_ms,
                   struct coxi_link **ret)
{
    (void)dial;
    return coxi_link_connect(url, guard, timeout_ms, ret);
}

void coxi_dial_abort(struct coxi_dial *dial)
{
    (void)dial;
}

void coxi_dial_free(struct coxi_dial *dial)
{
    (void)dial;
}

struct connecting {
    char url[COXI_URL_MAX + 1];
    int timeout_ms;
    coxi_link_connected done;
    void *arg;
};

static void *connect_later(void *arg)
{
    struct connecting *connecting = arg;
    struct coxi_link *link = NULL;
    int r = coxi_link_connect(connecting->url, NULL, connecting->timeout_ms, &link);
    connecting->done(connecting->arg, r, r != 0 ? coxi_error_text() : "", link);
    free(connecting);
    return NULL;
}

int coxi_link_connect_start(const char *url, const struct coxi_guard *guard,
                            int timeout_ms, coxi_link_connected done, void *arg)
{
    (void)guard;
    struct connecting *connecting = calloc(1, sizeof(*connecting));
    (void)snprintf(connecting->url, sizeof(connecting->url), "%s", url);
    connecting->timeout_ms = timeout_ms;
    connecting->done = done;
    connecting->arg = arg;
    sim_spawn(sim_self_proc(), "connect", connect_later, connecting)->detached = true;
    return 0;
}

int coxi_link_check_user(const struct coxi_link *link)
{
    (void)link;
    return 0;
}

const struct coxi_party *coxi_link_proven(const struct coxi_link *link)
{
    (void)link;
    return NULL;
}

/* ---- faults */

void sim_net_drop(struct sim_proc *proc)
{
    for (struct coxi_link *next, *link = net.open; link != NULL; link = next) {
        next = link->next;
        if (link->proc == proc) {
            link->receiver = NULL;
            (void)shut(link, COX_ECLOSED, "its process has died", true);
        }
    }
    sim_listeners_drop(proc);
}

static bool is_between(const struct coxi_link *link, uint32_t a, uint32_t b)
{
    return a == b || (link->proc->node == a && link->peer_node == b) ||
           (link->proc->node == b && link->peer_node == a);
}

bool sim_net_cut(uint32_t a, uint32_t b)
{
    struct coxi_link *victim = NULL;
    uint64_t n = 0;
    for (struct coxi_link *link = net.open; link != NULL; link = link->next) {
        if (is_between(link, a, b) && sim_chance(++n)) {
            victim = link;
        }
    }
    if (victim == NULL) {
        return false;
    }
    sim_trace("the connection of %s and %s breaks", victim->proc->name,
              victim->peer->proc->name);
    struct coxi_link *peer = victim->peer;
    lose_some(victim);
    lose_some(peer);
    (void)shut(victim, COX_ECLOSED, "connection reset", false);
    (void)shut(peer, COX_ECLOSED, "connection reset", false);
    return true;
}

void sim_net_hang_up(uint32_t a, uint32_t b)
{
    sim_trace("host %u gives up its connections to %u", a, b);
    for (struct coxi_link *next, *link = net.open; link != NULL; link = next) {
        next = link->next;
        if (link->proc->node == a && link->peer_node == b) {
            (void)shut(link, COX_ECLOSED, "connection reset", false);
        }
    }
}

void sim_net_slow(uint32_t a, uint32_t b, uint64_t delay)
{
    sim_trace("what host %u sends to %u takes %llu ms longer", a, b,
              (unsigned long long)(delay / SIM_MS));
    for (struct coxi_link *link = net.open; link != NULL; link = link->next) {
        if (link->proc->node == b && link->peer_node == a) {
            link->delay = delay;
        }
    }
}
