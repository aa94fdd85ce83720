/*
 * Local steps: a step has copies of rows, applies gradients to them with the variable's
 * own rule (common/optimizer.h), and pushes by how much they have changed.
 *
 * A copy has a row's values as they were pulled, its values now, and the state of its
 * rule, which begins as that of a new variable. The ps keep their own state; nobody
 * pulls it. Copies live until they are pushed or the step returns, and no longer: what
 * a closure pushes must be the same work in each of its attempts, on any worker.
 *
 * Which rows are pushed depends on the rows of the local steps, not on whether their
 * values have changed, because what a step touches must not depend on pulled values.
 *
 * Threads: a slot. Cost: a hash for each listed row of a call, and the rule; beside the
 * values and their state, a byte and the place of each row.
 */
#include "worker/local.h"

#include <math.h>
#include <string.h>

#include "common/error.h"
#include "common/floats.h"
#include "common/optimizer.h"
#include "schema/check.h"
#include "worker/pull.h"
#include "worker/push.h"

/* The columns of a copy. The state of a dense variable has a column for each slot, and
 * one for numbers of rows; that of a table has one column, in the order of the layout
 * (coxi_optimizer_row). */
enum { NOW, PULLED, STEPPED, STATE };
_Static_assert(STATE + COXI_STATES_MAX <= COXI_ROW_COLUMNS_MAX,
               "all states have a column");

struct copy {
    struct coxi_row_store rows; /* must be the first member */
    struct coxi_optimizer optimizer;
    struct coxi_state_layout layout;
    uint32_t flags;   /* of the pull that makes it whole */
    size_t n_pulled;  /* rows that have their values */
    size_t n_stepped; /* rows that a local step has changed */
    uint64_t n_steps;
};

static struct copy *copy_of(struct coxi_row_store *rows)
{
    return (struct copy *)rows;
}

static bool is_table(const struct copy *copy)
{
    return copy->rows.variable->description->kind == COXI_KIND_TABLE;
}

static size_t numbers_of(const struct copy *copy)
{
    size_t numbers = copy->rows.widths[NOW] / sizeof(float);
    COXI_CHECK(numbers > 0);
    return numbers;
}

/* ---- a copy begins */

static int check_rule(const struct coxi_variable *v)
{
    switch ((enum coxi_optimizer_kind)v->optimizer.kind) {
    case COXI_OPTIMIZER_NONE:
    case COXI_OPTIMIZER_LOSS_SCALE:
    case COXI_OPTIMIZER_END:
        return coxi_error(COX_EINVAL, "'%s' takes no local steps: it is %s", v->name,
                          coxi_optimizer_name(&v->optimizer));
    case COXI_OPTIMIZER_FTRL:
        return coxi_error(COX_EINVAL,
                          "'%s' takes no local steps: FTRL computes its values from "
                          "state that only the ps have",
                          v->name);
    case COXI_OPTIMIZER_SGD:
    case COXI_OPTIMIZER_ADAGRAD:
    case COXI_OPTIMIZER_MOMENTUM:
    case COXI_OPTIMIZER_NESTEROV:
    case COXI_OPTIMIZER_ROWWISE_ADAGRAD:
    case COXI_OPTIMIZER_ADADELTA:
    case COXI_OPTIMIZER_RMSPROP:
    case COXI_OPTIMIZER_ADAM:
    case COXI_OPTIMIZER_ADAMW:
        break;
    }
    return 0;
}

static void set_columns(struct copy *copy)
{
    struct coxi_row_store *rows = &copy->rows;
    const struct coxi_state_layout *layout = &copy->layout;
    size_t row_bytes = rows->variable->row_bytes;
    rows->widths[NOW] = row_bytes;
    rows->widths[PULLED] = row_bytes;
    rows->widths[STEPPED] = 1;
    rows->n_columns = STATE;
    if (is_table(copy)) {
        rows->widths[STATE] =
            layout->n_slots * row_bytes + layout->n_row * sizeof(float);
        rows->n_columns += rows->widths[STATE] > 0 ? 1 : 0;
        return;
    }
    for (size_t s = 0; s < layout->n_slots + layout->n_row; s++) {
        rows->widths[rows->n_columns++] =
            s < layout->n_slots ? row_bytes : sizeof(float);
    }
}

static int copy_new(struct coxi_attempt *attempt, const struct cox_pull *pull,
                    struct copy **ret)
{
    const struct coxi_variable *v = pull->variable->description;
    struct coxi_row_store *rows = NULL;
    int r = check_rule(v);
    if (r == 0) {
        r = coxi_row_stores_take(&attempt->scratch->copies, sizeof(struct copy),
                                 pull->variable, &rows);
    }
    if (r != 0) {
        return r;
    }
    struct copy *copy = copy_of(rows);
    copy->optimizer = v->optimizer;
    copy->layout = coxi_optimizer_layout(v);
    copy->flags = pull->flags;
    copy->n_pulled = copy->n_stepped = 0;
    copy->n_steps = 0;
    set_columns(copy);
    *ret = copy;
    return 0;
}

static float *fill(float *at, size_t n, float number)
{
    for (size_t i = 0; i < n; i++) {
        at[i] = number;
    }
    return at + n;
}

/* Sets the state of the rows from `place` on as that of new rows. */
static void start_state(struct copy *copy, size_t place)
{
    const struct coxi_state_layout *layout = &copy->layout;
    size_t n = copy->rows.n - place;
    size_t numbers = numbers_of(copy);
    size_t n_states = layout->n_slots + layout->n_row;
    if (!is_table(copy)) {
        for (uint32_t s = 0; s < n_states; s++) {
            (void)fill(coxi_row_at(&copy->rows, STATE + s, place),
                       n * (s < layout->n_slots ? numbers : 1),
                       layout->states[s].start);
        }
        return;
    }
    float *at = n_states > 0 ? coxi_row_at(&copy->rows, STATE, place) : NULL;
    for (size_t i = 0; n_states > 0 && i < n; i++) {
        for (size_t s = 0; s < n_states; s++) {
            at = fill(at, s < layout->n_slots ? numbers : 1, layout->states[s].start);
        }
    }
}

/* ---- pulls */

/* A pull of a call: its copy, and the places of its rows there. */
struct call {
    struct copy *copy;
    struct coxi_row_places places;
};

/* Finds the rows of a pull in the copy of its variable; new ones join. */
static int join(struct coxi_attempt *attempt, const struct cox_pull *pull,
                struct call *ret)
{
    struct coxi_scratch *scratch = attempt->scratch;
    struct copy *copy = copy_of(coxi_row_stores_find(&scratch->copies, pull->variable));
    int r = copy == NULL ? copy_new(attempt, pull, &copy) : 0;
    if (r == 0) {
        ret->copy = copy;
        r = coxi_row_store_add(&copy->rows, &pull->rows, &scratch->budget,
                               &scratch->row_work, &ret->places);
    }
    return r;
}

/* The pull of the rows of a copy that have no values yet. */
static struct cox_pull missing(const struct copy *copy)
{
    return (struct cox_pull){
        .variable = copy->rows.variable,
        .rows = coxi_row_store_rows(&copy->rows, copy->n_pulled,
                                    copy->rows.n - copy->n_pulled),
        .values = coxi_row_at(&copy->rows, NOW, copy->n_pulled),
        .flags = copy->rows.whole ? copy->flags : 0,
    };
}

/* The rows that a pull has brought are in the copy from now on. */
static void arrived(struct copy *copy)
{
    struct coxi_row_store *rows = &copy->rows;
    size_t from = copy->n_pulled;
    size_t n = rows->n - from;
    if (n > 0) {
        memcpy(coxi_row_at(rows, PULLED, from), coxi_row_at(rows, NOW, from),
               n * rows->widths[NOW]);
        memset(coxi_row_at(rows, STEPPED, from), 0, n);
        start_state(copy, from);
        copy->n_pulled = rows->n;
    }
}

/* Pulls what the copies lack, in one round trip. */
static int pull_missing(struct coxi_attempt *attempt)
{
    struct coxi_scratch *scratch = attempt->scratch;
    struct coxi_buffer *pulls = &scratch->local_pulls;
    struct coxi_fetch *fetch = NULL;
    int r = 0;
    pulls->len = 0;
    for (struct coxi_row_store *rows = scratch->copies.first;
         r == 0 && rows != NULL && rows->variable != NULL; rows = rows->next) {
        if (rows->n > copy_of(rows)->n_pulled) {
            const struct cox_pull pull = missing(copy_of(rows));
            r = coxi_buffer_append_raw(pulls, &pull, sizeof(pull));
        }
    }
    size_t n = pulls->len / sizeof(struct cox_pull);
    if (r != 0 || n == 0) {
        return r != 0 ? r : coxi_attempt_check(attempt);
    }
    r = coxi_pull_begin(attempt, (const struct cox_pull *)(void *)pulls->data, n, true,
                        &fetch);
    r = r == 0 ? coxi_pull_wait(attempt, fetch) : r;
    for (struct coxi_row_store *rows = scratch->copies.first;
         r == 0 && rows != NULL && rows->variable != NULL; rows = rows->next) {
        arrived(copy_of(rows));
    }
    return r;
}

/* Copies the values of a call's rows to the step. */
static void deliver(const struct coxi_scratch *scratch, const struct call *call,
                    uint8_t *to)
{
    const struct coxi_row_store *rows = &call->copy->rows;
    const struct coxi_row_places *places = &call->places;
    size_t bytes = rows->widths[NOW];
    if (places->run && places->n > 0) {
        memcpy(to, coxi_row_at(rows, NOW, places->first), places->n * bytes);
        return;
    }
    for (size_t i = 0; i < places->n; i++, to += bytes) {
        size_t place = coxi_row_place(places, &scratch->row_work, i);
        memcpy(to, coxi_row_at(rows, NOW, place), bytes);
    }
}

int coxi_local_pull(struct coxi_attempt *attempt, const struct cox_pull *pulls,
                    size_t n_pulls)
{
    struct coxi_scratch *scratch = attempt->scratch;
    struct coxi_buffer *calls = &scratch->local_calls;
    int r = 0;
    scratch->row_work.list.len = calls->len = 0;
    for (size_t i = 0; r == 0 && i < n_pulls; i++) {
        struct call call = {NULL};
        r = coxi_pull_check(&pulls[i]);
        r = r == 0 ? join(attempt, &pulls[i], &call) : r;
        r = r == 0 ? coxi_buffer_append_raw(calls, &call, sizeof(call)) : r;
    }
    r = r == 0 ? pull_missing(attempt) : r;
    for (size_t i = 0; r == 0 && i < n_pulls; i++) {
        deliver(scratch, &((const struct call *)(void *)calls->data)[i],
                pulls[i].values);
    }
    return r;
}

/* ---- local steps */

static int find_copy(const struct coxi_attempt *attempt,
                     const struct cox_variable *variable, struct copy **ret)
{
    *ret = copy_of(coxi_row_stores_find(&attempt->scratch->copies, variable));
    return *ret != NULL ? 0
                        : coxi_error(COX_EINVAL,
                                     "there is no local copy of '%s': call "
                                     "cox_local_pull first",
                                     variable->name);
}

int coxi_local_rate(struct coxi_attempt *attempt, struct cox_variable *variable,
                    float learning_rate)
{
    const struct coxi_rate rate = {{(double)learning_rate}}; /* and no schedule */
    struct copy *copy = NULL;
    int r = find_copy(attempt, variable, &copy);
    r = r == 0 ? coxi_rate_set(&copy->optimizer, &rate) : r;
    return r;
}

/* The name of row `i` of a call. */
static uint64_t row_name(const struct cox_rows *rows, size_t i)
{
    return rows->form == COX_ROWS_LISTED  ? rows->keys[i]
           : rows->form == COX_ROWS_SLICE ? rows->begin + i
                                          : i;
}

/* COX_ENONFINITE if one of n numbers of `rows` is not below `limit`, and the variable
 * rejects that. `what` they are is for the text. */
static int check_numbers(const struct coxi_attempt *attempt, const struct copy *copy,
                         const struct cox_rows *rows, const float *numbers, size_t n,
                         float limit, const char *what)
{
    const struct coxi_variable *v = copy->rows.variable->description;
    size_t bad = v->nonfinite == COXI_NONFINITE_REJECT
                     ? coxi_floats_beyond(COX_F32, numbers, n, limit)
                     : n;
    return bad == n
               ? 0
               : coxi_error(COX_ENONFINITE,
                            "step '%s': %s of %s '%s', %s %llu, is %g%s",
                            attempt->function->name, what,
                            is_table(copy) ? "table" : "variable", v->name,
                            is_table(copy) ? "key" : "row",
                            (unsigned long long)row_name(rows, bad / numbers_of(copy)),
                            (double)numbers[bad],
                            isfinite(numbers[bad])
                                ? ", which the state of its rule does not take"
                                : "");
}

/* Applies the gradient of the row of a dense variable, or of `n` of them that have no
 * number for a whole row. */
static void step_dense(const struct copy *copy, const struct coxi_optimizer_step *step,
                       size_t place, size_t n, const float *g)
{
    const struct coxi_row_store *rows = &copy->rows;
    struct coxi_optimizer_step row = *step;
    float *slots[COXI_SLOTS_MAX] = {NULL};
    float *w = coxi_row_at(rows, NOW, place);
    uint32_t n_slots = (uint32_t)copy->layout.n_slots;
    size_t numbers = n * numbers_of(copy);
    for (uint32_t s = 0; s < n_slots; s++) {
        slots[s] = coxi_row_at(rows, STATE + s, place);
    }
    if (copy->layout.n_row > 0) {
        row =
            coxi_optimizer_row_step(step, coxi_optimizer_squares(step, w, g, numbers),
                                    numbers, coxi_row_at(rows, STATE + n_slots, place));
    }
    coxi_optimizer_apply(&row, w, slots, g, numbers);
}

static void step_row(const struct copy *copy, const struct coxi_optimizer_step *step,
                     size_t place, const float *g)
{
    const struct coxi_row_store *rows = &copy->rows;
    if (is_table(copy)) {
        coxi_optimizer_row(step, coxi_row_at(rows, NOW, place),
                           rows->n_columns > STATE ? coxi_row_at(rows, STATE, place)
                                                   : NULL,
                           g, numbers_of(copy));
    } else {
        step_dense(copy, step, place, 1, g);
    }
}

static void note_stepped(struct copy *copy, size_t place)
{
    uint8_t *stepped = coxi_row_at(&copy->rows, STEPPED, place);
    copy->n_stepped += *stepped == 0 ? 1 : 0;
    *stepped = 1;
}

/* One step of the rule, on rows that are all different. */
static void apply(const struct coxi_attempt *attempt, struct copy *copy,
                  const struct coxi_row_places *places, const float *gradient)
{
    struct coxi_optimizer_step step;
    size_t numbers = numbers_of(copy);
    coxi_optimizer_begin(&copy->optimizer, attempt->rate_step, copy->n_steps++, &step);
    if (!is_table(copy)) {
        coxi_optimizer_clip(&step,
                            coxi_optimizer_norm(&step, gradient, places->n * numbers));
    }
    bool at_once = places->run && !is_table(copy) && copy->layout.n_row == 0;
    if (at_once) {
        step_dense(copy, &step, places->first, places->n, gradient);
    }
    for (size_t i = 0; i < places->n; i++) {
        size_t place = coxi_row_place(places, &attempt->scratch->row_work, i);
        if (!at_once) {
            step_row(copy, &step, place, gradient + i * numbers);
        }
        note_stepped(copy, place);
    }
}

/* Like coxi_local_step, for rows that are all different. */
static int step_rows(struct coxi_attempt *attempt, struct copy *copy,
                     const struct cox_rows *rows, const float *gradient)
{
    const struct cox_variable *variable = copy->rows.variable;
    const struct coxi_variable *v = variable->description;
    size_t n = rows->form == COX_ROWS_ALL ? coxi_variable_rows(v) : rows->n;
    struct coxi_row_places places;
    if (n == 0) {
        return 0;
    }
    int r = check_numbers(attempt, copy, rows, gradient, n * numbers_of(copy),
                          variable->gradient_limit, "the gradient of a local step");
    if (r == 0) {
        r = coxi_row_store_find(&copy->rows, rows, &attempt->scratch->row_work,
                                &places);
        r = r != COX_ENOENT ? r
                            : coxi_error(COX_EINVAL,
                                         "%s is not in the step's local copy: "
                                         "cox_local_pull it before its local step",
                                         coxi_error_text());
    }
    if (r == 0) {
        apply(attempt, copy, &places, gradient);
    }
    return r;
}

/* Adds up the gradients of rows that are listed more than once. */
static int merge(struct coxi_attempt *attempt, const struct copy *copy,
                 const struct cox_rows *rows, const float *gradient,
                 struct coxi_row_store **ret)
{
    struct coxi_scratch *scratch = attempt->scratch;
    struct coxi_row_budget none = {0,
                                   SIZE_MAX}; /* no longer than the step's own list */
    int r =
        coxi_row_stores_take(&scratch->merged, sizeof(**ret), copy->rows.variable, ret);
    if (r != 0) {
        return r;
    }
    (*ret)->n_columns = 1;
    (*ret)->widths[0] = copy->rows.widths[NOW];
    return coxi_row_store_merge(*ret, rows, gradient, &none, &scratch->row_work);
}

int coxi_local_step(struct coxi_attempt *attempt, struct cox_variable *variable,
                    const struct cox_rows *rows, const float *gradient)
{
    struct coxi_scratch *scratch = attempt->scratch;
    struct coxi_row_store *merged = NULL;
    struct copy *copy = NULL;
    int r = coxi_push_check(variable->description, COXI_OP_GRADIENT, rows, gradient);
    if (r == 0 && attempt->scale != NULL) {
        r = coxi_error(COX_EINVAL,
                       "cox_local_step takes gradients that no loss scale multiplies: "
                       "this step has asked for '%s'",
                       attempt->scale->name);
    }
    r = r == 0 ? find_copy(attempt, variable, &copy) : r;
    if (r != 0) {
        return r;
    }
    scratch->row_work.list.len = 0;
    if (rows->form != COX_ROWS_LISTED) {
        return step_rows(attempt, copy, rows, gradient);
    }
    r = merge(attempt, copy, rows, gradient, &merged);
    if (r == 0 && merged->n > 0) {
        const struct cox_rows distinct = coxi_row_store_rows(merged, 0, merged->n);
        r = step_rows(attempt, copy, &distinct, coxi_row_at(merged, 0, 0));
    }
    coxi_row_stores_reset(&scratch->merged, scratch->budget.bytes_max);
    return r;
}

/* ---- the difference */

/* Moves the rows that were stepped together, at the beginning of the copy, and lists
 * them in `keys`. Their places are not found any more. */
static int move_together(struct copy *copy, struct coxi_buffer *keys,
                         struct cox_rows *ret)
{
    struct coxi_row_store *rows = &copy->rows;
    size_t n = 0;
    keys->len = 0;
    int r = coxi_buffer_reserve(keys, copy->n_stepped * sizeof(uint64_t));
    uint64_t *list = (uint64_t *)(void *)keys->data;
    for (size_t i = 0; r == 0 && i < rows->n; i++) {
        if (*(const uint8_t *)coxi_row_at(rows, STEPPED, i) == 0) {
            continue;
        }
        list[n] = rows->whole ? i : ((const uint64_t *)(void *)rows->keys.data)[i];
        for (uint32_t c = NOW; n < i && c <= PULLED; c++) {
            memcpy(coxi_row_at(rows, c, n), coxi_row_at(rows, c, i), rows->widths[c]);
        }
        n++;
    }
    *ret = coxi_rows_shortest(rows->variable->description, list, n);
    return r;
}

static int push_difference(struct coxi_attempt *attempt, struct copy *copy, float scale)
{
    size_t n = copy->n_stepped * numbers_of(copy);
    struct cox_rows rows = coxi_row_store_rows(&copy->rows, 0, copy->rows.n);
    int r = copy->n_stepped < copy->rows.n
                ? move_together(copy, &attempt->scratch->row_work.numbers, &rows)
                : 0;
    const float *now = coxi_row_at(&copy->rows, NOW, 0);
    float *differences = coxi_row_at(&copy->rows, PULLED, 0);
    for (size_t i = 0; r == 0 && i < n; i++) {
        differences[i] = scale * (now[i] - differences[i]);
    }
    if (r != 0) {
        return r;
    }
    r = check_numbers(attempt, copy, &rows, differences, n, INFINITY,
                      "the difference by local steps");
    return r == 0 ? coxi_push_now(attempt, copy->rows.variable, COXI_OP_ADD, &rows,
                                  differences)
                  : r;
}

int coxi_local_push(struct coxi_attempt *attempt, float scale)
{
    struct coxi_scratch *scratch = attempt->scratch;
    int r = isfinite(scale)
                ? 0
                : coxi_error(COX_EINVAL, "differences times %g: give a finite number",
                             (double)scale);
    for (struct coxi_row_store *rows = scratch->copies.first;
         r == 0 && rows != NULL && rows->variable != NULL; rows = rows->next) {
        r = copy_of(rows)->n_stepped > 0
                ? push_difference(attempt, copy_of(rows), scale)
                : 0;
        scratch->budget.bytes -= coxi_row_store_bytes(rows);
    }
    coxi_row_stores_reset(&scratch->copies, scratch->budget.bytes_max);
    return r;
}

int coxi_local_end(const struct coxi_attempt *attempt)
{
    for (struct coxi_row_store *rows = attempt->scratch->copies.first;
         rows != NULL && rows->variable != NULL; rows = rows->next) {
        if (copy_of(rows)->n_stepped > 0) {
            return coxi_error(
                COX_EINVAL,
                "step '%s' made %llu local steps of '%s' and did not push "
                "them: call cox_local_push before it returns",
                attempt->function->name, (unsigned long long)copy_of(rows)->n_steps,
                rows->variable->name);
        }
    }
    return 0;
}
