/*
 * A worker's part in a client's run: the layout, connections to the ps, modules, and
 * results on their way to the client. It begins when a client greets and ends with that
 * connection. Closures that still run then are finished, but nobody is told.
 *
 * Reference-counted: shared by the service (while the client is connected), the
 * closures in line, and the attempts whose commits are under way.
 */
#ifndef COXI_WORKER_RUN_H
#define COXI_WORKER_RUN_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/buffer.h"
#include "common/clock.h"
#include "common/loop.h"
#include "common/sync.h"
#include "net/message.h"
#include "net/ps_client.h"
#include "worker/client_files.h"
#include "worker/copies.h"
#include "worker/modules.h"
#include "worker/recorder.h"
#include "worker/resources.h"
#include "worker/results.h"
#include "worker/variables.h"

enum {
    COXI_MODULES_MAX = 64,
    COXI_REPORTS_MAX = 256, /* results that leave in one message */
    COXI_REPORT_LONG = 64 * 1024,
    COXI_GRACE_MS = 1000, /* for cancelled steps, until the client names another */
};

/* Memory that a run keeps to use again; a member of the object that is kept. */
struct coxi_spare {
    struct coxi_spare *next;
    void (*free)(struct coxi_spare *spare);
};

struct coxi_run_options {
    uint32_t worker; /* its index, unless the client's layout names another */
    uint64_t incarnation;
    /* the number of the client's control connection (net/server.h) */
    uint64_t connection;
    uint32_t commit_window; /* most attempts with commits under way */
    /* the client is told of a ps that is out of reach for this long; 0: never */
    int peer_timeout_ms;
    const struct coxi_key *key;     /* the run's (net/key.h), borrowed; or NULL */
    bool local_path;                /* use shared memory to a ps on the same host */
    size_t pull_cache_max;          /* most bytes of copies for COX_PULL_CACHED */
    size_t data_cache_max;          /* most bytes of the client's files */
    size_t kept_max;                /* most bytes of results that stay here */
    size_t step_rows_max;           /* most bytes of the rows that a step keeps */
    struct coxi_recorder *recorder; /* notes which module is being loaded; or NULL */
    struct coxi_links *links;       /* watch the connections to the ps */
    struct coxi_loop *loop;         /* frees the run when nobody needs it any more */
    void (*on_free)(void *arg);     /* called on the loop after the run is freed */
    void *arg;
};

/* The incarnation of a ps, which steps read without the lock. */
struct coxi_run_ps {
    atomic_uint_least64_t incarnation;
    atomic_uint_least64_t since; /* the number of the layout that first named it */
};

struct coxi_run {
    struct coxi_mail mail; /* posted when the run is to be freed */
    atomic_int refs;
    struct coxi_run_options options;
    struct coxi_figures *figures; /* of the recorder; or NULL */
    struct coxi_session session;
    uint64_t begun_ns;
    atomic_bool closed; /* the client is gone */
    /* for its cancelled steps, as last told by the client */
    atomic_uint grace_ms;
    /* a closure's step is its id minus this, modulo 2^64 */
    atomic_uint_least64_t first;

    struct coxi_link *control; /* does not change while the run lives */
    struct coxi_loaded *_Atomic modules[COXI_MODULES_MAX]; /* until the run ends */

    /* guards the fields below; comes before the locks of ps clients and links */
    struct coxi_mutex lock;
    pthread_cond_t room;      /* signalled when n_committing goes down */
    struct coxi_link *data;   /* or NULL */
    uint64_t data_connection; /* its number; at first that of the control connection */
    struct coxi_psc **ps;     /* made with the first layout, then fixed */
    /* receives for all ps; NULL: each has a thread of its own */
    struct coxi_gather *gather;
    struct coxi_run_ps *ps_told;     /* for each ps: its incarnation, from layouts */
    atomic_uint_least64_t n_layouts; /* layouts received */
    uint32_t n_ps;
    struct coxi_variables variables; /* steps look them up without the lock */
    struct coxi_spare *spare_attempts;
    struct coxi_spare *spare_scratches;
    uint32_t n_committing;
    struct coxi_least commit_us; /* from a commit to its acknowledgement */

    struct coxi_copies copies;
    struct coxi_resources resources;
    struct coxi_results results;
    struct coxi_client_files files;
    uint64_t resident_told;  /* the memory that the client was told of; loop */
    uint64_t resident_at_ms; /* when the memory was looked at; loop */
    /* guarded by the slots' lock, like `tended` */
    struct coxi_run *next_tended;
    bool tended; /* queued for a slot to tend its resources */

    struct coxi_mutex report_lock; /* guards the outbox; comes before a link's lock */
    struct coxi_done_head reports[COXI_REPORTS_MAX];
    atomic_size_t n_reports; /* written under the lock */
    /* indices of the reports whose results stay here */
    uint32_t kept[COXI_REPORTS_MAX];
    struct coxi_step_times times[COXI_REPORTS_MAX];
    float weights[COXI_REPORTS_MAX]; /* of each report in its round ... */
    bool weighed;                    /* ... unless all of them are 1 */
    /* bytes that each report's step has logged ... */
    uint32_t scalars[COXI_REPORTS_MAX];
    bool logged; /* ... unless none has any */
    size_t n_kept;
    uint32_t ended[COXI_REPORTS_MAX]; /* indices of the reports with `ended` */
    size_t n_ended;
    struct coxi_buffer report_payload;
    /* when the client sent the last dispatch; 0: it was told already */
    uint64_t echo_us;
    uint64_t heard_us; /* when that dispatch came */
    bool reports_long; /* the last reports sent had at least COXI_REPORT_LONG bytes */
};

/*
 * The incarnation of a ps that a closure may speak to, if the run had received
 * `layouts` layouts when the closure came. 0, which no ps has, if the ps was replaced
 * since then (docs/exactly-once.md, rule 3).
 */
static inline uint64_t coxi_run_incarnation(const struct coxi_run *run, uint32_t ps,
                                            uint64_t layouts)
{
    const struct coxi_run_ps *told = &run->ps_told[ps];
    uint64_t incarnation = atomic_load(&told->incarnation);
    return atomic_load(&told->since) <= layouts ? incarnation : 0;
}

/* Keeps `spare`, so that it can be used again. The run's lock is held. */
static inline void coxi_spare_put(struct coxi_spare **spares, struct coxi_spare *spare)
{
    spare->next = *spares;
    *spares = spare;
}

/* Takes a kept spare; NULL: there is none. The run's lock is held. */
static inline struct coxi_spare *coxi_spare_take(struct coxi_spare **spares)
{
    struct coxi_spare *spare = *spares;
    if (spare != NULL) {
        *spares = spare->next;
    }
    return spare;
}

/* A run whose client is at the other end of `control`. */
int coxi_run_new(const struct coxi_run_options *options,
                 const struct coxi_session *session, struct coxi_link *control,
                 struct coxi_run **ret);
struct coxi_run *coxi_run_ref(struct coxi_run *run);
void coxi_run_unref(struct coxi_run *run); /* takes NULL */

/* The client is gone: wakes steps that wait for a ps, and reports nothing any more. */
void coxi_run_close(struct coxi_run *run);

/*
 * The client's data connection, the `number`-th connection of this process, has come.
 * COX_ECLOSED: the run has a newer data connection, or the client opened this one
 * before the run's control connection.
 */
int coxi_run_set_data(struct coxi_run *run, struct coxi_link *data, uint64_t number);

/* A data connection is gone. If the run used it, results that were queued on it are
 * lost: the control connection is closed, too, which restarts the session. */
void coxi_run_drop_data(struct coxi_run *run, const struct coxi_link *data);

/* True if `link` is the control or the data connection of the run. */
bool coxi_run_has_link(struct coxi_run *run, const struct coxi_link *link);

/* Takes over a layout: ps and variables. COX_EPROTO, COX_ENOMEM. */
int coxi_run_set_layout(struct coxi_run *run, const struct coxi_layout *layout);

/* Loads a module under its id, and answers the request. `bytes` NULL: only if its file
 * is here. */
void coxi_run_load(struct coxi_run *run, const struct coxi_module_rules *rules,
                   const struct coxi_message *request, const void *bytes, size_t len);

/* The function a closure names, or NULL with an error text. */
struct coxi_function *coxi_run_function(struct coxi_run *run,
                                        const struct coxi_closure_head *head);

/* The copy of a variable for COX_PULL_CACHED, made at the first call; NULL: there is no
 * room. */
struct coxi_copy *coxi_run_copy(struct coxi_run *run, struct cox_variable *variable);

/*
 * Adds a resource that the client wants made; answers for it if it is not to be made.
 * *ret_waits: a slot must make it (coxi_slots_tend). COX_EPROTO, COX_ENOMEM.
 * coxi_run_made: a slot has made it, or failed to; answers.
 */
int coxi_run_add_resource(struct coxi_run *run, const struct coxi_resource *wanted,
                          const void *args, size_t len, bool *ret_waits);
void coxi_run_made(struct coxi_run *run, struct coxi_kept *kept, int code,
                   const char *text);

/* Puts a closure's end in the outbox: its code, the ps that it touched, and the packed
 * results (if the code is not 0, the error text). */
struct coxi_report {
    uint64_t closure;
    uint32_t attempt;
    int code;
    int step_code;
    uint32_t run_us;
    const uint32_t *touched;
    size_t n_touched;
    const void *result;
    size_t result_len;
    bool kept;    /* the results stay here; `result`: their size in bytes, a u64 */
    float weight; /* how much the closure counts in its round */
    bool ended;   /* a ps that has its commit has the end of the round */
    const struct coxi_step_times *times; /* NULL: its step has not run */
    const void *scalars;                 /* that the step has logged, packed */
    size_t scalars_len;
};
void coxi_run_report(struct coxi_run *run, const struct coxi_report *report);

/* A dispatch that the client sent at `sent_us`, by its clock, has come: the next
 * results tell it how long the way there and back takes. */
void coxi_run_echo(struct coxi_run *run, uint64_t sent_us);

/* Sends the client the kept results of a closure, or that none are kept. COX_ENOMEM: it
 * could not be sent, so the connection must end. */
int coxi_run_send_result(struct coxi_run *run, const struct coxi_result *wanted);

/* Sends the outbox to the client, and queued requests to the ps. */
void coxi_run_flush(struct coxi_run *run);

/* Sends the outbox to the client. */
void coxi_run_flush_reports(struct coxi_run *run);

/*
 * Checks the deadlines of requests, and sends what waits in the outbox and for the ps.
 */
void coxi_run_tick(struct coxi_run *run);

/* Call when no step runs any more. True once all commits have ended and all results
 * were sent. */
bool coxi_run_drain(struct coxi_run *run);

#endif
