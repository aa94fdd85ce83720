/*
 * An index into an array, or none. A zeroed one is none. Its type differs from that of
 * an index, so the compiler finds a confusion of the two, and no index is needed to
 * stand for "none". Any thread.
 */
#ifndef COXI_SCHEMA_MAYBE_H
#define COXI_SCHEMA_MAYBE_H

#include <stdbool.h>
#include <stdint.h>

#include "schema/check.h"

struct coxi_maybe {
    /* 1 + the index; 0: none. Messages, files and cox_call use this form, too. */
    uint32_t number;
};

static inline struct coxi_maybe coxi_maybe_of_number(uint32_t number)
{
    struct coxi_maybe maybe = {number};
    return maybe;
}

static inline struct coxi_maybe coxi_maybe_none(void)
{
    return coxi_maybe_of_number(0);
}

static inline struct coxi_maybe coxi_maybe_of(uint32_t index)
{
    return coxi_maybe_of_number(index + 1);
}

static inline bool coxi_maybe_is_some(struct coxi_maybe maybe)
{
    return maybe.number != 0;
}

/* The index; there must be one. */
static inline uint32_t coxi_maybe_index(struct coxi_maybe maybe)
{
    COXI_CHECK(coxi_maybe_is_some(maybe));
    return maybe.number - 1;
}

/* True if it is the index `index`, not none. */
static inline bool coxi_maybe_is(struct coxi_maybe maybe, uint32_t index)
{
    return coxi_maybe_is_some(maybe) && coxi_maybe_index(maybe) == index;
}

#endif
