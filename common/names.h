/*
 * A set of named items, which finds an item by its name in constant time.
 *
 * One thread at a time may add; any number of threads may look items up meanwhile,
 * without a lock. The caller owns the items, and never removes one. A zeroed set is
 * valid and empty.
 */
#ifndef COXI_COMMON_NAMES_H
#define COXI_COMMON_NAMES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct coxi_names_table;

/* Embed it as the first member of an item. */
struct coxi_named {
    const char *name; /* len bytes; lives as long as the set */
    size_t len;
    uint64_t hash; /* set by coxi_names_add */
};

struct coxi_names {
    _Atomic(struct coxi_names_table *) table;
    size_t n;
};

/* Adds an item. Its name is set, and no other item of the set has it. COX_ENOMEM. */
int coxi_names_add(struct coxi_names *names, struct coxi_named *item);

/* The item of that name, or NULL. Any thread. */
struct coxi_named *coxi_names_get(const struct coxi_names *names, const char *name,
                                  size_t len);

/* Frees the set; nobody may look an item up any more. */
void coxi_names_fini(struct coxi_names *names);

#endif
