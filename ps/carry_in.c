/*
 * The source of a carry (carry.h): asks the client for blocks of the file, keeps those
 * that were read last, and asks early for the block behind one that is read. A restore
 * reads a few arrays at a time, each from its beginning to its end.
 */
#include <stdlib.h>
#include <string.h>

#include "ps/carry_internal.h"

/* Two loaders read up to a dozen arrays each, and a block ahead in each array. */
enum { CACHE_BLOCKS = 64, BLOCK = COXI_CARRY_BLOCK };

static uint64_t count_blocks(const struct coxi_carry *carry) COXI_REQUIRES(carry->lock)
{
    return carry->bytes / BLOCK + (carry->bytes % BLOCK != 0);
}

static size_t block_len(const struct coxi_carry *carry, uint64_t index)
    COXI_REQUIRES(carry->lock)
{
    uint64_t left = carry->bytes - index * BLOCK;
    return left < BLOCK ? (size_t)left : BLOCK;
}

static struct coxi_carry_block *find(struct coxi_carry *carry, uint64_t index)
    COXI_REQUIRES(carry->lock)
{
    for (size_t i = 0; i < CACHE_BLOCKS; i++) {
        struct coxi_carry_block *block = &carry->blocks[i];
        if (block->state != COXI_BLOCK_FREE && block->index == index) {
            return block;
        }
    }
    return NULL;
}

/* The block that was not read for longest; NULL: all are on their way. */
static struct coxi_carry_block *find_room(struct coxi_carry *carry)
    COXI_REQUIRES(carry->lock)
{
    struct coxi_carry_block *oldest = NULL;
    for (size_t i = 0; i < CACHE_BLOCKS; i++) {
        struct coxi_carry_block *block = &carry->blocks[i];
        if (block->state == COXI_BLOCK_FREE) {
            return block;
        }
        if (block->state == COXI_BLOCK_HERE &&
            (oldest == NULL || block->used < oldest->used)) {
            oldest = block;
        }
    }
    return oldest;
}

/* The block is asked for, unless it is here or on its way. */
static void want(struct coxi_carry *carry, uint64_t index) COXI_REQUIRES(carry->lock)
{
    if (index < count_blocks(carry) && find(carry, index) == NULL) {
        struct coxi_carry_block *block = find_room(carry);
        if (block != NULL) {
            block->state = COXI_BLOCK_WANTED;
            block->index = index;
            block->used = ++carry->n_reads;
        }
    }
}

/* The wanted block that was wanted first. */
static struct coxi_carry_block *next_wanted(struct coxi_carry *carry)
    COXI_REQUIRES(carry->lock)
{
    struct coxi_carry_block *first = NULL;
    for (size_t i = 0; carry->blocks != NULL && i < CACHE_BLOCKS; i++) {
        struct coxi_carry_block *block = &carry->blocks[i];
        if (block->state == COXI_BLOCK_WANTED &&
            (first == NULL || block->used < first->used)) {
            first = block;
        }
    }
    return first;
}

struct coxi_carry_answer coxi_carry_ask(struct coxi_carry *carry)
{
    struct coxi_carry_answer answer = {0};
    struct coxi_carry_block *block = carry->given_up == 0 ? next_wanted(carry) : NULL;
    struct coxi_carry_lane *lane = block != NULL ? coxi_carry_next_lane(carry) : NULL;
    if (lane != NULL) {
        lane->turn = lane->waiting.turn;
        lane->held = true;
        lane->block = (size_t)(block - carry->blocks);
        lane->offset = block->index * BLOCK;
        lane->len = (uint32_t)block_len(carry, block->index);
        block->state = COXI_BLOCK_ASKED;
        answer = coxi_carry_take_waiting(carry, lane);
        coxi_carry_tell_held(carry, lane, &answer);
    }
    return answer;
}

void coxi_carry_take_piece(struct coxi_carry *carry, struct coxi_carry_lane *lane,
                           const void *payload, size_t len)
{
    struct coxi_carry_block *block = &carry->blocks[lane->block];
    if (len != lane->len) {
        coxi_carry_give_up(carry, COX_EPROTO,
                           "the client sent another number of bytes than it was asked");
        return;
    }
    memcpy(block->data, payload, len);
    block->state = COXI_BLOCK_HERE;
}

/* Waits until the block is here. *ret lives until the lock is released. */
static int await_block(struct coxi_carry *carry, uint64_t index,
                       struct coxi_carry_block **ret) COXI_REQUIRES(carry->lock)
{
    int r = carry->given_up;
    while (r == 0) {
        want(carry, index);
        want(carry, index + 1);
        struct coxi_carry_answer question = coxi_carry_ask(carry);
        if (question.link != NULL) {
            coxi_unlock(&carry->lock);
            coxi_carry_send(carry, &question);
            coxi_lock(&carry->lock);
            continue;
        }
        struct coxi_carry_block *block = find(carry, index);
        if (block != NULL && block->state == COXI_BLOCK_HERE) {
            block->used = ++carry->n_reads;
            *ret = block;
            return 0;
        }
        r = coxi_carry_wait(carry);
    }
    return coxi_error(r, "%s", carry->text);
}

static int carry_read(void *arg, uint64_t at, void *to, size_t len)
{
    struct coxi_carry *carry = arg;
    uint8_t *next = to;
    int r = 0;
    coxi_lock(&carry->lock);
    if (at > carry->bytes || len > carry->bytes - at) {
        r = coxi_error(COX_EFORMAT, "it has no byte %llu",
                       (unsigned long long)carry->bytes);
    }
    while (r == 0 && len > 0) {
        struct coxi_carry_block *block;
        size_t from = (size_t)(at % BLOCK);
        r = await_block(carry, at / BLOCK, &block);
        if (r == 0) {
            size_t n = len < BLOCK - from ? len : BLOCK - from;
            memcpy(next, block->data + from, n);
            next += n;
            at += n;
            len -= n;
        }
    }
    coxi_unlock(&carry->lock);
    return r;
}

void coxi_carry_free_blocks(struct coxi_carry *carry)
{
    for (size_t i = 0; carry->blocks != NULL && i < CACHE_BLOCKS; i++) {
        free(carry->blocks[i].data);
    }
    free(carry->blocks);
    carry->blocks = NULL;
}

static int make_blocks(struct coxi_carry *carry) COXI_REQUIRES(carry->lock)
{
    size_t n = carry->bytes < BLOCK ? (size_t)carry->bytes : BLOCK;
    int r = coxi_carry_hold(carry, (n + 1) * CACHE_BLOCKS);
    if (r != 0) {
        return r;
    }
    carry->blocks = calloc(CACHE_BLOCKS, sizeof(*carry->blocks));
    bool made = carry->blocks != NULL;
    for (size_t i = 0; made && i < CACHE_BLOCKS; i++) {
        carry->blocks[i].data = malloc(n + 1);
        made = carry->blocks[i].data != NULL;
    }
    return made ? 0 : coxi_error_memory("the pieces of a checkpoint");
}

int coxi_carry_source(struct coxi_carry *carry, uint64_t bytes,
                      struct coxi_file_source *ret)
{
    coxi_lock(&carry->lock);
    carry->bytes = bytes;
    int r = make_blocks(carry);
    coxi_unlock(&carry->lock);
    if (r == 0) {
        *ret = (struct coxi_file_source){carry_read, carry};
    }
    return r;
}
