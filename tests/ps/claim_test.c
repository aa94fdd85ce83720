/* Answers of a ps to a client that claims it: whether its present client is still
 * connected, and whether the ps sees the client's files. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "tests/ps/caller.h"
#include "tests/ps/harbour.h"
#include "tests/test.h"

static const struct coxi_session run1 = {.run = 1, .generation = 1, .token = 11};
static const struct coxi_session run2 = {.run = 2, .generation = 1, .token = 22};

static const struct coxi_session run3 = {.run = 3, .generation = 1, .token = 33};

struct asker {
    struct harbour *harbour;
    struct coxi_psc *psc;
};

/* Connects anew for each claim, so that the connection is newer than the last message
 * of the other client. */
static bool is_told_to_ask_again(void *arg)
{
    struct asker *asker = arg;
    coxi_psc_close(asker->psc);
    asker->psc = harbour_dial(asker->harbour, COXI_ROLE_CLIENT, &run2);
    return harbour_claim(asker->psc, &run2) == COX_EAGAIN;
}

static bool is_told_that_it_is_busy(void *arg)
{
    return harbour_claim(((struct asker *)arg)->psc, &run2) == COX_EBUSY;
}

/* Run 1 claims the ps, and gets it. */
static void owner_claims(struct caller *owner)
{
    const struct coxi_message claim = {
        .request = 1, .kind = COXI_CLAIM, .claim = {.session = run1}};
    caller_send(owner, &claim, NULL, 0);
    assert_int_equal(0, caller_expect(owner, COXI_STATUS)->status.code);
}

/* Opens the harbour. Run 1 claims its ps; returns run 1's caller, after run 2 has
 * claimed the ps, too, and was told to ask again. */
static struct caller *owner_before(struct asker *asker)
{
    const struct coxi_hello hello = {.role = COXI_ROLE_CLIENT, .session = run1};
    harbour_open(asker->harbour, harbour_ipc());
    struct caller *owner = caller_join(coxi_ps_url(asker->harbour->ps), &hello);
    owner_claims(owner);
    coxi_test_until(is_told_to_ask_again, asker, "a claim after the owner's last word");
    return owner;
}

static bool is_given_the_ps(void *arg)
{
    return harbour_claim(((struct asker *)arg)->psc, &run2) == 0;
}

/*
 * A peer of run 1 is connected while run 2 takes the ps. It was greeted with the
 * incarnation before, so it would hear for ever that its requests are for another one.
 */
TEST(ps_cuts_off_the_peers_of_a_run_whose_place_was_taken)
{
    struct harbour h;
    struct asker asker = {.harbour = &h};
    const struct coxi_hello worker = {.role = COXI_ROLE_WORKER, .session = run1};
    const struct coxi_hello reader = {.role = COXI_ROLE_TOOL, .session = run1};
    struct caller *owner = owner_before(&asker);
    struct caller *left = caller_join(coxi_ps_url(h.ps), &worker);
    struct caller *reads = caller_join(coxi_ps_url(h.ps), &reader);
    caller_close(owner);
    coxi_test_until(is_given_the_ps, &asker, "the owner to be gone");
    caller_expect_end(left);
    const struct coxi_message count = {.request = 1, .kind = COXI_COUNT};
    caller_send(reads, &count, NULL, 0); /* readers follow whatever run there is */
    (void)caller_next(reads);
    caller_close(left);
    caller_close(reads);
    coxi_psc_close(asker.psc);
    harbour_close(&h);
}

/* Claims the ps for run 1; if its incarnation is `leaves`, it begins another one. Returns
 * the incarnation. */
static uint64_t claim_anew(struct coxi_psc *psc, uint64_t leaves)
{
    const struct coxi_message claim = {.kind = COXI_CLAIM, .claim = {run1, leaves}};
    assert_code(0, harbour_ask(psc, &claim, COXI_STATUS));
    return coxi_psc_incarnation(psc);
}

TEST(ps_begins_another_incarnation_once_if_its_client_asks_for_that)
{
    struct harbour h;
    const float ones[2] = {1, 1};
    float values[2] = {0};
    harbour_open(&h, harbour_ipc());
    struct coxi_psc *psc = harbour_dial(&h, COXI_ROLE_CLIENT, &run1);
    struct coxi_psc *worker = harbour_dial(&h, COXI_ROLE_WORKER, &run1);
    uint64_t first = claim_anew(psc, 0);
    assert_int_equal(first, claim_anew(psc, 0));
    assert_int_equal(0, harbour_create(psc, &run1, 2));
    assert_int_equal(0, harbour_commit(worker, &run1, first, 2, ones, 2));
    uint64_t second = claim_anew(psc, first);
    assert_true(second != first);
    assert_int_equal(COX_EPSLOST, harbour_commit(worker, &run1, first, 3, ones, 2));
    assert_int_equal(COX_EPSLOST, harbour_pull(worker, &run1, first, values, 2));
    assert_int_equal(COX_ENOENT, harbour_pull(worker, &run1, second, values, 2));
    assert_int_equal(0, harbour_create(psc, &run1, 2));
    /* the same claim comes once more */
    assert_int_equal(second, claim_anew(psc, first));
    assert_int_equal(0, harbour_commit(worker, &run1, second, 2, ones, 2));
    assert_int_equal(0, harbour_pull(worker, &run1, second, values, 2));
    assert_true(values[0] == 1 && values[1] == 1);
    coxi_psc_close(worker);
    coxi_psc_close(psc);
    harbour_close(&h);
}

TEST(ps_tells_whether_the_client_that_has_it_was_heard_since_another_came)
{
    struct harbour h;
    struct asker asker = {.harbour = &h};
    struct caller *owner = owner_before(&asker);
    assert_error_names("0000000000000001");
    owner_claims(owner);
    coxi_test_until(is_told_that_it_is_busy, &asker, "the owner's word to be noted");
    caller_close(owner);
    coxi_psc_close(asker.psc);
    harbour_close(&h);
}

/*
 * Returns the lines that the ps, which is in this process, logs of repeated claims: of
 * run 2, whose refusal was logged before, of run 3, and of the owner, whose claims are
 * granted.
 */
static char *log_of_claims(struct asker *asker, struct coxi_psc *fresh,
                           struct caller *owner, int n)
{
    const char *path = coxi_test_path("log");
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    coxi_log_init("ps", 0, COXI_LOG_INFO);
    coxi_log_to(fd);
    for (int i = 0; i < n; i++) {
        assert_int_equal(COX_EAGAIN, harbour_claim(asker->psc, &run2));
    }
    assert_int_equal(COX_EAGAIN, harbour_claim(fresh, &run3));
    for (int i = 0; i < 2; i++) {
        owner_claims(owner);
    }
    coxi_log_to(STDERR_FILENO);
    assert_int_equal(0, close(fd));
    return coxi_test_read(path, NULL);
}

TEST(ps_logs_a_claim_that_is_told_the_same_again_once)
{
    struct harbour h;
    int n = 0;
    struct asker asker = {.harbour = &h};
    struct caller *owner = owner_before(&asker);
    struct coxi_psc *fresh = harbour_dial(&h, COXI_ROLE_CLIENT, &run3);
    char *log = log_of_claims(&asker, fresh, owner, 10);
    for (const char *at = log; (at = strstr(at, "event=claim")) != NULL; at++) {
        n++;
    }
    assert_int_equal(1 + 2, n); /* run 2 was logged before that */
    assert_non_null(strstr(log, "run=0000000000000003"));
    free(log);
    caller_close(owner);
    coxi_psc_close(asker.psc);
    coxi_psc_close(fresh);
    harbour_close(&h);
}

TEST(ps_opens_the_file_of_a_probe_and_makes_its_own_beside_it)
{
    char its[300];
    struct harbour h;
    struct coxi_message probe = {.kind = COXI_PROBE};
    const char *path = coxi_test_path(".coxswain-probe-0123456789abcdef");
    (void)snprintf(its, sizeof(its), "%s.ps-0", path);
    harbour_open(&h, harbour_ipc());
    struct coxi_psc *client = harbour_dial(&h, COXI_ROLE_CLIENT, &run1);
    probe.probe = (struct coxi_probe){run1, path, true};
    assert_code(COX_EFENCED, harbour_ask(client, &probe, COXI_STATUS));
    assert_code(0, harbour_claim(client, &run1));
    assert_code(COX_EIO, harbour_ask(client, &probe, COXI_STATUS));
    assert_error_names("No such file or directory");
    assert_int_equal(-1, access(its, F_OK));
    coxi_test_write(path, "", 0);
    probe.probe.writes = false;
    assert_code(0, harbour_ask(client, &probe, COXI_STATUS));
    assert_int_equal(-1, access(its, F_OK));
    probe.probe.writes = true;
    assert_code(0, harbour_ask(client, &probe, COXI_STATUS));
    assert_int_equal(0, access(its, F_OK));
    coxi_psc_close(client);
    harbour_close(&h);
}
