/* See etcd_settings.h. Pure; any thread. */
#include "cluster/etcd_settings.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

enum { TTL_USUAL_S = 10, PREFIX_MAX = 256 };

/* The settings that are texts, and the environment variable of each. */
static const struct {
    const char *name;
    size_t offset;
} texts[] = {
    {"COX_ETCD", offsetof(struct coxi_etcd_settings, endpoints)},
    {"COX_ETCD_PREFIX", offsetof(struct coxi_etcd_settings, prefix)},
    {"COX_ETCD_USER", offsetof(struct coxi_etcd_settings, user)},
    {"COX_ETCD_PASSWORD_FILE", offsetof(struct coxi_etcd_settings, password_file)},
    {"COX_ETCD_CA", offsetof(struct coxi_etcd_settings, ca_file)},
    {"COX_ETCD_CERT", offsetof(struct coxi_etcd_settings, cert_file)},
    {"COX_ETCD_KEY", offsetof(struct coxi_etcd_settings, key_file)},
    {"COX_ADVERTISE", offsetof(struct coxi_etcd_settings, advertise)},
};
enum { N_TEXTS = sizeof(texts) / sizeof(*texts) };

static const char **text_of(struct coxi_etcd_settings *settings, size_t i)
{
    return (const char **)(void *)((char *)settings + texts[i].offset);
}

static int fill_ttl(struct coxi_etcd_settings *settings)
{
    const char *text = getenv("COX_ETCD_TTL"); // NOLINT(concurrency-mt-unsafe)
    if (settings->ttl_s == 0 && text != NULL && *text != '\0') {
        char *end;
        settings->ttl_s = strtoll(text, &end, 10);
        settings->ttl_s = *end == '\0' ? settings->ttl_s : -1;
    } else if (settings->ttl_s == 0) {
        settings->ttl_s = TTL_USUAL_S;
    }
    return settings->ttl_s >= 1 && settings->ttl_s <= COXI_ETCD_TTL_MAX_S
               ? 0
               : coxi_error(COX_EINVAL,
                            "the time to live in etcd (COX_ETCD_TTL) is a number of "
                            "seconds from 1 to %d",
                            COXI_ETCD_TTL_MAX_S);
}

/* The endpoints are URLs without a path, separated by commas. */
static int check_endpoints(const char *endpoints)
{
    size_t n = 0;
    for (const char *at = endpoints; at != NULL; n++) {
        const char *comma = strchr(at, ',');
        size_t len = comma != NULL ? (size_t)(comma - at) : strlen(at);
        const char *host = strncmp(at, "http://", 7) == 0    ? at + 7
                           : strncmp(at, "https://", 8) == 0 ? at + 8
                                                             : NULL;
        if (host == NULL || host >= at + len ||
            strcspn(host, "/?#@ \t,") < (size_t)(at + len - host)) {
            return coxi_error(COX_EINVAL,
                              "'%.*s' is no address of etcd: they are like "
                              "http://host:2379, separated by commas (COX_ETCD)",
                              (int)len, at);
        }
        at = comma != NULL ? comma + 1 : NULL;
    }
    return n <= COXI_ETCD_ENDPOINTS_MAX
               ? 0
               : coxi_error(COX_EINVAL, "etcd has %zu addresses, %d are possible", n,
                            COXI_ETCD_ENDPOINTS_MAX);
}

static int check_prefix(const char *prefix)
{
    size_t len = strlen(prefix);
    bool plain = true;
    for (size_t i = 0; i < len; i++) {
        plain = plain && prefix[i] > ' ' && prefix[i] <= '~';
    }
    return plain && len > 0 && len <= PREFIX_MAX && prefix[len - 1] != '/'
               ? 0
               : coxi_error(COX_EINVAL,
                            "the prefix of keys in etcd (COX_ETCD_PREFIX) is like "
                            "/coxswain/JOB: 1 to %d printable characters without a "
                            "blank, and no slash at the end",
                            PREFIX_MAX);
}

static int check(const struct coxi_etcd_settings *settings)
{
    if ((settings->user == NULL) != (settings->password_file == NULL)) {
        return coxi_error(COX_EINVAL, "a user of etcd and the file with the password "
                                      "belong together (COX_ETCD_USER, "
                                      "COX_ETCD_PASSWORD_FILE)");
    }
    if ((settings->cert_file == NULL) != (settings->key_file == NULL)) {
        return coxi_error(COX_EINVAL, "a certificate for etcd and its secret key "
                                      "belong together (COX_ETCD_CERT, COX_ETCD_KEY)");
    }
    int r = check_endpoints(settings->endpoints);
    return r == 0 ? check_prefix(settings->prefix) : r;
}

int coxi_etcd_settings_fill(struct coxi_etcd_settings *settings)
{
    for (size_t i = 0; i < N_TEXTS; i++) {
        const char **text = text_of(settings, i);
        const char *said = *text;
        if (said == NULL) {
            said = getenv(texts[i].name); // NOLINT(concurrency-mt-unsafe)
        }
        *text = said != NULL && *said != '\0' ? said : NULL;
    }
    if (settings->endpoints == NULL) {
        return 0;
    }
    if (settings->prefix == NULL) {
        settings->prefix = "/coxswain/default";
    }
    int r = fill_ttl(settings);
    return r == 0 ? check(settings) : r;
}

void coxi_etcd_settings_complete(struct coxi_etcd_settings *settings,
                                 const struct coxi_etcd_settings *other)
{
    struct coxi_etcd_settings from = *other;
    for (size_t i = 0; i < N_TEXTS; i++) {
        const char **text = text_of(settings, i);
        *text = *text != NULL ? *text : *text_of(&from, i);
    }
    settings->ttl_s = settings->ttl_s != 0 ? settings->ttl_s : from.ttl_s;
}

int coxi_etcd_settings_copy(const struct coxi_etcd_settings *settings,
                            struct coxi_etcd_settings **ret)
{
    struct coxi_etcd_settings from = *settings;
    struct coxi_etcd_settings *copy = calloc(1, sizeof(*copy));
    bool whole = copy != NULL;
    for (size_t i = 0; whole && i < N_TEXTS; i++) {
        const char *text = *text_of(&from, i);
        *text_of(copy, i) = text != NULL ? strdup(text) : NULL;
        whole = (text == NULL) == (*text_of(copy, i) == NULL);
    }
    if (!whole) {
        coxi_etcd_settings_free(copy);
        return coxi_error_memory("settings of etcd");
    }
    copy->ttl_s = settings->ttl_s;
    *ret = copy;
    return 0;
}

void coxi_etcd_settings_free(struct coxi_etcd_settings *settings)
{
    for (size_t i = 0; settings != NULL && i < N_TEXTS; i++) {
        free((char *)(uintptr_t)*text_of(settings, i));
    }
    free(settings);
}
