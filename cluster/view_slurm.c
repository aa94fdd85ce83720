/*
 * A task that srun has started. The variables of the step count, not those of the job:
 * a batch script has only the latter, and is no task. Of a heterogeneous job the step
 * spans all components, and each component is a role unless COX_ROLES says otherwise.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cluster/view_internal.h"
#include "common/error.h"

/* Jobs that share hosts get ports of their own, unless there are very many. */
enum { FIRST_PORT = 17000, PORTS_A_JOB = 15, JOBS = 1000, COMPONENTS_MAX = 4 };

static const char set_hosts[] =
    "start with --distribution=block, or set COX_HOSTS to the host of each rank in "
    "order, like n1,n2,n1,n2";

static int read_hosts(const struct coxi_environment *environment,
                      struct coxi_ranks *ranks)
{
    const char *list = coxi_environment_get(environment, "SLURM_STEP_NODELIST");
    const char *tasks = coxi_environment_get(environment, "SLURM_STEP_TASKS_PER_NODE");
    int r = coxi_host_list_read(list, &ranks->hosts);
    if (r != 0) {
        return coxi_error(r,
                          "SLURM_STEP_NODELIST=%.80s: %s: set COX_HOSTS to the host of "
                          "each rank in order",
                          list, coxi_error_text());
    }
    r = tasks != NULL ? coxi_host_list_read_tasks(tasks, &ranks->hosts)
                      : coxi_error(COX_EINVAL, "it is not set");
    if (r == 0 && coxi_host_list_tasks(&ranks->hosts) != ranks->n) {
        r = coxi_error(COX_EINVAL, "that is not SLURM_STEP_NUM_TASKS=%u", ranks->n);
    }
    return r == 0 ? 0
                  : coxi_error(r,
                               "SLURM_STEP_TASKS_PER_NODE=%.80s: %s: set COX_HOSTS to "
                               "the host of each rank in order",
                               tasks != NULL ? tasks : "", coxi_error_text());
}

/* Compares where this task is with where blocks of tasks would have put it. */
static int check_place(const struct coxi_environment *environment,
                       const struct coxi_ranks *ranks, uint32_t local)
{
    const char *how = coxi_environment_get(environment, "SLURM_DISTRIBUTION");
    const char *name = coxi_environment_get(environment, "SLURMD_NODENAME");
    size_t host;
    uint32_t place;
    coxi_ranks_place(ranks, ranks->rank, &host, &place);
    if (how != NULL && strncmp(how, "block", 5) != 0 && ranks->n > ranks->hosts.n) {
        return coxi_error(COX_EINVAL, "SLURM_DISTRIBUTION=%.40s: %s", how, set_hosts);
    }
    if (name != NULL && strcmp(name, ranks->hosts.names[host]) != 0) {
        return coxi_error(
            COX_EINVAL,
            "rank %u is on %s (SLURMD_NODENAME), and not on %s, as "
            "SLURM_STEP_NODELIST and SLURM_STEP_TASKS_PER_NODE have it: %s",
            ranks->rank, name, ranks->hosts.names[host], set_hosts);
    }
    uint32_t node;
    int r = coxi_environment_number(environment, "SLURM_NODEID", UINT32_MAX, &node);
    if (r == 0 && (node != host || local != place)) {
        r = coxi_error(
            COX_EINVAL,
            "rank %u is task %u of node %u (SLURM_LOCALID, SLURM_NODEID), and "
            "not task %u of node %zu, as SLURM_STEP_TASKS_PER_NODE has it: %s",
            ranks->rank, local, node, place, host, set_hosts);
    }
    return r == COX_ENOENT ? 0 : r;
}

/* How many tasks the component has; 0: it has none in this step. Newer versions of Slurm
 * say HET, older ones PACK. */
static int count_component(const struct coxi_environment *environment,
                           const struct coxi_host_list *hosts, size_t component,
                           uint32_t *ret)
{
    static const char *const kinds[] = {"HET", "PACK"};
    struct coxi_host_list nodes = {0};
    const char *list = NULL;
    *ret = 0;
    for (size_t i = 0; list == NULL && i < 2; i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "SLURM_JOB_NODELIST_%s_GROUP_%zu", kinds[i],
                       component);
        list = coxi_environment_get(environment, name);
    }
    int r = list != NULL ? coxi_host_list_read(list, &nodes) : 0;
    for (size_t i = 0; r == 0 && i < nodes.n; i++) {
        size_t at = coxi_host_list_find(hosts, nodes.names[i]);
        *ret += at < hosts->n ? hosts->tasks[at] : 0;
    }
    coxi_host_list_fini(&nodes);
    return r;
}

/* Components are roles in order, if all of their tasks are in this step. */
static int read_components(const struct coxi_environment *environment,
                           struct coxi_ranks *ranks)
{
    uint32_t counts[COMPONENTS_MAX] = {0};
    uint32_t n = 0;
    uint64_t sum = 0;
    int r = coxi_environment_number(environment, "SLURM_HET_SIZE", UINT32_MAX, &n);
    if (r == COX_ENOENT || n > COMPONENTS_MAX) {
        return 0;
    }
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = count_component(environment, &ranks->hosts, i, &counts[i]);
        sum += counts[i];
    }
    if (r == 0 && sum == ranks->n) {
        coxi_roles_in_order(counts, n, &ranks->roles);
        ranks->roles_var = "SLURM_HET_SIZE";
    }
    return r;
}

/* True if another launcher, MPICH's in a Slurm allocation, has started this process:
 * then Slurm's variables are those of the launcher's own task. */
static bool is_of_other_launcher(const struct coxi_environment *environment,
                                 const struct coxi_ranks *ranks)
{
    uint32_t rank = ranks->rank;
    uint32_t n = ranks->n;
    (void)coxi_environment_number(environment, "PMI_RANK", UINT32_MAX, &rank);
    (void)coxi_environment_number(environment, "PMI_SIZE", UINT32_MAX, &n);
    return rank != ranks->rank || n != ranks->n;
}

/* Reads which rank this is, of how many. */
static int read_rank(const struct coxi_environment *environment,
                     struct coxi_ranks *ranks)
{
    int r = coxi_environment_number(environment, ranks->size_var, UINT32_MAX - 1,
                                    &ranks->n);
    if (r == 0) {
        r = coxi_environment_number(environment, ranks->rank_var, UINT32_MAX - 1,
                                    &ranks->rank);
    }
    if (r == 0 && ranks->rank >= ranks->n) {
        r = coxi_error(COX_EINVAL, "it is %u of %u", ranks->rank, ranks->n);
    }
    return r == 0
               ? 0
               : coxi_error(COX_EINVAL,
                            "SLURM_PROCID and SLURM_STEP_NUM_TASKS have to be a rank "
                            "and how many there are (%s): set COX_CLUSTER instead, or "
                            "unset them",
                            coxi_error_text());
}

int coxi_view_from_slurm(const struct coxi_environment *environment,
                         struct coxi_view *ret)
{
    struct coxi_ranks ranks = {
        .source = "Slurm",
        .rank_var = "SLURM_PROCID",
        .size_var = "SLURM_STEP_NUM_TASKS",
        .hosts_var = "SLURM_STEP_NODELIST",
        .port_var = "SLURM_JOB_ID",
        .roles_var = "COX_ROLES",
    };
    uint32_t local = 0;
    uint32_t job = 0;
    if (coxi_environment_get(environment, "SLURM_STEP_NODELIST") == NULL ||
        coxi_environment_get(environment, "SLURM_PROCID") == NULL) {
        return 0;
    }
    int r = read_rank(environment, &ranks);
    if (r != 0 || is_of_other_launcher(environment, &ranks)) {
        return r;
    }
    (void)coxi_environment_number(environment, "SLURM_LOCALID", UINT32_MAX, &local);
    (void)coxi_environment_number(environment, "SLURM_JOB_ID", UINT32_MAX, &job);
    ranks.port = FIRST_PORT + PORTS_A_JOB * (job % JOBS);
    if (coxi_environment_get(environment, "COX_HOSTS") != NULL) {
        r = coxi_ranks_read_hosts(environment, &ranks, local);
    } else {
        r = read_hosts(environment, &ranks);
        r = r == 0 ? check_place(environment, &ranks, local) : r;
    }
    r = r == 0 ? read_components(environment, &ranks) : r;
    r = r == 0 ? coxi_ranks_settle(environment, &ranks, ret) : r;
    coxi_host_list_fini(&ranks.hosts);
    return r;
}
