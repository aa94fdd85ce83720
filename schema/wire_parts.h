/* The building blocks of messages in wire.cc: sessions, arrays, texts, variables, lists
 * of closures. Only for wire.cc. */
#ifndef COXI_SCHEMA_WIRE_PARTS_H
#define COXI_SCHEMA_WIRE_PARTS_H

#include <flatbuffers/flatbuffers.h>

#include <cstring>

#include "schema/wire.h"
#include "wire_generated.h"

namespace fb = flatbuffers;
namespace wire = coxi::wire;
using Builder = fb::FlatBufferBuilder;
using Body = fb::Offset<void>;

static_assert(FLATBUFFERS_LITTLEENDIAN, "arrays of structs travel in host order");

/* The C structs have the same layout as those of the schema: arrays are cast, never
 * copied. */
#define SAME_LAYOUT(c_type, wire_type)                                                 \
    static_assert(sizeof(struct c_type) == sizeof(wire::wire_type) &&                  \
                      alignof(struct c_type) == alignof(wire::wire_type),              \
                  #c_type)
SAME_LAYOUT(coxi_session, Session);
SAME_LAYOUT(coxi_shard, Shard);
SAME_LAYOUT(coxi_interval, Interval);
SAME_LAYOUT(coxi_counters, Counters);
SAME_LAYOUT(coxi_table_counters, TableCounters);
SAME_LAYOUT(coxi_pull_item, PullItem);
SAME_LAYOUT(coxi_update, Update);
SAME_LAYOUT(coxi_round_part, RoundPart);
SAME_LAYOUT(coxi_round_head, RoundHead);
SAME_LAYOUT(coxi_closure_head, ClosureHead);
SAME_LAYOUT(coxi_done_head, DoneHead);
SAME_LAYOUT(coxi_step_times, StepTimes);
SAME_LAYOUT(coxi_trace_span, TraceSpan);
SAME_LAYOUT(coxi_trace_thread, TraceThread);
SAME_LAYOUT(coxi_recall_head, RecallHead);
SAME_LAYOUT(coxi_crashed_head, CrashedHead);

namespace
{

const wire::Session *to_wire(const struct coxi_session &session)
{
    return reinterpret_cast<const wire::Session *>(&session);
}

struct coxi_session from_wire(const wire::Session *session)
{
    struct coxi_session ret = {};
    if (session != nullptr) {
        std::memcpy(&ret, session, sizeof(ret));
    }
    return ret;
}

template <typename Wire, typename C>
fb::Offset<fb::Vector<const Wire *>> structs(Builder &b, const C *array, size_t n)
{
    static_assert(sizeof(Wire) == sizeof(C), "one layout");
    return b.CreateVectorOfStructs(reinterpret_cast<const Wire *>(array), n);
}

/* The verifier checks the alignment of a vector's length (4 bytes), but not of its
 * elements. */
template <typename C, typename Vector> bool is_aligned(const Vector *vector)
{
    return reinterpret_cast<uintptr_t>(vector->Data()) % alignof(C) == 0;
}

/* An absent vector counts as empty. False: its elements are not aligned. */
template <typename C, typename Vector>
bool take_array(const Vector *vector, const C **ret, size_t *ret_n)
{
    *ret = vector != nullptr ? reinterpret_cast<const C *>(vector->Data()) : nullptr;
    *ret_n = vector != nullptr ? vector->size() : 0;
    return *ret_n == 0 || is_aligned<C>(vector);
}

const char *text(const fb::String *string)
{
    return string != nullptr ? string->c_str() : "";
}

bool is_too_long(const fb::String *name)
{
    return name != nullptr && name->size() > COXI_WIRE_NAME_MAX;
}

const char *or_empty(const char *string)
{
    return string != nullptr ? string : "";
}

/* An empty text takes no room. */
fb::Offset<fb::String> text_or_none(Builder &b, const char *string)
{
    return string != nullptr && *string != '\0' ? b.CreateString(string)
                                                : fb::Offset<fb::String>();
}

struct coxi_status answer(int32_t code, const fb::String *message, uint32_t id,
                          bool duplicate)
{
    return {code, text(message), id, duplicate, false, nullptr, 0, 0};
}

/* ---- variables */

fb::Offset<wire::Optimizer> encode_optimizer(Builder &b, const struct coxi_optimizer &o)
{
    auto schedule = wire::CreateSchedule(b, o.schedule.kind, o.schedule.end_rate,
                                         o.schedule.power, o.schedule.gamma,
                                         o.schedule.steps, o.schedule.warmup_steps);
    wire::OptimizerBuilder builder(b);
    builder.add_kind(o.kind);
#define ADD_NUMBER(name) builder.add_##name(o.name);
    COXI_OPTIMIZER_NUMBERS(ADD_NUMBER)
#undef ADD_NUMBER
    builder.add_schedule(schedule);
    return builder.Finish();
}

void decode_optimizer(const wire::Optimizer *o, struct coxi_optimizer *ret)
{
    if (o == nullptr) {
        return;
    }
    ret->kind = o->kind();
#define TAKE_NUMBER(name) ret->name = o->name();
    COXI_OPTIMIZER_NUMBERS(TAKE_NUMBER)
#undef TAKE_NUMBER
    const wire::Schedule *schedule = o->schedule();
    if (schedule != nullptr) {
        ret->schedule = {schedule->kind(),  schedule->end_rate(),
                         schedule->power(), schedule->gamma(),
                         schedule->steps(), schedule->warmup_steps()};
    }
}

fb::Offset<wire::Variable> encode_variable(Builder &b, const struct coxi_variable &v)
{
    auto name = b.CreateString(or_empty(v.name));
    auto shape = b.CreateVector(v.shape, v.rank);
    auto shards = structs<wire::Shard>(b, v.shards, v.n_shards);
    auto optimizer = encode_optimizer(b, v.optimizer);
    auto initializer = wire::CreateInitializer(b, v.initializer.kind, v.initializer.a,
                                               v.initializer.b, v.initializer.seed);
    fb::Offset<wire::Lifecycle> lifecycle;
    if (v.kind == COXI_KIND_TABLE) {
        const struct coxi_lifecycle &l = v.lifecycle;
        lifecycle =
            wire::CreateLifecycle(b, l.admit_count, l.admit_probability, l.evict_age,
                                  l.evict_count, l.evict_count_age, l.rows_max);
    }
    fb::Offset<wire::Staleness> staleness;
    const struct coxi_staleness &s = v.staleness;
    if (s.action != 0 || s.max != 0 || s.compensation != 0) {
        staleness = wire::CreateStaleness(b, s.action, s.max, s.compensation);
    }
    return wire::CreateVariable(b, v.id, name, static_cast<wire::Kind>(v.kind), v.dtype,
                                shape, shards, optimizer, initializer, v.wire_dtype,
                                v.nonfinite, v.metric, lifecycle, v.wire_rounding,
                                staleness);
}

bool decode_variable(const wire::Variable *v, struct coxi_variable *ret)
{
    if (v == nullptr || v->kind() > wire::Kind_MAX || is_too_long(v->name()) ||
        v->shape() == nullptr || v->shape()->size() == 0 ||
        v->shape()->size() > COXI_WIRE_RANK_MAX || !is_aligned<uint64_t>(v->shape())) {
        return false;
    }
    *ret = {};
    ret->id = v->id();
    ret->name = text(v->name());
    ret->kind = static_cast<enum coxi_kind>(v->kind());
    ret->dtype = v->dtype();
    ret->rank = v->shape()->size();
    for (uint32_t i = 0; i < ret->rank; i++) {
        ret->shape[i] = v->shape()->Get(i);
    }
    if (!take_array(v->shards(), &ret->shards, &ret->n_shards)) {
        return false;
    }
    decode_optimizer(v->optimizer(), &ret->optimizer);
    if (v->initializer() != nullptr) {
        ret->initializer = {v->initializer()->kind(), v->initializer()->a(),
                            v->initializer()->b(), v->initializer()->seed()};
    }
    ret->wire_dtype = v->wire_dtype();
    ret->wire_rounding = v->wire_rounding();
    ret->nonfinite = v->nonfinite();
    ret->metric = v->metric();
    const wire::Lifecycle *l = v->lifecycle();
    if (l != nullptr) {
        ret->lifecycle = {l->admit_count(), l->admit_probability(), l->evict_age(),
                          l->evict_count(), l->evict_count_age(),   l->rows_max()};
    }
    if (v->staleness() != nullptr) {
        ret->staleness = {v->staleness()->action(), v->staleness()->compensation(),
                          v->staleness()->max()};
    }
    return true;
}

/* True if no interval refers beyond `touched`. */
bool intervals_fit(const struct coxi_interval *applied, size_t n, size_t n_touched)
{
    for (size_t i = 0; i < n; i++) {
        if (applied[i].touched_at > n_touched ||
            applied[i].touched_n > n_touched - applied[i].touched_at) {
            return false;
        }
    }
    return true;
}

/* Indices of some of n closures; few messages have any. */
fb::Offset<fb::Vector<uint32_t>> encode_numbers(Builder &b, const uint32_t *numbers,
                                                size_t n)
{
    return n > 0 ? b.CreateVector(numbers, n) : fb::Offset<fb::Vector<uint32_t>>();
}

bool decode_numbers(const fb::Vector<uint32_t> *numbers, size_t n_closures,
                    const uint32_t **ret, size_t *ret_n)
{
    if (!take_array(numbers, ret, ret_n)) {
        return false;
    }
    for (size_t i = 0; i < *ret_n; i++) {
        if ((*ret)[i] >= n_closures || (i > 0 && (*ret)[i] <= (*ret)[i - 1])) {
            return false;
        }
    }
    return true;
}

/* An array with one element for each of n closures, or none (NULL). */
template <typename T>
fb::Offset<fb::Vector<T>> one_for_each(Builder &b, const T *array, size_t n)
{
    return array != nullptr && n > 0 ? b.CreateVector(array, n)
                                     : fb::Offset<fb::Vector<T>>();
}

template <typename T, typename Vector>
bool take_one_for_each(const Vector *vector, size_t n_closures, const T **ret)
{
    size_t n = 0;
    bool taken = take_array(vector, ret, &n);
    if (n == 0) {
        *ret = nullptr;
    }
    return taken && (n == 0 || n == n_closures);
}

struct coxi_load decode_load(const wire::Load *m)
{
    return {from_wire(m->session()),
            m->incarnation(),
            m->closure(),
            m->variable(),
            m->begin(),
            m->count(),
            m->state(),
            m->life(),
            m->step(),
            m->last()};
}

} // namespace

#endif
