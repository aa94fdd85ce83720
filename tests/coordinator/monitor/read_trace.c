/* See read_trace.h. */
#include "tests/coordinator/monitor/read_trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

static const double tolerance_us = 0.0015; /* times have three decimals */

const char *trace_text(json_t *entry, const char *key)
{
    const char *text = json_string_value(json_object_get(entry, key));
    return text != NULL ? text : "";
}

double trace_number(json_t *entry, const char *key)
{
    json_t *number = json_object_get(entry, key);
    assert_true(json_is_number(number));
    return json_number_value(number);
}

uint64_t trace_closure(json_t *entry)
{
    return (uint64_t)json_integer_value(
        json_object_get(json_object_get(entry, "args"), "closure"));
}

bool trace_is(json_t *entry, const char *ph, const char *name, int process)
{
    return strcmp(trace_text(entry, "ph"), ph) == 0 &&
           strcmp(trace_text(entry, "name"), name) == 0 &&
           (int)trace_number(entry, "pid") / process == 1;
}

size_t trace_count(json_t *all, const char *name, int process)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(all); i++) {
        n += trace_is(json_array_get(all, i), "X", name, process);
    }
    return n;
}

bool trace_names(json_t *all, const char *what, const char *name)
{
    bool is = false;
    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *entry = json_array_get(all, i);
        is = is || (strcmp(trace_text(entry, "name"), what) == 0 &&
                    strncmp(trace_text(json_object_get(entry, "args"), "name"), name,
                            strlen(name)) == 0);
    }
    return is;
}

json_t *trace_span_at(json_t *all, json_t *end)
{
    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *entry = json_array_get(all, i);
        if (strcmp(trace_text(entry, "ph"), "X") == 0 &&
            trace_number(entry, "pid") == trace_number(end, "pid") &&
            trace_number(entry, "tid") == trace_number(end, "tid") &&
            trace_number(entry, "ts") == trace_number(end, "ts")) {
            return entry;
        }
    }
    return NULL;
}

size_t trace_lost(json_t *all)
{
    json_t *last = json_array_get(all, json_array_size(all) - 1);
    return (size_t)trace_number(json_object_get(last, "args"), "lost");
}

/* ---- the form */

/* What the format demands of an entry. */
static void check_entry(json_t *entry)
{
    const char *ph = trace_text(entry, "ph");
    assert_true(json_is_integer(json_object_get(entry, "pid")));
    assert_true(json_is_integer(json_object_get(entry, "tid")));
    assert_true(*trace_text(entry, "name") != '\0');
    if (strcmp(ph, "M") == 0) {
        assert_true(json_is_object(json_object_get(entry, "args")));
        return;
    }
    assert_true(trace_number(entry, "ts") >= 0);
    if (strcmp(ph, "X") == 0) {
        assert_true(trace_number(entry, "dur") >= 0);
        return;
    }
    assert_true(strcmp(ph, "s") == 0 || strcmp(ph, "f") == 0);
    assert_true(strncmp(trace_text(entry, "id"), "0x", 2) ==
                0); /* as Perfetto reads it */
    assert_int_equal(18, strlen(trace_text(entry, "id")));
    assert_true(*trace_text(entry, "cat") != '\0');
    assert_true(strcmp(ph, "s") == 0 || strcmp(trace_text(entry, "bp"), "e") == 0);
}

/* An entry that has a place in time, or a name of a process or thread. */
struct placed {
    double pid;
    double tid;
    double ts;
    double end;
    json_t *entry;
};

static int sign(double difference)
{
    return (difference > 0) - (difference < 0);
}

/* By thread, then by time, the longer first. */
static int compare(const void *a, const void *b)
{
    const struct placed *left = a;
    const struct placed *right = b;
    int by = sign(left->pid - right->pid);
    by = by != 0 ? by : sign(left->tid - right->tid);
    by = by != 0 ? by : sign(left->ts - right->ts);
    return by != 0 ? by : sign(right->end - left->end);
}

/* The entries of kind `ph` with that name (NULL: any), sorted; for free(). */
static struct placed *sorted(json_t *all, const char *ph, const char *name,
                             size_t *ret_n)
{
    struct placed *found = calloc(json_array_size(all) + 1, sizeof(*found));
    size_t n = 0;
    assert_non_null(found);
    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *entry = json_array_get(all, i);
        if (strcmp(trace_text(entry, "ph"), ph) != 0 ||
            (name != NULL && strcmp(trace_text(entry, "name"), name) != 0)) {
            continue;
        }
        double ts = *ph == 'M' ? 0 : trace_number(entry, "ts");
        found[n++] =
            (struct placed){trace_number(entry, "pid"), trace_number(entry, "tid"), ts,
                            *ph == 'X' ? ts + trace_number(entry, "dur") : ts, entry};
    }
    qsort(found, n, sizeof(*found), compare);
    *ret_n = n;
    return found;
}

static bool same_thread(const struct placed *a, const struct placed *b)
{
    return a->pid == b->pid && a->tid == b->tid;
}

/* Each process, or thread, of the spans has one name. */
static void check_names(const struct placed *spans, size_t n, json_t *all,
                        const char *what)
{
    size_t n_names;
    struct placed *names = sorted(all, "M", what, &n_names);
    bool of_threads = strcmp(what, "thread_name") == 0;
    for (size_t i = 1; i < n_names; i++) {
        assert_false(same_thread(&names[i - 1], &names[i]));
    }
    for (size_t i = 0; i < n; i++) {
        struct placed key = {.pid = spans[i].pid, .tid = of_threads ? spans[i].tid : 0};
        if (bsearch(&key, names, n_names, sizeof(key), compare) == NULL) {
            fail_msg("process %.0f thread %.0f has no %s", key.pid, spans[i].tid, what);
        }
    }
    free(names);
}

/* No span of a thread ends within another one that began before it ended. */
static void check_nested(const struct placed *spans, size_t n)
{
    enum { DEPTH_MAX = 64 };
    const struct placed *open[DEPTH_MAX];
    size_t depth = 0;
    for (size_t i = 0; i < n; i++) {
        while (depth > 0 && (!same_thread(open[depth - 1], &spans[i]) ||
                             open[depth - 1]->end <= spans[i].ts + tolerance_us)) {
            depth--;
        }
        if (depth > 0 && spans[i].end > open[depth - 1]->end + tolerance_us) {
            fail_msg(
                "'%s' (%.3f to %.3f) and '%s' (%.3f to %.3f) overlap in thread %.0f "
                "of process %.0f",
                trace_text(open[depth - 1]->entry, "name"), open[depth - 1]->ts,
                open[depth - 1]->end, trace_text(spans[i].entry, "name"), spans[i].ts,
                spans[i].end, spans[i].tid, spans[i].pid);
        }
        assert_true(depth < DEPTH_MAX);
        open[depth++] = &spans[i];
    }
}

static bool begins_span(const struct placed *end, const struct placed *spans, size_t n)
{
    size_t low = 0;
    size_t high = n;
    while (low < high) { /* the first span that is not before `end` */
        size_t middle = low + (high - low) / 2;
        const struct placed key = {end->pid, end->tid, end->ts, INFINITY, NULL};
        if (compare(&spans[middle], &key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < n && same_thread(&spans[low], end) && spans[low].ts == end->ts;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(trace_text(((const struct placed *)a)->entry, "id"),
                  trace_text(((const struct placed *)b)->entry, "id"));
}

static void check_arrows(json_t *all, const struct placed *spans, size_t n)
{
    size_t n_from;
    size_t n_to;
    struct placed *from = sorted(all, "s", NULL, &n_from);
    struct placed *to = sorted(all, "f", NULL, &n_to);
    for (size_t i = 0; i < n_from; i++) {
        assert_true(begins_span(&from[i], spans, n));
    }
    qsort(from, n_from, sizeof(*from), compare_ids);
    for (size_t i = 1; i < n_from; i++) {
        assert_true(compare_ids(&from[i - 1], &from[i]) != 0);
    }
    for (size_t i = 0; i < n_to; i++) {
        assert_true(begins_span(&to[i], spans, n));
        const struct placed *begin =
            bsearch(&to[i], from, n_from, sizeof(*from), compare_ids);
        if (begin != NULL) { /* else it was lost, or is of before the trace */
            assert_true(to[i].ts >= begin->ts);
            assert_string_equal(trace_text(begin->entry, "name"),
                                trace_text(to[i].entry, "name"));
        }
    }
    free(from);
    free(to);
}

json_t *read_trace(const char *path, bool is_whole)
{
    json_error_t error;
    size_t n;
    json_t *all = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (all == NULL) {
        fail_msg("%s: %s at %d", path, error.text, error.position);
    }
    assert_true(json_is_array(all) && json_array_size(all) > 1);
    for (size_t i = 0; i < json_array_size(all); i++) {
        check_entry(json_array_get(all, i));
    }
    struct placed *spans = sorted(all, "X", NULL, &n);
    check_names(spans, n, all, "process_name");
    check_names(spans, n, all, "thread_name");
    check_nested(spans, n);
    check_arrows(all, spans, n);
    free(spans);
    json_t *last = json_array_get(all, json_array_size(all) - 1);
    if (is_whole) {
        assert_string_equal("coxswain", trace_text(last, "name"));
        assert_int_equal(
            json_array_size(all) - 1,
            (size_t)trace_number(json_object_get(last, "args"), "written"));
    }
    return all;
}
