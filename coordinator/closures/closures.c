/* See closures.h. */
#include "coordinator/closures/closures.h"

#include <stdlib.h>

#include "common/error.h"

int coxi_closures_new(struct cox_coordinator *c)
{
    struct coxi_closures *closures = calloc(1, sizeof(*closures));
    if (closures == NULL) {
        return coxi_error_memory("a coordinator");
    }
    coxi_window_init(&closures->unsettled, 1, COXI_WINDOW);
    coxi_window_init(&closures->replays, 1, COXI_WINDOW);
    c->closures = closures;
    return 0;
}

void coxi_closures_free(struct cox_coordinator *c)
{
    if (c->closures != NULL) {
        coxi_window_fini(&c->closures->unsettled);
        coxi_window_fini(&c->closures->replays);
        coxi_pool_fini(&c->closures->pool);
        free(c->closures);
        c->closures = NULL;
    }
}

/* The item in `unsettled` that stands for an operation. */
static char operation;

struct coxi_closure *coxi_closures_get(const struct cox_coordinator *c,
                                       struct coxi_closure_id id)
{
    void *item = coxi_window_get(&c->closures->unsettled, id.n);
    return item != &operation ? item : NULL;
}

int coxi_closures_put_operation(struct cox_coordinator *c, struct coxi_closure_id id)
{
    return coxi_window_put(&c->closures->unsettled, id.n, &operation);
}
