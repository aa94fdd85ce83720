/*
 * The records of a run in memory: what happened, in the order in which it happened. Each
 * record has a number (seq), which rises by 1, a time and a kind; a line of metrics.jsonl
 * is one record (checkpoint/history_file.h; docs/watching.md lists the kinds and their
 * members).
 *
 * Memory is bounded (COXI_RECORDS_BYTES). When there are too many records of a kind, the
 * oldest events, marks and descriptions of workers are dropped. Samples, and the scalars
 * of a name, are thinned: of the older half every second, fourth, ... record stays, evenly
 * over the whole run, and of the newer half all.
 *
 * Threads: any. Adding is a few hundred nanoseconds under a lock of its own, which is a
 * leaf: it may be called with any lock held.
 */
#ifndef COXI_CHECKPOINT_RECORDS_H
#define COXI_CHECKPOINT_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/record.h"
#include "common/buffer.h"

enum {
    COXI_RECORDS_BYTES = 16 << 20, /* more than all bounds below together */
    COXI_SCALAR_NAMES_MAX = 1024,  /* names of scalars, counted for each source */
    COXI_PENDING_MAX = 1 << 15,    /* records that wait for coxi_records_take */
    COXI_RECORDS_SOME_MAX = 256,   /* scalars that coxi_records_some is asked for */
};

struct coxi_records;

/* `pending`: records wait for coxi_records_take, too. COX_ENOMEM. */
int coxi_records_new(bool pending, struct coxi_records **ret);
void coxi_records_free(struct coxi_records *records); /* takes NULL */

/* Adds a record; everything in it is copied. Its seq: 0 for the next number, or a number
 * above all others; its t: 0 for now. `lasting`: it waits for coxi_records_take.
 * COX_ELIMIT: it is too long, or the name of a scalar is one too many. COX_ENOMEM. The
 * number that it got is in *ret_seq, unless that is NULL. */
int coxi_records_add(struct coxi_records *records, const struct coxi_record *record,
                     bool lasting, uint64_t *ret_seq);

/* The number of the newest record; 0: there is none. */
uint64_t coxi_records_last(struct coxi_records *records);

/* The next record gets a number above this one. */
void coxi_records_skip(struct coxi_records *records, uint64_t seq);

/*
 * Appends the records after number `seq` as lines of JSON, oldest first, about
 * `most` bytes at a time; *ret_seq: the number of the last line, or of the last record
 * if there is no line. Call again with that number while it rises. COX_ENOMEM.
 */
int coxi_records_since(struct coxi_records *records, uint64_t seq, size_t most,
                       struct coxi_buffer *out, uint64_t *ret_seq);

/*
 * The same for those who follow many scalars: of the new ones of all names, about `scalars`
 * (1 to COXI_RECORDS_SOME_MAX) have a line, and at least the newest of each name. All other
 * records have one. Costs the time for the lines, not for what is left out.
 */
int coxi_records_some(struct coxi_records *records, uint64_t seq, size_t scalars,
                      size_t most, struct coxi_buffer *out, uint64_t *ret_seq);

/*
 * Takes the records that wait: calls `take` for each of them, oldest first, without the
 * lock. *ret_lost: how many were dropped since the last call because more than
 * COXI_PENDING_MAX waited. One thread at a time.
 */
void coxi_records_take(struct coxi_records *records,
                       void (*take)(void *arg, const struct coxi_record *record),
                       void *arg, uint64_t *ret_lost);

/* Forgets the scalars that are void. */
void coxi_records_forget(struct coxi_records *records,
                         const struct coxi_repeated *repeated);

/* Forgets the records up to number `seq`. UINT64_MAX: all, and numbers begin anew. */
void coxi_records_clear(struct coxi_records *records, uint64_t seq);

#endif
