/*
 * See handshake.h. A handshake goes through these states:
 *
 *   dialler:   WAITS_FOR_ACCEPT -> OVER
 *   acceptor:  WAITS_FOR_DIAL -> WAITS_FOR_PROOF -> OVER
 *
 * After an error the state is FAILED, and the handshake takes no more bytes.
 */
#include "net/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

enum {
    DIAL_MAGIC = 0x314b5843,   /* "CXK1" */
    ACCEPT_MAGIC = 0x324b5843, /* "CXK2" */
    VERSION = 1,
    NONCE = 32,
    SHARE = 32,
    SHARED = 32,
};

enum state { WAITS_FOR_ACCEPT, WAITS_FOR_DIAL, WAITS_FOR_PROOF, OVER, FAILED };

/* The messages as they are on the wire: little-endian, like every machine that the
 * codec supports (schema/wire.h). */
struct dial_message {
    uint32_t magic;
    uint16_t version;
    uint8_t role;
    uint8_t seal;
    uint32_t index;
    uint32_t ciphers;
    uint64_t run;
    uint64_t key; /* its id */
    uint8_t nonce[NONCE];
    uint8_t share[SHARE];
    uint8_t tag[COXI_HANDSHAKE_PROOF];
};

struct accept_message {
    uint32_t magic;
    uint16_t version;
    uint8_t role;
    uint8_t seal;
    uint32_t index;
    uint32_t cipher;
    uint8_t nonce[NONCE];
    uint8_t share[SHARE];
    uint8_t proof[COXI_HANDSHAKE_PROOF];
};

_Static_assert(sizeof(struct dial_message) == COXI_HANDSHAKE_DIAL, "no gaps");
_Static_assert(sizeof(struct accept_message) == COXI_HANDSHAKE_ACCEPT, "no gaps");

/* The secrets that are derived from the key and the shared secret. */
struct secrets {
    uint8_t accept_proof[COXI_HANDSHAKE_PROOF];
    uint8_t dial_proof[COXI_HANDSHAKE_PROOF];
    uint8_t dial_key[COXI_KEY_BYTES]; /* for the frames that the dialler sends */
    uint8_t accept_key[COXI_KEY_BYTES];
};

struct coxi_handshake {
    struct coxi_guard guard;
    enum state state;
    EVP_PKEY *share; /* ours, with its private half */
    struct dial_message dial;
    struct accept_message accept;
    struct secrets secrets;
    struct coxi_agreed agreed;
    const uint8_t *out;
    size_t out_len;
};

/* ---- pieces */

static int refused(void)
{
    return coxi_error(COX_ENOMEM, "a handshake: no memory, or no random numbers");
}

/* Makes our share, and writes its public half. */
static bool share_new(EVP_PKEY **ret, uint8_t public[SHARE])
{
    size_t len = SHARE;
    *ret = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
    return *ret != NULL && EVP_PKEY_get_raw_public_key(*ret, public, &len) == 1;
}

/* Combines our share with the peer's into the shared secret. False also if the peer's
 * share would give the same secret with every other share. */
static bool share_combine(EVP_PKEY *ours, const uint8_t theirs[SHARE],
                          uint8_t ret[SHARED])
{
    size_t len = SHARED;
    EVP_PKEY *peer = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, theirs, SHARE);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(ours, NULL);
    bool done = peer != NULL && ctx != NULL && EVP_PKEY_derive_init(ctx) == 1 &&
                EVP_PKEY_derive_set_peer(ctx, peer) == 1 &&
                EVP_PKEY_derive(ctx, ret, &len) == 1 && len == SHARED;
    EVP_PKEY_CTX_free(ctx);
    EVP_PKEY_free(peer);
    return done;
}

/* The tag of the dialler's message. */
static bool tag_of(const uint8_t key[COXI_KEY_BYTES], const struct dial_message *dial,
                   uint8_t ret[COXI_HANDSHAKE_PROOF])
{
    unsigned len = COXI_HANDSHAKE_PROOF;
    return HMAC(EVP_sha256(), key, COXI_KEY_BYTES, (const uint8_t *)dial,
                offsetof(struct dial_message, tag), ret, &len) != NULL;
}

/* The salt: the hash of all that was said before the proofs. */
static void hash_both(const struct coxi_handshake *handshake, uint8_t ret[32])
{
    uint8_t both[sizeof(struct dial_message) + offsetof(struct accept_message, proof)];
    memcpy(both, &handshake->dial, sizeof(handshake->dial));
    memcpy(both + sizeof(handshake->dial), &handshake->accept,
           offsetof(struct accept_message, proof));
    (void)SHA256(both, sizeof(both), ret);
}

/* Derives the proofs and keys, once both messages are known. */
static bool derive(struct coxi_handshake *handshake, const uint8_t theirs[SHARE])
{
    uint8_t both[COXI_KEY_BYTES + SHARED];
    uint8_t salt[SHA256_DIGEST_LENGTH];
    enum coxi_role role = (enum coxi_role)handshake->dial.role;
    bool done = coxi_key_of_role(&handshake->guard.key, role, both) &&
                share_combine(handshake->share, theirs, both + COXI_KEY_BYTES);
    if (done) {
        hash_both(handshake, salt);
        done = coxi_hkdf(both, sizeof(both), salt, sizeof(salt), "coxswain handshake 1",
                         (uint8_t *)&handshake->secrets, sizeof(handshake->secrets));
    }
    OPENSSL_cleanse(both, sizeof(both));
    return done;
}

/* Fills in what was agreed; which key is for sending depends on our side. */
static void agree(struct coxi_handshake *handshake, bool dialled)
{
    const struct secrets *secrets = &handshake->secrets;
    struct coxi_agreed *agreed = &handshake->agreed;
    agreed->seal = (enum coxi_seal)handshake->accept.seal;
    agreed->cipher = handshake->accept.cipher;
    agreed->rekey_records = handshake->guard.rekey_records;
    agreed->peer.role =
        (enum coxi_role)(dialled ? handshake->accept.role : handshake->dial.role);
    agreed->peer.index = dialled ? handshake->accept.index : handshake->dial.index;
    agreed->peer.key = handshake->guard.self.key;
    agreed->peer.run = dialled ? COXI_RUN_UNNAMED : handshake->dial.run;
    memcpy(agreed->send_key, dialled ? secrets->dial_key : secrets->accept_key,
           COXI_KEY_BYTES);
    memcpy(agreed->receive_key, dialled ? secrets->accept_key : secrets->dial_key,
           COXI_KEY_BYTES);
    handshake->state = OVER;
}

static bool is_equal(const uint8_t *a, const uint8_t *b)
{
    return CRYPTO_memcmp(a, b, COXI_HANDSHAKE_PROOF) == 0;
}

/* The ciphers that we offer: AES-GCM only on a processor with AES instructions, where
 * it is the fastest. */
static uint32_t our_ciphers(void)
{
    bool has_aes = false;
#ifdef __x86_64__
    has_aes = __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
#endif
    return has_aes ? COXI_CIPHER_AES_128_GCM | COXI_CIPHER_CHACHA20_POLY1305
                   : COXI_CIPHER_CHACHA20_POLY1305;
}

/* ---- beginning */

static int handshake_new(const struct coxi_guard *guard, enum state state,
                         struct coxi_handshake **ret)
{
    struct coxi_handshake *handshake = calloc(1, sizeof(*handshake));
    if (handshake == NULL) {
        return refused();
    }
    handshake->guard = *guard;
    handshake->state = state;
    *ret = handshake;
    return 0;
}

int coxi_handshake_accept(const struct coxi_guard *guard, struct coxi_handshake **ret)
{
    return handshake_new(guard, WAITS_FOR_DIAL, ret);
}

int coxi_handshake_dial(const struct coxi_guard *guard, struct coxi_handshake **ret)
{
    struct coxi_handshake *handshake = NULL;
    uint8_t key[COXI_KEY_BYTES];
    int r = handshake_new(guard, WAITS_FOR_ACCEPT, &handshake);
    if (r != 0) {
        return r;
    }
    struct dial_message *dial = &handshake->dial;
    *dial = (struct dial_message){
        .magic = DIAL_MAGIC,
        .version = VERSION,
        .role = (uint8_t)guard->self.role,
        .seal = (uint8_t)guard->seal,
        .index = guard->self.index,
        .ciphers = our_ciphers(),
        .run = guard->self.run,
    };
    bool done = RAND_bytes(dial->nonce, NONCE) == 1 &&
                share_new(&handshake->share, dial->share) &&
                coxi_key_of_role(&guard->key, guard->self.role, key) &&
                coxi_key_id(key, &dial->key) && tag_of(key, dial, dial->tag);
    OPENSSL_cleanse(key, sizeof(key));
    if (!done) {
        coxi_handshake_free(handshake);
        return refused();
    }
    handshake->out = (const uint8_t *)dial;
    handshake->out_len = sizeof(*dial);
    *ret = handshake;
    return 0;
}

void coxi_handshake_free(struct coxi_handshake *handshake)
{
    if (handshake != NULL) {
        EVP_PKEY_free(handshake->share);
        OPENSSL_cleanse(handshake, sizeof(*handshake));
        free(handshake);
    }
}

const uint8_t *coxi_handshake_out(const struct coxi_handshake *handshake,
                                  size_t *ret_len)
{
    *ret_len = handshake->out_len;
    return handshake->out;
}

size_t coxi_handshake_need(const struct coxi_handshake *handshake)
{
    switch (handshake->state) {
    case WAITS_FOR_ACCEPT:
        return COXI_HANDSHAKE_ACCEPT;
    case WAITS_FOR_DIAL:
        return COXI_HANDSHAKE_DIAL;
    case WAITS_FOR_PROOF:
        return COXI_HANDSHAKE_PROOF;
    case OVER:
    case FAILED:
        break;
    }
    return 0;
}

const struct coxi_agreed *coxi_handshake_agreed(const struct coxi_handshake *handshake)
{
    return &handshake->agreed;
}

/* ---- taking the peer's bytes */

/* Takes the dialler's key from the keyring, if there is one. */
static void choose_key(struct coxi_guard *guard, const struct dial_message *dial)
{
    if (guard->keys != NULL) {
        guard->key = (struct coxi_key){.kind = COXI_KEY_NONE};
        (void)coxi_keyring_find(guard->keys, (enum coxi_role)dial->role, dial->key,
                                &guard->key, &guard->self.key);
    }
}

bool coxi_handshake_begins(uint32_t magic)
{
    return magic == DIAL_MAGIC;
}

/* Checks that the dialler has the key of its role. */
static int check_dial(struct coxi_handshake *handshake)
{
    const struct dial_message *dial = &handshake->dial;
    uint8_t key[COXI_KEY_BYTES];
    uint8_t tag[COXI_HANDSHAKE_PROOF];
    if (dial->magic != DIAL_MAGIC) {
        return coxi_error(COX_EDENIED, "a peer has not proved that it has the key");
    }
    if (dial->version != VERSION) {
        return coxi_error(COX_EVERSION, "a peer proves itself by version %u, we by %d",
                          dial->version, VERSION);
    }
    choose_key(&handshake->guard, dial);
    bool is_ours =
        coxi_key_of_role(&handshake->guard.key, (enum coxi_role)dial->role, key) &&
        tag_of(key, dial, tag) && is_equal(tag, dial->tag) &&
        dial->seal <= COXI_SEAL_FULL;
    OPENSSL_cleanse(key, sizeof(key));
    if (is_ours && handshake->guard.seen != NULL &&
        coxi_seen_before(handshake->guard.seen, dial->tag)) {
        return coxi_error(COX_EDENIED,
                          "a peer repeats the first message of another connection");
    }
    return is_ours ? 0 : coxi_error(COX_EDENIED, "a peer has another key, or none");
}

/* Makes the acceptor's message, which chooses the stronger seal, and a cipher that both
 * sides have. */
static int answer(struct coxi_handshake *handshake)
{
    const struct coxi_guard *guard = &handshake->guard;
    uint32_t common = handshake->dial.ciphers & our_ciphers();
    struct accept_message *accept = &handshake->accept;
    *accept = (struct accept_message){
        .magic = ACCEPT_MAGIC,
        .version = VERSION,
        .role = (uint8_t)guard->self.role,
        .seal = guard->seal > handshake->dial.seal ? (uint8_t)guard->seal
                                                   : handshake->dial.seal,
        .index = guard->self.index,
        .cipher = common & -common, /* its lowest bit */
    };
    if (common == 0) {
        return coxi_error(COX_EDENIED, "a peer has no cipher that we have");
    }
    if (RAND_bytes(accept->nonce, NONCE) != 1 ||
        !share_new(&handshake->share, accept->share)) {
        return refused();
    }
    if (!derive(handshake, handshake->dial.share)) {
        return coxi_error(COX_EDENIED, "a peer has sent no share");
    }
    memcpy(accept->proof, handshake->secrets.accept_proof, COXI_HANDSHAKE_PROOF);
    handshake->out = (const uint8_t *)accept;
    handshake->out_len = sizeof(*accept);
    handshake->state = WAITS_FOR_PROOF;
    return 0;
}

static int take_dial(struct coxi_handshake *handshake, const uint8_t *bytes)
{
    memcpy(&handshake->dial, bytes, sizeof(handshake->dial));
    int r = check_dial(handshake);
    return r == 0 ? answer(handshake) : r;
}

static int take_accept(struct coxi_handshake *handshake, const uint8_t *bytes)
{
    struct accept_message *accept = &handshake->accept;
    memcpy(accept, bytes, sizeof(*accept));
    bool is_ours = accept->magic == ACCEPT_MAGIC && accept->version == VERSION &&
                   accept->seal >= handshake->guard.seal &&
                   accept->seal <= COXI_SEAL_FULL &&
                   (accept->cipher & our_ciphers()) != 0 &&
                   (accept->cipher & (accept->cipher - 1)) == 0 &&
                   derive(handshake, accept->share) &&
                   is_equal(accept->proof, handshake->secrets.accept_proof);
    if (!is_ours) {
        return coxi_error(COX_EDENIED, "it has another key, or none");
    }
    handshake->out = handshake->secrets.dial_proof;
    handshake->out_len = COXI_HANDSHAKE_PROOF;
    agree(handshake, true);
    return 0;
}

static int take_proof(struct coxi_handshake *handshake, const uint8_t *bytes)
{
    if (!is_equal(bytes, handshake->secrets.dial_proof)) {
        return coxi_error(COX_EDENIED, "a peer has sent the proof of another");
    }
    handshake->out_len = 0;
    agree(handshake, false);
    return 0;
}

int coxi_handshake_take(struct coxi_handshake *handshake, const uint8_t *bytes)
{
    int r = COX_EDENIED;
    switch (handshake->state) {
    case WAITS_FOR_ACCEPT:
        r = take_accept(handshake, bytes);
        break;
    case WAITS_FOR_DIAL:
        r = take_dial(handshake, bytes);
        break;
    case WAITS_FOR_PROOF:
        r = take_proof(handshake, bytes);
        break;
    case OVER:
    case FAILED:
        break;
    }
    handshake->state = r == 0 ? handshake->state : FAILED;
    return r;
}
