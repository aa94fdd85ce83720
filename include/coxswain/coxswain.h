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
 * handler is installed.
 *
 * Ownership: what a function makes is freed with the function that it names; variables,
 * modules, functions and resources live until cox_close (or cox_resource_release).
 * Arguments are copied.
 *
 * Deadlines: timeout_ms of -1 means none.
 *
 * Structs: begin with `size`; initialize them with COX_..._INIT and set what differs.
 * Zero means the default. A program built against an older header runs with a newer
 * library.
 */
#ifndef COXSWAIN_COXSWAIN_H
#define COXSWAIN_COXSWAIN_H

#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define COX_API __attribute__((visibility("default")))

struct cox_cluster;
struct cox_coordinator;
struct cox_variable; /* a dense variable */
struct cox_table;
struct cox_metric;
struct cox_module;
struct cox_function;
struct cox_resource;
struct cox_future;
struct cox_evaluator;

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
 * (cox_options.listen). Other members are ignored. COX_EINVAL says what is missing or
 * malformed.
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
    const char *log_dir;   /* local cluster: logs of its daemons; NULL: none are kept */
    const char *bin_dir;   /* local cluster: where the programs are (or COX_BIN_DIR) */
    uint32_t queue_max;    /* closures in the queue, 262144: then cox_schedule blocks */
    uint32_t worker_slots; /* local cluster: steps at a time on each worker, 1 */
    uint32_t min_workers;  /* cox_open waits for as many; 1, or 0 if none is listed */
    uint32_t prefetch;     /* closures sent ahead to a worker; 0: as they are short */
    int open_timeout_ms;   /* for cox_open, 30000 */
    int peer_timeout_ms;   /* a peer silent for this long is lost, 10000 */
    int worker_wait_ms;    /* with closures to run and no worker: give up, 10000 */
    uint32_t max_crashes;  /* of its process by one closure: then it fails, 3 */
    uint32_t keep_going;   /* 1: a closure that fails concerns its future alone */
    int step_timeout_ms; /* a step that runs for longer is cancelled, 600000; -1: none */
    int cancel_grace_ms; /* from a step's cancellation to the end of its process, 1000 */
    uint32_t max_attempts; /* that ran for too long: then the closure fails, 4 */
    int speculate; /* a second attempt of steps that take far longer than others: 1, the
                      default, or -1: never */
    const char
        *listen; /* where workers may dial the client, as "host:port" (port 0: any)
                           or a URL; NULL: nowhere */
    uint64_t
        step_memory_max; /* local cluster: bytes of a worker's steps; 0: no limit */
};
#define COX_OPTIONS_INIT                                                               \
    {sizeof(struct cox_options),                                                       \
     NULL,                                                                             \
     NULL,                                                                             \
     NULL,                                                                             \
     0,                                                                                \
     0,                                                                                \
     0,                                                                                \
     0,                                                                                \
     0,                                                                                \
     0,                                                                                \
     0,                                                                                \
     0,                                                                                \
     0,                                                                                \
     0,                                                                                \
     0,                                                                                \
     0,                                                                                \
     0,                                                                                \
     NULL,                                                                             \
     0}

/*
 * Connects to every ps and to the workers (options NULL: all defaults), and begins a
 * run. `cluster` is not needed afterwards. Returns when all ps and min_workers workers
 * are there, whether they are listed or have dialled; where none is listed and
 * min_workers is 0, when the ps are. COX_ETIMEDOUT, COX_EREFUSED, COX_EVERSION, COX_ECONFLICT (another daemon
 * is at an address), COX_EBUSY (a ps serves another run): the text names the daemon.
 * COX_EIO: the checkpoint directory cannot be written, or a local cluster not be
 * started. COX_EEXIST: the directory has checkpoints of another run. COX_EADDRESS:
 * `listen` is no address, is in use, or can be reached from other hosts.
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
 * Cancels what has not run, waits up to timeout_ms for what runs, ends the run, frees
 * the coordinator and all that belongs to it but futures. Always frees; COX_ETIMEDOUT
 * tells that a step was still running. Takes NULL. Waits, without a deadline, until
 * the callbacks of all futures have run. COX_EDEADLK: called from a callback; nothing
 * is closed or freed then.
 */
COX_API int cox_close(struct cox_coordinator *c, int timeout_ms);

/* ---- variables */

/*
 * What a ps does with a gradient g of a value w. r is the learning rate at that update.
 *
 *   kind                  rule                                         numbers, state
 *   COX_SGD               w -= r g
 *   COX_MOMENTUM          u = momentum u + g;  w -= r u                momentum; 1
 *   COX_NESTEROV          u = momentum u + g;  w -= r (g + momentum u) momentum; 1
 *   COX_ADAGRAD           s += g^2;  w -= r g / (sqrt(s) + epsilon)    initial_accumulator,
 *                                                                      epsilon; 1
 *   COX_ROWWISE_ADAGRAD   the same, s one number for a row: of the     the same; 1 a row
 *                         mean of its g^2
 *   COX_RMSPROP           s = rho s + (1 - rho) g^2;                   rho, epsilon; 1
 *                         w -= r g / (sqrt(s) + epsilon)
 *   COX_ADADELTA          s = rho s + (1 - rho) g^2;                   rho, epsilon; 2
 *                         d = g sqrt(x + epsilon) / sqrt(s + epsilon);
 *                         x = rho x + (1 - rho) d^2;  w -= r d
 *   COX_ADAM              m = beta1 m + (1 - beta1) g;                 beta1, beta2,
 *                         v = beta2 v + (1 - beta2) g^2;               epsilon; 2, of a
 *                         w -= r m' / (sqrt(v') + epsilon),            table 1 a row more
 *                         m' = m / (1 - beta1^t), v' = v / (1 - beta2^t)
 *   COX_ADAMW             the same, after w -= r weight_decay w        the same
 *   COX_FTRL              FTRL-proximal, see below                     beta, l1, l2,
 *                                                                      initial_accumulator;
 *                                                                      2
 *   COX_LOSS_SCALE        see below                                    growth_factor,
 *                                                                      growth_interval; 1
 *
 * These are PyTorch's rules (RMSProp's rho is its alpha, Adagrad's initial_accumulator its
 * initial_accumulator_value), but FTRL: that is Keras's, with its names' regularization
 * strengths as l1 and l2 and a learning_rate_power of -0.5: z, n start at 0 and at
 * initial_accumulator, then z += g - (sqrt(n + g^2) - sqrt(n)) / r w;  n += g^2;
 * w = 0 where |z| <= l1, else (sign(z) l1 - z) / ((beta + sqrt(n)) / r + 2 l2).
 * What w starts with, or is assigned, is forgotten with the next gradient: begin at zeros.
 *
 * COX_LOSS_SCALE is for a variable that steps multiply their loss by, so that small
 * gradients survive a narrow type (cox_step_loss_scale). Its "gradient" is 0 after a step
 * whose gradients were finite, anything else after one whose were not: then w becomes
 * w / growth_factor, at least 1; after growth_interval good steps in a row,
 * w growth_factor. Begin at a constant, like 65536. (torch.amp.GradScaler's rule.)
 *
 * State is what a ps keeps beside the values, in floats for each value; checkpoints hold
 * it. A row is a table's, or one of a dense variable's first axis. A table's rule is lazy: a row and its state change only when a gradient of that row
 * comes, and t counts those of the row. A dense variable's t counts the updates of it on
 * that ps.
 *
 * Numbers that are 0 stand for a default where it is told; give a tiny one for none
 * (1e-30). A number that the rule does not use must be 0.
 */
enum cox_optimizer_kind {
    COX_OPTIMIZER_NONE = 0, /* takes no gradients */
    COX_SGD = 1,
    COX_ADAGRAD = 2,
    COX_MOMENTUM = 3,
    COX_NESTEROV = 4,
    COX_ROWWISE_ADAGRAD = 5,
    COX_ADADELTA = 6,
    COX_RMSPROP = 7,
    COX_ADAM = 8,
    COX_ADAMW = 9,
    COX_FTRL = 10,
    COX_LOSS_SCALE = 11,
};

/*
 * How the learning rate changes: by the number of gradient updates (pushes, of a table's
 * rows those that have reached the ps) that were applied to the variable on that ps
 * before, s. In the first warmup_steps it rises from 0: learning_rate * s / warmup_steps;
 * then these count, with s from the end of the warm-up. From `steps` on linear, polynomial
 * and cosine stay at end_rate.
 *
 *   COX_SCHEDULE_CONSTANT     learning_rate
 *   COX_SCHEDULE_LINEAR       learning_rate to end_rate
 *   COX_SCHEDULE_POLYNOMIAL   end_rate + (learning_rate - end_rate) (1 - s / steps)^power
 *   COX_SCHEDULE_EXPONENTIAL  learning_rate gamma^(s / steps)
 *   COX_SCHEDULE_STEP         the same, s / steps rounded down
 *   COX_SCHEDULE_COSINE       end_rate + (learning_rate - end_rate)
 *                             (1 + cos(pi s / steps)) / 2
 *
 * All but constant need steps; a number that is not used must be 0. FTRL takes none.
 */
enum cox_schedule_kind {
    COX_SCHEDULE_CONSTANT = 0,
    COX_SCHEDULE_LINEAR = 1,
    COX_SCHEDULE_POLYNOMIAL = 2,
    COX_SCHEDULE_EXPONENTIAL = 3,
    COX_SCHEDULE_STEP = 4,
    COX_SCHEDULE_COSINE = 5,
};

struct cox_schedule {
    uint32_t kind; /* enum cox_schedule_kind */
    float end_rate;
    float power;
    float gamma;
    uint64_t steps;
    uint64_t warmup_steps;
};

/*
 * Before the rule a gradient is clipped by value, then by norm, then weight_decay * w is
 * added to it (not so with COX_ADAMW, whose decay is in its rule).
 */
struct cox_optimizer {
    uint32_t kind; /* enum cox_optimizer_kind */
    float learning_rate;
    float epsilon; /* 0: 1e-10 for Adagrad, 1e-6 for Adadelta, 1e-8 for the others */
    float initial_accumulator;
    float momentum;     /* 0: 0.9 */
    float rho;          /* 0: 0.9 for Adadelta, 0.99 for RMSProp */
    float beta1;        /* 0: 0.9 */
    float beta2;        /* 0: 0.999 */
    float beta;         /* FTRL */
    float l1;           /* FTRL */
    float l2;           /* FTRL: l2 w^2 is added to the loss */
    float weight_decay; /* not for FTRL */
    float clip_value;   /* each number of a gradient to at most that; 0: as it is */
    float clip_norm;    /* the Euclidean norm of a table's row, or of what a ps has of a
                           dense gradient, to at most that; 0: as it is */
    float growth_factor;   /* 0: 2 */
    float growth_interval; /* 0: 2000 */
    struct cox_schedule schedule;
};
#define COX_OPTIMIZER_INIT                                                             \
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0, 0, 0, 0, 0, 0}}

/*
 * What is there before any update: numbers that depend on the seed and the place (a
 * table's key and column, a dense variable's element), on nothing else.
 *
 * Glorot, Bengio 2010: the uniform one in [-l, l) with l = sqrt(6 / (in + out)), the
 * normal one of deviation sqrt(2 / (in + out)). Of a dense variable, the last axis is
 * `out`, the one before it `in`, both times the elements of the axes before these; one of
 * rank 1 counts as both. A table's row is what leads from 1 key to dim values.
 */
enum cox_initializer_kind {
    COX_ZEROS = 0,
    COX_CONSTANT = 1,         /* a */
    COX_UNIFORM = 2,          /* in [a, b) */
    COX_NORMAL = 3,           /* mean a, standard deviation b */
    COX_TRUNCATED_NORMAL = 4, /* the same, redrawn where it is beyond 2 b of a */
    COX_GLOROT_UNIFORM = 5,   /* a, b: not used */
    COX_GLOROT_NORMAL = 6,
};

struct cox_initializer {
    uint32_t kind; /* enum cox_initializer_kind */
    float a;
    float b;
    uint64_t seed;
};
#define COX_INITIALIZER_INIT {0, 0, 0, 0}

/* What becomes of gradients with a number that is not finite. */
enum cox_nonfinite {
    COX_NONFINITE_REJECT = 0, /* the step fails with COX_ENONFINITE, naming variable and
                                 row; nothing of it is applied */
    COX_NONFINITE_ALLOW = 1,  /* they are applied */
};

/*
 * A dense variable: rank 1 or more, no dimension 0; optimizers and non-zero start: F32.
 *
 * It may be cut along its first axis into shards on different ps, of rows / n rows each
 * and one more in the first rows % n ("div"); to its users it is one all the same. How
 * many shards: `shards`, but no more than there are ps or rows. Where that is 0, as few as
 * keep each at shard_max_bytes or less, if that is given (COX_EINVAL: there are not enough
 * ps or rows for that); else as many as leave each shard_min_bytes or more.
 */
struct cox_variable_spec {
    size_t size;
    const char *name; /* 1 to COX_NAME_MAX bytes of UTF-8, like a path; see below */
    uint32_t dtype;   /* enum cox_dtype */
    uint32_t rank;
    uint64_t shape[COX_RANK_MAX];
    uint32_t shards;
    struct cox_optimizer optimizer;
    struct cox_initializer initializer;
    uint64_t shard_min_bytes; /* 0: 262144 */
    uint64_t shard_max_bytes; /* 0: no limit */
    uint32_t wire_dtype; /* COX_BF16 or COX_F16: what steps pull of an F32 variable, and
                                 the gradients they push, are rounded to that type on their
                                 way, at half the bytes; 0: they are not */
    uint32_t nonfinite;  /* enum cox_nonfinite */
};
#define COX_VARIABLE_SPEC_INIT                                                         \
    {sizeof(struct cox_variable_spec),                                                 \
     NULL,                                                                             \
     0,                                                                                \
     0,                                                                                \
     {0, 0, 0, 0, 0, 0, 0, 0},                                                         \
     0,                                                                                \
     COX_OPTIMIZER_INIT,                                                               \
     COX_INITIALIZER_INIT,                                                             \
     0,                                                                                \
     0,                                                                                \
     0,                                                                                \
     0}

/*
 * Which rows a table makes, and which it drops again; all 0: a row for every key that is
 * updated, for ever. A row that is not there, not yet or no more, reads as its initial
 * values and costs nothing; what is pushed to it is forgotten (an add or assign makes it).
 * Ages count the gradient updates of the table on the ps of the row (what a schedule
 * counts). Each ps decides for its own rows.
 */
struct cox_lifecycle {
    uint32_t admit_count;    /* a key gets its row with its so-manieth update. Counted
                                approximately, in bounded memory: a key may be admitted
                                early, never late; 0: with the first */
    float admit_probability; /* ... or each of its updates makes it with this
                                probability, above 0, below 1; drawn from run, closure and
                                key. 0: always. Where both are given, both must agree */
    uint64_t evict_age; /* rows that no gradient has come to for so long go; 0: none */
    uint32_t evict_count;     /* rows that have had fewer gradients than this ... */
    uint64_t evict_count_age; /* ... so long after they were made go; 0: none */
    uint64_t rows_max; /* in all: where there would be more, those go that have had no
                                gradient for longest, approximately; 0: no limit */
};
#define COX_LIFECYCLE_INIT {0, 0, 0, 0, 0, 0}

/* A table: rows of `dim` F32 by 64-bit key, made on first touch, spread over all ps. */
struct cox_table_spec {
    size_t size;
    const char *name;
    uint32_t dim; /* 1 to 4096 */
    struct cox_optimizer optimizer;
    struct cox_initializer initializer; /* of a row: depends on seed and key alone */
    uint32_t wire_dtype;                /* as in struct cox_variable_spec */
    uint32_t nonfinite;
    struct cox_lifecycle lifecycle;
};
#define COX_TABLE_SPEC_INIT                                                            \
    {sizeof(struct cox_table_spec), NULL, 0, COX_OPTIMIZER_INIT,                       \
     COX_INITIALIZER_INIT,          0,    0, COX_LIFECYCLE_INIT}

/*
 * Creates a variable or table on the ps. Several variables are placed so that the ps
 * hold about as many bytes each. A name takes no white space, quote or backslash; '/'
 * makes folders ("tower/bias"). COX_EEXIST: the name is taken, or a folder. COX_EINVAL
 * names what is wrong with a spec and the variable. COX_EPSLOST.
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
 * whatever is in the queue. COX_EPSLOST.
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

/* Reads the rows of n_keys keys: n_keys * dim floats. Rows not there: initial
 * values. */
COX_API int cox_table_read(struct cox_coordinator *c, struct cox_table *table,
                           const uint64_t *keys, size_t n_keys, float *ret_rows);

/* What the ps have of a table, and have done with it since its run began. */
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

/* ---- metrics: numbers that steps add to and the client reads */

/*
 * All that a metric holds lies in one block on one ps, so a reading is of one moment. It
 * is a variable like others: exactly once, in checkpoints, named like them, F64.
 *
 *   kind               a step adds (cox_step_metric_add)       it reads as
 *   COX_METRIC_SUM     value, weight: weight * value           the sum
 *   COX_METRIC_COUNT   weight                                  the sum of weights
 *   COX_METRIC_MEAN    value, weight                           sum of weight * value / sum of
 *                                                              weights; NaN of nothing
 *   COX_METRIC_AUC     label 0 or 1, score in [0, 1], weight   area under the ROC curve by
 *                      (cox_step_metric_auc)                   the trapezoidal rule over
 *                                                              `buckets` equal steps of
 *                                                              score; NaN unless both labels
 *                                                              have come
 */
enum cox_metric_kind {
    COX_METRIC_SUM = 1,
    COX_METRIC_COUNT = 2,
    COX_METRIC_MEAN = 3,
    COX_METRIC_AUC = 4,
};

struct cox_metric_spec {
    size_t size;
    const char *name;
    uint32_t kind;    /* enum cox_metric_kind */
    uint32_t buckets; /* of an AUC: 2 to 256; 0: 200 */
};
#define COX_METRIC_SPEC_INIT {sizeof(struct cox_metric_spec), NULL, 0, 0}

/* As cox_variable_create and _get. */
COX_API int cox_metric_create(struct cox_coordinator *c,
                              const struct cox_metric_spec *spec,
                              struct cox_metric **ret);
COX_API int cox_metric_get(struct cox_coordinator *c, const char *name,
                           struct cox_metric **ret);

/* What it reads as now, and (where `ret_weight` is not NULL) the sum of all weights: of a
 * COX_METRIC_SUM 0, which keeps none. Reset: back to nothing, at once. COX_EPSLOST. */
COX_API int cox_metric_read(struct cox_coordinator *c, struct cox_metric *metric,
                            double *ret_value, double *ret_weight);
COX_API int cox_metric_reset(struct cox_coordinator *c, struct cox_metric *metric);

/* ---- step modules and functions */

/*
 * Reads a step module (coxswain/step.h) and ships it to the workers, those that join
 * later too. COX_EIO: the file cannot be read; COX_EMODULE: it is no step module, was
 * built for another ABI version, or a worker cannot load it.
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
};
#define COX_CALL_INIT {sizeof(struct cox_call), NULL, 0, 0, 0, NULL, 0, 0}

/*
 * Puts a closure (one call of `function`) in the queue; workers take them in order of
 * priority, then of scheduling; what only one worker may run comes first there, and fails
 * with COX_ENOWORKER when that is away for worker_wait_ms. `call` NULL: no arguments. A
 * call with inputs waits until those futures are done; where one fails or is cancelled, so
 * does the call, naming it. `ret` (NULL: not wanted) is for cox_future_free. Blocks while
 * the queue is full. If a closure has failed since the last report of an error:
 * cancels what is queued, waits until nothing runs, and returns that error instead
 * (COX_ESTEP, COX_ELOST, COX_ENOWORKER, COX_EPSLOST, COX_EMODULE); the coordinator is
 * usable again then, unless a ps is lost.
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
 * COX_EEXIST: there is a resource of that name. COX_ELIMIT: more than 1024 of them, or
 * arguments of more than 1 GiB. COX_EPSLOST, COX_EFENCED, COX_ECLOSED. `name`: 1 to
 * COX_NAME_MAX bytes. `ret` may be NULL: it lives until cox_close then.
 */
COX_API int cox_resource_create(struct cox_coordinator *c, const char *name,
                                struct cox_function *function,
                                const struct cox_call *call, struct cox_resource **ret);

/*
 * Gives a resource up: on each worker it is released when the steps that use it have
 * returned; steps that start later do not find it (COX_ENOENT), so wait for those that
 * are to use it first. Where it is still being made, that is cancelled. Its name is free when this returns, which is at once; `resource` is
 * not to be used any more. Takes NULL. Not after cox_close.
 */
COX_API void cox_resource_release(struct cox_resource *resource);

/* ---- futures */

/*
 * The closure is not wanted any more: it is settled as COX_ECANCELLED, soon, and leaves no
 * trace. Does not wait for that. A step that runs sees it (cox_step_cancelled) and has
 * cancel_grace_ms to return, or its process is ended. Where it is too late (its updates
 * are being committed) the closure is done as ever; a step that had flushed some of its
 * updates ends as COX_EPARTIAL. What takes its result as an input is cancelled, too. No
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
 * The result called `name` of a closure that is done, as a tensor that lives as long as
 * the future. COX_ENOTREADY: not settled; COX_ENOENT: the step returned nothing of that
 * name; or the closure's error.
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
};
#define COX_CHECKPOINT_OPTIONS_INIT {sizeof(struct cox_checkpoint_options), 0}

/*
 * Writes a checkpoint of all variables and tables to the checkpoint directory; each ps
 * is saved as of one moment. Closures may run meanwhile; for an exact cut call cox_join
 * first. `options` NULL: defaults. *ret_number (may be NULL): its number, from 1.
 * COX_ENOENT: no checkpoint directory was given. COX_EIO: nothing of it is left.
 * COX_EPSLOST.
 */
COX_API int cox_checkpoint_save(struct cox_coordinator *c,
                                const struct cox_checkpoint_options *options,
                                uint64_t *ret_number);

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
    uint64_t ps_bytes;        /* of values and optimizer state */
    uint64_t speculated;      /* second attempts of closures that took too long */
    uint64_t speculation_won; /* that ended their closure */
};
#define COX_STATS_INIT                                                                 \
    {sizeof(struct cox_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* Asks every ps for its part, so it takes a round trip. COX_EPSLOST. */
COX_API int cox_stats(struct cox_coordinator *c, struct cox_stats *ret);

/* The run's id, as it stands in checkpoints and logs. */
COX_API uint64_t cox_run_id(const struct cox_coordinator *c);

/* ---- the evaluator: a program that scores checkpoints while training runs */

struct cox_evaluator_options {
    size_t size;
    int first_timeout_ms; /* for the first checkpoint, 60000; -1: none */
    int idle_timeout_ms;  /* for each later one, 60000; -1: none */
    int poll_ms;          /* between looks at the directory, 100 */
};
#define COX_EVALUATOR_OPTIONS_INIT {sizeof(struct cox_evaluator_options), 0, 0, 0}

/* `dir` is the checkpoint directory; it need not exist yet. No coordinator is
 * needed. */
COX_API int cox_evaluator_open(const char *dir,
                               const struct cox_evaluator_options *options,
                               struct cox_evaluator **ret);

struct cox_checkpoint_info {
    size_t size;
    uint64_t number;
    uint64_t run;
    int final;
};
#define COX_CHECKPOINT_INFO_INIT {sizeof(struct cox_checkpoint_info), 0, 0, 0}

/*
 * Waits for a checkpoint newer than the last one and loads it, checksums verified; it
 * stays loaded until the next call. COX_EEOF: the last one was final. COX_ETIMEDOUT:
 * none came. COX_ECHECKSUM, COX_EFORMAT, COX_EIO: it cannot be loaded; the next call
 * tries again.
 */
COX_API int cox_evaluator_next(struct cox_evaluator *evaluator,
                               struct cox_checkpoint_info *ret);

/* A dense variable of the loaded checkpoint, all `bytes` of it. COX_ENOENT;
 * COX_ENOTREADY. */
COX_API int cox_evaluator_read(struct cox_evaluator *evaluator, const char *name,
                               void *ret_data, size_t bytes);

/* Rows of a table: n_keys * dim floats; rows not there: their initial values. */
COX_API int cox_evaluator_lookup(struct cox_evaluator *evaluator, const char *table,
                                 const uint64_t *keys, size_t n_keys, uint32_t dim,
                                 float *ret_rows);

/* How many rows a table of the loaded checkpoint has. */
COX_API int cox_evaluator_rows(struct cox_evaluator *evaluator, const char *table,
                               uint64_t *ret_rows);

struct cox_score {
    const char *name;
    double value;
};

/* Appends a line to <dir>/eval.jsonl: {"checkpoint": n, "time": s, <name>: <value>,
 * ...}. */
COX_API int cox_evaluator_report(struct cox_evaluator *evaluator,
                                 const struct cox_score *scores, size_t n_scores);

COX_API void cox_evaluator_close(struct cox_evaluator *evaluator); /* takes NULL */

#ifdef __cplusplus
}
#endif
#endif
