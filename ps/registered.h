/* A ps's part in its job, if there is an etcd (cluster/membership.h). */
#ifndef COXI_PS_REGISTERED_H
#define COXI_PS_REGISTERED_H

#include <stdint.h>

#include "cluster/etcd_settings.h"

struct coxi_membership;

/* Zeroed: not registered. */
struct coxi_registered {
    struct coxi_membership *membership;
    /* Another living process has the index. On a thread of the membership. */
    void (*taken)(void *arg);
    void *arg;
};

/*
 * Registers the ps that listens at `url`; does nothing if there is no etcd. Set `taken`
 * and `arg` before. COX_EINVAL, COX_ENOMEM.
 */
int coxi_registered_start(struct coxi_registered *registered,
                          const struct coxi_etcd_settings *settings, uint32_t index,
                          const char *url);
void coxi_registered_stop(struct coxi_registered *registered);

#endif
