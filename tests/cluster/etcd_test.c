/* The client of etcd's gateway, against one with faults. */
#include "cluster/etcd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/sync.h"
#include "tests/cluster/gateway.h"
#include "tests/test.h"

struct fixture {
    struct gateway *g;
    struct coxi_etcd_settings settings;
    struct coxi_etcd *etcd;
};

static void fixture_open(struct fixture *f, int timeout_ms)
{
    f->g = gateway_open();
    f->settings = (struct coxi_etcd_settings){.endpoints = gateway_url(f->g)};
    assert_code(0, coxi_etcd_settings_fill(&f->settings));
    assert_code(0, coxi_etcd_new(&f->settings, timeout_ms, &f->etcd));
}

/* The same, as a user. */
static void fixture_open_as(struct fixture *f, const char *password)
{
    f->g = gateway_open();
    coxi_test_write(coxi_test_path("password"), password, strlen(password));
    f->settings =
        (struct coxi_etcd_settings){.endpoints = gateway_url(f->g),
                                    .user = "me",
                                    .password_file = coxi_test_path("password")};
    assert_code(0, coxi_etcd_settings_fill(&f->settings));
    assert_code(0, coxi_etcd_new(&f->settings, 5000, &f->etcd));
}

static void fixture_close(struct fixture *f)
{
    coxi_etcd_free(f->etcd);
    gateway_close(f->g);
}

static int list(struct fixture *f, size_t *ret_n)
{
    struct coxi_etcd_list all;
    int r = coxi_etcd_list(f->etcd, "/job/ps/", true, &all);
    if (r == 0) {
        *ret_n = all.n;
        coxi_etcd_list_fini(&all);
    }
    return r;
}

TEST(etcd_puts_a_key_that_is_as_it_was_and_lists_it)
{
    struct fixture f;
    struct coxi_etcd_list all;
    int64_t lease;
    fixture_open(&f, 5000);
    gateway_put(f.g, "/job/psx", "another's");
    assert_code(0, coxi_etcd_grant(f.etcd, 5, &lease));
    assert_code(0, coxi_etcd_keep(f.etcd, lease));
    assert_code(0, coxi_etcd_put(f.etcd, "/job/ps/0", "a", lease, 0));
    assert_code(COX_ECONFLICT, coxi_etcd_put(f.etcd, "/job/ps/0", "b", lease, 0));
    assert_code(0, coxi_etcd_put(f.etcd, "/job/ps/1", "two", lease, 0));
    assert_code(0, coxi_etcd_list(f.etcd, "/job/ps/", true, &all));
    assert_int_equal(2, all.n);
    assert_string_equal("/job/ps/0", all.items[0].key);
    assert_string_equal("a", all.items[0].value);
    assert_string_equal("two", all.items[1].value);
    assert_code(0,
                coxi_etcd_put(f.etcd, "/job/ps/0", "b", lease, all.items[0].revision));
    coxi_etcd_list_fini(&all);
    assert_code(0, coxi_etcd_revoke(f.etcd, lease));
    assert_code(0, coxi_etcd_list(f.etcd, "/job/ps/", true, &all));
    assert_int_equal(0, all.n);
    coxi_etcd_list_fini(&all);
    assert_string_equal("127.0.0.1", coxi_etcd_own_host(f.etcd));
    fixture_close(&f);
}

TEST(etcd_notices_a_lease_that_has_expired)
{
    struct fixture f;
    int64_t lease;
    fixture_open(&f, 5000);
    assert_code(0, coxi_etcd_grant(f.etcd, 5, &lease));
    gateway_expire(f.g);
    assert_code(COX_ENOENT, coxi_etcd_keep(f.etcd, lease));
    assert_code(COX_ENOENT, coxi_etcd_put(f.etcd, "/job/ps/0", "a", lease, 0));
    fixture_close(&f);
}

TEST(etcd_tells_changes_of_what_is_watched)
{
    struct fixture f;
    fixture_open(&f, 5000);
    gateway_half_lines(f.g);
    assert_code(0, coxi_etcd_watch(f.etcd, "/job/ps/", true, 2));
    assert_int_equal(COX_ETIMEDOUT, coxi_etcd_wait(f.etcd, 2, 50));
    gateway_put(f.g, "/job/ps/0", "a");
    assert_code(0, coxi_etcd_wait(f.etcd, 2, 8000));
    /* what was seen in a list already is nothing new */
    gateway_put(f.g, "/job/ps/0", "b");
    assert_int_equal(COX_ETIMEDOUT, coxi_etcd_wait(f.etcd, 4, 200));
    /* requests go on beside the watch */
    size_t n;
    assert_code(0, list(&f, &n));
    gateway_put(f.g, "/job/ps/1", "c");
    assert_code(0, coxi_etcd_wait(f.etcd, 4, 8000));
    fixture_close(&f);
}

TEST(etcd_tells_that_changes_were_forgotten)
{
    struct fixture f;
    fixture_open(&f, 5000);
    gateway_compact(f.g);
    assert_code(0, coxi_etcd_watch(f.etcd, "/job/ps/", true, 1));
    assert_code(COX_EAGAIN, coxi_etcd_wait(f.etcd, 1, 8000));
    fixture_close(&f);
}

TEST(etcd_gets_a_new_token_when_the_old_one_is_not_known_any_more)
{
    struct fixture f;
    size_t n;
    fixture_open_as(&f, "secret\n");
    gateway_want_password(f.g, "secret");
    assert_code(0, list(&f, &n));
    gateway_forget_tokens(f.g);
    assert_code(0, list(&f, &n));
    assert_int_equal(2, gateway_count(f.g, "auth/authenticate"));
    gateway_want_password(f.g, "another");
    gateway_forget_tokens(f.g);
    assert_code(COX_EIO, list(&f, &n));
    assert_error_names("wrong password");
    fixture_close(&f);
}

TEST(etcd_without_users_wants_no_token)
{
    struct fixture f;
    size_t n;
    fixture_open_as(&f, "secret");
    assert_code(0, list(&f, &n));
    fixture_close(&f);
}

TEST(etcd_that_answers_nonsense_is_an_error)
{
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", /* no revision */
        "HTTP/1.1 500 X\r\nContent-Length: 5\r\n\r\n\x1b[31m",
        "HTTP/1.1 503 X\r\nContent-Length: 8\r\n\r\n{\"code\":",
        "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{\"kvs\"",
        "nothing of HTTP\r\n\r\n",
        NULL,
    };
    struct fixture f;
    size_t n = 7;
    fixture_open(&f, 5000);
    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
        gateway_fault(f.g, "kv/range", 1, answers[i]);
        assert_code(COX_EIO, list(&f, &n));
        assert_int_equal(7, n);
    }
    gateway_fault(f.g, "lease/grant", 1, answers[3]);
    int64_t lease = 7;
    assert_code(COX_EIO, coxi_etcd_grant(f.etcd, 5, &lease));
    assert_int_equal(7, lease);
    assert_code(0, list(&f, &n));
    fixture_close(&f);
}

TEST(etcd_that_says_control_characters_does_not_bring_them_into_texts)
{
    static const char answer[] = "HTTP/1.1 500 X\r\nContent-Length: 39\r\n\r\n"
                                 "{\"message\":\"a\\u001b[31mb\\nc\", \"code\":3}";
    struct fixture f;
    size_t n = 7;
    fixture_open(&f, 5000);
    gateway_fault(f.g, "kv/range", 1, answer);
    assert_code(COX_EIO, list(&f, &n));
    assert_error_names("a?[31mb?c");
    fixture_close(&f);
}

/* The next answer to `path` is a success with 5 MiB of 'x'. */
static void answer_huge(struct gateway *g, const char *path)
{
    static const char head[] = "HTTP/1.1 200 OK\r\n\r\n";
    size_t len = 5 << 20;
    char *raw = malloc(sizeof(head) + len);
    memcpy(raw, head, sizeof(head));
    memset(raw + strlen(head), 'x', len);
    raw[strlen(head) + len] = '\0';
    gateway_fault(g, path, 1, raw);
    free(raw);
}

TEST(etcd_bounds_answers_and_lines)
{
    struct fixture f;
    size_t n;
    fixture_open(&f, 20000);
    answer_huge(f.g, "kv/range");
    assert_code(COX_ELIMIT, list(&f, &n));
    answer_huge(f.g, "watch");
    assert_code(0, coxi_etcd_watch(f.etcd, "/job/ps/", true, 1));
    assert_code(COX_ELIMIT, coxi_etcd_wait(f.etcd, 1, 20000));
    fixture_close(&f);
}

TEST(etcd_leaves_out_keys_whose_value_is_no_text)
{
    struct fixture f;
    struct coxi_etcd_list all;
    fixture_open(&f, 5000);
    gateway_fault(f.g, "kv/range", 1,
                  "HTTP/1.1 200 OK\r\n\r\n{\"header\":{\"revision\":\"5\"},\"kvs\":["
                  "{\"key\":\"YQ==\",\"value\":\"AAAA\"},"
                  "{\"key\":\"Yg==\",\"value\":\"!!!!\"},"
                  "{\"key\":\"Yw==\",\"value\":\"eHl6eg\"},"
                  "{\"key\":\"ZA==\",\"value\":7},"
                  "3,"
                  "{\"key\":\"ZQ==\",\"value\":\"b2s=\"}]}");
    assert_code(0, coxi_etcd_list(f.etcd, "/job/ps/", true, &all));
    bool found = false;
    for (size_t i = 0; i < all.n; i++) {
        found = found || strcmp(all.items[i].value, "ok") == 0;
        assert_true(strchr("e", all.items[i].key[0]) != NULL);
    }
    assert_true(found);
    coxi_etcd_list_fini(&all);
    fixture_close(&f);
}

TEST(etcd_does_not_wait_for_ever_for_an_answer)
{
    struct fixture f;
    size_t n;
    fixture_open(&f, 200);
    gateway_fault(f.g, "kv/range", 1, "");
    assert_code(COX_EIO, list(&f, &n));
    assert_error_names("no answer in time");
    coxi_etcd_limit(f.etcd, 5000);
    assert_code(0, list(&f, &n));
    fixture_close(&f);
}

static void *abort_thread(void *arg)
{
    struct fixture *f = arg;
    gateway_await(f->g, "kv/range", 1);
    coxi_etcd_abort(f->etcd, true);
    return NULL;
}

TEST(etcd_ends_a_call_that_another_thread_aborts)
{
    struct fixture f;
    size_t n;
    pthread_t thread;
    fixture_open(&f, 60000);
    gateway_fault(f.g, "kv/range", 1, "");
    assert_int_equal(0, pthread_create(&thread, NULL, abort_thread, &f));
    assert_code(COX_ECANCELLED, list(&f, &n));
    assert_code(COX_ECANCELLED, coxi_etcd_wait(f.etcd, 1, 60000));
    (void)pthread_join(thread, NULL);
    coxi_etcd_abort(f.etcd, false);
    assert_code(0, list(&f, &n));
    fixture_close(&f);
}

TEST(etcd_asks_the_next_endpoint)
{
    struct fixture f = {.g = gateway_open()};
    char endpoints[128];
    size_t n;
    (void)snprintf(endpoints, sizeof(endpoints), "http://127.0.0.1:1,%s",
                   gateway_url(f.g));
    f.settings = (struct coxi_etcd_settings){.endpoints = endpoints};
    assert_code(0, coxi_etcd_settings_fill(&f.settings));
    assert_code(0, coxi_etcd_new(&f.settings, 5000, &f.etcd));
    assert_code(COX_EIO, list(&f, &n));
    assert_error_names("http://127.0.0.1:1:");
    assert_true(coxi_etcd_next(f.etcd));
    assert_code(0, list(&f, &n));
    assert_false(coxi_etcd_next(f.etcd));
    fixture_close(&f);
}

TEST(etcd_settings_that_are_wrong_are_named)
{
    static const struct {
        struct coxi_etcd_settings settings;
        const char *names;
    } cases[] = {
        {{.endpoints = "h1:2379"}, "h1:2379"},
        {{.endpoints = "http://h1:2379/v3"}, "COX_ETCD"},
        {{.endpoints = "http://h1:2379,,http://h2"}, "COX_ETCD"},
        {{.endpoints = "http://me:secret@h1:2379"}, "COX_ETCD"},
        {{.endpoints = "http://h1", .prefix = "/a/"}, "COX_ETCD_PREFIX"},
        {{.endpoints = "http://h1", .prefix = "/a b"}, "COX_ETCD_PREFIX"},
        {{.endpoints = "http://h1", .user = "me"}, "COX_ETCD_PASSWORD_FILE"},
        {{.endpoints = "http://h1", .cert_file = "c"}, "COX_ETCD_KEY"},
        {{.endpoints = "http://h1", .ttl_s = 3601}, "COX_ETCD_TTL"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct coxi_etcd_settings settings = cases[i].settings;
        assert_code(COX_EINVAL, coxi_etcd_settings_fill(&settings));
        assert_error_names(cases[i].names);
    }
    struct coxi_etcd_settings none = {0};
    assert_code(0, coxi_etcd_settings_fill(&none));
    assert_null(none.endpoints);
}
