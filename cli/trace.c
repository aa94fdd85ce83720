/* coxswain trace: a trace of a run that is under way, into a file. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/trace_file.h"
#include "cli/trace_get.h"
#include "cli/watcher.h"
#include "common/clock.h"
#include "common/error.h"
#include "net/daemon.h"
#include "page/state.h"

enum { URL_BYTES = 256 };

static const double mebibyte = 1 << 20;

struct config {
    int64_t seconds;
    const char *output;
};

static const struct coxi_option options[] = {
    {.name = "seconds",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, seconds),
     .min = 1,
     .max = 300,
     .fallback = "5",
     .help = "how long"},
    {.name = "output",
     .letter = 'o',
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct config, output),
     .fallback = "trace.json",
     .help = "the file; it appears when it is whole, and replaces what was there"},
};

static const struct coxi_program program = {
    .name = "coxswain trace",
    .usage = "[options] [ADDRESS|DIR]",
    .summary =
        "Takes a trace of a run that is under way: what each slot, loop and thread of "
        "a "
        "ps does.\n"
        "https://ui.perfetto.dev opens the file, which stays on your machine, and so "
        "does\n"
        "chrome://tracing. The client must be on this host, and serve over HTTP "
        "(cox_options.http,\n"
        "$COX_HTTP, or coxswain run --page). DIR is the run's directory, without an "
        "argument this\n"
        "one. Ctrl-C ends the trace early." COXI_WATCHER_EXIT_HELP,
    .prefix = "COX_TRACE",
    .mixed = true,
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

/* ---- the run */

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL ? text : "";
}

/* The newest record of a run in a history; a new reference, or NULL. */
static json_t *last_run(struct coxi_watcher *watch)
{
    struct coxi_buffer lines = {0};
    struct coxi_state *state = NULL;
    json_t *run = NULL;
    bool anew;
    if (coxi_watcher_next(watch, &lines, &anew) == 0 && lines.len > 0 &&
        coxi_state_new(&state) == 0) {
        coxi_state_take(state, (const char *)lines.data, lines.len);
        json_t *all = coxi_state_json(state);
        run = json_incref(json_object_get(all, "run"));
        json_decref(all);
    }
    coxi_state_free(state);
    coxi_buffer_fini(&lines);
    return run;
}

/* True if the client at a URL is that of `run`, and not another one that has its port by
 * now. */
static bool serves(const char *url, const json_t *run)
{
    struct coxi_buffer answer = {0};
    bool is = false;
    if (coxi_watcher_get(url, "/api/state", &answer) == 0) {
        json_t *state = json_loadb((const char *)answer.data, answer.len, 0, NULL);
        const json_t *served = json_object_get(state, "run");
        is = *text_of(run, "run") != '\0' &&
             strcmp(text_of(served, "run"), text_of(run, "run")) == 0 &&
             json_integer_value(json_object_get(served, "pid")) ==
                 json_integer_value(json_object_get(run, "pid"));
        json_decref(state);
    }
    coxi_buffer_fini(&answer);
    return is;
}

/* Where the client of the run in a directory serves. */
static int find_client(const char *dir, const json_t *run, char ret_url[URL_BYTES])
{
    char url[URL_BYTES];
    (void)snprintf(url, sizeof(url), "%s", text_of(run, "http"));
    coxi_watcher_plain(url);
    if (*url == '\0') {
        return coxi_error(
            COX_ENOENT,
            "the run in %s does not serve over HTTP: start it with "
            "COX_HTTP=127.0.0.1:0 or cox_options.http, or by coxswain run "
            "--page",
            dir);
    }
    if (!serves(url, run)) {
        return coxi_error(COX_ENOENT,
                          "the run in %s is over, or on another host: its client does "
                          "not answer at %s",
                          dir, url);
    }
    (void)snprintf(ret_url, URL_BYTES, "%s", url);
    return 0;
}

static int find_url(const char *where, char ret_url[URL_BYTES])
{
    struct coxi_watcher *watch = NULL;
    int r = coxi_watcher_open(where, &watch);
    if (r != 0) {
        return r;
    }
    const char *url = coxi_watcher_url(watch);
    if (url != NULL) {
        (void)snprintf(ret_url, URL_BYTES, "%s", url);
    } else {
        json_t *run = last_run(watch);
        r = find_client(where, run, ret_url);
        json_decref(run);
    }
    coxi_watcher_close(watch);
    return r;
}

/* ---- the trace */

struct taking {
    struct coxi_trace_file file;
    int64_t seconds;
    uint64_t begun_ms; /* when the first bytes came; 0: not yet */
    bool terminal;
};

static int take(void *arg, const void *bytes, size_t len)
{
    struct taking *taking = arg;
    taking->begun_ms = taking->begun_ms != 0 ? taking->begun_ms : coxi_now_ms();
    return coxi_trace_file_add(&taking->file, bytes, len);
}

static double seconds_of(const struct taking *taking)
{
    return taking->begun_ms != 0 ? (double)(coxi_now_ms() - taking->begun_ms) / 1000
                                 : 0;
}

/* Shows how far it is, in a terminal. */
static bool goes_on(void *arg)
{
    const struct taking *taking = arg;
    if (taking->terminal) {
        (void)fprintf(stderr, "\r%5.1f of %d s, %.1f MiB ", seconds_of(taking),
                      (int)taking->seconds, (double)taking->file.bytes / mebibyte);
        (void)fflush(stderr);
    }
    return coxi_watcher_pause(0);
}

static void print_result(const struct taking *taking, double seconds)
{
    const struct coxi_trace_file *file = &taking->file;
    (void)printf("%s: %.1f s, %llu entries, %.1f MiB", file->path, seconds,
                 (unsigned long long)file->n_entries, (double)file->bytes / mebibyte);
    if (file->n_lost > 0) {
        (void)printf("; %llu spans are missing", (unsigned long long)file->n_lost);
    }
    (void)printf(
        "\nOpen it at https://ui.perfetto.dev (\"Open trace file\"; it stays on "
        "this machine).\n");
}

/* Ends the file. `r`: how the answer has ended. */
static int finish(struct taking *taking, int r)
{
    double seconds = seconds_of(taking);
    bool is_cut = r == COX_ECANCELLED || r == COX_ECLOSED;
    if (taking->terminal) {
        (void)fputc('\n', stderr);
    }
    if (is_cut && taking->file.n_entries > 0) {
        (void)fprintf(stderr, "%s: %s: what has come so far is kept\n", program.name,
                      r == COX_ECANCELLED ? "interrupted"
                                          : "the run has ended, or its client");
    }
    if (r == 0 && seconds + 1 < (double)taking->seconds) {
        (void)fprintf(stderr, "%s: the run has ended meanwhile\n", program.name);
    }
    r = r == 0 || is_cut ? coxi_trace_file_end(&taking->file, is_cut) : r;
    coxi_trace_file_drop(&taking->file);
    if (r == 0) {
        print_result(taking, seconds);
    }
    return r;
}

int coxi_command_trace(int argc, char **argv)
{
    struct config config = {0};
    struct taking taking = {.terminal = isatty(STDERR_FILENO) != 0};
    char url[URL_BYTES];
    int rest = 0;
    int r = coxi_options_parse(&program, argc, argv, &config, &rest);
    if (r == COXI_OPTIONS_EXIT) {
        return EXIT_SUCCESS;
    }
    if (r == 0 && argc - rest > 1) {
        r = coxi_error(COX_EINVAL, "say: %s %s", program.name, program.usage);
    }
    if (r != 0) {
        return coxi_exit_config(program.name);
    }
    taking.seconds = config.seconds;
    r = find_url(rest < argc ? argv[rest] : ".", url);
    if (r != 0) {
        return coxi_watcher_exit(program.name, r);
    }
    r = coxi_trace_file_open(&taking.file, config.output);
    if (r == 0) {
        const struct coxi_trace_get get = {url, (int)config.seconds, take, goes_on,
                                           &taking};
        r = finish(&taking, coxi_trace_get(&get));
    }
    if (r != 0) {
        (void)fprintf(stderr, "%s: %s\n", program.name, coxi_error_text());
        return COXI_EXIT_FAILED;
    }
    return fflush(stdout) == 0 ? EXIT_SUCCESS : COXI_EXIT_FAILED;
}
