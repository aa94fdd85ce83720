/*
 * Signatures of step modules: Ed25519, over a module's SHA-256. The secret key stays
 * where modules are built and signed; workers have only the public key, and with it a
 * run's key alone is not enough to make them run code.
 *
 * A signature is a file beside the module: "steps.so.sig" for "steps.so".
 *
 * Threads: any.
 */
#ifndef COXI_NET_SIGNATURE_H
#define COXI_NET_SIGNATURE_H

#include <stdbool.h>
#include <stdint.h>

#include "schema/wire.h"

enum { COXI_MODULE_KEY_BYTES = 32 };

/* The public key with which workers check signatures. */
struct coxi_module_key {
    uint8_t bytes[COXI_MODULE_KEY_BYTES];
};

/*
 * Makes a pair of keys: the secret one in the file `path`, mode 0600, which must not
 * exist yet, and the public one in `path`.pub. COX_EIO; COX_EEXIST.
 */
int coxi_module_keys_new(const char *path);

/*
 * Reads a public key. COX_EINVAL: the file is no regular file, or others than its owner
 * may change it, or it belongs to somebody else; COX_EFORMAT: it is no such key;
 * COX_EIO. The text names the file.
 */
int coxi_module_key_read(const char *path, struct coxi_module_key *ret);

/* Signs the module file `module` with the secret key in the file `key`, and writes or
 * replaces its signature. Errors of coxi_key_read. */
int coxi_module_sign(const char *module, const char *key);

/* Reads the signature of the module file `module`. There is none: sets *ret to zeros.
 * COX_EFORMAT: the file is no signature; COX_EIO. */
int coxi_signature_read(const char *module, struct coxi_signature *ret);

/* True if it is there, which says nothing about whether it is valid. */
bool coxi_signature_is_set(const struct coxi_signature *signature);

/* True if `signature` was made for a module with that SHA-256 with the secret key that
 * belongs to `key`. */
bool coxi_signature_is_valid(const struct coxi_signature *signature,
                             const struct coxi_digest *digest,
                             const struct coxi_module_key *key);

#endif
