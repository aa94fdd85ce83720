/* The steps of the conformance tests. "Counting" adds 1 to each of c0, c1, ... that
 * exists: one on each ps. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <coxswain/step.h>

static int count(struct cox_step *step)
{
    static const char *const names[] = {"c0", "c1", "c2", "c3"};
    const int64_t one = 1;
    for (int i = 0; i < 4; i++) {
        struct cox_variable *counter;
        if (cox_step_variable(step, names[i], &counter) != 0) {
            break;
        }
        int r = cox_step_add(step, counter, &one);
        if (r != 0) {
            return r;
        }
    }
    return 0;
}

static const char *fifo_of(struct cox_step *step)
{
    const struct cox_value *fifo = cox_step_argument(step, "fifo");
    return fifo != NULL ? (const char *)fifo->data : "";
}

/* Opens the FIFO `fifo`, which lets its writer know that this runs, and reads until the
 * writer has closed it. */
static int hold(struct cox_step *step)
{
    char byte;
    int fd = open(fifo_of(step), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return cox_step_fail(step, 1, "cannot open '%s'", fifo_of(step));
    }
    while (read(fd, &byte, 1) > 0) {
    }
    (void)close(fd);
    return 0;
}

static int hold_and_count(struct cox_step *step)
{
    int r = hold(step);
    return r != 0 ? r : count(step);
}

/* Like hold_and_count, but checks whether it is cancelled. */
static int watch_and_count(struct cox_step *step)
{
    struct pollfd end = {.fd = open(fifo_of(step), O_RDONLY | O_CLOEXEC),
                         .events = POLLIN};
    if (end.fd < 0) {
        return cox_step_fail(step, 1, "cannot open '%s'", fifo_of(step));
    }
    while (!cox_step_cancelled(step) && poll(&end, 1, 1) == 0) {
    }
    (void)close(end.fd);
    return count(step);
}

/* Counts and fails, so that it counts nowhere; says which hold it was. */
static int hold_and_fail(struct cox_step *step)
{
    int r = hold(step);
    r = r != 0 ? r : count(step);
    return r != 0 ? r : cox_step_fail(step, 9, "no luck at %s", fifo_of(step));
}

/* Counts and fails, saying what its argument `n` is. */
static int fail(struct cox_step *step)
{
    const int64_t *n = (const int64_t *)cox_step_scalar(step, "n", COX_I64);
    int r = count(step);
    return r != 0 ? r : cox_step_fail(step, 42, "no luck with %d", n ? (int)*n : -1);
}

static int give(struct cox_step *step, const char *name, int64_t n)
{
    struct cox_value value = COX_SCALAR(name, COX_I64, &n);
    return cox_step_return(step, &value);
}

/* Returns how many steps have numbered off in this process before, and its worker. */
static int number_off(struct cox_step *step)
{
    static int64_t n;
    int r = give(step, "order", n++);
    return r != 0 ? r : give(step, "worker", cox_step_worker(step));
}

/* Returns tensors of several types and shapes, in folders, that argument `n` changes. */
static int nest(struct cox_step *step)
{
    const int64_t *n = (const int64_t *)cox_step_scalar(step, "n", COX_I64);
    if (n == NULL) {
        return cox_step_fail(step, 1, "it needs an argument n");
    }
    const float loss = (float)*n / 2;
    const double accuracy[3] = {(double)*n, 0.5, -1};
    const int64_t confusion[2][3] = {{*n, 1, 2}, {3, 4, *n}};
    const uint8_t cube[2][1][2] = {{{1, 2}}, {{3, (uint8_t)*n}}};
    const struct cox_value values[] = {
        COX_SCALAR("loss", COX_F32, &loss),
        COX_VECTOR("metrics/accuracy", COX_F64, 3, accuracy),
        {"metrics/confusion", COX_I64, 2, {2, 3}, confusion},
        {"metrics/deep/cube", COX_U8, 3, {2, 1, 2}, cube},
        COX_VECTOR("metrics/none", COX_I32, 0, NULL),
    };
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof(values) / sizeof(*values); i++) {
        r = cox_step_return(step, &values[i]);
    }
    return r;
}

/* ---- data sets, as each worker keeps them */

enum { CARDS = 16 };

struct iterator {
    int64_t next;
    int64_t cards[CARDS]; /* 0 to 15 in an order of this worker's own */
};

static int64_t
    n_alive; /* made and not released; one slot: steps do not run beside it */

static void iterator_free(void *iterator)
{
    n_alive--;
    free(iterator);
}

/* Begins at argument `start`, or 0; fails on worker `fail_on` once it is made. */
static int iterator(struct cox_step *step)
{
    const int64_t *start = (const int64_t *)cox_step_scalar(step, "start", COX_I64);
    const int64_t *fail_on = (const int64_t *)cox_step_scalar(step, "fail_on", COX_I64);
    struct iterator *made = (struct iterator *)calloc(1, sizeof(*made));
    if (made == NULL) {
        return cox_step_fail(step, 1, "out of memory");
    }
    made->next = start != NULL ? *start : 0;
    uint64_t x = cox_step_seed(step) + cox_step_worker(step);
    for (int64_t i = 0; i < CARDS; i++) {
        x = x * 6364136223846793005U + 1442695040888963407U;
        int64_t j = (int64_t)((x >> 33) % (uint64_t)(i + 1));
        made->cards[i] = made->cards[j];
        made->cards[j] = i;
    }
    n_alive++;
    int r = cox_step_keep(step, made, iterator_free);
    if (r == 0 && fail_on != NULL && *fail_on == (int64_t)cox_step_worker(step)) {
        return cox_step_fail(step, 5, "there are no files");
    }
    return r;
}

/* Has a counter of the ps counted while it is made. */
static int iterator_that_counts(struct cox_step *step)
{
    int r = count(step);
    return r != 0 ? r : iterator(step);
}

/* Uses a variable that nobody has created. */
static int iterator_with_variable(struct cox_step *step)
{
    struct cox_variable *variable;
    int r = cox_step_variable(step, "made_inside", &variable);
    return r != 0 ? r : iterator(step);
}

/* Waits at the FIFO `fifo` while it makes the iterator. */
static int iterator_held(struct cox_step *step)
{
    int r = hold(step);
    return r != 0 ? r : iterator(step);
}

static int take(struct cox_step *step, const char *name, const char *result)
{
    void *value = NULL;
    int r = cox_step_resource(step, name, &value);
    return r != 0 ? r : give(step, result, ((struct iterator *)value)->next++);
}

/* Returns the next of the data set "data", and its worker; counts. */
static int next(struct cox_step *step)
{
    int r = take(step, "data", "element");
    r = r != 0 ? r : give(step, "worker", cox_step_worker(step));
    return r != 0 ? r : count(step);
}

/* Returns the next of two data sets. */
static int next_of_both(struct cox_step *step)
{
    int r = take(step, "data", "element");
    r = r != 0 ? r : take(step, "more", "other");
    return r != 0 ? r : give(step, "worker", cox_step_worker(step));
}

/* Returns how many have been taken from "data", and takes none. */
static int look(struct cox_step *step)
{
    void *value = NULL;
    int r = cox_step_resource(step, "data", &value);
    return r != 0 ? r : give(step, "taken", ((struct iterator *)value)->next);
}

/* Is held, and returns the cards of "data", and its worker. */
static int hold_and_deal(struct cox_step *step)
{
    void *value = NULL;
    int r = hold(step);
    r = r != 0 ? r : cox_step_resource(step, "data", &value);
    if (r == 0) {
        struct cox_value cards =
            COX_VECTOR("cards", COX_I64, CARDS, ((struct iterator *)value)->cards);
        r = cox_step_return(step, &cards);
    }
    return r != 0 ? r : give(step, "worker", cox_step_worker(step));
}

static int alive(struct cox_step *step)
{
    return give(step, "alive", n_alive);
}

COX_STEPS(COX_STEP("count", count), COX_STEP("hold", hold),
          COX_STEP("hold_and_count", hold_and_count),
          COX_STEP("hold_and_fail", hold_and_fail), COX_STEP("fail", fail),
          COX_STEP("number_off", number_off), COX_STEP("iterator", iterator),
          COX_STEP("iterator_that_counts", iterator_that_counts),
          COX_STEP("iterator_with_variable", iterator_with_variable),
          COX_STEP("iterator_held", iterator_held), COX_STEP("next", next),
          COX_STEP("next_of_both", next_of_both), COX_STEP("look", look),
          COX_STEP("hold_and_deal", hold_and_deal), COX_STEP("alive", alive),
          COX_STEP("nest", nest), COX_STEP("watch_and_count", watch_and_count));
