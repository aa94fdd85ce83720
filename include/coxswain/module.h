/*
 * What a program sends to the workers: step modules, the functions in them, and
 * resources that each worker makes once and keeps. Include <coxswain/coxswain.h>
 * instead of this file. step.h says how to write a module.
 */
#ifndef COXSWAIN_MODULE_H
#define COXSWAIN_MODULE_H

#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cox_call;
struct cox_coordinator;
struct cox_module;
struct cox_function;
struct cox_resource;

/* ---- step modules and functions */

/*
 * Reads a step module (coxswain/step.h), ships it to the workers, and waits until every
 * connected worker has loaded it. Workers that join later get it, too. COX_ENOENT:
 * there is no such file; COX_EIO: it cannot be read. COX_EMODULE: it is no step module,
 * was built for another ABI version, or a worker cannot load it; the text has the
 * dynamic linker's message, or the signal that ended the process while it loaded the
 * module. COX_ETIMEDOUT: a worker has not answered for open_timeout_ms. COX_ELIMIT:
 * more than 64 modules (failed ones count) or 256 MiB. COX_ECLOSED. A worker that joins
 * later and cannot load the module is lost, and tried again.
 *
 * If there is a file `path`.sig (`coxswain sign`), the signature in it is sent as well.
 * COX_EDENIED: a worker runs only signed modules (--module-key) and the signature is
 * missing or not valid, or it takes no modules from clients (--no-modules).
 * COX_EFORMAT: the file is no signature.
 */
COX_API int cox_module_load(struct cox_coordinator *c, const char *path,
                            struct cox_module **ret);

/* The step called `name`. COX_ENOENT: the text lists the steps of the module. */
COX_API int cox_function_get(struct cox_module *module, const char *name,
                             struct cox_function **ret);

/* ---- resources: what each worker keeps from step to step */

/*
 * Makes a resource on every worker: the worker runs `function` once, and keeps the
 * value that the function sets (cox_step_keep) under `name`, for the steps that run
 * there (cox_step_resource; both are in coxswain/step.h). Examples: an iterator over
 * the worker's share of the data, a dictionary, a counter. `call` may set only
 * arguments and timeout_ms; NULL: no arguments. Returns at once. A connected worker
 * makes the resource before it runs any closure that is scheduled from now on. A worker
 * that joins, or comes back in a new process (what it kept is lost then), makes all
 * resources in the order of their creation before it runs anything else.
 *
 * Making the resource may fail on a worker: the function returned an error, ran for
 * longer than its timeout_ms, or crashed its process max_crashes times. Then closures
 * that ask for the resource on that worker fail with COX_ERESOURCE, and a text with the
 * resource, the worker and the reason; other closures run there as before. When the
 * worker comes back, it tries again, but not after max_crashes crashes.
 *
 * COX_EEXIST: there is a resource of that name. COX_ELIMIT: more than 1024 resources,
 * or arguments of more than 1 GiB. If released resources that wait for a checkpoint are
 * among the 1024, the call waits instead. COX_EPSLOST, COX_EFENCED, COX_ECLOSED.
 * `name`: 1 to COX_NAME_MAX bytes. `ret` may be NULL: then the resource lives until
 * cox_close.
 */
COX_API int cox_resource_create(struct cox_coordinator *c, const char *name,
                                struct cox_function *function,
                                const struct cox_call *call, struct cox_resource **ret);

/*
 * Gives a resource up. Each worker releases it when the steps that use it have
 * returned. Steps that are scheduled later do not find it (COX_ENOENT), so first wait
 * for the steps that are to use it. If no worker has made it yet, it is not made any
 * more. Returns at once; then the name is free, and `resource` must not be used any
 * more. Takes NULL. Must not be called after cox_close.
 *
 * With checkpoint_dir the resource stays on the workers until the next checkpoint,
 * because the steps since the last one run again when a ps is lost, and must find it;
 * cox_checkpoint_save frees it sooner. It does not stay for kept results
 * (cox_call.keep): if the closure that makes them uses the resource, keep the resource
 * as long as the results may have to be made again.
 */
COX_API void cox_resource_release(struct cox_resource *resource);

#ifdef __cplusplus
}
#endif
#endif
