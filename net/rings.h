/*
 * Rings: two ring buffers of bytes, one in each direction, in memory that two processes
 * of one host share. They know nothing of frames. One side makes the rings and tells
 * the other side their name; the other side opens them by that name. That succeeds only
 * on the same host, for a process that may inspect the first one (of the same user,
 * say). It never succeeds by mistake, because the name contains a secret that the
 * memory must contain, too. The name also holds the number of the memory's layout: a
 * process that knows another layout does not open the rings. The memory has no name in
 * a file system, so it vanishes with the processes, however they end.
 *
 * Bytes of the other side are not trusted: every length is checked before it is used,
 * and nobody can shorten the memory.
 *
 * Several rings of one maker may share a bell, so that one thread can wait for all of
 * them: see below.
 *
 * Threads: one at a time may write, one at a time may read; any thread may wait and
 * wake.
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
    COXI_RINGS_LAYOUT = 1, /* a change of the shared memory raises it: see rings.c */
    /* Bytes copied before the other side is told of them, so that both sides copy at
     * the same time. */
    COXI_RINGS_STEP = 128 * 1024,
};

/* Makes two rings of `bytes` each, a power of two from COXI_RING_MIN to COXI_RING_MAX.
 * `bell`: this side waits at that bell, which other rings may share; NULL: at a bell of
 * their own. COX_ENOMEM. */
int coxi_rings_new(size_t bytes, struct coxi_bell *bell, struct coxi_rings **ret);

/* COX_EADDRESS: there are no rings of this name, or we may not open them. */
int coxi_rings_open(const char *name, struct coxi_rings **ret);
void coxi_rings_free(struct coxi_rings *rings); /* takes NULL */

/* The name of rings that we have made. */
const char *coxi_rings_name(const struct coxi_rings *rings);

/* Closes the descriptor by which the other side opens the rings: from now on nobody can
 * open them. */
void coxi_rings_hide(struct coxi_rings *rings);

/* coxi_rings_room: where to write, and how many bytes in one piece. coxi_rings_wrote:
 * hands the first `len` bytes of that piece to the other side. */
void *coxi_rings_room(struct coxi_rings *rings, size_t *ret_len);
void coxi_rings_wrote(struct coxi_rings *rings, size_t len);

/* coxi_rings_data: the next bytes to read, in one piece. coxi_rings_took: frees the
 * first `len` bytes of that piece for the writer. */
const void *coxi_rings_data(struct coxi_rings *rings, size_t *ret_len);
void coxi_rings_took(struct coxi_rings *rings, size_t len);

/* Copy bytes into the ring, as many as it has room for, or out of it, as many as have
 * come; return how many. */
size_t coxi_rings_write(struct coxi_rings *rings, const void *from, size_t len);
size_t coxi_rings_read(struct coxi_rings *rings, void *to, size_t len);

/* True once the other side has written an impossible position. After that nothing is
 * read or written. */
bool coxi_rings_broken(const struct coxi_rings *rings);

/* Looks at all counts of the other side: beyond the ring, beyond our own, or smaller
 * than before they are impossible. False: the rings are broken. Any thread, even while
 * others read and write. */
bool coxi_rings_check(struct coxi_rings *rings);

/*
 * Poll for data (the reader) or for `bytes` of room (the writer) for a moment; true: it
 * has come. Call these before waiting. While bytes stream, polling saves a sleep and a
 * wake-up, which take longer. If polling has not helped lately, it is mostly skipped.
 */
bool coxi_rings_linger_for_data(struct coxi_rings *rings);
bool coxi_rings_linger_for_room(struct coxi_rings *rings, size_t bytes);

/*
 * How to wait: first listen; then check every reason not to wait; ask for data or room
 * (true: it is there already); then wait. The wait ends when the other side has
 * provided what a thread of this side has asked for since it listened, when a thread of
 * this side calls wake, or spuriously.
 */
uint32_t coxi_rings_listen(struct coxi_rings *rings);
bool coxi_rings_ask_data(struct coxi_rings *rings);
bool coxi_rings_ask_room(struct coxi_rings *rings, size_t bytes);
void coxi_rings_wait(struct coxi_rings *rings, uint32_t heard);
void coxi_rings_wake(struct coxi_rings *rings);

/*
 * A bell that several rings share. One thread waits at it for data in any of them: it
 * listens, looks at all rings, dozes, checks again for data, and then waits, or goes on
 * (rouse). Data rings the bell only while the thread dozes. Room that was asked for and
 * wake also end this wait, as they end the wait at a single pair of rings.
 */
int coxi_bell_new(struct coxi_bell **ret);   /* COX_ENOMEM */
void coxi_bell_free(struct coxi_bell *bell); /* after its rings; takes NULL */
uint32_t coxi_bell_listen(struct coxi_bell *bell);
void coxi_bell_doze(struct coxi_bell *bell);
void coxi_bell_wait(struct coxi_bell *bell, uint32_t heard);
void coxi_bell_rouse(struct coxi_bell *bell);
void coxi_bell_ring(struct coxi_bell *bell);         /* any thread */
bool coxi_rings_have_data(struct coxi_rings *rings); /* true also if they are broken */

/* True if bytes have come that nobody has read yet. Any thread, even while another
 * thread reads. */
bool coxi_rings_unread(const struct coxi_rings *rings);

#endif
