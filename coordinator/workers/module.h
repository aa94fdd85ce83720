/* Step modules, and their functions. */
#ifndef COXI_COORDINATOR_WORKERS_MODULE_H
#define COXI_COORDINATOR_WORKERS_MODULE_H

#include "common/hash.h"
#include "common/module.h"
#include "coordinator/coordinator.h"

/* From this many samples on, the average run time of a function is reliable. */
enum { COXI_SAMPLES = 20 };

struct cox_function {
    struct cox_module *module;
    uint16_t index;
    const char *name;
    /* what it is called among the functions of all modules: its name, or "name (2)" if an
     * earlier module has a function of that name */
    char title[COXI_STEP_NAME_MAX + 8];

    /* ---- the loop's own: how long its calls run (attempts.c) */
    uint32_t n_samples; /* at most COXI_SAMPLES, which means "or more" */
    double average_us;

    /* where the time of its steps went (base/profile.h); NULL: none has run */
    struct coxi_profile *_Atomic profile;
};

struct cox_module {
    struct cox_coordinator *c;
    uint16_t id;
    char *name;
    uint8_t *bytes;
    size_t len;
    struct coxi_digest digest;
    struct coxi_signature signature; /* of the file beside it; or zeros */
    struct coxi_module_info info;
    struct cox_function *functions;
    /* workers were told of it; guarded by c->lock, like all fields below */
    bool shipped;
    bool accepted; /* every worker that was connected has loaded it */
    /* workers that have not answered yet whether they can load it */
    size_t n_pending;
    bool has_been_loaded; /* at least one worker has loaded it */
    /* a worker was lost while it loaded the module, which may be the cause */
    bool has_lost;
    /* the reason why a worker cannot load it: then none uses it */
    int code;
    char text[COXI_TEXT_MAX];
};

enum { COXI_MODULES_MAX = 64 }; /* in a session; workers have the same limit */

/* All modules: c->modules. Guarded by c->lock. */
struct coxi_modules {
    struct cox_module *all[COXI_MODULES_MAX]; /* by id */
    uint32_t n;
};

/* Makes an empty set. COX_ENOMEM. */
int coxi_modules_new(struct cox_coordinator *c);

/* Call when no future is left that names one of their functions. Does nothing if
 * coxi_modules_new has failed. */
void coxi_modules_free(struct cox_coordinator *c);

#endif
