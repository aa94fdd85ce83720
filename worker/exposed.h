/* What a worker's supervisor serves over HTTP (--http): how the worker is, and its
 * metrics. It goes on while a step process is started again. */
#ifndef COXI_WORKER_EXPOSED_H
#define COXI_WORKER_EXPOSED_H

#include <stdatomic.h>

#include "http/serve.h"

struct coxi_recorder;

/* What the supervisor knows of step processes; it writes, and the server reads. */
struct coxi_step_processes {
    struct coxi_recorder *recorder; /* fixed */
    atomic_uint_least64_t started;
    atomic_uint_least64_t died;
    atomic_int pid; /* of the one that runs; 0: none does */
};

/* Serves until coxi_served_stop; `processes` is borrowed. Does nothing if no address is
 * given. COX_EADDRESS, COX_EIO, COX_ENOMEM. */
int coxi_worker_expose(const struct coxi_serve_options *options,
                       struct coxi_step_processes *processes, struct coxi_served **ret);

#endif
