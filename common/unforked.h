/*
 * Files that a forked child closes. A program that uses the library, or a step, may
 * fork, and its child may live longer. If the child kept a socket or pipe open, this
 * process would seem to live: its address would stay in use, and peers would not notice
 * its end.
 *
 * fork() runs our handler in the child. Functions that start another program
 * (posix_spawn, system) need no handler, because all these files are O_CLOEXEC.
 *
 * Threads: any.
 */
#ifndef COXI_COMMON_UNFORKED_H
#define COXI_COMMON_UNFORKED_H

/* A file that the child closes. Embed it in the owner's struct; zero it, then set `fd`
 * or `url`. */
struct coxi_unforked {
    struct coxi_unforked *next;
    struct coxi_unforked **at;
    int fd; /* the file, if `url` is NULL */
    /* all sockets that listen at this address or were accepted there */
    const char *url;
};

/* Between hold and drop, a child that is forked closes the file. drop may be called
 * without hold. */
void coxi_unforked_hold(struct coxi_unforked *what);
void coxi_unforked_drop(struct coxi_unforked *what);

#endif
