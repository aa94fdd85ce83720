/* Proofs that both ends of a connection have the run's key; and everything that is no
 * such proof. */
#include "net/handshake.h"

#include <string.h>

#include "tests/test.h"

struct two {
    struct coxi_handshake *dialler;
    struct coxi_handshake *acceptor;
};

/* A message as it is on the wire. */
struct said {
    uint8_t bytes[COXI_HANDSHAKE_MAX];
    size_t len;
};

static const struct coxi_key run_key = {.kind = COXI_KEY_RUN, .secret = {1, 2, 3}};
static const struct coxi_key other_key = {.kind = COXI_KEY_RUN, .secret = {1, 2, 4}};

static struct coxi_guard guard_of(const struct coxi_key *key, enum coxi_role role)
{
    return (struct coxi_guard){
        .key = *key, .self = {role, 3, 0x1234}, .seal = COXI_SEAL_MAC};
}

static void two_open_with(struct two *two, const struct coxi_guard *dialler,
                          const struct coxi_guard *acceptor)
{
    assert_code(0, coxi_handshake_dial(dialler, &two->dialler));
    assert_code(0, coxi_handshake_accept(acceptor, &two->acceptor));
}

static void two_open(struct two *two, const struct coxi_key *dialler,
                     const struct coxi_key *acceptor)
{
    const struct coxi_guard client = guard_of(dialler, COXI_ROLE_CLIENT);
    const struct coxi_guard ps = guard_of(acceptor, COXI_ROLE_PS);
    two_open_with(two, &client, &ps);
}

static void two_close(struct two *two)
{
    coxi_handshake_free(two->dialler);
    coxi_handshake_free(two->acceptor);
}

static struct said out_of(const struct coxi_handshake *handshake)
{
    struct said said;
    const uint8_t *bytes = coxi_handshake_out(handshake, &said.len);
    assert_in_range(said.len, 1, sizeof(said.bytes));
    memcpy(said.bytes, bytes, said.len);
    return said;
}

/* Passes a message on, whose length must be what the handshake asks for. */
static int take(struct coxi_handshake *handshake, const struct said *said)
{
    assert_int_equal(said->len, coxi_handshake_need(handshake));
    return coxi_handshake_take(handshake, said->bytes);
}

/* Passes the dialler's message on, and returns the acceptor's. */
static struct said answer_of(struct two *two)
{
    const struct said said = out_of(two->dialler);
    assert_code(0, take(two->acceptor, &said));
    return out_of(two->acceptor);
}

/* Passes both first messages on, and returns the dialler's proof. */
static struct said proof_of(struct two *two)
{
    const struct said said = answer_of(two);
    assert_code(0, take(two->dialler, &said));
    return out_of(two->dialler);
}

/* All three messages. */
static void prove(struct two *two)
{
    const struct said said = proof_of(two);
    assert_int_equal(0, coxi_handshake_need(two->dialler));
    assert_code(0, take(two->acceptor, &said));
    assert_int_equal(0, coxi_handshake_need(two->acceptor));
}

TEST(both_ends_learn_who_the_other_is)
{
    struct two two;
    two_open(&two, &run_key, &run_key);
    prove(&two);
    const struct coxi_agreed *of_ps = coxi_handshake_agreed(two.acceptor);
    const struct coxi_agreed *of_client = coxi_handshake_agreed(two.dialler);
    assert_int_equal(COXI_ROLE_CLIENT, of_ps->peer.role);
    assert_int_equal(3, of_ps->peer.index);
    assert_int_equal(0x1234, of_ps->peer.run);
    assert_int_equal(COXI_ROLE_PS, of_client->peer.role);
    assert_memory_equal(of_ps->send_key, of_client->receive_key, COXI_KEY_BYTES);
    assert_memory_equal(of_ps->receive_key, of_client->send_key, COXI_KEY_BYTES);
    assert_memory_not_equal(of_ps->send_key, of_ps->receive_key, COXI_KEY_BYTES);
    assert_int_equal(of_ps->cipher, of_client->cipher);
    assert_true(of_ps->cipher == COXI_CIPHER_AES_128_GCM ||
                of_ps->cipher == COXI_CIPHER_CHACHA20_POLY1305);
    two_close(&two);
}

TEST(the_stronger_wish_for_a_seal_wins)
{
    for (int a = COXI_SEAL_NONE; a <= COXI_SEAL_FULL; a++) {
        for (int b = COXI_SEAL_NONE; b <= COXI_SEAL_FULL; b++) {
            struct coxi_guard dialler = guard_of(&run_key, COXI_ROLE_CLIENT);
            struct coxi_guard acceptor = guard_of(&run_key, COXI_ROLE_WORKER);
            struct two two;
            dialler.seal = (enum coxi_seal)a;
            acceptor.seal = (enum coxi_seal)b;
            two_open_with(&two, &dialler, &acceptor);
            prove(&two);
            assert_int_equal(a > b ? a : b, coxi_handshake_agreed(two.dialler)->seal);
            assert_int_equal(a > b ? a : b, coxi_handshake_agreed(two.acceptor)->seal);
            two_close(&two);
        }
    }
}

TEST(keys_of_two_connections_differ)
{
    struct two first;
    struct two second;
    two_open(&first, &run_key, &run_key);
    two_open(&second, &run_key, &run_key);
    prove(&first);
    prove(&second);
    assert_memory_not_equal(coxi_handshake_agreed(first.dialler)->send_key,
                            coxi_handshake_agreed(second.dialler)->send_key,
                            COXI_KEY_BYTES);
    two_close(&first);
    two_close(&second);
}

/* ---- attacks */

TEST(a_dialler_with_another_key_is_denied)
{
    struct two two;
    two_open(&two, &other_key, &run_key);
    struct said said = out_of(two.dialler);
    assert_code(COX_EDENIED, take(two.acceptor, &said));
    assert_int_equal(0, coxi_handshake_need(two.acceptor));
    two_close(&two);
}

/* The acceptor has another key, and answers a dialler that has it, too. */
TEST(an_acceptor_with_another_key_is_denied)
{
    struct two true_two;
    struct two false_two;
    two_open(&true_two, &run_key, &run_key);
    two_open(&false_two, &other_key, &other_key);
    const struct said said = answer_of(&false_two);
    assert_code(COX_EDENIED, take(true_two.dialler, &said));
    two_close(&true_two);
    two_close(&false_two);
}

TEST(garbage_is_denied)
{
    static const uint8_t values[] = {0, 0xff, 'G'};
    for (size_t i = 0; i < sizeof(values); i++) {
        struct said said = {.len = COXI_HANDSHAKE_DIAL};
        struct two two;
        memset(said.bytes, values[i], sizeof(said.bytes));
        two_open(&two, &run_key, &run_key);
        assert_code(COX_EDENIED, take(two.acceptor, &said));
        said.len = COXI_HANDSHAKE_ACCEPT;
        assert_code(COX_EDENIED, take(two.dialler, &said));
        two_close(&two);
    }
}

/* A reader proves itself as a client. */
TEST(the_proof_of_another_role_is_denied)
{
    struct coxi_key reader = {.kind = COXI_KEY_READER};
    assert_true(coxi_key_of_role(&run_key, COXI_ROLE_TOOL, reader.secret));
    struct coxi_guard as_client = guard_of(&reader, COXI_ROLE_CLIENT);
    const struct coxi_guard as_reader = guard_of(&reader, COXI_ROLE_TOOL);
    const struct coxi_guard ps = guard_of(&run_key, COXI_ROLE_PS);
    struct coxi_handshake *none;
    assert_code(COX_ENOMEM, coxi_handshake_dial(&as_client, &none));
    struct two two;
    two_open_with(&two, &as_reader, &ps);
    struct said said = out_of(two.dialler);
    struct said forged = said;
    forged.bytes[6] = COXI_ROLE_CLIENT;
    assert_code(COX_EDENIED, take(two.acceptor, &forged));
    two_close(&two);
    two_open_with(&two, &as_reader, &ps);
    prove(&two);
    assert_int_equal(COXI_ROLE_TOOL, coxi_handshake_agreed(two.acceptor)->peer.role);
    two_close(&two);
}

static struct said dial_of(struct two *two)
{
    return out_of(two->dialler);
}

/* Flips each bit of a message of this length in turn, and passes it on. */
static void flip(struct said (*message_of)(struct two *two), size_t len)
{
    for (size_t bit = 0; bit < len * 8; bit++) {
        struct two two;
        two_open(&two, &run_key, &run_key);
        struct said said = message_of(&two);
        said.bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
        int r = take(len == COXI_HANDSHAKE_ACCEPT ? two.dialler : two.acceptor, &said);
        assert_true(r == COX_EDENIED ||
                    (len == COXI_HANDSHAKE_DIAL && r == COX_EVERSION));
        two_close(&two);
    }
}

/* Each bit that somebody between the two may flip: nobody comes through. */
TEST(a_flipped_bit_is_denied)
{
    flip(dial_of, COXI_HANDSHAKE_DIAL);
    flip(answer_of, COXI_HANDSHAKE_ACCEPT);
    flip(proof_of, COXI_HANDSHAKE_PROOF);
}

/* Somebody has recorded a whole handshake, and plays the dialler again. */
TEST(a_replayed_handshake_is_denied)
{
    struct two two;
    two_open(&two, &run_key, &run_key);
    const struct said dial = out_of(two.dialler);
    const struct said answer = answer_of(&two);
    assert_code(0, take(two.dialler, &answer));
    const struct said proof = out_of(two.dialler);
    assert_code(0, take(two.acceptor, &proof));
    struct two later;
    two_open(&later, &run_key, &run_key);
    assert_code(0, take(later.acceptor, &dial));
    assert_code(COX_EDENIED, take(later.acceptor, &proof));
    assert_code(COX_EDENIED, take(later.dialler, &answer)); /* as an acceptor */
    two_close(&two);
    two_close(&later);
}

/* Somebody sends an end its own bytes. */
TEST(a_reflected_handshake_is_denied)
{
    struct two two;
    two_open(&two, &run_key, &run_key);
    struct said dial = out_of(two.dialler);
    const struct said answer = answer_of(&two);
    struct said reflected = {.len = COXI_HANDSHAKE_PROOF};
    memcpy(reflected.bytes, answer.bytes + answer.len - COXI_HANDSHAKE_PROOF,
           COXI_HANDSHAKE_PROOF);
    assert_code(COX_EDENIED, take(two.acceptor, &reflected));
    dial.len = COXI_HANDSHAKE_ACCEPT;
    assert_code(COX_EDENIED, take(two.dialler, &dial));
    two_close(&two);
}

/* A share with which everybody makes the same secret. */
TEST(a_share_without_a_secret_is_denied)
{
    struct two two;
    two_open(&two, &run_key, &run_key);
    struct said said = answer_of(&two);
    memset(said.bytes + said.len - COXI_HANDSHAKE_PROOF - 32, 0, 32);
    assert_code(COX_EDENIED, take(two.dialler, &said));
    two_close(&two);
}

TEST(an_end_that_has_failed_takes_nothing)
{
    struct two two;
    two_open(&two, &run_key, &run_key);
    struct said good = out_of(two.dialler);
    struct said bad = good;
    bad.bytes[100] ^= 1;
    assert_code(COX_EDENIED, take(two.acceptor, &bad));
    assert_int_equal(0, coxi_handshake_need(two.acceptor));
    assert_int_equal(COX_EDENIED, coxi_handshake_take(two.acceptor, good.bytes));
    two_close(&two);
}
