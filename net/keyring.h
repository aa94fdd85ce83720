/*
 * The keys of several runs, each with the run's name, for a daemon that the runs share.
 * The first message of a newcomer names its key by an id that is derived from it
 * (coxi_key_id). Keys may be added and removed later (coxi_keyring_reload); a run keeps
 * its index for good, and gets it again when its key comes back. Any thread.
 */
#ifndef COXI_NET_KEYRING_H
#define COXI_NET_KEYRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "net/key.h"

enum {
    COXI_KEYRING_NAME_MAX = 63, /* bytes of a run's name */
    COXI_KEYRING_MAX = 4096,    /* keys, those that were removed included */
};

struct coxi_keyring;

/*
 * Reads each file NAME.key of a directory: it is the key of the run NAME (letters,
 * digits, '.', '_', '-'; no '.' at its beginning). Other files are ignored. The runs
 * are in the order of their names. COX_EINVAL: there is no key, or two runs have the
 * same one, or others may change the directory; and errors of coxi_key_read. The text
 * names the file.
 */
int coxi_keyring_open(const char *directory, struct coxi_keyring **ret);

/*
 * Reads the directory again: wipes the keys whose files are gone, and takes new ones, at
 * the end. Appends the names of both to the buffers, each with a comma. Errors as above,
 * also if there is no key left, and COX_ELIMIT: nothing has changed. One thread at a
 * time.
 */
int coxi_keyring_reload(struct coxi_keyring *ring, const char *directory,
                        struct coxi_buffer *ret_added, struct coxi_buffer *ret_removed);

/* Wipes the keys. Takes NULL. */
void coxi_keyring_free(struct coxi_keyring *ring);

/* The number of indexes, those of removed keys included; never fewer than before. */
uint32_t coxi_keyring_count(struct coxi_keyring *ring);

/* True unless the key of the run was removed. */
bool coxi_keyring_has(struct coxi_keyring *ring, uint32_t run);

/* The name of the run with the index `run`. Lives as long as the ring. */
const char *coxi_keyring_name(struct coxi_keyring *ring, uint32_t run);

/* Finds the run by the id of the key with which `role` proves itself, and copies the
 * key; false: there is none. */
bool coxi_keyring_find(struct coxi_keyring *ring, enum coxi_role role, uint64_t id,
                       struct coxi_key *ret, uint32_t *ret_run);

#endif
