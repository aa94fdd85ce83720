/*
 * See door.h. A connection belongs to a stranger until it has greeted; then it is a
 * worker's, or is refused.
 *
 * Invariants
 *   - A name belongs to one worker for as long as the coordinator lives: a process that
 *     comes back under it has the same index. Names are never forgotten, so there is a
 *     bound.
 *   - While a process is connected, it keeps its name: another process that dials under
 *     it is refused until the first one is lost. (If the newer one were let in, two
 *     workers with one name would throw each other out for ever.) The same process may
 *     dial again at any time: then its earlier connection is dead, although no side has
 *     noticed yet.
 *
 * Threads: the loop; `accepted` on one of nng's. No thread for a connection, because
 * there may be thousands.
 *
 * Cost: a look into a hash table for each worker that dials; nothing after that.
 */
#include "coordinator/workers/door.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/hash.h"
#include "coordinator/base/event.h"
#include "coordinator/workers/conn.h"
#include "coordinator/workers/contact.h"
#include "coordinator/workers/worker.h"

enum {
    NAMES = 4096, /* buckets */
    STRANGERS_MAX = 1024,
};

struct stranger {
    struct coxi_door *door;
    struct stranger *next;
    struct stranger *prev;
    struct coxi_conn *conn;
    uint64_t since_ms;
    bool refused;
};

struct coxi_door {
    struct cox_coordinator *c;
    struct coxi_listener *listener; /* NULL: it is shut */
    char url[COXI_URL_MAX + 1];
    struct stranger *strangers;
    size_t n_strangers;
    uint32_t n_named;
    struct coxi_worker *named[NAMES]; /* linked by next_named */
};

/* ---- names */

static struct coxi_worker **bucket_of(struct coxi_door *door, const char *name)
{
    return &door->named[coxi_hash_bytes(name, strlen(name)).low % NAMES];
}

/* The worker called `name`, or NULL. */
static struct coxi_worker *find(struct coxi_door *door, const char *name)
{
    struct coxi_worker *worker = *bucket_of(door, name);
    while (worker != NULL && strcmp(worker->name, name) != 0) {
        worker = worker->next_named;
    }
    return worker;
}

/* Finds the worker called `name`, or makes it. COX_ELIMIT, COX_ENOMEM. */
static int find_or_add(struct coxi_door *door, const char *name,
                       struct coxi_worker **ret)
{
    struct coxi_worker **bucket = bucket_of(door, name);
    struct coxi_worker *worker = find(door, name);
    if (worker == NULL) {
        int r = door->n_named < COXI_NAMED_MAX
                    ? coxi_worker_add(door->c, NULL, name, &worker)
                    : coxi_error(COX_ELIMIT,
                                 "%d workers have dialled under as many names: start "
                                 "workers that return with their old --name",
                                 COXI_NAMED_MAX);
        if (r != 0) {
            return r;
        }
        worker->next_named = *bucket;
        *bucket = worker;
        door->n_named++;
    }
    *ret = worker;
    return 0;
}

/* ---- greeting */

static int admit(struct stranger *stranger, const struct coxi_hello *hello)
{
    struct coxi_worker *worker;
    int r = coxi_hello_name_check(hello->name);
    if (r == 0) {
        r = find_or_add(stranger->door, hello->name, &worker);
    }
    if (r != 0) {
        return r;
    }
    if (coxi_worker_is_there(worker) && worker->incarnation != hello->incarnation) {
        return coxi_error(COX_EEXIST,
                          "another process is here as worker '%s': give each a --name "
                          "of its own, or wait until that one is lost",
                          worker->name);
    }
    coxi_worker_join(worker, stranger->conn, hello);
    return 0;
}

static int admit_data(struct stranger *stranger, const struct coxi_hello *hello)
{
    struct coxi_worker *worker = find(stranger->door, hello->name);
    if (worker == NULL || !coxi_worker_wants_data(worker, hello->incarnation)) {
        return coxi_error(COX_EREFUSED, "nobody wants a data connection of worker '%s'",
                          hello->name);
    }
    coxi_worker_join_data(worker, stranger->conn);
    return 0;
}

static void stranger_free(struct stranger *stranger)
{
    struct coxi_door *door = stranger->door;
    if (stranger->prev != NULL) {
        stranger->prev->next = stranger->next;
    } else {
        door->strangers = stranger->next;
    }
    if (stranger->next != NULL) {
        stranger->next->prev = stranger->prev;
    }
    door->n_strangers--;
    free(stranger);
}

static int stranger_frame(void *arg, struct coxi_conn *conn,
                          const struct coxi_frame *frame)
{
    struct stranger *stranger = arg;
    struct coxi_hello hello;
    if (stranger->refused) {
        return 0;
    }
    int r = coxi_hello_read(coxi_conn_link(conn), frame, &hello);
    if (r != 0) {
        return r;
    }
    if (hello.role != COXI_ROLE_WORKER) {
        r = coxi_error(COX_EREFUSED, "this is a client: only workers dial it");
    } else {
        r = hello.channel == COXI_CHANNEL_DATA ? admit_data(stranger, &hello)
                                               : admit(stranger, &hello);
    }
    if (r == 0) {
        stranger_free(stranger); /* the connection belongs to the worker now */
        return 0;
    }
    coxi_event(stranger->door->c, COX_EVENT_WORKER_REFUSED, COXI_OF(.error = r),
               "worker '%.100s' is refused: %.300s", hello.name, coxi_error_text());
    stranger->refused = true;
    (void)coxi_refuse(coxi_conn_link(conn), r, coxi_error_text());
    return 0;
}

static void stranger_closed(void *arg, struct coxi_conn *conn, int code,
                            const char *text)
{
    (void)conn;
    (void)code;
    (void)text;
    stranger_free(arg);
}

static const struct coxi_conn_events stranger_events = {NULL, stranger_frame,
                                                        stranger_closed};

/* ---- arrivals */

static void arrived(void *arg, struct coxi_conn *conn)
{
    struct coxi_door *door = arg;
    struct stranger *stranger = NULL;
    if (door->listener == NULL) {
        coxi_conn_close(conn, COX_ECANCELLED, "the client is closing");
        return;
    }
    if (door->n_strangers < STRANGERS_MAX) {
        stranger = calloc(1, sizeof(*stranger));
    }
    if (stranger == NULL) {
        coxi_conn_close(conn, COX_ELIMIT, "too many have not said who they are");
        return;
    }
    stranger->door = door;
    stranger->conn = conn;
    stranger->since_ms = coxi_now_ms();
    stranger->next = door->strangers;
    if (door->strangers != NULL) {
        door->strangers->prev = stranger;
    }
    door->strangers = stranger;
    door->n_strangers++;
    coxi_conn_adopt(conn, &stranger_events, stranger);
}

/* For connections that were sent away at once. */
static int arrival_frame(void *arg, struct coxi_conn *conn,
                         const struct coxi_frame *frame)
{
    (void)arg;
    (void)conn;
    (void)frame;
    return 0;
}

static void arrival_closed(void *arg, struct coxi_conn *conn, int code,
                           const char *text)
{
    (void)arg;
    (void)conn;
    (void)code;
    (void)text;
}

static const struct coxi_conn_events arrival_events = {arrived, arrival_frame,
                                                       arrival_closed};

/* On one of nng's threads. */
static void accepted(void *arg, struct coxi_link *link)
{
    struct coxi_door *door = arg;
    coxi_conn_accept(door->c, link, &arrival_events, door);
}

/* On one of nng's threads. */
static void denied(void *arg, const char *peer, uint64_t n)
{
    const struct coxi_door *door = arg;
    coxi_event(door->c, COX_EVENT_CONNECTION_DENIED, COXI_OF(.error = COX_EDENIED),
               "a connection to %.160s from %.64s was denied (%llu since the last such "
               "event): %.200s",
               door->url, peer, (unsigned long long)n, coxi_error_text());
}

void coxi_door_tick(struct coxi_door *door, uint64_t now_ms)
{
    if (door == NULL) {
        return;
    }
    uint64_t patience_ms = (uint64_t)door->c->options.peer_timeout_ms;
    for (struct stranger *s = door->strangers; s != NULL; s = s->next) {
        if (now_ms > s->since_ms && now_ms - s->since_ms > patience_ms) {
            coxi_conn_close(s->conn, COX_ETIMEDOUT, "it has not said who it is");
        }
    }
}

/* ---- the door */

/* The URL for the address that a user gives, for free(). */
static int check_address(const struct cox_coordinator *c, const char *listen,
                         char **ret)
{
    char *url = NULL;
    int r = coxi_cluster_url(listen, &url);
    if (r == 0 && !coxi_url_is_ipc(url) && c->site.key.kind == COXI_KEY_NONE) {
        r = coxi_error(
            COX_EADDRESS,
            "%s: any user of this host, and perhaps of others, could pose as a worker, "
            "because there is no key that keeps strangers out: make one (coxswain key "
            "new run.key), and give it to all members of the run (key_file, or "
            "COX_KEY_FILE); or use ipc:///PATH, which only your user reaches",
            url);
    }
    if (r != 0) {
        free(url);
        return coxi_error(r, "cox_options.listen: %s", coxi_error_text());
    }
    *ret = url;
    return 0;
}

int coxi_door_new(struct cox_coordinator *c, const char *listen, struct coxi_door **ret)
{
    char *url = NULL;
    int r = check_address(c, listen, &url);
    if (r != 0) {
        return r;
    }
    const struct coxi_guard guard = coxi_conn_guard(c);
    struct coxi_door *door = calloc(1, sizeof(*door));
    r = door == NULL
            ? coxi_error_memory("listening for workers")
            : coxi_listener_claim(url, &guard, accepted, door, &door->listener);
    free(url);
    if (r != 0) {
        free(door);
        return r;
    }
    door->c = c;
    (void)snprintf(door->url, sizeof(door->url), "%s",
                   coxi_listener_url(door->listener));
    coxi_listener_tell(door->listener, denied);
    *ret = door;
    return 0;
}

void coxi_door_open(struct coxi_door *door)
{
    if (door != NULL) {
        coxi_listener_start(door->listener);
    }
}

const char *coxi_door_url(const struct coxi_door *door)
{
    return coxi_listener_url(door->listener);
}

void coxi_door_shut(struct coxi_door *door)
{
    if (door == NULL) {
        return;
    }
    coxi_listener_close(door->listener);
    door->listener = NULL;
    for (struct stranger *s = door->strangers; s != NULL; s = s->next) {
        coxi_conn_close(s->conn, COX_ECANCELLED, "the client is closing");
    }
}

void coxi_door_free(struct coxi_door *door)
{
    if (door != NULL) {
        coxi_listener_close(door->listener);
        free(door);
    }
}
