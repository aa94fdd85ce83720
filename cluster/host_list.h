/* Lists of hosts and of tasks, as Slurm and mpirun write them. Pure; any thread. */
#ifndef COXI_CLUSTER_HOST_LIST_H
#define COXI_CLUSTER_HOST_LIST_H

#include <stddef.h>
#include <stdint.h>

enum { COXI_HOST_NAME_MAX = 255, COXI_HOST_LIST_MAX = 65536 };

/* Hosts in order; zeroed is valid and empty. */
struct coxi_host_list {
    char **names;
    uint32_t *tasks; /* of each host */
    size_t n;
};

/*
 * Reads a node list: names separated by commas, each with any number of ranges in
 * brackets: n[1-3,07-09],m5,rack[0-1]n[0-3]. The order and leading zeros are kept. After
 * a name may come ":COUNT", its tasks (`n1:4,n2:3`, as mpirun's --host); else it has 1.
 * *ret was zeroed. COX_EINVAL: the text says what is wrong; COX_ELIMIT.
 */
int coxi_host_list_read(const char *list, struct coxi_host_list *ret);

/* Reads the tasks of each host, in the form of SLURM_TASKS_PER_NODE: "5,1(x3)".
 * COX_EINVAL: it is malformed, or counts for another number of hosts. */
int coxi_host_list_read_tasks(const char *counts, struct coxi_host_list *hosts);

/* How many tasks all of them have. */
uint64_t coxi_host_list_tasks(const struct coxi_host_list *hosts);

/* The place of a name; `n` if it is not among them. */
size_t coxi_host_list_find(const struct coxi_host_list *hosts, const char *name);

void coxi_host_list_fini(struct coxi_host_list *hosts);

#endif
