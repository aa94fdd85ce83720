/* See confine.h. */
#include "worker/confine.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "common/error.h"

/* Lowers a limit; nothing in this process can raise it again. */
static int limit(int resource, int64_t max, const char *option)
{
    const struct rlimit wanted = {(rlim_t)max, (rlim_t)max};
    return setrlimit((__rlimit_resource_t)resource, &wanted) == 0
               ? 0
               : coxi_error_errno(COX_EINVAL, "%s %lld cannot be had", option,
                                  (long long)max);
}

static int set_limits(const struct coxi_confinement *confinement)
{
    int r = 0;
    if (!confinement->cores) { /* it would hold the run's key */
        r = limit(RLIMIT_CORE, 0, "no core files:");
    }
    if (r == 0 && confinement->files_max > 0) {
        r = limit(RLIMIT_NOFILE, confinement->files_max, "--step-files-max");
    }
    if (r == 0 && confinement->address_space_max > 0) {
        r = limit(RLIMIT_AS, confinement->address_space_max,
                  "--step-address-space-max");
    }
    return r;
}

bool coxi_confines_files(const char *profile)
{
    return strcmp(profile, "landlock") == 0 || strcmp(profile, "all") == 0;
}

int coxi_confine(const struct coxi_confinement *confinement)
{
    bool all = strcmp(confinement->profile, "all") == 0;
    int r = 0;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        r = coxi_error_errno(COX_EINVAL, "this kernel lets a program gain rights by "
                                         "starting another (no_new_privs)");
    }
    if (r == 0) {
        r = set_limits(confinement);
    }
    if (r == 0 && coxi_confines_files(confinement->profile)) {
        r = coxi_confine_files(confinement);
    }
    if (r == 0 && (all || strcmp(confinement->profile, "seccomp") == 0)) {
        r = coxi_confine_calls();
    }
    return r;
}
