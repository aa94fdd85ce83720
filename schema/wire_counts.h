/* Counts and the question for them, as messages. Only for wire.cc. */
#ifndef COXI_SCHEMA_WIRE_COUNTS_H
#define COXI_SCHEMA_WIRE_COUNTS_H

#include "schema/wire_parts.h"

namespace
{

/* A histogram travels as one array of numbers. */
constexpr size_t n_stale = sizeof(struct coxi_histogram) / sizeof(uint64_t);
static_assert(n_stale == COXI_STALE_BUCKETS + 3, "nothing but numbers");

Body encode_count(Builder &b, const struct coxi_count &m)
{
    return wire::CreateCount(b, m.table.number, static_cast<wire::StaleOf>(m.stale_of),
                             m.index)
        .Union();
}

bool decode_count(const wire::Count *m, struct coxi_count *ret)
{
    if (m->stale_of() > wire::StaleOf_MAX) {
        return false;
    }
    *ret = {{m->table()}, static_cast<enum coxi_stale_of>(m->stale_of()), m->index()};
    return true;
}

Body encode_counts(Builder &b, const struct coxi_counts &m)
{
    auto numbers = reinterpret_cast<const uint64_t *>(&m.stale);
    bool any = false;
    for (size_t i = 0; i < n_stale; i++) {
        any = any || numbers[i] != 0;
    }
    fb::Offset<fb::Vector<uint64_t>> stale;
    if (any) {
        stale = b.CreateVector(numbers, n_stale);
    }
    return wire::CreateCounts(b, reinterpret_cast<const wire::Counters *>(&m.all),
                              reinterpret_cast<const wire::TableCounters *>(&m.table),
                              m.infinite, stale)
        .Union();
}

bool decode_counts(const wire::Counts *m, struct coxi_counts *ret)
{
    const uint64_t *numbers;
    size_t n;
    *ret = {};
    if (m->counters() == nullptr || !take_array(m->stale(), &numbers, &n) ||
        (n != 0 && n != n_stale)) {
        return false;
    }
    std::memcpy(&ret->all, m->counters(), sizeof(ret->all));
    ret->infinite = m->infinite();
    if (m->table() != nullptr) {
        std::memcpy(&ret->table, m->table(), sizeof(ret->table));
    }
    if (n != 0) {
        std::memcpy(&ret->stale, numbers, sizeof(ret->stale));
    }
    return true;
}

} // namespace

#endif
