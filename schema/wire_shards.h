/* The messages about the shards of checkpoints, for wire.cc only. */
#ifndef COXI_SCHEMA_WIRE_SHARDS_H
#define COXI_SCHEMA_WIRE_SHARDS_H

#include "schema/wire_parts.h"

namespace
{

Body encode_snapshot(Builder &b, const struct coxi_snapshot &m)
{
    auto path = b.CreateString(or_empty(m.path));
    return wire::CreateSnapshot(b, to_wire(m.session), m.number, path, m.base, m.track,
                                m.incarnation, m.carry)
        .Union();
}

struct coxi_snapshot decode_snapshot(const wire::Snapshot *m)
{
    return {
        from_wire(m->session()), m->number(), text(m->path()), m->base(), m->track(),
        m->incarnation(),        m->carry()};
}

Body encode_snapshot_done(Builder &b, const struct coxi_snapshot_done &m)
{
    auto message = b.CreateString(or_empty(m.message));
    auto applied = structs<wire::Interval>(b, m.applied, m.n_applied);
    auto touched = b.CreateVector(m.touched, m.n_touched);
    return wire::CreateSnapshotDone(b, m.code, message, m.bytes, m.crc32, m.watermark,
                                    applied, touched, m.held_us_max, m.saved_bytes,
                                    m.base)
        .Union();
}

bool decode_snapshot_done(const wire::SnapshotDone *m, struct coxi_snapshot_done *ret)
{
    ret->code = m->code();
    ret->message = text(m->message());
    ret->bytes = m->bytes();
    ret->crc32 = m->crc32();
    ret->watermark = m->watermark();
    ret->held_us_max = m->held_us_max();
    ret->saved_bytes = m->saved_bytes();
    ret->base = m->base();
    return take_array(m->applied(), &ret->applied, &ret->n_applied) &&
           take_array(m->touched(), &ret->touched, &ret->n_touched) &&
           intervals_fit(ret->applied, ret->n_applied, ret->n_touched);
}

Body encode_restore(Builder &b, const struct coxi_restore &m)
{
    auto path = b.CreateString(or_empty(m.path));
    auto applied = structs<wire::Interval>(b, m.applied, m.n_applied);
    auto touched = b.CreateVector(m.touched, m.n_touched);
    return wire::CreateRestore(b, to_wire(m.session), m.round, path, m.bytes, m.crc32,
                               m.watermark, applied, touched, m.at, m.incarnation,
                               m.more, m.carry)
        .Union();
}

bool decode_restore(const wire::Restore *m, struct coxi_restore *ret)
{
    *ret = {};
    ret->session = from_wire(m->session());
    ret->round = m->round();
    ret->path = text(m->path());
    ret->bytes = m->bytes();
    ret->crc32 = m->crc32();
    ret->watermark = m->watermark();
    ret->at = m->at();
    ret->incarnation = m->incarnation();
    ret->more = m->more();
    ret->carry = m->carry();
    return take_array(m->applied(), &ret->applied, &ret->n_applied) &&
           take_array(m->touched(), &ret->touched, &ret->n_touched) &&
           intervals_fit(ret->applied, ret->n_applied, ret->n_touched);
}

Body encode_exchange(Builder &b, const struct coxi_exchange &m)
{
    auto message = text_or_none(b, m.message);
    return wire::CreateExchange(b, to_wire(m.session), m.incarnation, m.carry,
                                m.restores, m.lane, m.turn, m.code, message)
        .Union();
}

struct coxi_exchange decode_exchange(const wire::Exchange *m)
{
    return {from_wire(m->session()),
            m->incarnation(),
            m->carry(),
            m->restores(),
            m->lane(),
            m->turn(),
            m->code(),
            text(m->message())};
}

Body encode_exchanged(Builder &b, const struct coxi_exchanged &m)
{
    auto message = text_or_none(b, m.message);
    return wire::CreateExchanged(b, m.code, message, m.offset, m.len, m.over).Union();
}

struct coxi_exchanged decode_exchanged(const wire::Exchanged *m)
{
    return {m->code(), text(m->message()), m->offset(), m->len(), m->over()};
}

} // namespace

#endif
