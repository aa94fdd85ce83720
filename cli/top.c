/* coxswain top, status and events: a run in a terminal. */
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/run_text.h"
#include "cli/watcher.h"
#include "common/error.h"
#include "net/daemon.h"
#include "page/state.h"

enum { SECOND_MS = 1000, FOLLOW_MS = 300 };

#define WHERE_HELP                                                                     \
    "\nWithout an argument: of the run in this directory. A client serves its run at " \
    "the\naddress that it was given (cox_options.http, coxswain run --page); the "     \
    "run's\ndirectory is its checkpoint directory, or else its directory of "          \
    "logs." COXI_WATCHER_EXIT_HELP

/* A run that is being watched. */
struct run {
    struct coxi_watcher *watch;
    struct coxi_state *state;
};

static int open_run(const char *where, struct run *run)
{
    int r = coxi_watcher_open(where, &run->watch);
    return r != 0 ? r : coxi_state_new(&run->state);
}

static void close_run(struct run *run)
{
    coxi_watcher_close(run->watch);
    coxi_state_free(run->state);
}

/* Takes what is new. */
static int look(struct run *run)
{
    struct coxi_buffer lines = {0};
    bool anew;
    int r = coxi_watcher_next(run->watch, &lines, &anew);
    if (r == 0 && anew) {
        coxi_state_free(run->state);
        run->state = NULL;
        r = coxi_state_new(&run->state);
    }
    if (r == 0 && lines.len > 0) {
        coxi_state_take(run->state, (const char *)lines.data, lines.len);
    }
    coxi_buffer_fini(&lines);
    return r;
}

/* Parses a command line with one optional word. False: the command is over. */
static bool parse(const struct coxi_program *program, int argc, char **argv,
                  void *config, const char **ret_where, int *ret_exit)
{
    int rest = 0;
    int r = coxi_options_parse(program, argc, argv, config, &rest);
    if (r == COXI_OPTIONS_EXIT) {
        *ret_exit = EXIT_SUCCESS;
        return false;
    }
    if (r == 0 && argc - rest > 1) {
        r = coxi_error(COX_EINVAL, "say: %s %s", program->name, program->usage);
    }
    if (r != 0) {
        *ret_exit = coxi_exit_config(program->name);
        return false;
    }
    *ret_where = rest < argc ? argv[rest] : ".";
    return true;
}

/* ---- top */

struct top_config {
    int64_t count;
    double interval;
};

static const struct coxi_option top_options[] = {
    {.name = "count",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct top_config, count),
     .max = 1000000000,
     .fallback = "0",
     .help = "end after so many tables; 0: never"},
    {.name = "interval",
     .type = COXI_OPTION_REAL,
     .offset = offsetof(struct top_config, interval),
     .min = 0.1,
     .max = 3600,
     .fallback = "1",
     .help = "seconds between two tables"},
};

static const struct coxi_program top_program = {
    .name = "coxswain top",
    .usage = "[options] [ADDRESS|DIR]",
    .summary =
        "Shows a run as a table that follows it: progress, ps, workers, metrics. "
        "Plain text, one\ntable after the other, where the output is no "
        "terminal." WHERE_HELP,
    .prefix = "COX_TOP",
    .mixed = true,
    .options = top_options,
    .n_options = sizeof(top_options) / sizeof(*top_options),
};

/* The terminal's size; zeros: the output is none. */
static struct coxi_run_text size_of_terminal(void)
{
    struct winsize size;
    if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) {
        return (struct coxi_run_text){0};
    }
    return (struct coxi_run_text){size.ws_col, size.ws_row};
}

/* The length of the first `n` lines of a text. */
static size_t length_of(const char *text, size_t n)
{
    const char *at = text;
    for (const char *end; n > 0 && (end = strchr(at, '\n')) != NULL; n--) {
        at = end + 1;
    }
    return (size_t)(at - text);
}

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++) {
        n++;
    }
    return n;
}

/* Writes all of a screen at once, so that it does not flicker. What is longer than the
 * terminal would scroll it: the last of its lines stays free for the cursor. */
static void show(struct run *run, const char *fault)
{
    struct coxi_run_text size = size_of_terminal();
    bool terminal = size.rows > 0;
    size_t most = terminal ? size.rows - 1 : SIZE_MAX;
    json_t *state = coxi_state_json(run->state);
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (out != NULL && state != NULL) {
        coxi_run_text_head(state, out, size);
        if (fault != NULL) {
            (void)fprintf(out, "%.*s\n", terminal ? (int)size.columns : INT_MAX, fault);
        }
        (void)fflush(out);
        if (terminal) {
            size_t used = count_lines(text);
            size.rows = most > used ? most - used : 1;
        }
        coxi_run_text_tables(state, out, size);
        (void)fclose(out);
        (void)printf("%s%.*s%s", terminal ? "\033[H\033[2J" : "",
                     (int)length_of(text, most), text, terminal ? "" : "\n");
        (void)fflush(stdout);
    } else if (out != NULL) {
        (void)fclose(out);
    }
    free(text);
    json_decref(state);
}

int coxi_command_top(int argc, char **argv)
{
    struct top_config config = {0};
    struct run run = {0};
    const char *where;
    int code;
    if (!parse(&top_program, argc, argv, &config, &where, &code)) {
        return code;
    }
    int r = open_run(where, &run);
    r = r != 0 ? r : look(&run);
    if (r != 0) {
        close_run(&run);
        return coxi_watcher_exit(top_program.name, r);
    }
    int pause_ms = (int)(config.interval * SECOND_MS);
    bool goes_on = true;
    for (int64_t n = 1; goes_on; n++) {
        show(&run, r != 0 ? coxi_error_text() : NULL);
        goes_on = (config.count == 0 || n < config.count) && ferror(stdout) == 0 &&
                  coxi_watcher_pause(pause_ms);
        r = goes_on ? look(&run) : r;
    }
    close_run(&run);
    return EXIT_SUCCESS;
}

/* ---- status */

struct status_config {
    bool json;
};

static const struct coxi_option status_options[] = {
    {.name = "json",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct status_config, json),
     .help = "print everything as one JSON object"},
};

static const struct coxi_program status_program = {
    .name = "coxswain status",
    .usage = "[options] [ADDRESS|DIR]",
    .summary =
        "Says how a run is: progress, speed, metrics, ps and workers that are "
        "away. Exits with 0 if\nthe client and all of them are there, or the run "
        "has ended as it should, with 3 if\nnot." WHERE_HELP,
    .prefix = "COX_STATUS",
    .mixed = true,
    .options = status_options,
    .n_options = sizeof(status_options) / sizeof(*status_options),
};

enum { EXIT_NOT_WELL = 3 };

int coxi_command_status(int argc, char **argv)
{
    struct status_config config = {0};
    struct run run = {0};
    const char *where;
    int code;
    if (!parse(&status_program, argc, argv, &config, &where, &code)) {
        return code;
    }
    int r = open_run(where, &run);
    r = r != 0 ? r : look(&run);
    json_t *state = r == 0 ? coxi_state_json(run.state) : NULL;
    close_run(&run);
    if (state == NULL) {
        r = r != 0 ? r : coxi_error_memory("the state of a run");
        return coxi_watcher_exit(status_program.name, r);
    }
    if (config.json) {
        (void)json_dumpf(state, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
        (void)printf("\n");
    } else {
        coxi_run_text_head(state, stdout, (struct coxi_run_text){0});
    }
    code = coxi_run_is_well(state) ? EXIT_SUCCESS : EXIT_NOT_WELL;
    json_decref(state);
    return fflush(stdout) == 0 ? code : COXI_EXIT_FAILED;
}

/* ---- events */

struct events_config {
    bool follow;
    bool json;
};

static const struct coxi_option events_options[] = {
    {.name = "follow",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct events_config, follow),
     .help = "go on with what happens from now on, until interrupted"},
    {.name = "json",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct events_config, json),
     .help = "print each event as one JSON object"},
};

static const struct coxi_program events_program = {
    .name = "coxswain events",
    .usage = "[options] [ADDRESS|DIR]",
    .summary =
        "Prints what has happened in a run, an event a line: workers and ps that "
        "were lost and are\nback, checkpoints, failures." WHERE_HELP,
    .prefix = "COX_EVENTS",
    .mixed = true,
    .options = events_options,
    .n_options = sizeof(events_options) / sizeof(*events_options),
};

/* Prints the events among the lines. */
static void print_events(const struct coxi_buffer *lines, bool as_json)
{
    const char *line = (const char *)lines->data;
    const char *end = line + lines->len;
    while (line < end) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t n = (size_t)((newline != NULL ? newline : end) - line);
        json_t *record = memmem(line, n, "\"event\"", 7) != NULL
                             ? json_loadb(line, n, 0, NULL)
                             : NULL;
        const char *kind = json_string_value(json_object_get(record, "kind"));
        if (kind != NULL && strcmp(kind, "event") == 0) {
            if (as_json) {
                (void)json_dumpf(record, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
                (void)printf("\n");
            } else {
                coxi_run_text_event(record, stdout);
            }
        }
        json_decref(record);
        line += n + 1;
    }
    (void)fflush(stdout);
}

int coxi_command_events(int argc, char **argv)
{
    struct events_config config = {0};
    struct coxi_watcher *watch = NULL;
    const char *where;
    int code;
    if (!parse(&events_program, argc, argv, &config, &where, &code)) {
        return code;
    }
    int r = coxi_watcher_open(where, &watch);
    bool first = true;
    bool is_told = false; /* that nobody answers */
    while (r == 0 || !first) {
        struct coxi_buffer lines = {0};
        bool anew;
        r = coxi_watcher_next(watch, &lines, &anew);
        if (r == 0 && lines.len > 0) {
            print_events(&lines, config.json);
        }
        if (r != 0 && !first && !is_told) {
            (void)fprintf(stderr, "%s: %s; trying again\n", events_program.name,
                          coxi_error_text());
        }
        is_told = r != 0;
        coxi_buffer_fini(&lines);
        if ((r != 0 && first) || !config.follow || ferror(stdout) != 0 ||
            !coxi_watcher_pause(FOLLOW_MS)) {
            break;
        }
        first = false;
    }
    coxi_watcher_close(watch);
    return r != 0 && first ? coxi_watcher_exit(events_program.name, r) : EXIT_SUCCESS;
}
