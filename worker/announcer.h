/*
 * Writes the worker's address file for a process that is confined and may not: another
 * process, started before the confinement, waits for the address, writes the file, and
 * ends. No step runs before that, so no step meets an unconfined process. So steps need
 * no rights in the file's directory, in which making and removing files could not be
 * denied to them otherwise.
 */
#ifndef COXI_WORKER_ANNOUNCER_H
#define COXI_WORKER_ANNOUNCER_H

#include <sys/types.h>

struct coxi_announcer {
    pid_t pid; /* 0: there is none */
    int to;    /* the address goes there */
};

/* Main thread, before others start. COX_EIO. */
int coxi_announcer_start(const char *path, struct coxi_announcer *ret);

/* Has the address written, and waits for the end of the other process, which does
 * nothing else. Without such a process (`announcer` may be NULL) writes it to `path`.
 * COX_EIO. */
int coxi_announcer_tell(struct coxi_announcer *announcer, const char *path,
                        const char *address);

#endif
