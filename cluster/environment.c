/* See environment.h. */
#include "cluster/environment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

static const char *const role_names[COXI_CLUSTER_ROLES] = {
    [COXI_CLUSTER_NONE] = "none",
    [COXI_CLUSTER_CLIENT] = "client",
    [COXI_CLUSTER_PS] = "ps",
    [COXI_CLUSTER_WORKER] = "worker",
    [COXI_CLUSTER_EVALUATOR] = "evaluator",
};

const char *coxi_cluster_role_name(enum coxi_cluster_role role)
{
    return role_names[role];
}

enum coxi_cluster_role coxi_cluster_role_named(const char *name, size_t len)
{
    static const char *const other_names[] = {"chief", "master"};
    for (size_t i = 0; i < 2; i++) {
        if (strlen(other_names[i]) == len && strncmp(other_names[i], name, len) == 0) {
            return COXI_CLUSTER_CLIENT;
        }
    }
    for (int i = COXI_CLUSTER_CLIENT; i < COXI_CLUSTER_ROLES; i++) {
        if (strlen(role_names[i]) == len && strncmp(role_names[i], name, len) == 0) {
            return (enum coxi_cluster_role)i;
        }
    }
    return COXI_CLUSTER_NONE;
}

/* ---- the environment */

static const char *get_own(void *arg, const char *name)
{
    (void)arg;
    return getenv(name); // NOLINT(concurrency-mt-unsafe): nobody changes it meanwhile
}

const struct coxi_environment coxi_own_environment = {.get = get_own};

const char *coxi_environment_get(const struct coxi_environment *environment,
                                 const char *name)
{
    const char *value = environment->get(environment->arg, name);
    return value != NULL && *value != '\0' ? value : NULL;
}

int coxi_environment_number(const struct coxi_environment *environment,
                            const char *name, uint32_t max, uint32_t *ret)
{
    const char *value = coxi_environment_get(environment, name);
    if (value == NULL) {
        return coxi_error(COX_ENOENT, "%s is not set", name);
    }
    errno = 0;
    unsigned long long number = strtoull(value, NULL, 10);
    if (strspn(value, "0123456789") != strlen(value) || errno != 0 || number > max) {
        return coxi_error(COX_EINVAL, "%s=%.40s: set it to a number up to %u", name,
                          value, max);
    }
    *ret = (uint32_t)number;
    return 0;
}
