/* Finds a store's variables by name. Under the store's registry. */
#ifndef COXI_PS_PART_NAMES_H
#define COXI_PS_PART_NAMES_H

#include <stdint.h>

#include "common/layout.h"
#include "common/names.h"

struct coxi_part_name;

/* Zeroed is valid and empty. */
struct coxi_part_names {
    struct coxi_names names;
    struct coxi_part_name *first; /* a list of all names */
};

/* The id of the variable called `name`; COXI_VARIABLES_MAX: there is none. */
uint32_t coxi_part_names_get(const struct coxi_part_names *names, const char *name);

/* Sets the id of `name` (COXI_VARIABLES_MAX: no variable). Cannot fail for a name that
 * was set before. COX_ENOMEM. */
int coxi_part_names_set(struct coxi_part_names *names, const char *name, uint32_t id);

void coxi_part_names_fini(struct coxi_part_names *names);

#endif
