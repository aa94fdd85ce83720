/* See partition.h. */
#include "coordinator/variables/partition.h"

#include <stdbool.h>

#include "common/defaults.h"
#include "common/error.h"
#include "common/layout.h"
#include "common/rule.h"

enum { COXI_DEFAULTS_VARIABLE_SPEC(COXI_DEFAULT_NUMBER) };

static uint64_t at_most(uint64_t n, uint64_t most)
{
    return n < most ? n : most;
}

/* The smallest number of shards with at most rows_max rows each. */
static int count_by_max(const struct cox_variable_spec *spec, uint64_t rows,
                        size_t row_bytes, uint32_t n_ps, uint32_t *ret)
{
    uint64_t rows_max = spec->shard_max_bytes / row_bytes;
    if (rows_max == 0) {
        return coxi_error(COX_EINVAL,
                          "variable '%s': a row has %zu bytes, more than its "
                          "shard_max_bytes, %llu",
                          spec->name, row_bytes,
                          (unsigned long long)spec->shard_max_bytes);
    }
    uint64_t n = rows / rows_max + (rows % rows_max > 0 ? 1 : 0);
    if (n > n_ps) {
        return coxi_error(
            COX_EINVAL,
            "variable '%s': shards of at most %llu bytes would be %llu, on "
            "%u ps: use more ps, or a larger shard_max_bytes",
            spec->name, (unsigned long long)spec->shard_max_bytes,
            (unsigned long long)n, n_ps);
    }
    *ret = (uint32_t)n;
    return 0;
}

int coxi_partition_count(const struct cox_variable_spec *spec,
                         const struct coxi_variable *variable, uint32_t n_ps,
                         uint32_t *ret)
{
    uint64_t rows = coxi_variable_rows(variable);
    size_t row_bytes = coxi_variable_row_bytes(variable);
    uint64_t most = at_most(n_ps, rows);
    if (rows == 0 || row_bytes == 0) {
        *ret = 1; /* its shape will be refused */
        return 0;
    }
    if (spec->shards > 0) {
        *ret = (uint32_t)at_most(spec->shards, most);
        return 0;
    }
    if (spec->shard_max_bytes > 0) {
        return count_by_max(spec, rows, row_bytes, n_ps, ret);
    }
    uint64_t min_bytes =
        spec->shard_min_bytes > 0 ? spec->shard_min_bytes : DEFAULT_shard_min_bytes;
    uint64_t rows_min = min_bytes / row_bytes + (min_bytes % row_bytes > 0 ? 1 : 0);
    uint64_t n = at_most(rows / rows_min, most);
    *ret = n > 0 ? (uint32_t)n : 1;
    return 0;
}

void coxi_partition_place(const uint64_t *load, uint32_t n_ps, uint32_t n,
                          struct coxi_shard *ret)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t best = n_ps;
        for (uint32_t p = 0; p < n_ps; p++) {
            bool taken = false;
            for (uint32_t j = 0; j < i; j++) {
                taken = taken || ret[j].ps == p;
            }
            if (!taken && (best == n_ps || load[p] < load[best])) {
                best = p;
            }
        }
        ret[i].ps = best;
    }
}

uint64_t coxi_partition_load(const struct coxi_variable *variable, size_t i)
{
    return variable->shards[i].count * coxi_variable_row_bytes(variable) *
           (1 + coxi_optimizer_slots(&variable->optimizer));
}
