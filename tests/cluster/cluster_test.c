/* Descriptions of clusters: JSON, environment, local. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "cluster/etcd_settings.h"
#include "tests/test.h"

static struct cox_cluster *parse(const char *json)
{
    struct cox_cluster *cluster;
    assert_code(0, cox_cluster_parse(json, &cluster));
    return cluster;
}

TEST(cluster_reads_what_tf_config_says)
{
    struct cox_cluster *cluster = parse(
        "{\"cluster\": {\"chief\": [\"h0:1\"], \"ps\": [\"h1:2\", \"h2:3\"],"
        " \"worker\": [\"h3:4\"]}, \"task\": {\"type\": \"chief\", \"index\": 0}}");
    assert_int_equal(2, cluster->n_ps);
    assert_int_equal(1, cluster->n_workers);
    assert_string_equal("tcp://h1:2", cluster->ps[0]);
    assert_string_equal("tcp://h2:3", cluster->ps[1]);
    assert_string_equal("tcp://h3:4", cluster->workers[0]);
    cox_cluster_free(cluster);
}

TEST(cluster_takes_the_inner_object_and_urls)
{
    struct cox_cluster *cluster =
        parse("{\"ps\": [\"ipc:///tmp/a\"], \"worker\": [\"tcp://[::1]:7\"]}");
    assert_string_equal("ipc:///tmp/a", cluster->ps[0]);
    assert_string_equal("tcp://[::1]:7", cluster->workers[0]);
    char *json = coxi_cluster_json(cluster);
    struct cox_cluster *again = parse(json);
    assert_string_equal(cluster->ps[0], again->ps[0]);
    free(json);
    cox_cluster_free(again);
    cox_cluster_free(cluster);
}

TEST(cluster_may_be_in_etcd)
{
    struct cox_cluster *copy;
    struct cox_cluster *cluster =
        parse("{\"cluster\": {\"etcd\": {\"ps\": 2, \"endpoints\": "
              "[\"http://h1:2379\", \"http://h2:2379\"], \"prefix\": \"/a/b\"}}}");
    assert_code(0, coxi_cluster_copy(cluster, &copy));
    cox_cluster_free(cluster);
    assert_int_equal(2, copy->n_ps);
    assert_int_equal(0, copy->n_workers);
    assert_string_equal("http://h1:2379,http://h2:2379", copy->etcd->endpoints);
    assert_string_equal("/a/b", copy->etcd->prefix);
    assert_int_equal(10, copy->etcd->ttl_s);
    cox_cluster_free(copy);
}

TEST(cluster_in_etcd_that_is_not_well_described_is_refused)
{
    static const struct {
        const char *etcd;
        const char *names;
    } cases[] = {
        {"{\"endpoints\": [\"http://h\"]}", "\"ps\": 2"},
        {"{\"ps\": 0, \"endpoints\": [\"http://h\"]}", "\"ps\": 2"},
        {"{\"ps\": 1}", "COX_ETCD"},
        {"{\"ps\": 1, \"endpoints\": []}", "endpoints"},
        {"{\"ps\": 1, \"endpoints\": \"http://h\"}", "endpoints"},
        {"{\"ps\": 1, \"endpoints\": [7]}", "no text"},
        {"{\"ps\": 1, \"endpoints\": [\"h:2379\"]}", "h:2379"},
        {"{\"ps\": 1, \"endpoints\": [\"http://h\"], \"prefx\": \"/a\"}", "prefx"},
        {"{\"ps\": 1, \"endpoints\": [\"http://h\"], \"prefix\": 7}", "prefix"},
        {"{\"ps\": 1, \"endpoints\": [\"http://h\"], \"ttl\": -1}", "time to live"},
        {"{\"ps\": 1, \"endpoints\": [\"http://h\"], \"ttl\": \"30\"}", "ttl"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char json[256];
        struct cox_cluster *cluster = NULL;
        (void)snprintf(json, sizeof(json), "{\"etcd\": %s}", cases[i].etcd);
        assert_code(COX_EINVAL, cox_cluster_parse(json, &cluster));
        assert_error_names(cases[i].names);
        assert_null(cluster);
    }
}

TEST(cluster_may_list_no_worker)
{
    static const char *const cases[] = {"{\"ps\": [\"a:1\"]}",
                                        "{\"ps\": [\"a:1\"], \"worker\": []}"};
    for (size_t i = 0; i < 2; i++) {
        struct cox_coordinator *c = NULL;
        struct cox_cluster *cluster = parse(cases[i]);
        struct cox_cluster *copy;
        assert_code(0, coxi_cluster_copy(cluster, &copy));
        assert_int_equal(1, copy->n_ps);
        assert_int_equal(0, copy->n_workers);
        cox_cluster_free(copy);
        /* Without workers to dial, cox_open needs an address where workers can dial. */
        assert_code(COX_EINVAL, cox_open(cluster, NULL, &c));
        assert_error_names("cox_options.listen");
        cox_cluster_free(cluster);
    }
}

TEST(cluster_says_what_is_wrong_with_its_json)
{
    static const struct {
        const char *json;
        const char *named;
    } cases[] = {
        {"{\"ps\": [", "line 1"},
        {"[]", "\"ps\""},
        {"{\"ps\": [\"a:1\"], \"worker\": \"a:1\"}", "\"worker\""},
        {"{\"ps\": [], \"worker\": [\"a:1\"]}", "\"ps\""},
        {"{\"ps\": \"a:1\", \"worker\": [\"a:1\"]}", "\"ps\""},
        {"{\"ps\": [\"a:1\", \"nonsense\"], \"worker\": [\"a:1\"]}", "'nonsense'"},
        {"{\"ps\": [\"a:\"], \"worker\": [\"a:1\"]}", "'a:'"},
        {"{\"ps\": [\"a:0\"], \"worker\": [\"a:1\"]}", "port 0"},
        {"{\"ps\": [\":1\"], \"worker\": [\"a:1\"]}", "':1'"},
        {"{\"ps\": [7], \"worker\": [\"a:1\"]}", "host:port"},
        {"{\"ps\": [\"foo\"]}", "\"ps\" 0 of the cluster: 'foo' has no port"},
        {"{\"ps\": [\"http://h:1\"]}", "there is no transport 'http'"},
        {"{\"ps\": [\"h:99999\"]}", "the port 99999 is above 65535"},
        {"{\"ps\": [\"tcp://h:65536\"]}", "the port 65536 is above 65535"},
        {"{\"ps\": [\"h:http\"]}", "the port 'http' is no number"},
        {"{\"ps\": [\"::1:7\"]}", "in brackets"},
        {"{\"ps\": [\"a/b:7\"]}", "'a/b:7' has no host"},
        {"{\"ps\": [\"ipc://h\"]}", "'ipc://h' has no path"},
        {"{\"ps\": \"h:1\"}", "\"ps\" of the cluster is no list"},
        {"{\"ps\": [\"h:1\"], \"workers\": [\"h:2\"]}", "has \"workers\": its lists"},
        {"{\"cluster\": {\"PS\": [\"h:1\"]}}", "has \"PS\": its lists"},
        {"{\"ps\": [\"h:1\"], \"Worker\": [\"h:2\"]}", "has \"Worker\": its lists"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct cox_cluster *untouched = NULL;
        assert_code(COX_EINVAL, cox_cluster_parse(cases[i].json, &untouched));
        assert_error_names(cases[i].named);
        assert_null(untouched);
    }
    assert_code(COX_EINVAL, cox_cluster_parse(NULL, NULL));
}

TEST(cluster_comes_from_cox_cluster_before_tf_config)
{
    struct cox_cluster *cluster = NULL;
    assert_int_equal(0, unsetenv("COX_CLUSTER"));
    assert_int_equal(0, unsetenv("TF_CONFIG"));
    assert_code(COX_ENOENT, cox_cluster_from_env(&cluster));
    assert_error_names("COX_CLUSTER");
    assert_int_equal(
        0, setenv("TF_CONFIG", "{\"ps\": [\"t:1\"], \"worker\": [\"t:2\"]}", 1));
    assert_code(0, cox_cluster_from_env(&cluster));
    assert_string_equal("tcp://t:1", cluster->ps[0]);
    cox_cluster_free(cluster);
    assert_int_equal(
        0, setenv("COX_CLUSTER", "{\"ps\": [\"c:1\"], \"worker\": [\"c:2\"]}", 1));
    assert_code(0, cox_cluster_from_env(&cluster));
    assert_string_equal("tcp://c:1", cluster->ps[0]);
    cox_cluster_free(cluster);
    assert_int_equal(0, setenv("COX_CLUSTER", "{", 1));
    assert_code(COX_EINVAL, cox_cluster_from_env(&cluster));
    assert_error_names("COX_CLUSTER");
}

TEST(cluster_of_the_environment_is_for_its_client)
{
    struct cox_cluster *cluster = NULL;
    assert_int_equal(0, setenv("COX_CLUSTER",
                               "{\"chief\": [\"localhost:0\"], \"ps\": [\"c:1\"]}", 1));
    assert_int_equal(0, setenv("COX_TASK", "ps:0", 1));
    assert_code(COX_EINVAL, cox_cluster_from_env(&cluster));
    assert_error_names("COX_TASK");
    assert_error_names("coxswain-ps");
    assert_null(cluster);
    assert_int_equal(0, setenv("COX_TASK", "chief", 1));
    assert_code(0, cox_cluster_from_env(&cluster));
    assert_string_equal("tcp://127.0.0.1:0", cluster->listen);
    struct cox_cluster *copy;
    assert_code(0, coxi_cluster_copy(cluster, &copy));
    assert_string_equal(cluster->listen, copy->listen);
    cox_cluster_free(copy);
    cox_cluster_free(cluster);
    assert_int_equal(0, unsetenv("COX_TASK"));
    assert_int_equal(0, unsetenv("COX_CLUSTER"));
}

TEST(cluster_of_this_host_has_1_to_64_of_each)
{
    struct cox_cluster *cluster = NULL;
    assert_code(COX_EINVAL, cox_cluster_local(0, 1, &cluster));
    assert_code(COX_EINVAL, cox_cluster_local(1, 0, &cluster));
    assert_code(COX_EINVAL, cox_cluster_local(65, 1, &cluster));
    assert_error_names("65");
    assert_null(cluster);
    assert_code(0, cox_cluster_local(64, 64, &cluster));
    cox_cluster_free(cluster);
    cox_cluster_free(NULL);
}
