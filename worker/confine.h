/*
 * What the process that runs steps cannot do, whatever a step tries. Main thread of the
 * step process, before any other thread starts: it holds for all of them, for the
 * programs that steps start, and for good.
 */
#ifndef COXI_WORKER_CONFINE_H
#define COXI_WORKER_CONFINE_H

#include <stdbool.h>
#include <stdint.h>

struct coxi_confinement {
    const char *profile; /* --confine: "off", "landlock", "seccomp" or "all" */
    const char *read;    /* --confine-read: directories, separated by colons */
    const char *write;   /* --confine-write; NULL: none */
    const char *dir;     /* modules are kept here; steps may write here */
    const char
        *listen_url;   /* a socket is made there if it is an ipc address; or NULL */
    bool cores;        /* a crash may leave a core file */
    int64_t files_max; /* open files; 0: as many as before */
    int64_t address_space_max; /* bytes; 0: no limit */
};

/*
 * Programs that this process starts get no rights that it has not (setuid files do
 * nothing), and the limits hold; then the profile. COX_EINVAL: a limit cannot be set, a
 * path is not there, or this kernel or processor does not support the profile; the text
 * says which.
 */
int coxi_confine(const struct coxi_confinement *confinement);

/* True if the profile keeps this process from writing its address file. */
bool coxi_confines_files(const char *profile);

/* A part of it: file system rules (Landlock). Reading beneath `read` and `write` only,
 * writing beneath `write` only. */
int coxi_confine_files(const struct coxi_confinement *confinement);

/* A part of it: system calls that no step needs, and that were ways out before, fail
 * with EPERM (seccomp). */
int coxi_confine_calls(void);

#endif
