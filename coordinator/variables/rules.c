/* See rules.h. */
#include "coordinator/variables/rules.h"

#include <math.h>
#include <string.h>

#include "common/error.h"
#include "common/hash.h"
#include "common/initializer.h"
#include "common/layout.h"
#include "common/rule.h"

#define SAME(cox, coxi) _Static_assert((int)(cox) == (int)(coxi), "one numbering")
SAME(COX_OPTIMIZER_NONE, COXI_OPTIMIZER_NONE);
SAME(COX_SGD, COXI_OPTIMIZER_SGD);
SAME(COX_ADAGRAD, COXI_OPTIMIZER_ADAGRAD);
SAME(COX_MOMENTUM, COXI_OPTIMIZER_MOMENTUM);
SAME(COX_NESTEROV, COXI_OPTIMIZER_NESTEROV);
SAME(COX_ROWWISE_ADAGRAD, COXI_OPTIMIZER_ROWWISE_ADAGRAD);
SAME(COX_ADADELTA, COXI_OPTIMIZER_ADADELTA);
SAME(COX_RMSPROP, COXI_OPTIMIZER_RMSPROP);
SAME(COX_ADAM, COXI_OPTIMIZER_ADAM);
SAME(COX_ADAMW, COXI_OPTIMIZER_ADAMW);
SAME(COX_FTRL, COXI_OPTIMIZER_FTRL);
SAME(COX_LOSS_SCALE, COXI_OPTIMIZER_LOSS_SCALE);
SAME(COX_LOSS_SCALE + 1, COXI_OPTIMIZER_END);
SAME(COX_SCHEDULE_LINEAR, COXI_SCHEDULE_LINEAR);
SAME(COX_SCHEDULE_POLYNOMIAL, COXI_SCHEDULE_POLYNOMIAL);
SAME(COX_SCHEDULE_EXPONENTIAL, COXI_SCHEDULE_EXPONENTIAL);
SAME(COX_SCHEDULE_STEP, COXI_SCHEDULE_STEP);
SAME(COX_SCHEDULE_COSINE, COXI_SCHEDULE_COSINE);
SAME(COX_CONSTANT, COXI_INIT_CONSTANT);
SAME(COX_UNIFORM, COXI_INIT_UNIFORM);
SAME(COX_NORMAL, COXI_INIT_NORMAL);
SAME(COX_TRUNCATED_NORMAL, COXI_INIT_TRUNCATED_NORMAL);
SAME(COX_NONFINITE_ALLOW, COXI_NONFINITE_ALLOW);
SAME(COX_STALENESS_DROP, COXI_STALENESS_DROP);
SAME(COX_STALENESS_SCALE, COXI_STALENESS_SCALE);
SAME(COX_METRIC_AUC, COXI_METRIC_AUC);
SAME(COX_METRIC_AUC + 1, COXI_METRIC_END);
/* initializers from COXI_INIT_END on exist only in the client */
SAME(COX_GLOROT_UNIFORM, COXI_INIT_END);

static void put_default(float *number, float value)
{
    if (*number == 0) {
        *number = value;
    }
}

static void set_defaults(struct coxi_optimizer *o)
{
    switch ((enum coxi_optimizer_kind)o->kind) {
    case COXI_OPTIMIZER_MOMENTUM:
    case COXI_OPTIMIZER_NESTEROV:
        put_default(&o->momentum, 0.9F);
        return;
    case COXI_OPTIMIZER_ADAGRAD:
    case COXI_OPTIMIZER_ROWWISE_ADAGRAD:
        put_default(&o->epsilon, 1e-10F);
        return;
    case COXI_OPTIMIZER_ADADELTA:
        put_default(&o->rho, 0.9F);
        put_default(&o->epsilon, 1e-6F);
        return;
    case COXI_OPTIMIZER_RMSPROP:
        put_default(&o->rho, 0.99F);
        put_default(&o->epsilon, 1e-8F);
        return;
    case COXI_OPTIMIZER_ADAM:
    case COXI_OPTIMIZER_ADAMW:
        put_default(&o->beta1, 0.9F);
        put_default(&o->beta2, 0.999F);
        put_default(&o->epsilon, 1e-8F);
        return;
    case COXI_OPTIMIZER_LOSS_SCALE:
        put_default(&o->growth_factor, 2);
        put_default(&o->growth_interval, 2000);
        return;
    case COXI_OPTIMIZER_NONE:
    case COXI_OPTIMIZER_SGD:
    case COXI_OPTIMIZER_FTRL:
    case COXI_OPTIMIZER_END:
        return;
    }
}

/* fan-in + fan-out of a shape, as Keras counts them. */
static double fans(const struct coxi_variable *v)
{
    if (v->kind == COXI_KIND_TABLE) {
        return 1.0 + (double)v->shape[0];
    }
    if (v->rank < 2) {
        return 2.0 * (double)v->shape[0];
    }
    double field = 1;
    for (uint32_t i = 0; i + 2 < v->rank && i < COXI_WIRE_RANK_MAX; i++) {
        field *= (double)v->shape[i];
    }
    return v->rank <= COXI_WIRE_RANK_MAX
               ? field * ((double)v->shape[v->rank - 2] + (double)v->shape[v->rank - 1])
               : 1; /* its rank will be refused */
}

static void set_glorot(struct coxi_variable *v, uint32_t kind)
{
    double both = fans(v);
    both = both > 0 ? both : 1; /* its shape will be refused */
    if (kind == COX_GLOROT_UNIFORM) {
        float limit = (float)sqrt(6.0 / both);
        v->initializer.kind = COXI_INIT_UNIFORM;
        v->initializer.a = -limit;
        v->initializer.b = limit;
    } else {
        v->initializer.kind = COXI_INIT_NORMAL;
        v->initializer.a = 0;
        v->initializer.b = (float)sqrt(2.0 / both);
    }
}

int coxi_rules_set(struct coxi_variable *variable,
                   const struct cox_optimizer *optimizer,
                   const struct cox_initializer *initializer)
{
    struct coxi_optimizer *o = &variable->optimizer;
    *o = (struct coxi_optimizer){.kind = optimizer->kind};
    o->schedule = (struct coxi_schedule){
        .kind = optimizer->schedule.kind,
        .steps = optimizer->schedule.steps,
        .warmup_steps = optimizer->schedule.warmup_steps,
    };
#define TAKE(name) o->name = optimizer->name;
    COXI_OPTIMIZER_NUMBERS(TAKE)
#undef TAKE
#define TAKE(name) o->schedule.name = optimizer->schedule.name;
    COXI_SCHEDULE_NUMBERS(TAKE)
#undef TAKE
    set_defaults(o);
    variable->initializer = (struct coxi_initializer){
        initializer->kind, initializer->a, initializer->b, initializer->seed};
    if (initializer->kind != COX_GLOROT_UNIFORM &&
        initializer->kind != COX_GLOROT_NORMAL) {
        return 0;
    }
    if (initializer->a != 0 || initializer->b != 0) {
        return coxi_error(COX_EINVAL,
                          "variable '%s': Glorot's initializers derive a and b from "
                          "the shape: leave them 0",
                          variable->name);
    }
    set_glorot(variable, initializer->kind);
    return 0;
}

void coxi_rules_seed(struct coxi_variable *variable, uint64_t run_seed)
{
    struct coxi_initializer *i = &variable->initializer;
    bool draws = i->kind == COXI_INIT_UNIFORM || i->kind == COXI_INIT_NORMAL ||
                 i->kind == COXI_INIT_TRUNCATED_NORMAL;
    if (draws && i->seed == 0) {
        uint64_t name = coxi_hash_bytes(variable->name, strlen(variable->name)).low;
        i->seed = coxi_hash_key(name ^ coxi_hash_key(run_seed));
    }
}

void coxi_rules_set_lifecycle(struct coxi_variable *variable,
                              const struct cox_lifecycle *lifecycle)
{
    variable->lifecycle = (struct coxi_lifecycle){
        .admit_count = lifecycle->admit_count,
        .admit_probability = lifecycle->admit_probability,
        .evict_age = lifecycle->evict_age,
        .evict_count = lifecycle->evict_count,
        .evict_count_age = lifecycle->evict_count_age,
        .rows_max = lifecycle->rows_max,
    };
}
