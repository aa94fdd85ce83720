/* See openmetrics.h. */
#include "http/openmetrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/json_text.h"

static const char *const type_names[] = {
    [COXI_COUNTER] = "counter", [COXI_GAUGE] = "gauge", [COXI_LATENCIES] = "histogram"};

#define PUT(m, ...)                                                                    \
    do {                                                                               \
        if ((m)->code == 0) {                                                          \
            (m)->code = coxi_buffer_printf((m)->out, __VA_ARGS__);                     \
        }                                                                              \
    } while (0)

const char *coxi_openmetrics_type(bool openmetrics)
{
    return openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                       : "text/plain; version=0.0.4; charset=utf-8";
}

void coxi_openmetrics_begin(struct coxi_openmetrics *m, struct coxi_buffer *out,
                            bool openmetrics)
{
    *m = (struct coxi_openmetrics){.out = out, .openmetrics = openmetrics};
}

int coxi_openmetrics_end(struct coxi_openmetrics *m)
{
    if (m->openmetrics) {
        PUT(m, "# EOF\n");
    }
    return m->code;
}

/* ---- families */

/* The older format takes a counter's suffix for a part of the family's name. */
static const char *suffix(const struct coxi_openmetrics *m)
{
    return m->type == COXI_COUNTER ? "_total" : "";
}

void coxi_openmetrics_family(struct coxi_openmetrics *m, enum coxi_family_type type,
                             const char *name, const char *unit, const char *help)
{
    m->name = name;
    m->type = type;
    const char *end = m->openmetrics ? "" : suffix(m);
    PUT(m, "# HELP %s%s %s\n", name, end, help);
    PUT(m, "# TYPE %s%s %s\n", name, end, type_names[type]);
    if (m->openmetrics && unit[0] != '\0') {
        PUT(m, "# UNIT %s %s\n", name, unit);
    }
}

/* ---- labels */

/* The length of the plain characters at `text`, which need no look at each. */
static size_t plain(const unsigned char *text)
{
    size_t n = 0;
    while (text[n] >= 0x20 && text[n] < 0x7f && text[n] != '\\' && text[n] != '"') {
        n++;
    }
    return n;
}

/* A value cannot end the label or the line, and is UTF-8: other bytes become '?'. */
static void put_value(struct coxi_openmetrics *m, const char *value)
{
    const unsigned char *at = (const unsigned char *)value;
    const char *end = value + strlen(value);
    while (*at != '\0') {
        const char *text = (const char *)at;
        size_t n = plain(at);
        n = n == 0 && *at >= 0x80 ? coxi_utf8_length(text, (size_t)(end - text)) : n;
        if (n > 0) {
            PUT(m, "%.*s", (int)n, text);
        } else if (*at == '\\' || *at == '"') {
            PUT(m, "\\%c", *at);
        } else {
            PUT(m, "%s", *at == '\n' ? "\\n" : "?");
        }
        at += n > 0 ? n : 1;
    }
}

/* The labels, and `le` besides if it is not NULL. */
static void put_labels(struct coxi_openmetrics *m, const struct coxi_label *labels,
                       const char *le)
{
    char before = '{';
    for (; labels != NULL && labels->name != NULL; labels++) {
        if (labels->value[0] != '\0') { /* to Prometheus, the same as no label */
            PUT(m, "%c%s=\"", before, labels->name);
            put_value(m, labels->value);
            PUT(m, "\"");
            before = ',';
        }
    }
    if (le != NULL) {
        PUT(m, "%cle=\"%s\"", before, le);
        before = ',';
    }
    if (before == ',') {
        PUT(m, "}");
    }
}

/* ---- samples */

void coxi_openmetrics_count(struct coxi_openmetrics *m, const struct coxi_label *labels,
                            uint64_t value)
{
    PUT(m, "%s%s", m->name, suffix(m));
    put_labels(m, labels, NULL);
    PUT(m, " %llu\n", (unsigned long long)value);
}

void coxi_openmetrics_real(struct coxi_openmetrics *m, const struct coxi_label *labels,
                           double value)
{
    PUT(m, "%s%s", m->name, suffix(m));
    put_labels(m, labels, NULL);
    if (isfinite(value)) {
        PUT(m, " %.17g\n", value);
    } else {
        PUT(m, " %s\n", isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
    }
}

/* Writes bucket after bucket; `n` is the number of samples so far. */
static void put_bucket(struct coxi_openmetrics *m, const struct coxi_label *labels,
                       const char *le, uint64_t n)
{
    PUT(m, "%s_bucket", m->name);
    put_labels(m, labels, le);
    PUT(m, " %llu\n", (unsigned long long)n);
}

static void put_sum(struct coxi_openmetrics *m, const struct coxi_label *labels,
                    double sum, uint64_t n)
{
    PUT(m, "%s_sum", m->name);
    put_labels(m, labels, NULL);
    PUT(m, " %.17g\n", sum);
    PUT(m, "%s_count", m->name);
    put_labels(m, labels, NULL);
    PUT(m, " %llu\n", (unsigned long long)n);
}

void coxi_openmetrics_latency(struct coxi_openmetrics *m,
                              const struct coxi_label *labels,
                              const struct coxi_latency *latency)
{
    uint64_t n = 0;
    uint64_t sum_us = atomic_load_explicit(&latency->sum_us, memory_order_relaxed);
    for (unsigned i = 0; i < COXI_LATENCY_BUCKETS; i++) {
        char le[32] = "+Inf";
        n += atomic_load_explicit(&latency->counts[i], memory_order_relaxed);
        if (i + 1 < COXI_LATENCY_BUCKETS) {
            (void)snprintf(le, sizeof(le), "%.8g", (double)(1ULL << i) / 1e6);
        }
        put_bucket(m, labels, le, n);
    }
    put_sum(m, labels, (double)sum_us / 1e6, n);
}

void coxi_openmetrics_histogram(struct coxi_openmetrics *m,
                                const struct coxi_label *labels,
                                const struct coxi_histogram *histogram)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < COXI_STALE_BUCKETS; i++) {
        char le[32] = "+Inf";
        n += histogram->counts[i];
        if (i + 1 < COXI_STALE_BUCKETS) {
            (void)snprintf(le, sizeof(le), "%llu", (1ULL << i) - 1);
        }
        put_bucket(m, labels, le, n);
    }
    put_sum(m, labels, (double)histogram->sum, n);
}

void coxi_openmetrics_counter(struct coxi_openmetrics *m, const char *name,
                              const char *unit, const char *help, uint64_t value)
{
    coxi_openmetrics_family(m, COXI_COUNTER, name, unit, help);
    coxi_openmetrics_count(m, COXI_NO_LABELS, value);
}

void coxi_openmetrics_gauge(struct coxi_openmetrics *m, const char *name,
                            const char *unit, const char *help, double value)
{
    coxi_openmetrics_family(m, COXI_GAUGE, name, unit, help);
    coxi_openmetrics_real(m, COXI_NO_LABELS, value);
}
