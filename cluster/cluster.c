/* Cluster descriptions: from JSON, or of this host. Pure; any thread. */
#include "cluster/cluster.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cluster/cluster_etcd.h"
#include "cluster/etcd_settings.h"
#include "cluster/parse.h"
#include "common/error.h"
#include "common/layout.h"
#include "net/link.h"

void cox_cluster_free(struct cox_cluster *cluster)
{
    if (cluster == NULL) {
        return;
    }
    for (uint32_t i = 0; cluster->ps != NULL && i < cluster->n_ps; i++) {
        free(cluster->ps[i]);
    }
    for (uint32_t i = 0; cluster->workers != NULL && i < cluster->n_workers; i++) {
        free(cluster->workers[i]);
    }
    free(cluster->ps);
    free(cluster->workers);
    free(cluster->listen);
    coxi_etcd_settings_free(cluster->etcd);
    free(cluster);
}

int cox_cluster_local(int n_ps, int n_workers, struct cox_cluster **ret)
{
    if (ret == NULL || n_ps < 1 || n_ps > COXI_LOCAL_MAX || n_workers < 1 ||
        n_workers > COXI_LOCAL_MAX) {
        return coxi_error(COX_EINVAL,
                          "a local cluster has 1 to %d ps and workers, not %d and %d",
                          COXI_LOCAL_MAX, n_ps, n_workers);
    }
    struct cox_cluster *cluster = calloc(1, sizeof(*cluster));
    if (cluster == NULL) {
        return coxi_error_memory("a cluster");
    }
    cluster->local = true;
    cluster->n_ps = (uint32_t)n_ps;
    cluster->n_workers = (uint32_t)n_workers;
    *ret = cluster;
    return 0;
}

int coxi_cluster_url(const char *address, char **ret)
{
    char url[COXI_URL_MAX + 1];
    int r = coxi_url_from(address, url);
    char *copy = r == 0 ? strdup(url) : NULL;
    if (r == 0 && copy == NULL) {
        r = coxi_error_memory("an address");
    }
    if (r == 0) {
        *ret = copy;
    }
    return r;
}

/* True if it is any free port, which is for those who listen. */
static bool has_port_0(const char *url)
{
    const char *port = coxi_url_is_ipc(url) ? NULL : strrchr(url, ':');
    return port != NULL && strtol(port + 1, NULL, 10) == 0;
}

/* Parses address `i` of a list. */
static int parse_address(const json_t *list, const char *role, size_t i, char **ret)
{
    const char *address = json_string_value(json_array_get(list, i));
    int r = address != NULL
                ? coxi_cluster_url(address, ret)
                : coxi_error(COX_EINVAL, "no text: it is like \"host:port\"");
    if (r == 0 && has_port_0(*ret)) {
        r = coxi_error(COX_EADDRESS,
                       "'%s': peers cannot dial port 0: an address is host:port with "
                       "the port at which it listens",
                       address);
    }
    return r == 0 || r == COX_ENOMEM
               ? r
               : coxi_error(COX_EINVAL, "\"%s\" %zu of the cluster: %s", role, i,
                            coxi_error_text());
}

/* Ignores members with other names, because others may use them (TF_CONFIG's "chief"
 * and "task"). But refuses a name that begins like ours: the user has misspelt it. */
static int check_names(const json_t *cluster)
{
    const char *name;
    const json_t *value;
    json_object_foreach((json_t *)(uintptr_t)cluster, name, value)
    {
        bool ours = strcmp(name, "ps") == 0 || strcmp(name, "worker") == 0;
        if (!ours &&
            (strncasecmp(name, "ps", 2) == 0 || strncasecmp(name, "worker", 6) == 0)) {
            return coxi_error(COX_EINVAL,
                              "the cluster has \"%s\": its lists are called \"ps\" and "
                              "\"worker\"",
                              name);
        }
    }
    return 0;
}

static int parse_addresses(const json_t *cluster, const char *role, uint32_t min,
                           uint32_t max, char ***ret, uint32_t *ret_n)
{
    const json_t *list = json_object_get(cluster, role);
    size_t n = json_array_size(list);
    if (list != NULL && !json_is_array(list)) {
        return coxi_error(COX_EINVAL,
                          "\"%s\" of the cluster is no list: it is like "
                          "[\"host:port\", ...]",
                          role);
    }
    if (n < min) {
        return coxi_error(
            COX_EINVAL,
            "the cluster lists no \"%s\": it needs \"ps\" and \"worker\", "
            "each a list of \"host:port\"",
            role);
    }
    if (n == 0) {
        return 0;
    }
    if (n > max) {
        return coxi_error(COX_ELIMIT, "the cluster lists %zu \"%s\", %u are possible",
                          n, role, max);
    }
    char **urls = calloc(n, sizeof(char *));
    if (urls == NULL) {
        return coxi_error_memory("a cluster");
    }
    *ret = urls;
    *ret_n = (uint32_t)n;
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = parse_address(list, role, i, &urls[i]);
    }
    return r;
}

/* True if TFJob's EnableDynamicWorker made the description: it shows each task itself
 * alone. */
static bool is_sparse(const json_t *root, const json_t *cluster)
{
    return json_object_get(root, "sparseCluster") != NULL ||
           json_is_object(json_object_get(cluster, "worker"));
}

int coxi_cluster_from_json(const json_t *root, struct cox_cluster **ret)
{
    const json_t *inner = json_object_get(root, "cluster");
    inner = inner != NULL ? inner : root;
    if (is_sparse(root, inner)) {
        return coxi_error(
            COX_EINVAL,
            "it shows each task itself alone (TFJob's "
            "EnableDynamicWorker): turn that off, or set COX_CLUSTER to all "
            "ps and workers");
    }
    struct cox_cluster *cluster = calloc(1, sizeof(*cluster));
    int r = cluster == NULL ? coxi_error_memory("a cluster") : check_names(inner);
    const json_t *etcd = json_object_get(inner, "etcd");
    if (r == 0 && etcd != NULL) {
        r = coxi_cluster_parse_etcd(etcd, cluster);
    } else if (r == 0) {
        r = parse_addresses(inner, "ps", 1, COXI_PS_MAX, &cluster->ps, &cluster->n_ps);
    }
    if (r == 0) {
        r = parse_addresses(inner, "worker", 0, COXI_WORKERS_MAX, &cluster->workers,
                            &cluster->n_workers);
    }
    if (r != 0) {
        cox_cluster_free(cluster);
        return r;
    }
    *ret = cluster;
    return 0;
}

int cox_cluster_parse(const char *json, struct cox_cluster **ret)
{
    if (json == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "a cluster is described by JSON text");
    }
    json_error_t error;
    json_t *root = json_loads(json, 0, &error);
    if (root == NULL) {
        return coxi_error(COX_EINVAL, "the cluster's JSON, line %d column %d: %s",
                          error.line, error.column, error.text);
    }
    int r = coxi_cluster_from_json(root, ret);
    json_decref(root);
    return r;
}

int coxi_cluster_copy(const struct cox_cluster *cluster, struct cox_cluster **ret)
{
    struct cox_cluster *copy = NULL;
    if (cluster->local) {
        return cox_cluster_local((int)cluster->n_ps, (int)cluster->n_workers, ret);
    }
    char *json = coxi_cluster_json(cluster);
    int r =
        json == NULL ? coxi_error_memory("a cluster") : cox_cluster_parse(json, &copy);
    free(json);
    if (r == 0 && cluster->listen != NULL) {
        copy->listen = strdup(cluster->listen);
        r = copy->listen == NULL ? coxi_error_memory("an address") : 0;
    }
    if (r != 0) {
        cox_cluster_free(copy);
        return r;
    }
    *ret = copy;
    return 0;
}

char *coxi_cluster_json(const struct cox_cluster *cluster)
{
    json_t *ps = json_array();
    json_t *workers = json_array();
    for (uint32_t i = 0; i < cluster->n_ps; i++) {
        (void)json_array_append_new(ps, json_string(cluster->ps[i]));
    }
    for (uint32_t i = 0; i < cluster->n_workers; i++) {
        (void)json_array_append_new(workers, json_string(cluster->workers[i]));
    }
    json_t *root = json_pack("{s:{s:o, s:o}}", "cluster", "ps", ps, "worker", workers);
    if (cluster->etcd != NULL) {
        (void)json_object_set_new(json_object_get(root, "cluster"), "etcd",
                                  coxi_cluster_etcd_json(cluster));
    }
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

static char **local_urls(const char *dir, const char *role, uint32_t n)
{
    char **urls = calloc(n, sizeof(char *));
    for (uint32_t i = 0; urls != NULL && i < n; i++) {
        char url[160];
        (void)snprintf(url, sizeof(url), "ipc://%s/%s-%u", dir, role, i);
        urls[i] = strdup(url);
    }
    return urls;
}

int coxi_cluster_at(const char *dir, uint32_t n_ps, uint32_t n_workers,
                    struct cox_cluster **ret)
{
    struct cox_cluster *cluster;
    int r = cox_cluster_local((int)n_ps, (int)n_workers, &cluster);
    if (r != 0) {
        return r;
    }
    /* A socket's path has at most 107 bytes (the kernel's limit). */
    if (strlen(dir) > 80) {
        r = coxi_error(COX_EINVAL, "the directory %s is too long a name for sockets",
                       dir);
    }
    cluster->local = false;
    cluster->ps = local_urls(dir, "ps", n_ps);
    cluster->workers = local_urls(dir, "worker", n_workers);
    if (r == 0 && (cluster->ps == NULL || cluster->workers == NULL)) {
        r = coxi_error_memory("a cluster");
    }
    if (r != 0) {
        cox_cluster_free(cluster);
        return r;
    }
    *ret = cluster;
    return 0;
}
