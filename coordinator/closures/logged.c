/* See logged.h. Cost: one allocation for each closure that logs, and 100 ns for each
 * scalar. */
#include "coordinator/closures/logged.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/scalars.h"
#include "coordinator/base/event.h"
#include "coordinator/base/history.h"
#include "coordinator/workers/module.h"

struct coxi_logged {
    size_t len;
    uint8_t scalars[];
};

void coxi_logged_keep(struct coxi_closure *closure, const uint8_t *scalars, size_t len)
{
    coxi_logged_forget(closure);
    if (closure->rerun != NULL || closure->older.was_done ||
        closure->future.c->history == NULL) {
        return;
    }
    struct coxi_logged *logged = malloc(sizeof(*logged) + len);
    if (logged != NULL) {
        logged->len = len;
        memcpy(logged->scalars, scalars, len);
    }
    closure->logged_scalars = logged;
}

void coxi_logged_forget(struct coxi_closure *closure)
{
    free(closure->logged_scalars);
    closure->logged_scalars = NULL;
}

/* Says once that there are too many names. */
static void tell_refused(struct coxi_closure *closure, const char *name)
{
    struct cox_coordinator *c = closure->future.c;
    if (!c->closures->names_told) {
        c->closures->names_told = true;
        coxi_event(c, COX_EVENT_METRICS_FAILED,
                   COXI_OF(.closure = closure->future.id, .error = COX_ELIMIT),
                   "closure %llu (%s) has logged '%s', which is not recorded, nor are "
                   "later ones: %.200s",
                   (unsigned long long)closure->future.id.n, closure->function->name,
                   name, coxi_error_text());
    }
}

void coxi_logged_settled(struct coxi_closure *closure)
{
    const struct coxi_logged *logged = closure->logged_scalars;
    const uint8_t *at = logged->scalars;
    size_t len = logged->len;
    struct coxi_scalar scalar;
    while (closure->state == COXI_DONE_OK && coxi_scalars_next(&at, &len, &scalar)) {
        const struct coxi_record_scalar record = {scalar.name, closure->function->name,
                                                  closure->future.id.n, scalar.value};
        if (coxi_history_scalar(closure->future.c, &record) == COX_ELIMIT) {
            tell_refused(closure, scalar.name);
        }
    }
    coxi_logged_forget(closure);
}
