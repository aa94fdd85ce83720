/* The parts of wire.cc for messages between the client and workers: the layout,
 * closures and their ends, resources, parts of files, traces. Only for wire.cc. */
#ifndef COXI_SCHEMA_WIRE_CLOSURES_H
#define COXI_SCHEMA_WIRE_CLOSURES_H

#include <algorithm>

#include "schema/wire_parts.h"

namespace
{

Body encode_layout(Builder &b, const struct coxi_layout &m)
{
    auto servers = b.CreateVector<fb::Offset<wire::Server>>(m.n_servers, [&](size_t i) {
        auto address = b.CreateString(or_empty(m.servers[i].address));
        return wire::CreateServer(b, address, m.servers[i].incarnation,
                                  m.servers[i].lost);
    });
    auto variables = b.CreateVector<fb::Offset<wire::Variable>>(
        m.n_variables, [&](size_t i) { return encode_variable(b, m.variables[i]); });
    return wire::CreateLayout(b, to_wire(m.session), servers, variables,
                              m.worker.number)
        .Union();
}

void decode_layout(const wire::Layout *m, struct coxi_layout *ret)
{
    *ret = {};
    ret->session = from_wire(m->session());
    ret->n_servers = m->servers() != nullptr ? m->servers()->size() : 0;
    ret->n_variables = m->variables() != nullptr ? m->variables()->size() : 0;
    ret->worker.number = m->worker();
    ret->decoded = m;
}

Body encode_module(Builder &b, const struct coxi_module &m)
{
    auto name = b.CreateString(or_empty(m.name));
    const uint64_t *w = m.digest.words;
    const wire::Digest digest(w[0], w[1], w[2], w[3]);
    const uint8_t *signature = m.signature.bytes;
    fb::Offset<fb::Vector<uint8_t>> set = {};
    if (std::any_of(signature, signature + sizeof(m.signature.bytes),
                    [](uint8_t byte) { return byte != 0; })) {
        set = b.CreateVector(signature, sizeof(m.signature.bytes));
    }
    return wire::CreateModule(b, m.id, name, &digest, set).Union();
}

bool decode_module(const wire::Module *m, struct coxi_module *ret)
{
    const wire::Digest *d = m->digest();
    const fb::Vector<uint8_t> *signature = m->signature();
    *ret = {};
    if (d == nullptr ||
        (signature != nullptr && signature->size() != sizeof(ret->signature.bytes))) {
        return false;
    }
    ret->id = m->id();
    ret->name = text(m->name());
    ret->digest = {{d->a(), d->b(), d->c(), d->d()}};
    if (signature != nullptr) {
        std::memcpy(ret->signature.bytes, signature->data(), signature->size());
    }
    return true;
}

Body encode_module_loaded(Builder &b, const struct coxi_status &m)
{
    auto message = b.CreateString(or_empty(m.message));
    return wire::CreateModuleLoaded(b, m.id, m.code, message).Union();
}

Body encode_committed(Builder &b, const struct coxi_status &m)
{
    auto message = text_or_none(b, m.code != 0 ? m.message : "");
    return wire::CreateCommitted(b, m.code, message, m.duplicate, m.ended).Union();
}

struct coxi_status decode_committed(const wire::Committed *m)
{
    struct coxi_status ret = answer(m->code(), m->message(), 0, m->duplicate());
    ret.ended = m->ended();
    return ret;
}

using KeptInputs = fb::Vector<fb::Offset<wire::KeptInput>>;

fb::Offset<KeptInputs> encode_inputs(Builder &b, const struct coxi_dispatch &m)
{
    if (m.n_inputs == 0) {
        return {};
    }
    return b.CreateVector<fb::Offset<wire::KeptInput>>(m.n_inputs, [&](size_t i) {
        const struct coxi_kept_input &input = m.inputs[i];
        auto name = text_or_none(b, input.name);
        auto result = text_or_none(b, input.result);
        return wire::CreateKeptInput(b, input.at, input.position, input.closure, name,
                                     result);
    });
}

Body encode_dispatch(Builder &b, const struct coxi_dispatch &m)
{
    auto closures = structs<wire::ClosureHead>(b, m.closures, m.n_closures);
    auto keep = encode_numbers(b, m.keep, m.n_keep);
    auto inputs = encode_inputs(b, m);
    auto alone = encode_numbers(b, m.alone, m.n_alone);
    auto rounds =
        structs<wire::RoundHead>(b, m.rounds, m.rounds != nullptr ? m.n_closures : 0);
    return wire::CreateDispatch(b, closures, m.grace_ms, keep, inputs, m.sent_us, alone,
                                m.first, rounds)
        .Union();
}

bool decode_dispatch(const wire::Dispatch *m, struct coxi_dispatch *ret)
{
    size_t n_rounds = 0;
    *ret = {};
    ret->grace_ms = m->grace_ms();
    ret->n_inputs = m->inputs() != nullptr ? m->inputs()->size() : 0;
    ret->decoded = m;
    ret->sent_us = m->sent_us();
    ret->first = m->first();
    bool taken = take_array(m->rounds(), &ret->rounds, &n_rounds);
    if (n_rounds == 0) {
        ret->rounds = nullptr;
    }
    return taken && take_array(m->closures(), &ret->closures, &ret->n_closures) &&
           decode_numbers(m->keep(), ret->n_closures, &ret->keep, &ret->n_keep) &&
           decode_numbers(m->alone(), ret->n_closures, &ret->alone, &ret->n_alone) &&
           (n_rounds == 0 || n_rounds == ret->n_closures);
}

Body encode_done(Builder &b, const struct coxi_done &m)
{
    auto closures = structs<wire::DoneHead>(b, m.closures, m.n_closures);
    auto kept = encode_numbers(b, m.kept, m.n_kept);
    auto ended = encode_numbers(b, m.ended, m.n_ended);
    auto weights = one_for_each(b, m.weights, m.n_closures);
    fb::Offset<fb::Vector<const wire::StepTimes *>> times = {};
    if (m.times != nullptr) {
        times = structs<wire::StepTimes>(b, m.times, m.n_closures);
    }
    auto scalars = one_for_each(b, m.scalars, m.n_closures);
    return wire::CreateDone(b, closures, kept, m.echo_us, m.held_us, m.commit_us,
                            weights, ended, times, m.sent_us, scalars)
        .Union();
}

bool decode_done(const wire::Done *m, struct coxi_done *ret)
{
    ret->echo_us = m->echo_us();
    ret->held_us = m->held_us();
    ret->commit_us = m->commit_us();
    ret->sent_us = m->sent_us();
    return take_array(m->closures(), &ret->closures, &ret->n_closures) &&
           decode_numbers(m->kept(), ret->n_closures, &ret->kept, &ret->n_kept) &&
           decode_numbers(m->ended(), ret->n_closures, &ret->ended, &ret->n_ended) &&
           take_one_for_each(m->weights(), ret->n_closures, &ret->weights) &&
           take_one_for_each(m->times(), ret->n_closures, &ret->times) &&
           take_one_for_each(m->scalars(), ret->n_closures, &ret->scalars);
}

Body encode_recall(Builder &b, const struct coxi_recall &m)
{
    auto closures = structs<wire::RecallHead>(b, m.closures, m.n_closures);
    return wire::CreateRecall(b, closures, m.all, m.running, m.grace_ms).Union();
}

Body encode_resource(Builder &b, const struct coxi_resource &m)
{
    auto name = b.CreateString(or_empty(m.name));
    auto message = text_or_none(b, m.message);
    return wire::CreateResource(b, m.id, name, m.module, m.function, m.code, message,
                                m.timeout_ms, m.grace_ms, m.position)
        .Union();
}

bool decode_resource(const wire::Resource *m, struct coxi_resource *ret)
{
    *ret = {m->id(),         text(m->name()),
            m->module_(),    m->function(),
            m->code(),       text(m->message()),
            m->timeout_ms(), m->grace_ms(),
            m->position(),   0};
    return std::strlen(ret->name) <= COXI_WIRE_NAME_MAX;
}

Body encode_resource_made(Builder &b, const struct coxi_status &m)
{
    auto message = text_or_none(b, m.message);
    return wire::CreateResourceMade(b, m.id, m.code, message).Union();
}

Body encode_reach(Builder &b, const struct coxi_status &m)
{
    auto message = text_or_none(b, m.message);
    return wire::CreateReach(b, m.id, m.code, message).Union();
}

Body encode_file_read(Builder &b, const struct coxi_file_read &m)
{
    auto dataset = b.CreateString(or_empty(m.dataset));
    auto file = b.CreateString(or_empty(m.file));
    return wire::CreateFileRead(b, dataset, file, m.place, m.offset, m.len).Union();
}

bool decode_file_read(const wire::FileRead *m, struct coxi_file_read *ret)
{
    *ret = {text(m->dataset()), text(m->file()), m->place(), m->offset(), m->len()};
    return std::strlen(ret->dataset) <= COXI_WIRE_NAME_MAX;
}

Body encode_file_bytes(Builder &b, const struct coxi_file_bytes &m)
{
    auto message = text_or_none(b, m.message);
    return wire::CreateFileBytes(b, m.code, message, m.bytes, m.changed_ns).Union();
}

struct coxi_file_bytes decode_file_bytes(const wire::FileBytes *m)
{
    return {m->code(), text(m->message()), m->bytes(), m->changed_ns()};
}

bool decode_trace_ask(const wire::TraceAsk *m, struct coxi_trace_ask *ret)
{
    ret->goes_on = m->goes_on();
    return true;
}

Body encode_trace_told(Builder &b, const struct coxi_trace_told &m)
{
    auto spans = structs<wire::TraceSpan>(b, m.spans, m.n_spans);
    auto threads = structs<wire::TraceThread>(b, m.threads, m.n_threads);
    return wire::CreateTraceTold(b, m.code, m.now_us, m.dropped, spans, threads)
        .Union();
}

bool decode_trace_told(const wire::TraceTold *m, struct coxi_trace_told *ret)
{
    *ret = {};
    ret->code = m->code();
    ret->now_us = m->now_us();
    ret->dropped = m->dropped();
    return take_array(m->spans(), &ret->spans, &ret->n_spans) &&
           take_array(m->threads(), &ret->threads, &ret->n_threads);
}

} // namespace

#endif
