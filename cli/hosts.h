/*
 * The HOSTS of `coxswain launch`: a list, "anna@h1,h2:2222,h3=10.0.0.3", or, if it has a
 * slash, a file with such words, in which # begins a comment. One thread.
 */
#ifndef COXI_CLI_HOSTS_H
#define COXI_CLI_HOSTS_H

#include <stddef.h>

enum { COXI_HOSTS_MAX = 1024 };

struct coxi_host {
    char *target;  /* for ssh: "anna@h1" */
    char *port;    /* NULL: as ssh's configuration says */
    char *name;    /* for messages: "h1" */
    char *address; /* at which other hosts reach its daemons; NULL: not said */
};

struct coxi_hosts {
    struct coxi_host *all;
    size_t n;
};

/* COX_EINVAL: no such list, or a host is listed twice; the text names the word.
 * COX_ENOENT, COX_EIO, COX_ELIMIT: the file cannot be read. Errors leave *ret empty. */
int coxi_hosts_read(const char *text, struct coxi_hosts *ret);

void coxi_hosts_fini(struct coxi_hosts *hosts); /* takes an empty one */

#endif
