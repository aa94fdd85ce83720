/* A run, or a run's readers, that take all they can get: the others go on. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/file.h"
#include "ps/payloads.h"
#include "tests/ps/caller.h"
#include "tests/ps/harbour.h"
#include "tests/ps/stock.h"
#include "tests/test.h"

enum { N = 2, FILES = 400, CROWD = 180 };

static const struct coxi_session run1 = {.run = 1, .generation = 1, .token = 11};

/* A ps of the runs a and b, of which a has claimed it. */
struct shared {
    struct harbour harbour;
    struct coxi_keyring *keys;
    struct coxi_key a;
    struct coxi_key b;
    struct coxi_psc *client;
    struct rlimit files;
};

static void make_key(const char *directory, const char *name, struct coxi_key *ret)
{
    char path[PATH_MAX];
    assert_code(0, coxi_path(path, "%s/%s.key", directory, name));
    assert_code(0, coxi_key_new(path));
    assert_code(0, coxi_key_read(path, ret));
}

static void claim(struct shared *shared)
{
    const float values[N] = {1, 2};
    shared->client =
        harbour_dial_with(&shared->harbour, &shared->a, COXI_ROLE_CLIENT, &run1);
    assert_code(0, harbour_claim(shared->client, &run1));
    assert_code(0, harbour_create(shared->client, &run1, N));
    assert_code(0, harbour_commit(shared->client, &run1,
                                  coxi_psc_incarnation(shared->client), 2, values, N));
}

static void shared_open(struct shared *shared)
{
    const char *keys = coxi_test_path("keys");
    const char *root = coxi_test_path("root");
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &shared->files));
    const struct rlimit few = {.rlim_cur = FILES, .rlim_max = shared->files.rlim_max};
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &few));
    assert_int_equal(0, mkdir(keys, 0700));
    assert_int_equal(0, mkdir(root, 0700));
    make_key(keys, "a", &shared->a);
    make_key(keys, "b", &shared->b);
    assert_code(0, coxi_keyring_open(keys, &shared->keys));
    harbour_open_with(&shared->harbour,
                      (struct coxi_ps_options){.keys = shared->keys,
                                               .runs_max = 2,
                                               .checkpoint_root = root});
    claim(shared);
}

/* Another member of run a gets in, and finds its values. */
static void shared_close(struct shared *shared)
{
    float found[N];
    struct coxi_psc *worker =
        harbour_dial_with(&shared->harbour, &shared->a, COXI_ROLE_WORKER, &run1);
    assert_code(0, harbour_pull(worker, &run1, coxi_psc_incarnation(worker), found, N));
    assert_true(found[0] == 1 && found[1] == 2);
    coxi_psc_close(worker);
    coxi_psc_close(shared->client);
    harbour_close(&shared->harbour);
    coxi_keyring_free(shared->keys);
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &shared->files));
}

/* ---- connections */

/* Peers of a key open as many connections as they can. Returns how many stay. */
static size_t crowd(struct shared *shared, const struct coxi_key *key,
                    enum coxi_role role, struct caller *callers[CROWD])
{
    const struct coxi_guard guard = {.key = *key,
                                     .self = {.role = role, .run = run1.run}};
    const struct coxi_hello hello = {.role = role, .session = run1};
    size_t n = 0;
    for (int i = 0; i < CROWD; i++) {
        callers[i] = caller_open_as(coxi_ps_url(shared->harbour.ps), &guard, &hello);
        n += caller_hears(callers[i]);
    }
    return n;
}

static void leave(struct caller *callers[CROWD])
{
    for (int i = 0; i < CROWD; i++) {
        caller_close(callers[i]);
    }
}

TEST(a_run_with_many_connections_leaves_room_for_others)
{
    struct shared shared;
    struct caller *callers[CROWD];
    shared_open(&shared);
    size_t n = crowd(&shared, &shared.b, COXI_ROLE_WORKER, callers);
    assert_in_range(n, FILES / 4, FILES / 4 * 3 / 2);
    shared_close(&shared);
    leave(callers);
}

TEST(readers_with_many_connections_leave_room_for_members)
{
    struct shared shared;
    struct coxi_key key;
    struct caller *callers[CROWD];
    const char *path = coxi_test_path("reader.key");
    shared_open(&shared);
    assert_code(0, coxi_key_new_reader(path, &shared.a));
    assert_code(0, coxi_key_read(path, &key));
    size_t n = crowd(&shared, &key, COXI_ROLE_TOOL, callers);
    assert_in_range(n, FILES / 4, FILES / 4 * 3 / 2);
    shared_close(&shared);
    leave(callers);
}

/* ---- memory for payloads */

enum { MIB = 1 << 20, BUDGET = 256 /* the least, in MiB */ };

static struct coxi_message commit_of(const struct stock *s)
{
    struct coxi_message message = {.kind = COXI_COMMIT};
    message.commit.session = s->session;
    message.commit.incarnation = STOCK_INCARNATION;
    return message;
}

static int take(struct coxi_payloads *payloads, struct coxi_peer *peer,
                const struct coxi_message *message, size_t mib)
{
    return coxi_payloads_take(payloads, peer, message, mib * MIB);
}

TEST(a_run_with_long_payloads_leaves_memory_to_others)
{
    struct stock s;
    struct coxi_memory whole;
    struct coxi_payloads a;
    struct coxi_payloads b;
    struct coxi_peer of_a = {0};
    struct coxi_peer of_b[2] = {{0}};
    stock_open(&s);
    const struct coxi_message commit = commit_of(&s);
    coxi_payloads_budget(&whole, 1);
    coxi_payloads_init(&a, s.store, 1);
    coxi_payloads_init(&b, s.store, 1);
    a.memory.whole = b.memory.whole = &whole;
    a.is_shared = b.is_shared = true;
    assert_code(0, take(&b, &of_b[0], &commit, BUDGET / 2));
    assert_code(COX_ENOMEM, take(&b, &of_b[1], &commit, BUDGET / 4));
    assert_code(0, take(&a, &of_a, &commit, BUDGET / 4));
    coxi_payloads_give(&b, &of_b[0]);
    coxi_payloads_give(&a, &of_a);
    assert_code(0, take(&b, &of_b[1], &commit, BUDGET / 2));
    coxi_payloads_give(&b, &of_b[1]);
    assert_true(atomic_load(&whole.used_bytes) == 0);
    stock_close(&s);
}

static pthread_barrier_t both;
static atomic_bool is_met; /* two threads take at the same moment */

int __real_coxi_memory_take(struct coxi_memory *memory, uint64_t bytes,
                            const char *whom);
int __wrap_coxi_memory_take(struct coxi_memory *memory, uint64_t bytes,
                            const char *whom);

int __wrap_coxi_memory_take(struct coxi_memory *memory, uint64_t bytes,
                            const char *whom)
{
    if (atomic_load(&is_met)) {
        (void)pthread_barrier_wait(&both);
    }
    return __real_coxi_memory_take(memory, bytes, whom);
}

struct taker {
    struct coxi_payloads *payloads;
    const struct coxi_message *message;
    struct coxi_peer peer;
    int code;
};

static void *take_at_once(void *arg)
{
    struct taker *taker = arg;
    taker->code = take(taker->payloads, &taker->peer, taker->message, BUDGET / 8 * 3);
    return NULL;
}

TEST(two_payloads_of_a_run_at_once_take_no_more_than_its_share)
{
    struct stock s;
    struct coxi_memory whole;
    struct coxi_payloads run;
    pthread_t thread;
    stock_open(&s);
    const struct coxi_message commit = commit_of(&s);
    coxi_payloads_budget(&whole, 1);
    coxi_payloads_init(&run, s.store, 1);
    run.memory.whole = &whole;
    run.is_shared = true;
    struct taker takers[2] = {{.payloads = &run, .message = &commit},
                              {.payloads = &run, .message = &commit}};
    assert_int_equal(0, pthread_barrier_init(&both, NULL, 2));
    atomic_store(&is_met, true);
    assert_int_equal(0, pthread_create(&thread, NULL, take_at_once, &takers[1]));
    (void)take_at_once(&takers[0]);
    assert_int_equal(0, pthread_join(thread, NULL));
    atomic_store(&is_met, false);
    assert_true(takers[0].code != 0 || takers[1].code != 0);
    coxi_payloads_give(&run, &takers[0].peer);
    coxi_payloads_give(&run, &takers[1].peer);
    assert_true(atomic_load(&whole.used_bytes) == 0);
    assert_int_equal(0, pthread_barrier_destroy(&both));
    stock_close(&s);
}

TEST(readers_with_long_payloads_leave_memory_to_members)
{
    struct stock s;
    struct coxi_payloads payloads;
    struct coxi_peer worker = {.hello.role = COXI_ROLE_WORKER};
    struct coxi_peer readers[2] = {{.hello.role = COXI_ROLE_TOOL},
                                   {.hello.role = COXI_ROLE_TOOL}};
    struct coxi_message pull = {.kind = COXI_PULL};
    stock_open(&s);
    const struct coxi_message commit = commit_of(&s);
    pull.pull.session = s.session;
    pull.pull.incarnation = STOCK_INCARNATION;
    coxi_payloads_init(&payloads, s.store, 1);
    assert_code(0, take(&payloads, &readers[0], &pull, BUDGET / 4));
    assert_code(COX_ENOMEM, take(&payloads, &readers[1], &pull, BUDGET / 4));
    assert_code(0, take(&payloads, &worker, &commit, BUDGET / 4 * 3));
    coxi_payloads_give(&payloads, &worker);
    coxi_payloads_give(&payloads, &readers[0]);
    assert_code(0, take(&payloads, &readers[1], &pull, BUDGET / 4));
    coxi_payloads_give(&payloads, &readers[1]);
    assert_true(atomic_load(&payloads.memory.used_bytes) == 0);
    stock_close(&s);
}
