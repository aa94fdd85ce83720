/*
 * See losses.h. A closure fails when COXI_LOSSES_MAX workers were lost while its step
 * ran, because the step may be what kills them. The loss of a worker never counts
 * against a closure whose step has returned, because such a closure waits for a ps, not
 * for its step.
 *
 * At the moment of a loss nobody knows which steps ran there. The oldest closures of
 * the worker are therefore suspects, as many as it has slots, and the loss counts for
 * them. It no longer counts when the worker's next process says that their steps did
 * not run, or when the same process comes back. The losses that remain are those of
 * whole hosts, where it is never known which steps ran: they do not count while a ps is
 * away, because then commits wait; and they are forgotten when some ps turns out to
 * have the closure's last segment (voiding.c).
 *
 * Threads: loop. Cost: O(slots) for a loss, O(slots^2) when the next process reports.
 */
#include "coordinator/closures/losses.h"

#include <signal.h>

#include "coordinator/base/ps_set.h"
#include "coordinator/closures/closure.h"
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
    return c->closures->ps_away && o->worker_wait_ms >= 0 &&
                   o->ps_recovery_ms > o->worker_wait_ms
               ? o->ps_recovery_ms
               : o->worker_wait_ms;
}

/*
 * worker_wait_ms is meant for a cluster whose workers are gone. While a ps is away,
 * too, the client's own network may be down, and only replays could run anyway. So
 * workers then have as much time as the ps to come back, and from the moment when all
 * ps are back, worker_wait_ms anew.
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

/* ---- counting */

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
    const struct coxi_recall_head suspect = {closure->future.id.n,
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
            change(coxi_closure_find_running(seat->c,
                                             coxi_closure_id(suspects[i].closure)),
                   -1);
        }
    }
    for (size_t i = 0; i < crashed->n_closures; i++) {
        const struct coxi_crashed_head *head = &crashed->closures[i];
        if (head->closure != 0 && head->cause == SIGKILL && !is_suspect(seat, head)) {
            change(coxi_closure_find_running(seat->c, coxi_closure_id(head->closure)),
                   1);
        }
    }
    seat->suspects.len = 0;
}
