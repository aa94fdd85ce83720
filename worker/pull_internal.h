/*
 * What pull.c and pull_listed.c share: a fetch, which is a pull of a step, with the
 * request to each ps and the places of the answers.
 *
 * Threads: a slot; answers come on a ps client's thread, one for each part at a time.
 */
#ifndef COXI_WORKER_PULL_INTERNAL_H
#define COXI_WORKER_PULL_INTERNAL_H

#include "worker/attempt.h"

/* A part of an answer: rows of one variable, and where they go. */
struct coxi_piece {
    const struct coxi_variable *variable;
    uint8_t *to; /* the step's memory for the first row; scattered: for place 0 */
    size_t count;
    size_t row_bytes;
    size_t wire_bytes; /* of a row in the answer */
    bool scattered;    /* each row has a place of its own ... */
    size_t places;     /* ... listed in the part's `places`, from this one on */
    /* keeps the values of shard `shard`; NULL: they are not kept */
    struct coxi_copy *copy;
    size_t shard;
    uint64_t version; /* the version that the request names; 0: none */
    bool is_noted;    /* the version that the answer tells is noted ... */
    size_t place;     /* ... at this place of coxi_versions */
};

/* The request to one ps, and its answer. */
struct coxi_part {
    struct coxi_psc_request request; /* must be the first member */
    struct coxi_fetch *fetch;
    struct iovec segment;
    uint64_t incarnation;
    struct coxi_buffer items;    /* struct coxi_pull_item */
    struct coxi_buffer list;     /* u64: keys and row numbers */
    struct coxi_buffer places;   /* u32: of the rows of scattered pieces */
    struct coxi_buffer pieces;   /* struct coxi_piece: where the answer goes */
    size_t answer_len;           /* bytes of the answer if the ps sends all values */
    struct coxi_buffer values;   /* the answer, if it has to wait for the step */
    struct coxi_buffer versions; /* u64: the versions that came with it */
};

/* A list in which rows occur more than once: for each of its n entries, the number of
 * the received row that belongs there. */
struct coxi_doubled {
    uint8_t *to;
    size_t row_bytes;
    size_t n;
    size_t places; /* index of its first entry in the fetch's `places` */
};

struct coxi_fetch {
    struct coxi_attempt *attempt; /* whose pull it is now */
    bool under_way;
    bool at_once;
    struct coxi_answers answers;
    struct coxi_buffer places;    /* u32 */
    struct coxi_buffer doubled;   /* struct coxi_doubled */
    struct coxi_base_pulls bases; /* pulls whose values are kept */
    uint32_t n_parts;
    struct coxi_part parts[]; /* one for each ps */
};

/* ---- pull.c */

/* Adds a piece to the request to a ps; `begin`: its first row, or COXI_ROWS_LISTED. */
int coxi_pull_add_piece(struct coxi_part *part, uint64_t begin,
                        const struct coxi_piece *piece);

/* If the staleness of the variable's gradients is counted, asks for the version of the
 * piece, which belongs to the i-th of its places. COX_ENOMEM. */
int coxi_pull_ask_version(struct coxi_fetch *fetch, const struct cox_variable *variable,
                          size_t i, struct coxi_piece *piece);

/* ---- pull_listed.c */

/* Puts the listed rows of a pull into the requests to their ps. COX_ENOMEM. */
int coxi_pull_listed(struct coxi_fetch *fetch, const struct cox_pull *pull);

/* After all answers are delivered: copies rows that were asked for more than once to
 * all their places. */
void coxi_pull_move_apart(const struct coxi_fetch *fetch);

#endif
