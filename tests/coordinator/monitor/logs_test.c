/* Logs as JSON: what the client and its local cluster write, and that the same ids name the
 * same things in all of it. */
#include <fcntl.h>
#include <glob.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "coxswain/coxswain.h"
#include "tests/coordinator/crew.h"
#include "tests/test.h"

enum { SHORT_MS = 100 };

/* A line that must be there: its role and event, and what it must name; 0: nothing. */
struct expected {
    const char *role;
    const char *event;
    uint64_t closure;
    const char *run;
    bool found;
};

static bool has_text(json_t *json, const char *key, const char *expected)
{
    const char *text = json_string_value(json_object_get(json, key));
    return text != NULL && strcmp(text, expected) == 0;
}

static void look_at(json_t *json, struct expected *expected, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct expected *e = &expected[i];
        json_t *closure = json_object_get(json, "closure");
        e->found = e->found || (has_text(json, "role", e->role) &&
                                has_text(json, "event", e->event) &&
                                (e->run == NULL || has_text(json, "run", e->run)) &&
                                (e->closure == 0 || (json_is_integer(closure) &&
                                                     json_integer_value(closure) ==
                                                         (json_int_t)e->closure)));
    }
}

/* Parses every line of a file. */
static void read_lines(const char *path, struct expected *expected, size_t n)
{
    size_t len;
    char *text = coxi_test_read(path, &len);
    assert_true(len > 0 && text[len - 1] == '\n');
    for (char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        json_t *json =
            json_loadb(line, strcspn(line, "\n"), JSON_REJECT_DUPLICATES, NULL);
        if (json == NULL) {
            fail_msg("%s has a line that is no JSON: %.300s", path, line);
        }
        assert_true(json_is_string(json_object_get(json, "ts")));
        assert_true(json_is_integer(json_object_get(json, "index")));
        look_at(json, expected, n);
        json_decref(json);
    }
    free(text);
}

/* Sends standard error to a file; returns what it was. */
static int redirect(const char *path)
{
    int saved = dup(STDERR_FILENO);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(saved >= 0 && fd >= 0);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    (void)close(fd);
    return saved;
}

TEST(a_closure_and_a_run_have_the_same_ids_in_all_logs)
{
    char run[17];
    char pattern[300];
    glob_t logs = {0};
    struct crew crew;
    struct crew_hold hold;
    struct cox_error error = COX_ERROR_INIT;
    struct cox_options options = COX_OPTIONS_INIT;
    options.step_timeout_ms = SHORT_MS;
    options.cancel_grace_ms = SHORT_MS;
    options.max_attempts = 1;
    options.keep_going = 1;
    const char *said = coxi_test_path("client.log");
    assert_int_equal(0, setenv("COX_LOG_FORMAT", "json", 1));
    coxi_test_expect_crashes();
    int saved = redirect(said);
    crew_open(&crew, 1, 1, "hold", &options);
    (void)snprintf(run, sizeof(run), "%016llx", (unsigned long long)cox_run_id(crew.c));
    crew_hold(&hold, &crew, "hold",
              true); /* it does not look whether it is cancelled */
    crew_hold_wait(&hold);
    int code = cox_future_wait(hold.future, -1);
    int told = cox_future_error(hold.future, &error);
    cox_future_free(hold.future);
    int closed = cox_close(crew.c, 5000);
    (void)dup2(saved, STDERR_FILENO);
    (void)close(saved);
    (void)unsetenv("COX_LOG_FORMAT");
    crew_hold_release(&hold);
    assert_int_equal(COX_EOVERRUN, code);
    assert_int_equal(0, told);
    assert_int_equal(0, closed);
    struct expected expected[] = {
        {"client", "step_overrun", error.closure, run, false},
        {"worker", "step_not_returned", error.closure, run, false},
        {"worker", "client", 0, run, false},
        {"ps", "claim", 0, run, false},
    };
    const size_t n = sizeof(expected) / sizeof(*expected);
    (void)snprintf(pattern, sizeof(pattern), "%s/*-*.log", crew.log_dir);
    assert_int_equal(0, glob(pattern, 0, NULL, &logs));
    assert_true(logs.gl_pathc >= 2);
    for (size_t i = 0; i < logs.gl_pathc; i++) {
        read_lines(logs.gl_pathv[i], expected, n);
    }
    globfree(&logs);
    read_lines(said, expected, n);
    for (size_t i = 0; i < n; i++) {
        if (!expected[i].found) {
            fail_msg("no line of %s tells %s", expected[i].role, expected[i].event);
        }
    }
}
