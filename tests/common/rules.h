/* A sample of each update rule (common/rule.h), SGD first; not of loss scales. */
#ifndef COXI_TESTS_COMMON_RULES_H
#define COXI_TESTS_COMMON_RULES_H

#include "common/rule.h"
#include "schema/wire.h"

static const struct coxi_optimizer each_rule[] = {
    {.kind = COXI_OPTIMIZER_SGD, .learning_rate = 0.1F},
    {.kind = COXI_OPTIMIZER_MOMENTUM, .learning_rate = 0.1F, .momentum = 0.9F},
    {.kind = COXI_OPTIMIZER_NESTEROV, .learning_rate = 0.1F, .momentum = 0.9F},
    {.kind = COXI_OPTIMIZER_ADAGRAD,
     .learning_rate = 0.1F,
     .epsilon = 1e-10F,
     .initial_accumulator = 0.1F},
    {.kind = COXI_OPTIMIZER_ROWWISE_ADAGRAD,
     .learning_rate = 0.1F,
     .epsilon = 1e-10F,
     .initial_accumulator = 0.1F},
    {.kind = COXI_OPTIMIZER_RMSPROP,
     .learning_rate = 0.1F,
     .epsilon = 1e-8F,
     .rho = 0.9F},
    {.kind = COXI_OPTIMIZER_ADADELTA,
     .learning_rate = 1,
     .epsilon = 1e-6F,
     .rho = 0.9F},
    {.kind = COXI_OPTIMIZER_ADAM,
     .learning_rate = 0.1F,
     .epsilon = 1e-8F,
     .beta1 = 0.9F,
     .beta2 = 0.999F},
    {.kind = COXI_OPTIMIZER_ADAMW,
     .learning_rate = 0.1F,
     .epsilon = 1e-8F,
     .beta1 = 0.9F,
     .beta2 = 0.999F,
     .weight_decay = 0.1F},
    {.kind = COXI_OPTIMIZER_FTRL, .learning_rate = 0.1F},
};

enum { RULES = sizeof(each_rule) / sizeof(*each_rule) };

#endif
