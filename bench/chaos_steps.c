/* The steps of a storm (chaos.c). The client plans each step, so it knows what the
 * steps must add up to. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <coxswain/step.h>

#include "bench/chaos.h"
#include "common/rand.h"

/* Not sanitized, so that the signal itself ends the process, and no sanitizer
 * reports. */
__attribute__((no_sanitize("address", "undefined"))) static void crash(int64_t how)
{
    int *volatile nowhere = NULL;
    (void)signal(SIGABRT, SIG_DFL);
    (void)signal(SIGSEGV, SIG_DFL);
    if (how == CHAOS_CRASH_ABORT) {
        abort();
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): on purpose */
    *(volatile int *)nowhere = 1;
}

static int64_t now_us(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void spend(int64_t us, bool busy)
{
    if (busy) {
        int64_t end = now_us() + us;
        while (now_us() < end) {
        }
        return;
    }
    struct timespec rest = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    (void)nanosleep(&rest, NULL);
}

/* Adds `more` to the counter of each ps in `mask`. */
static int add_each(struct cox_step *step, int64_t mask, int64_t more)
{
    int r = 0;
    for (int i = 0; r == 0 && i < CHAOS_PS_MAX; i++) {
        char name[16];
        struct cox_variable *counter;
        if ((mask >> i & 1) == 0) {
            continue;
        }
        (void)snprintf(name, sizeof(name), "c%d", i);
        r = cox_step_variable(step, name, &counter);
        if (r == 0) {
            r = cox_step_add(step, counter, &more);
        }
    }
    return r;
}

static int add(struct cox_step *step, int64_t mask)
{
    return add_each(step, mask, 1);
}

/* Adds 1 to the row of the step's number. */
static int add_row(struct cox_step *step, int64_t number)
{
    const float one = 1;
    const uint64_t key = (uint64_t)number % CHAOS_KEYS;
    struct cox_variable *table;
    int r = cox_step_variable(step, CHAOS_TABLE, &table);
    return r != 0 ? r
                  : cox_step_update(step, table, COX_UPDATE_ADD,
                                    cox_rows_listed(&key, 1), &one);
}

/* Sends a gradient for the row of the step's number; SGD with rate 1 adds 1. */
static int add_fading(struct cox_step *step, int64_t number)
{
    const float minus_one = -1;
    const uint64_t key = (uint64_t)number % CHAOS_FADING_KEYS;
    struct cox_variable *table;
    int r = cox_step_variable(step, CHAOS_FADING, &table);
    return r != 0 ? r : cox_step_push_rows(step, table, &key, 1, &minus_one);
}

/* ---- the resource */

/* What a worker keeps of the model. */
struct seen {
    int64_t floor;
    int64_t least;
};

static int make_seen(struct cox_step *step)
{
    const int64_t *floor = cox_step_scalar(step, "floor", COX_I64);
    int64_t values[CHAOS_MODEL_MAX];
    uint64_t shape[COX_RANK_MAX];
    uint32_t dtype;
    uint32_t rank;
    struct cox_pull pull = {.values = values};
    struct seen *seen = malloc(sizeof(*seen));
    if (floor == NULL || seen == NULL) {
        free(seen);
        return cox_step_fail(step, 1, "a resource needs a floor, and memory");
    }
    int r = cox_step_variable(step, CHAOS_MODEL_NAME, &pull.variable);
    if (r == 0) {
        r = cox_step_shape(step, pull.variable, &dtype, &rank, shape);
    }
    if (r == 0) {
        r = cox_step_pull(step, &pull, 1);
    }
    *seen = (struct seen){*floor, INT64_MAX};
    for (uint64_t i = 0; r == 0 && i < shape[0]; i++) {
        seen->least = values[i] < seen->least ? values[i] : seen->least;
    }
    if (r != 0) {
        free(seen);
        return r;
    }
    return cox_step_keep(step, seen, free);
}

/* Counts in one of two variables, depending on the resource; touches both in any
 * case. */
static int add_seen(struct cox_step *step, int64_t version)
{
    char name[32];
    void *kept = NULL;
    struct cox_variable *good;
    struct cox_variable *bad;
    (void)snprintf(name, sizeof(name), "seen-%lld", (long long)version);
    int r = cox_step_resource(step, name, &kept);
    const struct seen *seen = kept;
    const int64_t is_good = r == 0 && seen->least >= seen->floor;
    const int64_t is_bad = 1 - is_good;
    r = r != 0 ? r : cox_step_variable(step, CHAOS_GOOD, &good);
    r = r != 0 ? r : cox_step_variable(step, CHAOS_BAD, &bad);
    r = r != 0 ? r : cox_step_add(step, good, &is_good);
    return r != 0 ? r : cox_step_add(step, bad, &is_bad);
}

/* ---- the steps */

/* Checks that the taken argument is what that step has returned. If the client does not
 * have the result any more, it passes no argument. */
static int check_taken(struct cox_step *step, int64_t from)
{
    const struct cox_value *taken = cox_step_argument(step, "taken");
    int64_t number = -1;
    if (taken == NULL) {
        return 0;
    }
    if (taken->dtype == COX_I64 && taken->rank == 0) {
        memcpy(&number, taken->data, sizeof(number));
    }
    return number == from ? 0
                          : cox_step_fail(step, 2, "it took %lld, not %lld",
                                          (long long)number, (long long)from);
}

/* In a round: checks that it sees what it must of earlier rounds, and sends its
 * gradients. */
static int add_round(struct cox_step *step, int64_t n_ps, int64_t least)
{
    static const float minus_one[2] = {-1, -1};
    struct cox_variable *sums[CHAOS_PS_MAX];
    struct cox_pull pulls[CHAOS_PS_MAX] = {0};
    float seen[CHAOS_PS_MAX][2];
    int r = 0;
    for (int64_t i = 0; r == 0 && i < n_ps; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), CHAOS_ROUNDS "%d", (int)i);
        r = cox_step_variable(step, name, &sums[i]);
        pulls[i] = (struct cox_pull){.variable = sums[i], .values = seen[i]};
    }
    r = r != 0 ? r : cox_step_pull(step, pulls, (size_t)n_ps);
    for (int64_t i = 0; r == 0 && i < n_ps; i++) {
        if (seen[i][0] < (float)least || seen[i][1] < (float)least) {
            r = cox_step_fail(step, 3, "on ps %d it sees %g and %g, but at least %lld",
                              (int)i, (double)seen[i][0], (double)seen[i][1],
                              (long long)least);
        }
        r = r != 0 ? r : cox_step_push(step, sums[i], minus_one);
    }
    return r;
}

/* With --deterministic: the next number of the step, from 0 to 1. */
static float draw(uint64_t *state)
{
    return (float)coxi_rand_unit(state);
}

/* Turns pulled values into gradients. */
static void differentiate(float *values, size_t n, float all, uint64_t *state)
{
    for (size_t i = 0; i < n; i++) {
        values[i] = values[i] * 0.5F + all / 32 - draw(state);
    }
}

/* Trains the model of --deterministic. */
static int learn(struct cox_step *step)
{
    enum { NUMBERS = CHAOS_EXACT_LISTED * CHAOS_EXACT_DIM };
    enum { SHARE = CHAOS_EXACT_KEYS / CHAOS_EXACT_LISTED };
    uint64_t state = cox_step_seed(step);
    uint64_t keys[CHAOS_EXACT_LISTED];
    float dense[CHAOS_EXACT_WEIGHTS];
    float rows[NUMBERS];
    float all = 0;
    struct cox_variable *model;
    struct cox_variable *table;
    for (uint64_t i = 0; i < CHAOS_EXACT_LISTED; i++) {
        keys[i] = i * SHARE + coxi_rand(&state) % SHARE;
    }
    int r = cox_step_variable(step, CHAOS_EXACT, &model);
    r = r != 0 ? r : cox_step_variable(step, CHAOS_EXACT_ROWS, &table);
    if (r == 0) {
        const struct cox_pull pulls[] = {
            {model, cox_rows_all(), dense, 0},
            {table, cox_rows_listed(keys, CHAOS_EXACT_LISTED), rows, 0}};
        r = cox_step_pull(step, pulls, 2);
    }
    if (r != 0) {
        return r;
    }
    for (size_t i = 0; i < CHAOS_EXACT_WEIGHTS; i++) {
        all += dense[i] * draw(&state);
    }
    for (size_t i = 0; i < NUMBERS; i++) {
        all += rows[i] * draw(&state);
    }
    differentiate(dense, CHAOS_EXACT_WEIGHTS, all, &state);
    differentiate(rows, NUMBERS, -all, &state);
    r = cox_step_push(step, model, dense);
    return r != 0 ? r : cox_step_push_rows(step, table, keys, CHAOS_EXACT_LISTED, rows);
}

/* Counts as planned, after some time; the first attempt may take longer, or crash. */
static int count(struct cox_step *step)
{
    const struct cox_value *plan = cox_step_argument(step, "plan");
    if (plan == NULL || plan->dtype != COX_I64 || plan->rank != 1 ||
        plan->shape[0] != CHAOS_PLAN) {
        const struct cox_value *all = NULL;
        size_t n = cox_step_arguments(step, &all);
        return cox_step_fail(step, 1,
                             "attempt %u needs a plan of %d numbers; it has %zu "
                             "arguments, the first is '%s'",
                             (unsigned)cox_step_attempt(step), CHAOS_PLAN, n,
                             n > 0 ? all[0].name : "");
    }
    const int64_t *of = plan->data;
    int64_t us = of[CHAOS_FLUSH] != 0 ? of[CHAOS_US] / 2 : of[CHAOS_US];
    spend(us, of[CHAOS_BUSY] != 0);
    if (cox_step_attempt(step) == 1) {
        spend(of[CHAOS_STRAGGLE_US], false);
    }
    int r = of[CHAOS_TAKES] != 0 ? check_taken(step, of[CHAOS_TAKES]) : 0;
    r = r != 0 || of[CHAOS_ROUND_PS] == 0
            ? r
            : add_round(step, of[CHAOS_ROUND_PS], of[CHAOS_ROUND_LEAST]);
    r = r != 0 || of[CHAOS_LEARNS] == 0 ? r : learn(step);
    r = r != 0 ? r : add(step, of[CHAOS_MASK]);
    r = r != 0 ? r : add_row(step, of[CHAOS_NUMBER]);
    r = r != 0 || of[CHAOS_FADES] == 0 ? r : add_fading(step, of[CHAOS_NUMBER]);
    r = r != 0 || of[CHAOS_RESOURCE] == 0 ? r : add_seen(step, of[CHAOS_RESOURCE] - 1);
    if (r == 0 && of[CHAOS_FLUSH] != 0) {
        r = cox_step_flush(step);
        spend(us, of[CHAOS_BUSY] != 0);
        r = r != 0 ? r : add(step, of[CHAOS_AFTER]);
    }
    if (r == 0 && of[CHAOS_CRASH] != 0 && cox_step_attempt(step) == 1) {
        crash(of[CHAOS_CRASH]);
    }
    return r;
}

/* Counts, and returns the number of the step. */
static int count_and_return(struct cox_step *step)
{
    int r = count(step);
    if (r != 0) {
        return r;
    }
    const int64_t *of = cox_step_argument(step, "plan")->data;
    const struct cox_value number = COX_SCALAR("number", COX_I64, &of[CHAOS_NUMBER]);
    return cox_step_return(step, &number);
}

/* ---- records */

enum { STRAGGLE_US = 150000, STRAGGLES = 16 };

/* A number that is the same in each attempt of a batch. */
static uint64_t draw_of(const struct cox_batch *batch, uint64_t key, int64_t seed)
{
    uint64_t state = (uint64_t)seed + batch->epoch * UINT64_C(0x9e3779b97f4a7c15) + key;
    return coxi_rand(&state);
}

/* The first record's number, which is its key in libsvm and its bytes in RecordIO. */
static uint64_t *keys_of(const struct cox_batch *batch)
{
    uint64_t *keys = malloc((size_t)batch->n * sizeof(*keys));
    for (uint64_t i = 0; keys != NULL && i < batch->n; i++) {
        memcpy(&keys[i],
               batch->keys != NULL ? (const void *)&batch->keys[i]
                                   : batch->bytes[i].data,
               sizeof(*keys));
    }
    return keys;
}

/* Adds 1 to the row of each record, and the number of records to each counter. */
static int visit_rows(struct cox_step *step, const uint64_t *keys, uint64_t n,
                      int64_t n_ps)
{
    const int64_t more = (int64_t)n;
    struct cox_variable *table;
    float *ones = malloc((size_t)n * sizeof(*ones));
    if (ones == NULL) {
        return cox_step_fail(step, 1, "no memory for a batch");
    }
    for (uint64_t i = 0; i < n; i++) {
        ones[i] = 1;
    }
    int r = cox_step_variable(step, CHAOS_VISITED, &table);
    if (r == 0) {
        r = cox_step_update(step, table, COX_UPDATE_ADD, cox_rows_listed(keys, n),
                            ones);
    }
    free(ones);
    return r != 0 ? r : add_each(step, ((int64_t)1 << n_ps) - 1, more);
}

static int visit_batch(struct cox_step *step, const struct cox_batch *batch,
                       const int64_t *of)
{
    uint64_t *keys = keys_of(batch);
    if (keys == NULL) {
        return cox_step_fail(step, 1, "no memory for a batch");
    }
    uint64_t draw = draw_of(batch, keys[0], of[CHAOS_VISIT_SEED]);
    bool is_first = cox_step_attempt(step) == 1;
    bool crashes =
        is_first && (int64_t)(draw % CHAOS_VISIT_MILLION) < of[CHAOS_VISIT_CRASHES];
    spend((int64_t)(draw >> 32) % (2 * of[CHAOS_VISIT_US] + 1), draw % 4 == 0);
    if (is_first && of[CHAOS_VISIT_STRAGGLES] != 0 && (draw >> 40) % STRAGGLES == 0) {
        spend(STRAGGLE_US, false);
    }
    int r = visit_rows(step, keys, batch->n, of[CHAOS_VISIT_PS]);
    free(keys);
    if (r == 0 && crashes && (draw & 1 << 20) != 0) {
        crash(CHAOS_CRASH_ABORT);
    }
    if (r == 0 && of[CHAOS_VISIT_SEGMENTS] != 0) {
        r = cox_step_flush(step);
    }
    if (r == 0 && crashes) {
        crash(CHAOS_CRASH_NULL);
    }
    return r;
}

/* Takes the records of a task. */
static int visit(struct cox_step *step)
{
    const struct cox_value *plan = cox_step_argument(step, "plan");
    struct cox_batch batch = COX_BATCH_INIT;
    int r;
    if (plan == NULL || plan->dtype != COX_I64 || plan->rank != 1 ||
        plan->shape[0] != CHAOS_VISIT) {
        return cox_step_fail(step, 1, "it needs a plan of %d numbers", CHAOS_VISIT);
    }
    while ((r = cox_step_batch(step, &batch)) == 0) {
        r = visit_batch(step, &batch, plan->data);
        if (r != 0) {
            return r;
        }
    }
    return r == COX_EEOF ? 0 : r;
}

COX_STEPS(COX_STEP("count", count), COX_STEP("visit", visit),
          COX_STEP("count_and_return", count_and_return),
          COX_STEP("make_seen", make_seen));
