/*
 * Describes a store to peers that may read and nothing else: which run has claimed it,
 * and its part of the variables. Returns copies, so that a slow peer keeps nobody
 * waiting.
 *
 * Threads: any. Holds the registry (read).
 */
#include <stdlib.h>

#include "common/error.h"
#include "ps/store_internal.h"

static int copy_all(const struct coxi_store *store, struct coxi_description *ret)
{
    ret->variables = calloc(store->n_parts + 1, sizeof(*ret->variables));
    ret->copies = calloc(store->n_parts + 1, sizeof(*ret->copies));
    int r = ret->variables == NULL || ret->copies == NULL
                ? coxi_error_memory("a list of variables")
                : 0;
    for (size_t i = 0; r == 0 && i < store->n_parts; i++) {
        struct coxi_variable *copy = NULL;
        if (store->parts[i].variable == NULL) {
            continue;
        }
        r = coxi_variable_copy(store->parts[i].variable, &copy);
        if (r == 0) {
            ret->copies[ret->n] = copy;
            ret->variables[ret->n++] = *copy;
        }
    }
    return r;
}

int coxi_store_describe(struct coxi_store *store, struct coxi_description *ret)
{
    struct coxi_description description = {0};
    coxi_read_lock(&store->registry);
    description.session = store->session;
    int r = store->claimed
                ? copy_all(store, &description)
                : coxi_error(COX_ENOENT, "ps %u serves no run", store->ps_index);
    coxi_rw_unlock(&store->registry);
    if (r != 0) {
        coxi_description_fini(&description);
        return r;
    }
    description.session.token = 0;
    *ret = description;
    return 0;
}

void coxi_description_fini(struct coxi_description *description)
{
    for (size_t i = 0; i < description->n; i++) {
        coxi_variable_free(description->copies[i]);
    }
    free(description->copies);
    free(description->variables);
}
