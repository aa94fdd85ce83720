/*
 * Processes as /proc shows them, and whether one still lives. Any thread.
 * Cost: a few system calls.
 */
#ifndef COXI_COMMON_PROCESS_H
#define COXI_COMMON_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

struct coxi_process {
    char state; /* 'Z': it has ended, and its parent has not asked for its exit code */
    uint64_t n_threads;
    uint64_t began_ticks; /* since the host was started (sysconf(_SC_CLK_TCK)) */
    uint64_t virtual_bytes;
};

/* False: /proc does not show the process. */
bool coxi_process_read(int pid, struct coxi_process *ret);

/* The resident memory of a process of this host in bytes; 0: not known. */
uint64_t coxi_process_resident_bytes(int pid);

/* The process with a pid, told apart from all that have had that pid before or will have it, and from
 * those that have it on another host or in another container. */
struct coxi_process_id {
    int pid;
    uint64_t began_ticks;
    uint64_t pid_namespace; /* its inode */
    char boot[40]; /* boot_id of the host, which is another one after each boot */
};

/* This process. False: /proc does not show it. */
bool coxi_process_self(struct coxi_process_id *ret);

enum coxi_process_life {
    COXI_PROCESS_LIVES,
    COXI_PROCESS_GONE,
    COXI_PROCESS_UNKNOWN, /* it is on another host, in another container, or hidden */
};

enum coxi_process_life coxi_process_look(const struct coxi_process_id *id);

#endif
