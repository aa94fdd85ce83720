/* Steps that push gradients of ones, whose staleness a test knows. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include <coxswain/step.h>

enum { FLOATS_MAX = 4096, KEY = 7 };

static int64_t number(struct cox_step *step, const char *name)
{
    const int64_t *value = (const int64_t *)cox_step_scalar(step, name, COX_I64);
    return value != NULL ? *value : 0;
}

/* The rows that the arguments name: `keys`; or `count` rows from `begin` on; or all. */
static struct cox_rows rows(struct cox_step *step)
{
    const struct cox_value *keys = cox_step_argument(step, "keys");
    if (keys != NULL) {
        return cox_rows_listed((const uint64_t *)keys->data, keys->shape[0]);
    }
    if (cox_step_argument(step, "count") != NULL) {
        return cox_rows_slice((uint64_t)number(step, "begin"),
                              (size_t)number(step, "count"));
    }
    return cox_rows_all();
}

/* The rows to pull: those of `pulled`, if it is given; all, if `pull_all` is set; or
 * those of the push. */
static struct cox_rows rows_to_pull(struct cox_step *step)
{
    const struct cox_value *pulled = cox_step_argument(step, "pulled");
    if (pulled != NULL) {
        return cox_rows_listed((const uint64_t *)pulled->data, pulled->shape[0]);
    }
    return number(step, "pull_all") != 0 ? cox_rows_all() : rows(step);
}

static int pull(struct cox_step *step, struct cox_variable *variable)
{
    static float values[FLOATS_MAX];
    struct cox_pulling *pulling;
    const struct cox_pull wanted = {.variable = variable,
                                    .rows = rows_to_pull(step),
                                    .values = values,
                                    .flags = (uint32_t)number(step, "flags")};
    if (number(step, "begun") == 0) {
        return cox_step_pull(step, &wanted, 1);
    }
    int r = cox_pull_begin(step, &wanted, 1, &pulling);
    return r != 0 ? r : cox_pull_wait(step, pulling);
}

static int push(struct cox_step *step, struct cox_variable *variable)
{
    static float ones[FLOATS_MAX];
    for (size_t i = 0; i < FLOATS_MAX; i++) {
        ones[i] = 1;
    }
    if (number(step, "accumulated") != 0) {
        return cox_step_accumulate(step, variable, rows(step), ones);
    }
    return cox_step_update(step, variable, COX_UPDATE_GRADIENT, rows(step), ones);
}

/* Pulls rows of `variable`, unless `unpulled` is set; pushes ones to them (accumulates them,
 * if `accumulated` is set) and flushes, `flushes` times; if `again` is set, pulls once
 * more; pushes ones. */
static int train(struct cox_step *step)
{
    const struct cox_value *name = cox_step_argument(step, "variable");
    struct cox_variable *variable;
    int r = cox_step_variable(step, (const char *)name->data, &variable);
    if (r == 0 && number(step, "unpulled") == 0) {
        r = pull(step, variable);
    }
    for (int64_t i = 0; r == 0 && i < number(step, "flushes"); i++) {
        r = push(step, variable);
        r = r != 0 ? r : cox_step_flush(step);
    }
    if (r == 0 && number(step, "again") != 0) {
        r = pull(step, variable);
    }
    return r != 0 ? r : push(step, variable);
}

/* Pulls all of "d", pushes NaN to it under the loss scale "scale", and adds 1 to
 * "counter". */
static int overflow(struct cox_step *step)
{
    static float values[FLOATS_MAX];
    const int64_t one = 1;
    float found;
    struct cox_pull wanted = {.values = values};
    struct cox_variable *scale;
    struct cox_variable *counter;
    int r = cox_step_variable(step, "d", &wanted.variable);
    r = r != 0 ? r : cox_step_variable(step, "scale", &scale);
    r = r != 0 ? r : cox_step_variable(step, "counter", &counter);
    r = r != 0 ? r : cox_step_loss_scale(step, scale, &found);
    r = r != 0 ? r : cox_step_pull(step, &wanted, 1);
    for (size_t i = 0; i < FLOATS_MAX; i++) {
        values[i] = NAN;
    }
    r = r != 0 ? r : cox_step_push(step, wanted.variable, values);
    r = r != 0 ? r : cox_step_loss_scale_update(step, scale, 0);
    return r != 0 ? r : cox_step_add(step, counter, &one);
}

/* Pulls all of "w" and row 7 of "t", reads the FIFO `fifo` until its writer has closed
 * it, and pushes ones to both. */
static int hold_and_train(struct cox_step *step)
{
    static float values[2][FLOATS_MAX];
    static float ones[FLOATS_MAX];
    const uint64_t key = KEY;
    const struct cox_value *fifo = cox_step_argument(step, "fifo");
    struct cox_pull pulls[2] = {
        {.values = values[0]}, {.rows = cox_rows_listed(&key, 1), .values = values[1]}};
    char byte;
    int r = cox_step_variable(step, "w", &pulls[0].variable);
    r = r != 0 ? r : cox_step_variable(step, "t", &pulls[1].variable);
    r = r != 0 ? r : cox_step_pull(step, pulls, 2);
    if (r != 0) {
        return r;
    }
    int fd = open((const char *)fifo->data, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && read(fd, &byte, 1) > 0) {
    }
    (void)close(fd);
    for (size_t i = 0; i < FLOATS_MAX; i++) {
        ones[i] = 1;
    }
    r = cox_step_push(step, pulls[0].variable, ones);
    return r != 0 ? r : cox_step_push_rows(step, pulls[1].variable, &key, 1, ones);
}

/* Pulls all of "d" and accumulates ones, twice; between the two reads the FIFO `path`
 * until its writer has closed it. */
static int hold_and_accumulate(struct cox_step *step)
{
    static float ones[FLOATS_MAX];
    const struct cox_value *path = cox_step_argument(step, "path");
    struct cox_variable *variable;
    char byte;
    int r = cox_step_variable(step, "d", &variable);
    for (int i = 0; r == 0 && i < 2; i++) {
        r = pull(step, variable);
        r = r != 0 ? r : cox_step_accumulate(step, variable, cox_rows_all(), ones);
        int fd = i == 0 ? open((const char *)path->data, O_RDONLY | O_CLOEXEC) : -1;
        while (fd >= 0 && read(fd, &byte, 1) > 0) {
        }
        (void)close(fd);
    }
    return r;
}

COX_STEPS(COX_STEP("train", train),
          COX_STEP("hold_and_accumulate", hold_and_accumulate),
          COX_STEP("overflow", overflow), COX_STEP("hold_and_train", hold_and_train));
