/* Environment variables, and the roles that they name. Any thread. */
#ifndef COXI_CLUSTER_ENVIRONMENT_H
#define COXI_CLUSTER_ENVIRONMENT_H

#include <stddef.h>
#include <stdint.h>

/* What a process is in its cluster. */
enum coxi_cluster_role {
    COXI_CLUSTER_NONE, /* the environment does not say */
    COXI_CLUSTER_CLIENT,
    COXI_CLUSTER_PS,
    COXI_CLUSTER_WORKER,
    COXI_CLUSTER_EVALUATOR,
    COXI_CLUSTER_ROLES,
};

/* "client"; "none". */
const char *coxi_cluster_role_name(enum coxi_cluster_role role);

/* The first `len` bytes of `name`; "chief" and "master" are the client.
 * COXI_CLUSTER_NONE: it is none. */
enum coxi_cluster_role coxi_cluster_role_named(const char *name, size_t len);

/* A set of environment variables; `get` returns NULL for one that is not set. */
struct coxi_environment {
    const char *(*get)(void *arg, const char *name);
    void *arg;
};

/* Of this process. */
extern const struct coxi_environment coxi_own_environment;

/* The value of a variable; NULL: it is not set, or empty. */
const char *coxi_environment_get(const struct coxi_environment *environment,
                                 const char *name);

/* The number in a variable. COX_ENOENT: it is not set; COX_EINVAL: it is no number up
 * to `max`. */
int coxi_environment_number(const struct coxi_environment *environment,
                            const char *name, uint32_t max, uint32_t *ret);

#endif
