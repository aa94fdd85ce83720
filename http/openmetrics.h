/*
 * Writes metrics as text that Prometheus scrapes: OpenMetrics 1.0, or the older text
 * format 0.0.4 for readers that do not ask for it.
 *
 *     struct coxi_openmetrics m;
 *     coxi_openmetrics_begin(&m, &reply->body, request->openmetrics);
 *     coxi_openmetrics_family(&m, COXI_COUNTER, "coxswain_ps_pulls", "",
 *                             "Pulls that were answered.");
 *     coxi_openmetrics_count(&m, COXI_LABELS({"run", name}), n);
 *     r = coxi_openmetrics_end(&m);
 *
 * Memory that is missing shows in coxi_openmetrics_end only. One thread.
 */
#ifndef COXI_HTTP_OPENMETRICS_H
#define COXI_HTTP_OPENMETRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/latency.h"
#include "schema/wire.h"

enum coxi_family_type { COXI_COUNTER, COXI_GAUGE, COXI_LATENCIES };

struct coxi_openmetrics {
    struct coxi_buffer *out;
    bool openmetrics;
    int code;         /* the first error */
    const char *name; /* of the family */
    enum coxi_family_type type;
};

/* A label; the array ends with one that has no name. Values may be any text; one that is
 * empty is left out. */
struct coxi_label {
    const char *name;
    const char *value;
};
#define COXI_LABELS(...) ((const struct coxi_label[]){__VA_ARGS__, {NULL, NULL}})
#define COXI_NO_LABELS   ((const struct coxi_label *)NULL)

void coxi_openmetrics_begin(struct coxi_openmetrics *m, struct coxi_buffer *out,
                            bool openmetrics);

/*
 * Begins a family, whose samples follow. `name` (borrowed until the next family) has no
 * _total, and ends with `unit` if that is not "". Latencies are in seconds.
 */
void coxi_openmetrics_family(struct coxi_openmetrics *m, enum coxi_family_type type,
                             const char *name, const char *unit, const char *help);

/* A sample of a counter or gauge. */
void coxi_openmetrics_count(struct coxi_openmetrics *m, const struct coxi_label *labels,
                            uint64_t value);
void coxi_openmetrics_real(struct coxi_openmetrics *m, const struct coxi_label *labels,
                           double value);

/* A histogram of a family of latencies. */
void coxi_openmetrics_latency(struct coxi_openmetrics *m,
                              const struct coxi_label *labels,
                              const struct coxi_latency *latency);

/* The same of numbers by powers of two (common/histogram.h), which have no unit. */
void coxi_openmetrics_histogram(struct coxi_openmetrics *m,
                                const struct coxi_label *labels,
                                const struct coxi_histogram *histogram);

/* A family with one sample without labels. */
void coxi_openmetrics_counter(struct coxi_openmetrics *m, const char *name,
                              const char *unit, const char *help, uint64_t value);
void coxi_openmetrics_gauge(struct coxi_openmetrics *m, const char *name,
                            const char *unit, const char *help, double value);

/* Ends the text. COX_ENOMEM. */
int coxi_openmetrics_end(struct coxi_openmetrics *m);

/* The media type of the text. */
const char *coxi_openmetrics_type(bool openmetrics);

/* What every program tells of itself: coxswain_build_info, and the process_... metrics
 * by Prometheus's conventions. `role`: "ps". */
void coxi_openmetrics_process(struct coxi_openmetrics *m, const char *role);

#endif
