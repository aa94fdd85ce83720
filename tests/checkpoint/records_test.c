/* The records of a run: lines, bounds, readers. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "checkpoint/records.h"
#include "tests/test.h"

static struct coxi_records *make(void)
{
    struct coxi_records *records;
    assert_code(0, coxi_records_new(true, &records));
    return records;
}

static void add(struct coxi_records *records, enum coxi_record_kind kind,
                const char *fields)
{
    struct coxi_record record = {.kind = kind, .fields = fields, .t = 1};
    assert_code(0, coxi_records_add(records, &record, true, NULL));
}

static int log_scalar(struct coxi_records *records, const char *name, uint64_t step,
                      double value)
{
    struct coxi_record record = {
        .kind = COXI_RECORD_SCALAR, .scalar = {name, "client", step, value}, .t = 1};
    return coxi_records_add(records, &record, true, NULL);
}

/* All lines after `seq`; for free(). */
static char *lines(struct coxi_records *records, uint64_t seq)
{
    struct coxi_buffer out = {0};
    uint64_t before;
    uint64_t at = seq;
    do {
        before = at;
        assert_code(0, coxi_records_since(records, at, 4096, &out, &at));
    } while (at > before);
    assert_code(0, coxi_buffer_append_raw(&out, "", 1));
    return (char *)out.data;
}

static size_t count(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++) {
        n += *text == '\n';
    }
    return n;
}

TEST(records_are_lines_in_the_order_of_their_numbers)
{
    struct coxi_records *records = make();
    add(records, COXI_RECORD_EVENT, "\"code\":\"ps_lost\"");
    assert_code(0, log_scalar(records, "loss", 7, 0.1));
    add(records, COXI_RECORD_SAMPLE, "");
    char *all = lines(records, 0);
    assert_string_equal(
        "{\"seq\":1,\"t\":1.000,\"kind\":\"event\",\"code\":\"ps_lost\"}\n"
        "{\"seq\":2,\"t\":1.000,\"kind\":\"scalar\",\"name\":\"loss\",\"step\":7,"
        "\"value\":0.10000000000000001,\"source\":\"client\"}\n"
        "{\"seq\":3,\"t\":1.000,\"kind\":\"sample\"}\n",
        all);
    free(all);
    all = lines(records, 2);
    assert_string_equal("{\"seq\":3,\"t\":1.000,\"kind\":\"sample\"}\n", all);
    free(all);
    coxi_records_free(records);
}

TEST(a_line_reads_back_as_its_record)
{
    static const double values[] = {0.1,         -1e300,           5e-324,           0,
                                    (double)NAN, (double)INFINITY, -(double)INFINITY};
    struct coxi_record_read read = {0};
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        struct coxi_buffer line = {0};
        struct coxi_record record = {
            .seq = 5,
            .t = 2.5,
            .kind = COXI_RECORD_SCALAR,
            .scalar = {"a\"\\\n<b>\xc3\xa9", "train", 9, values[i]}};
        assert_code(0, coxi_record_line(&line, &record));
        for (size_t k = 0; k < line.len; k++) {
            assert_true(line.data[k] >= ' ' || k == line.len - 1);
        }
        assert_true(coxi_record_read((const char *)line.data, line.len - 1, &read));
        assert_int_equal(5, read.record.seq);
        assert_string_equal(record.scalar.name, read.record.scalar.name);
        assert_string_equal("train", read.record.scalar.source);
        assert_int_equal(9, read.record.scalar.step);
        assert_true(memcmp(&values[i], &read.record.scalar.value, sizeof(double)) ==
                        0 ||
                    (isnan(values[i]) && isnan(read.record.scalar.value)));
        coxi_buffer_fini(&line);
    }
    const char *line = "{\"seq\":8,\"t\":1,\"kind\":\"checkpoint\",\"number\":3}";
    assert_true(coxi_record_read(line, strlen(line), &read));
    assert_string_equal("\"number\":3", read.record.fields);
    assert_true(coxi_record_count(&read.record, "number") == 3);
    coxi_buffer_fini(&read.texts);
}

TEST(what_is_no_record_is_not_read)
{
    static const char *const bad[] = {
        "",
        "{",
        "{\"seq\":1,\"t\":1,\"kind\":\"sample\"",
        "{\"seq\":0,\"t\":1,\"kind\":\"sample\"}",
        "{\"seq\":1,\"t\":1,\"kind\":\"else\"}",
        "{\"seq\":1,\"t\":1,\"kind\":\"scalar\",\"name\":\"a\",\"step\":-1,\"value\":1,"
        "\"source\":\"x\"}",
        "{\"seq\":1,\"t\":1,\"kind\":\"scalar\",\"name\":1,\"step\":1,\"value\":1,"
        "\"source\":\"x\"}",
        "{\"seq\":1,\"t\":1,\"kind\":\"scalar\",\"name\":\"a\",\"step\":1,"
        "\"value\":\"x\",\"source\":\"x\"}",
        "[1]",
        "{\"seq\":9007199254740993,\"t\":1,\"kind\":\"sample\"}",
        "{\"a\":{\"kind\":\"event\"},\"seq\":1,\"t\":1,\"kind\":\"event\"}",
        "{\"kind\":\"event\",\"seq\":1,\"t\":1}",
        "{\"seq\":1,\"t\":1,\"kind\":\"event\",\r\"text\":\"\"}",
    };
    struct coxi_record_read read = {0};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_false(coxi_record_read(bad[i], strlen(bad[i]), &read));
    }
    coxi_buffer_fini(&read.texts);
}

TEST(many_scalars_of_a_name_are_thinned_and_keep_the_first_and_the_last)
{
    struct coxi_records *records = make();
    enum { N = 200000 };
    for (uint64_t i = 0; i < N; i++) {
        assert_code(0, log_scalar(records, "loss", i, (double)i));
    }
    assert_code(0, log_scalar(records, "rare", 1, 1));
    char *all = lines(records, 0);
    assert_true(count(all) > 10000 && count(all) < 50000);
    assert_non_null(strstr(all, "\"step\":0,"));
    assert_non_null(strstr(all, "\"step\":199999,"));
    assert_non_null(strstr(all, "\"step\":199998,"));
    assert_non_null(strstr(all, "rare"));
    free(all);
    coxi_records_free(records);
}

/* The steps of all points that are left. */
static size_t steps_of(const char *all, uint64_t *steps, size_t most)
{
    static const char name[] = "\"step\":";
    size_t n = 0;
    while (*all != '\0' && n < most) {
        size_t len = strcspn(all, "\n") + 1;
        const char *at = memmem(all, len, name, sizeof(name) - 1);
        assert_non_null(at);
        steps[n++] = strtoull(at + sizeof(name) - 1, NULL, 10);
        all += len;
    }
    return n;
}

/* Whatever its length, a curve has its older half evenly, and all of its newer half. */
TEST(a_long_curve_is_thinned_evenly)
{
    enum { MOST = 40000 };
    static uint64_t steps[MOST];
    static const uint64_t lengths[] = {40000, 300000, 1500000};
    struct coxi_records *records = make();
    uint64_t logged = 0;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        for (; logged < lengths[i]; logged++) {
            assert_code(0, log_scalar(records, "loss", logged, 1));
        }
        char *all = lines(records, 0);
        size_t n = steps_of(all, steps, MOST);
        free(all);
        assert_true(n > 20000 && n < MOST);
        assert_int_equal(0, steps[0]);
        assert_int_equal(logged - 1, steps[n - 1]);
        uint64_t stride = steps[1] - steps[0];
        assert_true(stride <= 4 * lengths[i] / n + 1);
        size_t even = 1;
        while (even < n && steps[even] - steps[even - 1] == stride) {
            even++;
        }
        assert_true(even > n / 4 - 2); /* then they are dense ... */
        for (size_t k = even + 1; k < n; k++) {
            assert_int_equal(1, steps[k] - steps[k - 1]);
        }
    }
    coxi_records_free(records);
}

/* Texts are bounded in bytes, too: few and long ones. */
TEST(long_samples_are_thinned_to_the_last_few)
{
    static char text[60000];
    struct coxi_records *records = make();
    memset(text, 'x', sizeof(text) - 1);
    static char fields[sizeof(text) + 16];
    (void)snprintf(fields, sizeof(fields), "\"a\":\"%s\"", text);
    for (int i = 0; i < 300; i++) {
        add(records, COXI_RECORD_SAMPLE, fields);
    }
    char *all = lines(records, 0);
    assert_true(count(all) > 8);
    assert_true(strlen(all) <= 2 << 20);
    assert_non_null(strstr(all, "\"seq\":1,"));
    assert_non_null(strstr(all, "\"seq\":300,"));
    free(all);
    coxi_records_free(records);
}

TEST(events_and_workers_keep_the_newest)
{
    struct coxi_records *records = make();
    for (int i = 0; i < 12000; i++) {
        add(records, COXI_RECORD_EVENT, "\"code\":\"x\"");
    }
    char *all = lines(records, 0);
    assert_true(count(all) > 8000 && count(all) <= 10000);
    assert_non_null(strstr(all, "\"seq\":12000,"));
    assert_null(strstr(all, "\"seq\":1,"));
    free(all);
    coxi_records_free(records);
}

TEST(the_number_of_names_is_bounded)
{
    struct coxi_records *records = make();
    char name[COXI_SCALAR_NAME_MAX + 2];
    for (int i = 0; i < COXI_SCALAR_NAMES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        assert_code(0, log_scalar(records, name, 1, 1));
    }
    assert_code(COX_ELIMIT, log_scalar(records, "one more", 1, 1));
    assert_error_names("1024");
    assert_code(0, log_scalar(records, "n7", 2, 1));
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_code(COX_ELIMIT, log_scalar(records, name, 1, 1));
    coxi_records_free(records);
}

static void note(void *arg, const struct coxi_record *record)
{
    uint64_t *last = arg;
    assert_true(record->seq > *last);
    *last = record->seq;
}

TEST(records_wait_to_be_taken_once_and_their_number_is_bounded)
{
    struct coxi_records *records = make();
    uint64_t last = 0;
    uint64_t lost = 0;
    struct coxi_record live = {.kind = COXI_RECORD_WORKERS, .fields = ""};
    assert_code(0, coxi_records_add(records, &live, false, NULL));
    for (int i = 0; i < COXI_PENDING_MAX + 10; i++) {
        assert_code(0, log_scalar(records, "loss", 1, 1));
    }
    coxi_records_take(records, note, &last, &lost);
    assert_int_equal(COXI_PENDING_MAX + 1, last); /* the first one did not wait */
    assert_int_equal(10, lost);
    last = 0;
    coxi_records_take(records, note, &last, &lost);
    assert_int_equal(0, last);
    assert_int_equal(0, lost);
    coxi_records_free(records);
}

TEST(scalars_that_are_repeated_are_forgotten)
{
    struct coxi_records *records = make();
    struct coxi_repeated repeated = {.seq = 2, .closure = 1};
    for (uint64_t i = 1; i <= 4; i++) {
        assert_code(0, log_scalar(records, "loss", 10 + i, 1));
    }
    coxi_records_forget(records, &repeated);
    char *all = lines(records, 0);
    assert_int_equal(2, count(all));
    assert_non_null(strstr(all, "\"step\":12,"));
    free(all);
    assert_int_equal(4, coxi_records_last(records));
    coxi_records_free(records);
}

/* ---- readers beside writers */

static void *write_many(void *arg)
{
    for (uint64_t i = 0; i < 20000; i++) {
        (void)log_scalar(arg, "loss", i, 1);
        struct coxi_record record = {.kind = COXI_RECORD_EVENT, .fields = "\"a\":1"};
        (void)coxi_records_add(arg, &record, true, NULL);
    }
    return NULL;
}

/* The lines in `out`: how many are scalars, and the newest step of each of two names. */
struct told {
    size_t n_scalars;
    size_t n_others;
    unsigned long long last[2];
    unsigned long long seq;
};

static void read_told(const struct coxi_buffer *out, struct told *told)
{
    for (size_t i = 0; i < out->len;) {
        const char *line = (const char *)out->data + i;
        size_t len = (size_t)((const char *)memchr(line, '\n', out->len - i) - line);
        struct coxi_record_read read = {0};
        assert_true(coxi_record_read(line, len, &read));
        assert_true(read.record.seq > told->seq);
        told->seq = read.record.seq;
        if (read.record.kind == COXI_RECORD_SCALAR) {
            told->n_scalars++;
            told->last[read.record.scalar.name[0] == 'b'] = read.record.scalar.step;
        } else {
            told->n_others++;
        }
        coxi_buffer_fini(&read.texts);
        i += len + 1;
    }
}

TEST(some_scalars_are_the_newest_of_each_name_and_some_others)
{
    enum { N_EVENTS = 500, PER_EVENT = 40 };
    struct coxi_records *records = make();
    struct told told = {0};
    uint64_t at = 0;
    uint64_t before = 0;
    int n_calls = 0;
    for (uint64_t i = 0; i < N_EVENTS; i++) {
        struct coxi_record record = {.kind = COXI_RECORD_EVENT, .fields = "\"a\":1"};
        assert_code(0, coxi_records_add(records, &record, true, NULL));
        for (uint64_t j = 0; j < PER_EVENT; j++) {
            assert_code(0, log_scalar(records, j % 4 == 0 ? "b" : "a", i, 1));
        }
    }
    do {
        struct coxi_buffer out = {0};
        before = at;
        assert_code(0, coxi_records_some(records, at, 64, 1 << 20, &out, &at));
        read_told(&out, &told);
        coxi_buffer_fini(&out);
        n_calls++;
    } while (at > before);
    assert_int_equal(N_EVENTS, told.n_others);
    assert_int_equal(coxi_records_last(records), at);
    assert_int_equal(N_EVENTS - 1, told.last[0]);
    assert_int_equal(N_EVENTS - 1, told.last[1]);
    assert_in_range(told.n_scalars, 32 * (n_calls - 2), 70 * n_calls);
    coxi_records_free(records);
}

TEST(some_records_end_where_there_is_no_room_and_go_on_there)
{
    struct coxi_records *records = make();
    struct told told = {0};
    uint64_t at = 0;
    uint64_t before = 0;
    for (uint64_t i = 0; i < 50; i++) {
        struct coxi_record record = {.kind = COXI_RECORD_EVENT, .fields = "\"a\":1"};
        assert_code(0, coxi_records_add(records, &record, true, NULL));
        assert_code(0, log_scalar(records, "a", i, 1));
    }
    do {
        struct coxi_buffer out = {0};
        before = at;
        assert_code(0, coxi_records_some(records, at, 1, 200, &out, &at));
        assert_true(out.len < 400);
        read_told(&out, &told);
        coxi_buffer_fini(&out);
    } while (at > before);
    assert_int_equal(50, told.n_others);
    assert_int_equal(49, told.last[0]);
    coxi_records_free(records);
}

TEST(a_reader_beside_writers_sees_numbers_rise)
{
    struct coxi_records *records = make();
    pthread_t writers[2];
    uint64_t at = 0;
    uint64_t taken = 0;
    uint64_t lost;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(0, pthread_create(&writers[i], NULL, write_many, records));
    }
    while (at < 80000) {
        struct coxi_buffer out = {0};
        uint64_t before = at;
        assert_code(0, coxi_records_since(records, at, 65536, &out, &at));
        assert_true(at >= before);
        for (size_t i = 0; i < out.len;) {
            const char *line = (const char *)out.data + i;
            unsigned long long seq = strtoull(line + strlen("{\"seq\":"), NULL, 10);
            assert_true(seq > before && seq <= at);
            before = seq;
            i += (size_t)((const char *)memchr(line, '\n', out.len - i) - line) + 1;
        }
        coxi_buffer_fini(&out);
        coxi_records_take(records, note, &taken, &lost);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(0, pthread_join(writers[i], NULL));
    }
    coxi_records_free(records);
}
