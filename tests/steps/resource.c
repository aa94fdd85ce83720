/* Resources of several kinds, and steps that use them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <coxswain/step.h>

enum { CARDS = 16 };

struct thing {
    int64_t count;
    int64_t cards[CARDS];
};

static atomic_int n_alive; /* in this process: kept and not released */

static void thing_release(void *thing)
{
    n_alive--;
    free(thing);
}

static const char *text(struct cox_step *step, const char *name)
{
    const struct cox_value *value = cox_step_argument(step, name);
    return value != NULL ? (const char *)value->data : NULL;
}

static int64_t number(struct cox_step *step, const char *name, int64_t otherwise)
{
    const int64_t *n = (const int64_t *)cox_step_scalar(step, name, COX_I64);
    return n != NULL ? *n : otherwise;
}

static int give(struct cox_step *step, const char *name, int64_t n)
{
    struct cox_value value = COX_SCALAR(name, COX_I64, &n);
    return cox_step_return(step, &value);
}

/* Waits until the FIFO's writer has closed it (see hold.c), or this is cancelled. */
static int wait_at(struct cox_step *step, const char *fifo)
{
    int fd = open(fifo, O_RDONLY | O_CLOEXEC);
    struct pollfd end = {.fd = fd, .events = POLLIN};
    if (fd < 0) {
        return cox_step_fail(step, 2, "there is no FIFO %s", fifo);
    }
    while (!cox_step_cancelled(step) && poll(&end, 1, 1) == 0) {
    }
    (void)close(fd);
    return 0;
}

/* Notes a byte in file `path`. */
static int note(struct cox_step *step)
{
    const char *path = text(step, "path");
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "x", 1) != 1 || close(fd) != 0) {
        return cox_step_fail(step, 3, "cannot write %s", path);
    }
    return 0;
}

/* ---- resources */

static int keep(struct cox_step *step, int64_t count)
{
    struct thing *thing = (struct thing *)calloc(1, sizeof(*thing));
    if (thing == NULL) {
        return cox_step_fail(step, 1, "out of memory");
    }
    thing->count = count;
    /* Cards in an order of this worker's own. */
    uint64_t x = cox_step_seed(step) + 977 * cox_step_worker(step);
    for (int64_t i = 0; i < CARDS; i++) {
        x = x * 6364136223846793005U + 1442695040888963407U;
        int64_t j = (int64_t)((x >> 33) % (uint64_t)(i + 1));
        thing->cards[i] = thing->cards[j];
        thing->cards[j] = i;
    }
    n_alive++;
    return cox_step_keep(step, thing, thing_release);
}

/* Makes a counter that begins at argument `start` (0 if not given). On worker `fail_on`
 * it fails, but only after it has passed the counter to cox_step_keep. */
static int make(struct cox_step *step)
{
    int r = keep(step, number(step, "start", 0));
    if (r == 0 && number(step, "fail_on", -1) == (int64_t)cox_step_worker(step)) {
        return cox_step_fail(step, 5, "no luck here");
    }
    return r;
}

/* Counts from the number in file `path`. */
static int make_from_file(struct cox_step *step)
{
    long long n = 0;
    FILE *file = fopen(text(step, "path"), "re");
    int r = file != NULL && fscanf(file, "%lld", &n) == 1
                ? keep(step, n)
                : cox_step_fail(step, 6, "cannot read %s", text(step, "path"));
    if (file != NULL) {
        (void)fclose(file);
    }
    return r;
}

/* Waits at `path` first, if that file exists. */
static int make_late(struct cox_step *step)
{
    const char *fifo = text(step, "path");
    int r = access(fifo, F_OK) == 0 ? wait_at(step, fifo) : 0;
    return r != 0 ? r : keep(step, 0);
}

/* Counts from the value of c0; waits at `path` first, if that is given. */
static int make_from_c0(struct cox_step *step)
{
    int64_t value;
    struct cox_pull pull = {.values = &value};
    int r = text(step, "path") != NULL ? wait_at(step, text(step, "path")) : 0;
    if (r == 0) {
        r = cox_step_variable(step, "c0", &pull.variable);
    }
    if (r == 0) {
        r = cox_step_pull(step, &pull, 1);
    }
    return r != 0 ? r : keep(step, value);
}

/* Waits at `path`, and does not check whether it is cancelled. */
static int make_stubborn(struct cox_step *step)
{
    char byte;
    int fd = open(text(step, "path"), O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && read(fd, &byte, 1) > 0) {
    }
    (void)close(fd);
    return keep(step, 0);
}

static int make_nothing(struct cox_step *step)
{
    (void)step;
    return 0;
}

/* Makes a resource from the count of resource `name`, times ten. */
static int make_after(struct cox_step *step)
{
    void *value;
    int r = cox_step_resource(step, text(step, "name"), &value);
    return r != 0 ? r : keep(step, ((struct thing *)value)->count * 10);
}

/* Notes that it has begun and writes through NULL; without UBSan's check, which would
 * abort instead. */
__attribute__((no_sanitize("undefined"))) static int make_crash(struct cox_step *step)
{
    int *volatile nowhere = NULL;
    int r = note(step);
    if (r == 0) {
        *(volatile int *)nowhere = 1;
    }
    return r;
}

/* Notes that it has begun, and returns when it is cancelled, as if all was well. */
static int make_slowly(struct cox_step *step)
{
    int r = note(step);
    while (r == 0 && !cox_step_cancelled(step)) {
        (void)poll(NULL, 0, 1);
    }
    return r != 0 ? r : keep(step, 0);
}

/* Notes that it has begun, and does not return. */
static int make_never(struct cox_step *step)
{
    int r = note(step);
    while (r == 0) {
        (void)pause();
    }
    return r;
}

/* Crashes if it can remove file `path`, so only once. */
static int make_crash_once(struct cox_step *step)
{
    if (unlink(text(step, "path")) == 0) {
        abort();
    }
    return keep(step, 0);
}

/* Updates c0, which a resource's function may not do. Returns 0 if that is refused. */
static int make_update(struct cox_step *step)
{
    const int64_t one = 1;
    struct cox_variable *counter;
    int r = cox_step_variable(step, "c0", &counter);
    if (r == 0) {
        r = cox_step_add(step, counter, &one) == COX_EINVAL ? 0 : 1;
    }
    return r;
}

static int make_accumulated(struct cox_step *step)
{
    const float one = 1;
    struct cox_variable *counter;
    int r = cox_step_variable(step, "c0", &counter);
    if (r == 0) {
        r = cox_step_accumulate(step, counter, cox_rows_all(), &one) == COX_EINVAL ? 0
                                                                                   : 1;
    }
    return r;
}

static int make_local(struct cox_step *step)
{
    float value;
    struct cox_pull pull = {NULL, cox_rows_all(), &value, 0};
    int r = cox_step_variable(step, "c0", &pull.variable);
    if (r == 0) {
        r = cox_local_pull(step, &pull, 1) == COX_EINVAL ? 0 : 1;
    }
    return r;
}

/* Makes the calls that a resource's function may make, and those that it may not;
 * returns 0 if only the former succeed. */
static int make_all(struct cox_step *step)
{
    int64_t before = -1;
    struct cox_pull pull = {.values = &before};
    if (give(step, "result", 1) != COX_EINVAL || cox_step_flush(step) != COX_EINVAL ||
        cox_step_closure(step) != 0 || cox_step_attempt(step) != 0) {
        return cox_step_fail(step, 4, "it is taken for a closure");
    }
    int r = cox_step_variable(step, "c0", &pull.variable);
    if (r == 0) {
        r = cox_step_pull(step, &pull, 1);
    }
    if (r == 0) {
        r = keep(step, before);
    }
    if (r == 0 && cox_step_keep(step, NULL, NULL) != COX_EINVAL) {
        return cox_step_fail(step, 4, "it may keep twice");
    }
    return r;
}

/* ---- steps */

/* Counts in resource `name`, and in c0 if that exists; returns the number and the
 * worker. Waits at `path` with that resource, if that is given. */
static int bump(struct cox_step *step)
{
    const int64_t one = 1;
    void *value = NULL;
    struct cox_variable *counter;
    int r = cox_step_resource(step, text(step, "name"), &value);
    if (r == 0 && text(step, "path") != NULL) {
        r = wait_at(step, text(step, "path"));
    }
    if (r == 0) {
        int64_t *count = &((struct thing *)value)->count; /* all slots count in it */
        r = give(step, "count", __atomic_add_fetch(count, 1, __ATOMIC_RELAXED));
    }
    if (r == 0) {
        r = give(step, "worker", cox_step_worker(step));
    }
    if (r == 0 && cox_step_variable(step, "c0", &counter) == 0) {
        r = cox_step_add(step, counter, &one);
    }
    return r;
}

/* Adds to c0 what resource `name` has counted. */
static int add_count(struct cox_step *step)
{
    void *value = NULL;
    struct cox_variable *counter;
    int r = cox_step_resource(step, text(step, "name"), &value);
    r = r != 0 ? r : cox_step_variable(step, "c0", &counter);
    return r != 0 ? r : cox_step_add(step, counter, &((struct thing *)value)->count);
}

/* Counts in two resources; returns both numbers. */
static int bump_two(struct cox_step *step)
{
    void *a = NULL;
    void *b = NULL;
    void *again = NULL;
    int r = cox_step_resource(step, "a", &a);
    r = r != 0 ? r : cox_step_resource(step, "b", &b);
    r = r != 0 ? r : cox_step_resource(step, "a", &again);
    if (r == 0 && (again != a || a == b)) {
        return cox_step_fail(step, 8, "they are mixed up");
    }
    r = r != 0 ? r : give(step, "a", ++((struct thing *)a)->count);
    return r != 0 ? r : give(step, "b", ++((struct thing *)b)->count);
}

/* The number in resource `name`; waits at `path` first, if that is given. */
static int peek(struct cox_step *step)
{
    void *value = NULL;
    int r = cox_step_resource(step, text(step, "name"), &value);
    if (r == 0 && text(step, "path") != NULL) {
        r = wait_at(step, text(step, "path"));
    }
    return r != 0 ? r : give(step, "count", ((struct thing *)value)->count);
}

static int deal(struct cox_step *step)
{
    void *value = NULL;
    int r = cox_step_resource(step, text(step, "name"), &value);
    if (r == 0) {
        struct cox_value cards =
            COX_VECTOR("cards", COX_I64, CARDS, ((struct thing *)value)->cards);
        r = cox_step_return(step, &cards);
    }
    return r;
}

/* Asks for resource `name`; returns the code, and whether there is a value. */
static int ask(struct cox_step *step)
{
    void *value = step;
    int r = give(step, "code", cox_step_resource(step, text(step, "name"), &value));
    return r != 0 ? r : give(step, "value", value == NULL ? 0 : value == step ? -1 : 1);
}

/* Needs resource `name`; fails with a message of its own if it is missing. */
static int complain(struct cox_step *step)
{
    void *value = NULL;
    int r = cox_step_resource(step, text(step, "name"), &value);
    return r != 0 ? cox_step_fail(step, 9, "and now?") : 0;
}

/* Tries to keep something, which a step may not. */
static int keep_anyway(struct cox_step *step)
{
    return give(step, "code", cox_step_keep(step, step, NULL));
}

static int alive(struct cox_step *step)
{
    return give(step, "alive", n_alive);
}

static int fail(struct cox_step *step)
{
    return cox_step_fail(step, 7, "as it is told");
}

/* Waits at `path`. */
static int hold(struct cox_step *step)
{
    return wait_at(step, text(step, "path"));
}

COX_STEPS(COX_STEP("make", make), COX_STEP("make_from_file", make_from_file),
          COX_STEP("make_late", make_late), COX_STEP("make_from_c0", make_from_c0),
          COX_STEP("make_stubborn", make_stubborn),
          COX_STEP("make_nothing", make_nothing), COX_STEP("make_after", make_after),
          COX_STEP("make_crash", make_crash),
          COX_STEP("make_crash_once", make_crash_once),
          COX_STEP("make_slowly", make_slowly), COX_STEP("make_never", make_never),
          COX_STEP("make_update", make_update),
          COX_STEP("make_accumulated", make_accumulated),
          COX_STEP("make_local", make_local), COX_STEP("make_all", make_all),
          COX_STEP("bump", bump), COX_STEP("add_count", add_count),
          COX_STEP("bump_two", bump_two), COX_STEP("peek", peek),
          COX_STEP("deal", deal), COX_STEP("ask", ask), COX_STEP("complain", complain),
          COX_STEP("keep_anyway", keep_anyway), COX_STEP("alive", alive),
          COX_STEP("fail", fail), COX_STEP("hold", hold));
