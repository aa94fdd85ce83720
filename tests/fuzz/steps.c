/* The steps that fuzz_worker's hostile client calls. The variables may have any shape,
 * so each step makes room for the shape that it is told. */
#include <poll.h>
#include <stdlib.h>

#include <coxswain/step.h>

enum { VALUES_MAX = 1 << 16, WAIT_MS = 1, WAITS_MAX = 10 };

static const uint64_t keys[] = {1, 5, 3, 5};

/* Memory for all of the variable, or for the rows of `keys`; NULL: that is too much. */
static void *room(struct cox_step *step, const char *name, struct cox_variable **ret,
                  struct cox_rows *ret_rows)
{
    uint32_t dtype = 0;
    uint32_t rank = 0;
    uint64_t shape[COX_RANK_MAX] = {0};
    uint64_t n = sizeof(keys) / sizeof(*keys);
    if (cox_step_variable(step, name, ret) != 0 ||
        cox_step_shape(step, *ret, &dtype, &rank, shape) != 0) {
        return NULL;
    }
    for (uint32_t i = 0; i < rank; i++) {
        n = shape[i] < VALUES_MAX && n < VALUES_MAX ? n * shape[i] : VALUES_MAX;
    }
    *ret_rows = name[0] == 't' ? cox_rows_listed(keys, sizeof(keys) / sizeof(*keys))
                               : cox_rows_all();
    return n < VALUES_MAX ? calloc((size_t)n + 1, 8) : NULL;
}

static int pull_one(struct cox_step *step, const char *name, uint32_t flags)
{
    struct cox_variable *variable = NULL;
    struct cox_rows rows;
    void *values = room(step, name, &variable, &rows);
    struct cox_pull pull = {variable, rows, values, flags};
    int r = values != NULL ? cox_step_pull(step, &pull, 1) : COX_ENOENT;
    free(values);
    return r;
}

static int update_one(struct cox_step *step, const char *name, enum cox_update op)
{
    struct cox_variable *variable = NULL;
    struct cox_rows rows;
    void *values = room(step, name, &variable, &rows);
    int r =
        values != NULL ? cox_step_update(step, variable, op, rows, values) : COX_ENOENT;
    free(values);
    return r;
}

static int nothing(struct cox_step *step)
{
    (void)step;
    return 0;
}

static int pull(struct cox_step *step)
{
    int r = pull_one(step, "w", COX_PULL_CACHED);
    return r != 0 ? r : pull_one(step, "t", 0);
}

static int update(struct cox_step *step)
{
    int r = update_one(step, "w", COX_UPDATE_ADD);
    return r != 0 ? r : update_one(step, "t", COX_UPDATE_GRADIENT);
}

/* Returns its arguments, and a number. */
static int give(struct cox_step *step)
{
    const struct cox_value *args = NULL;
    size_t n = cox_step_arguments(step, &args);
    const int64_t x = 7;
    const struct cox_value value = COX_SCALAR("x", COX_I64, &x);
    int r = cox_step_return(step, &value);
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = cox_step_return(step, &args[i]);
    }
    return r;
}

static int make(struct cox_step *step)
{
    void *thing = calloc(1, 8);
    int r = cox_step_keep(step, thing, free);
    if (r != 0) {
        free(thing);
    }
    return r;
}

static int use(struct cox_step *step)
{
    void *thing = NULL;
    int r = cox_step_resource(step, "w", &thing);
    if (r == 0) {
        *(char *)thing = 1;
    }
    return r;
}

static int wait(struct cox_step *step)
{
    for (int i = 0; i < WAITS_MAX && !cox_step_cancelled(step); i++) {
        (void)poll(NULL, 0, WAIT_MS);
    }
    return 0;
}

static int flush(struct cox_step *step)
{
    int r = update_one(step, "w", COX_UPDATE_ASSIGN);
    if (r == 0) {
        r = cox_step_flush(step);
    }
    return r != 0 ? r : cox_step_fail(step, 3, "after a flush");
}

/* As a step of a round. */
static int weigh(struct cox_step *step)
{
    int r = cox_step_weight(step, 2);
    r = r != 0 ? r : pull_one(step, "w", 0);
    return r != 0 ? r : update_one(step, "w", COX_UPDATE_ADD);
}

COX_STEPS(COX_STEP("nothing", nothing), COX_STEP("pull", pull),
          COX_STEP("update", update), COX_STEP("give", give), COX_STEP("make", make),
          COX_STEP("use", use), COX_STEP("wait", wait), COX_STEP("flush", flush),
          COX_STEP("weigh", weigh));
