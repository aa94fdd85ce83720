/*
 * See crowd.h. A member is a connection that the client has dialled. Threads: nng's,
 * which receive for members; those of ps clients, which answer for
 * members after their commits; a loop for heartbeats; main for the commands. `lock`
 * guards the list and the counts; a member's `held` belongs to its receiving thread.
 */
#include "bench/crowd.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "common/buffer.h"
#include "common/error.h"
#include "common/loop.h"
#include "common/rand.h"
#include "common/sync.h"
#include "net/message.h"
#include "net/ps_client.h"
#include "ps/service.h"

enum { PEER_TIMEOUT_MS = 10000, TICK_MS = 500 };

struct member {
    struct coxi_link *link;
    struct member *next;
    struct member *prev;
    bool is_greeted; /* used by the receiving thread, like `held` */
    struct coxi_buffer held;
    struct coxi_mutex answering; /* guards the next two; before the link's */
    struct coxi_buffer done;
    struct coxi_buffer touched;
    bool is_ready; /* guarded by the crowd's lock, like all fields below */
    bool holds;
    bool lost;
    uint32_t n_held;
};

static struct {
    struct coxi_mutex lock; /* guards all below; before a link's */
    pthread_cond_t changed;
    struct member *first;
    uint32_t n_ready;
    uint64_t n_answered;
    uint64_t n_held;
    uint32_t
        n_ps; /* of the client's layout; the next two do not change after it came */
    struct coxi_psc *ps[BENCH_PS_MAX];
    struct coxi_session session;
    uint64_t incarnations[BENCH_PS_MAX];
    atomic_uint n_touched; /* ps that each closure touches; not guarded */
    /* how often each id was done, by id modulo CROWD_IDS; stops at 255 */
    uint8_t done[CROWD_IDS];
    struct coxi_links *links;
} crowd = {.lock = COXI_MUTEX_INIT};

/* ---- members */

static int greet(struct member *member, const struct coxi_frame *frame)
{
    struct coxi_hello hello;
    int r = coxi_hello_read(member->link, frame, &hello);
    if (r != 0) {
        return r;
    }
    coxi_lock(&crowd.lock);
    struct coxi_hello self = {.role = COXI_ROLE_WORKER,
                              .channel = hello.channel,
                              /* the client's list gives its index */
                              .index = UINT32_MAX,
                              .incarnation = coxi_random_id(),
                              .slots = 1};
    coxi_unlock(&crowd.lock);
    member->is_greeted = true;
    coxi_link_allow(member->link, COXI_WIRE_META_MAX, COXI_PAYLOAD_MAX);
    return coxi_hello_send(member->link, &self);
}

static int load(struct member *member, uint32_t id)
{
    struct coxi_message message = {.kind = COXI_MODULE_LOADED};
    message.status = (struct coxi_status){.message = "", .id = id};
    int r = coxi_message_send(member->link, &message, NULL, false);
    coxi_lock(&crowd.lock);
    crowd.n_ready += !member->is_ready;
    member->is_ready = true;
    (void)pthread_cond_broadcast(&crowd.changed);
    coxi_unlock(&crowd.lock);
    return r;
}

/* Appends the list of the ps that a closure has touched, padded. */
static int touch(struct member *member, uint32_t n)
{
    uint32_t touched[BENCH_PS_MAX];
    for (uint32_t p = 0; p < n; p++) {
        touched[p] = p;
    }
    return coxi_buffer_append(&member->touched, touched, n * sizeof(*touched));
}

static int answer_locked(struct member *member, const struct coxi_closure_head *heads,
                         size_t n, int code) COXI_REQUIRES(member->answering)
{
    uint32_t n_touched = atomic_load(&crowd.n_touched);
    member->done.len = member->touched.len = 0;
    int r = coxi_buffer_reserve(&member->done, n * sizeof(struct coxi_done_head));
    for (size_t i = 0; r == 0 && i < n; i++) {
        struct coxi_done_head done = {.closure = heads[i].closure,
                                      .attempt = heads[i].attempt,
                                      .code = code,
                                      .touched_n = n_touched,
                                      .run_us = 1};
        r = coxi_buffer_append_raw(&member->done, &done, sizeof(done));
        r = r == 0 ? touch(member, n_touched) : r;
    }
    struct iovec segment = {member->touched.data, member->touched.len};
    struct coxi_payload payload = {.segments = &segment, .n_segments = 1};
    struct coxi_message message = {.kind = COXI_DONE};
    message.done.closures =
        (const struct coxi_done_head *)(const void *)member->done.data;
    message.done.n_closures = n;
    if (r == 0 && segment.iov_len >= COXI_LINK_COPY_MAX) {
        payload.release = free;
        payload.arg = member->touched.data;
        member->touched = (struct coxi_buffer){0};
    }
    return r != 0 ? r
                  : coxi_message_send(member->link, &message,
                                      segment.iov_len > 0 ? &payload : NULL, false);
}

/* Answers all closures with one code. Any thread. */
static int answer(struct member *member, const struct coxi_closure_head *heads,
                  size_t n, int code)
{
    coxi_lock(&member->answering);
    int r = answer_locked(member, heads, n, code);
    coxi_unlock(&member->answering);
    return r;
}

/* Counts closures that have arrived; true: the member holds them. */
static bool count(struct member *member, const struct coxi_dispatch *dispatch)
{
    coxi_lock(&crowd.lock);
    bool holds = member->holds;
    if (holds) {
        member->n_held += (uint32_t)dispatch->n_closures;
        crowd.n_held += dispatch->n_closures;
    }
    for (size_t i = 0; !holds && i < dispatch->n_closures; i++) {
        uint8_t *done = &crowd.done[dispatch->closures[i].closure % CROWD_IDS];
        *done = (uint8_t)(*done + (*done < UINT8_MAX));
        crowd.n_answered++;
    }
    (void)pthread_cond_broadcast(&crowd.changed);
    coxi_unlock(&crowd.lock);
    return holds;
}

static int run(struct member *member, const struct coxi_dispatch *dispatch)
{
    return count(member, dispatch)
               ? coxi_buffer_append_raw(&member->held, dispatch->closures,
                                        dispatch->n_closures *
                                            sizeof(*dispatch->closures))
               : answer(member, dispatch->closures, dispatch->n_closures, 0);
}

/* ---- commits of rounds */

/* Connects to the ps, once for all members. */
static int follow(const struct coxi_layout *layout)
{
    int r = 0;
    coxi_lock(&crowd.lock);
    crowd.session = layout->session;
    for (; r == 0 && crowd.n_ps < layout->n_servers && crowd.n_ps < BENCH_PS_MAX;
         crowd.n_ps += r == 0) {
        struct coxi_ps_address address;
        coxi_layout_ps(layout, crowd.n_ps, &address);
        const struct coxi_psc_options options = {
            .address = address.address,
            .index = crowd.n_ps,
            .self = {.role = COXI_ROLE_WORKER,
                     .incarnation = coxi_random_id(),
                     .session = layout->session},
            .links = crowd.links,
            .connect_ms = PEER_TIMEOUT_MS,
            .reconnect_ms = -1,
            .request_ms = PEER_TIMEOUT_MS,
            .local_path = true,
        };
        crowd.incarnations[crowd.n_ps] = address.incarnation;
        r = coxi_psc_open(&options, &crowd.ps[crowd.n_ps]);
    }
    coxi_unlock(&crowd.lock);
    return r;
}

/* The commits of a dispatch. When all are answered, its closures are. */
struct committing;

struct crowd_commit {
    struct coxi_psc_request request; /* must be the first member */
    struct committing *all;
};

struct committing {
    struct member *member;
    atomic_size_t n_pending;
    size_t n;
    struct coxi_closure_head *heads; /* follow the commits */
    struct crowd_commit commits[];
};

static void end_one(struct committing *all)
{
    if (atomic_fetch_sub(&all->n_pending, 1) == 1) {
        (void)answer(all->member, all->heads, all->n, 0);
        free(all);
    }
}

static void on_committed(struct coxi_psc_request *request, int code,
                         const struct coxi_message *message, void *payload, size_t len)
{
    (void)payload;
    (void)len;
    bench_check(code != 0 ? code : message->status.code, "a commit");
    end_one(((struct crowd_commit *)request)->all);
}

static struct committing *new_committing(struct member *member,
                                         const struct coxi_dispatch *dispatch,
                                         uint32_t n_touched)
{
    size_t n = dispatch->n_closures;
    size_t commits = n * n_touched * sizeof(struct crowd_commit);
    struct committing *all =
        calloc(1, sizeof(*all) + commits + n * sizeof(*all->heads));
    if (all == NULL) {
        bench_die("out of memory for commits");
    }
    all->member = member;
    all->n = n;
    all->heads = (struct coxi_closure_head *)(void *)&all->commits[n * n_touched];
    memcpy(all->heads, dispatch->closures, n * sizeof(*all->heads));
    atomic_init(&all->n_pending, n * n_touched + 1);
    return all;
}

/* Commits closures of rounds, without updates, to each ps that they touch; then answers
 * them. */
static void commit(struct member *member, const struct coxi_dispatch *dispatch,
                   uint32_t n_touched)
{
    uint32_t touched[BENCH_PS_MAX];
    struct committing *all = new_committing(member, dispatch, n_touched);
    for (uint32_t p = 0; p < n_touched; p++) {
        touched[p] = p;
    }
    for (size_t i = 0; i < all->n * n_touched; i++) {
        uint32_t p = (uint32_t)(i % n_touched);
        size_t at = i / n_touched;
        struct coxi_message message = {.kind = COXI_COMMIT};
        message.commit = (struct coxi_commit){.session = crowd.session,
                                              .incarnation = crowd.incarnations[p],
                                              .closure = all->heads[at].closure,
                                              .attempt = all->heads[at].attempt,
                                              .round = dispatch->rounds[at].round,
                                              .last = true,
                                              .touched = touched,
                                              .n_touched = n_touched};
        all->commits[i].all = all;
        all->commits[i].request.done = on_committed;
        bench_check(
            coxi_psc_submit_now(crowd.ps[p], &message, &all->commits[i].request, false),
            "a commit");
    }
    end_one(all);
}

static int hand_back(struct member *member)
{
    size_t n = member->held.len / sizeof(struct coxi_closure_head);
    coxi_lock(&crowd.lock);
    crowd.n_held -= member->n_held;
    member->n_held = 0;
    coxi_unlock(&crowd.lock);
    member->held.len = 0;
    return n == 0 ? 0
                  : answer(member,
                           (const struct coxi_closure_head *)(void *)member->held.data,
                           n, COX_ECANCELLED);
}

static int on_frame(void *arg, struct coxi_link *link, const struct coxi_frame *frame)
{
    (void)link;
    struct member *member = arg;
    struct coxi_message message;
    if (!member->is_greeted) {
        return greet(member, frame);
    }
    int r = coxi_message_read(frame, &message);
    if (r == 0 && message.kind == COXI_MODULE) {
        r = load(member, message.module.id);
    } else if (r == 0 && message.kind == COXI_DISPATCH) {
        uint32_t n_touched = atomic_load(&crowd.n_touched);
        if (n_touched > 0 && message.dispatch.rounds != NULL) {
            commit(member, &message.dispatch, n_touched);
        } else {
            r = run(member, &message.dispatch);
        }
    } else if (r == 0 && message.kind == COXI_LAYOUT) {
        r = follow(&message.layout);
    } else if (r == 0 && message.kind == COXI_RECALL && message.recall.all) {
        r = hand_back(member);
    }
    return r;
}

static void on_close(void *arg, struct coxi_link *link, int code, const char *text)
{
    (void)code;
    (void)text;
    struct member *member = arg;
    coxi_lock(&crowd.lock);
    crowd.n_ready -= member->is_ready;
    crowd.n_held -= member->n_held;
    *(member->prev != NULL ? &member->prev->next : &crowd.first) = member->next;
    if (member->next != NULL) {
        member->next->prev = member->prev;
    }
    (void)pthread_cond_broadcast(&crowd.changed);
    coxi_unlock(&crowd.lock);
    coxi_link_unref(link);
    coxi_buffer_fini(&member->held);
    coxi_buffer_fini(&member->done);
    coxi_buffer_fini(&member->touched);
    coxi_mutex_fini(&member->answering);
    free(member);
}

static const struct coxi_link_events events = {.on_frame = on_frame,
                                               .on_close = on_close};

static void on_accepted(void *arg, struct coxi_link *link)
{
    (void)arg;
    struct member *member = calloc(1, sizeof(*member));
    if (member == NULL) {
        bench_die("out of memory for a worker");
    }
    member->link = link;
    coxi_mutex_init(&member->answering);
    coxi_lock(&crowd.lock);
    member->next = crowd.first;
    if (crowd.first != NULL) {
        crowd.first->prev = member;
    }
    crowd.first = member;
    coxi_unlock(&crowd.lock);
    coxi_link_listen_to(link, &events, member);
    coxi_links_add(crowd.links, link);
    coxi_link_start(link);
}

/* ---- commands */

static void hold(uint64_t n)
{
    coxi_lock(&crowd.lock);
    crowd.n_answered = 0;
    memset(crowd.done, 0, sizeof(crowd.done));
    for (struct member *m = crowd.first; m != NULL; m = m->next) {
        m->holds = n > 0;
        n -= n > 0;
    }
    coxi_unlock(&crowd.lock);
    (void)printf("ok\n");
}

static void ready(uint64_t n)
{
    coxi_lock(&crowd.lock);
    while (crowd.n_ready < n) {
        coxi_wait_for_end(&crowd.changed, &crowd.lock);
    }
    coxi_unlock(&crowd.lock);
    (void)printf("ok\n");
}

static void await(uint64_t n)
{
    coxi_lock(&crowd.lock);
    while (crowd.n_answered + crowd.n_held < n) {
        coxi_wait_for_end(&crowd.changed, &crowd.lock);
    }
    uint64_t n_held = crowd.n_held;
    coxi_unlock(&crowd.lock);
    (void)printf("%llu\n", (unsigned long long)n_held);
}

/* Marks up to n members that hold (or do not) as lost; returns how many. Locked. */
static uint64_t choose(uint64_t n, bool holds, struct coxi_link **links)
{
    uint64_t chosen = 0;
    for (struct member *m = crowd.first; m != NULL && chosen < n; m = m->next) {
        if (!m->lost && m->holds == holds) {
            m->lost = true;
            links[chosen++] = coxi_link_ref(m->link);
        }
    }
    return chosen;
}

static void lose(uint64_t n)
{
    struct coxi_link **links = calloc(n + 1, sizeof(struct coxi_link *));
    if (links == NULL) {
        bench_die("out of memory for what is to be closed");
    }
    coxi_lock(&crowd.lock);
    uint64_t chosen = choose(n, true, links);
    chosen += choose(n - chosen, false, links + chosen);
    uint64_t n_held = crowd.n_held;
    coxi_unlock(&crowd.lock);
    for (uint64_t i = 0; i < chosen; i++) {
        coxi_link_close(links[i], COX_ECLOSED, "lost");
        coxi_link_unref(links[i]);
    }
    free(links);
    (void)printf("%llu\n", (unsigned long long)n_held);
}

static void ids(uint64_t first, uint64_t n)
{
    unsigned long long missing = 0;
    unsigned long long repeated = 0;
    coxi_lock(&crowd.lock);
    for (uint64_t id = first; id < first + n; id++) {
        missing += crowd.done[id % CROWD_IDS] == 0;
        repeated += crowd.done[id % CROWD_IDS] > 1;
    }
    coxi_unlock(&crowd.lock);
    (void)printf("%llu %llu\n", missing, repeated);
}

static void obey(const char *line, struct coxi_listener *const *listeners)
{
    char *end = NULL;
    size_t word = strcspn(line, " ");
    uint64_t a = strtoull(line + word, &end, 10);
    uint64_t b = strtoull(end, NULL, 10);
    switch (line[0]) {
    case 'u':
        (void)printf("%s\n", coxi_listener_url(listeners[a]));
        break;
    case 'r':
        ready(a);
        break;
    case 'h':
        hold(a);
        break;
    case 'a':
        await(a);
        break;
    case 't':
        atomic_store(&crowd.n_touched, a < BENCH_PS_MAX ? (unsigned)a : BENCH_PS_MAX);
        (void)printf("ok\n");
        break;
    case 'l':
        lose(a);
        break;
    case 'i':
        ids(a, b);
        break;
    default:
        bench_die("a crowd knows no '%s'", line);
    }
    (void)fflush(stdout);
}

/* ---- the process */

static void beat(void *arg)
{
    (void)arg;
    coxi_links_tick(crowd.links);
}

void bench_serve_crowd(uint32_t n)
{
    uint32_t n_listeners = (n + CROWD_PER_LISTENER - 1) / CROWD_PER_LISTENER;
    struct coxi_listener **listeners =
        calloc(n_listeners, sizeof(struct coxi_listener *));
    struct coxi_loop *loop;
    char line[128];
    if (listeners == NULL) {
        bench_die("out of memory for listeners");
    }
    coxi_cond_init(&crowd.changed);
    bench_check(coxi_links_new(PEER_TIMEOUT_MS, &crowd.links), "links");
    bench_check(coxi_loop_new(TICK_MS, beat, NULL, &loop), "loop");
    bench_check(coxi_loop_start(loop, "beat"), "loop");
    for (uint32_t i = 0; i < n_listeners; i++) {
        bench_check(coxi_listener_open("tcp://0.0.0.0:0", NULL, on_accepted, NULL,
                                       &listeners[i]),
                    "listener");
        coxi_listener_start(listeners[i]);
    }
    (void)printf("ready\n");
    (void)fflush(stdout);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        obey(line, listeners);
    }
    _exit(0);
}

static void tick_ps(void *ps)
{
    coxi_ps_tick(ps);
}

void bench_serve_ps(uint32_t index)
{
    struct coxi_ps_options options = {.listen = "tcp://127.0.0.1:0",
                                      .index = index,
                                      .peer_timeout_ms = PEER_TIMEOUT_MS,
                                      .local_path = true};
    struct coxi_ps *ps;
    struct coxi_loop *loop;
    bench_check(coxi_ps_open(&options, &ps), "ps");
    bench_check(coxi_loop_new(TICK_MS, tick_ps, ps, &loop), "loop");
    bench_check(coxi_loop_start(loop, "tick"), "loop");
    (void)printf("%s\n", coxi_ps_url(ps));
    (void)fflush(stdout);
    bench_child_await_end();
    coxi_loop_stop(loop);
    coxi_loop_join(loop);
    coxi_ps_close(ps);
    coxi_loop_free(loop);
}
