/*
 * Writes variables, and tables' rates: assignments, additions, rates. From the calling
 * thread straight to the ps, all of them at the same time. A write is numbered like a
 * closure, and the ps record it in the applied set, so it counts once, too.
 *
 * A write that fails on some ps (without memory, say) is settled before the call
 * returns: every ps is asked whether it has its part, and refuses that part from now on
 * if it does not. So the result that the caller gets, the log (from which a ps is
 * restored that is lost later) and the values on the ps agree.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/error.h"
#include "common/layout.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/base/replay_log.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/gate.h"
#include "coordinator/closures/operation.h"
#include "coordinator/variables/content.h"
#include "coordinator/variables/registry.h"
#include "net/ps_client.h"

/* The part of a write that goes to one ps: the rows that are in its shard. A rate goes
 * to each ps as a whole. */
struct part {
    struct coxi_ps_round_call call;
    uint32_t ps;
    uint64_t begin;
    uint64_t count;
    size_t at; /* offset in bytes from the start of the range */
    size_t bytes;
    /* after a write that failed: */
    bool has;   /* its ps has the part, or may have it */
    int unsure; /* the reason why its ps could not say, or 0 */
    struct iovec payload[2];
};

/* Splits a write into its parts, in order; *ret is for free(). */
static int split(const struct coxi_content_write *w, uint32_t n_ps, struct part **ret,
                 size_t *ret_n)
{
    const struct coxi_variable *v = w->variable;
    bool rate = w->op == COXI_OP_RATE;
    bool table = v->kind == COXI_KIND_TABLE; /* only rates are written to tables here */
    size_t most = table ? n_ps : v->n_shards;
    struct part *parts = calloc(most + 1, sizeof(*parts));
    size_t n = 0;
    if (parts == NULL) {
        return coxi_error_memory("reading or writing a variable");
    }
    for (size_t i = 0; i < most; i++) {
        struct coxi_range range =
            rate ? (struct coxi_range){0, 0}
                 : coxi_shard_part(&v->shards[i], w->begin, w->count);
        if (rate || range.count > 0) {
            parts[n++] = (struct part){
                .ps = (uint32_t)(table ? i : v->shards[i].ps),
                .begin = range.begin,
                .count = range.count,
                .at =
                    (range.begin - (rate ? 0 : w->begin)) * coxi_variable_row_bytes(v),
                .bytes = coxi_replay_update_bytes(v, w->op, range.count),
            };
        }
    }
    *ret = parts;
    *ret_n = n;
    return 0;
}

/* Sends a commit to each ps of `parts`; `touched` lists them. */
static int commit_parts(struct cox_coordinator *c, const struct coxi_variable *v,
                        enum coxi_op op, struct coxi_closure_id closure,
                        struct part *parts, size_t n, const uint32_t *touched,
                        const uint64_t *incarnations, const void *data)
{
    static const uint64_t zeros = 0;
    struct coxi_ps_round round;
    coxi_ps_round_begin(&round);
    for (size_t i = 0; i < n; i++) {
        struct part *part = &parts[i];
        size_t bytes = part->bytes;
        struct coxi_psc *ps = c->ps.clients[part->ps];
        struct coxi_update update = {v->id, op, part->begin, part->count};
        struct coxi_message message = {.kind = COXI_COMMIT};
        message.commit = (struct coxi_commit){
            .session = c->session,
            .incarnation = incarnations[part->ps],
            .closure = closure.n,
            .attempt = 1,
            .last = true,
            .touched = touched,
            .n_touched = n,
            .updates = &update,
            .n_updates = 1,
        };
        part->payload[0] = (struct iovec){
            (void *)(uintptr_t)((const uint8_t *)data + part->at), bytes};
        part->payload[1] =
            (struct iovec){(void *)(uintptr_t)&zeros, coxi_align(bytes, 8) - bytes};
        part->call.request.payload = part->payload;
        part->call.request.n_payload = 2;
        part->call.expect = COXI_COMMITTED;
        coxi_ps_round_add(&round, ps, &message, &part->call);
    }
    return coxi_ps_round_end(&round);
}

/* ---- a write that has failed on some ps */

/* Under the round's lock. */
static void take_voided(void *arg, const struct coxi_message *answer)
{
    struct part *part = arg;
    part->unsure = answer->voided.code;
    part->has = answer->voided.n_segments > 0;
}

/*
 * Asks each ps whether it has its part; a ps that does not have it refuses it from now
 * on. A ps that cannot say counts as having it: if it gets the part again, it takes
 * that for a duplicate. COX_EPSLOST, COX_EFENCED: the run is over, and no ps will
 * answer.
 */
static int ask_parts(struct cox_coordinator *c, struct coxi_closure_id closure,
                     struct part *parts, size_t n)
{
    struct coxi_ps_round round;
    struct coxi_message message = {.kind = COXI_VOID};
    message.void_ = (struct coxi_void){
        .session = c->session, .closure = closure.n, .attempt = UINT32_MAX};
    coxi_ps_round_begin(&round);
    for (size_t i = 0; i < n; i++) {
        struct coxi_psc *ps = c->ps.clients[parts[i].ps];
        message.void_.incarnation = coxi_psc_incarnation(ps);
        parts[i].call = (struct coxi_ps_round_call){
            .expect = COXI_VOIDED, .take = take_voided, .arg = &parts[i]};
        coxi_ps_round_add(&round, ps, &message, &parts[i].call);
    }
    (void)coxi_ps_round_end(&round);
    int r = 0;
    for (size_t i = 0; i < n; i++) {
        int code = parts[i].call.code;
        parts[i].unsure = code != 0 ? code : parts[i].unsure;
        parts[i].has = parts[i].has || parts[i].unsure != 0;
        if (parts[i].unsure == COX_EPSLOST || parts[i].unsure == COX_EFENCED) {
            r = parts[i].unsure;
        }
    }
    return r;
}

/* Lists the rows that the ps have, adjacent ones together; returns the number of
 * ranges. */
static size_t list_written(const struct part *parts, size_t n, struct coxi_range *ret)
{
    size_t n_ranges = 0;
    for (size_t i = 0; i < n; i++) {
        struct coxi_range *last = n_ranges > 0 ? &ret[n_ranges - 1] : NULL;
        if (!parts[i].has) {
            continue;
        }
        if (last != NULL && last->begin + last->count == parts[i].begin) {
            last->count += parts[i].count;
        } else {
            ret[n_ranges++] = (struct coxi_range){parts[i].begin, parts[i].count};
        }
    }
    return n_ranges;
}

/* What coxi_content_written records of an update. */
struct recording {
    struct cox_coordinator *c;
    const struct coxi_written *written;
    int code;
};

static void record(void *arg)
{
    struct recording *recording = arg;
    const struct coxi_written *written = recording->written;
    recording->code =
        coxi_replay_log_narrow(recording->c->replay_log, written->id, written->begin,
                               written->ranges, written->n);
}

/* If a ps is declared lost after this, the replay repeats what is logged here. */
bool coxi_content_written(struct cox_coordinator *c, const struct coxi_written *written)
{
    struct recording recording = {c, written, 0};
    if (c->replay_log == NULL) {
        return true;
    }
    bool known = coxi_ps_unless_lost(c, written->n_losses, record, &recording);
    if (recording.code != 0) {
        coxi_fatal(c, recording.code, coxi_error_text());
    }
    return known;
}

/* Finds out which ps have their parts, and makes the log say the same. Returns an error
 * if the run is over before that is known. */
static int find_written(struct cox_coordinator *c, struct coxi_closure_id closure,
                        uint64_t begin, struct part *parts, size_t n,
                        struct coxi_range *ranges)
{
    struct coxi_written written = {closure, begin, ranges, 0, 0};
    int r;
    coxi_replay_log_hold(c->replay_log, closure, begin);
    do {
        written.n_losses = coxi_ps_losses(c);
        r = coxi_ps_wait(c);
        r = r == 0 ? ask_parts(c, closure, parts, n) : r;
        written.n = r == 0 ? list_written(parts, n, ranges) : 0;
    } while (coxi_ps_again(c, &r) || (r == 0 && !coxi_content_written(c, &written)));
    return r;
}

/* Makes the error "...; it stays applied on ps 0, 2". */
static int tell_partial(const struct coxi_variable *v, const struct part *parts,
                        size_t n, const char *why)
{
    char list[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < n && used < sizeof(list); i++) {
        if (parts[i].has) {
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s %u",
                                     used > 0 ? "," : "", (unsigned)parts[i].ps);
        }
    }
    return coxi_error(COX_EPARTIAL,
                      "variable '%s' is written in part: %.200s; as far as is known it "
                      "stays applied on ps%s",
                      v->name, why, list);
}

/*
 * A write has failed with `code` on some ps. Returns `code` if it is applied nowhere, 0
 * if it is applied everywhere after all; otherwise an error that names the ps that have
 * it.
 */
static int settle_failed(struct cox_coordinator *c, struct coxi_closure_id closure,
                         const struct coxi_variable *v, uint64_t begin,
                         struct part *parts, size_t n, int code)
{
    char why[COXI_TEXT_MAX];
    (void)snprintf(why, sizeof(why), "%s", coxi_error_text());
    struct coxi_range *ranges = calloc(n + 1, sizeof(*ranges));
    int r = code == COX_EFENCED ? code
            : ranges == NULL    ? coxi_error_memory("a write that has failed")
                                : find_written(c, closure, begin, parts, n, ranges);
    free(ranges);
    if (r != 0) {
        return coxi_error(
            r, "whether all of variable '%s' is written is not known: %.300s", v->name,
            why);
    }
    size_t n_has = 0;
    bool sure = true;
    for (size_t i = 0; i < n; i++) {
        n_has += parts[i].has;
        sure = sure && parts[i].unsure == 0;
    }
    if (n_has > 0 && (n_has < n || !sure)) {
        return tell_partial(v, parts, n, why);
    }
    return n_has > 0 ? 0 : coxi_error(code, "%s", why);
}

/* ---- writing */

/* Writes the parts. If that fails, the write is settled when this returns. */
static int write_parts(struct cox_coordinator *c, struct coxi_closure_id closure,
                       const struct coxi_content_write *w, struct part *parts, size_t n,
                       const uint32_t *touched, uint64_t *incarnations)
{
    int r;
    do {
        /* A ps that comes back later gets this write from the log, after the entries
         * before it. */
        r = coxi_ps_moment(c, incarnations);
        if (r == 0) {
            r = commit_parts(c, w->variable, w->op, closure, parts, n, touched,
                             incarnations, w->data);
        }
    } while (coxi_ps_again(c, &r));
    return r == 0 ? 0 : settle_failed(c, closure, w->variable, w->begin, parts, n, r);
}

int coxi_content_write(struct cox_coordinator *c, struct coxi_closure_id closure,
                       const struct coxi_content_write *w,
                       enum coxi_operation_end *ret_how)
{
    struct part *parts = NULL;
    size_t n = 0;
    int r = split(w, c->ps.n, &parts, &n);
    uint32_t *touched = calloc(n + 1, sizeof(*touched));
    uint64_t *incarnations = calloc(c->ps.n, sizeof(*incarnations));
    if (r == 0 && (touched == NULL || incarnations == NULL)) {
        r = coxi_error_memory("writing a variable");
    }
    *ret_how = COXI_OPERATION_NOWHERE;
    for (size_t i = 0; r == 0 && i < n; i++) {
        touched[i] = parts[i].ps;
    }
    if (r == 0) {
        r = write_parts(c, closure, w, parts, n, touched, incarnations);
        *ret_how = r == 0 ? COXI_OPERATION_DONE : COXI_OPERATION_LOGGED;
    }
    free(incarnations);
    free(touched);
    free(parts);
    return r;
}

int coxi_content_update(struct cox_coordinator *c, const struct coxi_content_write *w)
{
    COXI_CALL_AS(c, "the write to a variable");
    struct coxi_replay_entry what = {.kind = COXI_REPLAY_UPDATE};
    struct coxi_operation *operation;
    enum coxi_operation_end how;
    int r = coxi_gate_wait(c); /* first the writes that the older client had begun */
    if (r != 0) {
        return r;
    }
    if (coxi_ps_may_return(c)) {
        what.update =
            coxi_replay_update_new(w->variable, w->op, w->begin, w->count, w->data);
        if (what.update == NULL) {
            return coxi_error_memory("the replay log");
        }
    }
    r = coxi_operation_begin(c, &what, true, &operation);
    if (r != 0) {
        free(what.update);
        return r;
    }
    r = coxi_content_write(c, operation->id, w, &how);
    coxi_operation_end(operation, how);
    return r;
}

/* ---- the public functions */

static int update(struct cox_coordinator *c, struct cox_variable *variable,
                  enum coxi_op op, uint64_t begin, uint64_t count, const void *data,
                  size_t bytes)
{
    if (c == NULL || variable->entry.c != c || (data == NULL && count > 0)) {
        return coxi_error(COX_EINVAL, "writing a variable needs one of this "
                                      "coordinator, and its elements");
    }
    const struct coxi_variable *v = variable->entry.description;
    int r = coxi_content_check(v, begin, count, bytes);
    return r == 0 ? coxi_content_update(
                        c, &(struct coxi_content_write){v, op, begin, count, data})
                  : r;
}

int cox_variable_assign_rows(struct cox_coordinator *c, struct cox_variable *variable,
                             uint64_t begin, uint64_t count, const void *data,
                             size_t bytes)
{
    if (variable == NULL) {
        return coxi_error(COX_EINVAL, "cox_variable_assign_rows needs a variable");
    }
    return update(c, variable, COXI_OP_ASSIGN, begin, count, data, bytes);
}

/* Updates all rows; `call`: the function that the user has called. */
static int update_all(struct cox_coordinator *c, struct cox_variable *variable,
                      enum coxi_op op, const void *data, size_t bytes, const char *call)
{
    if (variable == NULL) {
        return coxi_error(COX_EINVAL, "%s needs a variable", call);
    }
    return update(c, variable, op, 0, coxi_variable_rows(variable->entry.description),
                  data, bytes);
}

int cox_variable_assign(struct cox_coordinator *c, struct cox_variable *variable,
                        const void *data, size_t bytes)
{
    return update_all(c, variable, COXI_OP_ASSIGN, data, bytes, "cox_variable_assign");
}

int cox_variable_add(struct cox_coordinator *c, struct cox_variable *variable,
                     const void *data, size_t bytes)
{
    return update_all(c, variable, COXI_OP_ADD, data, bytes, "cox_variable_add");
}

/* ---- rates */

static int set_rate(struct cox_coordinator *c, const struct coxi_variable *v,
                    float learning_rate, const struct cox_schedule *schedule)
{
    static const struct cox_schedule constant = {COX_SCHEDULE_CONSTANT, 0, 0, 0, 0, 0};
    const struct cox_schedule *s = schedule != NULL ? schedule : &constant;
    const struct coxi_rate rate = {
        {(double)learning_rate, (double)s->kind, (double)s->end_rate, (double)s->power,
         (double)s->gamma, (double)s->steps, (double)s->warmup_steps}};
    /* finds errors for which the ps would refuse it, before any ps is asked */
    struct coxi_optimizer with = v->optimizer;
    int r = coxi_rate_set(&with, &rate);
    return r == 0 ? coxi_content_update(
                        c, &(struct coxi_content_write){v, COXI_OP_RATE, 0, 0, &rate})
                  : coxi_error(r, "variable '%s': %s", v->name, coxi_error_text());
}

int cox_variable_set_rate(struct cox_coordinator *c, struct cox_variable *variable,
                          float learning_rate, const struct cox_schedule *schedule)
{
    return c != NULL && variable != NULL && variable->entry.c == c
               ? set_rate(c, variable->entry.description, learning_rate, schedule)
               : coxi_error(COX_EINVAL,
                            "cox_variable_set_rate needs a variable of this "
                            "coordinator");
}

int cox_table_set_rate(struct cox_coordinator *c, struct cox_table *table,
                       float learning_rate, const struct cox_schedule *schedule)
{
    return c != NULL && table != NULL && table->entry.c == c
               ? set_rate(c, table->entry.description, learning_rate, schedule)
               : coxi_error(COX_EINVAL,
                            "cox_table_set_rate needs a table of this coordinator");
}
