/* See record.h. */
#include "checkpoint/record.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/json_text.h"

/* A larger number is no record's: numbers must stay exact for readers that have floats. */
static const json_int_t seq_max = (json_int_t)1 << 52;

static const char *const names[] = {
    [COXI_RECORD_RUN] = "run",       [COXI_RECORD_CONFIG] = "config",
    [COXI_RECORD_SAMPLE] = "sample", [COXI_RECORD_WORKERS] = "workers",
    [COXI_RECORD_PS] = "ps",         [COXI_RECORD_SCALAR] = "scalar",
    [COXI_RECORD_EVENT] = "event",   [COXI_RECORD_CHECKPOINT] = "checkpoint",
    [COXI_RECORD_EVAL] = "eval",
};

const char *coxi_record_kind_name(enum coxi_record_kind kind)
{
    return names[kind];
}

enum coxi_record_kind coxi_record_kind_of(const char *name)
{
    enum coxi_record_kind kind = COXI_RECORD_RUN;
    while (kind < COXI_N_RECORD_KINDS && strcmp(names[kind], name) != 0) {
        kind++;
    }
    return kind;
}

/* ---- making lines */

static int add(struct coxi_buffer *to, const char *text)
{
    return coxi_buffer_append_raw(to, text, strlen(text));
}

static int scalar_line(struct coxi_buffer *to, const struct coxi_record_scalar *scalar)
{
    int r = add(to, ",\"name\":");
    r = r == 0 ? coxi_json_text(to, scalar->name) : r;
    r = r == 0 ? add(to, ",\"step\":") : r;
    r = r == 0 ? coxi_json_count(to, scalar->step) : r;
    r = r == 0 ? add(to, ",\"value\":") : r;
    r = r == 0 ? coxi_json_number(to, scalar->value) : r;
    r = r == 0 ? add(to, ",\"source\":") : r;
    return r == 0 ? coxi_json_text(to, scalar->source) : r;
}

/* A time to the millisecond. */
static int add_time(struct coxi_buffer *to, double t)
{
    if (!(t >= 0 && t < 1e12)) {
        return coxi_buffer_printf(to, "%.3f", t);
    }
    uint64_t ms = (uint64_t)(t * 1e3 + 0.5);
    const char rest[] = {'.', (char)('0' + ms / 100 % 10), (char)('0' + ms / 10 % 10),
                         (char)('0' + ms % 10)};
    int r = coxi_json_count(to, ms / 1000);
    return r == 0 ? coxi_buffer_append_raw(to, rest, sizeof(rest)) : r;
}

/* Without printf: steps may log some hundred thousand scalars a second. */
int coxi_record_line(struct coxi_buffer *to, const struct coxi_record *record)
{
    int r = add(to, "{\"seq\":");
    r = r == 0 ? coxi_json_count(to, record->seq) : r;
    r = r == 0 ? add(to, ",\"t\":") : r;
    r = r == 0 ? add_time(to, record->t) : r;
    r = r == 0 ? add(to, ",\"kind\":\"") : r;
    r = r == 0 ? add(to, names[record->kind]) : r;
    r = r == 0 ? add(to, "\"") : r;
    if (r == 0 && record->kind == COXI_RECORD_SCALAR) {
        r = scalar_line(to, &record->scalar);
    } else if (r == 0 && *record->fields != '\0') {
        r = add(to, ",");
        r = r == 0 ? add(to, record->fields) : r;
    }
    return r == 0 ? add(to, "}\n") : r;
}

/* ---- reading lines */

/* A number as coxi_json_number writes it. */
static bool read_number(const json_t *value, double *ret)
{
    const char *text = json_string_value(value);
    if (json_is_number(value)) {
        *ret = json_number_value(value);
    } else if (text != NULL && strcmp(text, "NaN") == 0) {
        *ret = (double)NAN;
    } else if (text != NULL && strcmp(text, "Infinity") == 0) {
        *ret = (double)INFINITY;
    } else if (text != NULL && strcmp(text, "-Infinity") == 0) {
        *ret = -(double)INFINITY;
    } else {
        return false;
    }
    return true;
}

static bool read_scalar(const json_t *line, struct coxi_record_read *ret)
{
    const json_t *step = json_object_get(line, "step");
    const char *name = json_string_value(json_object_get(line, "name"));
    const char *source = json_string_value(json_object_get(line, "source"));
    struct coxi_record_scalar *scalar = &ret->record.scalar;
    if (name == NULL || source == NULL || !json_is_integer(step) ||
        json_integer_value(step) < 0 ||
        !read_number(json_object_get(line, "value"), &scalar->value) ||
        coxi_buffer_append_raw(&ret->texts, name, strlen(name) + 1) != 0 ||
        coxi_buffer_append_raw(&ret->texts, source, strlen(source) + 1) != 0) {
        return false;
    }
    scalar->name = (const char *)ret->texts.data;
    scalar->source = scalar->name + strlen(scalar->name) + 1;
    scalar->step = (uint64_t)json_integer_value(step);
    return true;
}

static bool skip(const char **at, const char *text)
{
    size_t len = strlen(text);
    bool is = strncmp(*at, text, len) == 0;
    *at += is ? len : 0;
    return is;
}

/* The name of the kind in a line that begins as coxi_record_line makes it, and all behind
 * it; NULL: it begins otherwise. */
static const char *at_kind(const char *line)
{
    const char *at = line;
    bool is = skip(&at, "{\"seq\":");
    at += strspn(at, "0123456789");
    is = is && skip(&at, ",\"t\":");
    at += strspn(at, "0123456789+-.eE");
    return is && skip(&at, ",\"kind\":\"") ? at : NULL;
}

/* What follows the kind in such a line; NULL: it is no such line. The line is an object of
 * JSON, so its last brace ends all of this. */
static const char *behind_kind(const char *line, const char *kind)
{
    const char *at = at_kind(line);
    return at != NULL && skip(&at, kind) && skip(&at, "\"") ? at : NULL;
}

bool coxi_record_may_be(const char *line, unsigned kinds)
{
    bool may = at_kind(line) == NULL;
    for (unsigned kind = 0; !may && kind < COXI_N_RECORD_KINDS; kind++) {
        may = (kinds & COXI_RECORDS_OF(kind)) != 0 &&
              behind_kind(line, names[kind]) != NULL;
    }
    return may;
}

/* Takes the members behind the kind as they are written. They are shown as they are, so
 * they must be all of the rest, and on one line to readers that also end lines at a
 * carriage return (server-sent events). */
static bool read_fields(const char *line, size_t len, struct coxi_record_read *ret)
{
    const char *end = behind_kind(line, names[ret->record.kind]);
    if (end == NULL || line[len - 1] != '}' || memchr(line, '\r', len) != NULL) {
        return false;
    }
    const char *fields = end + (*end == ',');
    size_t fields_len = (size_t)(line + len - 1 - fields);
    if (coxi_buffer_append_raw(&ret->texts, fields, fields_len) != 0 ||
        coxi_buffer_append_raw(&ret->texts, "", 1) != 0) {
        return false;
    }
    ret->record.fields = (const char *)ret->texts.data;
    return true;
}

static bool read_line(const json_t *line, const char *text, size_t len,
                      struct coxi_record_read *ret)
{
    const json_t *seq = json_object_get(line, "seq");
    const json_t *t = json_object_get(line, "t");
    const char *kind = json_string_value(json_object_get(line, "kind"));
    ret->record = (struct coxi_record){.kind = COXI_N_RECORD_KINDS};
    ret->texts.len = 0;
    if (kind != NULL && json_is_integer(seq) && json_integer_value(seq) > 0 &&
        json_integer_value(seq) <= seq_max && json_is_number(t)) {
        ret->record.seq = (uint64_t)json_integer_value(seq);
        ret->record.t = json_number_value(t);
        ret->record.kind = coxi_record_kind_of(kind);
    }
    return ret->record.kind == COXI_RECORD_SCALAR
               ? read_scalar(line, ret)
               : ret->record.kind < COXI_N_RECORD_KINDS && read_fields(text, len, ret);
}

bool coxi_record_read(const char *line, size_t len, struct coxi_record_read *ret)
{
    json_t *json = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
    bool is = json != NULL && read_line(json, line, len, ret);
    json_decref(json);
    return is;
}

/* The record's members; for json_decref. */
static json_t *members_of(const struct coxi_record *record)
{
    struct coxi_buffer text = {0};
    json_t *members = NULL;
    if (record->fields != NULL &&
        coxi_buffer_printf(&text, "{%s}", record->fields) == 0) {
        members = json_loadb((const char *)text.data, text.len, 0, NULL);
    }
    coxi_buffer_fini(&text);
    return members;
}

static uint64_t positive(const json_t *number)
{
    json_int_t value = json_integer_value(number);
    return value > 0 ? (uint64_t)value : 0;
}

uint64_t coxi_record_count(const struct coxi_record *record, const char *name)
{
    json_t *members = members_of(record);
    uint64_t count = positive(json_object_get(members, name));
    json_decref(members);
    return count;
}

/* ---- a run that goes on from a checkpoint */

bool coxi_record_repeats(const struct coxi_record *record, struct coxi_repeated *ret)
{
    json_t *members = record->kind == COXI_RECORD_RUN ? members_of(record) : NULL;
    const json_t *resumed = json_object_get(members, "resumed");
    bool is = json_is_object(resumed);
    if (is) {
        ret->seq = positive(json_object_get(resumed, "seq"));
        ret->closure = positive(json_object_get(resumed, "closure"));
    }
    json_decref(members);
    return is;
}

bool coxi_repeated_has(const struct coxi_repeated *repeated,
                       const struct coxi_record *record)
{
    const struct coxi_record_scalar *scalar = &record->scalar;
    if (strcmp(scalar->source, "eval") == 0) {
        return scalar->step > repeated->closure;
    }
    return repeated->seq != 0 ? record->seq > repeated->seq
                              : strcmp(scalar->source, "client") != 0 &&
                                    scalar->step > repeated->closure;
}
