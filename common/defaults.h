/* The defaults: the numbers for which 0 stands in fields of public structs. They are
 * defined only here. Code fills fields in from these tables; scripts/options makes
 * docs/options.md from them. */
#ifndef COXI_COMMON_DEFAULTS_H
#define COXI_COMMON_DEFAULTS_H

/* struct cox_options; min_workers depends on the cluster (coordinator/open.c) */
#define COXI_DEFAULTS_OPTIONS(X)                                                       \
    X(queue_max, 262144)                                                               \
    X(worker_slots, 1)                                                                 \
    X(open_timeout_ms, 30000)                                                          \
    X(peer_timeout_ms, 10000)                                                          \
    X(worker_wait_ms, 10000)                                                           \
    X(max_crashes, 3)                                                                  \
    X(step_timeout_ms, 600000)                                                         \
    X(cancel_grace_ms, 1000)                                                           \
    X(max_attempts, 4)                                                                 \
    X(ps_recovery_ms, 120000)                                                          \
    X(replay_log_bytes, 268435456)

#define COXI_DEFAULTS_EVALUATOR_OPTIONS(X)                                             \
    X(first_timeout_ms, 60000)                                                         \
    X(idle_timeout_ms, 60000)                                                          \
    X(poll_ms, 100)

#define COXI_DEFAULTS_READER_OPTIONS(X) X(timeout_ms, 10000)
#define COXI_DEFAULTS_VARIABLE_SPEC(X)  X(shard_min_bytes, 262144)
#define COXI_DEFAULTS_METRIC_SPEC(X)    X(buckets, 1024)

/* struct cox_dataset_spec; `separator` depends on the format (coordinator/datasets) */
#define COXI_DEFAULTS_DATASET_SPEC(X)                                                  \
    X(epochs, 1)                                                                       \
    X(batch_size, 256)                                                                 \
    X(task_bytes, 4194304)                                                             \
    X(prefetch, 2)                                                                     \
    X(failures_max, 3)                                                                 \
    X(timeout_floor_ms, 60000)

/* For each row of a table: fills in the field of the struct that `o` points to. */
#define COXI_FILL_IN(field, value) o->field = o->field != 0 ? o->field : (value);

/* For each row of a table: makes an enumerator of the number. */
#define COXI_DEFAULT_NUMBER(field, value) DEFAULT_##field = (value),

#endif
