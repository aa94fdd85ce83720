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
 * Errors: functions return 0 or a negative COX_E... code (coxswain/types.h); outputs
 * (`ret_...`) are untouched then, and cox_error_last() says what happened, where, and
 * what to do. Unless a function says otherwise it returns COX_EINVAL for a NULL or
 * malformed argument and COX_ENOMEM.
 *
 * Threads: any thread may call any function. Several coordinators may live in one
 * process. Callbacks run on a thread of their coordinator's (cox_future_then). No signal
 * handler is installed unless options.checkpoint_on_sigterm asks for it; that one takes the
 * place of the program's own.
 *
 * Ownership: what a function makes is freed with the function that it names; variables,
 * modules, functions and resources live until cox_close (or cox_resource_release).
 * Arguments are copied.
 *
 * Deadlines: timeout_ms of -1 means none. What waits for longer than 10 s says so, and why:
 * coxswain/event.h has what the library tells, by default on standard error (COX_LOG).
 *
 * Structs: begin with `size`; initialize them with COX_..._INIT and set what differs. A size
 * that no version of the struct has is COX_EINVAL.
 * Zero means the default. A program built against an older header runs with a newer
 * library. In C++, too, write `struct` before their names: cox_schedule, cox_progress,
 * cox_stats and cox_table_stats are functions as well.
 */
#ifndef COXSWAIN_COXSWAIN_H
#define COXSWAIN_COXSWAIN_H

#include "coxswain/evaluator.h"
#include "coxswain/event.h"
#include "coxswain/load.h"
#include "coxswain/metric.h"
#include "coxswain/reader.h"
#include "coxswain/types.h"
#include "coxswain/variable.h"

#ifdef __cplusplus
extern "C" {
#pragma GCC diagnostic push /* functions named like structs are meant */
#pragma GCC diagnostic ignored "-Wshadow"
#endif

struct cox_cluster;
struct cox_coordinator;
struct cox_variable; /* a dense variable */
struct cox_table;
struct cox_metric;
struct cox_module;
struct cox_function;
struct cox_resource;
struct cox_future;

/* ---- errors */

/* The fixed text of a code; never NULL. */
COX_API const char *cox_strerror(int code);

/* What the calling thread's last failed call had to say; valid until its next call. */
COX_API const char *cox_error_last(void);

/* "0.1.0" */
COX_API const char *cox_version(void);

/* ---- clusters: where the daemons are */

/*
 * From JSON like TF_CONFIG's: {"cluster": {"ps": ["host:port", ...], "worker": [...]}},
 * or the inner object alone. An address may also be a URL: "tcp://host:port",
 * "ipc:///path". "worker" may be empty or missing where workers dial the client
 * (cox_options.listen). Other members ("chief", "task") are ignored. COX_EINVAL says what is
 * missing, malformed or misspelt: "workers", an address without a port, a port above 65535.
 */
COX_API int cox_cluster_parse(const char *json, struct cox_cluster **ret);

/* From the environment variable COX_CLUSTER, or else TF_CONFIG. COX_ENOENT: neither is
 * set. */
COX_API int cox_cluster_from_env(struct cox_cluster **ret);

/*
 * Daemons on this host that cox_open starts as processes of their own and cox_close
 * ends (within 2 s also when this process is killed). One that dies is started again.
 * n_ps and n_workers: 1 to 64.
 */
COX_API int cox_cluster_local(int n_ps, int n_workers, struct cox_cluster **ret);

COX_API void cox_cluster_free(struct cox_cluster *cluster); /* takes NULL */

/* ---- the coordinator */

struct cox_options {
    size_t size;
    const char *checkpoint_dir; /* made if missing; NULL: no checkpoints */
    const char
        *log_dir; /* local cluster: for logs and what steps print (step.h); NULL: no
                            logs are kept, and what steps print, and what
                            daemons warn of, goes to stderr */
    const char *bin_dir; /* local cluster: the programs' place; COX_BIN_DIR, or found */
    uint32_t queue_max;  /* closures in the queue, 262144: then cox_schedule blocks */
    uint32_t worker_slots; /* local cluster: steps at a time on each worker, 1 */
    uint32_t min_workers;  /* cox_open waits for as many; 1, or 0 if none is listed */
    /* closures sent ahead to each slot; 0: chosen from their run time and the distance */
    uint32_t prefetch;
    int open_timeout_ms;  /* for cox_open, 30000 */
    int peer_timeout_ms;  /* a peer silent for this long is lost, 10000 */
    int worker_wait_ms;   /* with closures to run and no worker: give up, 10000; while a
                              ps is away, too: after ps_recovery_ms */
    uint32_t max_crashes; /* of its process by one closure: then it fails, 3 */
    uint32_t keep_going;  /* 1: a closure that fails concerns its future alone */
    int step_timeout_ms; /* a step that runs for longer is cancelled, 600000; -1: none */
    int cancel_grace_ms; /* from a step's cancellation to the end of its process, 1000 */
    uint32_t max_attempts; /* that ran for too long: then the closure fails, 4 */
    int speculate; /* a second attempt of steps that take far longer than others: 1, the
                      default, or -1: never */
    const char
        *listen; /* where workers may dial the client, as "host:port" (port 0: any)
                           or a URL; NULL: nowhere */
    uint64_t
        step_memory_max; /* local cluster: bytes of a worker's step process, beyond the
                            results that it keeps; 0: no limit */
    uint64_t
        checkpoint_every_closures; /* a checkpoint after so many that are settled; 0:
                                           none by that */
    int checkpoint_every_s; /* one after so many seconds in which something was scheduled
                               or settled; 0: none by that */
    uint32_t checkpoint_keep; /* as many of the newest are kept; 0: all */
    uint32_t
        checkpoint_keep_every; /* with checkpoint_keep: and those whose number it divides;
                                       0: none of these. Alone: COX_EINVAL */
    int checkpoint_on_sigterm; /* 1: SIGTERM to this process writes a checkpoint, and then
                                  ends it as ever (a second one does so at once) */
    int ps_recovery_ms; /* with checkpoint_dir: a ps that is lost may take as long to come
                            back, 120000; then, and without: COX_EPSLOST */
    uint64_t
        replay_log_bytes; /* with checkpoint_dir: of what is kept for such a ps, 256
                                  MiB: half full it asks for a checkpoint, full it has
                                  cox_schedule, and the client's own writes, wait for
                                  that; a write that is larger passes alone */
    int resume; /* if checkpoint_dir has checkpoints: 0: go on from the newest (see
                   cox_progress); -1: COX_EEXIST */
    uint64_t
        resume_from; /* the number of the checkpoint to go on from; 0: the newest */
    uint32_t
        checkpoint_incremental; /* so many checkpoints after a whole one have only what
                                   has changed since the one before, to 1000; 0: all
                                   are whole */
    uint64_t
        seed; /* of the initial values of variables whose initializer has no seed of
                      its own (cox_initializer); a client that goes on has the same */
    /* Is told what befalls the run (event.h); NULL: standard error is */
    void (*on_event)(void *arg, const struct cox_event *event);
    void *event_arg;
    int checkpoint_at_close; /* 1: cox_close begins with a checkpoint, if anything has changed
                                since the last; -1: it does not; 0: as 1 where
                                checkpoint_dir is set */
};
/* clang-format off */
#define COX_OPTIONS_INIT \
    {sizeof(struct cox_options), \
     NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0, \
     0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0}
/* clang-format on */

/*
 * Connects to every ps and to the workers (options NULL: all defaults), and begins a
 * run. `cluster` is not needed afterwards. Returns when all ps and min_workers workers
 * are there, whether they are listed or have dialled; where none is listed and
 * min_workers is 0, when the ps are. Where it goes on from a checkpoint, the ps have
 * ps_recovery_ms beside open_timeout_ms to be restored.
 *
 * COX_ETIMEDOUT, COX_EREFUSED, COX_EVERSION, COX_ECONFLICT (another daemon is at an address, or
 * one whose --index is not its place in the list), COX_EADDRESS (a host cannot be resolved),
 * COX_EBUSY (a ps serves another run; if that run's client may have vanished, the call waits
 * first): the text names the daemon. COX_EINVAL: options, or an address is listed twice.
 * COX_EADDRESS: `listen` is no address, is in use, or can be reached from other hosts. COX_EIO:
 * the checkpoint directory cannot be written, or a ps does not see it (which is tried with an
 * empty file), or a local cluster cannot be started. COX_EEXIST: the directory has checkpoints,
 * and options.resume is -1. COX_EFENCED: other clients use it. COX_EPSLOST: a ps was lost
 * meanwhile. COX_ENOENT: it has no checkpoint
 * options.resume_from. COX_ECONFLICT, COX_ECHECKSUM, COX_EFORMAT: the run cannot go on from the
 * checkpoint; the text says why, and if it is damaged names the next older one that is complete.
 */
COX_API int cox_open(const struct cox_cluster *cluster,
                     const struct cox_options *options, struct cox_coordinator **ret);

/*
 * Where workers may dial the client (cox_options.listen), as a URL with the port in use,
 * for `coxswain-worker --client`; it lives until cox_close. NULL: it listens nowhere, or
 * c is NULL.
 *
 * A worker that dials has a name. A new name is a new worker with the next index; who
 * returns under its name has its index again, in whatever process it runs; but while one
 * process is there, another one of the same name is refused. At most 16384 names.
 */
COX_API const char *cox_listen_address(const struct cox_coordinator *c);

/*
 * Writes a checkpoint, if cox_options.checkpoint_at_close says so (docs/checkpoints.md lists
 * when there is none). Then cancels what has not run, waits for what runs, ends the run, and
 * frees the coordinator and all that belongs to it but futures. Always frees. Takes NULL.
 *
 * COX_ETIMEDOUT: a step was still running, or there was no time for the checkpoint.
 * COX_EFENCED: another client has taken over; what this one did since is in no checkpoint. Any
 * other error is why the checkpoint could not be written. COX_EDEADLK: called from a callback
 * or from on_event; nothing is closed or freed then.
 *
 * It obeys its deadline whatever is under way: past timeout_ms it gives up a recovery, a restore
 * and a checkpoint that is being written, tells the ps and the workers, and returns within 2 s.
 * It waits without a deadline only for callbacks of the program: all of them run before it
 * returns. Calls of other threads that are under way end with COX_ECLOSED, and it waits for
 * them; none may begin once cox_close has.
 */
COX_API int cox_close(struct cox_coordinator *c, int timeout_ms);

/*
 * Where ps `ps` (an index of the cluster's list) is from now on, as "host:port" or a URL: for
 * whoever starts a lost one again on another host. It is looked for there when it is lost, or
 * is being waited for; workers are told. A host name is looked up at each try, so a name that
 * moves needs no call. COX_EINVAL: no such ps, or no checkpoint_dir; COX_EADDRESS.
 */
COX_API int cox_ps_address(struct cox_coordinator *c, uint32_t ps, const char *address);

/* ---- variables: what they can be is in variable.h */

/*
 * Creates a variable or table on the ps. Several variables are placed so that the ps
 * hold about as many bytes each. A name takes no white space, control character, quote or
 * backslash; '/' makes folders ("tower/bias"). In a run that goes on from a checkpoint the first
 * call attaches to the variable of that name; COX_ECONFLICT names the fields in which its
 * specification differs. COX_EEXIST: this client has created the name already, or it is a
 * folder. COX_EINVAL says what is wrong with the spec. COX_ENOMEM: also of a ps (--memory-max).
 * COX_ELIMIT: more than 65536 variables. COX_EPSLOST, COX_EFENCED, COX_ECLOSED.
 */
COX_API int cox_variable_create(struct cox_coordinator *c,
                                const struct cox_variable_spec *spec,
                                struct cox_variable **ret);
COX_API int cox_table_create(struct cox_coordinator *c,
                             const struct cox_table_spec *spec, struct cox_table **ret);

/* By name; COX_ENOENT. */
COX_API int cox_variable_get(struct cox_coordinator *c, const char *name,
                             struct cox_variable **ret);
COX_API int cox_table_get(struct cox_coordinator *c, const char *name,
                          struct cox_table **ret);

/*
 * Reads or overwrites all elements; `bytes` must be their size. While steps run, a read
 * may see a part of an update of several blocks. Assigning takes effect at once,
 * whatever is in the queue. It waits while the replay log is full. What a ps refuses (it has no
 * memory for it, say) is written on no ps, or the error is COX_EPARTIAL and names the ps that
 * have it, for good. COX_EPSLOST, COX_EFENCED, COX_ECLOSED: whether it is written is not known.
 * COX_ENOENT, of a client that has gone on from a checkpoint: see struct cox_progress.
 */
COX_API int cox_variable_read(struct cox_coordinator *c, struct cox_variable *variable,
                              void *ret_data, size_t bytes);
COX_API int cox_variable_assign(struct cox_coordinator *c,
                                struct cox_variable *variable, const void *data,
                                size_t bytes);

/* Rows [begin, begin + count) of the first axis alone; `bytes` must be their size. */
COX_API int cox_variable_read_rows(struct cox_coordinator *c,
                                   struct cox_variable *variable, uint64_t begin,
                                   uint64_t count, void *ret_data, size_t bytes);
COX_API int cox_variable_assign_rows(struct cox_coordinator *c,
                                     struct cox_variable *variable, uint64_t begin,
                                     uint64_t count, const void *data, size_t bytes);

/* Adds to all elements, as cox_variable_assign overwrites them. COX_EINVAL: of BF16 or
 * F16. */
COX_API int cox_variable_add(struct cox_coordinator *c, struct cox_variable *variable,
                             const void *data, size_t bytes);

/*
 * From now on gradients are applied at that learning rate (0: they change no value, only
 * state), with that schedule (NULL: a constant rate), whatever the variable was created with. A
 * schedule's s goes on as it is (variable.h): it does not begin anew. It counts like an
 * assignment: at once, and once whatever dies. Closures that run meanwhile may be before it or
 * after it, on each ps. A client that goes on from a checkpoint finds the rate that was set last
 * before that; it creates the variable as the first client did, and may set another rate then.
 * COX_EINVAL: the rule takes no such rate or schedule; FTRL, a loss scale and what has no
 * optimizer take no other rate at all. Else as cox_variable_assign.
 */
COX_API int cox_variable_set_rate(struct cox_coordinator *c,
                                  struct cox_variable *variable, float learning_rate,
                                  const struct cox_schedule *schedule);
COX_API int cox_table_set_rate(struct cox_coordinator *c, struct cox_table *table,
                               float learning_rate,
                               const struct cox_schedule *schedule);

/* Reads the rows of n_keys keys: n_keys * dim floats. Rows not there: initial
 * values. */
COX_API int cox_table_read(struct cox_coordinator *c, struct cox_table *table,
                           const uint64_t *keys, size_t n_keys, float *ret_rows);

/* What the ps have of a table, and have done with it. A ps that is restored counts anew, but for
 * rows, bytes and updates. */
struct cox_table_stats {
    size_t size;
    uint64_t rows;
    uint64_t bytes;    /* of memory, for rows, their state and their index */
    uint64_t lookups;  /* rows that pulls asked for */
    uint64_t hits;     /* those of them that were there */
    uint64_t admitted; /* rows made */
    uint64_t evicted;  /* rows dropped */
    uint64_t updates;  /* by gradients, as each ps counts them, added up */
};
#define COX_TABLE_STATS_INIT {sizeof(struct cox_table_stats), 0, 0, 0, 0, 0, 0, 0}

/* COX_EPSLOST. */
COX_API int cox_table_stats(struct cox_coordinator *c, struct cox_table *table,
                            struct cox_table_stats *ret);

/* ---- step modules and functions */

/*
 * Reads a step module (coxswain/step.h), ships it to the workers, those that join later too,
 * and waits until every worker that is there has loaded it. COX_ENOENT: there is no such file;
 * COX_EIO: it cannot be read.
 * COX_EMODULE: it is no step module, was built for another ABI version, or a worker cannot load
 * it: the text has the linker's words, or the signal that ended the process that loaded it.
 * COX_ETIMEDOUT: a worker has not answered for open_timeout_ms. COX_ELIMIT: more than 64
 * modules, failed ones too, or 256 MiB. COX_ECLOSED. A worker that joins later and cannot load
 * it is lost, and tried again.
 */
COX_API int cox_module_load(struct cox_coordinator *c, const char *path,
                            struct cox_module **ret);

/* The step called `name`; COX_ENOENT lists those that there are. */
COX_API int cox_function_get(struct cox_module *module, const char *name,
                             struct cox_function **ret);

/* ---- scheduling */

enum { COX_PRIORITY_MIN = -8, COX_PRIORITY_MAX = 7 };

/* An argument that another closure returns. */
struct cox_input {
    const char *name;          /* of the argument; NULL means "" */
    struct cox_future *future; /* of the same coordinator */
    const char *result;        /* what it returns under that name; NULL means "" */
};

struct cox_call {
    size_t size;
    const struct cox_value *args;
    size_t n_args;        /* at most 64 */
    int32_t priority;     /* COX_PRIORITY_MIN to _MAX: higher ones first */
    uint32_t only_worker; /* 1 + index of the one worker that may run it; 0: any */
    const struct cox_input *inputs; /* more arguments, behind `args` */
    size_t n_inputs;                /* at most 64 together */
    int timeout_ms; /* for the step to run; 0: the options' step_timeout_ms; -1: none */
    uint64_t
        cursor; /* the program's own: where it goes on behind this call (cox_progress) */
    int keep; /* 1: what it returns stays on the worker that ran it; see cox_future_fetch */
};
#define COX_CALL_INIT {sizeof(struct cox_call), NULL, 0, 0, 0, NULL, 0, 0, 0, 0}

/*
 * Puts a closure (one call of `function`) in the queue; workers take them in order of
 * priority, then of scheduling; within a priority what only one worker may run comes first
 * there, and fails with COX_ENOWORKER when that is away for worker_wait_ms. `call` NULL: no
 * arguments. A call with inputs waits until those futures are done; if one fails or is
 * cancelled, so does the call, naming it. `ret` (NULL: not wanted) is for cox_future_free.
 * Blocks while the queue is full, and while the replay log is (cox_options.replay_log_bytes).
 *
 * If a closure has failed since the last report of an error (and keep_going is 0): cancels what
 * is queued, waits until nothing runs, and returns that closure's error instead, whatever code
 * it has. The coordinator is usable again then. COX_EPSLOST, COX_EFENCED: the run is over.
 * COX_ECLOSED. COX_ENOENT: what the client before has left needs a function that is not loaded
 * (struct cox_progress).
 */
COX_API int cox_schedule(struct cox_coordinator *c, struct cox_function *function,
                         const struct cox_call *call, struct cox_future **ret);

/* As cox_schedule, but where that would wait for room in the queue: COX_EAGAIN. */
COX_API int cox_try_schedule(struct cox_coordinator *c, struct cox_function *function,
                             const struct cox_call *call, struct cox_future **ret);

/*
 * Waits until every closure is settled. Reports an error as cox_schedule does, once.
 * COX_ETIMEDOUT: not yet; everything goes on. COX_EDEADLK: called from a callback.
 */
COX_API int cox_join(struct cox_coordinator *c, int timeout_ms);

/* 1: every closure is settled; 0: not yet; negative: an error, reported as by
 * cox_join. */
COX_API int cox_done(struct cox_coordinator *c);

/* ---- resources: what each worker keeps from step to step */

/*
 * Has every worker run `function` once and keep what that makes under `name`, for the
 * steps that run there (cox_step_keep, cox_step_resource in coxswain/step.h): an iterator
 * over the worker's share of the data, a dictionary, a counter. Of `call` (NULL: no
 * arguments) nothing but arguments and timeout_ms may be set. Returns at once. A worker
 * that is there makes it before it runs any closure that is scheduled from now on; one
 * that joins or comes back (in a new process, so that what was kept is lost) makes all
 * resources, in the order in which they were created, before it runs anything else.
 *
 * Making it may fail on a worker: the function returned an error, ran for longer than
 * its timeout_ms, or crashed its process max_crashes times. The closures that ask for the
 * resource on that worker fail then, with COX_ERESOURCE and a text with the resource, the
 * worker and the reason; others run there as ever. It is tried again when the worker comes
 * back, but not after those crashes.
 *
 * COX_EEXIST: there is a resource of that name. COX_ELIMIT: more than 1024 of them (where
 * released ones are among them that wait for a checkpoint, this waits as well), or
 * arguments of more than 1 GiB. COX_EPSLOST, COX_EFENCED, COX_ECLOSED. `name`: 1 to
 * COX_NAME_MAX bytes. `ret` may be NULL: it lives until cox_close then.
 */
COX_API int cox_resource_create(struct cox_coordinator *c, const char *name,
                                struct cox_function *function,
                                const struct cox_call *call, struct cox_resource **ret);

/*
 * Gives a resource up: on each worker it is released when the steps that use it have
 * returned; steps that are scheduled later do not find it (COX_ENOENT). Wait for those that are
 * to use it first. If no worker has made it yet, its making is cancelled. Its name is free when
 * this returns, which is at once; `resource` is not to be used any more. Takes NULL. Not after
 * cox_close.
 *
 * With checkpoint_dir it stays on the workers until the next checkpoint: when a ps is lost, the
 * steps since the last one are replayed, and they find what they used. cox_checkpoint_save
 * frees it sooner. A kept result (cox_call.keep) that has to be made again does not count as
 * such a step: what makes it has to be there.
 */
COX_API void cox_resource_release(struct cox_resource *resource);

/*
 * ---- futures
 *
 * One that is done has its results. If a worker dies when all updates of a closure are applied
 * and before it has told the results, the closure runs again for them; its updates count once.
 * If that run fails, or the coordinator is closed first, the closure fails with COX_EREPLAY:
 * all its updates are applied, and its results are lost. The same holds for COX_ENOMEM if the
 * text says that all its updates are applied.
 *
 * A closure that fails with COX_EPARTIAL is applied on the ps that the text names, as of that
 * moment, and on no other. It is never done again: a ps that is lost later comes back with what
 * the last checkpoint has of it.
 */

/*
 * The closure is not wanted any more: it is settled as COX_ECANCELLED, soon, and leaves no
 * trace. Does not wait for that. A step that runs sees it (cox_step_cancelled) and has
 * cancel_grace_ms to return, or its process is ended. Where it is too late (its updates
 * are being committed) the closure is done as ever, and if its results died with its worker,
 * it runs again for them first; a step that had flushed some of its updates ends as
 * COX_EPARTIAL. What takes its result as an input is cancelled, too. No
 * error for join or schedule to report. 0, also where it is settled already; COX_ENOMEM.
 */
COX_API int cox_future_cancel(struct cox_future *future);

/* Waits until the closure is settled. 0, its error, or COX_ETIMEDOUT. */
COX_API int cox_future_wait(struct cox_future *future, int timeout_ms);

/*
 * Waits until one of n futures of one coordinator is settled, whatever its outcome
 * (the code is 0 all the same), and tells its index. Entries that are NULL are skipped:
 * set those to NULL that have been handled. Any number of threads may wait for the same
 * futures; none of them may be freed meanwhile. COX_ETIMEDOUT: none is settled (with
 * timeout_ms 0: at the moment). COX_EINVAL: all are NULL, or they belong to different
 * coordinators (noticed at the latest before it waits). COX_ENOMEM.
 */
COX_API int cox_wait_any(struct cox_future *const *futures, size_t n, int timeout_ms,
                         size_t *ret_index);

/*
 * Has `then(arg, future)` called once when the closure is settled, whatever its
 * outcome; soon, if it is already. Callbacks of a coordinator run one after the other
 * on one thread, with no lock held; those of one future in the order of these calls. A
 * callback may call any function but cox_join and cox_close of its coordinator
 * (COX_EDEADLK); what it waits for keeps other callbacks waiting. It borrows `future`:
 * its user frees it as ever, before, in or after the callback, for which the future
 * and its result are there in any case. cox_close cancels what has not run and returns
 * after the last callback. COX_ECLOSED: the coordinator is closed or being closed;
 * nothing will be called.
 */
COX_API int cox_future_then(struct cox_future *future,
                            void (*then)(void *arg, struct cox_future *future),
                            void *arg);

/*
 * Brings what a closure has returned that was scheduled with `keep` from the worker to the
 * client, for cox_future_result: waits until the closure is settled, then for its results.
 * 0 where they are here already. COX_ETIMEDOUT; the closure's error; that of making them
 * again, which the text tells.
 *
 * What is kept stays on the worker that ran the step until the future is freed and every
 * call that takes it (cox_call.inputs) is settled. Such a call runs on that worker, where
 * its step finds the value among its arguments as ever; no bytes travel. Where it cannot
 * (its inputs are on several workers, only_worker names another, the worker leaves, or has
 * long been busy while others are not) they travel by way of the client. Where that worker
 * has no room (--kept-max), or there are no results, they come to the client as without
 * `keep`. The call that takes a result which was not returned fails with COX_ENOENT.
 *
 * A worker that is lost takes along what it kept. When that is needed again, by a call or
 * by cox_future_fetch, the closure runs again: with the same arguments, on any worker, its
 * updates counting once as ever; and so do those whose results it takes, where they are
 * lost, too. cox_join waits for that. It should return then what it returned before: a step
 * that depends on more than its arguments and cox_step_seed may return something else. If it
 * fails, so does what needs it, and the text names both.
 */
COX_API int cox_future_fetch(struct cox_future *future, int timeout_ms);

/*
 * The result called `name` of a closure that is done, as a tensor that lives as long as
 * the future. COX_ENOTREADY: not settled, or kept on a worker and not fetched; COX_ENOENT: the
 * step returned nothing of that name; or the closure's error.
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
#define COX_ERROR_INIT {sizeof(struct cox_error), 0, 0, 0, {0}, {0}}

/* Why the closure failed (code 0: it has not). COX_ENOTREADY: not settled. */
COX_API int cox_future_error(struct cox_future *future, struct cox_error *ret);

/* Takes NULL. May be called before the closure is settled (which still runs; its result
 * is dropped), and after cox_close. */
COX_API void cox_future_free(struct cox_future *future);

/* ---- checkpoints */

struct cox_checkpoint_options {
    size_t size;
    int final; /* 1: training is over, evaluators end after this one */
    int full;  /* 1: a whole one, whatever checkpoint_incremental says */
};
#define COX_CHECKPOINT_OPTIONS_INIT {sizeof(struct cox_checkpoint_options), 0, 0}

/*
 * Writes a checkpoint of all variables and tables to the checkpoint directory; each ps
 * is saved as of one moment. Closures may run meanwhile; for an exact cut call cox_join
 * first. `options` NULL: defaults. *ret_number (may be NULL): its number, from 1.
 * COX_ENOENT: no checkpoint directory was given. COX_ECANCELLED: an error has cancelled calls
 * that lie before the cursor, so that a client that went on from it would pass them over; it can
 * be saved when the program has scheduled a call with a cursor again. COX_EIO: nothing of it is
 * left. Once LATEST
 * names it for good this returns 0, whatever fails after that. COX_EPSLOST, COX_EFENCED. Then
 * old ones are deleted as the options say (checkpoint_keep), but none that somebody reads: those
 * may go after a later one. A variable is in it if it was created before this began.
 */
COX_API int cox_checkpoint_save(struct cox_coordinator *c,
                                const struct cox_checkpoint_options *options,
                                uint64_t *ret_number);

/* Why the last checkpoint failed that a trigger or the replay log asked for (docs/checkpoints.md);
 * 0: it did not. The next one is tried when it is due. */
COX_API int cox_checkpoint_error(struct cox_coordinator *c);

/*
 * Where to go on. A program that is started again with the checkpoint directory that it had
 * goes on from the newest checkpoint there: cox_open sets every ps back to it, whatever they
 * hold by then, and nothing that the client before scheduled after that checkpoint counts any
 * more. `cursor` is that of the last call with a cursor that the checkpoint covers; the calls
 * after it have to be scheduled again. Calls without a cursor, and cancelled ones, do not change
 * it. A call without a cursor behind that one may be in the checkpoint or not: what has to count
 * exactly once needs a cursor (docs/checkpoints.md shows the loop). What the checkpoint covers
 * and lacks runs again by itself as soon as the program schedules
 * or joins something: by then it has to have loaded the modules, and made the resources, that it
 * had. An error that cancels what the program has scheduled does not cancel those calls.
 *
 * What the client before was writing itself (cox_variable_assign and the like), and not every ps
 * had, keeps its place among those calls: it is written when the calls before it are done, and
 * whatever the program schedules, reads or writes itself waits for that. If that needs a function
 * that is not loaded, reads and writes are COX_ENOENT, which names it. Variables, tables and
 * metrics attach (cox_variable_create). Futures do not outlive their client.
 */
struct cox_progress {
    size_t size;
    uint64_t
        generation; /* how often the run's client has been started; without a checkpoint
                            directory 1 */
    uint64_t
        checkpoint;   /* the one that cox_open went on from; 0: none, it begins anew */
    uint64_t closure; /* the highest id that it covers; 0: none */
    uint64_t cursor;  /* of the last call with a cursor that it covers; 0: none */
    uint64_t rerun;   /* calls up to there that are run again */
};
#define COX_PROGRESS_INIT {sizeof(struct cox_progress), 0, 0, 0, 0, 0}

/* As of cox_open; it does not change. */
COX_API int cox_progress(const struct cox_coordinator *c, struct cox_progress *ret);

/* ---- statistics */

struct cox_stats {
    size_t size;
    uint64_t queued;            /* closures not yet sent to a worker */
    uint64_t in_flight;         /* sent and not settled */
    uint64_t done;              /* since cox_open */
    uint64_t failed;            /* cancelled ones too */
    uint64_t put_back;          /* attempts lost with a worker */
    uint64_t workers;           /* known, also those that are away or have left */
    uint64_t workers_ready;     /* taking closures */
    uint64_t workers_lost;      /* how often one was lost; one that leaves is not */
    uint64_t commits;           /* applied, on all ps */
    uint64_t commits_duplicate; /* refused because applied already */
    uint64_t table_rows;
    uint64_t ps_bytes;           /* of values and optimizer state */
    uint64_t speculated;         /* second attempts of closures that took too long */
    uint64_t speculation_won;    /* that ended their closure */
    uint64_t checkpoints;        /* written */
    uint64_t checkpoints_failed; /* by triggers */
    uint64_t ps_recovered;       /* how often a ps that was lost has come back */
    uint64_t made_again; /* closures that ran again for kept results that were lost */
    /*
     * How old commits, commits_duplicate, table_rows and ps_bytes are, in ms: where a ps is
     * away or busy, its part is what it said so long ago. 0: all ps have just said it.
     */
    uint64_t ps_age_ms;
    uint64_t workers_cut_off; /* that cannot reach a ps, and are not ready for that */
    /* numbers that pulls were sent as infinite: too large for their wire_dtype, or so
     * already; like commits, of the ps that are there */
    uint64_t pulled_infinite;
};
/* clang-format off */
#define COX_STATS_INIT \
    {sizeof(struct cox_stats), \
     0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/*
 * Asks every ps for its part, so it takes a round trip; at most a second, whatever the state
 * of the ps: see ps_age_ms. Any thread.
 */
COX_API int cox_stats(struct cox_coordinator *c, struct cox_stats *ret);

/* The run's id, as it stands in checkpoints and logs. */
COX_API uint64_t cox_run_id(const struct cox_coordinator *c);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif
#endif
