/* See announced.h. */
#include "coordinator/base/announced.h"

#include <stdlib.h>

#include "common/error.h"

int coxi_announced_reserve(struct coxi_announced *announced, uint32_t n)
{
    if (n <= announced->capacity) {
        return 0;
    }
    const struct coxi_variable **variables =
        realloc(announced->variables, n * sizeof(const struct coxi_variable *));
    if (variables == NULL) {
        return coxi_error_memory("variables");
    }
    announced->variables = variables;
    announced->capacity = n;
    return 0;
}

void coxi_announced_add(struct coxi_announced *announced,
                        const struct coxi_variable *variable)
{
    announced->variables[announced->n++] = variable;
}

void coxi_announced_fini(struct coxi_announced *announced)
{
    free(announced->variables);
    *announced = (struct coxi_announced){0};
}
