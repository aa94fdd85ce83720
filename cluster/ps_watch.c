/* See ps_watch.h. A key that is gone changes nothing: the address stays, because the ps
 * may live although etcd has lost its lease. */
#include "cluster/ps_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/sync.h"

struct coxi_ps_watch {
    struct coxi_ps_watch_options options;
    struct coxi_membership *membership;
    uint32_t n;
    char *prefix;           /* of etcd's keys, for texts */
    struct coxi_mutex lock; /* leaf */
    pthread_cond_t changed;
    char **urls COXI_GUARDED_BY(lock); /* NULL: not registered yet */
    uint32_t n_known COXI_GUARDED_BY(lock);
    char lost[COXI_ERROR_TEXT_MAX] COXI_GUARDED_BY(lock); /* "": etcd answers */
};

static void on_member(void *arg, const char *key, const char *url)
{
    struct coxi_ps_watch *watch = arg;
    char *end;
    const char *digits = key + strlen("ps/");
    unsigned long ps = strtoul(digits, &end, 10);
    bool is_index = *digits >= '1' && *digits <= '9';
    is_index = is_index || strcmp(digits, "0") == 0; /* "00" is no other name of it */
    if (!is_index || *end != '\0' || ps >= watch->n) {
        return; /* no ps of this cluster */
    }
    coxi_lock(&watch->lock);
    char **known = &watch->urls[ps];
    char *copy = *known == NULL || strcmp(*known, url) != 0 ? strdup(url) : NULL;
    coxi_unlock(&watch->lock);
    if (copy == NULL) {
        return;
    }
    /* first, so that it was told of every ps when coxi_ps_watch_wait returns */
    if (watch->options.on_moved != NULL) {
        watch->options.on_moved(watch->options.arg, (uint32_t)ps, url);
    }
    coxi_lock(&watch->lock);
    watch->n_known += *known == NULL;
    free(*known);
    *known = copy;
    (void)pthread_cond_broadcast(&watch->changed);
    coxi_unlock(&watch->lock);
}

static void on_news(void *arg, enum coxi_member_news news, const char *text)
{
    struct coxi_ps_watch *watch = arg;
    coxi_lock(&watch->lock);
    if (news == COXI_ETCD_LOST || news == COXI_ETCD_BACK) {
        (void)snprintf(watch->lost, sizeof(watch->lost), "%s",
                       news == COXI_ETCD_LOST ? text : "");
    }
    coxi_unlock(&watch->lock);
    if (watch->options.on_news != NULL) {
        watch->options.on_news(watch->options.arg, news, text);
    }
}

/* Tells which ps are missing. */
static int tell_missing(const struct coxi_ps_watch *watch) COXI_REQUIRES(watch->lock)
{
    char list[128] = "";
    size_t len = 0;
    if (watch->lost[0] != '\0') {
        return coxi_error(COX_ETIMEDOUT, "the ps are not known: %s", watch->lost);
    }
    for (uint32_t i = 0; i < watch->n && len + 16 < sizeof(list); i++) {
        if (watch->urls[i] == NULL) {
            len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%u",
                                    len > 0 ? ", " : "", i);
        }
    }
    return coxi_error(COX_ETIMEDOUT,
                      "%u of %u ps are registered in etcd beneath %s/ps; missing: %s%s",
                      watch->n_known, watch->n, watch->prefix, list,
                      len + 16 < sizeof(list) ? "" : " ...");
}

int coxi_ps_watch_wait(struct coxi_ps_watch *watch, int timeout_ms)
{
    struct timespec until = coxi_deadline(timeout_ms);
    coxi_lock(&watch->lock);
    bool in_time = true;
    while (in_time && watch->n_known < watch->n) {
        in_time = coxi_wait_until(&watch->changed, &watch->lock, &until);
    }
    int r = watch->n_known < watch->n ? tell_missing(watch) : 0;
    coxi_unlock(&watch->lock);
    return r;
}

int coxi_ps_watch_take(struct coxi_ps_watch *watch, struct cox_cluster *cluster)
{
    int r = 0;
    coxi_lock(&watch->lock);
    for (uint32_t i = 0; r == 0 && i < watch->n; i++) {
        char *copy = watch->urls[i] != NULL ? strdup(watch->urls[i]) : NULL;
        if (copy != NULL) {
            free(cluster->ps[i]);
            cluster->ps[i] = copy;
        } else if (watch->urls[i] != NULL) {
            r = coxi_error_memory("an address");
        }
    }
    coxi_unlock(&watch->lock);
    return r;
}

struct coxi_membership *coxi_ps_watch_membership(struct coxi_ps_watch *watch)
{
    return watch->membership;
}

int coxi_ps_watch_start(const struct coxi_ps_watch_options *options,
                        struct coxi_ps_watch **ret)
{
    struct coxi_ps_watch *watch = calloc(1, sizeof(*watch));
    if (watch == NULL) {
        return coxi_error_memory("the ps in etcd");
    }
    watch->options = *options;
    watch->n = options->cluster->n_ps;
    coxi_mutex_init(&watch->lock);
    coxi_cond_init(&watch->changed);
    coxi_unshared(&watch->lock);
    watch->urls = calloc(watch->n, sizeof(*watch->urls));
    watch->prefix = strdup(options->cluster->etcd->prefix);
    int r =
        watch->urls == NULL || watch->prefix == NULL
            ? coxi_error_memory("the ps in etcd")
            : coxi_membership_start(
                  &(struct coxi_membership_options){.settings = options->cluster->etcd,
                                                    .watch = "ps/",
                                                    .on_member = on_member,
                                                    .on_news = on_news,
                                                    .arg = watch},
                  &watch->membership);
    if (r != 0) {
        coxi_ps_watch_stop(watch);
        return r;
    }
    *ret = watch;
    return 0;
}

void coxi_ps_watch_stop(struct coxi_ps_watch *watch)
{
    if (watch == NULL) {
        return;
    }
    coxi_membership_stop(watch->membership);
    coxi_unshared(&watch->lock);
    for (uint32_t i = 0; watch->urls != NULL && i < watch->n; i++) {
        free(watch->urls[i]);
    }
    free(watch->urls);
    free(watch->prefix);
    (void)pthread_cond_destroy(&watch->changed);
    coxi_mutex_fini(&watch->lock);
    free(watch);
}
