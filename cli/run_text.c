/* See run_text.h. What a record does not say is shown as "-". */
#include "cli/run_text.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/watcher.h"

enum {
    CELL_MAX = 80,
    TEXT_MAX = 2048,
    METRICS_MAX = 8,
    TABLE_LINES = 7 /* that are no rows: of when, empty ones, titles, "and 5 more" */
};

/* ---- values */

static double number_of(json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static uint64_t count_of(json_t *object, const char *name)
{
    double value = number_of(object, name);
    return value > 0 && value < 1e18 ? (uint64_t)value : 0;
}

static const char *string_of(json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL ? text : "";
}

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- texts */

/* Copies a text from the run: made plain, and cut to `len` bytes. */
static const char *plain(const char *text, char *ret, size_t len)
{
    (void)snprintf(ret, len, "%s", text);
    coxi_watcher_plain(ret);
    return ret;
}

/* Prints a line of at most `columns` characters (0: any number). */
static void print_line(FILE *out, const char *line, size_t columns)
{
    size_t n = 0;
    const char *at = line;
    for (; *at != '\0'; at++) {
        bool begins = (*at & 0xc0) != 0x80; /* a character, in UTF-8 */
        if (begins && columns != 0 && n == columns) {
            break;
        }
        n += begins;
    }
    (void)fprintf(out, "%.*s\n", (int)(at - line), line);
}

static const char *scaled(double value, double base, const char *const *units,
                          char *ret)
{
    size_t i = 0;
    while (value >= base && units[i + 1] != NULL) {
        value /= base;
        i++;
    }
    (void)snprintf(ret, CELL_MAX, value >= 100 || i == 0 ? "%.0f%s" : "%.1f%s", value,
                   units[i]);
    return ret;
}

static const char *bytes_text(double value, char *ret)
{
    static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB", NULL};
    return isnan(value) ? strcpy(ret, "-") : scaled(value, 1024, units, ret);
}

/* Of what may be unknown. */
static const char *memory_text(double value, char *ret)
{
    return bytes_text(value > 0 ? value : NAN, ret);
}

static const char *micros_text(double value, char *ret)
{
    static const char *const units[] = {" us", " ms", " s", NULL};
    return isnan(value) ? strcpy(ret, "-") : scaled(value, 1000, units, ret);
}

static const char *millis_text(double value, char *ret)
{
    return micros_text(value * 1000, ret);
}

static const char *count_text(double value, char *ret)
{
    (void)snprintf(ret, CELL_MAX, isnan(value) ? "-" : "%.0f", value);
    return ret;
}

static const char *rate_text(double value, char *ret)
{
    (void)snprintf(ret, CELL_MAX,
                   isnan(value)  ? "-"
                   : value < 100 ? "%.1f"
                                 : "%.0f",
                   value);
    return ret;
}

static const char *duration_text(double s, char *ret)
{
    unsigned long long whole = s > 0 && s < 1e12 ? (unsigned long long)s : 0;
    if (whole < 60) {
        (void)snprintf(ret, CELL_MAX, "%llu s", whole);
    } else if (whole < 3600) {
        (void)snprintf(ret, CELL_MAX, "%llu min %llu s", whole / 60, whole % 60);
    } else {
        (void)snprintf(ret, CELL_MAX, "%llu h %llu min", whole / 3600, whole / 60 % 60);
    }
    return ret;
}

/* ---- what is well */

static bool is_up(json_t *peer)
{
    const char *state = string_of(peer, "state");
    return strcmp(state, "up") == 0 || strcmp(state, "ready") == 0;
}

/* It has left, so nobody waits for it. */
static bool has_left(json_t *peer)
{
    const char *state = string_of(peer, "state");
    return strcmp(state, "gone") == 0 || strcmp(state, "draining") == 0;
}

/* Counts the peers that should be there; returns how many are. */
static size_t count_up(json_t *peers, size_t *ret_all)
{
    size_t i;
    size_t n_up = 0;
    json_t *peer;
    *ret_all = 0;
    json_array_foreach(peers, i, peer)
    {
        *ret_all += !has_left(peer);
        n_up += is_up(peer);
    }
    return n_up;
}

/* `word`: as coxi_state_json tells how the client is. */
static bool is_client(json_t *state, const char *word)
{
    return strcmp(string_of(state, "client"), word) == 0;
}

static double silent_s(json_t *state)
{
    json_t *sample = json_object_get(state, "sample");
    return now_s() -
           number_of(json_is_object(sample) ? sample : json_object_get(state, "run"),
                     "t");
}

bool coxi_run_is_well(json_t *state)
{
    size_t n_ps;
    size_t n_workers;
    if (is_client(state, "closed")) {
        return !json_is_true(json_object_get(state, "run_over")) &&
               *string_of(json_object_get(state, "sample"), "failure") == '\0';
    }
    return is_client(state, "running") &&
           count_up(json_object_get(state, "ps"), &n_ps) == n_ps &&
           count_up(json_object_get(state, "workers"), &n_workers) == n_workers;
}

/* ---- the head */

static void print_run(json_t *state, FILE *out, struct coxi_run_text size)
{
    char line[TEXT_MAX] = "";
    char program[CELL_MAX];
    char host[CELL_MAX];
    char run[CELL_MAX];
    json_t *record = json_object_get(state, "run");
    const char *path = string_of(record, "program");
    const char *slash = strrchr(path, '/');
    (void)snprintf(line, sizeof(line), "%s, run %s (process %.0f on %s)",
                   plain(slash != NULL ? slash + 1 : path, program, sizeof(program)),
                   plain(string_of(record, "run"), run, sizeof(run)),
                   (double)count_of(record, "pid"),
                   plain(string_of(record, "host"), host, sizeof(host)));
    print_line(out, line, size.columns);
}

/* "; waits for ps 3"; "" if all are up. */
static void awaited_text(json_t *ps, char ret[CELL_MAX])
{
    size_t i;
    size_t n = 0;
    json_t *one;
    *ret = '\0';
    json_array_foreach(ps, i, one)
    {
        if (!is_up(one) && n++ == 0) {
            (void)snprintf(ret, CELL_MAX, "; waits for ps %llu",
                           (unsigned long long)count_of(one, "index"));
        }
    }
    if (n > 1) {
        (void)snprintf(ret, CELL_MAX, "; waits for %zu ps", n);
    }
}

/* ", 62.1 % of 10000, about 3 min left", or "of its data"; "" if nobody knows. While a ps
 * is awaited nobody knows how long it takes. */
static void left_text(json_t *state, bool waits, char ret[TEXT_MAX])
{
    char left[CELL_MAX];
    char of[CELL_MAX] = "its data";
    json_t *sample = json_object_get(state, "sample");
    json_t *data = json_object_get(sample, "data");
    double done = number_of(data, "done");
    bool told = number_of(sample, "total") > 0; /* by the program */
    double total = number_of(told ? sample : data, "total");
    double eta_s = number_of(told ? sample : data, "eta_s");
    *ret = '\0';
    if (told) {
        done = (double)count_of(sample, "done");
        (void)snprintf(of, sizeof(of), "%.0f", total);
    }
    if (total > 0 && done >= 0) {
        int n =
            snprintf(ret, TEXT_MAX, ", %.1f %% of %s", 100 * fmin(done / total, 1), of);
        if (n > 0 && eta_s > 0 && !waits && is_client(state, "running")) {
            (void)snprintf(ret + n, TEXT_MAX - (size_t)n, ", about %s left",
                           duration_text(eta_s, left));
        }
    }
}

/* What stands behind the steps that are done. */
static void pace_text(json_t *state, const char *awaited, char ret[TEXT_MAX])
{
    char cell[CELL_MAX];
    json_t *sample = json_object_get(state, "sample");
    if (is_client(state, "running") &&
        json_is_true(json_object_get(state, "run_over"))) {
        (void)snprintf(ret, TEXT_MAX, "; the run cannot go on");
        return;
    }
    if (is_client(state, "running")) {
        (void)snprintf(ret, TEXT_MAX, ", %s a second%s",
                       rate_text(number_of(sample, "rate"), cell), awaited);
        return;
    }
    if (is_client(state, "opening")) {
        (void)snprintf(ret, TEXT_MAX, "; a client is being opened");
        return;
    }
    (void)duration_text(silent_s(state), cell);
    if (is_client(state, "gone")) {
        (void)snprintf(ret, TEXT_MAX,
                       "; the client is gone without having closed the run, last heard "
                       "of %s ago",
                       cell);
    } else if (is_client(state, "closed")) {
        bool fails = json_is_true(json_object_get(state, "run_over"));
        (void)snprintf(ret, TEXT_MAX, "; ended %s ago%s", cell,
                       fails ? ", because it could not go on" : "");
    } else {
        (void)snprintf(ret, TEXT_MAX, "; nothing heard for %s", cell);
    }
}

/* Which closure has failed first, and why. */
static void print_failure(json_t *sample, FILE *out, struct coxi_run_text size)
{
    char line[TEXT_MAX];
    char text[TEXT_MAX];
    const char *failure = string_of(sample, "failure");
    if (*failure != '\0') {
        (void)snprintf(line, sizeof(line), "first failure: %.768s",
                       plain(failure, text, sizeof(text)));
        print_line(out, line, size.columns);
    }
}

static void print_progress(json_t *state, FILE *out, struct coxi_run_text size)
{
    char line[TEXT_MAX];
    char left[TEXT_MAX];
    char awaited[CELL_MAX];
    char pace[TEXT_MAX];
    json_t *sample = json_object_get(state, "sample");
    awaited_text(json_object_get(state, "ps"), awaited);
    left_text(state, *awaited != '\0', left);
    pace_text(state, awaited, pace);
    if (json_is_object(sample)) {
        (void)snprintf(line, sizeof(line), "%.0f steps done%.512s%.512s",
                       (double)count_of(sample, "done"), left, pace);
    } else {
        (void)snprintf(line, sizeof(line), "no sample yet%.512s",
                       is_client(state, "running") ? "" : pace);
    }
    print_line(out, line, size.columns);
    print_failure(sample, out, size);
}

static void print_counts(json_t *state, FILE *out, struct coxi_run_text size)
{
    char line[TEXT_MAX] = "";
    char bytes[CELL_MAX];
    char peers[TEXT_MAX];
    size_t n_ps;
    size_t n_workers;
    json_t *sample = json_object_get(state, "sample");
    size_t ps_up = count_up(json_object_get(state, "ps"), &n_ps);
    size_t ready = count_up(json_object_get(state, "workers"), &n_workers);
    if (is_client(state, "closed")) {
        (void)snprintf(peers, sizeof(peers), "ps %zu, workers %zu", n_ps, n_workers);
    } else {
        (void)snprintf(peers, sizeof(peers),
                       "%sps %zu of %zu up, workers %zu of %zu ready; waiting %.0f, "
                       "under way %.0f",
                       is_client(state, "running") ? "" : "last seen: ", ps_up, n_ps,
                       ready, n_workers, (double)count_of(sample, "queued"),
                       (double)count_of(sample, "in_flight"));
    }
    (void)snprintf(line, sizeof(line),
                   "%.512s, failed %.0f; checkpoints %.0f; %s on the ps", peers,
                   (double)count_of(sample, "failed"),
                   (double)count_of(sample, "checkpoints"),
                   bytes_text(number_of(sample, "ps_bytes"), bytes));
    print_line(out, line, size.columns);
}

/* The newest values of the first metrics. */
static void print_metrics(json_t *state, FILE *out, struct coxi_run_text size)
{
    const char *name;
    const char *source;
    json_t *sources;
    json_t *point;
    size_t n = 0;
    size_t most =
        size.rows != 0 && size.rows / 4 < METRICS_MAX ? size.rows / 4 : METRICS_MAX;
    json_object_foreach(json_object_get(state, "scalars"), name, sources)
    {
        json_object_foreach(sources, source, point)
        {
            char line[TEXT_MAX] = "";
            char name_text[CELL_MAX];
            char source_text[CELL_MAX];
            json_t *value = json_object_get(point, "value");
            char value_text[CELL_MAX];
            if (n++ >= most) {
                return;
            }
            if (json_is_number(value)) {
                (void)snprintf(value_text, CELL_MAX, "%.6g", json_number_value(value));
            } else {
                const char *text = json_string_value(value);
                (void)plain(text != NULL ? text : "-", value_text, CELL_MAX);
            }
            (void)snprintf(line, sizeof(line), "%s %s (%s, step %.0f)",
                           plain(name, name_text, CELL_MAX), value_text,
                           plain(source, source_text, CELL_MAX),
                           number_of(point, "step"));
            print_line(out, line, size.columns);
        }
    }
}

void coxi_run_text_head(json_t *state, FILE *out, struct coxi_run_text size)
{
    const char *bound = string_of(json_object_get(state, "sample"), "bound");
    char text[TEXT_MAX];
    print_run(state, out, size);
    print_progress(state, out, size);
    print_counts(state, out, size);
    print_metrics(state, out, size);
    if (*bound != '\0') {
        print_line(out, plain(bound, text, sizeof(text)), size.columns);
    }
}

/* ---- tables */

struct column {
    const char *title;
    int width; /* negative: on the left */
    const char *member;
    const char *(*text)(double value, char *ret); /* NULL: the member is a text */
    double (*value)(json_t *peer);                /* NULL: the member's */
};

/* A worker has more steps than slots: those that it begins next, so that no slot waits for a
 * message. */
static double running(json_t *worker)
{
    return fmin(number_of(worker, "running"), number_of(worker, "slots"));
}

static double next(json_t *worker)
{
    return number_of(worker, "running") - running(worker);
}

static const struct column ps_columns[] = {
    {"PS", 5, "index", count_text, NULL},
    {"STATE", -10, "state", NULL, NULL},
    {"MEMORY", 10, "bytes", bytes_text, NULL},
    {"ROWS", 12, "rows", count_text, NULL},
    {"PULLS/S", 9, "pulls_rate", rate_text, NULL},
    {"COMMITS/S", 10, "commits_rate", rate_text, NULL},
    {"LAG", 9, "lag_ms", millis_text, NULL},
    {"STALENESS", 10, "stale_mean", rate_text, NULL},
    {"WHERE", -1, "address", NULL, NULL},
    {0},
};

static const struct column worker_columns[] = {
    {"WORKER", 6, "index", count_text, NULL},
    {"STATE", -10, "state", NULL, NULL},
    {"STEPS/S", 8, "rate", rate_text, NULL},
    {"STEP", 9, "step_us", micros_text, NULL},
    {"RUNNING", 8, NULL, count_text, running},
    {"NEXT", 5, NULL, count_text, next},
    {"SLOTS", 6, "slots", count_text, NULL},
    {"DONE", 10, "done", count_text, NULL},
    {"MEMORY", 10, "rss", memory_text, NULL},
    {"LOST", 5, "lost", count_text, NULL},
    {"WHERE", -1, "address", NULL, NULL},
    {0},
};

/* `peer` NULL: the titles. */
static void print_row(const struct column *columns, json_t *peer, FILE *out,
                      struct coxi_run_text size)
{
    char line[TEXT_MAX] = "";
    size_t n = 0;
    for (const struct column *column = columns; column->title != NULL; column++) {
        char cell[CELL_MAX];
        const char *text = column->title;
        if (peer != NULL && column->text != NULL) {
            double value = column->value != NULL ? column->value(peer)
                                                 : number_of(peer, column->member);
            text = column->text(value, cell);
        } else if (peer != NULL) {
            text = plain(string_of(peer, column->member), cell, sizeof(cell));
        }
        int more = snprintf(line + n, sizeof(line) - n, "%s%*s", n > 0 ? "  " : "",
                            column->width, text);
        n += more > 0 && (size_t)more < sizeof(line) - n ? (size_t)more : 0;
    }
    print_line(out, line, size.columns);
}

/* Those that are not up come first; at most `most` rows in all, unless that is 0. */
static void print_table(const struct column *columns, json_t *peers, FILE *out,
                        struct coxi_run_text size, size_t most)
{
    size_t shown = 0;
    print_row(columns, NULL, out, size);
    for (int up = 0; up <= 1; up++) {
        size_t i;
        json_t *peer;
        json_array_foreach(peers, i, peer)
        {
            if (is_up(peer) == (up == 1) && (most == 0 || shown < most)) {
                print_row(columns, peer, out, size);
                shown++;
            }
        }
    }
    if (shown < json_array_size(peers)) {
        (void)fprintf(out, "  and %zu more\n", json_array_size(peers) - shown);
    }
}

void coxi_run_text_tables(json_t *state, FILE *out, struct coxi_run_text size)
{
    json_t *ps = json_object_get(state, "ps");
    json_t *workers = json_object_get(state, "workers");
    size_t room = size.rows > TABLE_LINES ? size.rows - TABLE_LINES : 1;
    size_t third = room / 3 > 1 ? room / 3 : 1;
    size_t n_ps = json_array_size(ps);
    size_t shown_ps = n_ps < third ? n_ps : third;
    (void)fprintf(out, "\n%s",
                  is_client(state, "running")  ? ""
                  : is_client(state, "closed") ? "When it ended:\n"
                                               : "As last seen:\n");
    print_table(ps_columns, ps, out, size, size.rows == 0 ? 0 : shown_ps);
    (void)fprintf(out, "\n");
    print_table(worker_columns, workers, out, size,
                size.rows == 0    ? 0
                : room > shown_ps ? room - shown_ps
                                  : 1);
}

/* ---- events */

void coxi_run_text_event(json_t *event, FILE *out)
{
    char when[32];
    char name[CELL_MAX];
    char level[CELL_MAX];
    char text[TEXT_MAX];
    struct tm tm;
    double t = number_of(event, "t");
    time_t seconds = t > 0 && t < 1e11 ? (time_t)t : 0;
    if (gmtime_r(&seconds, &tm) == NULL ||
        strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm) == 0) {
        (void)strcpy(when, "-");
    }
    (void)fprintf(out, "%s %-7s %s: %s\n", when,
                  plain(string_of(event, "level"), level, sizeof(level)),
                  plain(string_of(event, "code"), name, sizeof(name)),
                  plain(string_of(event, "text"), text, sizeof(text)));
}
