/* See part_names.h. A name whose variable is gone stays in the set, without a
 * variable. */
#include "ps/part_names.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"

struct coxi_part_name {
    struct coxi_named named;
    struct coxi_part_name *next;
    uint32_t id;
    char text[];
};

static struct coxi_part_name *get(const struct coxi_part_names *names, const char *name)
{
    return (struct coxi_part_name *)coxi_names_get(&names->names, name, strlen(name));
}

uint32_t coxi_part_names_get(const struct coxi_part_names *names, const char *name)
{
    const struct coxi_part_name *there = get(names, name);
    return there != NULL ? there->id : COXI_VARIABLES_MAX;
}

int coxi_part_names_set(struct coxi_part_names *names, const char *name, uint32_t id)
{
    struct coxi_part_name *there = get(names, name);
    if (there != NULL) {
        there->id = id;
        return 0;
    }
    size_t len = strlen(name);
    there = calloc(1, sizeof(*there) + len + 1);
    if (there == NULL) {
        return coxi_error_memory("a variable's name");
    }
    memcpy(there->text, name, len);
    there->named = (struct coxi_named){.name = there->text, .len = len};
    there->id = id;
    int r = coxi_names_add(&names->names, &there->named);
    if (r != 0) {
        free(there);
        return r;
    }
    there->next = names->first;
    names->first = there;
    return 0;
}

void coxi_part_names_fini(struct coxi_part_names *names)
{
    while (names->first != NULL) {
        struct coxi_part_name *name = names->first;
        names->first = name->next;
        free(name);
    }
    coxi_names_fini(&names->names);
}
