/*
 * The messages of schema/wire.fbs as plain C structs, and the codec between the two.
 *
 * Encoding copies everything that the structs point to. Decoding checks the bytes
 * first, because they come from a peer, and then hands out pointers into them: a
 * decoded message is valid as long as the bytes are. Every enum and every count is
 * range-checked, so a decoded message can be used without further checks.
 *
 * Arrays of structs (`const struct coxi_... *` with a count) have the same layout on
 * the wire and in memory and are never converted; the codec is little-endian only.
 *
 * Threads: any. Cost: 100 to 300 ns a message each way, no allocation once a thread's
 * builder has grown.
 */
#ifndef COXI_SCHEMA_WIRE_H
#define COXI_SCHEMA_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/maybe.h"
#include "schema/wire_files.h"
#include "schema/wire_snapshots.h"
#include "schema/wire_times.h"
#include "schema/wire_variable.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * COXI_WIRE_VERSION: any change of wire.fbs raises it, and so does any change of the
 * payloads that its comments describe. Peers with different numbers refuse each other
 * when they greet (COX_EVERSION). schema/versions holds the number beside a checksum of
 * wire.fbs, and a test fails if only one of the two was changed.
 */
enum {
    COXI_WIRE_VERSION = 16,
    COXI_WIRE_META_MAX = 16 * 1024 * 1024, /* longest encoded message, bytes */
    COXI_WIRE_NAME_MAX = 127,
    COXI_STALE_BUCKETS = 32,
};

enum coxi_role { COXI_ROLE_CLIENT = 1, COXI_ROLE_WORKER, COXI_ROLE_PS, COXI_ROLE_TOOL };
enum coxi_channel { COXI_CHANNEL_CONTROL = 0, COXI_CHANNEL_DATA };
enum coxi_op {
    COXI_OP_GRADIENT = 0,
    COXI_OP_ADD,
    COXI_OP_ASSIGN,
    COXI_OP_MIN,
    COXI_OP_MAX,   /* the last one for rows */
    COXI_OP_RATE,  /* for a whole variable: its learning rate and schedule */
    COXI_OP_ROUND, /* for no variable: ends a round */
    /* a gradient that comes with the values from which it was computed */
    COXI_OP_COMPENSATED,
};

/* In place of the first row of an item or update: the payload lists its rows. */
#define COXI_ROWS_LISTED UINT64_MAX

struct coxi_session {
    uint64_t run;
    uint64_t generation;
    uint64_t token;
};

struct coxi_hello {
    uint32_t version;
    enum coxi_role role;
    enum coxi_channel channel;
    uint32_t index;
    uint64_t incarnation;
    struct coxi_session session;
    uint32_t slots;
    const char *name;
    const char *local;
};

struct coxi_refuse {
    uint32_t version;
    int32_t code;
    const char *message;
};

/* All answers that differ only in one field: Status (incarnation), Pulled (versions),
 * ModuleLoaded and ResourceMade (id), Committed (duplicate, ended). */
struct coxi_status {
    int32_t code;
    const char *message;
    uint32_t id;
    bool duplicate;
    bool ended;
    const uint64_t *versions;
    size_t n_versions;
    uint64_t incarnation;
};

struct coxi_claim {
    struct coxi_session session;
    uint64_t leaves; /* if this is the ps's incarnation, it begins another; 0: no */
};

/* `incarnation`, here and below: the incarnation of the ps for which this is meant. */
struct coxi_create {
    struct coxi_session session;
    uint64_t closure; /* 0: records nothing, because a restore follows */
    struct coxi_variable variable;
    uint64_t incarnation;
};

struct coxi_watermark {
    struct coxi_session session;
    uint64_t watermark;
    uint64_t incarnation;
};

struct coxi_snapshot {
    struct coxi_session session;
    uint64_t number;
    const char *path;
    /* a durable snapshot: write only what has changed since; 0: write all */
    uint64_t base;
    bool track; /* later snapshots may build on it */
    uint64_t incarnation;
    uint64_t carry; /* by which the client fetches the bytes; 0: the ps writes them */
};

struct coxi_restore {
    struct coxi_session session;
    uint64_t round;
    const char *path;
    uint64_t bytes;
    uint32_t crc32;
    uint64_t watermark;
    const struct coxi_interval *applied;
    size_t n_applied;
    const uint32_t *touched;
    size_t n_touched; /* as in coxi_snapshot_done */
    uint64_t at;      /* 0: it has everything; otherwise it builds on the one before */
    uint64_t incarnation;
    bool more;      /* a file that builds on this one comes next */
    uint64_t carry; /* by which the client brings the bytes; 0: the ps reads them */
};

/* See Exchange in wire.fbs. */
struct coxi_exchange {
    struct coxi_session session;
    uint64_t incarnation;
    uint64_t carry;
    bool restores;
    uint32_t lane;
    uint64_t turn;
    int32_t code;
    const char *message;
};

/* See Probe in wire.fbs. */
struct coxi_probe {
    struct coxi_session session;
    const char *path;
    bool writes;
};

/* See Load in wire.fbs. */
struct coxi_load {
    struct coxi_session session;
    uint64_t incarnation;
    uint64_t closure;
    uint32_t variable;
    uint64_t begin;
    uint64_t count;
    bool state;
    bool life;
    uint64_t step;
    bool last;
};

struct coxi_counters {
    uint64_t commits;
    uint64_t duplicates;
    uint64_t pulls;
    uint64_t rows;
    uint64_t bytes;
};

struct coxi_table_counters {
    uint64_t lookups;
    uint64_t hits;
    uint64_t admitted;
    uint64_t evicted;
    uint64_t updates;
    uint64_t rows;
    uint64_t bytes;
};

/* Gradients whose staleness is asked for. */
enum coxi_stale_of {
    COXI_STALE_NONE = 0,
    COXI_STALE_ALL,
    COXI_STALE_VARIABLE,
    COXI_STALE_WORKER,
};

struct coxi_count {
    struct coxi_maybe table; /* by id */
    enum coxi_stale_of stale_of;
    uint32_t index; /* of the variable (its id) or worker */
};

/* Gradients by their staleness, which is the number of updates that the values missed
 * from which they were computed: 0; 1; 2 to 3; 4 to 7 ... (common/histogram.h) */
struct coxi_histogram {
    uint64_t counts[COXI_STALE_BUCKETS];
    uint64_t sum; /* of the staleness of all */
    uint64_t max;
    uint64_t dropped; /* gradients among them that were not applied */
};

struct coxi_counts {
    struct coxi_counters all;
    struct coxi_table_counters table; /* zeros if none was asked for */
    /* numbers that became infinite in a narrow type when pulls were sent */
    uint64_t infinite;
    struct coxi_histogram stale; /* zeros if it was not asked for */
};

struct coxi_pull_item {
    uint64_t variable;
    uint64_t begin; /* or COXI_ROWS_LISTED */
    uint64_t count;
    uint64_t version;
};

struct coxi_pull {
    struct coxi_session session;
    uint64_t incarnation;
    const struct coxi_pull_item *items;
    size_t n_items;
    bool narrow;
    uint64_t after; /* the values must have the round with this end; 0: none */
    uint64_t flow;  /* see struct coxi_trace_span; 0: there is no trace */
};

struct coxi_update {
    uint32_t variable;
    uint32_t op;    /* enum coxi_op */
    uint64_t begin; /* or COXI_ROWS_LISTED */
    uint64_t count;
};

/* What a ps must know to end a round itself. */
struct coxi_share {
    uint32_t n; /* closures of the round; 0: the ps must not end it */
    bool mean;
    float weight;
    uint64_t after; /* the round with this end must be applied before; 0: none */
};

struct coxi_commit {
    struct coxi_session session;
    uint64_t incarnation;
    uint64_t closure;
    uint32_t attempt;
    uint32_t segment;
    bool last;
    const uint32_t *touched;
    size_t n_touched;
    const struct coxi_update *updates;
    size_t n_updates;
    uint64_t step;    /* the step of learning rate schedules */
    float loss_scale; /* the factor of all gradients; 0: none */
    uint64_t round;   /* the updates wait until that round ends; 0: they do not */
    const uint64_t *pulled;
    size_t n_pulled; /* decoded: at most n_updates */
    /* The end of a round: how many of its closures, of those that count by a numbered
     * attempt, have commits that wait on this ps. */
    uint32_t n_waiting;
    struct coxi_share share;
    /* The worker that sends it. Not in the message: a ps takes it from the greeting. */
    struct coxi_maybe worker;
    uint64_t flow; /* see struct coxi_trace_span; 0: there is no trace */
};

/* In place of an attempt: the latest that has come. */
#define COXI_ATTEMPT_LATEST UINT32_MAX

/* How a closure counts in its round: with the updates of which attempt (0: with none),
 * and by which factor of its gradients. */
struct coxi_round_part {
    uint32_t attempt;
    float factor;
};

/* The factor of a closure with this weight; `sum`: of the weights of all that count, or
 * 1 if the gradients are not averaged. */
static inline float coxi_round_factor(float weight, double sum)
{
    return sum > 0 ? (float)((double)weight / sum) : 0;
}

struct coxi_void {
    struct coxi_session session;
    uint64_t closure;
    uint32_t attempt;
    uint64_t incarnation;
};

struct coxi_voided_segment {
    uint32_t segment;
    uint32_t last;
    /* how many ps the segment touched; in coxi_voided.touched they come after those of
     * the segment before */
    uint32_t touched_n;
};

struct coxi_voided {
    int32_t code;
    const char *message;
    const struct coxi_voided_segment *segments;
    size_t n_segments;
    const uint32_t *touched;
    size_t n_touched; /* decoded: the sum over the segments */
};

struct coxi_ps_address {
    const char *address;
    uint64_t incarnation;
    bool lost;
};

struct coxi_layout {
    struct coxi_session session;
    const struct coxi_ps_address *servers; /* encoding only; see coxi_layout_ps */
    size_t n_servers;
    const struct coxi_variable *variables; /* encoding only; see coxi_layout_variable */
    size_t n_variables;
    /* The index that the client gave this worker; none: the worker keeps its own. */
    struct coxi_maybe worker;
    const void *decoded; /* decoding only */
};

/* SHA-256. */
struct coxi_digest {
    uint64_t words[4]; /* words[0] has the first 8 bytes of the digest, big-endian */
};

/* Ed25519, of a module (net/signature.h); all 0: it has none. */
struct coxi_signature {
    uint8_t bytes[64];
};

struct coxi_module {
    uint32_t id;
    const char *name;
    struct coxi_digest digest;
    struct coxi_signature signature;
};

struct coxi_closure_head {
    uint64_t closure;
    uint32_t attempt;
    uint16_t module;
    uint16_t function;
    uint32_t args_len;
    uint32_t timeout_ms;
};

/* The round of a closure. */
struct coxi_round_head {
    uint64_t round; /* for whose end its commits wait; 0: it is in none */
    uint64_t after; /* coxi_pull.after of its pulls */
    /* closures with equal `after` and `view` may see the same values; 0: it pulls for
     * itself */
    uint64_t view;
    uint32_t n; /* coxi_share.n and .mean of its commit */
    uint32_t mean;
};

/* An argument that the worker keeps. */
struct coxi_kept_input {
    uint32_t at;       /* the closure of the dispatch that takes it */
    uint32_t position; /* its position among that closure's arguments */
    uint64_t closure;  /* the closure whose result it is */
    const char *name;
    const char *result;
};

struct coxi_dispatch {
    const struct coxi_closure_head *closures;
    size_t n_closures;
    uint32_t grace_ms;
    const uint32_t *keep;
    size_t n_keep;                        /* decoded: rising indices of closures */
    const struct coxi_kept_input *inputs; /* encoding only; see coxi_dispatch_input */
    size_t n_inputs;
    const void *decoded; /* decoding only */
    uint64_t sent_us;
    const uint32_t *alone;
    size_t n_alone; /* decoded: rising indices of closures */
    uint64_t first; /* a closure's step is its id minus this, modulo 2^64 */
    const struct coxi_round_head *rounds; /* of each; NULL: none is in a round */
};

struct coxi_recall_head {
    uint64_t closure;
    uint32_t attempt;
    uint32_t unused; /* padding, 0 */
};

struct coxi_recall {
    const struct coxi_recall_head *closures;
    size_t n_closures;
    bool all;
    bool running;
    uint32_t grace_ms;
};

/* ResultWant (closure, attempt) and Result: the results of a closure that a worker
 * keeps. */
struct coxi_result {
    uint64_t closure;
    uint32_t attempt;
    int32_t code;
    const char *message;
};

/* The cause of a step process's end, if it was no signal. */
enum { COXI_CAUSE_EXIT = 0, COXI_CAUSE_MEMORY = -1, COXI_CAUSE_OVERRUN = -2 };

struct coxi_crashed_head {
    uint64_t closure; /* 0: `attempt` is the id of a resource */
    uint32_t attempt;
    int32_t cause; /* a signal's number, or one of these causes */
};

struct coxi_crashed {
    const struct coxi_crashed_head *closures;
    size_t n_closures;
};

struct coxi_resource {
    uint32_t id;
    const char *name;
    uint16_t module;
    uint16_t function;
    int32_t code;
    const char *message;
    uint32_t timeout_ms;
    uint32_t grace_ms;
    uint64_t position;
    uint64_t until; /* only in resource_drop */
};

struct coxi_worker_memory {
    uint64_t resident;
};

/* The numbers are those of the union in wire.fbs. */
enum coxi_message_kind {
    COXI_HELLO = 1,
    COXI_REFUSE,
    COXI_STATUS,
    COXI_CLAIM,
    COXI_RELEASE,
    COXI_CREATE,
    COXI_WATERMARK,
    COXI_SNAPSHOT,
    COXI_SNAPSHOT_DONE,
    COXI_COUNT,
    COXI_COUNTS,
    COXI_PULL,
    COXI_PULLED,
    COXI_COMMIT,
    COXI_COMMITTED,
    COXI_LAYOUT,
    COXI_MODULE,
    COXI_MODULE_LOADED,
    COXI_DISPATCH,
    COXI_RECALL,
    COXI_DONE,
    COXI_VOID,
    COXI_VOIDED,
    COXI_CRASHED,
    COXI_LEAVING,
    COXI_WANT_DATA,
    COXI_RESOURCE,
    COXI_RESOURCE_MADE,
    COXI_RESOURCE_DROP,
    COXI_RESTORE,
    COXI_RESULT_DROP,
    COXI_RESULT_WANT,
    COXI_RESULT,
    COXI_LOAD,
    COXI_DESCRIBE,
    COXI_REACH,
    COXI_PROBE,
    COXI_FILE_READ,
    COXI_FILE_BYTES,
    COXI_TRACE_ASK,
    COXI_TRACE_TOLD,
    COXI_MEMORY,
    COXI_EXCHANGE,
    COXI_EXCHANGED,
};

struct coxi_message {
    uint64_t request;
    enum coxi_message_kind kind;
    union {
        struct coxi_hello hello;
        struct coxi_refuse refuse;
        /* also pulled, committed, module_loaded, resource_made */
        struct coxi_status status;
        struct coxi_claim claim;
        struct coxi_session release;
        struct coxi_create create;
        struct coxi_watermark watermark;
        struct coxi_snapshot snapshot;
        struct coxi_snapshot_done snapshot_done;
        struct coxi_count count;
        struct coxi_counts counts;
        struct coxi_pull pull;
        struct coxi_commit commit;
        struct coxi_restore restore;
        struct coxi_load load;
        struct coxi_probe probe;
        struct coxi_exchange exchange;
        struct coxi_exchanged exchanged;
        struct coxi_layout layout;
        struct coxi_module module;
        struct coxi_dispatch dispatch;
        struct coxi_recall recall; /* result_drop: closures only */
        struct coxi_done done;
        struct coxi_void void_;
        struct coxi_voided voided;
        struct coxi_crashed crashed;
        struct coxi_resource resource; /* resource_drop: id and until only */
        struct coxi_file_read file_read;
        struct coxi_file_bytes file_bytes;
        struct coxi_trace_ask trace_ask;
        struct coxi_trace_told trace_told;
        struct coxi_worker_memory memory;
        struct coxi_result result; /* also result_want: closure and attempt */
    };
};

/*
 * Encodes `message`. *ret_bytes points to memory of the calling thread, 8-aligned,
 * valid until its next call. False: a string or array is longer than the limits above.
 */
bool coxi_message_encode(const struct coxi_message *message, const void **ret_bytes,
                         size_t *ret_len);

/* Frees the memory of the calling thread's last encoded message. */
void coxi_message_forget(void);

/* Checks and decodes `len` bytes at `bytes` (8-aligned). False: they are no message of
 * this version, and *ret is untouched. Strings are NUL-terminated and never NULL. */
bool coxi_message_decode(const void *bytes, size_t len, struct coxi_message *ret);

/* The i-th server or variable of a decoded layout (i below its count). */
void coxi_layout_ps(const struct coxi_layout *layout, size_t i,
                    struct coxi_ps_address *ret);
bool coxi_layout_variable(const struct coxi_layout *layout, size_t i,
                          struct coxi_variable *ret);

/* The i-th input of a decoded dispatch; false: it is malformed. */
bool coxi_dispatch_input(const struct coxi_dispatch *dispatch, size_t i,
                         struct coxi_kept_input *ret);

#ifdef __cplusplus
}
#endif
#endif
