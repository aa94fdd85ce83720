/* See inside.h. */
#include "tests/coordinator/inside.h"

#include <stdatomic.h>

#include "common/loop.h"
#include "common/sync.h"
#include "coordinator/closures/future.h"
#include "coordinator/coordinator.h"
#include "coordinator/recovery/recovery.h"
#include "net/ps_client.h"
#include "tests/test.h"

struct turn {
    struct coxi_mail mail;
    void (*run)(void *arg);
    void *arg;
    atomic_bool done;
};

static void take_turn(struct coxi_mail *mail)
{
    struct turn *turn = (struct turn *)mail;
    turn->run(turn->arg);
    atomic_store(&turn->done, true);
}

static bool is_done(void *arg)
{
    return atomic_load(&((struct turn *)arg)->done);
}

void inside_run(struct cox_coordinator *c, void (*run)(void *arg), void *arg)
{
    struct turn turn = {.mail.run = take_turn, .run = run, .arg = arg};
    coxi_loop_post(c->loop, &turn.mail);
    coxi_test_until(is_done, &turn, "a turn of the loop");
}

bool inside_is_waited_for(struct cox_future *future)
{
    coxi_lock(&future->c->lock);
    bool waited_for = future->waiters != NULL;
    coxi_unlock(&future->c->lock);
    return waited_for;
}

void inside_incarnations(struct cox_coordinator *c, uint64_t *ret)
{
    for (uint32_t p = 0; p < c->ps.n; p++) {
        ret[p] = coxi_psc_incarnation(c->ps.clients[p]);
    }
}

void inside_cut_off(struct cox_coordinator *c, uint32_t ps)
{
    struct coxi_psc *psc = c->ps.clients[ps];
    coxi_psc_give_up(psc, "cut off");
    (void)coxi_recovery_lost(c, psc, "as a test says");
}
