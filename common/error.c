/* See error.h. State: one text for each thread. */
#include "common/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_text[COXI_ERROR_TEXT_MAX];

static void set_text(const char *format, va_list args)
{
    /* The arguments may point into the old text. */
    char text[COXI_ERROR_TEXT_MAX];
    (void)vsnprintf(text, sizeof(text), format, args);
    memcpy(last_text, text, sizeof(text));
}

int(coxi_error)(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set_text(format, args);
    va_end(args);
    return code;
}

int(coxi_error_errno)(int code, const char *format, ...)
{
    int number = errno;
    char reason[128];
    va_list args;
    va_start(args, format);
    set_text(format, args);
    va_end(args);
    size_t used = strlen(last_text);
    (void)snprintf(last_text + used, sizeof(last_text) - used, ": %s",
                   strerror_r(number, reason, sizeof(reason)));
    return code;
}

int(coxi_error_memory)(const char *what)
{
    return coxi_error(COX_ENOMEM, "out of memory for %s", what);
}

const char *coxi_error_text(void)
{
    return last_text;
}

const char *coxi_s(unsigned long long n)
{
    return n == 1 ? "" : "s";
}

const char *coxi_strerror(int code)
{
    switch (code) {
    case 0:
        return "success";
#define COXI_ERROR_CASE(number, name, text)                                            \
    case number:                                                                       \
        return text;
        COX_ERRORS(COXI_ERROR_CASE)
#undef COXI_ERROR_CASE
    default:
        return "unknown error";
    }
}

const char *coxi_error_name(int code)
{
    switch (code) {
    case 0:
        return "OK";
#define COXI_ERROR_CASE(number, name, text)                                            \
    case number:                                                                       \
        return "COX_" #name;
        COX_ERRORS(COXI_ERROR_CASE)
#undef COXI_ERROR_CASE
    default:
        return "COX_?";
    }
}
