/* What environments say of a cluster: recorded ones, in environments/. NAME.env has
 * variables, and NAME.txt what is found, or the error. With COX_WRITE_EXPECTED=1 the test
 * writes those files: read what has changed before you keep it. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/view.h"
#include "common/error.h"
#include "common/file.h"
#include "tests/test.h"

enum { FILE_MAX = 65536 };

/* The lines of a file, each with a NUL at its end. */
struct lines {
    char *text;
    size_t len;
};

static const char *get_line(void *arg, const char *name)
{
    const struct lines *lines = arg;
    size_t len = strlen(name);
    for (const char *at = lines->text; at < lines->text + lines->len;
         at += strlen(at) + 1) {
        if (strncmp(at, name, len) == 0 && at[len] == '=') {
            return at + len + 1;
        }
    }
    return NULL;
}

static struct lines read_lines(const char *path)
{
    uint8_t *bytes;
    struct lines lines;
    assert_code(0, coxi_file_read(path, FILE_MAX, &bytes, &lines.len));
    lines.text = (char *)bytes;
    for (char *at = lines.text; (at = strchr(at, '\n')) != NULL; at++) {
        *at = '\0';
    }
    return lines;
}

/* What is found, as text: a table, "nothing", or the error. */
static void describe(struct lines *lines, struct coxi_buffer *ret)
{
    const struct coxi_environment environment = {.get = get_line, .arg = lines};
    struct coxi_view view;
    int r = coxi_view_find(&environment, &view);
    if (r != 0) {
        assert_int_equal(0, coxi_buffer_printf(ret, "error: %s\n", coxi_error_text()));
    } else if (view.source == NULL) {
        assert_int_equal(0, coxi_buffer_printf(ret, "nothing\n"));
    } else {
        assert_code(0, coxi_view_table(&view, ret));
    }
    coxi_view_fini(&view);
}

/* Each error has to say what to do. */
static bool advises(const char *text)
{
    static const char *const words[] = {
        "set ",       "correct it", "its lists are called",
        "it is like", "it needs",   "an address is"};
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        if (strstr(text, words[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static void check_environment(const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct coxi_buffer text = {0};
    uint8_t *expected = NULL;
    size_t len = 0;
    assert_code(0, coxi_path(path, "%s/%s.env", dir, name));
    struct lines lines = read_lines(path);
    describe(&lines, &text);
    free(lines.text);
    assert_code(0, coxi_buffer_append_raw(&text, "", 1));
    assert_code(0, coxi_path(path, "%s/%s.txt", dir, name));
    if (getenv("COX_WRITE_EXPECTED") != NULL) {
        assert_code(0, coxi_file_write(path, text.data, text.len - 1));
    }
    assert_code(0, coxi_file_read(path, FILE_MAX, &expected, &len));
    assert_string_equal((char *)expected, (char *)text.data);
    bool wrong = strncmp(name, "wrong_", 6) == 0;
    if (wrong != (strncmp((char *)text.data, "error: ", 7) == 0)) {
        fail_msg("%s: %s", name, (char *)text.data);
    }
    if (wrong && !advises((char *)text.data)) {
        fail_msg("%s does not say what to do: %s", name, (char *)text.data);
    }
    free(expected);
    coxi_buffer_fini(&text);
}

TEST(view_names_roles_and_addresses_of_recorded_environments)
{
    size_t n = 0;
    DIR *dir = opendir(COX_ENVIRONMENTS);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char *end = strstr(entry->d_name, ".env");
        if (end != NULL) {
            *end = '\0';
            check_environment(COX_ENVIRONMENTS, entry->d_name);
            n++;
        }
    }
    assert_int_equal(0, closedir(dir));
    assert_true(n >= 60);
}

static const char *get_nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

TEST(view_without_variables_is_nothing)
{
    const struct coxi_environment environment = {.get = get_nothing};
    struct coxi_view view;
    assert_code(0, coxi_view_find(&environment, &view));
    assert_null(view.source);
    coxi_view_fini(&view);
}

TEST(view_is_told_as_json)
{
    static char text[] = "COX_CLUSTER={\"ps\": [\"h:1\"], \"worker\": [\"i:2\"]}\0"
                         "COX_TASK=worker:0\0";
    struct lines lines = {text, sizeof(text)};
    const struct coxi_environment environment = {.get = get_line, .arg = &lines};
    struct coxi_view view;
    assert_code(0, coxi_view_find(&environment, &view));
    char *json = coxi_view_json(&view);
    assert_string_equal(json, "{\n"
                              "  \"source\": \"COX_CLUSTER\",\n"
                              "  \"role\": \"worker\",\n"
                              "  \"index\": 0,\n"
                              "  \"listen\": \"tcp://0.0.0.0:2\",\n"
                              "  \"ps\": [\n"
                              "    \"tcp://h:1\"\n"
                              "  ],\n"
                              "  \"worker\": [\n"
                              "    \"tcp://i:2\"\n"
                              "  ],\n"
                              "  \"from\": {\n"
                              "    \"role\": \"COX_TASK\",\n"
                              "    \"index\": \"COX_TASK\",\n"
                              "    \"listen\": \"COX_CLUSTER\",\n"
                              "    \"ps\": \"COX_CLUSTER\",\n"
                              "    \"worker\": \"COX_CLUSTER\"\n"
                              "  }\n"
                              "}");
    free(json);
    coxi_view_fini(&view);
}
