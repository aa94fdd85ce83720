/*
 * Step modules on the client: read, checked without being loaded, hashed, and handed to
 * the loop, which ships them (worker.c). The bytes are kept for workers that come
 * later.
 */
#include "coordinator/workers/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/file.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/event.h"
#include "coordinator/coordinator.h"
#include "net/signature.h"

static void module_free(struct cox_module *module)
{
    if (module != NULL) {
        for (uint32_t i = 0; module->functions != NULL && i < module->info.n_steps;
             i++) {
            free(module->functions[i].profile);
        }
        free(module->functions);
        free(module->bytes);
        free(module->name);
        free(module);
    }
}

int coxi_modules_new(struct cox_coordinator *c)
{
    c->modules = calloc(1, sizeof(*c->modules));
    return c->modules == NULL ? coxi_error_memory("a coordinator") : 0;
}

void coxi_modules_free(struct cox_coordinator *c)
{
    for (uint32_t i = 0; c->modules != NULL && i < c->modules->n; i++) {
        module_free(c->modules->all[i]);
    }
    free(c->modules);
}

static int module_new(struct cox_coordinator *c, const char *path,
                      struct cox_module **ret)
{
    struct cox_module *module = calloc(1, sizeof(*module));
    if (module == NULL) {
        return coxi_error_memory("a module");
    }
    const char *slash = strrchr(path, '/');
    module->c = c;
    module->name = strndup(slash != NULL ? slash + 1 : path, COX_NAME_MAX);
    int r = module->name == NULL ? coxi_error_memory("a module") : 0;
    if (r == 0) {
        r = coxi_file_read(path, COXI_MODULE_BYTES_MAX, &module->bytes, &module->len);
    }
    if (r == 0) {
        r = coxi_module_inspect(module->bytes, module->len, path, &module->info);
    }
    if (r == 0) {
        r = coxi_signature_read(path, &module->signature);
    }
    if (r == 0) {
        module->digest = coxi_digest_of(module->bytes, module->len);
        module->functions = calloc(module->info.n_steps, sizeof(*module->functions));
        r = module->functions == NULL ? coxi_error_memory("a module") : 0;
    }
    if (r != 0) {
        module_free(module);
        return r;
    }
    for (uint32_t i = 0; i < module->info.n_steps; i++) {
        module->functions[i] = (struct cox_function){
            .module = module, .index = (uint16_t)i, .name = module->info.names[i]};
    }
    *ret = module;
    return 0;
}

static bool has_function(const struct cox_module *module, const char *name)
{
    for (uint32_t i = 0; i < module->info.n_steps; i++) {
        if (strcmp(module->functions[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void title_functions(const struct cox_coordinator *c,
                            struct cox_module *module) COXI_REQUIRES_C_LOCK
{
    for (uint32_t i = 0; i < module->info.n_steps; i++) {
        struct cox_function *function = &module->functions[i];
        unsigned n = 1;
        for (uint32_t m = 0; m < c->modules->n; m++) {
            n += has_function(c->modules->all[m], function->name);
        }
        char number[16] = "";
        if (n > 1) {
            (void)snprintf(number, sizeof(number), " (%u)", n);
        }
        (void)snprintf(function->title, sizeof(function->title), "%s%s", function->name,
                       number);
    }
}

/* Registers the module, which the coordinator owns from then on. */
static int enlist(struct cox_coordinator *c, struct cox_module *module)
{
    int r = 0;
    coxi_lock(&c->lock);
    if (c->modules->n == COXI_MODULES_MAX) {
        r = coxi_error(COX_ELIMIT, "more than %d modules", COXI_MODULES_MAX);
    } else {
        title_functions(c, module);
        module->id = (uint16_t)c->modules->n;
        c->modules->all[c->modules->n++] = module;
    }
    coxi_unlock(&c->lock);
    return r;
}

/* True if a connected worker has not answered for the module. */
static bool is_unanswered(const struct cox_module *module) COXI_REQUIRES_C_LOCK
{
    return !module->shipped || module->n_pending > 0;
}

/* True if workers were lost while they loaded the module, and none has loaded it. */
static bool is_doubtful(const struct cox_module *module) COXI_REQUIRES_C_LOCK
{
    return module->has_lost && !module->has_been_loaded && module->code == 0;
}

/*
 * Waits until every connected worker has answered for the module. A module that ends
 * the processes that load it takes all workers away first; a worker that comes back
 * knows whether the module was to blame. If none comes back for worker_wait_ms, they
 * are away for another reason, and will load it when they return.
 */
static int wait_until_loaded(struct cox_coordinator *c, struct cox_module *module)
{
    struct timespec until = coxi_deadline(c->options.open_timeout_ms);
    struct timespec back = coxi_deadline(c->options.worker_wait_ms);
    bool in_time = true;
    int r = 0;
    coxi_loop_wake(c->loop);
    coxi_lock(&c->lock);
    while (r == 0 && (is_unanswered(module) || (is_doubtful(module) && in_time))) {
        const struct timespec *end = is_unanswered(module) ? &until : &back;
        /* a callback is loading it, and cox_close will wait for the callback */
        if (c->life.closing) {
            r = coxi_error(COX_ECLOSED, "the coordinator is being closed");
        } else if (coxi_wait_until(&c->life.changed, &c->lock, end)) {
            continue;
        } else if (end == &back) {
            in_time = false;
        } else {
            r = coxi_error(COX_ETIMEDOUT, "%zu worker%s not loaded %s after %d ms",
                           module->n_pending,
                           module->n_pending == 1 ? " has" : "s have", module->name,
                           c->options.open_timeout_ms);
        }
    }
    if (r == 0 && module->code != 0) {
        r = coxi_error(module->code, "%s", module->text);
    }
    module->accepted = r == 0;
    /* no worker uses a module that was refused or missed its deadline */
    module->code = r;
    coxi_unlock(&c->lock);
    return r;
}

int cox_module_load(struct cox_coordinator *c, const char *path,
                    struct cox_module **ret)
{
    if (c == NULL || path == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_module_load needs %s, not NULL",
                          c == NULL      ? "a coordinator"
                          : path == NULL ? "the path of a shared object"
                                         : "a place for the module");
    }
    COXI_CALL(c);
    int r = coxi_check_alive(c);
    if (r != 0) {
        return r;
    }
    struct cox_module *module = NULL;
    r = module_new(c, path, &module);
    if (r != 0) {
        return r;
    }
    r = enlist(c, module);
    if (r != 0) {
        module_free(module);
        return r;
    }
    coxi_call_why(c, "the workers have not all loaded %.200s", module->name);
    r = wait_until_loaded(c, module);
    if (r == 0) {
        *ret = module;
    } else if (r != COX_ECLOSED) {
        coxi_event(c, COX_EVENT_MODULE_REFUSED, COXI_OF(.error = r),
                   "module %.100s is refused: %.350s", module->name, coxi_error_text());
    }
    return r;
}

int cox_function_get(struct cox_module *module, const char *name,
                     struct cox_function **ret)
{
    if (module == NULL || name == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_function_get needs a module and a name");
    }
    char names[COXI_TEXT_MAX] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < module->info.n_steps; i++) {
        if (strcmp(module->functions[i].name, name) == 0) {
            *ret = &module->functions[i];
            return 0;
        }
        if (used < sizeof(names)) {
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
                                     i > 0 ? ", " : "", module->functions[i].name);
        }
    }
    return coxi_error(COX_ENOENT, "module %s has no step '%s'; it has: %s",
                      module->name, name, names);
}
