/* Runs `coxswain data` and looks at what it prints. */
#ifndef COXI_TESTS_CLI_DATA_TOOL_H
#define COXI_TESTS_CLI_DATA_TOOL_H

#include <jansson.h>
#include <stdlib.h>

#include "tests/test.h"

/* Runs `coxswain data` with these arguments, which end with NULL; it must exit with
 * `code`. Returns its output; for free(). */
char *data_tool_run(int code, const char *const *arguments);

/* data_tool(code, arguments...) */
#define data_tool(code, ...)                                                           \
    data_tool_run(code, (const char *const[]){__VA_ARGS__, NULL})

/* data_prints(part, code, arguments...): the output contains `part`. */
#define data_prints(part, code, ...)                                                   \
    do {                                                                               \
        char *output_ = data_tool(code, __VA_ARGS__);                                  \
        if (strstr(output_, part) == NULL) {                                           \
            fail_msg("'%s' is not in: %s", part, output_);                             \
        }                                                                              \
        free(output_);                                                                 \
    } while (0)

/* data_json(code, arguments...): the output as JSON. */
#define data_json(code, ...) data_tool_json(data_tool(code, __VA_ARGS__))
json_t *data_tool_json(char *output);

/* The integer `name` of the object. */
json_int_t data_integer(const json_t *object, const char *name);

/* Writes text to a file in the test's directory; returns its path. */
char *data_write(const char *name, const char *text);

/* Asserts that both files have the same bytes. */
void data_assert_same(const char *a, const char *b);

#endif
