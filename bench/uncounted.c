/*
 * worker/versions.h without versions, only for the benchmark's own worker (uncounted/
 * coxswain-worker): its pulls ask for no versions, its commits name none, and so the ps
 * do not count the staleness of its gradients. Case `modes` compares with it.
 *
 * Linked before the worker's library, so that nothing of worker/versions.c is linked.
 */
#include "worker/versions.h"

void coxi_versions_begin(struct coxi_versions *versions)
{
    (void)versions;
}

void coxi_versions_fini(struct coxi_versions *versions)
{
    (void)versions;
}

size_t coxi_versions_places(const struct coxi_variable *variable, uint32_t n_ps)
{
    (void)variable;
    (void)n_ps;
    return 0;
}

int coxi_versions_reserve(struct coxi_versions *versions, size_t place)
{
    (void)versions;
    (void)place;
    return 0;
}

void coxi_versions_note(struct coxi_versions *versions, size_t place, uint64_t version)
{
    (void)versions;
    (void)place;
    (void)version;
}

uint64_t coxi_versions_get(const struct coxi_versions *versions, size_t place)
{
    (void)versions;
    (void)place;
    return 0;
}

void coxi_versions_renew(struct coxi_versions *versions, size_t place)
{
    (void)versions;
    (void)place;
}

uint64_t coxi_versions_oldest(const struct coxi_versions *versions, size_t place)
{
    (void)versions;
    (void)place;
    return 0;
}
