/*
 * Two rings of bytes, one in each direction, in memory that two processes of one host share.
 * It knows nothing of frames. One side makes it and tells the other its name; the other
 * opens it by that, which only succeeds on the same host, for a process that may look into
 * the first (the same user, say), and nowhere by mistake: the name holds a secret that the
 * memory must hold, too. The memory has no place in any file system: it goes with the
 * processes, however they end.
 *
 * What the other side writes is not trusted: no length of it is used before it is checked,
 * and the memory cannot be made shorter.
 *
 * Whoever made several rings may have them share a bell, so that one thread can wait for all
 * of them: see below.
 *
 * Threads: one at a time writes, one at a time reads; any may wait and wake.
 */
#ifndef COXI_NET_RINGS_H
#define COXI_NET_RINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coxi_bell;
struct coxi_rings;

enum {
    COXI_RING_MIN = 128 * 1024, /* bytes of one */
    COXI_RING_MAX = 16 * 1024 * 1024,
    COXI_RINGS_NAME_MAX = 96,
};

/* Makes two rings of `bytes` each, a power of two from COXI_RING_MIN to COXI_RING_MAX. `bell`:
 * their own side waits there, with others of the same bell; NULL: at one of their own.
 * COX_ENOMEM. */
int coxi_rings_new(size_t bytes, struct coxi_bell *bell, struct coxi_rings **ret);

/* COX_EADDRESS: there are none of this name that we could open. */
int coxi_rings_open(const char *name, struct coxi_rings **ret);
void coxi_rings_free(struct coxi_rings *rings); /* takes NULL */

/* The name of rings that we have made. */
const char *coxi_rings_name(const struct coxi_rings *rings);

/* From now on nobody can open them any more. */
void coxi_rings_hide(struct coxi_rings *rings);

/* Where to write and how much there is room for, in one piece; makes the first `len` bytes
 * of it the other side's to read. */
void *coxi_rings_room(struct coxi_rings *rings, size_t *ret_len);
void coxi_rings_wrote(struct coxi_rings *rings, size_t len);

/* What there is to read, in one piece; gives the first `len` bytes of it back. */
const void *coxi_rings_data(struct coxi_rings *rings, size_t *ret_len);
void coxi_rings_took(struct coxi_rings *rings, size_t len);

/* True once the other side has written what cannot be. Nothing is read or written then. */
bool coxi_rings_broken(const struct coxi_rings *rings);

/*
 * Look for data, or for so much room, for a moment: true, it is there. To be called before
 * one waits, by the one who reads, who writes. Where a stream of bytes flows this saves going
 * to sleep and being woken, which takes longer; where it does not help it is hardly done.
 */
bool coxi_rings_linger_for_data(struct coxi_rings *rings);
bool coxi_rings_linger_for_room(struct coxi_rings *rings, size_t bytes);

/*
 * To wait: listen, then look at all that would make waiting wrong, ask for what is missing
 * (true: it is there already), and wait, which ends when the other side has brought what any
 * of us has asked for since we listened, when one of us has called wake, or for no reason.
 */
uint32_t coxi_rings_listen(struct coxi_rings *rings);
bool coxi_rings_ask_data(struct coxi_rings *rings);
bool coxi_rings_ask_room(struct coxi_rings *rings, size_t bytes);
void coxi_rings_wait(struct coxi_rings *rings, uint32_t heard);
void coxi_rings_wake(struct coxi_rings *rings);

/*
 * A bell that rings share. One thread waits at it, for data in any of them: it listens, looks
 * at all of them, dozes, looks again whether one has data, and waits, or goes on (rouse). Only
 * a thread that dozes is rung for data. What ends a wait for a single pair of rings (room that
 * was asked for, wake) ends this one, too.
 */
int coxi_bell_new(struct coxi_bell **ret);   /* COX_ENOMEM */
void coxi_bell_free(struct coxi_bell *bell); /* after its rings; takes NULL */
uint32_t coxi_bell_listen(struct coxi_bell *bell);
void coxi_bell_doze(struct coxi_bell *bell);
void coxi_bell_wait(struct coxi_bell *bell, uint32_t heard);
void coxi_bell_rouse(struct coxi_bell *bell);
void coxi_bell_ring(struct coxi_bell *bell);         /* any thread */
bool coxi_rings_have_data(struct coxi_rings *rings); /* or are broken */

#endif
