/* Errors: numbers from one table (COX_ERRORS in coxswain/types.h) and, for each thread,
 * the text of its last error: what happened, where, what to do. */
#ifndef COXI_COMMON_ERROR_H
#define COXI_COMMON_ERROR_H

#include "coxswain/types.h"

enum { COXI_ERROR_TEXT_MAX = 1024 }; /* bytes with the final NUL; longer text is cut */

/* Stores the formatted text as the calling thread's last error and returns `code`. */
int coxi_error(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As coxi_error, the text followed by ": " and errno's own text. */
int coxi_error_errno(int code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* COX_ENOMEM with the text "out of memory for `what`". */
int coxi_error_memory(const char *what);

#ifdef __clang_analyzer__ /* tells the analyzer that an error is not 0 */
#define coxi_error(code, ...)       ((coxi_error)(code, __VA_ARGS__), (code))
#define coxi_error_errno(code, ...) ((coxi_error_errno)(code, __VA_ARGS__), (code))
#define coxi_error_memory(what)     ((coxi_error_memory)(what), COX_ENOMEM)
#endif

/* The text of the calling thread's last error ("" before the first). It is valid until
 * the thread's next error. */
const char *coxi_error_text(void);

/* The plural ending of a noun: "s", or "" if `n` is 1. */
const char *coxi_s(unsigned long long n);

/* The fixed text of a code, and its name ("COX_EINVAL"); never NULL. Any thread. */
const char *coxi_strerror(int code);
const char *coxi_error_name(int code);

#endif
