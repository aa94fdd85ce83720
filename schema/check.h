/*
 * Checks that stay in every build. assert() is for our own bugs and is gone in Release.
 * COXI_CHECK is for a condition that guards memory where an index or a length comes
 * from a peer or a file: earlier code has refused wrong ones with an error, and if it
 * has not, the process ends here instead of reading or writing elsewhere.
 */
#ifndef COXI_SCHEMA_CHECK_H
#define COXI_SCHEMA_CHECK_H

#ifdef __cplusplus
extern "C" {
#endif

/* Writes file, line and condition to standard error, and aborts. */
__attribute__((noreturn)) void coxi_check_failed(const char *condition,
                                                 const char *file, int line);

#ifdef __cplusplus
}
#endif

#define COXI_CHECK(condition)                                                          \
    (__builtin_expect(!(condition), 0)                                                 \
         ? coxi_check_failed(#condition, __FILE__, __LINE__)                           \
         : (void)0)

#endif
