/* All bytes of a tensor of a file, for tests. Valid until the program ends. */
#ifndef COXI_TESTS_LOADED_H
#define COXI_TESTS_LOADED_H

#include "checkpoint/safetensors.h"
#include "tests/test.h"

struct loaded {
    struct loaded *next;
    void *bytes;
};

static inline const void *loaded(const struct coxi_st_tensor *tensor)
{
    static struct loaded *all; /* so that the memory is no leak */
    struct loaded *one = malloc(sizeof(*one));
    assert_non_null(tensor);
    assert_non_null(one);
    assert_code(0, coxi_st_read_all(tensor, &one->bytes));
    one->next = all;
    all = one;
    return one->bytes;
}

#endif
