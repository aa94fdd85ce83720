/*
 * See modules.h. A loaded module is never closed, because a step may have left a thread
 * or a handler whose code must stay. The dynamic linker loads the same file only once,
 * so at most one copy of each content stays.
 */
#include "worker/modules.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "common/file.h"

static int path_of(const char *dir, const struct coxi_digest *digest,
                   char ret[PATH_MAX])
{
    const uint64_t *w = digest->words;
    return coxi_path(ret,
                     "%s/%016" PRIx64 "%016" PRIx64 "%016" PRIx64 "%016" PRIx64 ".so",
                     dir, w[0], w[1], w[2], w[3]);
}

/* Checks that the file is a module with that SHA-256. */
static int check(const char *path, const char *name, const struct coxi_digest *digest,
                 struct coxi_module_info *info)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    int r = coxi_file_read(path, COXI_MODULE_BYTES_MAX, &bytes, &len);
    if (r != 0) {
        return r;
    }
    struct coxi_digest found = coxi_digest_of(bytes, len);
    if (!coxi_digest_equal(&found, digest)) {
        r = coxi_error(COX_EMODULE, "the content of module %s does not match its hash",
                       name);
    } else {
        r = coxi_module_inspect(bytes, len, name, info);
    }
    free(bytes);
    return r;
}

static int open_module(const char *path, const char *name,
                       const struct coxi_module_info *info, struct coxi_loaded *module)
{
    module->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module->handle == NULL) {
        return coxi_error(COX_EMODULE, "module %s cannot be loaded: %s", name,
                          dlerror());
    }
    const struct cox_step_entry *entries = dlsym(module->handle, "cox_steps");
    module->functions = calloc(info->n_steps, sizeof(*module->functions));
    if (entries == NULL || module->functions == NULL) {
        return coxi_error(COX_EMODULE, "module %s cannot be loaded: no step table",
                          name);
    }
    module->n_functions = info->n_steps;
    for (uint32_t i = 0; i < info->n_steps; i++) {
        memcpy(module->functions[i].name, info->names[i], sizeof(info->names[i]));
        module->functions[i].run = entries[i].run;
        if (entries[i].run == NULL) {
            return coxi_error(COX_EMODULE, "module %s: step '%s' has no function", name,
                              info->names[i]);
        }
    }
    return 0;
}

/* Checks that the rules let a client run the module here. */
static int admit(const struct coxi_module_rules *rules,
                 const struct coxi_module *module, bool has_bytes)
{
    const struct coxi_signature *signature = &module->signature;
    if (rules->key != NULL && !coxi_signature_is_set(signature)) {
        return coxi_error(COX_EDENIED,
                          "module %s is not signed, and this worker runs only modules "
                          "signed with the key of its --module-key: sign it (coxswain "
                          "sign), and keep its .sig file beside it",
                          module->name);
    }
    if (rules->key != NULL &&
        !coxi_signature_is_valid(signature, &module->digest, rules->key)) {
        return coxi_error(COX_EDENIED,
                          "the signature of module %s is not valid: it was made with "
                          "another key than that of this worker's --module-key, or the "
                          "module was changed or built again since (coxswain sign)",
                          module->name);
    }
    if (rules->never_shipped && has_bytes) {
        return coxi_error(
            COX_EDENIED,
            "module %s was sent to a worker with --no-modules, which runs "
            "only modules that are in its --dir",
            module->name);
    }
    return 0;
}

/* The worker's rules say that nobody ships this module. */
static int missing(const struct coxi_module_rules *rules, const char *name,
                   const char *path)
{
    return !rules->never_shipped
               ? COX_ENOENT
               : coxi_error(COX_EDENIED,
                            "module %s is not here, and this worker takes none from "
                            "clients (--no-modules): its operator can install it as %s",
                            name, path);
}

/* Makes sure that the module's file is there, and is right. */
static int provide(const struct coxi_module_rules *rules,
                   const struct coxi_module *module, const void *bytes, size_t len,
                   const char *path, struct coxi_module_info *info)
{
    /* a cleaner of /tmp may have removed the directory */
    int r = coxi_directory_own(rules->dir);
    if (r == 0 && bytes != NULL) {
        r = coxi_file_write(path, bytes, len);
    }
    if (r == 0) {
        r = check(path, module->name, &module->digest, info);
    }
    if (r == COX_EMODULE && !rules->never_shipped) {
        (void)unlink(path);
    }
    return r == COX_ENOENT ? missing(rules, module->name, path) : r;
}

int coxi_module_load(const struct coxi_module_rules *rules,
                     const struct coxi_module *module, const void *bytes, size_t len,
                     struct coxi_loaded **ret)
{
    char path[PATH_MAX];
    struct coxi_module_info *info = malloc(sizeof(*info));
    struct coxi_loaded *loaded = calloc(1, sizeof(*loaded));
    int r = info == NULL || loaded == NULL ? coxi_error_memory("a module") : 0;
    if (r == 0) {
        r = admit(rules, module, bytes != NULL);
    }
    if (r == 0) {
        r = path_of(rules->dir, &module->digest, path);
    }
    if (r == 0) {
        r = provide(rules, module, bytes, len, path, info);
    }
    if (r == 0) {
        r = open_module(path, module->name, info, loaded);
    }
    free(info);
    if (r != 0) {
        coxi_module_unload(loaded);
        return r;
    }
    *ret = loaded;
    return 0;
}

void coxi_module_unload(struct coxi_loaded *module)
{
    if (module != NULL) {
        free(module->functions);
        free(module);
    }
}
