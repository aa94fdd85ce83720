/* See steps.h. The module's file has no content. This file provides its steps, in
 * place of the inspection in common/module.c and of worker/modules.c. */
#include "tests/sim/steps.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/module.h"
#include "coxswain/step.h"
#include "tests/sim/files.h"
#include "tests/sim/ledger.h"
#include "tests/sim/plan.h"
#include "tests/sim/program.h"
#include "tests/sim/rounds.h"
#include "tests/sim/sched.h"
#include "tests/sim/tasks.h"
#include "tests/sim/trace.h"
#include "worker/culprit.h"
#include "worker/modules.h"

enum {
    LOOK_US = 5000, /* the longest time between two checks whether it is cancelled */
    BRITTLE_LIVES =
        /* lives of the program; later ones would otherwise never get past a brittle
         * call */
    12,
};

/* ---- who crashed */

static _Thread_local struct coxi_recorder_slot *mine;

void coxi_culprit_watch(struct coxi_recorder *recorder)
{
    (void)recorder;
}

void coxi_culprit_begin(struct coxi_culprit_stack *stack,
                        struct coxi_recorder_slot *slot)
{
    stack->memory = NULL;
    mine = slot;
}

void coxi_culprit_end(struct coxi_culprit_stack *stack)
{
    (void)stack;
    mine = NULL;
}

static void crash(void)
{
    if (sim_chance(2)) { /* otherwise it is not known which step it was */
        coxi_recorder_blame(mine, SIGSEGV);
        coxi_recorder_excuse(sim_self_proc()->arg);
    }
    sim_proc_kill(sim_self_proc(), SIGSEGV);
}

/* ---- the step */

/* Spends the time; false: the step was cancelled. */
static bool spend(struct cox_step *step, int64_t us)
{
    bool ignores_cancel = us > 0 && sim_chance(64);
    while (us > 0) {
        int64_t piece = us < LOOK_US ? us : LOOK_US;
        sim_sleep((uint64_t)piece * SIM_US);
        us -= piece;
        if (!ignores_cancel && cox_step_cancelled(step)) {
            return false;
        }
    }
    return true;
}

static int add_to(struct cox_step *step, const char *kind, uint32_t ps, uint64_t row)
{
    const int64_t one = 1;
    char name[16];
    struct cox_variable *variable;
    (void)snprintf(name, sizeof(name), "%s%u", kind, ps);
    int r = cox_step_variable(step, name, &variable);
    return r != 0 ? r
                  : cox_step_update(step, variable, COX_UPDATE_ADD,
                                    cox_rows_slice(row, 1), &one);
}

static int add_segment(struct cox_step *step, const int64_t *of, uint32_t segment)
{
    int64_t mask = of[segment == 0 ? SIM_MASK : SIM_AFTER];
    uint64_t row = (uint64_t)of[SIM_NUMBER] * SIM_SEGMENTS + segment;
    int r = 0;
    for (uint32_t ps = 0; r == 0 && ps < SIM_PS_MAX; ps++) {
        if ((mask >> ps & 1) != 0) {
            r = add_to(step, "c", ps, row);
            r = r != 0 ? r : add_to(step, "m", ps, row);
        }
    }
    return r == 0 && of[SIM_ROUND] >= 0 ? sim_rounds_push(step, of, segment) : r;
}

/* Adds 1 to a row: pushes the gradient -1, with SGD at rate 1. */
static int add_row(struct cox_step *step, uint64_t key)
{
    const float minus_one = -1;
    struct cox_variable *table;
    int r = cox_step_variable(step, SIM_TABLE, &table);
    return r != 0 ? r : cox_step_push_rows(step, table, &key, 1, &minus_one);
}

/* Reads the mark, and reports a violation if it has an older value than the program had
 * assigned before it scheduled the call. */
static int look_at_mark(struct cox_step *step, const int64_t *of)
{
    int64_t value = -1;
    char name[16];
    struct cox_pull pull = {.values = &value, .rows = cox_rows_slice(0, 1)};
    (void)snprintf(name, sizeof(name), "k%u", (unsigned)of[SIM_MARK]);
    int r = cox_step_variable(step, name, &pull.variable);
    r = r != 0 ? r : cox_step_pull(step, &pull, 1);
    if (r == 0 && value < of[SIM_MARKED]) {
        sim_ledger_read_old((uint32_t)of[SIM_NUMBER], name, value, of[SIM_MARKED]);
    }
    return r;
}

/* Pulls the parts to which it will add. They are 0, or 1 in a later attempt. */
static int look(struct cox_step *step, const int64_t *of)
{
    int64_t values[SIM_SEGMENTS * SIM_CALLS_MAX];
    struct cox_pull pull = {.values = values};
    int r = cox_step_variable(step, "c0", &pull.variable);
    pull.rows = cox_rows_slice((uint64_t)of[SIM_NUMBER] * SIM_SEGMENTS, SIM_SEGMENTS);
    return r != 0 ? r : cox_step_pull(step, &pull, 1);
}

/* Works for that time, and pulls before or, in a round, also after that. */
static int work(struct cox_step *step, const int64_t *of, int64_t us,
                uint64_t seen[SIM_SEEN_WORDS])
{
    bool is_member = of[SIM_ROUND] >= 0;
    bool looks_late = of[SIM_NUMBER] % 2 != 0;
    int r = of[SIM_PULLS] != 0 ? look(step, of) : 0;
    r = r == 0 && of[SIM_PULLS] != 0 ? look_at_mark(step, of) : r;
    r = r == 0 && is_member && !looks_late ? sim_rounds_look(step, of, seen) : r;
    if (r == 0 && !spend(step, us)) {
        return cox_step_fail(step, 2, "it is not wanted any more");
    }
    return r == 0 && is_member && looks_late ? sim_rounds_look(step, of, seen) : r;
}

static int count(struct cox_step *step)
{
    const struct cox_value *plan = cox_step_argument(step, "plan");
    const int64_t *of = plan->data;
    uint64_t seen[SIM_SEEN_WORDS] = {0};
    int64_t us =
        of[SIM_WORK_US] + (cox_step_attempt(step) == 1 ? of[SIM_STRAGGLE_US] : 0);
    const int64_t attempt = cox_step_attempt(step);
    const struct cox_value results[] = {
        COX_SCALAR("number", COX_I64, &of[SIM_NUMBER]),
        COX_VECTOR("seen", COX_I64, SIM_SEEN_WORDS, seen),
        COX_SCALAR("attempt", COX_I64, &attempt)};
    int r = work(step, of, us, seen);
    r = r != 0 ? r : sim_rounds_chain(step, of);
    r = r != 0 ? r : add_segment(step, of, 0);
    r = r != 0 || of[SIM_ROW] == 0 ? r : add_row(step, (uint64_t)of[SIM_NUMBER]);
    bool breaks = of[SIM_ENDING] == SIM_BRITTLE && cox_step_attempt(step) > 1 &&
                  sim_program_lives() < BRITTLE_LIVES;
    if (r == 0 && (of[SIM_ENDING] == SIM_FAILS || breaks)) {
        return cox_step_fail(step, 1, "it was to fail");
    }
    if (r == 0 && of[SIM_AFTER] != 0) {
        r = cox_step_flush(step);
        if (r == 0 && of[SIM_ENDING] == SIM_FAILS_FLUSHED) {
            return cox_step_fail(step, 1, "it was to fail after its flush");
        }
        if (r == 0 && !spend(step, of[SIM_WORK_US])) {
            return cox_step_fail(step, 2, "it is not wanted any more");
        }
        r = r != 0 ? r : add_segment(step, of, 1);
    }
    if (r == 0 && of[SIM_ENDING] == SIM_CRASHES && cox_step_attempt(step) == 1) {
        crash();
    }
    for (int i = 1; r == 0 && of[SIM_ROUND] >= 0 && i < 3; i++) {
        r = cox_step_return(step, &results[i]);
    }
    return r != 0 ? r : cox_step_return(step, &results[0]);
}

/* ---- the step of a task */

static int add_task(struct cox_step *step, const int64_t *of, uint32_t segment)
{
    int64_t mask = of[segment == 0 ? SIM_MASK : SIM_AFTER];
    int r = 0;
    for (uint32_t ps = 0; r == 0 && ps < SIM_PS_MAX; ps++) {
        if ((mask >> ps & 1) != 0) {
            r = add_to(step, "t", ps,
                       (uint64_t)of[SIM_NUMBER] * SIM_SEGMENTS + segment);
        }
    }
    return r;
}

static int count_task(struct cox_step *step)
{
    int64_t of[SIM_ARGUMENTS];
    uint32_t failures;
    sim_tasks_look(step, of, &failures);
    bool fails = of[SIM_ENDING] == SIM_FAILS ||
                 (of[SIM_ENDING] == SIM_FAILS_FIRST && failures == 0);
    if (!spend(step, of[SIM_WORK_US])) {
        return cox_step_fail(step, 2, "it is not wanted any more");
    }
    int r = add_task(step, of, 0);
    if (r == 0 && fails) {
        return cox_step_fail(step, 1, "it was to fail");
    }
    if (r == 0 && of[SIM_AFTER] != 0) {
        r = cox_step_flush(step);
        if (r == 0 && of[SIM_ENDING] == SIM_FAILS_FLUSHED) {
            return cox_step_fail(step, 1, "it was to fail after its flush");
        }
        r = r != 0 ? r : add_task(step, of, 1);
    }
    if (r == 0 && of[SIM_ENDING] == SIM_CRASHES && cox_step_attempt(step) == 1) {
        crash();
    }
    return r;
}

/* ---- the module */

static const struct {
    const char *name;
    int (*run)(struct cox_step *step);
} steps[] = {{"count", count}, {"count_task", count_task}};

enum { STEPS = sizeof(steps) / sizeof(*steps) };

void sim_steps_begin(void)
{
    sim_files_put(SIM_MODULE_PATH, "steps", 5);
}

int __wrap_coxi_module_inspect(const void *bytes, size_t len, const char *path,
                               struct coxi_module_info *ret)
{
    (void)bytes;
    (void)len;
    (void)path;
    ret->n_steps = STEPS;
    for (size_t i = 0; i < STEPS; i++) {
        (void)snprintf(ret->names[i], sizeof(ret->names[i]), "%s", steps[i].name);
    }
    return 0;
}

int coxi_module_load(const struct coxi_module_rules *rules,
                     const struct coxi_module *shipped, const void *bytes, size_t len,
                     struct coxi_loaded **ret)
{
    struct coxi_loaded *module = calloc(1, sizeof(*module));
    (void)rules;
    (void)len;
    if (bytes == NULL && sim_chance(2)) {
        free(module);
        return coxi_error(COX_ENOENT, "module %s is not here", shipped->name);
    }
    module->functions = calloc(STEPS, sizeof(*module->functions));
    module->n_functions = STEPS;
    for (size_t i = 0; i < STEPS; i++) {
        struct coxi_function *function = &module->functions[i];
        (void)snprintf(function->name, sizeof(function->name), "%s", steps[i].name);
        function->run = steps[i].run;
    }
    *ret = module;
    return 0;
}

void coxi_module_unload(struct coxi_loaded *module)
{
    if (module != NULL) {
        free(module->functions);
        free(module);
    }
}
