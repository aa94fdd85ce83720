/*
 * Holds closures that cannot end during a recovery, because the ps must first say what
 * they have applied of them (voiding.c): they are asked when all are UP again. If the
 * recovery is given up, or the coordinator is closed, the ps cannot be asked, and the
 * closures are settled with that error.
 *
 * Invariant: when a recovery has ended, however it ended, no closure is held.
 *
 * Threads: loop. Cost: O(1) a closure.
 */
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/settle.h"
#include "coordinator/recovery/recovery_internal.h"

/* A closure whose voiding has to wait. */
struct coxi_recovery_held {
    struct coxi_recovery_held *next;
    struct coxi_closure *closure;
    struct coxi_ending ending; /* owns what its pointers point to */
};

static void void_again(struct coxi_closure *closure, const struct coxi_ending *ending)
{
    if (coxi_voiding_start(closure->future.c, closure, ending, NULL) != 0) {
        coxi_closure_settle(closure, &(struct coxi_ending){.state = COXI_FAILED,
                                                           .code = COX_ENOMEM,
                                                           .text = coxi_error_text()});
    }
}

/* Settles a closure without asking the ps what they have applied of it, because the run
 * or the client ends. */
static void settle_unasked(struct coxi_closure *closure)
{
    int r = coxi_check_alive(closure->future.c);
    bool closed = r == 0 || r == COX_ECLOSED;
    coxi_closure_settle(closure,
                        &(struct coxi_ending){
                            .state = closed ? COXI_CANCELLED : COXI_FAILED,
                            .code = closed ? COX_ECANCELLED : r,
                            .text = closed ? "the coordinator was closed before the ps "
                                             "could say what they have applied of it"
                                           : coxi_error_text()});
}

static void held_free(struct coxi_recovery_held *held)
{
    free((void *)(uintptr_t)held->ending.text);
    free((void *)(uintptr_t)held->ending.touched);
    free(held);
}

void coxi_recovery_let_go_held(struct coxi_recovery *rec)
{
    struct coxi_recovery_held *held = rec->held;
    rec->held = NULL;
    while (held != NULL) {
        struct coxi_recovery_held *next = held->next;
        if (rec->set->over) {
            settle_unasked(held->closure);
        } else {
            void_again(held->closure, &held->ending);
        }
        held_free(held);
        held = next;
    }
}

void coxi_recovery_void_later(struct coxi_closure *closure,
                              const struct coxi_ending *ending)
{
    struct coxi_recovery *rec = closure->future.c->ps.recovery;
    if (rec->set->over || closure->future.c->phase.shutting_down) {
        settle_unasked(closure);
        return;
    }
    if (!coxi_ps_recovering(closure->future.c)) { /* all are UP again already */
        void_again(closure, ending);
        return;
    }
    struct coxi_recovery_held *held = calloc(1, sizeof(*held));
    uint32_t *touched = calloc(ending->n_touched + 1, sizeof(*touched));
    char *text = ending->text != NULL ? strdup(ending->text) : NULL;
    if (held == NULL || touched == NULL || (ending->text != NULL && text == NULL)) {
        free(held);
        free(touched);
        free(text);
        coxi_closure_settle(closure,
                            &(struct coxi_ending){.state = COXI_FAILED,
                                                  .code = COX_ENOMEM,
                                                  .text = "out of memory for its end"});
        return;
    }
    if (ending->n_touched > 0) {
        memcpy(touched, ending->touched, ending->n_touched * sizeof(*touched));
    }
    held->closure = closure;
    held->ending = *ending;
    held->ending.text = text;
    held->ending.touched = touched;
    held->next = rec->held;
    rec->held = held;
}
