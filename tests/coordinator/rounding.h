/* Rounds of four calls of module rounds, which train a variable on each of two ps. */
#ifndef COXI_TESTS_COORDINATOR_ROUNDING_H
#define COXI_TESTS_COORDINATOR_ROUNDING_H

#include <stdint.h>

#include "tests/coordinator/crew.h"

enum { ROUNDING_PS = 2, ROUNDING_MEMBERS = 4 };

struct rounding {
    struct crew crew;
    struct cox_variable *w[ROUNDING_PS]; /* w[i] is on ps i */
    struct cox_function *advance;
    struct cox_rounds *rounds;
};

/* The arguments of a round's members. */
struct rounding_asked {
    double weights[ROUNDING_MEMBERS]; /* 0: without */
    const char *path[ROUNDING_MEMBERS];
    bool flush[ROUNDING_MEMBERS];
    bool fail[ROUNDING_MEMBERS];
    bool half[ROUNDING_MEMBERS];  /* pushes for w0 only */
    bool other[ROUNDING_MEMBERS]; /* pushes for w1 only */
    bool stray[ROUNDING_MEMBERS]; /* later attempts push for w0 only */
    bool keep[ROUNDING_MEMBERS];  /* its results, on the worker */
    uint64_t cursors[ROUNDING_MEMBERS];
    uint32_t only[ROUNDING_MEMBERS]; /* 1 + index of the worker; 0: any */
    struct cox_future *input; /* all of them take its results; NULL: they do not */
};

struct rounding_members {
    struct cox_future *futures[ROUNDING_MEMBERS];
    struct cox_future *end;
};

/* Opens a crew (options NULL: defaults) with the variables and a sequence of rounds. */
void rounding_open(struct rounding *s, int n_workers,
                   const struct cox_rounds_spec *spec, struct cox_options *options);

/* The same for two workers and rounds that add up, of which `staleness` overlap; with a
 * directory for checkpoints. */
void rounding_open_sum(struct rounding *s, uint32_t staleness);

float rounding_value(struct rounding *s, int i);

/* Asserts that both variables are `expected`. */
void rounding_assert(struct rounding *s, float expected);

/* Schedules a round; _plain: without arguments. `ret`: NULL, or receives its futures,
 * which _free frees. */
void rounding_start(struct rounding *s, const struct rounding_asked *asked,
                    struct rounding_members *ret);
void rounding_plain(struct rounding *s, struct rounding_members *ret);
void rounding_free(struct rounding_members *members);

/* Asserts that each closure of the round, but not its end, ends with `code`. */
void rounding_assert_ended(const struct rounding_members *members, int code);

/* The value of variable `name` that a call has seen. */
float rounding_seen(struct cox_future *future, const char *name);

struct cox_stats rounding_stats(struct rounding *s);

/* A FIFO at which a member waits. _meet waits until one is there; it goes on when the
 * descriptor is closed. */
const char *rounding_gate(void);
int rounding_meet(const char *path);

#endif
