/* A step that takes the records of a task, and counts each one in its own row. */
#include <stdlib.h>

#include <coxswain/step.h>

static int64_t number(struct cox_step *step, const char *name)
{
    const int64_t *value = (const int64_t *)cox_step_scalar(step, name, COX_I64);
    return value != NULL ? *value : 0;
}

static int give(struct cox_step *step, const char *name, int64_t value)
{
    const struct cox_value result = COX_SCALAR(name, COX_I64, &value);
    return cox_step_return(step, &result);
}

/* Adds 1 to the row of each record's first key. */
static int count_batch(struct cox_step *step, struct cox_variable *visits,
                       const struct cox_batch *batch)
{
    uint64_t *rows = malloc(batch->n * sizeof(*rows));
    int64_t *ones = malloc(batch->n * sizeof(*ones));
    int r = rows == NULL || ones == NULL ? COX_ENOMEM : 0;
    for (uint64_t i = 0; r == 0 && i < batch->n; i++) {
        rows[i] = batch->keys[batch->begin[i]];
        ones[i] = 1;
    }
    if (r == 0) {
        r = cox_step_update(step, visits, COX_UPDATE_ADD,
                            cox_rows_listed(rows, batch->n), ones);
    }
    free(rows);
    free(ones);
    return r;
}

/*
 * Arguments, I64: flush (1: each batch is a segment), batches (take no more; 0: all),
 * forgive (1: returns 0 although the task cannot be read). Results: records, batches,
 * args (how many it sees).
 */
static int visit(struct cox_step *step)
{
    struct cox_batch batch = COX_BATCH_INIT;
    struct cox_variable *visits;
    const struct cox_value *args;
    int64_t records = 0;
    int64_t batches = 0;
    int64_t most = number(step, "batches");
    int r = cox_step_variable(step, "visits", &visits);
    while (r == 0 && (most == 0 || batches < most) &&
           (r = cox_step_batch(step, &batch)) == 0) {
        r = count_batch(step, visits, &batch);
        records += (int64_t)batch.n;
        batches++;
        if (r == 0 && number(step, "flush") != 0) {
            r = cox_step_flush(step);
        }
    }
    if (r != 0 && r != COX_EEOF) {
        return number(step, "forgive") != 0 ? 0 : r;
    }
    r = give(step, "records", records);
    if (r == 0) {
        r = give(step, "batches", batches);
    }
    return r == 0 ? give(step, "args", (int64_t)step->api->arguments(step, &args)) : r;
}

/* Gives a result that has a reserved name. */
static int pose(struct cox_step *step)
{
    return give(step, "\1read", 1);
}

COX_STEPS(COX_STEP("visit", visit), COX_STEP("pose", pose));
