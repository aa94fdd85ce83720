/* See limits.h. Strings other than names are counted when everything is encoded. */
#include "schema/limits.h"

#include <string.h>

enum {
    OTHER_MAX = 4096,  /* bytes of a message without its arrays and texts */
    FILE_MAX = 4096,   /* bytes of the path of a snapshot's file: PATH_MAX of Linux */
    ELEMENT_MAX = 512, /* bytes of a variable or address without its shards */
};

static bool name_fits(const char *name)
{
    return name == NULL || strlen(name) <= COXI_WIRE_NAME_MAX;
}

static bool variable_fits(const struct coxi_variable *v)
{
    return name_fits(v->name) && v->rank > 0 && v->rank <= COXI_WIRE_RANK_MAX;
}

static bool layout_fits(const struct coxi_layout *layout)
{
    for (size_t i = 0; i < layout->n_variables; i++) {
        if (!variable_fits(&layout->variables[i])) {
            return false;
        }
    }
    return true;
}

static size_t layout_bytes(const struct coxi_layout *layout)
{
    size_t bytes = layout->n_servers * ELEMENT_MAX;
    for (size_t i = 0; i < layout->n_variables; i++) {
        bytes +=
            ELEMENT_MAX + layout->variables[i].n_shards * sizeof(struct coxi_shard);
    }
    return bytes;
}

static bool dispatch_fits(const struct coxi_dispatch *dispatch)
{
    for (size_t i = 0; i < dispatch->n_inputs; i++) {
        if (!name_fits(dispatch->inputs[i].name) ||
            !name_fits(dispatch->inputs[i].result)) {
            return false;
        }
    }
    return true;
}

static size_t applied_bytes(size_t n_applied, size_t n_touched)
{
    return n_applied * sizeof(struct coxi_interval) + n_touched * sizeof(uint32_t);
}

static size_t dispatch_bytes(const struct coxi_dispatch *m)
{
    return m->n_closures * sizeof(struct coxi_closure_head) +
           (m->n_keep + m->n_alone) * sizeof(uint32_t) + m->n_inputs * ELEMENT_MAX +
           (m->rounds != NULL ? m->n_closures * sizeof(*m->rounds) : 0);
}

static size_t commit_bytes(const struct coxi_commit *m)
{
    return m->n_updates * sizeof(struct coxi_update) + m->n_touched * sizeof(uint32_t) +
           m->n_pulled * sizeof(uint64_t);
}

static size_t done_bytes(const struct coxi_done *m)
{
    return m->n_closures * sizeof(struct coxi_done_head) +
           m->n_kept * sizeof(uint32_t) + m->n_ended * sizeof(uint32_t) +
           (m->weights != NULL ? m->n_closures * sizeof(*m->weights) : 0) +
           (m->times != NULL ? m->n_closures * sizeof(*m->times) : 0) +
           (m->scalars != NULL ? m->n_closures * sizeof(*m->scalars) : 0);
}

static size_t voided_bytes(const struct coxi_voided *m)
{
    return m->n_segments * sizeof(struct coxi_voided_segment) +
           m->n_touched * sizeof(uint32_t);
}

static size_t spans_bytes(const struct coxi_trace_told *m)
{
    return m->n_spans * sizeof(struct coxi_trace_span) +
           m->n_threads * sizeof(struct coxi_trace_thread);
}

/* With those of the Restore that sends the same list back. */
static size_t snapshot_bytes(const struct coxi_snapshot_done *m)
{
    return FILE_MAX + applied_bytes(m->n_applied, m->n_touched);
}

/* Of a message that is about some closures. */
static size_t heads_bytes(const struct coxi_message *m)
{
    return m->kind == COXI_CRASHED
               ? m->crashed.n_closures * sizeof(struct coxi_crashed_head)
               : m->recall.n_closures * sizeof(struct coxi_recall_head);
}

/* Of a message with descriptions of variables. */
static size_t variables_bytes(const struct coxi_message *m)
{
    return m->kind == COXI_CREATE
               ? m->create.variable.n_shards * sizeof(struct coxi_shard)
               : layout_bytes(&m->layout);
}

/* Of a pull, or of its answer. */
static size_t pull_bytes(const struct coxi_message *m)
{
    return m->kind == COXI_PULL ? m->pull.n_items * sizeof(struct coxi_pull_item)
                                : m->status.n_versions * sizeof(uint64_t);
}

/* Bytes of the arrays in a message. */
static size_t array_bytes(const struct coxi_message *m)
{
    switch (m->kind) {
    case COXI_CREATE:
    case COXI_LAYOUT:
        return variables_bytes(m);
    case COXI_PULL:
    case COXI_PULLED:
        return pull_bytes(m);
    case COXI_COMMIT:
        return commit_bytes(&m->commit);
    case COXI_DISPATCH:
        return dispatch_bytes(&m->dispatch);
    case COXI_DONE:
        return done_bytes(&m->done);
    case COXI_FILE_READ:
        return FILE_MAX;
    case COXI_SNAPSHOT_DONE:
        return snapshot_bytes(&m->snapshot_done);
    case COXI_RESTORE:
        return applied_bytes(m->restore.n_applied, m->restore.n_touched);
    case COXI_VOIDED:
        return voided_bytes(&m->voided);
    case COXI_RECALL:
    case COXI_RESULT_DROP:
    case COXI_CRASHED:
        return heads_bytes(m);
    case COXI_TRACE_TOLD:
        return spans_bytes(&m->trace_told);
    case COXI_HELLO:
    case COXI_REFUSE:
    case COXI_STATUS:
    case COXI_CLAIM:
    case COXI_RELEASE:
    case COXI_WATERMARK:
    case COXI_SNAPSHOT:
    case COXI_COUNT:
    case COXI_COUNTS:
    case COXI_COMMITTED:
    case COXI_MODULE:
    case COXI_MODULE_LOADED:
    case COXI_VOID:
    case COXI_LEAVING:
    case COXI_WANT_DATA:
    case COXI_RESOURCE:
    case COXI_RESOURCE_MADE:
    case COXI_RESOURCE_DROP:
    case COXI_RESULT_WANT:
    case COXI_RESULT:
    case COXI_LOAD:
    case COXI_DESCRIBE:
    case COXI_REACH:
    case COXI_PROBE:
    case COXI_FILE_BYTES:
    case COXI_TRACE_ASK:
    case COXI_MEMORY:
    case COXI_EXCHANGE:
    case COXI_EXCHANGED:
        break;
    }
    return 0;
}

bool coxi_message_fits(const struct coxi_message *m)
{
    if ((m->kind == COXI_HELLO && !name_fits(m->hello.name)) ||
        (m->kind == COXI_FILE_READ && !name_fits(m->file_read.dataset)) ||
        (m->kind == COXI_RESOURCE && !name_fits(m->resource.name)) ||
        (m->kind == COXI_CREATE && !variable_fits(&m->create.variable)) ||
        (m->kind == COXI_LAYOUT && !layout_fits(&m->layout)) ||
        (m->kind == COXI_DISPATCH && !dispatch_fits(&m->dispatch))) {
        return false;
    }
    return OTHER_MAX + array_bytes(m) <= COXI_WIRE_META_MAX;
}

/* The code of an answer; 0: it has none, or several. */
static int32_t code_of(const struct coxi_message *m)
{
    bool is_status = m->kind == COXI_STATUS || m->kind == COXI_PULLED ||
                     m->kind == COXI_COMMITTED || m->kind == COXI_MODULE_LOADED ||
                     m->kind == COXI_RESOURCE_MADE || m->kind == COXI_REACH;
    return is_status                       ? m->status.code
           : m->kind == COXI_SNAPSHOT_DONE ? m->snapshot_done.code
           : m->kind == COXI_VOIDED        ? m->voided.code
           : m->kind == COXI_RESOURCE      ? m->resource.code
           : m->kind == COXI_RESULT        ? m->result.code
           : m->kind == COXI_FILE_BYTES    ? m->file_bytes.code
           : m->kind == COXI_EXCHANGE      ? m->exchange.code
           : m->kind == COXI_EXCHANGED     ? m->exchanged.code
                                           : 0;
}

bool coxi_message_codes_fit(const struct coxi_message *m)
{
    bool fit = code_of(m) <= 0;
    for (size_t i = 0; m->kind == COXI_DONE && i < m->done.n_closures; i++) {
        fit = fit && m->done.closures[i].code <= 0;
    }
    return fit;
}
