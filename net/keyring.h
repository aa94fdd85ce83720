/*
 * The keys of several runs, each with the run's name, for a daemon that the runs share.
 * The first message of a newcomer names its key by an id that is derived from it
 * (coxi_key_id). Constant after coxi_keyring_open, so any thread may read it.
 */
#ifndef COXI_NET_KEYRING_H
#define COXI_NET_KEYRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/key.h"

enum { COXI_KEYRING_NAME_MAX = 63 }; /* bytes of a run's name */

struct coxi_keyring;

/*
 * Reads each file NAME.key of a directory: it is the key of the run NAME (letters,
 * digits, '.', '_', '-'; no '.' at its beginning). Other files are ignored. The runs
 * are in the order of their names. COX_EINVAL: there is no key, or two runs have the
 * same one, or others may change the directory; and errors of coxi_key_read. The text
 * names the file.
 */
int coxi_keyring_open(const char *directory, struct coxi_keyring **ret);

/* Wipes the keys. Takes NULL. */
void coxi_keyring_free(struct coxi_keyring *ring);

uint32_t coxi_keyring_count(const struct coxi_keyring *ring);

/* The name of the run with the index `run`. Lives as long as the ring. */
const char *coxi_keyring_name(const struct coxi_keyring *ring, uint32_t run);

/* Finds the run by the id of the key with which `role` proves itself; NULL: there is
 * none. The key lives as long as the ring. */
const struct coxi_key *coxi_keyring_find(const struct coxi_keyring *ring,
                                         enum coxi_role role, uint64_t id,
                                         uint32_t *ret_run);

#endif
