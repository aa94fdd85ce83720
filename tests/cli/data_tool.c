/* See data_tool.h. */
#include "tests/cli/data_tool.h"

#include "tests/program.h"

enum { ARGUMENTS = 40 };

char *data_tool_run(int code, const char *const *arguments)
{
    struct program program;
    const char *argv[ARGUMENTS + 3] = {"coxswain", "data"};
    for (size_t i = 0; i < ARGUMENTS && arguments[i] != NULL; i++) {
        argv[i + 2] = arguments[i];
    }
    int found = program_run(&program, argv);
    char *output = program_output(&program);
    if (found != code) {
        fail_msg("data %s exited with %d, not %d: %s", arguments[0], found, code,
                 output);
    }
    return output;
}

json_t *data_tool_json(char *output)
{
    json_t *root = json_loads(output, JSON_DISABLE_EOF_CHECK, NULL);
    if (root == NULL) {
        fail_msg("no JSON: %s", output);
    }
    free(output);
    return root;
}

json_int_t data_integer(const json_t *object, const char *name)
{
    const json_t *number = json_object_get(object, name);
    if (!json_is_integer(number)) {
        fail_msg("no integer '%s'", name);
    }
    return json_integer_value(number);
}

char *data_write(const char *name, const char *text)
{
    char *path = coxi_test_path(name);
    coxi_test_write(path, text, strlen(text));
    return path;
}

void data_assert_same(const char *a, const char *b)
{
    size_t len_a;
    size_t len_b;
    char *bytes_a = coxi_test_read(a, &len_a);
    char *bytes_b = coxi_test_read(b, &len_b);
    if (len_a != len_b || memcmp(bytes_a, bytes_b, len_a) != 0) {
        fail_msg("%s and %s differ", a, b);
    }
    free(bytes_a);
    free(bytes_b);
}
