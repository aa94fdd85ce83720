/*
 * Seals: records that nobody but the two ends of a connection can make and, if the seal
 * is full, read. Bytes travel in records once both ends have proved themselves
 * (handshake.h). A sealer makes the records of one direction, or opens them. It only
 * makes and checks bytes; link_sealed.c moves them.
 *
 *   record: {body_len u32}, body, tag 16
 *
 * Little-endian. COXI_SEAL_FULL encrypts the body, COXI_SEAL_MAC leaves it as it is.
 * The tag authenticates the length and the body in both cases: AES-128-GCM (NIST SP
 * 800-38D) or ChaCha20-Poly1305 (RFC 8439), to which COXI_SEAL_MAC gives everything as
 * associated data.
 *
 * The records of a direction are numbered from 0, and the number is no part of the
 * record: the nonce is the number, combined with secret bytes. So a record that is
 * repeated, swapped, or left out cannot be opened, nor can a record of another
 * direction or connection, because each has a key of its own. After rekey_records
 * records both ends derive the next key by HKDF-SHA256, and forget the last one.
 *
 * Threads: one at a time uses a sealer.
 */
#ifndef COXI_NET_SEAL_H
#define COXI_NET_SEAL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "net/handshake.h"

enum {
    COXI_SEAL_HEAD = 4, /* bytes before the body */
    COXI_SEAL_TAG = 16,
    COXI_SEAL_MORE = COXI_SEAL_HEAD + COXI_SEAL_TAG,
    COXI_SEAL_BODY_MAX = 64 * 1024,
    /* At most 256 GiB for a key: far less than the 2^64 bytes that AES-GCM allows. */
    COXI_SEAL_REKEY_RECORDS = 1 << 22,
};

struct coxi_sealer;

struct coxi_sealing {
    enum coxi_seal seal; /* MAC or FULL */
    uint32_t cipher;
    uint64_t rekey_records; /* 0: COXI_SEAL_REKEY_RECORDS */
    uint64_t first;         /* the number of the first record */
};

/* `key` is wiped by the caller. COX_ENOMEM. */
int coxi_sealer_new(const uint8_t key[COXI_KEY_BYTES], const struct coxi_sealing *how,
                    struct coxi_sealer **ret);
void coxi_sealer_free(struct coxi_sealer *sealer); /* takes NULL */

/*
 * Makes the next record. Its body is `pieces`, one after the other, 1 to
 * COXI_SEAL_BODY_MAX bytes together, which are not changed; `to` has room for
 * COXI_SEAL_MORE bytes more. COX_ELIMIT: there are no more numbers; COX_ENOMEM.
 */
int coxi_sealer_seal(struct coxi_sealer *sealer, const struct iovec *pieces,
                     size_t n_pieces, uint8_t *to);

/* Reads the length of a record's body from its first COXI_SEAL_HEAD bytes. COX_EDENIED:
 * no record is that long. */
int coxi_seal_body_len(const uint8_t *record, size_t *ret);

/*
 * Opens the next record, whose length coxi_seal_body_len has checked, and writes its
 * body to `pieces`, which have room for exactly or more than its length. COX_EDENIED:
 * the record is not the one that the peer made next; nothing in `pieces` may be used.
 */
int coxi_sealer_open(struct coxi_sealer *sealer, const uint8_t *record,
                     const struct iovec *pieces, size_t n_pieces);

#endif
