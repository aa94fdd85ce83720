/*
 * Descriptions of variables, as every role uses them: an owned copy of the wire's
 * description, sizes, and which ps has which rows.
 */
#ifndef COXI_COMMON_LAYOUT_H
#define COXI_COMMON_LAYOUT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/hash.h"
#include "common/rule.h"
#include "schema/wire.h"

enum {
    COXI_PS_MAX = 1024,
    COXI_VARIABLES_MAX = 65536,
    COXI_TABLE_DIM_MAX = 4096,
};

enum coxi_nonfinite { COXI_NONFINITE_REJECT = 0, COXI_NONFINITE_ALLOW };
enum coxi_rounding { COXI_ROUND_NEAREST = 0, COXI_ROUND_STOCHASTIC };

enum coxi_staleness_action {
    COXI_STALENESS_APPLY = 0,
    COXI_STALENESS_DROP,
    COXI_STALENESS_SCALE,
    COXI_STALENESS_END,
};

enum coxi_metric {
    COXI_METRIC_NONE = 0,
    COXI_METRIC_SUM,
    COXI_METRIC_COUNT,
    COXI_METRIC_MEAN,
    COXI_METRIC_AUC,
    COXI_METRIC_END,
};

/* An aligned block of this many bytes of a dense variable is never read
 * half-written. */
enum { COXI_DENSE_BLOCK = 4096 };

/* The most elements of a metric: a ps has that many under one lock, so that no reader
 * sees a half-written metric. */
enum { COXI_METRIC_MAX = 2048 };

/*
 * Checks all of a description that does not depend on other variables: name, kind,
 * type, shape, shards (they tile the rows, in order), optimizer, initializer,
 * lifecycle, staleness, wire type (BF16 or F16 of an F32), metric (F64, at most
 * COXI_METRIC_MAX),
 * and that no number of bytes overflows. COX_EINVAL or COX_ELIMIT, with the variable's
 * name in the text.
 */
int coxi_variable_check(const struct coxi_variable *variable, size_t n_ps);

/* An owned copy of a checked description; free with coxi_variable_free. */
int coxi_variable_copy(const struct coxi_variable *variable,
                       struct coxi_variable **ret);
void coxi_variable_free(struct coxi_variable *variable); /* takes NULL */

/* True if the two descriptions are equal except for the id. */
bool coxi_variable_equal(const struct coxi_variable *a, const struct coxi_variable *b);

/* Dense: rows (first axis), bytes of a row, bytes of all. Table: dim, bytes of a
 * row. */
uint64_t coxi_variable_rows(const struct coxi_variable *variable);
size_t coxi_variable_row_bytes(const struct coxi_variable *variable);
size_t coxi_variable_bytes(const struct coxi_variable *variable);
static inline size_t coxi_table_dim(const struct coxi_variable *variable)
{
    return variable->shape[0];
}

/* True if gradients change its values. (That of a loss scale only says whether others
 * were finite.) */
static inline bool coxi_variable_is_trained(const struct coxi_variable *variable)
{
    return variable->optimizer.kind != COXI_OPTIMIZER_NONE &&
           variable->optimizer.kind != COXI_OPTIMIZER_LOSS_SCALE;
}

/* "[7, 2]" */
void coxi_shape_text(uint32_t rank, const uint64_t *shape, char *ret, size_t len);

/* The shard on ps `ps`, or NULL if there is none. */
const struct coxi_shard *coxi_variable_shard(const struct coxi_variable *variable,
                                             uint32_t ps);

/*
 * "div" layout of `rows` rows in `n` shards: the first rows % n shards hold one row
 * more. Sets begin and count of ret[0..n).
 */
void coxi_shards_div(uint64_t rows, uint32_t n, struct coxi_shard *ret);

/* The rows of [begin, begin + count) that lie in a shard; count 0: none. */
struct coxi_range {
    uint64_t begin;
    uint64_t count;
};

struct coxi_range coxi_shard_part(const struct coxi_shard *shard, uint64_t begin,
                                  uint64_t count);

/* The ps of n_ps that holds `key` of every table. */
static inline uint32_t coxi_key_ps(uint64_t key, uint32_t n_ps)
{
    assert(n_ps > 0);
    return coxi_hash_bucket(coxi_hash_key(key)) % n_ps;
}

#endif
