/*
 * What of this process a forked child does not get: a program that uses the library, or a
 * step, may fork, and its child may live longer than it. A socket or pipe that the child
 * keeps open then looks as if this process lived: its address stays in use, and whoever
 * waits for its end is not told.
 *
 * fork() runs our handler in the child; what starts another program (posix_spawn, system)
 * needs none, because everything here is O_CLOEXEC.
 *
 * Threads: any.
 */
#ifndef COXI_COMMON_UNFORKED_H
#define COXI_COMMON_UNFORKED_H

/* The child closes it. In the owner's struct; zeroed, then one of the two is set. */
struct coxi_unforked {
    struct coxi_unforked *next;
    struct coxi_unforked **at;
    int fd;          /* this file; or, where `url` is not NULL: */
    const char *url; /* whatever listens at this address, or was accepted there */
};

/* From now on; until _drop, which takes what was never held, too. */
void coxi_unforked_hold(struct coxi_unforked *what);
void coxi_unforked_drop(struct coxi_unforked *what);

#endif
