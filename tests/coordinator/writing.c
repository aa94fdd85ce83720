/* See writing.h. */
#include "tests/coordinator/writing.h"

#include "common/sync.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/base/replay_log.h"
#include "coordinator/coordinator.h"
#include "coordinator/variables/content.h"
#include "net/ps_client.h"
#include "tests/test.h"

static void begin(struct writing *w, struct coxi_replay_update *update)
{
    struct coxi_replay_entry what = {.kind = COXI_REPLAY_UPDATE, .update = update};
    assert_non_null(update);
    assert_code(0, coxi_operation_begin(w->c, &what, true, &w->operation));
}

void writing_begin(struct writing *w, struct cox_coordinator *c,
                   struct cox_variable *variable, const void *data)
{
    const struct coxi_variable *v = variable->entry.description;
    *w = (struct writing){.c = c, .variable = variable, .how = COXI_OPERATION_NOWHERE};
    begin(w, coxi_replay_update_new(v, COXI_OP_ASSIGN, 0, coxi_variable_rows(v), data));
}

void writing_begin_rate(struct writing *w, struct cox_coordinator *c,
                        struct cox_variable *variable, float rate)
{
    const struct coxi_rate numbers = {{(double)rate, 0, 0, 0, 0, 0, 0}};
    *w = (struct writing){.c = c, .variable = variable, .how = COXI_OPERATION_NOWHERE};
    begin(w, coxi_replay_update_new(variable->entry.description, COXI_OP_RATE, 0, 0,
                                    &numbers));
}

static void refuse(struct cox_coordinator *c, uint32_t ps, uint64_t id)
{
    struct coxi_message message = {.kind = COXI_VOID};
    struct coxi_psc_request request = {0};
    message.void_ = (struct coxi_void){c->session, id, UINT32_MAX,
                                       coxi_psc_incarnation(c->ps.clients[ps])};
    assert_code(0, coxi_psc_call(c->ps.clients[ps], &message, &request, COXI_VOIDED,
                                 NULL, NULL));
}

void writing_refuse(const struct writing *w, uint32_t ps)
{
    refuse(w->c, ps, w->operation->id.n);
}

void writing_refuse_next(struct cox_coordinator *c, uint32_t ps)
{
    coxi_lock(&c->lock);
    uint64_t id = c->ids.next;
    coxi_unlock(&c->lock);
    refuse(c, ps, id);
}

int writing_rows(struct writing *w, uint64_t begin, uint64_t count, const void *rows)
{
    const struct coxi_content_write write = {w->variable->entry.description,
                                             COXI_OP_ASSIGN, begin, count, rows};
    return coxi_content_write(w->c, w->operation->id, &write, &w->how);
}

void writing_narrow(const struct writing *w, const uint64_t ranges[][2], size_t n)
{
    struct coxi_range written[8];
    assert_true(n <= sizeof(written) / sizeof(*written));
    for (size_t i = 0; i < n; i++) {
        written[i] = (struct coxi_range){ranges[i][0], ranges[i][1]};
    }
    (void)coxi_content_written(
        w->c,
        &(struct coxi_written){w->operation->id, 0, written, n, coxi_ps_losses(w->c)});
}

void writing_end(struct writing *w, bool dies)
{
    coxi_operation_end(w->operation, dies ? COXI_OPERATION_LOGGED : w->how);
    w->operation = NULL;
}
