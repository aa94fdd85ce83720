/*
 * Step modules on a worker: kept as files by SHA-256, checked, loaded.
 *
 * Threads: a connection's, one at a time for one cache; functions of a loaded module
 * are for the slots.
 */
#ifndef COXI_WORKER_MODULES_H
#define COXI_WORKER_MODULES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/hash.h"
#include "common/module.h"
#include "coxswain/step.h"
#include "net/signature.h"

struct coxi_function {
    char name[COXI_STEP_NAME_MAX + 1];
    int (*run)(struct cox_step *step);
    atomic_uint average_us; /* moving average of its running time; 0: not known yet */
};

struct coxi_loaded {
    void *handle;
    uint32_t n_functions;
    struct coxi_function *functions;
};

/* Which modules a worker runs. */
struct coxi_module_rules {
    const char *dir;                   /* they are kept here */
    const struct coxi_module_key *key; /* all must be signed with it; NULL: none need */
    bool never_shipped; /* only modules that are in `dir` already, and stay there */
};

/*
 * Loads a module from the rules' directory, where its name is its SHA-256. If `bytes`
 * is not NULL, first writes them there as its file, and makes the directory if it does
 * not exist. Only this user may be able to write there, because the file is checked
 * before it is loaded. COX_ENOENT: there is no file, and bytes are needed. COX_EMODULE:
 * the file has another content, is no module, or is refused by the dynamic linker.
 * COX_EDENIED: the rules forbid it; the text says why. COX_EIO.
 */
int coxi_module_load(const struct coxi_module_rules *rules,
                     const struct coxi_module *module, const void *bytes, size_t len,
                     struct coxi_loaded **ret);

/* Frees the record of a module of which no step runs. The module stays loaded, with its
 * static variables, because a thread that it has started may still run. Takes NULL. */
void coxi_module_unload(struct coxi_loaded *module);

#endif
