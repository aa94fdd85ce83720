/* See closure.h. */
#include "coordinator/closures/closure.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "coordinator/closures/closures.h"

int coxi_closure_new(struct cox_coordinator *c, struct cox_function *function,
                     const void *args, size_t args_len, struct cox_future **ret)
{
    struct cox_future *f = malloc(sizeof(*f) + args_len);
    if (f == NULL) {
        return coxi_error_memory("a closure");
    }
    *f = (struct cox_future){
        .c = c, .function = function, .args_len = (uint32_t)args_len};
    atomic_init(&f->refs, 1);
    if (args != NULL && args_len > 0) {
        memcpy(f->args, args, args_len);
    }
    *ret = f;
    return 0;
}

/* In the state it counts among those that wait for a worker: is there room for more? */
static bool is_in_line(unsigned state)
{
    return state == COXI_WAITING || state == COXI_QUEUED;
}

void coxi_closure_set(struct cox_future *f, enum coxi_closure_state state)
{
    enum { N = COXI_CANCELLED + 1 };
    static const bool allowed[N][N] = {
        [COXI_WAITING] = {[COXI_QUEUED] = true,
                          [COXI_VOIDING] = true,
                          [COXI_DONE_OK] = true,
                          [COXI_FAILED] = true,
                          [COXI_CANCELLED] = true},
        [COXI_QUEUED] = {[COXI_WAITING] = true,
                         [COXI_ASSIGNED] = true,
                         [COXI_VOIDING] = true,
                         [COXI_FAILED] = true,
                         [COXI_CANCELLED] = true},
        [COXI_ASSIGNED] = {[COXI_WAITING] = true,
                           [COXI_QUEUED] = true,
                           [COXI_VOIDING] = true,
                           [COXI_DONE_OK] = true,
                           [COXI_FAILED] = true,
                           [COXI_CANCELLED] = true},
        [COXI_VOIDING] = {[COXI_WAITING] = true,
                          [COXI_QUEUED] = true,
                          [COXI_DONE_OK] = true,
                          [COXI_FAILED] = true,
                          [COXI_CANCELLED] = true},
    };
    assert(allowed[f->state][state]);
    (void)allowed;
    f->c->closures->waiting_change += is_in_line(state) - is_in_line(f->state);
    f->state = (uint8_t)state;
}
