/*
 * What outlives the clients of a storm: a file that the storm, every client and (for the disk's
 * part, chaos_disk.c) every daemon map. A client that is killed in the middle of a call leaves
 * there how far it had come, so that the next one knows what must be there and what may be.
 *
 * Any thread, any process: all of it is atomic.
 */
#ifndef COXI_BENCH_CHAOS_JOURNAL_H
#define COXI_BENCH_CHAOS_JOURNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What really happened; each is a member of the JSON object. */
#define CHAOS_COUNTS(X)                                                                \
    X(CHAOS_DISK_ERRORS, "disk_errors")      /* calls that failed by chance */         \
    X(CHAOS_FULL_ERRORS, "disk_full_errors") /* ... as the disk was full */            \
    X(CHAOS_SLOW_FSYNCS, "slow_fsyncs")                                                \
    X(CHAOS_CUTS_CLIENT_PS, "partitions_client_ps") /* that had a connection */        \
    X(CHAOS_CUTS_WORKER_PS, "partitions_worker_ps")                                    \
    X(CHAOS_CUTS_WORKER, "partitions_worker_client")                                   \
    X(CHAOS_ASSIGNS, "assigns") /* that have returned */                               \
    X(CHAOS_ADDS, "adds")                                                              \
    X(CHAOS_ASSIGNS_AGAIN, "assigns_checked_again") /* after a client's restart */     \
    X(CHAOS_RESOURCES, "resources")                 /* that were asked for */          \
    X(CHAOS_RESOURCES_AGAIN, "resources_restored")  /* ... by a client that goes on */ \
    X(CHAOS_TAKEN, "kept_taken")                    /* kept results, by calls */       \
    X(CHAOS_FETCHED, "kept_fetched")                /* ... by the client */            \
    X(CHAOS_MADE_AGAIN, "made_again")                                                  \
    X(CHAOS_SPECULATED, "second_attempts")                                             \
    X(CHAOS_SPECULATION_WON, "second_attempts_won")                                    \
    X(CHAOS_RECOVERED, "recoveries")         /* of ps, in all clients */               \
    X(CHAOS_AGED, "recoveries_of_aged_rows") /* ... past the rows' age */              \
    X(CHAOS_SAVED, "checkpoints_saved")      /* in all clients */                      \
    X(CHAOS_UNSAVED, "checkpoints_failed")                                             \
    X(CHAOS_TIMED, "calls_timed") /* that had a deadline */                            \
    X(CHAOS_LATE, "calls_late")   /* ... and took 2 s longer */

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

/* A call that is under way: its deadline, with that grace (coxi_now_ms); 0: none is. */
struct chaos_timed {
    atomic_uint_least64_t until_ms;
    _Atomic(uint32_t) timeout_ms;
    char name[32];
};

/* The operations of one writer, numbered from 1. */
struct chaos_written {
    atomic_uint_least64_t begun;    /* the last one that was asked for */
    atomic_uint_least64_t returned; /* the last one that holds */
};

/* A checkpoint that has been returned: what it must have of each, and may have. */
struct chaos_saved {
    atomic_uint_least64_t number; /* 0: this place is free */
    uint64_t least[CHAOS_WRITERS + 1];
    uint64_t most[CHAOS_WRITERS + 1];
};

struct chaos_journal {
    atomic_uint_least64_t counts[CHAOS_N_COUNTS];
    atomic_bool disk_is_full;
    atomic_bool has_late; /* `late` is taken */
    char late[160];       /* the first call that took too long */
    struct chaos_timed calls[CHAOS_CALLS];
    struct chaos_written written[CHAOS_WRITERS + 1]; /* the last: the model's */
    atomic_uint_least64_t last_saved; /* the highest number that has been returned */
    struct chaos_saved saves[CHAOS_SAVES];
};

enum { CHAOS_MODEL = CHAOS_WRITERS }; /* its place in `written` */

/* Maps the file, which is made where `create`. */
int chaos_journal_open(const char *path, bool create, struct chaos_journal **ret);
void chaos_journal_close(struct chaos_journal *journal); /* takes NULL */

const char *chaos_count_name(enum chaos_count count);
void chaos_count_add(struct chaos_journal *journal, enum chaos_count count, uint64_t n);
uint64_t chaos_count_of(const struct chaos_journal *journal, enum chaos_count count);

/* A call that has `timeout_ms` begins; then, with what this returned, it has ended. */
struct chaos_timed *chaos_call_begin(struct chaos_journal *journal, const char *name,
                                     int timeout_ms);
void chaos_call_end(struct chaos_journal *journal, struct chaos_timed *call);

/* Notes the calls that should have returned by now. */
void chaos_calls_look(struct chaos_journal *journal, uint64_t now_ms);

/* The client has gone, and its calls with it. */
void chaos_calls_clear(struct chaos_journal *journal);

/* A checkpoint begins; and has been returned as `number`. */
void chaos_save_begin(const struct chaos_journal *journal, struct chaos_saved *ret);
void chaos_save_end(struct chaos_journal *journal, const struct chaos_saved *begun,
                    uint64_t number);

/* What the checkpoint `number` (0: none) must have of a writer's operations, and may. */
void chaos_save_bounds(const struct chaos_journal *journal, uint64_t number, int writer,
                       uint64_t *ret_least, uint64_t *ret_most);

/* A client goes on from the checkpoint `number` (0: none): no more than what that must have has
 * returned, for who takes the next one. */
void chaos_saves_restore(struct chaos_journal *journal, uint64_t number);

#endif
