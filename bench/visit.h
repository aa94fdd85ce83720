/* Shared by case `recover` and its steps `fill` and `visit`. */
#ifndef COXI_BENCH_VISIT_H
#define COXI_BENCH_VISIT_H

enum {
    VISIT_PS = 3,
    VISIT_DIM = 16,    /* of the table "visited" */
    VISIT_FILL = 8192, /* rows that a `fill` makes, from argument `first` on */
    VISIT_ROWS = 64,   /* rows that a `visit` updates, of argument `rows` */
};

/*
 * The elements of "visit", the result of step `visit`, I64: when it began, and what it
 * found in each element of "visits" before it added 1 to all; one element is on each
 * ps.
 */
enum { VISIT_STARTED_NS, VISIT_COUNTS, VISIT_RESULT = VISIT_COUNTS + VISIT_PS };

#endif
