/*
 * The key of a run: whoever has it may be any of its members. A key file has 32 random
 * bytes, or, for those that only read, the key of readers that was derived from them.
 *
 * Each role proves itself with a key of its own, derived by HKDF-SHA256 (RFC 5869) from
 * the run's key. No other key can be derived from the key of readers.
 *
 * Threads: any. Wipe a key as soon as it is no longer needed (coxi_key_wipe).
 */
#ifndef COXI_NET_KEY_H
#define COXI_NET_KEY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/wire.h"

enum { COXI_KEY_BYTES = 32 };

enum coxi_key_kind {
    COXI_KEY_NONE, /* there is no key */
    COXI_KEY_RUN,  /* of every role */
    COXI_KEY_READER,
};

/* How bytes are protected on their way. If the two ends ask for different seals, they
 * use the stronger one, which comes later in this list. */
enum coxi_seal {
    COXI_SEAL_NONE, /* nobody else can reach the connection */
    COXI_SEAL_MAC,  /* others can read the bytes, but not change them */
    COXI_SEAL_FULL, /* others can neither read nor change them */
};

struct coxi_key {
    enum coxi_key_kind kind;
    enum coxi_seal seal; /* the one to ask for on tcp */
    uint8_t secret[COXI_KEY_BYTES];
};

/*
 * Reads a key file. COX_EINVAL: it is no regular file, or others than its owner may
 * read or change it, or it belongs to somebody else; COX_EFORMAT: it is no key;
 * COX_EIO: it cannot be read. The text names the file and says what to do.
 */
int coxi_key_read(const char *path, struct coxi_key *ret);

/* Reads the key file `path` or, if `path` is NULL, the file that $COX_KEY_FILE names.
 * If neither is given, sets *ret to COXI_KEY_NONE. Errors of coxi_key_read; the text
 * begins with where the file was named, `option` or COX_KEY_FILE. */
int coxi_key_open(const char *path, const char *option, struct coxi_key *ret);

/* The same for those that do more than read. COX_EINVAL also for the key of readers. */
int coxi_key_open_member(const char *path, const char *option, struct coxi_key *ret);

/* True if coxi_key_open(path) would read a file. */
bool coxi_key_is_given(const char *path);

/* Sets the seal to ask for: "on" is FULL (as without this call), "off" is MAC. NULL: as
 * $COX_SEAL says; if it is not set, "on". COX_EINVAL: it is neither; the text names
 * `option`, where it was given. */
int coxi_key_set_seal(struct coxi_key *key, const char *seal, const char *option);

/* Makes a key file of a new key: mode 0600, in a file that must not exist yet. COX_EIO;
 * COX_EEXIST. */
int coxi_key_new(const char *path);

/* Makes the key file of a local cluster in its directory, in place of one that a killed
 * process has left there. *ret is its path. COX_EIO. */
int coxi_key_new_in(const char *dir, char ret[PATH_MAX]);

/* Makes a key file with the key of readers, as coxi_key_new does. COX_EINVAL: `key` is
 * not a run's. */
int coxi_key_new_reader(const char *path, const struct coxi_key *key);

/* Derives the key with which a role proves itself. False: `key` derives none for this
 * role. */
bool coxi_key_of_role(const struct coxi_key *key, enum coxi_role role,
                      uint8_t ret[COXI_KEY_BYTES]);

/* Derives the id by which a keyring (keyring.h) finds a role's key; nothing else about
 * the key follows from it. False: no memory. */
bool coxi_key_id(const uint8_t role_key[COXI_KEY_BYTES], uint64_t *ret);

void coxi_key_wipe(struct coxi_key *key);

/* A run's key for a child process, which can read it even if the file is out of its
 * user's reach: a key file in memory, whose descriptor *ret_fd the child inherits as
 * COXI_KEY_FD. COX_ENOMEM. */
int coxi_key_pass(const struct coxi_key *key, int *ret_fd);

enum { COXI_KEY_FD = 5 };
#define COXI_KEY_PASSED "/proc/self/fd/5"

/* ---- files of keys, also of those that sign modules (net/signature.h) */

/*
 * Reads at most `room` bytes of a file that nobody but its owner, who is this user or
 * root, may change; and, if it is a secret, read. Errors of coxi_key_read.
 */
int coxi_key_file_read(const char *path, bool is_secret, uint8_t *ret, size_t room,
                       size_t *ret_len);

/* Makes a file, which must not exist yet: of mode 0600 if it is a secret, otherwise
 * 0644. COX_EIO; COX_EEXIST. */
int coxi_key_file_make(const char *path, bool is_secret, const uint8_t *bytes,
                       size_t len);

/* ---- for keys and proofs; false: no memory, or the crypto library has refused */

/* HKDF-SHA256 in one step: extracts with `salt` (NULL: none), and expands with `info`
 * to ret_len bytes. */
bool coxi_hkdf(const uint8_t *secret, size_t secret_len, const uint8_t *salt,
               size_t salt_len, const char *info, uint8_t *ret, size_t ret_len);

#endif
