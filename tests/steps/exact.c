/*
 * A step of deterministic rounds, with a dense variable "w" and a table "t". Each
 * gradient depends on all values that the step pulls, from whatever ps, and
 * on its seed. With an argument "path" the first attempt waits at that FIFO between its
 * pushes, of which the ps have the first.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include <coxswain/step.h>

enum { WEIGHTS = 96, DIM = 4, ROWS = 8, KEYS = 64 };

static void wait_at(const char *path)
{
    char byte;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && read(fd, &byte, 1) > 0) {
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* The next number, from 0 to 1, and the next state. */
static float draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(*state >> 40) / (float)(1 << 24);
}

/* Distinct keys. */
static void draw_keys(uint64_t *state, uint64_t ret[ROWS])
{
    for (uint64_t i = 0; i < ROWS; i++) {
        ret[i] = i * (KEYS / ROWS) + (uint64_t)(draw(state) * (KEYS / ROWS));
    }
}

static int learn(struct cox_step *step)
{
    const struct cox_value *path = cox_step_argument(step, "path");
    uint64_t state = cox_step_seed(step);
    uint64_t keys[ROWS];
    float w[WEIGHTS];
    float t[ROWS * DIM];
    struct cox_variable *weights;
    struct cox_variable *table;
    float all = 0;
    draw_keys(&state, keys);
    int r = cox_step_variable(step, "w", &weights);
    r = r != 0 ? r : cox_step_variable(step, "t", &table);
    const struct cox_pull pulls[] = {{weights, cox_rows_all(), w, 0},
                                     {table, cox_rows_listed(keys, ROWS), t, 0}};
    r = r != 0 ? r : cox_step_pull(step, pulls, 2);
    for (int i = 0; r == 0 && i < WEIGHTS; i++) {
        all += w[i] * draw(&state);
    }
    for (int i = 0; r == 0 && i < ROWS * DIM; i++) {
        all += t[i] * draw(&state);
    }
    for (int i = 0; r == 0 && i < WEIGHTS; i++) {
        w[i] = w[i] * 0.5F + all / 32 - draw(&state);
    }
    for (int i = 0; r == 0 && i < ROWS * DIM; i++) {
        t[i] = t[i] * 0.5F - all / 32 + draw(&state);
    }
    r = r != 0 ? r : cox_step_weight(step, 1 + (double)draw(&state));
    r = r != 0 ? r : cox_step_push(step, weights, w);
    r = r != 0 ? r : cox_step_flush(step);
    if (r == 0 && path != NULL && cox_step_attempt(step) == 1) {
        wait_at((const char *)path->data);
    }
    return r != 0 ? r : cox_step_push_rows(step, table, keys, ROWS, t);
}

COX_STEPS(COX_STEP("learn", learn));
