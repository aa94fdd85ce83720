/* See torture.h. The linker puts these functions in the place of the allocator's
 * (--wrap). */
#include "tests/torture/torture.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/error.h"
#include "tests/test.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *at, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);

static atomic_long left; /* allocations until one fails; below 0: it has failed */
static atomic_bool on;

static bool fails(void)
{
    if (!atomic_load(&on) || atomic_fetch_sub(&left, 1) != 0) {
        return false;
    }
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return fails() ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *at, size_t bytes)
{
    return fails() ? NULL : __real_realloc(at, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, bytes);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

void torture_calm(void)
{
    atomic_store(&on, false);
}

void torture_calm_end(void)
{
    atomic_store(&on, true);
}

size_t torture(torture_scenario *scenario, void *arg)
{
    return torture_some(scenario, arg, 0, 1);
}

size_t torture_some(torture_scenario *scenario, void *arg, size_t first, size_t stride)
{
    for (size_t runs = 0;; runs++) {
        size_t n = first + runs * stride;
        (void)coxi_error(0, "%s", "");
        atomic_store(&left, (long)n);
        atomic_store(&on, true);
        int r = scenario(arg);
        atomic_store(&on, false);
        if (atomic_load(&left) >= 0) {
            assert_code(0, r);
            return runs;
        }
        bool told = r == 0 || strstr(coxi_error_text(), "memory") != NULL;
        if (!told) {
            fail_msg("allocation %zu: %d (%s)", n, r, coxi_error_text());
        }
    }
}
