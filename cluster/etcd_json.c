/* See etcd_json.h. */
#include "cluster/etcd_json.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

/* gRPC's codes of errors, which the gateway passes on. */
enum {
    GRPC_NOT_FOUND = 5,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_UNAUTHENTICATED = 16
};

enum { VALUE_MAX = 64 << 10, TEXT_MAX = 256 };

/* ---- values */

static json_t *number(int64_t value)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%" PRId64, value);
    return json_string(text);
}

static json_t *bytes(const void *content, size_t len)
{
    unsigned char *text = malloc(len / 3 * 4 + 5);
    json_t *json = NULL;
    if (text != NULL) {
        (void)EVP_EncodeBlock(text, content, (int)len);
        json = json_string((const char *)text);
    }
    free(text);
    return json;
}

int64_t coxi_etcd_json_number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    const char *text = json_string_value(value);
    return text != NULL ? strtoll(text, NULL, 10) : json_integer_value(value);
}

/* The text of a base64 member, for free(); "" if it is not there. NULL: it is no base64,
 * too long, or no text. */
static char *text_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    const char *text = value != NULL ? json_string_value(value) : "";
    size_t len = text != NULL ? strlen(text) : 1;
    char *plain = len % 4 == 0 && len <= VALUE_MAX ? malloc(len + 1) : NULL;
    if (plain == NULL) {
        return NULL;
    }
    int n =
        EVP_DecodeBlock((unsigned char *)plain, (const unsigned char *)text, (int)len);
    for (size_t i = len; n > 0 && i > 0 && i + 2 > len && text[i - 1] == '='; i--) {
        n--;
    }
    if (n >= 0) {
        plain[n] = '\0';
    }
    if (n < 0 || strlen(plain) != (size_t)n) {
        free(plain);
        return NULL;
    }
    return plain;
}

/* What etcd says, for an error's text: without control characters. */
static const char *plain(const char *from, size_t len, char ret[TEXT_MAX + 1])
{
    size_t n = len < TEXT_MAX ? len : TEXT_MAX;
    for (size_t i = 0; i < n; i++) {
        ret[i] = (char)(from[i] >= ' ' && from[i] <= '~' ? from[i] : '?');
    }
    ret[n] = '\0';
    return ret;
}

/* ---- requests */

json_t *coxi_etcd_json_login(const char *user, const char *password)
{
    return json_pack("{s:s, s:s}", "name", user, "password", password);
}

json_t *coxi_etcd_json_lease(int64_t lease)
{
    return json_pack("{s:o}", "ID", number(lease));
}

json_t *coxi_etcd_json_grant(int64_t ttl_s)
{
    return json_pack("{s:o}", "TTL", number(ttl_s));
}

json_t *coxi_etcd_json_range(const char *key, bool all, int64_t revision)
{
    size_t len = strlen(key);
    json_t *json = json_pack("{s:o}", "key", bytes(key, len));
    char *end = strdup(key);
    if (all && end != NULL && len > 0) {
        end[len - 1]++; /* keys are plain characters, so this is one, too */
        (void)json_object_set_new(json, "range_end", bytes(end, len));
    }
    free(end);
    if (revision == 0) {
        return json;
    }
    (void)json_object_set_new(json, "start_revision", number(revision));
    return json_pack("{s:o}", "create_request", json);
}

json_t *coxi_etcd_json_put(const char *key, const char *value, int64_t lease,
                           int64_t revision)
{
    size_t len = strlen(key);
    return json_pack("{s:[{s:o, s:s, s:s, s:o}], s:[{s:{s:o, s:o, s:o}}]}", "compare",
                     "key", bytes(key, len), "target", "MOD", "result", "EQUAL",
                     "mod_revision", number(revision), "success", "request_put", "key",
                     bytes(key, len), "value", bytes(value, strlen(value)), "lease",
                     number(lease));
}

/* ---- answers */

void coxi_etcd_list_fini(struct coxi_etcd_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->items[i].key);
        free(list->items[i].value);
    }
    free(list->items);
    *list = (struct coxi_etcd_list){0};
}

int coxi_etcd_json_list(const json_t *answer, struct coxi_etcd_list *ret)
{
    const json_t *kvs = json_object_get(answer, "kvs");
    struct coxi_etcd_list list = {
        .items = calloc(json_array_size(kvs) + 1, sizeof(*list.items)),
        .revision =
            coxi_etcd_json_number(json_object_get(answer, "header"), "revision"),
    };
    if (list.items == NULL) {
        return coxi_error_memory("an answer of etcd");
    }
    if (list.revision <= 0) {
        free(list.items);
        return coxi_error(COX_EIO, "etcd answers with a list without a revision");
    }
    for (size_t i = 0; i < json_array_size(kvs); i++) {
        const json_t *kv = json_array_get(kvs, i);
        struct coxi_etcd_item item = {
            .key = text_of(kv, "key"),
            .value = text_of(kv, "value"),
            .revision = coxi_etcd_json_number(kv, "mod_revision"),
        };
        if (item.key != NULL && item.value != NULL) {
            list.items[list.n++] = item;
        } else { /* not one of ours */
            free(item.key);
            free(item.value);
        }
    }
    *ret = list;
    return 0;
}

static int read_event(const json_t *result, int64_t revision)
{
    int64_t at = coxi_etcd_json_number(json_object_get(result, "header"), "revision");
    if (json_is_true(json_object_get(result, "canceled"))) {
        char text[TEXT_MAX + 1];
        const char *why = json_string_value(json_object_get(result, "cancel_reason"));
        return coxi_etcd_json_number(result, "compact_revision") > 0
                   ? coxi_error(COX_EAGAIN, "etcd has forgotten changes (compaction)")
                   : coxi_error(COX_EIO, "etcd has ended the watch: %.200s",
                                why != NULL ? plain(why, strlen(why), text)
                                            : "it says no reason");
    }
    return json_array_size(json_object_get(result, "events")) > 0 && at >= revision
               ? 0
               : COX_ETIMEDOUT;
}

int coxi_etcd_json_event(const char *line, size_t len, int64_t revision)
{
    char text[TEXT_MAX + 1];
    json_t *root = json_loadb(line, len, 0, NULL);
    const json_t *result = json_object_get(root, "result");
    int r = json_is_object(result) ? read_event(result, revision)
                                   : coxi_error(COX_EIO, "etcd's watch tells '%s'",
                                                plain(line, len, text));
    json_decref(root);
    return r;
}

int coxi_etcd_json_error(const char *body, size_t len, long status, bool *ret_stale,
                         bool *ret_open)
{
    char said[TEXT_MAX + 1];
    json_t *root = len > 0 ? json_loadb(body, len, 0, NULL) : NULL;
    int64_t code = coxi_etcd_json_number(root, "code");
    const char *text = json_string_value(json_object_get(root, "message"));
    *ret_stale = status == 401 || code == GRPC_UNAUTHENTICATED;
    *ret_open = code == GRPC_FAILED_PRECONDITION;
    int r = code == GRPC_NOT_FOUND ? COX_ENOENT
            : *ret_stale || code == GRPC_PERMISSION_DENIED || status == 403
                ? COX_EDENIED
                : COX_EIO;
    r = coxi_error(r, "HTTP status %ld: %s", status,
                   text != NULL ? plain(text, strlen(text), said) : "no reason given");
    json_decref(root);
    return r;
}
