/*
 * Codec between schema/wire.h and the FlatBuffers of schema/wire.fbs: the only C++
 * file. Each message has one encode_* and one decode_* function, here, in
 * wire_closures.h, in wire_counts.h and in wire_shards.h, in the order of the schema;
 * the two switches at the end choose among them.
 */
#include "schema/wire.h"

#include "schema/limits.h"
#include "schema/wire_closures.h"
#include "schema/wire_counts.h"
#include "schema/wire_parts.h"
#include "schema/wire_shards.h"

namespace
{

/* ---- encoding and decoding of each message that is more than a session */

Body encode_hello(Builder &b, const struct coxi_hello &m)
{
    auto name = text_or_none(b, m.name);
    auto local = text_or_none(b, m.local);
    return wire::CreateHello(b, m.version, static_cast<wire::Role>(m.role),
                             static_cast<wire::Channel>(m.channel), m.index,
                             m.incarnation, to_wire(m.session), m.slots, name, local)
        .Union();
}

bool decode_hello(const wire::Hello *m, struct coxi_hello *ret)
{
    /* In another version of the protocol, only the version field is sure to mean the
     * same. */
    if (m->version() != COXI_WIRE_VERSION) {
        ret->version = m->version();
        ret->name = "";
        ret->local = "";
        return true;
    }
    if (m->role() == wire::Role_Unknown || m->role() > wire::Role_MAX ||
        m->channel() > wire::Channel_MAX || is_too_long(m->name()) ||
        is_too_long(m->local())) {
        return false;
    }
    *ret = {m->version(),
            static_cast<enum coxi_role>(m->role()),
            static_cast<enum coxi_channel>(m->channel()),
            m->index(),
            m->incarnation(),
            from_wire(m->session()),
            m->slots(),
            text(m->name()),
            text(m->local())};
    return true;
}

Body encode_refuse(Builder &b, const struct coxi_refuse &m)
{
    auto message = b.CreateString(or_empty(m.message));
    return wire::CreateRefuse(b, m.version, m.code, message).Union();
}

Body encode_create(Builder &b, const struct coxi_create &m)
{
    auto variable = encode_variable(b, m.variable);
    return wire::CreateCreate(b, to_wire(m.session), m.closure, variable, m.incarnation)
        .Union();
}

bool decode_create(const wire::Create *m, struct coxi_create *ret)
{
    ret->session = from_wire(m->session());
    ret->closure = m->closure();
    ret->incarnation = m->incarnation();
    return decode_variable(m->variable(), &ret->variable);
}

Body encode_load(Builder &b, const struct coxi_load &m)
{
    return wire::CreateLoad(b, to_wire(m.session), m.incarnation, m.closure, m.variable,
                            m.begin, m.count, m.state, m.life, m.step, m.last)
        .Union();
}

Body encode_voided(Builder &b, const struct coxi_voided &m)
{
    auto message = b.CreateString(or_empty(m.message));
    auto segments = structs<wire::VoidedSegment>(b, m.segments, m.n_segments);
    auto touched = b.CreateVector(m.touched, m.n_touched);
    return wire::CreateVoided(b, m.code, message, segments, touched).Union();
}

bool decode_voided(const wire::Voided *m, struct coxi_voided *ret)
{
    ret->code = m->code();
    ret->message = text(m->message());
    if (!take_array(m->segments(), &ret->segments, &ret->n_segments) ||
        !take_array(m->touched(), &ret->touched, &ret->n_touched)) {
        return false;
    }
    uint64_t touched = 0;
    for (size_t i = 0; i < ret->n_segments; i++) {
        touched += ret->segments[i].touched_n;
    }
    return touched == ret->n_touched;
}

Body encode_pull(Builder &b, const struct coxi_pull &m)
{
    auto items = structs<wire::PullItem>(b, m.items, m.n_items);
    return wire::CreatePull(b, to_wire(m.session), m.incarnation, items, m.narrow,
                            m.after, m.flow)
        .Union();
}

bool decode_pull(const wire::Pull *m, struct coxi_pull *ret)
{
    ret->session = from_wire(m->session());
    ret->incarnation = m->incarnation();
    ret->narrow = m->narrow();
    ret->after = m->after();
    ret->flow = m->flow();
    return take_array(m->items(), &ret->items, &ret->n_items);
}

Body encode_pulled(Builder &b, const struct coxi_status &m)
{
    auto message = text_or_none(b, m.code != 0 ? m.message : "");
    fb::Offset<fb::Vector<uint64_t>> versions;
    if (m.n_versions > 0) {
        versions = b.CreateVector(m.versions, m.n_versions);
    }
    return wire::CreatePulled(b, m.code, message, versions).Union();
}

bool decode_pulled(const wire::Pulled *m, struct coxi_status *ret)
{
    *ret = answer(m->code(), m->message(), 0, false);
    return take_array(m->versions(), &ret->versions, &ret->n_versions);
}

Body encode_commit(Builder &b, const struct coxi_commit &m)
{
    auto touched = b.CreateVector(m.touched, m.n_touched);
    auto updates = structs<wire::Update>(b, m.updates, m.n_updates);
    fb::Offset<fb::Vector<uint64_t>> pulled;
    if (m.n_pulled > 0) {
        pulled = b.CreateVector(m.pulled, m.n_pulled);
    }
    return wire::CreateCommit(b, to_wire(m.session), m.incarnation, m.closure,
                              m.attempt, m.segment, m.last, touched, updates, m.step,
                              m.loss_scale, m.round, pulled, m.n_waiting, m.share.n,
                              m.share.mean, m.share.weight, m.share.after, m.flow)
        .Union();
}

bool decode_commit(const wire::Commit *m, struct coxi_commit *ret)
{
    ret->session = from_wire(m->session());
    ret->incarnation = m->incarnation();
    ret->closure = m->closure();
    ret->attempt = m->attempt();
    ret->segment = m->segment();
    ret->last = m->last();
    ret->step = m->step();
    ret->loss_scale = m->loss_scale();
    ret->round = m->round();
    ret->n_waiting = m->n_waiting();
    ret->share = {m->n(), m->mean(), m->weight(), m->after()};
    ret->flow = m->flow();
    if (!take_array(m->touched(), &ret->touched, &ret->n_touched) ||
        !take_array(m->updates(), &ret->updates, &ret->n_updates) ||
        !take_array(m->pulled(), &ret->pulled, &ret->n_pulled) ||
        ret->n_pulled > ret->n_updates) {
        return false;
    }
    for (size_t i = 0; i < ret->n_updates; i++) {
        if (ret->updates[i].op > wire::Op_MAX) {
            return false;
        }
    }
    return true;
}

/* ---- all messages */

Body encode_body(Builder &b, const struct coxi_message &m)
{
    switch (m.kind) {
    case COXI_HELLO:
        return encode_hello(b, m.hello);
    case COXI_REFUSE:
        return encode_refuse(b, m.refuse);
    case COXI_STATUS: {
        auto message = b.CreateString(or_empty(m.status.message));
        return wire::CreateStatus(b, m.status.code, message, m.status.incarnation)
            .Union();
    }
    case COXI_CLAIM:
        return wire::CreateClaim(b, to_wire(m.claim.session), m.claim.leaves).Union();
    case COXI_RELEASE:
        return wire::CreateRelease(b, to_wire(m.release)).Union();
    case COXI_CREATE:
        return encode_create(b, m.create);
    case COXI_WATERMARK:
        return wire::CreateWatermark(b, to_wire(m.watermark.session),
                                     m.watermark.watermark, m.watermark.incarnation)
            .Union();
    case COXI_SNAPSHOT:
        return encode_snapshot(b, m.snapshot);
    case COXI_SNAPSHOT_DONE:
        return encode_snapshot_done(b, m.snapshot_done);
    case COXI_COUNT:
        return encode_count(b, m.count);
    case COXI_COUNTS:
        return encode_counts(b, m.counts);
    case COXI_PULL:
        return encode_pull(b, m.pull);
    case COXI_PULLED:
        return encode_pulled(b, m.status);
    case COXI_COMMIT:
        return encode_commit(b, m.commit);
    case COXI_COMMITTED:
        return encode_committed(b, m.status);
    case COXI_LAYOUT:
        return encode_layout(b, m.layout);
    case COXI_MODULE:
        return encode_module(b, m.module);
    case COXI_MODULE_LOADED:
        return encode_module_loaded(b, m.status);
    case COXI_DISPATCH:
        return encode_dispatch(b, m.dispatch);
    case COXI_RECALL:
        return encode_recall(b, m.recall);
    case COXI_DONE:
        return encode_done(b, m.done);
    case COXI_VOID:
        return wire::CreateVoid(b, to_wire(m.void_.session), m.void_.closure,
                                m.void_.attempt, m.void_.incarnation)
            .Union();
    case COXI_VOIDED:
        return encode_voided(b, m.voided);
    case COXI_CRASHED:
        return wire::CreateCrashed(b, structs<wire::CrashedHead>(b, m.crashed.closures,
                                                                 m.crashed.n_closures))
            .Union();
    case COXI_LEAVING:
        return wire::CreateLeaving(b).Union();
    case COXI_WANT_DATA:
        return wire::CreateWantData(b).Union();
    case COXI_RESOURCE:
        return encode_resource(b, m.resource);
    case COXI_RESOURCE_MADE:
        return encode_resource_made(b, m.status);
    case COXI_REACH:
        return encode_reach(b, m.status);
    case COXI_RESOURCE_DROP:
        return wire::CreateResourceDrop(b, m.resource.id, m.resource.until).Union();
    case COXI_RESTORE:
        return encode_restore(b, m.restore);
    case COXI_RESULT_DROP:
        return wire::CreateResultDrop(b, structs<wire::RecallHead>(b, m.recall.closures,
                                                                   m.recall.n_closures))
            .Union();
    case COXI_RESULT_WANT:
        return wire::CreateResultWant(b, m.result.closure, m.result.attempt).Union();
    case COXI_RESULT: {
        auto message = text_or_none(b, m.result.message);
        return wire::CreateResult(b, m.result.closure, m.result.attempt, m.result.code,
                                  message)
            .Union();
    }
    case COXI_LOAD:
        return encode_load(b, m.load);
    case COXI_DESCRIBE:
        return wire::CreateDescribe(b).Union();
    case COXI_PROBE: {
        auto path = b.CreateString(or_empty(m.probe.path));
        return wire::CreateProbe(b, to_wire(m.probe.session), path, m.probe.writes)
            .Union();
    }
    case COXI_FILE_READ:
        return encode_file_read(b, m.file_read);
    case COXI_FILE_BYTES:
        return encode_file_bytes(b, m.file_bytes);
    case COXI_TRACE_ASK:
        return wire::CreateTraceAsk(b, m.trace_ask.goes_on).Union();
    case COXI_TRACE_TOLD:
        return encode_trace_told(b, m.trace_told);
    case COXI_MEMORY:
        return wire::CreateMemory(b, m.memory.resident).Union();
    case COXI_EXCHANGE:
        return encode_exchange(b, m.exchange);
    case COXI_EXCHANGED:
        return encode_exchanged(b, m.exchanged);
    }
    return Body();
}

/* Fills *ret from a verified message; false: a value is out of its range. */
bool decode_body(const wire::Message *in, struct coxi_message *ret)
{
    switch (in->body_type()) {
    case wire::Body_NONE:
        return false;
    case wire::Body_Hello:
        return decode_hello(in->body_as_Hello(), &ret->hello);
    case wire::Body_Refuse: {
        auto m = in->body_as_Refuse();
        ret->refuse = {m->version(), m->code(), text(m->message())};
        return true;
    }
    case wire::Body_Status: {
        auto m = in->body_as_Status();
        ret->status = answer(m->code(), m->message(), 0, false);
        ret->status.incarnation = m->incarnation();
        return true;
    }
    case wire::Body_Claim:
        ret->claim.session = from_wire(in->body_as_Claim()->session());
        ret->claim.leaves = in->body_as_Claim()->leaves();
        return true;
    case wire::Body_Release:
        ret->release = from_wire(in->body_as_Release()->session());
        return true;
    case wire::Body_Create:
        return decode_create(in->body_as_Create(), &ret->create);
    case wire::Body_Watermark: {
        auto m = in->body_as_Watermark();
        ret->watermark = {from_wire(m->session()), m->watermark(), m->incarnation()};
        return true;
    }
    case wire::Body_Snapshot:
        ret->snapshot = decode_snapshot(in->body_as_Snapshot());
        return true;
    case wire::Body_SnapshotDone:
        return decode_snapshot_done(in->body_as_SnapshotDone(), &ret->snapshot_done);
    case wire::Body_Count:
        return decode_count(in->body_as_Count(), &ret->count);
    case wire::Body_Counts:
        return decode_counts(in->body_as_Counts(), &ret->counts);
    case wire::Body_Pull:
        return decode_pull(in->body_as_Pull(), &ret->pull);
    case wire::Body_Pulled:
        return decode_pulled(in->body_as_Pulled(), &ret->status);
    case wire::Body_Commit:
        return decode_commit(in->body_as_Commit(), &ret->commit);
    case wire::Body_Committed:
        ret->status = decode_committed(in->body_as_Committed());
        return true;
    case wire::Body_Layout:
        decode_layout(in->body_as_Layout(), &ret->layout);
        return true;
    case wire::Body_Module:
        return decode_module(in->body_as_Module(), &ret->module);
    case wire::Body_ModuleLoaded: {
        auto m = in->body_as_ModuleLoaded();
        ret->status = answer(m->code(), m->message(), m->id(), false);
        return true;
    }
    case wire::Body_Dispatch:
        return decode_dispatch(in->body_as_Dispatch(), &ret->dispatch);
    case wire::Body_Recall: {
        auto m = in->body_as_Recall();
        ret->recall.all = m->all();
        ret->recall.running = m->running();
        ret->recall.grace_ms = m->grace_ms();
        return take_array(m->closures(), &ret->recall.closures,
                          &ret->recall.n_closures);
    }
    case wire::Body_Done:
        return decode_done(in->body_as_Done(), &ret->done);
    case wire::Body_Void: {
        auto m = in->body_as_Void();
        ret->void_ = {from_wire(m->session()), m->closure(), m->attempt(),
                      m->incarnation()};
        return true;
    }
    case wire::Body_Voided:
        return decode_voided(in->body_as_Voided(), &ret->voided);
    case wire::Body_Crashed:
        return take_array(in->body_as_Crashed()->closures(), &ret->crashed.closures,
                          &ret->crashed.n_closures);
    case wire::Body_Leaving:
    case wire::Body_WantData:
        return true;
    case wire::Body_Resource:
        return decode_resource(in->body_as_Resource(), &ret->resource);
    case wire::Body_ResourceMade: {
        auto m = in->body_as_ResourceMade();
        ret->status = answer(m->code(), m->message(), m->id(), false);
        return true;
    }
    case wire::Body_Reach: {
        auto m = in->body_as_Reach();
        ret->status = answer(m->code(), m->message(), m->ps(), false);
        return true;
    }
    case wire::Body_ResourceDrop:
        ret->resource = {};
        ret->resource.name = ret->resource.message = "";
        ret->resource.id = in->body_as_ResourceDrop()->id();
        ret->resource.until = in->body_as_ResourceDrop()->until();
        return true;
    case wire::Body_Restore:
        return decode_restore(in->body_as_Restore(), &ret->restore);
    case wire::Body_ResultDrop:
        return take_array(in->body_as_ResultDrop()->results(), &ret->recall.closures,
                          &ret->recall.n_closures);
    case wire::Body_ResultWant: {
        auto m = in->body_as_ResultWant();
        ret->result = {m->closure(), m->attempt(), 0, ""};
        return true;
    }
    case wire::Body_Result: {
        auto m = in->body_as_Result();
        ret->result = {m->closure(), m->attempt(), m->code(), text(m->message())};
        return true;
    }
    case wire::Body_Load:
        ret->load = decode_load(in->body_as_Load());
        return true;
    case wire::Body_Describe:
        return true;
    case wire::Body_Probe: {
        auto m = in->body_as_Probe();
        ret->probe = {from_wire(m->session()), text(m->path()), m->writes()};
        return true;
    }
    case wire::Body_FileRead:
        return decode_file_read(in->body_as_FileRead(), &ret->file_read);
    case wire::Body_TraceAsk:
        return decode_trace_ask(in->body_as_TraceAsk(), &ret->trace_ask);
    case wire::Body_TraceTold:
        return decode_trace_told(in->body_as_TraceTold(), &ret->trace_told);
    case wire::Body_FileBytes:
        ret->file_bytes = decode_file_bytes(in->body_as_FileBytes());
        return true;
    case wire::Body_Memory:
        ret->memory.resident = in->body_as_Memory()->resident();
        return true;
    case wire::Body_Exchange:
        ret->exchange = decode_exchange(in->body_as_Exchange());
        return true;
    case wire::Body_Exchanged:
        ret->exchanged = decode_exchanged(in->body_as_Exchanged());
        return true;
    }
    return false;
}

} // namespace

static thread_local Builder builder(1024);

extern "C" {

void coxi_message_forget(void)
{
    builder.Reset();
}

bool coxi_message_encode(const struct coxi_message *message, const void **ret_bytes,
                         size_t *ret_len)
{
    if (!coxi_message_fits(message)) {
        return false;
    }
    builder.Clear();
    auto body = encode_body(builder, *message);
    auto root = wire::CreateMessage(builder, message->request,
                                    static_cast<wire::Body>(message->kind), body);
    wire::FinishSizePrefixedMessageBuffer(builder, root);
    if (builder.GetSize() > COXI_WIRE_META_MAX) {
        return false;
    }
    *ret_bytes = builder.GetBufferPointer();
    *ret_len = builder.GetSize();
    return true;
}

bool coxi_message_decode(const void *bytes, size_t len, struct coxi_message *ret)
{
    if (bytes == nullptr || len < 16 || len > COXI_WIRE_META_MAX ||
        reinterpret_cast<uintptr_t>(bytes) % 8 != 0) {
        return false;
    }
    auto data = static_cast<const uint8_t *>(bytes);
    if (fb::ReadScalar<fb::uoffset_t>(data) != len - sizeof(fb::uoffset_t)) {
        return false;
    }
    fb::Verifier verifier(data, len, 8, 1 << 20);
    if (!wire::VerifySizePrefixedMessageBuffer(verifier)) {
        return false;
    }
    auto in = wire::GetSizePrefixedMessage(bytes);
    struct coxi_message out = {};
    out.request = in->request();
    out.kind = static_cast<enum coxi_message_kind>(in->body_type());
    if (in->body() == nullptr || !decode_body(in, &out) ||
        !coxi_message_codes_fit(&out)) {
        return false;
    }
    *ret = out;
    return true;
}

void coxi_layout_ps(const struct coxi_layout *layout, size_t i,
                    struct coxi_ps_address *ret)
{
    auto server = static_cast<const wire::Layout *>(layout->decoded)
                      ->servers()
                      ->Get(static_cast<fb::uoffset_t>(i));
    *ret = {text(server->address()), server->incarnation(), server->lost()};
}

bool coxi_layout_variable(const struct coxi_layout *layout, size_t i,
                          struct coxi_variable *ret)
{
    return decode_variable(static_cast<const wire::Layout *>(layout->decoded)
                               ->variables()
                               ->Get(static_cast<fb::uoffset_t>(i)),
                           ret);
}

bool coxi_dispatch_input(const struct coxi_dispatch *dispatch, size_t i,
                         struct coxi_kept_input *ret)
{
    auto input = static_cast<const wire::Dispatch *>(dispatch->decoded)
                     ->inputs()
                     ->Get(static_cast<fb::uoffset_t>(i));
    if (input->at() >= dispatch->n_closures || is_too_long(input->name()) ||
        is_too_long(input->result())) {
        return false;
    }
    *ret = {input->at(), input->position(), input->closure(), text(input->name()),
            text(input->result())};
    return true;
}

} // extern "C"
