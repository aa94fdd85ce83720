/* Neither side allocates memory for a request or its answer. Both sides are in this
 * process, which counts its allocations. Needs a sanitizer's allocator. */
#include <stdatomic.h>
#include <string.h>

#include "common/error.h"
#include "common/rule.h"
#include "common/sync.h"
#include "coxswain/types.h"
#include "net/ps_client.h"
#include "net/ps_round.h"
#include "ps/service.h"
#include "tests/test.h"

enum {
    WAIT_MS = 8000,
    OUTSTANDING = 64,
    WARM_UP = 3000,
    REQUESTS = 10000,
    LONG_REQUESTS = 1000, /* fewer long ones are enough */
    SOME = 100,           /* allocations allowed in all: some are made now and then */
    COLUMNS = 4,
    KEYS = 512,
    ELEMENTS = 100 * 1024 / sizeof(float),
};

static const struct coxi_session session = {1, 1, 1};

/* ---- counting */

__attribute__((weak)) int __sanitizer_install_malloc_and_free_hooks(
    void (*on_malloc)(const volatile void *, size_t),
    void (*on_free)(const volatile void *));

static atomic_size_t n_allocated;

static void count_malloc(const volatile void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
    atomic_fetch_add_explicit(&n_allocated, 1, memory_order_relaxed);
}

static void ignore_free(const volatile void *memory)
{
    (void)memory;
}

/* ---- a ps and its client */

struct rig {
    struct coxi_ps *ps;
    struct coxi_links *links;
    struct coxi_psc *psc;
    uint64_t next_closure;
    struct coxi_mutex lock; /* guards the flights' `busy`; leaf */
    pthread_cond_t landed;
};

struct flight {
    struct coxi_psc_request request;
    struct rig *rig;
    struct iovec segments[2];
    uint64_t key;
    int code;
    bool busy;
};

static void create(struct rig *rig, uint32_t id, enum coxi_kind kind, uint64_t size)
{
    struct coxi_psc_request request = {0};
    struct coxi_shard shard = {.count = size};
    struct coxi_message message = {.kind = COXI_CREATE};
    message.create.session = session;
    message.create.closure = rig->next_closure++;
    message.create.incarnation = coxi_psc_incarnation(rig->psc);
    message.create.variable = (struct coxi_variable){
        .id = id,
        .name = kind == COXI_KIND_TABLE ? "table" : "dense",
        .kind = kind,
        .dtype = COX_F32,
        .rank = 1,
        .shape = {size},
        .shards = kind == COXI_KIND_DENSE ? &shard : NULL,
        .n_shards = kind == COXI_KIND_DENSE,
        .optimizer = {.kind = COXI_OPTIMIZER_SGD, .learning_rate = 1},
    };
    assert_code(0,
                coxi_psc_call(rig->psc, &message, &request, COXI_STATUS, NULL, NULL));
}

enum { TABLE, DENSE };

static void rig_open(struct rig *rig, bool local_path)
{
    *rig = (struct rig){.next_closure = 1};
    struct coxi_ps_options options = {.listen = "tcp://127.0.0.1:0",
                                      .peer_timeout_ms = 60000,
                                      .local_path = local_path};
    assert_code(0, coxi_ps_open(&options, &rig->ps));
    assert_code(0, coxi_links_new(60000, &rig->links));
    struct coxi_psc_options client = {
        .address = coxi_ps_url(rig->ps),
        .self = {.role = COXI_ROLE_CLIENT, .session = session},
        .links = rig->links,
        .connect_ms = WAIT_MS,
        .reconnect_ms = 0,
        .request_ms = 60000,
        .local_path = local_path,
    };
    assert_code(0, coxi_psc_open(&client, &rig->psc));
    assert_code(0, coxi_psc_wait(rig->psc, WAIT_MS));
    coxi_mutex_init(&rig->lock);
    coxi_cond_init(&rig->landed);
    struct coxi_psc_request request = {0};
    struct coxi_message claim = {.kind = COXI_CLAIM, .claim = {.session = session}};
    assert_code(0, coxi_psc_call(rig->psc, &claim, &request, COXI_STATUS, NULL, NULL));
    create(rig, TABLE, COXI_KIND_TABLE, COLUMNS);
    create(rig, DENSE, COXI_KIND_DENSE, ELEMENTS);
}

static void rig_close(struct rig *rig)
{
    coxi_psc_close(rig->psc);
    coxi_links_free(rig->links);
    coxi_ps_close(rig->ps);
    (void)pthread_cond_destroy(&rig->landed);
    coxi_mutex_fini(&rig->lock);
}

/* ---- requests */

static float gradients[ELEMENTS];
static float answers[OUTSTANDING][ELEMENTS];
static struct flight flights[OUTSTANDING];

static void done(struct coxi_psc_request *request, int code,
                 const struct coxi_message *answer, void *payload, size_t len)
{
    struct flight *flight = (struct flight *)request;
    (void)payload;
    (void)len;
    coxi_lock(&flight->rig->lock);
    flight->code = code != 0 ? code : answer->status.code;
    flight->busy = false;
    (void)pthread_cond_signal(&flight->rig->landed);
    coxi_unlock(&flight->rig->lock);
}

static void await(struct flight *flight)
{
    struct timespec until = coxi_deadline(WAIT_MS);
    coxi_lock(&flight->rig->lock);
    while (flight->busy &&
           coxi_wait_until(&flight->rig->landed, &flight->rig->lock, &until)) {
    }
    bool busy = flight->busy;
    flight->busy = true;
    coxi_unlock(&flight->rig->lock);
    assert_false(busy);
    assert_int_equal(0, flight->code);
}

static void submit(struct rig *rig, struct flight *flight, bool push, uint32_t variable)
{
    static const uint32_t touched[] = {0};
    bool is_table = variable == TABLE;
    uint64_t count = is_table ? 1 : ELEMENTS;
    size_t bytes = is_table ? COLUMNS * sizeof(float) : sizeof(gradients);
    size_t n = 0;
    if (is_table) {
        flight->segments[n++] = (struct iovec){&flight->key, sizeof(flight->key)};
    }
    if (push) {
        flight->segments[n++] = (struct iovec){gradients, bytes};
    }
    flight->request = (struct coxi_psc_request){
        .payload = flight->segments,
        .n_payload = n,
        .into = push ? NULL : answers[flight - flights],
        .into_len = push ? 0 : bytes,
        .answer_len = push ? 0 : bytes,
        .done = done,
    };
    struct coxi_pull_item item = {.variable = variable, .count = count};
    struct coxi_update update = {variable, COXI_OP_GRADIENT, 0, count};
    struct coxi_message message = {.kind = push ? COXI_COMMIT : COXI_PULL};
    if (push) {
        message.commit =
            (struct coxi_commit){.session = session,
                                 .incarnation = coxi_psc_incarnation(rig->psc),
                                 .closure = rig->next_closure++,
                                 .attempt = 1,
                                 .last = true,
                                 .touched = touched,
                                 .n_touched = 1,
                                 .updates = &update,
                                 .n_updates = 1};
    } else {
        message.pull = (struct coxi_pull){.session = session,
                                          .incarnation = coxi_psc_incarnation(rig->psc),
                                          .items = &item,
                                          .n_items = 1};
    }
    assert_code(0, coxi_psc_submit(rig->psc, &message, &flight->request, false));
}

/* Tells the ps the watermark below the requests under way. */
static void advance(struct rig *rig)
{
    struct coxi_message message = {.kind = COXI_WATERMARK};
    message.watermark = (struct coxi_watermark){
        session, rig->next_closure - OUTSTANDING - 1, coxi_psc_incarnation(rig->psc)};
    coxi_psc_tell(rig->psc, &message);
}

/* Sends n requests, OUTSTANDING of them at a time; returns the number of
 * allocations. */
static size_t run(struct rig *rig, size_t n, bool push, uint32_t variable)
{
    size_t before = atomic_load(&n_allocated);
    for (size_t i = 0; i < OUTSTANDING; i++) {
        flights[i] = (struct flight){.rig = rig};
    }
    for (size_t i = 0; i < n; i++) {
        struct flight *flight = &flights[i % OUTSTANDING];
        await(flight);
        flight->key = i % KEYS;
        submit(rig, flight, push, variable);
        if (i % 500 == 499 && push) {
            advance(rig);
        }
    }
    for (size_t i = 0; i < OUTSTANDING; i++) {
        await(&flights[i]);
    }
    return atomic_load(&n_allocated) - before;
}

static void check(bool local_path)
{
    struct rig rig;
    if (__sanitizer_install_malloc_and_free_hooks == NULL) {
        skip();
    }
    assert_true(__sanitizer_install_malloc_and_free_hooks(count_malloc, ignore_free) >
                0);
    rig_open(&rig, local_path);
    size_t before = atomic_load(&n_allocated);
    assert_true(before > 0); /* they are counted */
    for (int push = 1; push >= 0; push--) {
        (void)run(&rig, WARM_UP, push, TABLE);
        assert_in_range(run(&rig, REQUESTS, push, TABLE), 0, SOME);
        (void)run(&rig, LONG_REQUESTS, push, DENSE);
        assert_in_range(run(&rig, LONG_REQUESTS, push, DENSE), 0, SOME);
    }
    rig_close(&rig);
}

TEST(ps_and_its_client_allocate_nothing_for_requests_over_tcp)
{
    check(false);
}

TEST(ps_and_its_client_allocate_nothing_for_requests_over_the_local_path)
{
    check(true);
}
