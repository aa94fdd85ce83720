/* Checks the files of step modules before a process loads them, without running any of
 * their code. coxswain/step.h has the format (struct cox_steps_header). */
#ifndef COXI_COMMON_MODULE_H
#define COXI_COMMON_MODULE_H

#include <stddef.h>
#include <stdint.h>

enum {
    COXI_MODULE_BYTES_MAX = 256 * 1024 * 1024,
    COXI_MODULE_STEPS_MAX = 256,
    COXI_STEP_NAME_MAX = 63,
};

/* The steps in a module's table. Names are NUL-terminated. */
struct coxi_module_info {
    uint32_t n_steps;
    char names[COXI_MODULE_STEPS_MAX][COXI_STEP_NAME_MAX + 1];
};

/*
 * Checks the shared object of `len` bytes: ELF for this machine, with a step table of
 * this ABI version, every name well-formed and unique. COX_EMODULE says what is wrong;
 * `path` is for the message only. Bytes may come from a peer.
 */
int coxi_module_inspect(const void *bytes, size_t len, const char *path,
                        struct coxi_module_info *ret);

#endif
