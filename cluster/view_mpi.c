/*
 * A process that mpirun has started. Open MPI: `mpirun -np 1 client : -np 2 coxswain-ps :
 * -np 4 coxswain-worker` has three groups of processes, which are the roles. Its
 * OMPI_FIRST_RANKS is not used, because Open MPI 4.1.4 sets it to zeros. PMI, of MPICH and
 * srun, tells ranks only.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/view_internal.h"
#include "common/error.h"

enum { FIRST_PORT = 17000, GROUPS_MAX = 4 };

/* Reads the number of processes of each group: "1 2 4". */
static void read_groups(const struct coxi_environment *environment,
                        struct coxi_ranks *ranks)
{
    const char *at = coxi_environment_get(environment, "OMPI_APP_CTX_NUM_PROCS");
    uint32_t counts[GROUPS_MAX + 1] = {0};
    uint64_t sum = 0;
    size_t n = 0;
    while (at != NULL && *at >= '0' && *at <= '9' && n <= GROUPS_MAX) {
        char *end;
        unsigned long count = strtoul(at, &end, 10);
        counts[n++] = (uint32_t)count;
        sum += count;
        at = end + strspn(end, " ");
    }
    if (n <= GROUPS_MAX && at != NULL && *at == '\0' && sum == ranks->n) {
        coxi_roles_in_order(counts, n, &ranks->roles);
    }
}

static int read_rank(const struct coxi_environment *environment,
                     struct coxi_ranks *ranks)
{
    int r = coxi_environment_number(environment, ranks->rank_var, UINT32_MAX - 1,
                                    &ranks->rank);
    if (r == 0) {
        r = coxi_environment_number(environment, ranks->size_var, UINT32_MAX - 1,
                                    &ranks->n);
    }
    if (r == 0 && ranks->rank >= ranks->n) {
        r = COX_EINVAL;
    }
    return r == 0
               ? 0
               : coxi_error(COX_EINVAL,
                            "%s and %s have to be a rank and how many there are: set "
                            "COX_CLUSTER instead, or unset them",
                            ranks->rank_var, ranks->size_var);
}

/* Several hosts: COX_HOSTS names them. One: nothing has to. */
static int read_hosts(const struct coxi_environment *environment,
                      struct coxi_ranks *ranks, uint32_t local, uint32_t local_n)
{
    bool named = coxi_environment_get(environment, "COX_HOSTS") != NULL;
    if (named || local_n >= ranks->n) {
        return coxi_ranks_read_hosts(environment, ranks, local);
    }
    return ranks->n == 1
               ? 0
               : coxi_error(COX_EINVAL,
                            "%s runs %u processes on several hosts, and does not tell "
                            "where (%s): set COX_HOSTS to the host of each rank in "
                            "order, like n1:4,n2:3",
                            ranks->source, ranks->n, ranks->size_var);
}

int coxi_view_from_mpi(const struct coxi_environment *environment,
                       struct coxi_view *ret)
{
    struct coxi_ranks ranks = {
        .source = "Open MPI",
        .rank_var = "OMPI_COMM_WORLD_RANK",
        .size_var = "OMPI_COMM_WORLD_SIZE",
        .hosts_var = "OMPI_COMM_WORLD_LOCAL_SIZE",
        .port = FIRST_PORT,
        .port_var = "the default port",
        .roles_var = "OMPI_APP_CTX_NUM_PROCS",
    };
    uint32_t local = 0;
    uint32_t local_n = 0;
    if (coxi_environment_get(environment, ranks.rank_var) == NULL) {
        return 0;
    }
    int r = read_rank(environment, &ranks);
    (void)coxi_environment_number(environment, "OMPI_COMM_WORLD_LOCAL_RANK", UINT32_MAX,
                                  &local);
    (void)coxi_environment_number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", UINT32_MAX,
                                  &local_n);
    const char *dir =
        coxi_environment_get(environment, "OMPI_MCA_orte_jobfam_session_dir");
    if (r == 0 && dir != NULL && strlen(dir) <= 80 && local_n >= ranks.n) {
        ranks.socket_dir = dir; /* only this user may enter it; mpirun removes it */
        ranks.hosts_var = "OMPI_MCA_orte_jobfam_session_dir";
    }
    if (r == 0) {
        read_groups(environment, &ranks);
        r = read_hosts(environment, &ranks, local, local_n);
    }
    r = r == 0 ? coxi_ranks_settle(environment, &ranks, ret) : r;
    coxi_host_list_fini(&ranks.hosts);
    return r;
}

int coxi_view_from_pmi(const struct coxi_environment *environment,
                       struct coxi_view *ret)
{
    struct coxi_ranks ranks = {
        .source = "PMI",
        .rank_var = "PMI_RANK",
        .size_var = "PMI_SIZE",
        .hosts_var = "MPI_LOCALNRANKS",
        .port = FIRST_PORT,
        .port_var = "the default port",
        .roles_var = "COX_ROLES",
    };
    uint32_t local = 0;
    uint32_t local_n = 0;
    if (coxi_environment_get(environment, ranks.rank_var) == NULL) {
        return 0;
    }
    int r = read_rank(environment, &ranks);
    (void)coxi_environment_number(environment, "MPI_LOCALRANKID", UINT32_MAX, &local);
    (void)coxi_environment_number(environment, "MPI_LOCALNRANKS", UINT32_MAX, &local_n);
    if (r == 0) {
        r = read_hosts(environment, &ranks, local, local_n);
    }
    r = r == 0 ? coxi_ranks_settle(environment, &ranks, ret) : r;
    coxi_host_list_fini(&ranks.hosts);
    return r;
}
