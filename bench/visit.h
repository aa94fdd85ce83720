/* What steps `fill` and `visit` of the case `recover` agree on with it. */
#ifndef COXI_BENCH_VISIT_H
#define COXI_BENCH_VISIT_H

enum {
    VISIT_PS = 3,
    VISIT_DIM = 16,    /* of the table "visited" */
    VISIT_FILL = 8192, /* rows that a `fill` makes, from argument `first` on */
    VISIT_ROWS = 64,   /* that a `visit` updates, of argument `rows` */
};

/* What `visit` returns as "visit", I64: when it began, and what it found in each element of
 * "visits", one of which is on each ps, before it added 1 to all. */
enum { VISIT_STARTED_NS, VISIT_COUNTS, VISIT_RESULT = VISIT_COUNTS + VISIT_PS };

#endif
