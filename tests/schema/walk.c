/* See samples.h: reading all of a decoded message. */
#include <string.h>

#include "tests/schema/samples.h"
#include "tests/test.h"

static uint64_t read_text(const char *text)
{
    assert_non_null(text);
    return strlen(text);
}

/* Arrays are 8-aligned (u32 ones 4-aligned), and every byte of them can be read. */
static uint64_t read_array(const void *array, size_t n, size_t size, size_t align)
{
    uint64_t sum = 0;
    if (n > 0) {
        assert_non_null(array);
        assert_int_equal(0, (uintptr_t)array % align);
    }
    for (size_t i = 0; i < n * size; i++) {
        sum = sum * 31 + ((const uint8_t *)array)[i];
    }
    return sum;
}

static uint64_t read_variable(const struct coxi_variable *v)
{
    assert_true(v->rank > 0 && v->rank <= COXI_WIRE_RANK_MAX);
    assert_true(v->kind == COXI_KIND_DENSE || v->kind == COXI_KIND_TABLE);
    assert_true(strlen(v->name) <= COXI_WIRE_NAME_MAX);
    return read_text(v->name) +
           read_array(v->shards, v->n_shards, sizeof(v->shards[0]), 8);
}

static bool read_layout(const struct coxi_layout *layout, struct coxi_layout *ret,
                        uint64_t *ret_sum)
{
    enum { MAX = 64 };
    static struct coxi_ps_address ps[MAX];
    static struct coxi_variable vars[MAX];
    ret->servers = ps;
    ret->variables = vars;
    for (size_t i = 0; i < layout->n_servers; i++) {
        coxi_layout_ps(layout, i, &ps[i % MAX]);
        *ret_sum += read_text(ps[i % MAX].address);
    }
    for (size_t i = 0; i < layout->n_variables; i++) {
        if (!coxi_layout_variable(layout, i, &vars[i % MAX])) {
            return false;
        }
        *ret_sum += read_variable(&vars[i % MAX]);
    }
    return layout->n_servers <= MAX && layout->n_variables <= MAX;
}

static uint64_t read_numbers(const uint32_t *list, size_t n, size_t n_closures)
{
    for (size_t i = 0; i < n; i++) {
        assert_true(list[i] < n_closures && (i == 0 || list[i] > list[i - 1]));
    }
    return read_array(list, n, sizeof(*list), 4);
}

static bool read_dispatch(const struct coxi_dispatch *m, struct coxi_dispatch *ret,
                          uint64_t *ret_sum)
{
    enum { MAX = 64 };
    static struct coxi_kept_input inputs[MAX];
    ret->inputs = inputs;
    for (size_t i = 0; i < m->n_inputs; i++) {
        struct coxi_kept_input *input = &inputs[i % MAX];
        if (!coxi_dispatch_input(m, i, input)) {
            return false;
        }
        assert_true(input->at < m->n_closures);
        *ret_sum += read_text(input->name) + read_text(input->result);
    }
    *ret_sum += read_array(m->closures, m->n_closures, sizeof(m->closures[0]), 8) +
                read_numbers(m->keep, m->n_keep, m->n_closures) +
                read_numbers(m->alone, m->n_alone, m->n_closures);
    if (m->rounds != NULL) {
        *ret_sum += read_array(m->rounds, m->n_closures, sizeof(m->rounds[0]), 8);
    }
    return m->n_inputs <= MAX;
}

static uint64_t read_commit(const struct coxi_commit *m)
{
    for (size_t i = 0; i < m->n_updates; i++) {
        assert_true(m->updates[i].op <= COXI_OP_COMPENSATED);
    }
    assert_true(m->n_pulled <= m->n_updates);
    return read_array(m->touched, m->n_touched, sizeof(m->touched[0]), 4) +
           read_array(m->updates, m->n_updates, sizeof(m->updates[0]), 8) +
           read_array(m->pulled, m->n_pulled, sizeof(m->pulled[0]), 8);
}

/* Lists of closures, and a voided. */
static uint64_t read_closures(const struct coxi_message *m)
{
    if (m->kind == COXI_DONE) {
        return read_array(m->done.closures, m->done.n_closures,
                          sizeof(m->done.closures[0]), 8) +
               read_numbers(m->done.kept, m->done.n_kept, m->done.n_closures) +
               (m->done.weights != NULL
                    ? read_array(m->done.weights, m->done.n_closures,
                                 sizeof(m->done.weights[0]), 4)
                    : 0) +
               (m->done.times != NULL ? read_array(m->done.times, m->done.n_closures,
                                                   sizeof(m->done.times[0]), 8)
                                      : 0) +
               (m->done.scalars != NULL
                    ? read_array(m->done.scalars, m->done.n_closures,
                                 sizeof(m->done.scalars[0]), 4)
                    : 0);
    }
    if (m->kind == COXI_RECALL || m->kind == COXI_RESULT_DROP) {
        return read_array(m->recall.closures, m->recall.n_closures,
                          sizeof(m->recall.closures[0]), 8);
    }
    if (m->kind == COXI_CRASHED) {
        return read_array(m->crashed.closures, m->crashed.n_closures,
                          sizeof(m->crashed.closures[0]), 8);
    }
    return m->kind != COXI_VOIDED
               ? 0
               : read_text(m->voided.message) +
                     read_array(m->voided.segments, m->voided.n_segments,
                                sizeof(m->voided.segments[0]), 4) +
                     read_array(m->voided.touched, m->voided.n_touched,
                                sizeof(m->voided.touched[0]), 4);
}

/* True for messages with a status. All of them have a text, too. */
static bool is_status(const struct coxi_message *m)
{
    return m->kind == COXI_STATUS || m->kind == COXI_PULLED ||
           m->kind == COXI_COMMITTED || m->kind == COXI_MODULE_LOADED ||
           m->kind == COXI_RESOURCE_MADE || m->kind == COXI_REACH;
}

bool walk_message(const struct coxi_message *m, struct coxi_message *ret,
                  uint64_t *ret_sum)
{
    uint64_t sum = 0;
    bool usable = true;
    *ret = *m;
    assert_true(m->kind >= COXI_HELLO && (int)m->kind <= SAMPLE_KINDS);
    if (m->kind == COXI_REFUSE) {
        sum = read_text(m->refuse.message);
    } else if (is_status(m)) {
        sum = read_text(m->status.message) +
              read_array(m->status.versions, m->status.n_versions, 8, 8);
    } else if (m->kind == COXI_CREATE) {
        sum = read_variable(&m->create.variable);
    } else if (m->kind == COXI_SNAPSHOT) {
        sum = read_text(m->snapshot.path);
    } else if (m->kind == COXI_PROBE) {
        sum = read_text(m->probe.path);
    } else if (m->kind == COXI_SNAPSHOT_DONE) {
        sum = read_text(m->snapshot_done.message) +
              read_array(m->snapshot_done.applied, m->snapshot_done.n_applied,
                         sizeof(m->snapshot_done.applied[0]), 8) +
              read_array(m->snapshot_done.touched, m->snapshot_done.n_touched, 4, 4);
    } else if (m->kind == COXI_RESTORE) {
        sum = read_text(m->restore.path) +
              read_array(m->restore.applied, m->restore.n_applied,
                         sizeof(m->restore.applied[0]), 8) +
              read_array(m->restore.touched, m->restore.n_touched, 4, 4);
    } else if (m->kind == COXI_PULL) {
        sum = read_array(m->pull.items, m->pull.n_items, sizeof(m->pull.items[0]), 8);
    } else if (m->kind == COXI_COMMIT) {
        sum = read_commit(&m->commit);
    } else if (m->kind == COXI_LAYOUT) {
        usable = read_layout(&m->layout, &ret->layout, &sum);
    } else if (m->kind == COXI_DISPATCH) {
        usable = read_dispatch(&m->dispatch, &ret->dispatch, &sum);
    } else if (m->kind == COXI_RESULT || m->kind == COXI_RESULT_WANT) {
        sum = read_text(m->result.message);
    } else if (m->kind == COXI_FILE_READ) {
        sum = read_text(m->file_read.dataset) + read_text(m->file_read.file);
    } else if (m->kind == COXI_FILE_BYTES) {
        sum = read_text(m->file_bytes.message);
    } else if (m->kind == COXI_EXCHANGE) {
        sum = read_text(m->exchange.message);
    } else if (m->kind == COXI_EXCHANGED) {
        sum = read_text(m->exchanged.message);
    } else if (m->kind == COXI_TRACE_TOLD) {
        sum = read_array(m->trace_told.spans, m->trace_told.n_spans,
                         sizeof(m->trace_told.spans[0]), 8) +
              read_array(m->trace_told.threads, m->trace_told.n_threads,
                         sizeof(m->trace_told.threads[0]), 8);
    } else if (m->kind == COXI_HELLO) {
        sum = read_text(m->hello.name);
    } else if (m->kind == COXI_RESOURCE) {
        sum = read_text(m->resource.name) + read_text(m->resource.message);
    } else if (m->kind == COXI_MODULE) {
        sum = read_text(m->module.name);
    } else {
        sum = read_closures(m);
    }
    *ret_sum = sum;
    return usable;
}
