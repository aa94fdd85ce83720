/* See history.h. */
#include "coordinator/base/history.h"

#include <stdio.h>
#include <stdlib.h>

#include "checkpoint/place.h"
#include "checkpoint/records.h"
#include "common/error.h"
#include "common/json_text.h"
#include "coordinator/coordinator.h"

const char *coxi_history_dir(const struct cox_coordinator *c)
{
    bool has_files = c->saving.dir != NULL && !coxi_place_in_store(c->saving.dir);
    const char *dir = has_files ? c->saving.dir : c->options.log_dir;
    return c->options.history != -1 ? dir : NULL;
}

/* True if the client serves over HTTP (monitor/exposed.c). */
static bool is_served(const struct cox_coordinator *c)
{
    const char *address = c->options.http != NULL
                              ? c->options.http
                              : getenv("COX_HTTP"); /* NOLINT(concurrency-mt-unsafe) */
    return address != NULL && *address != '\0';
}

bool coxi_history_is_sampled(const struct cox_coordinator *c)
{
    return coxi_history_dir(c) != NULL || is_served(c);
}

int coxi_history_new(struct cox_coordinator *c)
{
    const struct cox_options *o = &c->options;
    bool has_dir = o->log_dir != NULL || (o->checkpoint_dir != NULL &&
                                          !coxi_place_in_store(o->checkpoint_dir));
    bool wanted =
        o->tensorboard_dir != NULL || is_served(c) || (has_dir && o->history != -1);
    return wanted ? coxi_records_new(true, &c->history) : 0;
}

void coxi_history_free(struct cox_coordinator *c)
{
    coxi_records_free(c->history);
    c->history = NULL;
}

void coxi_history_add(struct cox_coordinator *c, enum coxi_record_kind kind,
                      const char *fields, bool lasting)
{
    if (c->history != NULL) {
        struct coxi_record record = {.kind = kind, .fields = fields};
        (void)coxi_records_add(c->history, &record, lasting, NULL);
    }
}

int coxi_history_scalar(struct cox_coordinator *c,
                        const struct coxi_record_scalar *scalar)
{
    struct coxi_record record = {.kind = COXI_RECORD_SCALAR, .scalar = *scalar};
    return c->history != NULL ? coxi_records_add(c->history, &record, true, NULL) : 0;
}

static int add_number(struct coxi_buffer *to, const char *name, int64_t number, bool is)
{
    return is ? coxi_buffer_printf(to, ",\"%s\":%lld", name, (long long)number) : 0;
}

static int event_fields(struct coxi_buffer *to, const struct cox_event *event,
                        uint64_t left_out)
{
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    int r = coxi_buffer_printf(to, "\"code\":\"%s\",\"level\":\"%s\",\"text\":",
                               event->name, levels[event->level]);
    r = r == 0 ? coxi_json_text(to, event->text) : r;
    r = r == 0 ? add_number(to, "ps", event->ps, event->ps >= 0) : r;
    r = r == 0 ? add_number(to, "worker", event->worker, event->worker >= 0) : r;
    r = r == 0 ? add_number(to, "closure", (int64_t)event->closure, event->closure != 0)
               : r;
    r = r == 0 ? add_number(to, "checkpoint", (int64_t)event->checkpoint,
                            event->checkpoint != 0)
               : r;
    r = r == 0 ? add_number(to, "more", (int64_t)left_out, left_out != 0) : r;
    return r == 0 ? coxi_buffer_append_raw(to, "", 1) : r;
}

void coxi_history_event(struct cox_coordinator *c, const struct cox_event *event,
                        uint64_t left_out)
{
    struct coxi_buffer fields = {0};
    if (c->history != NULL && event_fields(&fields, event, left_out) == 0) {
        struct coxi_record record = {.t = event->time_s,
                                     .kind = COXI_RECORD_EVENT,
                                     .fields = (const char *)fields.data};
        (void)coxi_records_add(c->history, &record, true, NULL);
    }
    coxi_buffer_fini(&fields);
}

void coxi_history_checkpoint(struct cox_coordinator *c,
                             const struct coxi_history_checkpoint *checkpoint)
{
    char fields[256];
    (void)snprintf(fields, sizeof(fields),
                   "\"number\":%llu,\"closure\":%llu,\"seconds\":%.3f,\"bytes\":%llu,"
                   "\"cut\":%llu",
                   (unsigned long long)checkpoint->number,
                   (unsigned long long)checkpoint->closure, checkpoint->seconds,
                   (unsigned long long)checkpoint->bytes,
                   (unsigned long long)checkpoint->seq);
    coxi_history_add(c, COXI_RECORD_CHECKPOINT, fields, true);
}

int coxi_history_since(struct cox_coordinator *c, uint64_t seq, size_t most,
                       struct coxi_buffer *out, uint64_t *ret_seq)
{
    if (c->history == NULL) {
        *ret_seq = seq;
        return 0;
    }
    return coxi_records_since(c->history, seq, most, out, ret_seq);
}

uint64_t coxi_history_last(struct cox_coordinator *c)
{
    return c->history != NULL ? coxi_records_last(c->history) : 0;
}
