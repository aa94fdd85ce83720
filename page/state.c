/*
 * See state.h. Records of workers and ps say what has changed, so they are merged by
 * index; of all other kinds the newest record counts.
 */
#include "page/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/error.h"
#include "common/process.h"

/* The kinds of which the newest record counts. */
static const char *const newest_kinds[] = {"run", "sample", "checkpoint", "event"};
enum { RUN, SAMPLE, N_NEWEST = sizeof(newest_kinds) / sizeof(*newest_kinds) };

/* The older a run is, the rarer are its samples on disk: for each hour a second more apart. */
static const double silent_s = 10;
static const double rarer_each_s = 3600;

struct coxi_state {
    uint64_t seq;
    json_t *newest[N_NEWEST]; /* or NULL */
    bool run_over;            /* the client has told so */
    uint64_t served_seq;      /* of the newest event that a client serves, and when */
    double served_s;
    json_t *config;  /* what the program has given; or NULL */
    json_t *workers; /* object: "0000000012" (index): worker */
    json_t *ps;      /* the same */
    json_t *scalars;
};

int coxi_state_new(struct coxi_state **ret)
{
    struct coxi_state *state = calloc(1, sizeof(*state));
    if (state == NULL) {
        return coxi_error_memory("the state of a run");
    }
    state->workers = json_object();
    state->ps = json_object();
    state->scalars = json_object();
    if (state->workers == NULL || state->ps == NULL || state->scalars == NULL) {
        coxi_state_free(state);
        return coxi_error_memory("the state of a run");
    }
    *ret = state;
    return 0;
}

void coxi_state_free(struct coxi_state *state)
{
    if (state == NULL) {
        return;
    }
    for (size_t i = 0; i < N_NEWEST; i++) {
        json_decref(state->newest[i]);
    }
    json_decref(state->config);
    json_decref(state->workers);
    json_decref(state->ps);
    json_decref(state->scalars);
    free(state);
}

uint64_t coxi_state_seq(const struct coxi_state *state)
{
    return state->seq;
}

static void replace(json_t **old, json_t *value)
{
    json_decref(*old);
    *old = json_incref(value);
}

/* ---- taking records */

/* Merges the members of `list` into `all`. */
static void merge(json_t *all, json_t *list)
{
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one)
    {
        char key[32];
        json_t *index = json_object_get(one, "index");
        if (!json_is_integer(index)) {
            continue;
        }
        (void)snprintf(key, sizeof(key), "%010" JSON_INTEGER_FORMAT,
                       json_integer_value(index));
        json_t *known = json_object_get(all, key);
        if (known == NULL) {
            (void)json_object_set(all, key, one);
        } else {
            (void)json_object_update(known, one);
        }
    }
}

static void take_scalar(struct coxi_state *state, json_t *record)
{
    const char *name = json_string_value(json_object_get(record, "name"));
    const char *source = json_string_value(json_object_get(record, "source"));
    if (name == NULL || source == NULL) {
        return;
    }
    json_t *sources = json_object_get(state->scalars, name);
    if (sources == NULL) {
        sources = json_object();
        (void)json_object_set_new(state->scalars, name, sources);
    }
    (void)json_object_set_new(sources, source,
                              json_pack("{s:O?, s:O?}", "step",
                                        json_object_get(record, "step"), "value",
                                        json_object_get(record, "value")));
}

static void take_event(struct coxi_state *state, const json_t *record)
{
    const char *code = json_string_value(json_object_get(record, "code"));
    if (code != NULL && strcmp(code, "run_over") == 0) {
        state->run_over = true;
    } else if (code != NULL && strcmp(code, "serves") == 0) {
        state->served_seq = state->seq;
        state->served_s = json_number_value(json_object_get(record, "t"));
    }
}

/* A client says what its workers and ps are; those of the client before it are gone. */
static void take(struct coxi_state *state, const char *kind, json_t *record)
{
    if (strcmp(kind, "scalar") == 0) {
        take_scalar(state, record);
    } else if (strcmp(kind, "workers") == 0) {
        merge(state->workers, json_object_get(record, kind));
    } else if (strcmp(kind, "ps") == 0) {
        merge(state->ps, json_object_get(record, kind));
    } else if (strcmp(kind, "config") == 0) {
        replace(&state->config, json_object_get(record, kind));
    } else if (strcmp(kind, "run") == 0) {
        (void)json_object_clear(state->workers);
        (void)json_object_clear(state->ps);
        state->run_over = false;
    } else if (strcmp(kind, "event") == 0) {
        take_event(state, record);
    } else if (json_is_false(json_object_get(record, "opened"))) {
        state->run_over = true; /* the last sample of a cox_open that failed */
    }
    for (size_t i = 0; i < N_NEWEST; i++) {
        if (strcmp(kind, newest_kinds[i]) == 0) {
            replace(&state->newest[i], record);
        }
    }
}

static void take_line(struct coxi_state *state, const char *line, size_t len)
{
    json_t *record = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
    const char *kind = json_string_value(json_object_get(record, "kind"));
    uint64_t seq = (uint64_t)json_integer_value(json_object_get(record, "seq"));
    if (kind != NULL && seq > state->seq) {
        state->seq = seq;
        take(state, kind, record);
    }
    json_decref(record);
}

void coxi_state_take(struct coxi_state *state, const char *lines, size_t len)
{
    while (len > 0) {
        const char *end = memchr(lines, '\n', len);
        size_t n = end != NULL ? (size_t)(end - lines) : len;
        take_line(state, lines, n);
        n += end != NULL;
        lines += n;
        len -= n;
    }
}

/* ---- the client */

static double number_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name)); /* 0: it is none */
}

/* False: nobody has told which process it is. */
static bool process_of(const json_t *run, struct coxi_process_id *ret)
{
    const json_t *process = json_object_get(run, "process");
    const char *boot = json_string_value(json_object_get(process, "boot"));
    if (boot == NULL) {
        return false;
    }
    *ret = (struct coxi_process_id){
        .pid = (int)json_integer_value(json_object_get(run, "pid")),
        .began_ticks =
            (uint64_t)json_integer_value(json_object_get(process, "began_ticks")),
        .pid_namespace =
            (uint64_t)json_integer_value(json_object_get(process, "pid_namespace"))};
    (void)snprintf(ret->boot, sizeof(ret->boot), "%s", boot);
    return true;
}

static bool is_gone(const json_t *run)
{
    struct coxi_process_id id;
    return process_of(run, &id) && coxi_process_look(&id) == COXI_PROCESS_GONE;
}

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum coxi_client coxi_state_client(const struct coxi_state *state)
{
    const json_t *run = state->newest[RUN];
    const json_t *sample = state->newest[SAMPLE];
    bool is_sampled =
        sample != NULL && number_of(sample, "seq") > number_of(run, "seq");
    double told_s = number_of(is_sampled ? sample : run, "t");
    double age_s = run != NULL ? fmax(0, told_s - number_of(run, "t")) : 0;
    if (state->served_seq >
        (uint64_t)number_of(run, "seq")) { /* and no record of it yet */
        return now_s() - state->served_s < silent_s ? COXI_CLIENT_OPENING
                                                    : COXI_CLIENT_SILENT;
    }
    if (run == NULL && sample == NULL) {
        return COXI_CLIENT_UNTOLD;
    }
    if (is_sampled && json_is_true(json_object_get(sample, "over"))) {
        return COXI_CLIENT_CLOSED;
    }
    if (is_gone(run)) {
        return COXI_CLIENT_GONE;
    }
    return now_s() - told_s < silent_s + age_s / rarer_each_s ? COXI_CLIENT_RUNNING
                                                              : COXI_CLIENT_SILENT;
}

/* A new reference. */
static json_t *client_json(const struct coxi_state *state)
{
    switch (coxi_state_client(state)) {
    case COXI_CLIENT_UNTOLD:
        return json_null();
    case COXI_CLIENT_OPENING:
        return json_string("opening");
    case COXI_CLIENT_RUNNING:
        return json_string("running");
    case COXI_CLIENT_SILENT:
        return json_string("silent");
    case COXI_CLIENT_GONE:
        return json_string("gone");
    case COXI_CLIENT_CLOSED:
        return json_string("closed");
    }
    return json_null();
}

/* ---- the whole */

static int by_key(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The values of an object in the order of their keys. A new reference; NULL: no
 * memory. */
static json_t *in_order(json_t *all)
{
    size_t n = json_object_size(all);
    const char **keys = calloc(n + 1, sizeof(*keys));
    json_t *list = json_array();
    const char *key;
    json_t *value;
    size_t i = 0;
    if (keys != NULL) {
        json_object_foreach(all, key, value)
        {
            keys[i++] = key;
        }
        qsort(keys, n, sizeof(*keys), by_key);
        for (i = 0; i < n; i++) {
            (void)json_array_append(list, json_object_get(all, keys[i]));
        }
    }
    free(keys);
    return list;
}

json_t *coxi_state_json(const struct coxi_state *state)
{
    json_t *whole =
        json_pack("{s:I, s:o, s:b, s:O?, s:o, s:o, s:O}", "seq", (json_int_t)state->seq,
                  "client", client_json(state), "run_over", state->run_over, "config",
                  state->config, "workers", in_order(state->workers), "ps",
                  in_order(state->ps), "scalars", state->scalars);
    for (size_t i = 0; i < N_NEWEST; i++) {
        (void)json_object_set_new(
            whole, newest_kinds[i],
            state->newest[i] != NULL ? json_incref(state->newest[i]) : json_null());
    }
    return whole;
}
