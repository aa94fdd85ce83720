/*
 * The sink of a carry (carry.h): puts together pieces of what is written, and answers the
 * client's turns with them. Bytes that follow each other share a piece, so a shard of
 * many small variables does not need a turn for each. Thread: the one that writes.
 */
#include <string.h>

#include "ps/carry_internal.h"

/* Finds a lane for the next piece, which begins at that offset. */
static int begin_piece(struct coxi_carry *carry, uint64_t at) COXI_REQUIRES(carry->lock)
{
    struct coxi_carry_lane *lane = coxi_carry_next_lane(carry);
    int r = carry->given_up;
    while (r == 0 && lane == NULL) {
        r = coxi_carry_wait(carry);
        lane = coxi_carry_next_lane(carry);
    }
    if (r != 0) {
        return coxi_error(r, "%s", carry->text);
    }
    lane->turn = lane->waiting.turn;
    lane->offset = at;
    lane->len = 0;
    carry->filling = lane;
    return 0;
}

/* Sends the piece that was put together. Unlocks meanwhile. */
static void send_filled(struct coxi_carry *carry) COXI_REQUIRES(carry->lock)
{
    struct coxi_carry_lane *lane = carry->filling;
    if (lane == NULL) {
        return;
    }
    const struct coxi_carry_waiting *waiting = &lane->waiting;
    carry->filling = NULL;
    lane->held = true;
    if (!coxi_carry_is_active(carry, &waiting->session, waiting->carry)) {
        return; /* the client has given this carry up */
    }
    struct coxi_carry_answer answer = coxi_carry_take_waiting(carry, lane);
    coxi_carry_tell_held(carry, lane, &answer);
    coxi_unlock(&carry->lock);
    coxi_carry_send(carry, &answer);
    coxi_lock(&carry->lock);
}

static int carry_write(void *arg, uint64_t at, const void *data, size_t len)
{
    struct coxi_carry *carry = arg;
    const uint8_t *from = data;
    int r = 0;
    coxi_lock(&carry->lock);
    while (r == 0 && len > 0) {
        struct coxi_carry_lane *lane = carry->filling;
        if (lane != NULL &&
            (lane->len == COXI_CARRY_PIECE_MAX || lane->offset + lane->len != at)) {
            send_filled(carry);
        }
        r = carry->filling == NULL ? begin_piece(carry, at) : 0;
        if (r == 0) {
            lane = carry->filling;
            size_t room = COXI_CARRY_PIECE_MAX - lane->len;
            size_t n = len < room ? len : room;
            memcpy(lane->data + lane->len, from, n);
            lane->len += (uint32_t)n;
            from += n;
            at += n;
            len -= n;
        }
    }
    coxi_unlock(&carry->lock);
    return r;
}

static bool any_held(const struct coxi_carry *carry) COXI_REQUIRES(carry->lock)
{
    bool any = false;
    for (size_t i = 0; i < COXI_CARRY_LANES; i++) {
        any = any || carry->lanes[i].held;
    }
    return any;
}

/* Tells the lanes that wait that there is no more; the others are told when they have
 * their last piece. */
static int carry_finish(void *arg)
{
    struct coxi_carry *carry = arg;
    struct coxi_carry_lane *lane;
    int r = 0;
    coxi_lock(&carry->lock);
    send_filled(carry);
    carry->ending = true;
    while ((lane = coxi_carry_next_lane(carry)) != NULL) {
        struct coxi_carry_answer answer = coxi_carry_take_waiting(carry, lane);
        answer.message.exchanged.over = true;
        coxi_unlock(&carry->lock);
        coxi_carry_send(carry, &answer);
        coxi_lock(&carry->lock);
    }
    while (r == 0 && any_held(carry)) {
        r = coxi_carry_wait(carry);
    }
    r = carry->given_up;
    if (r != 0) {
        (void)coxi_error(r, "%s", carry->text);
    }
    coxi_unlock(&carry->lock);
    return r;
}

/* coxi_carry_end does all. */
static void carry_abandon(void *arg)
{
    (void)arg;
}

void coxi_carry_sink(struct coxi_carry *carry, struct coxi_file_sink *ret)
{
    *ret = (struct coxi_file_sink){carry_write, carry_finish, carry_abandon, carry};
}
