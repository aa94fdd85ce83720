/* See key.h. */
#include "net/key.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/disk.h"
#include "common/error.h"
#include "common/file.h"

/* What a reader's key file begins with, so that it is not taken for a run's. */
static const char reader_mark[16] = "coxswain reader";

enum { READER_FILE_BYTES = sizeof(reader_mark) + COXI_KEY_BYTES };

/* A program may exit while connections of ours are open, so the crypto library must not
 * free itself at exit: their threads still use it. Only its first use can say so. */
__attribute__((constructor)) static void keep_crypto(void)
{
    (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}

/* ---- derivation */

bool coxi_hkdf(const uint8_t *secret, size_t secret_len, const uint8_t *salt,
               size_t salt_len, const char *info, uint8_t *ret, size_t ret_len)
{
    /* The salt if none is given (RFC 5869, 2.2). */
    static const uint8_t zeros[COXI_KEY_BYTES];
    char digest[] = "SHA256";
    salt_len = salt == NULL ? sizeof(zeros) : salt_len;
    salt = salt == NULL ? zeros : salt;
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)secret,
                                          secret_len),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)(uintptr_t)salt,
                                          salt_len),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)(uintptr_t)info,
                                          strlen(info)),
        OSSL_PARAM_construct_end(),
    };
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *ctx = kdf != NULL ? EVP_KDF_CTX_new(kdf) : NULL;
    bool done = ctx != NULL && EVP_KDF_derive(ctx, ret, ret_len, params) == 1;
    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(kdf);
    return done;
}

static const char *info_of(enum coxi_role role)
{
    switch (role) {
    case COXI_ROLE_CLIENT:
        return "coxswain key 1 client";
    case COXI_ROLE_WORKER:
        return "coxswain key 1 worker";
    case COXI_ROLE_PS:
        return "coxswain key 1 ps";
    case COXI_ROLE_TOOL:
        return "coxswain key 1 reader";
    }
    return NULL;
}

bool coxi_key_of_role(const struct coxi_key *key, enum coxi_role role,
                      uint8_t ret[COXI_KEY_BYTES])
{
    if (key->kind == COXI_KEY_READER && role == COXI_ROLE_TOOL) {
        memcpy(ret, key->secret, COXI_KEY_BYTES);
        return true;
    }
    const char *info = info_of(role);
    return key->kind == COXI_KEY_RUN && info != NULL &&
           coxi_hkdf(key->secret, COXI_KEY_BYTES, NULL, 0, info, ret, COXI_KEY_BYTES);
}

bool coxi_key_id(const uint8_t role_key[COXI_KEY_BYTES], uint64_t *ret)
{
    uint8_t id[sizeof(*ret)];
    if (!coxi_hkdf(role_key, COXI_KEY_BYTES, NULL, 0, "coxswain key 1 id", id,
                   sizeof(id))) {
        return false;
    }
    memcpy(ret, id, sizeof(id));
    return true;
}

void coxi_key_wipe(struct coxi_key *key)
{
    OPENSSL_cleanse(key, sizeof(*key));
}

/* ---- files */

static int check_file(const char *path, int fd, bool is_secret)
{
    struct stat is;
    mode_t forbidden = is_secret ? S_IRWXG | S_IRWXO : S_IWGRP | S_IWOTH;
    if (fstat(fd, &is) != 0) {
        return coxi_error_errno(COX_EIO, "cannot read the key file %s", path);
    }
    if (!S_ISREG(is.st_mode)) {
        return coxi_error(COX_EINVAL, "the key file %s is no regular file", path);
    }
    if (is.st_uid != geteuid() && is.st_uid != 0) {
        return coxi_error(COX_EINVAL,
                          "the key file %s belongs to user %u, not to us (%u): whoever "
                          "owns it could change the key",
                          path, (unsigned)is.st_uid, (unsigned)geteuid());
    }
    if ((is.st_mode & forbidden) == 0) {
        return 0;
    }
    return is_secret
               ? coxi_error(
                     COX_EINVAL,
                     "others may read or change the key file %s (mode %03o): run "
                     "chmod 600 on it, and make a new key if they may have read it",
                     path, (unsigned)is.st_mode & 0777U)
               : coxi_error(COX_EINVAL,
                            "others may change the key file %s (mode %03o): run "
                            "chmod 644 on it once it has the right key",
                            path, (unsigned)is.st_mode & 0777U);
}

static int parse(const char *path, const uint8_t *bytes, size_t len,
                 struct coxi_key *ret)
{
    bool is_reader = len == READER_FILE_BYTES &&
                     memcmp(bytes, reader_mark, sizeof(reader_mark)) == 0;
    if (len != COXI_KEY_BYTES && !is_reader) {
        return coxi_error(COX_EFORMAT,
                          "%s is no key: it has %s%zu bytes, a key %d; coxswain key "
                          "new makes one",
                          path, len > READER_FILE_BYTES ? "more than " : "",
                          len > READER_FILE_BYTES ? (size_t)READER_FILE_BYTES : len,
                          COXI_KEY_BYTES);
    }
    ret->kind = is_reader ? COXI_KEY_READER : COXI_KEY_RUN;
    ret->seal = COXI_SEAL_FULL;
    memcpy(ret->secret, bytes + len - COXI_KEY_BYTES, COXI_KEY_BYTES);
    return 0;
}

int coxi_key_file_read(const char *path, bool is_secret, uint8_t *ret, size_t room,
                       size_t *ret_len)
{
    ssize_t len = 0;
    /* O_NONBLOCK, because opening a FIFO would otherwise block */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return coxi_error_errno(COX_EIO, "cannot open the key file %s", path);
    }
    int r = check_file(path, fd, is_secret);
    if (r == 0 && (len = coxi_fd_read(fd, ret, room)) < 0) {
        r = coxi_error_errno(COX_EIO, "cannot read the key file %s", path);
    }
    (void)close(fd);
    *ret_len = r == 0 ? (size_t)len : 0;
    return r;
}

int coxi_key_read(const char *path, struct coxi_key *ret)
{
    uint8_t bytes[READER_FILE_BYTES + 1]; /* a file with more bytes is no key file */
    size_t len = 0;
    int r = coxi_key_file_read(path, true, bytes, sizeof(bytes), &len);
    if (r == 0) {
        r = parse(path, bytes, len, ret);
    }
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return r;
}

/* The file that coxi_key_open reads, or NULL. */
static const char *given_file(const char *path)
{
    const char *from = path;
    if (from == NULL) {
        from = getenv("COX_KEY_FILE"); /* NOLINT(concurrency-mt-unsafe) */
    }
    return from != NULL && *from != '\0' ? from : NULL;
}

bool coxi_key_is_given(const char *path)
{
    return given_file(path) != NULL;
}

/* Where the file was named: errors begin with it. */
static const char *place_of(const char *path, const char *option)
{
    return path != NULL ? option : "COX_KEY_FILE";
}

int coxi_key_open(const char *path, const char *option, struct coxi_key *ret)
{
    const char *from = given_file(path);
    *ret = (struct coxi_key){.kind = COXI_KEY_NONE};
    int r = from != NULL ? coxi_key_read(from, ret) : 0;
    return r == 0 ? 0
                  : coxi_error(r, "%s: %s", place_of(path, option), coxi_error_text());
}

int coxi_key_open_member(const char *path, const char *option, struct coxi_key *ret)
{
    int r = coxi_key_open(path, option, ret);
    if (r == 0 && ret->kind == COXI_KEY_READER) {
        coxi_key_wipe(ret);
        r = coxi_error(COX_EINVAL,
                       "%s: %s is the key of readers: it only reads, and this needs "
                       "the run's",
                       place_of(path, option), given_file(path));
    }
    return r;
}

int coxi_key_set_seal(struct coxi_key *key, const char *seal, const char *option)
{
    const char *from = seal;
    if (from == NULL) {
        from = getenv("COX_SEAL"); /* NOLINT(concurrency-mt-unsafe) */
    }
    bool is_off = from != NULL && strcmp(from, "off") == 0;
    if (from != NULL && *from != '\0' && !is_off && strcmp(from, "on") != 0) {
        return coxi_error(COX_EINVAL, "%s is '%s': it must be on or off",
                          seal == NULL ? "COX_SEAL" : option, from);
    }
    key->seal = is_off ? COXI_SEAL_MAC : COXI_SEAL_FULL;
    return 0;
}

int coxi_key_file_make(const char *path, bool is_secret, const uint8_t *bytes,
                       size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  is_secret ? 0600 : 0644);
    if (fd < 0) {
        return errno == EEXIST
                   ? coxi_error(COX_EEXIST,
                                "%s exists already: a key is never overwritten, "
                                "because the run that uses it would be shut out",
                                path)
                   : coxi_error_errno(COX_EIO, "cannot make the key file %s", path);
    }
    int r = 0;
    if (coxi_fd_write(fd, bytes, len) != 0 || coxi_disk_sync(fd) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot write the key file %s", path);
    }
    (void)close(fd);
    if (r != 0) {
        (void)unlink(path);
    }
    return r;
}

int coxi_key_pass(const struct coxi_key *key, int *ret_fd)
{
    int fd = memfd_create("coxswain-key", MFD_CLOEXEC);
    if (fd < 0 || fchmod(fd, 0600) != 0 ||
        coxi_fd_write(fd, key->secret, sizeof(key->secret)) != 0) {
        int r = coxi_error_errno(COX_ENOMEM, "cannot pass the key on");
        if (fd >= 0) {
            (void)close(fd);
        }
        return r;
    }
    *ret_fd = fd;
    return 0;
}

int coxi_key_new(const char *path)
{
    uint8_t secret[COXI_KEY_BYTES];
    if (RAND_priv_bytes(secret, sizeof(secret)) != 1) {
        return coxi_error(COX_EIO, "the system gives no random numbers for a key");
    }
    int r = coxi_key_file_make(path, true, secret, sizeof(secret));
    OPENSSL_cleanse(secret, sizeof(secret));
    return r;
}

int coxi_key_new_in(const char *dir, char ret[PATH_MAX])
{
    int r = coxi_path(ret, "%s/cluster.key", dir);
    if (r == 0) {
        (void)unlink(ret);
        r = coxi_key_new(ret);
    }
    return r;
}

int coxi_key_new_reader(const char *path, const struct coxi_key *key)
{
    uint8_t bytes[READER_FILE_BYTES];
    if (key->kind != COXI_KEY_RUN) {
        return coxi_error(COX_EINVAL,
                          "the key of readers is derived from a run's key, and this is "
                          "a key of readers already");
    }
    memcpy(bytes, reader_mark, sizeof(reader_mark));
    if (!coxi_key_of_role(key, COXI_ROLE_TOOL, bytes + sizeof(reader_mark))) {
        return coxi_error_memory("a key");
    }
    int r = coxi_key_file_make(path, true, bytes, sizeof(bytes));
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return r;
}
