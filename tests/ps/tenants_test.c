/* Several runs on one ps, each with a key: none sees, changes or hinders another. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/file.h"
#include "tests/ps/caller.h"
#include "tests/ps/harbour.h"
#include "tests/test.h"

enum { N = 4 };

/* Both runs name the same session: only the key tells them apart. */
static const struct coxi_session same = {.run = 1, .generation = 1, .token = 11};
static const struct coxi_session newer = {.run = 1, .generation = 2, .token = 12};

struct shared {
    struct harbour harbour;
    struct coxi_keyring *keys;
    struct coxi_key a;
    struct coxi_key b;
    const char *root;
};

static void make_key(const char *directory, const char *name, struct coxi_key *ret)
{
    char path[PATH_MAX];
    assert_code(0, coxi_path(path, "%s/%s.key", directory, name));
    assert_code(0, coxi_key_new(path));
    assert_code(0, coxi_key_read(path, ret));
}

/* Of each run; a test sets it before it opens the ps. */
static struct coxi_quota quota;

static void shared_open(struct shared *shared, uint32_t runs_max, uint64_t memory_max)
{
    const char *keys = coxi_test_path("keys");
    shared->root = coxi_test_path("root");
    assert_int_equal(0, mkdir(keys, 0700));
    assert_int_equal(0, mkdir(shared->root, 0700));
    make_key(keys, "a", &shared->a);
    make_key(keys, "b", &shared->b);
    assert_code(0, coxi_keyring_open(keys, &shared->keys));
    harbour_open_with(&shared->harbour,
                      (struct coxi_ps_options){.keys = shared->keys,
                                               .runs_max = runs_max,
                                               .memory_max = memory_max,
                                               .run_quota = quota,
                                               .checkpoint_root = shared->root});
}

static void shared_close(struct shared *shared)
{
    harbour_close(&shared->harbour);
    coxi_keyring_free(shared->keys);
}

static struct coxi_psc *dial(struct shared *shared, const struct coxi_key *key)
{
    return harbour_dial_with(&shared->harbour, key, COXI_ROLE_CLIENT, &same);
}

/* Claims the ps, makes a variable, and sets its first value. */
static void begin(struct coxi_psc *psc, float value)
{
    const float values[N] = {value};
    assert_code(0, harbour_claim(psc, &same));
    assert_code(0, harbour_create(psc, &same, N));
    assert_code(0, harbour_commit(psc, &same, coxi_psc_incarnation(psc), 2, values, N));
}

static void check_value(struct coxi_psc *psc, float value)
{
    float found[N] = {0};
    assert_code(0, harbour_pull(psc, &same, coxi_psc_incarnation(psc), found, N));
    assert_true(found[0] == value);
}

TEST(two_runs_on_a_ps_have_their_own_values)
{
    struct shared shared;
    shared_open(&shared, 2, 0);
    struct coxi_psc *a = dial(&shared, &shared.a);
    struct coxi_psc *b = dial(&shared, &shared.b);
    assert_int_not_equal(coxi_psc_incarnation(a), coxi_psc_incarnation(b));
    begin(a, 1);
    begin(b, 2);
    check_value(a, 1);
    check_value(b, 2);
    coxi_psc_close(a);
    coxi_psc_close(b);
    shared_close(&shared);
}

TEST(a_reader_of_one_run_reads_nothing_of_another)
{
    struct shared shared;
    struct coxi_key key;
    const char *path = coxi_test_path("reader.key");
    shared_open(&shared, 2, 0);
    assert_code(0, coxi_key_new_reader(path, &shared.b));
    assert_code(0, coxi_key_read(path, &key));
    struct coxi_psc *a = dial(&shared, &shared.a);
    struct coxi_psc *b = dial(&shared, &shared.b);
    begin(a, 1);
    begin(b, 2);
    struct coxi_psc *reader =
        harbour_dial_with(&shared.harbour, &key, COXI_ROLE_TOOL, &same);
    check_value(reader, 2);
    coxi_psc_close(reader);
    coxi_psc_close(a);
    coxi_psc_close(b);
    shared_close(&shared);
}

TEST(a_forged_generation_fences_no_other_run)
{
    struct shared shared;
    shared_open(&shared, 2, 0);
    struct coxi_psc *a = dial(&shared, &shared.a);
    begin(a, 1);
    struct coxi_psc *b =
        harbour_dial_with(&shared.harbour, &shared.b, COXI_ROLE_CLIENT, &newer);
    assert_code(0, harbour_claim(b, &newer));
    check_value(a, 1);
    assert_code(0, harbour_claim(a, &same));
    coxi_psc_close(a);
    coxi_psc_close(b);
    shared_close(&shared);
}

static int snapshot(struct coxi_psc *psc, const char *path)
{
    struct coxi_message message = {.kind = COXI_SNAPSHOT};
    message.snapshot = (struct coxi_snapshot){.session = same,
                                              .incarnation = coxi_psc_incarnation(psc),
                                              .number = 1,
                                              .path = path};
    return harbour_ask(psc, &message, COXI_SNAPSHOT_DONE);
}

static int restore(struct coxi_psc *psc, const char *path)
{
    struct coxi_message message = {.kind = COXI_RESTORE};
    message.restore = (struct coxi_restore){.session = same,
                                            .incarnation = coxi_psc_incarnation(psc),
                                            .round = 1,
                                            .path = path};
    return harbour_ask(psc, &message, COXI_STATUS);
}

/* Run a saves a checkpoint in its own directory; run b can neither read it nor write
 * beside it. */
TEST(a_run_reaches_no_checkpoint_of_another)
{
    struct shared shared;
    char of_a[PATH_MAX];
    char made[PATH_MAX];
    struct stat is;
    shared_open(&shared, 2, 0);
    struct coxi_psc *a = dial(&shared, &shared.a);
    struct coxi_psc *b = dial(&shared, &shared.b);
    begin(a, 1);
    begin(b, 2);
    assert_code(0, coxi_path(of_a, "%s/a", shared.root));
    const char *unfinished = harbour_shard(of_a, "ckpt-1.tmp");
    assert_code(0, snapshot(a, unfinished));
    const char *saved = harbour_shard(of_a, "ckpt-1");
    assert_int_equal(0, rename(unfinished, saved));
    const char *forged = harbour_shard(of_a, "ckpt-2.tmp");
    assert_code(COX_EIO, snapshot(b, forged));
    assert_int_not_equal(0, stat(forged, &is));
    assert_code(COX_EIO, restore(b, saved));
    assert_code(0,
                coxi_path(made, "%s/b/../a/ckpt-1/ps-0-of-1.safetensors", shared.root));
    assert_code(COX_EIO, restore(b, made));
    check_value(a, 1);
    coxi_psc_close(a);
    coxi_psc_close(b);
    shared_close(&shared);
}

/* ---- a disk that is as slow as the test wants it */

static struct {
    struct coxi_mutex lock;
    pthread_cond_t changed;
    bool shut;
    bool is_one_at; /* somebody makes the directory of run a */
} gate = {.lock = COXI_MUTEX_INIT, .changed = PTHREAD_COND_INITIALIZER};

int mkdir(const char *path, mode_t mode)
{
    size_t len = strlen(path);
    if (len > 7 && strcmp(path + len - 7, "/root/a") == 0) {
        coxi_lock(&gate.lock);
        gate.is_one_at = true;
        while (gate.shut) {
            coxi_wait_for_end(&gate.changed, &gate.lock);
        }
        coxi_unlock(&gate.lock);
    }
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

static void shut_gate(bool shut)
{
    coxi_lock(&gate.lock);
    gate.shut = shut;
    (void)pthread_cond_broadcast(&gate.changed);
    coxi_unlock(&gate.lock);
}

static bool is_one_at_gate(void *arg)
{
    (void)arg;
    coxi_lock(&gate.lock);
    bool is = gate.is_one_at;
    coxi_unlock(&gate.lock);
    return is;
}

static struct caller *visit(const struct coxi_key *key);

TEST(nobody_waits_for_the_directory_of_another_run)
{
    struct shared shared;
    shut_gate(true);
    shared_open(&shared, 2, 0);
    struct caller *a = visit(&shared.a);
    coxi_test_until(is_one_at_gate, NULL, "run a's directory");
    struct coxi_psc *b = dial(&shared, &shared.b);
    begin(b, 2);
    check_value(b, 2);
    coxi_ps_tick(shared.harbour.ps);
    shut_gate(false);
    (void)caller_expect(a, COXI_HELLO);
    caller_close(a);
    coxi_psc_close(b);
    shared_close(&shared);
}

TEST(all_runs_together_stay_within_memory_max)
{
    struct shared shared;
    shared_open(&shared, 2, 4000);
    struct coxi_psc *a = dial(&shared, &shared.a);
    struct coxi_psc *b = dial(&shared, &shared.b);
    assert_code(0, harbour_claim(a, &same));
    assert_code(0, harbour_claim(b, &same));
    assert_code(0, harbour_create(a, &same, 500));
    assert_code(COX_ENOMEM, harbour_create(b, &same, 700));
    assert_code(0, harbour_create(b, &same, 400));
    coxi_psc_close(a);
    coxi_psc_close(b);
    shared_close(&shared);
}

/* ---- quotas */

TEST(a_run_takes_no_more_bytes_than_its_quota)
{
    struct shared shared;
    quota.bytes_max = 3000;
    shared_open(&shared, 2, 100000);
    struct coxi_psc *a = dial(&shared, &shared.a);
    struct coxi_psc *b = dial(&shared, &shared.b);
    begin(a, 1);
    assert_code(0, harbour_claim(b, &same));
    assert_code(COX_ELIMIT, harbour_create(b, &same, 800));
    check_value(a, 1);
    assert_code(0, harbour_create(b, &same, 700));
    coxi_psc_close(a);
    coxi_psc_close(b);
    shared_close(&shared);
}

static struct caller *visit(const struct coxi_key *key)
{
    const struct coxi_hello hello = {.role = COXI_ROLE_CLIENT, .session = same};
    const struct coxi_guard guard = coxi_hello_guard(key, &hello);
    return caller_open_as(harbour_ipc(), &guard, &hello);
}

static bool is_let_in(void *key)
{
    struct caller *caller = visit(key);
    bool in = caller_next(caller)->kind == COXI_HELLO;
    caller_close(caller);
    return in;
}

TEST(a_run_s_newcomers_beyond_its_connections_are_refused)
{
    struct shared shared;
    quota.connections_max = 2;
    shared_open(&shared, 2, 0);
    struct caller *first = visit(&shared.a);
    struct caller *second = visit(&shared.a);
    const struct coxi_message claim = {.kind = COXI_CLAIM, .claim = {.session = same}};
    (void)caller_expect(first, COXI_HELLO);
    (void)caller_expect(second, COXI_HELLO);
    for (int i = 0; i < 3; i++) {
        struct caller *third = visit(&shared.a);
        caller_expect_refusal(third, COX_ELIMIT, "--run-connections-max");
        caller_close(third);
    }
    /* those that are there go on, the other run gets in, and so does the next one when
     * one has gone */
    caller_send(first, &claim, NULL, 0);
    assert_int_equal(0, caller_expect(first, COXI_STATUS)->status.code);
    assert_true(is_let_in(&shared.b));
    caller_close(second);
    coxi_test_until(is_let_in, &shared.a, "room for a connection");
    caller_close(first);
    shared_close(&shared);
}

/* ---- seats */

struct waiting {
    struct shared *shared;
    struct coxi_psc *psc;
};

/* COX_EAGAIN: the other client has been silent since this one came, which is true
 * within the same millisecond or not. */
static void assert_no_seat(struct coxi_psc *psc)
{
    int r = harbour_claim(psc, &same);
    assert_true(r == COX_EBUSY || r == COX_EAGAIN);
}

static bool has_a_seat(void *arg)
{
    return harbour_claim(((struct waiting *)arg)->psc, &same) == 0;
}

TEST(a_run_without_a_seat_waits_until_one_is_free)
{
    struct shared shared;
    shared_open(&shared, 1, 0);
    struct coxi_psc *a = dial(&shared, &shared.a);
    begin(a, 1);
    struct waiting waiting = {&shared, dial(&shared, &shared.b)};
    assert_no_seat(waiting.psc);
    check_value(a, 1);
    struct coxi_message release = {.kind = COXI_RELEASE, .release = same};
    assert_code(0, harbour_ask(a, &release, COXI_STATUS));
    assert_code(0, harbour_claim(waiting.psc, &same));
    assert_no_seat(a);
    coxi_psc_close(a);
    coxi_psc_close(waiting.psc);
    shared_close(&shared);
}

/* Its workers, which are still connected, are cut off, and learn that the ps has lost
 * the run's values. */
TEST(a_run_whose_client_is_gone_loses_its_seat)
{
    struct shared shared;
    shared_open(&shared, 1, 0);
    struct coxi_psc *a = dial(&shared, &shared.a);
    uint64_t before = coxi_psc_incarnation(a);
    begin(a, 1);
    struct waiting waiting = {&shared, dial(&shared, &shared.b)};
    coxi_psc_close(a);
    coxi_test_until(has_a_seat, &waiting, "the seat of a run whose client is gone");
    a = dial(&shared, &shared.a);
    assert_int_not_equal(before, coxi_psc_incarnation(a));
    assert_no_seat(a);
    coxi_psc_close(a);
    coxi_psc_close(waiting.psc);
    shared_close(&shared);
}

/* ---- keys that come and go */

static void read_keys_again(struct shared *shared)
{
    struct coxi_buffer names = {0};
    assert_code(
        0, coxi_keyring_reload(shared->keys, coxi_test_path("keys"), &names, &names));
    coxi_ps_take_keys(shared->harbour.ps);
    coxi_buffer_fini(&names);
}

static int connect_with(const struct coxi_key *key)
{
    const struct coxi_guard guard = {.key = *key, .self = {.role = COXI_ROLE_CLIENT}};
    struct coxi_link *link = NULL;
    int r = coxi_link_connect(harbour_ipc(), &guard, 5000, &link);
    coxi_link_unref(link);
    return r;
}

/* Its connections are closed, what it has is freed, and the other run goes on. */
TEST(a_run_whose_key_is_removed_is_shut_out)
{
    struct shared shared;
    char away[PATH_MAX];
    char path[PATH_MAX];
    const struct coxi_message claim = {
        .request = 1, .kind = COXI_CLAIM, .claim = {.session = same}};
    shared_open(&shared, 2, 4000);
    struct caller *a = visit(&shared.a);
    (void)caller_expect(a, COXI_HELLO);
    caller_send(a, &claim, NULL, 0);
    uint64_t incarnation = caller_expect(a, COXI_STATUS)->status.incarnation;
    struct coxi_psc *b = dial(&shared, &shared.b);
    begin(b, 2);
    assert_code(0, coxi_path(path, "%s/a.key", coxi_test_path("keys")));
    assert_code(0, coxi_path(away, "%s/a.away", coxi_test_path("keys")));
    assert_int_equal(0, rename(path, away));
    read_keys_again(&shared);
    caller_expect_end(a);
    caller_close(a);
    assert_code(COX_EDENIED, connect_with(&shared.a));
    check_value(b, 2);
    assert_int_equal(0, rename(away, path));
    read_keys_again(&shared);
    struct coxi_psc *again = dial(&shared, &shared.a);
    assert_int_not_equal(incarnation, coxi_psc_incarnation(again));
    begin(again, 3);
    check_value(again, 3);
    coxi_psc_close(again);
    coxi_psc_close(b);
    shared_close(&shared);
}

TEST(a_run_whose_key_is_new_is_let_in)
{
    struct shared shared;
    struct coxi_key c;
    shared_open(&shared, 3, 0);
    struct coxi_psc *a = dial(&shared, &shared.a);
    begin(a, 1);
    make_key(coxi_test_path("keys"), "c", &c);
    assert_code(COX_EDENIED, connect_with(&c));
    read_keys_again(&shared);
    struct coxi_psc *psc = dial(&shared, &c);
    begin(psc, 5);
    check_value(psc, 5);
    check_value(a, 1);
    coxi_psc_close(psc);
    coxi_psc_close(a);
    shared_close(&shared);
}
