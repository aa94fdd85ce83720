/* Metrics as text: both formats, labels from outside, histograms. */
#include <stdio.h>

#include "common/latency.h"
#include "coxswain/types.h"
#include "http/openmetrics.h"
#include "tests/test.h"

static struct coxi_buffer text;

static void begin(struct coxi_openmetrics *m, bool openmetrics)
{
    text.len = 0;
    coxi_openmetrics_begin(m, &text, openmetrics);
}

static void assert_text(struct coxi_openmetrics *m, const char *expected)
{
    assert_code(0, coxi_openmetrics_end(m));
    assert_code(0, coxi_buffer_append_raw(&text, "", 1));
    assert_string_equal(expected, (char *)text.data);
    coxi_buffer_fini(&text);
    text = (struct coxi_buffer){0};
}

static void write_both(struct coxi_openmetrics *m)
{
    coxi_openmetrics_counter(m, "cox_pulled_bytes", "bytes", "Bytes.", 7);
    coxi_openmetrics_gauge(m, "cox_queue", "", "Closures.", 2.5);
}

TEST(openmetrics_names_counters_without_their_suffix_and_ends)
{
    struct coxi_openmetrics m;
    begin(&m, true);
    write_both(&m);
    assert_text(&m, "# HELP cox_pulled_bytes Bytes.\n"
                    "# TYPE cox_pulled_bytes counter\n"
                    "# UNIT cox_pulled_bytes bytes\n"
                    "cox_pulled_bytes_total 7\n"
                    "# HELP cox_queue Closures.\n"
                    "# TYPE cox_queue gauge\n"
                    "cox_queue 2.5\n"
                    "# EOF\n");
}

TEST(the_older_text_names_counters_with_their_suffix)
{
    struct coxi_openmetrics m;
    begin(&m, false);
    write_both(&m);
    assert_text(&m, "# HELP cox_pulled_bytes_total Bytes.\n"
                    "# TYPE cox_pulled_bytes_total counter\n"
                    "cox_pulled_bytes_total 7\n"
                    "# HELP cox_queue Closures.\n"
                    "# TYPE cox_queue gauge\n"
                    "cox_queue 2.5\n");
}

TEST(labels_from_outside_end_no_label_and_no_line)
{
    struct coxi_openmetrics m;
    begin(&m, false);
    coxi_openmetrics_family(&m, COXI_GAUGE, "g", "", "h");
    coxi_openmetrics_count(&m, COXI_LABELS({"run", "a\"} 1\ng 2\\"}, {"b", ""}), 1);
    coxi_openmetrics_count(&m, COXI_LABELS({"run", "gr\xc3\xbc\xc3\x9f\xff\xc3\x01"}),
                           2);
    coxi_openmetrics_count(&m, COXI_LABELS({"run", "\xed\xa0\x80\xf0\x9f\x98\x80\xe2"}),
                           3);
    assert_text(&m, "# HELP g h\n# TYPE g gauge\n"
                    "g{run=\"a\\\"} 1\\ng 2\\\\\"} 1\n"
                    "g{run=\"gr\xc3\xbc\xc3\x9f???\"} 2\n"
                    "g{run=\"???\xf0\x9f\x98\x80?\"} 3\n");
}

TEST(latencies_are_cumulative_in_seconds)
{
    static struct coxi_latency latency;
    struct coxi_openmetrics m;
    coxi_latency_add(&latency, 0);
    coxi_latency_add(&latency, 3);
    coxi_latency_add(&latency, 1000000);
    coxi_latency_add(&latency, UINT32_MAX);
    begin(&m, true);
    coxi_openmetrics_family(&m, COXI_LATENCIES, "l_seconds", "seconds", "h");
    coxi_openmetrics_latency(&m, COXI_LABELS({"f", "x"}), &latency);
    assert_code(0, coxi_buffer_append_raw(&text, "", 1));
    const char *all = (char *)text.data;
    assert_non_null(
        strstr(all, "# TYPE l_seconds histogram\n# UNIT l_seconds seconds"));
    assert_non_null(strstr(all, "l_seconds_bucket{f=\"x\",le=\"1e-06\"} 1\n"));
    assert_non_null(strstr(all, "l_seconds_bucket{f=\"x\",le=\"2e-06\"} 1\n"));
    assert_non_null(strstr(all, "l_seconds_bucket{f=\"x\",le=\"4e-06\"} 2\n"));
    assert_non_null(strstr(all, "l_seconds_bucket{f=\"x\",le=\"1.048576\"} 3\n"));
    assert_non_null(strstr(all, "l_seconds_bucket{f=\"x\",le=\"+Inf\"} 4\n"));
    assert_non_null(strstr(all, "l_seconds_sum{f=\"x\"} 4295.967"));
    assert_non_null(strstr(all, "l_seconds_count{f=\"x\"} 4\n"));
    coxi_buffer_fini(&text);
    text = (struct coxi_buffer){0};
}

TEST(a_process_tells_its_version_memory_and_files)
{
    struct coxi_openmetrics m;
    char version[64];
    (void)snprintf(version, sizeof(version),
                   "coxswain_build_info{role=\"ps\",version=\"%d.%d.%d\"",
                   COX_VERSION_MAJOR, COX_VERSION_MINOR, COX_VERSION_PATCH);
    begin(&m, false);
    coxi_openmetrics_process(&m, "ps");
    assert_code(0, coxi_openmetrics_end(&m));
    assert_code(0, coxi_buffer_append_raw(&text, "", 1));
    const char *all = (char *)text.data;
    assert_non_null(strstr(all, version));
    assert_non_null(strstr(all, "\nprocess_cpu_seconds_total "));
    const char *resident = strstr(all, "\nprocess_resident_memory_bytes ");
    const char *began = strstr(all, "\nprocess_start_time_seconds ");
    const char *threads = strstr(all, "\nprocess_threads ");
    assert_non_null(resident);
    assert_true(strtod(strchr(resident, ' '), NULL) > 1e5);
    assert_non_null(began);
    assert_true(strtod(strchr(began, ' '), NULL) > 1.6e9);
    assert_non_null(threads);
    assert_true(strtod(strchr(threads, ' '), NULL) >= 1);
    coxi_buffer_fini(&text);
    text = (struct coxi_buffer){0};
}
