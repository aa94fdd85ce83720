/* See told.h. */
#include "tests/coordinator/monitor/told.h"

#include <jansson.h>
#include <stdio.h>

#include "tests/test.h"

void told_read(const char *dir, struct told *ret)
{
    char path[4096];
    size_t len;
    double seq = 0;
    (void)snprintf(path, sizeof(path), "%s/metrics.jsonl", dir);
    char *text = coxi_test_read(path, &len);
    *ret = (struct told){.all = calloc(len + 1, sizeof(json_t *))};
    for (char *at = text; *at != '\0';) {
        char *end = strchr(at, '\n');
        assert_non_null(end);
        *end = '\0';
        json_t *record = json_loads(at, JSON_REJECT_DUPLICATES, NULL);
        if (record == NULL) {
            fail_msg("no JSON: %s", at);
        }
        assert_true(told_number(record, "seq") > seq);
        seq = told_number(record, "seq");
        ret->all[ret->n++] = record;
        at = end + 1;
    }
    free(text);
}

void told_free(struct told *told)
{
    for (size_t i = 0; i < told->n; i++) {
        json_decref(told->all[i]);
    }
    free(told->all);
}

static bool is(const json_t *record, const char *member, const char *value)
{
    const char *text = json_string_value(json_object_get(record, member));
    return text != NULL && strcmp(text, value) == 0;
}

size_t told_count(const struct told *told, const char *kind)
{
    size_t n = 0;
    for (size_t i = 0; i < told->n; i++) {
        n += is(told->all[i], "kind", kind);
    }
    return n;
}

const struct json_t *told_last(const struct told *told, const char *kind)
{
    for (size_t i = told->n; i-- > 0;) {
        if (is(told->all[i], "kind", kind)) {
            return told->all[i];
        }
    }
    return NULL;
}

const struct json_t *told_event(const struct told *told, const char *code)
{
    for (size_t i = told->n; i-- > 0;) {
        if (is(told->all[i], "kind", "event") && is(told->all[i], "code", code)) {
            return told->all[i];
        }
    }
    return NULL;
}

/* The last scalar with name and step, and how many there are. */
static const json_t *find(const struct told *told, const char *name, uint64_t step,
                          size_t *ret_n)
{
    const json_t *last = NULL;
    *ret_n = 0;
    for (size_t i = 0; i < told->n; i++) {
        const json_t *record = told->all[i];
        if (is(record, "kind", "scalar") && is(record, "name", name) &&
            (step == UINT64_MAX || told_number(record, "step") == (double)step)) {
            last = record;
            ++*ret_n;
        }
    }
    return last;
}

size_t told_scalars(const struct told *told, const char *name, uint64_t step)
{
    size_t n;
    (void)find(told, name, step, &n);
    return n;
}

double told_value(const struct told *told, const char *name, uint64_t step)
{
    size_t n;
    const json_t *last = find(told, name, step, &n);
    if (last == NULL) {
        fail_msg("no scalar %s of step %llu", name, (unsigned long long)step);
    }
    return told_number(last, "value");
}

double told_number(const struct json_t *record, const char *name)
{
    const json_t *value = json_object_get(record, name);
    if (!json_is_number(value)) {
        fail_msg("%s is no number", name);
    }
    return json_number_value(value);
}

const char *told_text(const struct json_t *record, const char *name)
{
    const char *text = json_string_value(json_object_get(record, name));
    if (text == NULL) {
        fail_msg("%s is no text", name);
    }
    return text;
}
