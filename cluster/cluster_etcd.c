/* See cluster_etcd.h. */
#include "cluster/cluster_etcd.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/etcd_settings.h"
#include "common/buffer.h"
#include "common/error.h"
#include "common/layout.h"

/* The members that are texts. */
static const struct {
    const char *name;
    size_t offset;
} members[] = {
    {"prefix", offsetof(struct coxi_etcd_settings, prefix)},
    {"user", offsetof(struct coxi_etcd_settings, user)},
    {"password_file", offsetof(struct coxi_etcd_settings, password_file)},
    {"ca", offsetof(struct coxi_etcd_settings, ca_file)},
    {"cert", offsetof(struct coxi_etcd_settings, cert_file)},
    {"key", offsetof(struct coxi_etcd_settings, key_file)},
    {"advertise", offsetof(struct coxi_etcd_settings, advertise)},
};
enum { N_MEMBERS = sizeof(members) / sizeof(*members) };

static const char **text_of(struct coxi_etcd_settings *settings, size_t i)
{
    return (const char **)(void *)((char *)settings + members[i].offset);
}

/* Joins the list of endpoints with commas. */
static int join_endpoints(const json_t *list, struct coxi_buffer *out)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
        const char *endpoint = json_string_value(json_array_get(list, i));
        r = endpoint == NULL
                ? coxi_error(COX_EINVAL, "\"endpoints\" %zu of etcd is no text", i)
                : coxi_buffer_printf(out, "%s%s", i > 0 ? "," : "", endpoint);
    }
    return r == 0 ? coxi_buffer_append_raw(out, "", 1) : r;
}

static int read_members(const json_t *etcd, struct coxi_etcd_settings *settings)
{
    const char *name;
    const json_t *value;
    json_object_foreach((json_t *)(uintptr_t)etcd, name, value)
    {
        bool known = strcmp(name, "ps") == 0 || strcmp(name, "endpoints") == 0 ||
                     (strcmp(name, "ttl") == 0 && json_is_integer(value));
        for (size_t i = 0; i < N_MEMBERS; i++) {
            if (strcmp(name, members[i].name) == 0 && json_is_string(value)) {
                *text_of(settings, i) = json_string_value(value);
                known = true;
            }
        }
        if (!known) {
            return coxi_error(COX_EINVAL,
                              "the cluster's \"etcd\" has \"%s\", which is no member "
                              "of it, or must be a text (\"ttl\": a number)",
                              name);
        }
    }
    return 0;
}

static int read_settings(const json_t *etcd, struct coxi_etcd_settings *settings,
                         struct coxi_buffer *endpoints)
{
    const json_t *list = json_object_get(etcd, "endpoints");
    if (list != NULL && json_array_size(list) == 0) {
        return coxi_error(COX_EINVAL, "\"endpoints\" of the cluster's \"etcd\" is a "
                                      "list like [\"http://host:2379\"]");
    }
    int r = read_members(etcd, settings);
    if (r == 0 && list != NULL) {
        r = join_endpoints(list, endpoints);
        settings->endpoints = (const char *)endpoints->data;
    }
    settings->ttl_s = json_integer_value(json_object_get(etcd, "ttl"));
    r = r == 0 ? coxi_etcd_settings_fill(settings) : r;
    return r != 0 || settings->endpoints != NULL
               ? r
               : coxi_error(COX_EINVAL,
                            "the cluster's \"etcd\" has no \"endpoints\", and COX_ETCD "
                            "is not set: say [\"http://host:2379\"]");
}

/* A list of addresses that are not known yet. */
static int make_ps(uint32_t n, struct cox_cluster *cluster)
{
    cluster->ps = calloc(n, sizeof(char *));
    for (; cluster->ps != NULL && cluster->n_ps < n; cluster->n_ps++) {
        cluster->ps[cluster->n_ps] = strdup("");
        if (cluster->ps[cluster->n_ps] == NULL) {
            break;
        }
    }
    return cluster->n_ps == n ? 0 : coxi_error_memory("a cluster");
}

int coxi_cluster_parse_etcd(const json_t *etcd, struct cox_cluster *cluster)
{
    struct coxi_buffer endpoints = {0};
    struct coxi_etcd_settings settings = {0};
    json_int_t n = json_integer_value(json_object_get(etcd, "ps"));
    int r =
        n < 1 ? coxi_error(COX_EINVAL, "the cluster's \"etcd\" says how many ps there "
                                       "are: {\"etcd\": {\"ps\": 2}}")
        : n > COXI_PS_MAX
            ? coxi_error(COX_ELIMIT, "the cluster has %lld ps, %d are possible",
                         (long long)n, COXI_PS_MAX)
            : read_settings(etcd, &settings, &endpoints);
    r = r == 0 ? coxi_etcd_settings_copy(&settings, &cluster->etcd) : r;
    r = r == 0 ? make_ps((uint32_t)n, cluster) : r;
    coxi_buffer_fini(&endpoints);
    return r;
}

json_t *coxi_cluster_etcd_json(const struct cox_cluster *cluster)
{
    json_t *list = json_array();
    for (const char *at = cluster->etcd->endpoints; at != NULL;) {
        const char *comma = strchr(at, ',');
        size_t len = comma != NULL ? (size_t)(comma - at) : strlen(at);
        (void)json_array_append_new(list, json_stringn(at, len));
        at = comma != NULL ? comma + 1 : NULL;
    }
    json_t *etcd =
        json_pack("{s:I, s:o, s:I}", "ps", (json_int_t)cluster->n_ps, "endpoints", list,
                  "ttl", (json_int_t)cluster->etcd->ttl_s);
    for (size_t i = 0; i < N_MEMBERS; i++) {
        const char *text = *text_of(cluster->etcd, i);
        if (text != NULL) {
            (void)json_object_set_new(etcd, members[i].name, json_string(text));
        }
    }
    return etcd;
}
