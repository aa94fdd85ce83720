/* See inside.h. */
#include "tests/coordinator/inside.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/sync.h"
#include "coordinator/base/event.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/futures.h"
#include "coordinator/closures/inputs.h"
#include "coordinator/closures/operation.h"
#include "coordinator/closures/settle.h"
#include "coordinator/recovery/recovery_internal.h"
#include "coordinator/variables/content.h"
#include "coordinator/variables/load.h"
#include "coordinator/workers/workers.h"
#include "net/ps_client.h"

bool inside_is_waited_for(struct cox_future *future)
{
    coxi_lock(&future->c->lock);
    bool waited_for = future->waiters != NULL;
    coxi_unlock(&future->c->lock);
    return waited_for;
}

struct offer {
    struct coxi_mail mail;
    struct cox_future *future;
    const void *result;
    size_t len;
    bool kept;
    sem_t done;
};

static void make_offer(struct coxi_mail *mail)
{
    struct offer *offer = (struct offer *)mail;
    int r = coxi_future_keep(offer->future, offer->result, offer->len);
    offer->kept = r == 0 && offer->future->result_len == offer->len;
    (void)sem_post(&offer->done);
}

bool inside_keeps(struct cox_coordinator *c, struct cox_future *future,
                  const void *result, size_t len)
{
    struct offer offer = {{NULL, make_offer}, future, result, len, false, {{0}}};
    (void)sem_init(&offer.done, 0, 0);
    coxi_loop_post(c->loop, &offer.mail);
    while (sem_wait(&offer.done) != 0) {
    }
    (void)sem_destroy(&offer.done);
    return offer.kept;
}

struct look {
    struct coxi_mail mail;
    struct cox_future *future;
    size_t n;
    sem_t done;
};

static void take_look(struct coxi_mail *mail)
{
    struct look *look = (struct look *)mail;
    look->n = coxi_inputs_count(coxi_closure_of(look->future));
    (void)sem_post(&look->done);
}

size_t inside_inputs(struct cox_coordinator *c, struct cox_future *future)
{
    struct look look = {{NULL, take_look}, future, 0, {{0}}};
    (void)sem_init(&look.done, 0, 0);
    coxi_loop_post(c->loop, &look.mail);
    while (sem_wait(&look.done) != 0) {
    }
    (void)sem_destroy(&look.done);
    return look.n;
}

struct glance {
    struct coxi_mail mail;
    struct cox_future *future;
    bool voiding;
    sem_t done;
};

static void take_glance(struct coxi_mail *mail)
{
    struct glance *glance = (struct glance *)mail;
    glance->voiding = coxi_closure_of(glance->future)->state == COXI_VOIDING;
    (void)sem_post(&glance->done);
}

static void glance_at(struct cox_coordinator *c, struct glance *glance)
{
    glance->mail = (struct coxi_mail){NULL, take_glance};
    (void)sem_init(&glance->done, 0, 0);
    coxi_loop_post(c->loop, &glance->mail);
    while (sem_wait(&glance->done) != 0) {
    }
    (void)sem_destroy(&glance->done);
}

bool inside_is_voiding(struct cox_coordinator *c, struct cox_future *future)
{
    struct glance glance = {.future = future};
    glance_at(c, &glance);
    return glance.voiding;
}

uint64_t inside_losses(struct cox_coordinator *c)
{
    return coxi_ps_losses(c);
}

int inside_log_new(uint32_t n_ps, uint64_t bytes_max, struct coxi_replay_log **ret)
{
    const struct coxi_replay_refs refs = {
        .call_bytes = coxi_closure_logged_bytes,
        .call_forgotten = coxi_closure_forgotten,
        .loading_bytes = coxi_loading_bytes,
        .loading_ref = coxi_loading_ref,
        .loading_unref = coxi_loading_unref,
    };
    return coxi_replay_log_new(n_ps, bytes_max, &refs, ret);
}

int inside_log_call(struct coxi_replay_log *log, struct coxi_closure *call,
                    const uint32_t *touched, size_t n_touched)
{
    return coxi_closure_log(log, call, touched, n_touched);
}

struct coxi_closure *inside_call(uint64_t id)
{
    struct coxi_closure *call = NULL;
    if (coxi_closure_new(NULL, &(struct coxi_closure_spec){0}, &call) == 0) {
        call->future.id = id;
    }
    return call;
}

void inside_let_go(struct coxi_closure *call)
{
    coxi_future_unref(&call->future);
}

bool inside_has_gate(struct cox_coordinator *c)
{
    return atomic_load(&c->closures->gate) != NULL;
}

uint32_t inside_ready(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    uint32_t n = c->workers->n_ready;
    coxi_unlock(&c->lock);
    return n;
}

struct skip {
    struct coxi_mail mail;
    struct cox_coordinator *c;
    uint64_t n;
    sem_t done;
};

static void skip_ids(struct coxi_mail *mail)
{
    struct skip *skip = (struct skip *)mail;
    coxi_lock(&skip->c->lock);
    skip->c->ids.next += skip->n;
    coxi_unlock(&skip->c->lock);
    (void)sem_post(&skip->done);
}

void inside_skip_ids(struct cox_coordinator *c, uint64_t n)
{
    struct skip skip = {{NULL, skip_ids}, c, n, {{0}}};
    (void)sem_init(&skip.done, 0, 0);
    coxi_loop_post(c->loop, &skip.mail);
    while (sem_wait(&skip.done) != 0) {
    }
    (void)sem_destroy(&skip.done);
}

void inside_incarnations(struct cox_coordinator *c, uint64_t *ret)
{
    for (uint32_t p = 0; p < c->ps.n; p++) {
        ret[p] = coxi_psc_incarnation(c->ps.clients[p]);
    }
}

int inside_load(struct cox_coordinator *c, struct cox_variable *variable,
                const char *path, const uint64_t *incarnations)
{
    struct coxi_checkpoint *checkpoint;
    struct coxi_operation *operation;
    char name[COXI_WIRE_NAME_MAX + 1];
    struct coxi_load_item item = {.to = variable->entry.description, .from = name};
    struct coxi_loading loading = {.refs = 1, .items = &item, .n_items = 1};
    struct coxi_replay_entry what = {
        .kind = COXI_REPLAY_BARRED}; /* nothing is to be redone */
    (void)snprintf(name, sizeof(name), "%s", item.to->name);
    int r = coxi_checkpoint_open(path, COXI_CHECKPOINT_CHECKED, &checkpoint);
    if (r != 0) {
        return r;
    }
    r = coxi_operation_begin(c, &what, true, &operation);
    if (r == 0) {
        const struct coxi_load_target target = {.c = c,
                                                .closure = operation->id,
                                                .only_ps = COXI_LOAD_ALL_PS,
                                                .incarnations = incarnations};
        r = coxi_loading_send(&loading, checkpoint, &target);
        coxi_operation_end(operation, COXI_OPERATION_LOGGED);
    }
    coxi_checkpoint_close(checkpoint);
    return r;
}

static enum coxi_operation_end write_how;

struct coxi_operation *inside_write_begin(struct cox_coordinator *c,
                                          struct cox_variable *variable,
                                          const void *data)
{
    const struct coxi_variable *v = variable->entry.description;
    struct coxi_replay_entry what = {.kind = COXI_REPLAY_UPDATE};
    struct coxi_operation *operation = NULL;
    what.update =
        coxi_replay_update_new(v, COXI_OP_ASSIGN, 0, coxi_variable_rows(v), data);
    if (what.update != NULL && coxi_operation_begin(c, &what, true, &operation) != 0) {
        free(what.update);
    }
    write_how = COXI_OPERATION_NOWHERE;
    return operation;
}

struct coxi_operation *inside_rate_begin(struct cox_coordinator *c,
                                         struct cox_variable *variable, float rate)
{
    const struct coxi_variable *v = variable->entry.description;
    const struct coxi_rate numbers = {{(double)rate, 0, 0, 0, 0, 0, 0}};
    struct coxi_replay_entry what = {.kind = COXI_REPLAY_UPDATE};
    struct coxi_operation *operation = NULL;
    what.update = coxi_replay_update_new(v, COXI_OP_RATE, 0, 0, &numbers);
    if (what.update != NULL && coxi_operation_begin(c, &what, true, &operation) != 0) {
        free(what.update);
    }
    write_how = COXI_OPERATION_NOWHERE;
    return operation;
}

int inside_write_refuse(struct coxi_operation *operation, uint32_t ps)
{
    struct cox_coordinator *c = operation->c;
    struct coxi_message message = {.kind = COXI_VOID};
    struct coxi_psc_request request = {0};
    message.void_ = (struct coxi_void){c->session, operation->id, UINT32_MAX,
                                       coxi_psc_incarnation(c->ps.clients[ps])};
    return coxi_psc_call(c->ps.clients[ps], &message, &request, COXI_VOIDED, NULL,
                         NULL);
}

int inside_write_rows(struct coxi_operation *operation, struct cox_variable *variable,
                      uint64_t begin, uint64_t count, const void *rows)
{
    const struct coxi_content_write w = {variable->entry.description, COXI_OP_ASSIGN,
                                         begin, count, rows};
    return coxi_content_write(operation->c, operation->id, &w, &write_how);
}

void inside_write_end(struct coxi_operation *operation, bool dies)
{
    coxi_operation_end(operation, dies ? COXI_OPERATION_LOGGED : write_how);
}

void inside_write_narrow(struct coxi_operation *operation, const uint64_t ranges[][2],
                         size_t n)
{
    struct coxi_range written[8];
    for (size_t i = 0; i < n; i++) {
        written[i] = (struct coxi_range){ranges[i][0], ranges[i][1]};
    }
    (void)coxi_content_written(operation->c,
                               &(struct coxi_written){operation->id, 0, written, n,
                                                      coxi_ps_losses(operation->c)});
}

void inside_cut_off(struct cox_coordinator *c, uint32_t ps)
{
    struct coxi_psc *psc = c->ps.clients[ps];
    coxi_psc_give_up(psc, "cut off");
    (void)coxi_recovery_lost(c, psc, "as a test says");
}

int inside_refuse_next(struct cox_coordinator *c, uint32_t ps)
{
    struct coxi_message message = {.kind = COXI_VOID};
    struct coxi_psc_request request = {0};
    coxi_lock(&c->lock);
    uint64_t id = c->ids.next;
    coxi_unlock(&c->lock);
    message.void_ = (struct coxi_void){c->session, id, UINT32_MAX,
                                       coxi_psc_incarnation(c->ps.clients[ps])};
    return coxi_psc_call(c->ps.clients[ps], &message, &request, COXI_VOIDED, NULL,
                         NULL);
}

struct cox_coordinator *inside_recovers(const struct coxi_recovery *rec)
{
    return rec->c;
}

void inside_tell_levels(struct cox_coordinator *c)
{
    coxi_event(c, COX_EVENT_RUN_OVER, COXI_OF(.error = COX_EPSLOST), "an error");
    coxi_event(c, COX_EVENT_WORKER_BACK, COXI_OF(.worker = coxi_maybe_of(7)),
               "an information");
    coxi_event(c, COX_EVENT_CHECKPOINT_SAVED, COXI_OF(.error = 0), "for debugging");
}

void inside_tell(struct cox_coordinator *c, int n)
{
    for (int i = 0; i < n; i++) {
        coxi_event(c, COX_EVENT_WORKER_REFUSED, COXI_OF(.worker = coxi_maybe_of(7)),
                   "the \"%s\" of %d", i == 0 ? "first" : "next", n);
    }
}
