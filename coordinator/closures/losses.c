/*
 * See losses.h. A closure that has lost COXI_LOSSES_MAX workers while its step ran fails: it
 * may be what kills them. Losing a worker never counts against a closure whose step has
 * returned (design: exactly once): it waits for a ps, not for its step.
 *
 * At the moment of a loss nobody knows what ran there, so the oldest closures of the worker
 * are suspects, as many as it has slots, and the loss is counted for them. It is taken back
 * when the worker's next process says that their steps did not run, or when the same process
 * comes back. What stays counted are losses of whole hosts, of which nobody can tell: they are
 * not counted while a ps is away, for then commits wait, and are forgotten when some ps turns
 * out to have the closure's last segment (voiding.c).
 *
 * Threads: loop. Cost: O(slots) for a loss, O(slots^2) when its process tells.
 */
#include "coordinator/closures/losses.h"

#include <signal.h>

#include "coordinator/base/ps_set.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/closures.h"
#include "coordinator/closures/settle.h"
#include "coordinator/workers/reach.h"
#include "net/ps_client.h"

/* ---- how long closures wait */

static bool is_any_ps_away(struct cox_coordinator *c)
{
    bool away = coxi_ps_recovering(c) || coxi_reach_is_cut(c);
    for (uint32_t i = 0; !away && i < c->ps.n; i++) {
        away = !coxi_psc_is_up(c->ps.clients[i]);
    }
    return away;
}

int coxi_losses_wait_ms(const struct cox_coordinator *c)
{
    const struct cox_options *o = &c->options;
    return c->closures->ps_away && o->ps_recovery_ms > o->worker_wait_ms
               ? o->ps_recovery_ms
               : o->worker_wait_ms;
}

/*
 * worker_wait_ms is for a cluster whose workers are gone. While a ps is away, too, it may be
 * the client's own network that is, and nothing but replays could run anyway: then workers
 * have as long as a ps, and when all ps are there again, worker_wait_ms from that moment on.
 */
void coxi_losses_tick(struct cox_coordinator *c)
{
    bool ps_away = is_any_ps_away(c);
    if (ps_away != c->closures->ps_away) {
        c->closures->ps_away = ps_away;
        c->closures->idle_since_ms = 0;
        for (uint32_t i = 0; i < c->workers->n; i++) {
            c->workers->all[i]->seat->wanted_since_ms = 0;
        }
    }
}

/* ---- what counts */

static void change(struct coxi_closure *closure, int by)
{
    if (closure != NULL && closure->mishaps.losses + by >= 0 &&
        closure->mishaps.losses + by <= UINT8_MAX) {
        closure->mishaps.losses = (uint8_t)(closure->mishaps.losses + by);
    }
}

void coxi_losses_begin(struct coxi_seat *seat)
{
    seat->suspects.len = 0;
}

void coxi_loss_count(struct coxi_seat *seat, struct coxi_closure *closure)
{
    const struct coxi_recall_head suspect = {closure->future.id,
                                             closure->attempts.current, 0};
    if (closure->rerun == NULL && is_any_ps_away(closure->future.c)) {
        return;
    }
    change(closure, 1);
    (void)coxi_buffer_append_raw(&seat->suspects, &suspect, sizeof(suspect));
}

static bool is_suspect(const struct coxi_seat *seat,
                       const struct coxi_crashed_head *head)
{
    const struct coxi_recall_head *suspects = (const void *)seat->suspects.data;
    size_t n = seat->suspects.len / sizeof(*suspects);
    size_t i = 0;
    while (i < n && (suspects[i].closure != head->closure ||
                     suspects[i].attempt != head->attempt)) {
        i++;
    }
    return i < n;
}

static bool is_told(const struct coxi_crashed *crashed,
                    const struct coxi_recall_head *suspect)
{
    size_t i = 0;
    while (i < crashed->n_closures &&
           (crashed->closures[i].closure != suspect->closure ||
            crashed->closures[i].attempt != suspect->attempt)) {
        i++;
    }
    return i < crashed->n_closures;
}

void coxi_losses_told(struct coxi_seat *seat, const struct coxi_crashed *crashed)
{
    const struct coxi_recall_head *suspects = (const void *)seat->suspects.data;
    size_t n = seat->suspects.len / sizeof(*suspects);
    for (size_t i = 0; i < n; i++) {
        if (!is_told(crashed, &suspects[i])) {
            change(coxi_closure_find_running(seat->c, suspects[i].closure), -1);
        }
    }
    for (size_t i = 0; i < crashed->n_closures; i++) {
        const struct coxi_crashed_head *head = &crashed->closures[i];
        if (head->closure != 0 && head->cause == SIGKILL && !is_suspect(seat, head)) {
            change(coxi_closure_find_running(seat->c, head->closure), 1);
        }
    }
    seat->suspects.len = 0;
}
