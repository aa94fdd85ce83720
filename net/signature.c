/*
 * See signature.h. What is signed is a text that says what the signature means, and the
 * module's SHA-256: so no other use of the same key can be taken for a module's
 * signature. Costs: 0.1 ms for a check, once for each module.
 */
#include "net/signature.h"

#include <endian.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "common/file.h"
#include "common/hash.h"
#include "common/module.h"
#include "net/key.h"

enum { MARK_BYTES = 16, KEY_FILE_BYTES = MARK_BYTES + COXI_MODULE_KEY_BYTES };

/* What the files begin with, so that they are not taken for each other. */
static const char secret_mark[MARK_BYTES] = "coxswain signer";
static const char public_mark[MARK_BYTES] = "coxswain verify";

static const char meaning[] = "coxswain module 1";

enum { STATEMENT_BYTES = sizeof(meaning) + sizeof(struct coxi_digest) };

static void make_statement(const struct coxi_digest *digest,
                           uint8_t ret[STATEMENT_BYTES])
{
    memcpy(ret, meaning, sizeof(meaning));
    for (size_t i = 0; i < sizeof(digest->words) / sizeof(*digest->words); i++) {
        uint64_t word = htobe64(digest->words[i]);
        memcpy(ret + sizeof(meaning) + i * sizeof(word), &word, sizeof(word));
    }
}

/* ---- key files */

static int wrong_file(const char *path, const char *kind)
{
    return coxi_error(COX_EFORMAT,
                      "%s is no %s key of modules: coxswain key module makes both",
                      path, kind);
}

/* True for the file of a public key, whatever its mode, because everybody may read it. */
static bool is_public(const char *path)
{
    uint8_t bytes[KEY_FILE_BYTES];
    size_t len = 0;
    bool is = coxi_key_file_read(path, false, bytes, sizeof(bytes), &len) == 0 &&
              len == KEY_FILE_BYTES && memcmp(bytes, public_mark, MARK_BYTES) == 0;
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return is;
}

static int read_key(const char *path, const char mark[MARK_BYTES],
                    uint8_t ret[COXI_MODULE_KEY_BYTES])
{
    uint8_t bytes[KEY_FILE_BYTES + 1]; /* a file with more bytes is no key file */
    size_t len = 0;
    bool is_secret = mark == secret_mark;
    int r = is_secret && is_public(path)
                ? wrong_file(path, "secret")
                : coxi_key_file_read(path, is_secret, bytes, sizeof(bytes), &len);
    if (r == 0 && (len != KEY_FILE_BYTES || memcmp(bytes, mark, MARK_BYTES) != 0)) {
        r = wrong_file(path, is_secret ? "secret" : "public");
    }
    if (r == 0) {
        memcpy(ret, bytes + MARK_BYTES, COXI_MODULE_KEY_BYTES);
    }
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return r;
}

static int make_key(const char *path, const char mark[MARK_BYTES],
                    const uint8_t key[COXI_MODULE_KEY_BYTES])
{
    uint8_t bytes[KEY_FILE_BYTES];
    memcpy(bytes, mark, MARK_BYTES);
    memcpy(bytes + MARK_BYTES, key, COXI_MODULE_KEY_BYTES);
    int r = coxi_key_file_make(path, mark == secret_mark, bytes, sizeof(bytes));
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return r;
}

int coxi_module_key_read(const char *path, struct coxi_module_key *ret)
{
    return read_key(path, public_mark, ret->bytes);
}

static bool make_pair(uint8_t secret[COXI_MODULE_KEY_BYTES],
                      uint8_t open[COXI_MODULE_KEY_BYTES])
{
    size_t secret_len = COXI_MODULE_KEY_BYTES;
    size_t open_len = COXI_MODULE_KEY_BYTES;
    EVP_PKEY *pair = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    bool made = pair != NULL &&
                EVP_PKEY_get_raw_private_key(pair, secret, &secret_len) == 1 &&
                EVP_PKEY_get_raw_public_key(pair, open, &open_len) == 1;
    EVP_PKEY_free(pair);
    return made;
}

int coxi_module_keys_new(const char *path)
{
    uint8_t secret[COXI_MODULE_KEY_BYTES];
    uint8_t open[COXI_MODULE_KEY_BYTES];
    char open_path[PATH_MAX];
    int r = coxi_path(open_path, "%s.pub", path);
    if (r == 0 && !make_pair(secret, open)) {
        r = coxi_error(COX_EIO, "the crypto library makes no Ed25519 keys");
    }
    if (r == 0) {
        r = make_key(path, secret_mark, secret);
    }
    if (r == 0) {
        r = make_key(open_path, public_mark, open);
        if (r != 0) {
            (void)unlink(path);
        }
    }
    OPENSSL_cleanse(secret, sizeof(secret));
    return r;
}

/* ---- signatures */

static int sign(const struct coxi_digest *digest,
                const uint8_t secret[COXI_MODULE_KEY_BYTES], struct coxi_signature *ret)
{
    uint8_t statement[STATEMENT_BYTES];
    size_t len = sizeof(ret->bytes);
    make_statement(digest, statement);
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, secret,
                                                 COXI_MODULE_KEY_BYTES);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool signed_ =
        key != NULL && context != NULL &&
        EVP_DigestSignInit(context, NULL, NULL, NULL, key) == 1 &&
        EVP_DigestSign(context, ret->bytes, &len, statement, sizeof(statement)) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(key);
    return signed_ ? 0 : coxi_error_memory("a signature");
}

static int signature_path(const char *module, char ret[PATH_MAX])
{
    return coxi_path(ret, "%s.sig", module);
}

int coxi_module_sign(const char *module, const char *key)
{
    uint8_t secret[COXI_MODULE_KEY_BYTES];
    uint8_t *bytes = NULL;
    size_t len = 0;
    char path[PATH_MAX];
    struct coxi_signature signature;
    int r = signature_path(module, path);
    if (r == 0) {
        r = coxi_file_read(module, COXI_MODULE_BYTES_MAX, &bytes, &len);
    }
    if (r == 0) {
        r = read_key(key, secret_mark, secret);
    }
    if (r == 0) {
        struct coxi_digest digest = coxi_digest_of(bytes, len);
        r = sign(&digest, secret, &signature);
        OPENSSL_cleanse(secret, sizeof(secret));
    }
    if (r == 0) {
        r = coxi_file_write(path, signature.bytes, sizeof(signature.bytes));
    }
    free(bytes);
    return r;
}

int coxi_signature_read(const char *module, struct coxi_signature *ret)
{
    char path[PATH_MAX];
    uint8_t *bytes = NULL;
    size_t len = 0;
    int r = signature_path(module, path);
    if (r == 0) {
        r = coxi_file_read(path, sizeof(ret->bytes), &bytes, &len);
    }
    if (r == COX_ENOENT) {
        *ret = (struct coxi_signature){{0}};
        return 0;
    }
    if (r == COX_ELIMIT || (r == 0 && len != sizeof(ret->bytes))) {
        r = coxi_error(COX_EFORMAT,
                       "%s is no signature of a module: make it anew with coxswain "
                       "sign, or remove it",
                       path);
    }
    if (r == 0) {
        memcpy(ret->bytes, bytes, sizeof(ret->bytes));
    }
    free(bytes);
    return r;
}

bool coxi_signature_is_set(const struct coxi_signature *signature)
{
    static const struct coxi_signature none;
    return memcmp(signature, &none, sizeof(none)) != 0;
}

bool coxi_signature_is_valid(const struct coxi_signature *signature,
                             const struct coxi_digest *digest,
                             const struct coxi_module_key *key)
{
    uint8_t statement[STATEMENT_BYTES];
    make_statement(digest, statement);
    EVP_PKEY *open = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key->bytes,
                                                 sizeof(key->bytes));
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool valid = open != NULL && context != NULL &&
                 EVP_DigestVerifyInit(context, NULL, NULL, NULL, open) == 1 &&
                 EVP_DigestVerify(context, signature->bytes, sizeof(signature->bytes),
                                  statement, sizeof(statement)) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(open);
    return valid;
}
