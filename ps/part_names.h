/* Which of a store's variables has a name. Under the store's registry. */
#ifndef COXI_PS_PART_NAMES_H
#define COXI_PS_PART_NAMES_H

#include <stdint.h>

#include "common/layout.h"
#include "common/names.h"

struct coxi_part_name;

/* Zeroed is valid and empty. */
struct coxi_part_names {
    struct coxi_names names;
    struct coxi_part_name *first; /* all of them */
};

/* The id of the variable of that name; COXI_VARIABLES_MAX: there is none. */
uint32_t coxi_part_names_get(const struct coxi_part_names *names, const char *name);

/* From now on it is `id`, or COXI_VARIABLES_MAX, which cannot fail for a name that is there.
 * COX_ENOMEM. */
int coxi_part_names_set(struct coxi_part_names *names, const char *name, uint32_t id);

void coxi_part_names_fini(struct coxi_part_names *names);

#endif
