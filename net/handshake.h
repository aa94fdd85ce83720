/*
 * The handshake by which both ends of a connection prove that they have the run's key,
 * before any frame. It only makes and checks bytes; proving.c moves them.
 *
 *   the dialler's   {magic u32, version u16, role u8, seal u8, index u32, ciphers u32,
 *                    run u64, key u64, nonce 32, share 32, tag 32}
 *   the acceptor's  {magic u32, version u16, role u8, seal u8, index u32, cipher u32,
 *                    nonce 32, share 32, proof 32}
 *   the dialler's   {proof 32}
 *
 * Little-endian. A share is an X25519 public key (RFC 7748), new for each connection.
 * `tag` is an HMAC-SHA256 of all bytes before it, with the key of the dialler's role,
 * so that strangers are turned away before the costly computations. `key` is the id of
 * that key, by which an acceptor that several runs share finds it (keyring.h). Proofs and the keys
 * of the seal are HKDF-SHA256 (RFC 5869) of that key and the shared secret, with the
 * SHA-256 of all bytes of both sides before the proofs as salt. So they are bound to
 * both roles and indexes, to the run and to what was agreed; and they cannot be
 * replayed or reflected, because each side has chosen a nonce, and the two proofs
 * differ. Somebody may send a dialler's first message again, though: an acceptor that
 * remembers it (seen.h) turns it away before the costly computations, too.
 *
 * A peer that fails the handshake gets no answer: the connection is closed.
 */
#ifndef COXI_NET_HANDSHAKE_H
#define COXI_NET_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/keyring.h"
#include "net/seen.h"

/* Only the end that dials names its run. */
#define COXI_RUN_UNNAMED UINT64_MAX

/* Who is at an end of a connection. */
struct coxi_party {
    enum coxi_role role;
    uint32_t index;
    uint64_t run; /* 0: it has no run yet; COXI_RUN_UNNAMED: it has named none */
    uint32_t key; /* the index of its key in the acceptor's keyring; 0: without one */
};

/* Ciphers, as bits. */
enum { COXI_CIPHER_AES_128_GCM = 1, COXI_CIPHER_CHACHA20_POLY1305 = 2 };

/* What an end of a connection brings to the handshake. */
struct coxi_guard {
    struct coxi_key key;
    /* of an acceptor that several runs share, in place of `key`: borrowed; or NULL */
    struct coxi_keyring *keys;
    /* of an acceptor: refuses first messages that it has seen before: borrowed; or NULL */
    struct coxi_seen *seen;
    struct coxi_party self;
    enum coxi_seal seal;
    /* Records of a direction until the next key (seal.h); 0: as usual. The same at both
     * ends; for tests. */
    uint32_t rekey_records;
};

/* What both ends have agreed on. */
struct coxi_agreed {
    struct coxi_party peer;
    enum coxi_seal seal;
    uint32_t cipher;
    uint32_t rekey_records;
    uint8_t send_key[COXI_KEY_BYTES];
    uint8_t receive_key[COXI_KEY_BYTES];
};

enum {
    COXI_HANDSHAKE_DIAL = 128, /* bytes of the dialler's first message */
    COXI_HANDSHAKE_ACCEPT = 112,
    COXI_HANDSHAKE_PROOF = 32,
    COXI_HANDSHAKE_MAX = COXI_HANDSHAKE_DIAL,
};

struct coxi_handshake;

/*
 * Begins a handshake. `guard` is copied; it must have a key, or a keyring to accept. COX_ENOMEM. *ret is for
 * coxi_handshake_free, which takes NULL and wipes every secret.
 */
int coxi_handshake_dial(const struct coxi_guard *guard, struct coxi_handshake **ret);
int coxi_handshake_accept(const struct coxi_guard *guard, struct coxi_handshake **ret);
void coxi_handshake_free(struct coxi_handshake *handshake);

/* The bytes to send now, before anything else is received; *ret_len 0: none. */
const uint8_t *coxi_handshake_out(const struct coxi_handshake *handshake,
                                  size_t *ret_len);

/* How many bytes to receive next, at most COXI_HANDSHAKE_MAX. 0: none, because the
 * handshake has failed, or is over as soon as the bytes of coxi_handshake_out are
 * sent. */
size_t coxi_handshake_need(const struct coxi_handshake *handshake);

/* Takes the bytes that were received. COX_EDENIED: the peer has not proved that it has
 * the key; COX_EVERSION: it speaks another version; COX_ENOMEM. */
int coxi_handshake_take(struct coxi_handshake *handshake, const uint8_t *bytes);

/* True if these are the first four bytes of a dialler's handshake: for an acceptor that
 * has no key. */
bool coxi_handshake_begins(uint32_t magic);

/* What was agreed, once the handshake is over. Lives as long as the handshake. */
const struct coxi_agreed *coxi_handshake_agreed(const struct coxi_handshake *handshake);

#endif
