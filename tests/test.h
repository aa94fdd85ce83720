/*
 * What every test program shares. A test is TEST(name_of_the_behaviour) { ... }; each
 * is its own ctest entry, and `<program> <name>` runs one.
 */
#ifndef COXI_TESTS_TEST_H
#define COXI_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "coxswain/step.h" /* before cmocka.h, whose macro `fail` it could not bear */

#include <cmocka.h>

void coxi_test_add(const char *name, void (*run)(void **state));

#define TEST(name)                                                                     \
    static void name(void **state);                                                    \
    __attribute__((constructor)) static void add_##name(void)                          \
    {                                                                                  \
        coxi_test_add(#name, name);                                                    \
    }                                                                                  \
    static void name(__attribute__((unused)) void **state)

/* Skips a test that measures the memory of a process, where ThreadSanitizer takes several times
 * as much for itself. */
#if defined(__SANITIZE_THREAD__)
#define needs_true_memory() skip()
#else
#define needs_true_memory() (void)0
#endif

/* Fails unless `call` returns `code`, telling the error text. */
#define assert_code(code, call)                                                        \
    do {                                                                               \
        int code_ = (call);                                                            \
        if (code_ != (code)) {                                                         \
            fail_msg("%s returned %d (%s), not %d", #call, code_, coxi_test_error(),   \
                     (int)(code));                                                     \
        }                                                                              \
    } while (0)

/* Fails unless the last error's text contains `part`. */
#define assert_error_names(part)                                                       \
    do {                                                                               \
        if (strstr(coxi_test_error(), part) == NULL) {                                 \
            fail_msg("the error '%s' does not name '%s'", coxi_test_error(), part);    \
        }                                                                              \
    } while (0)

const char *coxi_test_error(void);

/* A new directory, removed with all it holds when the program ends. */
const char *coxi_test_dir(void);

/* "<directory>/<name>" of it, valid until the program ends. */
char *coxi_test_path(const char *name);

/* The directory of the built programs, and that of the test step modules. */
const char *coxi_test_bin(void);
const char *coxi_test_module(const char *name);

/*
 * Processes that are started from now on may crash, as is meant: no sanitizer answers for
 * it or reports it, or what is left when a step exits amidst threads; and no core.
 */
void coxi_test_expect_crashes(void);

/* Processes that are started from now on have no memory that they have freed, as without a
 * sanitizer. */
void coxi_test_keep_no_freed_memory(void);

/* Writes a file. */
void coxi_test_write(const char *path, const void *bytes, size_t len);

/* Reads a whole file, with a NUL behind it; for free(). */
char *coxi_test_read(const char *path, size_t *ret_len);

/*
 * Calls `condition(arg)` until it is true, at most 8 s: for what happens elsewhere and
 * can only be looked at. Fails with `what` when it does not come true.
 */
void coxi_test_until(bool (*condition)(void *arg), void *arg, const char *what);

/* How many threads this process has; as a condition: it has *(int *)arg. */
int coxi_test_threads(void);
bool coxi_test_has_threads(void *arg);

#endif
