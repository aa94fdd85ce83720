/*
 * See layout.h. A worker forgets no variable, so a layout names only variables that
 * were announced since the last one: worker->n_layout counts those that the worker was
 * told of, in the order in which they were announced (base/announced.h). A layout names
 * all ps each time.
 *
 * A program may create many variables in a row: workers are told of them when closures
 * follow, or at the next tick.
 *
 * Cost: bytes for each new variable and for each ps; none for variables that are known.
 * Many variables are sent in several messages of about PIECE_BYTES.
 */
#include "coordinator/workers/layout.h"

#include <stdlib.h>

#include "common/error.h"
#include "common/sync.h"
#include "coordinator/workers/conn.h"
#include "coordinator/workers/worker.h"
#include "net/ps_client.h"

enum {
    PIECE_VARIABLES = 1024,
    PIECE_BYTES = 1 << 20,
};

/* The number of announced variables. */
static uint32_t n_announced(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    uint32_t n = c->announced.n;
    coxi_unlock(&c->lock);
    return n;
}

/* Copies the next variables for the worker, as many as fit in a message and in `room`;
 * returns how many. */
static size_t next_variables(const struct coxi_worker *worker,
                             struct coxi_variable *ret, size_t room)
{
    struct cox_coordinator *c = worker->c;
    size_t bytes = 0;
    size_t n = 0;
    coxi_lock(&c->lock);
    uint32_t left = c->announced.n - worker->n_layout;
    while (n < left && n < room && bytes < PIECE_BYTES) {
        ret[n] = *c->announced.variables[worker->n_layout + n];
        bytes += sizeof(*ret) + ret[n].n_shards * sizeof(struct coxi_shard);
        n++;
    }
    coxi_unlock(&c->lock);
    return n;
}

/* Describes the ps. If a ps is lost for good, which ends the run, all are described as
 * lost, so that nothing waits for the others. */
static void describe_ps(struct cox_coordinator *c, struct coxi_ps_address *ret)
{
    coxi_lock(&c->lock);
    bool lost = c->life.fatal == COX_EPSLOST;
    coxi_unlock(&c->lock);
    for (uint32_t i = 0; i < c->ps.n; i++) {
        ret[i].address = coxi_psc_address(c->ps.clients[i]);
        ret[i].incarnation = coxi_psc_incarnation(c->ps.clients[i]);
        ret[i].lost = lost;
    }
}

void coxi_layout_send(struct coxi_worker *worker)
{
    struct cox_coordinator *c = worker->c;
    struct coxi_ps_address *servers = calloc(c->ps.n, sizeof(*servers));
    uint32_t left = n_announced(c) - worker->n_layout;
    size_t room = left < PIECE_VARIABLES ? left + 1 : PIECE_VARIABLES;
    struct coxi_variable *variables = calloc(room, sizeof(*variables));
    int r = servers == NULL || variables == NULL ? coxi_error_memory("a layout") : 0;
    if (r == 0) {
        describe_ps(c, servers);
    }
    size_t n = PIECE_VARIABLES;
    for (bool first = true; r == 0 && n > 0; first = false) {
        struct coxi_message message = {.kind = COXI_LAYOUT};
        n = next_variables(worker, variables, room);
        message.layout = (struct coxi_layout){.session = c->session,
                                              .servers = servers,
                                              .n_servers = c->ps.n,
                                              .variables = variables,
                                              .n_variables = n,
                                              .worker = coxi_maybe_of(worker->index)};
        if (first || n > 0) {
            r = coxi_message_send(coxi_conn_link(worker->control), &message, NULL,
                                  false);
            worker->n_layout += (uint32_t)n;
        }
    }
    if (r != 0 && r != COX_ECLOSED) {
        coxi_conn_close(worker->control, r, coxi_error_text());
    }
    free(servers);
    free(variables);
}

/* Sends a layout to every worker that was told of fewer than `n` variables. */
static void send_to_those_below(struct cox_coordinator *c, uint32_t n)
{
    for (uint32_t i = 0; i < c->workers->n; i++) {
        struct coxi_worker *worker = c->workers->all[i];
        if (coxi_worker_is_there(worker) && worker->n_layout < n) {
            coxi_layout_send(worker);
        }
    }
}

void coxi_layout_send_all(struct cox_coordinator *c)
{
    c->workers->n_layout = n_announced(c);
    send_to_those_below(c, UINT32_MAX);
}

void coxi_layout_update(struct cox_coordinator *c)
{
    uint32_t n = n_announced(c);
    if (n > c->workers->n_layout) {
        c->workers->n_layout = n;
        send_to_those_below(c, n);
    }
}
