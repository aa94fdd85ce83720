/* A process's part in its job, in an etcd with faults. */
#include "cluster/membership.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/sync.h"
#include "net/link.h"
#include "tests/cluster/gateway.h"
#include "tests/test.h"

/* A process: what it was told. */
struct process {
    struct gateway *g;
    struct coxi_etcd_settings settings;
    struct coxi_membership *membership;
    struct coxi_mutex lock;
    char seen[COXI_URL_MAX + 1]; /* the last address */
    int news[COXI_ETCD_BACK + 1];
    const char *key; /* for conditions */
    const char *url;
    int n;
};

static void on_member(void *arg, const char *key, const char *url)
{
    struct process *p = arg;
    coxi_lock(&p->lock);
    (void)snprintf(p->seen, sizeof(p->seen), "%s=%s", key, url);
    coxi_unlock(&p->lock);
}

static void on_news(void *arg, enum coxi_member_news news, const char *text)
{
    struct process *p = arg;
    assert_true(strlen(text) > 0);
    coxi_lock(&p->lock);
    p->news[news]++;
    coxi_unlock(&p->lock);
}

static void process_start(struct process *p, struct gateway *g, const char *endpoints,
                          const char *watch)
{
    *p = (struct process){.g = g};
    p->settings = (struct coxi_etcd_settings){
        .endpoints = endpoints, .prefix = "/job", .ttl_s = 1};
    coxi_mutex_init(&p->lock);
    assert_code(0, coxi_etcd_settings_fill(&p->settings));
    assert_code(0, coxi_membership_start(
                       &(struct coxi_membership_options){.settings = &p->settings,
                                                         .watch = watch,
                                                         .on_member = on_member,
                                                         .on_news = on_news,
                                                         .arg = p},
                       &p->membership));
}

static void process_register(struct process *p, const char *key, const char *url,
                             bool exclusive)
{
    assert_code(
        0, coxi_membership_register(
               p->membership,
               &(struct coxi_member){.key = key, .url = url, .exclusive = exclusive}));
}

static void process_end(struct process *p)
{
    coxi_membership_stop(p->membership);
    coxi_mutex_fini(&p->lock);
}

static bool has_seen(void *arg)
{
    struct process *p = arg;
    coxi_lock(&p->lock);
    bool has = strcmp(p->seen, p->url) == 0;
    coxi_unlock(&p->lock);
    return has;
}

static void wait_seen(struct process *p, const char *what)
{
    p->url = what;
    coxi_test_until(has_seen, p, what);
}

static bool has_key(void *arg)
{
    const struct process *p = arg;
    char *value = gateway_get(p->g, p->key);
    bool has = value != NULL && strstr(value, p->url) != NULL;
    free(value);
    return has;
}

static void wait_key(struct process *p, const char *key, const char *url)
{
    p->key = key;
    p->url = url;
    coxi_test_until(has_key, p, url);
}

static bool has_news(void *arg)
{
    struct process *p = arg;
    coxi_lock(&p->lock);
    bool has = p->news[p->n] > 0;
    coxi_unlock(&p->lock);
    return has;
}

static void wait_news(struct process *p, enum coxi_member_news news)
{
    p->n = (int)news;
    coxi_test_until(has_news, p, "news");
}

/* A client that watches the ps, and a ps that registers. */
struct fixture {
    struct gateway *g;
    struct process client;
    struct process ps;
};

static void fixture_open(struct fixture *f)
{
    f->g = gateway_open();
    process_start(&f->client, f->g, gateway_url(f->g), "ps/");
    process_start(&f->ps, f->g, gateway_url(f->g), NULL);
    process_register(&f->ps, "ps/0", "tcp://h1:1", true);
    wait_seen(&f->client, "ps/0=tcp://h1:1");
}

static void fixture_close(struct fixture *f)
{
    process_end(&f->ps);
    process_end(&f->client);
    gateway_close(f->g);
}

TEST(membership_of_a_process_that_ends_is_removed_and_its_successor_is_seen)
{
    struct fixture f;
    fixture_open(&f);
    process_end(&f.ps);
    assert_null(gateway_get(f.g, "/job/ps/0"));
    process_start(&f.ps, f.g, gateway_url(f.g), NULL);
    process_register(&f.ps, "ps/0", "tcp://h2:2", true);
    wait_seen(&f.client, "ps/0=tcp://h2:2");
    fixture_close(&f);
}

TEST(membership_is_made_again_when_the_lease_has_expired)
{
    struct fixture f;
    fixture_open(&f);
    gateway_expire(f.g);
    wait_key(&f.ps, "/job/ps/0", "tcp://h1:1");
    gateway_delete(f.g, "/job/ps/0");
    wait_key(&f.ps, "/job/ps/0", "tcp://h1:1");
    fixture_close(&f);
}

TEST(membership_is_made_again_in_an_etcd_that_has_lost_its_data)
{
    struct fixture f;
    fixture_open(&f);
    gateway_down(f.g, true);
    wait_news(&f.ps, COXI_ETCD_LOST);
    wait_news(&f.client, COXI_ETCD_LOST);
    gateway_lose_data(f.g);
    gateway_down(f.g, false);
    wait_news(&f.ps, COXI_ETCD_BACK);
    wait_key(&f.ps, "/job/ps/0", "tcp://h1:1");
    wait_news(&f.client, COXI_ETCD_BACK);
    gateway_put(f.g, "/job/ps/1", "{\"address\":\"h3:3\"}");
    wait_seen(&f.client, "ps/1=tcp://h3:3");
    assert_int_equal(1, f.ps.news[COXI_ETCD_LOST]);
    fixture_close(&f);
}

TEST(membership_watches_on_after_a_compaction)
{
    struct fixture f;
    fixture_open(&f);
    gateway_await(f.g, "watch", 1);
    gateway_compact(f.g);
    gateway_put(f.g, "/job/ps/0", "{\"address\":\"h5:5\"}");
    wait_seen(&f.client, "ps/0=tcp://h5:5");
    fixture_close(&f);
}

TEST(membership_passes_over_values_that_are_no_members)
{
    static const char *const values[] = {"",
                                         "{",
                                         "[]",
                                         "7",
                                         "{\"address\":7}",
                                         "{\"address\":\"nowhere\"}",
                                         "{\"address\":\"tcp://a:99999\"}"};
    struct fixture f;
    fixture_open(&f);
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "/job/ps/%zu", i + 1);
        gateway_put(f.g, key, values[i]);
    }
    gateway_put(f.g, "/job/ps/9", "{\"address\":\"h9:9\"}");
    wait_seen(&f.client, "ps/9=tcp://h9:9");
    fixture_close(&f);
}

/* An etcd, or somebody who poses as it, may answer with any key. */
TEST(membership_passes_over_keys_for_which_it_has_not_asked)
{
    /* "", "x" and "/other/ps/0", with the address h9:9 */
    static const char body[] =
        "{\"header\":{\"revision\":\"5\"},\"kvs\":["
        "{\"key\":\"\",\"value\":\"eyJhZGRyZXNzIjoiaDk6OSJ9\"},"
        "{\"key\":\"eA==\",\"value\":\"eyJhZGRyZXNzIjoiaDk6OSJ9\"},"
        "{\"key\":\"L290aGVyL3BzLzA=\",\"value\":\"eyJhZGRyZXNzIjoiaDk6OSJ9\"}]}";
    char raw[1024];
    struct gateway *g = gateway_open();
    struct process p;
    (void)snprintf(raw, sizeof(raw), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
                   strlen(body), body);
    gateway_fault(g, "kv/range", 1, raw);
    process_start(&p, g, gateway_url(g), "ps/");
    gateway_await(g, "watch", 1);
    assert_string_equal("", p.seen);
    process_end(&p);
    gateway_close(g);
}

TEST(membership_uses_the_endpoint_that_answers)
{
    struct gateway *g = gateway_open();
    struct process p;
    char endpoints[128];
    (void)snprintf(endpoints, sizeof(endpoints), "http://127.0.0.1:1,%s",
                   gateway_url(g));
    process_start(&p, g, endpoints, "client");
    process_register(&p, "worker/a", "tcp://0.0.0.0:5", false);
    wait_key(&p, "/job/worker/a", "tcp://127.0.0.1:5");
    gateway_put(g, "/job/client", "{\"address\":\"h4:4\"}");
    wait_seen(&p, "client=tcp://h4:4");
    assert_int_equal(0, p.news[COXI_ETCD_LOST]);
    process_end(&p);
    gateway_close(g);
}

TEST(membership_of_the_newest_client_counts_and_the_older_one_stays_away)
{
    struct gateway *g = gateway_open();
    struct process old;
    struct process new;
    process_start(&old, g, gateway_url(g), NULL);
    process_register(&old, "client", "tcp://h1:1", false);
    wait_key(&old, "/job/client", "tcp://h1:1");
    process_start(&new, g, gateway_url(g), NULL);
    process_register(&new, "client", "tcp://h2:2", false);
    wait_key(&new, "/job/client", "tcp://h2:2");
    /* the older one looks at its key with each lease that it keeps */
    gateway_await(g, "lease/keepalive", gateway_count(g, "lease/keepalive") + 6);
    wait_key(&new, "/job/client", "tcp://h2:2");
    /* even if it comes first to an etcd without data */
    gateway_expire(g);
    wait_key(&new, "/job/client", "tcp://h2:2");
    process_end(&new);
    process_end(&old);
    gateway_close(g);
}

TEST(membership_of_a_client_counts_whatever_times_others_have_written)
{
    static const char *const since[] = {"9223372036854775807", "9223372036854775806",
                                        "-9223372036854775808", "\"now\"", "1e300"};
    struct gateway *g = gateway_open();
    for (size_t i = 0; i < sizeof(since) / sizeof(*since); i++) {
        char value[160];
        struct process p;
        (void)snprintf(value, sizeof(value),
                       "{\"address\":\"h9:9\",\"incarnation\":\"77\",\"since\":%s}",
                       since[i]);
        gateway_put(g, "/job/client", value);
        process_start(&p, g, gateway_url(g), NULL);
        process_register(&p, "client", "tcp://h1:1", false);
        wait_key(&p, "/job/client", "tcp://h1:1");
        process_end(&p);
    }
    gateway_close(g);
}

static bool may_be_found(void *arg)
{
    return atomic_load((atomic_bool *)arg);
}

/* Which of two is the newest, clocks cannot tell for sure: the ps can, and fence one. */
TEST(membership_of_a_client_that_was_replaced_is_left_to_the_other_one)
{
    struct gateway *g = gateway_open();
    struct process other;
    struct process fenced;
    atomic_bool may = true;
    process_start(&other, g, gateway_url(g), NULL);
    process_register(&other, "client", "tcp://h1:1", false);
    wait_key(&other, "/job/client", "tcp://h1:1");
    process_start(&fenced, g, gateway_url(g), NULL);
    assert_code(0, coxi_membership_register(fenced.membership,
                                            &(struct coxi_member){.key = "client",
                                                                  .url = "tcp://h2:2",
                                                                  .may = may_be_found,
                                                                  .arg = &may}));
    wait_key(&fenced, "/job/client", "tcp://h2:2");
    atomic_store(&may, false);
    wait_key(&other, "/job/client", "tcp://h1:1");
    atomic_store(&may, true);
    wait_key(&fenced, "/job/client", "tcp://h2:2");
    process_end(&fenced);
    process_end(&other);
    gateway_close(g);
}

static void accepted(void *arg, struct coxi_link *link)
{
    (void)arg;
    coxi_link_unref(link);
}

/* An address at which somebody listens, as an older process of the index would. */
static struct coxi_listener *listen_somewhere(void)
{
    struct coxi_listener *listener;
    assert_code(
        0, coxi_listener_claim("tcp://127.0.0.1:0", NULL, accepted, NULL, &listener));
    coxi_listener_start(listener);
    return listener;
}

TEST(membership_of_an_index_whose_process_lives_is_refused)
{
    struct gateway *g = gateway_open();
    struct coxi_listener *listener = listen_somewhere();
    struct process first;
    struct process second;
    process_start(&first, g, gateway_url(g), NULL);
    process_register(&first, "ps/0", coxi_listener_url(listener), true);
    wait_key(&first, "/job/ps/0", coxi_listener_url(listener));
    process_start(&second, g, gateway_url(g), NULL);
    process_register(&second, "ps/0", "tcp://h2:2", true);
    wait_news(&second, COXI_MEMBER_HELD);
    wait_news(&second, COXI_MEMBER_TAKEN);
    wait_key(&first, "/job/ps/0", coxi_listener_url(listener));
    process_end(&second);
    wait_key(&first, "/job/ps/0", coxi_listener_url(listener));
    process_end(&first);
    coxi_listener_close(listener);
    gateway_close(g);
}

/* Puts a ps that has not removed its key, and is at `url`. */
static void put_older(struct gateway *g, const char *url)
{
    char value[256];
    (void)snprintf(value, sizeof(value),
                   "{\"address\":\"%s\",\"incarnation\":\"77\",\"ttl\":3600}", url);
    gateway_put(g, "/job/ps/0", value);
}

TEST(membership_of_an_index_is_taken_over_once_its_lease_has_expired)
{
    struct gateway *g = gateway_open();
    struct coxi_listener *listener = listen_somewhere();
    struct process p;
    put_older(g, coxi_listener_url(listener));
    process_start(&p, g, gateway_url(g), NULL);
    process_register(&p, "ps/0", "tcp://h2:2", true);
    wait_news(&p, COXI_MEMBER_HELD);
    gateway_delete(g, "/job/ps/0");
    wait_key(&p, "/job/ps/0", "tcp://h2:2");
    assert_int_equal(0, p.news[COXI_MEMBER_TAKEN]);
    process_end(&p);
    coxi_listener_close(listener);
    gateway_close(g);
}

TEST(membership_of_an_index_at_whose_address_nobody_listens_is_taken_over_at_once)
{
    struct gateway *g = gateway_open();
    struct coxi_listener *listener = listen_somewhere();
    struct process p;
    put_older(g, coxi_listener_url(listener));
    coxi_listener_close(listener);
    process_start(&p, g, gateway_url(g), NULL);
    process_register(&p, "ps/0", "tcp://h2:2", true);
    wait_key(&p, "/job/ps/0", "tcp://h2:2");
    assert_int_equal(0, p.news[COXI_MEMBER_HELD]);
    process_end(&p);
    gateway_close(g);
}

TEST(membership_ends_soon_although_etcd_is_silent)
{
    struct gateway *g = gateway_open();
    struct process p;
    process_start(&p, g, gateway_url(g), "client");
    process_register(&p, "worker/a", "", false);
    wait_key(&p, "/job/worker/a", "incarnation");
    gateway_fault(g, "lease/keepalive", 100, "");
    gateway_fault(g, "lease/revoke", 100, "");
    gateway_await(g, "lease/keepalive", gateway_count(g, "lease/keepalive") + 1);
    process_end(&p);
    gateway_close(g);
}

TEST(membership_advertises_an_address_that_peers_reach)
{
    static const struct {
        const char *url;
        const char *advertise;
        const char *own_host;
        const char *expected; /* NULL: COX_EADDRESS */
    } cases[] = {
        {"tcp://h1:5", NULL, "10.0.0.1", "tcp://h1:5"},
        {"tcp://0.0.0.0:5", NULL, "10.0.0.1", "tcp://10.0.0.1:5"},
        {"tcp://[::]:5", NULL, "fd00::1", "tcp://[fd00::1]:5"},
        {"tcp://0.0.0.0:5", "h2", "10.0.0.1", "tcp://h2:5"},
        {"tcp://0.0.0.0:5", "h2:7", "10.0.0.1", "tcp://h2:7"},
        {"tcp://0.0.0.0:5", "[fd00::2]", "10.0.0.1", "tcp://[fd00::2]:5"},
        {"tcp://0.0.0.0:5", "[fd00::2]:9", "10.0.0.1", "tcp://[fd00::2]:9"},
        {"ipc:///tmp/x", "h2", "10.0.0.1", "ipc:///tmp/x"},
        {"", "h2", "10.0.0.1", ""},
        {"tcp://0.0.0.0:5", "h2:port", "10.0.0.1", NULL},
        {"tcp://0.0.0.0:5", NULL, "", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *url = NULL;
        assert_code(
            cases[i].expected != NULL ? 0 : COX_EADDRESS,
            coxi_member_url(cases[i].url, cases[i].advertise, cases[i].own_host, &url));
        if (cases[i].expected != NULL) {
            assert_string_equal(cases[i].expected, url);
        }
        free(url);
    }
}
