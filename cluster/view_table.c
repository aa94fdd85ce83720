/* What was found, for people: a table, JSON. Pure; any thread. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "cluster/etcd_settings.h"
#include "cluster/view.h"
#include "common/error.h"

static int add_row(struct coxi_buffer *table, const char *fact, const char *value,
                   const char *from)
{
    return coxi_buffer_printf(table, *from != '\0' ? "%-11s %-40s %s\n" : "%-11s %s\n",
                              fact, value, from);
}

static int add_list(struct coxi_buffer *table, const char *role, char *const *urls,
                    uint32_t n, const char *from)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "%s %u", role, i);
        r = add_row(table, name, *urls[i] != '\0' ? urls[i] : "registers in etcd",
                    from);
    }
    return r;
}

/* Where this process listens: with etcd at an address that it chooses. */
static int add_listen(struct coxi_buffer *table, const struct coxi_view *view)
{
    bool registers =
        view->cluster != NULL && view->cluster->etcd != NULL &&
        (view->role == COXI_CLUSTER_PS || view->role == COXI_CLUSTER_CLIENT);
    const char *where = view->listen[0] != '\0' ? view->listen : "nowhere";
    const char *from = view->from[COXI_FACT_LISTEN];
    return registers
               ? add_row(table, "listens at", "an address that it registers in etcd",
                         view->from[COXI_FACT_PS])
               : add_row(table, "listens at", where, from);
}

int coxi_view_table(const struct coxi_view *view, struct coxi_buffer *ret)
{
    const struct cox_cluster *cluster = view->cluster;
    char index[16];
    (void)snprintf(index, sizeof(index), "%u", view->index);
    int r = add_row(ret, "source", view->source, "");
    if (r == 0) {
        r = add_row(ret, "role", coxi_cluster_role_name(view->role),
                    view->from[COXI_FACT_ROLE]);
    }
    if (r == 0 && view->role != COXI_CLUSTER_NONE) {
        r = add_row(ret, "index", index, view->from[COXI_FACT_INDEX]);
    }
    r = r == 0 ? add_listen(ret, view) : r;
    if (r == 0 && view->client[0] != '\0') {
        r = add_row(ret, "client", view->client, view->from[COXI_FACT_CLIENT]);
    }
    if (r == 0 && cluster != NULL && cluster->etcd != NULL) {
        r = add_row(ret, "etcd", cluster->etcd->endpoints, view->from[COXI_FACT_PS]);
        r = r == 0 ? add_row(ret, "prefix", cluster->etcd->prefix, "") : r;
    }
    if (r == 0 && cluster != NULL) {
        r = add_list(ret, "ps", cluster->ps, cluster->n_ps, view->from[COXI_FACT_PS]);
    }
    if (r == 0 && cluster != NULL) {
        r = add_list(ret, "worker", cluster->workers, cluster->n_workers,
                     view->from[COXI_FACT_WORKER]);
    }
    if (r == 0 && cluster != NULL && cluster->n_workers == 0) {
        r = add_row(ret, "workers", "dial the client", view->from[COXI_FACT_WORKER]);
    }
    return r;
}

/* ---- JSON */

static json_t *list_of(char *const *urls, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++) {
        (void)json_array_append_new(list, json_string(urls[i]));
    }
    return list;
}

static json_t *sources_of(const struct coxi_view *view)
{
    static const char *const names[COXI_FACTS] = {
        [COXI_FACT_ROLE] = "role",     [COXI_FACT_INDEX] = "index",
        [COXI_FACT_LISTEN] = "listen", [COXI_FACT_CLIENT] = "client",
        [COXI_FACT_PS] = "ps",         [COXI_FACT_WORKER] = "worker",
    };
    json_t *from = json_object();
    for (int i = 0; i < COXI_FACTS; i++) {
        if (view->from[i][0] != '\0') {
            (void)json_object_set_new(from, names[i], json_string(view->from[i]));
        }
    }
    return from;
}

char *coxi_view_json(const struct coxi_view *view)
{
    const struct cox_cluster *cluster = view->cluster;
    json_t *root = json_object();
    (void)json_object_set_new(root, "source", json_string(view->source));
    if (view->role != COXI_CLUSTER_NONE) {
        (void)json_object_set_new(root, "role",
                                  json_string(coxi_cluster_role_name(view->role)));
        (void)json_object_set_new(root, "index", json_integer(view->index));
    }
    if (view->listen[0] != '\0') {
        (void)json_object_set_new(root, "listen", json_string(view->listen));
    }
    if (view->client[0] != '\0') {
        (void)json_object_set_new(root, "client", json_string(view->client));
    }
    if (cluster != NULL) {
        (void)json_object_set_new(root, "ps", list_of(cluster->ps, cluster->n_ps));
        (void)json_object_set_new(root, "worker",
                                  list_of(cluster->workers, cluster->n_workers));
    }
    (void)json_object_set_new(root, "from", sources_of(view));
    char *text = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    return text;
}
