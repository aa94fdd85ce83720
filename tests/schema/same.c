/* See samples.h: the comparison of two messages. */
#include <string.h>

#include "tests/schema/samples.h"
#include "tests/test.h"

/* Structs without padding, and arrays of them. */
#define ASSERT_SAME_BYTES(a, b)                                                        \
    do {                                                                               \
        assert_int_equal(sizeof(a), sizeof(b));                                        \
        assert_memory_equal(&(a), &(b), sizeof(a));                                    \
    } while (0)

#define ASSERT_SAME_ARRAY(a, n_a, b, n_b)                                              \
    do {                                                                               \
        assert_int_equal(n_a, n_b);                                                    \
        if ((n_a) > 0) {                                                               \
            assert_memory_equal(a, b, (n_a) * sizeof(*(a)));                           \
        }                                                                              \
    } while (0)

/* Each looks at the part of the union that it is named after. */
typedef const struct coxi_message message;

static void same_hello(message *a, message *b)
{
    assert_int_equal(a->hello.version, b->hello.version);
    assert_int_equal(a->hello.role, b->hello.role);
    assert_int_equal(a->hello.channel, b->hello.channel);
    assert_int_equal(a->hello.index, b->hello.index);
    assert_int_equal(a->hello.incarnation, b->hello.incarnation);
    ASSERT_SAME_BYTES(a->hello.session, b->hello.session);
    assert_int_equal(a->hello.slots, b->hello.slots);
    assert_string_equal(a->hello.name != NULL ? a->hello.name : "", b->hello.name);
}

static void same_refuse(message *a, message *b)
{
    assert_int_equal(a->refuse.version, b->refuse.version);
    assert_int_equal(a->refuse.code, b->refuse.code);
    assert_string_equal(a->refuse.message, b->refuse.message);
}

static void same_status(message *a, message *b)
{
    assert_int_equal(a->status.code, b->status.code);
    assert_string_equal(a->status.message, b->status.message);
    assert_int_equal(a->status.id, b->status.id);
    assert_int_equal(a->status.duplicate, b->status.duplicate);
    assert_int_equal(a->status.ended, b->status.ended);
    assert_int_equal(a->status.incarnation, b->status.incarnation);
    ASSERT_SAME_ARRAY(a->status.versions, a->status.n_versions, b->status.versions,
                      b->status.n_versions);
}

static void same_claim(message *a, message *b)
{
    ASSERT_SAME_BYTES(a->claim, b->claim);
}

static void same_release(message *a, message *b)
{
    ASSERT_SAME_BYTES(a->release, b->release);
}

/* Not as bytes: there is padding in it. */
static void same_lifecycle(const struct coxi_lifecycle *a,
                           const struct coxi_lifecycle *b)
{
    assert_int_equal(a->admit_count, b->admit_count);
    ASSERT_SAME_BYTES(a->admit_probability, b->admit_probability);
    assert_int_equal(a->evict_age, b->evict_age);
    assert_int_equal(a->evict_count, b->evict_count);
    assert_int_equal(a->evict_count_age, b->evict_count_age);
    assert_int_equal(a->rows_max, b->rows_max);
}

static void same_variable(const struct coxi_variable *a, const struct coxi_variable *b)
{
    assert_int_equal(a->id, b->id);
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->rank, b->rank);
    ASSERT_SAME_BYTES(a->shape, b->shape);
    ASSERT_SAME_ARRAY(a->shards, a->n_shards, b->shards, b->n_shards);
    ASSERT_SAME_BYTES(a->optimizer, b->optimizer);
    assert_int_equal(a->initializer.kind, b->initializer.kind);
    assert_memory_equal(&a->initializer.a, &b->initializer.a, sizeof(float));
    assert_memory_equal(&a->initializer.b, &b->initializer.b, sizeof(float));
    assert_int_equal(a->initializer.seed, b->initializer.seed);
    assert_int_equal(a->wire_dtype, b->wire_dtype);
    assert_int_equal(a->wire_rounding, b->wire_rounding);
    assert_int_equal(a->nonfinite, b->nonfinite);
    assert_int_equal(a->staleness.action, b->staleness.action);
    assert_int_equal(a->staleness.max, b->staleness.max);
    ASSERT_SAME_BYTES(a->staleness.compensation, b->staleness.compensation);
    assert_int_equal(a->metric, b->metric);
    same_lifecycle(&a->lifecycle, &b->lifecycle);
}

static void same_create(message *a, message *b)
{
    ASSERT_SAME_BYTES(a->create.session, b->create.session);
    assert_int_equal(a->create.closure, b->create.closure);
    assert_int_equal(a->create.incarnation, b->create.incarnation);
    same_variable(&a->create.variable, &b->create.variable);
}

static void same_watermark(message *a, message *b)
{
    ASSERT_SAME_BYTES(a->watermark, b->watermark);
}

static void same_snapshot(message *a, message *b)
{
    ASSERT_SAME_BYTES(a->snapshot.session, b->snapshot.session);
    assert_int_equal(a->snapshot.number, b->snapshot.number);
    assert_string_equal(a->snapshot.path, b->snapshot.path);
    assert_int_equal(a->snapshot.base, b->snapshot.base);
    assert_int_equal(a->snapshot.track, b->snapshot.track);
    assert_int_equal(a->snapshot.incarnation, b->snapshot.incarnation);
    assert_int_equal(a->snapshot.carry, b->snapshot.carry);
}

static void same_probe(message *a, message *b)
{
    ASSERT_SAME_BYTES(a->probe.session, b->probe.session);
    assert_string_equal(a->probe.path, b->probe.path);
    assert_int_equal(a->probe.writes, b->probe.writes);
}

static void same_snapshot_done(message *a, message *b)
{
    const struct coxi_snapshot_done *x = &a->snapshot_done;
    const struct coxi_snapshot_done *y = &b->snapshot_done;
    assert_int_equal(x->code, y->code);
    assert_string_equal(x->message, y->message);
    assert_int_equal(x->bytes, y->bytes);
    assert_int_equal(x->crc32, y->crc32);
    assert_int_equal(x->watermark, y->watermark);
    assert_int_equal(x->held_us_max, y->held_us_max);
    assert_int_equal(x->saved_bytes, y->saved_bytes);
    assert_int_equal(x->base, y->base);
    ASSERT_SAME_ARRAY(x->applied, x->n_applied, y->applied, y->n_applied);
    ASSERT_SAME_ARRAY(x->touched, x->n_touched, y->touched, y->n_touched);
}

static void same_restore(message *a, message *b)
{
    const struct coxi_restore *x = &a->restore;
    const struct coxi_restore *y = &b->restore;
    ASSERT_SAME_BYTES(x->session, y->session);
    assert_int_equal(x->round, y->round);
    assert_string_equal(x->path, y->path);
    assert_int_equal(x->bytes, y->bytes);
    assert_int_equal(x->crc32, y->crc32);
    assert_int_equal(x->watermark, y->watermark);
    assert_int_equal(x->at, y->at);
    assert_int_equal(x->incarnation, y->incarnation);
    assert_int_equal(x->more, y->more);
    ASSERT_SAME_ARRAY(x->applied, x->n_applied, y->applied, y->n_applied);
    ASSERT_SAME_ARRAY(x->touched, x->n_touched, y->touched, y->n_touched);
    assert_int_equal(x->carry, y->carry);
}

static void same_load(message *a, message *b)
{
    const struct coxi_load *x = &a->load;
    const struct coxi_load *y = &b->load;
    ASSERT_SAME_BYTES(x->session, y->session);
    assert_int_equal(x->incarnation, y->incarnation);
    assert_int_equal(x->closure, y->closure);
    assert_int_equal(x->variable, y->variable);
    assert_int_equal(x->begin, y->begin);
    assert_int_equal(x->count, y->count);
    assert_int_equal(x->state, y->state);
    assert_int_equal(x->life, y->life);
    assert_int_equal(x->step, y->step);
    assert_int_equal(x->last, y->last);
}

static void same_count(message *a, message *b)
{
    ASSERT_SAME_BYTES(a->count, b->count);
}

static void same_counts(message *a, message *b)
{
    ASSERT_SAME_BYTES(a->counts, b->counts);
}

static void same_pull(message *a, message *b)
{
    ASSERT_SAME_BYTES(a->pull.session, b->pull.session);
    assert_int_equal(a->pull.incarnation, b->pull.incarnation);
    ASSERT_SAME_ARRAY(a->pull.items, a->pull.n_items, b->pull.items, b->pull.n_items);
    assert_int_equal(a->pull.narrow, b->pull.narrow);
    assert_int_equal(a->pull.after, b->pull.after);
    assert_int_equal(a->pull.flow, b->pull.flow);
}

static void same_commit(message *a, message *b)
{
    const struct coxi_commit *x = &a->commit;
    const struct coxi_commit *y = &b->commit;
    ASSERT_SAME_BYTES(x->session, y->session);
    assert_int_equal(x->incarnation, y->incarnation);
    assert_int_equal(x->closure, y->closure);
    assert_int_equal(x->attempt, y->attempt);
    assert_int_equal(x->segment, y->segment);
    assert_int_equal(x->last, y->last);
    assert_int_equal(x->step, y->step);
    assert_true(x->loss_scale == y->loss_scale);
    assert_int_equal(x->round, y->round);
    assert_int_equal(x->n_waiting, y->n_waiting);
    assert_int_equal(x->flow, y->flow);
    assert_int_equal(x->share.n, y->share.n);
    assert_int_equal(x->share.mean, y->share.mean);
    assert_true(x->share.weight == y->share.weight);
    assert_int_equal(x->share.after, y->share.after);
    ASSERT_SAME_ARRAY(x->touched, x->n_touched, y->touched, y->n_touched);
    ASSERT_SAME_ARRAY(x->updates, x->n_updates, y->updates, y->n_updates);
    ASSERT_SAME_ARRAY(x->pulled, x->n_pulled, y->pulled, y->n_pulled);
}

static void same_layout(message *a, message *b)
{
    const struct coxi_layout *x = &a->layout;
    const struct coxi_layout *y = &b->layout;
    ASSERT_SAME_BYTES(x->session, y->session);
    assert_int_equal(x->n_servers, y->n_servers);
    assert_int_equal(x->n_variables, y->n_variables);
    assert_int_equal(x->worker.number, y->worker.number);
    for (size_t i = 0; i < x->n_servers; i++) {
        struct coxi_ps_address ps;
        coxi_layout_ps(y, i, &ps);
        assert_string_equal(x->servers[i].address, ps.address);
        assert_int_equal(x->servers[i].incarnation, ps.incarnation);
        assert_int_equal(x->servers[i].lost, ps.lost);
    }
    for (size_t i = 0; i < x->n_variables; i++) {
        struct coxi_variable v;
        assert_true(coxi_layout_variable(y, i, &v));
        same_variable(&x->variables[i], &v);
    }
}

static void same_module(message *a, message *b)
{
    assert_int_equal(a->module.id, b->module.id);
    assert_string_equal(a->module.name, b->module.name);
    assert_memory_equal(&a->module.digest, &b->module.digest, sizeof(a->module.digest));
    assert_memory_equal(&a->module.signature, &b->module.signature,
                        sizeof(a->module.signature));
}

static void same_dispatch(message *a, message *b)
{
    assert_int_equal(a->dispatch.grace_ms, b->dispatch.grace_ms);
    assert_int_equal(a->dispatch.sent_us, b->dispatch.sent_us);
    assert_int_equal(a->dispatch.first, b->dispatch.first);
    ASSERT_SAME_ARRAY(a->dispatch.rounds, a->dispatch.n_closures, b->dispatch.rounds,
                      b->dispatch.n_closures);
    ASSERT_SAME_ARRAY(a->dispatch.closures, a->dispatch.n_closures,
                      b->dispatch.closures, b->dispatch.n_closures);
    ASSERT_SAME_ARRAY(a->dispatch.keep, a->dispatch.n_keep, b->dispatch.keep,
                      b->dispatch.n_keep);
    ASSERT_SAME_ARRAY(a->dispatch.alone, a->dispatch.n_alone, b->dispatch.alone,
                      b->dispatch.n_alone);
    assert_int_equal(a->dispatch.n_inputs, b->dispatch.n_inputs);
    for (size_t i = 0; i < a->dispatch.n_inputs; i++) {
        const struct coxi_kept_input *x = &a->dispatch.inputs[i];
        struct coxi_kept_input y;
        assert_true(coxi_dispatch_input(&b->dispatch, i, &y));
        assert_int_equal(x->at, y.at);
        assert_int_equal(x->position, y.position);
        assert_int_equal(x->closure, y.closure);
        assert_string_equal(x->name, y.name);
        assert_string_equal(x->result, y.result);
    }
}

static void same_recall(message *a, message *b)
{
    assert_int_equal(a->recall.all, b->recall.all);
    assert_int_equal(a->recall.running, b->recall.running);
    assert_int_equal(a->recall.grace_ms, b->recall.grace_ms);
    ASSERT_SAME_ARRAY(a->recall.closures, a->recall.n_closures, b->recall.closures,
                      b->recall.n_closures);
}

static void same_done(message *a, message *b)
{
    ASSERT_SAME_ARRAY(a->done.closures, a->done.n_closures, b->done.closures,
                      b->done.n_closures);
    ASSERT_SAME_ARRAY(a->done.kept, a->done.n_kept, b->done.kept, b->done.n_kept);
    ASSERT_SAME_ARRAY(a->done.ended, a->done.n_ended, b->done.ended, b->done.n_ended);
    ASSERT_SAME_ARRAY(a->done.weights, a->done.n_closures, b->done.weights,
                      b->done.n_closures);
    ASSERT_SAME_ARRAY(a->done.scalars, a->done.n_closures, b->done.scalars,
                      b->done.n_closures);
    assert_int_equal(a->done.echo_us, b->done.echo_us);
    assert_int_equal(a->done.held_us, b->done.held_us);
    assert_int_equal(a->done.commit_us, b->done.commit_us);
    ASSERT_SAME_ARRAY(a->done.times, a->done.n_closures, b->done.times,
                      b->done.n_closures);
    assert_int_equal(a->done.sent_us, b->done.sent_us);
}

static void same_result(message *a, message *b)
{
    assert_int_equal(a->result.closure, b->result.closure);
    assert_int_equal(a->result.attempt, b->result.attempt);
    assert_int_equal(a->result.code, b->result.code);
    assert_string_equal(a->result.message, b->result.message);
}

static void same_file_read(message *a, message *b)
{
    assert_string_equal(a->file_read.dataset, b->file_read.dataset);
    assert_string_equal(a->file_read.file, b->file_read.file);
    assert_int_equal(a->file_read.place, b->file_read.place);
    assert_int_equal(a->file_read.offset, b->file_read.offset);
    assert_int_equal(a->file_read.len, b->file_read.len);
}

static void same_file_bytes(message *a, message *b)
{
    assert_int_equal(a->file_bytes.code, b->file_bytes.code);
    assert_string_equal(a->file_bytes.message, b->file_bytes.message);
    assert_int_equal(a->file_bytes.bytes, b->file_bytes.bytes);
    assert_int_equal(a->file_bytes.changed_ns, b->file_bytes.changed_ns);
}

static void same_trace_ask(message *a, message *b)
{
    assert_int_equal(a->trace_ask.goes_on, b->trace_ask.goes_on);
}

static void same_trace_told(message *a, message *b)
{
    const struct coxi_trace_told *x = &a->trace_told;
    const struct coxi_trace_told *y = &b->trace_told;
    assert_int_equal(x->code, y->code);
    assert_int_equal(x->now_us, y->now_us);
    assert_int_equal(x->dropped, y->dropped);
    ASSERT_SAME_ARRAY(x->spans, x->n_spans, y->spans, y->n_spans);
    ASSERT_SAME_ARRAY(x->threads, x->n_threads, y->threads, y->n_threads);
}

static void same_void(message *a, message *b)
{
    ASSERT_SAME_BYTES(a->void_.session, b->void_.session);
    assert_int_equal(a->void_.closure, b->void_.closure);
    assert_int_equal(a->void_.attempt, b->void_.attempt);
    assert_int_equal(a->void_.incarnation, b->void_.incarnation);
}

static void same_voided(message *a, message *b)
{
    assert_int_equal(a->voided.code, b->voided.code);
    assert_string_equal(a->voided.message, b->voided.message);
    ASSERT_SAME_ARRAY(a->voided.segments, a->voided.n_segments, b->voided.segments,
                      b->voided.n_segments);
    ASSERT_SAME_ARRAY(a->voided.touched, a->voided.n_touched, b->voided.touched,
                      b->voided.n_touched);
}

static void same_crashed(message *a, message *b)
{
    ASSERT_SAME_ARRAY(a->crashed.closures, a->crashed.n_closures, b->crashed.closures,
                      b->crashed.n_closures);
}

static void same_resource(message *a, message *b)
{
    const struct coxi_resource *x = &a->resource;
    const struct coxi_resource *y = &b->resource;
    assert_int_equal(x->id, y->id);
    assert_string_equal(x->name, y->name);
    assert_int_equal(x->module, y->module);
    assert_int_equal(x->function, y->function);
    assert_int_equal(x->code, y->code);
    assert_string_equal(x->message, y->message);
    assert_int_equal(x->timeout_ms, y->timeout_ms);
    assert_int_equal(x->grace_ms, y->grace_ms);
    assert_int_equal(x->position, y->position);
    assert_int_equal(x->until, y->until);
}

static void same_memory(message *a, message *b)
{
    assert_int_equal(a->memory.resident, b->memory.resident);
}

static void same_exchange(message *a, message *b)
{
    const struct coxi_exchange *x = &a->exchange;
    const struct coxi_exchange *y = &b->exchange;
    ASSERT_SAME_BYTES(x->session, y->session);
    assert_int_equal(x->incarnation, y->incarnation);
    assert_int_equal(x->carry, y->carry);
    assert_int_equal(x->restores, y->restores);
    assert_int_equal(x->lane, y->lane);
    assert_int_equal(x->turn, y->turn);
    assert_int_equal(x->code, y->code);
    assert_string_equal(x->message, y->message);
}

static void same_exchanged(message *a, message *b)
{
    assert_int_equal(a->exchanged.code, b->exchanged.code);
    assert_string_equal(a->exchanged.message, b->exchanged.message);
    assert_int_equal(a->exchanged.offset, b->exchanged.offset);
    assert_int_equal(a->exchanged.len, b->exchanged.len);
    assert_int_equal(a->exchanged.over, b->exchanged.over);
}

static void same_nothing(message *a, message *b)
{
    (void)a;
    (void)b;
}

void assert_same_message(const struct coxi_message *a, const struct coxi_message *b)
{
    static void (*const same[])(message *a, message *b) = {
        [COXI_HELLO] = same_hello,
        [COXI_REFUSE] = same_refuse,
        [COXI_STATUS] = same_status,
        [COXI_CLAIM] = same_claim,
        [COXI_RELEASE] = same_release,
        [COXI_CREATE] = same_create,
        [COXI_WATERMARK] = same_watermark,
        [COXI_SNAPSHOT] = same_snapshot,
        [COXI_SNAPSHOT_DONE] = same_snapshot_done,
        [COXI_COUNT] = same_count,
        [COXI_COUNTS] = same_counts,
        [COXI_PULL] = same_pull,
        [COXI_PULLED] = same_status,
        [COXI_COMMIT] = same_commit,
        [COXI_COMMITTED] = same_status,
        [COXI_LAYOUT] = same_layout,
        [COXI_MODULE] = same_module,
        [COXI_MODULE_LOADED] = same_status,
        [COXI_DISPATCH] = same_dispatch,
        [COXI_RECALL] = same_recall,
        [COXI_DONE] = same_done,
        [COXI_VOID] = same_void,
        [COXI_VOIDED] = same_voided,
        [COXI_CRASHED] = same_crashed,
        [COXI_LEAVING] = same_nothing,
        [COXI_WANT_DATA] = same_nothing,
        [COXI_RESOURCE] = same_resource,
        [COXI_RESOURCE_MADE] = same_status,
        [COXI_REACH] = same_status,
        [COXI_RESOURCE_DROP] = same_resource,
        [COXI_RESTORE] = same_restore,
        [COXI_RESULT_DROP] = same_recall,
        [COXI_RESULT_WANT] = same_result,
        [COXI_RESULT] = same_result,
        [COXI_LOAD] = same_load,
        [COXI_DESCRIBE] = same_nothing,
        [COXI_PROBE] = same_probe,
        [COXI_FILE_READ] = same_file_read,
        [COXI_FILE_BYTES] = same_file_bytes,
        [COXI_TRACE_ASK] = same_trace_ask,
        [COXI_TRACE_TOLD] = same_trace_told,
        [COXI_MEMORY] = same_memory,
        [COXI_EXCHANGE] = same_exchange,
        [COXI_EXCHANGED] = same_exchanged,
    };
    assert_int_equal(a->request, b->request);
    assert_int_equal(a->kind, b->kind);
    same[a->kind](a, b);
}
