/*
 * See carry.h: turns, and the life of a carry.
 *
 * Invariants: a lane holds the answer to its last turn until the next turn comes, so that
 * a turn that is repeated on another connection gets the same answer. A turn of a carry
 * that has not begun waits in its lane, and takes the place of an older one there.
 *
 * Threads: connections bring turns; the thread of snapshots or restores, and those that
 * load rows, wait for them. Nothing is sent with the lock held.
 */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "ps/carry_internal.h"

/* ---- answers */

struct sending {
    struct coxi_carry *carry;
    struct coxi_carry_lane *lane;
};

static void end_use(struct coxi_carry *carry, struct coxi_carry_lane *lane)
{
    coxi_lock(&carry->lock);
    lane->users--;
    (void)pthread_cond_broadcast(&carry->changed);
    coxi_unlock(&carry->lock);
}

static void release_piece(void *arg)
{
    struct sending *sending = arg;
    end_use(sending->carry, sending->lane);
    free(sending);
}

/* Sends the answer with the lane's piece, which stays as it is until it is sent. */
static void send_piece(struct coxi_carry *carry, const struct coxi_carry_answer *answer)
{
    struct coxi_carry_lane *lane = answer->lane;
    struct sending *sending = malloc(sizeof(*sending));
    if (sending == NULL) {
        /* the client asks again on its next connection */
        coxi_link_close(answer->link, COX_ENOMEM, "no memory for an answer");
        end_use(carry, lane);
        return;
    }
    *sending = (struct sending){carry, lane};
    struct iovec segment = {lane->data, answer->message.exchanged.len};
    struct coxi_payload payload = {.segments = &segment,
                                   .n_segments = 1,
                                   .release = release_piece,
                                   .arg = sending};
    (void)coxi_message_send(answer->link, &answer->message, &payload, false);
}

void coxi_carry_send(struct coxi_carry *carry, struct coxi_carry_answer *answer)
{
    if (answer->link == NULL) {
        return;
    }
    if (answer->lane != NULL) {
        send_piece(carry, answer);
    } else {
        (void)coxi_message_send(answer->link, &answer->message, NULL, false);
    }
    coxi_link_unref(answer->link);
    answer->link = NULL;
}

/* Takes a reference to the link. */
static struct coxi_carry_answer answer_to(struct coxi_link *link, uint64_t request)
{
    struct coxi_carry_answer answer = {.link = link};
    answer.message.request = request;
    answer.message.kind = COXI_EXCHANGED;
    answer.message.exchanged.message = "";
    return answer;
}

struct coxi_carry_answer coxi_carry_take_waiting(struct coxi_carry *carry,
                                                 struct coxi_carry_lane *lane)
{
    (void)carry;
    struct coxi_carry_answer answer =
        answer_to(lane->waiting.link, lane->waiting.request);
    lane->waiting.link = NULL;
    return answer;
}

void coxi_carry_tell_held(struct coxi_carry *carry, struct coxi_carry_lane *lane,
                          struct coxi_carry_answer *answer)
{
    answer->message.exchanged.offset = lane->offset;
    answer->message.exchanged.len = lane->len;
    if (!carry->restores) {
        answer->lane = lane;
        lane->users++;
    }
}

/* ---- waiting */

bool coxi_carry_is_active(const struct coxi_carry *carry,
                          const struct coxi_session *session, uint64_t id)
{
    return carry->active != 0 && carry->active == id &&
           coxi_session_equal(&carry->active_session, session);
}

static bool is_over(const struct coxi_carry *carry, const struct coxi_session *session,
                    uint64_t id) COXI_REQUIRES(carry->lock)
{
    return carry->stopping || id == 0 ||
           (id <= carry->over && coxi_session_equal(&carry->session, session));
}

/* Every carry up to this one is over. */
static void note_over(struct coxi_carry *carry, const struct coxi_session *session,
                      uint64_t id) COXI_REQUIRES(carry->lock)
{
    if (!coxi_session_equal(&carry->session, session)) {
        carry->session = *session;
        carry->over = 0;
    }
    carry->over = carry->over > id ? carry->over : id;
}

struct coxi_carry_lane *coxi_carry_next_lane(struct coxi_carry *carry)
{
    struct coxi_carry_lane *found = NULL;
    for (size_t i = 0; i < COXI_CARRY_LANES; i++) {
        struct coxi_carry_lane *lane = &carry->lanes[i];
        const struct coxi_carry_waiting *waiting = &lane->waiting;
        bool may = waiting->link != NULL && !lane->held && lane->users == 0 &&
                   lane != carry->filling &&
                   coxi_carry_is_active(carry, &waiting->session, waiting->carry);
        if (may && (found == NULL || waiting->came < found->waiting.came)) {
            found = lane;
        }
    }
    return found;
}

void coxi_carry_give_up(struct coxi_carry *carry, int code, const char *text)
{
    if (carry->given_up == 0) {
        carry->given_up = code;
        strncpy(carry->text, text, sizeof(carry->text) - 1);
        carry->text[sizeof(carry->text) - 1] = '\0';
        (void)pthread_cond_broadcast(&carry->changed);
    }
}

/* Asks `check`, without the lock. */
static void check_now(struct coxi_carry *carry) COXI_REQUIRES(carry->lock)
{
    coxi_unlock(&carry->lock);
    int r = carry->check(carry->check_arg);
    coxi_lock(&carry->lock);
    if (r != 0) {
        coxi_carry_give_up(carry, r, coxi_error_text());
    }
}

int coxi_carry_wait(struct coxi_carry *carry)
{
    struct timespec until = coxi_deadline(COXI_CARRY_SLICE_MS);
    if (carry->given_up == 0 && !carry->stopping &&
        !coxi_wait_until(&carry->changed, &carry->lock, &until)) {
        check_now(carry);
    }
    if (carry->stopping) {
        coxi_carry_give_up(carry, COX_ECANCELLED, "this ps is ending");
    }
    return carry->given_up == 0 ? 0 : coxi_error(carry->given_up, "%s", carry->text);
}

/* ---- turns */

static void park(struct coxi_carry *carry, struct coxi_carry_lane *lane,
                 struct coxi_link *link, const struct coxi_message *turn,
                 struct coxi_link **ret_old) COXI_REQUIRES(carry->lock)
{
    *ret_old = lane->waiting.link;
    lane->waiting = (struct coxi_carry_waiting){.link = coxi_link_ref(link),
                                                .request = turn->request,
                                                .session = turn->exchange.session,
                                                .carry = turn->exchange.carry,
                                                .turn = turn->exchange.turn,
                                                .came = ++carry->n_came};
    (void)pthread_cond_broadcast(&carry->changed);
}

/* The client has the answer to the turn before this one. */
static void take_turn(struct coxi_carry *carry, struct coxi_carry_lane *lane,
                      const struct coxi_exchange *turn, const void *payload, size_t len)
    COXI_REQUIRES(carry->lock)
{
    if (turn->code != 0) {
        coxi_carry_give_up(carry, turn->code, turn->message);
    } else if (carry->restores && lane->held) {
        coxi_carry_take_piece(carry, lane, payload, len);
    }
    lane->held = false;
    (void)pthread_cond_broadcast(&carry->changed);
}

/* COX_EPROTO if the lane cannot have this turn after its last one. */
static int check_turn(const struct coxi_carry_lane *lane, uint64_t last, uint64_t turn)
{
    bool again =
        last != 0 && turn == last &&
        (lane->held || (lane->waiting.link != NULL && lane->waiting.turn == last));
    return turn == last + 1 || again
               ? 0
               : coxi_error(COX_EPROTO, "turn %llu of a lane after turn %llu",
                            (unsigned long long)turn, (unsigned long long)last);
}

/* Takes a turn, or finds its answer; *ret_old: a link that waited there, to be
 * released. */
static int place_turn(struct coxi_carry *carry, struct coxi_link *link,
                      const struct coxi_message *m, const void *payload, size_t len,
                      struct coxi_carry_answer *answer, struct coxi_link **ret_old)
    COXI_REQUIRES(carry->lock)
{
    const struct coxi_exchange *turn = &m->exchange;
    struct coxi_carry_lane *lane = &carry->lanes[turn->lane];
    bool active = coxi_carry_is_active(carry, &turn->session, turn->carry);
    uint64_t last = active ? lane->turn : 0;
    if (!active && turn->code != 0) { /* the client has nowhere to put the shard */
        note_over(carry, &turn->session, turn->carry);
    }
    if (is_over(carry, &turn->session, turn->carry)) {
        answer->message.exchanged.over = true;
        return 0;
    }
    int r = check_turn(lane, last, turn->turn);
    if (r != 0) {
        return r;
    }
    if (active && turn->turn == last && lane->held) {
        coxi_carry_tell_held(carry, lane, answer);
        return 0;
    }
    if (active && turn->turn == last + 1) {
        take_turn(carry, lane, turn, payload, len);
    }
    if (active && carry->ending) {
        answer->message.exchanged.over = true;
        return 0;
    }
    if (!active && carry->active != 0) {
        coxi_carry_give_up(carry, COX_ECANCELLED, "the client has begun another carry");
    }
    park(carry, lane, link, m, ret_old);
    coxi_link_unref(answer->link);
    answer->link = NULL;
    return 0;
}

void coxi_carry_turn(struct coxi_carry *carry, struct coxi_link *link,
                     const struct coxi_message *turn, const void *payload, size_t len)
{
    struct coxi_link *old = NULL;
    struct coxi_carry_answer question = {0};
    struct coxi_carry_answer answer = answer_to(coxi_link_ref(link), turn->request);
    int r = 0;
    if (turn->exchange.lane >= COXI_CARRY_LANES) {
        r = coxi_error(COX_EPROTO, "a carry has no lane %u", turn->exchange.lane);
    }
    coxi_lock(&carry->lock);
    if (r == 0) {
        r = place_turn(carry, link, turn, payload, len, &answer, &old);
    }
    if (r == 0 && carry->restores) {
        question = coxi_carry_ask(carry);
    }
    coxi_unlock(&carry->lock);
    if (r != 0) {
        answer.message.exchanged.code = r;
        answer.message.exchanged.message = coxi_error_text();
    }
    coxi_link_unref(old);
    coxi_carry_send(carry, &answer);
    coxi_carry_send(carry, &question);
}

/* ---- the life of a carry */

int coxi_carry_new(bool restores, struct coxi_payloads *payloads,
                   struct coxi_carry **ret)
{
    struct coxi_carry *carry = calloc(1, sizeof(*carry));
    if (carry == NULL) {
        return coxi_error_memory("carries");
    }
    carry->restores = restores;
    carry->payloads = payloads;
    coxi_mutex_init(&carry->lock);
    coxi_cond_init(&carry->changed);
    *ret = carry;
    return 0;
}

void coxi_carry_stop(struct coxi_carry *carry)
{
    if (carry != NULL) {
        coxi_lock(&carry->lock);
        carry->stopping = true;
        (void)pthread_cond_broadcast(&carry->changed);
        coxi_unlock(&carry->lock);
    }
}

int coxi_carry_hold(struct coxi_carry *carry, uint64_t bytes)
{
    int r = coxi_payloads_hold(carry->payloads, bytes);
    carry->held_bytes += r == 0 ? bytes : 0;
    return r;
}

/* Frees the memory for pieces. */
static void free_pieces(struct coxi_carry *carry) COXI_REQUIRES(carry->lock)
{
    coxi_payloads_drop(carry->payloads, carry->held_bytes);
    carry->held_bytes = 0;
    for (size_t i = 0; i < COXI_CARRY_LANES; i++) {
        free(carry->lanes[i].data);
        carry->lanes[i].data = NULL;
    }
    coxi_carry_free_blocks(carry);
}

void coxi_carry_free(struct coxi_carry *carry)
{
    if (carry != NULL) {
        coxi_unshared(&carry->lock);
        for (size_t i = 0; i < COXI_CARRY_LANES; i++) {
            coxi_link_unref(carry->lanes[i].waiting.link);
        }
        free_pieces(carry);
        (void)pthread_cond_destroy(&carry->changed);
        coxi_mutex_fini(&carry->lock);
        free(carry);
    }
}

/* Makes room for a snapshot's pieces. */
static int make_pieces(struct coxi_carry *carry) COXI_REQUIRES(carry->lock)
{
    if (carry->restores) {
        return 0;
    }
    int r = coxi_carry_hold(carry, (uint64_t)COXI_CARRY_LANES * COXI_CARRY_PIECE_MAX);
    for (size_t i = 0; r == 0 && i < COXI_CARRY_LANES; i++) {
        carry->lanes[i].data = malloc(COXI_CARRY_PIECE_MAX);
        if (carry->lanes[i].data == NULL) {
            r = coxi_error_memory("the pieces of a snapshot");
        }
    }
    if (r != 0) {
        free_pieces(carry);
    }
    return r;
}

int coxi_carry_begin(struct coxi_carry *carry, const struct coxi_session *session,
                     uint64_t id, int (*check)(void *arg), void *arg)
{
    coxi_lock(&carry->lock);
    int r = is_over(carry, session, id)
                ? coxi_error(COX_EAGAIN, "this shard's way to or from the client has "
                                         "ended: it has to be asked for again")
                : make_pieces(carry);
    if (r == 0) {
        note_over(carry, session, 0);
        carry->active = id;
        carry->active_session = *session;
        carry->ending = false;
        carry->given_up = 0;
        carry->filling = NULL;
        carry->check = check;
        carry->check_arg = arg;
        for (size_t i = 0; i < COXI_CARRY_LANES; i++) {
            carry->lanes[i].turn = 0;
            carry->lanes[i].held = false;
        }
    }
    coxi_unlock(&carry->lock);
    return r;
}

/* Waits until no link sends a piece any more: each ends that when it is closed, at the
 * latest. */
static void await_links(struct coxi_carry *carry) COXI_REQUIRES(carry->lock)
{
    for (size_t i = 0; i < COXI_CARRY_LANES; i++) {
        while (carry->lanes[i].users > 0) {
            coxi_wait_for_end(&carry->changed, &carry->lock);
        }
    }
}

void coxi_carry_end(struct coxi_carry *carry, const struct coxi_session *session,
                    uint64_t id)
{
    struct coxi_carry_answer answers[COXI_CARRY_LANES] = {{0}};
    coxi_lock(&carry->lock);
    bool was_active = coxi_carry_is_active(carry, session, id);
    note_over(carry, session, id);
    if (was_active) {
        carry->active = 0;
        await_links(carry);
        free_pieces(carry);
    }
    for (size_t i = 0; i < COXI_CARRY_LANES; i++) {
        struct coxi_carry_lane *lane = &carry->lanes[i];
        const struct coxi_carry_waiting *waiting = &lane->waiting;
        lane->held = lane->held && !was_active;
        if (waiting->link != NULL &&
            is_over(carry, &waiting->session, waiting->carry)) {
            answers[i] = coxi_carry_take_waiting(carry, lane);
            answers[i].message.exchanged.over = true;
        }
    }
    coxi_unlock(&carry->lock);
    for (size_t i = 0; i < COXI_CARRY_LANES; i++) {
        coxi_carry_send(carry, &answers[i]);
    }
}
