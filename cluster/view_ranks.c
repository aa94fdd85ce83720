/*
 * Processes that a launcher has started side by side, each with a rank: COX_ROLES, or
 * the launcher's groups, say which rank is what; addresses follow from the ranks' hosts,
 * or are sockets in a directory of the job. Every rank computes the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/view_internal.h"
#include "common/error.h"

enum { PORT_MAX = 65535, GROUPS_MAX = 8 };

/* ---- roles */

static const enum coxi_cluster_role in_order[] = {
    COXI_CLUSTER_CLIENT, COXI_CLUSTER_PS, COXI_CLUSTER_WORKER, COXI_CLUSTER_EVALUATOR};

void coxi_roles_in_order(const uint32_t *counts, size_t n, struct coxi_roles *ret)
{
    ret->n = n == 3 || n == 4 ? n : 0;
    for (size_t i = 0; i < ret->n; i++) {
        ret->groups[i].role = in_order[i];
        ret->groups[i].n = counts[i];
    }
}

static int bad_roles(const char *text)
{
    return coxi_error(COX_EINVAL,
                      "COX_ROLES=%.80s: set it to roles in order of ranks, like "
                      "client:1,ps:2,worker:4,evaluator:1 (\"*\" for all other ranks)",
                      text);
}

/* Reads COX_ROLES; the rest of `n` goes to the role with "*". */
static int read_roles(const char *text, uint32_t n, struct coxi_roles *ret)
{
    const char *at = text;
    size_t others = SIZE_MAX;
    uint64_t sum = 0;
    for (ret->n = 0; ret->n < GROUPS_MAX; ret->n++) {
        size_t len = strcspn(at, ":,");
        enum coxi_cluster_role role = coxi_cluster_role_named(at, len);
        char *end = (char *)(uintptr_t)(at + len);
        uint32_t count = 1;
        if (*end == ':' && end[1] == '*' && others == SIZE_MAX) {
            others = ret->n;
            count = 0;
            end += 2;
        } else if (*end == ':' && end[1] >= '0' && end[1] <= '9') {
            unsigned long long number = strtoull(end + 1, &end, 10);
            count = number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
        }
        if (role == COXI_CLUSTER_NONE || (*end != '\0' && *end != ',')) {
            return bad_roles(text);
        }
        ret->groups[ret->n].role = role;
        ret->groups[ret->n].n = count;
        sum += count;
        at = end + 1;
        if (*end == '\0') {
            break;
        }
    }
    ret->n++;
    if (ret->n > GROUPS_MAX) {
        return bad_roles(text);
    }
    if (others != SIZE_MAX && sum < n) {
        ret->groups[others].n = (uint32_t)(n - sum);
    } else if (others != SIZE_MAX && ret->groups[others].role == COXI_CLUSTER_WORKER) {
        return coxi_error(COX_EINVAL,
                          "COX_ROLES=%.80s leaves no rank to workers, because there "
                          "are %u: start more processes, or set it to fewer ps",
                          text, n);
    }
    return 0;
}

static uint32_t count_of(const struct coxi_roles *roles, enum coxi_cluster_role role)
{
    uint64_t n = 0;
    for (size_t i = 0; i < roles->n; i++) {
        n += roles->groups[i].role == role ? roles->groups[i].n : 0;
    }
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* The role of a rank and its index there. */
static enum coxi_cluster_role role_of(const struct coxi_roles *roles, uint32_t rank,
                                      uint32_t *ret_index)
{
    uint32_t before[COXI_CLUSTER_ROLES] = {0};
    uint32_t first = 0;
    for (size_t i = 0; i < roles->n; i++) {
        enum coxi_cluster_role role = roles->groups[i].role;
        if (rank - first < roles->groups[i].n) {
            *ret_index = before[role] + rank - first;
            return role;
        }
        before[role] += roles->groups[i].n;
        first += roles->groups[i].n;
    }
    return COXI_CLUSTER_NONE;
}

static int check_roles(const struct coxi_roles *roles, const struct coxi_ranks *ranks,
                       const char *text)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < roles->n; i++) {
        sum += roles->groups[i].n;
    }
    if (sum != ranks->n) {
        return coxi_error(COX_EINVAL,
                          "COX_ROLES=%.80s gives roles to %llu ranks, but there are %u "
                          "(%s): set it to as many, or one role to \"*\"",
                          text, (unsigned long long)sum, ranks->n, ranks->size_var);
    }
    if (count_of(roles, COXI_CLUSTER_CLIENT) > 1) {
        return coxi_error(COX_EINVAL,
                          "%s=%.80s has %u clients, and a cluster has one: set "
                          "COX_ROLES to roles in order of ranks, like "
                          "client:1,ps:2,worker:*",
                          text != NULL ? "COX_ROLES" : ranks->roles_var,
                          text != NULL ? text : "...",
                          count_of(roles, COXI_CLUSTER_CLIENT));
    }
    if (count_of(roles, COXI_CLUSTER_PS) == 0) {
        return coxi_error(
            COX_EINVAL,
            "%s=%.80s has no ps: set COX_ROLES to roles in order of ranks, "
            "like client:1,ps:2,worker:*",
            text != NULL ? "COX_ROLES" : ranks->roles_var, text != NULL ? text : "...");
    }
    return 0;
}

/* ---- hosts */

void coxi_ranks_place(const struct coxi_ranks *ranks, uint32_t rank, size_t *ret_host,
                      uint32_t *ret_local)
{
    uint32_t first = 0;
    *ret_host = 0;
    *ret_local = rank;
    for (size_t i = 0; i < ranks->hosts.n; i++) {
        if (rank - first < ranks->hosts.tasks[i]) {
            *ret_host = i;
            *ret_local = rank - first;
            return;
        }
        first += ranks->hosts.tasks[i];
    }
}

/* How many ranks before this one are on its host, which COX_HOSTS may name often. */
static uint32_t place_on_host(const struct coxi_ranks *ranks)
{
    size_t host;
    uint32_t local;
    coxi_ranks_place(ranks, ranks->rank, &host, &local);
    for (size_t i = 0; i < host; i++) {
        if (strcmp(ranks->hosts.names[i], ranks->hosts.names[host]) == 0) {
            local += ranks->hosts.tasks[i];
        }
    }
    return local;
}

int coxi_ranks_read_hosts(const struct coxi_environment *environment,
                          struct coxi_ranks *ranks, uint32_t local)
{
    const char *text = coxi_environment_get(environment, "COX_HOSTS");
    struct coxi_host_list hosts = {0};
    if (text == NULL) {
        return 0;
    }
    int r = coxi_host_list_read(text, &hosts);
    if (r != 0) {
        coxi_host_list_fini(&hosts);
        return coxi_error(r,
                          "COX_HOSTS=%.80s: %s: set it to the host of each rank in "
                          "order, like n1:4,n2:3",
                          text, coxi_error_text());
    }
    coxi_host_list_fini(&ranks->hosts);
    ranks->hosts = hosts;
    ranks->hosts_var = "COX_HOSTS";
    ranks->socket_dir = NULL;
    if (coxi_host_list_tasks(&hosts) < ranks->n) {
        return coxi_error(COX_EINVAL,
                          "COX_HOSTS=%.80s has places for %llu ranks, but there are %u "
                          "(%s): set it to "
                          "the host of each rank in order, like n1:4,n2:3",
                          text, (unsigned long long)coxi_host_list_tasks(&hosts),
                          ranks->n, ranks->size_var);
    }
    if (place_on_host(ranks) != local) {
        return coxi_error(COX_EINVAL,
                          "COX_HOSTS=%.80s puts %u ranks before this one on its host, "
                          "but there are %u: set it to the host of each rank in order",
                          text, place_on_host(ranks), local);
    }
    return 0;
}

/* ---- addresses */

static int url_of(const struct coxi_ranks *ranks, uint32_t rank, uint32_t port,
                  char ret[COXI_URL_MAX + 1])
{
    size_t host;
    uint32_t ignored;
    char text[COXI_HOST_NAME_MAX + sizeof("tcp://:65535")];
    coxi_ranks_place(ranks, rank, &host, &ignored);
    if (ranks->socket_dir != NULL) {
        (void)snprintf(text, sizeof(text), "ipc://%.80s/rank-%u", ranks->socket_dir,
                       rank);
    } else {
        (void)snprintf(text, sizeof(text), "tcp://%s:%u",
                       ranks->hosts.n > 0 ? ranks->hosts.names[host] : "127.0.0.1",
                       port + rank);
    }
    int r = coxi_url_from(text, ret);
    return r == 0
               ? 0
               : coxi_error(r,
                            "%s: %s; set COX_HOSTS to the host of each rank in order",
                            ranks->hosts_var, coxi_error_text());
}

static int find_port(const struct coxi_environment *environment,
                     const struct coxi_ranks *ranks, uint32_t *ret)
{
    int r = coxi_environment_number(environment, "COX_PORT", PORT_MAX, ret);
    if (r == COX_ENOENT) {
        *ret = ranks->port;
        r = 0;
    }
    if (r == 0 && (*ret == 0 || ranks->n - 1 > PORT_MAX - *ret)) {
        r = coxi_error(COX_EINVAL,
                       "rank %u would listen at port %llu, which there is not: set "
                       "COX_PORT to the port of rank 0, which with %u ranks is at most "
                       "%u",
                       ranks->n - 1, (unsigned long long)*ret + ranks->n - 1, ranks->n,
                       PORT_MAX - (ranks->n - 1));
    }
    return r;
}

/* ---- the cluster */

static int list_ranks(const struct coxi_ranks *ranks, const struct coxi_roles *roles,
                      uint32_t port, struct coxi_view *view)
{
    struct cox_cluster *cluster = calloc(1, sizeof(*cluster));
    view->cluster = cluster;
    if (cluster == NULL) {
        return coxi_error_memory("a cluster");
    }
    cluster->ps = calloc(count_of(roles, COXI_CLUSTER_PS), sizeof(char *));
    cluster->workers =
        calloc(count_of(roles, COXI_CLUSTER_WORKER) + 1U, sizeof(char *));
    if (cluster->ps == NULL || cluster->workers == NULL) {
        return coxi_error_memory("a cluster");
    }
    int r = 0;
    for (uint32_t rank = 0; r == 0 && rank < ranks->n; rank++) {
        char url[COXI_URL_MAX + 1];
        char **to = NULL;
        uint32_t index;
        enum coxi_cluster_role role = role_of(roles, rank, &index);
        r = url_of(ranks, rank, port, url);
        if (r == 0 && role == COXI_CLUSTER_PS) {
            to = &cluster->ps[cluster->n_ps++];
        } else if (r == 0 && role == COXI_CLUSTER_WORKER) {
            to = &cluster->workers[cluster->n_workers++];
        } else if (r == 0 && role == COXI_CLUSTER_CLIENT && index == 0) {
            memcpy(view->client, url, sizeof(url));
        }
        if (to != NULL && (*to = strdup(url)) == NULL) {
            r = coxi_error_memory("an address");
        }
    }
    return r;
}

static void tell_from(struct coxi_view *view, enum coxi_fact fact, const char *first,
                      const char *second)
{
    (void)snprintf(view->from[fact], sizeof(view->from[0]), "%s%s%s", first,
                   second != NULL ? ", " : "", second != NULL ? second : "");
}

/* Where this rank listens: a daemon, or the client if workers have to dial it. */
static int find_listen(const struct coxi_ranks *ranks, uint32_t port,
                       const char *port_from, struct coxi_view *view)
{
    char url[COXI_URL_MAX + 1];
    bool dialled = view->role == COXI_CLUSTER_CLIENT && view->cluster->n_workers == 0;
    if (view->role != COXI_CLUSTER_PS && view->role != COXI_CLUSTER_WORKER &&
        !dialled) {
        return 0;
    }
    int r = url_of(ranks, ranks->rank, port, url);
    if (r == 0) {
        coxi_view_listen(view, url, port_from != NULL ? port_from : ranks->hosts_var);
    }
    return r;
}

/* COX_ROLES, else what the launcher says. */
static int find_roles(const struct coxi_environment *environment,
                      const struct coxi_ranks *ranks, struct coxi_roles *ret,
                      const char **ret_from)
{
    const char *text = coxi_environment_get(environment, "COX_ROLES");
    int r = 0;
    *ret = ranks->roles;
    *ret_from = text != NULL ? "COX_ROLES" : ranks->roles_var;
    if (text != NULL) {
        r = read_roles(text, ranks->n, ret);
    } else if (ret->n == 0) {
        return coxi_error(COX_EINVAL,
                          "%s runs %u processes, but nothing says which of them are ps "
                          "and workers: set COX_ROLES to roles in order of ranks, like "
                          "client:1,ps:2,worker:*",
                          ranks->source, ranks->n);
    }
    return r == 0 ? check_roles(ret, ranks, text) : r;
}

int coxi_ranks_settle(const struct coxi_environment *environment,
                      const struct coxi_ranks *ranks, struct coxi_view *ret)
{
    struct coxi_roles roles;
    const char *roles_from;
    const char *port_from = ranks->port_var;
    uint32_t port = 0;
    if (ranks->n == 1 && coxi_environment_get(environment, "COX_ROLES") == NULL) {
        return 0; /* a program that was started alone is no cluster */
    }
    if (ranks->socket_dir != NULL) {
        port_from = NULL;
    } else if (coxi_environment_get(environment, "COX_PORT") != NULL) {
        port_from = "COX_PORT";
    }
    int r = find_roles(environment, ranks, &roles, &roles_from);
    if (r == 0) {
        r = find_port(environment, ranks, &port);
    }
    if (r == 0) {
        r = list_ranks(ranks, &roles, port, ret);
    }
    if (r == 0) {
        ret->source = ranks->source;
        ret->role = role_of(&roles, ranks->rank, &ret->index);
        r = find_listen(ranks, port, port_from, ret);
    }
    tell_from(ret, COXI_FACT_ROLE, ranks->rank_var, roles_from);
    tell_from(ret, COXI_FACT_INDEX, ranks->rank_var, roles_from);
    tell_from(ret, COXI_FACT_PS, ranks->hosts_var, port_from);
    tell_from(ret, COXI_FACT_WORKER, ranks->hosts_var, port_from);
    tell_from(ret, COXI_FACT_CLIENT, ranks->hosts_var, port_from);
    return r;
}
