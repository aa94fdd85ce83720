/* A ps goes on while a snapshot or a restore takes long. */
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/ps/caller.h"
#include "tests/ps/harbour.h"
#include "tests/test.h"

static const struct coxi_session run1 = {.run = 1, .generation = 1, .token = 11};
static const struct coxi_session newer = {.run = 1, .generation = 2, .token = 22};
static const struct coxi_hello as_client = {.role = COXI_ROLE_CLIENT,
                                            .session = {1, 1, 11}};

/* ---- a disk that is as slow as the test wants it */

static struct {
    struct coxi_mutex lock;
    pthread_cond_t changed;
    bool shut;
    int n_at; /* fsyncs that wait at it */
} gate = {.lock = COXI_MUTEX_INIT, .changed = PTHREAD_COND_INITIALIZER};

int fsync(int fd)
{
    coxi_lock(&gate.lock);
    gate.n_at++;
    (void)pthread_cond_broadcast(&gate.changed);
    while (gate.shut) {
        coxi_wait_for_end(&gate.changed, &gate.lock);
    }
    coxi_unlock(&gate.lock);
    return (int)syscall(SYS_fsync, fd);
}

static void shut_gate(bool shut)
{
    coxi_lock(&gate.lock);
    gate.shut = shut;
    (void)pthread_cond_broadcast(&gate.changed);
    coxi_unlock(&gate.lock);
}

static int count_at_gate(void)
{
    coxi_lock(&gate.lock);
    int n = gate.n_at;
    coxi_unlock(&gate.lock);
    return n;
}

static bool is_one_at_gate(void *arg)
{
    (void)arg;
    return count_at_gate() > 0;
}

/* ---- requests that are not waited for */

struct scene {
    struct harbour harbour;
    struct coxi_psc *client;
    uint64_t incarnation;
};

static void scene_open(struct scene *s)
{
    harbour_open(&s->harbour, harbour_ipc());
    s->client = harbour_dial(&s->harbour, COXI_ROLE_CLIENT, &run1);
    s->incarnation = coxi_psc_incarnation(s->client);
    assert_code(0, harbour_claim(s->client, &run1));
    assert_code(0, harbour_create(s->client, &run1, 2));
}

static void scene_close(struct scene *s)
{
    coxi_psc_close(s->client);
    harbour_close(&s->harbour);
}

static struct coxi_message snapshot_message(const struct scene *s, uint64_t number)
{
    struct coxi_message message = {.request = 100 + number, .kind = COXI_SNAPSHOT};
    message.snapshot =
        (struct coxi_snapshot){.session = run1,
                               .number = number,
                               .path = harbour_shard(coxi_test_dir(), "ckpt-1.tmp"),
                               .incarnation = s->incarnation};
    return message;
}

/* A connection that has asked for a snapshot of that number. */
static struct caller *ask_for_snapshot(struct scene *s, uint64_t number)
{
    struct caller *caller = caller_join(coxi_ps_url(s->harbour.ps), &as_client);
    const struct coxi_message message = snapshot_message(s, number);
    caller_send(caller, &message, NULL, 0);
    return caller;
}

/* Asserts that the ps answers a request on a connection while the long request is not
 * answered. */
static void assert_answers(struct caller *caller)
{
    const struct coxi_message count = {.request = 7, .kind = COXI_COUNT};
    caller_send(caller, &count, NULL, 0);
    assert_int_equal(7, caller_expect(caller, COXI_COUNTS)->request);
}

TEST(ps_serves_the_connection_that_waits_for_a_snapshot)
{
    struct scene s;
    const float ones[2] = {1, 1};
    float found[2] = {0};
    scene_open(&s);
    shut_gate(true);
    struct caller *caller = ask_for_snapshot(&s, 1);
    coxi_test_until(is_one_at_gate, NULL, "the snapshot's fsync");
    assert_answers(caller);
    /* The ps also takes the watermark: otherwise this closure would be too far above
     * it. */
    const struct coxi_message watermark = {.kind = COXI_WATERMARK,
                                           .watermark = {run1, 3 << 20, s.incarnation}};
    caller_send(caller, &watermark, NULL, 0);
    assert_answers(caller);
    assert_code(0,
                harbour_commit(s.client, &run1, s.incarnation, (3 << 20) + 1, ones, 2));
    assert_code(0, harbour_pull(s.client, &run1, s.incarnation, found, 2));
    assert_true(found[0] == 1);
    assert_int_equal(0, caller_waiting(caller));
    shut_gate(false);
    const struct coxi_message *done = caller_expect(caller, COXI_SNAPSHOT_DONE);
    assert_int_equal(101, done->request);
    assert_code(0, done->snapshot_done.code);
    caller_close(caller);
    scene_close(&s);
}

TEST(a_snapshot_that_is_asked_for_again_while_it_is_written_is_written_once)
{
    struct scene s;
    scene_open(&s);
    shut_gate(true);
    struct caller *broken = ask_for_snapshot(&s, 1);
    coxi_test_until(is_one_at_gate, NULL, "the snapshot's fsync");
    caller_close(broken);
    struct caller *caller = ask_for_snapshot(&s, 1);
    assert_answers(caller);
    shut_gate(false);
    const struct coxi_snapshot_done *done =
        &caller_expect(caller, COXI_SNAPSHOT_DONE)->snapshot_done;
    assert_code(0, done->code);
    assert_true(done->bytes > 0);
    assert_int_equal(1, count_at_gate());
    caller_close(caller);
    caller = ask_for_snapshot(&s, 0); /* of a checkpoint that was given up before */
    assert_code(COX_EEXIST,
                caller_expect(caller, COXI_SNAPSHOT_DONE)->snapshot_done.code);
    caller_close(caller);
    scene_close(&s);
}

/* ---- restores: from a file that cannot be opened until the test lets go of it */

static struct caller *ask_to_restore(struct scene *s, const char *path)
{
    struct caller *caller = caller_join(coxi_ps_url(s->harbour.ps), &as_client);
    struct coxi_message message = {.request = 200, .kind = COXI_RESTORE};
    message.restore = (struct coxi_restore){.session = run1,
                                            .round = 1,
                                            .path = path,
                                            .bytes = 1,
                                            .incarnation = s->incarnation};
    caller_send(caller, &message, NULL, 0);
    return caller;
}

static bool is_unready(void *arg)
{
    struct scene *s = arg;
    float found[2];
    return harbour_pull(s->client, &run1, s->incarnation, found, 2) == COX_EPSLOST;
}

TEST(ps_that_is_being_restored_answers_and_says_that_it_is_not_ready)
{
    struct scene s;
    const float ones[2] = {1, 1};
    char *path = harbour_shard(coxi_test_dir(), "ckpt-1");
    scene_open(&s);
    coxi_test_write(path, "x", 1);
    int held = coxi_test_hold_file(path);
    struct caller *caller = ask_to_restore(&s, path);
    coxi_test_until(is_unready, &s, "the restore");
    coxi_test_until(coxi_test_is_wanted, &held, "the opening of its file");
    assert_error_names("not restored yet");
    assert_answers(caller);
    assert_code(COX_EPSLOST,
                harbour_commit(s.client, &run1, s.incarnation, 5, ones, 2));
    assert_code(0, harbour_create(s.client, &run1, 2)); /* the variable exists */
    assert_int_equal(0, caller_waiting(caller));
    assert_int_equal(0, close(held));
    assert_true(caller_expect(caller, COXI_STATUS)->status.code != 0); /* no shard */
    /* The half-restored store stays unready until a client claims it again. */
    assert_true(is_unready(&s));
    caller_close(caller);
    scene_close(&s);
}

TEST(ps_that_is_being_restored_is_claimed_at_once_and_has_nothing_of_the_old_run)
{
    struct scene s;
    float found[2] = {7, 7};
    char *path = harbour_shard(coxi_test_dir(), "ckpt-1");
    scene_open(&s);
    coxi_test_write(path, "x", 1);
    int held = coxi_test_hold_file(path);
    struct caller *caller = ask_to_restore(&s, path);
    coxi_test_until(is_unready, &s, "the restore");
    coxi_test_until(coxi_test_is_wanted, &held, "the opening of its file");
    struct coxi_psc *client = harbour_dial(&s.harbour, COXI_ROLE_CLIENT, &newer);
    assert_code(0, harbour_claim(client, &newer));
    uint64_t now = coxi_psc_incarnation(client); /* a new incarnation since the claim */
    assert_code(0, harbour_create(client, &newer, 2));
    assert_code(0, harbour_pull(client, &newer, now, found, 2));
    /* nobody asked for it: a newer client has claimed the ps */
    assert_int_equal(0, caller_expect(caller, COXI_STATUS)->request);
    assert_int_equal(0, caller_waiting(caller));
    assert_int_equal(0, close(held));
    assert_code(COX_EFENCED, caller_expect(caller, COXI_STATUS)->status.code);
    assert_code(0, harbour_pull(client, &newer, now, found, 2));
    assert_true(found[0] == 0);
    coxi_psc_close(client);
    caller_close(caller);
    scene_close(&s);
}
