/*
 * Carries: shards that travel between a ps and its client, piece by piece, because the ps
 * does not see the directory of checkpoints (Exchange in schema/wire.fbs). A tenant has
 * a coxi_carry for snapshots, and one for restores. One carry is under way at a time; its
 * shard is written to a sink, or read from a source (checkpoint/place.h).
 *
 * The client asks for each turn, so neither side ever has more than a few pieces in
 * memory. A turn that comes before its carry begins waits for it. A carry that is over
 * never begins again: the client begins another one.
 *
 * Memory while a carry is under way: COXI_CARRY_LANES pieces for a snapshot, CACHE_BLOCKS
 * blocks (carry_in.c) for a restore. It counts in the budget of payloads (payloads.h).
 */
#ifndef COXI_PS_CARRY_H
#define COXI_PS_CARRY_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/place.h"
#include "net/message.h"

struct coxi_carry;
struct coxi_payloads;

/* `restores`: the client brings the pieces. `payloads` is borrowed. COX_ENOMEM. */
int coxi_carry_new(bool restores, struct coxi_payloads *payloads,
                   struct coxi_carry **ret);

/* No thread uses it any more. Takes NULL. */
void coxi_carry_free(struct coxi_carry *carry);

/* The ps ends: a carry that is under way ends soon with COX_ECANCELLED. Takes NULL. Any
 * thread. */
void coxi_carry_stop(struct coxi_carry *carry);

/* A turn has come, whose session has the ps, with that payload. Answers it now or later.
 * A connection's thread. */
void coxi_carry_turn(struct coxi_carry *carry, struct coxi_link *link,
                     const struct coxi_message *turn, const void *payload, size_t len);

/*
 * Begins the carry `id`. `check` is called now and then while the carry waits for turns,
 * on each thread that waits; a code other than 0 ends the wait with that error. COX_EAGAIN: this carry is over.
 * COX_ENOMEM. The calling thread writes to the sink, or several read from the source.
 */
int coxi_carry_begin(struct coxi_carry *carry, const struct coxi_session *session,
                     uint64_t id, int (*check)(void *arg), void *arg);

/* The sink of a snapshot's carry. Its `finish` returns when the client has every piece.
 * Errors: those of `check`, the client's own, COX_ECANCELLED. */
void coxi_carry_sink(struct coxi_carry *carry, struct coxi_file_sink *ret);

/* The source of a restore's carry, a file of `bytes` bytes. The same errors; COX_ENOMEM,
 * COX_EPROTO (the client sent something else). */
int coxi_carry_source(struct coxi_carry *carry, uint64_t bytes,
                      struct coxi_file_source *ret);

/* The carry `id` is over, if it has begun or not: all its turns are answered so. */
void coxi_carry_end(struct coxi_carry *carry, const struct coxi_session *session,
                    uint64_t id);

#endif
