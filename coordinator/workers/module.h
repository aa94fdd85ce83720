/* Step modules, and the functions in them. */
#ifndef COXI_COORDINATOR_WORKERS_MODULE_H
#define COXI_COORDINATOR_WORKERS_MODULE_H

#include "common/hash.h"
#include "common/module.h"
#include "coordinator/coordinator.h"

struct cox_function {
    struct cox_module *module;
    uint16_t index;
    const char *name;
    uint32_t n_samples; /* the loop's own, as the next; of its running time */
    double average_us;
};

struct cox_module {
    struct cox_coordinator *c;
    uint16_t id;
    char *name;
    uint8_t *bytes;
    size_t len;
    struct coxi_hash128 hash;
    struct coxi_module_info info;
    struct cox_function *functions;
    bool shipped;  /* workers have been told of it; guarded by c->lock, as all below */
    bool accepted; /* every worker that was there has loaded it */
    size_t n_pending;     /* workers that have not said yet whether they can load it */
    bool has_been_loaded; /* by one at least */
    bool has_lost;        /* a worker that was to load it, and it may be why */
    int code;             /* why one cannot: nobody has it then */
    char text[COXI_TEXT_MAX];
};

enum { COXI_MODULES_MAX = 64 }; /* in a session; workers take as many */

/* All of them: c->modules. Guarded by c->lock. */
struct coxi_modules {
    struct cox_module *all[COXI_MODULES_MAX]; /* by id */
    uint32_t n;
};

/* None yet. COX_ENOMEM. */
int coxi_modules_new(struct cox_coordinator *c);

/* When no future is left that names a function of one. Nothing where coxi_modules_new has
 * failed. */
void coxi_modules_free(struct cox_coordinator *c);

#endif
