/* The ps of a job as an etcd with strange keys tells them. */
#include "cluster/ps_watch.h"

#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "common/sync.h"
#include "net/link.h"
#include "tests/cluster/gateway.h"
#include "tests/test.h"

struct seen {
    struct coxi_mutex lock;
    int n;
    char last[COXI_URL_MAX + 1];
};

static void on_moved(void *arg, uint32_t ps, const char *url)
{
    struct seen *seen = arg;
    assert_int_equal(0, ps);
    coxi_lock(&seen->lock);
    seen->n++;
    (void)snprintf(seen->last, sizeof(seen->last), "%s", url);
    coxi_unlock(&seen->lock);
}

static bool has_moved(void *arg)
{
    struct seen *seen = arg;
    coxi_lock(&seen->lock);
    bool has = strcmp(seen->last, "tcp://h2:2") == 0;
    coxi_unlock(&seen->lock);
    return has;
}

TEST(ps_watch_knows_each_index_by_one_name_only)
{
    static const char *const keys[] = {
        "ps/00", "ps/+0", "ps/ 0", "ps/-0", "ps/0x0",  "ps/0 ",
        "ps/",   "ps/1",  "ps/0/", "ps/a",  "ps/ps/0", "ps/4294967296",
    };
    char json[256];
    struct seen seen = {.lock = COXI_MUTEX_INIT};
    struct cox_cluster *cluster;
    struct coxi_ps_watch *watch;
    struct gateway *g = gateway_open();
    (void)snprintf(
        json, sizeof(json),
        "{\"etcd\": {\"ps\": 1, \"endpoints\": [\"%s\"], \"prefix\": \"/job\"}}",
        gateway_url(g));
    assert_code(0, cox_cluster_parse(json, &cluster));
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        char key[64];
        (void)snprintf(key, sizeof(key), "/job/%s", keys[i]);
        gateway_put(g, key, "{\"address\":\"h9:9\"}");
    }
    gateway_put(g, "/job/ps/0", "{\"address\":\"h1:1\"}");
    assert_code(0, coxi_ps_watch_start(
                       &(struct coxi_ps_watch_options){
                           .cluster = cluster, .on_moved = on_moved, .arg = &seen},
                       &watch));
    assert_code(0, coxi_ps_watch_wait(watch, 10000));
    gateway_put(g, "/job/ps/0", "{\"address\":\"h2:2\"}");
    coxi_test_until(has_moved, &seen, "the new address");
    coxi_ps_watch_stop(watch);
    assert_int_equal(2, seen.n);
    cox_cluster_free(cluster);
    gateway_close(g);
}
