/* See layout.h. Pure functions; any thread. */
#include "common/layout.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/dtype.h"
#include "common/error.h"
#include "common/initializer.h"
#include "common/metric.h"

/* Checkpoints hold names as JSON text, and jansson takes only UTF-8. */
static bool is_utf8(const char *name)
{
    json_t *text = json_string(name);
    bool is = text != NULL;
    json_decref(text);
    return is;
}

static int check_name(const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len > COXI_WIRE_NAME_MAX) {
        return coxi_error(COX_EINVAL, "a variable's name has 1 to %d bytes, not %zu",
                          COXI_WIRE_NAME_MAX, len);
    }
    for (const char *c = name; *c != '\0'; c++) {
        if ((unsigned char)*c <= ' ' || *c == '"' || *c == '\\' || *c == 0x7f) {
            return coxi_error(COX_EINVAL,
                              "variable '%s': a name takes no white space, control "
                              "character, quote or backslash",
                              name);
        }
    }
    if (!is_utf8(name)) {
        return coxi_error(COX_EINVAL, "variable '%s': its name is not UTF-8", name);
    }
    if (strcmp(name, "__metadata__") == 0) {
        return coxi_error(COX_EINVAL, "variable '%s': checkpoints need that name",
                          name);
    }
    return 0;
}

static int check_optimizer(const struct coxi_variable *v)
{
    int r = coxi_optimizer_check(&v->optimizer);
    if (r != 0) {
        return coxi_error(r, "variable '%s': %s", v->name, coxi_error_text());
    }
    if (v->optimizer.kind != COXI_OPTIMIZER_NONE && v->dtype != COX_F32) {
        return coxi_error(COX_EINVAL, "variable '%s': optimizers take F32, not %s",
                          v->name, coxi_dtype_name(v->dtype));
    }
    return 0;
}

static bool float_equal(float a, float b)
{
    uint32_t bits[2]; /* Compares the bits, so that a NaN equals itself. */
    memcpy(&bits[0], &a, sizeof(a));
    memcpy(&bits[1], &b, sizeof(b));
    return bits[0] == bits[1];
}

static bool lifecycle_equal(const struct coxi_lifecycle *a,
                            const struct coxi_lifecycle *b)
{
    return a->admit_count == b->admit_count &&
           float_equal(a->admit_probability, b->admit_probability) &&
           a->evict_age == b->evict_age && a->evict_count == b->evict_count &&
           a->evict_count_age == b->evict_count_age && a->rows_max == b->rows_max;
}

static int check_dense(const struct coxi_variable *v, size_t n_ps)
{
    uint64_t next = 0;
    for (size_t i = 0; i < v->n_shards; i++) {
        const struct coxi_shard *shard = &v->shards[i];
        if (shard->ps >= n_ps || shard->begin != next || shard->count == 0 ||
            shard->count > v->shape[0] - next) {
            return coxi_error(
                COX_EINVAL, "variable '%s': its shards do not tile its rows", v->name);
        }
        for (size_t j = 0; j < i; j++) {
            if (v->shards[j].ps == shard->ps) {
                return coxi_error(COX_EINVAL, "variable '%s': two shards on ps %llu",
                                  v->name, (unsigned long long)shard->ps);
            }
        }
        next += shard->count;
    }
    if (next != v->shape[0]) {
        return coxi_error(COX_EINVAL, "variable '%s': its shards do not tile its rows",
                          v->name);
    }
    return 0;
}

static int check_lifecycle(const struct coxi_variable *v)
{
    const struct coxi_lifecycle *l = &v->lifecycle;
    const struct coxi_lifecycle none = {0};
    if (v->kind == COXI_KIND_DENSE && !lifecycle_equal(l, &none)) {
        return coxi_error(COX_EINVAL, "variable '%s': only tables have a lifecycle",
                          v->name);
    }
    if (!(l->admit_probability >= 0 && l->admit_probability <= 1)) {
        return coxi_error(COX_EINVAL, "table '%s': admit_probability is %g, not 0 to 1",
                          v->name, (double)l->admit_probability);
    }
    if ((l->evict_count == 0) != (l->evict_count_age == 0)) {
        return coxi_error(
            COX_EINVAL,
            "table '%s': evict_count needs evict_count_age, and the other "
            "way round",
            v->name);
    }
    return 0;
}

static int check_metric(const struct coxi_variable *v)
{
    if (v->metric >= COXI_METRIC_END) {
        return coxi_error(COX_EINVAL, "variable '%s': %u is no kind of metric", v->name,
                          v->metric);
    }
    if (v->metric != COXI_METRIC_NONE &&
        (v->kind != COXI_KIND_DENSE || v->dtype != COX_F64 || v->rank != 1 ||
         v->n_shards != 1 || v->shape[0] > COXI_METRIC_MAX ||
         !coxi_metric_fits(v->metric, v->shape[0]))) {
        return coxi_error(COX_EINVAL,
                          "metric '%s': has as many F64 as its kind takes, at most %d, "
                          "in one shard",
                          v->name, COXI_METRIC_MAX);
    }
    return 0;
}

static int check_loss_scale(const struct coxi_variable *v)
{
    uint64_t n = 1;
    if (v->optimizer.kind != COXI_OPTIMIZER_LOSS_SCALE) {
        return 0;
    }
    for (uint32_t i = 0; i < v->rank; i++) {
        n = v->shape[i] == 1 ? n : 0;
    }
    return v->kind == COXI_KIND_DENSE && n == 1 && v->wire_dtype == 0
               ? 0
               : coxi_error(COX_EINVAL,
                            "%s '%s': a loss scale is a dense variable of one number, "
                            "shape {1}, without wire_dtype",
                            v->kind == COXI_KIND_TABLE ? "table" : "variable", v->name);
}

/* What a variable has that delays cannot be compensated with; NULL: nothing. */
static const char *hinders_compensation(const struct coxi_variable *v)
{
    if (v->wire_dtype != 0) {
        return "a wire_dtype";
    }
    if (v->optimizer.clip_norm > 0) {
        return "clip_norm";
    }
    return v->optimizer.kind == COXI_OPTIMIZER_ROWWISE_ADAGRAD ? "row-wise Adagrad"
                                                               : NULL;
}

static int check_compensation(const struct coxi_variable *v)
{
    float lambda = v->staleness.compensation;
    const char *hindrance = lambda != 0 ? hinders_compensation(v) : NULL;
    if (!(lambda >= 0) || isinf(lambda)) {
        return coxi_error(COX_EINVAL,
                          "variable '%s': delay_compensation is %g: it is a finite "
                          "number from 0 on",
                          v->name, (double)lambda);
    }
    return hindrance == NULL
               ? 0
               : coxi_error(
                     COX_EINVAL,
                     "variable '%s': delay_compensation is %g, and must be 0 with "
                     "%s",
                     v->name, (double)lambda, hindrance);
}

static int check_staleness(const struct coxi_variable *v)
{
    const struct coxi_staleness *s = &v->staleness;
    if (s->action >= COXI_STALENESS_END) {
        return coxi_error(COX_EINVAL,
                          "variable '%s': %u is no action for stale gradients", v->name,
                          s->action);
    }
    if (s->action == COXI_STALENESS_APPLY && s->max != 0) {
        return coxi_error(COX_EINVAL,
                          "variable '%s': staleness_max needs a staleness_action",
                          v->name);
    }
    int r = check_compensation(v);
    if (r != 0) {
        return r;
    }
    bool any = s->action != COXI_STALENESS_APPLY || s->compensation > 0;
    return !any || coxi_variable_is_trained(v)
               ? 0
               : coxi_error(COX_EINVAL,
                            "variable '%s': staleness_action and delay_compensation "
                            "are for variables with an optimizer, and not for loss "
                            "scales",
                            v->name);
}

/* Checks the variable's wire type, metric, and other properties. */
static int check_traits(const struct coxi_variable *v)
{
    if (v->wire_dtype != 0 && (v->dtype != COX_F32 || (v->wire_dtype != COX_BF16 &&
                                                       v->wire_dtype != COX_F16))) {
        return coxi_error(COX_EINVAL,
                          "variable '%s': wire_dtype is 0, or BF16 or F16 where the "
                          "variable is F32",
                          v->name);
    }
    if (v->wire_rounding > COXI_ROUND_STOCHASTIC ||
        (v->wire_rounding != 0 && v->wire_dtype == 0)) {
        return coxi_error(COX_EINVAL,
                          "variable '%s': wire_rounding is %u: it is 0 or 1, and 0 "
                          "without a wire_dtype",
                          v->name, v->wire_rounding);
    }
    if (v->nonfinite > COXI_NONFINITE_ALLOW) {
        return coxi_error(COX_EINVAL,
                          "variable '%s': %u is no policy for non-finite "
                          "gradients",
                          v->name, v->nonfinite);
    }
    int r = check_metric(v);
    if (r == 0) {
        r = check_loss_scale(v);
    }
    if (r == 0) {
        r = check_staleness(v);
    }
    return r == 0 ? check_lifecycle(v) : r;
}

int coxi_variable_check(const struct coxi_variable *v, size_t n_ps)
{
    size_t bytes = 0;
    int r = check_name(v->name);
    if (r != 0) {
        return r;
    }
    if (v->kind != COXI_KIND_DENSE && v->kind != COXI_KIND_TABLE) {
        return coxi_error(COX_EINVAL, "variable '%s': %u is no kind of variable",
                          v->name, (unsigned)v->kind);
    }
    if (v->rank == 0) {
        return coxi_error(COX_EINVAL,
                          "variable '%s' has rank 0: give it at least one dimension, "
                          "shape {1} for a single number",
                          v->name);
    }
    r = coxi_shape_bytes(v->dtype, v->rank, v->shape, &bytes);
    if (r != 0) {
        return coxi_error(r, "variable '%s': %s", v->name, coxi_error_text());
    }
    if (v->kind == COXI_KIND_TABLE &&
        (v->dtype != COX_F32 || v->rank != 1 || bytes == 0 ||
         v->shape[0] > COXI_TABLE_DIM_MAX)) {
        return coxi_error(COX_EINVAL, "table '%s': dim is 1 to %d, not %llu", v->name,
                          COXI_TABLE_DIM_MAX, (unsigned long long)v->shape[0]);
    }
    if (bytes == 0) {
        return coxi_error(COX_EINVAL, "variable '%s' has a dimension of 0", v->name);
    }
    if (v->n_shards > n_ps) {
        return coxi_error(COX_EINVAL,
                          "variable '%s' has %zu shards, and there are %zu ps", v->name,
                          v->n_shards, n_ps);
    }
    r = coxi_initializer_check(&v->initializer);
    if (r != 0) {
        return coxi_error(r, "variable '%s': %s", v->name, coxi_error_text());
    }
    r = check_optimizer(v);
    if (r == 0) {
        r = check_traits(v);
    }
    if (r == 0 && v->kind == COXI_KIND_DENSE) {
        r = check_dense(v, n_ps);
    }
    return r;
}

int coxi_variable_copy(const struct coxi_variable *variable, struct coxi_variable **ret)
{
    /* One block: the struct, its shards, its name. */
    size_t shards_len = variable->n_shards * sizeof(*variable->shards);
    size_t name_len = strlen(variable->name) + 1;
    struct coxi_variable *copy = malloc(sizeof(*copy) + shards_len + name_len);
    if (copy == NULL) {
        return coxi_error_memory("a variable");
    }
    *copy = *variable;
    struct coxi_shard *shards = (struct coxi_shard *)(copy + 1);
    char *name = (char *)shards + shards_len;
    if (shards_len > 0) {
        memcpy(shards, variable->shards, shards_len);
    }
    memcpy(name, variable->name, name_len);
    copy->shards = shards;
    copy->name = name;
    *ret = copy;
    return 0;
}

void coxi_variable_free(struct coxi_variable *variable)
{
    free(variable);
}

static bool rules_equal(const struct coxi_variable *a, const struct coxi_variable *b)
{
    return coxi_optimizer_equal(&a->optimizer, &b->optimizer) &&
           a->initializer.kind == b->initializer.kind &&
           float_equal(a->initializer.a, b->initializer.a) &&
           float_equal(a->initializer.b, b->initializer.b) &&
           a->initializer.seed == b->initializer.seed &&
           lifecycle_equal(&a->lifecycle, &b->lifecycle) &&
           a->wire_dtype == b->wire_dtype && a->wire_rounding == b->wire_rounding &&
           a->nonfinite == b->nonfinite && a->metric == b->metric &&
           a->staleness.action == b->staleness.action &&
           a->staleness.max == b->staleness.max &&
           float_equal(a->staleness.compensation, b->staleness.compensation);
}

bool coxi_variable_equal(const struct coxi_variable *a, const struct coxi_variable *b)
{
    return strcmp(a->name, b->name) == 0 && a->kind == b->kind &&
           a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->shape, b->shape, a->rank * sizeof(*a->shape)) == 0 &&
           a->n_shards == b->n_shards &&
           (a->n_shards == 0 ||
            memcmp(a->shards, b->shards, a->n_shards * sizeof(*a->shards)) == 0) &&
           rules_equal(a, b);
}

uint64_t coxi_variable_rows(const struct coxi_variable *variable)
{
    return variable->shape[0];
}

size_t coxi_variable_row_bytes(const struct coxi_variable *variable)
{
    if (variable->kind == COXI_KIND_TABLE) {
        return coxi_table_dim(variable) * sizeof(float);
    }
    size_t bytes = 0;
    (void)coxi_shape_bytes(variable->dtype, variable->rank - 1, variable->shape + 1,
                           &bytes);
    return bytes;
}

size_t coxi_variable_bytes(const struct coxi_variable *variable)
{
    size_t bytes = 0;
    (void)coxi_shape_bytes(variable->dtype, variable->rank, variable->shape, &bytes);
    return bytes;
}

void coxi_shape_text(uint32_t rank, const uint64_t *shape, char *ret, size_t len)
{
    size_t used = (size_t)snprintf(ret, len, "[");
    for (uint32_t i = 0; i < rank && used < len; i++) {
        used += (size_t)snprintf(ret + used, len - used, "%s%" PRIu64,
                                 i > 0 ? ", " : "", shape[i]);
    }
    if (used < len) {
        (void)snprintf(ret + used, len - used, "]");
    }
}

const struct coxi_shard *coxi_variable_shard(const struct coxi_variable *variable,
                                             uint32_t ps)
{
    for (size_t i = 0; i < variable->n_shards; i++) {
        if (variable->shards[i].ps == ps) {
            return &variable->shards[i];
        }
    }
    return NULL;
}

struct coxi_range coxi_shard_part(const struct coxi_shard *shard, uint64_t begin,
                                  uint64_t count)
{
    uint64_t shard_end = shard->begin + shard->count;
    uint64_t end = begin + count < shard_end ? begin + count : shard_end;
    uint64_t first = begin > shard->begin ? begin : shard->begin;
    return (struct coxi_range){first, end > first ? end - first : 0};
}

void coxi_shards_div(uint64_t rows, uint32_t n, struct coxi_shard *ret)
{
    uint64_t begin = 0;
    for (uint32_t i = 0; i < n; i++) {
        ret[i].begin = begin;
        ret[i].count = rows / n + (i < rows % n ? 1 : 0);
        begin += ret[i].count;
    }
}
