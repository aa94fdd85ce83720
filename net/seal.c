/*
 * See seal.h. A sealer has one cipher context, which keeps its key for all records until
 * the next rekeying.
 *
 * Invariants
 *   - A number is used once with a key: `number` only rises, and a sealer that has used
 *     the last one makes and opens no more.
 *   - The secret from which the current key was derived is not kept.
 */
#include "net/seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "schema/check.h"

enum { NONCE = 12 };

/* What a secret is expanded to. */
struct material {
    uint8_t key[COXI_KEY_BYTES]; /* AES-128 uses its first half */
    uint8_t nonce[NONCE];
    uint8_t next[COXI_KEY_BYTES]; /* the secret of the next key */
};

struct coxi_sealer {
    struct coxi_sealing how;
    EVP_CIPHER *cipher;
    EVP_CIPHER_CTX *ctx;
    uint64_t number;                /* of the next record */
    uint64_t left;                  /* records until the next key */
    uint8_t nonce[NONCE];           /* combined with the number */
    uint8_t secret[COXI_KEY_BYTES]; /* of the next key */
};

static int refused(void)
{
    return coxi_error(COX_ENOMEM, "a seal: no memory, or the crypto library refuses");
}

/* Derives the next key, and begins to use it. */
static bool rekey(struct coxi_sealer *sealer)
{
    struct material material;
    const char *info = sealer->how.seal == COXI_SEAL_FULL ? "coxswain seal 1 full"
                                                          : "coxswain seal 1 mac";
    bool done = coxi_hkdf(sealer->secret, sizeof(sealer->secret), NULL, 0, info,
                          (uint8_t *)&material, sizeof(material)) &&
                EVP_CipherInit_ex(sealer->ctx, sealer->cipher, NULL, material.key, NULL,
                                  1) == 1;
    if (done) {
        memcpy(sealer->nonce, material.nonce, NONCE);
        memcpy(sealer->secret, material.next, sizeof(sealer->secret));
        sealer->left = sealer->how.rekey_records;
    }
    OPENSSL_cleanse(&material, sizeof(material));
    return done;
}

int coxi_sealer_new(const uint8_t key[COXI_KEY_BYTES], const struct coxi_sealing *how,
                    struct coxi_sealer **ret)
{
    struct coxi_sealer *sealer = calloc(1, sizeof(*sealer));
    if (sealer == NULL) {
        return refused();
    }
    sealer->how = *how;
    if (how->rekey_records == 0) {
        sealer->how.rekey_records = COXI_SEAL_REKEY_RECORDS;
    }
    sealer->number = how->first;
    memcpy(sealer->secret, key, COXI_KEY_BYTES);
    sealer->cipher = EVP_CIPHER_fetch(
        NULL,
        how->cipher == COXI_CIPHER_AES_128_GCM ? "AES-128-GCM" : "ChaCha20-Poly1305",
        NULL);
    sealer->ctx = EVP_CIPHER_CTX_new();
    if (sealer->cipher == NULL || sealer->ctx == NULL || !rekey(sealer)) {
        coxi_sealer_free(sealer);
        return refused();
    }
    *ret = sealer;
    return 0;
}

void coxi_sealer_free(struct coxi_sealer *sealer)
{
    if (sealer != NULL) {
        EVP_CIPHER_CTX_free(sealer->ctx);
        EVP_CIPHER_free(sealer->cipher);
        OPENSSL_cleanse(sealer, sizeof(*sealer));
        free(sealer);
    }
}

/* Begins the next record: takes a number, and gives the cipher its nonce. */
static int begin(struct coxi_sealer *sealer, int encrypts)
{
    uint8_t nonce[NONCE];
    if (sealer->number == UINT64_MAX) {
        return coxi_error(COX_ELIMIT, "a connection has used up its numbers");
    }
    if (sealer->left == 0 && !rekey(sealer)) {
        return refused();
    }
    uint64_t number = sealer->number++;
    sealer->left--;
    memcpy(nonce, sealer->nonce, NONCE);
    for (size_t i = 0; i < sizeof(number); i++) {
        nonce[NONCE - 1 - i] ^= (uint8_t)(number >> 8 * i);
    }
    return EVP_CipherInit_ex(sealer->ctx, NULL, NULL, NULL, nonce, encrypts) == 1
               ? 0
               : refused();
}

/* Authenticates bytes that are not encrypted. */
static bool add_plain(struct coxi_sealer *sealer, const uint8_t *bytes, size_t len)
{
    int n;
    return EVP_CipherUpdate(sealer->ctx, NULL, &n, bytes, (int)len) == 1;
}

static bool encrypt(struct coxi_sealer *sealer, const struct iovec *pieces,
                    size_t n_pieces, uint8_t *to)
{
    bool done = true;
    for (size_t i = 0; done && i < n_pieces; i++) {
        int n;
        done = EVP_CipherUpdate(sealer->ctx, to, &n, pieces[i].iov_base,
                                (int)pieces[i].iov_len) == 1;
        to += pieces[i].iov_len;
    }
    return done;
}

/* Writes the body of a record; `record` has its length already. */
static bool write_body(struct coxi_sealer *sealer, const struct iovec *pieces,
                       size_t n_pieces, uint8_t *record, size_t len)
{
    if (sealer->how.seal == COXI_SEAL_FULL) {
        return add_plain(sealer, record, COXI_SEAL_HEAD) &&
               encrypt(sealer, pieces, n_pieces, record + COXI_SEAL_HEAD);
    }
    uint8_t *to = record + COXI_SEAL_HEAD;
    for (size_t i = 0; i < n_pieces; i++) {
        memcpy(to, pieces[i].iov_base, pieces[i].iov_len);
        to += pieces[i].iov_len;
    }
    return add_plain(sealer, record, COXI_SEAL_HEAD + len);
}

int coxi_sealer_seal(struct coxi_sealer *sealer, const struct iovec *pieces,
                     size_t n_pieces, uint8_t *to)
{
    size_t len = 0;
    int n;
    for (size_t i = 0; i < n_pieces; i++) {
        len += pieces[i].iov_len;
    }
    COXI_CHECK(len > 0 && len <= COXI_SEAL_BODY_MAX);
    uint32_t head = (uint32_t)len;
    uint8_t *tag = to + COXI_SEAL_HEAD + len;
    memcpy(to, &head, sizeof(head));
    int r = begin(sealer, 1);
    if (r != 0) {
        return r;
    }
    bool done = write_body(sealer, pieces, n_pieces, to, len) &&
                EVP_CipherFinal_ex(sealer->ctx, tag, &n) == 1 &&
                EVP_CIPHER_CTX_ctrl(sealer->ctx, EVP_CTRL_AEAD_GET_TAG, COXI_SEAL_TAG,
                                    tag) == 1;
    return done ? 0 : refused();
}

int coxi_seal_body_len(const uint8_t *record, size_t *ret)
{
    uint32_t len;
    memcpy(&len, record, sizeof(len));
    if (len == 0 || len > COXI_SEAL_BODY_MAX) {
        return coxi_error(
            COX_EDENIED,
            "somebody has changed bytes on their way: a record of %u bytes "
            "where 1 to %d are allowed",
            len, COXI_SEAL_BODY_MAX);
    }
    *ret = len;
    return 0;
}

/* Decrypts the body that follows `from` into the pieces. */
static bool decrypt(struct coxi_sealer *sealer, const uint8_t *from, size_t len,
                    const struct iovec *pieces)
{
    bool done = true;
    for (size_t i = 0; done && len > 0; i++) {
        size_t part = pieces[i].iov_len < len ? pieces[i].iov_len : len;
        int n;
        done =
            EVP_CipherUpdate(sealer->ctx, pieces[i].iov_base, &n, from, (int)part) == 1;
        from += part;
        len -= part;
    }
    return done;
}

static void copy(const uint8_t *from, size_t len, const struct iovec *pieces)
{
    for (size_t i = 0; len > 0; i++) {
        size_t part = pieces[i].iov_len < len ? pieces[i].iov_len : len;
        memcpy(pieces[i].iov_base, from, part);
        from += part;
        len -= part;
    }
}

int coxi_sealer_open(struct coxi_sealer *sealer, const uint8_t *record,
                     const struct iovec *pieces, size_t n_pieces)
{
    size_t len = 0;
    size_t room = 0;
    uint8_t none[COXI_SEAL_TAG];
    int n;
    for (size_t i = 0; i < n_pieces; i++) {
        room += pieces[i].iov_len;
    }
    int r = coxi_seal_body_len(record, &len);
    COXI_CHECK(r != 0 || room >= len);
    r = r == 0 ? begin(sealer, 0) : r;
    if (r != 0) {
        return r;
    }
    bool is_full = sealer->how.seal == COXI_SEAL_FULL;
    const uint8_t *body = record + COXI_SEAL_HEAD;
    bool done = EVP_CIPHER_CTX_ctrl(sealer->ctx, EVP_CTRL_AEAD_SET_TAG, COXI_SEAL_TAG,
                                    (void *)(uintptr_t)(body + len)) == 1 &&
                add_plain(sealer, record, COXI_SEAL_HEAD + (is_full ? 0 : len)) &&
                (!is_full || decrypt(sealer, body, len, pieces)) &&
                EVP_CipherFinal_ex(sealer->ctx, none, &n) == 1;
    if (!done) {
        return coxi_error(COX_EDENIED,
                          "somebody has changed bytes on their way: record %llu is not "
                          "the one that the peer sealed",
                          (unsigned long long)(sealer->number - 1));
    }
    if (!is_full) {
        copy(body, len, pieces);
    }
    return 0;
}
