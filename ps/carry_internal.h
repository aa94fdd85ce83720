/* Shared by ps/carry.c, carry_out.c (sinks) and carry_in.c (sources). */
#ifndef COXI_PS_CARRY_INTERNAL_H
#define COXI_PS_CARRY_INTERNAL_H

#include "common/error.h"
#include "common/sync.h"
#include "ps/carry.h"
#include "ps/payloads.h"

enum { COXI_CARRY_SLICE_MS = 100 }; /* between two checks */

/* A turn that has no answer yet. */
struct coxi_carry_waiting {
    struct coxi_link *link; /* NULL: there is none */
    uint64_t request;
    struct coxi_session session;
    uint64_t carry;
    uint64_t turn;
    uint64_t came; /* turns are answered in the order in which they came */
};

struct coxi_carry_lane {
    struct coxi_carry_waiting waiting;

    /* ---- of the carry that is under way */
    uint64_t turn; /* the last one that was taken; 0: none */
    bool held;     /* its answer is kept, until the next turn says that it has come */
    uint64_t offset;
    uint32_t len;
    uint8_t *data;  /* snapshots: the piece */
    unsigned users; /* links that are sending the piece */
    size_t block;   /* restores: the one that was asked for */
};

enum coxi_carry_state {
    COXI_BLOCK_FREE,
    COXI_BLOCK_WANTED,
    COXI_BLOCK_ASKED,
    COXI_BLOCK_HERE,
};

/* A part of the file of a restore. */
struct coxi_carry_block {
    enum coxi_carry_state state;
    uint64_t index; /* its place in the file, in blocks */
    uint64_t used;  /* when it was last read */
    uint8_t *data;
};

struct coxi_carry {
    bool restores;
    struct coxi_payloads *payloads;
    struct coxi_mutex lock; /* leaf; not held while something is sent */
    pthread_cond_t changed;

    /* guarded by the lock */
    bool stopping;
    struct coxi_session
        session; /* of the next: every carry of it up to `over` is over */
    uint64_t over;
    uint64_t active; /* is under way; 0: none is */
    struct coxi_session active_session;
    uint64_t held_bytes; /* of the budget */
    bool ending;         /* every piece was sent; the client need not have it yet */
    int given_up;        /* the code with which it ends; 0: it goes on */
    char text[COXI_ERROR_TEXT_MAX];
    uint64_t n_came;
    struct coxi_carry_lane lanes[COXI_CARRY_LANES];
    struct coxi_carry_lane *filling; /* snapshots: its piece is being put together */
    struct coxi_carry_block *blocks; /* restores */
    uint64_t bytes;
    uint64_t n_reads;

    int (*check)(void *arg);
    void *check_arg;
};

/* An answer that is to be sent when the lock is released. */
struct coxi_carry_answer {
    struct coxi_link *link; /* NULL: there is none */
    struct coxi_message message;
    struct coxi_carry_lane *lane; /* whose piece follows; NULL: nothing does */
};

/* The answer to the turn that waits in the lane; it waits no more. */
struct coxi_carry_answer coxi_carry_take_waiting(struct coxi_carry *carry,
                                                 struct coxi_carry_lane *lane)
    COXI_REQUIRES(carry->lock);

/* The answer gets what the lane holds. */
void coxi_carry_tell_held(struct coxi_carry *carry, struct coxi_carry_lane *lane,
                          struct coxi_carry_answer *answer) COXI_REQUIRES(carry->lock);

/* True if that carry is under way. */
bool coxi_carry_is_active(const struct coxi_carry *carry,
                          const struct coxi_session *session, uint64_t id)
    COXI_REQUIRES(carry->lock);

/* Sends and frees it. Without the lock. */
void coxi_carry_send(struct coxi_carry *carry, struct coxi_carry_answer *answer);

/* The lane whose turn has waited longest for an answer of the carry that is under way;
 * NULL: none waits. */
struct coxi_carry_lane *coxi_carry_next_lane(struct coxi_carry *carry)
    COXI_REQUIRES(carry->lock);

/* The carry ends with this code and text, unless another one came first. */
void coxi_carry_give_up(struct coxi_carry *carry, int code, const char *text)
    COXI_REQUIRES(carry->lock);

/* Takes so many bytes from the budget, until the carry ends. COX_ENOMEM. */
int coxi_carry_hold(struct coxi_carry *carry, uint64_t bytes)
    COXI_REQUIRES(carry->lock);

/* Waits for a change, once; returns the error that ends the carry, or 0. Unlocks
 * meanwhile. */
int coxi_carry_wait(struct coxi_carry *carry) COXI_REQUIRES(carry->lock);

/* ---- carry_in.c */

/* The piece that the lane asked for has come. */
void coxi_carry_take_piece(struct coxi_carry *carry, struct coxi_carry_lane *lane,
                           const void *payload, size_t len) COXI_REQUIRES(carry->lock);

/* The next question to the client; without a link: nothing to ask, or no turn waits. */
struct coxi_carry_answer coxi_carry_ask(struct coxi_carry *carry)
    COXI_REQUIRES(carry->lock);

void coxi_carry_free_blocks(struct coxi_carry *carry) COXI_REQUIRES(carry->lock);

#endif
