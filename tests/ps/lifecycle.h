/* Tables whose rows come and go, and changes of such rows, each value 1. */
#ifndef COXI_TESTS_PS_LIFECYCLE_H
#define COXI_TESTS_PS_LIFECYCLE_H

#include "ps/table_internal.h"

enum { LIFECYCLE_CHANGE_MAX = 64, LIFECYCLE_WIDE = 16 };

extern const struct coxi_initializer lifecycle_uniform;

struct lifecycle_work {
    struct coxi_table_change change;
    uint64_t keys[LIFECYCLE_CHANGE_MAX];
    float values[LIFECYCLE_CHANGE_MAX * LIFECYCLE_WIDE];
    struct coxi_row *rows[LIFECYCLE_CHANGE_MAX];
};

/* Rows of `dim`, SGD of rate 1: a gradient is subtracted. */
struct coxi_variable lifecycle_variable(uint32_t dim, struct coxi_lifecycle lifecycle);

struct coxi_table *lifecycle_table(const struct coxi_variable *v);

/* A change to keys [first, first + n), each value 1. */
void lifecycle_begin(struct lifecycle_work *work, enum coxi_op op, uint64_t first,
                     size_t n);

void lifecycle_apply(struct coxi_table *table, enum coxi_op op, uint64_t first,
                     size_t n);

void lifecycle_push(struct coxi_table *table, uint64_t first, size_t n);

/* How far a row of one float is from where it started. */
float lifecycle_moved(struct coxi_table *table, uint64_t key);

/* Whether a pull of a key finds its row. */
bool lifecycle_has(struct coxi_table *table, uint64_t key);

#endif
