/*
 * The journal of a storm, which outlives its clients: a file that the storm, every
 * client and (for the disk's part, chaos_disk.c) every daemon map. A client that is
 * killed in the middle of a call leaves in it how far it had come. So the next client
 * knows which operations must be applied and which may be.
 *
 * Any thread, any process: all of it is atomic.
 */
#ifndef COXI_BENCH_CHAOS_JOURNAL_H
#define COXI_BENCH_CHAOS_JOURNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What really happened; each count is a member of the JSON object. */
#define CHAOS_COUNTS(X)                                                                \
    X(CHAOS_DISK_ERRORS, "disk_errors")      /* calls that failed by chance */         \
    X(CHAOS_FULL_ERRORS, "disk_full_errors") /* ... because the disk was full */       \
    X(CHAOS_SLOW_FSYNCS, "slow_fsyncs")                                                \
    X(CHAOS_CUTS_CLIENT_PS, "partitions_client_ps") /* real cuts */                    \
    X(CHAOS_CUTS_WORKER_PS, "partitions_worker_ps")                                    \
    X(CHAOS_CUTS_WORKER, "partitions_worker_client")                                   \
    X(CHAOS_ASSIGNS, "assigns") /* that returned */                                    \
    X(CHAOS_ADDS, "adds")                                                              \
    X(CHAOS_ASSIGNS_AGAIN, "assigns_checked_again") /* after a client's restart */     \
    X(CHAOS_RESOURCES, "resources")                 /* that were created */            \
    X(CHAOS_RESOURCES_AGAIN, "resources_restored")  /* ... after a restart */          \
    X(CHAOS_TAKEN, "kept_taken")                    /* kept results that calls took */ \
    X(CHAOS_FETCHED, "kept_fetched")                /* ... that the client fetched */  \
    X(CHAOS_MADE_AGAIN, "made_again")                                                  \
    X(CHAOS_SPECULATED, "second_attempts")                                             \
    X(CHAOS_SPECULATION_WON, "second_attempts_won")                                    \
    X(CHAOS_OUT_OF_ROUNDS, "late")   /* steps that came too late for their round */    \
    X(CHAOS_RECOVERED, "recoveries") /* of ps, in all clients */                       \
    X(CHAOS_AGED, "recoveries_of_aged_rows") /* ... beyond the age of rows */          \
    X(CHAOS_SAVED, "checkpoints_saved")      /* in all clients */                      \
    X(CHAOS_UNSAVED, "checkpoints_failed")                                             \
    X(CHAOS_TIMED, "calls_timed") /* that had a deadline */                            \
    X(CHAOS_LATE, "calls_late")   /* ... and were 2 s late */

enum chaos_count {
#define CHAOS_COUNT(id, name) id,
    CHAOS_COUNTS(CHAOS_COUNT)
#undef CHAOS_COUNT
        CHAOS_N_COUNTS
};

enum {
    CHAOS_CALLS = 16,
    CHAOS_WRITERS = 2,
    CHAOS_SAVES = 8192,
    CHAOS_GRACE_MS = 2000, /* that a call may take beyond its deadline */
};

/* A call that is under way: its deadline plus the grace (coxi_now_ms); 0: no call. */
struct chaos_timed {
    atomic_uint_least64_t until_ms;
    _Atomic(uint32_t) timeout_ms;
    char name[32];
};

/* The operations of one writer, numbered from 1. */
struct chaos_written {
    atomic_uint_least64_t begun; /* the last one that began */
    /* the last one that returned, and so must be applied */
    atomic_uint_least64_t returned;
};

/* A checkpoint that was returned: for each writer the operations that it must have, and
 * those that it may have. */
struct chaos_saved {
    atomic_uint_least64_t number; /* 0: this entry is free */
    uint64_t least[CHAOS_WRITERS + 1];
    uint64_t most[CHAOS_WRITERS + 1];
};

struct chaos_journal {
    atomic_uint_least64_t counts[CHAOS_N_COUNTS];
    atomic_bool disk_is_full;
    atomic_bool has_late; /* `late` is set */
    char late[160];       /* the first call that took too long */
    struct chaos_timed calls[CHAOS_CALLS];
    struct chaos_written written[CHAOS_WRITERS + 1]; /* the last entry is the model's */
    atomic_uint_least64_t last_saved; /* the highest number that was returned */
    struct chaos_saved saves[CHAOS_SAVES];
};

enum { CHAOS_MODEL = CHAOS_WRITERS }; /* index in `written` */

/* Maps the file; `create`: makes it first. */
int chaos_journal_open(const char *path, bool create, struct chaos_journal **ret);
void chaos_journal_close(struct chaos_journal *journal); /* takes NULL */

const char *chaos_count_name(enum chaos_count count);
void chaos_count_add(struct chaos_journal *journal, enum chaos_count count, uint64_t n);
uint64_t chaos_count_of(const struct chaos_journal *journal, enum chaos_count count);

/* A call with a timeout of `timeout_ms` begins; _end: it has ended. */
struct chaos_timed *chaos_call_begin(struct chaos_journal *journal, const char *name,
                                     int timeout_ms);
void chaos_call_end(struct chaos_journal *journal, struct chaos_timed *call);

/* Notes the calls that should have returned by now. */
void chaos_calls_look(struct chaos_journal *journal, uint64_t now_ms);

/* Forgets all calls, because the client is gone. */
void chaos_calls_clear(struct chaos_journal *journal);

/* A checkpoint begins; _end: it was returned as `number`. */
void chaos_save_begin(const struct chaos_journal *journal, struct chaos_saved *ret);
void chaos_save_end(struct chaos_journal *journal, const struct chaos_saved *begun,
                    uint64_t number);

/* The last operation of a writer that checkpoint `number` (0: none) must have, and the
 * last one that it may have. */
void chaos_save_bounds(const struct chaos_journal *journal, uint64_t number, int writer,
                       uint64_t *ret_least, uint64_t *ret_most);

/* A client continues from checkpoint `number` (0: none): for the next checkpoint, only
 * the operations that `number` must have count as returned. */
void chaos_saves_restore(struct chaos_journal *journal, uint64_t number);

#endif
