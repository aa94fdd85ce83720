/*
 * See membership.h. The thread's life is a row of sessions, each with one endpoint:
 *
 *   log in, grant a lease, put the key, list what is watched, watch
 *     -> something has changed, or was forgotten: list, watch on
 *     -> a third of the lease's time has passed: keep it, look at the key
 *     -> a call fails: the session is over; the next endpoint, after a pause
 *
 * So nothing has to be repaired within a session, and an etcd that has lost all its data
 * is like one that is met for the first time.
 *
 * Lists, not events, tell what is in etcd: an event only says that it is time to list.
 */
#include "cluster/membership.h"

#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cluster/etcd.h"
#include "common/error.h"
#include "common/rand.h"
#include "common/sync.h"
#include "net/link.h"

enum {
    REQUEST_MS = 3000,
    LEAVE_MS = 1000,
    PAUSE_FIRST_MS = 100,
    PAUSE_MAX_MS = 5000,
    HELD_MS = 500,  /* between two looks at a key that another process has */
    PROBE_MS = 500, /* for an answer at that process's address */
    LIST_MS = 30000 /* lists and watches anew, should the watch have gone silent */
};

/* Who has a key, as its value tells. */
struct holder {
    char url[COXI_URL_MAX + 1]; /* "": none */
    uint64_t incarnation;
    int64_t since_ms; /* of the clock of the world */
    int64_t ttl_s;
    int64_t revision; /* of the key; 0: it does not exist */
};

struct coxi_membership {
    struct coxi_membership_options options;
    struct coxi_etcd_settings *settings;
    struct coxi_etcd *etcd;
    char *watch; /* with the prefix */
    pthread_t thread;
    atomic_bool stopping;
    uint64_t incarnation; /* of this process, here */

    struct coxi_mutex lock; /* guards `wanted` until it is taken over; leaf */
    struct coxi_member *wanted COXI_GUARDED_BY(lock);

    /* ---- the thread's own */
    struct coxi_member *member; /* what is registered; or NULL */
    char *key;                  /* its key with the prefix */
    int64_t lease;              /* 0: none */
    int64_t since_ms;
    int64_t seen;           /* the revision up to which was listed */
    bool registered;        /* the key was ours when we looked last */
    bool taken;             /* a living process has our key, which was told */
    uint64_t held_by;       /* the process that is waited for */
    uint64_t held_until_ms; /* then it counts as living */
    bool lost;              /* COXI_ETCD_LOST was told */
};

static void tell(struct coxi_membership *m, enum coxi_member_news news,
                 const char *text)
{
    if (m->options.on_news != NULL) {
        m->options.on_news(m->options.arg, news, text);
    }
}

static void member_free(struct coxi_member *member)
{
    if (member != NULL) {
        free((char *)(uintptr_t)member->key);
        free((char *)(uintptr_t)member->url);
    }
    free(member);
}

/* A new text "PREFIX/KEY". */
static int join_key(const struct coxi_etcd_settings *settings, const char *key,
                    char **ret)
{
    size_t len = strlen(settings->prefix) + strlen(key) + 2;
    char *text = malloc(len);
    if (text == NULL) {
        return coxi_error_memory("a key of etcd");
    }
    (void)snprintf(text, len, "%s/%s", settings->prefix, key);
    *ret = text;
    return 0;
}

/* ---- values */

static int64_t world_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The value of our key, for free(). NULL: no memory. */
static char *make_value(const struct coxi_membership *m, const char *url)
{
    char incarnation[24];
    char run[24];
    char host[65] = "";
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(incarnation, sizeof(incarnation), "%016" PRIx64, m->incarnation);
    (void)snprintf(run, sizeof(run), "%016" PRIx64, m->member->run);
    json_t *json = json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:s, s:I}", "address", url, "incarnation",
        incarnation, "run", run, "since", (json_int_t)m->since_ms, "ttl",
        (json_int_t)m->settings->ttl_s, "host", host, "pid", (json_int_t)getpid());
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return text;
}

/* Reads a value; of one that is none of ours the URL stays empty. */
static void read_value(const struct coxi_etcd_item *item, struct holder *ret)
{
    json_t *json = json_loads(item->value, 0, NULL);
    const char *url = json_string_value(json_object_get(json, "address"));
    const char *incarnation = json_string_value(json_object_get(json, "incarnation"));
    json_int_t since_ms = json_integer_value(json_object_get(json, "since"));
    *ret = (struct holder){
        .incarnation = incarnation != NULL ? strtoull(incarnation, NULL, 16) : 0,
        .since_ms = since_ms > 0 && since_ms < INT64_MAX ? since_ms : 0,
        .ttl_s = json_integer_value(json_object_get(json, "ttl")),
        .revision = item->revision,
    };
    if (url == NULL || coxi_url_from(url, ret->url) != 0) {
        ret->url[0] = '\0';
    }
    json_decref(json);
}

/* ---- our key */

/* Looks who has our key. */
static int look(struct coxi_membership *m, struct holder *ret)
{
    struct coxi_etcd_list list;
    int r = coxi_etcd_list(m->etcd, m->key, false, &list);
    if (r == 0) {
        *ret = (struct holder){0};
        if (list.n > 0) {
            read_value(&list.items[0], ret);
        }
        coxi_etcd_list_fini(&list);
    }
    return r;
}

/* Puts our key, with `url`, in the place of what `holder` tells. */
static int put(struct coxi_membership *m, const struct holder *holder, const char *url)
{
    char text[COXI_URL_MAX + 128];
    char *value = make_value(m, url);
    int r = value == NULL
                ? coxi_error_memory("a value in etcd")
                : coxi_etcd_put(m->etcd, m->key, value, m->lease, holder->revision);
    if (r == 0) {
        (void)snprintf(text, sizeof(text), "%s%s%s", m->member->key,
                       *url != '\0' ? " is at " : "", url);
        m->registered = true;
        m->held_by = 0;
        tell(m, COXI_MEMBER_REGISTERED, text);
    }
    free(value);
    return r == COX_ECONFLICT ? 0 : r; /* another was faster: look again later */
}

/* True if the process that listened at `url` has ended: nobody does, or we do. */
static bool is_gone(const char *url, const char *own_url)
{
    struct coxi_link *link = NULL;
    if (*url == '\0' || strcmp(url, own_url) == 0) {
        return *url != '\0';
    }
    int r = coxi_link_connect(url, NULL, PROBE_MS, &link);
    if (r == 0) {
        coxi_link_close(link, COX_ECLOSED, "it was only looked for");
        coxi_link_unref(link);
    }
    return r == COX_EREFUSED;
}

/* Another process has the index. Its lease may outlive it. */
static int wait_for(struct coxi_membership *m, const struct holder *holder,
                    const char *url)
{
    char text[COXI_URL_MAX + 256];
    uint64_t now = coxi_now_ms();
    bool longer =
        holder->ttl_s > m->settings->ttl_s && holder->ttl_s <= COXI_ETCD_TTL_MAX_S;
    int64_t ttl_s = longer ? holder->ttl_s : m->settings->ttl_s;
    if (m->held_by != holder->incarnation) {
        m->held_by = holder->incarnation;
        m->held_until_ms = now + (uint64_t)ttl_s * 2000 + HELD_MS;
        if (is_gone(holder->url, url)) {
            return put(m, holder, url);
        }
        (void)snprintf(text, sizeof(text),
                       "another process is %s, at %s: waiting whether it has ended",
                       m->member->key, holder->url);
        tell(m, COXI_MEMBER_HELD, text);
    } else if (now >= m->held_until_ms && !m->taken) {
        m->taken = true;
        (void)snprintf(text, sizeof(text),
                       "another process is %s, at %s, and it lives: give each its own "
                       "--index, or each job its own --etcd-prefix",
                       m->member->key, holder->url);
        tell(m, COXI_MEMBER_TAKEN, text);
    }
    return 0;
}

/* The newest process has the key: a clock that is behind does not count. */
static bool is_newer(struct coxi_membership *m, const struct holder *holder)
{
    if (m->since_ms == 0) {
        int64_t now = world_ms();
        m->since_ms = now > holder->since_ms ? now : holder->since_ms + 1;
    }
    return m->since_ms > holder->since_ms;
}

/* Makes our key ours, if it may be. */
static int settle_key(struct coxi_membership *m)
{
    struct holder holder;
    char *url = NULL;
    int r = look(m, &holder);
    bool ours = r == 0 && holder.revision != 0 && holder.incarnation == m->incarnation;
    if (r != 0 || (ours && m->registered)) {
        return r;
    }
    m->registered = false;
    r = coxi_member_url(m->member->url, m->settings->advertise,
                        coxi_etcd_own_host(m->etcd), &url);
    if (r != 0) {
        return r;
    }
    bool newer = is_newer(m, &holder);
    if (ours || holder.revision == 0 || (newer && !m->member->exclusive)) {
        r = put(m, &holder, url);
    } else if (m->member->exclusive) {
        r = wait_for(m, &holder, url);
    }
    free(url);
    return r;
}

/* Ends the lease, with our key. If etcd does not hear that, the lease expires. */
static int withdraw(struct coxi_membership *m)
{
    int64_t lease = m->lease;
    m->lease = 0;
    m->registered = false;
    return lease != 0 ? coxi_etcd_revoke(m->etcd, lease) : 0;
}

/* Keeps the lease, or gets another one, and looks at the key. */
static int attend(struct coxi_membership *m)
{
    int r = 0;
    if (m->member == NULL) {
        return 0;
    }
    if (m->member->may != NULL && !m->member->may(m->member->arg)) {
        return withdraw(m);
    }
    if (m->lease != 0) {
        r = coxi_etcd_keep(m->etcd, m->lease);
        m->lease = r == COX_ENOENT ? 0 : m->lease;
    }
    if (m->lease == 0) {
        m->registered = false;
        r = coxi_etcd_grant(m->etcd, m->settings->ttl_s, &m->lease);
    }
    return r == 0 ? settle_key(m) : r;
}

/* Takes over what coxi_membership_register has said. */
static int take_wanted(struct coxi_membership *m)
{
    int r = 0;
    coxi_lock(&m->lock);
    struct coxi_member *wanted = m->wanted;
    m->wanted = NULL;
    coxi_unlock(&m->lock);
    if (wanted != NULL) {
        r = join_key(m->settings, wanted->key, &m->key);
        m->member = r == 0 ? wanted : NULL;
    }
    if (r != 0) {
        member_free(wanted);
    }
    return r;
}

/* ---- what is watched */

static bool is_all(const char *watch)
{
    return watch[strlen(watch) - 1] == '/';
}

/* The part of a key beneath the prefix; NULL: it is not watched, whatever etcd says. */
static const char *own_part(const struct coxi_membership *m, const char *key)
{
    size_t len = strlen(m->watch);
    return strncmp(key, m->watch, len) == 0 && (is_all(m->watch) || key[len] == '\0')
               ? key + strlen(m->settings->prefix) + 1
               : NULL;
}

/* Lists what is watched, and tells it. */
static int tell_list(struct coxi_membership *m)
{
    struct coxi_etcd_list list;
    int r = coxi_etcd_list(m->etcd, m->watch, is_all(m->watch), &list);
    if (r != 0) {
        return r;
    }
    for (size_t i = 0; i < list.n; i++) {
        struct holder holder;
        const char *key = own_part(m, list.items[i].key);
        read_value(&list.items[i], &holder);
        if (key != NULL && holder.url[0] != '\0' &&
            holder.incarnation != m->incarnation) {
            m->options.on_member(m->options.arg, key, holder.url);
        }
    }
    m->seen = list.revision;
    coxi_etcd_list_fini(&list);
    return 0;
}

static int list_and_watch(struct coxi_membership *m)
{
    int r = tell_list(m);
    return r == 0 ? coxi_etcd_watch(m->etcd, m->watch, is_all(m->watch), m->seen + 1)
                  : r;
}

/* Waits for changes of what is watched for at most `ms`, and tells them. */
static int follow(struct coxi_membership *m, int ms)
{
    if (m->watch == NULL) {
        coxi_etcd_pause(m->etcd, ms);
        return 0;
    }
    int r = coxi_etcd_wait(m->etcd, m->seen + 1, ms);
    return r == COX_ETIMEDOUT ? 0
           : r == 0           ? tell_list(m)
           : r == COX_EAGAIN  ? list_and_watch(m)
                              : r;
}

/* ---- the thread */

static void tell_lost(struct coxi_membership *m)
{
    char text[COXI_ERROR_TEXT_MAX + 128];
    if (!m->lost) {
        (void)snprintf(text, sizeof(text),
                       "%s; all goes on as it was last known, and etcd is asked again",
                       coxi_error_text());
        m->lost = true;
        tell(m, COXI_ETCD_LOST, text);
    }
}

static void tell_back(struct coxi_membership *m)
{
    char text[320];
    if (m->lost) {
        (void)snprintf(text, sizeof(text), "etcd at %s answers again",
                       coxi_etcd_endpoint(m->etcd));
        m->lost = false;
        tell(m, COXI_ETCD_BACK, text);
    }
}

/* The time until the lease and the key are looked at again. */
static int tick_ms(const struct coxi_membership *m)
{
    int third = (int)m->settings->ttl_s * 1000 / 3;
    bool settled = m->member == NULL || m->registered || m->taken;
    return settled || third < HELD_MS ? third : HELD_MS;
}

/* Serves until a call fails. *ret_served: not the first one. */
static int session(struct coxi_membership *m, bool *ret_served)
{
    int r = take_wanted(m);
    r = r == 0 ? attend(m) : r;
    r = r == 0 && m->watch != NULL ? list_and_watch(m) : r;
    uint64_t attend_ms = coxi_now_ms() + (uint64_t)tick_ms(m);
    uint64_t list_ms = coxi_now_ms() + LIST_MS;
    while (r == 0 && !atomic_load(&m->stopping)) {
        uint64_t now = coxi_now_ms();
        bool unregistered = m->member == NULL;
        r = follow(m, now < attend_ms ? (int)(attend_ms - now) : 0);
        r = r == 0 ? take_wanted(m) : r;
        now = coxi_now_ms();
        if (r == 0 && (now >= attend_ms || (unregistered && m->member != NULL))) {
            r = attend(m);
            attend_ms = coxi_now_ms() + (uint64_t)tick_ms(m);
        }
        if (r == 0 && m->watch != NULL && now >= list_ms) {
            r = list_and_watch(m);
            list_ms = now + LIST_MS;
        }
        if (r == 0) {
            *ret_served = true;
            tell_back(m);
        }
    }
    return r;
}

static void leave(struct coxi_membership *m)
{
    if (m->lease != 0) {
        coxi_etcd_abort(m->etcd, false);
        coxi_etcd_limit(m->etcd, LEAVE_MS);
        (void)coxi_etcd_revoke(m->etcd, m->lease);
    }
}

static void *membership_thread(void *arg)
{
    struct coxi_membership *m = arg;
    uint64_t random = coxi_random_id();
    int pause_ms = PAUSE_FIRST_MS;
    while (!atomic_load(&m->stopping)) {
        bool served = false;
        int r = session(m, &served);
        pause_ms = served ? PAUSE_FIRST_MS : pause_ms;
        if (r == 0 || r == COX_ECANCELLED) { /* `stopping` is set, or is about to be */
            continue;
        }
        /* All endpoints are asked before etcd counts as lost, and before a pause. */
        if (coxi_etcd_next(m->etcd)) {
            continue;
        }
        if (!served) {
            tell_lost(m);
        }
        /* not all processes that have lost etcd may ask again at the same time */
        coxi_etcd_pause(m->etcd,
                        pause_ms / 2 + (int)(coxi_rand(&random) % (unsigned)pause_ms));
        pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
    }
    leave(m);
    return NULL;
}

/* ---- life */

int coxi_membership_register(struct coxi_membership *m,
                             const struct coxi_member *member)
{
    struct coxi_member *copy = calloc(1, sizeof(*copy));
    if (copy != NULL) {
        *copy = *member;
        copy->key = strdup(member->key);
        copy->url = strdup(member->url);
    }
    if (copy == NULL || copy->key == NULL || copy->url == NULL) {
        member_free(copy);
        return coxi_error_memory("a key of etcd");
    }
    coxi_lock(&m->lock);
    m->wanted = copy;
    coxi_unlock(&m->lock);
    coxi_etcd_wake(m->etcd);
    return 0;
}

static void membership_free(struct coxi_membership *m)
{
    coxi_unshared(&m->lock);
    coxi_etcd_free(m->etcd);
    coxi_etcd_settings_free(m->settings);
    member_free(m->wanted);
    member_free(m->member);
    free(m->watch);
    free(m->key);
    coxi_mutex_fini(&m->lock);
    free(m);
}

int coxi_membership_start(const struct coxi_membership_options *options,
                          struct coxi_membership **ret)
{
    struct coxi_membership *m = calloc(1, sizeof(*m));
    if (m == NULL) {
        return coxi_error_memory("a part in etcd");
    }
    m->options = *options;
    m->incarnation = coxi_random_id();
    coxi_mutex_init(&m->lock);
    int r = coxi_etcd_settings_copy(options->settings, &m->settings);
    if (r == 0 && options->watch != NULL) {
        r = join_key(m->settings, options->watch, &m->watch);
    }
    r = r == 0 ? coxi_etcd_new(m->settings, REQUEST_MS, &m->etcd) : r;
    if (r == 0) {
        r = coxi_thread_start(&m->thread, "cox:etcd", membership_thread, m);
    }
    if (r != 0) {
        membership_free(m);
        return r;
    }
    *ret = m;
    return 0;
}

void coxi_membership_stop(struct coxi_membership *m)
{
    if (m == NULL) {
        return;
    }
    /* in this order: `leave` ends the abort once it sees `stopping` */
    coxi_etcd_abort(m->etcd, true);
    atomic_store(&m->stopping, true);
    (void)pthread_join(m->thread, NULL);
    membership_free(m);
}
