/* cox_stats returns the known numbers in every state of the ps. Calls of
 * coxi_psc_submit_now go through this file (ld --wrap). */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "common/clock.h"
#include "net/ps_client.h"
#include "tests/coordinator/yard.h"
#include "tests/test.h"

enum {
    N = 5,
    MOST_MS = 3000,
    N_PS = 2,
    CALLS =
        /* a call that waited in vain would take a second, so this many calls would
         * miss the deadline */
    100
};

/* Calls cox_stats, and asserts that it returns in time. */
static struct cox_stats look(struct cox_coordinator *c)
{
    struct cox_stats stats = COX_STATS_INIT;
    uint64_t since_ms = coxi_now_ms();
    assert_code(0, cox_stats(c, &stats));
    assert_true(coxi_now_ms() - since_ms < MOST_MS);
    return stats;
}

static bool are_fresh(void *arg)
{
    return look(arg).ps_age_ms == 0;
}

static bool is_missed(void *arg)
{
    return look(arg).ps_age_ms > 0;
}

TEST(stats_tell_what_a_ps_said_last_while_it_stands_still)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.peer_timeout_ms = 60000;
    crew_open(&crew, 2, 1, "counter", &options);
    (void)crew_counter(&crew, "c0");
    (void)crew_counter(&crew, "c1");
    crew_schedule(&crew, crew_function(&crew, "count"), N, 2);
    assert_code(0, cox_join(crew.c, -1));
    struct cox_stats stats = look(crew.c);
    assert_int_equal(2 * N, stats.commits);
    assert_int_equal(0, stats.ps_age_ms);
    pid_t ps = crew_ps_process(&crew, 1);
    assert_int_equal(0, kill(ps, SIGSTOP));
    coxi_test_until(is_missed, crew.c, "the silence of the ps"); /* it stops soon */
    stats = look(crew.c);
    assert_int_equal(2 * N, stats.commits);
    assert_int_equal(N, stats.done);
    /* Further calls do not wait for that ps again. */
    uint64_t since_ms = coxi_now_ms();
    for (int i = 0; i < 20; i++) {
        assert_true(look(crew.c).ps_age_ms > 0);
    }
    assert_true(coxi_now_ms() - since_ms < MOST_MS);
    assert_int_equal(0, kill(ps, SIGCONT));
    coxi_test_until(are_fresh, crew.c, "an answer of the ps");
    crew_close(&crew);
}

/* ---- answers that come while another ps is asked */

static atomic_bool
    keeps_order; /* both ps answer once ps 1 was asked, before its submit returns */
static atomic_int n_asked;
static atomic_int n_answered;
static void (*real_done)(struct coxi_psc_request *request, int code,
                         const struct coxi_message *answer, void *payload, size_t len);

int __real_coxi_psc_submit_now(struct coxi_psc *psc, const struct coxi_message *message,
                               struct coxi_psc_request *request, bool later);
int __wrap_coxi_psc_submit_now(struct coxi_psc *psc, const struct coxi_message *message,
                               struct coxi_psc_request *request, bool later);

static void on_answer(struct coxi_psc_request *request, int code,
                      const struct coxi_message *answer, void *payload, size_t len)
{
    while (n_asked % N_PS != 0) {
        (void)sched_yield();
    }
    real_done(request, code, answer, payload, len);
    n_answered++;
}

int __wrap_coxi_psc_submit_now(struct coxi_psc *psc, const struct coxi_message *message,
                               struct coxi_psc_request *request, bool later)
{
    if (!keeps_order || message->kind != COXI_COUNT) {
        return __real_coxi_psc_submit_now(psc, message, request, later);
    }
    real_done = request->done;
    request->done = on_answer;
    bool last = ++n_asked % N_PS == 0;
    int r = __real_coxi_psc_submit_now(psc, message, request, later);
    while (last && r == 0 && n_answered < n_asked) {
        (void)sched_yield();
    }
    return r;
}

TEST(stats_wait_no_longer_than_for_the_last_answer)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.history = -1; /* nobody else asks */
    crew_open(&crew, N_PS, 1, NULL, &options);
    keeps_order = true;
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(0, look(crew.c).ps_age_ms);
    }
    keeps_order = false;
    assert_int_equal(CALLS * N_PS, n_answered);
    crew_close(&crew);
}

/* ---- ps that are away */

TEST(stats_wait_for_no_recovery)
{
    struct yard yard;
    struct program worker;
    struct cox_options options = COX_OPTIONS_INIT;
    char address[256];
    options.checkpoint_dir = coxi_test_path("checkpoints");
    yard_open(&yard, &options);
    yard_worker(&yard, &worker, NULL);
    yard_wait_ready(&yard, 1);
    yard_count(&yard, N);
    assert_code(0, cox_join(yard.crew.c, -1));
    assert_int_equal(N, look(yard.crew.c).commits);
    (void)snprintf(address, sizeof(address), "%s", yard.ps_address);
    program_kill(&yard.ps, SIGKILL);
    assert_int_equal(256 + SIGKILL, program_wait(&yard.ps));
    coxi_test_until(is_missed, yard.crew.c, "the loss of the ps");
    struct cox_stats stats = look(yard.crew.c);
    assert_int_equal(N, stats.commits);
    assert_int_equal(1, stats.workers_ready);
    assert_int_equal(0, stats.ps_recovered);
    daemon_start(&yard.ps, "coxswain-ps", 0, address, yard.ps_address);
    coxi_test_until(are_fresh, yard.crew.c, "an answer of the ps that is back");
    yard_kill(&worker);
    yard_close(&yard);
}

static bool is_recovered(void *c)
{
    struct cox_stats stats = look(c);
    return stats.ps_recovered == 1 && stats.ps_age_ms == 0;
}

/* The ps that is back begins to count at 0. */
TEST(commits_do_not_fall_when_a_ps_is_started_again)
{
    struct yard yard;
    struct program worker;
    struct cox_options options = COX_OPTIONS_INIT;
    char address[256];
    uint64_t number;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    yard_open(&yard, &options);
    yard_worker(&yard, &worker, NULL);
    yard_wait_ready(&yard, 1);
    yard_count(&yard, N);
    assert_code(0, cox_join(yard.crew.c, -1));
    assert_code(0, cox_checkpoint_save(yard.crew.c, NULL, &number));
    assert_int_equal(N, look(yard.crew.c).commits);
    (void)snprintf(address, sizeof(address), "%s", yard.ps_address);
    program_kill(&yard.ps, SIGKILL);
    assert_int_equal(256 + SIGKILL, program_wait(&yard.ps));
    daemon_start(&yard.ps, "coxswain-ps", 0, address, yard.ps_address);
    coxi_test_until(is_recovered, yard.crew.c, "the ps is back");
    assert_int_equal(N, look(yard.crew.c).commits);
    yard_count(&yard, N);
    assert_code(0, cox_join(yard.crew.c, -1));
    assert_int_equal(2 * N, look(yard.crew.c).commits);
    yard_kill(&worker);
    yard_close(&yard);
}
