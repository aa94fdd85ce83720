/*
 * Random updates and pulls of a dense variable in all forms, compared with a plain
 * array that gets the same updates: the number of shards must make no difference.
 *
 * The numbers are such that F32 holds all of them exactly.
 */
#include <stdint.h>
#include <string.h>

#include <coxswain/step.h>

enum { ROWS = 40, COLUMNS = 3, LIST_MAX = 60 };

struct walk {
    uint64_t rng;
    float model[ROWS][COLUMNS];
    uint64_t list[LIST_MAX]; /* of the call being made */
    struct cox_rows rows;
    size_t n_rows;
};

static uint64_t draw(struct walk *walk, uint64_t below)
{
    walk->rng ^= walk->rng << 13;
    walk->rng ^= walk->rng >> 7;
    walk->rng ^= walk->rng << 17;
    return walk->rng % below;
}

static void choose_rows(struct walk *walk)
{
    uint64_t begin = draw(walk, ROWS + 1);
    switch (draw(walk, 3)) {
    case 0:
        walk->rows = cox_rows_all();
        walk->n_rows = ROWS;
        break;
    case 1:
        walk->n_rows = (size_t)draw(walk, ROWS - begin + 1);
        walk->rows = cox_rows_slice(begin, walk->n_rows);
        break;
    default:
        walk->n_rows = (size_t)draw(walk, LIST_MAX + 1);
        for (size_t i = 0; i < walk->n_rows; i++) {
            walk->list[i] = draw(walk, ROWS);
        }
        walk->rows = cox_rows_listed(walk->list, walk->n_rows);
        break;
    }
}

/* The i-th of the rows, as the model has it. */
static float *model_row(struct walk *walk, size_t i)
{
    uint64_t row = walk->rows.form == COX_ROWS_LISTED  ? walk->list[i]
                   : walk->rows.form == COX_ROWS_SLICE ? walk->rows.begin + i
                                                       : i;
    return walk->model[row];
}

static float updated(float value, enum cox_update op, float by)
{
    switch (op) {
    case COX_UPDATE_GRADIENT:
        return value - 0.5F * by; /* SGD at that rate */
    case COX_UPDATE_ADD:
        return value + by;
    case COX_UPDATE_ASSIGN:
        break;
    case COX_UPDATE_MIN:
        return by < value ? by : value;
    case COX_UPDATE_MAX:
        return by > value ? by : value;
    }
    return by;
}

static int update(struct cox_step *step, struct walk *walk,
                  struct cox_variable *variable)
{
    float values[LIST_MAX][COLUMNS];
    enum cox_update op = (enum cox_update)draw(walk, 5);
    choose_rows(walk);
    for (size_t i = 0; i < walk->n_rows; i++) {
        float *row = model_row(walk, i);
        for (size_t c = 0; c < COLUMNS; c++) {
            values[i][c] = (float)draw(walk, 201) - 100;
            row[c] = updated(row[c], op, values[i][c]);
        }
    }
    return cox_step_update(step, variable, op, walk->rows, values);
}

static int compare(struct cox_step *step, struct walk *walk,
                   struct cox_variable *variable)
{
    float values[LIST_MAX + 1][COLUMNS];
    choose_rows(walk);
    memset(values, 0x7f, sizeof(values));
    float untouched = values[LIST_MAX][0];
    struct cox_pull pull = {variable, walk->rows, values, 0};
    int r = cox_step_pull(step, &pull, 1);
    for (size_t i = 0; r == 0 && i < walk->n_rows; i++) {
        if (memcmp(values[i], model_row(walk, i), sizeof(values[i])) != 0) {
            r = cox_step_fail(step, 1, "row %zu of %zu, form %u: %g, not %g", i,
                              walk->n_rows, walk->rows.form, (double)values[i][0],
                              (double)model_row(walk, i)[0]);
        }
    }
    for (size_t i = walk->n_rows; r == 0 && i <= LIST_MAX; i++) {
        if (values[i][0] != untouched) {
            r = cox_step_fail(step, 1, "row %zu of %zu was written to", i,
                              walk->n_rows);
        }
    }
    return r;
}

/* Compares `rounds` times, each time after some random updates. The variable must be
 * all zeros at first; `seed` must not be 0. */
static int walk(struct cox_step *step)
{
    struct walk w = {.rng = *(const uint64_t *)cox_step_scalar(step, "seed", COX_I64)};
    int64_t rounds = *(const int64_t *)cox_step_scalar(step, "rounds", COX_I64);
    struct cox_variable *variable;
    int r = cox_step_variable(step, "walked", &variable);
    for (int64_t i = 0; r == 0 && i < rounds; i++) {
        for (uint64_t n = draw(&w, 4); r == 0 && n > 0; n--) {
            r = update(step, &w, variable);
        }
        r = r != 0 ? r : cox_step_flush(step);
        r = r != 0 ? r : compare(step, &w, variable);
    }
    return r;
}

COX_STEPS(COX_STEP("walk", walk));
