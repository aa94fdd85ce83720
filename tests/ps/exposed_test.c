/* What a ps that several runs share serves over HTTP. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/file.h"
#include "ps/exposed.h"
#include "ps/request_times.h"
#include "tests/http/visitor.h"
#include "tests/program.h"
#include "tests/ps/harbour.h"
#include "tests/test.h"

enum { N = 4 };

/* The token is a secret of the run. */
static const struct coxi_session session = {
    .run = 0xabc, .generation = 3, .token = 1234567890123456789u};

static void make_key(const char *directory, const char *name, struct coxi_key *ret)
{
    char path[PATH_MAX];
    assert_code(0, coxi_path(path, "%s/%s.key", directory, name));
    assert_code(0, coxi_key_new(path));
    assert_code(0, coxi_key_read(path, ret));
}

/* Has a commit applied. The next one comes so much later that it is timed, too. */
static void commit_slowly(struct coxi_psc *psc, uint64_t closure, const float *values)
{
    assert_code(0, harbour_commit(psc, &session, coxi_psc_incarnation(psc), closure,
                                  values, N));
    uint64_t next_ns = coxi_now_ns() + COXI_REQUESTS_FAST_NS;
    while (coxi_now_ns() < next_ns) {
    }
}

/* Has `n` commits applied for the run of the key. */
static struct coxi_psc *train(struct harbour *harbour, const struct coxi_key *key,
                              uint64_t n)
{
    const float values[N] = {1};
    float found[N];
    struct coxi_psc *psc = harbour_dial_with(harbour, key, COXI_ROLE_CLIENT, &session);
    uint64_t incarnation = coxi_psc_incarnation(psc);
    assert_code(0, harbour_claim(psc, &session));
    assert_code(0, harbour_create(psc, &session, N));
    for (uint64_t i = 0; i < n; i++) {
        commit_slowly(psc, 2 + i, values);
    }
    commit_slowly(psc, 2, values); /* again */
    assert_code(0, harbour_pull(psc, &session, incarnation, found, N));
    return psc;
}

TEST(a_shared_ps_tells_each_run_s_numbers_and_no_secret)
{
    struct harbour harbour;
    struct coxi_keyring *keyring;
    struct coxi_served *served;
    struct coxi_key a;
    struct coxi_key b;
    const char *keys = coxi_test_path("keys");
    const struct coxi_serve_options http = {.address = "0",
                                            .file = coxi_test_path("url")};
    assert_int_equal(0, mkdir(keys, 0700));
    assert_int_equal(0, mkdir(coxi_test_path("root"), 0700));
    make_key(keys, "a", &a);
    make_key(keys, "b", &b);
    assert_code(0, coxi_keyring_open(keys, &keyring));
    harbour_open_with(
        &harbour, (struct coxi_ps_options){.keys = keyring,
                                           .runs_max = 2,
                                           .timed = true,
                                           .checkpoint_root = coxi_test_path("root")});
    assert_code(0, coxi_ps_expose(&http, harbour.ps, &served));
    char *url = coxi_test_read(coxi_test_path("url"), NULL);
    url[strcspn(url, "\n")] = '\0';
    free(visitor_get(url, "/metrics")); /* before anybody has come */
    struct coxi_psc *of_a = train(&harbour, &a, 5);
    struct coxi_psc *of_b = train(&harbour, &b, 7);
    char *all = visitor_get(url, "/metrics");
    assert_true(visitor_sample(all, "coxswain_ps_commits_total{run=\"a\"}") == 5);
    assert_true(visitor_sample(all, "coxswain_ps_commits_total{run=\"b\"}") == 7);
    assert_true(visitor_sample(all, "coxswain_ps_commits_duplicate_total{run=\"b\"}") ==
                1);
    assert_true(visitor_sample(all, "coxswain_ps_pulls_total{run=\"a\"}") == 1);
    assert_true(visitor_sample(all, "coxswain_ps_pull_seconds_count{run=\"a\"}") == 1);
    assert_true(visitor_sample(all, "coxswain_ps_commit_seconds_count{run=\"b\"}") ==
                8);
    assert_true(visitor_sample(all, "coxswain_ps_values_bytes{run=\"a\"}") >=
                N * sizeof(float));
    assert_true(visitor_sample(all, "coxswain_ps_connections{run=\"a\"}") >= 1);
    assert_true(visitor_sample(all, "coxswain_ps_run_info{run=\"a\",run_id=\""
                                    "0000000000000abc\",generation=\"3\"}") == 1);
    assert_null(strstr(all, "1234567890123456789")); /* the token, ... */
    assert_null(strstr(all, "112210f47de98115")); /* ... in hexadecimal digits, too */
    assert_null(strstr(all, coxi_test_dir()));
    free(all);
    free(url);
    coxi_served_stop(served);
    coxi_psc_close(of_a);
    coxi_psc_close(of_b);
    harbour_close(&harbour);
    coxi_keyring_free(keyring);
}

TEST(ps_program_serves_no_other_host_unless_told)
{
    program_assert_refuses("coxswain-ps", "--http=0.0.0.0:0", "--http: other hosts");
    program_assert_refuses("coxswain-ps", "--http=nowhere", "is no address");
}
