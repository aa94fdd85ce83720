/*
 * See modules.h. A loaded module is never closed, because a step may have left a thread
 * or a handler whose code must stay. The dynamic linker loads the same file only once,
 * so at most one copy of each content stays.
 */
#include "worker/modules.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "common/file.h"

/* Checks that the file is a module with that content hash. */
static int check(const char *path, const char *name, struct coxi_hash128 hash,
                 struct coxi_module_info *info)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    int r = coxi_file_read(path, COXI_MODULE_BYTES_MAX, &bytes, &len);
    if (r != 0) {
        return r;
    }
    struct coxi_hash128 found = coxi_hash_bytes(bytes, len);
    if (found.high != hash.high || found.low != hash.low) {
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

int coxi_module_load(const char *dir, struct coxi_hash128 hash, const char *name,
                     const void *bytes, size_t len, struct coxi_loaded **ret)
{
    char path[PATH_MAX];
    struct coxi_module_info *info = malloc(sizeof(*info));
    struct coxi_loaded *module = calloc(1, sizeof(*module));
    int r = info == NULL || module == NULL ? coxi_error_memory("a module") : 0;
    if (r == 0) {
        r = coxi_path(path, "%s/%016llx%016llx.so", dir, (unsigned long long)hash.high,
                      (unsigned long long)hash.low);
    }
    if (r == 0 && bytes != NULL) {
        r = coxi_directory_make(dir); /* a cleaner of /tmp may have removed it */
        r = r == 0 ? coxi_file_write(path, bytes, len) : r;
    }
    if (r == 0) {
        r = check(path, name, hash, info);
    }
    if (r == COX_EMODULE) {
        (void)unlink(path);
    }
    if (r == 0) {
        r = open_module(path, name, info, module);
    }
    free(info);
    if (r != 0) {
        coxi_module_unload(module);
        return r;
    }
    *ret = module;
    return 0;
}

void coxi_module_unload(struct coxi_loaded *module)
{
    if (module != NULL) {
        free(module->functions);
        free(module);
    }
}
