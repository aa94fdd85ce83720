/*
 * COX_CLUSTER and TF_CONFIG, which have the same form. TFJob's EnableDynamicWorker shows
 * each task itself alone ("sparseCluster", "worker" as an object with its index): a ps can
 * start with that, the client and workers cannot.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/parse.h"
#include "cluster/view_internal.h"
#include "common/error.h"

static void tell_from(struct coxi_view *view, enum coxi_fact fact, const char *from)
{
    (void)snprintf(view->from[fact], sizeof(view->from[0]), "%s", from);
}

/* ---- the task */

static const char task_is[] =
    "set it to a role and its index, like ps:0, worker:3, client or evaluator";

/* Reads COX_TASK, "worker:3". */
static int read_own_task(const char *text, struct coxi_view *view)
{
    size_t len = strcspn(text, ":");
    const char *index = text[len] == ':' ? text + len + 1 : "0";
    view->role = coxi_cluster_role_named(text, len);
    size_t digits = strspn(index, "0123456789");
    if (view->role == COXI_CLUSTER_NONE || digits == 0 || digits > 9 ||
        index[digits] != '\0') {
        return coxi_error(COX_EINVAL, "COX_TASK=%.40s: %s", text, task_is);
    }
    view->index = (uint32_t)strtoul(index, NULL, 10);
    tell_from(view, COXI_FACT_ROLE, "COX_TASK");
    tell_from(view, COXI_FACT_INDEX, "COX_TASK");
    return 0;
}

/* Reads "task", whose index is a number or text. */
static int read_task(const json_t *task, struct coxi_view *view)
{
    const char *type = json_string_value(json_object_get(task, "type"));
    const json_t *index = json_object_get(task, "index");
    const char *text = json_string_value(index);
    long long number = json_integer_value(index);
    if (text != NULL && *text != '\0' && strspn(text, "0123456789") == strlen(text) &&
        strlen(text) <= 9) {
        number = strtoll(text, NULL, 10);
    } else if (index != NULL && !json_is_integer(index)) {
        number = -1;
    }
    view->role =
        type != NULL ? coxi_cluster_role_named(type, strlen(type)) : COXI_CLUSTER_NONE;
    if (view->role == COXI_CLUSTER_NONE) {
        return coxi_error(COX_EINVAL,
                          "its task's type is \"%.40s\", and not chief, ps, worker or "
                          "evaluator: correct it, or set COX_TASK",
                          type != NULL ? type : "");
    }
    if (number < 0 || number > UINT32_MAX) {
        return coxi_error(COX_EINVAL,
                          "its task's index is no number from 0: correct it, or "
                          "set COX_TASK");
    }
    view->index = (uint32_t)number;
    tell_from(view, COXI_FACT_ROLE, view->source);
    tell_from(view, COXI_FACT_INDEX, view->source);
    return 0;
}

static int find_task(const struct coxi_environment *environment, const json_t *root,
                     struct coxi_view *view)
{
    const char *own = coxi_environment_get(environment, "COX_TASK");
    const json_t *task = json_object_get(root, "task");
    if (own != NULL) {
        return read_own_task(own, view);
    }
    return task != NULL ? read_task(task, view) : 0;
}

/* ---- addresses */

/* The client's address: the first of its list, under any of its names. */
static int find_client(const json_t *root, struct coxi_view *view)
{
    static const char *const names[] = {"chief", "master", "client"};
    const json_t *inner = json_object_get(root, "cluster");
    const char *address = NULL;
    inner = inner != NULL ? inner : root;
    for (size_t i = 0; address == NULL && i < 3; i++) {
        address =
            json_string_value(json_array_get(json_object_get(inner, names[i]), 0));
    }
    if (address == NULL) {
        return 0;
    }
    tell_from(view, COXI_FACT_CLIENT, view->source);
    int r = coxi_url_from(address, view->client);
    return r == 0 ? 0
                  : coxi_error(r, "\"chief\" of the cluster: %s", coxi_error_text());
}

/* Orders places of a list by the addresses there. */
static int compare(const void *a, const void *b)
{
    return strcmp(**(char **const *)a, **(char **const *)b);
}

/* Refuses two members of a role at one address, as cox_open does, which names both
 * places. */
static int check_distinct(char **urls, uint32_t n)
{
    char ***places = calloc((size_t)n + 1, sizeof(char **));
    if (places == NULL) {
        return coxi_error_memory("a cluster");
    }
    for (uint32_t i = 0; i < n; i++) {
        places[i] = &urls[i];
    }
    qsort(places, n, sizeof(*places), compare);
    int r = 0;
    for (uint32_t i = 1; r == 0 && i < n; i++) {
        const char *url = *places[i];
        if (*url != '\0' && strcmp(*places[i - 1], url) == 0) { /* "": etcd knows it */
            r = coxi_error(COX_EINVAL,
                           "the cluster lists %s twice: correct it, because each ps "
                           "and each worker has an address of its own",
                           url);
        }
    }
    free(places);
    return r;
}

/* Two clients would take the run from each other. A worker that is not listed has no
 * index to check. */
static int check_index(const struct coxi_view *view)
{
    const struct cox_cluster *cluster = view->cluster;
    const char *name = coxi_cluster_role_name(view->role);
    bool is_ps = view->role == COXI_CLUSTER_PS;
    uint32_t n = is_ps ? cluster->n_ps : cluster->n_workers;
    if (view->role == COXI_CLUSTER_CLIENT && view->index > 0) {
        return coxi_error(COX_EINVAL,
                          "a cluster has one client, and this is client %u (%s): start "
                          "one only, or set COX_TASK=client",
                          view->index, view->from[COXI_FACT_ROLE]);
    }
    if ((is_ps || (view->role == COXI_CLUSTER_WORKER && n > 0)) && view->index >= n) {
        return coxi_error(
            COX_EINVAL, "it lists %u %s, and this is %s %u (%s): %s, or set COX_TASK",
            n, name, name, view->index, view->from[COXI_FACT_ROLE],
            is_ps && cluster->etcd != NULL ? "correct the number of ps in \"etcd\""
                                           : "list its address");
    }
    return 0;
}

/* Where this process listens, if it does. A worker that is not listed dials the
 * client. With etcd ps and client choose an address, and workers ask for the client. */
static int find_listen(struct coxi_view *view)
{
    const struct cox_cluster *cluster = view->cluster;
    uint32_t n = cluster->n_workers;
    if (view->role == COXI_CLUSTER_WORKER && n > 0) {
        coxi_view_listen(view, cluster->workers[view->index], view->source);
    } else if (cluster->etcd != NULL) {
        return 0;
    } else if (view->role == COXI_CLUSTER_PS) {
        coxi_view_listen(view, cluster->ps[view->index], view->source);
    } else if (view->role == COXI_CLUSTER_WORKER && view->client[0] == '\0') {
        return coxi_error(COX_EINVAL,
                          "it lists no \"worker\", so workers dial the client, but no "
                          "\"chief\" either: list that, or set COX_WORKER_CLIENT to "
                          "where the client listens");
    } else if (view->role == COXI_CLUSTER_CLIENT && n == 0 && view->client[0] != '\0') {
        coxi_view_listen(view, view->client, view->source);
    }
    return 0;
}

/* ---- one task alone */

/* A ps that is shown alone: it is the only one of the list, whatever its index. */
static int find_alone(const json_t *sparse, struct coxi_view *view)
{
    const json_t *list = json_object_get(sparse, "ps");
    const char *address = json_string_value(
        json_array_get(list, json_array_size(list) > 1 ? view->index : 0));
    char url[COXI_URL_MAX + 1];
    if (view->role != COXI_CLUSTER_PS || address == NULL) {
        return coxi_error(
            COX_EINVAL,
            "it shows each task itself alone (TFJob's "
            "EnableDynamicWorker), so this %s cannot find the others: turn "
            "that off, or set COX_CLUSTER to all ps and workers",
            coxi_cluster_role_name(view->role));
    }
    int r = coxi_url_from(address, url);
    if (r == 0) {
        coxi_view_listen(view, url, view->source);
    }
    return r;
}

/* The object that shows one task alone; NULL: all are listed. */
static const json_t *sparse_of(const json_t *root)
{
    const json_t *sparse = json_object_get(root, "sparseCluster");
    const json_t *cluster = json_object_get(root, "cluster");
    if (sparse == NULL && json_is_object(json_object_get(cluster, "worker"))) {
        sparse = cluster;
    }
    return sparse;
}

static int read_root(const struct coxi_environment *environment, const json_t *root,
                     struct coxi_view *view)
{
    const json_t *sparse = sparse_of(root);
    int r = find_task(environment, root, view);
    if (r != 0 || sparse != NULL) {
        return r != 0 ? r : find_alone(sparse, view);
    }
    r = coxi_cluster_from_json(root, &view->cluster);
    if (r == 0) {
        tell_from(view, COXI_FACT_PS, view->source);
        tell_from(view, COXI_FACT_WORKER, view->source);
        r = find_client(root, view);
    }
    if (r == 0) {
        r = check_distinct(view->cluster->ps, view->cluster->n_ps);
    }
    if (r == 0) {
        r = check_distinct(view->cluster->workers, view->cluster->n_workers);
    }
    r = r == 0 ? check_index(view) : r;
    return r == 0 ? find_listen(view) : r;
}

int coxi_view_from_json(const struct coxi_environment *environment,
                        struct coxi_view *ret)
{
    static const char *const names[] = {"COX_CLUSTER", "TF_CONFIG"};
    const char *json = coxi_environment_get(environment, names[0]);
    const char *name = json != NULL ? names[0] : names[1];
    json = json != NULL ? json : coxi_environment_get(environment, names[1]);
    if (json == NULL) {
        return 0;
    }
    json_error_t error;
    json_t *root = json_loads(json, 0, &error);
    if (root == NULL) {
        return coxi_error(
            COX_EINVAL,
            "%s: line %d column %d: %s: set it to JSON like {\"cluster\": "
            "{\"ps\": [\"host:port\"], \"worker\": [\"host:port\"]}}",
            name, error.line, error.column, error.text);
    }
    ret->source = name;
    int r = read_root(environment, root, ret);
    json_decref(root);
    return r == 0 ? 0 : coxi_error(r, "%s: %s", name, coxi_error_text());
}
