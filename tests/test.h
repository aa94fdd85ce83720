/* Shared by all test programs. A test is TEST(name_of_the_behaviour) { ... }; each is a
 * ctest entry of its own, and `<program> <name>` runs one. */
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

/* Skips a test that measures the memory of a process: ThreadSanitizer itself takes
 * several times as much. */
#if defined(__SANITIZE_THREAD__)
#define needs_true_memory() skip()
#else
#define needs_true_memory() (void)0
#endif

/* Fails unless `call` returns `code`; prints the error text. */
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

/* A new directory, which is removed with its content when the program ends. */
const char *coxi_test_dir(void);

/* "<directory>/<name>" for that directory, valid until the program ends. */
char *coxi_test_path(const char *name);

/* The directory of the built programs, and the path of a test step module. */
const char *coxi_test_bin(void);
const char *coxi_test_module(const char *name);

/*
 * Processes that are started from now on may crash on purpose: sanitizers neither catch
 * nor report that, nor leaks of a step that exits while other threads run; no core
 * files.
 */
void coxi_test_expect_crashes(void);

/* In processes that are started from now on, the sanitizer keeps no freed memory. */
void coxi_test_keep_no_freed_memory(void);

/* Writes a file. */
void coxi_test_write(const char *path, const void *bytes, size_t len);

/*
 * Makes an existing file one that takes long to open: whoever tries that waits until
 * the descriptor, which this returns, is closed. Uses a lease, so nobody may have the
 * file open yet.
 */
int coxi_test_hold_file(const char *path);
/* condition for coxi_test_until: somebody tries to open it; `fd` points to the int */
bool coxi_test_is_wanted(void *fd);

/* Reads a whole file and adds a NUL; for free(). */
char *coxi_test_read(const char *path, size_t *ret_len);

/* The key that has this hash (coxi_hash_key). */
uint64_t coxi_test_unhash(uint64_t hash);

/* Calls `condition(arg)` until it is true, at most 8 s: for events elsewhere that can
 * only be looked at. Fails with `what` if it does not become true. */
void coxi_test_until(bool (*condition)(void *arg), void *arg, const char *what);

/* The number of threads of this process; as a condition: there are *(int *)arg. */
int coxi_test_threads(void);
bool coxi_test_has_threads(void *arg);

#endif
