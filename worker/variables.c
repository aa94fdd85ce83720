/* See variables.h. */
#include "worker/variables.h"

#include <stdlib.h>
#include <string.h>

#include "common/dtype.h"
#include "common/error.h"
#include "worker/versions.h"

enum { FIRST = 16 };

static void variable_free(struct cox_variable *variable)
{
    if (variable != NULL) {
        coxi_variable_free(variable->description);
        free(variable);
    }
}

/* Makes room for variable `id`. */
static int reserve_variable(struct coxi_variables *variables, uint32_t id)
{
    size_t n = variables->n > 0 ? variables->n : FIRST;
    while (n <= id) {
        n *= 2;
    }
    if (n == variables->n) {
        return 0;
    }
    struct cox_variable **longer =
        realloc(variables->by_id, n * sizeof(struct cox_variable *));
    if (longer == NULL) {
        return coxi_error_memory("variables");
    }
    memset(longer + variables->n, 0,
           (n - variables->n) * sizeof(struct cox_variable *));
    variables->by_id = longer;
    variables->n = n;
    return 0;
}

/* Computes once what each pull and push needs of the description. */
static void prepare(struct cox_variable *variable)
{
    const struct coxi_variable *v = variable->description;
    variable->row_bytes = coxi_variable_row_bytes(v);
    variable->size = coxi_dtype_size(v->dtype);
    variable->wire_size =
        v->wire_dtype == 0 ? variable->size : coxi_dtype_size(v->wire_dtype);
    variable->wire_bytes = variable->row_bytes / variable->size * variable->wire_size;
    variable->gradient_limit = coxi_optimizer_gradient_limit(&v->optimizer);
    variable->counts =
        v->kind == COXI_KIND_DENSE && coxi_optimizer_counts(&v->optimizer);
}

/* Adds a variable that was checked. */
static int enter_variable(struct coxi_variables *variables,
                          const struct coxi_variable *variable, uint32_t n_ps)
{
    size_t len = strlen(variable->name);
    struct cox_variable *added = calloc(1, sizeof(*added) + len + 1);
    int r = added == NULL ? coxi_error_memory("a variable")
                          : coxi_variable_copy(variable, &added->description);
    if (r == 0) {
        prepare(added);
        added->versions = variables->n_versions;
        added->n_versions = coxi_versions_places(variable, n_ps);
        memcpy(added->name, variable->name, len);
        added->named = (struct coxi_named){.name = added->name, .len = len};
        r = coxi_names_add(&variables->names, &added->named);
    }
    if (r != 0) {
        variable_free(added);
        return r;
    }
    variables->by_id[variable->id] = added;
    variables->n_versions += added->n_versions;
    return 0;
}

int coxi_variables_add(struct coxi_variables *variables,
                       const struct coxi_variable *variable, uint32_t n_ps)
{
    int r = variable->id >= COXI_VARIABLES_MAX
                ? coxi_error(COX_EPROTO, "variable id %u", variable->id)
                : coxi_variable_check(variable, n_ps);
    if (r == 0) {
        r = reserve_variable(variables, variable->id);
    }
    bool known = r == 0 && variables->by_id[variable->id] != NULL;
    return r != 0 || known ? r : enter_variable(variables, variable, n_ps);
}

void coxi_variables_fini(struct coxi_variables *variables)
{
    coxi_names_fini(&variables->names);
    for (size_t i = 0; i < variables->n; i++) {
        variable_free(variables->by_id[i]);
    }
    free(variables->by_id);
}
