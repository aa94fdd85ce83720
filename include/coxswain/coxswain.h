/*
 * Coxswain: one client program that steers a crew of parameter servers (ps) and
 * workers.
 *
 *     struct cox_cluster *cluster;
 *     struct cox_coordinator *c;
 *     struct cox_options options = COX_OPTIONS_INIT;
 *     cox_cluster_local(2, 2, &cluster);
 *     cox_open(cluster, &options, &c);
 *     ... create variables, load a step module ...
 *     for (int i = 0; i < 1000; i++) {
 *         cox_schedule(c, train, &call, NULL);
 *     }
 *     cox_join(c, -1);
 *     cox_close(c, 10000);
 *     cox_cluster_free(cluster);
 *
 * Errors: a function returns 0 or a negative COX_E... code (coxswain/types.h). After an
 * error its outputs (`ret_...`) are untouched, and cox_error_last() says what happened,
 * where, and what to do. Every function may return COX_EINVAL for a NULL or malformed
 * argument, and COX_ENOMEM, unless its comment says otherwise.
 *
 * Threads: any thread may call any function. Several coordinators may live in one
 * process. Callbacks run on a thread of their coordinator (cox_future_then). The
 * library installs no signal handler, except with options.checkpoint_on_sigterm: then
 * its handler replaces the program's. No function may be called from a signal handler.
 *
 * Ownership: each function that makes an object names the function that frees it.
 * Variables, tables, metrics, modules, functions and resources live until cox_close (a
 * resource: or until cox_resource_release), and must not be used after that. Arguments
 * are copied.
 *
 * Deadlines: a timeout_ms of -1 means none. A call that waits for longer than 10 s says
 * so, and why: the library tells an event (coxswain/event.h), by default as a line on
 * standard error (COX_LOG).
 *
 * Structs begin with `size`. Initialize them with COX_..._INIT, then set what differs.
 * A size that no version of the struct has is COX_EINVAL. In a field, zero means the
 * default (docs/options.md). A program built against an older header runs with a newer
 * library.
 *
 * C++: write `struct` before the names of structs there, too, because cox_schedule,
 * cox_progress, cox_stats and cox_table_stats are also functions.
 */
#ifndef COXSWAIN_COXSWAIN_H
#define COXSWAIN_COXSWAIN_H

#include "coxswain/batch.h"
#include "coxswain/checkpoint.h"
#include "coxswain/dataset.h"
#include "coxswain/evaluator.h"
#include "coxswain/event.h"
#include "coxswain/load.h"
#include "coxswain/metric.h"
#include "coxswain/module.h"
#include "coxswain/options.h"
#include "coxswain/profile.h"
#include "coxswain/reader.h"
#include "coxswain/round.h"
#include "coxswain/staleness.h"
#include "coxswain/trace.h"
#include "coxswain/types.h"
#include "coxswain/variable.h"
#include "coxswain/watch.h"

#ifdef __cplusplus
extern "C" {
#pragma GCC diagnostic push /* functions and structs share names on purpose */
#pragma GCC diagnostic ignored "-Wshadow"
#endif

struct cox_cluster;
struct cox_coordinator;
struct cox_variable; /* a dense variable */
struct cox_table;
struct cox_metric;
struct cox_function;
struct cox_future;

/* ---- errors */

/* The fixed text of a code; never NULL. */
COX_API const char *cox_strerror(int code);

/* The text of the calling thread's last error; valid until its next call. */
COX_API const char *cox_error_last(void);

/* "0.1.0" */
COX_API const char *cox_version(void);

/* ---- clusters: where the daemons are */

/*
 * Reads JSON like TF_CONFIG's: {"cluster": {"ps": ["host:port", ...], "worker":
 * [...]}}, or the inner object alone. An address may also be a URL: "tcp://host:port",
 * "ipc:///path". If workers dial the client (cox_options.listen), "worker" may be empty
 * or missing. Other members ("chief", "task") are ignored.
 *
 * Or the addresses are in etcd (docs/engines.md): {"cluster": {"etcd": {"ps": 2,
 * "endpoints": ["http://host:2379"], "prefix": "/coxswain/JOB"}}}; what is not said
 * there, except "ps", comes from the environment (COX_ETCD, COX_ETCD_PREFIX ...).
 *
 * COX_EINVAL: the text says what is missing, malformed or misspelt ("workers", an address
 * without a port, a port above 65535).
 */
COX_API int cox_cluster_parse(const char *json, struct cox_cluster **ret);

/*
 * Reads the environment: COX_CLUSTER or TF_CONFIG, else the ranks that mpirun (Open MPI),
 * srun (Slurm) or PMI gave to this process, with COX_ROLES (docs/engines.md). If the
 * cluster lists no worker, but the client's address ("chief"), cox_open listens there for
 * workers. COX_ENOENT: nothing describes a cluster, and this program was not started
 * beside others. COX_EINVAL: something is wrong, or this process is a ps or a worker; the
 * text says which variable to set. `coxswain cluster explain` prints what was found.
 */
COX_API int cox_cluster_from_env(struct cox_cluster **ret);

/*
 * A cluster of daemons on this host. cox_open starts them as processes of their own,
 * and cox_close ends them; when this process is killed, they end within 2 s. A daemon
 * that dies is started again. n_ps and n_workers: 1 to 64.
 */
COX_API int cox_cluster_local(int n_ps, int n_workers, struct cox_cluster **ret);

COX_API void cox_cluster_free(struct cox_cluster *cluster); /* takes NULL */

/* ---- the coordinator */

/*
 * Connects to every ps and to the workers, and begins a run. `options` NULL: all
 * defaults. The caller may free `cluster` and the strings of `options` afterwards. Returns
 * when all ps are connected and min_workers workers are ready; listed workers count, and
 * those that dialled. When the run goes on from a checkpoint, the ps have ps_recovery_ms
 * for being restored, in addition to open_timeout_ms.
 *
 * Errors whose text names a daemon:
 *   COX_ETIMEDOUT   it does not answer, or it has a key, and the client has none
 *   COX_EDENIED     it has another key (options.key_file). Told after a few seconds
 *   COX_EREFUSED, COX_EVERSION
 *   COX_ECONFLICT   another daemon is at the address, or its --index is not its place
 *                   in the list
 *   COX_EADDRESS    the host cannot be resolved
 *   COX_EBUSY       the ps serves another run. If that run's client may have vanished,
 *                   the call waits first
 *   COX_EPSLOST     the ps was lost meanwhile
 * Others:
 *   COX_EINVAL      an option is wrong, or an address is listed twice
 *   COX_EADDRESS    `listen` is no address, is in use, or other hosts can reach it and
 *                   there is no key
 *   COX_EIO         the checkpoint directory cannot be written, a ps does not see it
 *                   (an empty file is the probe), or a local cluster cannot be started
 *   COX_EEXIST      the directory has checkpoints, and options.resume is -1
 *   COX_EFENCED     another client uses the directory
 *   COX_ENOENT      the directory does not have the checkpoint options.resume_from
 *   COX_ECONFLICT, COX_ECHECKSUM, COX_EFORMAT
 *                   the run cannot go on from the checkpoint. The text says why; if the
 *                   checkpoint is damaged, it names the next older complete one
 */
COX_API int cox_open(const struct cox_cluster *cluster,
                     const struct cox_options *options, struct cox_coordinator **ret);

/*
 * The address at which workers may dial the client (cox_options.listen), as a URL with
 * the port in use, for `coxswain-worker --client`. The string lives until cox_close.
 * NULL: the client does not listen, or c is NULL.
 *
 * A worker that dials has a name. A new name becomes a new worker with the next index.
 * A worker that returns under its name gets its index back, even from another process.
 * While one process of a name is connected, a second one is refused. At most 16384
 * names.
 */
COX_API const char *cox_listen_address(const struct cox_coordinator *c);

/*
 * Where the client serves over HTTP (cox_options.http), as "http://127.0.0.1:8080". The
 * string lives until cox_close. NULL: nowhere, or c is NULL.
 */
COX_API const char *cox_http_address(const struct cox_coordinator *c);

/*
 * Writes a checkpoint, if cox_options.checkpoint_at_close says so (docs/checkpoints.md
 * lists when it does not). Then cancels the queued closures, waits for running steps,
 * ends the run, and frees the coordinator. Takes NULL.
 *
 * It frees the coordinator even if it returns an error (except COX_EDEADLK), together
 * with its variables, tables, metrics, modules, functions and resources: do not use
 * them any more. Futures stay, and all of them are settled: cox_future_wait,
 * cox_future_result and cox_future_error work as before; free each with
 * cox_future_free.
 *
 * COX_ETIMEDOUT: a step was still running, or there was no time for the checkpoint.
 * COX_EFENCED: another client has taken over; what this one did since then is in no
 * checkpoint. COX_EDEADLK: called from a callback or from on_event; nothing is closed
 * or freed. Any other error is the reason why the checkpoint could not be written.
 *
 * It keeps its deadline: after timeout_ms it gives up a recovery, a restore or a
 * checkpoint that is under way, tells the ps and the workers, and returns within 2 s.
 * It waits without a deadline only for callbacks of the program: all of them run before
 * it returns. Calls of other threads that are under way end with COX_ECLOSED, and it
 * waits for them. No other call may begin once cox_close has begun.
 */
COX_API int cox_close(struct cox_coordinator *c, int timeout_ms);

/*
 * Tells the client that ps `ps` (an index of the cluster's list) is at another address
 * from now on, "host:port" or a URL. Call it when you start a lost ps again on another
 * host. The client dials that address as soon as the ps is lost, or at once if it is
 * lost already, and tells the workers. A host name is looked up at each try, so a name
 * that moves needs no call. COX_EINVAL: there is no such ps, or no checkpoint_dir;
 * COX_EADDRESS.
 */
COX_API int cox_ps_address(struct cox_coordinator *c, uint32_t ps, const char *address);

/* ---- variables: what they can be is in variable.h */

/*
 * Creates a variable or table on the ps. Variables are placed so that all ps hold about
 * the same number of bytes. A name has no white space, control character, quote or
 * backslash; '/' makes folders ("tower/bias"). In a run that goes on from a checkpoint
 * the first call for a name attaches to the existing variable. COX_ECONFLICT: its
 * specification differs; the text names the fields. COX_EEXIST: this client has created
 * the name already, or the name is a folder. COX_EINVAL: the text says what is wrong
 * with the spec. COX_ENOMEM: here or on a ps (--memory-max). COX_ELIMIT: more than
 * 65536 variables. COX_EPSLOST, COX_EFENCED, COX_ECLOSED.
 */
COX_API int cox_variable_create(struct cox_coordinator *c,
                                const struct cox_variable_spec *spec,
                                struct cox_variable **ret);
COX_API int cox_table_create(struct cox_coordinator *c,
                             const struct cox_table_spec *spec, struct cox_table **ret);

/* Finds the variable, or the table, of that name. COX_ENOENT: there is none. */
COX_API int cox_variable_get(struct cox_coordinator *c, const char *name,
                             struct cox_variable **ret);
COX_API int cox_table_get(struct cox_coordinator *c, const char *name,
                          struct cox_table **ret);

/*
 * Reads or overwrites all elements; `bytes` must be their size. While steps run, a read
 * may see a part of an update: each 4 KiB is from one moment, but two pieces may be
 * from different moments. An assignment does not wait for queued closures. It waits
 * while the replay log is full. If a ps refuses it (because it has no memory, say), it
 * is written on no ps, or the error is COX_EPARTIAL, and its text names the ps that
 * have it and keep it. After COX_EPSLOST, COX_EFENCED or COX_ECLOSED it is not known
 * whether it is written. COX_ENOENT, of a client that has gone on from a checkpoint:
 * see struct cox_progress.
 */
COX_API int cox_variable_read(struct cox_coordinator *c, struct cox_variable *variable,
                              void *ret_data, size_t bytes);
COX_API int cox_variable_assign(struct cox_coordinator *c,
                                struct cox_variable *variable, const void *data,
                                size_t bytes);

/* The same for rows [begin, begin + count) of the first axis. */
COX_API int cox_variable_read_rows(struct cox_coordinator *c,
                                   struct cox_variable *variable, uint64_t begin,
                                   uint64_t count, void *ret_data, size_t bytes);
COX_API int cox_variable_assign_rows(struct cox_coordinator *c,
                                     struct cox_variable *variable, uint64_t begin,
                                     uint64_t count, const void *data, size_t bytes);

/* Adds to all elements, otherwise like cox_variable_assign. COX_EINVAL: the variable is
 * BF16 or F16. */
COX_API int cox_variable_add(struct cox_coordinator *c, struct cox_variable *variable,
                             const void *data, size_t bytes);

/*
 * Sets the learning rate and the schedule at which gradients are applied from now on,
 * instead of those that the variable was created with. A rate of 0: gradients change
 * the optimizer's state, but no value. `schedule` NULL: a constant rate. The schedule's
 * s (variable.h) goes on; it does not begin anew.
 *
 * A change of rate counts like an assignment: at once, and exactly once. Each ps may
 * apply closures that run meanwhile before or after it. A client that goes on from a
 * checkpoint finds the last rate that was set before the checkpoint. It creates the
 * variable with the specification that the first client gave, and may then set another
 * rate. COX_EINVAL: the rule does not take this rate or schedule. FTRL, loss scales and
 * variables without an optimizer never take another rate. Other errors: those of
 * cox_variable_assign.
 */
COX_API int cox_variable_set_rate(struct cox_coordinator *c,
                                  struct cox_variable *variable, float learning_rate,
                                  const struct cox_schedule *schedule);
COX_API int cox_table_set_rate(struct cox_coordinator *c, struct cox_table *table,
                               float learning_rate,
                               const struct cox_schedule *schedule);

/*
 * Reads the rows of n_keys keys: n_keys * dim floats. A row that does not exist reads
 * as its initial values. A key is any 64-bit number; signed ids may be cast to
 * uint64_t.
 */
COX_API int cox_table_read(struct cox_coordinator *c, struct cox_table *table,
                           const uint64_t *keys, size_t n_keys, float *ret_rows);

/* A table's size and use, summed over the ps. When a ps is restored, its lookups, hits,
 * admitted and evicted begin at 0 again. */
struct cox_table_stats {
    size_t size;
    uint64_t rows;
    uint64_t bytes;    /* memory of rows, their state and their index */
    uint64_t lookups;  /* rows that pulls asked for */
    uint64_t hits;     /* how many of these existed */
    uint64_t admitted; /* rows made */
    uint64_t evicted;  /* rows dropped */
    uint64_t updates;  /* gradient updates; one that touches two ps counts twice */
};
#define COX_TABLE_STATS_INIT COX_INIT(cox_table_stats)

/* COX_EPSLOST. */
COX_API int cox_table_stats(struct cox_coordinator *c, struct cox_table *table,
                            struct cox_table_stats *ret);

/* ---- step modules, functions and resources are in module.h */

/* ---- scheduling */

enum { COX_PRIORITY_MIN = -8, COX_PRIORITY_MAX = 7 };

/* An argument whose value another closure returns. */
struct cox_input {
    const char *name;          /* the argument's name; NULL means "" */
    struct cox_future *future; /* the closure; of the same coordinator */
    const char *result;        /* the name under which it returns the value; NULL: "" */
};

/*
 * The names of all arguments and inputs of a call must differ (COX_EINVAL), because
 * steps find arguments by name. Only "" may occur more than once.
 */
struct cox_call {
    size_t size;

    /* Arguments of the step */
    const struct cox_value *args;
    size_t n_args;

    /* COX_PRIORITY_MIN to COX_PRIORITY_MAX; higher ones run first */
    int32_t priority;

    /* 1 + the index of the only worker that may run it; 0: any worker */
    uint32_t only_worker;

    /* More arguments; the step sees them after `args`. At most 64 of both together */
    const struct cox_input *inputs;
    size_t n_inputs;

    /* The step's time; 0: the options' step_timeout_ms; -1: no limit */
    int timeout_ms;

    /* A number of the program: where it goes on after this call (cox_progress) */
    uint64_t cursor;

    /* 1: the results stay on the worker that ran the step; see cox_future_fetch */
    int keep;
};
#define COX_CALL_INIT COX_INIT(cox_call)

/*
 * Puts a closure (one call of `function`) in the queue. Workers take closures in the
 * order of priority, then of scheduling. Among closures of one priority, a worker first
 * runs those that only it may run; they fail with COX_ENOWORKER when it is away for
 * worker_wait_ms. `call` NULL: no arguments. A call with inputs waits until their
 * futures are done. If one of them fails or is cancelled, the call fails or is
 * cancelled, too, and its text names that input. `ret` may be NULL; otherwise free the
 * future with cox_future_free. Blocks while the queue is full, or the replay log
 * (cox_options.replay_log_bytes).
 *
 * If a closure has failed since the last reported error, and keep_going is 0, this call
 * schedules nothing: it cancels the queued closures, waits until no step runs, and
 * returns the error of the failed closure, which may be any code. After that the
 * coordinator is usable again. COX_EPSLOST, COX_EFENCED: the run is over; these are
 * returned at once, while steps may still run. COX_ECLOSED.
 * COX_ENOENT: a call that the previous client left needs a function that is not loaded
 * (struct cox_progress).
 */
COX_API int cox_schedule(struct cox_coordinator *c, struct cox_function *function,
                         const struct cox_call *call, struct cox_future **ret);

/* Like cox_schedule, but returns COX_EAGAIN instead of waiting for room. */
COX_API int cox_try_schedule(struct cox_coordinator *c, struct cox_function *function,
                             const struct cox_call *call, struct cox_future **ret);

/*
 * Waits until every closure is settled. Reports the error of a failed closure as
 * cox_schedule does, once. COX_ETIMEDOUT: some closure is not settled yet; everything
 * goes on. COX_EDEADLK: called from a callback.
 */
COX_API int cox_join(struct cox_coordinator *c, int timeout_ms);

/* 1: every closure is settled; 0: not yet; negative: an error, which is reported once,
 * as by cox_join. */
COX_API int cox_done(struct cox_coordinator *c);

/*
 * ---- futures
 *
 * A closure that is done has its results. If its worker dies after all updates are
 * applied and before the results have arrived, the closure runs again for the results;
 * its updates count once. If that run fails, or the coordinator is closed first, the
 * closure fails with COX_EREPLAY: all its updates are applied, but its results are
 * lost. The same holds for COX_ENOMEM if the text says that all its updates are
 * applied.
 *
 * A closure that fails with COX_EPARTIAL is, at that moment, applied on the ps that the
 * text names and on no other. It is never done again: if one of those ps is lost later,
 * it comes back with what the last checkpoint has of the closure.
 */

/*
 * Cancels a closure: it is settled as COX_ECANCELLED soon, and leaves no trace. Does
 * not wait for that. A step that runs sees the cancellation (cox_step_cancelled) and
 * has cancel_grace_ms to return; then its process is ended. If it is too late, because
 * the closure's updates are being committed, the closure is done as usual; if its
 * results were lost with its worker, it first runs again for them. A step that had
 * flushed some of its updates ends as COX_EPARTIAL. Calls that take its result as an
 * input are cancelled, too. cox_join and cox_schedule report no error for a cancelled
 * closure. Returns 0, also for a settled closure; COX_ENOMEM.
 */
COX_API int cox_future_cancel(struct cox_future *future);

/* Waits until the closure is settled. 0, its error, or COX_ETIMEDOUT. */
COX_API int cox_future_wait(struct cox_future *future, int timeout_ms);

/*
 * Waits until one of n futures of one coordinator is settled, and returns its index and
 * 0, even if that closure failed. Entries that are NULL are skipped: set the futures to
 * NULL that you have handled. Any number of threads may wait for the same futures;
 * nobody may free one of them meanwhile. COX_ETIMEDOUT: none is settled (timeout_ms 0
 * only looks). COX_EINVAL: all are NULL, or they belong to different coordinators
 * (found before the call waits). COX_ENOMEM.
 */
COX_API int cox_wait_any(struct cox_future *const *futures, size_t n, int timeout_ms,
                         size_t *ret_index);

/*
 * Registers a callback: then(arg, future) is called once when the closure is settled
 * (done, failed or cancelled); if it is settled already, soon. The callbacks of a
 * coordinator run one after the other on one thread, without any lock held; those of
 * one future run in the order of these calls. A callback may call any function except
 * cox_join and cox_close of its coordinator (COX_EDEADLK). While it waits, all other
 * callbacks wait. It borrows `future`: the user still frees the future, before, in or
 * after the callback; during the callback the future and its result exist in any case.
 * cox_close cancels the queued closures and returns after the last callback.
 * COX_ECLOSED: the coordinator is closed or being closed; the callback will not be
 * called.
 */
COX_API int cox_future_then(struct cox_future *future,
                            void (*then)(void *arg, struct cox_future *future),
                            void *arg);

/*
 * Brings the results of a closure that was scheduled with `keep` from the worker to the
 * client, for cox_future_result: waits until the closure is settled, then for its
 * results. 0 if they are here already. COX_ETIMEDOUT; the closure's error; or the error
 * of making the results again, which the text tells.
 *
 * Kept results stay on the worker that ran the step until the future is freed and every
 * call that takes them (cox_call.inputs) is settled. Such a call runs on that worker,
 * and its step finds the value among its arguments; no bytes travel. It cannot run
 * there if its inputs are on several workers, only_worker names another one, the worker
 * leaves, or it has long been busy while others are not. Then the value travels through
 * the client. If the worker has no room (--kept-max), or the step returned nothing, the
 * results come to the client as without `keep`. A call that takes a result which the
 * step did not return fails with COX_ENOENT.
 *
 * When a worker is lost, the results that it kept are lost. If a call or
 * cox_future_fetch needs one of them, its closure runs again, with the same arguments,
 * on any worker, and its updates still count once. The closures whose results it takes
 * run again, too, if those are lost. cox_join waits for that. The closure should return
 * what it returned before, but a step that depends on more than its arguments and
 * cox_step_seed may not. If it fails, the call that needs it fails, and the text names
 * both.
 */
COX_API int cox_future_fetch(struct cox_future *future, int timeout_ms);

/*
 * The result called `name` of a closure that is done. The tensor lives as long as the
 * future. COX_ENOTREADY: the closure is not settled, or its results are kept on a
 * worker and not fetched. COX_ENOENT: the step returned nothing of that name. Or the
 * closure's error.
 */
COX_API int cox_future_result(struct cox_future *future, const char *name,
                              struct cox_value *ret);

struct cox_error {
    size_t size;
    int code;         /* of the closure */
    int step_code;    /* COX_ESTEP: what the step returned */
    uint64_t closure; /* its id */
    char function[64];
    char message[512];
};
#define COX_ERROR_INIT COX_INIT(cox_error)

/* Why the closure failed; code 0 if it has not. COX_ENOTREADY: it is not settled. */
COX_API int cox_future_error(struct cox_future *future, struct cox_error *ret);

/* Takes NULL. May be called before the closure is settled: the closure still runs, and
 * its result is dropped. May be called after cox_close. */
COX_API void cox_future_free(struct cox_future *future);

/* ---- checkpoints, and where a program goes on from one, are in checkpoint.h */

/* ---- statistics */

struct cox_stats {
    size_t size;
    uint64_t queued;    /* closures not yet sent to a worker */
    uint64_t in_flight; /* sent and not settled */
    uint64_t done;      /* since cox_open */
    uint64_t failed;    /* failed or cancelled */
    uint64_t put_back;  /* attempts that were lost with a worker */
    /* all that ever connected or are listed, even if lost */
    uint64_t workers;
    uint64_t workers_ready; /* that take closures */
    uint64_t workers_lost;  /* losses; a worker that leaves is not lost */
    /* Applied, on all ps; also what a ps had applied before it was lost, and what it has
     * applied again since then */
    uint64_t commits;
    uint64_t commits_duplicate; /* not applied again */
    uint64_t table_rows;
    uint64_t ps_bytes;           /* memory of values and optimizer state */
    uint64_t speculated;         /* second attempts of closures that took too long */
    uint64_t speculation_won;    /* second attempts that ended their closure */
    uint64_t checkpoints;        /* written */
    uint64_t checkpoints_failed; /* only those that triggers asked for */
    uint64_t ps_recovered;       /* how often a lost ps has come back */
    uint64_t made_again;         /* closures that ran again for lost kept results */
    /* How old the numbers of the ps are (commits, commits_duplicate, table_rows,
     * ps_bytes, pulled_infinite), in ms: if a ps is away or busy, its last answer
     * counts. 0: all ps have just answered */
    uint64_t ps_age_ms;
    /* Workers that are not ready because they cannot reach a ps */
    uint64_t workers_cut_off;
    /* Numbers that were sent to pulls as infinite: too large for the wire_dtype, or
     * infinite before */
    uint64_t pulled_infinite;
    uint64_t rounds;        /* applied (round.h) */
    uint64_t rounds_failed; /* failed or cancelled */
    uint64_t late;          /* closures without which their round was complete */
};
#define COX_STATS_INIT COX_INIT(cox_stats)

/* Asks every ps for its numbers, so it takes a round trip, but at most a second, in any
 * state of the ps (see ps_age_ms). Any thread. */
COX_API int cox_stats(struct cox_coordinator *c, struct cox_stats *ret);

/* The run's id, as in checkpoints and logs. */
COX_API uint64_t cox_run_id(const struct cox_coordinator *c);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif
#endif
