/* Tables whose rows are evicted, and changes of their rows with all values 1. */
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

/* A table of `dim` with SGD at rate 1: a gradient is subtracted. */
struct coxi_variable lifecycle_variable(uint32_t dim, struct coxi_lifecycle lifecycle);

struct coxi_table *lifecycle_table(const struct coxi_variable *v);

/* A change to keys [first, first + n), with all values 1. */
void lifecycle_begin(struct lifecycle_work *work, enum coxi_op op, uint64_t first,
                     size_t n);

void lifecycle_apply(struct coxi_table *table, enum coxi_op op, uint64_t first,
                     size_t n);

void lifecycle_push(struct coxi_table *table, uint64_t first, size_t n);

/* The difference of a row of one float to its initial value. */
float lifecycle_moved(struct coxi_table *table, uint64_t key);

/* True if a pull of the key finds a row. */
bool lifecycle_has(struct coxi_table *table, uint64_t key);

#endif
